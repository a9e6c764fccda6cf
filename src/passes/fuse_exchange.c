/* Exchanges with parameter servers. A trainer's Program says split, send, send_barrier, recv, fetch_barrier,
 * concat; a plan does all from the barrier on in one exchange with each server, receives slices straight into
 * the whole parameter, and sends slices of a gradient without cutting it first. */
#include <string.h>

#include "passes/fuse.h"

/* ---- split_byref + send ---- */

static pd_status fuse_send(struct pd_fuse *f, int at)
{
    struct pd_opdesc *send = pd_fuse_op(f, at), *split, *op;
    const struct pd_io *x = pd_opdesc_slot(send, 0, "X");
    struct pd_fuse_use use = {.writer = -1};
    if (!x || x->args.n < 1) return PD_OK;
    int writer = -1;
    for (int i = 0; i < x->args.n; i++) {
        if (!pd_fuse_may_go(f, x->args.at[i], 1, &use)) return PD_OK;
        if (writer >= 0 && use.writer != writer) return PD_OK;
        writer = use.writer;
    }
    split = pd_fuse_op(f, writer);
    const struct pd_io *parts = split ? pd_opdesc_slot(split, 1, "Out") : NULL;
    if (!pd_fuse_is(split, "split_byref") || !parts || parts->args.n != x->args.n) return PD_OK;
    for (int i = 0; i < x->args.n; i++)
        if (strcmp(parts->args.at[i], x->args.at[i]) != 0) return PD_OK;
    const struct pd_attr *epmap = pd_opdesc_attr(send, "epmap"),
                         *sections = pd_opdesc_attr(split, "sections");
    if (!epmap || epmap->n != x->args.n || !sections || sections->n != x->args.n ||
        pd_fuse_inputs_change(f, writer, at))
        return PD_OK;
    PD_TRY(pd_fuse_new(f, "ps_send", &op));
    if (!op) return PD_OK;
    pd_status status = pd_fuse_take_slot(op, 0, "X", split, "X");
    if (status == PD_OK) status = pd_opdesc_set_attr(op, "epmap", epmap, 0);
    if (status == PD_OK) status = pd_opdesc_set_attr(op, "sections", sections, 0);
    if (status == PD_OK) status = pd_opdesc_set_attr(op, "trainer_id", pd_opdesc_attr(send, "trainer_id"), 0);
    const struct pd_attr *job = pd_opdesc_attr(send, "job");
    if (status == PD_OK && job) status = pd_opdesc_set_attr(op, "job", job, 0);
    const struct pd_attr *names = pd_opdesc_attr(send, PD_AT_SERVERS_ATTR);
    if (status == PD_OK && names && names->n == x->args.n)
        status = pd_opdesc_set_attr(op, "names", names, 0);
    else if (status == PD_OK)
        status = pd_opdesc_set_strings(op, "names", x->args.n, x->args.at);
    if (status != PD_OK) {
        pd_opdesc_free(op);
        return status;
    }
    return pd_fuse_replace(f, op, 2, (struct pd_opdesc *const[]){split, send}, 1);
}

/* ---- from the barrier to the last concat ---- */

struct exchange {
    PD_VEC(struct pd_opdesc *) ops;                                /* in their order */
    const struct pd_attr *endpoints, *trainer_id, *trainers, *all; /* all: servers of the job */
    const struct pd_attr *job;                                     /* what is trained */
    PD_VEC(const char *) names;                                    /* at the servers */
    PD_VEC(const char *) epmap;
    PD_VEC(const char *) locals; /* the variable that the name is received into */
    struct pd_map first;         /* a local -> the first of its numbers */
    PD_VEC(int64_t) slices;      /* how many rows of it; -1: all */
    PD_VEC(const char *) outs;
    PD_VEC(int) into;
    PD_VEC(int64_t) rows;
};

static void exchange_free(struct exchange *e)
{
    pd_vec_free(&e->ops);
    pd_map_free(&e->first);
    pd_vec_free(&e->names);
    pd_vec_free(&e->epmap);
    pd_vec_free(&e->locals);
    pd_vec_free(&e->slices);
    pd_vec_free(&e->outs);
    pd_vec_free(&e->into);
    pd_vec_free(&e->rows);
}

static pd_status add_name(struct exchange *e, const char *name, const struct pd_attr *epmap, int i,
                          const char *local, int64_t rows)
{
    if (pd_map_number(&e->first, local) < 0 && !pd_map_set_number(&e->first, local, e->locals.n))
        return pd_no_memory();
    return pd_vec_push(&e->names, name) &&
                   pd_vec_push(&e->epmap, epmap->strings[i < epmap->n ? i : epmap->n - 1]) &&
                   pd_vec_push(&e->locals, local) && pd_vec_push(&e->slices, rows)
               ? PD_OK
               : pd_no_memory();
}

/* How many names one Out is received from: slices of equal height, the last one of what is left. */
static int slices_of(const struct pd_opdesc *op)
{
    const struct pd_io *out = pd_opdesc_slot(op, 1, "Out");
    const struct pd_attr *names = pd_opdesc_attr(op, "recv_varnames");
    return out && out->args.n == 1 && names ? names->n : 0;
}

static int64_t rows_of(const struct pd_fuse *f, const struct pd_opdesc *op)
{
    const struct pd_var *var = pd_block_find(f->block, pd_opdesc_slot(op, 1, "Out")->args.at[0]);
    return var && var->meta.rank ? var->meta.dim[0] : -1;
}

static pd_status add_recv(const struct pd_fuse *f, struct exchange *e, const struct pd_opdesc *op)
{
    const struct pd_io *out = pd_opdesc_slot(op, 1, "Out");
    const struct pd_attr *epmap = pd_opdesc_attr(op, "epmap"), *names = pd_opdesc_attr(op, "recv_varnames");
    int n = out ? out->args.n : 0, slices = slices_of(op);
    if (!e->trainer_id) e->trainer_id = pd_opdesc_attr(op, "trainer_id");
    if (!e->trainers) e->trainers = pd_opdesc_attr(op, "trainers");
    if (slices > 1) {
        int64_t rows = rows_of(f, op), each = (rows + slices - 1) / slices;
        for (int i = 0; i < slices; i++)
            PD_TRY(add_name(e, names->strings[i], epmap, i, out->args.at[0],
                            i < slices - 1 ? each : rows - each * (slices - 1)));
        return PD_OK;
    }
    if (!names || names->n != n) names = pd_opdesc_attr(op, "varnames");
    for (int i = 0; i < n; i++)
        PD_TRY(add_name(e, names && names->n == n ? names->strings[i] : out->args.at[i], epmap, i,
                        out->args.at[i], -1));
    return PD_OK;
}

/* A concat of slices that only it reads: they can go straight into its output. */
static int joins_slices(const struct pd_fuse *f, const struct exchange *e, const struct pd_opdesc *op)
{
    const struct pd_io *x = pd_opdesc_slot(op, 0, "X");
    const struct pd_attr *axis = pd_opdesc_attr(op, "axis");
    if (!pd_fuse_is(op, "concat") || !x || !axis || axis->i != 0 || !pd_fuse_arg(op, 1, "Out") ||
        pd_opdesc_arg(op, 0, "AxisTensor"))
        return 0;
    for (int i = 0; i < x->args.n; i++) {
        const struct pd_var *var = pd_block_var(f->block, x->args.at[i]);
        if (pd_map_number(&e->first, x->args.at[i]) < 0 || !var || var->meta.rank < 1 || var->meta.dim[0] < 0)
            return 0;
        struct pd_fuse_use use = pd_fuse_use_of(f, var->name);
        if (pd_map_has(&f->kept, x->args.at[i]) || use.reads != 1 || use.writes != 1) return 0;
    }
    return 1;
}

/* Slices of a variable without a known height are left to recv itself. */
static int belongs(const struct pd_fuse *f, const struct pd_opdesc *op)
{
    if (pd_fuse_is(op, "fetch_barrier")) return 1;
    return pd_fuse_is(op, "recv") && (slices_of(op) < 2 || rows_of(f, op) >= slices_of(op));
}

/* The next op behind position *at, which moves there; NULL: it was the last. */
static struct pd_opdesc *next_op(const struct pd_fuse *f, int *at)
{
    while (++*at < f->places.n)
        if (f->places.at[*at]) return f->places.at[*at];
    return NULL;
}

/* The exchange that starts at `at`: what it receives, and its ops. */
static pd_status read_exchange(const struct pd_fuse *f, int at, struct exchange *e)
{
    struct pd_opdesc *op = pd_fuse_op(f, at);
    if (pd_fuse_is(op, "send_barrier")) {
        e->endpoints = pd_opdesc_attr(op, "endpoints");
        e->trainer_id = pd_opdesc_attr(op, "trainer_id");
        if (!pd_vec_push(&e->ops, op)) return pd_no_memory();
        op = next_op(f, &at);
    }
    for (; op && belongs(f, op); op = next_op(f, &at)) {
        if (pd_fuse_is(op, "recv"))
            PD_TRY(add_recv(f, e, op));
        else
            e->all = pd_opdesc_attr(op, "endpoints");
        if (!e->job) e->job = pd_opdesc_attr(op, "job");
        if (!pd_vec_push(&e->ops, op)) return pd_no_memory();
    }
    for (; op && joins_slices(f, e, op); op = next_op(f, &at))
        if (!pd_vec_push(&e->ops, op)) return pd_no_memory();
    return PD_OK;
}

static pd_status place(struct exchange *e, const char *out, int64_t rows)
{
    int same = e->outs.n && strcmp(e->outs.at[e->outs.n - 1], out) == 0;
    if (!same && !pd_vec_push(&e->outs, out)) return pd_no_memory();
    return pd_vec_push(&e->into, e->outs.n - 1) && pd_vec_push(&e->rows, rows) ? PD_OK : pd_no_memory();
}

/* The same names in the order of the outputs that they fill. */
struct ordered {
    PD_VEC(const char *) names;
    PD_VEC(const char *) epmap;
};

static pd_status place_name(struct exchange *e, int i, const char *out, int64_t rows, struct ordered *to)
{
    PD_TRY(place(e, out, rows));
    return pd_vec_push(&to->names, e->names.at[i]) && pd_vec_push(&to->epmap, e->epmap.at[i])
               ? PD_OK
               : pd_no_memory();
}

static const struct pd_io *joined_by(const struct pd_opdesc *op)
{
    return pd_fuse_is(op, "concat") ? pd_opdesc_slot(op, 0, "X") : NULL;
}

/* First those that are outputs themselves, then the slices of each concat. */
static pd_status place_names(const struct pd_fuse *f, struct exchange *e, struct pd_map *joined,
                             struct ordered *to)
{
    for (int k = 0; k < e->ops.n; k++) {
        const struct pd_io *x = joined_by(e->ops.at[k]);
        for (int s = 0; x && s < x->args.n; s++)
            if (!pd_map_add(joined, x->args.at[s])) return pd_no_memory();
    }
    for (int i = 0; i < e->locals.n; i++)
        if (!pd_map_has(joined, e->locals.at[i]))
            PD_TRY(place_name(e, i, e->locals.at[i], e->slices.at[i], to));
    for (int k = 0; k < e->ops.n; k++) {
        const struct pd_io *x = joined_by(e->ops.at[k]);
        for (int s = 0; x && s < x->args.n; s++)
            PD_TRY(place_name(e, pd_map_number(&e->first, x->args.at[s]), pd_fuse_arg(e->ops.at[k], 1, "Out"),
                              pd_block_var(f->block, x->args.at[s])->meta.dim[0], to));
    }
    return PD_OK;
}

static pd_status place_all(const struct pd_fuse *f, struct exchange *e)
{
    struct ordered to = {0};
    struct pd_map joined = {0};
    pd_status status = place_names(f, e, &joined, &to);
    pd_map_free(&joined);
    pd_vec_free(&e->names);
    pd_vec_free(&e->epmap);
    e->names.at = to.names.at, e->names.n = to.names.n, e->names.cap = to.names.cap;
    e->epmap.at = to.epmap.at, e->epmap.n = to.epmap.n, e->epmap.cap = to.epmap.cap;
    return status;
}

static pd_status fill_op(struct pd_opdesc *op, const struct exchange *e)
{
    PD_TRY(pd_opdesc_set_args(op, 1, "Out", e->outs.n, e->outs.at));
    PD_TRY(pd_opdesc_set_strings(op, "names", e->names.n, e->names.at));
    PD_TRY(pd_opdesc_set_strings(op, "epmap", e->epmap.n, e->epmap.at));
    if (e->endpoints) PD_TRY(pd_opdesc_set_attr(op, "endpoints", e->endpoints, 0));
    if (e->trainer_id) PD_TRY(pd_opdesc_set_attr(op, "trainer_id", e->trainer_id, 0));
    if (e->trainers) PD_TRY(pd_opdesc_set_attr(op, "trainers", e->trainers, 0));
    if (e->all) PD_TRY(pd_opdesc_set_attr(op, "all", e->all, 0));
    if (e->job) PD_TRY(pd_opdesc_set_attr(op, "job", e->job, 0));
    PD_TRY(pd_opdesc_set_attr(
        op, "into", &(struct pd_attr){.type = PD_ATTR_INTS, .n = e->into.n, .ints = e->into.at}, 0));
    return pd_opdesc_set_attr(
        op, "rows", &(struct pd_attr){.type = PD_ATTR_LONGS, .n = e->rows.n, .longs = e->rows.at}, 0);
}

static pd_status fuse_exchange(struct pd_fuse *f, int at)
{
    struct exchange e = {0};
    struct pd_opdesc *op = NULL;
    pd_status status = read_exchange(f, at, &e);
    if (status == PD_OK && e.ops.n > 1) status = pd_fuse_new(f, "ps_exchange", &op);
    if (status == PD_OK && op) status = place_all(f, &e);
    if (status == PD_OK && op) status = fill_op(op, &e);
    if (status == PD_OK && op)
        status = pd_fuse_replace(f, op, e.ops.n, e.ops.at, 0);
    else
        pd_opdesc_free(op);
    exchange_free(&e);
    return status;
}

pd_status pd_fuse_exchanges(struct pd_fuse *f)
{
    for (int i = 0; i < f->places.n; i++) {
        const struct pd_opdesc *op = pd_fuse_op(f, i);
        if (pd_fuse_is(op, "send"))
            PD_TRY(fuse_send(f, i));
        else if (pd_fuse_is(op, "send_barrier") || pd_fuse_is(op, "recv"))
            PD_TRY(fuse_exchange(f, i));
    }
    return PD_OK;
}
