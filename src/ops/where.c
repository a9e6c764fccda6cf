/* where: each element from one of two tensors. */
#include "base/parallel.h"
#include "ops/check.h"
#include "ops/out.h"

enum { COND, X, Y, DOUT };
enum { OUT };

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *cond = pd_infer_in(c, COND), *x = pd_infer_in(c, X), *y = pd_infer_in(c, Y);
    if (cond->dtype != PD_DTYPE_NONE && cond->dtype != PD_DTYPE_BOOL)
        return pd_fail(PD_TYPE, "Condition is %s; it must be bool", pd_dtype_name(cond->dtype));
    PD_TRY(pd_check_same_dims(cond, "Condition", x, "X"));
    PD_TRY(pd_check_same_dims(x, "X", y, "Y"));
    PD_TRY(pd_check_same_type(x, "X", y, "Y"));
    pd_out_like(c, OUT, X);
    return PD_OK;
}

/* to[i] = cond[i] ? x[i] : y[i]; a tensor that is not there counts as zeros. */
struct choice {
    const uint8_t *cond;
    const void *x, *y;
    void *to;
    size_t item;
};

#define CHOOSE(T)                                                                                            \
    do {                                                                                                     \
        const T *x = s->x, *y = s->y;                                                                        \
        T *to = s->to;                                                                                       \
        for (int64_t i = begin; i < end; i++)                                                                \
            to[i] = s->cond[i] ? (x ? x[i] : 0) : (y ? y[i] : 0);                                            \
    } while (0)

static void choose(void *arg, int64_t begin, int64_t end)
{
    const struct choice *s = arg;
    switch (s->item) {
    case 1:
        CHOOSE(uint8_t);
        break;
    case 2:
        CHOOSE(uint16_t);
        break;
    case 4:
        CHOOSE(uint32_t);
        break;
    case 8:
        CHOOSE(uint64_t);
        break;
    }
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X);
    struct pd_tensor *out = pd_run_out(r, OUT);
    struct choice s = {pd_run_in(r, COND)->data, x->data, pd_run_in(r, Y)->data, out->data,
                       pd_dtype_size(x->meta.dtype)};
    pd_parallel(pd_tensor_numel(out), 32768, choose, &s);
    return PD_OK;
}

static pd_status grad_infer(const struct pd_infer *c)
{
    pd_out_like(c, 0, X);
    pd_out_like(c, 1, Y);
    return PD_OK;
}

static pd_status grad_run(const struct pd_run *r)
{
    const struct pd_tensor *dout = pd_run_in(r, DOUT);
    struct pd_tensor *dx = pd_run_out(r, 0), *dy = pd_run_out(r, 1);
    struct choice s = {.cond = pd_run_in(r, COND)->data, .item = pd_dtype_size(dout->meta.dtype)};
    if (dx) {
        s.x = dout->data, s.y = NULL, s.to = dx->data;
        pd_parallel(pd_tensor_numel(dx), 32768, choose, &s);
    }
    if (dy) {
        s.x = NULL, s.y = dout->data, s.to = dy->data;
        pd_parallel(pd_tensor_numel(dy), 32768, choose, &s);
    }
    return PD_OK;
}

const struct pd_op pd_op_where = {
    .type = "where",
    .doc = "Elements of X where Condition holds, of Y elsewhere.",
    .inputs = (const struct pd_slot_def[]){{"Condition", PD_SLOT_OWN_TYPE}, {"X", 0}, {"Y", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},
    .flags = PD_OP_ON_SERVER,
    .infer = infer,
    .run = run,
    .grad_type = "where_grad",
    .grad_in = "Condition X Y Out@",
    .grad_out = "X@ Y@",
};

const struct pd_op pd_op_where_grad = {
    .type = "where_grad",
    .doc = "Gradient of where.",
    .inputs =
        (const struct pd_slot_def[]){
            {"Condition", PD_SLOT_OWN_TYPE}, {"X", PD_SLOT_META}, {"Y", PD_SLOT_META}, {"Out@GRAD", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"X@GRAD", PD_SLOT_OPTIONAL}, {"Y@GRAD", PD_SLOT_OPTIONAL}, {0}},
    .infer = grad_infer,
    .run = grad_run,
};
