/* Parts that are applied as soon as they are there need no memory of their own: they arrive in a small place
 * that is used again for each message of the trainer, and so stays in the cache. That is so for the rules of
 * async mode where nothing is checked, and of sync mode with one trainer that ends the job when it is lost,
 * unless the step before is still to be kept (the shard holds) or is begun and has lost its trainer. All else
 * is kept until the step is whole. */
#include "pserver/proto.h"
#include "pserver/shard/shard_private.h"

static int is_staged(const struct pd_shard *shard, const struct unit *u, int trainer)
{
    const struct pd_shard_config *config = &shard->config;
    if (!config->is_sync) return pd_shard_is_early(shard, u, trainer);
    return u->is_direct && !u->spec.is_rows && config->trainers == 1 && !config->is_whole;
}

static int is_applied_at_once(const struct pd_shard *shard, const struct unit *u, int trainer, uint64_t step)
{
    if (!is_staged(shard, u, trainer)) return 0;
    return !shard->config.is_sync ||
           (!shard->holds_answers && step == shard->step + 1 && pd_shard_counts(shard, trainer));
}

/* Room for the first part of each gradient, and no more than a message usually has. */
static size_t room(const struct pd_shard *shard, int trainer)
{
    size_t bytes = 0;
    for (int i = 0; i < shard->units.n && bytes < PD_PS_PART; i++) {
        const struct unit *u = shard->units.at[i];
        int64_t n = u->numel < u->part_elements ? u->numel : u->part_elements;
        if (is_staged(shard, u, trainer)) bytes += ((size_t)n * u->item + 63) / 64 * 64;
    }
    return bytes < PD_PS_PART ? bytes : PD_PS_PART;
}

void *pd_shard_stage(struct pd_shard *shard, int trainer, const struct unit *u, uint32_t part, uint64_t step,
                     size_t bytes)
{
    struct trainer *t = &shard->trainers[trainer];
    size_t aligned = (bytes + 63) / 64 * 64;
    if (!is_applied_at_once(shard, u, trainer, step)) return NULL;
    if (!t->stage) {
        t->stage_size = room(shard, trainer);
        t->stage = pd_malloc_aligned(t->stage_size);
    }
    if (!t->stage || aligned > t->stage_size - t->stage_used) return NULL;
    if (!pd_vec_push(&t->staged, ((struct staged){u->number, part, t->stage_used}))) return NULL;
    void *at = t->stage + t->stage_used;
    t->stage_used += aligned;
    return at;
}

/* Parts arrive in the order in which they were placed. When the last is there, the place is free again: its
 * bytes are good until the next message. */
const void *pd_shard_unstage(struct pd_shard *shard, int trainer, const struct unit *u, uint32_t part)
{
    struct trainer *t = &shard->trainers[trainer];
    if (t->n_unstaged == t->staged.n) return NULL;
    const struct staged *s = &t->staged.at[t->n_unstaged];
    if (s->unit != u->number || s->part != part) return NULL;
    const void *at = t->lent ? t->lent : t->stage + s->at;
    if (++t->n_unstaged == t->staged.n) pd_shard_clear_stage(t);
    return at;
}

void pd_shard_clear_stage(struct trainer *t)
{
    t->staged.n = t->n_unstaged = 0;
    t->stage_used = 0;
    t->lent = NULL;
}

size_t pd_shard_may_lend(const struct pd_shard *shard, int trainer)
{
    const struct trainer *t = &shard->trainers[trainer];
    if (t->staged.n != 1 || t->n_unstaged) return 0;
    return shard->units.at[t->staged.at[0].unit]->item;
}

void pd_shard_lend(struct pd_shard *shard, int trainer, const void *data)
{
    struct trainer *t = &shard->trainers[trainer];
    if (pd_shard_may_lend(shard, trainer)) t->lent = data;
}

void pd_shard_free_stage(struct trainer *t)
{
    pd_free_aligned(t->stage);
    pd_vec_free(&t->staged);
}
