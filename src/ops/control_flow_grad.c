/* The gradient of conditional_block: the gradient block runs under the same condition as the forward block, on the variables
 * that the forward block left behind; where it did not run, the gradients are zero. */
#include <string.h>

#include "ops/control_flow.h"

enum { COND, INPUT, OUT, OUT_GRAD };
enum { INPUT_GRAD };
enum { SUB_BLOCK, SCALAR };

/* Outputs of the op that a gradient reached, with the names of those gradients. */
static pd_status collect_targets(struct pd_grad_maker *g, const struct pd_io *out, const char **targets, const char **grads, int *n)
{
    *n = 0;
    for (int i = 0; out && i < out->args.n; i++) {
        targets[*n] = out->args.at[i];
        PD_TRY(g->grad_of_output(g, targets[*n], &grads[*n]));
        ++*n;
    }
    return PD_OK;
}

static pd_status build(struct pd_grad_maker *g, const struct pd_io *in, const struct pd_io *out, const char **names, struct pd_opdesc *op)
{
    int n_in = in ? in->args.n : 0, n_out = out ? out->args.n : 0, n_targets, block, n_wanted = 0;
    const char **targets = names, **target_grads = targets + n_out, **wanted = target_grads + n_out, **outer = wanted + n_in, **inner = outer + n_in;
    PD_TRY(collect_targets(g, out, targets, target_grads, &n_targets));
    for (int i = 0; i < n_in; i++) {
        PD_TRY(g->grad_of_input(g, in->args.at[i], &outer[i]));
        if (strcmp(outer[i], PD_EMPTY_VAR) != 0) wanted[n_wanted++] = in->args.at[i];
    }
    const struct pd_attr *sub = pd_opdesc_attr(g->op, "sub_block"), *scalar = pd_opdesc_attr(g->op, "is_scalar_condition");
    PD_TRY(g->block_grad(g, sub->block, n_targets, targets, target_grads, n_wanted, wanted, inner, &block));
    for (int i = 0, w = 0; i < n_in; i++) {
        int is_wanted = w < n_wanted && strcmp(wanted[w], in->args.at[i]) == 0;
        if (is_wanted && !inner[w++]) outer[i] = PD_EMPTY_VAR;
    }
    const struct pd_io *cond = pd_opdesc_slot(g->op, 0, "Cond");
    PD_TRY(pd_opdesc_set_args(op, 0, "Cond", cond->args.n, cond->args.at));
    if (n_in) PD_TRY(pd_opdesc_set_args(op, 0, "Input", n_in, in->args.at));
    if (n_out) PD_TRY(pd_opdesc_set_args(op, 0, "Out", n_out, out->args.at));
    PD_TRY(pd_opdesc_set_args(op, 0, "Out@GRAD", n_targets, target_grads));
    PD_TRY(pd_opdesc_set_args(op, 1, "Input@GRAD", n_in, outer));
    PD_TRY(pd_opdesc_set_attr(op, "sub_block", &(struct pd_attr){.type = PD_ATTR_BLOCK, .block = block}, 0));
    return pd_opdesc_set_attr(op, "is_scalar_condition", scalar, 0);
}

pd_status pd_conditional_block_grad_make(struct pd_grad_maker *g)
{
    const struct pd_io *in = pd_opdesc_slot(g->op, 0, "Input"), *out = pd_opdesc_slot(g->op, 1, "Out");
    size_t n = (size_t)(in ? in->args.n : 0) * 3 + (size_t)(out ? out->args.n : 0) * 2;
    const char **names = pd_calloc(n, sizeof *names);
    struct pd_opdesc *op = NULL;
    pd_status status = names ? pd_opdesc_new(g->program, "conditional_block_grad", &op) : pd_no_memory();
    if (status == PD_OK) status = build(g, in, out, names, op);
    pd_free(names);
    if (status != PD_OK) {
        pd_opdesc_free(op);
        return status;
    }
    return g->emit(g, op);
}

static pd_status grad_infer(const struct pd_infer *c)
{
    for (int i = 0; i < c->out[INPUT_GRAD].n; i++)
        if (c->out[INPUT_GRAD].at[i]) pd_meta_like(c->out[INPUT_GRAD].at[i], c->in[INPUT].at[i]);
    return PD_OK;
}

static pd_status zeros_like(struct pd_tensor *to, const struct pd_tensor *from)
{
    PD_TRY(pd_tensor_resize(to, from->meta.dtype, from->meta.rank, from->meta.dim));
    pd_meta_share_lod(&to->meta, &from->meta);
    memset(to->data, 0, pd_tensor_bytes(to));
    return PD_OK;
}

static pd_status grad_run(const struct pd_run *r)
{
    int holds = 0, block = r->attr[SUB_BLOCK].block;
    if (r->attr[SCALAR].b)
        PD_TRY(pd_condition_read(pd_run_in(r, COND), "Cond", &holds));
    else
        holds = pd_condition_none_empty(&r->in[COND]) && pd_condition_none_empty(&r->in[INPUT]);
    if (holds) PD_TRY(r->step->run_block(r, block));
    for (int i = 0; i < r->out[INPUT_GRAD].n; i++) {
        struct pd_value *to = r->out[INPUT_GRAD].at[i], *from = NULL;
        if (!to) continue;
        if (holds) {
            struct pd_buf name = {0};
            pd_buf_printf(&name, "%s" PD_GRAD_SUFFIX, r->step->name(r, 0, INPUT, i));
            if (name.failed) return pd_no_memory();
            from = r->step->block_value(r, block, name.at);
            pd_buf_free(&name);
        }
        PD_TRY(from ? pd_value_copy(to, from) : zeros_like(&to->tensor, pd_run_in_at(r, INPUT, i)));
    }
    return PD_OK;
}

const struct pd_op pd_op_conditional_block_grad = {
    .type = "conditional_block_grad",
    .doc = "Runs the gradient block of a conditional_block when its forward block ran; zero gradients otherwise.",
    .inputs = (const struct pd_slot_def[]){{"Cond", PD_SLOT_LIST},
                                           {"Input", PD_SLOT_LIST | PD_SLOT_OPTIONAL},
                                           {"Out", PD_SLOT_LIST | PD_SLOT_OPTIONAL},
                                           {"Out@GRAD", PD_SLOT_LIST | PD_SLOT_OPTIONAL},
                                           {"Scope", PD_SLOT_OPTIONAL},
                                           {0}},
    .outputs = (const struct pd_slot_def[]){{"Input@GRAD", PD_SLOT_LIST | PD_SLOT_OPTIONAL}, {"Cond@GRAD", PD_SLOT_LIST | PD_SLOT_OPTIONAL}, {0}},
    .attrs = (const struct pd_attr_def[]){PD_DEF_BLOCK("sub_block"), PD_DEF_BOOL("is_scalar_condition", 0), {0}},
    .flags = PD_OP_DYNAMIC,
    .infer = grad_infer,
    .run = grad_run,
};
