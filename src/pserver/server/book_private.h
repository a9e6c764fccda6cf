/* The inside of the book, for book.c (who comes and goes) and book_file.c (what outlives the process). */
#ifndef PD_PSERVER_BOOK_PRIVATE_H
#define PD_PSERVER_BOOK_PRIVATE_H

#include "pserver/server/book.h"
#include "pserver/server/server_private.h"

enum { BESIDE = 8 };

struct entry {
    uint64_t incarnation; /* the process that stands for it; 0: none yet */
    enum pd_trainer_state state;
    int sessions;                  /* its connections, on all lanes */
    int64_t left_at;               /* when the last of them ended */
    uint64_t refused[BESIDE];      /* the last processes that came with its id while it was there */
    int is_read;                   /* from the file: it was there before this server was started */
    uint64_t step;                 /* and, when it had left, this was the last one that counted it */
    uint64_t held;                 /* the last one that counts it in what this server was started with */
    int knows_why;                 /* how its process failed or was lost is noted */
    char hung_up[PD_BOOK_REFUSAL]; /* why it was hung up on; empty: it was not, or has come back since */
};

struct pd_book {
    struct pd_server *server;
    pthread_mutex_t lock;  /* of the entries, their file, and who sets the job's id */
    struct entry *entries; /* by trainer */
    int file;              /* -1: none */
    int syncs;
    char *path;
    int is_old;                   /* it was read, and tells of trainers; not believed yet */
    int64_t came_at;              /* when the last process came that it does not know; 0: none */
    int64_t over_at;              /* since when it runs, where all had ended before; else 0 */
    char last_loss[PD_BOOK_LOSS]; /* the last trainer that failed or was lost, and how */
    /* Read without the lock. */
    _Atomic int connections, has_met, all_left;
};

static inline int is_gone(const struct entry *entry)
{
    return entry->state == PD_TRAINER_DONE || entry->state == PD_TRAINER_LOST;
}

/* book_file.c; under the lock */
void pd_book_write(struct pd_book *book, int id); /* a line for the trainer as it is now */
void pd_book_believe(struct pd_book *book);       /* what was read holds */

#endif
