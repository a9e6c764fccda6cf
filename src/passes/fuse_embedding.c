/* Fusion of embeddings that one concat joins: lookup_table, perhaps with sequence_pool SUM behind it, then
 * concat along the second dimension; and the way back to sparse gradients of the tables.
 *
 * The gradient ops read the shapes of what the forward ops make, so that an embedding goes with both or
 * stays. One that stays is a plain input of the concat, like any other. */
#include "passes/fuse.h"

#include <string.h>

struct item {
    const char *name;                          /* the concat's input */
    struct pd_opdesc *lookup, *pool;           /* lookup is NULL: a plain input; pool may be */
    struct pd_opdesc *pool_grad, *lookup_grad; /* NULL: no gradient is wanted */
    const char *rows;                          /* the table's gradient from this lookup */
    struct pd_opdesc *sum; /* that adds up `rows`, together with others of this group only; NULL: none */
    int part;              /* the lookup's number among the parts, then that of its gradient */
    int done;              /* is in an output of the gradient op */
};

struct group {
    struct pd_fuse *f;
    struct pd_opdesc *concat, *grad; /* grad is NULL: no gradient */
    int at, grad_at;                 /* their positions */
    struct item *items;
    int n;
};

static int is_sum_pool(const struct pd_opdesc *op, const char *type)
{
    return pd_fuse_is(op, type) && strcmp(pd_opdesc_attr(op, "pooltype")->s, "SUM") == 0;
}

static int flag(const struct pd_opdesc *op, const char *name)
{
    return pd_opdesc_attr(op, name)->b;
}

static int has_rank_2(const struct pd_fuse *f, const char *name)
{
    const struct pd_var *var = pd_fuse_float(f, name);
    return var && var->meta.rank == 2;
}

/* The lookup behind an input of the concat. */
static int match_forward(const struct group *g, struct item *item)
{
    const struct pd_fuse *f = g->f;
    struct pd_fuse_use use;
    int shapes = g->grad != NULL; /* the gradient of what reads it reads its shape */
    if (!has_rank_2(f, item->name) || !pd_fuse_may_go(f, item->name, 1 + shapes, &use)) return 0;
    struct pd_opdesc *op = pd_fuse_op(f, use.writer);
    if (is_sum_pool(op, "sequence_pool")) {
        const char *x = pd_fuse_arg(op, 0, "X"), *index = pd_fuse_arg(op, 1, "MaxIndex");
        item->pool = op;
        if (index && !pd_fuse_may_go(f, index, 0, &use)) return 0;
        if (!has_rank_2(f, x) || !pd_fuse_may_go(f, x, 1 + (item->pool_grad != NULL), &use)) return 0;
        op = pd_fuse_op(f, use.writer);
    }
    if (!pd_fuse_is(op, "lookup_table") && !pd_fuse_is(op, "lookup_table_v2")) return 0;
    const char *w = pd_fuse_arg(op, 0, "W"), *ids = pd_fuse_arg(op, 0, "Ids");
    if (!w || !ids || !pd_fuse_float(f, w) || flag(op, "is_distributed") || pd_opdesc_attr(op, "epmap")->n)
        return 0;
    if (pd_fuse_inputs_change(f, use.writer, g->at)) return 0;
    item->lookup = op;
    return 1;
}

/* The way of the gradient; before match_forward, which then checks that both belong together. */
static int match_backward(const struct group *g, struct item *item, const char *grad)
{
    const struct pd_fuse *f = g->f;
    struct pd_fuse_use use;
    if (!pd_fuse_may_go(f, grad, 1, &use)) return 0;
    struct pd_opdesc *op = pd_fuse_op(f, use.reader);
    if (is_sum_pool(op, "sequence_pool_grad") && pd_fuse_arg(op, 0, "Out@GRAD") == grad) {
        item->pool_grad = op;
        grad = pd_fuse_arg(op, 1, "X@GRAD");
        if (!pd_fuse_may_go(f, grad, 1, &use)) return 0;
        op = pd_fuse_op(f, use.reader);
    }
    if ((!pd_fuse_is(op, "lookup_table_grad") && !pd_fuse_is(op, "lookup_table_v2_grad")) ||
        !flag(op, "is_sparse"))
        return 0;
    item->lookup_grad = op;
    item->rows = pd_fuse_arg(op, 1, "W@GRAD");
    const struct pd_var *rows = item->rows ? pd_block_var(f->block, item->rows) : NULL;
    const char *ids = pd_fuse_arg(op, 0, "Ids");
    return pd_fuse_arg(op, 0, "Out@GRAD") == grad && rows && rows->meta.kind == PD_KIND_SELECTED_ROWS &&
           ids && pd_fuse_use_of(f, item->rows).writes == 1 &&
           !pd_fuse_used_between(f, item->rows, g->grad_at, use.reader) &&
           !pd_fuse_written_between(f, ids, g->grad_at, use.reader);
}

static int belong_together(const struct item *item)
{
    const struct pd_opdesc *back = item->lookup_grad, *pool_back = item->pool_grad;
    if (!back) return 1;
    if (!item->pool != !pool_back ||
        (pool_back && pd_fuse_arg(pool_back, 0, "X") != pd_fuse_arg(item->pool, 0, "X")))
        return 0;
    return pd_fuse_arg(back, 0, "W") == pd_fuse_arg(item->lookup, 0, "W") &&
           pd_fuse_arg(back, 0, "Ids") == pd_fuse_arg(item->lookup, 0, "Ids") &&
           pd_opdesc_attr(back, "padding_idx")->l == pd_opdesc_attr(item->lookup, "padding_idx")->l;
}

static void match_item(const struct group *g, int i)
{
    struct item *item = &g->items[i];
    const struct pd_io *grads = g->grad ? pd_opdesc_slot(g->grad, 1, "X@GRAD") : NULL;
    const char *grad =
        grads && i < grads->args.n && strcmp(grads->args.at[i], PD_EMPTY_VAR) != 0 ? grads->args.at[i] : NULL;
    int fits = (!grad || match_backward(g, item, grad)) && match_forward(g, item) && belong_together(item);
    if (!fits) *item = (struct item){.name = item->name};
}

/* The op that adds up the gradients of one table, when they are all of this group. */
static void match_sum(const struct group *g, struct item *item)
{
    const struct pd_fuse *f = g->f;
    struct pd_fuse_use use;
    if (!item->lookup_grad || !pd_fuse_may_go(f, item->rows, 1, &use)) return;
    struct pd_opdesc *sum = pd_fuse_op(f, use.reader);
    const struct pd_io *x = pd_fuse_is(sum, "sum") ? pd_opdesc_slot(sum, 0, "X") : NULL;
    const char *out = x ? pd_fuse_arg(sum, 1, "Out") : NULL;
    if (!out || pd_fuse_use_of(f, out).writes != 1 || pd_fuse_used_between(f, out, g->grad_at, use.reader))
        return;
    for (int k = 0; k < x->args.n; k++) {
        int known = 0;
        for (int i = 0; i < g->n; i++)
            known |= g->items[i].lookup_grad && g->items[i].rows == x->args.at[k] &&
                     pd_fuse_arg(g->items[i].lookup, 0, "W") == pd_fuse_arg(item->lookup, 0, "W") &&
                     pd_fuse_may_go(f, x->args.at[k], 1, &use);
        if (!known) return;
    }
    item->sum = sum;
}

/* ---- the new ops ---- */

static pd_status set_ints(struct pd_opdesc *op, const char *name, int n, const int32_t *ints)
{
    return pd_opdesc_set_attr(op, name, &(struct pd_attr){.type = PD_ATTR_INTS, .n = n, .ints = ints}, 1);
}

/* Lists of as many numbers as the concat has inputs. */
struct lists {
    int n;
    int32_t *order, *version, *pooled, *part;
    int64_t *padding;
    float *pad;
};

static pd_status set_lists(const struct group *g, struct pd_opdesc *op, struct lists *l)
{
    for (int i = 0; i < g->n; i++) {
        const struct item *item = &g->items[i];
        l->order[i] = item->lookup != NULL;
        if (!item->lookup) {
            PD_TRY(pd_opdesc_add_arg(op, 0, "X", item->name));
            continue;
        }
        PD_TRY(pd_fuse_take_slot(op, 0, "W", item->lookup, "W"));
        PD_TRY(pd_fuse_take_slot(op, 0, "Ids", item->lookup, "Ids"));
        l->version[l->n] = pd_fuse_is(item->lookup, "lookup_table_v2") ? 2 : 1;
        l->pooled[l->n] = item->pool != NULL;
        l->part[l->n] = item->part;
        l->padding[l->n] = pd_opdesc_attr(item->lookup, "padding_idx")->l;
        l->pad[l->n++] = item->pool ? pd_opdesc_attr(item->pool, "pad_value")->f : 0;
    }
    PD_TRY(set_ints(op, "order", g->n, l->order));
    PD_TRY(set_ints(op, "version", l->n, l->version));
    PD_TRY(set_ints(op, "pooled", l->n, l->pooled));
    PD_TRY(set_ints(op, "part", l->n, l->part));
    PD_TRY(pd_opdesc_set_attr(op, "padding_idx",
                              &(struct pd_attr){.type = PD_ATTR_LONGS, .n = l->n, .longs = l->padding}, 1));
    return pd_opdesc_set_attr(op, "pad_value",
                              &(struct pd_attr){.type = PD_ATTR_FLOATS, .n = l->n, .floats = l->pad}, 1);
}

/* The inputs and attributes that all three ops have (ops/fused_embedding_concat.h). */
static pd_status describe(const struct group *g, struct pd_opdesc *op)
{
    size_t n = (size_t)g->n;
    int32_t *ints = pd_calloc(4 * n, sizeof *ints);
    int64_t *longs = pd_calloc(n, sizeof *longs);
    float *floats = pd_calloc(n, sizeof *floats);
    struct lists l = {0, ints, ints + n, ints + 2 * n, ints + 3 * n, longs, floats};
    pd_status status = ints && longs && floats ? set_lists(g, op, &l) : pd_no_memory();
    pd_free(ints);
    pd_free(longs);
    pd_free(floats);
    return status;
}

static pd_status finish(const struct group *g, struct pd_opdesc *op, pd_status status, int n,
                        struct pd_opdesc **parts, int at)
{
    if (status == PD_OK) return pd_fuse_replace(g->f, op, n, parts, at);
    pd_opdesc_free(op);
    return status;
}

static pd_status fuse_forward(const struct group *g, struct pd_opdesc *op, struct pd_opdesc **parts)
{
    int n = 0;
    for (int i = 0; i < g->n; i++) {
        g->items[i].part = n;
        if (g->items[i].lookup) parts[n++] = g->items[i].lookup;
        if (g->items[i].pool) parts[n++] = g->items[i].pool;
    }
    parts[n++] = g->concat;
    pd_status status = describe(g, op);
    if (status == PD_OK) status = pd_fuse_take_slot(op, 1, "Out", g->concat, "Out");
    return finish(g, op, status, n, parts, n - 1);
}

/* An output of the gradient op: the sum's, with its lookups in the sum's order, or that of a single lookup.
 */
static pd_status add_output(const struct group *g, struct pd_opdesc *op, struct item *item, int32_t *members,
                            int *n_members)
{
    const struct pd_io *x = item->sum ? pd_opdesc_slot(item->sum, 0, "X") : NULL;
    for (int k = 0; k < (x ? x->args.n : 1); k++)
        for (int i = 0, embedding = 0; i < g->n; embedding += g->items[i++].lookup != NULL)
            if (g->items[i].lookup_grad && g->items[i].rows == (x ? x->args.at[k] : item->rows)) {
                g->items[i].done = 1;
                members[(*n_members)++] = embedding;
            }
    return x ? pd_fuse_take_slot(op, 1, "W@GRAD", item->sum, "Out")
             : pd_opdesc_add_arg(op, 1, "W@GRAD", item->rows);
}

static pd_status add_outputs(const struct group *g, struct pd_opdesc *op, struct pd_opdesc **parts,
                             int *n_parts)
{
    int32_t *members = pd_calloc((size_t)(3 * g->n), sizeof *members), *counts = members + g->n,
            *keep = counts + g->n;
    int n = 0, n_members = 0;
    pd_status status = members ? PD_OK : pd_no_memory();
    for (int i = 0; i < g->n && status == PD_OK; i++) {
        struct item *item = &g->items[i];
        int before = n_members;
        if (!item->lookup_grad || item->done) continue;
        status = add_output(g, op, item, members, &n_members);
        counts[n] = n_members - before;
        keep[n++] = item->sum ? flag(item->sum, "keep_repeated_rows") : 1;
        if (item->sum) parts[(*n_parts)++] = item->sum;
    }
    if (status == PD_OK) status = set_ints(op, "members", n_members, members);
    if (status == PD_OK) status = set_ints(op, "counts", n, counts);
    if (status == PD_OK) status = set_ints(op, "keep", n, keep);
    pd_free(members);
    return status;
}

static pd_status fuse_tables(const struct group *g, struct pd_opdesc *op, struct pd_opdesc **parts)
{
    int n = 0;
    parts[n++] = g->grad;
    for (int i = 0; i < g->n; i++) {
        if (g->items[i].pool_grad) parts[n++] = g->items[i].pool_grad;
        g->items[i].part = n;
        if (g->items[i].lookup_grad) parts[n++] = g->items[i].lookup_grad;
    }
    pd_status status = describe(g, op);
    if (status == PD_OK) status = pd_fuse_take_slot(op, 0, "Out@GRAD", g->grad, "Out@GRAD");
    if (status == PD_OK) status = add_outputs(g, op, parts, &n);
    return finish(g, op, status, n, parts, 0);
}

/* The gradients of plain inputs; it takes the concat's gradient op only where there is nothing else. */
static pd_status fuse_plain(const struct group *g, struct pd_opdesc *op, int last)
{
    const struct pd_io *grads = pd_opdesc_slot(g->grad, 1, "X@GRAD");
    struct pd_opdesc *parts[] = {g->grad};
    pd_status status = describe(g, op);
    if (status == PD_OK) status = pd_fuse_take_slot(op, 0, "Out@GRAD", g->grad, "Out@GRAD");
    for (int i = 0; i < g->n && status == PD_OK; i++)
        if (!g->items[i].lookup)
            status = pd_opdesc_add_arg(op, 1, "X@GRAD", i < grads->args.n ? grads->args.at[i] : PD_EMPTY_VAR);
    if (status != PD_OK || last) return finish(g, op, status, 1, parts, 0);
    return pd_fuse_insert(g->f, op, g->grad);
}

/* ---- one concat ---- */

static int same_list(const struct pd_io *a, const struct pd_io *b)
{
    return a && b && a->args.n == b->args.n &&
           memcmp(a->args.at, b->args.at, (size_t)a->args.n * sizeof *a->args.at) == 0;
}

static int joins_columns(const struct group *g)
{
    int axis = pd_opdesc_attr(g->concat, "axis")->i;
    return (axis == 1 || axis == -1) && has_rank_2(g->f, pd_fuse_arg(g->concat, 1, "Out")) &&
           !pd_opdesc_arg(g->concat, 0, "AxisTensor");
}

/* Which of the gradient ops are needed. */
static void count_grads(const struct group *g, int *tables, int *plain)
{
    const struct pd_io *grads = g->grad ? pd_opdesc_slot(g->grad, 1, "X@GRAD") : NULL;
    *tables = *plain = 0;
    for (int i = 0; i < g->n; i++) {
        *tables += g->items[i].lookup_grad != NULL;
        *plain +=
            !g->items[i].lookup && grads && i < grads->args.n && strcmp(grads->args.at[i], PD_EMPTY_VAR) != 0;
    }
}

static pd_status fuse_group(const struct group *g)
{
    struct pd_opdesc *forward = NULL, *for_tables = NULL, *for_plain = NULL;
    struct pd_opdesc **parts = pd_calloc((size_t)(3 * g->n + 2), sizeof *parts);
    int tables, plain;
    count_grads(g, &tables, &plain);
    pd_status status = parts ? pd_fuse_new(g->f, "fused_embedding_concat", &forward) : pd_no_memory();
    if (status == PD_OK && tables) status = pd_fuse_new(g->f, "fused_embedding_concat_grad", &for_tables);
    if (status == PD_OK && plain) status = pd_fuse_new(g->f, "fused_embedding_concat_x_grad", &for_plain);
    int ready = status == PD_OK && forward && !for_tables == !tables && !for_plain == !plain;
    if (!ready) {
        pd_opdesc_free(forward);
        pd_opdesc_free(for_tables);
        pd_opdesc_free(for_plain);
        pd_free(parts);
        return status;
    }
    if (for_plain) status = fuse_plain(g, for_plain, !tables);
    if (for_tables && status == PD_OK)
        status = fuse_tables(g, for_tables, parts);
    else
        pd_opdesc_free(for_tables);
    if (status == PD_OK)
        status = fuse_forward(g, forward, parts);
    else
        pd_opdesc_free(forward);
    pd_free(parts);
    return status;
}

static int is_gradient(const struct pd_opdesc *op, const struct pd_opdesc *concat)
{
    return pd_fuse_is(op, "concat_grad") &&
           same_list(pd_opdesc_slot(concat, 0, "X"), pd_opdesc_slot(op, 0, "X"));
}

static pd_status fuse_concat(struct pd_fuse *f, int at)
{
    struct group g = {.f = f, .concat = pd_fuse_op(f, at), .at = at};
    const struct pd_io *x = pd_opdesc_slot(g.concat, 0, "X");
    if (!x || !x->args.n || !joins_columns(&g)) return PD_OK;
    g.grad = pd_fuse_reader(f, x->args.at[0], at, is_gradient, g.concat);
    if (g.grad) g.grad_at = g.grad->index;
    g.n = x->args.n;
    g.items = pd_calloc((size_t)g.n, sizeof *g.items);
    if (!g.items) return pd_no_memory();
    int embeddings = 0;
    for (int i = 0; i < g.n; i++) {
        g.items[i].name = x->args.at[i];
        match_item(&g, i);
        embeddings += g.items[i].lookup != NULL;
    }
    for (int i = 0; i < g.n; i++)
        match_sum(&g, &g.items[i]);
    pd_status status = embeddings ? fuse_group(&g) : PD_OK;
    pd_free(g.items);
    return status;
}

pd_status pd_fuse_embedding(struct pd_fuse *f)
{
    /* From the last to the first: what goes lies before the concat or belongs to its gradient. */
    for (int i = f->places.n - 1; i >= 0; i--)
        if (pd_fuse_is(pd_fuse_op(f, i), "concat")) PD_TRY(fuse_concat(f, i));
    return PD_OK;
}
