/* accuracy: the share of samples whose label is among the top k. */
#include "ops/check.h"
#include "ops/out.h"

enum { A_OUT, A_INDICES, A_LABEL };
enum { ACCURACY, CORRECT, TOTAL };

static pd_status accuracy_infer(const struct pd_infer *c)
{
    const struct pd_meta *out = pd_infer_in(c, A_OUT), *label = pd_infer_in(c, A_LABEL),
                         *at = pd_infer_in(c, A_INDICES);
    if (label->rank < 1 || out->rank < 1 || (c->running && pd_meta_numel(label) != out->dim[0]))
        return pd_fail(PD_SHAPE,
                       "Out has shape %s and Label has shape %s; there must be one label for each row of Out",
                       pd_meta_dims_text(out), pd_meta_dims_text(label));
    if (c->running && (at->rank != out->rank || !pd_meta_dims_match(at, out)))
        return pd_fail(PD_SHAPE, "Out has shape %s and Indices has shape %s; take both from one top_k",
                       pd_meta_dims_text(out), pd_meta_dims_text(at));
    pd_out_number(c, ACCURACY, PD_DTYPE_FP32);
    pd_out_number(c, CORRECT, PD_DTYPE_INT32);
    pd_out_number(c, TOTAL, PD_DTYPE_INT32);
    return PD_OK;
}

static pd_status count_correct(const struct pd_tensor *at, const struct pd_tensor *label, int64_t rows,
                               int64_t k, int64_t *correct)
{
    *correct = 0;
    PD_TRY(pd_check_index_data(label, "Label"));
    PD_SWITCH_INDEX(label->meta.dtype, T, {
        const T *labels = label->data;
        const int64_t *indices = at->data;
        for (int64_t i = 0; i < rows; i++) {
            if (labels[i] < 0)
                return pd_fail(PD_RANGE, "label %lld of sample %lld is negative; labels count from 0",
                               (long long)labels[i], (long long)i);
            int hit = 0;
            for (int64_t j = 0; j < k; j++)
                hit |= indices[i * k + j] == labels[i];
            *correct += hit;
        }
    })
    return PD_OK;
}

static pd_status accuracy_run(const struct pd_run *r)
{
    const struct pd_tensor *out = pd_run_in(r, A_OUT), *at = pd_run_in(r, A_INDICES),
                           *label = pd_run_in(r, A_LABEL);
    struct pd_tensor *accuracy = pd_run_out(r, ACCURACY), *hits = pd_run_out(r, CORRECT),
                     *total = pd_run_out(r, TOTAL);
    int64_t rows = out->meta.dim[0], k = pd_meta_span(&out->meta, 1, out->meta.rank), correct = 0;
    if (at->meta.dtype != PD_DTYPE_INT64)
        return pd_fail(PD_TYPE, "Indices must be int64 as top_k gives them, found %s",
                       pd_dtype_name(at->meta.dtype));
    PD_TRY(count_correct(at, label, rows, k, &correct));
    if (accuracy) *(float *)accuracy->data = rows ? (float)correct / (float)rows : 0;
    if (hits) *(int32_t *)hits->data = (int32_t)correct;
    if (total) *(int32_t *)total->data = (int32_t)rows;
    return PD_OK;
}

const struct pd_op pd_op_accuracy = {
    .type = "accuracy",
    .doc = "Share of samples whose label is among the top k.",
    .inputs = (const struct pd_slot_def[]){{"Out", PD_SLOT_META | PD_SLOT_OWN_TYPE},
                                           {"Indices", PD_SLOT_OWN_TYPE},
                                           {"Label", PD_SLOT_OWN_TYPE},
                                           {0}},
    .outputs = (const struct pd_slot_def[]){{"Accuracy", 0}, {"Correct", 0}, {"Total", 0}, {0}},
    .flags = PD_OP_NO_GRAD,
    .infer = accuracy_infer,
    .run = accuracy_run,
};
