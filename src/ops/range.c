/* range: evenly spaced numbers, by their distance. */
#include <math.h>

#include "ops/check.h"
#include "ops/numbers.h"
#include "ops/out.h"

enum { START, END, STEP };
static const struct pd_slot_def inputs[] = {{"Start"}, {"End"}, {"Step"}, {0}};
static const struct pd_slot_def outputs[] = {{"Out"}, {0}};

/* How many steps of `by` lead from a to b. */
static double count_whole(int64_t a, int64_t b, int64_t by)
{
    uint64_t way = a < b ? (uint64_t)b - (uint64_t)a : (uint64_t)a - (uint64_t)b;
    uint64_t stride = by > 0 ? (uint64_t)by : 0 - (uint64_t)by;
    return way ? (double)((way - 1) / stride + 1) : 0;
}

static pd_status check_steps(int leads, double count, double a, double b, double by)
{
    if (!leads) return pd_fail(PD_INVALID, "a step of %g never leads from %g to %g", by, a, b);
    if (!(count <= 1e15)) return pd_fail(PD_RANGE, "from %g to %g by %g there are too many steps", a, b, by);
    return PD_OK;
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *start = pd_run_in(r, START), *end = pd_run_in(r, END), *step = pd_run_in(r, STEP);
    struct pd_tensor *out = pd_run_out(r, 0);
    if (end->meta.dtype != start->meta.dtype || step->meta.dtype != start->meta.dtype)
        return pd_fail(PD_TYPE, "Start is %s, End %s, Step %s; all must have the same element type",
                       pd_dtype_name(start->meta.dtype), pd_dtype_name(end->meta.dtype),
                       pd_dtype_name(step->meta.dtype));
    PD_TRY(pd_check_number_data(start, "Start"));
    PD_TRY(pd_number_check(start, "Start"));
    PD_TRY(pd_number_check(end, "End"));
    PD_TRY(pd_number_check(step, "Step"));
    PD_SWITCH_NUMBER(start->meta.dtype, T, {
        const T first = *(const T *)start->data;
        const T last = *(const T *)end->data;
        const T by = *(const T *)step->data;
        const int leads = by != 0 && !(first < last && by < 0) && !(first > last && by > 0);
        /* Divided in the element type: how that rounds decides whether there is one more. */
        const double count = !leads        ? 0
                             : (T)0.5 != 0 ? ceil(fabs((double)(T)((T)(last - first) / by)))
                                           : count_whole((int64_t)first, (int64_t)last, (int64_t)by);
        PD_TRY(check_steps(leads, count, (double)first, (double)last, (double)by));
        const int64_t n = (int64_t)count;
        PD_TRY(pd_tensor_resize(out, start->meta.dtype, 1, &n));
        T *to = out->data;
        for (int64_t i = 0; i < n; i++)
            to[i] = (T)0.5 != 0 ? (T)(first + (T)i * by) : (T)((uint64_t)first + (uint64_t)i * (uint64_t)by);
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
