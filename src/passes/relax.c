/* Work that a plan may leave out because nobody sees the difference.
 *
 * A sum of selected rows merges rows that repeat. Where its only reader does not mind them (sgd adds rows one after the other, a
 * server merges what it gets), it may just put them together. */
#include <string.h>

#include "passes/passes.h"

/* The only op that reads the variable; NULL: none, several, or someone outside the block's ops. */
static const struct pd_opdesc *only_reader(const struct pd_block *block, int from, const char *name)
{
    const struct pd_opdesc *reader = NULL;
    for (int i = from; i < block->ops.n; i++) {
        const struct pd_opdesc *op = block->ops.at[i];
        if (pd_opdesc_sub_block(op, 0) >= 0 || (pd_opdesc_names(op, 0, name) && reader)) return NULL;
        if (pd_opdesc_names(op, 0, name)) reader = op;
    }
    return reader;
}

static int minds_no_repeats(const struct pd_opdesc *op)
{
    static const char *const types[] = {"sgd", "send", "split_selected_rows"};
    for (int i = 0; i < 3; i++)
        if (strcmp(op->type, types[i]) == 0) return 1;
    return 0;
}

pd_status pd_pass_relax(struct pd_program *program, int n_fetches, const char *const *fetches)
{
    struct pd_block *block = program->blocks.at[0];
    for (int i = 0; i < block->ops.n; i++) {
        struct pd_opdesc *op = block->ops.at[i];
        if (strcmp(op->type, "sum") != 0 || pd_attr_index(op->def ? op->def->attrs : NULL, "keep_repeated_rows") < 0) continue;
        const char *out = pd_opdesc_arg(op, 1, "Out");
        const struct pd_var *var = out ? pd_block_var(block, out) : NULL;
        if (!var || var->meta.kind != PD_KIND_SELECTED_ROWS || (var->flags & PD_VAR_PERSISTABLE) || pd_opdesc_names(op, 0, out)) continue;
        int fetched = 0;
        for (int k = 0; k < n_fetches; k++)
            fetched |= strcmp(fetches[k], out) == 0;
        const struct pd_opdesc *reader = fetched ? NULL : only_reader(block, i + 1, out);
        if (reader && minds_no_repeats(reader))
            PD_TRY(pd_opdesc_set_attr(op, "keep_repeated_rows", &(struct pd_attr){.type = PD_ATTR_BOOL, .b = 1}, 0));
    }
    return PD_OK;
}
