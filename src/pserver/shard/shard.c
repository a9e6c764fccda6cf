/* See shard.h. Units and their updates are here; who takes part in a step is in shard_step.c.
 *
 * A part arrives at one of four places (pd_shard_place): one that was seen before in waste memory, which
 * nobody reads (is_old, waste_of); on the stage, when it is applied at once (shard_stage.c); in a block that
 * becomes the sum (shard_sum.c); else in `given->data`, which has all that a trainer gave to the gradient. */
#include "pserver/shard/shard_private.h"

#include <stdio.h>
#include <string.h>

#include "pserver/proto.h"
#include "tensor/finite.h"

pd_status pd_shard_new(const struct pd_shard_config *config, struct pd_shard **out)
{
    if (config->trainers < 1 || config->trainers > PD_PS_MAX_TRAINERS)
        return pd_fail(PD_RANGE, "a job has 1 to %d trainers, asked for %d", PD_PS_MAX_TRAINERS,
                       config->trainers);
    struct pd_shard *shard = pd_calloc(1, sizeof *shard);
    if (!shard) return pd_no_memory();
    shard->config = *config;
    shard->only = -1;
    shard->n_absent = config->trainers;
    shard->trainers = pd_calloc((size_t)config->trainers, sizeof *shard->trainers);
    if (!shard->trainers) {
        pd_free(shard);
        return pd_no_memory();
    }
    *out = shard;
    return PD_OK;
}

static void unit_free(struct unit *u, int trainers)
{
    for (int t = 0; u->given && t < trainers; t++) {
        pd_free_aligned(u->given[t].data);
        pd_vec_free(&u->given[t].rows);
        pd_free(u->given[t].got);
    }
    pd_sum_free(u, trainers);
    pd_shard_free_shown(u, trainers);
    pd_free(u->given);
    pd_free(u->applied);
    pd_table_free(u->spec.table);
    pd_free((char *)u->spec.grad);
    pd_free(u);
}

void pd_shard_free(struct pd_shard *shard)
{
    if (!shard) return;
    for (int i = 0; i < shard->units.n; i++)
        unit_free(shard->units.at[i], shard->config.trainers);
    pd_vec_free(&shard->units);
    pd_sum_free_blocks(shard);
    for (int t = 0; t < shard->config.trainers; t++)
        pd_shard_free_stage(&shard->trainers[t]);
    pd_free(shard->trainers);
    pd_free_aligned(shard->merged);
    pd_free_aligned(shard->waste);
    pd_vec_free(&shard->rows);
    pd_vec_free(&shard->who);
    pd_shard_drop_prepared(shard);
    pd_vec_free(&shard->kept);
    pd_free_aligned(shard->rows_data);
    pd_free(shard);
}

/* Gradients are added up and divided: sums are of these types. */
static pd_status check_unit(const struct pd_unit_spec *spec)
{
    enum pd_dtype dtype = spec->table->meta.dtype;
    if (dtype != PD_DTYPE_FP32 && dtype != PD_DTYPE_FP64)
        return pd_fail(PD_UNSUPPORTED,
                       "'%s' is the gradient of a parameter of %s: servers take float32 and float64",
                       spec->grad, pd_dtype_name(dtype));
    if (!spec->is_rows && pd_table_is_direct(spec->table) && !spec->table->kind->update_part)
        return pd_fail(PD_UNSUPPORTED, "'%s' is dense, and a table of kind '%s' takes rows only", spec->grad,
                       spec->table->kind->name);
    return PD_OK;
}

pd_status pd_shard_add(struct pd_shard *shard, const struct pd_unit_spec *spec, int *number)
{
    struct unit *u = pd_calloc(1, sizeof *u);
    pd_status fits = u ? check_unit(spec) : pd_no_memory();
    if (fits != PD_OK) {
        pd_table_free(spec->table);
        pd_free(u);
        return fits;
    }
    u->spec = *spec;
    u->spec.grad = pd_strdup(spec->grad);
    const struct pd_meta *m = &spec->table->meta;
    u->item = pd_dtype_size(m->dtype);
    u->numel = pd_meta_numel(m);
    u->width = m->rank > 1 ? pd_meta_span(m, 1, m->rank) : 1;
    u->height = spec->table->height;
    u->is_direct = pd_table_is_direct(spec->table);
    u->part_rows = (int64_t)pd_ps_rows_a_part((size_t)u->width * u->item);
    u->part_elements = u->part_rows * u->width;
    u->parts = spec->is_rows ? 0 : u->numel ? (uint32_t)((u->numel - 1) / u->part_elements) + 1 : 1;
    u->given = pd_calloc((size_t)shard->config.trainers, sizeof *u->given);
    u->applied = pd_calloc(u->parts ? u->parts : 1, sizeof *u->applied);
    pd_status status = u->spec.grad && u->given && u->applied ? pd_sum_new(shard, u) : pd_no_memory();
    if (status == PD_OK && !pd_vec_push(&shard->units, u)) status = pd_no_memory();
    if (status != PD_OK) {
        unit_free(u, shard->config.trainers);
        return status;
    }
    *number = u->number = shard->units.n - 1;
    return PD_OK;
}

int pd_shard_units(const struct pd_shard *shard)
{
    return shard->units.n;
}

const struct pd_unit_spec *pd_shard_unit(const struct pd_shard *shard, int unit)
{
    return &shard->units.at[unit]->spec;
}

const struct pd_given *pd_shard_given(const struct pd_shard *shard, int unit, int trainer)
{
    const struct pd_given *g = &shard->units.at[unit]->given[trainer];
    return g->step == shard->applying && g->n_parts ? g : NULL;
}

/* ---- parts coming in ---- */

int64_t pd_shard_part_size(const struct unit *u, uint32_t part)
{
    int64_t first = (int64_t)part * u->part_elements;
    return u->numel - first < u->part_elements ? u->numel - first : u->part_elements;
}

/* Is there what this trainer gave to the step? What another process gave before it was killed goes, and
 * the new one gives it again; but not parts that are in the parameters already (async). */
static int is_of_this(const struct pd_shard *shard, const struct unit *u, int trainer, uint64_t step)
{
    const struct pd_given *g = &u->given[trainer];
    int is_applied = !shard->config.is_sync && pd_shard_is_early(shard, u, trainer);
    return g->step == step && (is_applied || g->incarnation == shard->trainers[trainer].incarnation);
}

pd_status pd_shard_given_for(struct pd_shard *shard, struct unit *u, int trainer, uint64_t step,
                             struct pd_given **out)
{
    struct pd_given *g = &u->given[trainer];
    if (!is_of_this(shard, u, trainer, step)) {
        pd_sum_drop(shard, u, g);
        g->step = step;
        g->n_parts = 0;
        g->is_early = 0;
        g->rows.n = 0;
        if (g->got) memset(g->got, 0, ((size_t)u->parts + 63) / 64 * sizeof *g->got);
    }
    g->incarnation = shard->trainers[trainer].incarnation;
    if (!u->spec.is_rows && !g->got) {
        g->got = pd_calloc(((size_t)u->parts + 63) / 64 + 1, sizeof *g->got);
        if (!g->got) return pd_no_memory();
    }
    *out = g;
    return PD_OK;
}

/* Where parts go that are not wanted. Messages of several connections may be on their way into it at once, so
 * it is made once, for the largest part there is. */
static pd_status waste_of(struct pd_shard *shard, void **out)
{
    for (int i = 0; !shard->waste && i < shard->units.n; i++) {
        const struct unit *u = shard->units.at[i];
        size_t row = (size_t)u->width * u->item;
        size_t bytes = (size_t)u->part_rows * (row + (u->spec.is_rows ? sizeof(int64_t) : 0));
        if (bytes > shard->waste_size) shard->waste_size = bytes;
    }
    if (!shard->waste) shard->waste = pd_malloc_aligned(shard->waste_size);
    *out = shard->waste;
    return shard->waste ? PD_OK : pd_no_memory();
}

/* Was this part dealt with before? */
static int is_old(const struct pd_shard *shard, const struct unit *u, int trainer, uint64_t step,
                  uint32_t part)
{
    const struct pd_given *g = &u->given[trainer];
    if (shard->config.is_sync && step <= shard->step) return 1;
    if (!shard->config.is_sync && step <= shard->trainers[trainer].step) return 1;
    if (shard->config.is_sync && !u->spec.is_rows && u->applied[part] >= step) return 1;
    if (pd_sum_has(u, trainer, step, part)) return 1; /* of another process, too */
    if (!is_of_this(shard, u, trainer, step)) return 0;
    return u->spec.is_rows ? part < g->n_parts : g->got && has_part(g, part);
}

static pd_status grow_given(struct pd_given *g, size_t bytes)
{
    if (g->data && g->data_size >= bytes) return PD_OK;
    size_t size = bytes < 2 * g->data_size ? 2 * g->data_size : bytes;
    void *data = pd_malloc_aligned(size);
    if (!data) return pd_no_memory();
    if (g->data_size) memcpy(data, g->data, g->data_size);
    pd_free_aligned(g->data);
    g->data = data;
    g->data_size = size;
    return PD_OK;
}

static pd_status check_part(const struct pd_shard *shard, int trainer, uint64_t step, uint32_t unit,
                            uint32_t part, uint64_t rows)
{
    const struct trainer *t = &shard->trainers[trainer];
    if (unit >= (uint32_t)shard->units.n)
        return pd_fail(PD_NOT_FOUND, "trainer %d pushes gradient number %u, but there are %d", trainer, unit,
                       shard->units.n);
    const struct unit *u = shard->units.at[unit];
    if (t->state != PD_TRAINER_IN)
        return pd_fail(PD_INVALID, "trainer %d pushes, but it is not in the job", trainer);
    /* A gated shard may have told that the step is whole: what comes again is put aside. */
    if (t->ended == step && step > shard->step && !shard->config.is_gated)
        return pd_fail(PD_INVALID, "trainer %d pushes to step %llu after it ended it", trainer,
                       (unsigned long long)step);
    uint64_t next = pd_shard_trainer_step(shard, trainer) + 1;
    if (step > next)
        return pd_fail(PD_INVALID,
                       "trainer %d pushes step %llu, but the server has applied only step %llu: the server "
                       "lost steps; start it from a newer snapshot, or set FLAGS_ps_accept_rollback=1",
                       trainer, (unsigned long long)step, (unsigned long long)(next - 1));
    if (!u->spec.is_rows && (rows || part >= u->parts))
        return pd_fail(PD_SHAPE, "'%s' is dense and has %u parts; trainer %d pushes part %u with %llu rows",
                       u->spec.grad, u->parts, trainer, part, (unsigned long long)rows);
    if (u->spec.is_rows && (rows > (uint64_t)u->part_rows || (!rows && part)))
        return pd_fail(PD_SHAPE,
                       "'%s' is sparse and takes 1 to %lld rows in a part, none as its only one; trainer %d "
                       "pushes %llu in part %u",
                       u->spec.grad, (long long)u->part_rows, trainer, (unsigned long long)rows, part);
    return PD_OK;
}

pd_status pd_shard_place(struct pd_shard *shard, int trainer, uint64_t step, uint32_t unit, uint32_t part,
                         uint64_t rows, struct pd_span out[2], int *n)
{
    PD_TRY(check_part(shard, trainer, step, unit, part, rows));
    struct unit *u = shard->units.at[unit];
    struct pd_given *g;
    size_t row = (size_t)u->width * u->item;
    *n = u->spec.is_rows ? 2 : 1;
    if (is_old(shard, u, trainer, step, part)) {
        void *waste;
        size_t bytes = u->spec.is_rows ? (size_t)rows * (sizeof(int64_t) + row)
                                       : (size_t)pd_shard_part_size(u, part) * u->item;
        PD_TRY(waste_of(shard, &waste));
        out[0] = (struct pd_span){waste, u->spec.is_rows ? (size_t)rows * sizeof(int64_t) : bytes};
        if (u->spec.is_rows) out[1] = (struct pd_span){(char *)waste + out[0].n, (size_t)rows * row};
        return PD_OK;
    }
    PD_TRY(pd_shard_given_for(shard, u, trainer, step, &g));
    if (!u->spec.is_rows) {
        out[0].n = (size_t)pd_shard_part_size(u, part) * u->item;
        out[0].at = pd_shard_stage(shard, trainer, u, part, step, out[0].n);
        if (out[0].at) return PD_OK;
        if (u->sums) {
            out[0].at = pd_sum_place(shard, u, g, part);
            return out[0].at ? PD_OK : pd_no_memory();
        }
        PD_TRY(grow_given(g, (size_t)u->numel * u->item));
        out[0].at = (char *)g->data + (size_t)part * (size_t)u->part_elements * u->item;
        return PD_OK;
    }
    if (part != g->n_parts)
        return pd_fail(PD_INVALID, "trainer %d pushes part %u of '%s', expected part %u", trainer, part,
                       u->spec.grad, g->n_parts);
    if (rows > (uint64_t)(INT32_MAX - g->rows.n))
        return pd_fail(PD_RANGE, "trainer %d pushes more than %d rows of '%s' in one step", trainer,
                       INT32_MAX, u->spec.grad);
    out[0] = out[1] = (struct pd_span){0};
    if (!rows) return PD_OK;
    PD_TRY(grow_given(g, ((size_t)g->rows.n + (size_t)rows) * row));
    if (!pd_vec_reserve(&g->rows, g->rows.n + (int)rows)) return pd_no_memory();
    out[0] = (struct pd_span){g->rows.at + g->rows.n, (size_t)rows * sizeof(int64_t)};
    out[1] = (struct pd_span){(char *)g->data + (size_t)g->rows.n * row, (size_t)rows * row};
    return PD_OK;
}

/* ---- updates ---- */

/* How many trainers the sum of a gradient is shared by. */
static int divisor(const struct pd_shard *shard, const struct unit *u)
{
    return u->spec.adds ? 1 : shard->taking_part;
}

static void sum_up(void *to, const struct pd_shard *shard, const struct unit *u, uint32_t part, int64_t n,
                   uint64_t step)
{
    int given = 0;
    for (int t = 0; t < shard->config.trainers; t++) {
        if (!has_given(u, t, step, part)) continue;
        const char *from = (const char *)u->given[t].data + (size_t)part * (size_t)u->part_elements * u->item;
        if (given++ == 0)
            memcpy(to, from, (size_t)n * u->item);
        else
            pd_sum_add(u, to, from, n);
    }
    pd_sum_scale(u, to, n, divisor(shard, u));
}

/* Only one has given, and only one takes part: no need to copy. */
static const void *single_given(const struct pd_shard *shard, const struct unit *u, uint32_t part,
                                uint64_t step)
{
    const struct pd_given *only = NULL;
    if (shard->taking_part != 1) return NULL;
    if (shard->at_hand) return shard->at_hand;
    for (int t = 0; t < shard->config.trainers; t++)
        if (has_given(u, t, step, part)) only = &u->given[t];
    return only ? (const char *)only->data + (size_t)part * (size_t)u->part_elements * u->item : NULL;
}

static int anyone_gave(const struct pd_shard *shard, const struct unit *u, uint32_t part, uint64_t step)
{
    for (int t = 0; t < shard->config.trainers; t++)
        if (has_given(u, t, step, part)) return 1;
    return 0;
}

pd_status pd_shard_begin(struct pd_shard *shard, uint64_t step)
{
    if (shard->begun >= step) return PD_OK;
    shard->begun = step;
    return shard->config.hooks.begin_step(shard->config.hooks.arg, step);
}

/* Where the average of what was given lies. */
static pd_status merge_part(struct pd_shard *shard, const struct unit *u, uint32_t part, uint64_t step,
                            const void **grad)
{
    int64_t n = pd_shard_part_size(u, part);
    *grad = single_given(shard, u, part, step);
    if (*grad) return PD_OK;
    size_t need = (size_t)n * u->item > PD_PS_PART ? (size_t)n * u->item : PD_PS_PART;
    if (!pd_room_aligned(&shard->merged, &shard->merged_size, need)) return pd_no_memory();
    sum_up(shard->merged, shard, u, part, n, step);
    *grad = shard->merged;
    return PD_OK;
}

static pd_status do_part(struct pd_shard *shard, struct unit *u, uint32_t part, uint64_t step, int what)
{
    int64_t n = pd_shard_part_size(u, part);
    const void *grad;
    if (u->applied[part] >= step) return PD_OK;
    if (u->sums) {
        PD_TRY(pd_sum_finish(shard, u, part, step, &grad));
        if (!grad) return PD_OK;
    } else if (!anyone_gave(shard, u, part, step)) {
        return PD_OK;
    }
    if (what & PD_SHARD_UPDATES) PD_TRY(pd_shard_begin(shard, step));
    if (!u->sums) PD_TRY(merge_part(shard, u, part, step, &grad));
    if (what & PD_SHARD_LOGS)
        PD_TRY(pd_shard_log_part(shard, -1, u->number, part, step, grad, (size_t)n * u->item));
    if (!(what & PD_SHARD_UPDATES)) return PD_OK;
    int is_last = pd_shard_count_applied(u, part, step);
    pd_status status =
        u->spec.table->kind->update_part(u->spec.table, (int64_t)part * u->part_elements, n, grad, is_last);
    if (u->sums) pd_sum_clear(shard, u, part);
    return status;
}

/* Puts all trainers' rows together, divided by how many take part. */
static pd_status merge_rows(struct pd_shard *shard, const struct unit *u, uint64_t step)
{
    size_t row = (size_t)u->width * u->item;
    int64_t n = 0;
    shard->rows.n = 0;
    for (int t = 0; t < shard->config.trainers; t++)
        if (u->given[t].step == step) n += u->given[t].rows.n;
    if (n > INT32_MAX)
        return pd_fail(PD_RANGE, "'%s': %lld rows in one step; at most %d", u->spec.grad, (long long)n,
                       INT32_MAX);
    if (!pd_vec_reserve(&shard->rows, (int)n)) return pd_no_memory();
    if (!pd_room_growing(&shard->rows_data, &shard->rows_data_size, (size_t)n * row)) return pd_no_memory();
    int by = divisor(shard, u);
    for (int t = 0; t < shard->config.trainers; t++) {
        const struct pd_given *g = &u->given[t];
        if (g->step != step || !g->rows.n) continue;
        memcpy(shard->rows.at + shard->rows.n, g->rows.at, (size_t)g->rows.n * sizeof(int64_t));
        char *to = (char *)shard->rows_data + (size_t)shard->rows.n * row;
        int64_t k = (int64_t)g->rows.n * u->width;
        memcpy(to, g->data, (size_t)k * u->item);
        pd_sum_scale(u, to, k, by);
        shard->rows.n += g->rows.n;
    }
    return PD_OK;
}

/* Also without rows, when the gradient has some on other servers. */
static int anyone_gave_rows(const struct pd_shard *shard, const struct unit *u, uint64_t step)
{
    for (int t = 0; t < shard->config.trainers; t++)
        if (u->given[t].step == step && u->given[t].n_parts) return 1;
    return 0;
}

static pd_status do_rows(struct pd_shard *shard, struct unit *u, uint64_t step, int what)
{
    int is_given = anyone_gave_rows(shard, u, step);
    if (!is_given && !pd_shard_ends_bare(u)) return PD_OK;
    PD_TRY(merge_rows(shard, u, step));
    int64_t n = shard->rows.n;
    if (what & PD_SHARD_LOGS)
        PD_TRY(pd_shard_log_rows(shard, PD_CHANGE_ROWS, -1, u->number, step, is_given, n, shard->rows.at,
                                 shard->rows_data, (size_t)(n * u->width) * u->item));
    if (!(what & PD_SHARD_UPDATES)) return PD_OK;
    return pd_shard_update_rows(u, is_given, n, shard->rows.at, shard->rows_data);
}

pd_status pd_shard_merge(struct pd_shard *shard, uint64_t step, int what)
{
    int through_engine = 0;
    shard->applying = step;
    if (what & PD_SHARD_UPDATES) PD_TRY(pd_shard_begin(shard, step));
    for (int i = 0; i < shard->units.n; i++) {
        struct unit *u = shard->units.at[i];
        if (!u->is_direct) {
            through_engine = 1;
            continue;
        }
        if (u->spec.is_rows) PD_TRY(do_rows(shard, u, step, what));
        for (uint32_t p = 0; p < u->parts; p++)
            PD_TRY(do_part(shard, u, p, step, what));
    }
    if (!through_engine) return PD_OK;
    if (what & PD_SHARD_LOGS) PD_TRY(pd_shard_log_given(shard, step));
    return what & PD_SHARD_UPDATES ? shard->config.hooks.run_blocks(shard->config.hooks.arg, shard) : PD_OK;
}

static pd_status check_rows(const struct unit *u, int trainer, const int64_t *rows, uint64_t n)
{
    const struct pd_table_kind *kind = u->spec.table->kind;
    for (uint64_t i = 0; i < n; i++) {
        if (rows[i] < 0 || rows[i] >= u->height)
            return pd_fail(PD_RANGE, "trainer %d pushes row %lld of '%s', which has %lld rows", trainer,
                           (long long)rows[i], u->spec.grad, (long long)u->height);
        if (kind->has_row && !kind->has_row(u->spec.table, rows[i]))
            return pd_fail(PD_RANGE, "trainer %d pushes row %lld of '%s', which lies on another server",
                           trainer, (long long)rows[i], u->spec.grad);
    }
    return PD_OK;
}

/* FLAGS_check_nan_inf: of the part that has just arrived, and nothing knows of yet. */
static pd_status check_finite(const struct unit *u, int trainer, uint64_t step, uint32_t part, uint64_t rows,
                              const void *staged)
{
    const struct pd_given *g = &u->given[trainer];
    size_t at =
        u->spec.is_rows ? (size_t)g->rows.n * (size_t)u->width : (size_t)part * (size_t)u->part_elements;
    const void *data = staged ? staged : u->sums ? g->blocks[part] : (const char *)g->data + at * u->item;
    int64_t n = u->spec.is_rows ? (int64_t)rows * u->width : pd_shard_part_size(u, part);
    int64_t bad = pd_first_not_finite(u->spec.table->meta.dtype, data, n);
    char where[64] = "";
    if (bad < 0) return PD_OK;
    if (u->spec.is_rows)
        snprintf(where, sizeof where, "row %lld of ", (long long)g->rows.at[g->rows.n + bad / u->width]);
    return pd_fail(PD_NOT_FINITE,
                   "trainer %d pushes NaN or Inf in %s'%s' in step %llu: refused (flag check_nan_inf is on)",
                   trainer, where, u->spec.grad, (unsigned long long)step);
}

/* Async: this trainer's part alone. `is_last` of the gradient. */
static pd_status apply_own_part(struct pd_shard *shard, struct unit *u, int trainer, uint32_t part,
                                uint64_t step, const void *staged, int is_last)
{
    const struct pd_given *g = &u->given[trainer];
    const void *data =
        staged ? staged : (const char *)g->data + (size_t)part * (size_t)u->part_elements * u->item;
    int64_t n = pd_shard_part_size(u, part);
    int64_t first = (int64_t)part * u->part_elements;
    shard->changes++;
    PD_TRY(pd_shard_begin(shard, step));
    PD_TRY(pd_shard_compensate_part(shard, u, trainer, first, n, &data));
    PD_TRY(pd_shard_log_part(shard, trainer, u->number, part, step, data, (size_t)n * u->item));
    return u->spec.table->kind->update_part(u->spec.table, first, n, data, is_last);
}

pd_status pd_shard_apply_own_parts(struct pd_shard *shard, struct unit *u, int trainer, uint64_t step)
{
    const struct pd_given *g = &u->given[trainer];
    uint32_t done = 0;
    if (g->step != step || !g->got) return PD_OK;
    for (uint32_t part = 0; part < u->parts; part++)
        if (has_part(g, part))
            PD_TRY(apply_own_part(shard, u, trainer, part, step, NULL, ++done == u->parts));
    return PD_OK;
}

int pd_shard_has_failed(const struct pd_shard *shard)
{
    return shard->has_failed;
}

static pd_status note_update(struct pd_shard *shard, pd_status status)
{
    shard->has_failed |= status != PD_OK;
    return status;
}

pd_status pd_shard_arrived(struct pd_shard *shard, int trainer, uint64_t step, uint32_t unit, uint32_t part,
                           uint64_t rows)
{
    struct unit *u = shard->units.at[unit];
    const void *staged = pd_shard_unstage(shard, trainer, u, part);
    if (is_old(shard, u, trainer, step, part)) {
        shard->repeated++;
        return PD_OK;
    }
    struct pd_given *g = &u->given[trainer];
    pd_status status = PD_OK;
    int is_bare = u->spec.is_rows && !rows;
    if (shard->config.is_checked && !is_bare) status = check_finite(u, trainer, step, part, rows, staged);
    if (status == PD_OK && u->spec.is_rows && !is_bare)
        status = check_rows(u, trainer, g->rows.at + g->rows.n, rows);
    if (status != PD_OK) {
        /* Sync: others may know that it had ended its step; it goes when the trainer does. */
        if (!shard->config.is_sync) pd_shard_drop_given(shard, trainer);
        return status;
    }
    int is_last = 0;
    if (u->spec.is_rows) {
        g->rows.n += (int)rows;
        g->n_parts++;
    } else {
        is_last = pd_shard_count_given(u, g, part);
    }
    if (shard->prepared == step) pd_shard_void(shard); /* it gives more than it had when it ended the step */
    if (!shard->config.is_sync) {
        if (!pd_shard_is_early(shard, u, trainer)) return PD_OK; /* when the push has ended */
        return note_update(shard, apply_own_part(shard, u, trainer, part, step, staged, is_last));
    }
    if (!u->is_direct || u->spec.is_rows || shard->config.is_gated || shard->config.is_whole) return PD_OK;
    int is_whole;
    if (u->sums)
        PD_TRY(pd_sum_arrived(shard, u, part, step, &is_whole));
    else
        is_whole = pd_shard_all_gave(shard, u, part, step);
    /* Where the step before is still to be kept, nothing changes until it is. */
    if (is_whole && !shard->holds_answers) {
        shard->taking_part = pd_shard_count_in(shard);
        shard->at_hand = staged;
        status = note_update(shard, do_part(shard, u, part, step, PD_SHARD_LOGS | PD_SHARD_UPDATES));
        shard->at_hand = NULL;
    }
    return status;
}

pd_status pd_shard_apply_own_rows(struct pd_shard *shard, struct unit *u, int trainer, uint64_t step)
{
    const struct pd_given *g = &u->given[trainer];
    int is_given = g->step == step && g->n_parts;
    int64_t n = is_given ? g->rows.n : 0;
    if (!is_given && !pd_shard_ends_bare(u)) return PD_OK;
    PD_TRY(pd_shard_begin(shard, step));
    PD_TRY(pd_shard_log_rows(shard, PD_CHANGE_ROWS, trainer, u->number, step, is_given, n, g->rows.at,
                             g->data, (size_t)(n * u->width) * u->item));
    return pd_shard_update_rows(u, is_given, n, g->rows.at, g->data);
}
