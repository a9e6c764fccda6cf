/* What a server keeps on disk: snapshots cut at one step, and a log of the changes since. A server that is
 * started again with the same command takes up the newest snapshot and does the log's changes once more.
 *
 * In sync mode all servers of a job cut at the same step, which the first of them names: its answers carry
 * the step, trainers pass it on with their next push, so that every server knows it before it gets there. A
 * snapshot is written by a forked child while training goes on. docs/SERVER_FILES.md has the formats. */
#ifndef PD_PSERVER_DURABLE_H
#define PD_PSERVER_DURABLE_H

#include "pserver/server/server_private.h"

struct pd_durable;

/* Where a variable lies in the whole one, as the transpiler tells: "w.block1 w 392 784". */
struct pd_durable_config {
    const char *root;  /* folder; empty: nothing is kept */
    const char *log;   /* "", "write" or "fsync" */
    int every_seconds; /* between snapshots; 0: none by time */
    int every_steps;   /* sync: at each multiple; async: after so many, soon; 0: none by steps */
    int log_mb;        /* of logs between two snapshots, at most; 0: any */
    int keep;          /* snapshots that stay */
    int is_fresh;      /* start anew, whatever is there */
    int n_servers;
    const char *const *servers; /* endpoints of the job */
    int n_slices;
    const char *const *slices;
    const char *placing; /* of all parameters on all servers, as a number; empty: not known */
};

/* Is it the first server of the job, or the only one? */
int pd_durable_config_is_first(const struct pd_durable_config *config, const char *endpoint);
/* Before there are loops: *loops is how many there are to be, `asked` how many the user wants (0: any). Where
 * the folder has a log of another number, that holds. */
pd_status pd_durable_loops(const struct pd_durable_config *config, const char *endpoint, int asked,
                           int *loops);

/* Does the Program keep the variable from step to step? Also where nothing is on disk. */
int pd_server_keeps(const struct pd_server *server, const struct pd_var *var);
/* Before the loops start: loads what is there, opens the logs, sets the hooks. *out is NULL when nothing is
 * to be kept. */
pd_status pd_durable_open(struct pd_server *server, const struct pd_durable_config *config,
                          struct pd_durable **out);
/* Waits for a snapshot that is being written. NULL is fine. */
void pd_durable_close(struct pd_durable *durable);

/* The job that the folder is of is this one from now on. Under the server's lock. NULL is fine. */
pd_status pd_durable_set_job(struct pd_durable *durable, uint64_t job);
/* Did the folder know the job at the start, and have no state of it? 0 for NULL. */
int pd_durable_is_bare(const struct pd_durable *durable);
/* It has other rules than what it has taken up, and has done no step by them. */
int pd_durable_is_changed(const struct pd_durable *durable);
int pd_durable_has_log(const struct pd_durable *durable); /* 0 for NULL too */
/* Has it taken up a snapshot and the log behind it, all that there was? */
int pd_durable_was_logged(const struct pd_durable *durable);
/* On a lane's thread. */
pd_status pd_durable_log(struct pd_durable *durable, int lane, const struct pd_change *change,
                         const struct pd_span *spans, int n);
pd_status pd_durable_commit(struct pd_durable *durable, int lane);
int pd_durable_applied(struct pd_durable *durable, int lane,
                       uint64_t step); /* 1: the lane waits for the cut */
/* The lane is about to be at this step without all that lie before it: no cut is taken up to there. NULL is
 * fine. */
void pd_durable_jump(struct pd_durable *durable, uint64_t step);
/* The step of the next cut, for answers (0: none), and what a push says of it. Any thread. */
uint64_t pd_durable_next(struct pd_durable *durable);
void pd_durable_hear(struct pd_durable *durable, uint64_t step);
uint64_t
pd_durable_ahead(const struct pd_durable *durable); /* sync: the number of a snapshot less its step */
/* With a log, for each block of a step: an error when an op there draws other numbers when it is done again.
 */
pd_status pd_durable_can_repeat(const struct pd_program *program, int block);
/* Sync, several servers, no log: the step of the newest snapshot here (0: none, or nobody need know), and of
 * the newest that all servers have, as a trainer tells: that one is kept. From any thread. */
uint64_t pd_durable_kept(const struct pd_durable *durable);
void pd_durable_hear_common(struct pd_durable *durable, uint64_t step);

/* How long its log's syncs took. On the lane's thread; NULL is fine. */
void pd_durable_syncs(const struct pd_durable *durable, int lane, struct pd_histogram *out);
/* Snapshots since the server was started. From any thread; NULL is fine. */
struct pd_durable_tally {
    uint64_t written, failed, written_ns, last_step, last_bytes;
};
void pd_durable_count(const struct pd_durable *durable, struct pd_durable_tally *out);

/* On the server's main thread, now and then: cuts when it is time, looks after the child. */
void pd_durable_tend(struct pd_durable *durable);
/* The server is to end: trainers are brought to a halt at the end of a step, of which sync mode has a
 * snapshot; pd_durable_is_idle tells when that is through. *begun is 0 when lanes are still busy: call it
 * again. NULL is fine. */
void pd_durable_end_soon(struct pd_durable *durable, int *begun);
int pd_durable_is_idle(struct pd_durable *durable);
int pd_durable_is_waited_for(struct pd_durable *durable); /* lanes stand until the child has written */
/* The user has broken the run off: so is the snapshot that is being written. NULL is fine. */
void pd_durable_break_off(struct pd_durable *durable);
/* Is a lane held by the disk, for longer than it takes to say so? Then it cannot be ended. 0 for NULL too. */
int pd_durable_is_held(const struct pd_durable *durable);
int pd_durable_is_given_up(const struct pd_durable *durable); /* the same for as long as anybody waits */
/* Around what writes the book of trainers or the job's id; whoever does holds the book's lock. NULL is fine.
 */
void pd_durable_begin_book(struct pd_durable *durable);
void pd_durable_end_book(struct pd_durable *durable);
/* The loops have ended: a last snapshot, here and now, if there is something new and no step half done. */
pd_status pd_durable_last(struct pd_durable *durable);

#endif
