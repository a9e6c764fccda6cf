/* See conv_op.h. A transposed convolution is the data gradient of the convolution that leads from its output
 * to its input, so all its passes come from there with the sides swapped. */
#include "ops/conv_op.h"

#include <string.h>

#include "ops/out.h"
#include "ops/scratch.h"

enum { OUTPUT };
enum { D_INPUT, D_FILTER, D_BIAS };

const struct pd_slot_def pd_conv_op_outputs[] = {{"Output", 0}, {0}};
const struct pd_slot_def pd_conv_op_grad_inputs[] = {
    {"Input", 0}, {"Filter", 0}, {"Bias", PD_SLOT_OPTIONAL}, {"Output@GRAD", 0}, {0}};
const struct pd_slot_def pd_conv_op_grad_outputs[] = {{"Input@GRAD", PD_SLOT_OPTIONAL},
                                                      {"Filter@GRAD", PD_SLOT_OPTIONAL},
                                                      {"Bias@GRAD", PD_SLOT_OPTIONAL},
                                                      {0}};

/* Runs one pass with scratch memory of the step. */
static pd_status run_pass(const struct pd_run *r, enum pd_conv_pass pass, const struct pd_conv *conv,
                          enum pd_dtype dtype, const void *first, const void *second, void *out)
{
    struct pd_conv_job job;
    void *scratch;
    pd_conv_prepare(r->state, pass, conv, dtype == PD_DTYPE_FP64, &job);
    PD_TRY(pd_scratch(r, job.scratch, &scratch));
    pd_conv_run(&job, first, second, out, scratch);
    return PD_OK;
}

/* Channels and points of Output seen as [batch, rows, columns]: one of the two is the channels. */
struct plane {
    int64_t channels, rows, columns;
};

static struct plane plane_of(const struct pd_conv *c, int transposed)
{
    int64_t channels = transposed ? c->in_channels : c->out_channels, points = 1;
    for (int i = 0; i < c->axes; i++)
        points *= transposed ? c->in[i] : c->out[i];
    return c->channels_last ? (struct plane){channels, points, channels}
                            : (struct plane){channels, channels, points};
}

static pd_status add_bias(const struct pd_conv *c, const struct plane *p, struct pd_tensor *out,
                          const struct pd_tensor *bias)
{
    if (pd_tensor_numel(bias) != p->channels)
        return pd_fail(PD_SHAPE, "Bias has shape %s, but there are %lld output channels.",
                       pd_meta_dims_text(&bias->meta), (long long)p->channels);
    PD_SWITCH_FLOAT(out->meta.dtype, T, {
        T *y = out->data;
        const T *b = bias->data;
        for (int64_t n = 0; n < c->batch; n++)
            for (int64_t i = 0; i < p->rows; i++)
                for (int64_t j = 0; j < p->columns; j++)
                    *y++ += b[c->channels_last ? j : i];
    })
    return PD_OK;
}

static void bias_grad(const struct pd_conv *c, const struct plane *p, const struct pd_tensor *g,
                      struct pd_tensor *d_bias){
    PD_SWITCH_FLOAT(g->meta.dtype, T,
                    {
                        const T *dy = g->data;
                        T *to = d_bias->data;
                        memset(to, 0, (size_t)p->channels * sizeof(T));
                        for (int64_t n = 0; n < c->batch; n++)
                            for (int64_t i = 0; i < p->rows; i++)
                                for (int64_t j = 0; j < p->columns; j++)
                                    to[c->channels_last ? j : i] += *dy++;
                    })}

pd_status pd_conv_op_run(const struct pd_run *r, pd_conv_op_shape *shape_of, int transposed)
{
    const struct pd_tensor *input = pd_run_in(r, PD_CONV_SLOT_INPUT),
                           *filter = pd_run_in(r, PD_CONV_SLOT_FILTER),
                           *bias = pd_run_in(r, PD_CONV_SLOT_BIAS);
    struct pd_tensor *out = pd_run_out(r, OUTPUT);
    struct pd_conv c;
    PD_TRY(shape_of(r->attr, &input->meta, &filter->meta, &c));
    struct plane p = plane_of(&c, transposed);
    PD_TRY(run_pass(r, transposed ? PD_CONV_DATA : PD_CONV_FORWARD, &c, input->meta.dtype, input->data,
                    filter->data, out->data));
    return bias ? add_bias(&c, &p, out, bias) : PD_OK;
}

pd_status pd_conv_op_grad_infer(const struct pd_infer *c)
{
    pd_out_like(c, D_INPUT, PD_CONV_SLOT_INPUT);
    pd_out_like(c, D_FILTER, PD_CONV_SLOT_FILTER);
    pd_out_like(c, D_BIAS, PD_CONV_SLOT_BIAS);
    return PD_OK;
}

pd_status pd_conv_op_grad_run(const struct pd_run *r, pd_conv_op_shape *shape_of, int transposed)
{
    const struct pd_tensor *input = pd_run_in(r, PD_CONV_SLOT_INPUT),
                           *filter = pd_run_in(r, PD_CONV_SLOT_FILTER),
                           *g = pd_run_in(r, PD_CONV_SLOT_GRAD_OUTPUT);
    struct pd_tensor *d_input = pd_run_out(r, D_INPUT), *d_filter = pd_run_out(r, D_FILTER),
                     *d_bias = pd_run_out(r, D_BIAS);
    enum pd_dtype dtype = g->meta.dtype;
    struct pd_conv c;
    PD_TRY(shape_of(r->attr, &input->meta, &filter->meta, &c));
    struct plane p = plane_of(&c, transposed);
    if (d_filter)
        PD_TRY(run_pass(r, PD_CONV_FILTER, &c, dtype, transposed ? g->data : input->data,
                        transposed ? input->data : g->data, d_filter->data));
    if (d_input)
        PD_TRY(run_pass(r, transposed ? PD_CONV_FORWARD : PD_CONV_DATA, &c, dtype, g->data, filter->data,
                        d_input->data));
    if (d_bias && pd_run_in(r, PD_CONV_SLOT_BIAS)) bias_grad(&c, &p, g, d_bias);
    return PD_OK;
}

void pd_conv_op_state_free(void *state)
{
    pd_conv_cache_free(state);
}
