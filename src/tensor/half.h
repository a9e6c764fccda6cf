/* float16 as files hold it: conversion from and to float32, to the nearest, ties to even. */
#ifndef PD_TENSOR_HALF_H
#define PD_TENSOR_HALF_H

#include <stdint.h>
#include <string.h>

static inline uint16_t pd_half_from_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) return (uint16_t)(sign | 0x7e00);  /* not a number */
    if (magnitude >= 0x477ff000) return (uint16_t)(sign | 0x7c00); /* rounds beyond the largest */
    if (magnitude < 0x33000001) return (uint16_t)sign;             /* rounds to zero */
    uint32_t mantissa, shift;
    if (magnitude < 0x38800000) { /* without the implied one */
        mantissa = (magnitude & 0x7fffff) | 0x800000;
        shift = 126 - (magnitude >> 23);
    } else {
        mantissa = magnitude - 0x38000000;
        shift = 13;
    }
    uint32_t result = mantissa >> shift, rest = mantissa & ((1u << shift) - 1), middle = 1u << (shift - 1);
    result += rest > middle || (rest == middle && (result & 1));
    return (uint16_t)(sign | result);
}

static inline float pd_half_to_float(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31, mantissa = half & 0x3ff,
             bits;
    if (exponent == 31) {
        bits = sign | 0x7f800000 | mantissa << 13;
    } else if (exponent) {
        bits = sign | (exponent + 112) << 23 | mantissa << 13;
    } else {
        float small = (float)mantissa * 0x1p-24f;
        return sign ? -small : small;
    }
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

#endif
