/* auc: the area under the ROC curve.
 *
 * Counts of positive and negative samples per bucket of the prediction. With slide_steps the counts of the
 * last steps are kept. Two layouts are in use: ring: slide_steps parts, then their sum, then the number of
 * steps so far (since 1.4); queue: slide_steps parts, oldest first (before). Without slide_steps there is one
 * part; the layer auc(slide_steps=0) starts it with the ring's last number too, which the first step drops.
 */
#include <string.h>

#include "ops/check.h"
#include "ops/label.h"
#include "ops/out.h"
#include "ops/scratch.h"

enum { U_PREDICT, U_LABEL, U_POS, U_NEG };
enum { AUC, POS_OUT, NEG_OUT };
enum { CURVE, THRESHOLDS, SLIDE };

static int is_queue(int64_t numel, int64_t buckets, int64_t slide)
{
    return slide > 0 && numel == slide * buckets;
}

/* Positives and negatives lie in the same way. */
static pd_status check_alike(const struct pd_infer *c, int64_t buckets, int64_t slide)
{
    const struct pd_meta *pos = pd_infer_in(c, U_POS), *neg = pd_infer_in(c, U_NEG);
    int64_t n = pos ? pd_meta_numel(pos) : -1, m = neg ? pd_meta_numel(neg) : -1;
    if (n < 0 || m < 0 || is_queue(n, buckets, slide) == is_queue(m, buckets, slide)) return PD_OK;
    return pd_fail(PD_SHAPE, "StatPos has shape %s and StatNeg has shape %s; they must be the same",
                   pd_meta_dims_text(pos), pd_meta_dims_text(neg));
}

static pd_status auc_infer(const struct pd_infer *c)
{
    const struct pd_meta *predict = pd_infer_in(c, U_PREDICT), *label = pd_infer_in(c, U_LABEL);
    int64_t buckets = (int64_t)c->attr[THRESHOLDS].i + 1, slide = c->attr[SLIDE].i;
    if (buckets < 2)
        return pd_fail(PD_INVALID, "num_thresholds is %d; it must be at least 1", c->attr[THRESHOLDS].i);
    if (slide < 0)
        return pd_fail(PD_INVALID, "slide_steps is %lld; it may not be negative", (long long)slide);
    if (predict->rank != 2 || (c->running && (predict->dim[1] < 1 || predict->dim[1] > 2)))
        return pd_fail(PD_SHAPE, "Predict has shape %s; it must be [samples, 2] or [samples, 1]",
                       pd_meta_dims_text(predict));
    if (c->running && pd_meta_numel(label) != predict->dim[0])
        return pd_fail(
            PD_SHAPE,
            "Predict has shape %s and Label has shape %s; there must be one label for each prediction",
            pd_meta_dims_text(predict), pd_meta_dims_text(label));
    pd_out_number(c, AUC, PD_DTYPE_FP64);
    for (int i = 0; i < 2; i++) {
        const struct pd_meta *in = pd_infer_in(c, U_POS + i);
        struct pd_meta *out = pd_infer_out(c, POS_OUT + i);
        int64_t n = in ? pd_meta_numel(in) : -1;
        int64_t ring = slide ? (1 + slide) * buckets + 1 : buckets;
        if (n >= 0 && n != ring && !is_queue(n, buckets, slide) && (slide || n != buckets + 1))
            return pd_fail(
                PD_SHAPE,
                "%s has shape %s; for num_thresholds %d and slide_steps %lld it must hold %lld numbers",
                c->op->inputs[U_POS + i].name, pd_meta_dims_text(in), c->attr[THRESHOLDS].i, (long long)slide,
                (long long)ring);
        if (!out) continue;
        out->dtype = PD_DTYPE_INT64;
        if (is_queue(n, buckets, slide))
            pd_meta_set_2d(out, slide, buckets);
        else if (slide)
            pd_meta_set_1d(out, ring);
        else
            pd_meta_set_2d(out, 1, buckets);
    }
    return check_alike(c, buckets, slide);
}

/* Counts come from files and other Programs too: such as no sum has wrap around. */
static int64_t plus(int64_t a, int64_t b, int sign)
{
    return (int64_t)((uint64_t)a + (uint64_t)sign * (uint64_t)b);
}

struct counts {
    int64_t *pos, *neg;
    int64_t thresholds;
    int any_label; /* labels other than 0 count as positive, also negative ones */
};

/* All predictions are checked before the first is counted, so that an error leaves the counts whole. */
static pd_status check_samples(const struct pd_tensor *predict, const struct pd_tensor *label)
{
    int64_t n = predict->meta.dim[0], width = predict->meta.dim[1];
    PD_TRY(pd_check_index_data(label, "Label"));
    PD_TRY(pd_check_float_data(predict, "Predict"));
    PD_SWITCH_FLOAT(predict->meta.dtype, T, {
        const T *p = predict->data;
        for (int64_t i = 0; i < n; i++) {
            const T v = p[i * width + width - 1];
            if (!(v >= 0 && v <= 1))
                return pd_fail(PD_RANGE,
                               "prediction %g of sample %lld is not within 0 and 1; use softmax or sigmoid",
                               (double)v, (long long)i);
        }
    })
    return PD_OK;
}

static void add_samples(const struct counts *c, const struct pd_tensor *predict,
                        const struct pd_tensor *label)
{
    int64_t n = predict->meta.dim[0], width = predict->meta.dim[1];
    PD_SWITCH_FLOAT(predict->meta.dtype, T, {
        const T *p = predict->data;
        for (int64_t i = 0; i < n; i++) {
            int64_t y = pd_label_at(label, i);
            uint32_t bucket = (uint32_t)(p[i * width + width - 1] * (T)c->thresholds);
            if (y > 0 || (y < 0 && c->any_label))
                c->pos[bucket] = plus(c->pos[bucket], 1, 1);
            else if (y == 0)
                c->neg[bucket] = plus(c->neg[bucket], 1, 1);
        }
    })
}

static double area(const int64_t *pos, const int64_t *neg, int64_t thresholds)
{
    double sum = 0, positives = 0, negatives = 0;
    for (int64_t i = thresholds; i >= 0; i--) {
        double before = positives;
        positives += (double)pos[i];
        negatives += (double)neg[i];
        sum += (double)neg[i] * (positives + before) / 2;
    }
    return positives > 0 && negatives > 0 ? sum / positives / negatives : sum;
}

/* The queue moves on by one step; the counts of all steps are added up in `total`. */
static pd_status step_queue(const struct pd_run *r, int64_t *pos, int64_t *neg, int64_t buckets,
                            int64_t slide, double *auc)
{
    int64_t last = (slide - 1) * buckets;
    size_t bytes = (size_t)buckets * sizeof(int64_t);
    void *memory = NULL;
    PD_TRY(pd_scratch(r, 2 * bytes, &memory));
    int64_t *total[2] = {memory, (int64_t *)memory + buckets}, *part[2] = {pos, neg};
    for (int i = 0; i < 2; i++) {
        memmove(part[i], part[i] + buckets, (size_t)last * sizeof(int64_t));
        memset(part[i] + last, 0, bytes);
    }
    add_samples(&(struct counts){pos + last, neg + last, buckets - 1, 1}, pd_run_in(r, U_PREDICT),
                pd_run_in(r, U_LABEL));
    memset(memory, 0, 2 * bytes);
    for (int i = 0; i < 2; i++)
        for (int64_t k = 0; k < slide * buckets; k++)
            total[i][k % buckets] = plus(total[i][k % buckets], part[i][k], 1);
    *auc = area(total[0], total[1], buckets - 1);
    return PD_OK;
}

static pd_status auc_run(const struct pd_run *r)
{
    struct pd_tensor *out[2] = {pd_run_out(r, POS_OUT), pd_run_out(r, NEG_OUT)}, *auc = pd_run_out(r, AUC);
    int64_t buckets = (int64_t)r->attr[THRESHOLDS].i + 1, slide = r->attr[SLIDE].i, *stat[2];
    PD_TRY(check_samples(pd_run_in(r, U_PREDICT), pd_run_in(r, U_LABEL)));
    for (int i = 0; i < 2; i++) {
        const struct pd_tensor *in = pd_run_in(r, U_POS + i);
        PD_TRY(pd_check_ids_data(in, r->op->inputs[U_POS + i].name));
        stat[i] = out[i]->data;
        if (in->data != out[i]->data) memcpy(out[i]->data, in->data, pd_tensor_bytes(out[i]));
    }
    double value = 0;
    if (is_queue(pd_tensor_numel(out[0]), buckets, slide)) {
        PD_TRY(step_queue(r, stat[0], stat[1], buckets, slide, &value));
    } else {
        int64_t steps = slide ? stat[0][(slide + 1) * buckets] : 0, sum = slide * buckets;
        int64_t now = slide ? (steps < 0 ? 0 : steps % slide) * buckets : 0;
        for (int i = 0; slide && i < 2; i++) {
            for (int64_t k = 0; k < buckets; k++)
                stat[i][sum + k] = plus(stat[i][sum + k], stat[i][now + k], -1);
            memset(stat[i] + now, 0, (size_t)buckets * sizeof(int64_t));
        }
        add_samples(&(struct counts){stat[0] + now, stat[1] + now, buckets - 1, 0}, pd_run_in(r, U_PREDICT),
                    pd_run_in(r, U_LABEL));
        for (int i = 0; slide && i < 2; i++) {
            for (int64_t k = 0; k < buckets; k++)
                stat[i][sum + k] = plus(stat[i][sum + k], stat[i][now + k], 1);
            stat[i][(slide + 1) * buckets] = plus(stat[i][(slide + 1) * buckets], 1, 1);
        }
        value = area(stat[0] + sum, stat[1] + sum, buckets - 1);
    }
    if (auc) *(double *)auc->data = value;
    return PD_OK;
}

const struct pd_op pd_op_auc = {
    .type = "auc",
    .doc = "Area under the ROC curve, from counts in buckets that are carried from batch to batch.",
    .inputs =
        (const struct pd_slot_def[]){
            {"Predict", PD_SLOT_OWN_TYPE}, {"Label", PD_SLOT_OWN_TYPE}, {"StatPos", 0}, {"StatNeg", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"AUC", 0}, {"StatPosOut", 0}, {"StatNegOut", 0}, {0}},
    .attrs = (const struct pd_attr_def[]){PD_DEF_STRING("curve", "ROC"),
                                          PD_DEF_INT("num_thresholds", (2 << 12) - 1),
                                          PD_DEF_INT("slide_steps", 1),
                                          {0}},
    .flags = PD_OP_NO_GRAD,
    .infer = auc_infer,
    .run = auc_run,
};
