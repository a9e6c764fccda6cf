/* See dnnl_conv_pass.h: activations are brought into the channels-last layout and the filter into whatever
 * layout oneDNN likes best (the fastest combination measured), all inside one call. */
#ifdef PD_WITH_ONEDNN
#include "kernels/dnnl_conv_pass.h"

#include "base/alloc.h"
#include "kernels/dnnl_lib.h"

enum { FIRST, SECOND, OUT, OPERANDS };

struct operand {
    int arg;             /* DNNL_ARG_* */
    dnnl_memory_t given; /* as the caller has it */
    dnnl_memory_t inner; /* as the primitive wants it; the same object when nothing has to be reordered */
    dnnl_primitive_t reorder;
    size_t offset; /* of the inner copy in the scratch block */
};

struct pd_dnnl_pass {
    dnnl_primitive_t primitive;
    dnnl_stream_t stream;
    struct operand operand[OPERANDS];
    dnnl_memory_t pad; /* the primitive's own scratch pad */
    size_t pad_offset, scratch;
};

void pd_dnnl_pass_free(struct pd_dnnl_pass *p)
{
    if (!p) return;
    const struct pd_dnnl_lib *d = pd_dnnl_lib();
    for (int i = 0; i < OPERANDS; i++) {
        struct operand *o = &p->operand[i];
        if (o->reorder) d->primitive_destroy(o->reorder);
        if (o->inner && o->inner != o->given) d->memory_destroy(o->inner);
        if (o->given) d->memory_destroy(o->given);
    }
    if (p->pad) d->memory_destroy(p->pad);
    if (p->stream) d->stream_destroy(p->stream);
    if (p->primitive) d->primitive_destroy(p->primitive);
    pd_free(p);
}

static dnnl_memory_desc_t describe_data(const struct pd_conv *c, int64_t channels, const int64_t *size,
                                        int last)
{
    static const dnnl_format_tag_t first_tag[] = {dnnl_ab, dnnl_abc, dnnl_abcd, dnnl_abcde};
    static const dnnl_format_tag_t last_tag[] = {dnnl_ab, dnnl_acb, dnnl_acdb, dnnl_acdeb};
    dnnl_dims_t dims = {c->batch, channels};
    for (int i = 0; i < c->axes; i++)
        dims[2 + i] = size[i];
    dnnl_memory_desc_t desc = NULL;
    pd_dnnl_lib()->memory_desc_create_with_tag(&desc, 2 + c->axes, dims, dnnl_f32,
                                               (last ? last_tag : first_tag)[c->axes]);
    return desc;
}

static dnnl_memory_desc_t describe_filter(const struct pd_conv *c, int any)
{
    static const dnnl_format_tag_t tags[] = {dnnl_abc, dnnl_abcd, dnnl_abcde, dnnl_abcdef};
    dnnl_dims_t dims;
    int rank = 0;
    if (c->groups > 1) dims[rank++] = c->groups;
    dims[rank++] = c->out_channels / c->groups;
    dims[rank++] = c->in_channels / c->groups;
    for (int i = 0; i < c->axes; i++)
        dims[rank++] = c->kernel[i];
    dnnl_memory_desc_t desc = NULL;
    pd_dnnl_lib()->memory_desc_create_with_tag(&desc, rank, dims, dnnl_f32,
                                               any ? dnnl_format_tag_any : tags[rank - 3]);
    return desc;
}

static dnnl_primitive_desc_t describe_pass(const struct pd_conv *c, enum pd_conv_pass pass)
{
    const struct pd_dnnl_lib *d = pd_dnnl_lib();
    dnnl_dims_t stride, dilate, before, after;
    for (int i = 0; i < c->axes; i++) {
        stride[i] = c->stride[i];
        dilate[i] = c->dilation[i] - 1;
        before[i] = c->before[i];
        after[i] = c->after[i];
    }
    /* The gradient of an image with a few channels is seven times faster with the channels first. */
    int last = !(pass == PD_CONV_DATA && c->in_channels <= 4);
    dnnl_memory_desc_t x = describe_data(c, c->in_channels, c->in, last);
    dnnl_memory_desc_t y = describe_data(c, c->out_channels, c->out, last);
    dnnl_memory_desc_t w = describe_filter(c, 1);
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t forward = NULL, result = NULL;
    if (x && y && w && d->primitive_attr_create(&attr) == dnnl_success &&
        d->primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user) == dnnl_success &&
        d->convolution_forward_primitive_desc_create(&forward, d->engine, dnnl_forward_training,
                                                     dnnl_convolution_direct, x, w, NULL, y, stride, dilate,
                                                     before, after, attr) == dnnl_success) {
        if (pass == PD_CONV_FORWARD) {
            result = forward;
            forward = NULL;
        } else if (pass == PD_CONV_DATA) {
            d->convolution_backward_data_primitive_desc_create(&result, d->engine, dnnl_convolution_direct, x,
                                                               w, y, stride, dilate, before, after, forward,
                                                               attr);
        } else {
            d->convolution_backward_weights_primitive_desc_create(&result, d->engine, dnnl_convolution_direct,
                                                                  x, w, NULL, y, stride, dilate, before,
                                                                  after, forward, attr);
        }
    }
    if (forward) d->primitive_desc_destroy(forward);
    if (attr) d->primitive_attr_destroy(attr);
    if (x) d->memory_desc_destroy(x);
    if (y) d->memory_desc_destroy(y);
    if (w) d->memory_desc_destroy(w);
    return result;
}

static size_t reserve(struct pd_dnnl_pass *p, size_t bytes)
{
    size_t at = p->scratch;
    p->scratch += (bytes + 63) & ~(size_t)63;
    return at;
}

/* Takes `given`. */
static int add_operand(struct pd_dnnl_pass *p, int index, int arg, dnnl_memory_desc_t given,
                       const_dnnl_memory_desc_t wanted)
{
    const struct pd_dnnl_lib *d = pd_dnnl_lib();
    struct operand *o = &p->operand[index];
    dnnl_primitive_desc_t reorder = NULL;
    o->arg = arg;
    int ok = given && wanted && d->memory_create(&o->given, given, d->engine, NULL) == dnnl_success;
    if (ok && d->memory_desc_equal(given, wanted)) {
        o->inner = o->given;
    } else if (ok) {
        const_dnnl_memory_desc_t from = index == OUT ? wanted : given, to = index == OUT ? given : wanted;
        ok = d->memory_create(&o->inner, wanted, d->engine, NULL) == dnnl_success &&
             d->reorder_primitive_desc_create(&reorder, from, d->engine, to, d->engine, NULL) ==
                 dnnl_success &&
             d->primitive_create(&o->reorder, reorder) == dnnl_success;
        if (ok) o->offset = reserve(p, d->memory_desc_get_size(wanted));
    }
    if (reorder) d->primitive_desc_destroy(reorder);
    if (given) d->memory_desc_destroy(given);
    return ok;
}

struct pd_dnnl_pass *pd_dnnl_pass_new(enum pd_conv_pass pass, const struct pd_conv *c)
{
    const struct pd_dnnl_lib *d = pd_dnnl_lib();
    struct pd_dnnl_pass *p = pd_calloc(1, sizeof *p);
    if (!p) return NULL;
    dnnl_primitive_desc_t pd = describe_pass(c, pass);
    int ok = pd && d->primitive_create(&p->primitive, pd) == dnnl_success &&
             d->stream_create(&p->stream, d->engine, dnnl_stream_default_flags) == dnnl_success;
    if (ok) {
        dnnl_memory_desc_t x = describe_data(c, c->in_channels, c->in, c->channels_last);
        dnnl_memory_desc_t y = describe_data(c, c->out_channels, c->out, c->channels_last);
        dnnl_memory_desc_t w = describe_filter(c, 0);
        switch (pass) {
        case PD_CONV_FORWARD:
            ok =
                add_operand(p, FIRST, DNNL_ARG_SRC, x, d->primitive_desc_query_md(pd, dnnl_query_src_md, 0)) &
                add_operand(p, SECOND, DNNL_ARG_WEIGHTS, w,
                            d->primitive_desc_query_md(pd, dnnl_query_weights_md, 0)) &
                add_operand(p, OUT, DNNL_ARG_DST, y, d->primitive_desc_query_md(pd, dnnl_query_dst_md, 0));
            break;
        case PD_CONV_DATA:
            ok = add_operand(p, FIRST, DNNL_ARG_DIFF_DST, y,
                             d->primitive_desc_query_md(pd, dnnl_query_diff_dst_md, 0)) &
                 add_operand(p, SECOND, DNNL_ARG_WEIGHTS, w,
                             d->primitive_desc_query_md(pd, dnnl_query_weights_md, 0)) &
                 add_operand(p, OUT, DNNL_ARG_DIFF_SRC, x,
                             d->primitive_desc_query_md(pd, dnnl_query_diff_src_md, 0));
            break;
        case PD_CONV_FILTER:
            ok =
                add_operand(p, FIRST, DNNL_ARG_SRC, x, d->primitive_desc_query_md(pd, dnnl_query_src_md, 0)) &
                add_operand(p, SECOND, DNNL_ARG_DIFF_DST, y,
                            d->primitive_desc_query_md(pd, dnnl_query_diff_dst_md, 0)) &
                add_operand(p, OUT, DNNL_ARG_DIFF_WEIGHTS, w,
                            d->primitive_desc_query_md(pd, dnnl_query_diff_weights_md, 0));
            break;
        }
    }
    if (ok) {
        const_dnnl_memory_desc_t pad = d->primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
        ok = d->memory_create(&p->pad, pad, d->engine, NULL) == dnnl_success;
        if (ok) p->pad_offset = reserve(p, d->memory_desc_get_size(pad));
    }
    if (pd) d->primitive_desc_destroy(pd);
    if (ok) return p;
    pd_dnnl_pass_free(p);
    return NULL;
}

static int reorder(const struct pd_dnnl_pass *p, const struct operand *o, int to_inner)
{
    dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, to_inner ? o->given : o->inner},
                              {DNNL_ARG_TO, to_inner ? o->inner : o->given}};
    return pd_dnnl_lib()->primitive_execute(o->reorder, p->stream, 2, args) == dnnl_success;
}

size_t pd_dnnl_pass_scratch(const struct pd_dnnl_pass *pass)
{
    return pass->scratch;
}

int pd_dnnl_pass_run(struct pd_dnnl_pass *p, const float *first, const float *second, float *out,
                     void *scratch)
{
    const struct pd_dnnl_lib *d = pd_dnnl_lib();
    char *block = scratch;
    float *given[OPERANDS] = {(float *)first, (float *)second, out};
    dnnl_exec_arg_t args[OPERANDS + 1];
    for (int i = 0; i < OPERANDS; i++) {
        struct operand *o = &p->operand[i];
        d->memory_set_data_handle(o->given, given[i]);
        if (o->reorder) d->memory_set_data_handle(o->inner, block + o->offset);
        if (o->reorder && i != OUT && !reorder(p, o, 1)) return 0;
        args[i] = (dnnl_exec_arg_t){o->arg, o->inner};
    }
    d->memory_set_data_handle(p->pad, block + p->pad_offset);
    args[OPERANDS] = (dnnl_exec_arg_t){DNNL_ARG_SCRATCHPAD, p->pad};
    if (d->primitive_execute(p->primitive, p->stream, OPERANDS + 1, args) != dnnl_success) return 0;
    if (p->operand[OUT].reorder && !reorder(p, &p->operand[OUT], 0)) return 0;
    return d->stream_wait(p->stream) == dnnl_success;
}
#endif
