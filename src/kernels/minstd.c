/* See minstd.h. The numbers of a group are the state before it times one power each, so they do not wait for
 * each other. Rounding is that of libstdc++'s generate_canonical; this file is compiled without fused
 * multiply-add. */
#include "kernels/minstd.h"

#include "kernels/clones.h"

struct pd_minstd pd_minstd_make(void)
{
    struct pd_minstd m;
    uint32_t power = 1;
    for (int i = 0; i < PD_MINSTD_SIDE; i++)
        m.power[i] = power = pd_minstd_times(power, PD_MINSTD_FACTOR);
    return m;
}

PD_CLONES static void group(const uint32_t *restrict power, uint32_t state, int n, uint32_t *restrict out)
{
    for (int i = 0; i < n; i++) {
        uint64_t p = (uint64_t)state * power[i];
        uint32_t sum = (uint32_t)(p & PD_MINSTD_MODULUS) + (uint32_t)(p >> 31),
                 less = sum - PD_MINSTD_MODULUS;
        out[i] = sum < less ? sum : less;
    }
}

uint32_t pd_minstd_words(const struct pd_minstd *m, uint32_t state, int64_t n, uint32_t *out)
{
    for (; n > 0; n -= PD_MINSTD_SIDE, out += PD_MINSTD_SIDE) {
        int part = n < PD_MINSTD_SIDE ? (int)n : PD_MINSTD_SIDE;
        group(m->power, state, part, out);
        state = pd_minstd_times(state, m->power[part - 1]);
    }
    return state;
}

PD_CLONES void pd_minstd_floats(const uint32_t *restrict word, int64_t n, float *restrict out)
{
    /* Upstream divides by 2^31 - 2 as a float, which is 2^31. */
    for (int64_t i = 0; i < n; i++)
        out[i] = (float)(int32_t)(word[i] - 1) * 0x1p-31f;
}

PD_CLONES void pd_minstd_doubles(const uint32_t *restrict word, int64_t n, double *restrict out)
{
    const double range = 2147483646.0, square = 4611686009837453316.0;
    for (int64_t i = 0; i < n; i++) {
        double low = (double)(int32_t)(word[2 * i] - 1),
               high = (double)(int32_t)(word[2 * i + 1] - 1) * range;
        out[i] = (low + high) / square;
    }
}
