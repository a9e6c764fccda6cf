/* Convolutions over one to three axes, and their gradients. A transposed convolution is the data gradient of
 * the plain one, so ops use these three passes for both.
 *
 * A pass is prepared once per shape and kept in a cache that belongs to an op; it then runs as often as
 * wanted. float32 goes to oneDNN where it is there; float64, and everything else, unrolls patches into a
 * matrix and multiplies. */
#ifndef PD_KERNELS_CONV_H
#define PD_KERNELS_CONV_H

#include <stddef.h>
#include <stdint.h>

#define PD_CONV_AXES 3

struct pd_conv {
    int axes;          /* 1, 2 or 3; the entries of unused axes are not read */
    int channels_last; /* activations are [batch, axes..., channels] instead of [batch, channels, axes...] */
    int64_t batch, in_channels, out_channels, groups;
    int64_t in[PD_CONV_AXES], out[PD_CONV_AXES], kernel[PD_CONV_AXES];
    int64_t stride[PD_CONV_AXES], dilation[PD_CONV_AXES];
    int64_t before[PD_CONV_AXES], after[PD_CONV_AXES]; /* padding */
};

/* The filter is [out_channels, in_channels / groups, kernel...] in any layout of the activations. */
enum pd_conv_pass {
    PD_CONV_FORWARD, /* (x, filter) -> y */
    PD_CONV_DATA,    /* (y's gradient, filter) -> x's gradient */
    PD_CONV_FILTER,  /* (x, y's gradient) -> filter's gradient */
};

/* Prepared passes; zeroed memory is an empty cache. */
struct pd_conv_cache {
    void *dnnl;
};
void pd_conv_cache_free(struct pd_conv_cache *cache);

struct pd_conv_job {
    enum pd_conv_pass pass;
    struct pd_conv conv;
    int is_double;
    void *dnnl;     /* belongs to the cache; NULL: the plain path */
    size_t scratch; /* bytes, aligned to 64, that the run needs */
};

/* Never fails: what oneDNN cannot do runs on the plain path. The job is good until the next prepare on this
 * cache. */
void pd_conv_prepare(struct pd_conv_cache *cache, enum pd_conv_pass pass, const struct pd_conv *conv,
                     int is_double, struct pd_conv_job *job);
void pd_conv_run(const struct pd_conv_job *job, const void *first, const void *second, void *out,
                 void *scratch);
/* The same by the plain path only, for comparison. */
void pd_conv_prepare_plain(enum pd_conv_pass pass, const struct pd_conv *conv, int is_double,
                           struct pd_conv_job *job);

/* Size of the output along an axis; <= 0: the window does not fit. */
static inline int64_t pd_conv_out_size(int64_t in, int64_t kernel, int64_t dilation, int64_t before,
                                       int64_t after, int64_t stride)
{
    int64_t room = in + before + after - (dilation * (kernel - 1) + 1);
    return room < 0 ? 0 : room / stride + 1;
}

#endif
