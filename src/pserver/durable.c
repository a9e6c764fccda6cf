/* See durable.h. */
#include "pserver/durable.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "pserver/journal.h"
#include "pserver/snapshot.h"

/* A variable that is kept. */
struct kept {
    char *name, *whole; /* whole is NULL: not a slice */
    int64_t first_row, row_step, whole_rows;
    struct pd_value *value;
};

struct pd_durable {
    struct pd_server *server;
    char *folder, *root;
    struct pd_durable_config config; /* strings owned */
    PD_VEC(struct kept) kept;
    struct pd_journal **journals; /* by lane; NULL: no log */
    _Atomic uint64_t next;        /* step of the next cut; 0: none */
    _Atomic int at_cut;           /* lanes that have reached it */
    int64_t last_cut;             /* when */
    _Atomic uint64_t last_step;   /* of the last snapshot that was begun */
    struct pd_snapshot_job *job;
    pid_t child;
};

/* ---- what is kept ---- */

static int is_kept(const struct pd_var *var)
{
    return (var->flags & PD_VAR_PERSISTABLE) && !strstr(var->name, PD_GRAD_SUFFIX);
}

static pd_status read_slice(const struct pd_durable_config *config, struct kept *k)
{
    size_t length = strlen(k->name);
    for (int i = 0; i < config->n_slices; i++) {
        const char *text = config->slices[i];
        char whole[512];
        long long first, rows;
        if (strncmp(text, k->name, length) != 0 || text[length] != ' ') continue;
        if (sscanf(text + length + 1, "%511s %lld %lld", whole, &first, &rows) != 3)
            return pd_fail(PD_INVALID, "slices has '%s', expected 'name whole row rows'", text);
        k->whole = pd_strdup(whole);
        k->first_row = first;
        k->row_step = 1;
        k->whole_rows = rows;
        return k->whole ? PD_OK : pd_no_memory();
    }
    return PD_OK;
}

static pd_status find_kept(struct pd_durable *d, struct pd_frame *frame)
{
    const struct pd_block *block = pd_program_block(frame->plan->program, 0);
    for (int i = 0; i < block->vars.n; i++) {
        const struct pd_var *var = block->vars.at[i];
        struct pd_value *value = is_kept(var) ? pd_scope_lookup(frame->scope, var->name) : NULL;
        if (!value || !value->tensor.data ||
            (value->tensor.meta.kind != PD_KIND_TENSOR && !pd_value_is_rows(value)))
            continue;
        struct kept k = {.name = pd_strdup(var->name), .value = value};
        pd_status status = k.name ? read_slice(&d->config, &k) : pd_no_memory();
        if (status == PD_OK && pd_value_is_rows(value) && value->rows.n) {
            /* A table that is dealt out row by row: its row numbers tell which. */
            k.whole = pd_strdup(var->name);
            k.first_row = value->rows.at[0];
            k.row_step = value->rows.n > 1 ? value->rows.at[1] - value->rows.at[0] : 1;
            k.whole_rows = value->height;
            if (!k.whole) status = pd_no_memory();
        }
        if (status == PD_OK && !pd_vec_push(&d->kept, k)) status = pd_no_memory();
        if (status != PD_OK) {
            pd_free(k.name);
            pd_free(k.whole);
            return status;
        }
    }
    return PD_OK;
}

/* ---- taking up what is there ---- */

static pd_status check_shape(const struct kept *k, const struct pd_snapshot_var *var)
{
    const struct pd_meta *m = &k->value->tensor.meta;
    struct pd_meta there = {.dtype = var->dtype};
    PD_TRY(pd_meta_set_dims(&there, var->rank, var->dim));
    if (m->dtype == var->dtype && pd_meta_same_dims(m, &there)) return PD_OK;
    return pd_fail(PD_SHAPE,
                   "the snapshot has '%s' as %s %s, the Program as %s %s: is it another job's? "
                   "FLAGS_ps_fresh=1 starts anew",
                   k->name, pd_dtype_name(var->dtype), pd_meta_dims_text(&there), pd_dtype_name(m->dtype),
                   pd_meta_dims_text(m));
}

static pd_status load_own(struct pd_durable *d, const struct pd_snapshot *snapshot)
{
    PD_TRY(pd_snapshot_check(snapshot));
    for (int i = 0; i < d->kept.n; i++) {
        struct kept *k = &d->kept.at[i];
        const struct pd_snapshot_var *var = pd_snapshot_find(snapshot, k->name);
        if (!var)
            return pd_fail(
                PD_NOT_FOUND,
                "the snapshot in %s has no '%s': is it another job's? FLAGS_ps_fresh=1 starts anew",
                d->folder, k->name);
        PD_TRY(check_shape(k, var));
        memcpy(k->value->tensor.data, var->data, (size_t)var->bytes);
    }
    return PD_OK;
}

/* From the snapshots of a job with other servers. */
static pd_status load_from_set(struct pd_durable *d, const struct pd_snapshot_set *set)
{
    for (int i = 0; i < d->kept.n; i++) {
        struct kept *k = &d->kept.at[i];
        const char *whole = k->whole ? k->whole : k->name;
        const struct pd_meta *m = &k->value->tensor.meta;
        const struct pd_snapshot_var *var = pd_snapshot_set_find(set, whole);
        if (!var && k->whole) var = pd_snapshot_set_find(set, k->name);
        if (!var)
            return pd_fail(
                PD_NOT_FOUND,
                "the snapshots in %s have no '%s': are they another job's? FLAGS_ps_fresh=1 starts anew",
                d->root, whole);
        int64_t rows = m->rank ? m->dim[0] : 1;
        size_t bytes = pd_tensor_bytes(&k->value->tensor);
        if (k->row_step > 1) {
            size_t row = bytes / (size_t)(rows ? rows : 1);
            for (int64_t r = 0; r < rows; r++)
                PD_TRY(pd_snapshot_set_read(set, whole, k->first_row + r * k->row_step, 1,
                                            (char *)k->value->tensor.data + (size_t)r * row, row));
            continue;
        }
        /* State of one number for each slice (powers of beta) is the same in all of them. */
        if (pd_snapshot_rows(var) == 1 && rows == 1 && !k->whole)
            memcpy(k->value->tensor.data, var->data, bytes);
        else
            PD_TRY(pd_snapshot_set_read(set, whole, k->whole ? k->first_row : 0, rows, k->value->tensor.data,
                                        bytes));
    }
    return PD_OK;
}

/* The steps of this loop's trainers, where the snapshot tells them apart. */
static void take_loop_steps(struct pd_shard *shard, int trainers, const char *text)
{
    for (int t = 0; text && t < trainers; t++) {
        char *end;
        unsigned long long step = strtoull(text, &end, 10);
        if (end == text) return;
        pd_shard_set_trainer_step(shard, t, step);
        text = end;
    }
}

static void take_steps(struct pd_durable *d, const struct pd_snapshot *snapshot)
{
    const struct pd_snapshot_info *info = pd_snapshot_info(snapshot);
    struct pd_server *s = d->server;
    s->lr_step = info->step;
    for (int l = 0; l < s->n_lanes; l++) {
        pd_shard_set_step(s->lanes[l].shard, info->step);
        for (int t = 0; t < s->config.trainers && t < info->n_trainers; t++)
            pd_shard_set_trainer_step(s->lanes[l].shard, t, info->trainers[t].step);
        char key[24];
        snprintf(key, sizeof key, "loop%d", l);
        take_loop_steps(s->lanes[l].shard, s->config.trainers, pd_snapshot_note(snapshot, key));
    }
    pd_server_set_step(s, info->step);
    d->last_step = info->step;
}

static int same_servers(const struct pd_durable *d, const struct pd_snapshot_info *info)
{
    if (info->n_servers != d->config.n_servers) return 0;
    for (int i = 0; i < info->n_servers; i++)
        if (strcmp(info->servers[i], d->config.servers[i]) != 0) return 0;
    return 1;
}

/* Own snapshot first; a job with other servers is put together from all of theirs. */
static pd_status load_newest(struct pd_durable *d, uint64_t *step)
{
    struct pd_snapshot *own = NULL;
    *step = 0;
    pd_status status = pd_snapshot_newest(d->folder, step);
    if (status == PD_OK) PD_TRY(pd_snapshot_open(d->folder, *step, &own));
    if (status != PD_OK && status != PD_NOT_FOUND) return status;
    if (own && same_servers(d, pd_snapshot_info(own))) {
        status = load_own(d, own);
        if (status == PD_OK) take_steps(d, own);
        pd_snapshot_close(own);
        return status;
    }
    pd_snapshot_close(own);
    struct pd_snapshot_set *set;
    status = pd_snapshot_set_open(d->root, PD_SNAPSHOT_NEWEST, &set);
    if (status == PD_NOT_FOUND) return PD_OK;
    PD_TRY(status);
    status = load_from_set(d, set);
    if (status == PD_OK) take_steps(d, pd_snapshot_set_at(set, 0));
    *step = pd_snapshot_set_step(set);
    pd_snapshot_set_close(set);
    return status;
}

/* Changes of a step that has no END yet wait here: without one they were never acknowledged. */
struct waiting {
    struct pd_change change;
    void *payload;
    size_t n;
};

struct redo {
    struct pd_shard *shard;
    PD_VEC(struct waiting) waiting;
};

static pd_status redo_record(void *arg, const struct pd_record *head, const void *payload, size_t n)
{
    struct redo *r = arg;
    struct pd_change change = {.kind = (enum pd_change_kind)head->kind,
                               .trainer = head->trainer,
                               .step = head->step,
                               .unit = head->unit,
                               .part = head->part,
                               .rows = head->rows};
    if (change.kind != PD_CHANGE_END) {
        struct waiting w = {change, pd_malloc_aligned(n), n};
        if (!w.payload || !pd_vec_push(&r->waiting, w)) {
            pd_free_aligned(w.payload);
            return pd_no_memory();
        }
        memcpy(w.payload, payload, n);
        return PD_OK;
    }
    int kept = 0;
    pd_status status = PD_OK;
    for (int i = 0; i < r->waiting.n; i++) {
        struct waiting *w = &r->waiting.at[i];
        int mine = change.trainer < 0 || w->change.trainer == change.trainer;
        if (mine && status == PD_OK && w->change.step == change.step)
            status = pd_shard_redo(r->shard, &w->change, w->payload, w->n);
        if (mine)
            pd_free_aligned(w->payload);
        else
            r->waiting.at[kept++] = *w;
    }
    r->waiting.n = kept;
    return status == PD_OK ? pd_shard_redo(r->shard, &change, payload, n) : status;
}

static pd_status replay(struct pd_durable *d, int lane, uint64_t step)
{
    struct redo redo = {.shard = d->server->lanes[lane].shard};
    struct pd_replay_result result;
    struct pd_replay_from from = {.step = step, .trainers = d->server->config.trainers};
    uint64_t *steps = pd_calloc((size_t)from.trainers, sizeof *steps);
    if (!steps) return pd_no_memory();
    for (int t = 0; t < from.trainers; t++)
        steps[t] = pd_shard_trainer_step(redo.shard, t);
    from.trainer_steps = d->server->config.is_sync ? NULL : steps;
    pd_status status = pd_journal_replay(d->folder, lane, &from, redo_record, &redo, &result);
    for (int i = 0; i < redo.waiting.n; i++)
        pd_free_aligned(redo.waiting.at[i].payload);
    pd_vec_free(&redo.waiting);
    pd_free(steps);
    if (status == PD_OK && result.records)
        pd_log(PD_LOG_INFO, "loop %d: %llu changes of the log done again, up to step %llu", lane,
               (unsigned long long)result.records, (unsigned long long)pd_shard_step(redo.shard));
    return status;
}

static pd_status open_logs(struct pd_durable *d, uint64_t step)
{
    struct pd_server *s = d->server;
    enum pd_durability durability = strcmp(d->config.log, "fsync") == 0 ? PD_DURABLE_FSYNC : PD_DURABLE_WRITE;
    d->journals = pd_calloc((size_t)s->n_lanes, sizeof *d->journals);
    if (!d->journals) return pd_no_memory();
    for (int l = 0; l < s->n_lanes; l++) {
        PD_TRY(replay(d, l, step));
        PD_TRY(pd_journal_open(d->folder, l, durability, &d->journals[l]));
    }
    return PD_OK;
}

static char *copy_text(const char *text)
{
    return pd_strdup(text ? text : "");
}

static pd_status copy_list(int n, const char *const *list, const char *const **out)
{
    char **copy = pd_calloc((size_t)n, sizeof *copy);
    if (!copy) return pd_no_memory();
    *out = (const char *const *)copy;
    for (int i = 0; i < n; i++)
        if (!(copy[i] = pd_strdup(list[i]))) return pd_no_memory();
    return PD_OK;
}

static void free_list(int n, const char *const *list)
{
    for (int i = 0; list && i < n; i++)
        pd_free((char *)list[i]);
    pd_free((void *)list);
}

static pd_status open_all(struct pd_durable *d, struct pd_frame *frame,
                          const struct pd_durable_config *config)
{
    uint64_t step = 0;
    d->root = copy_text(config->root);
    d->config.log = copy_text(config->log);
    d->config.servers = d->config.slices = NULL;
    if (!d->root || !d->config.log) return pd_no_memory();
    if (*config->log && strcmp(config->log, "write") != 0 && strcmp(config->log, "fsync") != 0)
        return pd_fail(PD_INVALID, "FLAGS_ps_log is '%s': give write, fsync or nothing", config->log);
    PD_TRY(copy_list(config->n_servers, config->servers, &d->config.servers));
    PD_TRY(copy_list(config->n_slices, config->slices, &d->config.slices));
    PD_TRY(pd_snapshot_folder(d->root, d->server->config.endpoint, &d->folder));
    PD_TRY(find_kept(d, frame));
    if (!config->is_fresh) PD_TRY(load_newest(d, &step));
    if (*config->log) PD_TRY(open_logs(d, step));
    step = pd_shard_step(d->server->lanes[0].shard);
    pd_server_set_step(d->server, step);
    if (step) pd_log(PD_LOG_INFO, "taken up at step %llu from %s", (unsigned long long)step, d->folder);
    d->last_cut = pd_clock_ns();
    return PD_OK;
}

pd_status pd_durable_open(struct pd_server *server, struct pd_frame *frame,
                          const struct pd_durable_config *config, struct pd_durable **out)
{
    *out = NULL;
    if (!config->root || !*config->root) {
        if (config->log && *config->log)
            return pd_fail(PD_INVALID, "FLAGS_ps_log is '%s', but FLAGS_ps_dir names no folder for the log",
                           config->log);
        return PD_OK;
    }
    struct pd_durable *d = pd_calloc(1, sizeof *d);
    if (!d) return pd_no_memory();
    d->server = server;
    d->config = *config;
    pd_status status = open_all(d, frame, config);
    if (status != PD_OK) {
        pd_durable_close(d);
        return status;
    }
    *out = d;
    return PD_OK;
}

/* ---- the log ---- */

pd_status pd_durable_log(struct pd_durable *d, int lane, const struct pd_change *change,
                         const struct pd_span *spans, int n)
{
    struct pd_record head = {.kind = (uint16_t)change->kind,
                             .trainer = change->trainer,
                             .unit = change->unit,
                             .part = change->part,
                             .step = change->step,
                             .rows = change->rows};
    struct iovec parts[2];
    if (!d->journals) return PD_OK;
    for (int i = 0; i < n; i++)
        parts[i] = (struct iovec){spans[i].at, spans[i].n};
    return pd_journal_append(d->journals[lane], &head, parts, n);
}

pd_status pd_durable_commit(struct pd_durable *d, int lane)
{
    return d->journals ? pd_journal_commit(d->journals[lane]) : PD_OK;
}

/* ---- cuts ---- */

uint64_t pd_durable_next(struct pd_durable *d)
{
    return d ? atomic_load(&d->next) : 0;
}

void pd_durable_hear(struct pd_durable *d, uint64_t step)
{
    uint64_t none = 0;
    if (d && step > atomic_load(&d->last_step) && step >= pd_server_step(d->server))
        atomic_compare_exchange_strong(&d->next, &none, step);
}

static int is_first(const struct pd_durable *d)
{
    return !d->config.n_servers || strcmp(d->config.servers[0], d->server->config.endpoint) == 0;
}

int pd_durable_applied(struct pd_durable *d, int lane, uint64_t step)
{
    struct pd_server *s = d->server;
    int every = d->config.every_steps;
    if (every > 0 && step % (uint64_t)every == 0) pd_durable_hear(d, step);
    uint64_t next = atomic_load(&d->next);
    if (next && next < step) atomic_compare_exchange_strong(&d->next, &next, 0); /* heard of too late */
    if (next != step) return 0;
    if (d->journals) {
        pd_status status = pd_journal_rotate(d->journals[lane], step);
        if (status != PD_OK) pd_server_fail(s, status);
    }
    /* The main thread cuts when the last lane is here. */
    if (atomic_fetch_add(&d->at_cut, 1) + 1 == s->n_lanes) pd_server_wake(s);
    return 1;
}

static void release(void *arg)
{
    struct lane *lane = arg;
    pd_status status = pd_shard_release(lane->shard);
    if (status != PD_OK) pd_server_fail(lane->server, status);
}

static pd_status prepare(struct pd_durable *d, uint64_t step)
{
    struct pd_server *s = d->server;
    struct pd_snapshot_info info = {.step = step,
                                    .endpoint = s->config.endpoint,
                                    .n_servers = d->config.n_servers,
                                    .servers = d->config.servers,
                                    .n_trainers = s->config.trainers,
                                    .n_vars = d->kept.n};
    struct pd_snapshot_var *vars = pd_calloc((size_t)d->kept.n, sizeof *vars);
    struct pd_snapshot_trainer *trainers = pd_calloc((size_t)s->config.trainers, sizeof *trainers);
    pd_status status = vars && trainers ? PD_OK : pd_no_memory();
    const char *self = s->config.endpoint;
    if (!info.n_servers) info.n_servers = 1, info.servers = &self;
    for (int i = 0; status == PD_OK && i < d->kept.n; i++) {
        const struct kept *k = &d->kept.at[i];
        const struct pd_tensor *t = &k->value->tensor;
        vars[i] = (struct pd_snapshot_var){.name = k->name,
                                           .dtype = t->meta.dtype,
                                           .rank = t->meta.rank,
                                           .data = t->data,
                                           .whole = k->whole,
                                           .first_row = k->first_row,
                                           .row_step = k->row_step,
                                           .whole_rows = k->whole_rows};
        memcpy(vars[i].dim, t->meta.dim, sizeof vars[i].dim);
    }
    for (int t = 0; status == PD_OK && t < s->config.trainers; t++)
        trainers[t] = (struct pd_snapshot_trainer){pd_shard_trainer_step(s->lanes[0].shard, t),
                                                   pd_shard_incarnation(s->lanes[0].shard, t)};
    /* The loops of a server may have applied different steps of a trainer in async mode. */
    struct pd_buf *texts = pd_calloc((size_t)s->n_lanes, sizeof *texts);
    struct pd_snapshot_note *notes = pd_calloc((size_t)s->n_lanes, sizeof *notes);
    char(*keys)[24] = pd_calloc((size_t)s->n_lanes, sizeof *keys);
    if (!texts || !notes || !keys) status = pd_no_memory();
    for (int l = 0; status == PD_OK && l < s->n_lanes; l++) {
        for (int t = 0; t < s->config.trainers; t++)
            pd_buf_printf(&texts[l], "%s%llu", t ? " " : "",
                          (unsigned long long)pd_shard_trainer_step(s->lanes[l].shard, t));
        snprintf(keys[l], sizeof keys[l], "loop%d", l);
        notes[l] = (struct pd_snapshot_note){keys[l], texts[l].at};
        if (texts[l].failed) status = pd_no_memory();
    }
    info.n_notes = s->n_lanes;
    info.notes = notes;
    info.vars = vars;
    info.trainers = trainers;
    if (status == PD_OK) status = pd_snapshot_prepare(d->folder, &info, &d->job);
    for (int l = 0; texts && l < s->n_lanes; l++)
        pd_buf_free(&texts[l]);
    pd_free(texts);
    pd_free(notes);
    pd_free(keys);
    pd_free(vars);
    pd_free(trainers);
    return status;
}

/* All lanes stand at the step (sync), or whatever they have now is taken (async). */
static void cut(struct pd_durable *d, uint64_t step)
{
    d->last_cut = pd_clock_ns();
    d->last_step = step;
    pd_status status = prepare(d, step);
    if (status == PD_EXISTS) return;
    if (status == PD_OK) status = pd_snapshot_fork(d->job, &d->child);
    if (status == PD_OK) return;
    pd_log(PD_LOG_ERROR, "no snapshot of step %llu: %s; training goes on", (unsigned long long)step,
           pd_error());
    pd_snapshot_job_free(d->job);
    d->job = NULL;
    d->child = 0;
}

static void reap(struct pd_durable *d, int wait)
{
    int ended;
    const char *text;
    if (!d->child || waitpid(d->child, &ended, wait ? 0 : WNOHANG) != d->child) return;
    d->child = 0;
    pd_status status = pd_snapshot_result(d->job, &text);
    if (status == PD_OK)
        pd_log(PD_LOG_INFO, "snapshot of step %llu: %.1f MB in %s", (unsigned long long)d->last_step,
               (double)pd_snapshot_bytes(d->job) / 1e6, d->folder);
    else
        pd_log(PD_LOG_ERROR, "no snapshot of step %llu: %s; training goes on",
               (unsigned long long)d->last_step, text);
    pd_snapshot_job_free(d->job);
    d->job = NULL;
    if (status != PD_OK) return;
    if (pd_snapshot_keep(d->folder, d->config.keep) != PD_OK)
        pd_log(PD_LOG_WARNING, "old snapshots stay: %s", pd_error());
    for (int l = 0; d->journals && l < d->server->n_lanes; l++)
        if (pd_journal_drop_before(d->journals[l], d->last_step) != PD_OK)
            pd_log(PD_LOG_WARNING, "old logs stay: %s", pd_error());
}

/* Async: every lane has stopped for a moment. */
static void cut_async(void *arg)
{
    struct pd_durable *d = arg;
    uint64_t step = pd_shard_step(d->server->lanes[0].shard);
    for (int l = 0; d->journals && l < d->server->n_lanes; l++)
        if (pd_journal_rotate(d->journals[l], step) != PD_OK) pd_log(PD_LOG_WARNING, "%s", pd_error());
    cut(d, step);
}

/* A cut as soon as all lanes can be at one step; 1 when it is on its way or done. */
int pd_durable_cut_soon(struct pd_durable *d)
{
    if (!d) return 0;
    if (d->server->config.is_sync)
        pd_durable_hear(d, pd_server_step(d->server) + 1);
    else
        pd_server_stopped(d->server, cut_async, d);
    return 1;
}

int pd_durable_is_idle(const struct pd_durable *d)
{
    return !d || (!d->child && !atomic_load(&d->next));
}

void pd_durable_tend(struct pd_durable *d)
{
    if (!d) return;
    struct pd_server *s = d->server;
    reap(d, 0);
    uint64_t next = atomic_load(&d->next);
    if (s->config.is_sync && next && atomic_load(&d->at_cut) == s->n_lanes) {
        /* A child that still writes the last one is waited for: cuts come no faster than they can be written.
         */
        reap(d, 1);
        cut(d, next);
        atomic_store(&d->at_cut, 0);
        atomic_store(&d->next, 0);
        /* A server that ends after this cut lets nobody get past it. */
        for (int l = 0; !s->draining && l < s->n_lanes; l++)
            (void)pd_loop_post(s->lanes[l].loop, release, &s->lanes[l]);
        return;
    }
    int due =
        d->config.every_seconds > 0 && (pd_clock_ns() - d->last_cut) / 1000000000 >= d->config.every_seconds;
    if (!due || next || d->child) return;
    uint64_t step = pd_server_step(s);
    /* Two steps ahead: known to all before anyone gets there. */
    if (s->config.is_sync && is_first(d) && step > d->last_step) pd_durable_hear(d, step + 2);
    if (!s->config.is_sync && step > d->last_step) pd_server_stopped(s, cut_async, d);
}

pd_status pd_durable_last(struct pd_durable *d)
{
    if (!d) return PD_OK;
    reap(d, 1);
    uint64_t step = pd_shard_step(d->server->lanes[0].shard);
    if (step <= d->last_step) return PD_OK;
    pd_status status = prepare(d, step);
    if (status == PD_EXISTS) return PD_OK;
    PD_TRY(status);
    d->last_step = step;
    const char *text = "";
    if (pd_snapshot_write(d->job) != PD_OK) {
        status = pd_snapshot_result(d->job, &text);
        status = pd_fail(status, "no snapshot of step %llu: %s", (unsigned long long)step, text);
    } else {
        pd_log(PD_LOG_INFO, "snapshot of step %llu: %.1f MB in %s", (unsigned long long)step,
               (double)pd_snapshot_bytes(d->job) / 1e6, d->folder);
        if (pd_snapshot_keep(d->folder, d->config.keep) != PD_OK)
            pd_log(PD_LOG_WARNING, "old snapshots stay: %s", pd_error());
    }
    pd_snapshot_job_free(d->job);
    d->job = NULL;
    return status;
}

void pd_durable_close(struct pd_durable *d)
{
    if (!d) return;
    reap(d, 1);
    for (int l = 0; d->journals && l < d->server->n_lanes; l++)
        pd_journal_close(d->journals[l]);
    pd_free(d->journals);
    for (int i = 0; i < d->kept.n; i++) {
        pd_free(d->kept.at[i].name);
        pd_free(d->kept.at[i].whole);
    }
    pd_vec_free(&d->kept);
    free_list(d->config.n_servers, d->config.servers);
    free_list(d->config.n_slices, d->config.slices);
    pd_free((char *)d->config.log);
    pd_free(d->folder);
    pd_free(d->root);
    pd_free(d);
}
