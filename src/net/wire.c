/* See wire.h. */
#include "net/wire.h"

#include <string.h>

const void *pd_read_bytes(struct pd_reader *r, size_t n)
{
    if (r->bad || n > (size_t)(r->end - r->at)) {
        r->bad = 1;
        return NULL;
    }
    const uint8_t *at = r->at;
    r->at += n;
    return at;
}

void pd_read_text(struct pd_reader *r, char *out, size_t cap)
{
    size_t n = pd_read_u16(r);
    out[0] = 0;
    if (n >= cap) r->bad = 1;
    const uint8_t *at = pd_read_bytes(r, n);
    if (!at) return;
    for (size_t i = 0; i < n; i++)
        if (at[i] < 0x20 || at[i] == 0x7f) {
            r->bad = 1;
            return;
        }
    memcpy(out, at, n);
    out[n] = 0;
}

int pd_reader_done(const struct pd_reader *r)
{
    return !r->bad && r->at == r->end;
}

/* A pair that reads a number and puts one. */
#define NUMBER(suffix, type, bytes)                                                                          \
    type pd_read_##suffix(struct pd_reader *r)                                                               \
    {                                                                                                        \
        const uint8_t *at = pd_read_bytes(r, bytes);                                                         \
        return at ? (type)pd_le_get(at, bytes) : 0;                                                          \
    }                                                                                                        \
    void pd_put_##suffix(struct pd_buf *b, type v)                                                           \
    {                                                                                                        \
        uint8_t at[bytes];                                                                                   \
        pd_le_put(at, (uint64_t)v, bytes);                                                                   \
        pd_buf_add(b, at, bytes);                                                                            \
    }

NUMBER(u8, uint8_t, 1)
NUMBER(u16, uint16_t, 2)
NUMBER(u32, uint32_t, 4)
NUMBER(u64, uint64_t, 8)
NUMBER(i64, int64_t, 8)

double pd_read_f64(struct pd_reader *r)
{
    uint64_t bits = pd_read_u64(r);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

void pd_put_f64(struct pd_buf *b, double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    pd_put_u64(b, bits);
}

void pd_put_text(struct pd_buf *b, const char *text)
{
    size_t n = strlen(text);
    if (n > UINT16_MAX) n = UINT16_MAX;
    pd_put_u16(b, (uint16_t)n);
    pd_buf_add(b, text, n);
}

void pd_put_line(struct pd_buf *b, const char *text, size_t most)
{
    size_t n = strnlen(text, most);
    while (text[n] && n && ((unsigned char)text[n] & 0xc0) == 0x80) /* no half characters */
        n--;
    pd_put_u16(b, (uint16_t)n);
    for (size_t i = 0; i < n; i++)
        pd_put_u8(b, (unsigned char)text[i] < 0x20 || text[i] == 0x7f ? ' ' : (uint8_t)text[i]);
}
