/* Steps that have not ended when a snapshot is cut. Async: parts of them are in the parameters, and the
 * process that gave them, or one that takes its place, will send all of them again, for the step was never
 * acknowledged. So the snapshot says which they are. For each trainer: its number and step, then for each
 * gradient its number and the parts. "0 13 0:0-2,5 3:0;2 ..." Rows, what runs through the engine, and all
 * parts where gradients are checked wait for the end of the push and are not kept.
 *
 * Sync, where the last snapshot of a server is cut within a step that its trainers, stopped as well, do not
 * bring to its end: the step, then the same, for all trainers alike. "13 0:0-2,5 3:0" */
#include <inttypes.h>
#include <string.h>

#include "base/decimal.h"
#include "pserver/shard/shard_private.h"

/* ---- out ---- */

/* Is it in the parameters? In sync mode that is for all trainers alike (g is NULL). */
static int is_there(const struct unit *u, const struct pd_given *g, uint64_t step, uint32_t part)
{
    return g ? has_part(g, part) : u->applied[part] == step;
}

static void write_parts(const struct unit *u, const struct pd_given *g, uint64_t step, struct pd_buf *out)
{
    char before = ':';
    for (uint32_t part = 0; part < u->parts; part++) {
        uint32_t first = part;
        if (!is_there(u, g, step, part)) continue;
        while (part + 1 < u->parts && is_there(u, g, step, part + 1))
            part++;
        pd_buf_printf(out, "%c%" PRIu32, before, first);
        if (part > first) pd_buf_printf(out, "-%" PRIu32, part);
        before = ',';
    }
}

/* Sync: the step that has begun, then the parts of it that are applied. */
static void write_begun(const struct pd_shard *shard, struct pd_buf *out)
{
    uint64_t step = shard->step + 1;
    if (!pd_shard_is_within(shard)) return;
    pd_buf_printf(out, "%" PRIu64, step);
    for (int k = 0; k < shard->units.n; k++) {
        const struct unit *u = shard->units.at[k];
        if (u->done_step != step) continue;
        pd_buf_printf(out, " %d", k);
        write_parts(u, NULL, step, out);
    }
}

/* Async: are parts of the trainer's next push to this gradient in the parameters? */
static int is_begun(const struct pd_shard *shard, const struct unit *u, int trainer)
{
    const struct pd_given *g = &u->given[trainer];
    return pd_shard_is_early(shard, u, trainer) && g->step == shard->trainers[trainer].step + 1 && g->n_parts;
}

int pd_shard_has_parts(const struct pd_shard *shard, int trainer)
{
    for (int k = 0; !shard->config.is_sync && k < shard->units.n; k++)
        if (is_begun(shard, shard->units.at[k], trainer)) return 1;
    return 0;
}

void pd_shard_write_open(const struct pd_shard *shard, struct pd_buf *out)
{
    if (shard->config.is_sync) write_begun(shard, out);
    for (int i = 0; !shard->config.is_sync && i < shard->config.trainers; i++) {
        int n = 0;
        for (int k = 0; k < shard->units.n; k++) {
            const struct unit *u = shard->units.at[k];
            const struct pd_given *g = &u->given[i];
            if (!is_begun(shard, u, i)) continue;
            if (!n++) pd_buf_printf(out, "%s%d %" PRIu64, out->n ? ";" : "", i, g->step);
            pd_buf_printf(out, " %d", k);
            write_parts(u, g, g->step, out);
        }
    }
}

/* ---- in ---- */

static int read_number(const char **at, uint64_t most, uint64_t *out)
{
    int n = pd_decimal(*at, NULL, most, out);
    *at += n;
    return n > 0;
}

static int takes(const char **at, char c)
{
    if (**at != c) return 0;
    (*at)++;
    return 1;
}

static pd_status wrong(const char *text, const char *at)
{
    return pd_fail(PD_FORMAT,
                   "the snapshot tells of pushes that had not ended as '%.80s%s', and this server cannot "
                   "have had what stands at character %zu: start the servers as they were, and their "
                   "trainers, until the step is through",
                   text, strlen(text) > 80 ? "..." : "", (size_t)(at - text));
}

static void set_there(struct unit *u, struct pd_given *g, uint64_t step, uint32_t part)
{
    if (g)
        pd_shard_count_given(u, g, part);
    else
        pd_shard_count_applied(u, part, step);
}

/* Parts of a gradient, rising. */
static int read_parts(const char **at, struct unit *u, struct pd_given *g, uint64_t step)
{
    uint64_t next = 0, first, last;
    do {
        if (!read_number(at, (uint64_t)u->parts - 1, &first) || first < next) return 0;
        last = first;
        if (takes(at, '-') && (!read_number(at, (uint64_t)u->parts - 1, &last) || last <= first)) return 0;
        for (uint64_t part = first; part <= last; part++)
            set_there(u, g, step, (uint32_t)part);
        next = last + 1;
    } while (takes(at, ','));
    return 1;
}

/* A gradient's number, which rises, and its colon; NULL: it does not fit. */
static struct unit *read_unit(struct pd_shard *shard, const char **at, uint64_t *next)
{
    uint64_t k;
    if (!shard->units.n || !read_number(at, (uint64_t)shard->units.n - 1, &k) || k < *next || !takes(at, ':'))
        return NULL;
    struct unit *u = shard->units.at[k];
    *next = k + 1;
    return u->is_direct && !u->spec.is_rows && u->parts ? u : NULL;
}

/* One trainer's push; *number rises. */
static pd_status read_push(struct pd_shard *shard, const char *text, const char **at, uint64_t *number)
{
    const char *start = *at;
    uint64_t i, step, next = 0;
    if (!read_number(at, (uint64_t)shard->config.trainers - 1, &i) || i < *number || !takes(at, ' '))
        return wrong(text, start);
    const struct trainer *t = &shard->trainers[i];
    if (!read_number(at, UINT64_MAX, &step) || t->step == UINT64_MAX || step != t->step + 1 || **at != ' ')
        return wrong(text, start);
    *number = i + 1;
    while (takes(at, ' ')) {
        start = *at;
        struct unit *u = read_unit(shard, at, &next);
        struct pd_given *g;
        if (!u) return wrong(text, start);
        PD_TRY(pd_shard_given_for(shard, u, (int)i, step, &g));
        if (g->n_parts || !read_parts(at, u, g, step)) return wrong(text, start);
        g->is_early = 1;
    }
    return PD_OK;
}

/* Trainers give all of it again, and take part in it. Its schedule has begun, which the snapshot knows. */
static pd_status read_begun(struct pd_shard *shard, const char *text)
{
    const char *at = text, *start = text;
    uint64_t step, next = 0;
    if (!read_number(&at, UINT64_MAX, &step) || shard->step == UINT64_MAX || step != shard->step + 1)
        return wrong(text, start);
    while (takes(&at, ' ')) {
        start = at;
        struct unit *u = read_unit(shard, &at, &next);
        if (!u || u->done_parts || !read_parts(&at, u, NULL, step)) return wrong(text, start);
    }
    if (*at) return wrong(text, at);
    shard->reopened = step;
    return PD_OK;
}

pd_status pd_shard_read_open(struct pd_shard *shard, const char *text)
{
    const char *at = text;
    uint64_t number = 0;
    if (!text || !*text) return PD_OK;
    if (shard->config.is_sync) return read_begun(shard, text);
    do
        PD_TRY(read_push(shard, text, &at, &number));
    while (takes(&at, ';'));
    return *at ? wrong(text, at) : PD_OK;
}

void pd_shard_open_steps(const char *text, int trainers, uint64_t *steps)
{
    while (text && *text) {
        uint64_t i, step;
        if (!read_number(&text, UINT64_MAX, &i) || !takes(&text, ' ') ||
            !read_number(&text, UINT64_MAX, &step))
            return;
        if (i < (uint64_t)trainers && step > steps[i]) steps[i] = step;
        text = strchr(text, ';');
        if (text) text++;
    }
}
