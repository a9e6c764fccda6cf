/* squeeze and unsqueeze, each also in the form with XShape: dimensions of size 1 go or come. The elements
 * stay where they are. */
#include <string.h>

#include "ops/axis.h"
#include "ops/numbers.h"
#include "ops/out.h"
#include "ops/view.h"

enum { X, AXES_TENSOR, AXES_LIST };
enum { OUT };
enum { AXES };

/* ---- squeeze ---- */

static pd_status squeeze_infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X);
    const struct pd_attr *axes = &c->attr[AXES];
    uint8_t gone[PD_MAX_RANK] = {0};
    int64_t dim[PD_MAX_RANK];
    int rank = 0;
    for (int i = 0; i < axes->n; i++) {
        int axis;
        PD_TRY(pd_axis_of(axes->ints[i], x->rank, &axis));
        if (x->dim[axis] >= 0 && x->dim[axis] != 1)
            return pd_fail(
                PD_SHAPE,
                "axes names dimension %d of X, but X has shape %s: only a size of 1 can be taken out",
                axes->ints[i], pd_meta_dims_text(x));
        gone[axis] = 1;
    }
    for (int i = 0; i < x->rank; i++) {
        if (axes->n == 0) gone[i] = x->dim[i] == 1;
        if (!gone[i]) dim[rank++] = x->dim[i];
    }
    if (rank == 0) dim[rank++] = 1; /* one element is left: [1] */
    return pd_view_set_out(c, rank, dim);
}

/* ---- unsqueeze ---- */

static const struct pd_numbers_source axes_source = {"axes", AXES_TENSOR, AXES_LIST, AXES, 1};

/* Each axis counts in the shape as it is after the axes before it went in. */
static pd_status insert_axes(const struct pd_meta *x, const struct pd_numbers *axes, int64_t *dim, int *rank)
{
    if (x->rank + axes->n > PD_MAX_RANK)
        return pd_fail(PD_SHAPE, "X has shape %s and axes adds %d dimensions; a tensor has at most %d",
                       pd_meta_dims_text(x), axes->n, PD_MAX_RANK);
    memcpy(dim, x->dim, (size_t)x->rank * sizeof *dim);
    *rank = x->rank;
    for (int i = 0; i < axes->n; i++) {
        int at;
        PD_TRY(pd_axis_of(axes->at[i], *rank + 1, &at));
        memmove(dim + at + 1, dim + at, (size_t)(*rank - at) * sizeof *dim);
        dim[at] = 1;
        ++*rank;
    }
    return PD_OK;
}

/* The attribute goes before the inputs. */
static int has_inputs(int attr_n, int tensors, int lists)
{
    return attr_n == 0 && (tensors || lists);
}

static pd_status unsqueeze_infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X);
    struct pd_numbers axes;
    int64_t dim[PD_MAX_RANK];
    int rank;
    struct pd_numbers_source source = axes_source;
    if (!has_inputs(c->attr[AXES].n, c->in[AXES_TENSOR].n, c->in[AXES_LIST].n))
        source.tensor = source.list = -1;
    PD_TRY(pd_numbers_infer(c, &source, &axes));
    if (axes.known) {
        PD_TRY(insert_axes(x, &axes, dim, &rank));
        return pd_view_set_out(c, rank, dim);
    }
    rank = x->rank + axes.n;
    if (rank > PD_MAX_RANK)
        return pd_fail(PD_SHAPE, "X has shape %s and axes adds %d dimensions; a tensor has at most %d",
                       pd_meta_dims_text(x), axes.n, PD_MAX_RANK);
    for (int i = 0; i < rank; i++)
        dim[i] = -1;
    return pd_view_set_out(c, rank, dim);
}

static pd_status unsqueeze_run(const struct pd_run *r)
{
    if (has_inputs(r->attr[AXES].n, r->in[AXES_TENSOR].n, r->in[AXES_LIST].n)) {
        const struct pd_tensor *x = pd_run_in(r, X);
        struct pd_numbers axes;
        int64_t dim[PD_MAX_RANK];
        int rank;
        PD_TRY(pd_numbers_run(r, &axes_source, &axes));
        PD_TRY(insert_axes(&x->meta, &axes, dim, &rank));
        PD_TRY(pd_out_fit(pd_run_out(r, OUT), x->meta.dtype, rank, dim));
    }
    return pd_view_run(r);
}

static const struct pd_attr_def axes_attrs[] = {PD_DEF_INTS("axes"), {0}};
static const struct pd_slot_def x_and_axes[] = {
    {"X", 0},
    {"AxesTensor", PD_SLOT_OPTIONAL | PD_SLOT_SIZES},
    {"AxesTensorList", PD_SLOT_LIST | PD_SLOT_OPTIONAL | PD_SLOT_SIZES},
    {0}};

PD_VIEW_OPS(squeeze, "Takes out dimensions of size 1.", pd_view_inputs, axes_attrs, squeeze_infer,
            pd_view_run);
PD_VIEW_OPS(unsqueeze, "Puts in dimensions of size 1.", x_and_axes, axes_attrs, unsqueeze_infer,
            unsqueeze_run);
