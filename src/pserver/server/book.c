/* See book.h. What is in the file is in book_file.c. */
#include "pserver/server/book.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/lock.h"
#include "net/hello.h"
#include "pserver/server/book_private.h"
#include "pserver/store/durable.h"

/* ---- who comes ---- */

/* A trainer whose connection is lost, and which may come back; -1: none. */
static int waited_for(const struct pd_book *b)
{
    for (int t = 0; t < b->server->config.trainers; t++)
        if (!b->entries[t].sessions && b->entries[t].state == PD_TRAINER_IN) return t;
    return -1;
}

/* A trainer that has no connection: may it still connect again, or come back to a server that was started
 * again? */
static int may_return(const struct lane *lane, int t)
{
    const struct pd_book *b = lane->server->book;
    const struct entry *entry = &b->entries[t];
    int is_new =
        entry->is_read && (pd_clock_ns() - entry->left_at) / 1000000 < b->server->config.reconnect_ms;
    return lane->members[t].lost_at || is_new;
}

/* An id for a process that brings none: the one it has, a free one, then that of a trainer that is gone. */
static int pick_id(struct lane *lane, uint64_t incarnation)
{
    const struct pd_book *b = lane->server->book;
    int n = b->server->config.trainers;
    for (int t = 0; t < n; t++)
        if (b->entries[t].incarnation == incarnation) return t;
    for (int t = 0; t < n; t++)
        if (!b->entries[t].incarnation) return t;
    for (int t = 0; t < n; t++)
        if (!b->entries[t].sessions && b->entries[t].state == PD_TRAINER_LOST) return t;
    for (int t = 0; t < n; t++)
        if (!b->entries[t].sessions && b->entries[t].state == PD_TRAINER_IN && !may_return(lane, t)) return t;
    if (waited_for(b) >= 0) return -1; /* it will have that one's place, should it stay away */
    for (int t = 0; t < n; t++)
        if (!b->entries[t].sessions && b->entries[t].state == PD_TRAINER_DONE) return t;
    return -1;
}

static int came_beside(const struct entry *entry, uint64_t incarnation)
{
    for (int i = 0; i < BESIDE; i++)
        if (entry->refused[i] == incarnation) return 1;
    return 0;
}

static void note_beside(struct entry *entry, uint64_t incarnation)
{
    if (came_beside(entry, incarnation)) return;
    memmove(entry->refused + 1, entry->refused, sizeof entry->refused - sizeof *entry->refused);
    entry->refused[0] = incarnation;
}

/* Its connections broke a moment ago, or this server was started a moment ago, and it may come back. Who has
 * been started in its place did not come while it was there; what this server knew of that before it was
 * started again, the process says itself. */
static int is_kept(const struct pd_book *b, const struct entry *entry, uint64_t incarnation, int says_beside)
{
    int is_late = entry->is_read && b->server->config.on_loss == PD_LOSS_FAIL; /* as in lane.c */
    int64_t limit = is_late ? b->server->config.deadline_ms : b->server->config.reconnect_ms;
    return entry->state == PD_TRAINER_IN && (says_beside || came_beside(entry, incarnation)) &&
           (pd_clock_ns() - entry->left_at) / 1000000 < limit;
}

/* No id is free. The place of one whose connection is lost will be, unless it comes back. */
static pd_status no_place(struct lane *lane)
{
    const struct pd_book *b = lane->server->book;
    int lost = waited_for(b);
    if (lost >= 0)
        return pd_fail(PD_EXISTS,
                       "all %d trainers of this job have come already. The connection of %s is lost: its "
                       "place is free when it has not come back after %.4g s (FLAGS_ps_reconnect)",
                       b->server->config.trainers, pd_lane_who(lane, lost),
                       (double)b->server->config.reconnect_ms / 1000);
    return pd_fail(
        PD_INVALID,
        "all %d trainers of this job have come already: another job's trainer, or the wrong endpoint?",
        b->server->config.trainers);
}

static pd_status claim(struct lane *lane, const struct pd_hello *hello, int says_beside, int *id)
{
    struct pd_book *b = lane->server->book;
    *id = hello->id < 0 ? pick_id(lane, hello->incarnation) : hello->id;
    if (*id < 0) return no_place(lane);
    struct entry *entry = &b->entries[*id];
    int is_known = entry->incarnation == hello->incarnation;
    int brings_id = hello->id >= 0; /* else it has a place that is free */
    /* It has said goodbye, to one loop; the others will hear it. Who closes and trains on comes that soon. */
    if (!is_known && entry->sessions && entry->state == PD_TRAINER_DONE)
        return pd_fail(PD_EXISTS, "%s is just leaving the job: its place is free when all of it has left",
                       pd_lane_who(lane, *id));
    if (!is_known && (entry->sessions || (brings_id && is_kept(b, entry, hello->incarnation, says_beside)))) {
        note_beside(entry, hello->incarnation);
        return pd_fail(PD_EXISTS,
                       "%s is in the job, and another process (host %.60s, pid %u) comes with the same id: "
                       "give each trainer its own id, or end the other one",
                       pd_lane_who(lane, *id), hello->host, hello->pid);
    }
    /* Who was there beside it has not been started because it had ended. */
    if (entry->state == PD_TRAINER_DONE && !is_known && came_beside(entry, hello->incarnation))
        return pd_fail(PD_INVALID,
                       "%s has ended its work; this process came with the same id while it was in the job: "
                       "give each trainer its own id",
                       pd_lane_who(lane, *id));
    if (b->server->lanes_finished && !is_known)
        return pd_fail(PD_INVALID, "all trainers of this job are done, and the server ends");
    if (b->is_old && is_known && entry->is_read) pd_book_believe(b);
    entry->sessions++;
    if (is_known && entry->state == PD_TRAINER_IN) return PD_OK;
    if (!is_known) {
        entry->is_read = 0;
        b->came_at = pd_clock_ns();
    }
    entry->incarnation = hello->incarnation;
    entry->state = PD_TRAINER_IN;
    entry->knows_why = 0;
    atomic_store(&b->all_left, 0);
    pd_book_write(b, *id);
    return PD_OK;
}

pd_status pd_book_claim(struct lane *lane, const struct pd_hello *hello, int says_beside, int *id)
{
    struct pd_book *book = lane->server->book;
    pthread_mutex_lock(&book->lock);
    pd_status status = claim(lane, hello, says_beside, id);
    pthread_mutex_unlock(&book->lock);
    if (status != PD_OK) return status;
    atomic_fetch_add(&book->connections, 1);
    atomic_store(&book->has_met, 1);
    return PD_OK;
}

int pd_book_release(struct pd_book *b, int id)
{
    pthread_mutex_lock(&b->lock);
    if (--b->entries[id].sessions == 0) b->entries[id].left_at = pd_clock_ns();
    pthread_mutex_unlock(&b->lock);
    return atomic_fetch_sub(&b->connections, 1) == 1;
}

int pd_book_is_here(struct pd_book *b, int id, uint64_t *incarnation)
{
    PD_HOLD(&b->lock);
    int here = b->entries[id].sessions > 0;
    *incarnation = b->entries[id].incarnation;
    return here;
}

void pd_book_leave(struct pd_book *b, int id, enum pd_trainer_state how, uint64_t step)
{
    PD_HOLD(&b->lock);
    if (b->entries[id].state != how) {
        b->entries[id].state = how;
        b->entries[id].step = step;
        int gone = 0;
        for (int t = 0; t < b->server->config.trainers; t++)
            gone += is_gone(&b->entries[t]);
        atomic_store(&b->all_left, gone == b->server->config.trainers);
        pd_book_write(b, id);
    }
}

int pd_book_has_done(struct pd_book *b)
{
    int done = 0;
    PD_HOLD(&b->lock);
    for (int t = 0; t < b->server->config.trainers; t++)
        done |= b->entries[t].state == PD_TRAINER_DONE;
    return done;
}

int pd_book_connections(const struct pd_book *b)
{
    return atomic_load(&b->connections);
}

int pd_book_has_met(const struct pd_book *b)
{
    return atomic_load(&b->has_met);
}

int pd_book_all_left(const struct pd_book *b)
{
    return atomic_load(&b->all_left);
}

/* ---- what became of them ---- */

void pd_book_note_refusal(struct pd_book *b, int id, const char *why)
{
    PD_HOLD(&b->lock);
    snprintf(b->entries[id].hung_up, PD_BOOK_REFUSAL, "%.255s", why);
}

void pd_book_refusal(struct pd_book *b, int id, char why[PD_BOOK_REFUSAL])
{
    PD_HOLD(&b->lock);
    memcpy(why, b->entries[id].hung_up, PD_BOOK_REFUSAL);
}

int pd_book_note_loss(struct pd_book *b, int id, const char *text, int has_reason)
{
    pthread_mutex_lock(&b->lock);
    int knew = b->entries[id].knows_why;
    if (has_reason || !knew) snprintf(b->last_loss, sizeof b->last_loss, "%s", text);
    b->entries[id].knows_why |= has_reason;
    pthread_mutex_unlock(&b->lock);
    return !knew;
}

int pd_book_knows_why(struct pd_book *b, int id)
{
    PD_HOLD(&b->lock);
    return b->entries[id].knows_why;
}

const char *pd_book_last_loss(const struct pd_book *b)
{
    return b->last_loss;
}

/* ---- the job ---- */

pd_status pd_book_set_job(struct pd_book *b, uint64_t job)
{
    struct pd_server *s = b->server;
    pd_status status = PD_OK;
    PD_HOLD(&b->lock);
    uint64_t mine = atomic_load(&s->job_id);
    if (mine && mine != job && pd_server_step(s))
        status =
            pd_fail(PD_INVALID,
                    "this server is of job %016llx and at step %llu, the trainer of job %016llx: are the "
                    "servers' folders those of one job?",
                    (unsigned long long)mine, (unsigned long long)pd_server_step(s), (unsigned long long)job);
    pd_durable_begin_book(s->durable);
    if (status == PD_OK && mine != job) status = pd_durable_set_job(s->durable, job);
    pd_durable_end_book(s->durable);
    if (status == PD_OK) atomic_store(&s->job_id, job);
    return status;
}

pd_status pd_book_new(struct pd_server *server, struct pd_book **out)
{
    struct pd_book *b = pd_calloc(1, sizeof *b);
    if (!b) return pd_no_memory();
    pthread_mutex_init(&b->lock, NULL);
    b->server = server;
    b->file = -1;
    b->entries = pd_calloc((size_t)server->config.trainers, sizeof *b->entries);
    if (!b->entries) {
        pd_book_free(b);
        return pd_no_memory();
    }
    *out = b;
    return PD_OK;
}

void pd_book_free(struct pd_book *b)
{
    if (!b) return;
    pd_book_close(b, 0);
    pthread_mutex_destroy(&b->lock);
    pd_free(b->entries);
    pd_free(b);
}
