/* Gradient ops from tables: the slots that grad_in and grad_out of an op name. */
#include "program/grad.h"

#include <stdio.h>
#include <string.h>

/* One word of a table: [SLOT=]NAME[@]. Adds the slot to the gradient op. */
static pd_status table_word(struct pd_grad_maker *g, struct pd_opdesc *grad, int is_output, const char *word,
                            size_t length)
{
    char slot[128], name[96];
    const char *equals = memchr(word, '=', length);
    const char *from = equals ? equals + 1 : word;
    size_t n = length - (size_t)(from - word);
    int is_grad = n > 0 && from[n - 1] == '@';
    snprintf(name, sizeof name, "%.*s", (int)(n - (size_t)is_grad), from);
    if (equals)
        snprintf(slot, sizeof slot, "%.*s", (int)(equals - word), word);
    else
        snprintf(slot, sizeof slot, "%s%s", name, is_grad ? PD_GRAD_SUFFIX : "");
    int forward_output = pd_slot_index(g->op->def->inputs, name) < 0;
    const struct pd_io *io = pd_opdesc_slot(g->op, forward_output, name);
    PD_TRY(pd_opdesc_add_arg(grad, is_output, slot, NULL));
    for (int i = 0; io && i < io->args.n; i++) {
        const char *arg = io->args.at[i];
        if (is_grad && forward_output)
            PD_TRY(g->grad_of_output(g, arg, &arg));
        else if (is_grad)
            PD_TRY(g->grad_of_input(g, arg, &arg));
        PD_TRY(pd_opdesc_add_arg(grad, is_output, slot, arg));
    }
    return PD_OK;
}

static pd_status table_side(struct pd_grad_maker *g, struct pd_opdesc *grad, int is_output, const char *words)
{
    while (words && *words) {
        size_t n = strcspn(words, " ");
        if (n) PD_TRY(table_word(g, grad, is_output, words, n));
        words += n + (words[n] == ' ');
    }
    return PD_OK;
}

pd_status pd_grad_from_table(struct pd_grad_maker *g, const char *type, const char *in, const char *out,
                             struct pd_opdesc **op)
{
    struct pd_opdesc *grad;
    PD_TRY(pd_opdesc_new(g->program, type, &grad));
    pd_status status = table_side(g, grad, 0, in);
    if (status == PD_OK) status = table_side(g, grad, 1, out);
    for (int i = 0; i < g->op->attrs.n && status == PD_OK; i++)
        status = pd_opdesc_set_attr(grad, g->op->attrs.at[i].name, &g->op->attrs.at[i].value, 0);
    pd_opdesc_remove_attr(grad, "op_role_var");
    if (status != PD_OK) {
        pd_opdesc_free(grad);
        return status;
    }
    *op = grad;
    return PD_OK;
}
