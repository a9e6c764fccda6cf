/* select_input and select_output: one variable of a list. */
#include <string.h>

#include "ops/numbers.h"

enum { X, MASK, LIKE };
enum { OUT };

static pd_status branch(const struct pd_run *r, int n, int64_t *k)
{
    PD_TRY(pd_number_check(pd_run_in(r, MASK), "Mask"));
    PD_TRY(pd_number_at(pd_run_in(r, MASK), "Mask", 0, k));
    if ((uint64_t)*k < (uint64_t)n) return PD_OK;
    return pd_fail(PD_RANGE, "Mask is %lld; there are %d branches, so it must be in 0 to %d", (long long)*k,
                   n, n - 1);
}

static pd_status select_infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X);
    for (int i = 0; i < c->out[OUT].n; i++) {
        struct pd_meta *out = c->out[OUT].at[i];
        if (!out || c->running || !x) continue;
        out->kind = x->kind;
        pd_meta_like(out, x);
    }
    return PD_OK;
}

static pd_status input_run(const struct pd_run *r)
{
    int64_t k;
    PD_TRY(branch(r, r->in[X].n, &k));
    if (!r->in[X].at[k] || !pd_value_ready(r->in[X].at[k]))
        return pd_fail(PD_INVALID, "branch %lld has no value; the block that writes it did not run",
                       (long long)k);
    return pd_value_copy(pd_run_out_value(r, OUT), r->in[X].at[k]);
}

/* As the gradient of select_input it gets the inputs of that as Like: what was not chosen has a gradient of
 * 0. */
static pd_status output_run(const struct pd_run *r)
{
    int64_t k;
    PD_TRY(branch(r, r->out[OUT].n, &k));
    for (int i = 0; i < r->in[LIKE].n && i < r->out[OUT].n; i++) {
        struct pd_value *to = r->out[OUT].at[i], *like = r->in[LIKE].at[i];
        if (!to || i == k || !like || like->tensor.meta.kind != PD_KIND_TENSOR || !like->tensor.data)
            continue;
        const struct pd_meta *m = &like->tensor.meta;
        PD_TRY(pd_tensor_resize(&to->tensor, m->dtype, m->rank, m->dim));
        pd_meta_share_lod(&to->tensor.meta, m);
        memset(to->tensor.data, 0, pd_tensor_bytes(&to->tensor));
    }
    return r->out[OUT].at[k] ? pd_value_copy(r->out[OUT].at[k], pd_run_in_value(r, X)) : PD_OK;
}

const struct pd_op pd_op_select_input = {
    .type = "select_input",
    .doc = "The variable number Mask of a list.",
    .inputs =
        (const struct pd_slot_def[]){{"X", PD_SLOT_LIST | PD_SLOT_OWN_TYPE | PD_SLOT_UNSET | PD_SLOT_OTHERS},
                                     {"Mask", PD_SLOT_OWN_TYPE},
                                     {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},
    .flags = PD_OP_DYNAMIC | PD_OP_ON_SERVER,
    .infer = select_infer,
    .run = input_run,
    .grad_type = "select_output",
    .grad_in = "X=Out@ Mask Like=X",
    .grad_out = "Out=X@",
};

const struct pd_op pd_op_select_output = {
    .type = "select_output",
    .doc = "Writes X to the variable number Mask of a list; the others stay.",
    .inputs = (const struct pd_slot_def[]){{"X", PD_SLOT_OTHERS},
                                           {"Mask", PD_SLOT_OWN_TYPE},
                                           {"Like", PD_SLOT_LIST | PD_SLOT_OPTIONAL | PD_SLOT_OWN_TYPE |
                                                        PD_SLOT_UNSET | PD_SLOT_OTHERS},
                                           {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", PD_SLOT_LIST}, {0}},
    .flags = PD_OP_DYNAMIC | PD_OP_UPDATES | PD_OP_ON_SERVER,
    .infer = select_infer,
    .run = output_run,
    .grad_type = "select_input",
    .grad_in = "X=Out@ Mask",
    .grad_out = "Out=X@",
};
