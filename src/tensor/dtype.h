/* Element types. The numbers are those of upstream's framework.proto, as files hold them. */
#ifndef PD_TENSOR_DTYPE_H
#define PD_TENSOR_DTYPE_H

#include <stddef.h>
#include <stdint.h>

/* X(enum name, number, C type, bytes, name users see) */
#define PD_DTYPE_MAP(X)                                                                                      \
    X(BOOL, 0, uint8_t, 1, "bool")                                                                           \
    X(INT16, 1, int16_t, 2, "int16")                                                                         \
    X(INT32, 2, int32_t, 4, "int32")                                                                         \
    X(INT64, 3, int64_t, 8, "int64")                                                                         \
    X(FP16, 4, uint16_t, 2, "float16")                                                                       \
    X(FP32, 5, float, 4, "float32")                                                                          \
    X(FP64, 6, double, 8, "float64")                                                                         \
    X(UINT8, 20, uint8_t, 1, "uint8")                                                                        \
    X(INT8, 21, int8_t, 1, "int8")

enum pd_dtype {
    PD_DTYPE_NONE = -1, /* not known yet */
#define PD_DTYPE_ENUM(name, number, ctype, size, text) PD_DTYPE_##name = number,
    PD_DTYPE_MAP(PD_DTYPE_ENUM)
#undef PD_DTYPE_ENUM
};

/* Bytes of one element; 0 for an unknown type. */
size_t pd_dtype_size(enum pd_dtype dtype);
/* "float32"; "unknown" for a number that is none. */
const char *pd_dtype_name(enum pd_dtype dtype);

/* a + b of type T; whole numbers wrap around. */
#define PD_ADD_WRAPPING(T, a, b) ((T)0.5 != 0 ? (T)((a) + (b)) : (T)((uint64_t)(a) + (uint64_t)(b)))

/* Runs the body with T as the C type; other types fall to the return of an error by the caller's code after
 * it. */
#define PD_CASE_TYPE(number, ctype, T, ...)                                                                  \
    case number: {                                                                                           \
        typedef ctype T;                                                                                     \
        __VA_ARGS__;                                                                                         \
        break;                                                                                               \
    }
#define PD_SWITCH_FLOAT(dtype, T, ...)                                                                       \
    switch ((int)(dtype)) {                                                                                  \
        PD_CASE_TYPE(PD_DTYPE_FP32, float, T, __VA_ARGS__)                                                   \
        PD_CASE_TYPE(PD_DTYPE_FP64, double, T, __VA_ARGS__)                                                  \
    }
#define PD_SWITCH_INDEX(dtype, T, ...)                                                                       \
    switch ((int)(dtype)) {                                                                                  \
        PD_CASE_TYPE(PD_DTYPE_INT32, int32_t, T, __VA_ARGS__)                                                \
        PD_CASE_TYPE(PD_DTYPE_INT64, int64_t, T, __VA_ARGS__)                                                \
    }
/* float32, float64, int32, int64 */
#define PD_SWITCH_NUMBER(dtype, T, ...)                                                                      \
    switch ((int)(dtype)) {                                                                                  \
        PD_CASE_TYPE(PD_DTYPE_FP32, float, T, __VA_ARGS__)                                                   \
        PD_CASE_TYPE(PD_DTYPE_FP64, double, T, __VA_ARGS__)                                                  \
        PD_CASE_TYPE(PD_DTYPE_INT32, int32_t, T, __VA_ARGS__)                                                \
        PD_CASE_TYPE(PD_DTYPE_INT64, int64_t, T, __VA_ARGS__)                                                \
    }
/* all but float16 */
#define PD_SWITCH_ANY(dtype, T, ...)                                                                         \
    switch ((int)(dtype)) {                                                                                  \
        PD_CASE_TYPE(PD_DTYPE_FP32, float, T, __VA_ARGS__)                                                   \
        PD_CASE_TYPE(PD_DTYPE_FP64, double, T, __VA_ARGS__)                                                  \
        PD_CASE_TYPE(PD_DTYPE_INT32, int32_t, T, __VA_ARGS__)                                                \
        PD_CASE_TYPE(PD_DTYPE_INT64, int64_t, T, __VA_ARGS__)                                                \
        PD_CASE_TYPE(PD_DTYPE_INT16, int16_t, T, __VA_ARGS__)                                                \
        PD_CASE_TYPE(PD_DTYPE_INT8, int8_t, T, __VA_ARGS__)                                                  \
        PD_CASE_TYPE(PD_DTYPE_UINT8, uint8_t, T, __VA_ARGS__)                                                \
        PD_CASE_TYPE(PD_DTYPE_BOOL, uint8_t, T, __VA_ARGS__)                                                 \
    }

static inline int pd_dtype_is_float(enum pd_dtype d)
{
    return d == PD_DTYPE_FP32 || d == PD_DTYPE_FP64;
}
static inline int pd_dtype_is_index(enum pd_dtype d)
{
    return d == PD_DTYPE_INT32 || d == PD_DTYPE_INT64;
}

#endif
