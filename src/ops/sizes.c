/* See sizes.h. */
#include "ops/sizes.h"

#include <string.h>

#include "ops/numbers.h"
#include "ops/out.h"

static pd_status check_rank(const struct pd_numbers *sizes)
{
    if (sizes->n <= PD_MAX_RANK) return PD_OK;
    return pd_fail(PD_SHAPE, "the shape asks for %d dimensions; a tensor has at most %d", sizes->n,
                   PD_MAX_RANK);
}

/* Sizes that inputs gave. */
static pd_status check_given(const struct pd_numbers *sizes)
{
    PD_TRY(check_rank(sizes));
    for (int i = 0; i < sizes->n; i++)
        if (sizes->at[i] < 0)
            return pd_fail(PD_SHAPE, "size %d of the shape is %lld; sizes may not be negative", i,
                           (long long)sizes->at[i]);
    return PD_OK;
}

/* A list leaves the sizes as the attribute has them, a tensor tells only how many they are. */
static pd_status forget(const struct pd_infer *c, struct pd_numbers *sizes, int tensor)
{
    if (sizes->slot != tensor) return PD_OK;
    if (pd_meta_numel(pd_infer_in(c, tensor)) < 0)
        return pd_fail(PD_SHAPE, "the tensor that holds the shape is declared with -1 elements: declare how "
                                 "many it has, which is the number of dimensions of the result");
    for (int i = 0; i < sizes->n; i++)
        sizes->at[i] = -1;
    return PD_OK;
}

pd_status pd_sizes_infer(const struct pd_infer *c, const struct pd_numbers_source *from, struct pd_meta *out)
{
    struct pd_numbers sizes;
    PD_TRY(pd_numbers_infer(c, from, &sizes));
    if (sizes.slot >= 0 && sizes.known) PD_TRY(check_given(&sizes));
    if (!sizes.known) PD_TRY(forget(c, &sizes, from->tensor));
    PD_TRY(check_rank(&sizes));
    for (int i = 0; sizes.slot < 0 && c->running && i < sizes.n; i++)
        if (sizes.at[i] < 0)
            return pd_fail(PD_SHAPE, "attribute %s asks for size %lld in dimension %d; give the size itself",
                           c->op->attrs[from->attr].name, (long long)sizes.at[i], i);
    return pd_meta_set_dims(out, sizes.n, sizes.at);
}

pd_status pd_sizes_infer_batch(const struct pd_infer *c, const struct pd_meta *in, int shape_attr,
                               int in_attr, int out_attr, struct pd_meta *out)
{
    struct pd_numbers sizes;
    int from = c->attr[in_attr].i, to = c->attr[out_attr].i;
    PD_TRY(pd_numbers_infer(c, &(struct pd_numbers_source){"shape", -1, -1, shape_attr}, &sizes));
    PD_TRY(check_rank(&sizes));
    if (from < 0 || from >= in->rank || to < 0 || to >= sizes.n)
        return pd_fail(
            PD_RANGE,
            "dimension %d of the input %s is to give dimension %d of a shape of %d; there is none such", from,
            pd_meta_dims_text(in), to, sizes.n);
    sizes.at[to] = in->dim[from];
    return pd_meta_set_dims(out, sizes.n, sizes.at);
}

pd_status pd_sizes_given(const struct pd_run *r, const struct pd_numbers_source *from, int64_t *dim,
                         int *rank)
{
    struct pd_numbers sizes;
    PD_TRY(pd_numbers_run(r, from, &sizes));
    *rank = -1;
    if (sizes.slot < 0) return PD_OK;
    PD_TRY(check_given(&sizes));
    memcpy(dim, sizes.at, (size_t)sizes.n * sizeof *dim);
    *rank = sizes.n;
    return PD_OK;
}

pd_status pd_sizes_fit(const struct pd_run *r, const struct pd_numbers_source *from, struct pd_tensor *out)
{
    int64_t dim[PD_MAX_RANK];
    int rank;
    PD_TRY(pd_sizes_given(r, from, dim, &rank));
    return rank < 0 ? PD_OK : pd_out_fit(out, out->meta.dtype, rank, dim);
}

pd_status pd_sizes_check_count(const struct pd_meta *out, int given)
{
    if (pd_meta_numel(out) == given) return PD_OK;
    return pd_fail(PD_SHAPE, "%d values were given for shape %s; the numbers must agree", given,
                   pd_meta_dims_text(out));
}
