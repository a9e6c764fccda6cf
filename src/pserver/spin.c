/* See spin.h. */
#include "pserver/spin.h"

#include <unistd.h>

#include "base/flags.h"

enum { USUAL_US = 50 };

int pd_spin_us(int processes)
{
    int asked = pd_flag_int(PD_FLAG_ps_spin);
    if (asked >= 0) return asked;
    return processes <= sysconf(_SC_NPROCESSORS_ONLN) ? USUAL_US : 0;
}
