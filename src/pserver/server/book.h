/* The book of trainers: what a server as a whole knows of each of them. Which process stands for it, whether
 * it has ended, how many connections it has, why it was hung up on, whether it is known how it was lost.
 *
 * What only one loop needs is with that loop (struct member), what a step needs with the shard, and what all
 * servers have agreed on with the order: each of them without a lock of the others. One lock here, and the
 * disk may hold who has it: the main thread asks only what needs none.
 *
 * An id is taken by the first OPEN of a process and given up by nobody's handshake. With a folder
 * (FLAGS_ps_dir) the book is kept in the file `trainers` there, a line for each change, so that a server that
 * was killed does not wait for trainers that had ended before, and misses those that were in the job and do
 * not come back. What the file says of them holds once a process that it knows comes back; where all have
 * ended, when nobody has come for a while. Other processes may be another run of the job in the same folder,
 * and all of them are waited for; but when there is one for each that had not ended, the others have half of
 * the deadline to come, too. */
#ifndef PD_PSERVER_BOOK_H
#define PD_PSERVER_BOOK_H

#include "pserver/shard/shard.h"

struct lane;
struct pd_book;
struct pd_durable_config;
struct pd_hello;
struct pd_server;

enum { PD_BOOK_REFUSAL = 256, PD_BOOK_LOSS = 1000 }; /* bytes of a text */

/* For as many trainers as the server's config says. */
pd_status pd_book_new(struct pd_server *server, struct pd_book **out);
/* Before the lanes run: what the folder knows of trainers that were in the job, or have ended. */
pd_status pd_book_open(struct pd_book *book, const struct pd_durable_config *config);
void pd_book_close(struct pd_book *book, int is_over); /* is_over: nobody needs the file any more */
void pd_book_free(struct pd_book *book);               /* NULL is fine */

/* ---- on a lane's thread ---- */

/* An OPEN of this process. *id is its trainer; PD_EXISTS when another one is there. */
pd_status pd_book_claim(struct lane *lane, const struct pd_hello *hello, int says_beside, int *id);
/* One of its connections has ended. 1: nobody has one any more. */
int pd_book_release(struct pd_book *book, int id);
/* DONE or LOST. `step`: the last one that counts it. */
void pd_book_leave(struct pd_book *book, int id, enum pd_trainer_state how, uint64_t step);
/* Now and then: those who had ended, and do not come with the others again, are waited for no longer. */
void pd_book_settle(struct pd_book *book, int64_t now);
/* Before this server was started; it has not come since. */
int pd_book_had_ended(struct pd_book *book, int id);
/* Has it a connection, on whichever lane? *incarnation: the process that stands for it. */
int pd_book_is_here(struct pd_book *book, int id, uint64_t *incarnation);
/* This server has hung up on it, and told it why; empty: it is back. */
void pd_book_note_refusal(struct pd_book *book, int id, const char *why);
void pd_book_refusal(struct pd_book *book, int id, char why[PD_BOOK_REFUSAL]);
/* It failed or was lost, and the others go on, if there are any. A text without a reason does not replace one
 * that has it: other servers tell none. 1: no reason was known. */
int pd_book_note_loss(struct pd_book *book, int id, const char *text, int has_reason);
int pd_book_knows_why(struct pd_book *book, int id); /* such a text with a reason is noted of its process */
/* The server is in this job from now on. An error when it has run in another one. */
pd_status pd_book_set_job(struct pd_book *book, uint64_t job);

/* ---- on any thread ---- */

int pd_book_connections(const struct pd_book *book); /* of all trainers, on all lanes */
int pd_book_has_met(const struct pd_book *book);     /* has a trainer come since this server was started? */
/* Has every trainer ended, or is lost? The file may not have that yet. */
int pd_book_all_left(const struct pd_book *book);
int pd_book_has_done(struct pd_book *book); /* has a trainer done its work? */
/* The last one that failed or was lost, and how; empty: none. When the lanes are gone. */
const char *pd_book_last_loss(const struct pd_book *book);

#endif
