/* For whom a folder's logs are. A log tells of gradients by number, so it is of use only to a server that
 * holds the same slices in the same loops, and does the same with them: the file `layout` says which and
 * what, and since which snapshot there is a log, so that one that was removed is missed. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/flags.h"
#include "base/log.h"
#include "base/map.h"
#include "pserver/job_text.h"
#include "pserver/store/durable_private.h"
#include "pserver/store/folder.h"

#define NAME "layout"
#define MAGIC "paddle-layout 2\n"

enum { MOST = 64 << 20 };

/* The last line; what is before it is compared as it is. */
static int read_last(const char *text, size_t n, struct pd_layout *out)
{
    const char *last = n && text[n - 1] == '\n' ? memrchr(text, '\n', n - 1) : NULL;
    int end = 0;
    if (!last || strncmp(text, MAGIC, strlen(MAGIC)) != 0) return 0;
    last++;
    out->body = (size_t)(last - text);
    if (strcmp(last, "log none\n") == 0) return 1;
    out->has_log = 1;
    return sscanf(last, "log since=%" SCNu64 "%n", &out->since, &end) == 1 && strcmp(last + end, "\n") == 0;
}

static int read_loops(const char *text, struct pd_layout *out)
{
    const char *line = strstr(text, "\nloops ");
    return line && sscanf(line, "\nloops %d", &out->loops) == 1 && out->loops >= 1 &&
           out->loops <= PD_FLAG_MOST_ps_loops;
}

pd_status pd_layout_read(const char *folder, struct pd_layout *out)
{
    *out = (struct pd_layout){0};
    int is_there;
    PD_TRY(pd_folder_read(folder, NAME, MOST, &out->text, &is_there));
    out->exists = out->text.n > 0;
    if (!out->exists || (read_last(out->text.at, out->text.n, out) && read_loops(out->text.at, out)))
        return PD_OK;
    /* Of another version, or damaged: logs are read as far as they tell themselves what they are. */
    *out = (struct pd_layout){.text = out->text, .exists = 1, .has_log = 1, .loops = 1};
    return PD_OK;
}

void pd_layout_free(struct pd_layout *layout)
{
    pd_buf_free(&layout->text);
}

#define RULE "program "
/* Where states and rates begin is not of interest: the snapshot has them. Within a step trainers are counted
 * where they matter. */
static const char *const no_rule[] = {"input of the update of ", NULL};
static const char *const no_rule_begun[] = {"input of the update of ", "trainers: ", NULL};

/* `but`: lines of the Program that are left out; NULL: all are. */
static void describe(const struct pd_durable *d, const char *const *servers, const char *const *but,
                     struct pd_buf *out)
{
    const struct pd_server *s = d->server;
    pd_buf_printf(out, MAGIC "mode %s\n", s->config.is_sync ? "sync" : "async");
    for (int i = 0; i < d->config.n_servers; i++)
        pd_buf_printf(out, "server %s\n", servers[i]);
    pd_buf_printf(out, "loops %d\n", s->n_lanes);
    for (int l = 0; l < s->n_lanes; l++)
        for (int u = 0; u < pd_shard_units(s->lanes[l].shard); u++) {
            const struct pd_unit_spec *unit = pd_shard_unit(s->lanes[l].shard, u);
            pd_buf_printf(out, "loop %d %s %lld\n", l, unit->grad,
                          (long long)pd_meta_numel(&unit->table->meta));
        }
    if (but) pd_job_text_put(&s->job_text, RULE, but, out);
}

static int line_length(const char *text, const char *end)
{
    const char *stop = memchr(text, '\n', (size_t)(end - text));
    return (int)((stop ? stop : end) - text);
}

/* The first line in which they differ. */
static void tell_difference(struct pd_layout *l, const struct pd_buf *mine)
{
    const char *a = l->text.at, *a_end = a + l->body, *b = mine->at, *b_end = b + mine->n;
    while (a < a_end && b < b_end) {
        int n = line_length(a, a_end), m = line_length(b, b_end);
        if (n != m || memcmp(a, b, (size_t)n) != 0) break;
        a += n + 1;
        b += m + 1;
    }
    if (!l->body)
        snprintf(l->differs, sizeof l->differs,
                 "the file 'layout', which says what it is for, is damaged, or of another version");
    else if (a == a_end)
        snprintf(l->differs, sizeof l->differs,
                 "it was written for a server without '%.*s', which this one has", line_length(b, b_end), b);
    else if (b == b_end)
        snprintf(l->differs, sizeof l->differs, "it was written for '%.*s', which this server does not have",
                 line_length(a, a_end), a);
    else
        snprintf(l->differs, sizeof l->differs, "it was written for '%.*s', this server has '%.*s'",
                 line_length(a, a_end), a, line_length(b, b_end), b);
}

/* The servers that it names, in a copy of its text. */
struct servers {
    char *text;
    PD_VEC(const char *) list;
};

static pd_status read_servers(const struct pd_layout *l, struct servers *out)
{
    static const char word[] = "server ";
    out->text = pd_strndup(l->text.at ? l->text.at : "", l->body);
    if (!out->text) return pd_no_memory();
    for (char *rest = out->text, *line; (line = strsep(&rest, "\n"));)
        if (strncmp(line, word, sizeof word - 1) == 0 && !pd_vec_push(&out->list, line + sizeof word - 1))
            return pd_no_memory();
    return PD_OK;
}

/* What it would be for this server. Servers that were moved to another host or port are what they were. */
static pd_status describe_as(const struct pd_durable *d, const struct pd_layout *l, const char *const *but,
                             struct pd_buf *out)
{
    struct servers before = {0};
    pd_status status = read_servers(l, &before);
    int same = pd_snapshot_same_places(before.list.n, before.list.at, d->config.n_servers, d->config.servers);
    /* One that was written before it told of rules is for the same. */
    if (l->body && !strstr(l->text.at, "\n" RULE)) but = NULL;
    if (status == PD_OK) describe(d, same ? before.list.at : d->config.servers, but, out);
    pd_free(before.text);
    pd_vec_free(&before.list);
    return out->failed ? pd_no_memory() : status;
}

static pd_status compare(const struct pd_durable *d, const char *const *but, struct pd_layout *l)
{
    struct pd_buf mine = {0};
    pd_status status = describe_as(d, l, but, &mine);
    if (status != PD_OK) {
        pd_buf_free(&mine);
        return status;
    }
    l->is_same = l->exists && l->body == mine.n && memcmp(l->text.at, mine.at, mine.n) == 0;
    if (!l->exists)
        snprintf(l->differs, sizeof l->differs, "the file 'layout', which says what it is for, is not there");
    else if (!l->is_same)
        tell_difference(l, &mine);
    pd_buf_free(&mine);
    return PD_OK;
}

pd_status pd_layout_compare(const struct pd_durable *d, struct pd_layout *l)
{
    return compare(d, no_rule, l);
}

void pd_layout_put_begun(const struct pd_durable *d, struct pd_buf *out)
{
    describe(d, d->config.servers, no_rule_begun, out);
}

pd_status pd_layout_rules(const struct pd_durable *d, uint64_t *rules)
{
    struct pd_buf text = {0};
    pd_job_text_put(&d->server->job_text, RULE, no_rule, &text);
    for (int i = 0; i < d->kept.n; i++)
        if (d->kept.at[i].is_setting)
            pd_buf_printf(&text, "%s %.9g\n", d->kept.at[i].name, d->kept.at[i].setting);
    *rules = pd_hash_bytes(text.at, text.n) | 1;
    pd_status status = text.failed ? pd_no_memory() : PD_OK;
    pd_buf_free(&text);
    return status;
}

pd_status pd_layout_compare_begun(const struct pd_durable *d, const char *text, char differs[400])
{
    struct pd_layout there = {.exists = 1};
    *differs = 0;
    if (!text) return PD_OK; /* it was written before it told */
    pd_buf_text(&there.text, text);
    there.body = there.text.n;
    pd_status status = there.text.failed ? pd_no_memory() : compare(d, no_rule_begun, &there);
    if (status == PD_OK && !there.is_same) memcpy(differs, there.differs, sizeof there.differs);
    pd_layout_free(&there);
    return status;
}

pd_status pd_layout_write(const struct pd_durable *d, int has_log, uint64_t since)
{
    struct pd_buf text = {0};
    describe(d, d->config.servers, no_rule, &text);
    if (has_log)
        pd_buf_printf(&text, "log since=%" PRIu64 "\n", since);
    else
        pd_buf_text(&text, "log none\n");
    pd_status status = text.failed ? pd_no_memory() : pd_folder_write(d->folder, NAME, text.at, text.n);
    pd_buf_free(&text);
    return status;
}

/* How many loops the folder's logs and snapshots are of; 0: it does not say. `must` is set when what the log
 * holds is in no snapshot yet. */
static pd_status loops_of(const char *folder, int *loops, int *must)
{
    struct pd_layout layout;
    uint64_t *steps;
    char name[64];
    int n;
    *loops = *must = 0;
    pd_status status = pd_layout_read(folder, &layout);
    if (status == PD_OK && layout.body) {
        *loops = layout.loops;
        status = pd_snapshot_list(folder, &steps, &n);
        if (status == PD_OK) {
            status = pd_journal_has_records(folder, n ? steps[n - 1] : 0, must, name);
            pd_free(steps);
        }
    }
    pd_layout_free(&layout);
    return status;
}

pd_status pd_durable_loops(const struct pd_durable_config *config, const char *endpoint, int asked,
                           int *loops)
{
    char *folder;
    int kept, must;
    if (!config || !config->root || !*config->root || config->is_fresh) return PD_OK;
    PD_TRY(pd_snapshot_folder(config->root, endpoint, &folder));
    pd_status status = pd_durable_blame_flag(config->root, loops_of(folder, &kept, &must));
    if (status == PD_OK && kept && kept != *loops && (!asked || must)) {
        if (asked)
            pd_log(PD_LOG_WARNING,
                   "FLAGS_ps_loops is %d, but the log in '%s' is of %d loops: so are this server's. End it "
                   "with SIGTERM before you start it with another number",
                   asked, folder, kept);
        *loops = kept;
    }
    pd_free(folder);
    return status;
}
