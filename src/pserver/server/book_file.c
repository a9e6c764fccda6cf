/* The file `trainers` of a book, and what a server that was started again makes of it; see book.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/crc32c.h"
#include "base/lock.h"
#include "base/log.h"
#include "pserver/server/book_private.h"
#include "pserver/store/durable.h"
#include "pserver/store/folder.h"
#include "pserver/store/snapshot.h"

static const char *const words[] = {[PD_TRAINER_ABSENT] = "absent",
                                    [PD_TRAINER_IN] = "in",
                                    [PD_TRAINER_DONE] = "done",
                                    [PD_TRAINER_LOST] = "lost"};

static void book_trouble(const struct pd_book *b, int error)
{
    pd_log(PD_LOG_WARNING,
           "cannot write '%s': %s. If this server is killed it will not know which trainers have ended",
           b->path, pd_folder_error(error));
}

/* A line that is there in part only is taken back: the next one would go on in it. */
static void write_line(struct pd_book *b, const char *line, size_t n)
{
    struct stat at;
    ssize_t wrote = write(b->file, line, n);
    int error = wrote < 0 ? errno : ENOSPC;
    if (wrote == (ssize_t)n && (!b->syncs || fdatasync(b->file) == 0)) return;
    if (wrote == (ssize_t)n) error = errno;
    if (wrote > 0 && wrote < (ssize_t)n && (fstat(b->file, &at) || ftruncate(b->file, at.st_size - wrote))) {
        close(b->file);
        b->file = -1;
    }
    book_trouble(b, error);
}

/* With its checksum behind it. */
static void write_fields(struct pd_book *b, const char *word, int id, uint64_t incarnation, uint64_t step)
{
    char line[96];
    if (b->file < 0) return;
    int n = snprintf(line, sizeof line, "%s %d %016llx %llu", word, id, (unsigned long long)incarnation,
                     (unsigned long long)step);
    n += snprintf(line + n, sizeof line - (size_t)n, " =%08x\n", pd_crc32c(0, line, (size_t)n));
    write_line(b, line, (size_t)n);
}

void pd_book_write(struct pd_book *b, int id)
{
    const struct entry *entry = &b->entries[id];
    pd_durable_begin_book(b->server->durable);
    write_fields(b, words[entry->state], id, entry->incarnation, entry->step);
    pd_durable_end_book(b->server->durable);
}

struct line {
    char word[16];
    int id;
    unsigned long long incarnation, step;
};

/* 0: it is no line of a book. One of an older version has no checksum, and maybe no step. */
static int read_line(const char *text, int is_old, struct line *out)
{
    int end = 0, behind = 0;
    const char *sum = strstr(text, " =");
    *out = (struct line){.step = 0};
    if (sscanf(text, "%15s %d %16llx%n", out->word, &out->id, &out->incarnation, &end) != 3 || out->id < 0)
        return 0;
    if (text[end] && text[end] != '=' && sscanf(text + end, " %llu%n", &out->step, &behind) != 1) return 0;
    if (is_old) return !text[end + behind];
    unsigned crc;
    return sum == text + end + behind && strlen(sum) == 10 && sscanf(sum, " =%8x", &crc) == 1 &&
           crc == pd_crc32c(0, text, (size_t)(sum - text));
}

static pd_status damaged(const struct pd_book *b, int number)
{
    return pd_fail(
        PD_FORMAT,
        "line %d of '%s' is damaged: it tells which trainers have ended. Bring the file back from a "
        "copy, or remove it: then this server waits for trainers that have ended before, up to "
        "FLAGS_rpc_deadline",
        number, b->path);
}

static void take_line(struct pd_book *b, const struct line *line, int *is_other)
{
    int is_number = strcmp(line->word, "of") == 0, n = b->server->config.trainers;
    *is_other |= is_number ? line->id != n : line->id >= n;
    if (is_number || line->id >= n) return;
    for (int state = PD_TRAINER_IN; state <= PD_TRAINER_LOST; state++)
        if (strcmp(line->word, words[state]) == 0)
            b->entries[line->id] = (struct entry){.incarnation = line->incarnation,
                                                  .state = (enum pd_trainer_state)state,
                                                  .left_at = pd_clock_ns(),
                                                  .is_read = 1,
                                                  .step = line->step};
}

/* The last line of the file may be torn: a write that the system did not bring to its end. */
static int is_torn(const char *text)
{
    const char *sum = strstr(text, " =");
    return !sum || strlen(sum) <= 10;
}

/* The last line of each trainer counts; one that was torn says nothing. *whole is where the whole ones end.
 * *is_other: it is the book of another number of trainers. */
static pd_status read_book(struct pd_book *b, off_t *whole, int *is_other)
{
    char text[128];
    int number = 0, is_old = 0;
    FILE *file = fopen(b->path, "re");
    pd_status status = PD_OK;
    while (file && status == PD_OK && fgets(text, sizeof text, file)) {
        struct line line;
        char *end = strchr(text, '\n');
        if (!end && feof(file) && is_torn(text)) break;
        if (end) *end = 0;
        if (!number++) is_old = end && !strstr(text, " =");
        if (!end || !read_line(text, is_old, &line)) status = damaged(b, number);
        if (status != PD_OK) break;
        *whole = ftello(file);
        take_line(b, &line, is_other);
    }
    if (file) fclose(file);
    return status;
}

/* A trainer has ended, or is lost, and will not come back: has this server all that it was told it had? Where
 * it has not, the user may accept that; with all trainers gone they are waited for then, to train it again.
 */
static pd_status check_held(const struct pd_book *b, int trainer, const struct entry *entry, const char *too)
{
    if (entry->held >= entry->step || b->server->config.accepts_rollback) return PD_OK;
    return pd_fail(PD_INVALID,
                   "trainer %d of this job %s after step %llu, but of that this server has kept only step "
                   "%llu: its last snapshot could not be written, or it was killed, or ended with an error. "
                   "Bring its newest folder back; or set FLAGS_ps_accept_rollback=1%s to go on from step "
                   "%llu on this one; or set FLAGS_ps_fresh=1 to start anew",
                   trainer, entry->state == PD_TRAINER_DONE ? "has ended" : "was lost",
                   (unsigned long long)entry->step, (unsigned long long)entry->held, too,
                   (unsigned long long)entry->held);
}

/* On a lane's thread: those who had ended leave this lane too, those who had not are missed from now on. */
static void settle(void *arg)
{
    struct lane *lane = arg;
    struct pd_book *b = lane->server->book;
    pd_status status = PD_OK;
    for (int t = 0; t < b->server->config.trainers && status == PD_OK; t++) {
        pthread_mutex_lock(&b->lock);
        const struct entry entry = b->entries[t];
        pthread_mutex_unlock(&b->lock);
        if (pd_shard_trainer(lane->shard, t) != PD_TRAINER_ABSENT) continue;
        if (entry.is_read && entry.state == PD_TRAINER_IN) lane->members[t].lost_at = pd_clock_ns();
        if (!is_gone(&entry)) continue;
        if ((status = check_held(b, t, &entry, " on all servers and trainers")) != PD_OK) break;
        if (lane->index == 0)
            pd_log(PD_LOG_INFO, "trainer %d had %s before this server was started again: nobody waits for it",
                   t, entry.state == PD_TRAINER_DONE ? "ended" : "been lost");
        status = pd_lane_leave(lane, t, entry.state, NULL);
    }
    if (status != PD_OK) pd_server_fail(b->server, status);
    pd_lane_finish_if_done(lane);
}

void pd_book_believe(struct pd_book *b)
{
    struct pd_server *s = b->server;
    b->is_old = 0;
    for (int i = 0; !s->ending && i < s->n_lanes; i++)
        (void)pd_loop_post(s->lanes[i].loop, settle, &s->lanes[i]);
}

void pd_book_settle(struct pd_book *b, int64_t now)
{
    if (pthread_mutex_trylock(&b->lock)) return; /* the next time */
    int is_time = b->is_old && b->came_at && (now - b->came_at) / 1000000 > b->server->config.deadline_ms / 2;
    if (b->is_old && b->over_at && !b->came_at &&
        (now - b->over_at) / 1000000 >= b->server->config.reconnect_ms)
        pd_book_believe(b);
    for (int t = 0; t < b->server->config.trainers && is_time; t++)
        is_time = b->entries[t].is_read ? is_gone(&b->entries[t]) : b->entries[t].incarnation != 0;
    if (is_time) pd_book_believe(b);
    pthread_mutex_unlock(&b->lock);
}

int pd_book_had_ended(struct pd_book *b, int id)
{
    PD_HOLD(&b->lock);
    return b->entries[id].is_read && is_gone(&b->entries[id]);
}

/* The last step of a trainer that is here. In async mode all loops must have it. In sync mode one that has a
 * step prepared only hears from the others that it was applied. */
static uint64_t held_of(const struct pd_book *b, int t)
{
    const struct pd_server *s = b->server;
    uint64_t held = pd_shard_counted(s->lanes[0].shard, t);
    for (int l = 1; l < s->n_lanes; l++) {
        uint64_t at = pd_shard_counted(s->lanes[l].shard, t);
        if (s->config.is_sync ? at > held : at < held) held = at;
    }
    return held;
}

pd_status pd_book_open(struct pd_book *b, const struct pd_durable_config *config)
{
    int n = b->server->config.trainers;
    struct pd_buf path = {0};
    char *folder;
    int known = 0, gone = 0, done = 0, is_new, is_other = 0;
    if (!config || !config->root || !*config->root) return PD_OK;
    PD_TRY(pd_snapshot_folder(config->root, b->server->config.endpoint, &folder));
    pd_buf_printf(&path, "%s/trainers", folder);
    pd_status status = path.failed ? pd_no_memory() : pd_folder_make(folder);
    pd_free(folder);
    if (status != PD_OK) {
        pd_buf_free(&path);
        return status;
    }
    b->path = path.at;
    b->syncs = strcmp(config->log, "fsync") == 0;
    off_t whole = 0;
    if (!config->is_fresh) PD_TRY(read_book(b, &whole, &is_other));
    for (int t = 0; t < n; t++) {
        known += b->entries[t].is_read;
        gone += is_gone(&b->entries[t]);
        done += b->entries[t].state == PD_TRAINER_DONE;
        b->entries[t].held = held_of(b, t);
    }
    int is_over = gone == n;
    /* They were all lost, and their run failed: this one is another. So it is with another number of them. */
    is_new = is_other || (is_over && !done);
    for (int t = 0; t < n && (is_over || is_other); t++) {
        if (!is_gone(&b->entries[t])) continue;
        PD_TRY(
            check_held(b, t, &b->entries[t], " on all servers, and start the trainers too, with that flag,"));
        is_new |= b->entries[t].held < b->entries[t].step;
    }
    for (int t = 0; t < n && is_new; t++)
        b->entries[t] = (struct entry){0};
    b->is_old = known > 0 && !is_new;
    b->file = open(b->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (b->file < 0 || ftruncate(b->file, is_new ? 0 : whole) != 0) book_trouble(b, errno);
    if (is_new || !whole) write_fields(b, "of", n, 0, 0);
    if (is_over && !is_new) b->over_at = pd_clock_ns();
    return PD_OK;
}

void pd_book_close(struct pd_book *b, int is_over)
{
    if (b->file >= 0) close(b->file);
    b->file = -1;
    if (is_over && b->path) unlink(b->path);
    pd_free(b->path);
    b->path = NULL;
}
