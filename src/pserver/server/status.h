/* What a running server tells of itself: what it holds, whom it knows, who is late.
 *
 * A tool asks the control loop. Each lane then notes its own part on its own thread, so that nothing of a
 * lane needs a lock; the control loop puts the parts together. A lane that computes for long is shown as
 * busy: the answer does not wait for it. */
#ifndef PD_PSERVER_STATUS_H
#define PD_PSERVER_STATUS_H

#include "base/buf.h"
#include "base/histogram.h"
#include "base/vec.h"
#include "net/conn.h"
#include "pserver/server/lane_counts.h"
#include "pserver/shard/table.h"

struct lane;
struct pd_lane_report;
struct pd_server;
struct pd_status_desk;

/* ---- the server's side; on the control loop unless told otherwise ---- */

pd_status pd_status_desk_new(struct pd_server *server, struct pd_loop *loop, struct pd_status_desk **out);
/* Answers with a REPORT soon: text for people, or JSON. One question of a connection at a time. */
pd_status pd_status_ask(struct pd_status_desk *desk, struct pd_conn *conn, uint64_t request, int as_json);
/* The parts for whoever else shows them: fn is called once, on the control loop, and borrows them. */
pd_status pd_status_gather(struct pd_status_desk *desk,
                           void (*fn)(void *arg, const struct pd_lane_report *lanes, double uptime_s),
                           void *arg);
/* The connection is closed. */
void pd_status_forget(struct pd_status_desk *desk, struct pd_conn *conn);
/* After all loops were freed. NULL is fine. */
void pd_status_desk_free(struct pd_status_desk *desk);

/* ---- for status*.c and what else shows them ---- */

struct pd_trainer_report {
    int trainer, state; /* enum pd_trainer_state */
    int is_connected, waits, is_late;
    double away_s; /* since its connection broke */
    uint64_t step, in, out;
    uint32_t pid;
    char host[64], peer[80], transport[8];
};

struct pd_table_report {
    const char *name; /* lasts as long as the server */
    int64_t rows;     /* -1: it is no table of rows by id */
    uint64_t bytes;
    struct pd_table_tally tally;
};

struct pd_lane_report {
    int is_known; /* 0: the lane has not answered in time */
    int parameters;
    uint64_t bytes, step, repeated, refused;
    int64_t rows;           /* of tables of rows by id; -1: there are none */
    uint64_t held;          /* bytes of room for dense gradients */
    double cpu_s, waited_s; /* the present step has waited so long for those that are late */
    PD_VEC(struct pd_trainer_report) trainers;
    PD_VEC(struct pd_table_report) tables;
    struct pd_lane_counts counts;
    struct pd_histogram syncs; /* of the log */
};

/* A trainer over all lanes. */
struct pd_trainer_line {
    const struct pd_trainer_report *any; /* of a lane where it is connected, if there is one */
    const char *state;
    double late_s, away_s;
    uint64_t step, in, out;
};

/* The server: its lanes put together. */
struct pd_status_whole {
    struct pd_server *server;
    const struct pd_lane_report *lanes;
    double uptime_s, waited_s;
    int n_known, parameters, failed;
    uint64_t bytes, step, applied, repeated, refused, memory;
    int64_t rows; /* of tables of rows by id; -1: there are none */
    double cpu_s;
    char failure[1024];
    PD_VEC(struct pd_trainer_line) trainers;
};

/* 0: memory is short. `lanes` are borrowed until it is freed. */
int pd_status_join(struct pd_server *server, double uptime_s, const struct pd_lane_report *lanes,
                   struct pd_status_whole *out);
void pd_status_whole_free(struct pd_status_whole *whole);
uint64_t pd_status_resident_bytes(void); /* of this process */
/* On the lane's thread. */
pd_status pd_lane_report_take(struct lane *lane, struct pd_lane_report *out);
void pd_lane_report_free(struct pd_lane_report *report);
/* `lanes` has the server's number of them. */
void pd_status_write(struct pd_server *server, double uptime_s, const struct pd_lane_report *lanes,
                     int as_json, struct pd_buf *out);

/* ---- the tool's side ---- */

/* Asks the server at `endpoint`; waits some seconds at most. Appends to `out`. */
pd_status pd_status_fetch(const char *endpoint, int as_json, struct pd_buf *out);

#endif
