/* Reading and writing the small structured part of a frame: fixed-width little-endian numbers and short
 * texts.
 *
 * A reader never goes past its end: after a bad read every further one gives 0 and `bad` stays set, so that a
 * parser checks once. A writer is a pd_buf (base/buf.h), which keeps its failure the same way. */
#ifndef PD_NET_WIRE_H
#define PD_NET_WIRE_H

#include <stdint.h>

#include "base/buf.h"

struct pd_reader {
    const uint8_t *at, *end;
    int bad;
};

/* Byte by byte, so that neither alignment nor the host's byte order matters. */
static inline void pd_le_put(uint8_t *at, uint64_t value, size_t n)
{
    for (size_t i = 0; i < n; i++)
        at[i] = (uint8_t)(value >> (8 * i));
}

static inline uint64_t pd_le_get(const uint8_t *at, size_t n)
{
    uint64_t value = 0;
    for (size_t i = 0; i < n; i++)
        value |= (uint64_t)at[i] << (8 * i);
    return value;
}

static inline struct pd_reader pd_reader_of(const void *bytes, size_t n)
{
    const uint8_t *at = n ? bytes : (const void *)""; /* nothing at all may come as NULL */
    return (struct pd_reader){at, at + n, 0};
}
uint8_t pd_read_u8(struct pd_reader *r);
uint16_t pd_read_u16(struct pd_reader *r);
uint32_t pd_read_u32(struct pd_reader *r);
uint64_t pd_read_u64(struct pd_reader *r);
int64_t pd_read_i64(struct pd_reader *r);
double pd_read_f64(struct pd_reader *r);
/* Borrowed bytes; NULL when there are fewer. */
const void *pd_read_bytes(struct pd_reader *r, size_t n);
/* A text of at most cap - 1 bytes (u16 length before it), copied and ended by zero; control characters make
 * it bad. */
void pd_read_text(struct pd_reader *r, char *out, size_t cap);
/* Everything read and nothing bad. */
int pd_reader_done(const struct pd_reader *r);

void pd_put_u8(struct pd_buf *b, uint8_t v);
void pd_put_u16(struct pd_buf *b, uint16_t v);
void pd_put_u32(struct pd_buf *b, uint32_t v);
void pd_put_u64(struct pd_buf *b, uint64_t v);
void pd_put_i64(struct pd_buf *b, int64_t v);
void pd_put_f64(struct pd_buf *b, double v);
void pd_put_text(struct pd_buf *b, const char *text); /* cut at 65535 bytes */
/* A text from anywhere as readers take it: one line, of `most` bytes at most. */
void pd_put_line(struct pd_buf *b, const char *text, size_t most);

#endif
