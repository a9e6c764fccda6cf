/* The log of a server's loop: what must survive the end of the process, in the order in which it happened.
 *
 * A lane is one loop; its log is a row of files log-<lane>-<step>, of which only the last is written. A
 * snapshot at step s begins with pd_journal_rotate(s), so that all that is newer lies in later files; when
 * the snapshot is safe, pd_journal_drop_before(s) removes the others. docs/SERVER_FILES.md describes the
 * files.
 *
 * One thread at a time. All calls may block on the disk. */
#ifndef PD_PSERVER_JOURNAL_H
#define PD_PSERVER_JOURNAL_H

#include <paddle/status.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

struct pd_journal;

enum pd_durability {
    PD_DURABLE_WRITE, /* what was committed survives the end of the process, kill -9 too */
    PD_DURABLE_FSYNC, /* and that of the machine */
};

/* What a record is about. The kinds and the sense of the other fields are the server's own. */
struct pd_record {
    uint16_t kind;
    int32_t trainer; /* -1: none of them alone */
    uint32_t unit, part;
    uint64_t step, incarnation, rows;
};

/* Opens the lane's log for more: goes on in its last file, or begins log-<lane>-0. A torn tail, left by a
 * process that was ended while it wrote, is cut off and logged; other damage is an error. The folder is made
 * when it is not there. Another process that has the same lane open is an error. */
pd_status pd_journal_open(const char *folder, int lane, enum pd_durability durability,
                          struct pd_journal **out);
/* Drops what was not committed. NULL is fine. */
void pd_journal_close(struct pd_journal *journal);

/* A record with the bytes of `parts` in order. Borrows them for the call: small ones are copied, large ones
 * written straight from where they lie. */
pd_status pd_journal_append(struct pd_journal *journal, const struct pd_record *head,
                            const struct iovec *parts, int n);
/* All that was appended is safe now, as the durability says. */
pd_status pd_journal_commit(struct pd_journal *journal);
/* A write or sync that fails (disk full) cuts the file back to the last commit: everything appended since is
 * gone, also what earlier calls appended without an error. So all calls go on failing with the same message
 * until the caller, who has dealt with that, calls this; it is an error when the file still cannot be cut. */
pd_status pd_journal_resume(struct pd_journal *journal);

/* Commits, then begins a new file. `step` must be past that of the present file; where that has no records
 * yet, the same step is fine and does nothing. On error the present file stays in use. */
pd_status pd_journal_rotate(struct pd_journal *journal, uint64_t step);
/* A snapshot holds all up to `step`: removes the files that have nothing newer. */
pd_status pd_journal_drop_before(struct pd_journal *journal, uint64_t step);

/* Step and bytes of the present file, with what is not committed. */
uint64_t pd_journal_step(const struct pd_journal *journal);
uint64_t pd_journal_bytes(const struct pd_journal *journal);

/* What the state that is replayed upon holds already. */
struct pd_replay_from {
    uint64_t step; /* of its snapshot: files that end before it are not read; 0 without a snapshot */
    /* A record of trainer t is given when its step is past trainer_steps[t]; one of no trainer, or without
     * this array, when its step is past `step`. */
    int trainers;
    const uint64_t *trainer_steps;
};

struct pd_replay_result {
    uint64_t records, old, bytes; /* given; not given because the state has them; of all that was read */
    uint64_t last_step;           /* highest step given */
    int files;
    /* The last file ends in a record that is not whole: it was never committed. pd_journal_open cuts it off.
     */
    int is_torn;
    char torn_file[64], torn_why[160];
    uint64_t torn_at, torn_bytes;
};

/* Gets the lane's records in order. The payload is aligned to 16 bytes and valid during the call. An error
 * ends the replay and is passed on. */
typedef pd_status (*pd_replay_fn)(void *arg, const struct pd_record *head, const void *payload, size_t n);

/* Reads the lane's files, changes nothing. Damage other than a torn tail is an error that names file, offset
 * and what was found there, as are files that are missing between the state and the records. `result` may be
 * NULL. */
pd_status pd_journal_replay(const char *folder, int lane, const struct pd_replay_from *from, pd_replay_fn fn,
                            void *arg, struct pd_replay_result *result);

#endif
