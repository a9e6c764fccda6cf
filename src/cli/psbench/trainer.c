/* A trainer of a measurement: Programs that push and pull, run as fast as the answers come, one exchange at a
 * time. What a run of such a Program takes is what is measured. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/psbench/job.h"
#include "cli/psbench/process.h"
#include "cli/psbench/why.h"

enum { LEAST = 3 };

static const char ids[] = "ids", rows_out[] = "rows";

struct work {
    const struct pd_psbench_case *c;
    struct pd_psbench_shared *shared;
    int trainer;
    char endpoint[48];
    pd_scope *scope;
    pd_executor *executor;
    pd_value *grad, *wanted; /* of a table: what is pushed, and the ids of rows that are pulled */
    uint64_t random;
};

/* ---- the Programs ---- */

static pd_status begin(const struct work *w, pd_program *p, const char *type, const char *servers,
                       pd_op_builder **op)
{
    const char *endpoint = w->endpoint;
    PD_PSBENCH_TRY(pd_op_begin(p, type, op));
    PD_PSBENCH_TRY(pd_op_add_int(*op, "trainer_id", w->trainer));
    return pd_psbench_add_texts(*op, servers, 1, &endpoint);
}

/* send, or recv, of all that the server holds. */
static pd_status add_transfer(const struct work *w, pd_program *p, int is_push)
{
    pd_op_builder *op;
    char name[32];
    PD_PSBENCH_TRY(begin(w, p, is_push ? "send" : "recv", "epmap", &op));
    for (int i = 0; i < pd_psbench_parameters(w->c); i++) {
        pd_psbench_name(i, is_push, name);
        PD_PSBENCH_TRY(pd_psbench_add_piece(w->c, p, i, is_push));
        PD_PSBENCH_TRY(pd_op_add_arg(op, !is_push, is_push ? "X" : "Out", name));
    }
    return pd_psbench_end_op(op, 0);
}

/* By the op that asks for rows as they are: equal ids are not put together first, and all bytes travel. */
static pd_status add_lookup(const struct work *w, pd_program *p)
{
    const struct pd_psbench_options *o = w->c->options;
    pd_op_builder *op;
    char table[32];
    pd_psbench_name(0, 0, table);
    PD_PSBENCH_TRY(
        pd_psbench_add_var(p, ids, PD_LOD_TENSOR, PD_INT64, (struct pd_psbench_shape){2, {o->rows, 1}}, 0));
    PD_PSBENCH_TRY(pd_psbench_add_var(p, rows_out, PD_LOD_TENSOR, PD_FLOAT32,
                                      (struct pd_psbench_shape){2, {o->rows, o->width}}, 0));
    PD_PSBENCH_TRY(begin(w, p, "prefetch", "epmap", &op));
    PD_PSBENCH_TRY(pd_op_add_text(op, "table_name", table));
    PD_PSBENCH_TRY(pd_op_add_arg(op, 0, "X", ids));
    PD_PSBENCH_TRY(pd_op_add_arg(op, 1, "Out", rows_out));
    return pd_psbench_end_op(op, 0);
}

/* A table's rows are looked up before their gradients are pushed; a dense parameter is received after, in the
 * same exchange. A push alone has an end of its own. */
static pd_status build(const struct work *w, unsigned op, pd_program **out)
{
    pd_program *p;
    pd_op_builder *last;
    int is_table = !w->c->pieces, pushes = op != PD_PSBENCH_PULL, pulls = op != PD_PSBENCH_PUSH;
    PD_PSBENCH_TRY(pd_program_create(&p));
    if (is_table && pulls) PD_PSBENCH_TRY(add_lookup(w, p));
    if (pushes) PD_PSBENCH_TRY(add_transfer(w, p, 1));
    if (!is_table && pulls) PD_PSBENCH_TRY(add_transfer(w, p, 0));
    if (pushes && (is_table || !pulls)) {
        PD_PSBENCH_TRY(begin(w, p, "send_barrier", "endpoints", &last));
        PD_PSBENCH_TRY(pd_psbench_end_op(last, 0));
    }
    *out = p;
    return PD_OK;
}

/* ---- what is pushed ---- */

static pd_status make_grad(struct work *w, int piece)
{
    const struct pd_psbench_options *o = w->c->options;
    struct pd_psbench_shape shape = pd_psbench_shape(w->c);
    pd_tensor_desc desc;
    char name[32];
    pd_psbench_name(piece, 1, name);
    PD_PSBENCH_TRY(pd_scope_var(w->scope, name, &w->grad));
    if (!w->c->pieces) {
        PD_PSBENCH_TRY(pd_value_become(w->grad, PD_SELECTED_ROWS));
        PD_PSBENCH_TRY(pd_value_set_height(w->grad, o->table));
        shape.dims[0] = o->rows;
    }
    PD_PSBENCH_TRY(pd_value_set_tensor(w->grad, PD_FLOAT32, shape.rank, shape.dims, NULL));
    PD_PSBENCH_TRY(pd_value_tensor(w->grad, &desc));
    int64_t n = shape.dims[0] * (shape.rank > 1 ? shape.dims[1] : 1);
    for (int64_t i = 0; i < n; i++)
        ((float *)desc.data)[i] = 1e-6f;
    return PD_OK;
}

/* Other rows each time, or they would all lie in the cache. */
static pd_status draw_rows(struct work *w, unsigned op)
{
    const struct pd_psbench_options *o = w->c->options;
    pd_tensor_desc desc;
    PD_PSBENCH_TRY(pd_value_will_change(w->wanted, ids));
    PD_PSBENCH_TRY(pd_value_tensor(w->wanted, &desc));
    int64_t *rows = desc.data;
    for (int64_t i = 0; i < o->rows; i++) {
        w->random ^= w->random << 13;
        w->random ^= w->random >> 7;
        w->random ^= w->random << 17;
        rows[i] = (int64_t)((unsigned __int128)w->random * (uint64_t)o->table >> 64);
    }
    return op == PD_PSBENCH_PULL ? PD_OK : pd_value_set_rows(w->grad, o->rows, rows);
}

static pd_status prepare(struct work *w)
{
    snprintf(w->endpoint, sizeof w->endpoint, "127.0.0.1:%d", atomic_load(&w->shared->port));
    w->random = 0x9e3779b97f4a7c15u * (uint64_t)(w->trainer + 1);
    PD_PSBENCH_TRY(pd_scope_create(NULL, &w->scope));
    PD_PSBENCH_TRY(pd_executor_create(&w->executor));
    PD_PSBENCH_TRY(pd_scope_var(w->scope, ids, &w->wanted));
    PD_PSBENCH_TRY(pd_value_set_tensor(w->wanted, PD_INT64, 2, (int64_t[]){w->c->options->rows, 1}, NULL));
    for (int i = 0; i < pd_psbench_parameters(w->c); i++)
        PD_PSBENCH_TRY(make_grad(w, i));
    return PD_OK;
}

/* ---- at work ---- */

static pd_status repeat(struct work *w, unsigned op, pd_prepared *exchange, double seconds,
                        struct pd_psbench_times *times)
{
    int64_t start = pd_psbench_now(), end = start + (int64_t)(seconds * 1e9), now = start;
    times->start_ns = start;
    for (int i = 0; i < LEAST || now < end; i++) {
        if (!w->c->pieces) PD_PSBENCH_TRY(draw_rows(w, op));
        int64_t before = pd_psbench_now();
        PD_PSBENCH_TRY(pd_prepared_run(exchange, w->scope, NULL));
        now = pd_psbench_now();
        pd_psbench_times_add(times, now - before);
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

static pd_status train(struct work *w, pid_t server)
{
    const struct pd_psbench_options *o = w->c->options;
    PD_PSBENCH_TRY(prepare(w));
    for (int k = 0; k < PD_PSBENCH_OPS; k++) {
        unsigned op = 1u << k;
        struct pd_psbench_times *times = &w->shared->times[w->trainer * PD_PSBENCH_OPS + k], *warm;
        pd_program *program;
        pd_prepared *exchange;
        if (!(o->ops & op)) continue;
        PD_PSBENCH_TRY(build(w, op, &program));
        PD_PSBENCH_TRY(pd_executor_prepare(w->executor, program, 0, NULL, 0, NULL, &exchange));
        warm = calloc(1, sizeof *warm);
        if (!warm) return pd_psbench_no_memory();
        pd_status status = repeat(w, op, exchange, o->seconds / 5, warm);
        free(warm);
        PD_PSBENCH_TRY(status);
        barrier(w);
        double before = pd_psbench_cpu(server);
        PD_PSBENCH_TRY(repeat(w, op, exchange, o->seconds, times));
        barrier(w);
        if (w->trainer == 0) w->shared->server_cpu_s[k] = pd_psbench_cpu(server) - before;
    }
    return PD_OK;
}

int pd_psbench_train(const struct pd_psbench_case *c, struct pd_psbench_shared *shared, int trainer,
                     pid_t server)
{
    struct work w = {.c = c, .shared = shared, .trainer = trainer};
    while (!atomic_load(&shared->port))
        usleep(1000);
    pd_status status = train(&w, server);
    if (status != PD_OK) pd_psbench_trouble(shared, "a trainer");
    pd_leave_job(status != PD_OK, "psbench ends");
    return status == PD_OK ? 0 : 1;
}
