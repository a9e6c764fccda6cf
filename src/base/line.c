/* See line.h. */
#include "base/line.h"

#include <stdarg.h>
#include <stdio.h>

struct pd_line pd_line_in(char *at, size_t cap)
{
    at[0] = 0;
    return (struct pd_line){at, cap, 0};
}

void pd_line_printf(struct pd_line *line, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line->at + line->n, line->cap - line->n, format, args);
    va_end(args);
    if (n <= 0) return;
    size_t room = line->cap - line->n - 1;
    line->n += (size_t)n < room ? (size_t)n : room;
}
