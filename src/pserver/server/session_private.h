/* The inside of a session, for session.c (events, pushes, answers), session_open.c (names, who it is) and
 * session_save.c (files). */
#ifndef PD_PSERVER_SESSION_PRIVATE_H
#define PD_PSERVER_SESSION_PRIVATE_H

#include "net/conn.h"
#include "pserver/proto.h"
#include "pserver/server/server_private.h"

struct part {
    uint32_t unit, part;
    uint64_t rows;
};

struct session {
    struct lane *lane;
    struct pd_conn *conn;
    int trainer;   /* -1: none yet, it has to open first */
    int64_t since; /* when it was welcomed */
    int has_told;  /* what it trains, and that is the same here */
    int is_in;     /* it has opened: it is the trainer's connection */
    int said_bye;
    int64_t out_since;    /* when another server said that it is lost; 0: none has */
    int takes_in;         /* a PUSH is coming in, to where its parts belong */
    int opens;            /* its first OPEN waits until the trainer is in the job everywhere */
    uint64_t opens_as;    /* that request, */
    struct pd_buf opened; /* and the numbers of its names */
    int leaves;           /* its BYE waits likewise */
    uint64_t leaves_as;
    int waits;         /* has ended its push and has no answer yet, */
    int64_t ended_at;  /* since then */
    int behind;        /* answers in a row that found earlier ones unsent */
    int64_t explained; /* when it said last whom it waits for itself, */
    char held_up[PD_PS_WHOM_MOST + 1];
    /* The message that is coming in. */
    PD_VEC(struct part) parts;
    PD_VEC(struct pd_span) spans;
    PD_VEC(uint32_t) pulls, wanted; /* wanted: of the push that waits for its answer, as the next is */
    PD_VEC(uint32_t) seen;          /* by unit: the number of the last message with rows of it */
    uint32_t pushes;
    PD_VEC(struct pd_span) values; /* of an answer, which may go out while another message comes in */
};

/* session.c */
/* FAILED, and the connection stays. */
void pd_session_deny(struct session *session, uint64_t request, pd_status status, const char *text);
/* session_open.c */
pd_status pd_session_compare(const struct session *session, const struct pd_message *message); /* PROGRAM */
pd_status pd_session_open(struct session *session, const struct pd_message *message);
pd_status pd_session_job(struct session *session, const struct pd_message *message);
/* session_save.c */
pd_status pd_session_save(struct session *session, const struct pd_message *message);

#endif
