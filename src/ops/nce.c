/* nce: noise-contrastive estimation. Each row's true classes are told from classes drawn at random, so that
 * the cost of a step does not grow with the number of classes. SampleLogits holds the sigmoids, true classes
 * first. */
#include <math.h>
#include <string.h>

#include "ops/check.h"
#include "ops/draw.h"
#include "ops/label.h"
#include "ops/lookup_table.h"
#include "ops/out.h"
#include "ops/rows.h"
#include "ops/sampler.h"
#include "ops/scratch.h"

enum { INPUT, LABEL, WEIGHT, BIAS, SAMPLE_WEIGHT, PROBS, ALIAS, ALIAS_PROBS };
enum { COST, LOGITS, LABELS };
enum { CLASSES, NEGATIVES, SAMPLER, SEED, IS_SPARSE, CUSTOM, EPMAP = 9 };
enum {
    GRAD_INPUT,
    GRAD_LABEL,
    GRAD_BIAS,
    GRAD_LOGITS,
    GRAD_LABELS,
    GRAD_SAMPLE_WEIGHT,
    GRAD_WEIGHT,
    GRAD_PROBS,
    GRAD_COST
};
enum { D_INPUT, D_BIAS, D_WEIGHT };

static const struct pd_attr_def attrs[] = {
    PD_DEF_INT("num_total_classes", 0), PD_DEF_INT("num_neg_samples", 10),
    PD_DEF_INT("sampler", 0),           PD_DEF_INT("seed", 0),
    PD_DEF_BOOL("is_sparse", 0),        PD_DEF_INTS("custom_neg_classes"),
    PD_DEF_BOOL("remote_prefetch", 0),  PD_DEF_INT("trainer_id", 0),
    PD_DEF_LONGS("height_sections"),    PD_DEF_STRINGS("epmap"),
    PD_DEF_STRINGS("table_names"),      {0},
};

static int64_t true_classes(const struct pd_meta *label)
{
    return label->rank == 2 ? label->dim[1] : 1;
}

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, INPUT), *label = pd_infer_in(c, LABEL),
                         *w = pd_infer_in(c, WEIGHT);
    const struct pd_meta *bias = pd_infer_in(c, BIAS);
    struct pd_meta *cost = pd_infer_out(c, COST), *logits = pd_infer_out(c, LOGITS),
                   *labels = pd_infer_out(c, LABELS);
    int64_t classes = c->attr[CLASSES].i, negatives = c->attr[NEGATIVES].i;
    PD_TRY(pd_check_float(x, "Input"));
    PD_TRY(pd_check_same_type(x, "Input", w, "Weight"));
    PD_TRY(pd_label_check_index(label, "Label"));
    PD_TRY(pd_check_rank(x, "Input", 2, 2));
    PD_TRY(pd_check_rank(w, "Weight", 2, 2));
    PD_TRY(pd_check_rank(label, "Label", 1, 2));
    if (x->dim[0] >= 0 && label->dim[0] >= 0 && x->dim[0] != label->dim[0])
        return pd_fail(PD_SHAPE, "Input %s and Label %s must have equally many rows.", pd_meta_dims_text(x),
                       pd_meta_dims_text(label));
    if ((w->dim[0] >= 0 && w->dim[0] != classes) ||
        (w->dim[1] >= 0 && x->dim[1] >= 0 && w->dim[1] != x->dim[1]))
        return pd_fail(PD_SHAPE,
                       "Weight has shape %s, but num_total_classes %lld and Input %s call for [%lld, %lld].",
                       pd_meta_dims_text(w), (long long)classes, pd_meta_dims_text(x), (long long)classes,
                       (long long)x->dim[1]);
    if (bias && pd_meta_numel(bias) >= 0 && pd_meta_numel(bias) != classes)
        return pd_fail(PD_SHAPE, "Bias has shape %s, but there are %lld classes.", pd_meta_dims_text(bias),
                       (long long)classes);
    if (classes < 2 || negatives < 0)
        return pd_fail(PD_INVALID,
                       "num_total_classes is %lld and num_neg_samples %lld: give at least 2 and 0.",
                       (long long)classes, (long long)negatives);
    if (c->attr[CUSTOM].n && c->attr[CUSTOM].n != negatives)
        return pd_fail(PD_INVALID, "custom_neg_classes holds %d classes, but num_neg_samples is %lld.",
                       c->attr[CUSTOM].n, (long long)negatives);
    if (c->attr[SAMPLER].i < PD_SAMPLER_UNIFORM || c->attr[SAMPLER].i > PD_SAMPLER_CUSTOM)
        return pd_fail(PD_INVALID, "sampler is %d: give 0 (uniform), 1 (log uniform) or 2 (custom).",
                       c->attr[SAMPLER].i);
    if (c->attr[SAMPLER].i == PD_SAMPLER_CUSTOM &&
        (!pd_infer_in(c, PROBS) || !pd_infer_in(c, ALIAS) || !pd_infer_in(c, ALIAS_PROBS)))
        return pd_fail(PD_INVALID,
                       "The custom sampler needs CustomDistProbs, CustomDistAlias and CustomDistAliasProbs.");
    int64_t truths = true_classes(label), width = truths < 0 ? -1 : truths + negatives;
    if (cost) {
        cost->dtype = x->dtype;
        pd_meta_set_2d(cost, x->dim[0], 1);
    }
    if (logits) {
        logits->dtype = x->dtype;
        pd_meta_set_2d(logits, x->dim[0], width);
    }
    if (labels) {
        labels->dtype = PD_DTYPE_INT64;
        pd_meta_set_2d(labels, x->dim[0], width);
    }
    return PD_OK;
}

/* How likely the sampler is to draw a class. */
static double chance(const struct pd_attr *attr, const struct pd_tensor *probs, int64_t class)
{
    double classes = attr[CLASSES].i;
    if (attr[SAMPLER].i == PD_SAMPLER_LOG_UNIFORM)
        return log(((double)class + 2) / ((double)class + 1)) / log(classes);
    if (attr[SAMPLER].i == PD_SAMPLER_CUSTOM && probs) return (double)((const float *)probs->data)[class];
    return 1 / classes;
}

/* The probabilities of the custom sampler: one for each class. */
static pd_status check_law(const struct pd_run *r, int64_t classes)
{
    for (int slot = PROBS; r->attr[SAMPLER].i == PD_SAMPLER_CUSTOM && slot <= ALIAS_PROBS; slot++) {
        const struct pd_tensor *t = pd_run_in(r, slot);
        enum pd_dtype want = slot == ALIAS ? PD_DTYPE_INT32 : PD_DTYPE_FP32;
        if (pd_tensor_numel(t) != classes || t->meta.dtype != want)
            return pd_fail(PD_SHAPE, "%s is %s %s, but must hold %lld numbers of type %s.",
                           r->op->inputs[slot].name, pd_dtype_name(t->meta.dtype),
                           pd_meta_dims_text(&t->meta), (long long)classes, pd_dtype_name(want));
    }
    return PD_OK;
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *x_in = pd_run_in(r, INPUT), *label = pd_run_in(r, LABEL),
                           *w_in = pd_run_in(r, WEIGHT);
    const struct pd_tensor *bias = pd_run_in(r, BIAS), *sample_weight = pd_run_in(r, SAMPLE_WEIGHT);
    int64_t rows = x_in->meta.dim[0], dim = x_in->meta.dim[1], truths = true_classes(&label->meta);
    PD_TRY(pd_lookup_is_here(&r->attr[EPMAP]));
    int64_t negatives = r->attr[NEGATIVES].i, width = truths + negatives, classes = r->attr[CLASSES].i;
    int64_t *labels = pd_run_out(r, LABELS)->data;
    PD_TRY(pd_label_check_range(label, rows * truths, classes, 0));
    PD_TRY(check_law(r, classes));
    struct pd_sampler sampler = {
        .law = (enum pd_sampler_law)r->attr[SAMPLER].i, .classes = classes, .seed = r->attr[SEED].i};
    if (sampler.law == PD_SAMPLER_CUSTOM) {
        sampler.alias = pd_run_in(r, ALIAS)->data;
        sampler.alias_probs = pd_run_in(r, ALIAS_PROBS)->data;
    }
    if (!sampler.seed) sampler.rng = pd_draw_rng(r);
    pd_sampler_start(&sampler);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < width; j++) {
            int64_t class = j < truths          ? pd_label_at(label, i * truths + j)
                            : r->attr[CUSTOM].n ? r->attr[CUSTOM].ints[j - truths]
                                                : pd_sampler_draw(&sampler);
            if (class < 0 || class >= classes)
                return pd_fail(PD_RANGE,
                               "Class %lld to compare with is out of range: there are %lld classes.",
                               (long long)class, (long long)classes);
            labels[i * width + j] = class;
        }
    PD_SWITCH_FLOAT(x_in->meta.dtype, T, {
        const T *x = x_in->data;
        const T *w = w_in->data;
        T *logits = pd_run_out(r, LOGITS)->data;
        T *cost = pd_run_out(r, COST)->data;
        for (int64_t i = 0; i < rows; i++) {
            double sum = 0;
            for (int64_t j = 0; j < width; j++) {
                int64_t class = labels[i * width + j];
                T dot = bias ? ((const T *)bias->data)[class] : 0;
                for (int64_t k = 0; k < dim; k++)
                    dot += x[i * dim + k] * w[class * dim + k];
                double o = 1 / (1 + exp(-(double)dot));
                double b = chance(r->attr, pd_run_in(r, PROBS), class) * (double)negatives;
                logits[i * width + j] = (T)o;
                sum -= j < truths ? log(o / (o + b)) : log(b / (o + b));
            }
            cost[i] = (T)(sum * (sample_weight ? (double)((const T *)sample_weight->data)[i] : 1));
        }
    })
    return PD_OK;
}

static pd_status grad_infer(const struct pd_infer *c)
{
    struct pd_meta *dw = pd_infer_out(c, D_WEIGHT);
    PD_TRY(pd_infer_need_type(c, GRAD_LABELS, PD_DTYPE_INT64));
    pd_out_like(c, D_INPUT, GRAD_INPUT);
    pd_out_like(c, D_BIAS, GRAD_BIAS);
    if (!dw) return PD_OK;
    dw->kind = c->attr[IS_SPARSE].b ? PD_KIND_SELECTED_ROWS : PD_KIND_TENSOR;
    dw->dtype = pd_infer_in(c, GRAD_WEIGHT)->dtype;
    pd_meta_copy_dims(dw, pd_infer_in(c, GRAD_WEIGHT));
    return PD_OK;
}

static pd_status grad_run(const struct pd_run *r)
{
    const struct pd_tensor *x_in = pd_run_in(r, GRAD_INPUT), *logits = pd_run_in(r, GRAD_LOGITS),
                           *w_in = pd_run_in(r, GRAD_WEIGHT);
    const struct pd_tensor *sample_weight = pd_run_in(r, GRAD_SAMPLE_WEIGHT), *bias = pd_run_in(r, GRAD_BIAS);
    struct pd_tensor *dx = pd_run_out(r, D_INPUT), *db = bias ? pd_run_out(r, D_BIAS) : NULL;
    struct pd_value *dw = pd_run_out_value(r, D_WEIGHT);
    const int64_t *labels = pd_run_in(r, GRAD_LABELS)->data;
    int64_t rows = x_in->meta.dim[0], dim = x_in->meta.dim[1], width = logits->meta.dim[1],
            classes = w_in->meta.dim[0];
    int64_t truths = true_classes(&pd_run_in(r, GRAD_LABEL)->meta), negatives = r->attr[NEGATIVES].i,
            n = rows * width;
    int sparse = r->attr[IS_SPARSE].b;
    if (dx) memset(dx->data, 0, pd_tensor_bytes(dx));
    if (db) memset(db->data, 0, pd_tensor_bytes(db));
    void *block = NULL;
    if (dw && sparse) {
        PD_TRY(pd_scratch(r, pd_rows_make_scratch(n), &block));
        PD_TRY(pd_rows_make(dw, labels, n, classes, dim, x_in->meta.dtype, block));
    } else if (dw) {
        memset(dw->tensor.data, 0, pd_tensor_bytes(&dw->tensor));
    }
    const int64_t *place = block;
    PD_SWITCH_FLOAT(x_in->meta.dtype, T, {
        const T *x = x_in->data;
        const T *w = w_in->data;
        const T *g = pd_run_in(r, GRAD_COST)->data;
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < width; j++) {
                int64_t at = i * width + j;
                int64_t class = labels[at];
                double o = (double)((const T *)logits->data)[at];
                double b = chance(r->attr, pd_run_in(r, GRAD_PROBS), class) * (double)negatives;
                double slope = j < truths ? b / (o + b) * (o - 1) : o * (1 - o) / (o + b);
                T d = (T)(slope * (double)g[i] *
                          (sample_weight ? (double)((const T *)sample_weight->data)[i] : 1));
                if (db) ((T *)db->data)[class] += d;
                T *to_w = dw ? (T *)dw->tensor.data + (sparse ? place[at] : class) * dim : NULL;
                for (int64_t k = 0; to_w && k < dim; k++)
                    to_w[k] += d * x[i * dim + k];
                for (int64_t k = 0; dx && k < dim; k++)
                    ((T *)dx->data)[i * dim + k] += d * w[class * dim + k];
            }
    })
    return PD_OK;
}

const struct pd_op pd_op_nce = {
    .type = "nce",
    .doc = "Noise-contrastive estimation of the cost over many classes.",
    .inputs = (const struct pd_slot_def[]){{"Input", 0},
                                           {"Label", PD_SLOT_OWN_TYPE},
                                           {"Weight", 0},
                                           {"Bias", PD_SLOT_OPTIONAL},
                                           {"SampleWeight", PD_SLOT_OPTIONAL},
                                           {"CustomDistProbs", PD_SLOT_OPTIONAL},
                                           {"CustomDistAlias", PD_SLOT_OPTIONAL | PD_SLOT_OWN_TYPE},
                                           {"CustomDistAliasProbs", PD_SLOT_OPTIONAL},
                                           {0}},
    .outputs =
        (const struct pd_slot_def[]){
            {"Cost", 0}, {"SampleLogits", PD_SLOT_HIDDEN}, {"SampleLabels", PD_SLOT_HIDDEN}, {0}},
    .attrs = attrs,
    .infer = infer,
    .run = run,
    .grad_type = "nce_grad",
    .grad_in =
        "Input Label Bias SampleLogits SampleLabels SampleWeight Weight CustomDistProbs CustomDistAlias "
        "CustomDistAliasProbs Cost@",
    .grad_out = "Input@ Bias@ Weight@",
    .state_size = sizeof(struct pd_draw_count),
};

const struct pd_op pd_op_nce_grad = {
    .type = "nce_grad",
    .doc = "Gradient of nce: of the weights dense, or selected rows with is_sparse.",
    .inputs =
        (const struct pd_slot_def[]){{"Input", 0},
                                     {"Label", PD_SLOT_META | PD_SLOT_OWN_TYPE},
                                     {"Bias", PD_SLOT_META | PD_SLOT_OPTIONAL},
                                     {"SampleLogits", 0},
                                     {"SampleLabels", PD_SLOT_OWN_TYPE},
                                     {"SampleWeight", PD_SLOT_OPTIONAL},
                                     {"Weight", 0},
                                     {"CustomDistProbs", PD_SLOT_OPTIONAL},
                                     {"Cost@GRAD", 0},
                                     {"CustomDistAlias", PD_SLOT_META | PD_SLOT_OPTIONAL | PD_SLOT_OWN_TYPE},
                                     {"CustomDistAliasProbs", PD_SLOT_META | PD_SLOT_OPTIONAL},
                                     {0}},
    .outputs = (const struct pd_slot_def[]){{"Input@GRAD", PD_SLOT_OPTIONAL},
                                            {"Bias@GRAD", PD_SLOT_OPTIONAL},
                                            {"Weight@GRAD", PD_SLOT_OPTIONAL},
                                            {0}},
    .attrs = attrs,
    .infer = grad_infer,
    .run = grad_run,
};
