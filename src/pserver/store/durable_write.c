/* A snapshot of a server: what it says of it. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "pserver/server/sums.h"
#include "pserver/store/durable_private.h"

/* One for each number of this run, and of no other one. */
uint64_t pd_durable_id(const struct pd_durable *d, uint64_t number)
{
    struct pd_rng rng = pd_rng_make(d->server->incarnation, number);
    uint32_t words[4];
    pd_rng_block(&rng, 0, words);
    return ((uint64_t)words[0] << 32 | words[1]) | 1;
}

/* What a snapshot says of this server, in the words of snapshot.h. */
struct picture {
    struct pd_snapshot_var *vars;         /* of what is kept */
    struct pd_snapshot_trainer *trainers; /* by trainer */
    struct pd_snapshot_note
        *notes; /* three by lane, sums over servers, the schedule, the layout, eight names */
    struct pd_buf *texts;
    char (*keys)[24];
    int n_notes;
    struct pd_buf names; /* of what tables keep */
};

static void picture_free(struct picture *p, size_t n_notes)
{
    for (size_t i = 0; p->texts && i < n_notes; i++)
        pd_buf_free(&p->texts[i]);
    pd_buf_free(&p->names);
    pd_free(p->texts);
    pd_free(p->notes);
    pd_free(p->keys);
    pd_free(p->vars);
    pd_free(p->trainers);
}

static pd_status take_vars(const struct pd_durable *d, struct picture *p, int *n_vars)
{
    struct pd_snapshot_var *vars = p->vars;
    int n = 0;
    for (int i = 0; i < d->kept.n; i++) {
        const struct kept *k = &d->kept.at[i];
        const struct pd_tensor *t = &k->value->tensor;
        if (!t->data) continue;
        vars[n] = (struct pd_snapshot_var){.name = k->name,
                                           .dtype = t->meta.dtype,
                                           .rank = t->meta.rank,
                                           .data = t->data,
                                           .whole = k->whole,
                                           .first_row = k->first_row,
                                           .row_step = k->row_step,
                                           .whole_rows = k->whole_rows};
        memcpy(vars[n++].dim, t->meta.dim, sizeof vars->dim);
    }
    *n_vars = n + pd_tables_count(d->server);
    return pd_tables_put(d->server, vars + n, &p->names);
}

/* Where the next note's text is to be written. */
static struct pd_buf *next_text(struct picture *p)
{
    return &p->texts[p->n_notes];
}

static pd_status add_note(struct picture *p, const char *key, int lane)
{
    int n = p->n_notes;
    if (p->texts[n].failed) return pd_no_memory();
    if (!p->texts[n].n) return PD_OK;
    if (lane >= 0)
        snprintf(p->keys[n], sizeof p->keys[n], "%s%d", key, lane);
    else
        snprintf(p->keys[n], sizeof p->keys[n], "%s", key);
    p->notes[p->n_notes++] = (struct pd_snapshot_note){p->keys[n], p->texts[n].at};
    return PD_OK;
}

/* The loops of a server may have applied different steps of a trainer in async mode, and parts of its next
 * one: notes for each. */
static pd_status take_trainers(const struct pd_server *s, struct picture *p)
{
    for (int t = 0; t < s->config.trainers; t++)
        p->trainers[t] = (struct pd_snapshot_trainer){pd_shard_counted(s->lanes[0].shard, t),
                                                      pd_shard_incarnation(s->lanes[0].shard, t)};
    for (int l = 0; l < s->n_lanes; l++) {
        for (int t = 0; t < s->config.trainers; t++)
            pd_buf_printf(next_text(p), "%s%llu", t ? " " : "",
                          (unsigned long long)pd_shard_counted(s->lanes[l].shard, t));
        PD_TRY(add_note(p, "loop", l));
        if (s->config.is_sync && !pd_durable_is_between(s))
            pd_buf_printf(next_text(p), "%" PRIu64, pd_shard_step(s->lanes[l].shard));
        PD_TRY(add_note(p, "step", l));
        pd_shard_write_open(s->lanes[l].shard, next_text(p));
        PD_TRY(add_note(p, "open", l));
    }
    return PD_OK;
}

/* A step that had begun is brought to its end by the rules by which it was begun. Behind the notes of loops,
 * which come first. */
static pd_status take_layout(const struct pd_durable *d, struct picture *p)
{
    int is_within = 0;
    for (int i = 0; i < p->n_notes && !is_within; i++) {
        const struct pd_snapshot_note *note = &p->notes[i];
        int is_apart = strncmp(note->key, "loop", 4) == 0 && strcmp(note->value, p->notes[0].value) != 0;
        is_within = strncmp(note->key, "open", 4) == 0 || strncmp(note->key, "step", 4) == 0 ||
                    (!d->server->config.is_sync && is_apart);
    }
    if (!is_within) return PD_OK;
    pd_layout_put_begun(d, next_text(p));
    return add_note(p, "layout", -1);
}

/* Another server may be killed while it applies this very step, and ask for them again. */
static pd_status take_sums(const struct pd_server *s, struct picture *p)
{
    if (!s->sums) return PD_OK;
    pd_sums_write(s->sums, next_text(p));
    return add_note(p, "sums", -1);
}

/* What the log, the folder and other servers know it by; and in sync mode the step, where the number is
 * another one. */
static pd_status take_names(const struct pd_durable *d, uint64_t number, struct picture *p)
{
    uint64_t job = atomic_load(&d->server->job_id), step = pd_shard_step(d->server->lanes[0].shard);
    pd_buf_printf(next_text(p), "%016" PRIx64, pd_durable_id(d, number));
    PD_TRY(add_note(p, "id", -1));
    if (job) pd_buf_printf(next_text(p), "%016" PRIx64, job);
    PD_TRY(add_note(p, "job", -1));
    if (d->era) pd_buf_printf(next_text(p), "%" PRIu64, d->era);
    PD_TRY(add_note(p, "era", -1));
    if (!d->server->config.is_sync) pd_buf_text(next_text(p), "async");
    PD_TRY(add_note(p, "mode", -1));
    /* Until a step is done by other ones, they are those of the last. */
    pd_buf_printf(next_text(p), "%016" PRIx64, pd_durable_is_changed(d) ? d->taken.rules : d->rules);
    PD_TRY(add_note(p, "rules", -1));
    pd_buf_text(next_text(p), d->config.placing);
    PD_TRY(add_note(p, "placing", -1));
    pd_anew_put_kinds(d->server->engine.program, next_text(p));
    PD_TRY(add_note(p, "optimizers", -1));
    if (d->server->config.is_sync && step != number) pd_buf_printf(next_text(p), "%" PRIu64, step);
    return add_note(p, "applied", -1);
}

/* The step that the learning rate is of. In async mode it may have begun, and not be applied yet. */
static pd_status take_schedule(const struct pd_server *s, struct picture *p)
{
    if (s->config.lr_block < 0) return PD_OK;
    pd_buf_printf(next_text(p), "%llu", (unsigned long long)s->lr_step);
    return add_note(p, "schedule", -1);
}

pd_status pd_durable_prepare(struct pd_durable *d, uint64_t number)
{
    struct pd_server *s = d->server;
    size_t n_trainers = (size_t)s->config.trainers, n_notes = 3 * (size_t)s->n_lanes + 11;
    int n_servers;
    const char *const *servers = pd_durable_servers(d, &n_servers);
    size_t most_vars = (size_t)d->kept.n + (size_t)pd_tables_count(s);
    struct picture p = {.vars = pd_calloc(most_vars, sizeof *p.vars),
                        .trainers = pd_calloc(n_trainers, sizeof *p.trainers),
                        .notes = pd_calloc(n_notes, sizeof *p.notes),
                        .texts = pd_calloc(n_notes, sizeof *p.texts),
                        .keys = pd_calloc(n_notes, sizeof *p.keys)};
    pd_status status = p.vars && p.trainers && p.notes && p.texts && p.keys ? PD_OK : pd_no_memory();
    if (status == PD_OK) status = take_trainers(s, &p);
    if (status == PD_OK) status = take_layout(d, &p);
    if (status == PD_OK) status = take_sums(s, &p);
    if (status == PD_OK) status = take_schedule(s, &p);
    if (status == PD_OK) status = take_names(d, number, &p);
    int n_vars = 0;
    if (status == PD_OK) status = take_vars(d, &p, &n_vars);
    if (status == PD_OK) {
        struct pd_snapshot_info info = {.step = number,
                                        .endpoint = s->config.endpoint,
                                        .n_servers = n_servers,
                                        .servers = servers,
                                        .n_trainers = s->config.trainers,
                                        .trainers = p.trainers,
                                        .n_vars = n_vars,
                                        .vars = p.vars,
                                        .n_notes = p.n_notes,
                                        .notes = p.notes};
        pd_durable_begin(d, s->n_lanes, DISK_MAKES);
        status = pd_snapshot_prepare(d->folder, &info, &d->writing);
        pd_durable_end(d, s->n_lanes);
    }
    picture_free(&p, n_notes);
    return status;
}
