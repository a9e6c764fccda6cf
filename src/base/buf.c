/* See buf.h. */
#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

int pd_buf_reserve(struct pd_buf *buf, size_t more)
{
    if (buf->failed) return 0;
    size_t need = buf->n + more + 1;
    if (need <= buf->cap) return 1;
    size_t cap = buf->cap ? buf->cap * 2 : 256;
    while (cap < need)
        cap *= 2;
    char *at = pd_realloc_array(buf->at, cap, 1);
    if (!at) {
        buf->failed = 1;
        return 0;
    }
    buf->at = at;
    buf->cap = cap;
    return 1;
}

void pd_buf_add(struct pd_buf *buf, const void *bytes, size_t n)
{
    if (!pd_buf_reserve(buf, n)) return;
    if (n) memcpy(buf->at + buf->n, bytes, n);
    buf->n += n;
    buf->at[buf->n] = 0;
}

void pd_buf_text(struct pd_buf *buf, const char *text)
{
    pd_buf_add(buf, text, strlen(text));
}

void pd_buf_printf(struct pd_buf *buf, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    if (n > 0 && pd_buf_reserve(buf, (size_t)n)) {
        vsnprintf(buf->at + buf->n, (size_t)n + 1, format, again);
        buf->n += (size_t)n;
    }
    va_end(again);
    va_end(args);
}

void pd_buf_free(struct pd_buf *buf)
{
    pd_free(buf->at);
    *buf = (struct pd_buf){0};
}
