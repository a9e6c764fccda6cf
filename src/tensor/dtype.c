/* The table of element types. */
#include "tensor/dtype.h"

size_t pd_dtype_size(enum pd_dtype dtype)
{
    switch ((int)dtype) {
#define SIZE(name, number, ctype, size, text)                                                                \
    case number:                                                                                             \
        return size;
        PD_DTYPE_MAP(SIZE)
#undef SIZE
    }
    return 0;
}

const char *pd_dtype_name(enum pd_dtype dtype)
{
    switch ((int)dtype) {
#define NAME(name, number, ctype, size, text)                                                                \
    case number:                                                                                             \
        return text;
        PD_DTYPE_MAP(NAME)
#undef NAME
    }
    return "unknown";
}
