/* The log of a server's loop: what must survive the end of the process, in the order in which it happened.
 *
 * A lane is one loop; its log is a row of files log-<lane>-<step>, of which only the last is written. Each
 * file goes on from the snapshot of its step, which it names by that snapshot's id, and from the file before
 * it. A snapshot at step s begins with pd_journal_rotate(s), so that all that is newer lies in later files;
 * pd_journal_drop_before(s) removes those that no snapshot needs. docs/SERVER_FILES.md describes the files.
 *
 * One thread at a time. All calls may block on the disk. */
#ifndef PD_PSERVER_JOURNAL_H
#define PD_PSERVER_JOURNAL_H

#include <paddle/status.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/histogram.h"

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

/* A file without records that goes on from the snapshot of `step` with the id `base`, and from no file. That
 * it is there already is fine; one that has records is an error. The folder is made when it is not there. */
pd_status pd_journal_begin(const char *folder, int lane, enum pd_durability durability, uint64_t step,
                           uint64_t base);
/* Opens the lane's log for more: goes on in the file of `step`. A torn tail, left by a process that was ended
 * while it wrote, is cut off and logged; other damage is an error. Later files, which a replay has found to
 * be without records, are removed. Another process that has the same lane open is an error. */
pd_status pd_journal_open(const char *folder, int lane, enum pd_durability durability, uint64_t step,
                          struct pd_journal **out);
/* Drops what was not committed. NULL is fine. */
void pd_journal_close(struct pd_journal *journal);

/* A record with the bytes of `parts` in order. Borrows them for the call: small ones are copied, large ones
 * written straight from where they lie. */
pd_status pd_journal_append(struct pd_journal *journal, const struct pd_record *head,
                            const struct iovec *parts, int n);
/* All that was appended is safe now, as the durability says. A write or sync that fails (disk full) cuts the
 * file back to the last commit: everything appended since is gone, also what earlier calls appended without
 * an error. So all calls after it fail with the same message, until the log is opened again. */
pd_status pd_journal_commit(struct pd_journal *journal);

/* Commits, then begins a new file, which goes on from the snapshot of `step` with the id `base`. `step` must
 * be past that of the present file; where that has no records yet and the same base, the same step is fine
 * and does nothing. On error the present file stays in use. */
pd_status pd_journal_rotate(struct pd_journal *journal, uint64_t step, uint64_t base);
/* No snapshot before that of `step` will be gone on from: removes the files that have nothing newer. Also
 * from another thread than the journal's. */
pd_status pd_journal_drop_before(struct pd_journal *journal, uint64_t step);

/* How long syncs took, with PD_DURABLE_FSYNC. */
const struct pd_histogram *pd_journal_syncs(const struct pd_journal *journal);
/* Of the present file: its step, and the bytes that are safe. */
uint64_t pd_journal_step(const struct pd_journal *journal);
uint64_t pd_journal_committed(const struct pd_journal *journal);

/* What the state that is replayed upon holds already. */
struct pd_replay_from {
    uint64_t step, base; /* of its snapshot: the log goes on in the file of that step, if it names that id */
    /* A record of trainer t is given when its step is past trainer_steps[t]; one of no trainer, or without
     * this array, when its step is past `held`. */
    uint64_t held;
    int trainers;
    const uint64_t *trainer_steps;
    /* Less than all is fine: records from step `stop` on (0: none) are passed over, and what is damaged or
     * not there ends the replay without an error, as if nothing came after it. */
    int takes_less;
    uint64_t stop;
};

struct pd_replay_result {
    uint64_t records, old, bytes; /* given; not given because the state has them; of all that was read */
    uint64_t last_step;           /* highest step given */
    int files;
    uint64_t file;  /* step of the last one, where the log goes on */
    uint64_t left;  /* takes_less: given to nobody, because of `stop` */
    char less[512]; /* takes_less: why the replay ended before the log did; empty: it did not */
    /* The last file ends in a record that is not whole: it was never committed. pd_journal_open cuts it off.
     */
    int is_torn;
    char torn_file[64], torn_why[160];
    uint64_t torn_at, torn_bytes;
};

/* Gets the lane's records in order. The payload is aligned to 16 bytes and valid during the call. An error
 * ends the replay and is passed on. */
typedef pd_status (*pd_replay_fn)(void *arg, const struct pd_record *head, const void *payload, size_t n);

/* Reads the lane's files from that of the snapshot on, changes nothing. Damage other than a torn tail is an
 * error that names file, offset and what was found there, as are files that are missing or go on from
 * something else (PD_NOT_FOUND). `result` may be NULL. */
pd_status pd_journal_replay(const char *folder, int lane, const struct pd_replay_from *from, pd_replay_fn fn,
                            void *arg, struct pd_replay_result *result);
/* Has any file from `step` on, of any lane, a record? `name` is one of them then. Files that cannot be read
 * count. */
pd_status pd_journal_has_records(const char *folder, uint64_t step, int *yes, char name[64]);
/* The highest step of a file of any lane; 0 when there is none. */
pd_status pd_journal_last_file(const char *folder, uint64_t *step);
/* Removes the files of lanes from `lanes` on, and of the others those before `step`: a snapshot of that step
 * holds what they have. */
pd_status pd_journal_tidy(const char *folder, int lanes, uint64_t step);

#endif
