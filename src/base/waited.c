/* See waited.h. */
#include "base/waited.h"

#include "base/clock.h"

static _Thread_local int64_t all;

int64_t pd_waited(void)
{
    return all;
}

void pd_waited_since(int64_t begin)
{
    all += pd_clock_ns() - begin;
}
