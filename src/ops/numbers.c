/* See numbers.h. */
#include "ops/numbers.h"

#include "ops/check.h"
#include "ops/elements.h"

pd_status pd_number_at(const struct pd_tensor *tensor, const char *what, int64_t i, int64_t *out)
{
    if (i >= pd_tensor_numel(tensor))
        return pd_fail(PD_SHAPE, "the tensor for %s has shape %s; it needs at least %lld numbers", what,
                       pd_meta_dims_text(&tensor->meta), (long long)i + 1);
    PD_SWITCH_INDEX(tensor->meta.dtype, T, *out = ((const T *)tensor->data)[i]; return PD_OK)
    return pd_fail(PD_TYPE, "the tensor for %s is %s; give int32 or int64 numbers", what,
                   pd_dtype_name(tensor->meta.dtype));
}

pd_status pd_number_one(const struct pd_tensor *tensor, const char *what, int i, int64_t *out)
{
    if (pd_tensor_numel(tensor) != 1)
        return pd_fail(PD_SHAPE, "number %d of %s is a tensor of shape %s; it must hold one number", i, what,
                       pd_meta_dims_text(&tensor->meta));
    return pd_number_at(tensor, what, 0, out);
}

pd_status pd_number_within(const struct pd_tensor *tensor, const char *slot, const char *what, int64_t i,
                           int64_t most, int64_t *out)
{
    int64_t v = -1;
    if (!pd_dtype_is_index(tensor->meta.dtype)) return pd_check_index_data(tensor, slot);
    PD_SWITCH_INDEX(tensor->meta.dtype, T, v = ((const T *)tensor->data)[i])
    if (v < 0 || v > most)
        return pd_fail(PD_RANGE, "%s %lld (number %lld of %s) is not within 0 and %lld", what, (long long)v,
                       (long long)i, slot, (long long)most);
    *out = v;
    return PD_OK;
}

pd_status pd_number_check(const struct pd_tensor *tensor, const char *what)
{
    if (pd_tensor_numel(tensor) == 1) return PD_OK;
    return pd_fail(PD_SHAPE, "%s has shape %s; it must hold one number", what,
                   pd_meta_dims_text(&tensor->meta));
}

static pd_status check_first(const struct pd_tensor *tensor, const char *what)
{
    if (pd_tensor_numel(tensor) >= 1) return PD_OK;
    return pd_fail(PD_SHAPE, "%s is empty; it must hold one number", what);
}

pd_status pd_number_any(const struct pd_tensor *tensor, const char *what, double *out)
{
    PD_TRY(check_first(tensor, what));
    PD_SWITCH_ANY(tensor->meta.dtype, T, *out = (double)*(const T *)tensor->data; return PD_OK)
    return pd_fail(PD_TYPE, "%s has element type %s; use float32", what, pd_dtype_name(tensor->meta.dtype));
}

pd_status pd_number_as(const struct pd_tensor *tensor, const char *what, enum pd_dtype dtype, void *out)
{
    PD_TRY(check_first(tensor, what));
    return pd_elements_cast(out, dtype, tensor->data, tensor->meta.dtype, 1);
}

pd_status pd_number_whole(const struct pd_tensor *tensor, const char *what, int64_t *out)
{
    double number = 0;
    PD_SWITCH_INDEX(tensor->meta.dtype, T, {
        PD_TRY(check_first(tensor, what));
        *out = *(const T *)tensor->data;
        return PD_OK;
    })
    PD_TRY(pd_number_any(tensor, what, &number));
    if (!(number > -9.2e18 && number < 9.2e18))
        return pd_fail(PD_RANGE, "%s is %g; give a whole number", what, number);
    *out = (int64_t)number;
    return PD_OK;
}

static pd_status check_count(const char *what, int64_t n)
{
    if (n <= PD_MOST_NUMBERS) return PD_OK;
    return pd_fail(PD_SHAPE, "%s has %lld numbers; at most %d can be used", what, (long long)n,
                   PD_MOST_NUMBERS);
}

static pd_status from_attr(const char *what, const struct pd_attr *attr, struct pd_numbers *out)
{
    PD_TRY(check_count(what, attr->n));
    for (int i = 0; i < attr->n; i++)
        out->at[i] = attr->type == PD_ATTR_LONGS ? attr->longs[i] : attr->ints[i];
    out->n = attr->n;
    return PD_OK;
}

static pd_status from_tensor(const char *what, const struct pd_tensor *tensor, struct pd_numbers *out)
{
    int64_t n = pd_tensor_numel(tensor);
    PD_TRY(check_count(what, n));
    for (int64_t i = 0; i < n; i++)
        PD_TRY(pd_number_at(tensor, what, i, &out->at[i]));
    out->n = (int)n;
    return PD_OK;
}

const struct pd_tensor *pd_infer_data(const struct pd_infer *c, int slot, int i)
{
    if (!c->running || !c->in_values || !c->in_values[slot]) return NULL;
    const struct pd_value *value = c->in_values[slot][i];
    return value && value->tensor.data ? &value->tensor : NULL;
}

/* The slot to read, or -1 for the attribute. */
static int choose(const struct pd_numbers_source *from, int tensors, int lists)
{
    if (lists && (from->list_first || !tensors)) return from->list;
    return tensors ? from->tensor : -1;
}

pd_status pd_numbers_infer(const struct pd_infer *c, const struct pd_numbers_source *from,
                           struct pd_numbers *out)
{
    int slot = choose(from, from->tensor >= 0 ? c->in[from->tensor].n : 0,
                      from->list >= 0 ? c->in[from->list].n : 0);
    out->slot = slot;
    out->known = 1;
    if (slot < 0) return from_attr(from->what, &c->attr[from->attr], out);
    int n = c->in[slot].n, is_list = slot == from->list, ready = 1;
    for (int i = 0; i < n; i++)
        ready &= pd_infer_data(c, slot, i) != NULL;
    if (ready) {
        if (!is_list) return from_tensor(from->what, pd_infer_data(c, slot, 0), out);
        PD_TRY(check_count(from->what, n));
        for (int i = 0; i < n; i++)
            PD_TRY(pd_number_one(pd_infer_data(c, slot, i), from->what, i, &out->at[i]));
        out->n = n;
        return PD_OK;
    }
    out->known = 0;
    int64_t count = is_list ? n : pd_meta_numel(c->in[slot].at[0]);
    PD_TRY(from_attr(from->what, &c->attr[from->attr], out));
    PD_TRY(check_count(from->what, count));
    if (out->n == count || count < 0) return PD_OK;
    for (int i = 0; i < count; i++)
        out->at[i] = -1;
    out->n = (int)count;
    return PD_OK;
}

pd_status pd_numbers_run(const struct pd_run *r, const struct pd_numbers_source *from, struct pd_numbers *out)
{
    int slot = choose(from, from->tensor >= 0 ? r->in[from->tensor].n : 0,
                      from->list >= 0 ? r->in[from->list].n : 0);
    out->slot = slot;
    out->known = 1;
    if (slot < 0) return from_attr(from->what, &r->attr[from->attr], out);
    if (slot == from->tensor) return from_tensor(from->what, pd_run_in(r, slot), out);
    PD_TRY(check_count(from->what, r->in[slot].n));
    for (int i = 0; i < r->in[slot].n; i++)
        PD_TRY(pd_number_one(pd_run_in_at(r, slot, i), from->what, i, &out->at[i]));
    out->n = r->in[slot].n;
    return PD_OK;
}

pd_status pd_number_infer(const struct pd_infer *c, int slot, const char *what, int64_t value, int64_t *out,
                          int *known)
{
    *known = 1;
    *out = value;
    if (!c->in[slot].n) return PD_OK;
    const struct pd_tensor *t = pd_infer_data(c, slot, 0);
    if (t) return pd_number_at(t, what, 0, out);
    *known = 0;
    return PD_OK;
}

pd_status pd_number_run(const struct pd_run *r, int slot, const char *what, int64_t value, int64_t *out)
{
    const struct pd_tensor *t = pd_run_in(r, slot);
    *out = value;
    return t ? pd_number_at(t, what, 0, out) : PD_OK;
}
