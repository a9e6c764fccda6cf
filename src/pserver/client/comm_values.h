/* What the exchanges of a communicator have brought: the newest of each value, for the next runs. Nothing
 * here locks or waits: the communicator's lock guards it. */
#ifndef PD_PSERVER_COMM_VALUES_H
#define PD_PSERVER_COMM_VALUES_H

#include "base/vec.h"
#include "pserver/client/client.h"

/* A value: the newest, and the one that is on its way. Until one has come, runs fetch it themselves, and an
 * exchange that asked no later than such a run was done brings nothing: it may be older. */
struct pd_brought {
    int number;
    size_t bytes;
    void *newest, *coming;
    uint64_t fetched; /* the exchange under way, or the last one, when a run had fetched it */
    int has_come;
};

struct pd_comm_values {
    PD_VEC(struct pd_brought) all;
    uint64_t exchanges; /* that asked for values */
};

void pd_comm_values_clear(struct pd_comm_values *values);

/* ---- for a run ---- */

/* Fills what `ask` wants. Always, also when it is no newer: what is filled may be of another scope, or a
 * temporary that keeps nothing. Values that no exchange has brought yet are left to `now`, which fetches
 * them. */
pd_status pd_comm_values_fill(struct pd_comm_values *values, struct pd_client *client,
                              const struct pd_ask *ask, struct pd_ask *now);
/* A run has fetched what it wanted. What an exchange brought meanwhile is what the next runs get, and so this
 * one. */
void pd_comm_values_fetched(struct pd_comm_values *values, const struct pd_ask *ask);
/* A run that exchanged by itself has values that are newer than all that are kept. */
void pd_comm_values_all_fetched(struct pd_comm_values *values);

/* ---- for an exchange ---- */

/* Asks for all values that runs have wanted, *n of them. They come to a place that only the exchange
 * touches. */
pd_status pd_comm_values_ask(struct pd_comm_values *values, struct pd_client *client, struct pd_ask *ask,
                             int *n);
/* What has come is the newest now. */
void pd_comm_values_take(struct pd_comm_values *values, int n);

#endif
