/* What durable.c (life) and the other durable_*.c files share. */
#ifndef PD_PSERVER_DURABLE_PRIVATE_H
#define PD_PSERVER_DURABLE_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "pserver/store/durable.h"
#include "pserver/store/journal.h"
#include "pserver/store/snapshot.h"

/* A variable that is kept. */
struct kept {
    char *name, *whole; /* whole is NULL: not a slice */
    int64_t first_row, row_step, whole_rows;
    struct pd_value *value; /* without data: a learning rate that no step has computed yet */
    int is_setting;         /* of the script: nothing changes it (durable_settings.c) */
    double setting;         /* as the Program has it */
    int is_anew;            /* no snapshot has it: it starts as the Program made it (durable_anew.c) */
};

/* The file `layout` of a folder: durable_layout.c. */
struct pd_layout {
    struct pd_buf text;
    size_t body; /* bytes of it that say for whom the logs are */
    int exists, is_same;
    int has_log; /* every snapshot from `since` on is followed by the logs of `loops` loops */
    int loops;
    uint64_t since;
    char differs[400]; /* in what */
};

/* What a server that starts has taken up. */
struct pd_taken {
    int has_own;         /* a snapshot of this folder, by the same servers */
    int is_from_set;     /* put together from those of other servers */
    uint64_t number, id; /* of the snapshot */
    uint64_t era;        /* its own one's */
    uint64_t passed;  /* the newest snapshot, which is of other servers, and `number` is before it; else 0 */
    uint64_t broken;  /* the newest snapshot, when it is damaged and `number` is one before it; else 0 */
    char why[512];    /* what is wrong with it */
    uint64_t changes; /* of steps that the logs had whole after the snapshot */
    int is_less;      /* something that was acknowledged is not taken up: the user accepts the rollback */
    int is_moved;     /* its own snapshot is of the same servers by other names, or of some of them */
    int is_changed;   /* a setting is another one than in the snapshot */
    int is_open;      /* the snapshot has parts of a step that has not ended */
    uint64_t rules;   /* by which its last step was done; 0: not known */
    uint64_t *files;  /* by lane: the step of the file in which its log goes on */
};

/* What a snapshot is of. */
struct pd_cut {
    uint64_t number;
    uint64_t applied; /* sync: the step that it is of, */
    uint64_t least;   /* and the one of the loop that is behind */
    uint64_t changes; /* async: of all lanes */
};

struct pd_durable {
    struct pd_server *server;
    char *folder, *root;
    int lock_file;           /* of the folder; -1: none */
    uint64_t job;            /* as the folder has it; 0: it is of none yet */
    uint64_t era;            /* how often the job has gone on with another list of servers */
    int is_bare;             /* it was, at the start, and there was no state */
    struct pd_layout layout; /* as it was found */
    struct pd_taken taken;
    uint64_t rules;                  /* what this server's steps are done by: rules, settings, trainers */
    atomic_int has_done;             /* a step, since it was started */
    struct redo *redo;               /* by lane, at the start: durable_log.c */
    struct pd_durable_config config; /* strings owned */
    PD_VEC(struct kept) kept;
    struct pd_journal **journals; /* by lane; NULL: no log */
    pthread_mutex_t lock;         /* who changes the next three holds it; sync only */
    _Atomic uint64_t next;        /* step of the next cut; 0: none */
    uint64_t furthest;            /* the highest step that a lane is at, or will jump to */
    uint64_t ahead;               /* sync: by how much the number of a snapshot is past its step */
    int *stands;                  /* by lane: it has reached `next`, and holds its answers */
    int64_t last_cut;             /* when, */
    uint64_t last_cut_step;       /* and at which step */
    int64_t stood_at;             /* since when all lanes stand at `next`; 0: they do not */
    struct pd_cut last;           /* the last snapshot that was begun */
    _Atomic uint64_t last_step;   /* its number, for lanes */
    struct pd_cut sure;           /* the last one that was written */
    int64_t quiet_since; /* async, at the end: nothing has come from trainers since then; 0: not looked */
    uint64_t quiet_changes;
    _Atomic uint64_t shown;  /* sync, several servers, no log: sure.applied, for them to know; 0: none yet */
    _Atomic uint64_t common; /* ... the step of the newest that all have, as far as is known */
    _Atomic uint64_t spoilt; /* a lane could not begin a file for the cut of this step; 0: all could */
    _Atomic uint64_t grown;  /* bytes that went to the logs since the last cut */
    uint64_t log_most;       /* bytes that may; 0: any number */
    char trouble[512];       /* why the last one was not; empty: it was */
    /* Snapshots that were written, and those that were not; how long the former took. */
    _Atomic uint64_t n_written, n_failed, written_ns, written_step, written_bytes;
    int64_t writing_since;
    /* The child that writes a snapshot (durable_writer.c). */
    struct pd_snapshot_job *writing;
    pid_t child;              /* 0: none */
    uint64_t moves;           /* how far it was when it last got on, */
    int64_t moved_at, told;   /* when that was, and when it was last told that it stands still */
    pid_t lost;               /* one that was given up, and has not ended; 0: none */
    _Atomic int is_stuck;     /* one of them stands still: no cut is named */
    int is_last;              /* the server's end waits for the snapshot, and tells of its trouble */
    struct disk_watch *watch; /* durable_watch.c */
};

/* durable_folder.c: locks the folder, which is made when it is not there, moves aside what is not to be taken
 * up from it, reads which job it is of. Before anything else is read there. */
pd_status pd_durable_own_folder(struct pd_durable *durable);
/* What is wrong with a path is told with the flag that gave it. Returns `status`. */
pd_status pd_durable_blame_flag(const char *root, pd_status status);
/* Moves aside logs before a step, and snapshots between two. */
pd_status pd_durable_drop(const struct pd_durable *durable, uint64_t logs_before, uint64_t after,
                          uint64_t before, const char *why);
pd_status pd_durable_read_job(const char *folder, uint64_t *job);
pd_status pd_durable_write_job(const struct pd_durable *durable, uint64_t job);
/* durable_layout.c */
pd_status pd_layout_read(const char *folder, struct pd_layout *out);
pd_status pd_layout_compare(const struct pd_durable *durable, struct pd_layout *layout);
pd_status pd_layout_write(const struct pd_durable *durable, int has_log, uint64_t since);
/* For a snapshot within a step: the same text, by which the step was done. */
void pd_layout_put_begun(const struct pd_durable *durable, struct pd_buf *out);
/* A number for what steps are done by: rules, rates that never change, how many trainers. */
pd_status pd_layout_rules(const struct pd_durable *durable, uint64_t *rules);
/* `text` is as the snapshot has it; `differs` is empty when it is this server's. */
pd_status pd_layout_compare_begun(const struct pd_durable *durable, const char *text, char differs[400]);
void pd_layout_free(struct pd_layout *layout);
/* durable_load.c: the newest snapshot, this server's own or one put together from those of other servers. */
pd_status pd_durable_load(struct pd_durable *durable);
pd_status pd_durable_check_job(struct pd_durable *durable, const struct pd_snapshot *snapshot);
pd_status pd_durable_load_rate(struct kept *kept, const struct pd_snapshot_var *var);
/* With its schedule and its sums, and behind its number. */
void pd_durable_go_on(struct pd_durable *durable, const struct pd_snapshot *from, uint64_t number,
                      uint64_t applied);
const char *pd_durable_note(const struct pd_snapshot *snapshot, const char *key, int lane);
uint64_t pd_durable_highest(const struct pd_shard *shard, int trainers); /* async: of their steps */
/* durable_anew.c: which states of optimizers and schedules start anew, as `has` finds none in the snapshots,
 * or as they are of other optimizers than `kinds`, which is what the snapshots tell (NULL: nothing); and,
 * when all was done again, telling it. An error unless the user lets them. */
pd_status pd_anew_mark(struct pd_durable *durable, int (*has)(const void *snapshots, const struct kept *k),
                       const void *snapshots, const char *kinds, int is_own);
void pd_anew_put_kinds(const struct pd_program *program, struct pd_buf *out);
void pd_anew_add_kinds(const char *kinds, struct pd_buf *out); /* each once */
pd_status pd_anew_tell(struct pd_durable *durable);
/* durable_begun.c: steps that had not ended at the cut. First whether this server can go on with them, then
 * taking them up. */
pd_status pd_begun_check(struct pd_durable *durable, const struct pd_snapshot *snapshot);
pd_status pd_begun_take(struct pd_durable *durable, const struct pd_snapshot *snapshot);
/* durable_steps.c */
struct pd_step_range {
    uint64_t least, most; /* a push that had begun counts as its step */
};
struct pd_steps {
    PD_VEC(struct pd_step_range) trainers; /* how far those loops and servers are with them */
};
pd_status pd_steps_add(struct pd_steps *steps,
                       const struct pd_snapshot *snapshot); /* steps: zeros at first */
/* Refused where some have a step of a trainer that others lack, or have in part: `whose` snapshots they are,
 * and what helps. */
pd_status pd_steps_check(const struct pd_durable *durable, const struct pd_steps *steps, const char *whose,
                         const char *advice);
/* All loops are there: at `step` or, when it is 0 (async), at the furthest. */
void pd_steps_take(struct pd_durable *durable, const struct pd_steps *steps, uint64_t step);
void pd_steps_free(struct pd_steps *steps);
/* durable_set.c: from what the servers of before have left, if there is anything. */
pd_status pd_durable_load_set(struct pd_durable *durable);
/* Is a snapshot of these servers, or of the same ones by other names, with all parameters in their places? */
int pd_durable_is_ours(const struct pd_durable *durable, const struct pd_snapshot *snapshot);
/* The servers of the job: at least this one. */
const char *const *pd_durable_servers(const struct pd_durable *durable, int *n);
/* durable_log.c: does again what the logs have after the snapshot. */
pd_status pd_durable_replay(struct pd_durable *durable);
int pd_durable_waits(const struct pd_durable *durable, int lane);    /* has its log a step that has no END? */
int pd_durable_is_ready(const struct pd_durable *durable, int lane); /* and was all of that step there? */
/* durable_cut.c: sync: do all loops stand at one step, and has none begun the next? */
int pd_durable_is_between(const struct pd_server *server);
uint64_t pd_durable_least(const struct pd_server *server); /* the step of the loop that is behind */
/* durable_settings.c: before anything is taken up, and after all was done again. */
pd_status pd_settings_note(struct pd_durable *durable);
pd_status pd_settings_take(struct pd_durable *durable);
/* How many steps do the logs of a folder have past a snapshot in it? An error when they cannot be read. */
pd_status pd_durable_count_steps(const char *folder, uint64_t number, uint64_t id, uint64_t *steps);
/* Opens them, to go on. */
pd_status pd_durable_open_logs(struct pd_durable *durable);
enum pd_durability pd_durable_durability(const struct pd_durable *durable); /* of a log, by FLAGS_ps_log */
void pd_durable_free_redo(struct pd_durable *durable);                      /* what it has not taken */
/* durable_base.c: what was taken up becomes what this run goes on from: a snapshot, where the log has none
 * that it goes on from; and log files, or none. */
pd_status pd_durable_settle(struct pd_durable *durable);
/* durable_tables.c: what tables keep that are no variables. Is the value such a table's? */
int pd_tables_have(const struct pd_server *server, const struct pd_value *value);
int pd_tables_count(const struct pd_server *server); /* variables that a snapshot has of them */
/* Those; `names` is memory for what they are called, and stays until the snapshot is prepared. */
pd_status pd_tables_put(const struct pd_server *server, struct pd_snapshot_var *vars, struct pd_buf *names);
/* What they have goes, before snapshots are taken up: also what a model's files have given them. */
pd_status pd_tables_empty(const struct pd_durable *durable);
/* Takes up what a snapshot has of them; one that is not there is an error. */
pd_status pd_tables_load(const struct pd_durable *durable, const struct pd_snapshot *snapshot);
/* durable_write.c */
uint64_t pd_durable_id(const struct pd_durable *durable, uint64_t number); /* of a snapshot of this run */
/* What is now, as the snapshot `number`, ready to be written: durable->writing. */
pd_status pd_durable_prepare(struct pd_durable *durable, uint64_t number);
/* durable_schedule.c: learning rates and what they are computed from, at a step. */
int pd_schedule_writes(const struct pd_server *server, const char *name);
/* Does an op of this block, or of one within it, write the variable? */
int pd_program_writes(const struct pd_program *program, int block, const char *name);
struct pd_schedule_value {
    struct pd_value *value; /* borrowed */
    void *data;
};
struct pd_schedule {
    uint64_t step;
    PD_VEC(struct pd_schedule_value) values;
};
pd_status pd_schedule_save(const struct pd_durable *durable, struct pd_schedule *out); /* out: zeros */
void pd_schedule_put(const struct pd_durable *durable, const struct pd_schedule *from);
void pd_schedule_free(struct pd_schedule *schedule);
/* durable_cut.c */
int pd_durable_is_first(const struct pd_durable *durable); /* is it the first server of the job? */
/* A snapshot is begun; or, when `is_sure`, it is on the disk already. */
void pd_durable_note_cut(struct pd_durable *durable); /* one is being made, or is not due for long */
void pd_durable_set_last(struct pd_durable *durable, struct pd_cut last, int is_sure);
/* Before the lanes run: the steps that they came back with are behind them. */
pd_status pd_durable_ready(struct pd_durable *durable);
/* durable_writer.c; on the main thread */
enum pd_writer { PD_WRITER_NONE, PD_WRITER_WRITES, PD_WRITER_STUCK };
pd_status pd_writer_start(struct pd_durable *durable); /* `writing`, of last_step, in a child */
void pd_writer_write(struct pd_durable *durable);      /* the same here and now */
void pd_writer_show(struct pd_durable *durable); /* pd_durable_kept tells of the last one that was written */
void pd_writer_failed(struct pd_durable *durable, const char *why); /* there is no snapshot of last_step */
/* Looks after the child. One that stands still is named, and given up at the deadline. */
enum pd_writer pd_writer_look(struct pd_durable *durable);
/* Until the child has ended or is given up. Ctrl-C breaks it off: PD_INTERRUPTED. */
pd_status pd_writer_wait(struct pd_durable *durable);
/* durable_watch.c */
pd_status pd_durable_watch(struct pd_durable *durable); /* before anything is done on the disk */
void pd_durable_watch_end(struct pd_durable *durable);
/* Around all that touches the disk, on a lane's thread (`who` is its index) or the main one (the number of
 * lanes). */
enum disk_what { DISK_LOGS, DISK_ROTATES, DISK_MAKES, DISK_REMOVES, DISK_LOADS, DISK_BOOK };
void pd_durable_begin(struct pd_durable *durable, int who, enum disk_what what);
void pd_durable_end(struct pd_durable *durable, int who);

#endif
