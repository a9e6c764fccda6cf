/* average_accumulates: running sums of a parameter over a window of steps, from which its average is made.
 *
 * sum_1 takes the steps; it moves to sum_2 now and then, so that small parameters are not lost in a large
 * sum; sum_3 holds the window before, taken over when this one is long enough. */
#include <string.h>

#include "kernels/clones.h"
#include "ops/check.h"
#include "ops/out.h"

enum { PARAM, SUM1, SUM2, SUM3, NOW, OLD, UPDATES };
enum { OUT1, OUT2, OUT3, OUT_NOW, OUT_OLD, OUT_UPDATES };
enum { WINDOW, MOST, LEAST };
enum { MOVE_EVERY = 16384 };

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *param = pd_infer_in(c, PARAM);
    for (int i = SUM1; i <= SUM3; i++)
        PD_TRY(pd_check_same_dims(param, "param", pd_infer_in(c, i), c->op->inputs[i].name));
    for (int i = OUT1; i <= OUT_UPDATES; i++)
        pd_out_same(c, i, i + 1);
    return PD_OK;
}

#define ADD(suffix, T)                                                                                       \
    PD_CLONES static void add_##suffix(T *to, const T *a, const T *b, int64_t n)                             \
    {                                                                                                        \
        _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++) to[i] = a[i] + b[i];                            \
    }
ADD(f32, float)
ADD(f64, double)

static void add(enum pd_dtype dtype, void *to, const void *a, const void *b, int64_t n)
{
    if (dtype == PD_DTYPE_FP32)
        add_f32(to, a, b, n);
    else
        add_f64(to, a, b, n);
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *param = pd_run_in(r, PARAM);
    int64_t n = pd_tensor_numel(param), count[3];
    size_t bytes = pd_tensor_bytes(param);
    void *sum[3];
    PD_TRY(pd_check_float_data(param, "param"));
    if (r->attr[LEAST].l > r->attr[MOST].l)
        return pd_fail(PD_INVALID, "min_average_window %lld is larger than max_average_window %lld",
                       (long long)r->attr[LEAST].l, (long long)r->attr[MOST].l);
    for (int i = 0; i < 3; i++) {
        const struct pd_tensor *from = pd_run_in(r, SUM1 + i), *number = pd_run_in(r, NOW + i);
        sum[i] = pd_run_out(r, OUT1 + i)->data;
        if (i && sum[i] != from->data) memcpy(sum[i], from->data, bytes);
        if (number->meta.dtype != PD_DTYPE_INT64 || pd_tensor_numel(number) < 1)
            return pd_fail(PD_TYPE, "%s must be one int64 number, found %s %s", r->op->inputs[NOW + i].name,
                           pd_dtype_name(number->meta.dtype), pd_meta_dims_text(&number->meta));
        count[i] = *(const int64_t *)number->data;
        if (count[i] < 0 || count[i] == INT64_MAX)
            return pd_fail(PD_INVALID, "%s is %lld, a number of steps is expected",
                           r->op->inputs[NOW + i].name, (long long)count[i]);
    }
    int64_t now = count[0] + 1, old = count[1], updates = count[2] + 1;
    add(param->meta.dtype, sum[0], pd_run_in(r, SUM1)->data, param->data, n);
    if (updates % MOVE_EVERY == 0) {
        add(param->meta.dtype, sum[1], sum[1], sum[0], n);
        memset(sum[0], 0, bytes);
    }
    double longest = (double)updates * r->attr[WINDOW].f;
    if (now >= r->attr[LEAST].l &&
        now >= (longest < (double)r->attr[MOST].l ? (int64_t)longest : r->attr[MOST].l)) {
        add(param->meta.dtype, sum[2], sum[0], sum[1], n);
        memset(sum[0], 0, bytes);
        memset(sum[1], 0, bytes);
        old = now;
        now = 0;
    }
    *(int64_t *)pd_run_out(r, OUT_NOW)->data = now;
    *(int64_t *)pd_run_out(r, OUT_OLD)->data = old;
    *(int64_t *)pd_run_out(r, OUT_UPDATES)->data = updates;
    return PD_OK;
}

const struct pd_op pd_op_average_accumulates = {
    .type = "average_accumulates",
    .doc = "Sums of a parameter over a window of steps.",
    .inputs = (const struct pd_slot_def[]){{"param", 0},
                                           {"in_sum_1", 0},
                                           {"in_sum_2", 0},
                                           {"in_sum_3", 0},
                                           {"in_num_accumulates", PD_SLOT_OWN_TYPE},
                                           {"in_old_num_accumulates", PD_SLOT_OWN_TYPE},
                                           {"in_num_updates", PD_SLOT_OWN_TYPE},
                                           {0}},
    .outputs = (const struct pd_slot_def[]){{"out_sum_1", 0},
                                            {"out_sum_2", 0},
                                            {"out_sum_3", 0},
                                            {"out_num_accumulates", 0},
                                            {"out_old_num_accumulates", 0},
                                            {"out_num_updates", 0},
                                            {0}},
    .attrs = (const struct pd_attr_def[]){PD_DEF_FLOAT("average_window", 0),
                                          PD_DEF_LONG("max_average_window", 10000),
                                          PD_DEF_LONG("min_average_window", 10000),
                                          {0}},
    .flags = PD_OP_NO_GRAD | PD_OP_ON_SERVER,
    .infer = infer,
    .run = run,
};
