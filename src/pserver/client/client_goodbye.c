/* How a trainer leaves its job: servers hear that it is done, or failed and why. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/wait.h"
#include "net/wire.h"
#include "pserver/client/client_private.h"
#include "pserver/proto.h"

enum {
    BYE_MS = 1000,       /* for a server to answer a goodbye */
    BYE_AGAIN_MS = 5000, /* the same, when connections break under it */
    /* The same two for one that failed: Ctrl-C works within a second. */
    BYE_FAILED_MS = 500,
    BYE_FAILED_AGAIN_MS = 900,
    BYE_RETRIES = 2,
    BYE_TURNS = 100,
};

/* One loop that has heard it tells the server's book, so the others need not be waited for. */
static int is_heard(const struct link *link)
{
    for (int k = 0; k < link->wires.n; k++)
        if (link->wires.at[k]->state == WIRE_QUIT) return 1;
    return 0;
}

/* Nobody is there to hear it: the server has ended the job, or is to be started again. */
static int is_gone(const struct wire *w)
{
    return !w->conn && w->retries > BYE_RETRIES;
}

/* The same; it may be on the way to a machine that does not answer. Or it is there, and silent. */
static int is_down(const struct wire *w, int64_t now)
{
    int is_open = w->state == WIRE_OPEN;
    int64_t since = is_open ? w->bye_at : w->broke_at;
    return (!is_open && w->retries > BYE_RETRIES) || now - since > (int64_t)BYE_MS / 2 * 1000000;
}

/* What was wrong often stands at the end of an error (the last line of a Traceback) as well as at its
 * beginning: one that is too long loses its middle. */
static const char *without_middle(const char *why, char out[PD_PS_WHY_MOST + 1])
{
    static const char gap[] = " ... ";
    size_t n = strlen(why), head = PD_PS_WHY_MOST / 2, tail;
    if (n <= PD_PS_WHY_MOST) return why;
    tail = n - (PD_PS_WHY_MOST - head - strlen(gap));
    while (head && ((unsigned char)why[head] & 0xc0) == 0x80) /* no half characters */
        head--;
    while (((unsigned char)why[tail] & 0xc0) == 0x80)
        tail++;
    snprintf(out, PD_PS_WHY_MOST + 1, "%.*s%s%s", (int)head, why, gap, why + tail);
    return out;
}

/* Says goodbye on every connection that has not heard it; one that broke is made again for it. Returns how
 * many have not answered yet; those of servers that are down, or silent, and do not know yet are counted in
 * *down. */
static int say_goodbye(struct pd_client *c, int failed, const char *why, int64_t now, int *down)
{
    int left = 0;
    char short_why[PD_PS_WHY_MOST + 1];
    *down = 0;
    why = without_middle(why, short_why);
    PD_EACH_WIRE(c, w) {
        if (!w->was_opened || w->state == WIRE_QUIT) continue;
        int must_hear = !failed && !is_heard(w->link) && !w->link->group->is_passed_on,
            has_said = w->bye.number != 0;
        if (is_gone(w) && !must_hear) continue;
        left++;
        if (w->state == WIRE_OPEN && !has_said) w->bye_at = now;
        *down += must_hear && is_down(w, now);
        if (w->state != WIRE_OPEN || has_said) continue;
        struct pd_buf meta = {0};
        pd_put_u8(&meta, (uint8_t)failed);
        pd_put_line(&meta, why, PD_PS_WHY_MOST);
        struct pd_frame_head head = {.type = PD_PS_BYE, .request = pd_wire_number(w, &w->bye)};
        pd_conn_say(w->conn, &head, &meta);
    }
    return left;
}

/* A server that is down and comes back would wait for this trainer, also when the goodbye was on its way: it
 * is waited for as in a step. Returns whether to go on. */
static int wait_for_servers(struct pd_client *c, struct pd_patience *patience)
{
    char who[900];
    enum pd_patience_now now = pd_patience_ask(patience);
    if (now == PD_WAIT_ON) return 1;
    pd_client_describe(c, who, sizeof who);
    if (now == PD_WAIT_GIVE_UP)
        pd_log(PD_LOG_WARNING,
               "this trainer is done, but could not say so within %lld s (%s): a server that is started "
               "again will miss it",
               pd_patience_seconds(patience), who);
    else
        pd_log(PD_LOG_WARNING, "this trainer is done; saying goodbye to the servers has waited %lld s: %s",
               pd_patience_seconds(patience), who);
    return now != PD_WAIT_GIVE_UP;
}

void pd_client_depart(struct pd_client *c, int failed, const char *why, int (*poll)(void *arg), void *arg)
{
    c->is_leaving = 1;
    pd_client_note_halfway(c, "its process ended while it was in that step");
    PD_EACH_WIRE(c, w) {
        pd_push_clear(w);
        pd_wire_forget_asks(w);
        w->push.end.number = w->pass.number = w->passes = 0;
        if (w->state == WIRE_DOWN) pd_wire_forget_names(w);
        w->retries = 0;
        w->link->group->is_passed_on = 0;
    }
    /* What has happened since the last step? Servers may have gone. */
    for (int i = 0; i < BYE_TURNS && pd_loop_turn(c->loop, 0) > 0; i++)
        ;
    /* Refused by one server, it is in the way of the others, also when the user caught that. */
    if (!failed && c->failed) why = c->failure_text;
    failed |= c->failed;
    if (!failed && c->halfway[0]) {
        pd_log(PD_LOG_WARNING, "this trainer says goodbye in the middle of a step: %s", c->halfway);
        failed = PD_PS_HALFWAY;
        why = c->halfway;
    }
    struct pd_patience patience = pd_patience_start(c->settings.notice_ms, c->settings.deadline_ms);
    int64_t now = pd_clock_ns(), until = now + (int64_t)(failed ? BYE_FAILED_MS : BYE_MS) * 1000000,
            last = now + (int64_t)(failed ? BYE_FAILED_AGAIN_MS : BYE_AGAIN_MS) * 1000000;
    int down;
    while (say_goodbye(c, failed, why, now, &down) && now < until) {
        pd_client_tend(c, now);
        pd_loop_turn(c->loop, PD_CLIENT_TURN_MS);
        now = pd_clock_ns();
        if (poll && poll(arg)) break;
        if (down && !wait_for_servers(c, &patience)) break;
        /* Who is on the way to a server again has more time than who waits for a silent one. */
        PD_EACH_WIRE(c, w)
            if (w->was_opened && w->state != WIRE_QUIT && !w->bye.number)
                until = now + (int64_t)BYE_MS * 1000000;
        if (down) last = until = now + (int64_t)BYE_AGAIN_MS * 1000000;
        if (until > last) until = last;
    }
}
