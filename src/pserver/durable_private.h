/* What durable.c (life) and the other durable_*.c files share. */
#ifndef PD_PSERVER_DURABLE_PRIVATE_H
#define PD_PSERVER_DURABLE_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "pserver/durable.h"
#include "pserver/journal.h"
#include "pserver/snapshot.h"

/* A variable that is kept. */
struct kept {
    char *name, *whole; /* whole is NULL: not a slice */
    int64_t first_row, row_step, whole_rows;
    struct pd_value *value; /* without data: a learning rate that no step has computed yet */
};

struct pd_durable {
    struct pd_server *server;
    char *folder, *root;
    int lock_file;                   /* of the folder; -1: none */
    struct pd_durable_config config; /* strings owned */
    PD_VEC(struct kept) kept;
    struct pd_journal **journals;     /* by lane; NULL: no log */
    pthread_mutex_t lock;             /* who changes the next three holds it; sync only */
    _Atomic uint64_t next;            /* step of the next cut; 0: none */
    uint64_t furthest;                /* the highest step that a lane is at, or will jump to */
    int *stands;                      /* by lane: it has reached `next`, and holds its answers */
    int64_t last_cut;                 /* when */
    _Atomic uint64_t last_step;       /* of the last snapshot that was begun: its number */
    uint64_t last_changes;            /* async: of all lanes, at that snapshot */
    uint64_t sure_step, sure_changes; /* the same of the last one that was written */
    char trouble[512];                /* why the last one was not; empty: it was */
    /* The child that writes a snapshot (durable_writer.c). */
    struct pd_snapshot_job *job;
    pid_t child;              /* 0: none */
    uint64_t moves;           /* how far it was when it last got on, */
    int64_t moved_at, told;   /* when that was, and when it was last told that it stands still */
    pid_t lost;               /* one that was given up, and has not ended; 0: none */
    _Atomic int is_stuck;     /* one of them stands still: no cut is named */
    int is_last;              /* the server's end waits for the snapshot, and tells of its trouble */
    struct disk_watch *watch; /* durable_watch.c */
};

/* durable_folder.c: locks the folder, which is made when it is not there, and moves aside what is not to be
 * taken up from it. Before anything is read there. */
pd_status pd_durable_own_folder(struct pd_durable *durable);
/* durable_load.c: the newest snapshot, this server's own or one put together from those of other servers.
 * *step is 0 when there is none. */
pd_status pd_durable_load(struct pd_durable *durable, uint64_t *step);
/* durable_log.c: does again what the logs have after the snapshot of `step`, and opens them to go on. */
pd_status pd_durable_open_logs(struct pd_durable *durable, uint64_t step);
/* durable_schedule.c: learning rates and what they are computed from, at a step. */
int pd_schedule_writes(const struct pd_server *server, const char *name);
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
/* Before the lanes run: the steps that they came back with are behind them. */
pd_status pd_durable_ready(struct pd_durable *durable);
/* durable_writer.c; on the main thread */
enum pd_writer { PD_WRITER_NONE, PD_WRITER_WRITES, PD_WRITER_STUCK };
pd_status pd_writer_start(struct pd_durable *durable);              /* `job`, of last_step, in a child */
void pd_writer_write(struct pd_durable *durable);                   /* the same here and now */
void pd_writer_failed(struct pd_durable *durable, const char *why); /* there is no snapshot of last_step */
/* Looks after the child. One that stands still is named, and given up at the deadline. */
enum pd_writer pd_writer_look(struct pd_durable *durable);
/* Until the child has ended or is given up. Ctrl-C breaks it off: PD_INTERRUPTED. */
pd_status pd_writer_wait(struct pd_durable *durable);
void pd_writer_break_off(struct pd_durable *durable);
/* durable_watch.c */
pd_status pd_durable_watch(struct pd_durable *durable); /* before anything is done on the disk */
void pd_durable_watch_end(struct pd_durable *durable);
/* Around all that touches the disk, on a lane's thread (`who` is its index) or the main one (the number of
 * lanes). */
enum disk_what { DISK_LOGS, DISK_ROTATES, DISK_MAKES, DISK_REMOVES, DISK_LOADS };
void pd_durable_begin(struct pd_durable *durable, int who, enum disk_what what);
void pd_durable_end(struct pd_durable *durable, int who);

#endif
