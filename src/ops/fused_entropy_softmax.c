/* An op of plans: the gradients of cross_entropy or cross_entropy2 (with class numbers) and of the softmax
 * before it.
 *
 * The gradient that reaches the softmax is g = -dY / p at the label and 0 elsewhere, so that its product with
 * the softmax y is s = g y[label], and the result is (g - s) y[label] at the label and -s y elsewhere. */
#include "base/parallel.h"
#include "kernels/clones.h"
#include "ops/fused.h"
#include "ops/label.h"
#include "ops/out.h"

enum { SOFTMAX, LABEL, MATCH, DY };
enum { DX };
enum { IGNORE };
enum { PART_ENTROPY, PART_SOFTMAX };

#define GRAIN 32768 /* elements worth a thread */

struct job {
    const struct pd_tensor *label;
    const void *y, *match, *dy; /* match is NULL: the probability is y[label] */
    void *dx;
    int64_t classes, ignore;
};

/* s is kept out of one instruction with the difference that reads it: where p is near 1 the rounding of s
 * decides, and it shall be that of the two ops. */
#define PART(T)                                                                                              \
    PD_CLONES static void rows_##T(const struct job *j, int64_t begin, int64_t end)                          \
    {                                                                                                        \
        const int64_t n = j->classes;                                                                        \
        const T *dy = j->dy, *match = j->match;                                                              \
        for (int64_t i = begin; i < end; i++) {                                                              \
            const T *y = (const T *)j->y + i * n;                                                            \
            T *dx = (T *)j->dx + i * n;                                                                      \
            int64_t class = pd_label_at(j->label, i);                                                        \
            int given = class != j->ignore;                                                                  \
            const T p = given ? y[class] : 0, g = given ? -dy[i] / (match ? match[i] : p) : 0;               \
            volatile T product = p * g;                                                                      \
            const T s = product, minus = 0 - s;                                                              \
            _Pragma("GCC ivdep") for (int64_t k = 0; k < n; k++) dx[k] = minus * y[k];                       \
            if (given) dx[class] = (g - s) * p;                                                              \
        }                                                                                                    \
    }                                                                                                        \
    static void part_##T(void *arg, int64_t begin, int64_t end)                                              \
    {                                                                                                        \
        rows_##T(arg, begin, end);                                                                           \
    }
PART(float)
PART(double)

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *y = pd_run_in(r, SOFTMAX), *label = pd_run_in(r, LABEL),
                           *match = pd_run_in(r, MATCH), *dy = pd_run_in(r, DY);
    int64_t classes = y->meta.dim[y->meta.rank - 1], rows = pd_meta_span(&y->meta, 0, y->meta.rank - 1);
    struct job j = {label,   y->data,          match ? match->data : NULL, dy->data, pd_run_out(r, DX)->data,
                    classes, r->attr[IGNORE].i};
    if (pd_tensor_numel(dy) != rows || pd_tensor_numel(label) != rows ||
        (match && pd_tensor_numel(match) != rows))
        return pd_fail(PD_SHAPE, "X has shape %s, Label %s and Y@GRAD %s: their rows must be as many",
                       pd_meta_dims_text(&y->meta), pd_meta_dims_text(&label->meta),
                       pd_meta_dims_text(&dy->meta));
    PD_TRY(pd_fused_part(PART_ENTROPY, pd_label_check_range(label, rows, classes, j.ignore)));
    if (rows && classes)
        pd_parallel(rows, GRAIN / classes + 1, y->meta.dtype == PD_DTYPE_FP64 ? part_double : part_float, &j);
    return PD_OK;
}

const struct pd_op pd_op_fused_entropy_softmax_grad = {
    .type = "fused_entropy_softmax_grad",
    .doc = "Only in plans: the gradient of cross_entropy with class numbers, then of the softmax before it.",
    .inputs =
        (const struct pd_slot_def[]){
            {"Softmax", 0}, {"Label", PD_SLOT_OWN_TYPE}, {"MatchX", PD_SLOT_OPTIONAL}, {"Y@GRAD", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"X@GRAD", 0}, {0}},
    .attrs = (const struct pd_attr_def[]){PD_DEF_INT("ignore_index", -100), {0}},
    .flags = PD_OP_NO_GRAD,
    .infer = pd_out_infer_like,
    .run = run,
    .share = (const struct pd_share[]){{DX, SOFTMAX, 0}, {-1, -1, 0}},
};
