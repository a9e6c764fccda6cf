/* The last word of a process: at its very end, when its status is known, the servers of its job hear whether
 * it is done or failed. Python's own atexit comes before that and does not know the status. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "core.h"

static volatile sig_atomic_t interrupted;

static void interrupt(int number)
{
    (void)number;
    interrupted = 1;
}

static int is_interrupted(void *arg)
{
    (void)arg;
    return interrupted;
}

/* Python has taken its signal handlers along. One who is done may wait for a server that is down: Ctrl-C ends
 * that, and leaves the status as it is. */
static void leave(int status, void *arg)
{
    (void)arg;
    char why[64];
    struct sigaction ours = {.sa_handler = interrupt}, before;
    int is_set = sigaction(SIGINT, NULL, &before) == 0 && before.sa_handler == SIG_DFL &&
                 sigaction(SIGINT, &ours, NULL) == 0;
    snprintf(why, sizeof why, "its process ended with status %d", status & 255);
    pd_leave_job_at_exit((status & 255) != 0, why, is_interrupted, NULL);
    if (is_set) sigaction(SIGINT, &before, NULL);
}

PyObject *core_leave_job_at_exit(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    static int is_registered;
    pd_leave_job_prepare();
    if (!is_registered && on_exit(leave, NULL)) return PyErr_NoMemory();
    is_registered = 1;
    return Py_NewRef(Py_None);
}
