/* What a step gives to servers, in memory of its own, so that the run it came from can go on: the gradients
 * by their numbers (pd_client_name), and the servers that it ends on. One that is emptied keeps its memory
 * for the next step. */
#ifndef PD_PSERVER_STEP_COPY_H
#define PD_PSERVER_STEP_COPY_H

#include "base/vec.h"
#include "pserver/client/client.h"

struct pd_copied {
    int number;
    enum pd_dtype dtype;
    int is_rows, is_slice; /* as pd_client_push_rows has it */
    size_t row, bytes;     /* of one row, of all data */
    PD_VEC(int64_t) rows;
    void *data;
    size_t room;
    int times;    /* steps that gave it; merged ones, more than one */
    int brings;   /* the value whose same rows, or all of it, are to come with the answer; -1: none */
    void *answer; /* where they come; as large as the data */
    size_t answer_room;
};

struct pd_step_copy {
    PD_VEC(struct pd_copied *) items;
    int n; /* items in use: those behind them only keep memory */
    PD_VEC(char *) endpoints;
    /* NULL: nobody waits for it. Called once when its step is over, or cannot be any more, by the
     * communicator's thread or by who stops it: the copy is the caller's again. */
    void (*over)(void *arg, struct pd_step_copy *copy);
    void *arg;
    /* Then: PD_INTERRUPTED: nothing of it was sent. Other errors: servers may have a part of it. */
    pd_status outcome;
};

pd_status pd_step_copy_new(struct pd_step_copy **out);
void pd_step_copy_free(struct pd_step_copy *copy); /* NULL is fine */
void pd_step_copy_clear(struct pd_step_copy *copy);

/* `data` NULL: there is room for it, which the caller fills: the last of the items in use. */
pd_status pd_step_copy_dense(struct pd_step_copy *copy, int number, enum pd_dtype dtype, const void *data,
                             size_t bytes, size_t row);
pd_status pd_step_copy_rows(struct pd_step_copy *copy, int number, enum pd_dtype dtype, int64_t n,
                            const int64_t *rows, const void *data, size_t row, int is_slice);
pd_status pd_step_copy_ends(struct pd_step_copy *copy, int n, const char *const *endpoints);
/* Do both end on the same servers? */
int pd_step_copy_ends_as(const struct pd_step_copy *copy, const struct pd_step_copy *other);
/* Adds what another step gives: dense gradients are added up, rows come behind the others. */
pd_status pd_step_copy_add(struct pd_step_copy *copy, const struct pd_step_copy *other);
/* Each gradient by the number of steps that gave it. */
void pd_step_copy_average(struct pd_step_copy *copy);
/* Of floats; what may be merged. */
int pd_step_copy_takes(enum pd_dtype dtype);
/* The item that came last brings a value. */
pd_status pd_step_copy_brings(struct pd_step_copy *copy, int number);
/* Hands it to the client as a step of this run, which it has to outlive. */
pd_status pd_step_copy_push(const struct pd_step_copy *copy, struct pd_client *client);
/* Asks for what its items bring. */
pd_status pd_step_copy_ask(const struct pd_step_copy *copy, struct pd_client *client, struct pd_ask *ask);

#endif
