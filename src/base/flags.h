/* Run-time flags: one table gives names, defaults and help; the environment (FLAGS_<name>) sets them at
 * start. */
#ifndef PD_BASE_FLAGS_H
#define PD_BASE_FLAGS_H

#include <paddle/status.h>
#include <stdint.h>

/* X(name, kind, default, help). Kinds: BOOL, INT(least, most), DOUBLE, TEXT, and NATURAL: from 0, of 64 bits.
 * Values outside are refused wherever they come from, so that users of a flag need not check. What a special
 * value means stands in the help, which is part of the refusal. */
#define PD_FLAG_MAP(X)                                                                                       \
    X(check_nan_inf, BOOL, "0",                                                                              \
      "after each op, fail if an output holds NaN or Inf, and name the op; servers refuse such gradients")   \
    X(paddle_num_threads, INT(0, 8192), "0", "threads inside an op; 0: OMP_NUM_THREADS, else the cores")     \
    X(cpu_deterministic, BOOL, "0",                                                                          \
      "always use all threads; 0: a step runs in one where others hold the cores. The same bits either way") \
    X(fuse_ops, BOOL, "1",                                                                                   \
      "plans join neighbouring ops that are bound by memory; 0: run the Program op by op")                   \
    X(share_memory, BOOL, "1",                                                                               \
      "temporaries use the same memory one after the other; 0: each has its own, which helps to find "       \
      "faults")                                                                                              \
    X(log_level, TEXT, "info",                                                                               \
      "messages are given down to this level: error, warning, info or debug; GLOG_v=1 means debug too")      \
    X(rpc_deadline, INT(1, INT32_MAX), "180000", "milliseconds a remote call may take")                      \
    X(rpc_retry_times, INT(-1, INT32_MAX), "-1",                                                             \
      "times an exchange is tried again after its connection broke; -1: until rpc_deadline")                 \
    X(ps_on_trainer_loss, TEXT, "",                                                                          \
      "a trainer gone without a word: fail, shrink or wait; empty: fail in sync, shrink in async")           \
    X(ps_job, TEXT, "", "name of the job: a server takes only trainers that give the same one, or none too") \
    X(ps_loops, INT(0, 64), "0", "loops (threads) of a server; 0: chosen by the cores")                      \
    X(ps_spin, INT(-1, 100000), "-1",                                                                        \
      "microseconds servers and trainers poll before they sleep; -1: 50 where the job has no more "          \
      "processes than cores, else 0")                                                                        \
    X(ps_reconnect, INT(0, INT32_MAX), "5000",                                                               \
      "milliseconds a trainer whose connection broke has to come back; 0: none")                             \
    X(ps_dead_after, INT(0, 30000), "10",                                                                    \
      "seconds after which a machine that answers nothing at all counts as lost; 0: never")                  \
    X(ps_notice, INT(1, INT32_MAX), "3000", "milliseconds after which one who waits says for whom")          \
    X(ps_wait_trainers, INT(-1, INT32_MAX), "1800",                                                          \
      "seconds a server waits for trainers that never came while none is connected; 0 or -1: for ever")      \
    X(ps_dir, TEXT, "", "folder for a server's snapshots and log; empty: nothing is kept")                   \
    X(ps_log, TEXT, "",                                                                                      \
      "a server's log of changes: write (survives kill -9), fsync (and power loss), empty: none")            \
    X(ps_save_root, TEXT, "",                                                                                \
      "folder below which trainers may have a server write files; empty: any folder for those with the "     \
      "secret or of the same host and user, else the working folder and ps_dir")                             \
    X(ps_snapshot_seconds, INT(0, INT32_MAX), "600",                                                         \
      "seconds between a server's snapshots; 0: none by time")                                               \
    X(ps_snapshot_steps, INT(0, INT32_MAX), "0",                                                             \
      "steps between a server's snapshots (async: at least); 0: none by steps")                              \
    X(ps_log_mb, INT(0, INT32_MAX), "1024",                                                                  \
      "megabytes a server logs before it makes a snapshot, or the size of one where that is more; 0: any")   \
    X(ps_keep, INT(1, INT32_MAX), "2",                                                                       \
      "snapshots that a server keeps, beside the newest one that all servers have")                          \
    X(ps_http, TEXT, "",                                                                                     \
      "where a server can be watched by HTTP: PORT (on this machine), HOST:PORT or :PORT; port 0: any that " \
      "is free; empty: nowhere")                                                                             \
    X(checkpoint_dir, TEXT, "",                                                                              \
      "folder for checkpoints of a Fleet job, one that all its processes see; empty: none are made")         \
    X(checkpoint_seconds, INT(0, INT32_MAX), "600", "seconds between two checkpoints; 0: none by time")      \
    X(checkpoint_steps, INT(0, INT32_MAX), "0",                                                              \
      "batches of each thread between two checkpoints, in place of seconds; 0: by time")                     \
    X(checkpoint_keep, INT(1, INT32_MAX), "2", "checkpoints that are kept, the newest ones")                 \
    X(resume, TEXT, "never",                                                                                 \
      "auto: a Fleet job goes on from the newest whole checkpoint where there is one; must: there is one; "  \
      "never: it begins anew; a folder: from that checkpoint")                                               \
    X(tensorboard_dir, TEXT, "",                                                                             \
      "folder for TensorBoard's files: what train_from_dataset shows and progress.report is given; empty: "  \
      "none")                                                                                                \
    X(ps_fresh, BOOL, "0", "a server starts anew and moves aside what its folder holds")                     \
    X(ps_accept_rollback, BOOL, "0", "go on with a server that came back with older parameters")             \
    X(ps_accept_anew, BOOL, "0",                                                                             \
      "go on with another optimizer or schedule: states that a server's snapshots lack start anew")          \
    X(data_ahead, INT(-1, 64), "-1",                                                                         \
      "batches of a QueueDataset that a thread of its own reads ahead of each computing one; -1: 2 where "   \
      "there are more cores than computing threads, else none; 0: none")                                     \
    X(benchmark, BOOL, "0", "accepted for old scripts; use the profiler")                                    \
    X(eager_delete_tensor_gb, DOUBLE, "0", "accepted for old scripts; memory is planned")                    \
    X(fast_eager_deletion_mode, BOOL, "1", "accepted for old scripts; memory is planned")                    \
    X(memory_fraction_of_eager_deletion, DOUBLE, "1", "accepted for old scripts; memory is planned")         \
    X(fraction_of_cpu_memory_to_use, DOUBLE, "1", "accepted for old scripts; memory grows as needed")        \
    X(initial_cpu_memory_in_mb, NATURAL, "500", "accepted for old scripts; memory grows as needed")          \
    X(use_pinned_memory, BOOL, "1", "accepted for old scripts")                                              \
    X(use_system_allocator, BOOL, "0", "accepted for old scripts; memory is planned")                        \
    X(use_mkldnn, BOOL, "1", "accepted for old scripts; oneDNN is used where it is there")                   \
    X(use_amx, BOOL, "1", "products on Intel AMX, each float32 split into three bfloat16 parts; 0: oneDNN")  \
    X(allocator_strategy, TEXT, "auto_growth", "accepted for old scripts")                                   \
    X(sort_sum_gradient, BOOL, "0", "accepted for old scripts")                                              \
    X(enable_unused_var_check, BOOL, "0", "accepted for old scripts")                                        \
    X(inner_op_parallelism, INT(INT32_MIN, INT32_MAX), "0",                                                  \
      "accepted for old scripts; see paddle_num_threads")                                                    \
    X(max_body_size, NATURAL, "2147483647", "accepted for old scripts; frames have 64-bit lengths")

enum pd_flag {
#define PD_FLAG_ENUM(name, kind, value, help) PD_FLAG_##name,
    PD_FLAG_MAP(PD_FLAG_ENUM)
#undef PD_FLAG_ENUM
        PD_FLAG_COUNT,
};

/* The largest value of each BOOL and INT flag, e.g. PD_FLAG_MOST_ps_loops; 0 for the others. */
enum pd_flag_most {
#define PD_FLAG_MOST_OF_BOOL 1
#define PD_FLAG_MOST_OF_INT(least, most) most
#define PD_FLAG_MOST_OF_NATURAL 0
#define PD_FLAG_MOST_OF_DOUBLE 0
#define PD_FLAG_MOST_OF_TEXT 0
#define PD_FLAG_MOST(name, kind, value, help) PD_FLAG_MOST_##name = PD_FLAG_MOST_OF_##kind,
    PD_FLAG_MAP(PD_FLAG_MOST)
#undef PD_FLAG_MOST
};

int pd_flag_int(enum pd_flag flag); /* BOOL and INT flags; cheap to read */
const char *pd_flag_text(enum pd_flag flag);
const char *pd_flag_name_of(enum pd_flag flag); /* NULL past the last */
/* The name that a misspelt one comes nearest to, or NULL; it may be one that is only passed over. */
const char *pd_flag_nearest(const char *name, int length);
/* Reports misspelt names in the environment; called once, when the flags are read. */
void pd_flag_check_environment(void);
/* PD_INVALID when the environment gives a flag a value that it cannot have; its default stands meanwhile.
 * pd_flag_assign with another value heals that. */
pd_status pd_flag_verify(void);
/* By name, with or without "FLAGS_". Checks the value against the flag's kind. */
pd_status pd_flag_assign(const char *name, const char *text);
pd_status pd_flag_read(const char *name, const char **value);

#endif
