/* See pace.h. */
#include "exec/pace.h"

#include "base/clock.h"
#include "base/flags.h"
#include "base/parallel.h"

enum { FIRST_STEPS = 3 }; /* of each mode, before anything is decided */

static const int64_t try_every = 20 * 1000 * 1000, try_every_most = 128 * 20 * 1000 * 1000ll;

enum pd_pace_mode pd_pace_choose(struct pd_pace *p, int64_t now)
{
    enum pd_pace_mode other = p->mode == PD_PACE_ALL ? PD_PACE_ONE : PD_PACE_ALL;
    if (p->seen[PD_PACE_ALL] < FIRST_STEPS)
        p->trying = PD_PACE_ALL;
    else if (p->seen[PD_PACE_ONE] < FIRST_STEPS)
        p->trying = PD_PACE_ONE;
    else
        p->trying = now >= p->next_try ? other : p->mode;
    return p->trying;
}

void pd_pace_note(struct pd_pace *p, double ns, int64_t now)
{
    double *time = &p->time[p->trying];
    int was_try = p->trying != p->mode;
    /* A step that was held up once counts little; one after the other of them count. What the other mode took
     * before its last try is old news. */
    if (*time != 0 && !was_try && ns > 4 * *time) ns = 4 * *time;
    *time = *time == 0 || was_try ? ns : 0.7 * *time + 0.3 * ns;
    p->seen[p->trying]++;
    if (p->seen[PD_PACE_ALL] < FIRST_STEPS || p->seen[PD_PACE_ONE] < FIRST_STEPS) return;
    p->mode = p->time[PD_PACE_ONE] < p->time[PD_PACE_ALL] ? PD_PACE_ONE : PD_PACE_ALL;
    if (!was_try && p->next_try) return;
    /* All threads that get in each other's way show it by their own times; one thread is tried so that its
     * time does not get too old. What one thread gives up comes back unseen, so there a mode that is not much
     * worse is tried again soon. */
    int settled = p->mode == PD_PACE_ALL || *time >= 2 * p->time[p->mode];
    if (!p->interval || p->trying == p->mode || !settled)
        p->interval = try_every;
    else if (p->interval < try_every_most)
        p->interval *= 2;
    /* Tries may cost a tenth of the time. */
    double lost = p->time[PD_PACE_ALL] - p->time[PD_PACE_ONE];
    int64_t pause = p->interval, worth = (int64_t)(10 * (lost < 0 ? -lost : lost));
    p->next_try = now + (worth > pause ? worth : pause);
}

void pd_pace_begin(struct pd_pace *p)
{
    p->began = 0;
    if (pd_threads() < 2 || pd_flag_int(PD_FLAG_cpu_deterministic)) return;
    p->began = pd_clock_ns();
    pd_threads_alone(pd_pace_choose(p, p->began) == PD_PACE_ONE);
}

void pd_pace_end(struct pd_pace *p, int counts)
{
    if (!p->began) return;
    int64_t now = pd_clock_ns();
    pd_threads_alone(0);
    if (counts) pd_pace_note(p, (double)(now - p->began), now);
}
