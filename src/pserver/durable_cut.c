/* Snapshots while a server trains: when it is time for one, how all lanes come to stand at its step, and the
 * child that writes it. */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/log.h"
#include "pserver/durable_private.h"
#include "pserver/sums.h"

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

/* What a snapshot says of this server, in the words of snapshot.h. */
struct picture {
    struct pd_snapshot_var *vars;         /* of what is kept */
    struct pd_snapshot_trainer *trainers; /* by trainer */
    struct pd_snapshot_note *notes;       /* by lane, then the sums over servers */
    struct pd_buf *texts;
    char (*keys)[24];
    int n_notes;
};

static void picture_free(struct picture *p, int n_lanes)
{
    for (int l = 0; p->texts && l <= n_lanes; l++)
        pd_buf_free(&p->texts[l]);
    pd_free(p->texts);
    pd_free(p->notes);
    pd_free(p->keys);
    pd_free(p->vars);
    pd_free(p->trainers);
}

static void take_vars(const struct pd_durable *d, struct pd_snapshot_var *vars)
{
    for (int i = 0; i < d->kept.n; i++) {
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
}

/* The loops of a server may have applied different steps of a trainer in async mode: a note for each. */
static pd_status take_trainers(const struct pd_server *s, struct picture *p)
{
    for (int t = 0; t < s->config.trainers; t++)
        p->trainers[t] = (struct pd_snapshot_trainer){pd_shard_trainer_step(s->lanes[0].shard, t),
                                                      pd_shard_incarnation(s->lanes[0].shard, t)};
    for (int l = 0; l < s->n_lanes; l++) {
        for (int t = 0; t < s->config.trainers; t++)
            pd_buf_printf(&p->texts[l], "%s%llu", t ? " " : "",
                          (unsigned long long)pd_shard_trainer_step(s->lanes[l].shard, t));
        if (p->texts[l].failed) return pd_no_memory();
        snprintf(p->keys[l], sizeof p->keys[l], "loop%d", l);
        p->notes[p->n_notes++] = (struct pd_snapshot_note){p->keys[l], p->texts[l].at};
    }
    return PD_OK;
}

/* Another server may be killed while it applies this very step, and ask for them again. */
static pd_status take_sums(const struct pd_server *s, struct picture *p)
{
    struct pd_buf *text = &p->texts[s->n_lanes];
    if (!s->sums) return PD_OK;
    pd_sums_write(s->sums, text);
    if (text->failed) return pd_no_memory();
    if (text->n) p->notes[p->n_notes++] = (struct pd_snapshot_note){"sums", text->at};
    return PD_OK;
}

static pd_status prepare(struct pd_durable *d, uint64_t step)
{
    struct pd_server *s = d->server;
    size_t n_trainers = (size_t)s->config.trainers, n_notes = (size_t)s->n_lanes + 1;
    const char *self = s->config.endpoint;
    struct picture p = {.vars = pd_calloc((size_t)d->kept.n, sizeof *p.vars),
                        .trainers = pd_calloc(n_trainers, sizeof *p.trainers),
                        .notes = pd_calloc(n_notes, sizeof *p.notes),
                        .texts = pd_calloc(n_notes, sizeof *p.texts),
                        .keys = pd_calloc(n_notes, sizeof *p.keys)};
    pd_status status = p.vars && p.trainers && p.notes && p.texts && p.keys ? PD_OK : pd_no_memory();
    if (status == PD_OK) status = take_trainers(s, &p);
    if (status == PD_OK) status = take_sums(s, &p);
    if (status == PD_OK) {
        take_vars(d, p.vars);
        struct pd_snapshot_info info = {.step = step,
                                        .endpoint = s->config.endpoint,
                                        .n_servers = d->config.n_servers ? d->config.n_servers : 1,
                                        .servers = d->config.n_servers ? d->config.servers : &self,
                                        .n_trainers = s->config.trainers,
                                        .trainers = p.trainers,
                                        .n_vars = d->kept.n,
                                        .vars = p.vars,
                                        .n_notes = p.n_notes,
                                        .notes = p.notes};
        status = pd_snapshot_prepare(d->folder, &info, &d->job);
    }
    picture_free(&p, s->n_lanes);
    return status;
}

static void drop_job(struct pd_durable *d)
{
    pd_snapshot_job_free(d->job);
    d->job = NULL;
}

/* The snapshot of last_step is on the disk. */
static void written(struct pd_durable *d)
{
    pd_log(PD_LOG_INFO, "snapshot of step %llu: %.1f MB in %s", (unsigned long long)d->last_step,
           (double)pd_snapshot_bytes(d->job) / 1e6, d->folder);
    if (pd_snapshot_keep(d->folder, d->config.keep) != PD_OK)
        pd_log(PD_LOG_WARNING, "old snapshots stay: %s", pd_error());
}

static void not_written(const struct pd_durable *d, const char *why)
{
    pd_log(PD_LOG_ERROR, "no snapshot of step %llu: %s; training goes on", (unsigned long long)d->last_step,
           why);
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
    not_written(d, pd_error());
    drop_job(d);
    d->child = 0;
}

void pd_durable_reap(struct pd_durable *d, int wait)
{
    int ended;
    const char *text;
    if (!d->child || waitpid(d->child, &ended, wait ? 0 : WNOHANG) != d->child) return;
    d->child = 0;
    pd_status status = pd_snapshot_result(d->job, &text);
    if (status == PD_OK)
        written(d);
    else
        not_written(d, text);
    drop_job(d);
    if (status != PD_OK) return;
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
    pd_durable_reap(d, 0);
    uint64_t next = atomic_load(&d->next);
    if (s->config.is_sync && next && atomic_load(&d->at_cut) == s->n_lanes) {
        /* A child that still writes the last one is waited for: cuts come no faster than they can be written.
         */
        pd_durable_reap(d, 1);
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
    pd_durable_reap(d, 1);
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
        written(d);
    }
    drop_job(d);
    return status;
}
