/* Random fills: uniform_random, gaussian_random, truncated_gaussian_random, randint, and the forms
 * that take one size from an input. See draw.h for the numbers.
 *
 * A part of a variable that lies on several servers has the numbers of the whole: row k of the output is the
 * variable's row row_begin + k row_step of `height`. */
#include "ops/check.h"
#include "ops/draw.h"
#include "ops/numbers.h"
#include "ops/sizes.h"

enum { OUT };
static const struct pd_slot_def outputs[] = {{"Out"}, {0}};

/* Which rows of a variable an output has. */
struct rows {
    int64_t begin, step, width;
    int64_t height; /* of the whole variable; 0: the output is all of it */
};

static pd_status fill(const struct pd_run *r, struct pd_tensor *out, enum pd_law law, double a, double b,
                      int seed, const struct rows *rows)
{
    int wanted =
        law == PD_LAW_INTEGER ? pd_dtype_is_index(out->meta.dtype) : pd_dtype_is_float(out->meta.dtype);
    if (!wanted)
        return pd_fail(PD_TYPE, "attribute dtype asks for %s; %s", pd_dtype_name(out->meta.dtype),
                       law == PD_LAW_INTEGER ? "use int32 or int64" : "use float32 or float64");
    struct pd_draw d = {
        .law = law, .a = a, .b = b, .dtype = out->meta.dtype, .n = pd_tensor_numel(out), .out = out->data};
    if (rows) {
        d.first = rows->begin * rows->width;
        d.width = rows->width;
        d.step = rows->step * rows->width;
    }
    if (seed) {
        pd_draw_seeded(&d, (uint32_t)seed);
    } else {
        struct pd_rng rng = pd_draw_rng(r);
        pd_draw_counted(&d, &rng);
    }
    return PD_OK;
}

/* `first` is the position of row_begin, row_step and height. */
static pd_status rows_of(const struct pd_run *r, int first, const struct pd_meta *out, struct rows *rows)
{
    *rows = (struct rows){.begin = r->attr[first].l,
                          .step = r->attr[first + 1].l,
                          .width = out->rank ? pd_meta_span(out, 1, out->rank) : 1,
                          .height = r->attr[first + 2].l};
    if (rows->begin < 0 || rows->step < 1)
        return pd_fail(PD_RANGE, "row_begin is %lld and row_step %lld; they must be at least 0 and 1",
                       (long long)rows->begin, (long long)rows->step);
    return PD_OK;
}

/* The table of a seeded law starts alike for all forms; `first` is the position of the law's own attributes.
 */
static pd_status fill_uniform(const struct pd_run *r, int first, const struct rows *rows)
{
    struct pd_tensor *out = pd_run_out(r, OUT);
    double low = r->attr[first].f, high = r->attr[first + 1].f;
    int64_t diagonal = r->attr[first + 3].i, step = r->attr[first + 4].i, n = pd_tensor_numel(out);
    int is_part = rows && rows->height > 0;
    int64_t whole = is_part ? rows->height * rows->width : n;
    if (low > high) return pd_fail(PD_INVALID, "min is %g and max is %g; min may not be larger", low, high);
    PD_TRY(fill(r, out, PD_LAW_UNIFORM, low, high, r->attr[first + 2].i, rows));
    if (diagonal > 0 && (step < 0 || (diagonal - 1) * (step + 1) >= whole))
        return pd_fail(PD_RANGE, "diag_num %lld and diag_step %lld reach beyond the %lld elements",
                       (long long)diagonal, (long long)step, (long long)whole);
    PD_SWITCH_FLOAT(out->meta.dtype, T, {
        for (int64_t i = 0; i < diagonal; i++) {
            int64_t at = i * step + i;
            if (is_part) {
                int64_t row = at / rows->width - rows->begin;
                if (row < 0 || row % rows->step != 0) continue;
                at = row / rows->step * rows->width + at % rows->width;
                if (at >= n) continue;
            }
            ((T *)out->data)[at] = (T)r->attr[first + 5].f;
        }
    })
    return PD_OK;
}

static pd_status infer_type(const struct pd_infer *c, int dtype_attr)
{
    return pd_check_dtype(c->attr[dtype_attr].i, "dtype", &pd_infer_out(c, OUT)->dtype);
}

/* ---- with a shape of their own ---- */

static const struct pd_slot_def shape_inputs[] = {
    {"ShapeTensor", PD_SLOT_OPTIONAL | PD_SLOT_SIZES},
    {"ShapeTensorList", PD_SLOT_OPTIONAL | PD_SLOT_LIST | PD_SLOT_SIZES},
    {0}};
static const struct pd_slot_def no_inputs[] = {{0}};
enum { DTYPE, SHAPE, FIRST };
static const struct pd_numbers_source from_inputs = {"shape", 0, 1, SHAPE},
                                      from_attr = {"shape", -1, -1, SHAPE};

#define UNIFORM_ATTRS                                                                                        \
    PD_DEF_FLOAT("min", -1.0f), PD_DEF_FLOAT("max", 1.0f), PD_DEF_INT("seed", 0), PD_DEF_INT("diag_num", 0), \
        PD_DEF_INT("diag_step", 0), PD_DEF_FLOAT("diag_val", 1.0f)
#define NORMAL_ATTRS PD_DEF_FLOAT("mean", 0.0f), PD_DEF_FLOAT("std", 1.0f), PD_DEF_INT("seed", 0)

/* height: of the whole variable; 0: shape[0]. */
#define ROW_ATTRS PD_DEF_LONG("row_begin", 0), PD_DEF_LONG("row_step", 1), PD_DEF_LONG("height", 0)
enum { UNIFORM_ROWS = FIRST + 6, NORMAL_ROWS = FIRST + 3, HEIGHT_AT = 2 };

static const struct pd_attr_def uniform_attrs[] = {
    PD_DEF_INT("dtype", PD_DTYPE_FP32), PD_DEF_LONGS("shape"), UNIFORM_ATTRS, ROW_ATTRS, {0}};
static const struct pd_attr_def gaussian_attrs[] = {
    PD_DEF_INT("dtype", PD_DTYPE_FP32), PD_DEF_LONGS("shape"), NORMAL_ATTRS, ROW_ATTRS, {0}};
static const struct pd_attr_def truncated_attrs[] = {
    PD_DEF_INT("dtype", PD_DTYPE_FP32), PD_DEF_INTS("shape"), NORMAL_ATTRS, ROW_ATTRS, {0}};
static const struct pd_attr_def randint_attrs[] = {PD_DEF_INT("dtype", PD_DTYPE_INT64),
                                                   PD_DEF_LONGS("shape"),
                                                   PD_DEF_INT("low", 0),
                                                   PD_DEF_INT("high", 0),
                                                   PD_DEF_INT("seed", 0),
                                                   {0}};

static pd_status infer_inputs(const struct pd_infer *c)
{
    PD_TRY(infer_type(c, DTYPE));
    return pd_sizes_infer(c, &from_inputs, pd_infer_out(c, OUT));
}

static pd_status infer_attr(const struct pd_infer *c)
{
    PD_TRY(infer_type(c, DTYPE));
    return pd_sizes_infer(c, &from_attr, pd_infer_out(c, OUT));
}

/* Sizes Out. A table may also be selected rows: all of them, or those that row_begin and row_step name;
 * `first` is the position of these attributes. */
static pd_status size_table(const struct pd_run *r, const struct pd_numbers_source *source, int first,
                            struct rows *rows)
{
    struct pd_value *out = pd_run_out_value(r, OUT);
    const struct pd_attr *shape = &r->attr[SHAPE];
    int64_t dims[PD_MAX_RANK], height = r->attr[first + HEIGHT_AT].l;
    if (!pd_value_is_rows(out)) {
        PD_TRY(pd_sizes_fit(r, source, &out->tensor));
        return rows_of(r, first, &out->tensor.meta, rows);
    }
    int rank;
    PD_TRY(pd_sizes_given(r, source, dims, &rank));
    int by_attr = rank < 0;
    if (by_attr) rank = shape->n;
    if (rank < 1 || rank > PD_MAX_RANK)
        return pd_fail(PD_SHAPE, "the shape has %d sides; a table has 1 to %d", rank, PD_MAX_RANK);
    for (int i = 0; by_attr && i < rank; i++)
        dims[i] = shape->type == PD_ATTR_INTS ? shape->ints[i] : shape->longs[i];
    PD_TRY(pd_rows_resize(out, dims[0], height > 0 ? height : dims[0], (enum pd_dtype)r->attr[DTYPE].i, rank,
                          dims));
    PD_TRY(rows_of(r, first, &out->tensor.meta, rows));
    for (int64_t i = 0; i < dims[0]; i++)
        out->rows.at[i] = rows->begin + i * rows->step;
    return PD_OK;
}

static pd_status uniform_run(const struct pd_run *r)
{
    struct rows rows;
    PD_TRY(size_table(r, &from_inputs, UNIFORM_ROWS, &rows));
    return fill_uniform(r, FIRST, &rows);
}

static pd_status normal_run(const struct pd_run *r, enum pd_law law, const struct pd_numbers_source *source)
{
    struct rows rows;
    PD_TRY(size_table(r, source, NORMAL_ROWS, &rows));
    return fill(r, pd_run_out(r, OUT), law, r->attr[FIRST].f, r->attr[FIRST + 1].f, r->attr[FIRST + 2].i,
                &rows);
}

static pd_status gaussian_run(const struct pd_run *r)
{
    return normal_run(r, PD_LAW_NORMAL, &from_inputs);
}

static pd_status truncated_run(const struct pd_run *r)
{
    return normal_run(r, PD_LAW_TRUNCATED, &from_attr);
}

static pd_status randint_run(const struct pd_run *r)
{
    struct pd_tensor *out = pd_run_out(r, OUT);
    int64_t low = r->attr[FIRST].i, high = r->attr[FIRST + 1].i;
    if (low >= high)
        return pd_fail(PD_INVALID, "low is %lld and high is %lld; low must be smaller", (long long)low,
                       (long long)high);
    PD_TRY(pd_sizes_fit(r, &from_inputs, out));
    return fill(r, out, PD_LAW_INTEGER, (double)low, (double)high, r->attr[FIRST + 2].i, NULL);
}

#define RANDOM(name, text, in, table, how, action)                                                           \
    const struct pd_op pd_op_##name = {                                                                      \
        .type = #name,                                                                                       \
        .doc = text,                                                                                         \
        .inputs = in,                                                                                        \
        .outputs = outputs,                                                                                  \
        .attrs = table,                                                                                      \
        .flags = PD_OP_NO_GRAD | PD_OP_ON_SERVER,                                                            \
        .infer = how,                                                                                        \
        .run = action,                                                                                       \
        .state_size = sizeof(struct pd_draw_count),                                                          \
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
    return pd_sizes_infer_batch(c, pd_infer_in(c, 0), LIKE_SHAPE, LIKE_IN, LIKE_OUT, pd_infer_out(c, OUT));
}

static pd_status uniform_like_run(const struct pd_run *r)
{
    return fill_uniform(r, LIKE_FIRST, NULL);
}

static pd_status gaussian_like_run(const struct pd_run *r)
{
    return fill(r, pd_run_out(r, OUT), PD_LAW_NORMAL, r->attr[LIKE_FIRST].f, r->attr[LIKE_FIRST + 1].f,
                r->attr[LIKE_FIRST + 2].i, NULL);
}

RANDOM(uniform_random_batch_size_like, "uniform_random with one size of the input.", like_inputs,
       uniform_like_attrs, infer_like, uniform_like_run)
RANDOM(gaussian_random_batch_size_like, "gaussian_random with one size of the input.", like_inputs,
       gaussian_like_attrs, infer_like, gaussian_like_run)
