/* rnn_memory_helper, select_input, select_output and get_places: small helpers of control flow. */
#include <string.h>
#include <unistd.h>

#include "ops/shape_util.h"

enum { X, MASK, LIKE };
enum { OUT };

/* ---- rnn_memory_helper ---- */

enum { G_DOUT, G_X };
static const struct pd_attr_def memory_attrs[] = {PD_DEF_INT("dtype", PD_DTYPE_FP32), {0}};

static pd_status memory_infer(const struct pd_infer *c)
{
    pd_shape_like(c, OUT, X);
    return PD_OK;
}

static pd_status memory_grad_infer(const struct pd_infer *c)
{
    pd_shape_like(c, 0, G_X);
    return PD_OK;
}

/* Without a gradient of the output the gradient is 0. */
static pd_status memory_grad_run(const struct pd_run *r)
{
    const struct pd_tensor *dout = pd_run_in(r, G_DOUT);
    struct pd_tensor *dx = pd_run_out(r, 0);
    if (!dx) return PD_OK;
    if (!dout || !dout->data)
        memset(dx->data, 0, pd_tensor_bytes(dx));
    else if (dx->data != dout->data)
        memcpy(dx->data, dout->data, pd_tensor_bytes(dx));
    return PD_OK;
}

/* ---- select_input, select_output ---- */

static pd_status branch(const struct pd_run *r, int n, int64_t *k)
{
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

/* ---- get_places ---- */

enum { COUNT, TYPE };

static pd_status places_infer(const struct pd_infer *c)
{
    struct pd_meta *out = pd_infer_out(c, OUT);
    if (strcmp(c->attr[TYPE].s, "CPU") != 0 && strcmp(c->attr[TYPE].s, "AUTO") != 0)
        return pd_fail(PD_UNSUPPORTED, "device_type is %s; this build has CPU places only", c->attr[TYPE].s);
    if (out) out->kind = PD_KIND_PLACE_LIST;
    return PD_OK;
}

/* A list of CPU places is its length. */
static pd_status places_run(const struct pd_run *r)
{
    struct pd_value *out = pd_run_out_value(r, OUT);
    int64_t n = r->attr[COUNT].i > 0 ? r->attr[COUNT].i : sysconf(_SC_NPROCESSORS_ONLN);
    pd_value_reset(out, PD_KIND_PLACE_LIST);
    out->height = n > 0 ? n : 1;
    return PD_OK;
}

const struct pd_op pd_op_rnn_memory_helper = {
    .type = "rnn_memory_helper",
    .doc = "Passes the memory of a recurrent net on to the next step.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},
    .attrs = memory_attrs,
    .infer = memory_infer,
    .run = pd_view_run,
    .grad_type = "rnn_memory_helper_grad",
    .grad_in = "Out@ X",
    .grad_out = "X@",
    .share = pd_view_share,
};

const struct pd_op pd_op_rnn_memory_helper_grad = {
    .type = "rnn_memory_helper_grad",
    .doc = "Gradient of rnn_memory_helper; 0 at the last step.",
    .inputs = (const struct pd_slot_def[]){{"Out@GRAD", PD_SLOT_OPTIONAL | PD_SLOT_UNSET},
                                           {"X", PD_SLOT_META},
                                           {"Out", PD_SLOT_META | PD_SLOT_OPTIONAL},
                                           {0}},
    .outputs = pd_view_grad_outputs,
    .attrs = memory_attrs,
    .infer = memory_grad_infer,
    .run = memory_grad_run,
};

const struct pd_op pd_op_select_input = {
    .type = "select_input",
    .doc = "The variable number Mask of a list.",
    .inputs = (const struct pd_slot_def[]){{"X", PD_SLOT_LIST | PD_SLOT_OWN_TYPE | PD_SLOT_UNSET},
                                           {"Mask", PD_SLOT_OWN_TYPE},
                                           {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},
    .flags = PD_OP_DYNAMIC,
    .infer = select_infer,
    .run = input_run,
    .grad_type = "select_output",
    .grad_in = "X=Out@ Mask Like=X",
    .grad_out = "Out=X@",
};

const struct pd_op pd_op_select_output = {
    .type = "select_output",
    .doc = "Writes X to the variable number Mask of a list; the others stay.",
    .inputs = (const struct pd_slot_def[]){{"X", 0},
                                           {"Mask", PD_SLOT_OWN_TYPE},
                                           {"Like", PD_SLOT_LIST | PD_SLOT_OPTIONAL | PD_SLOT_OWN_TYPE |
                                                        PD_SLOT_UNSET},
                                           {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", PD_SLOT_LIST}, {0}},
    .flags = PD_OP_DYNAMIC | PD_OP_UPDATES,
    .infer = select_infer,
    .run = output_run,
    .grad_type = "select_input",
    .grad_in = "X=Out@ Mask",
    .grad_out = "Out=X@",
};

const struct pd_op pd_op_get_places = {
    .type = "get_places",
    .doc = "The places that a Program may run on: CPU cores.",
    .inputs = (const struct pd_slot_def[]){{0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},
    .attrs = (const struct pd_attr_def[]){PD_DEF_INT("device_count", 0),
                                          PD_DEF_STRING("device_type", "AUTO"),
                                          {0}},
    .flags = PD_OP_DYNAMIC | PD_OP_NO_GRAD,
    .infer = places_infer,
    .run = places_run,
};
