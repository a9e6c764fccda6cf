/* See executor.h. */
#include "exec/executor.h"

#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/flags.h"
#include "base/rng.h"
#include "passes/passes.h"
#include "tensor/held.h"

static atomic_uint_fast64_t drawn; /* 0: not yet */

void pd_exec_set_drawn(uint64_t seed)
{
    atomic_store(&drawn, seed ? seed : 1);
}

/* The seed of ops that have none: the Program's, else one drawn for it and its clones. */
static uint64_t seed_of(const struct pd_program *program)
{
    uint64_t none = 0;
    if (program->random_seed) return (uint64_t)program->random_seed;
    if (!atomic_load(&drawn)) atomic_compare_exchange_strong(&drawn, &none, pd_rng_fresh_seed());
    return pd_rng_mix(atomic_load(&drawn) + program->lineage->salt);
}

pd_status pd_exec_new(struct pd_executor **out)
{
    PD_TRY(pd_flag_verify());
    struct pd_executor *e = pd_calloc(1, sizeof *e);
    if (!e) return pd_no_memory();
    *out = e;
    return PD_OK;
}

static void names_free(char **names, int n)
{
    for (int i = 0; names && i < n; i++)
        pd_free(names[i]);
    pd_free(names);
}

static void prepared_free(struct pd_prepared *p)
{
    if (!p) return;
    pd_frame_free(p->frame);
    pd_plan_free(p->plan);
    names_free(p->feed_names, p->n_feeds);
    names_free(p->fetch_names, p->n_fetches);
    pd_free(p->feeds);
    pd_free(p);
}

void pd_exec_free(struct pd_executor *executor)
{
    if (!executor) return;
    for (int i = 0; i < executor->plans.n; i++)
        prepared_free(executor->plans.at[i]);
    pd_vec_free(&executor->plans);
    pd_free(executor);
}

static int same_names(char *const *a, int n, const char *const *b, int m)
{
    if (n != m) return 0;
    for (int i = 0; i < n; i++)
        if (strcmp(a[i], b[i]) != 0) return 0;
    return 1;
}

static pd_status names_copy(char ***to, int n, const char *const *names)
{
    char **copy = pd_calloc((size_t)n, sizeof *copy);
    if (!copy) return pd_no_memory();
    *to = copy;
    for (int i = 0; i < n; i++) {
        copy[i] = pd_strdup(names[i]);
        if (!copy[i]) return pd_no_memory();
    }
    return PD_OK;
}

int pd_exec_fuses(void)
{
    return pd_flag_int(PD_FLAG_fuse_ops) && !pd_flag_int(PD_FLAG_check_nan_inf);
}

static pd_status build(struct pd_program *program, int n_feeds, const char *const *feeds, int n_fetches,
                       const char *const *fetches, struct pd_prepared *p)
{
    struct pd_program *snapshot;
    p->program_uid = program->uid;
    p->program_version = program->version;
    p->n_feeds = n_feeds;
    p->n_fetches = n_fetches;
    p->fused = pd_exec_fuses();
    PD_TRY(names_copy(&p->feed_names, n_feeds, feeds));
    PD_TRY(names_copy(&p->fetch_names, n_fetches, fetches));
    p->feeds = pd_calloc((size_t)n_feeds, sizeof *p->feeds);
    if (!p->feeds) return pd_no_memory();
    PD_TRY(pd_program_clone(program, 0, &snapshot));
    pd_status status = pd_pass_fuse(snapshot, p->fused, n_fetches, fetches);
    if (status == PD_OK) status = pd_plan_new(snapshot, n_feeds, feeds, n_fetches, fetches, &p->plan);
    pd_program_unref(snapshot);
    PD_TRY(status);
    pd_step_init(&p->step);
    p->step.seed = seed_of(program);
    PD_TRY(pd_frame_new(p->plan, NULL, NULL, &p->step, &p->frame));
    for (int i = 0; i < n_feeds; i++) {
        p->feeds[i].number = i;
        p->feeds[i].written = p->plan->vars.at[i].written;
        p->feeds[i].stays = (p->plan->vars.at[i].desc->flags & PD_VAR_PERSISTABLE) != 0;
    }
    return PD_OK;
}

/* Makes room for one more plan: the one that was not used for the longest time goes. */
static pd_status make_room(struct pd_executor *e)
{
    if (e->plans.n >= PD_EXECUTOR_PLANS) {
        int oldest = -1;
        for (int i = 0; i < e->plans.n; i++)
            if (!e->plans.at[i]->running &&
                (oldest < 0 || e->plans.at[i]->last_used < e->plans.at[oldest]->last_used))
                oldest = i;
        if (oldest >= 0) {
            prepared_free(e->plans.at[oldest]);
            pd_vec_remove(&e->plans, oldest);
        }
    }
    return pd_vec_reserve(&e->plans, e->plans.n + 1) ? PD_OK : pd_no_memory();
}

pd_status pd_exec_prepare(struct pd_executor *executor, struct pd_program *program, int n_feeds,
                          const char *const *feeds, int n_fetches, const char *const *fetches,
                          struct pd_prepared **out)
{
    int fuses = pd_exec_fuses(), shares = pd_flag_int(PD_FLAG_share_memory);
    for (int i = 0; i < executor->plans.n; i++) {
        struct pd_prepared *p = executor->plans.at[i];
        if (p->program_uid == program->uid && p->program_version == program->version && p->fused == fuses &&
            p->plan->shares == shares && same_names(p->feed_names, p->n_feeds, feeds, n_feeds) &&
            same_names(p->fetch_names, p->n_fetches, fetches, n_fetches)) {
            p->last_used = ++executor->clock;
            *out = p;
            return PD_OK;
        }
    }
    PD_TRY(make_room(executor));
    struct pd_prepared *p = pd_calloc(1, sizeof *p);
    if (!p) return pd_no_memory();
    pd_status status = build(program, n_feeds, feeds, n_fetches, fetches, p);
    if (status != PD_OK) {
        prepared_free(p);
        return status;
    }
    p->last_used = ++executor->clock;
    executor->plans.at[executor->plans.n++] = p;
    *out = p;
    return PD_OK;
}

static pd_status check_feed(const struct pd_plan_var *v, enum pd_dtype dtype, int rank, const int64_t *dim,
                            const struct pd_lod *lod)
{
    const struct pd_meta *want = &v->desc->meta;
    struct pd_meta found = {.dtype = dtype}, width, first = *want;
    int checks = (v->desc->flags & PD_VAR_CHECK_FEED) != 0;
    PD_TRY(pd_meta_set_dims(&found, rank, dim));
    if (want->dtype != PD_DTYPE_NONE && want->dtype != dtype)
        return pd_fail(checks ? PD_INVALID : PD_TYPE,
                       "feed '%s': the Program declares %s, found %s; convert the array with astype('%s')",
                       v->name, pd_dtype_name(want->dtype), pd_dtype_name(dtype), pd_dtype_name(want->dtype));
    /* Sequences are declared by their width: how many rows they have together is free. */
    width = found;
    if (lod && rank > 0) width.dim[0] = -1;
    /* What has fewer dimensions is compared in those: labels of [n] where [n, 1] is declared. */
    if (rank > 0 && rank < want->rank) first.rank = rank;
    if (checks && !pd_meta_dims_match(&first, &width))
        return pd_fail(PD_SHAPE, "feed '%s': the Program declares shape %s, found %s", v->name,
                       pd_meta_dims_text(want), pd_meta_dims_text(&found));
    if (lod && (rank < 1 || pd_lod_last(lod)->offset[pd_lod_last(lod)->n - 1] != dim[0]))
        return pd_fail(PD_SHAPE, "feed '%s': its LoD covers %lld rows, but the array has shape %s", v->name,
                       (long long)pd_lod_last(lod)->offset[pd_lod_last(lod)->n - 1],
                       pd_meta_dims_text(&found));
    return PD_OK;
}

/* Floats are lent. Integers may be ids, which an op checks before it uses them: a copy, so that a thread that
 * changes the caller's array meanwhile changes a batch at most, never what was checked. */
static int copies(const struct pd_feed_slot *slot, enum pd_dtype dtype)
{
    return slot->written || (dtype != PD_DTYPE_FP32 && dtype != PD_DTYPE_FP64);
}

pd_status pd_exec_feed(struct pd_prepared *prepared, int i, enum pd_dtype dtype, int rank, const int64_t *dim,
                       const void *data, struct pd_lod *lod)
{
    struct pd_feed_slot *slot = &prepared->feeds[i];
    const struct pd_plan_var *v = &prepared->plan->vars.at[slot->number];
    struct pd_value *value = prepared->frame->values[slot->number];
    struct pd_tensor *t = &value->tensor;
    PD_TRY(check_feed(v, dtype, rank, dim, lod));
    if (t->meta.kind != PD_KIND_TENSOR) pd_value_reset(value, PD_KIND_TENSOR);
    t->meta.dtype = dtype;
    PD_TRY(pd_meta_set_dims(&t->meta, rank, dim));
    if (!pd_lod_equal(t->meta.lod, lod)) pd_meta_take_lod(&t->meta, pd_lod_ref(lod));
    if (copies(slot, dtype)) {
        if (!t->buffer) t->data = NULL;
        PD_TRY(pd_tensor_alloc(t));
        size_t bytes = pd_tensor_bytes(t);
        if (bytes) memcpy(t->data, data, bytes);
    } else {
        static const char nothing[64]; /* an empty array may come without memory */
        pd_buffer_unref(t->buffer);
        t->buffer = NULL;
        t->data = (void *)(data ? data : nothing);
    }
    slot->fed = 1;
    return PD_OK;
}

pd_status pd_exec_feed_value(struct pd_prepared *prepared, int i, const struct pd_value *value)
{
    const struct pd_tensor *t = &value->tensor;
    struct pd_feed_slot *slot = &prepared->feeds[i];
    const struct pd_plan_var *v = &prepared->plan->vars.at[slot->number];
    if (t->meta.kind == PD_KIND_TENSOR) {
        if (!t->data)
            return pd_fail(PD_INVALID, "feed '%s': the tensor holds no data; call set() on it first",
                           v->name);
        PD_TRY(pd_exec_feed(prepared, i, t->meta.dtype, t->meta.rank, t->meta.dim, t->data, t->meta.lod));
        /* Whoever fills the value anew meanwhile gets other memory. */
        slot->shares = !copies(slot, t->meta.dtype);
        if (slot->shares) prepared->frame->values[slot->number]->tensor.buffer = pd_buffer_ref(t->buffer);
        return PD_OK;
    }
    PD_TRY(pd_value_copy(prepared->frame->values[slot->number], value));
    slot->fed = 1;
    return PD_OK;
}

void pd_exec_unfeed(struct pd_prepared *prepared)
{
    for (int i = 0; i < prepared->n_feeds; i++) {
        struct pd_feed_slot *slot = &prepared->feeds[i];
        struct pd_tensor *t = &prepared->frame->values[slot->number]->tensor;
        if (!slot->shares) continue;
        pd_buffer_unref(t->buffer);
        t->buffer = NULL;
        t->data = NULL;
        slot->shares = 0;
    }
}

/* What was fed for persistable variables stays in the scope, as the run left it. */
static pd_status keep_feeds(const struct pd_prepared *prepared, struct pd_scope *scope)
{
    for (int i = 0; i < prepared->n_feeds; i++) {
        if (!prepared->feeds[i].stays) continue;
        struct pd_value *value;
        PD_TRY(pd_scope_hold(scope, prepared->feed_names[i], 1, &value));
        if (pd_held_exist()) pd_held_write(value, PD_HELD_FED, NULL, 0);
        pd_status status = pd_value_copy(value, prepared->frame->values[prepared->feeds[i].number]);
        pd_value_unref(value);
        PD_TRY(status);
    }
    return PD_OK;
}

pd_status pd_exec_run(struct pd_prepared *prepared, struct pd_scope *scope, int (*poll)(void *), void *arg)
{
    struct pd_frame *f = prepared->frame;
    if (prepared->running)
        return pd_fail(PD_INVALID,
                       "this executor is already running this Program; use one executor per thread");
    for (int i = 0; i < prepared->n_feeds; i++)
        if (!prepared->feeds[i].fed)
            return pd_fail(PD_INVALID, "nothing was fed for '%s'", prepared->feed_names[i]);
    f->poll = poll;
    f->poll_arg = arg;
    f->thread = pthread_self();
    f->next_poll = poll ? pd_clock_coarse_ns() + 100 * 1000 * 1000 : 0;
    prepared->running = 1;
    int was_bound = f->bound;
    pd_pace_begin(&prepared->pace);
    prepared->step.over = NULL;
    prepared->step.number = __atomic_fetch_add(&prepared->plan->program->lineage->runs, 1, __ATOMIC_RELAXED);
    pd_status status = pd_frame_run(f, scope);
    if (prepared->step.over) status = prepared->step.over(&prepared->step, status);
    if (status == PD_OK) status = keep_feeds(prepared, scope);
    pd_pace_end(&prepared->pace, was_bound && status == PD_OK);
    prepared->running = 0;
    for (int i = 0; i < prepared->n_feeds; i++)
        prepared->feeds[i].fed = 0;
    return status;
}

const struct pd_value *pd_exec_fetched(const struct pd_prepared *prepared, int i)
{
    return prepared->frame->values[prepared->plan->fetches[i]];
}
