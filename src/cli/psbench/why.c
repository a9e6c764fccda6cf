/* See why.h. */
#include "cli/psbench/why.h"

#include <stdarg.h>
#include <stdio.h>

static char text[1200];

pd_status pd_psbench_fail(pd_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return status;
}

pd_status pd_psbench_no_memory(void)
{
    return pd_psbench_fail(PD_NO_MEMORY, "%s", pd_status_text(PD_NO_MEMORY));
}

const char *pd_psbench_why(void)
{
    return text[0] ? text : pd_error();
}
