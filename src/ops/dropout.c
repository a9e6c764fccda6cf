/* dropout: sets elements to 0 at random while training.
 *
 * Element i is dropped by word i of a random stream, so a mask does not depend on threads; with a seed they
 * are the words that upstream draws, the same in each run. With dropout_implementation "upscale_in_train"
 * what stays is divided by the chance to stay; with "downgrade_in_infer" (the default) it is inference that
 * multiplies by that chance. */
#include <string.h>

#include "base/parallel.h"
#include "kernels/clones.h"
#include "kernels/minstd.h"
#include "kernels/random.h"
#include "ops/check.h"
#include "ops/draw.h"
#include "ops/elements.h"
#include "ops/numbers.h"
#include "ops/out.h"

#define GRAIN 4096 /* in groups of four elements */
#define BLOCK 64   /* groups of four handled together */

enum { X, SEED_TENSOR };
enum { OUT, MASK };
enum { DROPOUT_PROB, IS_TEST, FIX_SEED, SEED, IMPLEMENTATION };

static const struct pd_slot_def inputs[] = {{"X"}, {"Seed", PD_SLOT_OPTIONAL | PD_SLOT_OWN_TYPE}, {0}};
static const struct pd_slot_def outputs[] = {{"Out"}, {"Mask", PD_SLOT_HIDDEN | PD_SLOT_OPTIONAL}, {0}};
static const struct pd_attr_def attrs[] = {PD_DEF_FLOAT("dropout_prob", 0.5f),
                                           PD_DEF_BOOL("is_test", 0),
                                           PD_DEF_BOOL("fix_seed", 0),
                                           PD_DEF_INT("seed", 0),
                                           PD_DEF_STRING("dropout_implementation", "downgrade_in_infer"),
                                           {0}};

static pd_status infer(const struct pd_infer *c)
{
    struct pd_meta *mask = pd_infer_out(c, MASK);
    const struct pd_meta *x = pd_infer_in(c, X);
    const char *how = c->attr[IMPLEMENTATION].s;
    float prob = c->attr[DROPOUT_PROB].f;
    if (!(prob >= 0 && prob <= 1))
        return pd_fail(PD_INVALID, "attribute dropout_prob is %g; it must lie in [0, 1]", prob);
    if (strcmp(how, "downgrade_in_infer") != 0 && strcmp(how, "upscale_in_train") != 0)
        return pd_fail(
            PD_INVALID,
            "attribute dropout_implementation is '%s'; use 'downgrade_in_infer' or 'upscale_in_train'", how);
    pd_out_same(c, OUT, X);
    if (mask) {
        mask->dtype = PD_DTYPE_UINT8;
        pd_meta_copy_dims(mask, x);
    }
    return PD_OK;
}

struct job {
    int seeded; /* words are minstd's, from `start` on; else those of rng */
    uint32_t start;
    struct pd_minstd minstd;
    struct pd_rng rng;
    uint32_t limit; /* words below it drop their element */
    float stay;     /* what stays is divided by it */
    int64_t n;
    const void *x;
    void *out;
    uint8_t *mask; /* NULL: nobody asks for it */
    int is_double;
};

#define APPLY(T)                                                                                             \
    PD_CLONES static void apply_##T(const struct job *j, const uint32_t *word, int64_t at, int64_t n)        \
    {                                                                                                        \
        const T *x = (const T *)j->x + at, stay = (T)j->stay;                                                \
        T *out = (T *)j->out + at;                                                                           \
        const uint32_t limit = j->limit;                                                                     \
        _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++) out[i] = word[i] >= limit ? x[i] / stay : 0;    \
        if (j->mask) {                                                                                       \
            uint8_t *mask = j->mask + at;                                                                    \
            _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++) mask[i] = word[i] >= limit;                 \
        }                                                                                                    \
    }
APPLY(float)
APPLY(double)

static void part(void *arg, int64_t begin, int64_t end)
{
    const struct job *j = arg;
    uint32_t word[4 * BLOCK], state = j->seeded ? pd_minstd_skip(j->start, 4 * (uint64_t)begin) : 0;
    for (int64_t group = begin; group < end; group += BLOCK) {
        int64_t groups = end - group < BLOCK ? end - group : BLOCK, at = 4 * group;
        int64_t n = j->n - at < 4 * groups ? j->n - at : 4 * groups;
        if (j->seeded)
            state = pd_minstd_words(&j->minstd, state, 4 * groups, word);
        else
            pd_random_words(&j->rng, (uint64_t)group, groups, word);
        (j->is_double ? apply_double : apply_float)(j, word, at, n);
    }
}

static pd_status scale_all(const struct pd_tensor *x, struct pd_tensor *out, double factor)
{
    int64_t n = pd_tensor_numel(x);
    PD_SWITCH_FLOAT(x->meta.dtype, T, {
        const T *from = x->data;
        const T f = (T)factor;
        T *to = out->data;
        for (int64_t i = 0; i < n; i++)
            to[i] = from[i] * f;
    })
    return PD_OK;
}

/* The least word whose uniform number is not below `prob`. */
static uint32_t least_kept(float prob)
{
    uint32_t low = 1, high = PD_MINSTD_MODULUS;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        float unit;
        pd_minstd_floats(&middle, 1, &unit);
        if (unit < prob)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static pd_status choose_words(const struct pd_run *r, struct job *j)
{
    float prob = r->attr[DROPOUT_PROB].f;
    int64_t seed = r->attr[SEED].i;
    j->seeded = r->attr[FIX_SEED].b || r->in[SEED_TENSOR].n;
    if (!j->seeded) {
        j->rng = pd_draw_rng(r);
        j->limit = (uint32_t)((double)prob * 4294967296.0);
        return PD_OK;
    }
    if (r->in[SEED_TENSOR].n) PD_TRY(pd_number_whole(pd_run_in(r, SEED_TENSOR), "Seed", &seed));
    j->minstd = pd_minstd_make();
    j->start = pd_minstd_start((uint64_t)seed);
    j->limit = least_kept(prob);
    return PD_OK;
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X);
    struct pd_tensor *out = pd_run_out(r, OUT), *mask = pd_run_out(r, MASK);
    int64_t n = pd_tensor_numel(x);
    float prob = r->attr[DROPOUT_PROB].f, stay = 1.0f - prob;
    int upscale = strcmp(r->attr[IMPLEMENTATION].s, "upscale_in_train") == 0;
    PD_TRY(pd_check_float_data(x, "X"));
    if (r->attr[IS_TEST].b) {
        if (mask) memset(mask->data, 1, (size_t)n);
        return scale_all(x, out, upscale ? 1 : stay);
    }
    if (prob <= 0 || prob >= 1) {
        if (mask) memset(mask->data, prob <= 0, (size_t)n);
        if (prob <= 0) return scale_all(x, out, 1);
        return pd_elements_fill(out->data, out->meta.dtype, n, 0);
    }
    struct job j = {.stay = upscale ? stay : 1,
                    .n = n,
                    .x = x->data,
                    .out = out->data,
                    .mask = mask ? mask->data : NULL,
                    .is_double = x->meta.dtype == PD_DTYPE_FP64};
    PD_TRY(choose_words(r, &j));
    pd_parallel((n + 3) / 4, GRAIN, part, &j);
    return PD_OK;
}

static const struct pd_share share[] = {{OUT, X, 0}, {-1, -1, 0}};

const struct pd_op pd_op_dropout = {
    .type = "dropout",
    .doc = "Sets each element to 0 with probability dropout_prob.",
    .inputs = inputs,
    .outputs = outputs,
    .attrs = attrs,
    .infer = infer,
    .run = run,
    .grad_type = "dropout_grad",
    .grad_in = "Mask Out@",
    .grad_like = "X=Out@",
    .grad_out = "X@",
    .share = share,
    .state_size = sizeof(struct pd_draw_count),
};

/* ---- gradient ---- */

enum { GRAD_MASK, GRAD_DOUT };
static const struct pd_slot_def grad_inputs[] = {{"Mask", PD_SLOT_OWN_TYPE}, {"Out@GRAD"}, {0}};
static const struct pd_slot_def grad_outputs[] = {{"X@GRAD", PD_SLOT_OPTIONAL}, {0}};
static const struct pd_share grad_share[] = {{0, GRAD_DOUT, 0}, {-1, -1, 0}};

static pd_status grad_infer(const struct pd_infer *c)
{
    pd_out_same(c, 0, GRAD_DOUT);
    return PD_OK;
}

struct grad_job {
    const void *dout;
    const uint8_t *mask;
    void *dx;
    float stay;
};

#define GRAD_PART(T)                                                                                         \
    PD_CLONES static void grad_##T(void *arg, int64_t begin, int64_t end)                                    \
    {                                                                                                        \
        const struct grad_job *j = arg;                                                                      \
        const T *dout = j->dout, stay = (T)j->stay;                                                          \
        const uint8_t *mask = j->mask;                                                                       \
        T *dx = j->dx;                                                                                       \
        _Pragma("GCC ivdep") for (int64_t i = begin; i < end; i++) dx[i] = mask[i] ? dout[i] / stay : 0;     \
    }
GRAD_PART(float)
GRAD_PART(double)

static pd_status grad_run(const struct pd_run *r)
{
    const struct pd_tensor *mask = pd_run_in(r, GRAD_MASK), *dout = pd_run_in(r, GRAD_DOUT);
    struct pd_tensor *dx = pd_run_out(r, 0);
    float stay = 1.0f - r->attr[DROPOUT_PROB].f;
    int upscale = strcmp(r->attr[IMPLEMENTATION].s, "upscale_in_train") == 0;
    if (!dx) return PD_OK;
    if (r->attr[IS_TEST].b) return scale_all(dout, dx, upscale ? 1 : stay);
    int64_t n = pd_tensor_numel(dout);
    if (mask->meta.dtype != PD_DTYPE_UINT8 || pd_tensor_numel(mask) != n)
        return pd_fail(PD_SHAPE, "Mask is %s of shape %s; it must be uint8 of the shape %s of Out@GRAD",
                       pd_dtype_name(mask->meta.dtype), pd_meta_dims_text(&mask->meta),
                       pd_meta_dims_text(&dout->meta));
    struct grad_job j = {dout->data, mask->data, dx->data, upscale && stay > 0 ? stay : 1};
    pd_parallel(n, 4 * GRAIN, dout->meta.dtype == PD_DTYPE_FP64 ? grad_double : grad_float, &j);
    return PD_OK;
}

const struct pd_op pd_op_dropout_grad = {
    .type = "dropout_grad",
    .doc = "Gradient of dropout.",
    .inputs = grad_inputs,
    .outputs = grad_outputs,
    .attrs = attrs,
    .infer = grad_infer,
    .run = grad_run,
    .share = grad_share,
};
