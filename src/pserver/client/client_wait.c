/* How a trainer waits for its servers: not in silence, not for ever, and so that all know for whom. */
#include <stdio.h>
#include <string.h>

#include "base/line.h"
#include "base/log.h"
#include "base/wait.h"
#include "base/waited.h"
#include "net/wire.h"
#include "pserver/client/client_private.h"
#include "pserver/proto.h"

enum { GRACE_MS = 2000 }; /* past the deadline: a server that is there knows better whom the step waits for */

int pd_wire_is_waited_for(const struct wire *w)
{
    if (w->state == WIRE_QUIT) return 0;
    return w->state != WIRE_OPEN || w->requests.n || w->push.end.number || w->pass.number || w->bye.number ||
           w->names_answered < w->names_opened;
}

/* A server that waits says so again and again: what it said long ago is not what it waits for now. */
static const char *state_of(const struct wire *w, char *text, size_t cap)
{
    int64_t silent = (pd_clock_ns() - w->said_at) / 1000000;
    if (w->said[0] && silent < PD_PS_FRESH * (int64_t)w->link->client->settings.notice_ms) return w->said;
    if (w->said[0]) {
        snprintf(text, cap, "no word for %lld s; the last one was: %s", (long long)(silent / 1000), w->said);
        return text;
    }
    if (w->state == WIRE_OPEN) return "no answer yet";
    if (w->state == WIRE_WELCOME) return "connected, but not let in yet";
    return w->trouble[0] ? w->trouble : "no connection yet";
}

void pd_client_describe(const struct pd_client *c, char *out, size_t cap)
{
    struct pd_line line = pd_line_in(out, cap);
    char text[640];
    PD_EACH_WIRE(c, w) {
        if (!pd_wire_is_waited_for(w)) continue;
        const char *to = w->link->endpoint, *state = state_of(w, text, sizeof text);
        int is_named = state != text && strstr(state, to);
        pd_line_printf(&line, "%s%s%s%s", line.n ? "; " : "", is_named ? "" : to, is_named ? "" : ": ",
                       state);
    }
}

/* Servers that have answered wait for this trainer in the next step, and would blame it: they are told whom
 * it waits for itself. */
static void explain(struct pd_client *c, int64_t now)
{
    char who[PD_PS_WHOM_MOST + 1];
    if ((now - c->explained) / 1000000 < c->settings.notice_ms) return;
    c->explained = now;
    pd_client_describe(c, who, sizeof who);
    PD_EACH_WIRE(c, w) {
        struct pd_frame_head head = {.type = PD_PS_BEAT};
        struct pd_buf meta = {0};
        if (!who[0] || w->state == WIRE_QUIT || pd_wire_is_waited_for(w)) continue;
        pd_put_line(&meta, who, PD_PS_WHOM_MOST);
        pd_conn_say(w->conn, &head, &meta);
    }
}

/* FLAGS_rpc_retry_times: how often a connection may break under one wait. */
static pd_status check_breaks(const struct pd_client *c, const char *what)
{
    int most = c->settings.retry_times;
    PD_EACH_WIRE(c, w)
        if (most >= 0 && w->breaks > most)
            return pd_fail(PD_UNAVAILABLE,
                           "%s: the connection to server %s broke (%s), for the %d. time: "
                           "FLAGS_rpc_retry_times is %d; -1 tries again until FLAGS_rpc_deadline",
                           what, w->link->endpoint, w->trouble, w->breaks, most);
    return PD_OK;
}

/* Has each server that is not there told why, or the connection to it? */
static int all_told_why(const struct pd_client *c)
{
    PD_EACH_WIRE(c, w)
        if (w->state == WIRE_DOWN && !w->trouble[0]) return 0;
    return 1;
}

static int all_are_there(const struct pd_client *c)
{
    PD_EACH_WIRE(c, w)
        if (w->state == WIRE_DOWN) return 0;
    return 1;
}

/* Past the deadline, but all that is waited for are answers of servers that are there: those have the same
 * deadline, and say whom they waited for when they give up. */
static int has_grace(const struct pd_client *c, const struct pd_patience *patience)
{
    return all_are_there(c) && (pd_clock_ns() - patience->start) / 1000000 < patience->deadline_ms + GRACE_MS;
}

/* One that does not wait beside others counts afresh. */
static void begin(struct pd_client *c, int64_t now)
{
    if (atomic_fetch_add(&c->in_wait, 1)) return;
    c->explained = now;
    PD_EACH_WIRE(c, w)
        w->breaks = 0;
}

/* Between two turns others have the client: threads that ask for something, and what the user's own handlers
 * of signals run. */
static pd_status let_others(struct pd_client *c, const struct pd_run *run, const char *what)
{
    pd_client_yield(c);
    pd_status status = run ? run->step->poll(run) : PD_OK;
    if (status == PD_OK && run && pd_client_breaks_off())
        status =
            pd_fail(PD_UNAVAILABLE, "%s: broken off, as another thread has failed and leaves the job", what);
    pd_client_resume(c);
    return status;
}

pd_status pd_client_tell_waits(const struct pd_patience *patience, enum pd_patience_now now, const char *what,
                               const char *why, int is_found)
{
    if (now == PD_WAIT_GIVE_UP)
        return pd_fail(PD_UNAVAILABLE,
                       "%s: not done after %lld s (%s). %sFLAGS_rpc_deadline sets how long to wait", what,
                       pd_patience_seconds(patience), why,
                       is_found ? "" : "Is the server running at that address? ");
    if (now == PD_WAIT_TELL)
        pd_log(PD_LOG_WARNING, "%s has waited %lld s: %s", what, pd_patience_seconds(patience), why);
    return PD_OK;
}

/* Tells for whom it waits, now and then, and gives up at the deadline. */
static pd_status be_patient(struct pd_client *c, struct pd_patience *patience, const char *what)
{
    char who[900];
    if (c->noticed > patience->told) patience->told = c->noticed; /* a server has told it already */
    enum pd_patience_now now = pd_patience_ask(patience);
    if (now == PD_WAIT_ON || (now == PD_WAIT_GIVE_UP && has_grace(c, patience))) return PD_OK;
    pd_client_describe(c, who, sizeof who);
    return pd_client_tell_waits(patience, now, what, who, all_told_why(c));
}

pd_status pd_client_wait_until(struct pd_client *c, const struct pd_run *run, int (*done)(void *arg),
                               void *arg, const char *what)
{
    pd_status status = PD_OK;
    if (done(arg) && !c->failed) return PD_OK;
    struct pd_patience patience = pd_patience_start(c->settings.notice_ms, c->settings.deadline_ms);
    int64_t begun = patience.start; /* which moves on while this process is stopped */
    begin(c, begun);
    while (status == PD_OK && !c->failed && !done(arg)) {
        status = check_breaks(c, what);
        if (status != PD_OK) break;
        pd_client_tend(c, pd_clock_ns());
        pd_client_turn_loop(c);
        if (c->failed || done(arg)) break;
        status = let_others(c, run, what);
        if (status != PD_OK || c->failed || done(arg)) break;
        explain(c, pd_clock_ns());
        status = be_patient(c, &patience, what);
    }
    atomic_fetch_sub(&c->in_wait, 1);
    pd_waited_since(begun);
    if (status != PD_OK || !c->failed) return status;
    (void)pd_fail(c->failure, "%s", c->failure_text);
    pd_error_set_part(PD_ERROR_ELSEWHERE);
    return c->failure;
}
