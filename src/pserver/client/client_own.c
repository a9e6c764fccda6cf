/* What a trainer alone holds: statistics of batch_norm, moving averages, counters of its own. Servers do not
 * keep it, so a process that takes a trainer's place has what its startup Program made, or what its script
 * loaded. Counters and rates that servers compute as well come from them with the startup Program. */
#include <stdatomic.h>

#include "base/log.h"
#include "exec/frame.h"
#include "pserver/client/client_private.h"

enum { SHOWN = 3 };

void pd_client_tell_own(const struct pd_client *c, const struct pd_run *run, int has_begun)
{
    /* A process that said goodbye and comes back to the job has its values still. */
    static atomic_int has_trained;
    int has_values = atomic_exchange(&has_trained, 1) && c->comes_again;
    if (has_values || !has_begun || !run || !run->frame) return;
    const struct pd_frame *frame = ((struct pd_frame_op *)run->frame)->frame;
    while (frame->outer)
        frame = frame->outer;
    int n = frame->theirs.written.n;
    struct pd_buf names = {0};
    for (int i = 0; i < n && i < SHOWN; i++)
        pd_buf_printf(&names, "%s%s", i ? ", " : "", frame->plan->vars.at[frame->theirs.written.at[i]].name);
    if (n > SHOWN) pd_buf_printf(&names, " and %d more", n - SHOWN);
    if (n && !names.failed)
        pd_log(PD_LOG_WARNING,
               "trainer %d goes on in a job that has begun, and servers do not keep what trainers alone "
               "hold: %s goes on from what this process's startup Program or script gave it. Save it with "
               "save_persistables, and load it in the trainer before the first step",
               c->id, names.at);
    pd_buf_free(&names);
}
