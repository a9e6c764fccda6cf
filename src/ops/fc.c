/* fc: product, bias and activation in one, as optimised inference models have it. Layers build mul and
 * elementwise_add instead. */
#include <string.h>

#include "kernels/gemm.h"
#include "ops/check.h"
#include "ops/out.h"
#include "ops/scratch.h"

enum { INPUT, W, BIAS };
enum { OUT };
enum { COLS, ACTIVATION, PADDING_WEIGHTS };
enum { GRAD_BIAS = 2, GRAD_OUT, GRAD_DOUT };
enum { D_INPUT, D_W, D_BIAS };

static const struct pd_attr_def attrs[] = {
    PD_DEF_INT("in_num_col_dims", 1),
    PD_DEF_STRING("activation_type", ""),
    PD_DEF_BOOL("padding_weights", 0),
    PD_DEF_BOOL("@ALL_KERNELS_MUST_COMPUTE_RUNTIME_SHAPE@", 1),
    PD_DEF_FLOAT("Scale_in", 1),
    PD_DEF_FLOATS_OF("Scale_weights", 1),
    PD_DEF_FLOAT("Scale_out", 1),
    PD_DEF_BOOL("force_fp32_output", 0),
    {0},
};

/* With padding_weights four spare rows and columns follow the real ones. */
static int64_t spare(const struct pd_attr *attr)
{
    return attr[PADDING_WEIGHTS].b ? 4 : 0;
}

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *in = pd_infer_in(c, INPUT), *w = pd_infer_in(c, W), *bias = pd_infer_in(c, BIAS);
    struct pd_meta *out = pd_infer_out(c, OUT);
    int cols = c->attr[COLS].i;
    PD_TRY(pd_check_float(in, "Input"));
    PD_TRY(pd_check_same_type(in, "Input", w, "W"));
    PD_TRY(pd_check_rank(w, "W", 2, 2));
    if (cols < 1 || cols >= in->rank)
        return pd_fail(PD_INVALID, "in_num_col_dims is %d, but Input has shape %s: give 1 to %d.", cols,
                       pd_meta_dims_text(in), in->rank - 1);
    const char *act = c->attr[ACTIVATION].s;
    if (act[0] && strcmp(act, "relu"))
        return pd_fail(PD_INVALID, "activation_type is '%s': give relu or nothing.", act);
    int64_t width = pd_meta_span(in, cols, in->rank), n = w->dim[1] < 0 ? -1 : w->dim[1] - spare(c->attr);
    if (width >= 0 && w->dim[0] >= 0 && width != w->dim[0] - spare(c->attr))
        return pd_fail(PD_SHAPE, "Input %s has %lld columns (in_num_col_dims %d), but W has shape %s.",
                       pd_meta_dims_text(in), (long long)width, cols, pd_meta_dims_text(w));
    if (bias && pd_meta_numel(bias) >= 0 && n >= 0 && pd_meta_numel(bias) != n)
        return pd_fail(PD_SHAPE, "Bias has shape %s, but there are %lld outputs.", pd_meta_dims_text(bias),
                       (long long)n);
    if (!out) return PD_OK;
    out->dtype = in->dtype;
    out->rank = cols + 1;
    memcpy(out->dim, in->dim, (size_t)cols * sizeof out->dim[0]);
    out->dim[cols] = n;
    pd_meta_share_lod(out, in);
    return PD_OK;
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *in = pd_run_in(r, INPUT), *w = pd_run_in(r, W), *bias = pd_run_in(r, BIAS);
    struct pd_tensor *out = pd_run_out(r, OUT);
    int64_t m = pd_meta_span(&in->meta, 0, r->attr[COLS].i),
            k = pd_meta_span(&in->meta, r->attr[COLS].i, in->meta.rank);
    int64_t ldw = w->meta.dim[1], n = ldw - spare(r->attr);
    int relu = r->attr[ACTIVATION].s[0] != 0;
    pd_gemm(in->meta.dtype == PD_DTYPE_FP64,
            &(struct pd_gemm){m, n, k, {in->data, k}, {w->data, ldw}, out->data, n, .alpha = 1});
    if (!bias && !relu) return PD_OK;
    PD_SWITCH_FLOAT(in->meta.dtype, T, {
        T *y = out->data;
        const T *b = bias ? bias->data : NULL;
        for (int64_t i = 0; i < m; i++, y += n)
            for (int64_t j = 0; j < n; j++) {
                T v = b ? y[j] + b[j] : y[j];
                y[j] = relu && v < 0 ? 0 : v;
            }
    })
    return PD_OK;
}

static pd_status grad_infer(const struct pd_infer *c)
{
    pd_out_like(c, D_INPUT, INPUT);
    pd_out_like(c, D_W, W);
    pd_out_like(c, D_BIAS, GRAD_BIAS);
    return PD_OK;
}

static pd_status grad_run(const struct pd_run *r)
{
    const struct pd_tensor *in = pd_run_in(r, INPUT), *w = pd_run_in(r, W), *out = pd_run_in(r, GRAD_OUT);
    const struct pd_tensor *g = pd_run_in(r, GRAD_DOUT);
    struct pd_tensor *d_in = pd_run_out(r, D_INPUT), *d_w = pd_run_out(r, D_W),
                     *d_bias = pd_run_out(r, D_BIAS);
    int64_t m = pd_meta_span(&in->meta, 0, r->attr[COLS].i),
            k = pd_meta_span(&in->meta, r->attr[COLS].i, in->meta.rank);
    int64_t ldw = w->meta.dim[1], n = ldw - spare(r->attr);
    int relu = r->attr[ACTIVATION].s[0] != 0;
    if (relu && !out) return pd_fail(PD_INVALID, "The gradient of fc with relu needs Out.");
    if (d_w && ldw != n) memset(d_w->data, 0, pd_tensor_bytes(d_w));
    const void *dout = g->data; /* that of the product */
    PD_SWITCH_FLOAT(in->meta.dtype, T, {
        const T *dy = g->data;
        if (relu) {
            void *block;
            PD_TRY(pd_scratch(r, (size_t)(m * n) * sizeof(T), &block));
            const T *y = out->data;
            for (int64_t i = 0; i < m * n; i++)
                ((T *)block)[i] = y[i] > 0 ? dy[i] : 0;
            dy = block;
        }
        if (d_bias && pd_run_in(r, GRAD_BIAS)) {
            T *to = d_bias->data;
            memset(to, 0, (size_t)n * sizeof(T));
            for (int64_t i = 0; i < m; i++)
                for (int64_t j = 0; j < n; j++)
                    to[j] += dy[i * n + j];
        }
        dout = dy;
    })
    int is_double = in->meta.dtype == PD_DTYPE_FP64;
    if (d_in)
        pd_gemm(is_double,
                &(struct pd_gemm){m, k, n, {dout, n}, {w->data, ldw, .trans = 1}, d_in->data, k, .alpha = 1});
    if (d_w)
        pd_gemm(is_double,
                &(struct pd_gemm){k, n, m, {in->data, k, .trans = 1}, {dout, n}, d_w->data, ldw, .alpha = 1});
    return PD_OK;
}

const struct pd_op pd_op_fc = {
    .type = "fc",
    .doc = "Fully connected layer in one op: product, bias, activation.",
    .inputs = (const struct pd_slot_def[]){{"Input", 0}, {"W", 0}, {"Bias", PD_SLOT_OPTIONAL}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},
    .attrs = attrs,
    .infer = infer,
    .run = run,
    .grad_type = "fc_grad",
    .grad_in = "Input W Bias Out Out@",
    .grad_out = "Input@ W@ Bias@",
};

const struct pd_op pd_op_fc_grad = {
    .type = "fc_grad",
    .doc = "Gradient of fc.",
    .inputs = (const struct pd_slot_def[]){{"Input", 0},
                                           {"W", 0},
                                           {"Bias", PD_SLOT_META | PD_SLOT_OPTIONAL},
                                           {"Out", PD_SLOT_OPTIONAL},
                                           {"Out@GRAD", 0},
                                           {0}},
    .outputs = (const struct pd_slot_def[]){{"Input@GRAD", PD_SLOT_OPTIONAL},
                                            {"W@GRAD", PD_SLOT_OPTIONAL},
                                            {"Bias@GRAD", PD_SLOT_OPTIONAL},
                                            {0}},
    .attrs = attrs,
    .infer = grad_infer,
    .run = grad_run,
};
