/* concat: joins tensors along one axis. Along axis 0 the sequences of the inputs are joined too. */
#include <string.h>

#include "ops/axis.h"
#include "ops/join.h"
#include "ops/numbers.h"
#include "ops/out.h"

enum { X, AXIS_TENSOR, GRAD_OUT };
enum { OUT };
enum { AXIS };

static const struct pd_attr_def attrs[] = {PD_DEF_INT("axis", 0), {0}};

static pd_status add_dims(struct pd_meta *sum, const struct pd_meta *x, int axis, int number)
{
    if (x->rank != sum->rank)
        return pd_fail(PD_SHAPE, "input 0 has %d dimensions, input %d has shape %s; all must have as many",
                       sum->rank, number, pd_meta_dims_text(x));
    if (sum->dtype != PD_DTYPE_NONE && x->dtype != PD_DTYPE_NONE && sum->dtype != x->dtype)
        return pd_fail(PD_TYPE, "input 0 is %s, input %d is %s; cast one of them", pd_dtype_name(sum->dtype),
                       number, pd_dtype_name(x->dtype));
    for (int i = 0; i < sum->rank; i++) {
        if (i == axis) {
            sum->dim[i] = sum->dim[i] < 0 || x->dim[i] < 0 ? -1 : sum->dim[i] + x->dim[i];
        } else if (sum->dim[i] >= 0 && x->dim[i] >= 0 && sum->dim[i] != x->dim[i]) {
            return pd_fail(PD_SHAPE,
                           "dimension %d of input %d (shape %s) is %lld, of the inputs before it %lld; "
                           "along axis %d only that dimension may differ",
                           i, number, pd_meta_dims_text(x), (long long)x->dim[i], (long long)sum->dim[i],
                           axis);
        } else if (sum->dim[i] < 0) {
            sum->dim[i] = x->dim[i];
        }
    }
    return PD_OK;
}

static pd_status join_dims(struct pd_meta *const *x, int n, int axis, struct pd_meta *sum)
{
    *sum = *x[0];
    for (int i = 1; i < n; i++)
        PD_TRY(add_dims(sum, x[i], axis, i));
    return PD_OK;
}

/* The sequences of all inputs one after the other; none when an input has none. */
static pd_status join_lod(struct pd_meta *const *x, int n, struct pd_meta *out)
{
    const struct pd_lod *first = x[0]->lod;
    for (int i = 0; i < n; i++) {
        if (!x[i]->lod || !first) {
            pd_meta_take_lod(out, NULL);
            return PD_OK;
        }
        if (x[i]->lod->levels != first->levels)
            return pd_fail(PD_SHAPE,
                           "input 0 has %d levels of sequences, input %d has %d; they must be equal",
                           first->levels, i, x[i]->lod->levels);
    }
    int64_t entries[16];
    struct pd_lod *lod;
    if (first->levels > 16)
        return pd_fail(PD_SHAPE, "%d levels of sequences are too many to join", first->levels);
    for (int l = 0; l < first->levels; l++) {
        entries[l] = 1;
        for (int i = 0; i < n; i++)
            entries[l] += x[i]->lod->level[l].n - 1;
    }
    PD_TRY(pd_lod_alloc(first->levels, entries, &lod));
    for (int l = 0; l < first->levels; l++) {
        int64_t *to = lod->level[l].offset, base = 0;
        *to++ = 0;
        for (int i = 0; i < n; i++) {
            const struct pd_lod_level *from = &x[i]->lod->level[l];
            for (int64_t k = 1; k < from->n; k++)
                *to++ = base + from->offset[k];
            base += from->offset[from->n - 1];
        }
    }
    pd_meta_take_lod(out, lod);
    return PD_OK;
}

static pd_status infer(const struct pd_infer *c)
{
    struct pd_meta *const *x = c->in[X].at, sum;
    struct pd_meta *out = pd_infer_out(c, OUT);
    int64_t wish;
    int known, axis, n = c->in[X].n;
    PD_TRY(pd_number_infer(c, AXIS_TENSOR, "axis", c->attr[AXIS].i, &wish, &known));
    if (!out) return PD_OK;
    if (!known) {
        sum = *x[0];
        axis = -1;
        for (int i = 0; i < sum.rank; i++)
            sum.dim[i] = -1;
    } else {
        PD_TRY(pd_axis_of(wish, x[0]->rank, &axis));
        PD_TRY(join_dims(x, n, axis, &sum));
    }
    out->dtype = sum.dtype;
    pd_meta_copy_dims(out, &sum);
    if (c->running && axis == 0) return join_lod(x, n, out);
    pd_meta_share_lod(out, x[0]);
    return PD_OK;
}

/* Fills a description of the rows; memory is that of this run. */
static pd_status describe(const struct pd_run *r, int slot, int axis, struct pd_join *j, int64_t *rows)
{
    int64_t *width;
    PD_TRY(pd_join_make(r, r->in[slot].n, j, &width));
    for (int i = 0; i < j->n; i++) {
        const struct pd_meta *m = &pd_run_in_at(r, slot, i)->meta;
        width[i] = pd_meta_span(m, axis, m->rank) * (int64_t)pd_dtype_size(m->dtype);
        j->row += width[i];
        *rows = pd_meta_span(m, 0, axis);
    }
    return PD_OK;
}

static pd_status run(const struct pd_run *r)
{
    struct pd_tensor *out = pd_run_out(r, OUT);
    const struct pd_tensor *first = pd_run_in(r, X);
    struct pd_join j;
    int64_t wish, rows = 0;
    int axis;
    PD_TRY(pd_number_run(r, AXIS_TENSOR, "axis", r->attr[AXIS].i, &wish));
    PD_TRY(pd_axis_of(wish, first->meta.rank, &axis));
    if (r->in[AXIS_TENSOR].n) {
        struct pd_meta sum = first->meta;
        for (int i = 1; i < r->in[X].n; i++)
            PD_TRY(add_dims(&sum, &pd_run_in_at(r, X, i)->meta, axis, i));
        PD_TRY(pd_out_fit(out, sum.dtype, sum.rank, sum.dim));
    }
    PD_TRY(describe(r, X, axis, &j, &rows));
    j.whole = out->data;
    for (int i = 0; i < j.n; i++)
        j.part[i] = pd_run_in_at(r, X, i)->data;
    pd_copy_join(&j, rows);
    return PD_OK;
}

static pd_status grad_infer(const struct pd_infer *c)
{
    for (int i = 0; i < c->out[0].n; i++)
        if (c->out[0].at[i]) pd_meta_like(c->out[0].at[i], c->in[X].at[i]);
    return PD_OK;
}

static pd_status grad_run(const struct pd_run *r)
{
    const struct pd_tensor *dout = pd_run_in(r, GRAD_OUT);
    struct pd_join j;
    int64_t wish, rows = 0;
    int axis;
    PD_TRY(pd_number_run(r, AXIS_TENSOR, "axis", r->attr[AXIS].i, &wish));
    PD_TRY(pd_axis_of(wish, dout->meta.rank, &axis));
    PD_TRY(describe(r, X, axis, &j, &rows));
    j.whole = dout->data;
    for (int i = 0; i < j.n; i++) {
        struct pd_tensor *dx = i < r->out[0].n ? pd_run_out_at(r, 0, i) : NULL;
        j.part[i] = dx ? dx->data : NULL;
    }
    pd_copy_part(&j, rows);
    return PD_OK;
}

const struct pd_op pd_op_concat = {
    .type = "concat",
    .doc = "Joins the tensors X along axis.",
    .inputs = (const struct pd_slot_def[]){{"X", PD_SLOT_LIST},
                                           {"AxisTensor", PD_SLOT_OPTIONAL | PD_SLOT_SIZES},
                                           {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},
    .attrs = attrs,
    .flags = PD_OP_ON_SERVER,
    .infer = infer,
    .run = run,
    .grad_type = "concat_grad",
    .grad_in = "X AxisTensor Out@",
    .grad_out = "X@",
};

const struct pd_op pd_op_concat_grad = {
    .type = "concat_grad",
    .doc = "Gradient of concat: the parts of the gradient.",
    .inputs = (const struct pd_slot_def[]){{"X", PD_SLOT_LIST | PD_SLOT_META},
                                           {"AxisTensor", PD_SLOT_OPTIONAL | PD_SLOT_OWN_TYPE},
                                           {"Out@GRAD", 0},
                                           {0}},
    .outputs = (const struct pd_slot_def[]){{"X@GRAD", PD_SLOT_LIST | PD_SLOT_OPTIONAL}, {0}},
    .attrs = attrs,
    .infer = grad_infer,
    .run = grad_run,
};
