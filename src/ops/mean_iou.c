/* mean_iou: the mean over classes of correct / (correct + wrong). */
#include <string.h>

#include "ops/numbers.h"
#include "ops/out.h"
#include "ops/scratch.h"

enum { PREDICTIONS, LABELS, WRONGS, CORRECTS, MEANS };
enum { MEAN, WRONG, CORRECT };

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *p = pd_infer_in(c, PREDICTIONS), *l = pd_infer_in(c, LABELS);
    int64_t classes = c->attr[0].i;
    if (classes < 1)
        return pd_fail(PD_INVALID, "num_classes is %lld; it must be at least 1", (long long)classes);
    if (c->running && pd_meta_numel(p) != pd_meta_numel(l))
        return pd_fail(PD_SHAPE, "Predictions has shape %s and Labels has shape %s; they must be as many",
                       pd_meta_dims_text(p), pd_meta_dims_text(l));
    pd_out_number(c, MEAN, PD_DTYPE_FP32);
    for (int i = WRONG; i <= CORRECT; i++)
        if (pd_infer_out(c, i)) {
            pd_infer_out(c, i)->dtype = PD_DTYPE_INT32;
            pd_meta_set_1d(pd_infer_out(c, i), classes);
        }
    return PD_OK;
}

static pd_status add(const struct pd_run *r, int slot, int64_t classes, int64_t *to)
{
    for (int i = 0; i < r->in[slot].n; i++) {
        const struct pd_tensor *t = pd_run_in_at(r, slot, i);
        if (t->meta.dtype != PD_DTYPE_INT32 || pd_tensor_numel(t) != classes)
            return pd_fail(PD_SHAPE, "%s %d is %s %s; it must be int32 [%lld]", r->op->inputs[slot].name, i,
                           pd_dtype_name(t->meta.dtype), pd_meta_dims_text(&t->meta), (long long)classes);
        for (int64_t k = 0; k < classes; k++) {
            int32_t count = ((const int32_t *)t->data)[k];
            if (count < 0)
                return pd_fail(PD_RANGE, "%s %d counts class %lld %d times", r->op->inputs[slot].name, i,
                               (long long)k, count);
            to[k] += count;
        }
    }
    return PD_OK;
}

static void keep(struct pd_tensor *out, const int64_t *count, int64_t classes)
{
    for (int64_t k = 0; out && k < classes; k++)
        ((int32_t *)out->data)[k] = (int32_t)count[k];
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *predictions = pd_run_in(r, PREDICTIONS), *labels = pd_run_in(r, LABELS);
    int64_t classes = r->attr[0].i, n = pd_tensor_numel(predictions), p = 0, l = 0, valid = 0;
    struct pd_tensor *mean = pd_run_out(r, MEAN);
    /* The counts are made aside: outputs may be the inputs of the last step. */
    void *memory = NULL;
    PD_TRY(pd_scratch(r, (size_t)(2 * classes) * sizeof(int64_t), &memory));
    int64_t *wrong = memory, *correct = wrong + classes;
    memset(wrong, 0, (size_t)(2 * classes) * sizeof *wrong);
    PD_TRY(add(r, WRONGS, classes, wrong));
    PD_TRY(add(r, CORRECTS, classes, correct));
    for (int64_t i = 0; i < n; i++) {
        PD_TRY(pd_number_within(predictions, "Predictions", "class", i, classes - 1, &p));
        PD_TRY(pd_number_within(labels, "Labels", "class", i, classes - 1, &l));
        if (p == l) {
            correct[p]++;
        } else {
            wrong[l]++;
            wrong[p]++;
        }
    }
    double sum = 0, before = 0;
    for (int64_t k = 0; k < classes; k++) {
        int64_t most = wrong[k] > correct[k] ? wrong[k] : correct[k];
        if (most > INT32_MAX)
            return pd_fail(PD_RANGE, "class %lld is counted %lld times, which int32 cannot hold",
                           (long long)k, (long long)most);
        if (most == 0) continue;
        valid++;
        sum += (double)correct[k] / (double)(wrong[k] + correct[k]);
    }
    for (int i = 0; i < r->in[MEANS].n; i++) {
        double value = 0;
        PD_TRY(pd_number_any(pd_run_in_at(r, MEANS, i), "InMeanIou", &value));
        before += value;
    }
    keep(pd_run_out(r, WRONG), wrong, classes);
    keep(pd_run_out(r, CORRECT), correct, classes);
    if (mean) *(float *)mean->data = (float)(before + (valid ? sum / (double)valid : 0));
    return PD_OK;
}

const struct pd_op pd_op_mean_iou = {
    .type = "mean_iou",
    .doc = "Mean over classes of correct / (correct + wrong), with the counts that make it.",
    .inputs = (const struct pd_slot_def[]){{"Predictions", 0},
                                           {"Labels", PD_SLOT_OWN_TYPE},
                                           {"InWrongs", PD_SLOT_LIST | PD_SLOT_OPTIONAL | PD_SLOT_OWN_TYPE},
                                           {"InCorrects", PD_SLOT_LIST | PD_SLOT_OPTIONAL | PD_SLOT_OWN_TYPE},
                                           {"InMeanIou", PD_SLOT_LIST | PD_SLOT_OPTIONAL | PD_SLOT_OWN_TYPE},
                                           {0}},
    .outputs = (const struct pd_slot_def[]){{"OutMeanIou", 0}, {"OutWrong", 0}, {"OutCorrect", 0}, {0}},
    .attrs = (const struct pd_attr_def[]){PD_DEF_INT("num_classes", 0), {0}},
    .flags = PD_OP_NO_GRAD,
    .infer = infer,
    .run = run,
};
