/* A server that starts empty: it has a port and nothing else. Trainer 0 brings it two Programs, one that
 * makes its variables and one that serves (pserver/client/bring.h); then it runs them, as if it had been
 * started with them.
 *
 * What comes is somebody else's: it is read as a file would be, and only ops that are marked for it
 * (PD_OP_ON_SERVER) are run. With FLAGS_ps_dir it is kept there, and a server that is started again needs
 * nobody to bring it again. */
#ifndef PD_PSERVER_EMPTY_H
#define PD_PSERVER_EMPTY_H

#include "program/program.h"

/* Serves until the job is over (PD_JOB_OVER), or poll(arg), which may be NULL, is not 0.
 * FLAGS_ps_wait_trainers: how long it waits for its Programs. */
pd_status pd_serve_empty(const struct pd_op_set *ops, const char *endpoint, int (*poll)(void *arg),
                         void *arg);

#endif
