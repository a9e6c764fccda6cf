/* Random fills: uniform_random, gaussian_random, truncated_gaussian_random, randint, and the forms that take
 * one size from an input. Element i is a function of (seed, variable, i) alone; see math_util.h on seeds. */
#include <math.h>

#include "base/parallel.h"
#include "kernels/random.h"
#include "ops/math_util.h"

#define GRAIN 4096 /* pairs worth a thread */
#define PAIRS 64   /* pairs drawn together */

enum { OUT };
static const struct pd_slot_def outputs[] = {{"Out"}, {0}};

enum law { UNIFORM, NORMAL, TRUNCATED, INTEGER };

struct job {
    struct pd_rng rng;
    enum law law;
    double a, b; /* min and span; mean and deviation; low and count */
    enum pd_dtype dtype;
    int64_t n;
    void *out;
};

/* 53 random bits in [0, 1), as pd_rng_uniform makes them. */
static double unit(const uint32_t *word)
{
    return (double)((((uint64_t)word[0] << 32) | word[1]) >> 11) * 0x1p-53;
}

/* Elements 2 b and 2 b + 1 come from block b: as two uniform numbers, or as the two results of one Box-Muller
 * draw. */
static void draw_pairs(const struct job *j, uint64_t block, int64_t pairs, double *out)
{
    uint32_t word[4 * PAIRS];
    pd_random_words(&j->rng, block, pairs, word);
    for (int64_t i = 0; i < pairs; i++) {
        const uint32_t *w = word + 4 * i;
        if (j->law == UNIFORM || j->law == INTEGER) {
            out[2 * i] = unit(w);
            out[2 * i + 1] = unit(w + 2);
        } else {
            double radius = sqrt(-2.0 * log(1.0 - unit(w))), angle = 6.283185307179586 * unit(w + 2);
            out[2 * i] = radius * cos(angle);
            out[2 * i + 1] = radius * sin(angle);
        }
    }
}

/* Within two deviations: a draw outside is replaced by another one of the same element. */
static double truncate_at_two(const struct pd_rng *rng, uint64_t i, double z)
{
    for (uint64_t again = 1; (z < -2 || z > 2) && again < 64; again++)
        z = pd_rng_normal(rng, i + (again << 40));
    return z < -2 ? -2 : z > 2 ? 2 : z;
}

/* Counts in pairs of elements, so that a part never begins within one. */
static void part(void *arg, int64_t begin, int64_t end)
{
    const struct job *j = arg;
    double drawn[2 * PAIRS];
    for (int64_t at = begin; at < end; at += PAIRS) {
        int64_t pairs = end - at < PAIRS ? end - at : PAIRS, first = 2 * at;
        int64_t n = j->n - first < 2 * pairs ? j->n - first : 2 * pairs;
        draw_pairs(j, (uint64_t)at, pairs, drawn);
        if (j->law == TRUNCATED)
            for (int64_t i = 0; i < n; i++)
                drawn[i] = truncate_at_two(&j->rng, (uint64_t)(first + i), drawn[i]);
        if (j->law == INTEGER)
            for (int64_t i = 0; i < n; i++)
                drawn[i] = (double)(int64_t)(drawn[i] * j->b);
        const double step = j->law == INTEGER ? 1 : j->b;
        PD_SWITCH_NUMBER(j->dtype, T, {
            T *out = (T *)j->out + first;
            for (int64_t i = 0; i < n; i++)
                out[i] = (T)(j->a + drawn[i] * step);
        })
    }
}

static pd_status fill(const struct pd_run *r, struct pd_tensor *out, enum law law, double a, double b,
                      int seed)
{
    int wanted = law == INTEGER ? pd_dtype_is_index(out->meta.dtype) : pd_dtype_is_float(out->meta.dtype);
    if (!wanted)
        return pd_fail(PD_TYPE, "attribute dtype asks for %s; %s", pd_dtype_name(out->meta.dtype),
                       law == INTEGER ? "use int32 or int64" : "use float32 or float64");
    struct job j = {pd_math_rng(r, seed), law, a, b, out->meta.dtype, pd_tensor_numel(out), out->data};
    pd_parallel((j.n + 1) / 2, GRAIN, part, &j);
    return PD_OK;
}

/* The table of a seeded law starts alike for all forms; `first` is the position of the law's own attributes.
 */
static pd_status fill_uniform(const struct pd_run *r, int first)
{
    struct pd_tensor *out = pd_run_out(r, OUT);
    double low = r->attr[first].f, high = r->attr[first + 1].f;
    int64_t diagonal = r->attr[first + 3].i, step = r->attr[first + 4].i, n = pd_tensor_numel(out);
    if (low > high) return pd_fail(PD_INVALID, "min is %g and max is %g; min may not be larger", low, high);
    PD_TRY(fill(r, out, UNIFORM, low, high - low, r->attr[first + 2].i));
    if (diagonal > 0 && (step < 0 || (diagonal - 1) * (step + 1) >= n))
        return pd_fail(PD_RANGE, "diag_num %lld and diag_step %lld reach beyond the %lld elements",
                       (long long)diagonal, (long long)step, (long long)n);
    PD_SWITCH_FLOAT(out->meta.dtype, T, {
        for (int64_t i = 0; i < diagonal; i++)
            ((T *)out->data)[i * step + i] = (T)r->attr[first + 5].f;
    })
    return PD_OK;
}

static pd_status infer_type(const struct pd_infer *c, int dtype_attr)
{
    return pd_math_dtype(c->attr[dtype_attr].i, "dtype", &pd_infer_out(c, OUT)->dtype);
}

/* ---- with a shape of their own ---- */

static const struct pd_slot_def shape_inputs[] = {
    {"ShapeTensor", PD_SLOT_OPTIONAL | PD_SLOT_SIZES}, {"ShapeTensorList", PD_SLOT_OPTIONAL | PD_SLOT_LIST | PD_SLOT_SIZES}, {0}};
static const struct pd_slot_def no_inputs[] = {{0}};
enum { DTYPE, SHAPE, FIRST };
static const struct pd_shape_source from_inputs = {0, 1, SHAPE}, from_attr = {-1, -1, SHAPE};

#define UNIFORM_ATTRS                                                                                        \
    PD_DEF_FLOAT("min", -1.0f), PD_DEF_FLOAT("max", 1.0f), PD_DEF_INT("seed", 0), PD_DEF_INT("diag_num", 0), \
        PD_DEF_INT("diag_step", 0), PD_DEF_FLOAT("diag_val", 1.0f)
#define NORMAL_ATTRS PD_DEF_FLOAT("mean", 0.0f), PD_DEF_FLOAT("std", 1.0f), PD_DEF_INT("seed", 0)

static const struct pd_attr_def uniform_attrs[] = {
    PD_DEF_INT("dtype", PD_DTYPE_FP32), PD_DEF_LONGS("shape"), UNIFORM_ATTRS, {0}};
static const struct pd_attr_def gaussian_attrs[] = {
    PD_DEF_INT("dtype", PD_DTYPE_FP32), PD_DEF_LONGS("shape"), NORMAL_ATTRS, {0}};
static const struct pd_attr_def truncated_attrs[] = {
    PD_DEF_INT("dtype", PD_DTYPE_FP32), PD_DEF_INTS("shape"), NORMAL_ATTRS, {0}};
static const struct pd_attr_def randint_attrs[] = {PD_DEF_INT("dtype", PD_DTYPE_INT64),
                                                   PD_DEF_LONGS("shape"),
                                                   PD_DEF_INT("low", 0),
                                                   PD_DEF_INT("high", 0),
                                                   PD_DEF_INT("seed", 0),
                                                   {0}};

static pd_status infer_inputs(const struct pd_infer *c)
{
    PD_TRY(infer_type(c, DTYPE));
    return pd_math_infer_shape(c, &from_inputs, pd_infer_out(c, OUT));
}

static pd_status infer_attr(const struct pd_infer *c)
{
    PD_TRY(infer_type(c, DTYPE));
    return pd_math_infer_shape(c, &from_attr, pd_infer_out(c, OUT));
}

/* A uniform table may also be selected rows: all of them. */
static pd_status uniform_run(const struct pd_run *r)
{
    struct pd_value *out = pd_run_out_value(r, OUT);
    if (pd_value_is_rows(out)) {
        const struct pd_attr *shape = &r->attr[SHAPE];
        int64_t n = shape->n ? shape->longs[0] : 0;
        PD_TRY(pd_rows_resize(out, n, n, (enum pd_dtype)r->attr[DTYPE].i, shape->n, shape->longs));
        for (int64_t i = 0; i < n; i++)
            out->rows.at[i] = i;
    } else {
        PD_TRY(pd_math_size_output(r, &from_inputs, &out->tensor));
    }
    return fill_uniform(r, FIRST);
}

static pd_status gaussian_run(const struct pd_run *r)
{
    struct pd_tensor *out = pd_run_out(r, OUT);
    PD_TRY(pd_math_size_output(r, &from_inputs, out));
    return fill(r, out, NORMAL, r->attr[FIRST].f, r->attr[FIRST + 1].f, r->attr[FIRST + 2].i);
}

static pd_status truncated_run(const struct pd_run *r)
{
    return fill(r, pd_run_out(r, OUT), TRUNCATED, r->attr[FIRST].f, r->attr[FIRST + 1].f,
                r->attr[FIRST + 2].i);
}

static pd_status randint_run(const struct pd_run *r)
{
    struct pd_tensor *out = pd_run_out(r, OUT);
    int64_t low = r->attr[FIRST].i, high = r->attr[FIRST + 1].i;
    if (low >= high)
        return pd_fail(PD_INVALID, "low is %lld and high is %lld; low must be smaller", (long long)low,
                       (long long)high);
    PD_TRY(pd_math_size_output(r, &from_inputs, out));
    return fill(r, out, INTEGER, (double)low, (double)(high - low), r->attr[FIRST + 2].i);
}

#define RANDOM(name, text, in, table, how, action)                                                           \
    const struct pd_op pd_op_##name = {                                                                      \
        .type = #name,                                                                                       \
        .doc = text,                                                                                         \
        .inputs = in,                                                                                        \
        .outputs = outputs,                                                                                  \
        .attrs = table,                                                                                      \
        .flags = PD_OP_NO_GRAD,                                                                              \
        .infer = how,                                                                                        \
        .run = action,                                                                                       \
        .state_size = sizeof(struct pd_math_draws),                                                          \
    };

RANDOM(uniform_random, "Numbers spread evenly over [min, max).", shape_inputs, uniform_attrs, infer_inputs,
       uniform_run)
RANDOM(gaussian_random, "Numbers of a normal distribution.", shape_inputs, gaussian_attrs, infer_inputs,
       gaussian_run)
RANDOM(truncated_gaussian_random, "Numbers of a normal distribution within two deviations of its mean.",
       no_inputs, truncated_attrs, infer_attr, truncated_run)
RANDOM(randint, "Integers spread evenly over [low, high).", shape_inputs, randint_attrs, infer_inputs,
       randint_run)

/* ---- with one size of an input ---- */

enum { LIKE_SHAPE, LIKE_IN, LIKE_OUT, LIKE_DTYPE, LIKE_FIRST };
static const struct pd_slot_def like_inputs[] = {{"Input", PD_SLOT_META}, {0}};
#define LIKE_ATTRS                                                                                           \
    PD_DEF_INTS("shape"), PD_DEF_INT("input_dim_idx", 0), PD_DEF_INT("output_dim_idx", 0),                   \
        PD_DEF_INT("dtype", PD_DTYPE_FP32)
static const struct pd_attr_def uniform_like_attrs[] = {LIKE_ATTRS, UNIFORM_ATTRS, {0}};
static const struct pd_attr_def gaussian_like_attrs[] = {LIKE_ATTRS, NORMAL_ATTRS, {0}};

static pd_status infer_like(const struct pd_infer *c)
{
    PD_TRY(infer_type(c, LIKE_DTYPE));
    return pd_math_infer_like_batch(c, pd_infer_in(c, 0), LIKE_SHAPE, LIKE_IN, LIKE_OUT,
                                    pd_infer_out(c, OUT));
}

static pd_status uniform_like_run(const struct pd_run *r)
{
    return fill_uniform(r, LIKE_FIRST);
}

static pd_status gaussian_like_run(const struct pd_run *r)
{
    return fill(r, pd_run_out(r, OUT), NORMAL, r->attr[LIKE_FIRST].f, r->attr[LIKE_FIRST + 1].f,
                r->attr[LIKE_FIRST + 2].i);
}

RANDOM(uniform_random_batch_size_like, "uniform_random with one size of the input.", like_inputs,
       uniform_like_attrs, infer_like, uniform_like_run)
RANDOM(gaussian_random_batch_size_like, "gaussian_random with one size of the input.", like_inputs,
       gaussian_like_attrs, infer_like, gaussian_like_run)
