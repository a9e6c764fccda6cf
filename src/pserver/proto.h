/* The messages between trainers and servers, on top of net/frame.h. docs/PROTOCOL.md describes them for
 * others.
 *
 * Numbers are little-endian; a text has its length before it (u16). `step` and `request` stand in the frame's
 * head.
 *
 * Who receives what:
 *   a server, from trainers                  the table `kinds` of server/session.c; one that has no Program
 *                                            yet: server/empty.c (BRING)
 *   a server, from other servers and tools   `answer` of server/control.c, which hands on to order_link.c,
 *                                            sums_link.c or status.c
 *   a server, from the first server, or      `on_done` of server/first_link.c, which hands on to
 *   from the one that adds norms             pd_order_first_said (order_link.c) or pd_sums_first_said
 *                                            (sums_link.c)
 *   a trainer                                `on_done` of client/client.c (OPENED, NOTICE, FAILED, HERE,
 *                                            KEPT, AWAITED), else client/client_ask.c; while it brings a
 *                                            Program: client/bring.c
 *   a tool                                   status_fetch.c (REPORT) */
#ifndef PD_PSERVER_PROTO_H
#define PD_PSERVER_PROTO_H

#include <stddef.h>
#include <stdint.h>

enum pd_ps_type {
    /* Trainer to server. */
    PD_PS_OPEN =
        16,             /* which gradients it will push and which values it will pull: u32 n, then n times
                           {u8 is_pull, text name, u8 kind, u8 dtype, u8 rank, i64 dim[rank]}; kind 0: not known */
    PD_PS_PUSH = 17,    /* parts of gradients: u32 n, n times {u32 unit, u32 part, u64 rows}; rows is 0 for a
                           dense part, else the payload holds the row numbers (i64), then the rows. With
                           PD_PS_END: u32 m, m times u32 value; extra: step of the next snapshot */
    PD_PS_PULL = 18,    /* u32 m, m times u32 value */
    PD_PS_ROWS = 19,    /* some rows of a value: u32 value, u64 n; payload: n row numbers (i64) */
    PD_PS_BYE = 20,     /* u8 failed, text why */
    PD_PS_BEAT = 21,    /* still there: text whom it waits for (may be missing); with a request: say HERE */
    PD_PS_SAVE = 22,    /* u32 value, u32 part, u32 parts, u64 save, text folder: write the value to
                           <folder>/<its name>_<part>, on your disk, as one of so many parts of this save;
                           answered by DONE or FAILED. parts 0: write nothing, give me the number of a new
                           save. Written beside first; with PD_PS_PLACE it gets that name */
    PD_PS_STATUS = 23,  /* tool to server: what do you hold, whom do you know; with PD_PS_AS_JSON as JSON */
    PD_PS_SUM = 24,     /* server to first server: text group, u32 server, u32 servers, u32 n, n f64 */
    PD_PS_ORDER = 25,   /* the next three: server to first server (order.h). step: committed; members: u32 n,
                           n times {u8 state, u64 incarnation} */
    PD_PS_WANT = 26,    /* u32 trainer, u8 state, u64 incarnation; text why it failed (may be missing) */
    PD_PS_READY = 27,   /* step; extra: version of the membership */
    PD_PS_PROGRAM = 28, /* trainer to server, before the first OPEN: what it trains (job_text.h) */
    PD_PS_JOB = 29,     /* trainer to server: u64 id of the job that it is in from now on */
    PD_PS_COMMON = 30,  /* trainer to server: step of the newest snapshot that all servers have */
    PD_PS_KNOWN = 31, /* server to first server: it has taken in and kept all changes of membership up to the
                         version in extra, and waits for nobody who has left */
    /* Server to trainer; `request` is that of the message it answers. */
    PD_PS_OPENED = 32,  /* u64 step applied, u64 step applied for this trainer, u32 n, n times u32 number in
                           the order of the OPEN; 0xffffffff: another loop of this server has it; then u64 id
                           of its job (0: none yet), u8 PD_PS_JOB_*, u64 number of a snapshot less its step;
                           step: the last one that counts this trainer; extra: the trainer's id */
    PD_PS_VALUES = 33,  /* values in the order asked for, raw; step: the last one applied; extra: step of
                           the next snapshot, 0: none */
    PD_PS_DONE = 34,    /* step: the number of the new save, where a SAVE asked for one */
    PD_PS_FAILED = 35,  /* u32 status, text */
    PD_PS_NOTICE = 36,  /* text: whom the server waits for */
    PD_PS_REPORT = 37,  /* to STATUS; payload: its text */
    PD_PS_SUMMED = 38,  /* u32 n, n f64 */
    PD_PS_MEMBERS = 39, /* to ORDER. step: committed; extra: version; members as there; flag RUNS */
    PD_PS_CHANGED = 40, /* as WANT; step: the last one before it; extra: version */
    PD_PS_COMMIT = 41,  /* step */
    PD_PS_HERE = 42,    /* to BEAT with a request */
    PD_PS_KEPT = 43,    /* unasked. step: that of its newest snapshot */
    PD_PS_HEARD = 44,   /* to KNOWN; extra as there */
    /* Trainer 0 to a server that has no Program: u64 n; payload: a Program of n bytes that makes its
       variables, then the one that serves; answered by DONE or FAILED. */
    PD_PS_BRING = 45,
    /* Trainer to the first loop of the first server: text name (PD_PS_MEET_NAME bytes at most), u64 round (0:
       the open one). Payload: what it gives, PD_PS_MEET_MOST bytes at most, none with PD_PS_BARRIER. Answered
       by MET when all trainers have given to that round, or by FAILED, and the connection stays */
    PD_PS_MEET = 46,
    /* step: the round; u32 n, n times {u32 trainer, u64 bytes}, trainers rising; payload: the bytes in that
       order. Of a barrier: neither */
    PD_PS_MET = 47,
    /* Unasked, to a trainer at a meeting. step: the one that others have ended, and wait for it in; 0: they
       train on, so that it is to be patient */
    PD_PS_AWAITED = 48,
};

enum {
    PD_PS_END =
        1, /* flag of PUSH: the trainer's last of this step; answered by VALUES when the step is applied */
    PD_PS_PASS =
        2, /* flag of PUSH, with END: the trainer gives nothing to this step and is not averaged over */
    PD_PS_ASIDE = 4,        /* ... with PASS: because it is at a meeting */
    PD_PS_PARTS = 1,        /* flag of OPENED: async, parts of this trainer's next step are applied */
    PD_PS_BESIDE = 1,       /* flag of OPEN: it was refused before, as another process had its id */
    PD_PS_JOB_HOLDS = 1,    /* in OPENED: the server has gradients */
    PD_PS_JOB_BARE = 2,     /* ... its folder knew the job when it started, and had no state of it */
    PD_PS_JOB_FORGETS = 4,  /* ... it has no folder */
    PD_PS_JOB_ASYNC = 8,    /* ... each trainer has steps of its own there */
    PD_PS_JOB_CHANGED = 16, /* ... its last step was done by other rules than it has now */
    PD_PS_JOB_CHECKS = 32,  /* ... it refuses gradients with NaN or Inf */
    PD_PS_JOB_LOGGED = 64,  /* ... what it started with is all that it ever acknowledged: it had a log */
    PD_PS_HALFWAY = 2,      /* in BYE: it is done, but servers have a part of a step that it did not end */
    PD_PS_PLACE = 1,        /* flag of SAVE: all parts are written */
    PD_PS_TELLS = 1,        /* flag of DONE to BYE: this server tells the others, also those that are down */
    PD_PS_BARRIER = 1,      /* flag of MEET: it gives nothing, and wants to know only that all are there */
    PD_PS_AS_JSON = 1,      /* flag of STATUS */
    PD_PS_TOTALS = 1,       /* flag of SUM: these are the sums already */
    PD_PS_RUNS = 1,         /* flag of MEMBERS: a step was committed since the first server started */
    PD_PS_BRINGS = 0xffff,  /* the loop that a HELLO asks for which is to bring a Program */
    PD_PS_PART = 512 << 10, /* bytes of a part at most (one row at least) */
    PD_PS_ROWS_MOST = 32 << 20, /* bytes of rows in one answer to ROWS at most (one row at least) */
    PD_PS_MAX_TRAINERS = 1 << 16,
    PD_PS_MEET_NAME = 63,
    PD_PS_MEET_MOST = 1 << 20, /* of one trainer, */
    PD_PS_MEET_ALL = 64 << 20, /* and of all, to one round */
    PD_PS_FRESH = 3,           /* notices, after which what somebody said of his waiting is old */
    PD_PS_TEXT_MOST = 2047,    /* bytes of the text of FAILED and NOTICE, which may name many trainers */
    PD_PS_WHY_MOST = 767,      /* ... of BYE, */
    PD_PS_WHOM_MOST = 511,     /* and of BEAT */
};

/* Rows of this many bytes in a part at most. A dense gradient without elements has one part, of no bytes. */
static inline size_t pd_ps_rows_a_part(size_t row)
{
    return row > PD_PS_PART ? 1 : PD_PS_PART / (row ? row : 1);
}

#endif
