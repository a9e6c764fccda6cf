/* The trainer's side of a server that starts empty (pserver/server/empty.h). */
#ifndef PD_PSERVER_BRING_H
#define PD_PSERVER_BRING_H

#include "program/program.h"

/* Brings the server at `endpoint` the Program that makes its variables and the one that serves, unless it has
 * its Programs already. Waits for a server that is not there yet, says so, and gives up after
 * FLAGS_rpc_deadline, or when poll(arg), which may be NULL, is not 0. */
pd_status pd_bring(const char *endpoint, const struct pd_program *startup, const struct pd_program *serve,
                   int (*poll)(void *arg), void *arg);

#endif
