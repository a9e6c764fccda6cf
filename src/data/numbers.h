/* Numbers out of text, quickly: whole ones eight digits at a time, floats without strtof where that gives the
 * same bits.
 *
 * All read from memory of which PD_NUMBERS_PAST bytes behind the text may be read, and stop at the first byte
 * that is no part of a number. They return where they stopped; NULL: there is no number, or one that does not
 * fit. */
#ifndef PD_DATA_NUMBERS_H
#define PD_DATA_NUMBERS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { PD_NUMBERS_PAST = 32 };

extern const uint64_t pd_numbers_ten_to[9];

/* Up to eight digits at `text`: their number, and how many they are. */
static inline int pd_number_digits8(const char *text, uint64_t *out)
{
    uint64_t t;
    memcpy(&t, text, 8);
    t ^= 0x3030303030303030u; /* digits become 0 to 9, all else more */
    uint64_t other = ((t + 0x7676767676767676u) | t) & 0x8080808080808080u;
    int n = other ? __builtin_ctzll(other) / 8 : 8;
    *out = 0;
    if (n == 0) return 0;
    t <<= 8 * (8 - n); /* zeros come in front; what is no digit falls off */
    t = (t * 10) + (t >> 8);
    *out = (((t & 0x000000FF000000FFu) * 0x000F424000000064u) +
            (((t >> 16) & 0x000000FF000000FFu) * 0x0000271000000001u)) >>
           32;
    return n;
}

/* Those of any form. */
const char *pd_number_u64_any(const char *text, uint64_t *out);
const char *pd_number_float_any(const char *text, float *out);

/* [0, 2^64), or a '-' and [0, 2^63] for its negative: ids have 64 bits, and who writes them may take them for
 * signed or not. What these bits do not hold is no number: it would be another id. */
static inline const char *pd_number_u64(const char *text, uint64_t *out)
{
    int n = pd_number_digits8(text, out);
    return n > 0 && n < 8 ? text + n : pd_number_u64_any(text, out);
}

/* How many numbers follow: [0, 2^31). */
static inline const char *pd_number_count(const char *text, uint32_t *out)
{
    uint64_t all;
    const char *next = pd_number_u64(text, &all);
    if (*text == '-' || *text == '+' || all > INT32_MAX) return NULL;
    *out = (uint32_t)all;
    return next;
}

/* What strtof gives in the C locale, hexadecimal, infinite and NaN too. */
static inline const char *pd_number_float(const char *text, float *out)
{
    /* Most have a digit, a point and a few digits. Both numbers are floats then, so that one division rounds.
     */
    unsigned first = (unsigned)(unsigned char)text[0] - '0';
    if (first < 10 && text[1] == '.') {
        static const float power[8] = {1e0f, 1e1f, 1e2f, 1e3f, 1e4f, 1e5f, 1e6f, 1e7f};
        uint64_t m;
        int n = pd_number_digits8(text + 2, &m);
        if (n < 8 && (text[2 + n] | 32) != 'e') {
            m += first * pd_numbers_ten_to[n];
            if (m < 1 << 24) {
                *out = (float)m / power[n];
                return text + 2 + n;
            }
        }
    }
    return pd_number_float_any(text, out);
}

#endif
