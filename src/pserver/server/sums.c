/* See sums.h. Here: the numbers, and who waits for them. */
#include "pserver/server/sums.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/line.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/wait.h"
#include "pserver/server/first_link.h"
#include "pserver/server/sums_private.h"
#include "pserver/store/durable.h"
#include "pserver/store/snapshot.h"

enum { GRACE_MS = 1000 };

/* ---- what there is ---- */

static void sum_free(struct sum *s)
{
    pd_free(s->values);
    pd_free(s->has);
    pd_free(s->askers);
    pd_free(s->totals);
    pd_free(s);
}

/* A server calls by its place in the job's list, whoever it calls. */
static pd_status set_adders(struct pd_sums *sums, const struct pd_attr *endpoints, int n_servers,
                            const char *const *servers)
{
    sums->adders = pd_calloc((size_t)endpoints->n, sizeof *sums->adders);
    if (!sums->adders) return pd_no_memory();
    sums->n_adders = endpoints->n;
    sums->self = pd_snapshot_place(endpoints->n, endpoints->strings, sums->server->config.endpoint);
    for (int i = 0; i < endpoints->n; i++) {
        struct adder *a = &sums->adders[i];
        *a = (struct adder){pd_strdup(endpoints->strings[i]),
                            pd_snapshot_place(n_servers, servers, endpoints->strings[i])};
        if (!a->name) return pd_no_memory();
        if (a->place < 0)
            return pd_fail(PD_INVALID, "ps_sum names server %s, which the job's list does not have", a->name);
    }
    return PD_OK;
}

static int is_same_list(const struct pd_sums *sums, const struct pd_attr *endpoints)
{
    int same = endpoints->n == sums->n_adders;
    for (int i = 0; same && i < endpoints->n; i++)
        same = strcmp(endpoints->strings[i], sums->adders[i].name) == 0;
    return same;
}

static pd_status add_sum(struct pd_sums *sums, const struct pd_opdesc *op, int n_servers,
                         const char *const *servers)
{
    const struct pd_attr *groups = pd_opdesc_attr(op, "groups"), *endpoints = pd_opdesc_attr(op, "endpoints");
    const struct pd_io *x = pd_opdesc_slot(op, 0, "X");
    if (!groups || !groups->n || !endpoints || endpoints->n < 2 || !x || x->args.n > PD_SUMS_MAX)
        return PD_OK;
    if (!sums->n_adders) PD_TRY(set_adders(sums, endpoints, n_servers, servers));
    if (!is_same_list(sums, endpoints) || sums->self < 0)
        return pd_fail(
            PD_INVALID,
            "ps_sum of '%s' names %d servers; this one, %s, must be among them, and all sums have the same",
            groups->strings[0], endpoints->n, sums->server->config.endpoint);
    struct sum *s = pd_calloc(1, sizeof *s);
    if (!s) return pd_no_memory();
    size_t adders = (size_t)sums->n_adders, n = (size_t)x->args.n;
    *s = (struct sum){.number = sums->sums.n, .group = groups->strings[0], .n = x->args.n};
    s->values = pd_calloc(n * adders, sizeof *s->values);
    s->totals = pd_calloc(n, sizeof *s->totals);
    s->has = pd_calloc(adders, 1);
    s->askers = pd_calloc(adders, sizeof *s->askers);
    if (s->values && s->totals && s->has && s->askers && pd_vec_push(&sums->sums, s)) return PD_OK;
    sum_free(s);
    return pd_no_memory();
}

/* All sums there can be: others cannot make it keep more. */
static pd_status find_all(struct pd_sums *sums, int n_servers, const char *const *servers)
{
    const struct pd_program *program = sums->server->engine.program;
    for (int i = 0; i < program->blocks.n; i++) {
        const struct pd_block *block = program->blocks.at[i];
        for (int k = 0; k < block->ops.n; k++)
            if (strcmp(block->ops.at[k]->type, "ps_sum") == 0)
                PD_TRY(add_sum(sums, block->ops.at[k], n_servers, servers));
    }
    return PD_OK;
}

struct sum *pd_sums_find(const struct pd_sums *sums, const char *group)
{
    for (int i = 0; i < sums->sums.n; i++)
        if (strcmp(sums->sums.at[i]->group, group) == 0) return sums->sums.at[i];
    return NULL;
}

/* ---- adding ---- */

void pd_sums_begin(const struct pd_sums *sums, struct sum *s, uint64_t step)
{
    s->step = step;
    s->given = 0;
    memset(s->has, 0, (size_t)sums->n_adders);
}

/* What is known stays as it is: others may know it already. */
void pd_sums_know(struct pd_sums *sums, struct sum *s, const double *totals)
{
    if (s->totals_step == s->step) return;
    memcpy(s->totals, totals, (size_t)s->n * sizeof *totals);
    s->totals_step = s->step;
    pthread_cond_broadcast(&sums->changed);
}

void pd_sums_give(struct pd_sums *sums, struct sum *s, int adder, const double *values)
{
    if (s->totals_step == s->step) return;
    memcpy(s->values + (size_t)adder * (size_t)s->n, values, (size_t)s->n * sizeof *values);
    if (!s->has[adder]) s->given++;
    s->has[adder] = 1;
    if (s->given < sums->n_adders) return;
    double totals[PD_SUMS_MAX];
    for (int i = 0; i < s->n; i++) {
        totals[i] = 0;
        for (int k = 0; k < sums->n_adders; k++)
            totals[i] += s->values[(size_t)k * (size_t)s->n + (size_t)i];
    }
    pd_sums_know(sums, s, totals);
}

static void list_late(const struct pd_sums *sums, const struct sum *s, char *out, size_t cap)
{
    struct pd_line line = pd_line_in(out, cap);
    if (sums->self) {
        char why[512];
        pd_line_printf(&line, "server %s, which adds", sums->adders[0].name);
        if (pd_first_link_trouble(sums->server->adds, why, sizeof why)) pd_line_printf(&line, " (%s)", why);
        return;
    }
    for (int i = 0; i < sums->n_adders; i++)
        if (!s->has[i]) pd_line_printf(&line, "%sserver %s", line.n ? ", " : "", sums->adders[i].name);
}

/* On the thread of the lane that applies the step: its trainers wait for others than this server. */
static void tell_trainers(struct pd_server *server, const char *text)
{
    struct lane *lane = &server->lanes[server->applying_lane];
    for (int i = lane->sessions.n - 1; i >= 0; i--) {
        struct session *session = lane->sessions.at[i];
        if (!pd_session_waits(session)) continue;
        pd_session_notice(session, text);
        pd_conn_flush(pd_session_conn(session)); /* this callback goes on */
    }
}

/* On the same thread, which hears nothing meanwhile: have all trainers that wait for the step hung up? */
static int are_all_gone(const struct pd_server *server)
{
    const struct lane *lane = &server->lanes[server->applying_lane];
    for (int i = 0; i < lane->sessions.n; i++)
        if (pd_session_waits(lane->sessions.at[i]) &&
            !pd_conn_is_hung_up(pd_session_conn(lane->sessions.at[i])))
            return 0;
    return 1;
}

/* Under the lock. */
static pd_status wait_for(struct pd_sums *sums, const struct sum *s, uint64_t step)
{
    const struct pd_server_config *config = &sums->server->config;
    /* A server that waits for a trainer has the same deadline, and names it: that is to be heard first. */
    struct pd_patience patience =
        pd_patience_start(config->notice_ms, (int64_t)config->deadline_ms + GRACE_MS);
    char late[700], text[900];
    int64_t gone_since = 0;
    while (s->totals_step != step) {
        pd_cond_wait_ms(&sums->changed, &sums->lock, 100);
        if (s->totals_step == step) break;
        if (pd_server_is_ending(sums->server)) return pd_fail(PD_INTERRUPTED, "the server is ending");
        if (config->on_loss != PD_LOSS_FAIL || !are_all_gone(sums->server))
            gone_since = 0;
        else if (!gone_since)
            gone_since = pd_clock_ns();
        if (gone_since && (pd_clock_ns() - gone_since) / 1000000 >= config->reconnect_ms) {
            list_late(sums, s, late, sizeof late);
            return pd_fail(PD_UNAVAILABLE,
                           "step %llu waits for the norms of %s, and all trainers have gone meanwhile: the "
                           "job ends; what they say tells why",
                           (unsigned long long)step, late);
        }
        enum pd_patience_now now = pd_patience_ask(&patience);
        if (now == PD_WAIT_ON) continue;
        list_late(sums, s, late, sizeof late);
        if (now == PD_WAIT_GIVE_UP)
            return pd_fail(PD_UNAVAILABLE,
                           "step %llu waited %lld s for the norms of %s: given up (FLAGS_rpc_deadline)",
                           (unsigned long long)step, pd_patience_seconds(&patience), late);
        snprintf(text, sizeof text, "step %llu has waited %lld s for the norms of %s",
                 (unsigned long long)step, pd_patience_seconds(&patience), late);
        pd_log(PD_LOG_WARNING, "%s", text);
        tell_trainers(sums->server, text);
    }
    return PD_OK;
}

pd_status pd_sums_add(struct pd_sums *sums, const char *group, uint64_t step, int n, double *values)
{
    pd_status status = PD_OK;
    pthread_mutex_lock(&sums->lock);
    struct sum *s = pd_sums_find(sums, group);
    if (!s || s->n != n)
        status = pd_fail(PD_INTERNAL, "ps_sum of '%s' is not what the Program had at the start", group);
    else if (s->totals_step != step && !sums->loop)
        status = pd_fail(PD_FORMAT,
                         "the log has step %llu, but not the norms that it was clipped by: it was written by "
                         "another version. FLAGS_ps_fresh=1 starts anew",
                         (unsigned long long)step);
    if (status == PD_OK) {
        if (s->step != step) pd_sums_begin(sums, s, step);
        pd_sums_give(sums, s, sums->self, values);
        s->is_sent = 0;
        if (sums->loop) (void)pd_loop_post(sums->loop, sums->self ? pd_sums_send : pd_sums_answer, sums);
        status = wait_for(sums, s, step);
    }
    if (status == PD_OK) memcpy(values, s->totals, (size_t)n * sizeof *values);
    pthread_mutex_unlock(&sums->lock);
    if (status != PD_OK || !sums->server->durable) return status;
    struct pd_change change = {
        .kind = PD_CHANGE_SUMS, .trainer = -1, .step = step, .unit = (uint32_t)s->number};
    return pd_durable_log(sums->server->durable, sums->server->applying_lane, &change,
                          &(struct pd_span){values, (size_t)n * sizeof *values}, 1);
}

/* ---- keeping ---- */

pd_status pd_sums_recall(struct pd_sums *sums, uint32_t number, uint64_t step, const void *totals,
                         size_t bytes)
{
    struct sum *s = sums && number < (uint32_t)sums->sums.n ? sums->sums.at[number] : NULL;
    if (!s || bytes != (size_t)s->n * sizeof *s->totals)
        return pd_fail(
            PD_FORMAT,
            "the log has %zu numbers for sum %u, which this server does not add: is it another job's?",
            bytes / sizeof(double), number);
    memcpy(s->totals, totals, bytes);
    s->totals_step = step;
    pd_sums_begin(sums, s, step);
    return PD_OK;
}

/* "number step value value ...;" for each. */
void pd_sums_write(struct pd_sums *sums, struct pd_buf *text)
{
    PD_HOLD(&sums->lock);
    for (int i = 0; i < sums->sums.n; i++) {
        const struct sum *s = sums->sums.at[i];
        if (!s->totals_step) continue;
        pd_buf_printf(text, "%d %llu", i, (unsigned long long)s->totals_step);
        for (int k = 0; k < s->n; k++)
            pd_buf_printf(text, " %a", s->totals[k]);
        pd_buf_printf(text, ";");
    }
}

void pd_sums_read(struct pd_sums *sums, const char *text)
{
    double totals[PD_SUMS_MAX];
    while (sums && text && *text) {
        char *end;
        long number = strtol(text, &end, 10);
        unsigned long long step = strtoull(end, &end, 10);
        int n = 0;
        while (*end == ' ' && n < PD_SUMS_MAX)
            totals[n++] = strtod(end, &end);
        if (*end != ';' || number < 0 ||
            pd_sums_recall(sums, (uint32_t)number, step, totals, (size_t)n * sizeof *totals) != PD_OK)
            return;
        text = end + 1;
    }
}

/* ---- life ---- */

pd_status pd_sums_new(struct pd_server *server, int n_servers, const char *const *servers,
                      struct pd_sums **out)
{
    *out = NULL;
    struct pd_sums *sums = pd_calloc(1, sizeof *sums);
    if (!sums) return pd_no_memory();
    pd_cond_init(&sums->changed);
    pthread_mutex_init(&sums->lock, NULL);
    sums->server = server;
    pd_status status = find_all(sums, n_servers, servers);
    if (status == PD_OK && sums->sums.n)
        *out = sums;
    else
        pd_sums_free(sums);
    return status;
}

void pd_sums_start(struct pd_sums *sums, struct pd_loop *control)
{
    sums->loop = control;
}

const char *pd_sums_first(const struct pd_sums *sums, int *self, int *place)
{
    *self = sums->adders[sums->self].place;
    *place = sums->adders[0].place;
    return sums->self ? sums->adders[0].name : NULL;
}

void pd_sums_free(struct pd_sums *sums)
{
    if (!sums) return;
    for (int i = 0; i < sums->sums.n; i++)
        sum_free(sums->sums.at[i]);
    pd_vec_free(&sums->sums);
    for (int i = 0; i < sums->n_adders; i++)
        pd_free(sums->adders[i].name);
    pd_free(sums->adders);
    pthread_mutex_destroy(&sums->lock);
    pthread_cond_destroy(&sums->changed);
    pd_free(sums);
}
