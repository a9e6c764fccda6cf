/* range: evenly spaced numbers, by their distance. */
#include <math.h>

#include "ops/check.h"
#include "ops/numbers.h"
#include "ops/out.h"

enum { START, END, STEP };
static const struct pd_slot_def inputs[] = {{"Start"}, {"End"}, {"Step"}, {0}};
static const struct pd_slot_def outputs[] = {{"Out"}, {0}};

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *start = pd_run_in(r, START), *end = pd_run_in(r, END), *step = pd_run_in(r, STEP);
    struct pd_tensor *out = pd_run_out(r, 0);
    double a, b, s;
    if (end->meta.dtype != start->meta.dtype || step->meta.dtype != start->meta.dtype)
        return pd_fail(PD_TYPE, "Start is %s, End %s, Step %s; all must have the same element type",
                       pd_dtype_name(start->meta.dtype), pd_dtype_name(end->meta.dtype),
                       pd_dtype_name(step->meta.dtype));
    PD_TRY(pd_number_any(start, "Start", &a));
    PD_TRY(pd_number_any(end, "End", &b));
    PD_TRY(pd_number_any(step, "Step", &s));
    if (s == 0 || (a < b && s < 0) || (a > b && s > 0))
        return pd_fail(PD_INVALID, "a step of %g never leads from %g to %g", s, a, b);
    double count = ceil((b - a) / s);
    if (!(count <= 1e15)) return pd_fail(PD_RANGE, "from %g to %g by %g there are too many steps", a, b, s);
    int64_t n = (int64_t)count;
    PD_TRY(pd_tensor_resize(out, start->meta.dtype, 1, &n));
    PD_TRY(pd_check_number_data(start, "Start"));
    PD_SWITCH_NUMBER(start->meta.dtype, T, {
        const T first = *(const T *)start->data;
        const T by = *(const T *)step->data;
        T *to = out->data;
        for (int64_t i = 0; i < n; i++)
            to[i] = (T)(first + (T)i * by);
    })
    return PD_OK;
}

const struct pd_op pd_op_range = {
    .type = "range",
    .doc = "Numbers from Start up to End, Step apart; End is not among them.",
    .inputs = inputs,
    .outputs = outputs,
    .flags = PD_OP_NO_GRAD | PD_OP_DYNAMIC | PD_OP_ON_SERVER,
    .infer = pd_out_infer_line,
    .run = run,
};
