/* Delay compensation (DC-ASGD), of async jobs that ask for it: a gradient g that a trainer has computed from
 * parameters b, and that comes when they are w, counts as g + g * g * (w - b). Dense gradients alone; b is
 * what the trainer was given last, and until it was given anything, or behind a restart, w. */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "pserver/shard/shard_private.h"

pd_status pd_shard_shown(struct pd_shard *shard, int trainer, const struct pd_table *table,
                         const struct pd_tensor *value)
{
    for (int i = 0; shard->config.compensates && i < shard->units.n; i++) {
        struct unit *u = shard->units.at[i];
        size_t bytes = (size_t)u->numel * u->item;
        if (u->spec.table != table || u->spec.is_rows || bytes != pd_tensor_bytes(value)) continue;
        if (!u->shown) u->shown = pd_calloc((size_t)shard->config.trainers, sizeof *u->shown);
        if (u->shown && !u->shown[trainer]) u->shown[trainer] = pd_malloc_aligned(bytes + 1);
        if (!u->shown || !u->shown[trainer]) return pd_no_memory();
        memcpy(u->shown[trainer], value->data, bytes);
        u->value = value;
    }
    return PD_OK;
}

void pd_shard_free_shown(struct unit *u, int trainers)
{
    for (int t = 0; u->shown && t < trainers; t++)
        pd_free_aligned(u->shown[t]);
    pd_free(u->shown);
}

#define COMPENSATE(T)                                                                                        \
    static void compensate_##T(const T *g, const T *now, const T *before, int64_t n, T *out)                 \
    {                                                                                                        \
        for (int64_t i = 0; i < n; i++)                                                                      \
            out[i] = g[i] + g[i] * g[i] * (now[i] - before[i]);                                              \
    }
COMPENSATE(float)
COMPENSATE(double)

/* Elements [first, first + n) of a gradient; `out` may be where they are. */
static void compensate(const struct unit *u, int trainer, int64_t first, int64_t n, const void *grad,
                       void *out)
{
    const void *now = u->value->data, *before = u->shown[trainer];
    if (u->item == sizeof(double))
        compensate_double(grad, (const double *)now + first, (const double *)before + first, n, out);
    else
        compensate_float(grad, (const float *)now + first, (const float *)before + first, n, out);
}

pd_status pd_shard_compensate_part(struct pd_shard *shard, const struct unit *u, int trainer, int64_t first,
                                   int64_t n, const void **grad)
{
    if (!shard->config.compensates || !u->shown || !u->shown[trainer]) return PD_OK;
    if (!pd_room_growing(&shard->merged, &shard->merged_size, (size_t)n * u->item)) return pd_no_memory();
    compensate(u, trainer, first, n, *grad, shard->merged);
    *grad = shard->merged;
    return PD_OK;
}

void pd_shard_compensate_given(struct pd_shard *shard, const struct unit *u, int trainer, uint64_t step)
{
    const struct pd_given *g = &u->given[trainer];
    if (!shard->config.compensates || u->spec.is_rows || !u->shown || !u->shown[trainer]) return;
    if (g->step == step && g->n_parts) compensate(u, trainer, 0, u->numel, g->data, g->data);
}
