/* matmul: products of matrices and of stacks of matrices, with transposes and a factor. A vector X is a row,
 * a vector Y a column. Where only one side is a stack, the other is used for each of its matrices.
 * head_number splits the columns of X and the rows of Y into that many parts whose products lie side by side.
 */
#include <string.h>

#include "kernels/gemm.h"
#include "ops/check.h"
#include "ops/out.h"

enum { X, Y };
enum { OUT };
enum {
    TRANS_X,
    TRANS_Y,
    ALPHA,
    FUSED_RESHAPE,
    FUSED_TRANSPOSE,
    SCALE_X,
    SCALE_Y,
    SCALE_OUT,
    FORCE_FP32,
    HEADS
};
enum { GRAD_OUT = 2 };
enum { DX, DY };

static const struct pd_attr_def attrs[] = {
    PD_DEF_BOOL("transpose_X", 0),
    PD_DEF_BOOL("transpose_Y", 0),
    PD_DEF_FLOAT("alpha", 1),
    PD_DEF_INTS("fused_reshape_Out"),
    PD_DEF_INTS("fused_transpose_Out"),
    PD_DEF_FLOAT("Scale_x", 1),
    PD_DEF_FLOAT("Scale_y", 1),
    PD_DEF_FLOAT("Scale_out", 1),
    PD_DEF_BOOL("force_fp32_output", 0),
    PD_DEF_INT("head_number", 1),
    {0},
};

/* One operand: `count` matrices where it is a stack (rank above 2; it may be empty), rows x cols after the
 * transpose. In elements from one matrix to the next, from one part of it to the next, from row to row: step,
 * part, ld. */
struct side {
    int64_t count, rows, cols, step, part, ld;
    int trans;
};

static struct side side_of(const struct pd_meta *meta, int is_y, int trans)
{
    struct side s = {.trans = trans};
    if (meta->rank == 1) {
        s.rows = is_y ? meta->dim[0] : 1;
        s.cols = is_y ? 1 : meta->dim[0];
    } else {
        s.rows = meta->dim[meta->rank - 2];
        s.cols = meta->dim[meta->rank - 1];
        if (meta->rank > 2) s.count = pd_meta_span(meta, 0, meta->rank - 2);
    }
    s.ld = s.cols;
    s.step = s.rows * s.cols;
    if (trans) {
        int64_t t = s.rows;
        s.rows = s.cols;
        s.cols = t;
    }
    return s;
}

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X), *y = pd_infer_in(c, Y);
    struct pd_meta *out = pd_infer_out(c, OUT);
    PD_TRY(pd_check_float(x, "X"));
    PD_TRY(pd_check_same_type(x, "X", y, "Y"));
    PD_TRY(pd_check_rank(x, "X", 1, PD_MAX_RANK));
    PD_TRY(pd_check_rank(y, "Y", 1, PD_MAX_RANK));
    struct side a = side_of(x, 0, c->attr[TRANS_X].b), b = side_of(y, 1, c->attr[TRANS_Y].b);
    int64_t heads = c->attr[HEADS].i;
    int by_head = heads > 1 && a.cols == b.rows;
    if (a.cols >= 0 && b.rows >= 0 && a.cols != b.rows && !(heads > 1 && a.cols * heads == b.rows))
        return pd_fail(PD_SHAPE, "X %s%s has %lld columns, Y %s%s has %lld rows. They must be equal.",
                       pd_meta_dims_text(x), a.trans ? " transposed" : "", (long long)a.cols,
                       pd_meta_dims_text(y), b.trans ? " transposed" : "", (long long)b.rows);
    if (heads > 1 && a.cols != b.rows)
        return pd_fail(PD_UNSUPPORTED,
                       "head_number %lld with Y cut by columns is not supported. Multiply per head instead.",
                       (long long)heads);
    if (heads > 1 && a.cols >= 0 && a.cols % heads)
        return pd_fail(PD_INVALID, "head_number %lld does not divide the %lld columns of X.",
                       (long long)heads, (long long)a.cols);
    if (c->attr[FUSED_RESHAPE].n)
        return pd_fail(
            PD_UNSUPPORTED,
            "fused_reshape_Out is for one backend's fused graphs. Use matmul, transpose, reshape.");
    if (x->rank > 2 && y->rank > 2 && a.count >= 0 && b.count >= 0 && a.count != b.count)
        return pd_fail(PD_SHAPE,
                       "X %s holds %lld matrices, Y %s holds %lld. Give equal numbers, or one plain matrix.",
                       pd_meta_dims_text(x), (long long)a.count, pd_meta_dims_text(y), (long long)b.count);
    if (!out) return PD_OK;
    out->dtype = x->dtype;
    const struct pd_meta *stack = x->rank > 2 ? x : y->rank > 2 ? y : NULL;
    int64_t dim[PD_MAX_RANK];
    int rank = 0;
    for (; stack && rank < stack->rank - 2; rank++)
        dim[rank] = stack->dim[rank];
    int64_t width = by_head ? b.cols * heads : b.cols;
    if (!(x->rank == 1 && a.rows == 1)) dim[rank++] = a.rows;
    if (!(y->rank == 1 && width == 1)) dim[rank++] = width;
    if (rank == 0) dim[rank++] = 1;
    PD_TRY(pd_meta_set_dims(out, rank, dim));
    pd_meta_share_lod(out, x);
    return PD_OK;
}

struct shape {
    struct side a, b, out;
    int64_t count, heads, depth; /* products; parts per product; columns of X in a part */
};

static struct shape shape_of(const struct pd_run *r)
{
    struct shape s = {side_of(&pd_run_in(r, X)->meta, 0, r->attr[TRANS_X].b),
                      side_of(&pd_run_in(r, Y)->meta, 1, r->attr[TRANS_Y].b),
                      .heads = r->attr[HEADS].i > 1 ? r->attr[HEADS].i : 1};
    int x_stack = pd_run_in(r, X)->meta.rank > 2, y_stack = pd_run_in(r, Y)->meta.rank > 2;
    s.count = x_stack ? s.a.count : y_stack ? s.b.count : 1;
    if (!x_stack) s.a.step = 0;
    if (!y_stack) s.b.step = 0;
    s.depth = s.a.cols / s.heads;
    /* A stack times one matrix is one tall product. */
    if (x_stack && !y_stack && !s.a.trans && s.heads == 1) {
        s.a.rows *= s.count;
        s.count = s.count ? 1 : 0;
    }
    s.a.part = s.depth * (s.a.trans ? s.a.ld : 1);
    s.b.part = s.depth * (s.b.trans ? 1 : s.b.ld);
    s.out.part = s.b.cols;
    s.out.ld = s.b.cols * s.heads;
    s.out.step = s.a.rows * s.out.ld;
    return s;
}

/* Part h of matrix i. */
static void *part_of(const struct side *s, const struct pd_tensor *t, int64_t i, int64_t h)
{
    return (char *)t->data + (i * s->step + h * s->part) * (int64_t)pd_dtype_size(t->meta.dtype);
}

static struct pd_factor factor_of(const struct side *s, const struct pd_tensor *t, int64_t i, int64_t h)
{
    return (struct pd_factor){part_of(s, t, i, h), s->ld, s->trans};
}

static struct pd_factor turned(struct pd_factor f)
{
    f.trans = !f.trans;
    return f;
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X), *y = pd_run_in(r, Y);
    struct shape s = shape_of(r);
    struct pd_gemm g = {
        .m = s.a.rows, .n = s.b.cols, .k = s.depth, .ldc = s.out.ld, .alpha = r->attr[ALPHA].f};
    for (int64_t i = 0; i < s.count; i++)
        for (int64_t h = 0; h < s.heads; h++) {
            g.a = factor_of(&s.a, x, i, h);
            g.b = factor_of(&s.b, y, i, h);
            g.c = part_of(&s.out, pd_run_out(r, OUT), i, h);
            pd_gemm(x->meta.dtype == PD_DTYPE_FP64, &g);
        }
    return PD_OK;
}

static pd_status grad_run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X), *y = pd_run_in(r, Y), *dout = pd_run_in(r, GRAD_OUT);
    struct pd_tensor *dx = pd_run_out(r, DX), *dy = pd_run_out(r, DY);
    int is_double = x->meta.dtype == PD_DTYPE_FP64;
    struct shape s = shape_of(r);
    int64_t m = s.a.rows, n = s.b.cols, k = s.depth;
    if (s.count == 0) {
        if (dx) memset(dx->data, 0, pd_tensor_bytes(dx));
        if (dy) memset(dy->data, 0, pd_tensor_bytes(dy));
    }
    for (int64_t i = 0; i < s.count; i++)
        for (int64_t h = 0; h < s.heads; h++) {
            struct pd_factor a = factor_of(&s.a, x, i, h), b = factor_of(&s.b, y, i, h),
                             d = factor_of(&s.out, dout, i, h);
            /* As X and Y lie in memory. One matrix that served the whole stack gathers the gradients of all.
             */
            if (dx)
                pd_gemm(is_double,
                        &(struct pd_gemm){a.trans ? k : m, a.trans ? m : k, n, a.trans ? b : d,
                                          turned(a.trans ? d : b), part_of(&s.a, dx, i, h), s.a.ld,
                                          .alpha = r->attr[ALPHA].f, .beta = i > 0 && s.a.step == 0});
            if (dy)
                pd_gemm(is_double,
                        &(struct pd_gemm){b.trans ? n : k, b.trans ? k : n, m, turned(b.trans ? d : a),
                                          b.trans ? a : d, part_of(&s.b, dy, i, h), s.b.ld,
                                          .alpha = r->attr[ALPHA].f, .beta = i > 0 && s.b.step == 0});
        }
    return PD_OK;
}

const struct pd_op pd_op_matmul = {
    .type = "matmul",
    .doc = "Product of matrices or of stacks of matrices.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {"Y", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},
    .attrs = attrs,
    .infer = infer,
    .run = run,
    .grad_type = "matmul_grad",
    .grad_in = "X Y Out@",
    .grad_out = "X@ Y@",
};

const struct pd_op pd_op_matmul_grad = {
    .type = "matmul_grad",
    .doc = "Gradient of matmul.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {"Y", 0}, {"Out@GRAD", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"X@GRAD", PD_SLOT_OPTIONAL}, {"Y@GRAD", PD_SLOT_OPTIONAL}, {0}},
    .attrs = attrs,
    .infer = pd_out_infer_like_both,
    .run = grad_run,
};
