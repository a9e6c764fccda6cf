/* Why a measurement ended: a text of its own, or the library's. A process ends with its first error. */
#ifndef PADDLE_CLI_PSBENCH_WHY_H
#define PADDLE_CLI_PSBENCH_WHY_H

#include <paddle/status.h>

#define PD_PSBENCH_TRY(call)                                                                                 \
    do {                                                                                                     \
        pd_status try_status = (call);                                                                       \
        if (try_status != PD_OK) return try_status;                                                          \
    } while (0)

/* Writes the text and returns the status. */
pd_status pd_psbench_fail(pd_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));
pd_status pd_psbench_no_memory(void);
/* That text; pd_error() where there is none. */
const char *pd_psbench_why(void);

#endif
