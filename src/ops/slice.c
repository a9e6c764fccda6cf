/* slice and strided_slice: a part of the input along some axes. Bounds are attributes or tensors. */
#include <string.h>

#include "kernels/copy.h"
#include "ops/axis.h"
#include "ops/numbers.h"
#include "ops/out.h"

enum { INPUT, STARTS_T, ENDS_T, STARTS_L, ENDS_L, GRAD_OUT };
enum { S_INPUT, S_STARTS_T, S_ENDS_T, S_STRIDES_T, S_STARTS_L, S_ENDS_L, S_STRIDES_L, S_GRAD_OUT };
enum { OUT };
enum { AXES, STARTS, ENDS, INFER_FLAGS, DECREASE, STRIDES };

static const struct pd_attr_def attrs[] = {
    PD_DEF_INTS("axes"),        PD_DEF_INTS("starts"),        PD_DEF_INTS("ends"),
    PD_DEF_INTS("infer_flags"), PD_DEF_INTS("decrease_axis"), {0},
};
static const struct pd_attr_def strided_attrs[] = {
    PD_DEF_INTS("axes"),
    PD_DEF_INTS("starts"),
    PD_DEF_INTS("ends"),
    PD_DEF_INTS("infer_flags"),
    PD_DEF_INTS("decrease_axis"),
    PD_DEF_INTS("strides"),
    {0},
};

/* starts, ends and strides of slice, then of strided_slice. */
static const struct pd_numbers_source sources[2][3] = {
    {{"starts", STARTS_T, STARTS_L, STARTS, 0}, {"ends", ENDS_T, ENDS_L, ENDS, 0}, {0}},
    {{"starts", S_STARTS_T, S_STARTS_L, STARTS, 1},
     {"ends", S_ENDS_T, S_ENDS_L, ENDS, 1},
     {"strides", S_STRIDES_T, S_STRIDES_L, STRIDES, 1}},
};

struct bounds {
    struct pd_numbers start, end, step;
};

/* What is cut out: for each dimension of the input where it starts, in which steps, how many; -1: not known
 * yet. */
struct cut {
    int rank, out_rank;
    int64_t start[PD_MAX_RANK], step[PD_MAX_RANK], size[PD_MAX_RANK];
    int64_t out_dim[PD_MAX_RANK]; /* without the axes that go */
};

static int has(const struct pd_attr *list, int value)
{
    for (int i = 0; i < list->n; i++)
        if (list->ints[i] == value) return 1;
    return 0;
}

static int64_t clamp(int64_t v, int64_t low, int64_t high)
{
    return v < low ? low : v > high ? high : v;
}

static pd_status cut_axis(struct cut *cut, int axis, int64_t n, int64_t start, int64_t end, int64_t step)
{
    int64_t s = start, e = end, size;
    if (step == 0)
        return pd_fail(PD_INVALID, "the stride of axis %d is 0; it must be positive or negative", axis);
    if (s < 0) s += n;
    if (step > 0) {
        if (e < 0) e += n;
        s = clamp(s, 0, n), e = clamp(e, 0, n);
        size = e > s ? (e - s + step - 1) / step : 0;
    } else {
        if (e < -1) e += n; /* -1 goes on to the first element */
        s = clamp(s, -1, n - 1), e = clamp(e, -1, n - 1);
        size = s > e ? (s - e - step - 1) / -step : 0;
    }
    if (size == 0 && n > 0)
        return pd_fail(PD_RANGE,
                       "starts %lld and ends %lld leave nothing of axis %d, which has %lld elements",
                       (long long)start, (long long)end, axis, (long long)n);
    cut->start[axis] = s, cut->step[axis] = step, cut->size[axis] = size;
    return PD_OK;
}

static pd_status check_bounds(const struct pd_attr *axes, const struct bounds *b, int strided)
{
    const struct pd_numbers *lists[] = {&b->start, &b->end, &b->step};
    static const char *const names[] = {"starts", "ends", "strides"};
    for (int i = 0; i < 2 + strided; i++)
        if (lists[i]->known && lists[i]->n != axes->n)
            return pd_fail(PD_INVALID, "axes names %d axes, but %s has %d numbers; give one for each axis",
                           axes->n, names[i], lists[i]->n);
    return PD_OK;
}

/* `running` is 0 while a Program is built: sizes behind infer_flags -1 are then left open. */
static pd_status resolve(const struct pd_meta *in, const struct pd_attr *attr, const struct bounds *b,
                         int strided, int running, struct cut *cut)
{
    const struct pd_attr *axes = &attr[AXES], *flags = &attr[INFER_FLAGS], *decrease = &attr[DECREASE];
    int known = b->start.known && b->end.known && (!strided || b->step.known);
    cut->rank = in->rank;
    for (int i = 0; i < in->rank; i++)
        cut->start[i] = 0, cut->step[i] = 1, cut->size[i] = in->dim[i];
    PD_TRY(check_bounds(axes, b, strided));
    for (int i = 0; i < axes->n; i++) {
        int axis, flag = i < flags->n ? flags->ints[i] : 1;
        PD_TRY(pd_axis_of(axes->ints[i], in->rank, &axis));
        int open = in->dim[axis] < 0 || i >= b->start.n || i >= b->end.n || (!running && flag == -1) ||
                   (!known && (flags->n == 0 || flag == -1));
        if (open) {
            cut->size[axis] = -1;
            continue;
        }
        int64_t start = b->start.at[i], end = b->end.at[i], step = strided ? b->step.at[i] : 1;
        /* x[-1] is written as [-1, 0) */
        if (start == -1 && end == 0 && flag == -1 && has(decrease, axis))
            end = step < 0 ? in->dim[axis] - 2 : in->dim[axis];
        PD_TRY(cut_axis(cut, axis, in->dim[axis], start, end, step));
    }
    uint8_t gone[PD_MAX_RANK] = {0};
    for (int i = 0; i < decrease->n; i++) {
        int axis;
        PD_TRY(pd_axis_of(decrease->ints[i], in->rank, &axis));
        if (cut->size[axis] > 1)
            return pd_fail(PD_SHAPE,
                           "decrease_axis names axis %d, but %lld elements are left along it; only 1 can go",
                           axis, (long long)cut->size[axis]);
        gone[axis] = 1;
    }
    cut->out_rank = 0;
    for (int i = 0; i < in->rank; i++)
        if (!gone[i]) cut->out_dim[cut->out_rank++] = cut->size[i];
    if (cut->out_rank == 0) cut->out_dim[cut->out_rank++] = 1;
    return PD_OK;
}

static pd_status infer_any(const struct pd_infer *c, int strided)
{
    const struct pd_meta *in = pd_infer_in(c, INPUT);
    struct pd_meta *out = pd_infer_out(c, OUT);
    struct bounds b;
    struct cut cut;
    PD_TRY(pd_numbers_infer(c, &sources[strided][0], &b.start));
    PD_TRY(pd_numbers_infer(c, &sources[strided][1], &b.end));
    if (strided) PD_TRY(pd_numbers_infer(c, &sources[strided][2], &b.step));
    PD_TRY(resolve(in, c->attr, &b, strided, c->running, &cut));
    if (!out) return PD_OK;
    int keeps_rows = in->rank && cut.size[0] == in->dim[0] && !has(&c->attr[AXES], 0);
    out->dtype = in->dtype;
    PD_TRY(pd_meta_set_dims(out, cut.out_rank, cut.out_dim));
    if (keeps_rows)
        pd_meta_share_lod(out, in);
    else
        pd_meta_take_lod(out, NULL);
    return PD_OK;
}

static pd_status bounds_run(const struct pd_run *r, int strided, const struct pd_meta *in, struct cut *cut)
{
    struct bounds b;
    PD_TRY(pd_numbers_run(r, &sources[strided][0], &b.start));
    PD_TRY(pd_numbers_run(r, &sources[strided][1], &b.end));
    if (strided) PD_TRY(pd_numbers_run(r, &sources[strided][2], &b.step));
    return resolve(in, r->attr, &b, strided, 1, cut);
}

/* The cut as a copy between the whole (dims of `in`) and the dense part. */
static void copy_cut(const struct cut *cut, const struct pd_meta *in, int to_whole, void *to,
                     const void *from)
{
    int64_t whole[PD_MAX_RANK], part[PD_MAX_RANK], at = 0;
    struct pd_copy copy;
    size_t item = pd_dtype_size(in->dtype);
    pd_copy_steps(cut->rank, in->dim, whole);
    pd_copy_steps(cut->rank, cut->size, part);
    for (int i = 0; i < cut->rank; i++) {
        at += cut->start[i] * whole[i];
        whole[i] *= cut->step[i];
    }
    pd_copy_make(&copy, item, cut->rank, cut->size, to_whole ? whole : part, to_whole ? part : whole);
    if (copy.count == 0) return;
    if (to_whole)
        pd_copy_run(&copy, (char *)to + at * (int64_t)item, from);
    else
        pd_copy_run(&copy, to, (const char *)from + at * (int64_t)item);
}

static pd_status run_any(const struct pd_run *r, int strided)
{
    const struct pd_tensor *in = pd_run_in(r, INPUT);
    struct pd_tensor *out = pd_run_out(r, OUT);
    struct cut cut;
    PD_TRY(bounds_run(r, strided, &in->meta, &cut));
    PD_TRY(pd_out_fit(out, in->meta.dtype, cut.out_rank, cut.out_dim));
    copy_cut(&cut, &in->meta, 0, out->data, in->data);
    return PD_OK;
}

static pd_status grad_any(const struct pd_run *r, int strided)
{
    const struct pd_tensor *dout = pd_run_in(r, strided ? S_GRAD_OUT : GRAD_OUT);
    struct pd_tensor *dx = pd_run_out(r, 0);
    struct cut cut;
    if (!dx) return PD_OK;
    PD_TRY(bounds_run(r, strided, &dx->meta, &cut));
    int64_t n = 1;
    for (int i = 0; i < cut.rank; i++)
        n *= cut.size[i];
    if (n != pd_tensor_numel(dout))
        return pd_fail(PD_SHAPE, "the gradient of the output has shape %s, but the slice has %lld elements",
                       pd_meta_dims_text(&dout->meta), (long long)n);
    pd_copy_zero(dx->data, pd_tensor_bytes(dx));
    copy_cut(&cut, &dx->meta, 1, dx->data, dout->data);
    return PD_OK;
}

static pd_status infer(const struct pd_infer *c)
{
    return infer_any(c, 0);
}
static pd_status run(const struct pd_run *r)
{
    return run_any(r, 0);
}
static pd_status grad_run(const struct pd_run *r)
{
    return grad_any(r, 0);
}
static pd_status strided_infer(const struct pd_infer *c)
{
    return infer_any(c, 1);
}
static pd_status strided_run(const struct pd_run *r)
{
    return run_any(r, 1);
}
static pd_status strided_grad_run(const struct pd_run *r)
{
    return grad_any(r, 1);
}

#define OPTIONAL PD_SLOT_OPTIONAL
#define LIST (PD_SLOT_OPTIONAL | PD_SLOT_LIST)
static const struct pd_slot_def outputs[] = {{"Out", 0}, {0}};
static const struct pd_slot_def grad_outputs[] = {{"Input@GRAD", PD_SLOT_OPTIONAL}, {0}};

const struct pd_op pd_op_slice = {
    .type = "slice",
    .doc = "The part of Input from starts to ends along axes; axes in decrease_axis go.",
    .inputs = (const struct pd_slot_def[]){{"Input", 0},
                                           {"StartsTensor", OPTIONAL | PD_SLOT_SIZES},
                                           {"EndsTensor", OPTIONAL | PD_SLOT_SIZES},
                                           {"StartsTensorList", LIST | PD_SLOT_SIZES},
                                           {"EndsTensorList", LIST | PD_SLOT_SIZES},
                                           {0}},
    .outputs = outputs,
    .attrs = attrs,
    .flags = PD_OP_ON_SERVER,
    .infer = infer,
    .run = run,
    .grad_type = "slice_grad",
    .grad_in = "Input StartsTensor EndsTensor StartsTensorList EndsTensorList Out@",
    .grad_out = "Input@",
};

const struct pd_op pd_op_slice_grad = {
    .type = "slice_grad",
    .doc = "Gradient of slice: zeros around the gradient of the part.",
    .inputs = (const struct pd_slot_def[]){{"Input", PD_SLOT_META},
                                           {"StartsTensor", OPTIONAL | PD_SLOT_OWN_TYPE},
                                           {"EndsTensor", OPTIONAL | PD_SLOT_OWN_TYPE},
                                           {"StartsTensorList", LIST | PD_SLOT_OWN_TYPE},
                                           {"EndsTensorList", LIST | PD_SLOT_OWN_TYPE},
                                           {"Out@GRAD", 0},
                                           {0}},
    .outputs = grad_outputs,
    .attrs = attrs,
    .infer = pd_out_infer_like,
    .run = grad_run,
};

const struct pd_op pd_op_strided_slice = {
    .type = "strided_slice",
    .doc = "Elements of Input from starts to ends in strides along axes.",
    .inputs = (const struct pd_slot_def[]){{"Input", 0},
                                           {"StartsTensor", OPTIONAL | PD_SLOT_SIZES},
                                           {"EndsTensor", OPTIONAL | PD_SLOT_SIZES},
                                           {"StridesTensor", OPTIONAL | PD_SLOT_SIZES},
                                           {"StartsTensorList", LIST | PD_SLOT_SIZES},
                                           {"EndsTensorList", LIST | PD_SLOT_SIZES},
                                           {"StridesTensorList", LIST | PD_SLOT_SIZES},
                                           {0}},
    .outputs = outputs,
    .attrs = strided_attrs,
    .infer = strided_infer,
    .run = strided_run,
    .grad_type = "strided_slice_grad",
    .grad_in =
        "Input StartsTensor EndsTensor StridesTensor StartsTensorList EndsTensorList StridesTensorList Out@",
    .grad_out = "Input@",
};

const struct pd_op pd_op_strided_slice_grad = {
    .type = "strided_slice_grad",
    .doc = "Gradient of strided_slice: zeros between the gradients of the elements taken.",
    .inputs = (const struct pd_slot_def[]){{"Input", PD_SLOT_META},
                                           {"StartsTensor", OPTIONAL | PD_SLOT_OWN_TYPE},
                                           {"EndsTensor", OPTIONAL | PD_SLOT_OWN_TYPE},
                                           {"StridesTensor", OPTIONAL | PD_SLOT_OWN_TYPE},
                                           {"StartsTensorList", LIST | PD_SLOT_OWN_TYPE},
                                           {"EndsTensorList", LIST | PD_SLOT_OWN_TYPE},
                                           {"StridesTensorList", LIST | PD_SLOT_OWN_TYPE},
                                           {"Out@GRAD", 0},
                                           {0}},
    .outputs = grad_outputs,
    .attrs = strided_attrs,
    .infer = pd_out_infer_like,
    .run = strided_grad_run,
};
