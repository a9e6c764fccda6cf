/* Gradients that are added up as they come.
 *
 * A server of a sync job would need room for what every trainer gives. Where a step is not to go on without a
 * trainer that is lost (FLAGS_ps_on_trainer_loss is 'fail'), nothing that was given has to be taken out
 * again: a part is added to the sum of its step, and its room is free for the next one. Always in the order
 * of the trainers, so that a job gives the same bits however its messages arrive: what comes before its turn
 * is kept.
 *
 * A trainer may still leave in the middle of a step (an exchange that was interrupted, then exit(0)). Parts
 * of it that are in a sum stay in the average, as those that are applied already do. */
#include <string.h>

#include "pserver/proto.h"
#include "pserver/shard/shard_private.h"

/* A block is room for one part. Most parts are about as large as parts can be: their blocks go from unit to
 * unit. */
struct block {
    struct block *next;
};

static struct block **free_blocks(struct pd_shard *shard, struct unit *u)
{
    return u->block == PD_PS_PART ? &shard->blocks : &u->blocks;
}

static void *get_block(struct pd_shard *shard, struct unit *u)
{
    struct block **list = free_blocks(shard, u), *block = *list;
    if (block) {
        *list = block->next;
        return block;
    }
    void *made = pd_malloc_aligned(u->block);
    if (made) shard->held += u->block;
    return made;
}

static void put_block(struct pd_shard *shard, struct unit *u, void *data)
{
    struct block **list = free_blocks(shard, u), *block = data;
    if (!block) return;
    block->next = *list;
    *list = block;
}

static void free_list(struct block *block)
{
    while (block) {
        struct block *next = block->next;
        pd_free_aligned(block);
        block = next;
    }
}

void pd_sum_free_blocks(struct pd_shard *shard)
{
    free_list(shard->blocks);
}

/* ---- life ---- */

pd_status pd_sum_new(const struct pd_shard *shard, struct unit *u)
{
    const struct pd_shard_config *config = &shard->config;
    if (!u->is_direct || u->spec.is_rows || !config->is_sync || config->is_gated || config->is_whole ||
        config->trainers < 2)
        return PD_OK;
    int64_t n = u->numel < u->part_elements ? u->numel : u->part_elements;
    u->block = ((size_t)n * u->item + 63) / 64 * 64;
    if (u->block > PD_PS_PART / 2 && u->block < PD_PS_PART) u->block = PD_PS_PART;
    if (!u->block) u->block = 64;
    u->sums = pd_calloc(u->parts, sizeof *u->sums);
    return u->sums ? PD_OK : pd_no_memory();
}

void pd_sum_free(struct unit *u, int trainers)
{
    for (int t = 0; u->given && t < trainers; t++) {
        for (uint32_t part = 0; u->given[t].blocks && part < u->parts; part++)
            pd_free_aligned(u->given[t].blocks[part]);
        pd_free(u->given[t].blocks);
    }
    for (uint32_t part = 0; u->sums && part < u->parts; part++) {
        pd_free_aligned(u->sums[part].data);
        pd_free(u->sums[part].who);
    }
    pd_free(u->sums);
    free_list(u->blocks);
}

/* ---- parts that arrive ---- */

void *pd_sum_place(struct pd_shard *shard, struct unit *u, struct pd_given *g, uint32_t part)
{
    if (!g->blocks) g->blocks = pd_calloc(u->parts, sizeof *g->blocks);
    if (!g->blocks) return NULL;
    if (!g->blocks[part]) g->blocks[part] = get_block(shard, u);
    return g->blocks[part];
}

/* One that has not arrived stays: its message may still be on the way into it. */
void pd_sum_drop(struct pd_shard *shard, struct unit *u, struct pd_given *g)
{
    for (uint32_t part = 0; g->blocks && g->got && part < u->parts; part++)
        if (has_part(g, part)) {
            put_block(shard, u, g->blocks[part]);
            g->blocks[part] = NULL;
        }
}

static int is_added(const struct part_sum *s, int trainer)
{
    return s->who && (int)(s->who[trainer / 64] >> (trainer % 64) & 1);
}

int pd_sum_has(const struct unit *u, int trainer, uint64_t step, uint32_t part)
{
    return u->sums && u->sums[part].step == step && is_added(&u->sums[part], trainer);
}

void pd_sum_clear(struct pd_shard *shard, struct unit *u, uint32_t part)
{
    struct part_sum *s = &u->sums[part];
    size_t words = ((size_t)shard->config.trainers + 63) / 64;
    put_block(shard, u, s->data);
    if (s->who) memset(s->who, 0, words * sizeof *s->who);
    *s = (struct part_sum){.who = s->who};
}

/* The sum of this step. What is left of an earlier one, which ended without it, goes. */
static struct part_sum *sum_of(struct pd_shard *shard, struct unit *u, uint32_t part, uint64_t step)
{
    struct part_sum *s = &u->sums[part];
    if (!s->who) s->who = pd_calloc(((size_t)shard->config.trainers + 63) / 64, sizeof *s->who);
    if (!s->who) return NULL;
    if (s->step != step) pd_sum_clear(shard, u, part);
    s->step = step;
    return s;
}

#define ADD_FN(name, T)                                                                                      \
    static void name(T *to, const T *from, int64_t n)                                                        \
    {                                                                                                        \
        for (int64_t i = 0; i < n; i++)                                                                      \
            to[i] += from[i];                                                                                \
    }
ADD_FN(add_f32, float)
ADD_FN(add_f64, double)

void pd_sum_add(const struct unit *u, void *to, const void *from, int64_t n)
{
    if (u->item == sizeof(double))
        add_f64(to, from, n);
    else
        add_f32(to, from, n);
}

static void add(struct pd_shard *shard, struct unit *u, struct part_sum *s, uint32_t part, int trainer)
{
    struct pd_given *g = &u->given[trainer];
    int64_t n = pd_shard_part_size(u, part);
    void *from = g->blocks[part];
    g->blocks[part] = NULL;
    s->who[trainer / 64] |= (uint64_t)1 << (trainer % 64);
    shard->adding = s->step;
    if (!s->data) {
        s->data = from;
        return;
    }
    pd_sum_add(u, s->data, from, n);
    put_block(shard, u, from);
}

pd_status pd_sum_arrived(struct pd_shard *shard, struct unit *u, uint32_t part, uint64_t step, int *is_whole)
{
    *is_whole = 0;
    if (step != shard->step + 1 || shard->n_absent) return PD_OK;
    struct part_sum *s = sum_of(shard, u, part, step);
    if (!s) return pd_no_memory();
    for (; s->next < shard->config.trainers; s->next++) {
        if (!pd_shard_counts(shard, s->next) || is_added(s, s->next)) continue;
        if (!has_given(u, s->next, step, part)) return PD_OK;
        add(shard, u, s, part, s->next);
    }
    *is_whole = 1;
    return PD_OK;
}

void pd_sum_ask_again(struct pd_shard *shard)
{
    for (int i = 0; i < shard->units.n; i++) {
        struct unit *u = shard->units.at[i];
        for (uint32_t part = 0; u->sums && part < u->parts; part++)
            u->sums[part].next = 0;
    }
}

/* ---- the average ---- */

#define SCALE_FN(name, T)                                                                                    \
    static void name(T *x, int64_t n, int divisor)                                                           \
    {                                                                                                        \
        T scale = (T)1 / (T)divisor;                                                                         \
        for (int64_t i = 0; i < n; i++)                                                                      \
            x[i] *= scale;                                                                                   \
    }
SCALE_FN(scale_f32, float)
SCALE_FN(scale_f64, double)

void pd_sum_scale(const struct unit *u, void *x, int64_t n, int divisor)
{
    if (divisor == 1) return;
    if (u->item == sizeof(double))
        scale_f64(x, n, divisor);
    else
        scale_f32(x, n, divisor);
}

/* Those that have left, or pass the step, since they were added. */
static int left_since(const struct pd_shard *shard, const struct part_sum *s)
{
    int n = 0;
    for (int t = 0; t < shard->config.trainers; t++)
        n += is_added(s, t) && !pd_shard_gives(shard, t, s->step);
    return n;
}

pd_status pd_sum_finish(struct pd_shard *shard, struct unit *u, uint32_t part, uint64_t step,
                        const void **grad)
{
    struct part_sum *s = sum_of(shard, u, part, step);
    int64_t n = pd_shard_part_size(u, part);
    if (!s) return pd_no_memory();
    for (int t = 0; t < shard->config.trainers; t++)
        if (!is_added(s, t) && has_given(u, t, step, part)) add(shard, u, s, part, t);
    *grad = s->data;
    if (!s->data) return PD_OK; /* nobody gave it */
    pd_sum_scale(u, s->data, n, u->spec.adds ? 1 : shard->taking_part + left_since(shard, s));
    return PD_OK;
}
