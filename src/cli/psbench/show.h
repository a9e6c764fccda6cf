/* What psbench prints of a measurement: a line of its table, or an object of its list. */
#ifndef PADDLE_CLI_PSBENCH_SHOW_H
#define PADDLE_CLI_PSBENCH_SHOW_H

#include "cli/psbench/measure.h"

struct pd_psbench_shown {
    const char *optimizer; /* for the first line */
    double seconds;
    int rows;      /* shown so far */
    char size[32]; /* whose limits were shown last */
};

/* For pd_psbench_measure; `shown` is a struct pd_psbench_shown. */
void pd_psbench_show_row(void *shown, const struct pd_psbench_row *row);
void pd_psbench_show_json(void *shown, const struct pd_psbench_row *row);

#endif
