/* See meet.h. */
#include "pserver/server/meet.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/vec.h"
#include "net/wire.h"
#include "pserver/server/session_private.h"

enum {
    NAMES = 64,
    ROUND_BYTES = PD_PS_MEET_ALL, /* of one round */
    HELD = 256 << 20,             /* bytes that are held at most, of all names */
    UNSENT = 256 << 20,           /* bytes of answers unsent when it asks */
};

/* What a trainer gave to the open round. */
struct seat {
    int has_given;
    uint64_t incarnation;
    uint64_t asks_for;       /* the round, 0: the open one */
    struct session *session; /* NULL: its connection has ended */
    uint64_t request;
    void *bytes;
    size_t n;
};

/* The answer of a round: kept, and being sent to several. */
struct answer {
    int users;
    uint64_t round;
    int is_barrier;
    uint64_t *incarnations; /* by trainer; 0: it gave nothing */
    struct pd_buf table;    /* u32 n, n times {u32 trainer, u64 bytes} */
    char *bytes;
    size_t n;
};

struct name {
    char text[PD_PS_MEET_NAME + 1];
    struct seat *seats; /* by trainer */
    int given;          /* how many of them have given */
    int is_barrier;     /* what they give to */
    size_t bytes;
    uint64_t past; /* this round and those before are over */
    int has_met;   /* one of them here: nobody knows rounds better */
    struct answer *last;
    int64_t since, noticed; /* since when the open round waits, when that was last told */
};

struct pd_meet {
    struct lane *lane;
    PD_VEC(struct name *) names;
    size_t held;
    uint64_t called;       /* the step that all who are here were told of */
    uint64_t progress;     /* of the job, by its counts */
    int64_t moved, spread; /* when there was some, when those who are here were told so */
};

static int trainers_of(const struct pd_meet *meet)
{
    return meet->lane->server->config.trainers;
}

/* ---- answers ---- */

static void let_go(struct answer *a)
{
    if (!a || --a->users) return;
    pd_free(a->incarnations);
    pd_buf_free(&a->table);
    pd_free(a->bytes);
    pd_free(a);
}

static void was_sent(void *arg, pd_status status)
{
    (void)status;
    let_go(arg);
}

/* A trainer that cannot be answered asks again on another connection. */
static void send(struct session *session, uint64_t request, struct answer *a)
{
    struct pd_frame_head head = {.type = PD_PS_MET, .request = request, .step = a->round};
    struct pd_span span = {a->bytes, a->n};
    a->users++;
    if (pd_conn_send(session->conn, &head, a->table.at, a->table.n, &span, a->n > 0, was_sent, a) == PD_OK)
        return;
    let_go(a);
    pd_conn_close(session->conn, 0);
}

static void release(struct session *session, uint64_t request, uint64_t round)
{
    struct pd_frame_head head = {.type = PD_PS_MET, .request = request, .step = round};
    pd_conn_say(session->conn, &head, NULL);
}

/* It asks for a round that is over. Who is not in the answer that was kept has been lost meanwhile, or the
 * server was. */
static void answer_late(const struct name *name, struct session *session, uint64_t request, uint64_t round,
                        uint64_t incarnation, int is_barrier)
{
    struct answer *last = name->last;
    char text[400];
    int is_kept = last && last->round == round && last->incarnations[session->trainer] == incarnation;
    if (is_kept && last->is_barrier == is_barrier) {
        send(session, request, last);
    } else if (is_barrier) {
        release(session, request, round);
    } else {
        snprintf(text, sizeof text,
                 "what trainers gave to round %llu of '%s' is not here any more: this server was started "
                 "again, or went on without trainer %d, and others have had that answer. Start the job "
                 "again from what it saved; the next call takes part in the round that is open",
                 (unsigned long long)round, name->text, session->trainer);
        pd_session_deny(session, request, PD_GONE, text);
    }
}

/* ---- rounds ---- */

static void empty_seat(struct pd_meet *meet, struct name *name, struct seat *seat)
{
    if (!seat->has_given) return;
    name->given--;
    name->bytes -= seat->n;
    meet->held -= seat->n;
    pd_free(seat->bytes);
    *seat = (struct seat){0};
}

static struct answer *gather(const struct pd_meet *meet, const struct name *name, uint64_t round)
{
    int n = trainers_of(meet);
    struct answer *a = pd_calloc(1, sizeof *a);
    if (!a) return NULL;
    *a = (struct answer){.users = 1, .round = round, .is_barrier = name->is_barrier, .n = name->bytes};
    a->incarnations = pd_calloc((size_t)n, sizeof *a->incarnations);
    a->bytes = name->bytes ? pd_malloc(name->bytes) : NULL;
    if (!name->is_barrier) pd_put_u32(&a->table, (uint32_t)name->given);
    size_t at = 0;
    for (int t = 0; t < n && a->incarnations && (a->bytes || !a->n); t++) {
        const struct seat *seat = &name->seats[t];
        if (!seat->has_given) continue;
        a->incarnations[t] = seat->incarnation;
        if (name->is_barrier) continue;
        pd_put_u32(&a->table, (uint32_t)t);
        pd_put_u64(&a->table, seat->n);
        if (seat->n) memcpy(a->bytes + at, seat->bytes, seat->n);
        at += seat->n;
    }
    if (a->incarnations && (a->bytes || !a->n) && !a->table.failed) return a;
    let_go(a);
    return NULL;
}

/* The round is over without an answer. */
static void deny_all(struct pd_meet *meet, struct name *name, pd_status status, const char *text)
{
    for (int t = 0; t < trainers_of(meet); t++) {
        struct seat *seat = &name->seats[t];
        if (seat->session) pd_session_deny(seat->session, seat->request, status, text);
        empty_seat(meet, name, seat);
    }
}

static void meet_now(struct pd_meet *meet, struct name *name)
{
    struct answer *a = gather(meet, name, name->past + 1);
    if (!a) {
        deny_all(meet, name, PD_NO_MEMORY, "the server has no memory for what trainers gave");
        return;
    }
    if (name->last) meet->held -= name->last->n;
    let_go(name->last);
    name->last = a;
    meet->held += a->n;
    name->past = a->round;
    name->has_met = 1;
    for (int t = 0; t < trainers_of(meet); t++) {
        struct seat *seat = &name->seats[t];
        if (seat->session) send(seat->session, seat->request, a);
        empty_seat(meet, name, seat);
    }
}

static int is_expected(const struct pd_meet *meet, const struct name *name, int t)
{
    enum pd_trainer_state state = pd_shard_trainer(meet->lane->shard, t);
    return !name->seats[t].has_given && (state == PD_TRAINER_IN || state == PD_TRAINER_ABSENT);
}

static void meet_if_all_are_here(struct pd_meet *meet, struct name *name)
{
    int n = trainers_of(meet);
    if (!name->given) return;
    for (int t = 0; name->given < n && t < n; t++)
        if (is_expected(meet, name, t)) return;
    meet_now(meet, name);
}

/* Somebody asks for this round. Before one was over here, the rounds are those of the server that this one
 * was started in place of. */
static void learn_round(struct pd_meet *meet, struct name *name, uint64_t round)
{
    if (name->has_met || round <= name->past + 1) return;
    name->past = round - 1;
    for (int t = 0; t < trainers_of(meet); t++) {
        struct seat *seat = &name->seats[t];
        if (!seat->has_given || !seat->asks_for || seat->asks_for > name->past) continue;
        if (seat->session)
            answer_late(name, seat->session, seat->request, seat->asks_for, seat->incarnation,
                        name->is_barrier);
        empty_seat(meet, name, seat);
    }
}

/* ---- steps ---- */

static void call(const struct seat *seat, uint64_t step)
{
    struct pd_frame_head head = {.type = PD_PS_AWAITED, .step = step};
    if (seat->has_given && seat->session) pd_conn_say(seat->session->conn, &head, NULL);
}

static void call_seat(const struct pd_meet *meet, const struct seat *seat, int trainer)
{
    const struct pd_shard *shard = meet->lane->shard;
    if (pd_shard_is_awaited(shard, trainer)) call(seat, pd_shard_step(shard) + 1);
}

static void call_all(struct pd_meet *meet)
{
    meet->called = pd_shard_step(meet->lane->shard) + 1;
    for (int i = 0; i < meet->names.n; i++)
        for (int t = 0; meet->names.at[i]->given && t < trainers_of(meet); t++)
            call_seat(meet, &meet->names.at[i]->seats[t], t);
}

void pd_meet_step(struct pd_meet *meet)
{
    if (!meet || meet->called == pd_shard_step(meet->lane->shard) + 1) return;
    if (pd_shard_has_waiters(meet->lane->shard)) call_all(meet);
}

/* Who waits here hears that the others train on: it is not to give up. */
static void spread_progress(struct pd_meet *meet, int64_t now)
{
    const struct pd_server_config *config = &meet->lane->server->config;
    const struct pd_shard *shard = meet->lane->shard;
    uint64_t progress = pd_shard_step(shard) + pd_shard_changes(shard);
    int64_t every = config->notice_ms < config->deadline_ms / 4 ? config->notice_ms : config->deadline_ms / 4;
    if (progress == meet->progress) return;
    meet->progress = progress;
    meet->moved = now;
    if ((now - meet->spread) / 1000000 < every) return;
    meet->spread = now;
    for (int i = 0; i < meet->names.n; i++)
        for (int t = 0; meet->names.at[i]->given && t < trainers_of(meet); t++)
            call(&meet->names.at[i]->seats[t], 0);
}

/* ---- a trainer gives ---- */

struct gift {
    char name[PD_PS_MEET_NAME + 1];
    uint64_t round, incarnation;
    int is_barrier;
};

static pd_status read_gift(const struct session *session, const struct pd_message *m, struct gift *out)
{
    struct pd_reader r = pd_reader_of(m->meta, m->head.meta);
    *out = (struct gift){.incarnation = pd_conn_hello(session->conn)->incarnation,
                         .is_barrier = m->head.flags & PD_PS_BARRIER};
    pd_read_text(&r, out->name, sizeof out->name);
    out->round = pd_read_u64(&r);
    return pd_reader_done(&r) && out->name[0] && out->round <= INT64_MAX
               ? PD_OK
               : pd_fail(PD_FORMAT, "malformed MEET");
}

pd_status pd_meet_check(const struct pd_meet *meet, const struct session *session, const struct pd_message *m)
{
    struct gift gift;
    if (!meet) return pd_fail(PD_UNSUPPORTED, "trainers meet on the first loop of a server, not on another");
    PD_TRY(read_gift(session, m, &gift));
    if (m->head.payload > (gift.is_barrier ? 0 : PD_PS_MEET_MOST))
        return pd_fail(PD_RANGE, "a trainer gives %llu bytes to '%s'; %s",
                       (unsigned long long)m->head.payload, gift.name,
                       gift.is_barrier ? "a barrier has none" : "1 MiB is the most");
    if (pd_conn_queued(session->conn) > UNSENT)
        return pd_fail(PD_INVALID, "a trainer meets others while %zu bytes of answers were not read",
                       pd_conn_queued(session->conn));
    return PD_OK;
}

static struct name *find(const struct pd_meet *meet, const char *text)
{
    for (int i = 0; i < meet->names.n; i++)
        if (strcmp(meet->names.at[i]->text, text) == 0) return meet->names.at[i];
    return NULL;
}

static pd_status add(struct pd_meet *meet, const char *text, struct name **out)
{
    if (meet->names.n == NAMES)
        return pd_fail(PD_RANGE, "trainers meet under %d names already, and '%s' is one more", NAMES, text);
    struct name *name = pd_calloc(1, sizeof *name);
    if (!name) return pd_no_memory();
    snprintf(name->text, sizeof name->text, "%s", text);
    name->seats = pd_calloc((size_t)trainers_of(meet), sizeof *name->seats);
    if (!name->seats || !pd_vec_push(&meet->names, name)) {
        pd_free(name->seats);
        pd_free(name);
        return pd_no_memory();
    }
    *out = name;
    return PD_OK;
}

/* May the open round take it? What its trainer gave before makes room. */
static pd_status check_room(const struct pd_meet *meet, const struct name *name, const struct gift *gift,
                            size_t n)
{
    if (name->given && name->is_barrier != gift->is_barrier)
        return pd_fail(PD_INVALID, "'%s' is %s of others now, and %s of this trainer", name->text,
                       name->is_barrier ? "a barrier" : "a gathering",
                       gift->is_barrier ? "a barrier" : "a gathering");
    if (name->bytes + n > ROUND_BYTES)
        return pd_fail(PD_RANGE, "trainers give more than %d MiB to one round of '%s'", ROUND_BYTES >> 20,
                       name->text);
    if (meet->held + n > HELD)
        return pd_fail(PD_RANGE,
                       "what trainers gave to %d names has more than %d MiB: meet under fewer names",
                       meet->names.n, HELD >> 20);
    return PD_OK;
}

static pd_status take(struct pd_meet *meet, struct name *name, struct session *session,
                      const struct gift *gift, const struct pd_message *m)
{
    struct seat *seat = &name->seats[session->trainer];
    size_t n = (size_t)m->head.payload;
    empty_seat(meet, name, seat);
    PD_TRY(check_room(meet, name, gift, n));
    void *bytes = n ? pd_malloc(n) : NULL;
    if (n && !bytes) return pd_no_memory();
    if (n) memcpy(bytes, m->payload, n);
    if (!name->given) name->since = name->noticed = pd_clock_ns();
    *seat = (struct seat){.has_given = 1,
                          .incarnation = gift->incarnation,
                          .asks_for = gift->round,
                          .session = session,
                          .request = m->head.request,
                          .bytes = bytes,
                          .n = n};
    name->given++;
    name->is_barrier = gift->is_barrier;
    name->bytes += n;
    meet->held += n;
    meet_if_all_are_here(meet, name);
    if (pd_shard_has_waiters(meet->lane->shard)) call_seat(meet, seat, session->trainer);
    return PD_OK;
}

/* A trainer asks for the open round until it has had an answer: if this process of it is in the last one,
 * it did not come through. */
static uint64_t round_of(const struct name *name, const struct gift *gift, int trainer)
{
    int is_again = !gift->round && name->last && !name->seats[trainer].has_given &&
                   name->last->incarnations[trainer] == gift->incarnation;
    return is_again ? name->last->round : gift->round;
}

pd_status pd_meet_give(struct pd_meet *meet, struct session *session, const struct pd_message *m)
{
    struct gift gift;
    char text[512];
    PD_TRY(read_gift(session, m, &gift));
    struct name *name = find(meet, gift.name);
    pd_status status = name ? PD_OK : add(meet, gift.name, &name);
    if (status == PD_OK) {
        uint64_t round = round_of(name, &gift, session->trainer);
        learn_round(meet, name, round);
        if (round && round <= name->past) {
            answer_late(name, session, m->head.request, round, gift.incarnation, gift.is_barrier);
            return PD_OK;
        }
        status = take(meet, name, session, &gift, m);
    }
    if (status == PD_OK) return PD_OK;
    snprintf(text, sizeof text, "%s", pd_error());
    pd_session_deny(session, m->head.request, status, text);
    return PD_OK;
}

void pd_meet_forget(struct pd_meet *meet, const struct session *session)
{
    if (!meet || session->trainer < 0) return;
    for (int i = 0; i < meet->names.n; i++) {
        struct seat *seat = &meet->names.at[i]->seats[session->trainer];
        if (seat->session == session) seat->session = NULL;
    }
}

/* ---- waiting ---- */

/* One of these who waits under another name meanwhile; -1: none does. */
static int find_elsewhere(const struct pd_meet *meet, const struct name *name, const int *late, int n,
                          const struct name **where)
{
    for (int i = 0; i < n; i++)
        for (int k = 0; k < meet->names.n; k++) {
            *where = meet->names.at[k];
            if (*where != name && (*where)->seats[late[i]].session) return late[i];
        }
    return -1;
}

static void tell(struct pd_meet *meet, struct name *name, int64_t now)
{
    const struct pd_server_config *config = &meet->lane->server->config;
    int64_t waited = (now - name->since) / 1000000;
    int64_t still = meet->moved > name->since ? (now - meet->moved) / 1000000 : waited;
    int late[16], n = 0, is_late = still >= config->deadline_ms;
    char who[1024], text[PD_PS_TEXT_MOST];
    const struct name *where;
    if (!is_late && (now - name->noticed) / 1000000 < config->notice_ms) return;
    name->noticed = now;
    for (int t = 0; t < trainers_of(meet) && n < 16; t++)
        if (is_expected(meet, name, t)) late[n++] = t;
    pd_lane_list_late(meet->lane, late, n, now - PD_PS_FRESH * (int64_t)1000000 * config->notice_ms, who,
                      sizeof who);
    int at = snprintf(text, sizeof text, "%s '%s' %s %lld s for %s",
                      name->is_barrier ? "the barrier" : "the gathering", name->text,
                      is_late ? "waited" : "has waited", (long long)(waited / 1000), who);
    int other = find_elsewhere(meet, name, late, n, &where);
    if (other >= 0)
        at +=
            snprintf(text + at, sizeof text - (size_t)at,
                     "; trainer %d waits in '%s' meanwhile: all are to make the same calls in the same order",
                     other, where->text);
    if (is_late)
        snprintf(text + at, sizeof text - (size_t)at, ": given up (FLAGS_rpc_deadline is %d ms)",
                 config->deadline_ms);
    pd_log(PD_LOG_WARNING, "%s", text);
    if (is_late) {
        deny_all(meet, name, PD_UNAVAILABLE, text);
        return;
    }
    for (int t = 0; t < trainers_of(meet); t++)
        if (name->seats[t].session) pd_session_notice(name->seats[t].session, text);
}

void pd_meet_tend(struct pd_meet *meet, int64_t now)
{
    if (!meet) return;
    if (pd_shard_has_waiters(meet->lane->shard)) call_all(meet); /* once more: it may have been busy */
    spread_progress(meet, now);
    for (int i = 0; i < meet->names.n; i++) {
        struct name *name = meet->names.at[i];
        meet_if_all_are_here(meet, name);
        if (name->given) tell(meet, name, now);
    }
}

/* ---- start and end ---- */

pd_status pd_meet_new(struct lane *lane, struct pd_meet **out)
{
    struct pd_meet *meet = pd_calloc(1, sizeof *meet);
    if (!meet) return pd_no_memory();
    meet->lane = lane;
    *out = meet;
    return PD_OK;
}

void pd_meet_free(struct pd_meet *meet)
{
    for (int i = 0; meet && i < meet->names.n; i++) {
        struct name *name = meet->names.at[i];
        for (int t = 0; t < trainers_of(meet); t++)
            empty_seat(meet, name, &name->seats[t]);
        let_go(name->last);
        pd_free(name->seats);
        pd_free(name);
    }
    if (meet) pd_vec_free(&meet->names);
    pd_free(meet);
}
