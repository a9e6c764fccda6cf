/* Rows of several arrays side by side in one array, and back: concat and split along any axis. */
#ifndef PD_KERNELS_COPY_JOIN_H
#define PD_KERNELS_COPY_JOIN_H

#include <stdint.h>

/* Row i of `whole` is row i of part 0, of part 1, ...; widths in bytes. */
struct pd_join {
    char *whole;
    char **part; /* NULL: not wanted, left out (split only) */
    const int64_t *width;
    int64_t row; /* bytes of a row of `whole` */
    int n;
};

void pd_copy_join(const struct pd_join *j, int64_t rows);
void pd_copy_part(const struct pd_join *j, int64_t rows);

#endif
