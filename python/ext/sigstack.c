/* A stack of its own for signal handlers.
 *
 * Kernels that oneDNN makes at run time for AVX-512 use the stack pointer as an ordinary register while they
 * run. A signal that comes in then would have its frame written into a tensor. Python's handlers run on the
 * alternate stack where there is one, so a thread gets one before its first run. */
#include "core.h"
#include <signal.h>

void core_signal_stack(void)
{
    /* Room for the frame with the widest registers, which alone takes over 11 KB, and for Python's short
     * handler. */
    static _Thread_local char room[64 << 10] __attribute__((aligned(64)));
    static _Thread_local int done;
    if (done) return;
    done = 1;
    stack_t now;
    if (sigaltstack(NULL, &now) == 0 && (now.ss_flags & SS_DISABLE)) {
        stack_t own = {.ss_sp = room, .ss_size = sizeof(room)};
        sigaltstack(&own, NULL);
    }
}
