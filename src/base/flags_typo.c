/* Finds misspelt flags and settings in the environment: FLAGS_rpc_deadlin would otherwise be passed over in
 * silence, and with PADDLE_PS_SECERT a job would run without its secret.
 *
 * Runs once, when the flags are read; a name that is known costs a hundred short comparisons, a microsecond.
 */
#include <string.h>
#include <unistd.h>

#include "base/flags.h"
#include "base/log.h"
#include "base/nearest.h"

extern char **environ;

/* Flags of Fluid v0.12 to v1.8.5 that have no effect here and no row in flags.h. Scripts and launchers set
 * them in the environment; they are passed over in silence. */
static const char *const passed_over[] = {"collective_get_thread_num",
                                          "communicator_independent_recv_thread",
                                          "communicator_is_sgd_optimizer",
                                          "communicator_max_merge_var_num",
                                          "communicator_max_send_grad_num_before_recv",
                                          "communicator_min_send_grad_num_before_recv",
                                          "communicator_send_queue_size",
                                          "communicator_send_wait_times",
                                          "communicator_thread_pool_size",
                                          "conv_workspace_size_limit",
                                          "cuda_dir",
                                          "cudnn_batchnorm_spatial_persistent",
                                          "cudnn_deterministic",
                                          "cudnn_dir",
                                          "cudnn_exhaustive_search",
                                          "cudnn_exhaustive_search_times",
                                          "cupti_dir",
                                          "dist_threadpool_size",
                                          "dump_jitcode",
                                          "dygraph_debug",
                                          "eager_delete_scope",
                                          "enable_cublas_tensor_op_math",
                                          "enable_inplace_whitelist",
                                          "enable_parallel_graph",
                                          "enable_rpc_profiler",
                                          "enable_subgraph_optimize",
                                          "fast_check_nan_inf",
                                          "flrpc_get_thread_num",
                                          "flrpc_send_thread_num",
                                          "fraction_of_cuda_pinned_memory_to_use",
                                          "fraction_of_gpu_memory_to_use",
                                          "free_idle_chunk",
                                          "free_idle_memory",
                                          "free_when_no_cache_hit",
                                          "fuse_parameter_groups_size",
                                          "fuse_parameter_memory_size",
                                          "gpu_allocator_retry_time",
                                          "gpu_memory_limit_mb",
                                          "init_allocated_mem",
                                          "init_p2p",
                                          "initial_gpu_memory_in_mb",
                                          "io_threadpool_size",
                                          "limit_of_tmp_allocation",
                                          "local_exe_sub_scope_limit",
                                          "math_num_threads",
                                          "memory_optimize",
                                          "memory_optimize_debug",
                                          "mklml_dir",
                                          "multiple_of_cupti_buffer_size",
                                          "nccl_dir",
                                          "pe_profile_fname",
                                          "print_sub_graph_dir",
                                          "profile",
                                          "reader_queue_speed_test_mode",
                                          "reallocate_gpu_memory_in_mb",
                                          "rpc_disable_reuse_port",
                                          "rpc_get_thread_num",
                                          "rpc_prefetch_thread_num",
                                          "rpc_retry_bind_port",
                                          "rpc_send_thread_num",
                                          "rpc_server_profile_path",
                                          "selected_gpus",
                                          "skip_fused_all_reduce_check",
                                          "sync_nccl_allreduce",
                                          "tensorrt_dir",
                                          "times_excess_than_required_tmp_allocation",
                                          "tracer_profile_fname",
                                          "use_ngraph",
                                          "warpctc_dir",
                                          "worker_update_interval_secs"};
enum { PASSED_OVER = sizeof passed_over / sizeof passed_over[0] };

static const char *known(int i)
{
    return i < PD_FLAG_COUNT ? pd_flag_name_of((enum pd_flag)i) : passed_over[i - PD_FLAG_COUNT];
}

static int is_known(const char *name, int length)
{
    for (int i = 0; i < PD_FLAG_COUNT + PASSED_OVER; i++)
        if (strncmp(known(i), name, (size_t)length) == 0 && !known(i)[length]) return 1;
    return 0;
}

/* The known name that is nearest to a misspelt one. NULL: none is near, and the name may be another
 * program's. */
const char *pd_flag_nearest(const char *name, int length)
{
    struct pd_nearest nearest = {.name = name, .length = length};
    for (int i = 0; i < PD_FLAG_COUNT + PASSED_OVER; i++)
        pd_nearest_offer(&nearest, known(i));
    return nearest.best;
}

/* What src/net reads. Nobody else has names that begin like these, so every other one is a slip. */
static const char *const settings[] = {"PADDLE_PS_BIND",        "PADDLE_PS_MAP",
                                       "PADDLE_PS_RING",        "PADDLE_PS_SECRET",
                                       "PADDLE_PS_SECRET_FILE", "PADDLE_PS_TLS_CA",
                                       "PADDLE_PS_TLS_CERT",    "PADDLE_PS_TLS_KEY",
                                       "PADDLE_PS_TRANSPORT",   NULL};

static void check_setting(const char *entry)
{
    struct pd_nearest nearest = {.name = entry, .length = (int)strcspn(entry, "=")};
    for (int i = 0; settings[i]; i++) {
        if (strncmp(settings[i], entry, (size_t)nearest.length) == 0 && !settings[i][nearest.length]) return;
        pd_nearest_offer(&nearest, settings[i]);
    }
    pd_log(PD_LOG_WARNING, "%.*s is not a setting and has no effect%s%s%s", nearest.length, entry,
           nearest.best ? "; is " : ": docs/DISTRIBUTED.md lists them", nearest.best ? nearest.best : "",
           nearest.best ? " meant?" : "");
}

void pd_flag_check_environment(void)
{
    for (char **each = environ; each && *each; each++) {
        if (strncmp(*each, "PADDLE_PS_", 10) == 0) check_setting(*each);
        if (strncmp(*each, "FLAGS_", 6) != 0) continue;
        const char *name = *each + 6, *equals = strchr(name, '=');
        int length = equals ? (int)(equals - name) : 0;
        if (!length || is_known(name, length)) continue;
        const char *nearest = pd_flag_nearest(name, length);
        if (nearest)
            pd_log(PD_LOG_WARNING, "FLAGS_%.*s is not a flag and has no effect; is FLAGS_%s meant?", length,
                   name, nearest);
    }
}
