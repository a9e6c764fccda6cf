/* random_crop: a random part of each instance. With a seed it draws as upstream does. */
#include <string.h>

#include "base/minstd.h"
#include "ops/elements.h"
#include "ops/numbers.h"

enum { X, SEED };
enum { OUT, SEED_OUT };
enum { SHAPE, STARTUP_SEED };

/* Do the parts fit into the instances of X, as far as its sizes are known? */
static pd_status check_shape(const struct pd_meta *x, const struct pd_attr *shape)
{
    int batch = x->rank - shape->n;
    if (batch < 1)
        return pd_fail(PD_SHAPE, "shape has %d numbers, but X has shape %s: leave out the batch dimensions",
                       shape->n, pd_meta_dims_text(x));
    for (int i = 0; i < shape->n; i++)
        if (shape->ints[i] < 0 || (x->dim[batch + i] >= 0 && shape->ints[i] > x->dim[batch + i]))
            return pd_fail(PD_SHAPE,
                           "shape[%d] is %d, but X has shape %s: a part cannot be larger than the whole", i,
                           shape->ints[i], pd_meta_dims_text(x));
    return PD_OK;
}

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X);
    struct pd_meta *out = pd_infer_out(c, OUT), *seed = pd_infer_out(c, SEED_OUT);
    const struct pd_attr *shape = &c->attr[SHAPE];
    int batch = x->rank - shape->n;
    PD_TRY(check_shape(x, shape));
    if (out) {
        out->dtype = x->dtype;
        pd_meta_copy_dims(out, x);
        for (int i = 0; i < shape->n; i++)
            out->dim[batch + i] = shape->ints[i];
    }
    if (seed) {
        seed->dtype = PD_DTYPE_INT64;
        pd_meta_set_1d(seed, 1);
    }
    return PD_OK;
}

/* An integer in [0, count), as upstream draws it. */
static int64_t one_of(uint32_t *state, int64_t count)
{
    int64_t share = (PD_MINSTD_MODULUS - 2) / count, word;
    do
        word = (int64_t)pd_minstd_next(state) - 1;
    while (word >= count * share);
    return word / share;
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X), *seed_in = pd_run_in(r, SEED);
    struct pd_tensor *out = pd_run_out(r, OUT), *seed_out = pd_run_out(r, SEED_OUT);
    int parts = r->attr[SHAPE].n, batch = x->meta.rank - parts;
    int64_t seed = r->attr[STARTUP_SEED].i, start_of[PD_MAX_RANK] = {0};
    struct pd_meta one = {.dtype = x->meta.dtype, .rank = parts};
    int64_t dim[PD_MAX_RANK];
    PD_TRY(check_shape(&x->meta, &r->attr[SHAPE]));
    memcpy(dim, x->meta.dim, sizeof dim);
    for (int k = 0; k < parts; k++)
        dim[batch + k] = r->attr[SHAPE].ints[k];
    /* Seed and SeedOut may be one variable, which holds nothing before the first run. */
    if (seed_in && seed_in->data) PD_TRY(pd_number_at(seed_in, "Seed", 0, &seed));
    PD_TRY(pd_tensor_resize(out, x->meta.dtype, x->meta.rank, dim));
    if (seed_out) PD_TRY(pd_tensor_resize(seed_out, PD_DTYPE_INT64, 1, (int64_t[]){1}));
    uint32_t start = pd_minstd_start((uint64_t)seed);
    memcpy(one.dim, x->meta.dim + batch, (size_t)parts * sizeof *one.dim);
    int64_t instances = pd_meta_span(&x->meta, 0, batch), item = (int64_t)pd_dtype_size(one.dtype);
    int64_t whole = pd_meta_numel(&one) * item, part = pd_meta_span(&out->meta, batch, out->meta.rank) * item;
    for (int64_t i = 0; i < instances; i++) {
        uint32_t state = pd_minstd_skip(start, (uint64_t)(i * parts));
        for (int k = 0; k < parts; k++)
            start_of[k] = one_of(&state, one.dim[k] - out->meta.dim[batch + k] + 1);
        pd_elements_copy_box(&one, start_of, out->meta.dim + batch, 0, (char *)out->data + i * part,
                             (const char *)x->data + i * whole);
    }
    uint32_t state = pd_minstd_skip(start, (uint64_t)(instances * parts));
    if (seed_out) *(int64_t *)seed_out->data = pd_minstd_next(&state);
    return PD_OK;
}

const struct pd_op pd_op_random_crop = {
    .type = "random_crop",
    .doc = "A part of the given shape at a random place of each instance.",
    .inputs = (const struct pd_slot_def[]){{"X", 0},
                                           {"Seed", PD_SLOT_OPTIONAL | PD_SLOT_UNSET | PD_SLOT_OWN_TYPE},
                                           {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {"SeedOut", PD_SLOT_HIDDEN}, {0}},
    .attrs = (const struct pd_attr_def[]){PD_DEF_INTS("shape"), PD_DEF_INT("startup_seed", 0), {0}},
    .flags = PD_OP_NO_GRAD | PD_OP_DYNAMIC,
    .infer = infer,
    .run = run,
};
