/* A measurement from the outside: children are started, waited for and read; see bench.h. */
#include "pserver/bench/bench.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/flags.h"
#include "pserver/bench/bench_private.h"

enum { MAX_CONNECTIONS = 1024 };

static const char *const op_names[PD_BENCH_OPS] = {"push", "pull", "both"};

void pd_bench_trouble(struct pd_bench_shared *shared, const char *who)
{
    if (atomic_exchange(&shared->has_trouble, 1)) return;
    snprintf(shared->trouble, sizeof shared->trouble, "%s: %s", who, pd_error());
}

pid_t pd_bench_fork(void)
{
    pid_t parent = getpid(), child = fork();
    if (child != 0) return child;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    signal(SIGINT, SIG_DFL);
    return 0;
}

void pd_bench_pin(const struct pd_bench_options *options, int which)
{
    cpu_set_t may, one;
    if (!options->pins || sched_getaffinity(0, sizeof may, &may) != 0) return;
    which %= CPU_COUNT(&may);
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &may) && which-- == 0) CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
}

void pd_bench_name(int piece, int is_grad, char name[32])
{
    snprintf(name, 32, "w%d%s", piece, is_grad ? "@GRAD" : "");
}

pd_status pd_bench_meta(const struct pd_bench_case *c, int is_grad, struct pd_meta *out)
{
    *out = (struct pd_meta){.kind = PD_KIND_TENSOR, .dtype = PD_DTYPE_FP32};
    if (c->pieces) {
        pd_meta_set_1d(out, c->piece_numel);
        return PD_OK;
    }
    if (is_grad) out->kind = PD_KIND_SELECTED_ROWS;
    pd_meta_set_2d(out, c->options->table, c->options->width);
    return PD_OK;
}

/* ---- the processes of a case ---- */

struct crew {
    struct pd_bench_shared *shared;
    size_t shared_bytes;
    pid_t *pids; /* the server, then the trainers; 0: gone */
    int n;
};

static void set_environment(const struct pd_bench_case *c)
{
    if (strcmp(c->transport, "auto") != 0) setenv("PADDLE_PS_TRANSPORT", c->transport, 1);
    if (!getenv("FLAGS_log_level") && !getenv("GLOG_v")) (void)pd_flag_assign("log_level", "warning");
}

static pd_status start(const struct pd_bench_case *c, struct crew *crew)
{
    int n = c->options->connections;
    crew->pids = pd_calloc((size_t)n + 1, sizeof *crew->pids);
    crew->shared_bytes = sizeof *crew->shared + (size_t)(n * PD_BENCH_OPS) * sizeof *crew->shared->times;
    if (!crew->pids) return pd_no_memory();
    void *memory = mmap(NULL, crew->shared_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return pd_no_memory();
    crew->shared = memory;
    for (int i = 0; i <= n; i++) {
        pid_t pid = pd_bench_fork();
        if (pid < 0) return pd_fail(PD_IO, "a process cannot be started: %s", strerror(errno));
        if (pid == 0) {
            set_environment(c);
            pd_bench_pin(c->options, i);
            _exit(i == 0 ? pd_bench_serve(c, crew->shared)
                         : pd_bench_train(c, crew->shared, i - 1, crew->pids[0]));
        }
        crew->pids[crew->n++] = pid;
    }
    return PD_OK;
}

/* Waits for all; the first that fails ends the others. */
static pd_status wait_for(struct crew *crew)
{
    for (int left = crew->n; left; left--) {
        int how;
        pid_t pid;
        /* Only our own: the caller may have other children. */
        for (pid = 0; !pid;) {
            for (int i = 0; i < crew->n && !pid; i++) {
                if (!crew->pids[i]) continue;
                pid_t done = waitpid(crew->pids[i], &how, WNOHANG);
                if (done == 0 || (done < 0 && errno == EINTR)) continue;
                if (done < 0) how = 0;
                pid = crew->pids[i];
                crew->pids[i] = 0;
            }
            if (!pid) usleep(2000);
        }
        if (WIFEXITED(how) && WEXITSTATUS(how) == 0) continue;
        if (crew->shared->has_trouble) return pd_fail(PD_UNAVAILABLE, "%s", crew->shared->trouble);
        return WIFSIGNALED(how)
                   ? pd_fail(PD_UNAVAILABLE, "process %d of the measurement was ended by signal %d (%s)",
                             (int)pid, WTERMSIG(how), strsignal(WTERMSIG(how)))
                   : pd_fail(PD_UNAVAILABLE, "process %d of the measurement ended with status %d", (int)pid,
                             WEXITSTATUS(how));
    }
    return PD_OK;
}

static void dismiss(struct crew *crew)
{
    for (int i = 0; i < crew->n; i++)
        if (crew->pids[i]) {
            kill(crew->pids[i], SIGKILL);
            while (waitpid(crew->pids[i], NULL, 0) < 0 && errno == EINTR)
                continue;
        }
    if (crew->shared) munmap(crew->shared, crew->shared_bytes);
    pd_free(crew->pids);
}

/* ---- figures ---- */

static uint64_t bytes_of(const struct pd_bench_case *c, int op)
{
    const struct pd_bench_options *o = c->options;
    uint64_t dense = (uint64_t)c->pieces * (uint64_t)c->piece_numel * sizeof(float);
    uint64_t sparse = (uint64_t)o->rows * (sizeof(int64_t) + (uint64_t)o->width * sizeof(float));
    return (c->pieces ? dense : sparse) * (1u << op == PD_BENCH_BOTH ? 2 : 1);
}

static void fill_row(const struct pd_bench_case *c, const struct pd_bench_shared *shared, int op,
                     const struct pd_times *const *times, struct pd_bench_row *row)
{
    const struct pd_bench_options *o = c->options;
    double longest = 0;
    row->op = op_names[op];
    row->transport = c->transport;
    row->connections = o->connections;
    row->rows = c->pieces ? 0 : o->rows;
    row->bytes = bytes_of(c, op);
    for (int t = 0; t < o->connections; t++) {
        double seconds = (double)(times[t]->end_ns - times[t]->start_ns) * 1e-9;
        row->operations += times[t]->n;
        row->ops_per_s += (double)times[t]->n / seconds;
        if (seconds > longest) longest = seconds;
        if ((double)times[t]->max_ns * 1e-3 > row->max_us) row->max_us = (double)times[t]->max_ns * 1e-3;
    }
    row->seconds = longest;
    row->bytes_per_s = row->ops_per_s * (double)row->bytes;
    row->p50_us = pd_times_at(times, o->connections, 0.5) * 1e-3;
    row->p90_us = pd_times_at(times, o->connections, 0.9) * 1e-3;
    row->p99_us = pd_times_at(times, o->connections, 0.99) * 1e-3;
    row->server_cpu_s = shared->server_cpu_s[op];
    if (row->rows && row->server_cpu_s > 0)
        row->rows_per_cpu_s = (double)row->rows * (double)row->operations / row->server_cpu_s;
}

static pd_status measure(const struct pd_bench_case *c, const struct pd_bench_limits *limits,
                         void (*tell)(void *arg, const struct pd_bench_row *row), void *arg)
{
    struct crew crew = {0};
    const struct pd_bench_options *o = c->options;
    const struct pd_times **times = pd_calloc((size_t)o->connections, sizeof *times);
    pd_status status = times ? start(c, &crew) : pd_no_memory();
    if (status == PD_OK) status = wait_for(&crew);
    for (int op = 0; status == PD_OK && op < PD_BENCH_OPS; op++) {
        struct pd_bench_row row = {.stream_bytes_per_s = limits->stream_bytes_per_s,
                                   .copy_bytes_per_s = limits->copy_bytes_per_s,
                                   .pings_per_s = limits->pings_per_s};
        if (!(o->ops & 1u << op)) continue;
        for (int t = 0; t < o->connections; t++)
            times[t] = &crew.shared->times[t * PD_BENCH_OPS + op];
        fill_row(c, crew.shared, op, times, &row);
        tell(arg, &row);
    }
    dismiss(&crew);
    pd_free(times);
    return status;
}

static pd_status check(const struct pd_bench_options *o)
{
    if (!o->n_sizes && !o->rows) return pd_fail(PD_INVALID, "nothing to measure: give a dense size or rows");
    for (int i = 0; i < o->n_sizes; i++)
        if (!o->sizes[i] || o->sizes[i] % sizeof(float) || o->sizes[i] > (uint64_t)1 << 40)
            return pd_fail(PD_RANGE, "a dense size of %llu bytes: it must be a multiple of 4, up to 1 TB",
                           (unsigned long long)o->sizes[i]);
    if (o->rows < 0 || o->rows > 1 << 30)
        return pd_fail(PD_RANGE, "%lld rows a push: at most %d", (long long)o->rows, 1 << 30);
    if (o->rows && (o->width < 1 || o->width > 1 << 20 || o->table < 1 || o->table > (int64_t)1 << 40))
        return pd_fail(PD_RANGE, "a table of %lld rows of %lld numbers cannot be measured",
                       (long long)o->table, (long long)o->width);
    if (o->connections < 1 || o->connections > MAX_CONNECTIONS)
        return pd_fail(PD_RANGE, "%d connections: give 1 to %d", o->connections, MAX_CONNECTIONS);
    if (o->loops < 0 || o->loops > PD_FLAG_MOST_ps_loops)
        return pd_fail(PD_RANGE, "%d loops: give 1 to %d, or 0 to let the server choose", o->loops,
                       PD_FLAG_MOST_ps_loops);
    if (!(o->seconds > 0) || o->seconds > 3600)
        return pd_fail(PD_RANGE, "%g seconds a measurement: give a number above 0, up to 3600", o->seconds);
    return PD_OK;
}

pd_status pd_bench_run(const struct pd_bench_options *options, const struct pd_op_set *ops,
                       void (*row)(void *arg, const struct pd_bench_row *row), void *arg)
{
    static const char *const both[] = {"tcp", "shm"};
    int n_transports = options->transport ? 1 : 2, n_cases = options->n_sizes + (options->rows > 0);
    PD_TRY(check(options));
    PD_TRY(pd_flag_verify());
    for (int i = 0; i < n_cases; i++) {
        struct pd_bench_case c = {.options = options, .op_set = ops};
        struct pd_bench_limits limits;
        if (i < options->n_sizes) {
            int64_t numel = (int64_t)(options->sizes[i] / sizeof(float));
            c.pieces = options->loops > 1 && options->loops <= numel ? options->loops : 1;
            c.piece_numel = numel / c.pieces;
        }
        PD_TRY(pd_bench_limits(options, bytes_of(&c, 0), &limits));
        for (int t = 0; t < n_transports; t++) {
            c.transport = options->transport ? options->transport : both[t];
            PD_TRY(measure(&c, &limits, row, arg));
        }
    }
    return PD_OK;
}
