/* seed: a seed for other ops. See draw.h for the numbers. */
#include "ops/draw.h"

enum { OUT };
static const struct pd_attr_def attrs[] = {PD_DEF_INT("seed", 0), {0}};

static pd_status infer(const struct pd_infer *c)
{
    pd_infer_out(c, OUT)->dtype = PD_DTYPE_INT32;
    pd_meta_set_1d(pd_infer_out(c, OUT), 1);
    return PD_OK;
}

static pd_status run(const struct pd_run *r)
{
    int32_t *out = pd_run_out(r, OUT)->data;
    struct pd_draw d = {
        .law = PD_LAW_INTEGER, .a = 1, .b = 2147483647, .dtype = PD_DTYPE_INT32, .out = out, .n = 1};
    *out = r->attr[0].i;
    if (*out) return PD_OK;
    struct pd_rng rng = pd_draw_rng(r);
    pd_draw_counted(&d, &rng);
    return PD_OK;
}

const struct pd_op pd_op_seed = {
    .type = "seed",
    .doc = "The seed, or another one in each run when it is 0: for several dropout ops with one mask.",
    .inputs = (const struct pd_slot_def[]){{0}},
    .outputs = (const struct pd_slot_def[]){{"Out"}, {0}},
    .attrs = attrs,
    .flags = PD_OP_NO_GRAD,
    .infer = infer,
    .run = run,
    .state_size = sizeof(struct pd_draw_count),
};
