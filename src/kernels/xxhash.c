/* See xxhash.h. Inputs are read as little-endian words. */
#include "kernels/xxhash.h"

#include <string.h>

static const uint64_t P1 = 0x9E3779B185EBCA87u, P2 = 0xC2B2AE3D27D4EB4Fu, P3 = 0x165667B19E3779F9u,
                      P4 = 0x85EBCA77C2B2AE63u, P5 = 0x27D4EB2F165667C5u;

static uint64_t turn(uint64_t x, int bits)
{
    return x << bits | x >> (64 - bits);
}

static uint64_t word8(const unsigned char *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static uint64_t word4(const unsigned char *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static uint64_t mix(uint64_t lane, uint64_t input)
{
    return turn(lane + input * P2, 31) * P1;
}

uint64_t pd_xxhash64(const void *bytes, size_t n, uint64_t seed)
{
    const unsigned char *p = bytes, *end = p + n;
    uint64_t hash;
    if (n >= 32) {
        uint64_t lane[4] = {seed + P1 + P2, seed + P2, seed, seed - P1};
        static const int turns[4] = {1, 7, 12, 18};
        for (; end - p >= 32; p += 32)
            for (int i = 0; i < 4; i++)
                lane[i] = mix(lane[i], word8(p + 8 * i));
        hash = 0;
        for (int i = 0; i < 4; i++)
            hash += turn(lane[i], turns[i]);
        for (int i = 0; i < 4; i++)
            hash = (hash ^ mix(0, lane[i])) * P1 + P4;
    } else {
        hash = seed + P5;
    }
    hash += n;
    for (; end - p >= 8; p += 8)
        hash = turn(hash ^ mix(0, word8(p)), 27) * P1 + P4;
    for (; end - p >= 4; p += 4)
        hash = turn(hash ^ word4(p) * P1, 23) * P2 + P3;
    for (; p < end; p++)
        hash = turn(hash ^ *p * P5, 11) * P1;
    hash = (hash ^ hash >> 33) * P2;
    hash = (hash ^ hash >> 29) * P3;
    return hash ^ hash >> 32;
}
