/* linspace: evenly spaced numbers, by their count. */
#include "ops/check.h"
#include "ops/numbers.h"
#include "ops/out.h"

enum { START, STOP, NUM };
static const struct pd_slot_def inputs[] = {
    {"Start", PD_SLOT_OWN_TYPE}, {"Stop", PD_SLOT_OWN_TYPE}, {"Num", PD_SLOT_OWN_TYPE}, {0}};
static const struct pd_slot_def outputs[] = {{"Out"}, {0}};

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *start = pd_run_in(r, START), *num = pd_run_in(r, NUM);
    struct pd_tensor *out = pd_run_out(r, 0);
    const struct pd_tensor *stop = pd_run_in(r, STOP);
    double a, b;
    int64_t n = 0;
    PD_TRY(pd_number_check(start, "Start"));
    PD_TRY(pd_number_check(stop, "Stop"));
    PD_TRY(pd_number_check(num, "Num"));
    PD_TRY(pd_number_any(start, "Start", &a));
    PD_TRY(pd_number_any(stop, "Stop", &b));
    PD_TRY(pd_number_whole(num, "Num", &n));
    if (n < 1 || n > (int64_t)1e15)
        return pd_fail(PD_INVALID, "Num is %lld; it must be 1 or more", (long long)n);
    PD_TRY(pd_check_float_data(start, "Start"));
    PD_TRY(pd_tensor_resize(out, start->meta.dtype, 1, &n));
    double step = n > 1 ? (b - a) / (double)(n - 1) : 0;
    PD_SWITCH_FLOAT(start->meta.dtype, T, {
        for (int64_t i = 0; i < n; i++)
            ((T *)out->data)[i] = (T)(a + (double)i * step);
    })
    return PD_OK;
}

const struct pd_op pd_op_linspace = {
    .type = "linspace",
    .doc = "Num numbers from Start to Stop, both included.",
    .inputs = inputs,
    .outputs = outputs,
    .flags = PD_OP_NO_GRAD | PD_OP_DYNAMIC | PD_OP_ON_SERVER,
    .infer = pd_out_infer_line,
    .run = run,
};
