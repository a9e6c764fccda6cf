/* Learning rates, which are kept with what they are computed from: in async mode a trainer behind the others
 * uses the rate of the step that they have begun.
 *
 * While logs are replayed: a schedule is the server's, and advances once a step; logs are
 * replayed one loop after the other, and each change needs the rate of its own step. So each loop begins with
 * the schedule as the snapshot has it. Loops may end a step apart; the one behind does that step first when
 * the server runs, so in sync mode the schedule then stands where that loop is. */
#include <string.h>

#include "pserver/store/durable_private.h"

int pd_program_writes(const struct pd_program *program, int block, const char *name)
{
    const struct pd_block *b = block >= 0 ? pd_program_block(program, block) : NULL;
    for (int i = 0; b && i < b->ops.n; i++) {
        const struct pd_opdesc *op = b->ops.at[i];
        if (pd_opdesc_names(op, 1, name)) return 1;
        for (int k = 0, sub; (sub = pd_opdesc_sub_block(op, k)) >= 0; k++)
            if (pd_program_writes(program, sub, name)) return 1;
    }
    return 0;
}

int pd_schedule_writes(const struct pd_server *s, const char *name)
{
    return pd_program_writes(s->engine.program, s->config.lr_block, name);
}

pd_status pd_schedule_save(const struct pd_durable *d, struct pd_schedule *out)
{
    const struct pd_server *s = d->server;
    out->step = s->lr_step;
    for (int i = 0; i < d->kept.n; i++) {
        struct pd_value *value = d->kept.at[i].value;
        size_t n = pd_tensor_bytes(&value->tensor);
        if (!value->tensor.data || !pd_schedule_writes(s, d->kept.at[i].name)) continue;
        struct pd_schedule_value copy = {value, pd_malloc_aligned(n)};
        if (!copy.data || !pd_vec_push(&out->values, copy)) {
            pd_free_aligned(copy.data);
            return pd_no_memory();
        }
        memcpy(copy.data, value->tensor.data, n);
    }
    return PD_OK;
}

void pd_schedule_put(const struct pd_durable *d, const struct pd_schedule *from)
{
    d->server->lr_step = from->step;
    for (int i = 0; i < from->values.n; i++) {
        struct pd_tensor *to = &from->values.at[i].value->tensor;
        memcpy(to->data, from->values.at[i].data, pd_tensor_bytes(to));
    }
}

void pd_schedule_free(struct pd_schedule *schedule)
{
    for (int i = 0; i < schedule->values.n; i++)
        pd_free_aligned(schedule->values.at[i].data);
    pd_vec_free(&schedule->values);
}

/* ---- what a log cannot do again ---- */

/* Noise without a strength is none (dpsgd). */
static int draws_anew(const struct pd_opdesc *op)
{
    const struct pd_attr *seed = pd_opdesc_attr(op, "seed"), *sigma = pd_opdesc_attr(op, "sigma");
    return seed && !seed->i && !(sigma && sigma->f == 0);
}

pd_status pd_durable_can_repeat(const struct pd_program *program, int block)
{
    const struct pd_block *b = block > 0 ? pd_program_block(program, block) : NULL;
    for (int i = 0; b && i < b->ops.n; i++)
        if (draws_anew(b->ops.at[i]))
            return pd_fail(PD_INVALID,
                           "FLAGS_ps_log needs steps that can be done again, but op %s draws random numbers, "
                           "which would be others then: leave FLAGS_ps_log out (snapshots need none)",
                           b->ops.at[i]->type);
    return PD_OK;
}
