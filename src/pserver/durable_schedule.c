/* The learning rate's block runs once for a step, whichever lane begins it. The lanes' logs are done again
 * one after the other, so what that block counts with goes back to the snapshot's before each of them. */
#include <string.h>

#include "pserver/durable_private.h"

static pd_status keep(struct pd_schedule *c, struct pd_value *v)
{
    if (!v || v->tensor.meta.kind != PD_KIND_TENSOR || !v->tensor.data) return PD_OK;
    struct pd_counted one = {v, pd_tensor_bytes(&v->tensor), NULL};
    one.copy = pd_malloc(one.bytes ? one.bytes : 1);
    if (!one.copy || !pd_vec_push(&c->values, one)) {
        pd_free(one.copy);
        return pd_no_memory();
    }
    memcpy(one.copy, v->tensor.data, one.bytes);
    return PD_OK;
}

pd_status pd_schedule_keep(const struct pd_server *s, struct pd_schedule *c)
{
    c->step = s->lr_step;
    if (s->config.lr_block < 0 || s->n_lanes < 2) return PD_OK;
    const struct pd_block *block = s->program->blocks.at[s->config.lr_block];
    for (int k = 0; k < block->ops.n; k++)
        for (int i = 0; i < block->ops.at[k]->out.n; i++) {
            const struct pd_io *out = &block->ops.at[k]->out.at[i];
            for (int a = 0; a < out->args.n; a++)
                PD_TRY(keep(c, s->run->step->find(s->run, out->args.at[a])));
        }
    return PD_OK;
}

pd_status pd_schedule_reset(struct pd_server *s, const struct pd_schedule *c)
{
    for (int i = 0; i < c->values.n; i++) {
        const struct pd_counted *one = &c->values.at[i];
        if (pd_tensor_bytes(&one->value->tensor) != one->bytes)
            return pd_fail(PD_UNSUPPORTED, "the learning rate's block changes the size of its variables: "
                                           "give FLAGS_ps_loops=1 to do its log again");
        memcpy(one->value->tensor.data, one->copy, one->bytes);
    }
    s->lr_step = c->step;
    return PD_OK;
}

void pd_schedule_free(struct pd_schedule *c)
{
    for (int i = 0; i < c->values.n; i++)
        pd_free(c->values.at[i].copy);
    pd_vec_free(&c->values);
}
