/* split: cuts a tensor along one axis into parts, of equal size (num) or of given sizes (sections; one may be
 * -1: what is left). Its gradient joins the parts again. */
#include "ops/axis.h"
#include "ops/join.h"
#include "ops/numbers.h"
#include "ops/out.h"

enum { X, AXIS_TENSOR, SECTIONS_LIST };
enum { OUT };
enum { SECTIONS, NUM, AXIS };

/* Sizes of the parts: from the list of tensors (at run time), else from the attribute. */
struct sizes {
    int n;
    const struct pd_attr *sections;
    const struct pd_run *run; /* where the list is read from */
    const struct pd_infer *infer;
    int from_list;
};

/* -1: what is left. *known is 0 where only running can tell. */
static pd_status wish_at(const struct sizes *s, int i, int64_t *size, int *known)
{
    const struct pd_tensor *t = NULL;
    *known = 1;
    if (!s->from_list) {
        *size = s->sections->ints[i];
        return PD_OK;
    }
    t = s->run ? pd_run_in_at(s->run, SECTIONS_LIST, i) : pd_infer_data(s->infer, SECTIONS_LIST, i);
    if (t) return pd_number_one(t, "sections", i, size);
    *known = 0;
    return PD_OK;
}

/* The size of part i of an axis of `total` elements (-1: not known). */
static pd_status size_at(const struct sizes *s, int64_t total, int num, int i, int64_t *size)
{
    int known, open = 0;
    int64_t sum = 0, wish;
    if (num > 0) {
        if (total >= 0 && total % num != 0)
            return pd_fail(PD_SHAPE, "%lld elements cannot be split into %d equal parts; give sections",
                           (long long)total, num);
        *size = total < 0 ? -1 : total / num;
        return PD_OK;
    }
    for (int k = 0; k < s->n; k++) {
        PD_TRY(wish_at(s, k, &wish, &known));
        if (!known) { /* the attribute still holds the sizes that are plain numbers */
            *size = i < s->sections->n && s->sections->ints[i] > 0 ? s->sections->ints[i] : -1;
            return PD_OK;
        }
        if (wish < -1)
            return pd_fail(PD_INVALID, "sections[%d] is %lld; give a size, or -1 once for the rest", k,
                           (long long)wish);
        if (wish == -1 && open++)
            return pd_fail(PD_INVALID, "sections has -1 more than once; only one part can take the rest");
        if (wish > 0) sum += wish;
    }
    if (total >= 0 && (open ? sum > total : sum != total))
        return pd_fail(PD_SHAPE, "the parts in sections add up to %lld, but the axis has %lld elements",
                       (long long)sum, (long long)total);
    PD_TRY(wish_at(s, i, size, &known));
    if (*size == -1 && total >= 0) *size = total - sum;
    return PD_OK;
}

static pd_status check_count(const struct sizes *s, int num, int outputs)
{
    int asked = num > 0 ? num : s->n;
    if (asked == outputs) return PD_OK;
    return pd_fail(PD_INVALID, "%d parts are asked for (%s), but there are %d outputs", asked,
                   num > 0 ? "num" : "sections", outputs);
}

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X);
    int64_t wish;
    int known, axis = -1, num = c->attr[NUM].i, from_list = c->in[SECTIONS_LIST].n > 0;
    struct sizes s = {from_list ? c->in[SECTIONS_LIST].n : c->attr[SECTIONS].n, &c->attr[SECTIONS], NULL, c,
                      from_list};
    PD_TRY(pd_number_infer(c, AXIS_TENSOR, "axis", c->attr[AXIS].i, &wish, &known));
    PD_TRY(check_count(&s, num, c->out[OUT].n));
    if (known) PD_TRY(pd_axis_of(wish, x->rank, &axis));
    for (int i = 0; i < c->out[OUT].n; i++) {
        struct pd_meta *out = c->out[OUT].at[i];
        if (!out) continue;
        out->dtype = x->dtype;
        pd_meta_copy_dims(out, x);
        for (int k = 0; !known && k < x->rank; k++)
            out->dim[k] = -1;
        if (known) PD_TRY(size_at(&s, x->dim[axis], num, i, &out->dim[axis]));
        if (axis != 0)
            pd_meta_share_lod(out, x);
        else
            pd_meta_take_lod(out, NULL);
    }
    return PD_OK;
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X);
    int64_t wish;
    int axis, num = r->attr[NUM].i, n = r->out[OUT].n, from_list = r->in[SECTIONS_LIST].n > 0;
    struct sizes s = {from_list ? r->in[SECTIONS_LIST].n : r->attr[SECTIONS].n, &r->attr[SECTIONS], r, NULL,
                      from_list};
    struct pd_join j;
    int64_t *width;
    PD_TRY(pd_number_run(r, AXIS_TENSOR, "axis", r->attr[AXIS].i, &wish));
    PD_TRY(pd_axis_of(wish, x->meta.rank, &axis));
    PD_TRY(check_count(&s, num, n));
    PD_TRY(pd_join_make(r, n, &j, &width));
    int64_t inner = pd_meta_span(&x->meta, axis + 1, x->meta.rank) * (int64_t)pd_dtype_size(x->meta.dtype);
    j.whole = x->data;
    j.row = x->meta.dim[axis] * inner;
    for (int i = 0; i < n; i++) {
        struct pd_tensor *out = pd_run_out_at(r, OUT, i);
        struct pd_meta m = x->meta;
        if (out && !r->in[AXIS_TENSOR].n && !from_list)
            m.dim[axis] = out->meta.dim[axis]; /* inferred */
        else
            PD_TRY(size_at(&s, x->meta.dim[axis], num, i, &m.dim[axis]));
        width[i] = m.dim[axis] * inner;
        j.part[i] = NULL;
        if (!out) continue;
        PD_TRY(pd_out_fit(out, m.dtype, m.rank, m.dim));
        j.part[i] = out->data;
    }
    pd_copy_part(&j, pd_meta_span(&x->meta, 0, axis));
    return PD_OK;
}

const struct pd_op pd_op_split = {
    .type = "split",
    .doc = "Cuts X along axis into parts.",
    .inputs =
        (const struct pd_slot_def[]){{"X", 0},
                                     {"AxisTensor", PD_SLOT_OPTIONAL | PD_SLOT_SIZES},
                                     {"SectionsTensorList", PD_SLOT_LIST | PD_SLOT_OPTIONAL | PD_SLOT_SIZES},
                                     {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", PD_SLOT_LIST}, {0}},
    .attrs =
        (const struct pd_attr_def[]){
            PD_DEF_INTS("sections"), PD_DEF_INT("num", 0), PD_DEF_INT("axis", 0), {0}},
    .infer = infer,
    .run = run,
    .grad_type = "concat",
    .grad_in = "X=Out@ AxisTensor",
    .grad_out = "Out=X@",
};
