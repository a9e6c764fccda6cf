/* Programs of a job for tests: parameters w0, w1, ... of WIDTH ones, which servers update by SGD at a rate of
 * 0.5, and trainers whose gradients are constants. Parameter i lies on server i % n_servers. */
#ifndef PS_JOB_HELP_H
#define PS_JOB_HELP_H

#include <stdio.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <netinet/in.h>
#include <paddle/paddle.h>

/* libuv closes descriptors by a plain system call, which the thread sanitizer does not see: a folder or a
 * file that gets the number of a loop that is gone looks like a race. */
__attribute__((visibility("default"))) const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
    return "race:pd_folder_names\nrace:uv__epoll_init\nrace:uv_pipe\n";
}

enum { WIDTH = 5, MAX_SERVERS = 4, MAX_PARAMS = 8 };

struct ps_job {
    int n_servers, trainers, params, is_sync;
    char endpoint[MAX_SERVERS][32];
};

static inline void must(pd_status status)
{
    if (status == PD_OK) return;
    fprintf(stderr, "%s: %s\n", pd_status_name(status), pd_error()); /* of a thread cmocka shows nothing */
    fail_msg("%s: %s", pd_status_name(status), pd_error());
}

/* Endpoints of different ports that are free now, below those that the system hands out by itself: nobody
 * gets one before the server binds it. */
static inline void free_endpoints(struct ps_job *job)
{
    int held[MAX_SERVERS], n = 0;
    static unsigned random;
    if (!random) random = (unsigned)getpid() * 2654435761u ^ (unsigned)time(NULL);
    while (n < job->n_servers) {
        random = random * 1664525u + 1013904223u;
        int port = 10000 + (int)((random >> 8) % 20000);
        struct sockaddr_in at = {.sin_family = AF_INET,
                                 .sin_port = htons((uint16_t)port),
                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        held[n] = socket(AF_INET, SOCK_STREAM, 0);
        assert_true(held[n] >= 0);
        if (bind(held[n], (struct sockaddr *)&at, sizeof at) != 0) {
            close(held[n]);
            continue;
        }
        snprintf(job->endpoint[n], sizeof job->endpoint[n], "127.0.0.1:%d", port);
        n++;
    }
    while (n)
        close(held[--n]);
}

static inline void add_var(pd_program *p, const char *name, int64_t n, unsigned flags)
{
    int64_t id;
    int existed;
    must(pd_var_create(p, 0, name, PD_LOD_TENSOR, &id, &existed));
    must(pd_var_set_dtype(p, id, PD_FLOAT32));
    must(pd_var_set_shape(p, id, 1, &n));
    must(pd_var_set_flags(p, id, ~0u, flags));
}

static inline void add_texts(pd_op_builder *op, const char *name, int n, const char *const *texts)
{
    must(pd_op_add_attr(op, name, &(struct pd_attr){.type = PD_ATTR_STRINGS, .n = n, .strings = texts}));
}

static inline void end(pd_op_builder *op, int block)
{
    int64_t id;
    must(pd_op_insert(op, block, -1, &id));
}

static inline void fill(pd_program *p, const char *name, int n, float value)
{
    pd_op_builder *op;
    must(pd_op_begin(p, "fill_constant", &op));
    must(pd_op_add_arg(op, 1, "Out", name));
    must(pd_op_add_ints(op, "shape", 1, (int32_t[]){n}));
    must(pd_op_add_float(op, "value", value));
    must(pd_op_add_int(op, "dtype", PD_FLOAT32));
    end(op, 0);
}

static inline pd_program *server_startup(const struct ps_job *job, int server)
{
    pd_program *p;
    char name[32];
    must(pd_program_create(&p));
    add_var(p, "rate", 1, PD_VAR_IS_PERSISTABLE);
    fill(p, "rate", 1, 0.5f);
    for (int i = server; i < job->params; i += job->n_servers) {
        snprintf(name, sizeof name, "w%d", i);
        add_var(p, name, WIDTH, PD_VAR_IS_PERSISTABLE);
        fill(p, name, WIDTH, 1);
    }
    return p;
}

static inline pd_program *server_program(const struct ps_job *job, int server)
{
    pd_program *p;
    pd_op_builder *op;
    char name[32], grad[32], entry[MAX_PARAMS][48];
    const char *entries[MAX_PARAMS], *endpoints[MAX_SERVERS];
    int32_t blocks[MAX_PARAMS];
    int n = 0;
    must(pd_program_create(&p));
    add_var(p, "rate", 1, PD_VAR_IS_PERSISTABLE);
    for (int i = server; i < job->params; i += job->n_servers, n++) {
        int block;
        snprintf(name, sizeof name, "w%d", i);
        snprintf(grad, sizeof grad, "w%d@GRAD", i);
        add_var(p, name, WIDTH, PD_VAR_IS_PERSISTABLE | PD_VAR_IS_PARAMETER);
        add_var(p, grad, WIDTH, 0);
        must(pd_block_create(p, 0, &block));
        must(pd_op_begin(p, "sgd", &op));
        must(pd_op_add_arg(op, 0, "Param", name));
        must(pd_op_add_arg(op, 0, "Grad", grad));
        must(pd_op_add_arg(op, 0, "LearningRate", "rate"));
        must(pd_op_add_arg(op, 1, "ParamOut", name));
        end(op, block);
        snprintf(entry[n], sizeof entry[n], "%s:%d", grad, block);
        entries[n] = entry[n];
        blocks[n] = block;
    }
    for (int i = 0; i < job->n_servers; i++)
        endpoints[i] = job->endpoint[i];
    must(pd_op_begin(p, "listen_and_serv", &op));
    must(pd_op_add_text(op, "endpoint", job->endpoint[server]));
    must(pd_op_add_int(op, "Fanin", job->trainers));
    must(pd_op_add_int(op, "distributed_mode", job->is_sync ? 0 : 1));
    add_texts(op, "grad_to_block_id", n, entries);
    add_texts(op, "endpoints", job->n_servers, endpoints);
    must(pd_op_add_attr(op, "optimize_blocks",
                        &(struct pd_attr){.type = PD_ATTR_BLOCKS, .n = n, .blocks = blocks}));
    end(op, 0);
    return p;
}

/* All elements of its gradients are `value`. */
static inline pd_program *trainer_program(const struct ps_job *job, int id, float value)
{
    pd_program *p;
    pd_op_builder *op;
    char name[32], grad[32];
    const char *endpoints[MAX_SERVERS];
    must(pd_program_create(&p));
    for (int i = 0; i < job->n_servers; i++)
        endpoints[i] = job->endpoint[i];
    for (int i = 0; i < job->params; i++) {
        snprintf(name, sizeof name, "w%d", i);
        snprintf(grad, sizeof grad, "w%d@GRAD", i);
        add_var(p, name, WIDTH, PD_VAR_IS_PERSISTABLE | PD_VAR_IS_PARAMETER);
        add_var(p, grad, WIDTH, 0);
        fill(p, grad, WIDTH, value);
        must(pd_op_begin(p, "send", &op));
        must(pd_op_add_arg(op, 0, "X", grad));
        must(pd_op_add_int(op, "trainer_id", id));
        add_texts(op, "epmap", 1, &endpoints[i % job->n_servers]);
        end(op, 0);
    }
    if (job->is_sync) {
        must(pd_op_begin(p, "send_barrier", &op));
        must(pd_op_add_int(op, "trainer_id", id));
        add_texts(op, "endpoints", job->n_servers, endpoints);
        end(op, 0);
    }
    for (int i = 0; i < job->params; i++) {
        snprintf(name, sizeof name, "w%d", i);
        must(pd_op_begin(p, "recv", &op));
        must(pd_op_add_arg(op, 1, "Out", name));
        must(pd_op_add_int(op, "trainer_id", id));
        add_texts(op, "epmap", 1, &endpoints[i % job->n_servers]);
        end(op, 0);
    }
    return p;
}

/* Element k of parameter i. */
static inline float weight(pd_scope *scope, int i, int k)
{
    pd_tensor_desc desc;
    char name[32];
    snprintf(name, sizeof name, "w%d", i);
    must(pd_value_tensor(pd_scope_find(scope, name), &desc));
    return ((const float *)desc.data)[k];
}

/* Serves until the job is over; the scope then has what it holds. */
static inline pd_status serve_job(const struct ps_job *job, int server, pd_scope *scope)
{
    pd_program *startup = server_startup(job, server), *program = server_program(job, server);
    pd_executor *exe;
    must(pd_executor_create(&exe));
    must(pd_executor_run(exe, startup, scope, 0, NULL, NULL, 0, NULL, NULL));
    pd_status status = pd_executor_run(exe, program, scope, 0, NULL, NULL, 0, NULL, NULL);
    pd_executor_free(exe);
    pd_program_free(startup);
    pd_program_free(program);
    return status;
}

/* A server on a thread of its own, with what it holds in the end. */
struct served {
    struct ps_job job;
    float w[MAX_PARAMS];
    pd_status status;
};

static inline void *serve(void *arg)
{
    struct served *s = arg;
    pd_scope *scope;
    must(pd_scope_create(NULL, &scope));
    s->status = serve_job(&s->job, 0, scope);
    for (int i = 0; i < s->job.params; i++)
        s->w[i] = weight(scope, i, 0);
    pd_scope_release(scope);
    return NULL;
}

#endif
