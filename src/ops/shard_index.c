/* shard_index: numbers of a table that is cut into equal shards, as numbers inside one shard. */
#include "ops/check.h"
#include "ops/out.h"

enum { X };
enum { OUT };
enum { INDEX_NUM, NSHARDS, SHARD_ID, IGNORE };

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X);
    int total = c->attr[INDEX_NUM].i, shards = c->attr[NSHARDS].i, id = c->attr[SHARD_ID].i;
    PD_TRY(pd_check_index(x, "X"));
    if (total < 1 || shards < 1)
        return pd_fail(PD_INVALID, "index_num is %d and nshards is %d; both must be at least 1", total,
                       shards);
    if (id < 0 || id >= shards)
        return pd_fail(PD_RANGE, "shard_id is %d; with %d shards it must be in 0 to %d", id, shards,
                       shards - 1);
    pd_out_like(c, OUT, X);
    return PD_OK;
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X);
    struct pd_tensor *out = pd_run_out(r, OUT);
    int64_t total = r->attr[INDEX_NUM].i, shards = r->attr[NSHARDS].i, size = (total + shards - 1) / shards;
    int64_t id = r->attr[SHARD_ID].i, ignore = r->attr[IGNORE].i, n = pd_tensor_numel(x);
    PD_SWITCH_INDEX(x->meta.dtype, T, {
        const T *from = x->data;
        T *to = out->data;
        for (int64_t i = 0; i < n; i++) {
            if ((uint64_t)(int64_t)from[i] >= (uint64_t)total)
                return pd_fail(PD_RANGE,
                               "X has %lld at position %lld; index_num is %lld, so it must be in 0 to %lld",
                               (long long)from[i], (long long)i, (long long)total, (long long)total - 1);
            to[i] = (T)(from[i] / size == id ? from[i] % size : ignore);
        }
    })
    return PD_OK;
}

const struct pd_op pd_op_shard_index = {
    .type = "shard_index",
    .doc = "Numbers inside shard shard_id; ignore_value for numbers of other shards.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},
    .attrs = (const struct pd_attr_def[]){PD_DEF_INT("index_num", 0),
                                          PD_DEF_INT("nshards", 0),
                                          PD_DEF_INT("shard_id", 0),
                                          PD_DEF_INT("ignore_value", -1),
                                          {0}},
    .flags = PD_OP_NO_GRAD,
    .infer = infer,
    .run = run,
};
