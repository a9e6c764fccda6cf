/* Sums of selected rows that need not merge rows which repeat.
 *
 * Where the only reader does not mind them (sgd adds rows one after the other, a server merges what it gets),
 * a sum may just put its rows together. No op goes here, but the question is the one of every rule: does
 * nobody else see the variable? */
#include "passes/fuse.h"

static int minds_no_repeats(const struct pd_opdesc *op)
{
    return pd_fuse_is(op, "sgd") || pd_fuse_is(op, "send") || pd_fuse_is(op, "split_selected_rows");
}

pd_status pd_fuse_rows(struct pd_fuse *f)
{
    static const struct pd_attr yes = {.type = PD_ATTR_BOOL, .b = 1};
    for (int i = 0; i < f->places.n; i++) {
        struct pd_opdesc *op = pd_fuse_op(f, i);
        if (!pd_fuse_is(op, "sum") || pd_attr_index(op->def->attrs, "keep_repeated_rows") < 0) continue;
        const char *out = pd_fuse_arg(op, 1, "Out");
        const struct pd_var *var = out ? pd_block_var(f->block, out) : NULL;
        struct pd_fuse_use use;
        if (var && var->meta.kind == PD_KIND_SELECTED_ROWS && pd_fuse_may_go(f, out, 1, &use) &&
            minds_no_repeats(pd_fuse_op(f, use.reader)))
            PD_TRY(pd_opdesc_set_attr(op, "keep_repeated_rows", &yes, 0));
    }
    return PD_OK;
}
