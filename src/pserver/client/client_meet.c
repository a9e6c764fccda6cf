/* A trainer gives some bytes under a name, and gets those of all trainers of its job, or waits at a barrier
 * until all are there (server/meet.h). The first server of the job gathers; the others are connected to as
 * well, for a trainer is in the job of all of them or of none.
 *
 * In a sync job the others may still train, and wait in a step for this one: it passes such steps while it is
 * here. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "exec/theirs.h"
#include "net/wire.h"
#include "pserver/client/client_private.h"
#include "pserver/proto.h"

static struct gathering *find(struct link *link, const char *name)
{
    for (int i = 0; i < link->gatherings.n; i++)
        if (strcmp(link->gatherings.at[i]->name, name) == 0) return link->gatherings.at[i];
    struct gathering *g = pd_calloc(1, sizeof *g);
    if (!g) return NULL;
    snprintf(g->name, sizeof g->name, "%s", name);
    if (pd_vec_push(&link->gatherings, g)) return g;
    pd_free(g);
    return NULL;
}

void pd_gatherings_free(struct link *link)
{
    for (int i = 0; i < link->gatherings.n; i++)
        pd_free(link->gatherings.at[i]);
    pd_vec_free(&link->gatherings);
}

void pd_gathering_send(struct wire *w, struct request *q)
{
    const struct gathering *g = q->gathering;
    struct pd_buf meta = {0};
    struct pd_span span = {(void *)g->bytes, g->n};
    struct pd_frame_head head = {.type = PD_PS_MEET,
                                 .flags = g->out ? 0 : PD_PS_BARRIER,
                                 .step = w->step,
                                 .request = pd_wire_number(w, q)};
    pd_put_text(&meta, g->name);
    pd_put_u64(&meta, g->round);
    pd_conn_give(w->conn, &head, &meta, &span, g->n > 0);
}

/* The table, as the server says it, and the bytes that it speaks of. */
pd_status pd_gathering_answered(struct gathering *g, const struct pd_message *m)
{
    struct pd_reader r = pd_reader_of(m->meta, m->head.meta);
    uint64_t total = 0;
    uint32_t n = g->out ? pd_read_u32(&r) : 0;
    for (uint32_t i = 0, last = 0; i < n && !r.bad; i++) {
        uint32_t trainer = pd_read_u32(&r);
        uint64_t bytes = pd_read_u64(&r);
        if (bytes > PD_PS_MEET_MOST || (i && trainer <= last)) r.bad = 1;
        last = trainer;
        total += bytes;
    }
    if (!pd_reader_done(&r) || total != m->head.payload) return pd_fail(PD_FORMAT, "malformed MET");
    if (g->out) {
        pd_buf_add(g->out, m->meta, m->head.meta);
        if (total) pd_buf_add(g->out, m->payload, (size_t)total);
    }
    g->round = m->head.step + 1;
    return PD_OK;
}

static pd_status begin(struct pd_client *c, struct pd_ask *ask, const struct pd_gather *what,
                       struct gathering **out, struct wire **wire)
{
    PD_CLIENT_HOLD(c);
    struct link *link;
    *out = NULL;
    PD_TRY(pd_client_find(c, what->servers[0], &link));
    struct gathering *g = find(link, what->name);
    if (!g) return pd_no_memory();
    if (g->is_asked)
        return pd_fail(PD_INVALID,
                       "'%s' is asked for by another thread of this process: which of the two comes first? "
                       "Give each a name of its own",
                       what->name);
    PD_TRY(pd_ask_gathering(c, ask, link->wires.at[0], g));
    g->is_asked = 1;
    g->bytes = what->bytes;
    g->n = what->n;
    g->out = what->out;
    *out = g;
    *wire = link->wires.at[0];
    return PD_OK;
}

static void end(struct pd_client *c, struct gathering *g, pd_status status)
{
    PD_CLIENT_HOLD(c);
    g->is_asked = 0;
    if (status == PD_GONE) g->round = 0; /* it takes part in the one that is open */
}

static pd_status check(const struct pd_gather *what)
{
    size_t length = strlen(what->name);
    if (!length || length > PD_PS_MEET_NAME)
        return pd_fail(PD_INVALID,
                       "trainers meet under the name '%.100s', of %zu bytes: it must have 1 to %d",
                       what->name, length, PD_PS_MEET_NAME);
    if (what->n > PD_PS_MEET_MOST)
        return pd_fail(PD_RANGE,
                       "this trainer gives %zu bytes to '%s'; %d is the most: give less, or in several calls",
                       what->n, what->name, PD_PS_MEET_MOST);
    if (what->n_servers < 1)
        return pd_fail(PD_INVALID, "trainers meet at the servers of their job, and none is named");
    if (what->trainer >= what->trainers)
        return pd_fail(PD_RANGE, "trainer %d of %d: ids go from 0 to %d", what->trainer, what->trainers,
                       what->trainers - 1);
    return PD_OK;
}

/* ---- waiting ---- */

/* Who trains in another thread begins a step within this time, or is at one. */
enum { QUIET_MS = 100 };

struct waiter {
    struct pd_client *client;
    const struct pd_run *run;
    const struct pd_gather *what;
    const struct pd_ask *ask;
    struct wire *wire;
    uint64_t calls; /* AWAITEDs that were looked at */
    uint64_t begun; /* steps of this process, when that was looked at last, */
    int64_t since;  /* and since when there were so many */
    int quiet_ms;   /* for so long no step began: none will */
    int is_aside;
};

static int is_called(void *arg)
{
    const struct waiter *waiter = arg;
    return !waiter->ask->left || waiter->wire->calls != waiter->calls;
}

/* Does another thread of this process train? Who has seen one begin a step is more patient. */
static int is_training(struct waiter *waiter)
{
    int64_t now = pd_clock_ns();
    uint64_t begun = pd_theirs_begun();
    if (pd_theirs_under_way() || begun != waiter->begun) {
        waiter->begun = begun;
        waiter->since = now;
        waiter->quiet_ms = waiter->client->settings.notice_ms;
    }
    return (now - waiter->since) / 1000000 < waiter->quiet_ms;
}

/* Others wait in a step for this trainer, which is here and has no batch for them: they go on without it. */
static pd_status stand_aside(struct waiter *waiter)
{
    const struct pd_gather *what = waiter->what;
    struct wire *w = waiter->wire;
    if (w->awaited < w->step || is_training(waiter) || !pd_client_try_turn(waiter->run)) return PD_OK;
    if (!waiter->is_aside)
        pd_log(
            PD_LOG_INFO,
            "the others train on: trainer %d waits for them in '%s' and gives nothing to their steps, from "
            "step %llu on",
            what->trainer, what->name, (unsigned long long)w->awaited);
    waiter->is_aside = 1;
    pd_status status =
        pd_push_stand_aside(waiter->client, w->link, waiter->run, w->awaited, what->n_servers, what->servers);
    pd_client_pass_turn(waiter->run);
    return status;
}

/* Each call is a sign that the others are alive: the deadline begins again. */
static pd_status wait_for_all(struct pd_client *c, const struct pd_run *run, const struct pd_gather *what,
                              struct pd_ask *ask, struct wire *w)
{
    PD_CLIENT_HOLD(c);
    char text[160];
    struct waiter waiter = {.client = c,
                            .run = run,
                            .what = what,
                            .ask = ask,
                            .wire = w,
                            .calls = w->calls,
                            .begun = pd_theirs_begun(),
                            .since = pd_clock_ns(),
                            .quiet_ms = QUIET_MS};
    snprintf(text, sizeof text, "%s '%s'", what->out ? "the gathering" : "the barrier", what->name);
    pd_status status = pd_ask_send(ask);
    while (status == PD_OK && ask->left) {
        status = pd_client_wait_until(c, run, is_called, &waiter, text);
        waiter.calls = w->calls;
        if (status == PD_OK && ask->left) status = stand_aside(&waiter);
    }
    return pd_ask_over(ask, status);
}

pd_status pd_client_gather(struct pd_client *c, const struct pd_run *run, const struct pd_gather *what)
{
    struct gathering *g;
    struct wire *w;
    PD_ASK(ask);
    PD_TRY(check(what));
    PD_TRY(pd_client_expect(c, what->trainers, what->n_servers, what->servers));
    PD_TRY(pd_client_reach(c, run, what->n_servers, what->servers));
    PD_TRY(begin(c, &ask, what, &g, &w));
    pd_status status = wait_for_all(c, run, what, &ask, w);
    end(c, g, status);
    return status;
}
