/* What a trainer alone holds: statistics of batch_norm, moving averages, counters of its own. Servers do not
 * keep it, so a process that takes a trainer's place has what its startup Program made, or what its script
 * loaded. Counters and rates that servers compute as well come from them with the startup Program. */
#include <stdatomic.h>

#include "base/log.h"
#include "exec/frame.h"
#include "exec/theirs.h"
#include "pserver/client/client_private.h"

enum { SHOWN = 3, FROM_SERVERS = 4 | 8 }; /* op_role: what the transpiler put there */

/* Does it speak with servers, or put together what they sent? */
static int is_of_job(const struct pd_opdesc *op)
{
    const struct pd_attr *role = pd_opdesc_attr(op, "op_role");
    if (role && (role->i & FROM_SERVERS)) return 1;
    for (int i = 0; i < op->parts.n; i++)
        if (is_of_job(op->parts.at[i])) return 1;
    return 0;
}

/* Appends the first names; how many there are. */
static int list_own(const struct pd_block *block, struct pd_buf *out)
{
    const struct pd_attr *kept = pd_theirs_kept(block);
    int n = 0;
    for (int i = 0; i < block->ops.n; i++) {
        const struct pd_opdesc *op = block->ops.at[i];
        for (int s = 0; s < op->out.n && !is_of_job(op); s++)
            for (int k = 0; k < op->out.at[s].args.n; k++) {
                const char *name = op->out.at[s].args.at[k];
                const struct pd_var *var = pd_block_find(block, name);
                if (!var || !(var->flags & PD_VAR_PERSISTABLE) || pd_theirs_are_kept(kept, name)) continue;
                if (n < SHOWN) pd_buf_printf(out, "%s%s", n ? ", " : "", name);
                n++;
            }
    }
    if (n > SHOWN) pd_buf_printf(out, " and %d more", n - SHOWN);
    return n;
}

void pd_client_tell_own(const struct pd_client *c, const struct pd_run *run, int has_begun)
{
    /* A process that said goodbye and comes back to the job has its values still. */
    static atomic_int has_trained;
    int has_values = atomic_exchange(&has_trained, 1) && c->comes_again;
    if (has_values || !has_begun || !run || !run->frame) return;
    const struct pd_frame *frame = ((struct pd_frame_op *)run->frame)->frame;
    struct pd_buf names = {0};
    if (list_own(pd_program_block(frame->plan->program, 0), &names) && !names.failed)
        pd_log(PD_LOG_WARNING,
               "trainer %d goes on in a job that has begun, and servers do not keep what trainers alone "
               "hold: %s "
               "goes on from what this process's startup Program or script gave it. Save it with "
               "save_persistables, and load it in the trainer before the first step",
               c->id, names.at);
    pd_buf_free(&names);
}
