/* hash: num_hash hashes of each row of ids, brought below mod_by. */
#include "kernels/xxhash.h"
#include "ops/check.h"

enum { X };
enum { NUM_HASH, MOD_BY };

static const struct pd_slot_def inputs[] = {{"X"}, {0}};
static const struct pd_slot_def outputs[] = {{"Out"}, {0}};
static const struct pd_attr_def attrs[] = {PD_DEF_INT("num_hash", 1),
                                           PD_DEF_LONG("mod_by", 100000),
                                           PD_DEF_BOOL("@ALL_KERNELS_MUST_COMPUTE_RUNTIME_SHAPE@", 1),
                                           {0}};

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X);
    struct pd_meta *out = pd_infer_out(c, 0);
    if (x->rank != 2)
        return pd_fail(PD_SHAPE, "X has shape %s; it must have two dimensions", pd_meta_dims_text(x));
    if (c->attr[NUM_HASH].i < 1 || c->attr[MOD_BY].l < 1)
        return pd_fail(PD_INVALID, "num_hash is %d and mod_by is %lld; both must be 1 or more",
                       c->attr[NUM_HASH].i, (long long)c->attr[MOD_BY].l);
    if (!out) return PD_OK;
    int64_t dim[3] = {x->dim[0], c->attr[NUM_HASH].i, 1};
    out->dtype = x->dtype;
    pd_meta_share_lod(out, x);
    return pd_meta_set_dims(out, 3, dim);
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X);
    struct pd_tensor *out = pd_run_out(r, 0);
    int64_t rows = x->meta.dim[0], width = x->meta.dim[1], hashes = r->attr[NUM_HASH].i;
    uint64_t bound = (uint64_t)r->attr[MOD_BY].l;
    PD_TRY(pd_check_index_data(x, "X"));
    PD_SWITCH_INDEX(x->meta.dtype, T, {
        for (int64_t i = 0; i < rows; i++)
            for (int64_t h = 0; h < hashes; h++)
                ((T *)out->data)[i * hashes + h] =
                    (T)(pd_xxhash64((const T *)x->data + i * width, (size_t)width * sizeof(T), (uint64_t)h) %
                        bound);
    })
    return PD_OK;
}

const struct pd_op pd_op_hash = {
    .type = "hash",
    .doc = "Hashes of the rows of X.",
    .inputs = inputs,
    .outputs = outputs,
    .attrs = attrs,
    .flags = PD_OP_NO_GRAD,
    .infer = infer,
    .run = run,
};
