/* Steps of a shard: who is in the job, when a step is whole, what it waits for. */
#include "pserver/shard/shard_private.h"

int pd_shard_counts(const struct pd_shard *shard, int trainer)
{
    const struct trainer *t = &shard->trainers[trainer];
    return t->state == PD_TRAINER_IN && t->from <= shard->step + 1;
}

static int passes(const struct pd_shard *shard, int trainer, uint64_t step)
{
    return shard->trainers[trainer].passed == step;
}

int pd_shard_gives(const struct pd_shard *shard, int trainer, uint64_t step)
{
    return pd_shard_counts(shard, trainer) && !passes(shard, trainer, step);
}

int pd_shard_count_in(const struct pd_shard *shard)
{
    int n = 0;
    for (int t = 0; t < shard->config.trainers; t++)
        n += pd_shard_gives(shard, t, shard->step + 1);
    return n;
}

/* Every trainer is there and all that are in the job have given this part: it can be applied before the step
 * is whole. */
int pd_shard_all_gave(const struct pd_shard *shard, const struct unit *u, uint32_t part, uint64_t step)
{
    if (step != shard->step + 1 || shard->n_absent) return 0;
    for (int t = 0; t < shard->config.trainers; t++)
        if (pd_shard_counts(shard, t) && !has_given(u, t, step, part)) return 0;
    return 1;
}

int pd_shard_takes_part(const struct pd_shard *shard, int trainer)
{
    for (int i = 0; i < shard->n_again; i++)
        if (shard->again[i] == trainer) return 1;
    if (shard->again) return 0;
    return shard->only >= 0
               ? trainer == shard->only
               : pd_shard_counts(shard, trainer) && shard->trainers[trainer].ended == shard->applying &&
                     !passes(shard, trainer, shard->applying);
}

uint64_t pd_shard_applying(const struct pd_shard *shard)
{
    return shard->applying;
}

uint64_t pd_shard_step(const struct pd_shard *shard)
{
    return shard->step;
}

uint64_t pd_shard_changes(const struct pd_shard *shard)
{
    return shard->changes;
}

int pd_shard_is_within(const struct pd_shard *shard)
{
    return shard->begun > shard->step || shard->reopened > shard->step;
}

void pd_shard_set_step(struct pd_shard *shard, uint64_t step)
{
    pd_shard_drop_prepared(shard);
    pd_shard_void(shard);
    shard->step = shard->begun = step;
}

uint64_t pd_shard_trainer_step(const struct pd_shard *shard, int trainer)
{
    const struct trainer *t = &shard->trainers[trainer];
    if (!shard->config.is_sync) return t->step;
    return t->state == PD_TRAINER_IN && t->from > shard->step ? t->from - 1 : shard->step;
}

void pd_shard_set_trainer_step(struct pd_shard *shard, int trainer, uint64_t step)
{
    shard->trainers[trainer].step = step;
}

enum pd_trainer_state pd_shard_trainer(const struct pd_shard *shard, int trainer)
{
    return shard->trainers[trainer].state;
}

/* ---- sync ---- */

/* Asked at each END: who was missing the last time mostly still is, so that a step costs one round over the
 * trainers, not one for each of them. */
static int is_whole(struct pd_shard *shard, uint64_t step)
{
    int counted = 0, later = 0, n = shard->config.trainers;
    if (shard->n_absent) return 0;
    for (int i = 0; i < n; i++) {
        int t = (shard->missing + i) % n;
        later |= shard->trainers[t].state == PD_TRAINER_IN;
        if (!pd_shard_counts(shard, t)) continue;
        if (shard->trainers[t].ended != step) {
            shard->missing = t;
            return 0;
        }
        counted++;
    }
    /* All that were in it have left, and somebody waits for the one after. */
    return counted > 0 || later;
}

static void answer(struct pd_shard *shard, int trainer)
{
    struct trainer *t = &shard->trainers[trainer];
    if (!t->waits) return;
    t->waits = 0;
    shard->config.hooks.answer(shard->config.hooks.arg, trainer, t->request, shard->step);
}

static pd_status apply_step(struct pd_shard *shard, uint64_t step)
{
    int is_prepared = shard->prepared == step;
    shard->taking_part = pd_shard_count_in(shard);
    shard->applying = step;
    if (!is_prepared && shard->in_log == step) PD_TRY(pd_shard_log_prepare(shard, step));
    PD_TRY(shard->taking_part
               ? pd_shard_merge(shard, step, (is_prepared ? 0 : PD_SHARD_LOGS) | PD_SHARD_UPDATES)
               : pd_shard_begin(shard, step));
    PD_TRY(pd_shard_commit(shard, PD_CHANGE_END, -1, step));
    for (int t = 0; t < shard->config.trainers; t++)
        if (pd_shard_takes_part(shard, t)) shard->trainers[t].step = step;
    shard->step = step;
    return PD_OK;
}

static void answer_all(struct pd_shard *shard)
{
    for (int t = 0; t < shard->config.trainers; t++)
        if (shard->trainers[t].ended <= shard->step) answer(shard, t);
}

/* One step at most, mostly; one more when somebody waits in it already. */
static pd_status finish_step(struct pd_shard *shard)
{
    const struct pd_shard_hooks *hooks = &shard->config.hooks;
    while (shard->config.is_sync && !shard->holds_answers) {
        uint64_t step = shard->step + 1;
        int is_allowed = !shard->config.is_gated || shard->allowed >= step;
        if (is_allowed && pd_shard_prepared(shard)) {
            PD_TRY(pd_shard_apply_prepared(shard));
        } else if (!is_whole(shard, step)) {
            break;
        } else if (!is_allowed) {
            PD_TRY(pd_shard_prepare(shard, step));
            hooks->whole(hooks->arg, step);
            break;
        } else {
            PD_TRY(apply_step(shard, step));
        }
        shard->holds_answers = hooks->applied && hooks->applied(hooks->arg, step);
        if (!shard->holds_answers) answer_all(shard);
    }
    return PD_OK;
}

pd_status pd_shard_allow(struct pd_shard *shard, uint64_t step)
{
    if (step > shard->allowed) shard->allowed = step;
    return finish_step(shard);
}

void pd_shard_hold(struct pd_shard *shard)
{
    shard->holds_answers = 1;
}

pd_status pd_shard_release(struct pd_shard *shard)
{
    shard->holds_answers = 0;
    answer_all(shard);
    return finish_step(shard);
}

/* ---- async ---- */

static pd_status finish_own(struct pd_shard *shard, int trainer, uint64_t step)
{
    int through_engine = 0, gives = shard->trainers[trainer].passed != step;
    shard->taking_part = 1;
    shard->applying = step;
    PD_TRY(pd_shard_begin(shard, step)); /* whatever it gives, as when the log is done again */
    for (int i = 0; gives && i < shard->units.n; i++) {
        struct unit *u = shard->units.at[i];
        if (!u->is_direct) {
            through_engine = 1;
            pd_shard_compensate_given(shard, u, trainer, step);
        } else if (u->spec.is_rows)
            PD_TRY(pd_shard_apply_own_rows(shard, u, trainer, step));
        else if (!pd_shard_is_early(shard, u, trainer))
            PD_TRY(pd_shard_apply_own_parts(shard, u, trainer, step));
    }
    if (through_engine) {
        shard->only = trainer;
        PD_TRY(pd_shard_log_given(shard, step));
        pd_status status = shard->config.hooks.run_blocks(shard->config.hooks.arg, shard);
        shard->only = -1;
        PD_TRY(status);
    }
    PD_TRY(pd_shard_commit(shard, PD_CHANGE_END, trainer, step));
    shard->changes++;
    shard->trainers[trainer].step = step;
    if (step > shard->step) shard->step = step;
    if (!shard->holds_answers) answer(shard, trainer);
    return PD_OK;
}

/* ---- what trainers do ---- */

/* Async: parts that were applied as they came are in the parameters, and stay known, should they come again,
 * from this process or the next. */
void pd_shard_drop_given(struct pd_shard *shard, int trainer)
{
    uint64_t applied = shard->config.is_sync ? shard->step : shard->trainers[trainer].step;
    for (int i = 0; i < shard->units.n; i++) {
        struct unit *u = shard->units.at[i];
        if (!shard->config.is_sync && pd_shard_is_early(shard, u, trainer)) continue;
        if (u->given[trainer].step <= applied) continue;
        pd_sum_drop(shard, u, &u->given[trainer]);
        u->given[trainer].step = 0;
    }
}

static void set_state(struct pd_shard *shard, struct trainer *t, enum pd_trainer_state state)
{
    shard->n_absent += (state == PD_TRAINER_ABSENT) - (t->state == PD_TRAINER_ABSENT);
    t->state = state;
}

pd_status pd_shard_join(struct pd_shard *shard, int trainer, uint64_t incarnation)
{
    if (trainer < 0 || trainer >= shard->config.trainers)
        return pd_fail(PD_RANGE, "trainer %d: the job has %d trainers, numbered from 0", trainer,
                       shard->config.trainers);
    struct trainer *t = &shard->trainers[trainer];
    pd_shard_drop_prepared(shard);
    if (t->state != PD_TRAINER_IN || t->incarnation != incarnation) pd_shard_void(shard);
    /* It will end the step again, on its new connection. That it was whole stays true where others know it.
     */
    if (!shard->config.is_gated || t->incarnation != incarnation) t->ended = t->passed = 0;
    if (t->incarnation != incarnation) pd_shard_drop_given(shard, trainer);
    int is_begun = shard->begun > shard->step || shard->adding > shard->step;
    if (t->state != PD_TRAINER_IN) {
        t->from = shard->step + (is_begun ? 2 : 1);
        pd_sum_ask_again(shard); /* its turn may have been passed over */
    }
    t->incarnation = incarnation;
    set_state(shard, t, PD_TRAINER_IN);
    pd_shard_clear_stage(t);
    t->waits = 0;
    return PD_OK;
}

pd_status pd_shard_leave(struct pd_shard *shard, int trainer, enum pd_trainer_state how)
{
    struct trainer *t = &shard->trainers[trainer];
    if (t->state != PD_TRAINER_IN && t->state != PD_TRAINER_ABSENT) return PD_OK;
    set_state(shard, t, how);
    t->waits = 0;
    pd_shard_void(shard);
    pd_shard_drop_given(shard, trainer); /* they go with it */
    t->ended = 0;
    return finish_step(shard);
}

int pd_shard_pass(struct pd_shard *shard, int trainer, uint64_t step)
{
    int is_next = passes(shard, trainer, step - 1);
    if (step <= pd_shard_trainer_step(shard, trainer)) return is_next;
    if (!passes(shard, trainer, step)) pd_shard_void(shard);
    pd_shard_drop_given(shard, trainer);
    shard->trainers[trainer].passed = step;
    return is_next;
}

pd_status pd_shard_may_end(const struct pd_shard *shard, int trainer, uint64_t step)
{
    uint64_t last = pd_shard_trainer_step(shard, trainer);
    if (step <= last + 1) return PD_OK;
    return pd_fail(PD_INVALID, "trainer %d ends step %llu, but the server has applied only step %llu",
                   trainer, (unsigned long long)step, (unsigned long long)last);
}

pd_status pd_shard_end(struct pd_shard *shard, int trainer, uint64_t step, uint64_t request)
{
    struct trainer *t = &shard->trainers[trainer];
    if (t->state != PD_TRAINER_IN)
        return pd_fail(PD_INVALID, "trainer %d ends a step, but it is not in the job", trainer);
    PD_TRY(pd_shard_may_end(shard, trainer, step));
    t->request = request;
    t->waits = 1;
    /* It asks again for the answer of a step that is applied: the answer was lost on the way. */
    if (step <= pd_shard_trainer_step(shard, trainer)) {
        if (!shard->holds_answers) answer(shard, trainer);
        return PD_OK;
    }
    if (!shard->config.is_sync) return finish_own(shard, trainer, step);
    t->ended = step;
    return finish_step(shard);
}

int pd_shard_waits_for(const struct pd_shard *shard, int *trainers, int cap)
{
    int n = 0, ended = 0;
    if (!shard->config.is_sync) return 0;
    for (int t = 0; t < shard->config.trainers; t++)
        ended |= shard->trainers[t].state == PD_TRAINER_IN && shard->trainers[t].ended > shard->step;
    for (int t = 0; ended && t < shard->config.trainers && n < cap; t++)
        if (shard->trainers[t].state == PD_TRAINER_ABSENT ||
            (pd_shard_counts(shard, t) && shard->trainers[t].ended != shard->step + 1))
            trainers[n++] = t;
    return n;
}

int pd_shard_is_awaited(const struct pd_shard *shard, int trainer)
{
    return shard->config.is_sync && pd_shard_counts(shard, trainer) &&
           shard->trainers[trainer].ended != shard->step + 1;
}

int pd_shard_has_waiters(const struct pd_shard *shard)
{
    for (int t = 0; shard->config.is_sync && t < shard->config.trainers; t++)
        if (shard->trainers[t].state == PD_TRAINER_IN && shard->trainers[t].ended > shard->step) return 1;
    return 0;
}

uint64_t pd_shard_incarnation(const struct pd_shard *shard, int trainer)
{
    return shard->trainers[trainer].incarnation;
}

uint64_t pd_shard_counted(const struct pd_shard *shard, int trainer)
{
    return shard->trainers[trainer].step;
}

size_t pd_shard_held(const struct pd_shard *shard)
{
    size_t bytes = shard->held;
    for (int i = 0; i < shard->units.n; i++)
        for (int t = 0; t < shard->config.trainers; t++)
            bytes += shard->units.at[i]->given[t].data_size;
    return bytes;
}

uint64_t pd_shard_repeated(const struct pd_shard *shard)
{
    return shard->repeated;
}

int pd_shard_finished(const struct pd_shard *shard)
{
    for (int t = 0; t < shard->config.trainers; t++)
        if (shard->trainers[t].state == PD_TRAINER_IN || shard->trainers[t].state == PD_TRAINER_ABSENT)
            return 0;
    return 1;
}
