/* A trainer of a measurement: pushes and pulls as fast as the answers come, one exchange at a time. */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "pserver/bench/bench_private.h"
#include "pserver/client/client.h"

enum { MAX_PIECES = 64, LEAST = 3 };

struct work {
    const struct pd_bench_case *c;
    struct pd_bench_shared *shared;
    struct pd_client *client;
    struct pd_run run;
    int push[MAX_PIECES], pull[MAX_PIECES];
    float *grad, *value;
    int64_t *rows;
    uint64_t random;
};

static pd_status no_interruption(const struct pd_run *run)
{
    (void)run;
    return PD_OK;
}

/* Other rows each time, or they would all lie in the cache. */
static void draw_rows(struct work *w)
{
    const struct pd_bench_options *o = w->c->options;
    for (int64_t i = 0; i < o->rows; i++) {
        w->random ^= w->random << 13;
        w->random ^= w->random >> 7;
        w->random ^= w->random << 17;
        w->rows[i] = (int64_t)((unsigned __int128)w->random * (uint64_t)o->table >> 64);
    }
}

static pd_status push_and_pull(struct work *w, unsigned op)
{
    const struct pd_bench_options *o = w->c->options;
    size_t row = (size_t)o->width * sizeof(float), piece = (size_t)w->c->piece_numel * sizeof(float);
    int64_t most = pd_client_rows_most(row);
    PD_ASK(values);
    for (int64_t at = 0; !w->c->pieces && op != PD_BENCH_PUSH && at < o->rows; at += most) {
        int64_t n = o->rows - at < most ? o->rows - at : most;
        PD_ASK(rows);
        PD_TRY(pd_ask_rows(w->client, &rows, w->pull[0], n, w->rows + at, row, w->value + at * o->width));
        PD_TRY(pd_ask_wait(w->client, &w->run, &rows, "the rows"));
    }
    if (!w->c->pieces && op == PD_BENCH_PULL) return PD_OK;
    if (!w->c->pieces) PD_TRY(pd_client_push_rows(w->client, w->push[0], o->rows, w->rows, w->grad, row, 0));
    for (int i = 0; op != PD_BENCH_PULL && i < w->c->pieces; i++)
        PD_TRY(pd_client_push_dense(w->client, w->push[i], w->grad + i * w->c->piece_numel, piece,
                                    sizeof(float)));
    for (int i = 0; op != PD_BENCH_PUSH && i < w->c->pieces; i++)
        PD_TRY(pd_ask_value(w->client, &values, w->pull[i], w->value + i * w->c->piece_numel, piece));
    return pd_client_exchange(w->client, &w->run, &values, 0, NULL);
}

static pd_status repeat(struct work *w, unsigned op, double seconds, struct pd_times *times)
{
    int64_t start = pd_clock_ns(), end = start + (int64_t)(seconds * 1e9), now = start;
    times->start_ns = start;
    for (int i = 0; i < LEAST || now < end; i++) {
        if (!w->c->pieces) draw_rows(w);
        int64_t before = pd_clock_ns();
        PD_TRY(push_and_pull(w, op));
        now = pd_clock_ns();
        pd_times_add(times, now - before);
    }
    times->end_ns = now;
    return PD_OK;
}

/* All trainers come here before one goes on. */
static void barrier(struct work *w)
{
    int turn = atomic_load(&w->shared->turn);
    if (atomic_fetch_add(&w->shared->arrived, 1) + 1 == w->c->options->connections) {
        atomic_store(&w->shared->arrived, 0);
        atomic_store(&w->shared->turn, turn + 1);
        return;
    }
    while (atomic_load(&w->shared->turn) == turn)
        usleep(100);
}

static double cpu_seconds(pid_t process)
{
    clockid_t clock;
    struct timespec t;
    if (clock_getcpuclockid(process, &clock) != 0 || clock_gettime(clock, &t) != 0) return 0;
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static pd_status connect_names(struct work *w)
{
    char endpoint[48], name[32];
    struct pd_meta meta;
    snprintf(endpoint, sizeof endpoint, "127.0.0.1:%d", atomic_load(&w->shared->port));
    for (int i = 0; i < (w->c->pieces ? w->c->pieces : 1); i++)
        for (int is_pull = 0; is_pull < 2; is_pull++) {
            pd_bench_name(i, !is_pull, name);
            PD_TRY(pd_bench_meta(w->c, !is_pull, &meta));
            PD_TRY(pd_client_name(w->client, &w->run, endpoint, is_pull, name, &meta,
                                  is_pull ? &w->pull[i] : &w->push[i]));
        }
    return PD_OK;
}

static pd_status prepare(struct work *w, int trainer)
{
    const struct pd_bench_options *o = w->c->options;
    int64_t n = w->c->pieces ? w->c->pieces * w->c->piece_numel : o->rows * o->width;
    w->grad = pd_malloc_aligned((size_t)n * sizeof *w->grad);
    w->value = pd_malloc_aligned((size_t)n * sizeof *w->value);
    w->rows = pd_calloc((size_t)o->rows + 1, sizeof *w->rows);
    if (!w->grad || !w->value || !w->rows) return pd_no_memory();
    for (int64_t i = 0; i < n; i++)
        w->grad[i] = 1e-6f, w->value[i] = 0;
    w->random = 0x9e3779b97f4a7c15u * (uint64_t)(trainer + 1);
    PD_TRY(pd_client_get(trainer, &w->run, 1, &w->client));
    return connect_names(w);
}

static pd_status train(struct work *w, int trainer, pid_t server)
{
    const struct pd_bench_options *o = w->c->options;
    PD_TRY(prepare(w, trainer));
    for (int k = 0; k < PD_BENCH_OPS; k++) {
        unsigned op = 1u << k;
        struct pd_times *times = &w->shared->times[trainer * PD_BENCH_OPS + k], *warm;
        if (!(o->ops & op)) continue;
        warm = pd_calloc(1, sizeof *warm);
        if (!warm) return pd_no_memory();
        pd_status status = repeat(w, op, o->seconds / 5, warm);
        pd_free(warm);
        PD_TRY(status);
        barrier(w);
        double before = cpu_seconds(server);
        PD_TRY(repeat(w, op, o->seconds, times));
        barrier(w);
        if (trainer == 0) w->shared->server_cpu_s[k] = cpu_seconds(server) - before;
    }
    return PD_OK;
}

int pd_bench_train(const struct pd_bench_case *c, struct pd_bench_shared *shared, int trainer, pid_t server)
{
    struct pd_step step = {.poll = no_interruption};
    struct work w = {.c = c, .shared = shared, .run = {.step = &step}};
    while (!atomic_load(&shared->port))
        usleep(1000);
    pd_status status = train(&w, trainer, server);
    if (status != PD_OK) pd_bench_trouble(shared, "a trainer");
    status = pd_client_run_over(w.run.step, status);
    pd_client_goodbye(status != PD_OK, "psbench ends", -1, NULL, NULL);
    return status == PD_OK ? 0 : 1;
}
