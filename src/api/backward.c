/* Gradients in the public API. */
#include <string.h>

#include "api/api.h"
#include "passes/passes.h"

/* Trainable parameters of the Program, in the order of their creation. */
static pd_status all_parameters(const pd_program *program, const char ***names, int *n)
{
    const struct pd_block *block = program->blocks.at[0];
    const char **list = pd_calloc((size_t)block->vars.n, sizeof *list);
    if (!list) return pd_no_memory();
    *n = 0;
    for (int i = 0; i < block->vars.n; i++) {
        unsigned both = PD_VAR_PARAMETER | PD_VAR_TRAINABLE;
        if ((block->vars.at[i]->flags & both) == both) list[(*n)++] = block->vars.at[i]->name;
    }
    *names = list;
    return PD_OK;
}

/* Which op writes a variable last. */
static pd_status note_writers(const struct pd_block *block, struct pd_map *out)
{
    for (int i = 0; i < block->ops.n; i++) {
        struct pd_opdesc *op = block->ops.at[i];
        for (int s = 0; s < op->out.n; s++)
            for (int k = 0; k < op->out.at[s].args.n; k++)
                if (!pd_map_set(out, op->out.at[s].args.at[k], op)) return pd_no_memory();
    }
    return PD_OK;
}

/* Marks the op that writes a parameter's gradient last, so that later passes find the pair. */
static pd_status mark_pair(struct pd_opdesc *writer, const char *param, const char *grad)
{
    const struct pd_attr *old = pd_opdesc_attr(writer, "op_role_var");
    int n = old && old->type == PD_ATTR_STRINGS ? old->n : 0;
    const char **list = pd_calloc((size_t)n + 2, sizeof *list);
    if (!list) return pd_no_memory();
    for (int i = 0; i < n; i++)
        list[i] = old->strings[i];
    list[n] = param;
    list[n + 1] = grad;
    pd_status status = pd_opdesc_set_strings(writer, "op_role_var", n + 2, list);
    pd_free(list);
    return status;
}

pd_status pd_append_backward(pd_program *program, const char *loss, const pd_backward_options *options,
                             pd_param_grad **pairs, int *n)
{
    static const pd_backward_options none;
    if (!options) options = &none;
    const char **all = NULL, *const *wanted = options->params;
    int n_wanted = options->n_params;
    if (!n_wanted) {
        PD_TRY(all_parameters(program, &all, &n_wanted));
        wanted = all;
    }
    const char **grads = pd_calloc((size_t)n_wanted, sizeof *grads);
    struct pd_clip_spec *clips = pd_calloc((size_t)options->n_clips, sizeof *clips);
    pd_param_grad *list = pd_calloc((size_t)n_wanted, sizeof *list);
    pd_status status = grads && clips && list ? PD_OK : pd_no_memory();
    for (int i = 0; i < n_wanted && status == PD_OK; i++)
        if (!pd_block_find(program->blocks.at[0], wanted[i]))
            status = pd_fail(PD_NOT_FOUND, "parameter '%s' is not a variable of the Program", wanted[i]);
    if (status == PD_OK) {
        for (int i = 0; i < options->n_clips; i++)
            clips[i] =
                (struct pd_clip_spec){options->clips[i].var, options->clips[i].min, options->clips[i].max};
        struct pd_backward_spec spec = {.block = program->blocks.at[0],
                                        .n_targets = 1,
                                        .targets = &loss,
                                        .loss = 1,
                                        .n_wanted = n_wanted,
                                        .wanted = wanted,
                                        .n_no_grad = options->n_no_grad,
                                        .no_grad = options->no_grad,
                                        .n_clips = options->n_clips,
                                        .clips = clips};
        status = pd_pass_backward(&spec, grads);
    }
    int count = 0;
    struct pd_map writers = {0};
    if (status == PD_OK) status = note_writers(program->blocks.at[0], &writers);
    for (int i = 0; i < n_wanted && status == PD_OK; i++)
        if (grads[i]) {
            const char *param = pd_program_text(program, wanted[i]);
            struct pd_opdesc *writer = pd_map_get(&writers, grads[i]);
            list[count++] = (pd_param_grad){param, grads[i]};
            if (!param)
                status = pd_no_memory();
            else if (writer)
                status = mark_pair(writer, param, grads[i]);
        }
    pd_map_free(&writers);
    pd_free(grads);
    pd_free(clips);
    pd_free(all);
    if (status != PD_OK) {
        pd_free(list);
        return status;
    }
    *pairs = list;
    *n = count;
    return PD_OK;
}

void pd_pairs_free(pd_param_grad *pairs)
{
    pd_free(pairs);
}

pd_status pd_gradients(pd_program *program, int n_targets, const char *const *targets,
                       const char *const *target_grads, int n_inputs, const char *const *inputs,
                       int n_no_grad, const char *const *no_grad, const char **names)
{
    struct pd_backward_spec spec = {.block = program->blocks.at[0],
                                    .n_targets = n_targets,
                                    .targets = targets,
                                    .target_grads = target_grads,
                                    .n_wanted = n_inputs,
                                    .wanted = inputs,
                                    .n_no_grad = n_no_grad,
                                    .no_grad = no_grad};
    return pd_pass_backward(&spec, names);
}
