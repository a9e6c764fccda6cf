/* A growable byte buffer, also used to build text. After a failed append `failed` stays set, so a writer
 * checks once at the end. */
#ifndef PD_BASE_BUF_H
#define PD_BASE_BUF_H

#include <stddef.h>

struct pd_buf {
    char *at; /* always followed by a zero byte when not NULL */
    size_t n, cap;
    int failed;
};

/* Bytes that lie somewhere. */
struct pd_span {
    void *at;
    size_t n;
};

/* Room for so many bytes more, which the caller fills and counts in `n`. 0: memory is short. */
int pd_buf_reserve(struct pd_buf *buf, size_t more);
void pd_buf_add(struct pd_buf *buf, const void *bytes, size_t n);
void pd_buf_text(struct pd_buf *buf, const char *text);
void pd_buf_printf(struct pd_buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));
void pd_buf_free(struct pd_buf *buf);

#endif
