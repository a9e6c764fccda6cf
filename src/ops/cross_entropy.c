/* cross_entropy and cross_entropy2: minus the logarithm of the probability of the right class. The second
 * keeps that probability (MatchX) so that its gradient needs no X; the first also takes a distribution per
 * row as its label. */
#include <string.h>

#include "kernels/ew_math.h"
#include "ops/check.h"
#include "ops/label.h"
#include "ops/out.h"

enum { X, LABEL };
enum { Y, XSHAPE, MATCH };
enum { SOFT_LABEL, IGNORE_INDEX };
enum { IGNORE_INDEX_2 }; /* cross_entropy2 has only this one */

static const struct pd_attr_def attrs[] = {
    PD_DEF_BOOL("soft_label", 0), PD_DEF_INT("ignore_index", -100), {0}};
static const struct pd_attr_def attrs_2[] = {PD_DEF_INT("ignore_index", -100), {0}};

static pd_status infer_y(const struct pd_infer *c, int soft)
{
    const struct pd_meta *x = pd_infer_in(c, X), *label = pd_infer_in(c, LABEL);
    struct pd_meta *y = pd_infer_out(c, Y);
    int rank = x->rank;
    PD_TRY(pd_check_float(x, "X"));
    if (rank < 1) return pd_fail(PD_SHAPE, "X has no dimensions, but needs a last one for the classes.");
    PD_TRY(pd_label_check_type(label, soft, x, "X"));
    int fits = label->rank == rank || (!soft && label->rank == rank - 1);
    for (int i = 0; fits && i < rank - 1; i++)
        fits = label->dim[i] < 0 || x->dim[i] < 0 || label->dim[i] == x->dim[i];
    if (fits && label->rank == rank) {
        int64_t last = label->dim[rank - 1], want = soft ? x->dim[rank - 1] : 1;
        fits = last == want || last < 0 || want < 0;
    }
    if (!fits)
        return pd_fail(
            PD_SHAPE,
            "X has shape %s and Label has shape %s. Label must be like X but for the last dimension, "
            "which is %s.",
            pd_meta_dims_text(x), pd_meta_dims_text(label),
            soft ? "the same as X's (soft_label is set)" : "1 or left out");
    if (!y) return PD_OK;
    y->dtype = x->dtype;
    pd_meta_copy_dims(y, label);
    if (label->rank == rank) y->dim[rank - 1] = 1;
    pd_meta_share_lod(y, x);
    return PD_OK;
}

static pd_status infer(const struct pd_infer *c)
{
    return infer_y(c, c->attr[SOFT_LABEL].b);
}

static pd_status infer_2(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X);
    struct pd_meta *shape = pd_infer_out(c, XSHAPE), *match = pd_infer_out(c, MATCH);
    PD_TRY(infer_y(c, 0));
    if (shape) {
        /* No data: it only carries the shape of X to the gradient. */
        int64_t dim[PD_MAX_RANK + 1];
        memcpy(dim, x->dim, (size_t)x->rank * sizeof *dim);
        dim[x->rank] = 0;
        shape->dtype = x->dtype;
        PD_TRY(pd_meta_set_dims(shape, x->rank + 1, dim));
        pd_meta_share_lod(shape, x);
    }
    if (match) {
        match->dtype = x->dtype;
        pd_meta_copy_dims(match, x);
        match->dim[x->rank - 1] = 1;
    }
    return PD_OK;
}

/* An infinite logarithm becomes a large number. */
static inline double tolerable(double x)
{
    return x == INFINITY ? 1e20 : x == -INFINITY ? -1e20 : x;
}

static pd_status run_hard(const struct pd_run *r, int64_t ignore, struct pd_tensor *match)
{
    const struct pd_tensor *x = pd_run_in(r, X), *label = pd_run_in(r, LABEL);
    int64_t classes = x->meta.dim[x->meta.rank - 1], rows = pd_meta_span(&x->meta, 0, x->meta.rank - 1);
    PD_TRY(pd_label_check_range(label, rows, classes, ignore));
    PD_SWITCH_FLOAT(x->meta.dtype, T, {
        const T *from = x->data;
        T *y = pd_run_out(r, Y)->data, *kept = match ? match->data : NULL;
        for (int64_t i = 0; i < rows; i++) {
            int64_t class = pd_label_at(label, i);
            T p = class == ignore ? 0 : from[i * classes + class];
            y[i] = class == ignore ? 0 : (T)-tolerable(pd_log(p));
            if (kept) kept[i] = p;
        }
    })
    return PD_OK;
}

static pd_status run(const struct pd_run *r)
{
    if (!r->attr[SOFT_LABEL].b) return run_hard(r, r->attr[IGNORE_INDEX].i, NULL);
    const struct pd_tensor *x = pd_run_in(r, X), *label = pd_run_in(r, LABEL);
    int64_t classes = x->meta.dim[x->meta.rank - 1], rows = pd_meta_span(&x->meta, 0, x->meta.rank - 1);
    PD_SWITCH_FLOAT(x->meta.dtype, T, {
        const T *from = x->data, *weight = label->data;
        T *y = pd_run_out(r, Y)->data;
        for (int64_t i = 0; i < rows; i++) {
            T sum = 0;
            for (int64_t j = i * classes; j < (i + 1) * classes; j++)
                sum += weight[j] * (T)tolerable(pd_log(from[j]));
            y[i] = -sum;
        }
    })
    return PD_OK;
}

static pd_status run_2(const struct pd_run *r)
{
    return run_hard(r, r->attr[IGNORE_INDEX_2].i, pd_run_out(r, MATCH));
}

/* ---- gradients ---- */

enum { GRAD_X, GRAD_LABEL, GRAD_Y };                     /* cross_entropy_grad */
enum { GRAD2_LABEL, GRAD2_MATCH, GRAD2_SHAPE, GRAD2_Y }; /* cross_entropy_grad2 */

static pd_status grad_infer(const struct pd_infer *c)
{
    PD_TRY(
        pd_label_check_type(pd_infer_in(c, GRAD_LABEL), c->attr[SOFT_LABEL].b, pd_infer_in(c, GRAD_X), "X"));
    pd_out_like(c, 0, GRAD_X);
    return PD_OK;
}

static pd_status grad_run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, GRAD_X), *label = pd_run_in(r, GRAD_LABEL),
                           *g = pd_run_in(r, GRAD_Y);
    struct pd_tensor *dx = pd_run_out(r, 0);
    if (!dx) return PD_OK;
    int64_t classes = x->meta.dim[x->meta.rank - 1], rows = pd_meta_span(&x->meta, 0, x->meta.rank - 1);
    int64_t ignore = r->attr[IGNORE_INDEX].i;
    int soft = r->attr[SOFT_LABEL].b;
    if (!soft) PD_TRY(pd_label_check_range(label, rows, classes, ignore));
    PD_SWITCH_FLOAT(x->meta.dtype, T, {
        const T *from = x->data, *dy = g->data, *weight = soft ? label->data : NULL;
        T *to = dx->data;
        if (!soft) memset(to, 0, (size_t)(rows * classes) * sizeof(T));
        for (int64_t i = 0; i < rows; i++) {
            if (soft) {
                for (int64_t j = i * classes; j < (i + 1) * classes; j++)
                    to[j] = -weight[j] * dy[i] / from[j];
            } else {
                int64_t class = pd_label_at(label, i);
                if (class != ignore) to[i * classes + class] = -dy[i] / from[i * classes + class];
            }
        }
    })
    return PD_OK;
}

static pd_status grad2_infer(const struct pd_infer *c)
{
    const struct pd_meta *shape = pd_infer_in(c, GRAD2_SHAPE);
    struct pd_meta *dx = pd_infer_out(c, 0);
    PD_TRY(pd_label_check_index(pd_infer_in(c, GRAD2_LABEL), "Label"));
    if (!dx) return PD_OK;
    pd_meta_like(dx, shape);
    dx->rank = shape->rank - 1;
    dx->dtype = pd_infer_in(c, GRAD2_Y)->dtype;
    return PD_OK;
}

static pd_status grad2_run(const struct pd_run *r)
{
    const struct pd_tensor *label = pd_run_in(r, GRAD2_LABEL), *match = pd_run_in(r, GRAD2_MATCH),
                           *g = pd_run_in(r, GRAD2_Y);
    struct pd_tensor *dx = pd_run_out(r, 0);
    if (!dx) return PD_OK;
    int64_t classes = dx->meta.dim[dx->meta.rank - 1], rows = pd_meta_span(&dx->meta, 0, dx->meta.rank - 1);
    int64_t ignore = r->attr[IGNORE_INDEX_2].i;
    PD_TRY(pd_label_check_range(label, rows, classes, ignore));
    PD_SWITCH_FLOAT(dx->meta.dtype, T, {
        const T *p = match->data, *dy = g->data;
        T *to = dx->data;
        memset(to, 0, (size_t)(rows * classes) * sizeof(T));
        for (int64_t i = 0; i < rows; i++) {
            int64_t class = pd_label_at(label, i);
            if (class != ignore) to[i * classes + class] = -dy[i] / p[i];
        }
    })
    return PD_OK;
}

const struct pd_op pd_op_cross_entropy = {
    .type = "cross_entropy",
    .doc = "Minus the logarithm of the probability of the label, for each row.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {"Label", PD_SLOT_OWN_TYPE}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Y", 0}, {0}},
    .attrs = attrs,
    .infer = infer,
    .run = run,
    .grad_type = "cross_entropy_grad",
    .grad_in = "X Label Y@",
    .grad_out = "X@",
};

const struct pd_op pd_op_cross_entropy_grad = {
    .type = "cross_entropy_grad",
    .doc = "Gradient of cross_entropy.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {"Label", PD_SLOT_OWN_TYPE}, {"Y@GRAD", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"X@GRAD", PD_SLOT_OPTIONAL}, {0}},
    .attrs = attrs,
    .infer = grad_infer,
    .run = grad_run,
};

const struct pd_op pd_op_cross_entropy2 = {
    .type = "cross_entropy2",
    .doc = "cross_entropy with class numbers as labels; its gradient does not need X.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {"Label", PD_SLOT_OWN_TYPE}, {0}},
    .outputs =
        (const struct pd_slot_def[]){
            {"Y", 0}, {"XShape", PD_SLOT_OPTIONAL}, {"MatchX", PD_SLOT_OPTIONAL}, {0}},
    .attrs = attrs_2,
    .infer = infer_2,
    .run = run_2,
    .grad_type = "cross_entropy_grad2",
    .grad_in = "Label MatchX XShape Y@",
    .grad_like = "X=XShape-",
    .grad_out = "X@",
};

const struct pd_op pd_op_cross_entropy_grad2 = {
    .type = "cross_entropy_grad2",
    .doc = "Gradient of cross_entropy2.",
    .inputs =
        (const struct pd_slot_def[]){
            {"Label", PD_SLOT_OWN_TYPE}, {"MatchX", 0}, {"XShape", PD_SLOT_META}, {"Y@GRAD", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"X@GRAD", PD_SLOT_OPTIONAL}, {0}},
    .attrs = attrs_2,
    .grad_of = "cross_entropy2",
    .infer = grad2_infer,
    .run = grad2_run,
};
