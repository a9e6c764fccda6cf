/* isfinite, isinf, isnan: one bool for a whole tensor. */
#include "ops/out.h"

enum { X };

static const struct pd_slot_def inputs[] = {{"X"}, {0}};
static const struct pd_slot_def outputs[] = {{"Out"}, {0}};

static pd_status infer(const struct pd_infer *c)
{
    pd_out_number(c, 0, PD_DTYPE_BOOL);
    return PD_OK;
}

/* What was met: a finite number minus itself is 0; infinity and NaN give NaN. */
static pd_status look(const struct pd_tensor *x, int *infinite, int *nan)
{
    int64_t n = pd_tensor_numel(x);
    *infinite = *nan = 0;
    if (x->meta.dtype == PD_DTYPE_FP16) {
        const uint16_t *v = x->data;
        for (int64_t i = 0; i < n; i++)
            if ((v[i] & 0x7c00u) == 0x7c00u) *((v[i] & 0x3ffu) ? nan : infinite) = 1;
        return PD_OK;
    }
    PD_SWITCH_FLOAT(x->meta.dtype, T, {
        const T *v = x->data;
        for (int64_t i = 0; i < n; i++) {
            if (v[i] - v[i] == 0) continue;
            *(v[i] != v[i] ? nan : infinite) = 1;
        }
    })
    return PD_OK;
}

static pd_status finite_run(const struct pd_run *r)
{
    int infinite, nan;
    PD_TRY(look(pd_run_in(r, X), &infinite, &nan));
    *(uint8_t *)pd_run_out(r, 0)->data = !infinite && !nan;
    return PD_OK;
}

static pd_status inf_run(const struct pd_run *r)
{
    int infinite, nan;
    PD_TRY(look(pd_run_in(r, X), &infinite, &nan));
    *(uint8_t *)pd_run_out(r, 0)->data = infinite != 0;
    return PD_OK;
}

static pd_status nan_run(const struct pd_run *r)
{
    int infinite, nan;
    PD_TRY(look(pd_run_in(r, X), &infinite, &nan));
    *(uint8_t *)pd_run_out(r, 0)->data = nan != 0;
    return PD_OK;
}

#define LOOK(name, text, action)                                                                             \
    const struct pd_op pd_op_##name = {                                                                      \
        .type = #name,                                                                                       \
        .doc = text,                                                                                         \
        .inputs = inputs,                                                                                    \
        .outputs = outputs,                                                                                  \
        .flags = PD_OP_NO_GRAD | PD_OP_ON_SERVER,                                                            \
        .infer = infer,                                                                                      \
        .run = action,                                                                                       \
    };

LOOK(isfinite, "Whether all elements of X are finite.", finite_run)
LOOK(isinf, "Whether X holds an infinity.", inf_run)
LOOK(isnan, "Whether X holds a NaN.", nan_run)
