/* shrink_rnn_memory: the rows of a memory whose sequences go on. */
#include <string.h>

#include "ops/numbers.h"
#include "ops/out.h"
#include "ops/rank_table.h"

enum { X, TABLE, STEP };
enum { OUT };

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X);
    struct pd_tensor *out = pd_run_out(r, OUT);
    const struct pd_rank_table *t = NULL;
    int64_t step, alive = 0;
    PD_TRY(pd_rank_table_get(r, TABLE, &t));
    PD_TRY(pd_number_check(pd_run_in(r, STEP), "I"));
    PD_TRY(pd_number_at(pd_run_in(r, STEP), "I", 0, &step));
    while (alive < t->n && t->item[alive].length > step)
        alive++;
    struct pd_picker p = {.levels = -1};
    pd_status status = PD_OK;
    for (int64_t i = 0; i < alive && status == PD_OK; i++)
        status = pd_picker_add(&p, x, 0, i);
    if (status == PD_OK) status = pd_picker_finish(&p, x, NULL, out);
    pd_picker_free(&p);
    return status;
}

static pd_status grad_run(const struct pd_run *r)
{
    const struct pd_tensor *dout = pd_run_in(r, 1);
    struct pd_tensor *dx = pd_run_out(r, 0);
    if (!dx) return PD_OK;
    size_t all = pd_tensor_bytes(dx), some = dout && dout->data ? pd_tensor_bytes(dout) : 0;
    if (some > all)
        return pd_fail(PD_SHAPE, "the gradient has shape %s, more than X of shape %s",
                       pd_meta_dims_text(&dout->meta), pd_meta_dims_text(&dx->meta));
    if (some) memcpy(dx->data, dout->data, some);
    memset((char *)dx->data + some, 0, all - some);
    return PD_OK;
}

const struct pd_op pd_op_shrink_rnn_memory = {
    .type = "shrink_rnn_memory",
    .doc = "The rows of X whose sequences go on at step I.",
    .inputs =
        (const struct pd_slot_def[]){{"X", 0}, {"RankTable", PD_SLOT_OTHERS}, {"I", PD_SLOT_OWN_TYPE}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},
    .flags = PD_OP_DYNAMIC,
    .infer = pd_out_infer_like,
    .run = run,
    .grad_type = "shrink_rnn_memory_grad",
    .grad_in = "X Out@",
    .grad_out = "X@",
};

const struct pd_op pd_op_shrink_rnn_memory_grad = {
    .type = "shrink_rnn_memory_grad",
    .doc = "Gradient of shrink_rnn_memory: zeros for the rows that ended.",
    .inputs = (const struct pd_slot_def[]){{"X", PD_SLOT_META}, {"Out@GRAD", PD_SLOT_OPTIONAL}, {0}},
    .outputs = pd_out_x_grad,
    .infer = pd_out_infer_like,
    .run = grad_run,
};
