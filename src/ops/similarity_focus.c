/* similarity_focus: marks the largest elements of some planes of an image, at most one in each row and
 * column. */
#include <string.h>

#include "kernels/sort.h"
#include "ops/check.h"
#include "ops/out.h"
#include "ops/scratch.h"

enum { X };
enum { OUT };
enum { AXIS, INDEXES };

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X);
    int axis = c->attr[AXIS].i;
    const struct pd_attr *indexes = &c->attr[INDEXES];
    if (x->rank != 4)
        return pd_fail(PD_SHAPE, "X has shape %s; it must have 4 dimensions", pd_meta_dims_text(x));
    if (axis < 1 || axis > 3) return pd_fail(PD_RANGE, "axis is %d; it must be 1, 2 or 3", axis);
    if (indexes->n == 0) return pd_fail(PD_INVALID, "indexes is empty; name at least one plane");
    for (int i = 0; i < indexes->n; i++)
        if (indexes->ints[i] < 0 || (x->dim[axis] >= 0 && indexes->ints[i] >= x->dim[axis]))
            return pd_fail(PD_RANGE, "indexes[%d] is %d, but axis %d of X (shape %s) has %lld planes", i,
                           indexes->ints[i], axis, pd_meta_dims_text(x), (long long)x->dim[axis]);
    PD_TRY(pd_check_float(x, "X"));
    pd_out_like(c, OUT, X);
    return PD_OK;
}

/* One plane of one image: rows x columns elements, and where they lie. */
struct plane {
    int64_t rows, columns, row_step, column_step; /* in the image */
    int64_t depth, depth_step;                    /* along the axis that the plane cuts */
    uint8_t *used;                                /* rows, then columns */
    char *memory;                                 /* keys, their order, room for sorting */
};

#define MARK(name, T, suffix)                                                                                \
    static void name(const struct plane *p, const T *x, T *out)                                              \
    {                                                                                                        \
        int64_t n = p->rows * p->columns, taken = 0, most = p->rows < p->columns ? p->rows : p->columns;     \
        T *keys = (T *)p->memory;                                                                            \
        int64_t *order = (int64_t *)(p->memory + n * 8);                                                     \
        for (int64_t i = 0; i < p->rows; i++)                                                                \
            for (int64_t k = 0; k < p->columns; k++)                                                         \
                keys[i * p->columns + k] = x[i * p->row_step + k * p->column_step];                          \
        pd_sort_##suffix(keys, n, 1, 1, NULL, order, (struct pd_sort_pair_##suffix *)(p->memory + n * 16));  \
        memset(p->used, 0, (size_t)(p->rows + p->columns));                                                  \
        for (int64_t i = 0; i < n && taken < most; i++) {                                                    \
            int64_t row = order[i] / p->columns, column = order[i] % p->columns;                             \
            if (p->used[row] || p->used[p->rows + column]) continue;                                         \
            p->used[row] = p->used[p->rows + column] = 1;                                                    \
            taken++;                                                                                         \
            for (int64_t d = 0; d < p->depth; d++)                                                           \
                out[row * p->row_step + column * p->column_step + d * p->depth_step] = 1;                    \
        }                                                                                                    \
    }
MARK(mark_f32, float, f32)
MARK(mark_f64, double, f64)

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X);
    struct pd_tensor *out = pd_run_out(r, OUT);
    const int64_t *d = x->meta.dim, step[4] = {d[1] * d[2] * d[3], d[2] * d[3], d[3], 1};
    int axis = r->attr[AXIS].i, row = axis == 1 ? 2 : 1, column = axis == 3 ? 2 : 3;
    struct plane p = {d[row], d[column], step[row], step[column], d[axis], step[axis], NULL, NULL};
    int64_t n = p.rows * p.columns;
    memset(out->data, 0, pd_tensor_bytes(out));
    PD_TRY(pd_scratch(r, (size_t)(n * 16 + pd_sort_bytes(n) + p.rows + p.columns), (void **)&p.memory));
    p.used = (uint8_t *)p.memory + n * 16 + pd_sort_bytes(n);
    for (int64_t i = 0; i < d[0]; i++)
        for (int k = 0; k < r->attr[INDEXES].n; k++) {
            int64_t image = i * step[0], at = image + r->attr[INDEXES].ints[k] * step[axis];
            if (x->meta.dtype == PD_DTYPE_FP32)
                mark_f32(&p, (const float *)x->data + at, (float *)out->data + image);
            else
                mark_f64(&p, (const double *)x->data + at, (double *)out->data + image);
        }
    return PD_OK;
}

const struct pd_op pd_op_similarity_focus = {
    .type = "similarity_focus",
    .doc = "A mask of the largest elements of the planes indexes along axis, one in each row and column.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},
    .attrs = (const struct pd_attr_def[]){PD_DEF_INT("axis", 1), PD_DEF_INTS("indexes"), {0}},
    .flags = PD_OP_NO_GRAD,
    .infer = infer,
    .run = run,
};
