/* Elementary functions in float32 that gcc can vectorise: no branches, no calls, no tables.
 *
 * Each has a relative error below 2e-7 against the true value over the whole range (results that are denormal
 * aside), keeps NaN, and runs to its limits at infinity. The pd_* macros at the end pick the float32 form or
 * the C library's by type, so that one formula serves float and double. Polynomials are weighted minimax fits
 * made for these intervals. */
#ifndef PD_KERNELS_EW_MATH_H
#define PD_KERNELS_EW_MATH_H

#include <math.h>
#include <stdint.h>

#define PD_EW_INLINE static inline __attribute__((always_inline, unused))

PD_EW_INLINE float pd_float_of_bits(uint32_t bits)
{
    float value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}

PD_EW_INLINE uint32_t pd_bits_of_float(float value)
{
    uint32_t bits;
    __builtin_memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* e^x = 2^n e^r with |r| <= ln2 / 2. Adding 1.5 * 2^23 rounds to the nearest integer and leaves it in the low
 * bits. The power of two is applied in two halves, so that results run smoothly into infinity and into
 * denormals. */
PD_EW_INLINE float pd_exp_f32(float x)
{
    const float magic = 12582912.0f;
    x = x > 89.0f ? 89.0f : x;
    x = x < -105.0f ? -105.0f : x;
    float shifted = x * 1.44269504f + magic;
    float n = shifted - magic;
    float r = x - n * 0.693359375f;
    r = r - n * -2.12194440e-4f;
    float p = 0.0013814599f;
    p = p * r + 0.008368717f;
    p = p * r + 0.04166839f;
    p = p * r + 0.16666521f;
    p = p * r + 0.49999994f;
    p = p * (r * r) + r + 1.0f;
    int32_t power = (int32_t)(pd_bits_of_float(shifted) - pd_bits_of_float(magic));
    int32_t half = power >> 1;
    float first = pd_float_of_bits((uint32_t)(half + 127) << 23);
    float second = pd_float_of_bits((uint32_t)(power - half + 127) << 23);
    return p * first * second;
}

/* ln x = e ln2 + ln m with m in [sqrt(1/2), sqrt(2)). */
PD_EW_INLINE float pd_log_f32(float x)
{
    float scaled = x < 1.17549435e-38f ? x * 8388608.0f : x; /* denormals */
    uint32_t bits = pd_bits_of_float(scaled) - 0x3f3504f3u;
    float e = (float)((int32_t)bits >> 23) - (x < 1.17549435e-38f ? 23.0f : 0.0f);
    float f = pd_float_of_bits((bits & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
    float p = 0.06915425f;
    p = p * f - 0.11789835f;
    p = p * f + 0.11872966f;
    p = p * f - 0.12384343f;
    p = p * f + 0.14218658f;
    p = p * f - 0.16669251f;
    p = p * f + 0.20002227f;
    p = p * f - 0.24999987f;
    p = p * f + 0.3333331f;
    float square = f * f;
    float y = p * f * square + e * -2.12194440e-4f;
    y = y - 0.5f * square;
    y = y + f + e * 0.693359375f;
    y = x < INFINITY ? y : x; /* infinity and NaN stay */
    y = x > 0.0f ? y : (x == 0.0f ? -INFINITY : NAN);
    return x != x ? x : y;
}

/* ln(1 + x) for x >= 0; the last term brings back what 1 + x rounded away. */
PD_EW_INLINE float pd_log1p_f32(float x)
{
    float u = 1.0f + x;
    return pd_log_f32(u) + (x < 1.0e30f ? (x - (u - 1.0f)) / u : 0.0f);
}

/* ln(1 + e^x) without overflow. */
PD_EW_INLINE float pd_softplus_f32(float x)
{
    return x > 0 ? x + pd_log1p_f32(pd_exp_f32(-x)) : pd_log1p_f32(pd_exp_f32(x));
}

PD_EW_INLINE double pd_softplus_f64(double x)
{
    return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}

PD_EW_INLINE float pd_sigmoid_f32(float x)
{
    return 1.0f / (1.0f + pd_exp_f32(-x));
}

/* An odd polynomial up to 1, the exponential form above it. */
PD_EW_INLINE float pd_tanh_f32(float x)
{
    float a = x < 0.0f ? -x : x;
    float z = x * x;
    float p = 0.00012285826f;
    p = p * z - 0.000846645f;
    p = p * z + 0.0030874521f;
    p = p * z - 0.008602501f;
    p = p * z + 0.021788118f;
    p = p * z - 0.05395393f;
    p = p * z + 0.1333321f;
    p = p * z - 0.33333328f;
    float near = x + x * z * p;
    float far = 1.0f - 2.0f / (pd_exp_f32(2.0f * a) + 1.0f);
    far = x < 0.0f ? -far : far;
    return a < 1.0f ? near : far;
}

PD_EW_INLINE double pd_sigmoid_f64(double x)
{
    return 1.0 / (1.0 + exp(-x));
}

#define pd_exp(x) _Generic((x), float : pd_exp_f32, double : exp)(x)
#define pd_log(x) _Generic((x), float : pd_log_f32, double : log)(x)
/* Arguments are not negative. */
#define pd_log1p(x) _Generic((x), float : pd_log1p_f32, double : log1p)(x)
#define pd_softplus(x) _Generic((x), float : pd_softplus_f32, double : pd_softplus_f64)(x)
#define pd_tanh(x) _Generic((x), float : pd_tanh_f32, double : tanh)(x)
#define pd_sigmoid(x) _Generic((x), float : pd_sigmoid_f32, double : pd_sigmoid_f64)(x)
#define pd_sqrt(x) _Generic((x), float : sqrtf, double : sqrt)(x)
#define pd_abs(x) _Generic((x), float : fabsf, double : fabs)(x)
#define pd_erf(x) _Generic((x), float : erff, double : erf)(x)
#define pd_pow(x, y) _Generic((x), float : powf, double : pow)(x, y)

#endif
