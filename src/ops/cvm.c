/* cvm: embeddings whose first two columns count shows and clicks; they become log(show + 1) and the log of
 * the click rate, or go. The gradient writes the true counts into their place, which is how the counts of a
 * table are kept. */
#include <math.h>
#include <string.h>

#include "ops/check.h"
#include "ops/out.h"

enum { X, CVM, GRAD_Y };
enum { Y };
enum { USE_CVM };

static const struct pd_attr_def attrs[] = {PD_DEF_BOOL("use_cvm", 1), {0}};

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X);
    struct pd_meta *y = pd_infer_out(c, Y);
    if (x->rank != 2 || (x->dim[1] >= 0 && x->dim[1] < 2))
        return pd_fail(PD_SHAPE, "X has shape %s; it must be [rows, columns] with at least 2 columns",
                       pd_meta_dims_text(x));
    if (!y) return PD_OK;
    pd_meta_like(y, x);
    if (!c->attr[USE_CVM].b && x->dim[1] >= 0) y->dim[1] -= 2;
    return PD_OK;
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X);
    struct pd_tensor *y = pd_run_out(r, Y);
    int64_t rows = x->meta.dim[0], width = x->meta.dim[1], skip = r->attr[USE_CVM].b ? 0 : 2;
    PD_TRY(pd_check_float_data(x, "X"));
    PD_SWITCH_FLOAT(x->meta.dtype, T, {
        const T *from = x->data;
        T *to = y->data;
        for (int64_t i = 0; i < rows; i++, from += width, to += width - skip) {
            memcpy(to, from + skip, (size_t)(width - skip) * sizeof(T));
            if (skip) continue;
            to[0] = (T)log((double)from[0] + 1);
            to[1] = (T)(log((double)from[1] + 1) - (double)to[0]);
        }
    })
    return PD_OK;
}

static pd_status grad_run(const struct pd_run *r)
{
    const struct pd_tensor *cvm = pd_run_in(r, CVM), *dy = pd_run_in(r, GRAD_Y);
    struct pd_tensor *dx = pd_run_out(r, 0);
    if (!dx) return PD_OK;
    int64_t rows = dx->meta.dim[0], width = dx->meta.dim[1], skip = r->attr[USE_CVM].b ? 0 : 2;
    const struct pd_lod_level *level = dx->meta.lod ? &dx->meta.lod->level[0] : NULL;
    int64_t groups = level ? level->n - 1 : rows;
    if (pd_tensor_numel(cvm) < 2 * groups)
        return pd_fail(PD_SHAPE, "CVM has shape %s; it must hold show and click of %lld instances",
                       pd_meta_dims_text(&cvm->meta), (long long)groups);
    if (pd_tensor_numel(dy) != rows * (width - skip))
        return pd_fail(PD_SHAPE, "Y@GRAD has shape %s; the output of cvm had %lld rows of width %lld",
                       pd_meta_dims_text(&dy->meta), (long long)rows, (long long)(width - skip));
    PD_TRY(pd_check_float_data(dx, "X@GRAD"));
    PD_SWITCH_FLOAT(dx->meta.dtype, T, {
        const T *from = dy->data;
        const T *counts = cvm->data;
        T *to = dx->data;
        for (int64_t g = 0; g < groups; g++, counts += 2) {
            int64_t end = level ? level->offset[g + 1] : g + 1;
            for (int64_t i = level ? level->offset[g] : g; i < end; i++) {
                memcpy(to + i * width + skip, from + i * (width - skip), (size_t)(width - skip) * sizeof(T));
                to[i * width] = counts[0];
                to[i * width + 1] = counts[1];
            }
        }
    })
    return PD_OK;
}

const struct pd_op pd_op_cvm = {
    .type = "cvm",
    .doc = "Turns the counts in the first two columns of X into logarithms, or leaves them out.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {"CVM", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Y", 0}, {0}},
    .attrs = attrs,
    .infer = infer,
    .run = run,
    .grad_type = "cvm_grad",
    .grad_in = "X CVM Y@",
    .grad_out = "X@",
};

const struct pd_op pd_op_cvm_grad = {
    .type = "cvm_grad",
    .doc = "Gradient of cvm; the first two columns carry the counts of CVM.",
    .inputs = (const struct pd_slot_def[]){{"X", PD_SLOT_META}, {"CVM", 0}, {"Y@GRAD", 0}, {0}},
    .outputs = pd_out_x_grad,
    .attrs = attrs,
    .infer = pd_out_infer_like,
    .run = grad_run,
};
