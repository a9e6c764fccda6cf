/* The life of what a server keeps; see durable.h. Here: what is kept, open and close. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/rng.h"
#include "pserver/store/durable_private.h"

/* ---- what is kept ---- */

/* Has an optimizer op of this block the variable as its parameter or state? */
static int is_state(const struct pd_block *block, const char *name)
{
    for (int i = 0; block && i < block->ops.n; i++) {
        const struct pd_opdesc *op = block->ops.at[i];
        for (int k = 0; pd_opdesc_slot(op, 0, "Param") && k < op->in.n; k++) {
            const struct pd_io *io = &op->in.at[k];
            if (strcmp(io->slot, "Grad") == 0) continue;
            for (int j = 0; j < io->args.n; j++)
                if (strcmp(io->args.at[j], name) == 0) return 1;
        }
    }
    return 0;
}

int pd_server_keeps(const struct pd_server *s, const struct pd_var *var)
{
    const struct pd_program *program = var->block->program;
    if (!(var->flags & PD_VAR_PERSISTABLE)) return 0;
    /* Gradients on their way, and what is made of them, are persistable too; so may be what a user called so.
     */
    if (!strstr(var->name, PD_GRAD_SUFFIX) || pd_schedule_writes(s, var->name)) return 1;
    int is_made = 0;
    for (int i = 0; i < s->n_lanes; i++)
        for (int u = 0; u < pd_shard_units(s->lanes[i].shard); u++) {
            const struct pd_unit_spec *unit = pd_shard_unit(s->lanes[i].shard, u);
            if (is_state(pd_program_block(program, unit->block), var->name)) return 1;
            is_made |= pd_engine_is_of(&s->engine, var->name, unit->grad);
        }
    for (int i = 1; !is_made && i < program->blocks.n; i++)
        is_made = pd_program_writes(program, i, var->name);
    return !is_made;
}

static pd_status read_slice(const struct pd_durable_config *config, struct kept *k)
{
    size_t length = strlen(k->name);
    for (int i = 0; i < config->n_slices; i++) {
        const char *text = config->slices[i];
        long long first, rows;
        if (strncmp(text, k->name, length) != 0 || text[length] != '\t') continue;
        const char *whole = text + length + 1, *end = strchr(whole, '\t');
        if (!end || sscanf(end, "%lld %lld", &first, &rows) != 2)
            return pd_fail(PD_INVALID, "slices has '%s', expected name, whole, row and rows, with tabs",
                           text);
        k->whole = pd_strndup(whole, (size_t)(end - whole));
        k->first_row = first;
        k->row_step = 1;
        k->whole_rows = rows;
        return k->whole ? PD_OK : pd_no_memory();
    }
    return PD_OK;
}

static pd_status find_kept(struct pd_durable *d)
{
    const struct pd_block *block = pd_program_block(d->server->engine.program, 0);
    for (int i = 0; i < block->vars.n; i++) {
        const struct pd_var *var = block->vars.at[i];
        struct pd_value *value =
            pd_server_keeps(d->server, var) ? pd_engine_lasting(&d->server->engine, var->name) : NULL;
        if (value && pd_tables_have(d->server, value)) continue;
        if (!value || (!value->tensor.data && !pd_schedule_writes(d->server, var->name)) ||
            (value->tensor.meta.kind != PD_KIND_TENSOR && !pd_value_is_rows(value)))
            continue;
        struct kept k = {.name = pd_strdup(var->name), .value = value};
        pd_status status = k.name ? read_slice(&d->config, &k) : pd_no_memory();
        if (status == PD_OK && pd_value_is_rows(value)) {
            /* A table that is dealt out row by row: its row numbers tell which. Not every server has one. */
            k.whole = pd_strdup(var->name);
            k.first_row = value->rows.n ? value->rows.at[0] : 0;
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

/* ---- open and close ---- */

const char *const *pd_durable_servers(const struct pd_durable *d, int *n)
{
    *n = d->config.n_servers ? d->config.n_servers : 1;
    return d->config.n_servers ? d->config.servers : &d->server->config.endpoint;
}

int pd_durable_config_is_first(const struct pd_durable_config *config, const char *endpoint)
{
    return !config->n_servers || pd_snapshot_place(config->n_servers, config->servers, endpoint) == 0;
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

pd_status pd_durable_set_job(struct pd_durable *d, uint64_t job)
{
    if (!d) return PD_OK;
    uint64_t there;
    PD_TRY(pd_durable_read_job(d->folder, &there));
    if (there != job) PD_TRY(pd_durable_write_job(d, job));
    d->job = job;
    return PD_OK;
}

int pd_durable_is_changed(const struct pd_durable *d)
{
    return d && d->taken.rules && d->taken.rules != d->rules && !atomic_load(&d->has_done);
}

int pd_durable_is_bare(const struct pd_durable *d)
{
    return d && d->is_bare;
}

int pd_durable_was_logged(const struct pd_durable *d)
{
    return d && d->taken.has_own && !d->taken.is_less && d->layout.has_log &&
           d->layout.since <= d->taken.number;
}

static pd_status open_all(struct pd_durable *d, const struct pd_durable_config *config)
{
    d->root = pd_strdup_some(config->root);
    d->config.log = pd_strdup_some(config->log);
    d->config.placing = pd_strdup_some(config->placing);
    d->config.servers = d->config.slices = NULL;
    if (!d->root || !d->config.log || !d->config.placing) return pd_no_memory();
    if (*config->log && strcmp(config->log, "write") != 0 && strcmp(config->log, "fsync") != 0)
        return pd_fail(PD_INVALID, "FLAGS_ps_log is '%s': give write, fsync or nothing", config->log);
    PD_TRY(copy_list(config->n_servers, config->servers, &d->config.servers));
    PD_TRY(copy_list(config->n_slices, config->slices, &d->config.slices));
    PD_TRY(pd_snapshot_folder(d->root, d->server->config.endpoint, &d->folder));
    PD_TRY(find_kept(d));
    PD_TRY(pd_settings_note(d));
    PD_TRY(pd_layout_rules(d, &d->rules));
    PD_TRY(pd_durable_watch(d));
    pd_durable_begin(d, d->server->n_lanes, DISK_LOADS);
    PD_TRY(pd_durable_blame_flag(d->root, pd_durable_own_folder(d)));
    PD_TRY(pd_layout_read(d->folder, &d->layout));
    PD_TRY(pd_layout_compare(d, &d->layout));
    if (!config->is_fresh) PD_TRY(pd_durable_load(d));
    d->is_bare = d->job && !d->taken.has_own && !d->taken.is_from_set;
    if (d->is_bare && !config->is_fresh)
        pd_log(PD_LOG_WARNING,
               "'%s' is of a job that has run before, but has neither a snapshot nor a log of it: this "
               "server begins with what its script has drawn or loaded",
               d->folder);
    if (!d->job && pd_durable_is_first(d)) d->job = pd_rng_fresh_seed();
    if (d->job) PD_TRY(pd_durable_set_job(d, d->job));
    atomic_store(&d->server->job_id, d->job);
    PD_TRY(pd_durable_replay(d));
    PD_TRY(pd_settings_take(d));
    PD_TRY(pd_anew_tell(d));
    uint64_t step = pd_shard_step(d->server->lanes[0].shard);
    PD_TRY(pd_durable_settle(d));
    pd_durable_free_redo(d);
    pd_durable_end(d, d->server->n_lanes);
    pd_server_set_step(d->server, step);
    if (step)
        pd_log(PD_LOG_INFO, "taken up at step %llu from %s%s", (unsigned long long)step,
               d->taken.is_from_set ? "other servers' folders in " : "",
               d->taken.is_from_set ? d->root : d->folder);
    pd_durable_note_cut(d);
    atomic_store(&d->has_done, 0); /* what was done again does not count */
    return pd_durable_ready(d);
}

pd_status pd_durable_open(struct pd_server *server, const struct pd_durable_config *config,
                          struct pd_durable **out)
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
    pthread_mutex_init(&d->lock, NULL);
    d->server = server;
    d->lock_file = -1;
    d->config = *config;
    pd_status status = open_all(d, config);
    if (status != PD_OK) {
        pd_durable_close(d);
        return status;
    }
    *out = d;
    return PD_OK;
}

void pd_durable_close(struct pd_durable *d)
{
    if (!d) return;
    (void)pd_writer_wait(d);
    for (int l = 0; d->journals && l < d->server->n_lanes; l++)
        pd_journal_close(d->journals[l]);
    pd_free(d->journals);
    pd_durable_free_redo(d);
    pd_free(d->taken.files);
    pd_layout_free(&d->layout);
    pd_free(d->stands);
    pthread_mutex_destroy(&d->lock);
    for (int i = 0; i < d->kept.n; i++) {
        pd_free(d->kept.at[i].name);
        pd_free(d->kept.at[i].whole);
    }
    pd_vec_free(&d->kept);
    free_list(d->config.n_servers, d->config.servers);
    free_list(d->config.n_slices, d->config.slices);
    pd_free((char *)d->config.log);
    pd_free((char *)d->config.placing);
    if (d->lock_file >= 0) close(d->lock_file);
    pd_durable_watch_end(d);
    pd_free(d->folder);
    pd_free(d->root);
    pd_free(d);
}
