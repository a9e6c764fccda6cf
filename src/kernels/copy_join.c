/* See copy_join.h. Rows are often short (an embedding of 10 floats), so short copies are done in line. */
#include "kernels/copy_join.h"

#include <stddef.h>
#include <string.h>

#include "base/parallel.h"
#include "kernels/copy.h"

#define GRAIN (64 * 1024) /* bytes worth a thread */

/* Blocks of 16, the last one overlapping: no call and no loop over bytes. */
static inline void copy_short(char *restrict to, const char *restrict from, int64_t n)
{
    if (n >= 16) {
        if (n > 512) {
            memcpy(to, from, (size_t)n);
            return;
        }
        for (int64_t i = 0; i + 16 <= n; i += 16)
            memcpy(to + i, from + i, 16);
        memcpy(to + n - 16, from + n - 16, 16);
    } else if (n >= 8) {
        memcpy(to, from, 8);
        memcpy(to + n - 8, from + n - 8, 8);
    } else if (n >= 4) {
        memcpy(to, from, 4);
        memcpy(to + n - 4, from + n - 4, 4);
    } else {
        for (int64_t i = 0; i < n; i++)
            to[i] = from[i];
    }
}

static void join_rows(void *arg, int64_t begin, int64_t end)
{
    const struct pd_join *j = arg;
    for (int64_t r = begin; r < end; r++) {
        char *to = j->whole + r * j->row;
        for (int k = 0; k < j->n; k++) {
            copy_short(to, j->part[k] + r * j->width[k], j->width[k]);
            to += j->width[k];
        }
    }
}

static void part_rows(void *arg, int64_t begin, int64_t end)
{
    const struct pd_join *j = arg;
    for (int64_t r = begin; r < end; r++) {
        const char *from = j->whole + r * j->row;
        for (int k = 0; k < j->n; k++) {
            if (j->part[k]) copy_short(j->part[k] + r * j->width[k], from, j->width[k]);
            from += j->width[k];
        }
    }
}

void pd_copy_join(const struct pd_join *j, int64_t rows)
{
    if (rows == 1) {
        char *to = j->whole;
        for (int k = 0; k < j->n; k++) {
            pd_copy_bytes(to, j->part[k], (size_t)j->width[k]);
            to += j->width[k];
        }
        return;
    }
    pd_parallel(rows, GRAIN / (j->row + 1) + 1, join_rows, (void *)j);
}

void pd_copy_part(const struct pd_join *j, int64_t rows)
{
    if (rows == 1) {
        const char *from = j->whole;
        for (int k = 0; k < j->n; k++) {
            if (j->part[k]) pd_copy_bytes(j->part[k], from, (size_t)j->width[k]);
            from += j->width[k];
        }
        return;
    }
    pd_parallel(rows, GRAIN / (j->row + 1) + 1, part_rows, (void *)j);
}
