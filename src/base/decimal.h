/* Numbers in text, read without trust in it. */
#ifndef PD_BASE_DECIMAL_H
#define PD_BASE_DECIMAL_H

#include <stdint.h>

/* The digits from `at` on, before `end` (NULL: the text ends by itself): how many they are. 0: there are
 * none, or the number is above `most`. */
static inline int pd_decimal(const char *at, const char *end, uint64_t most, uint64_t *out)
{
    uint64_t value = 0;
    int n = 0;
    for (; at + n != end && at[n] >= '0' && at[n] <= '9'; n++)
        if (__builtin_mul_overflow(value, 10u, &value) ||
            __builtin_add_overflow(value, (uint64_t)(at[n] - '0'), &value) || value > most)
            return 0;
    if (n) *out = value;
    return n;
}

#endif
