/* Snapshots of a server: all it holds at one step, whole or not there at all.
 *
 * A server's folder is <root>/<endpoint, with '_' for ':'>; a snapshot in it is a folder snapshot-<step> with
 * two files: `data`, the raw values, and `manifest`, a text that says what lies where. It is written aside,
 * synced and renamed, so what has that name is whole. docs/SERVER_FILES.md describes the files.
 *
 * Writing is split in two, so that a forked child can do it while the server goes on (the system's copy on
 * write keeps the cut, so the data must not lie in shared mappings): pd_snapshot_prepare allocates and
 * formats, pd_snapshot_write only makes system calls. */
#ifndef PD_PSERVER_SNAPSHOT_H
#define PD_PSERVER_SNAPSHOT_H

#include <sys/types.h>

#include "base/vec.h"
#include "tensor/meta.h"

/* A variable, and where it lies in the whole one of which a server may hold only some rows: its row i is row
 * first_row + i * row_step there. */
struct pd_snapshot_var {
    const char *name;
    enum pd_dtype dtype;
    int rank;
    int64_t dim[PD_MAX_RANK];
    const void *data;
    const char *whole; /* name of the whole variable; NULL when written: it is whole itself, and the next
                          three are set */
    int64_t first_row, row_step, whole_rows; /* row_step 0 when written: 1 */
    /* Known when read. */
    uint64_t offset, bytes;
    uint32_t crc;
};

struct pd_snapshot_trainer {
    uint64_t step; /* last one applied for it */
    uint64_t incarnation;
};

/* Anything else the server wants back: the key has no '=' and no control characters, the value is any text.
 */
struct pd_snapshot_note {
    const char *key, *value;
};

/* What a snapshot says. */
struct pd_snapshot_info {
    uint64_t step;
    const char *endpoint;
    int n_servers, n_trainers, n_vars, n_notes;
    const char *const *servers; /* endpoints of the job, this one among them */
    const struct pd_snapshot_trainer *trainers;
    const struct pd_snapshot_var *vars;
    const struct pd_snapshot_note *notes;
};

/* ---- writing ---- */

struct pd_snapshot_job;

/* The folder of an endpoint below `root`. Free *out with pd_free. */
pd_status pd_snapshot_folder(const char *root, const char *endpoint, char **out);

/* Makes ready to write `info` to `folder`, which is made when it is not there. Borrows the variables' data
 * until the write has ended; copies all else. An error when that snapshot is there already (PD_EXISTS). */
pd_status pd_snapshot_prepare(const char *folder, const struct pd_snapshot_info *info,
                              struct pd_snapshot_job **out);
/* Writes it. Once for each job; no memory is allocated and no lock taken. On error nothing is left behind;
 * the message is had by pd_snapshot_result, not by pd_error. */
pd_status pd_snapshot_write(struct pd_snapshot_job *job);
/* pd_snapshot_write in a child, which blocks all signals, closes all it inherited but standard output and
 * error, and ends with the thread that called this. Status 0 of the child: written. The caller waits for the
 * child (waitpid). */
pd_status pd_snapshot_fork(struct pd_snapshot_job *job, pid_t *child);
/* How the write ended, also in a child. PD_INTERRUPTED: it has not, or was killed. `text` may be NULL. */
pd_status pd_snapshot_result(const struct pd_snapshot_job *job, const char **text);
/* Bytes of data in all, and written so far. */
uint64_t pd_snapshot_bytes(const struct pd_snapshot_job *job);
uint64_t pd_snapshot_done(const struct pd_snapshot_job *job);
/* Goes up as long as the writer gets on; syncing is a part of it. */
uint64_t pd_snapshot_moves(const struct pd_snapshot_job *job);
/* NULL is fine. A child that writes has its own. */
void pd_snapshot_job_free(struct pd_snapshot_job *job);

/* ---- a server's folder ---- */

/* Steps of its snapshots, rising. Free *steps with pd_free. A folder that is not there has none. */
pd_status pd_snapshot_list(const char *folder, uint64_t **steps, int *n);
/* Removes all but the `n` newest and the newest of those up to `also`, and what writers that were killed have
 * left. Not while a snapshot is written there. */
pd_status pd_snapshot_keep(const char *folder, int n, uint64_t also);

/* ---- reading ---- */

struct pd_snapshot;

/* Maps a snapshot and checks all the manifest says but the checksums of the data. */
pd_status pd_snapshot_open(const char *folder, uint64_t step, struct pd_snapshot **out);
/* NULL is fine. Data of its variables go with it. */
void pd_snapshot_close(struct pd_snapshot *snapshot);
const struct pd_snapshot_info *pd_snapshot_info(const struct pd_snapshot *snapshot);
/* NULL when there is no such variable. */
const struct pd_snapshot_var *pd_snapshot_find(const struct pd_snapshot *snapshot, const char *name);
/* NULL when there is no such note. */
const char *pd_snapshot_note(const struct pd_snapshot *snapshot, const char *key);
/* A note that is a number, to that base. */
uint64_t pd_snapshot_number(const struct pd_snapshot *snapshot, const char *key, int base,
                            uint64_t otherwise);
/* What a log knows it by: the note `id` or, where there is none, the checksum of the manifest. */
uint64_t pd_snapshot_id(const struct pd_snapshot *snapshot);
/* The job that it is of; 0: it does not say. */
uint64_t pd_snapshot_job_id(const struct pd_snapshot *snapshot);
/* How often its job had gone on with another list of servers. */
uint64_t pd_snapshot_era(const struct pd_snapshot *snapshot);
/* Where the slices of all parameters lie on the servers of its job, as a number; NULL: it does not say. */
const char *pd_snapshot_placing(const struct pd_snapshot *snapshot);
/* Are both the same, as far as they say? */
int pd_snapshot_same_placing(const char *a, const char *b);
/* Async: by a server that trains nothing. It counts no steps, and has all of each. */
int pd_snapshot_is_hollow(const struct pd_snapshot *snapshot);
/* Sync: it was cut within a step that nobody brought to its end. Of use to the server that wrote it. */
int pd_snapshot_is_torn(const struct pd_snapshot *snapshot);
/* The step that it is of. In async mode, where each server counts for itself, its number. */
uint64_t pd_snapshot_applied(const struct pd_snapshot *snapshot);
int pd_snapshot_is_async(const struct pd_snapshot *snapshot);
/* Reads all data and compares the checksums. */
pd_status pd_snapshot_check(const struct pd_snapshot *snapshot);

/* Do these two lists of a job's servers stand for the same servers, in the same places? Each has the name
 * that it had or, moved to another host or port, one that nobody had. */
int pd_snapshot_same_places(int n, const char *const *before, int m, const char *const *now);
/* The same names in the same order? */
int pd_snapshot_same_servers(int n, const char *const *before, int m, const char *const *now);
/* Which of the servers it is of, from 0 on; -1: none. */
int pd_snapshot_place(int n, const char *const *servers, const char *endpoint);

/* Rows of a variable (a scalar has one), and bytes of one row. */
int64_t pd_snapshot_rows(const struct pd_snapshot_var *var);
int64_t pd_snapshot_row_bytes(const struct pd_snapshot_var *var);

/* ---- the snapshots of all servers of a job ---- */

struct pd_snapshot_slice;

struct pd_snapshot_set {
    uint64_t step;     /* of what was taken; in async mode, of the furthest server */
    uint64_t era;      /* the highest of what lies below the root, without that of `but` */
    char damage[1024]; /* what is newer and was passed over, because it is damaged or not all servers have it
                        */
    PD_VEC(struct pd_snapshot *) servers;    /* in the order of the manifest */
    PD_VEC(const char *) endpoints;          /* after which their folders are named */
    int lead;                                /* the one that counts for what several of them have */
    PD_VEC(struct pd_snapshot_slice) slices; /* by whole name, then by first row */
};

#define PD_SNAPSHOT_NEWEST UINT64_MAX

/* Whose snapshots are not looked for: those of a job with just these servers (n 0: none), which have its
 * parameters in just these places (NULL: any), and those of another job than this one (0: any). */
struct pd_snapshot_but {
    int n;
    const char *const *servers;
    const char *placing;
    uint64_t job;
};

/* Opens what all servers of a job have left: of `step`, or the newest. In sync mode the snapshots of one
 * step, in async mode, where each server counts for itself, the newest of each. All of them are checked.
 * PD_NOT_FOUND: there are none; when there are some, and none of them is whole, the error is another one for
 * NEWEST. */
pd_status pd_snapshot_set_open(const char *root, uint64_t step, const struct pd_snapshot_but *but,
                               struct pd_snapshot_set **out);
/* The highest era of a snapshot below the root, without those of `but` and of servers that train nothing;
 * those that cannot be read are passed over. */
pd_status pd_snapshot_newest_era(const char *root, const struct pd_snapshot_but *but, uint64_t *era);
void pd_snapshot_set_close(struct pd_snapshot_set *set);
/* One slice of the variable of that whole name (for element type, widths and whole_rows); NULL when there is
 * none. */
const struct pd_snapshot_var *pd_snapshot_set_find(const struct pd_snapshot_set *set, const char *whole);
/* Fills `out` with `rows` rows of the whole variable, from whichever servers hold them. `bytes` is the room
 * there and must be what the rows have. */
pd_status pd_snapshot_set_read(const struct pd_snapshot_set *set, const char *whole, int64_t first_row,
                               int64_t rows, void *out, size_t bytes);

#endif
