/* dpsgd: gradient descent that clips the gradient and adds noise. */
#include <math.h>

#include "kernels/minstd.h"
#include "ops/draw.h"
#include "ops/opt.h"

enum { PARAM, GRAD, LR };
enum { CLIP, BATCH_SIZE, SIGMA, SEED };

static const struct pd_opt slots = {.grad = GRAD, .lr = LR, .n = 1, .in = {PARAM}, .out = {0}};

static pd_status infer(const struct pd_infer *c)
{
    return pd_opt_infer(c, &slots);
}

/* One number for all elements; with a seed upstream's, by the polar method. */
static double noise_of(const struct pd_run *r, int is_double)
{
    if (!r->attr[SEED].i) {
        struct pd_rng rng = pd_draw_rng(r);
        return pd_rng_normal(&rng, 0) * r->attr[SIGMA].f;
    }
    struct pd_minstd minstd = pd_minstd_make();
    uint32_t word[4], state = pd_minstd_start((uint32_t)r->attr[SEED].i);
    float x, y, square;
    do {
        float f[2];
        double d[2];
        state = pd_minstd_words(&minstd, state, is_double ? 4 : 2, word);
        if (is_double)
            pd_minstd_doubles(word, 2, d);
        else
            pd_minstd_floats(word, 2, f);
        x = 2 * (is_double ? (float)d[0] : f[0]) - 1;
        y = 2 * (is_double ? (float)d[1] : f[1]) - 1;
        square = x * x + y * y;
    } while (square >= 1 || square == 0);
    return (float)((double)x * sqrt(-2 * log((double)square) / (double)square)) * r->attr[SIGMA].f;
}

static pd_status run(const struct pd_run *r)
{
    struct pd_update u;
    void *room = NULL;
    int empty;
    double lr, clip = r->attr[CLIP].f, scale = 1;
    PD_TRY(pd_opt_number(r, LR, &lr));
    PD_TRY(pd_opt_begin(r, &slots, PD_OPT_UPDATE, pd_opt_norm_bytes(r, &slots), &u, &room, &empty));
    if (empty) return PD_OK;
    double norm = pd_opt_grad_norm(&u, room);
    if (norm > clip) scale = norm / clip;
    double noise = noise_of(r, u.is_double);
    u.rule = PD_RULE_SGD;
    u.k[0] = lr / scale;
    u.k[1] = lr * noise / r->attr[BATCH_SIZE].f;
    pd_update_run(&u);
    return PD_OK;
}

const struct pd_op pd_op_dpsgd = {
    .type = "dpsgd",
    .doc = "Gradient descent with differential privacy: the gradient's norm is clipped, noise is added.",
    .inputs =
        (const struct pd_slot_def[]){{"Param", 0}, {"Grad", 0}, {"LearningRate", PD_SLOT_OWN_TYPE}, {0}},
    .outputs = (const struct pd_slot_def[]){{"ParamOut", 0}, {0}},
    .attrs = (const struct pd_attr_def[]){PD_DEF_FLOAT("clip", 10.0f),
                                          PD_DEF_FLOAT("batch_size", 16.0f),
                                          PD_DEF_FLOAT("sigma", 1.0f),
                                          PD_DEF_INT("seed", 0),
                                          {0}},
    .flags = PD_OP_NO_GRAD | PD_OP_ON_SERVER,
    .infer = infer,
    .run = run,
    .state_size = sizeof(struct pd_draw_count),
};
