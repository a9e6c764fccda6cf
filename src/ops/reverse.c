/* reverse: turns the order of the elements along axes around. */
#include <string.h>

#include "kernels/copy.h"
#include "ops/axis.h"

enum { X };
enum { OUT };
enum { AXIS };

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X);
    struct pd_meta *out = pd_infer_out(c, OUT);
    int at;
    if (c->attr[AXIS].n == 0) return pd_fail(PD_INVALID, "axis is empty; name the axes to reverse");
    for (int i = 0; i < c->attr[AXIS].n; i++)
        PD_TRY(pd_axis_of(c->attr[AXIS].ints[i], x->rank, &at));
    if (!out) return PD_OK;
    out->dtype = x->dtype;
    pd_meta_copy_dims(out, x);
    return PD_OK;
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X);
    struct pd_tensor *out = pd_run_out(r, OUT);
    const struct pd_meta *m = &x->meta;
    int64_t to[PD_MAX_RANK], from[PD_MAX_RANK], start = 0;
    struct pd_copy copy;
    if (pd_tensor_numel(x) == 0) return PD_OK;
    pd_copy_steps(m->rank, m->dim, to);
    memcpy(from, to, sizeof from);
    for (int i = 0; i < r->attr[AXIS].n; i++) {
        int at;
        PD_TRY(pd_axis_of(r->attr[AXIS].ints[i], m->rank, &at));
        if (from[at] < 0) continue; /* named twice */
        start += (m->dim[at] - 1) * from[at];
        from[at] = -from[at];
    }
    size_t item = pd_dtype_size(m->dtype);
    pd_copy_make(&copy, item, m->rank, m->dim, to, from);
    pd_copy_run(&copy, out->data, (const char *)x->data + start * (int64_t)item);
    return PD_OK;
}

const struct pd_op pd_op_reverse = {
    .type = "reverse",
    .doc = "Turns the order of the elements along axis around.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},
    .attrs = (const struct pd_attr_def[]){PD_DEF_INTS("axis"), {0}},
    .infer = infer,
    .run = run,
    .grad_type = "reverse",
    .grad_in = "X=Out@",
    .grad_out = "Out=X@",
};
