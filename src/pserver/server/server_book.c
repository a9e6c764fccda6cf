/* The book of a server: which process stands for which trainer, and who has ended.
 *
 * An id is taken by the first OPEN of a process and given up by nobody's handshake. With a folder
 * (FLAGS_ps_dir) the book is kept in the file `trainers` there, a line for each change, so that a server that
 * was killed does not wait for trainers that had ended before, and misses those that were in the job and do
 * not come back. What the file says of them holds once a process that it knows comes back; where all have
 * ended, when nobody has come for a while. Other processes may be another run of the job in the same folder,
 * and all of them are waited for; but when there is one for each that had not ended, the others have half of
 * the deadline to come, too. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/flags.h"
#include "base/log.h"
#include "net/hello.h"
#include "pserver/store/durable.h"
#include "pserver/store/folder.h"
#include "pserver/store/snapshot.h"

static const char *const words[] = {[PD_TRAINER_ABSENT] = "absent",
                                    [PD_TRAINER_IN] = "in",
                                    [PD_TRAINER_DONE] = "done",
                                    [PD_TRAINER_LOST] = "lost"};

/* ---- the file ---- */

static void book_trouble(const struct pd_server *s, int error)
{
    pd_log(PD_LOG_WARNING,
           "cannot write '%s': %s. If this server is killed it will not know which trainers have ended",
           s->book_path, pd_folder_error(error));
}

/* A line that is there in part only is taken back: the next one would go on in it. */
static void write_line(struct pd_server *s, const char *line, size_t n)
{
    struct stat at;
    ssize_t wrote = write(s->book, line, n);
    int error = wrote < 0 ? errno : ENOSPC;
    if (wrote == (ssize_t)n && (!s->book_syncs || fdatasync(s->book) == 0)) return;
    if (wrote == (ssize_t)n) error = errno;
    if (wrote > 0 && wrote < (ssize_t)n && (fstat(s->book, &at) || ftruncate(s->book, at.st_size - wrote))) {
        close(s->book);
        s->book = -1;
    }
    book_trouble(s, error);
}

/* Under the lock. */
static void note(struct pd_server *s, int id)
{
    char line[80];
    const struct seat *seat = &s->seats[id];
    if (s->book < 0) return;
    int n = snprintf(line, sizeof line, "%s %d %016llx %llu\n", words[seat->state], id,
                     (unsigned long long)seat->incarnation, (unsigned long long)seat->step);
    pd_durable_begin_book(s->durable);
    write_line(s, line, (size_t)n);
    pd_durable_end_book(s->durable);
}

/* The first line: of how many trainers the book is. */
static void note_number(struct pd_server *s)
{
    char line[80];
    int n = snprintf(line, sizeof line, "of %d %016llx\n", s->config.trainers, 0ull);
    if (s->book >= 0) write_line(s, line, (size_t)n);
}

/* The last line of each trainer counts; one that was torn is not whole and says nothing. Returns where the
 * whole ones end. *is_other: it is the book of another number of trainers. */
static off_t read_book(struct pd_server *s, int *is_other)
{
    char line[128], word[16], behind;
    off_t whole = 0;
    *is_other = 0;
    FILE *file = fopen(s->book_path, "re");
    while (file && fgets(line, sizeof line, file)) {
        int id, end;
        unsigned long long incarnation, step = 0;
        if (!strchr(line, '\n')) continue;
        whole = ftello(file);
        if (sscanf(line, "%15s %d %16llx%n", word, &id, &incarnation, &end) != 3 || id < 0) continue;
        int is_number = strcmp(word, "of") == 0;
        *is_other |= is_number ? id != s->config.trainers : id >= s->config.trainers;
        if (is_number || id >= s->config.trainers) continue;
        /* Those who are in have no step, nor had others once. */
        if (line[end] != '\n' && (sscanf(line + end, " %llu%c", &step, &behind) != 2 || behind != '\n'))
            continue;
        for (int state = PD_TRAINER_IN; state <= PD_TRAINER_LOST; state++)
            if (strcmp(word, words[state]) == 0)
                s->seats[id] = (struct seat){.incarnation = incarnation,
                                             .state = (enum pd_trainer_state)state,
                                             .left_at = pd_clock_ns(),
                                             .is_read = 1,
                                             .step = step};
    }
    if (file) fclose(file);
    return whole;
}

static int is_gone(const struct seat *seat)
{
    return seat->state == PD_TRAINER_DONE || seat->state == PD_TRAINER_LOST;
}

/* A trainer has ended, or is lost, and will not come back: has this server all that it was told it had? Where
 * it has not, the user may accept that; with all trainers gone they are waited for then, to train it again.
 */
static pd_status check_held(int trainer, const struct seat *seat, const char *too)
{
    if (seat->held >= seat->step || pd_flag_int(PD_FLAG_ps_accept_rollback)) return PD_OK;
    return pd_fail(
        PD_INVALID,
        "trainer %d of this job %s after step %llu, but of that this server has kept only step %llu: "
        "its last snapshot could not be written, or it was killed, or ended with an error. Bring its newest "
        "folder back; or "
        "set FLAGS_ps_accept_rollback=1%s to go on from step %llu on this one; or set FLAGS_ps_fresh=1 to "
        "start "
        "anew",
        trainer, seat->state == PD_TRAINER_DONE ? "has ended" : "was lost", (unsigned long long)seat->step,
        (unsigned long long)seat->held, too, (unsigned long long)seat->held);
}

/* On a lane's thread: those who had ended leave this lane too, those who had not are missed from now on. */
static void settle(void *arg)
{
    struct lane *lane = arg;
    struct pd_server *s = lane->server;
    pd_status status = PD_OK;
    for (int t = 0; t < s->config.trainers && status == PD_OK; t++) {
        pthread_mutex_lock(&s->book_lock);
        const struct seat seat = s->seats[t];
        pthread_mutex_unlock(&s->book_lock);
        if (pd_shard_trainer(lane->shard, t) != PD_TRAINER_ABSENT) continue;
        if (seat.is_read && seat.state == PD_TRAINER_IN) lane->members[t].lost_at = pd_clock_ns();
        if (!is_gone(&seat)) continue;
        if ((status = check_held(t, &seat, " on all servers and trainers")) != PD_OK) break;
        if (lane->index == 0)
            pd_log(PD_LOG_INFO, "trainer %d had %s before this server was started again: nobody waits for it",
                   t, seat.state == PD_TRAINER_DONE ? "ended" : "been lost");
        status = pd_lane_leave(lane, t, seat.state, NULL);
    }
    if (status != PD_OK) pd_server_fail(s, status);
    pd_lane_finish_if_done(lane);
}

static void believe(struct pd_server *s)
{
    s->book_is_old = 0;
    for (int i = 0; !s->ending && i < s->n_lanes; i++)
        (void)pd_loop_post(s->lanes[i].loop, settle, &s->lanes[i]);
}

void pd_book_settle(struct pd_server *s, int64_t now)
{
    if (pthread_mutex_trylock(&s->book_lock)) return; /* the next time */
    int is_time = s->book_is_old && s->came_at && (now - s->came_at) / 1000000 > s->config.deadline_ms / 2;
    if (s->book_is_old && s->over_at && !s->came_at && (now - s->over_at) / 1000000 >= s->config.reconnect_ms)
        believe(s);
    for (int t = 0; t < s->config.trainers && is_time; t++)
        is_time = s->seats[t].is_read ? is_gone(&s->seats[t]) : s->seats[t].incarnation != 0;
    if (is_time) believe(s);
    pthread_mutex_unlock(&s->book_lock);
}

int pd_book_had_ended(struct pd_server *s, int id)
{
    pthread_mutex_lock(&s->book_lock);
    int had = s->seats[id].is_read && is_gone(&s->seats[id]);
    pthread_mutex_unlock(&s->book_lock);
    return had;
}

/* The last step of a trainer that is here. In async mode all loops must have it. In sync mode one that has a
 * step prepared only hears from the others that it was applied. */
static uint64_t held_of(const struct pd_server *s, int t)
{
    uint64_t held = pd_shard_counted(s->lanes[0].shard, t);
    for (int l = 1; l < s->n_lanes; l++) {
        uint64_t at = pd_shard_counted(s->lanes[l].shard, t);
        if (s->config.is_sync ? at > held : at < held) held = at;
    }
    return held;
}

pd_status pd_book_open(struct pd_server *s, const struct pd_durable_config *config)
{
    struct pd_buf path = {0};
    char *folder;
    int known = 0, gone = 0, done = 0, is_new, is_other = 0;
    if (!config || !config->root || !*config->root) return PD_OK;
    PD_TRY(pd_snapshot_folder(config->root, s->config.endpoint, &folder));
    pd_buf_printf(&path, "%s/trainers", folder);
    pd_status status = path.failed ? pd_no_memory() : pd_folder_make(folder);
    pd_free(folder);
    if (status != PD_OK) {
        pd_buf_free(&path);
        return status;
    }
    s->book_path = path.at;
    s->book_syncs = strcmp(config->log, "fsync") == 0;
    off_t whole = config->is_fresh ? 0 : read_book(s, &is_other);
    for (int t = 0; t < s->config.trainers; t++) {
        known += s->seats[t].is_read;
        gone += is_gone(&s->seats[t]);
        done += s->seats[t].state == PD_TRAINER_DONE;
        s->seats[t].held = held_of(s, t);
    }
    int is_over = gone == s->config.trainers;
    /* They were all lost, and their run failed: this one is another. So it is with another number of them. */
    is_new = is_other || (is_over && !done);
    for (int t = 0; t < s->config.trainers && (is_over || is_other); t++) {
        if (!is_gone(&s->seats[t])) continue;
        PD_TRY(check_held(t, &s->seats[t], " on all servers, and start the trainers too, with that flag,"));
        is_new |= s->seats[t].held < s->seats[t].step;
    }
    for (int t = 0; t < s->config.trainers && is_new; t++)
        s->seats[t] = (struct seat){0};
    s->book_is_old = known > 0 && !is_new;
    s->book = open(s->book_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (s->book < 0 || ftruncate(s->book, is_new ? 0 : whole) != 0) book_trouble(s, errno);
    if (is_new || !whole) note_number(s);
    if (is_over && !is_new) s->over_at = pd_clock_ns();
    return PD_OK;
}

void pd_book_close(struct pd_server *s, int is_over)
{
    if (s->book >= 0) close(s->book);
    s->book = -1;
    if (is_over && s->book_path) unlink(s->book_path);
    pd_free(s->book_path);
    s->book_path = NULL;
}

/* ---- who comes ---- */

/* A trainer whose connection is lost, and which may come back; -1: none. */
static int waited_for(const struct pd_server *s)
{
    for (int t = 0; t < s->config.trainers; t++)
        if (!s->seats[t].sessions && s->seats[t].state == PD_TRAINER_IN) return t;
    return -1;
}

/* A trainer that has no connection: may it still connect again, or come back to a server that was started
 * again? */
static int may_return(const struct lane *lane, int t)
{
    const struct pd_server *s = lane->server;
    const struct seat *seat = &s->seats[t];
    int is_new = seat->is_read && (pd_clock_ns() - seat->left_at) / 1000000 < s->config.reconnect_ms;
    return lane->members[t].lost_at || is_new;
}

/* An id for a process that brings none: the one it has, a free one, then that of a trainer that is gone. */
static int pick_id(struct lane *lane, uint64_t incarnation)
{
    const struct pd_server *s = lane->server;
    int n = s->config.trainers;
    for (int t = 0; t < n; t++)
        if (s->seats[t].incarnation == incarnation) return t;
    for (int t = 0; t < n; t++)
        if (!s->seats[t].incarnation) return t;
    for (int t = 0; t < n; t++)
        if (!s->seats[t].sessions && s->seats[t].state == PD_TRAINER_LOST) return t;
    for (int t = 0; t < n; t++)
        if (!s->seats[t].sessions && s->seats[t].state == PD_TRAINER_IN && !may_return(lane, t)) return t;
    if (waited_for(s) >= 0) return -1; /* it will have that one's place, should it stay away */
    for (int t = 0; t < n; t++)
        if (!s->seats[t].sessions && s->seats[t].state == PD_TRAINER_DONE) return t;
    return -1;
}

static int came_beside(const struct seat *seat, uint64_t incarnation)
{
    for (int i = 0; i < PD_SEAT_BESIDE; i++)
        if (seat->refused[i] == incarnation) return 1;
    return 0;
}

static void note_beside(struct seat *seat, uint64_t incarnation)
{
    if (came_beside(seat, incarnation)) return;
    memmove(seat->refused + 1, seat->refused, sizeof seat->refused - sizeof *seat->refused);
    seat->refused[0] = incarnation;
}

/* Its connections broke a moment ago, or this server was started a moment ago, and it may come back. Who has
 * been started in its place did not come while it was there; what this server knew of that before it was
 * started again, the process says itself. */
static int is_kept(const struct pd_server *s, const struct seat *seat, uint64_t incarnation, int says_beside)
{
    int is_late = seat->is_read && s->config.on_loss == PD_LOSS_FAIL; /* as in lane.c */
    int64_t limit = is_late ? s->config.deadline_ms : s->config.reconnect_ms;
    return seat->state == PD_TRAINER_IN && (says_beside || came_beside(seat, incarnation)) &&
           (pd_clock_ns() - seat->left_at) / 1000000 < limit;
}

/* No id is free. The place of one whose connection is lost will be, unless it comes back. */
static pd_status no_place(struct lane *lane)
{
    const struct pd_server *s = lane->server;
    int lost = waited_for(s);
    if (lost >= 0)
        return pd_fail(PD_EXISTS,
                       "all %d trainers of this job have come already. The connection of %s is lost: its "
                       "place is free when it has not come back after %.4g s (FLAGS_ps_reconnect)",
                       s->config.trainers, pd_lane_who(lane, lost), (double)s->config.reconnect_ms / 1000);
    return pd_fail(
        PD_INVALID,
        "all %d trainers of this job have come already: another job's trainer, or the wrong endpoint?",
        s->config.trainers);
}

static pd_status claim(struct lane *lane, const struct pd_hello *hello, int says_beside, int *id)
{
    struct pd_server *s = lane->server;
    *id = hello->id < 0 ? pick_id(lane, hello->incarnation) : hello->id;
    if (*id < 0) return no_place(lane);
    struct seat *seat = &s->seats[*id];
    int is_known = seat->incarnation == hello->incarnation;
    int brings_id = hello->id >= 0; /* else it has a place that is free */
    if (!is_known && (seat->sessions || (brings_id && is_kept(s, seat, hello->incarnation, says_beside)))) {
        note_beside(seat, hello->incarnation);
        return pd_fail(PD_EXISTS,
                       "%s is in the job, and another process (host %.60s, pid %u) comes with the same id: "
                       "give each trainer its own id, or end the other one",
                       pd_lane_who(lane, *id), hello->host, hello->pid);
    }
    /* Who was there beside it has not been started because it had ended. */
    if (seat->state == PD_TRAINER_DONE && !is_known && came_beside(seat, hello->incarnation))
        return pd_fail(PD_INVALID,
                       "%s has ended its work; this process came with the same id while it was in the job: "
                       "give each trainer its own id",
                       pd_lane_who(lane, *id));
    if (s->lanes_finished && !is_known)
        return pd_fail(PD_INVALID, "all trainers of this job are done, and the server ends");
    if (s->book_is_old && is_known && seat->is_read) believe(s);
    seat->sessions++;
    if (is_known && seat->state == PD_TRAINER_IN) return PD_OK;
    if (!is_known) {
        seat->is_read = 0;
        s->came_at = pd_clock_ns();
    }
    seat->incarnation = hello->incarnation;
    seat->state = PD_TRAINER_IN;
    atomic_store(&s->said_why[*id], 0);
    atomic_store(&s->all_left, 0);
    note(s, *id);
    return PD_OK;
}

pd_status pd_book_claim(struct lane *lane, const struct pd_hello *hello, int says_beside, int *id)
{
    pthread_mutex_lock(&lane->server->book_lock);
    pd_status status = claim(lane, hello, says_beside, id);
    pthread_mutex_unlock(&lane->server->book_lock);
    return status;
}

void pd_book_release(struct pd_server *s, int id)
{
    pthread_mutex_lock(&s->book_lock);
    if (--s->seats[id].sessions == 0) s->seats[id].left_at = pd_clock_ns();
    pthread_mutex_unlock(&s->book_lock);
}

int pd_book_is_here(struct pd_server *s, int id, uint64_t *incarnation)
{
    pthread_mutex_lock(&s->book_lock);
    int here = s->seats[id].sessions > 0;
    *incarnation = s->seats[id].incarnation;
    pthread_mutex_unlock(&s->book_lock);
    return here;
}

void pd_book_leave(struct pd_server *s, int id, enum pd_trainer_state how, uint64_t step)
{
    pthread_mutex_lock(&s->book_lock);
    if (s->seats[id].state != how) {
        s->seats[id].state = how;
        s->seats[id].step = step;
        int gone = 0;
        for (int t = 0; t < s->config.trainers; t++)
            gone += is_gone(&s->seats[t]);
        atomic_store(&s->all_left, gone == s->config.trainers);
        note(s, id);
    }
    pthread_mutex_unlock(&s->book_lock);
}

int pd_book_has_done(struct pd_server *s)
{
    int done = 0;
    pthread_mutex_lock(&s->book_lock);
    for (int t = 0; t < s->config.trainers; t++)
        done |= s->seats[t].state == PD_TRAINER_DONE;
    pthread_mutex_unlock(&s->book_lock);
    return done;
}
