/* reorder_lod_tensor_by_rank: the sequences of a tensor in the order of a rank table. */
#include "ops/out.h"
#include "ops/rank_table.h"
#include "ops/scratch.h"

enum { X, TABLE };
enum { OUT };

static pd_status reorder(const struct pd_run *r, int back)
{
    const struct pd_tensor *x = pd_run_in(r, X);
    struct pd_tensor *out = pd_run_out(r, OUT);
    const struct pd_rank_table *t = NULL;
    int64_t *place;
    if (!out) return PD_OK;
    PD_TRY(pd_rank_table_get(r, TABLE, &t));
    PD_TRY(pd_scratch(r, (size_t)t->n * sizeof *place, (void **)&place));
    for (int64_t i = 0; i < t->n; i++)
        place[back ? t->item[i].index : i] = back ? i : t->item[i].index;
    struct pd_picker p = {.levels = -1};
    pd_status status = PD_OK;
    for (int64_t i = 0; i < t->n && status == PD_OK; i++)
        status = pd_picker_add(&p, x, 0, place[i]);
    if (status == PD_OK) status = pd_picker_finish(&p, x, NULL, out);
    pd_picker_free(&p);
    return status;
}

static pd_status run(const struct pd_run *r)
{
    return reorder(r, 0);
}
static pd_status grad_run(const struct pd_run *r)
{
    return reorder(r, 1);
}

static const struct pd_slot_def inputs[] = {{"X", 0}, {"RankTable", PD_SLOT_OTHERS}, {0}};

const struct pd_op pd_op_reorder_lod_tensor_by_rank = {
    .type = "reorder_lod_tensor_by_rank",
    .doc = "The sequences of X in the order of a rank table.",
    .inputs = inputs,
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},
    .flags = PD_OP_DYNAMIC,
    .infer = pd_out_infer_like,
    .run = run,
    .grad_type = "reorder_lod_tensor_by_rank_grad",
    .grad_in = "X=Out@ RankTable",
    .grad_out = "Out=X@",
};

const struct pd_op pd_op_reorder_lod_tensor_by_rank_grad = {
    .type = "reorder_lod_tensor_by_rank_grad",
    .doc = "Gradient of reorder_lod_tensor_by_rank: the order before.",
    .inputs = inputs,
    .outputs = (const struct pd_slot_def[]){{"Out", PD_SLOT_OPTIONAL}, {0}},
    .flags = PD_OP_DYNAMIC,
    .infer = pd_out_infer_like,
    .run = grad_run,
};
