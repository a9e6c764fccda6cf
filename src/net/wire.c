/* See wire.h. Bytes are put together one by one, so that neither alignment nor the host's byte order matters.
 */
#include "net/wire.h"

#include <string.h>

static uint64_t read_number(struct pd_reader *r, size_t n)
{
    const uint8_t *at = pd_read_bytes(r, n);
    uint64_t value = 0;
    if (!at) return 0;
    for (size_t i = 0; i < n; i++)
        value |= (uint64_t)at[i] << (8 * i);
    return value;
}

uint8_t pd_read_u8(struct pd_reader *r)
{
    return (uint8_t)read_number(r, 1);
}

uint16_t pd_read_u16(struct pd_reader *r)
{
    return (uint16_t)read_number(r, 2);
}

uint32_t pd_read_u32(struct pd_reader *r)
{
    return (uint32_t)read_number(r, 4);
}

uint64_t pd_read_u64(struct pd_reader *r)
{
    return read_number(r, 8);
}

int64_t pd_read_i64(struct pd_reader *r)
{
    return (int64_t)read_number(r, 8);
}

double pd_read_f64(struct pd_reader *r)
{
    uint64_t bits = read_number(r, 8);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

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

static void put_number(struct pd_buf *b, uint64_t value, size_t n)
{
    uint8_t bytes[8];
    for (size_t i = 0; i < n; i++)
        bytes[i] = (uint8_t)(value >> (8 * i));
    pd_buf_add(b, bytes, n);
}

void pd_put_u8(struct pd_buf *b, uint8_t v)
{
    put_number(b, v, 1);
}

void pd_put_u16(struct pd_buf *b, uint16_t v)
{
    put_number(b, v, 2);
}

void pd_put_u32(struct pd_buf *b, uint32_t v)
{
    put_number(b, v, 4);
}

void pd_put_u64(struct pd_buf *b, uint64_t v)
{
    put_number(b, v, 8);
}

void pd_put_i64(struct pd_buf *b, int64_t v)
{
    put_number(b, (uint64_t)v, 8);
}

void pd_put_f64(struct pd_buf *b, double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    put_number(b, bits, 8);
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
