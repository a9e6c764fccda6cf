/* Text into an array of fixed size, piece by piece: what has no room is left out. */
#ifndef PD_BASE_LINE_H
#define PD_BASE_LINE_H

#include <stddef.h>

struct pd_line {
    char *at;      /* borrowed; ends with a zero byte */
    size_t cap, n; /* n: of the text, below cap */
};

/* Empty at first. */
struct pd_line pd_line_in(char *at, size_t cap);
void pd_line_printf(struct pd_line *line, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
