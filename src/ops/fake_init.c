/* fake_init: a table that lives on servers has a shape here, but no memory. */
#include "program/op.h"
#include "tensor/held.h"

static pd_status infer(const struct pd_infer *c)
{
    struct pd_meta *out = pd_infer_out(c, 0);
    if (c->attr[0].n > PD_MAX_RANK)
        return pd_fail(PD_SHAPE, "shape has %d dimensions; at most %d", c->attr[0].n, PD_MAX_RANK);
    return pd_meta_set_dims(out, c->attr[0].n, c->attr[0].longs);
}

static pd_status run(const struct pd_run *r)
{
    struct pd_value *out = pd_run_out_value(r, 0);
    const struct pd_attr *shape = &r->attr[0];
    if (shape->n > PD_MAX_RANK)
        return pd_fail(PD_SHAPE, "shape has %d dimensions; at most %d", shape->n, PD_MAX_RANK);
    if (pd_value_is_rows(out)) out->height = shape->n ? shape->longs[0] : 0;
    const struct pd_meta *declared = r->step->declared ? r->step->declared(r, 1, 0, 0) : NULL;
    if (declared && declared->dtype != PD_DTYPE_NONE) out->tensor.meta.dtype = declared->dtype;
    if (out->tensor.meta.dtype == PD_DTYPE_NONE) out->tensor.meta.dtype = PD_DTYPE_FP32;
    pd_held_away(out);
    return pd_meta_set_dims(&out->tensor.meta, shape->n, shape->longs);
}

const struct pd_op pd_op_fake_init = {
    .type = "fake_init",
    .doc = "Gives a variable a shape without memory.",
    .inputs = (const struct pd_slot_def[]){{0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},
    .attrs = (const struct pd_attr_def[]){PD_DEF_LONGS("shape"), {0}},
    .flags = PD_OP_NO_GRAD | PD_OP_DYNAMIC | PD_OP_ON_SERVER,
    .infer = infer,
    .run = run,
};
