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
    struct pd_snapshot_job *job;      /* what the child writes */
    pid_t child;                      /* 0: none */
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
/* Looks after the child that writes a snapshot, or waits for it. */
void pd_durable_reap(struct pd_durable *durable, int wait);

#endif
