/* Where the channels of an image are. */
#ifndef PD_OPS_LAYOUT_H
#define PD_OPS_LAYOUT_H

#include <string.h>

/* "NHWC" or "NDHWC"; everything else (NCHW, NCDHW, AnyLayout, ...) has the channels first. */
static inline int pd_layout_channels_last(const char *format)
{
    return format && (!strcmp(format, "NHWC") || !strcmp(format, "NDHWC"));
}

#endif
