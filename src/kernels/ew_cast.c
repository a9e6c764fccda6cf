/* See ew_cast.h. Float16 goes by way of float32, block by block. */
#include "kernels/ew_cast.h"

#include <string.h>

#include "base/parallel.h"
#include "kernels/ew_math.h"

#define GRAIN 32768
#define BLOCK 256

typedef void (*cast_kernel)(void *to, const void *from, int64_t n);

/* Numbers that an integer cannot hold go to its nearest end, NaN to 0: plain C leaves them undefined. */
#define CLAMP(v, lo, hi) ((v) >= (lo) ? ((v) <= (hi) ? (v) : (hi)) : (v) < (lo) ? (lo) : 0)
#define TO_i32(v) (int32_t) CLAMP(v, -2147483648.0, 2147483647.0)
#define TO_i64(v)                                                                                            \
    ((v) >= 9223372036854775807.0    ? INT64_MAX                                                             \
     : (v) >= -9223372036854775808.0 ? (int64_t)(v)                                                          \
     : (v) < 0                       ? INT64_MIN                                                             \
                                     : 0)

#define CAST(name, F, T, expr)                                                                               \
    static void name(void *to_, const void *from_, int64_t n)                                                \
    {                                                                                                        \
        const F *from = from_;                                                                               \
        T *to = to_;                                                                                         \
        _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++)                                                 \
        {                                                                                                    \
            const F v = from[i];                                                                             \
            to[i] = (T)(expr);                                                                               \
        }                                                                                                    \
    }

/* All targets of one source; narrow integers keep the low bits. */
#define FROM_FLOAT(f, F)                                                                                     \
    CAST(f##_f32, F, float, v)                                                                               \
    CAST(f##_f64, F, double, v)                                                                              \
    CAST(f##_i32, F, int32_t, TO_i32(v))                                                                     \
    CAST(f##_i64, F, int64_t, TO_i64(v))                                                                     \
    CAST(f##_i16, F, int16_t, TO_i32(v))                                                                     \
    CAST(f##_i8, F, int8_t, TO_i32(v))                                                                       \
    CAST(f##_u8, F, uint8_t, TO_i32(v))                                                                      \
    CAST(f##_bool, F, uint8_t, v != 0)
#define FROM_INTEGER(f, F)                                                                                   \
    CAST(f##_f32, F, float, v)                                                                               \
    CAST(f##_f64, F, double, v)                                                                              \
    CAST(f##_i32, F, int32_t, v)                                                                             \
    CAST(f##_i64, F, int64_t, v)                                                                             \
    CAST(f##_i16, F, int16_t, v)                                                                             \
    CAST(f##_i8, F, int8_t, v)                                                                               \
    CAST(f##_u8, F, uint8_t, v)                                                                              \
    CAST(f##_bool, F, uint8_t, v != 0)

FROM_FLOAT(f32, float)
FROM_FLOAT(f64, double)
FROM_INTEGER(i32, int32_t)
FROM_INTEGER(i64, int64_t)
FROM_INTEGER(i16, int16_t)
FROM_INTEGER(i8, int8_t)
FROM_INTEGER(u8, uint8_t)

static float half_to_float(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, rest = h & 0x7fffu;
    if (rest >= 0x7c00u) return pd_float_of_bits(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
    /* Moving the exponent by a product also normalises denormals. */
    float magnitude = pd_float_of_bits(rest << 13) * 0x1p112f;
    return pd_float_of_bits(sign | pd_bits_of_float(magnitude));
}

/* Rounds to nearest, ties to even. */
static uint16_t float_to_half(float v)
{
    uint32_t bits = pd_bits_of_float(v), sign = bits >> 16 & 0x8000u, rest = bits & 0x7fffffffu;
    if (rest > 0x7f800000u) return (uint16_t)(sign | 0x7e00u);
    if (rest >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u);
    if (rest < 0x38800000u) {
        /* Adding 0.5 lines the last bit up with the smallest half. */
        float moved = pd_float_of_bits(rest) + 0.5f;
        return (uint16_t)(sign | (pd_bits_of_float(moved) - pd_bits_of_float(0.5f)));
    }
    rest += 0xfffu + (rest >> 13 & 1u);
    return (uint16_t)(sign | (rest - 0x38000000u) >> 13);
}

#define ROW(f)                                                                                               \
    {                                                                                                        \
        f##_f32, f##_f64, f##_i32, f##_i64, f##_i16, f##_i8, f##_u8, f##_bool                                \
    }
static const cast_kernel kernels[PD_CAST_F16][PD_CAST_F16] = {ROW(f32), ROW(f64), ROW(i32), ROW(i64),
                                                              ROW(i16), ROW(i8),  ROW(u8),  ROW(u8)};
static const size_t sizes[PD_CAST_TYPES] = {4, 8, 4, 8, 2, 1, 1, 1, 2};

struct job {
    enum pd_cast_type to_type, from_type;
    char *to;
    const char *from;
};

static void half_part(const struct job *j, int64_t begin, int64_t end)
{
    float wide[BLOCK];
    for (int64_t at = begin; at < end; at += BLOCK) {
        int64_t n = end - at < BLOCK ? end - at : BLOCK;
        const char *from = j->from + (size_t)at * sizes[j->from_type];
        char *to = j->to + (size_t)at * sizes[j->to_type];
        if (j->from_type == PD_CAST_F16)
            for (int64_t i = 0; i < n; i++)
                wide[i] = half_to_float(((const uint16_t *)from)[i]);
        else
            kernels[j->from_type][PD_CAST_F32](wide, from, n);
        if (j->to_type == PD_CAST_F16)
            for (int64_t i = 0; i < n; i++)
                ((uint16_t *)to)[i] = float_to_half(wide[i]);
        else
            kernels[PD_CAST_F32][j->to_type](to, wide, n);
    }
}

static void part(void *arg, int64_t begin, int64_t end)
{
    const struct job *j = arg;
    if (j->from_type == PD_CAST_F16 || j->to_type == PD_CAST_F16) {
        half_part(j, begin, end);
        return;
    }
    kernels[j->from_type][j->to_type](j->to + (size_t)begin * sizes[j->to_type],
                                      j->from + (size_t)begin * sizes[j->from_type], end - begin);
}

void pd_cast(enum pd_cast_type to_type, void *to, enum pd_cast_type from_type, const void *from, int64_t n)
{
    struct job j = {to_type, from_type, to, from};
    if (to_type == from_type) {
        if (to != from && n > 0) memmove(to, from, (size_t)n * sizes[to_type]);
        return;
    }
    pd_parallel(n, GRAIN, part, &j);
}
