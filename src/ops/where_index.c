/* where_index: where a tensor is not 0. How large the result is depends on the data. */
#include "program/op.h"

enum { X };
enum { OUT };

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X);
    struct pd_meta *out = pd_infer_out(c, OUT);
    if (x->rank < 1) return pd_fail(PD_SHAPE, "Condition has no dimensions; it must have at least one");
    if (!out) return PD_OK;
    out->dtype = PD_DTYPE_INT64;
    pd_meta_set_2d(out, -1, x->rank);
    return PD_OK;
}

/* The position of each element that is not 0, as coordinates. Without `to` they are only counted. */
#define LIST_TRUE(T)                                                                                         \
    do {                                                                                                     \
        const T *data = x->data;                                                                             \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            if (data[i] == 0) continue;                                                                      \
            if (to) {                                                                                        \
                int64_t left = i;                                                                            \
                for (int k = rank - 1; k >= 0; k--) {                                                        \
                    to[count * rank + k] = left % x->meta.dim[k];                                            \
                    left /= x->meta.dim[k];                                                                  \
                }                                                                                            \
            }                                                                                                \
            count++;                                                                                         \
        }                                                                                                    \
        return count;                                                                                        \
    } while (0)

static int64_t list_true(const struct pd_tensor *x, int64_t *to)
{
    int64_t n = pd_tensor_numel(x), count = 0;
    int rank = x->meta.rank;
    PD_SWITCH_ANY(x->meta.dtype, T, LIST_TRUE(T))
    return -1;
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X);
    struct pd_tensor *out = pd_run_out(r, OUT);
    int64_t count = list_true(x, NULL);
    if (count < 0) return pd_fail(PD_TYPE, "Condition is %s; use bool", pd_dtype_name(x->meta.dtype));
    PD_TRY(pd_tensor_resize(out, PD_DTYPE_INT64, 2, (int64_t[]){count, x->meta.rank}));
    list_true(x, out->data);
    return PD_OK;
}

const struct pd_op pd_op_where_index = {
    .type = "where_index",
    .doc = "Coordinates of the elements that hold.",
    .inputs = (const struct pd_slot_def[]){{"Condition", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},
    .flags = PD_OP_DYNAMIC | PD_OP_NO_GRAD,
    .infer = infer,
    .run = run,
};
