/* precision_recall: precision, recall and F1 over classes. */
#include <string.h>

#include "ops/numbers.h"
#include "ops/scratch.h"

enum { PROBS, INDICES, LABELS, WEIGHTS, STATES };
enum { BATCH, ACCUM, STATES_OUT };
enum { TP, FP, TN, FN, COUNTS };

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *probs = pd_infer_in(c, PROBS), *at = pd_infer_in(c, INDICES),
                         *labels = pd_infer_in(c, LABELS);
    const struct pd_meta *weights = pd_infer_in(c, WEIGHTS), *states = pd_infer_in(c, STATES);
    int64_t classes = c->attr[0].i;
    if (classes < 1)
        return pd_fail(PD_INVALID, "class_number is %lld; it must be at least 1", (long long)classes);
    if (c->running && (pd_meta_numel(at) != pd_meta_numel(labels) ||
                       (weights && pd_meta_numel(weights) != pd_meta_numel(labels))))
        return pd_fail(PD_SHAPE,
                       "Indices has shape %s, Labels has shape %s; there must be one number for each sample",
                       pd_meta_dims_text(at), pd_meta_dims_text(labels));
    if (c->running && states && pd_meta_numel(states) != classes * COUNTS)
        return pd_fail(PD_SHAPE, "StatesInfo has shape %s; it must be [%lld, 4]", pd_meta_dims_text(states),
                       (long long)classes);
    for (int i = 0; i < 2; i++)
        if (pd_infer_out(c, i)) {
            pd_infer_out(c, i)->dtype = PD_DTYPE_FP64;
            pd_meta_set_1d(pd_infer_out(c, i), 6);
        }
    pd_infer_out(c, STATES_OUT)->dtype = probs->dtype;
    pd_meta_set_2d(pd_infer_out(c, STATES_OUT), classes, COUNTS);
    return PD_OK;
}

static double ratio(double hit, double miss)
{
    return hit > 0 || miss > 0 ? hit / (hit + miss) : 1;
}

static double f1(double precision, double recall)
{
    return precision > 0 || recall > 0 ? 2 * precision * recall / (precision + recall) : 0;
}

static double state_at(const struct pd_tensor *t, int64_t i)
{
    return t->meta.dtype == PD_DTYPE_FP64 ? ((const double *)t->data)[i] : ((const float *)t->data)[i];
}

/* Averages over classes, then over samples: precision, recall, F1 each. */
static void metrics(const double *count, int64_t classes, double *out)
{
    double precision = 0, recall = 0, sum[COUNTS] = {0};
    for (int64_t i = 0; i < classes; i++, count += COUNTS) {
        for (int k = 0; k < COUNTS; k++)
            sum[k] += count[k];
        precision += ratio(count[TP], count[FP]);
        recall += ratio(count[TP], count[FN]);
    }
    out[0] = precision / (double)classes;
    out[1] = recall / (double)classes;
    out[2] = f1(out[0], out[1]);
    out[3] = ratio(sum[TP], sum[FP]);
    out[4] = ratio(sum[TP], sum[FN]);
    out[5] = f1(out[3], out[4]);
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *at = pd_run_in(r, INDICES), *labels = pd_run_in(r, LABELS),
                           *weights = pd_run_in(r, WEIGHTS);
    const struct pd_tensor *before = pd_run_in(r, STATES);
    struct pd_tensor *states = pd_run_out(r, STATES_OUT), *batch = pd_run_out(r, BATCH),
                     *accum = pd_run_out(r, ACCUM);
    int64_t n = pd_tensor_numel(at), classes = r->attr[0].i, predicted = 0, label = 0;
    enum pd_dtype dtype = states->meta.dtype;
    if (!pd_dtype_is_float(dtype) || (weights && weights->meta.dtype != dtype) ||
        (before && before->meta.dtype != dtype))
        return pd_fail(PD_TYPE, "MaxProbs, Weights and StatesInfo must be of one type, float32 or float64");
    void *memory = NULL;
    PD_TRY(pd_scratch(r, (size_t)(classes * COUNTS) * sizeof(double), &memory));
    double *count = memory, all = 0;
    memset(count, 0, (size_t)(classes * COUNTS) * sizeof *count);
    for (int64_t i = 0; i < n; i++) {
        PD_TRY(pd_number_within(at, "Indices", "class", i, classes - 1, &predicted));
        PD_TRY(pd_number_within(labels, "Labels", "class", i, classes - 1, &label));
        double w = weights ? state_at(weights, i) : 1;
        all += w;
        if (predicted == label) {
            count[label * COUNTS + TP] += w;
        } else {
            count[label * COUNTS + FN] += w;
            count[predicted * COUNTS + FP] += w;
        }
    }
    for (int64_t k = 0; k < classes; k++)
        count[k * COUNTS + TN] =
            all - count[k * COUNTS + TP] - count[k * COUNTS + FP] - count[k * COUNTS + FN];
    if (batch) metrics(count, classes, batch->data);
    for (int64_t i = 0; i < classes * COUNTS; i++)
        count[i] += before ? state_at(before, i) : 0;
    if (accum) metrics(count, classes, accum->data);
    PD_SWITCH_FLOAT(dtype, T, {
        for (int64_t i = 0; i < classes * COUNTS; i++)
            ((T *)states->data)[i] = (T)count[i];
    })
    return PD_OK;
}

const struct pd_op pd_op_precision_recall = {
    .type = "precision_recall",
    .doc = "Precision, recall and F1, over this batch and over all batches so far.",
    .inputs = (const struct pd_slot_def[]){{"MaxProbs", PD_SLOT_META},
                                           {"Indices", PD_SLOT_OWN_TYPE},
                                           {"Labels", PD_SLOT_OWN_TYPE},
                                           {"Weights", PD_SLOT_OPTIONAL},
                                           {"StatesInfo", PD_SLOT_OPTIONAL},
                                           {0}},
    .outputs =
        (const struct pd_slot_def[]){{"BatchMetrics", 0}, {"AccumMetrics", 0}, {"AccumStatesInfo", 0}, {0}},
    .attrs = (const struct pd_attr_def[]){PD_DEF_INT("class_number", 0), {0}},
    .flags = PD_OP_NO_GRAD,
    .infer = infer,
    .run = run,
};
