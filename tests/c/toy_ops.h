/* A handful of ops for tests of the engine, so that they stand on nothing but the op interface. Data are
 * float32. */
#ifndef TOY_OPS_H
#define TOY_OPS_H

#include <string.h>

#include "program/grad.h"

static pd_status toy_same(const struct pd_infer *c)
{
    pd_meta_like(pd_infer_out(c, 0), pd_infer_in(c, 0));
    return PD_OK;
}

static pd_status toy_add_infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, 0), *y = pd_infer_in(c, 1);
    if (!pd_meta_dims_match(x, y))
        return pd_fail(PD_SHAPE, "X %s and Y %s differ", pd_meta_dims_text(x), pd_meta_dims_text(y));
    return toy_same(c);
}

static pd_status toy_add_run(const struct pd_run *r)
{
    const float *x = pd_run_in(r, 0)->data, *y = pd_run_in(r, 1)->data;
    float *out = pd_run_out(r, 0)->data;
    for (int64_t i = 0, n = pd_tensor_numel(pd_run_out(r, 0)); i < n; i++)
        out[i] = x[i] + y[i];
    return PD_OK;
}

static pd_status toy_add_grad(struct pd_grad_maker *g)
{
    for (int i = 0; i < 2; i++) {
        struct pd_opdesc *op;
        PD_TRY(pd_grad_from_table(g, "toy_copy", "X=Out@", i ? "Out=Y@" : "Out=X@", &op));
        PD_TRY(g->emit(g, op));
    }
    return PD_OK;
}

static const struct pd_op toy_add = {
    .type = "toy_add",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {"Y", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},
    .infer = toy_add_infer,
    .run = toy_add_run,
    .make_grad = toy_add_grad,
    .share = (const struct pd_share[]){{0, 0, 0}, {-1, -1, 0}},
};

static pd_status toy_copy_run(const struct pd_run *r)
{
    if (pd_run_out(r, 0)->data != pd_run_in(r, 0)->data)
        memcpy(pd_run_out(r, 0)->data, pd_run_in(r, 0)->data, pd_tensor_bytes(pd_run_in(r, 0)));
    return PD_OK;
}

static const struct pd_op toy_copy = {
    .type = "toy_copy",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},
    .infer = toy_same,
    .run = toy_copy_run,
    .grad_type = "toy_copy",
    .grad_in = "X=Out@",
    .grad_out = "Out=X@",
};

static pd_status toy_square_run(const struct pd_run *r)
{
    const float *x = pd_run_in(r, 0)->data;
    float *out = pd_run_out(r, 0)->data;
    for (int64_t i = 0, n = pd_tensor_numel(pd_run_out(r, 0)); i < n; i++)
        out[i] = x[i] * x[i];
    return PD_OK;
}

static const struct pd_op toy_square = {
    .type = "toy_square",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},
    .infer = toy_same,
    .run = toy_square_run,
    .grad_type = "toy_square_grad",
    .grad_in = "X Out@",
    .grad_out = "X@",
};

static pd_status toy_square_grad_run(const struct pd_run *r)
{
    const float *x = pd_run_in(r, 0)->data, *d = pd_run_in(r, 1)->data;
    float *out = pd_run_out(r, 0)->data;
    for (int64_t i = 0, n = pd_tensor_numel(pd_run_out(r, 0)); i < n; i++)
        out[i] = 2 * x[i] * d[i];
    return PD_OK;
}

static const struct pd_op toy_square_grad = {
    .type = "toy_square_grad",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {"Out@GRAD", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"X@GRAD", PD_SLOT_OPTIONAL}, {0}},
    .infer = toy_same,
    .run = toy_square_grad_run,
};

static pd_status toy_one_infer(const struct pd_infer *c)
{
    pd_infer_out(c, 0)->dtype = pd_infer_in(c, 0)->dtype;
    pd_meta_set_1d(pd_infer_out(c, 0), 1);
    return PD_OK;
}

static pd_status toy_total_run(const struct pd_run *r)
{
    const float *x = pd_run_in(r, 0)->data;
    float sum = 0;
    for (int64_t i = 0, n = pd_tensor_numel(pd_run_in(r, 0)); i < n; i++)
        sum += x[i];
    *(float *)pd_run_out(r, 0)->data = sum;
    return PD_OK;
}

static const struct pd_op toy_total = {
    .type = "toy_total",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},
    .infer = toy_one_infer,
    .run = toy_total_run,
    .grad_type = "toy_total_grad",
    .grad_in = "X Out@",
    .grad_out = "X@",
};

static pd_status toy_total_grad_run(const struct pd_run *r)
{
    float d = *(const float *)pd_run_in(r, 1)->data, *out = pd_run_out(r, 0)->data;
    for (int64_t i = 0, n = pd_tensor_numel(pd_run_out(r, 0)); i < n; i++)
        out[i] = d;
    return PD_OK;
}

static const struct pd_op toy_total_grad = {
    .type = "toy_total_grad",
    .inputs = (const struct pd_slot_def[]){{"X", PD_SLOT_META}, {"Out@GRAD", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"X@GRAD", PD_SLOT_OPTIONAL}, {0}},
    .infer = toy_same,
    .run = toy_total_grad_run,
};

static pd_status toy_sum_run(const struct pd_run *r)
{
    float *out = pd_run_out(r, 0)->data;
    int64_t n = pd_tensor_numel(pd_run_out(r, 0));
    for (int64_t i = 0; i < n; i++) {
        float sum = 0;
        for (int k = 0; k < r->in[0].n; k++)
            sum += ((const float *)pd_run_in_at(r, 0, k)->data)[i];
        out[i] = sum;
    }
    return PD_OK;
}

static const struct pd_op toy_sum = {
    .type = "sum",
    .inputs = (const struct pd_slot_def[]){{"X", PD_SLOT_LIST}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},
    .infer = toy_same,
    .run = toy_sum_run,
};

static pd_status toy_fill_infer(const struct pd_infer *c)
{
    pd_infer_out(c, 0)->dtype = (enum pd_dtype)c->attr[2].i;
    return pd_meta_set_dims(pd_infer_out(c, 0), c->attr[0].n, c->attr[0].longs);
}

static pd_status toy_fill_run(const struct pd_run *r)
{
    float *out = pd_run_out(r, 0)->data;
    for (int64_t i = 0, n = pd_tensor_numel(pd_run_out(r, 0)); i < n; i++)
        out[i] = r->attr[1].f;
    return PD_OK;
}

static const struct pd_op toy_fill = {
    .type = "fill_constant",
    .inputs = (const struct pd_slot_def[]){{0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},
    .attrs =
        (const struct pd_attr_def[]){
            PD_DEF_LONGS("shape"), PD_DEF_FLOAT("value", 0), PD_DEF_INT("dtype", PD_DTYPE_FP32), {0}},
    .infer = toy_fill_infer,
    .run = toy_fill_run,
};

/* Keeps the positive numbers: how many there are is known only when it runs. */
static pd_status toy_keep_infer(const struct pd_infer *c)
{
    pd_infer_out(c, 0)->dtype = pd_infer_in(c, 0)->dtype;
    pd_meta_set_1d(pd_infer_out(c, 0), -1);
    return PD_OK;
}

static pd_status toy_keep_run(const struct pd_run *r)
{
    const float *x = pd_run_in(r, 0)->data;
    int64_t n = pd_tensor_numel(pd_run_in(r, 0)), kept = 0;
    for (int64_t i = 0; i < n; i++)
        kept += x[i] > 0;
    PD_TRY(pd_tensor_resize(pd_run_out(r, 0), PD_DTYPE_FP32, 1, &kept));
    float *out = pd_run_out(r, 0)->data;
    for (int64_t i = 0; i < n; i++)
        if (x[i] > 0) *out++ = x[i];
    return PD_OK;
}

static const struct pd_op toy_keep = {
    .type = "toy_keep",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},
    .flags = PD_OP_DYNAMIC | PD_OP_NO_GRAD,
    .infer = toy_keep_infer,
    .run = toy_keep_run,
};

static const struct pd_op *const toy_list[] = {
    &toy_add,        &toy_copy, &toy_square, &toy_square_grad, &toy_total,
    &toy_total_grad, &toy_sum,  &toy_fill,   &toy_keep,        NULL};
static const struct pd_op_set toy_ops = {toy_list};

/* Adds a float32 variable. */
static inline pd_status toy_var(struct pd_program *p, const char *name, int64_t rows, unsigned flags)
{
    struct pd_var *v;
    int existed;
    PD_TRY(pd_var_new(p->blocks.at[0], name, PD_KIND_TENSOR, &v, &existed));
    v->meta.dtype = PD_DTYPE_FP32;
    v->flags = flags;
    pd_meta_set_1d(&v->meta, rows);
    return PD_OK;
}

/* Adds an op; `x` and `y` may be NULL. */
static inline pd_status toy_op(struct pd_program *p, const char *type, const char *x, const char *y,
                               const char *out)
{
    struct pd_opdesc *op;
    PD_TRY(pd_opdesc_new(p, type, &op));
    pd_status status = PD_OK;
    if (x) status = pd_opdesc_add_arg(op, 0, "X", x);
    if (status == PD_OK && y) status = pd_opdesc_add_arg(op, 0, "Y", y);
    if (status == PD_OK) status = pd_opdesc_add_arg(op, 1, "Out", out);
    if (status == PD_OK) status = pd_block_insert(p->blocks.at[0], -1, op, 1);
    if (status != PD_OK) pd_opdesc_free(op);
    return status;
}

#endif
