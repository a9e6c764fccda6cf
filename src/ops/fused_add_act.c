/* Ops of plans: a sum and an activation of it, and their gradients, block by block, so that what the first
 * one makes is still in the cache for the second. The kernels are those of the ops they stand for. */
#include <string.h>

#include "base/alloc.h"
#include "base/parallel.h"
#include "kernels/ew_binary.h"
#include "kernels/reduce.h"
#include "ops/act.h"
#include "ops/elementwise.h"
#include "ops/fused.h"
#include "ops/out.h"
#include "ops/scratch.h"

#define BLOCK 4096  /* elements done at a time */
#define GRAIN 16384 /* elements worth a thread */

enum { X, Y, G_OUT, G_DOUT };
enum { OUT };
enum { DX, DY };
enum { AXIS, ACT };
enum { PART_ADD, PART_ACT };           /* forward */
enum { PART_ACT_GRAD, PART_ADD_GRAD }; /* backward */

static const struct pd_attr_def attrs[] = {PD_DEF_INT("axis", -1), PD_DEF_STRING("act", "relu"), {0}};

/* The name is looked at once. */
static const struct pd_act *act_of(const struct pd_run *r)
{
    const struct pd_act **known = r->state;
    const char *name = r->attr[ACT].s;
    if (!*known)
        *known = strcmp(name, "tanh") == 0      ? &pd_act_tanh
                 : strcmp(name, "sigmoid") == 0 ? &pd_act_sigmoid
                                                : &pd_act_relu;
    return *known;
}

static pd_status need_float(enum pd_dtype dtype, int part)
{
    if (pd_dtype_is_float(dtype)) return PD_OK;
    return pd_fused_part(part,
                         pd_fail(PD_TYPE, "this op needs float32 or float64, found %s; cast the input first",
                                 pd_dtype_name(dtype)));
}

/* ---- forward ---- */

static pd_status infer(const struct pd_infer *c)
{
    return pd_elementwise_infer(c, AXIS, PD_DTYPE_NONE);
}

struct forward {
    pd_ew_kernel add;
    pd_act_kernel act;
    struct pd_ew_arrays arrays;
    struct pd_act_call call;
};

static void forward_block(const struct forward *f, const struct pd_tile *t)
{
    f->add(&f->arrays, t);
    f->act(&f->call, t->at, t->at + t->rows * t->n);
}

/* A tile's rows follow each other in the result. Several short rows, or a piece of a long one, make a block.
 */
static void forward_tile(void *arg, const struct pd_tile *tile)
{
    const struct forward *f = arg;
    struct pd_tile t = *tile;
    if (tile->rows * tile->n <= BLOCK) {
        forward_block(f, tile);
        return;
    }
    t.rows = tile->n < BLOCK ? BLOCK / tile->n : 1;
    for (int64_t row = 0; row < tile->rows; row += t.rows) {
        if (t.rows > tile->rows - row) t.rows = tile->rows - row;
        for (int64_t at = 0; at < tile->n; at += t.n) {
            t.n = tile->n - at < BLOCK ? tile->n - at : BLOCK;
            t.at = tile->at + row * tile->n + at;
            t.x = tile->x + row * tile->x_row + at * tile->x_step;
            t.y = tile->y + row * tile->y_row + at * tile->y_step;
            forward_block(f, &t);
        }
    }
}

static pd_status run(const struct pd_run *r)
{
    struct forward f = {0};
    struct pd_bcast b;
    enum pd_dtype dtype = pd_run_in(r, X)->meta.dtype;
    PD_TRY(need_float(dtype, PART_ACT));
    PD_TRY(pd_elementwise_begin(r, pd_ew_add, r->attr[AXIS].i, &b, &f.arrays, &f.add));
    f.act = act_of(r)->forward[dtype == PD_DTYPE_FP64 ? PD_EW_F64 : PD_EW_F32];
    f.call = (struct pd_act_call){.to = f.arrays.to, .from = f.arrays.to};
    pd_bcast_run(&b, GRAIN, forward_tile, &f);
    return PD_OK;
}

/* ---- backward ---- */

/* Rows of a matrix: the gradient of the sum is made row block by row block and added to the column sums. */
struct backward {
    pd_act_kernel act;
    struct pd_act_call call;
    const struct pd_reduce_kernel *sum; /* NULL: no sums are wanted */
    int64_t rows, columns, parts;
    char *sums; /* of part 0; the others follow */
};

/* The cut into parts and the order of additions are those of pd_reduce_run: by shape, and pairs of rows stay
 * together. */
static void backward_part(const struct backward *b, int64_t part)
{
    int64_t row = b->rows * part / b->parts, end = b->rows * (part + 1) / b->parts;
    int64_t step = b->columns < BLOCK / 2 ? BLOCK / b->columns / 2 * 2 : 2;
    size_t item = b->sum ? b->sum->item : 0;
    char *sums = b->sum ? b->sums + (size_t)(part * b->columns) * item : NULL;
    if (b->sum) memset(sums, 0, (size_t)b->columns * item);
    for (; row < end; row += step) {
        int64_t n = end - row < step ? end - row : step;
        b->act(&b->call, row * b->columns, (row + n) * b->columns);
        if (b->sum)
            b->sum->merge(sums, (char *)b->call.to + (size_t)(row * b->columns) * item, b->columns, n,
                          b->columns);
    }
}

static void backward_parts(void *arg, int64_t begin, int64_t end)
{
    for (int64_t part = begin; part < end; part++)
        backward_part(arg, part);
}

static void act_range(void *arg, int64_t begin, int64_t end)
{
    const struct backward *b = arg;
    b->act(&b->call, begin, end);
}

/* A bias of other shape than a row, or columns so many that pd_reduce_run cuts by columns: one after the
 * other. */
static pd_status one_by_one(struct pd_ew_grad *g, struct backward *b, struct pd_tensor *dx,
                            struct pd_tensor *dy)
{
    void *aside = NULL;
    int repeated = pd_tensor_numel(dx) != g->b.count;
    if (repeated) {
        aside = pd_malloc_aligned((size_t)g->b.count * pd_dtype_size(g->dtype));
        if (!aside) return pd_no_memory();
        b->call.to = aside;
    }
    pd_parallel(g->b.count, GRAIN, act_range, b);
    g->arrays.dout = b->call.to;
    pd_status status = dy ? pd_ew_grad_operand(g, NULL, g->a.y, dy) : PD_OK;
    if (status == PD_OK && repeated) status = pd_ew_grad_operand(g, NULL, g->a.x, dx);
    pd_free_aligned(aside);
    return status;
}

static pd_status grad_run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X), *y = pd_run_in(r, Y), *out = pd_run_in(r, G_OUT),
                           *dout = pd_run_in(r, G_DOUT);
    struct pd_tensor *dx = pd_run_out(r, DX), *dy = pd_run_out(r, DY);
    struct pd_ew_grad g;
    PD_TRY(need_float(dout->meta.dtype, PART_ACT_GRAD));
    if (pd_tensor_numel(out) != pd_tensor_numel(dout))
        return pd_fused_part(PART_ACT_GRAD,
                             pd_fail(PD_SHAPE, "Out has shape %s, Out@GRAD has shape %s; they must be equal",
                                     pd_meta_dims_text(&out->meta), pd_meta_dims_text(&dout->meta)));
    PD_TRY(pd_fused_part(PART_ADD_GRAD, pd_ew_grad_begin(&g, r, x, y, dout, r->attr[AXIS].i)));

    struct backward b = {.act = act_of(r)->backward[g.type]};
    b.call = (struct pd_act_call){.to = dx->data, .from = out->data, .dout = dout->data};
    int is_row = g.b.rank == 2 && g.b.x_step[0] && g.b.x_step[1] && !g.b.y_step[0] && g.b.y_step[1];
    if (!is_row || g.b.count == 0) return one_by_one(&g, &b, dx, dy);

    struct pd_reduce reduce;
    b.rows = g.b.dim[0];
    b.columns = g.b.dim[1];
    pd_reduce_make(&reduce, 2, (int64_t[]){b.rows, b.columns}, (uint8_t[]){1, 0});
    b.parts = reduce.parts;
    b.sums = dy ? dy->data : NULL;
    b.sum = dy ? &pd_reduce_sum[g.type] : NULL;
    if (b.parts == 1 && g.b.count >= 2 * GRAIN) return one_by_one(&g, &b, dx, dy);
    if (b.parts > 1 && dy) PD_TRY(pd_scratch(r, pd_reduce_scratch(&reduce, b.sum), (void **)&b.sums));
    pd_parallel(b.parts, 1, backward_parts, &b);
    if (b.parts > 1 && dy) {
        memset(dy->data, 0, (size_t)b.columns * b.sum->item);
        b.sum->join(dy->data, b.sums, b.columns, b.parts, b.columns);
    }
    return PD_OK;
}

const struct pd_op pd_op_fused_add_act = {
    .type = "fused_add_act",
    .doc = "Only in plans: elementwise_add and the activation behind it.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {"Y", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},
    .attrs = attrs,
    .flags = PD_OP_NO_GRAD,
    .infer = infer,
    .run = run,
    .share = (const struct pd_share[]){{OUT, X, 0}, {-1, -1, 0}},
    .state_size = sizeof(const struct pd_act *),
};

const struct pd_op pd_op_fused_add_act_grad = {
    .type = "fused_add_act_grad",
    .doc = "Only in plans: the gradient of an activation, then of the elementwise_add before it.",
    .inputs =
        (const struct pd_slot_def[]){
            {"X", PD_SLOT_META}, {"Y", PD_SLOT_META}, {"Out", 0}, {"Out@GRAD", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"X@GRAD", 0}, {"Y@GRAD", PD_SLOT_OPTIONAL}, {0}},
    .attrs = attrs,
    .flags = PD_OP_NO_GRAD,
    .infer = pd_out_infer_same_both,
    .run = grad_run,
    .share = (const struct pd_share[]){{DX, G_DOUT, 0}, {-1, -1, 0}},
    .state_size = sizeof(const struct pd_act *),
};
