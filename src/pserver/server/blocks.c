/* Optimize blocks that the rules do not cover (decay, clips, several optimizers): gradients are put where the
 * Program expects them, and the engine runs the blocks.
 *
 * The Program averages over a fixed number of trainers. When some have left, those that are there count for
 * more, so that the result is their mean. Where it adds up there is nothing to make good. */
#include <string.h>

#include "pserver/server/server_private.h"

static void scale_data(void *data, int64_t n, int is_double, double by)
{
    for (int64_t i = 0; i < n; i++)
        if (is_double)
            ((double *)data)[i] *= by;
        else
            ((float *)data)[i] *= (float)by;
}

static pd_status give_dense(struct pd_value *v, const struct pd_unit_spec *unit, const struct pd_given *given,
                            double by)
{
    const struct pd_meta *m = &unit->table->meta;
    if (v->tensor.meta.kind != PD_KIND_TENSOR) pd_value_reset(v, PD_KIND_TENSOR);
    PD_TRY(pd_tensor_resize(&v->tensor, m->dtype, m->rank, m->dim));
    size_t bytes = pd_tensor_bytes(&v->tensor);
    if (given)
        memcpy(v->tensor.data, given->data, bytes);
    else
        memset(v->tensor.data, 0, bytes);
    if (given && by != 1) scale_data(v->tensor.data, pd_meta_numel(m), m->dtype == PD_DTYPE_FP64, by);
    return PD_OK;
}

static pd_status give_rows(struct pd_value *v, const struct pd_unit_spec *unit, const struct pd_given *given,
                           double by)
{
    const struct pd_meta *m = &unit->table->meta;
    int64_t n = given ? given->rows.n : 0, width = pd_meta_span(m, 1, m->rank);
    if (v->tensor.meta.kind != PD_KIND_SELECTED_ROWS) pd_value_reset(v, PD_KIND_SELECTED_ROWS);
    PD_TRY(pd_rows_resize(v, n, unit->table->height, m->dtype, 2, (int64_t[]){n, width}));
    if (!n) return PD_OK;
    memcpy(v->rows.at, given->rows.at, (size_t)n * sizeof(int64_t));
    memcpy(v->tensor.data, given->data, (size_t)(n * width) * pd_dtype_size(m->dtype));
    if (by != 1) scale_data(v->tensor.data, n * width, m->dtype == PD_DTYPE_FP64, by);
    return PD_OK;
}

/* Puts the gradients of one unit into the scope's variables. */
static pd_status give(struct lane *lane, int unit)
{
    struct pd_server *s = lane->server;
    const struct pd_unit_spec *spec = pd_shard_unit(lane->shard, unit);
    int n = s->config.trainers, in = 0, single = -1;
    for (int t = 0; t < n; t++)
        if (pd_shard_takes_part(lane->shard, t)) in++, single = t;
    int per_trainer = n > 1 && s->config.is_sync && spec->parts;
    for (int t = 0; t < (per_trainer ? n : 1); t++) {
        int from = per_trainer ? t : single;
        struct pd_value *v = pd_engine_lasting(&s->engine, per_trainer ? spec->parts[t] : spec->grad);
        if (!v)
            return pd_fail(PD_NOT_FOUND,
                           "the server's Program has no variable for the gradient '%s' of trainer %d",
                           spec->grad, t);
        const struct pd_given *given = from >= 0 && pd_shard_takes_part(lane->shard, from)
                                           ? pd_shard_given(lane->shard, unit, from)
                                           : NULL;
        double by = per_trainer && !spec->adds ? (double)n / in : 1;
        PD_TRY(spec->is_rows ? give_rows(v, spec, given, by) : give_dense(v, spec, given, by));
    }
    return PD_OK;
}

static int anyone_gave(const struct lane *lane, int unit)
{
    for (int t = 0; t < lane->server->config.trainers; t++)
        if (pd_shard_takes_part(lane->shard, t) && pd_shard_given(lane->shard, unit, t)) return 1;
    return 0;
}

static pd_status run_all(struct lane *lane)
{
    struct pd_server *s = lane->server;
    for (int u = 0; u < pd_shard_units(lane->shard); u++)
        if (!pd_table_is_direct(pd_shard_unit(lane->shard, u)->table)) PD_TRY(give(lane, u));
    if (s->config.prepare_block >= 0) PD_TRY(pd_engine_run(&s->engine, s->config.prepare_block, 0));
    for (int u = 0; u < pd_shard_units(lane->shard); u++) {
        const struct pd_unit_spec *spec = pd_shard_unit(lane->shard, u);
        if (pd_table_is_direct(spec->table)) continue;
        PD_TRY(pd_engine_run(&s->engine, spec->block, anyone_gave(lane, u)));
    }
    return PD_OK;
}

pd_status pd_server_run_blocks(struct lane *lane)
{
    pthread_mutex_lock(&lane->server->engine_lock);
    lane->server->applying = pd_shard_applying(lane->shard);
    lane->server->applying_lane = lane->index;
    pd_status status = run_all(lane);
    pthread_mutex_unlock(&lane->server->engine_lock);
    return status;
}
