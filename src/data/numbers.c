/* See numbers.h. */
#include "data/numbers.h"

#include <locale.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

const uint64_t pd_numbers_ten_to[9] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000};

/* Digits from `text` on into *out; *n is how many there are. 0: they do not fit 64 bits. */
static inline int digits(const char **text, uint64_t *out, int *n)
{
    uint64_t part, all;
    int k = pd_number_digits8(*text, &all);
    *n = k;
    *out = all;
    *text += k;
    while (k == 8) {
        k = pd_number_digits8(*text, &part);
        if (k && (__builtin_mul_overflow(all, pd_numbers_ten_to[k], &all) ||
                  __builtin_add_overflow(all, part, &all)))
            return 0;
        *text += k;
        *n += k;
    }
    *out = all;
    return 1;
}

const char *pd_number_u64_any(const char *text, uint64_t *out)
{
    int n, is_negative = *text == '-';
    text += is_negative || *text == '+';
    if (!digits(&text, out, &n) || n == 0) return NULL;
    if (is_negative) {
        if (*out > (uint64_t)1 << 63) return NULL;
        *out = 0 - *out;
    }
    return text;
}

/* ---- floats ---- */

static locale_t c_locale;

static void make_locale(void)
{
    c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

/* What is rare: the C library does it, on a copy that ends. */
static const char *float_slowly(const char *text, float *out)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    char copy[256], *end;
    size_t n = 0;
    pthread_once(&once, make_locale);
    while (n < sizeof copy - 1 && text[n] > ' ')
        n++;
    if (n == 0 || n == sizeof copy - 1) return NULL;
    memcpy(copy, text, n);
    copy[n] = 0;
    *out = c_locale ? strtof_l(copy, &end, c_locale) : strtof(copy, &end);
    return end == copy ? NULL : text + (end - copy);
}

/* m * 10^e rounded once, where that is so; 0: it may not be. */
static int scale(uint64_t m, int e, float *out)
{
    static const float small[] = {1e0f, 1e1f, 1e2f, 1e3f, 1e4f, 1e5f, 1e6f, 1e7f, 1e8f, 1e9f, 1e10f};
    static const double large[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                   1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    if (m < (1u << 24) && e >= -10 && e <= 10) { /* both are floats, so that one operation rounds */
        *out = e < 0 ? (float)m / small[-e] : (float)m * small[e];
        return 1;
    }
    if (m >= (uint64_t)1 << 53 || e < -22 || e > 22) return 0;
    double d = e < 0 ? (double)m / large[-e] : (double)m * large[e];
    uint64_t bits;
    memcpy(&bits, &d, sizeof bits);
    /* Rounded twice, to a double and to a float: wrong at most where the double lies just between two floats.
     */
    if ((bits & 0x1FFFFFFF) == 0x10000000 || d > 3.4e38 || (d < 1.2e-38 && m)) return 0;
    *out = (float)d;
    return 1;
}

const char *pd_number_float_any(const char *text, float *out)
{
    const char *p = text;
    int is_negative = *p == '-', whole, after = 0, power = 0, unused;
    uint64_t m, more, e;
    p += is_negative || *p == '+';
    if (!digits(&p, &m, &whole)) return float_slowly(text, out);
    if (whole == 0) m = 0;
    if (*p == '.') {
        p++;
        if (!digits(&p, &more, &after) || whole + after > 19) return float_slowly(text, out);
        for (int left = after; left > 0; left -= 8)
            m *= pd_numbers_ten_to[left < 8 ? left : 8];
        if (after) m += more;
    }
    if (whole + after == 0 || (whole == 1 && m == 0 && (*p | 32) == 'x')) return float_slowly(text, out);
    if ((*p | 32) == 'e') {
        const char *q = p + 1;
        int falls = *q == '-';
        q += falls || *q == '+';
        if (!digits(&q, &e, &unused) || (unused && e > 1000)) return float_slowly(text, out);
        if (unused) { /* else the 'e' is no part of it */
            power = falls ? -(int)e : (int)e;
            p = q;
        }
    }
    if (!scale(m, power - after, out)) return float_slowly(text, out);
    if (is_negative) *out = -*out;
    return p;
}
