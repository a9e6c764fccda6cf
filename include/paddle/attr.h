/* Attributes of ops: typed values, as upstream's framework.proto knows them. */
#ifndef PADDLE_ATTR_H
#define PADDLE_ATTR_H

#include <stdint.h>

/* Numbers as in framework.proto. */
enum pd_attr_type {
    PD_ATTR_INT = 0,
    PD_ATTR_FLOAT = 1,
    PD_ATTR_STRING = 2,
    PD_ATTR_INTS = 3,
    PD_ATTR_FLOATS = 4,
    PD_ATTR_STRINGS = 5,
    PD_ATTR_BOOL = 6,
    PD_ATTR_BOOLS = 7,
    PD_ATTR_BLOCK = 8,
    PD_ATTR_LONG = 9,
    PD_ATTR_BLOCKS = 10,
    PD_ATTR_LONGS = 11,
};

struct pd_attr {
    enum pd_attr_type type;
    int n; /* items of a list */
    union {
        int32_t i;
        float f;
        const char *s;
        uint8_t b;
        int32_t block;
        int64_t l;
        const int32_t *ints;
        const float *floats;
        const char *const *strings;
        const uint8_t *bools;
        const int32_t *blocks;
        const int64_t *longs;
    };
};

#endif
