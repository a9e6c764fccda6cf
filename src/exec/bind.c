/* Binding: sizes of all variables, and memory for the temporaries. */
#include <limits.h>
#include <string.h>

#include "exec/frame.h"

static size_t bytes_of(const struct pd_meta *m)
{
    int64_t n = pd_meta_numel(m);
    size_t size = pd_dtype_size(m->dtype);
    return n <= 0 ? size : (size_t)n * size;
}

int pd_frame_stale(const struct pd_frame *f)
{
    for (int e = 0; e < f->n_externals; e++) {
        int i = f->externals[e];
        const struct pd_meta *was = &f->seen[i], *is = &f->values[i]->tensor.meta;
        if (was->dtype != is->dtype || was->kind != is->kind || !pd_meta_same_dims(was, is) || !pd_lod_equal(was->lod, is->lod)) return 1;
    }
    return 0;
}

static void remember(struct pd_frame *f)
{
    for (int e = 0; e < f->n_externals; e++) {
        int i = f->externals[e];
        const struct pd_meta *is = &f->values[i]->tensor.meta;
        f->seen[i].kind = is->kind;
        pd_meta_like(&f->seen[i], is);
    }
}

/* Temporaries whose memory the frame plans: sized before the run, used by this block alone. */
static int in_chunk(const struct pd_plan_var *v) { return v->place == PD_PLACE_TEMP && !v->dynamic && !v->pinned && v->desc && v->desc->meta.kind == PD_KIND_TENSOR; }

/* ---- which temporaries share a chunk: decided once, from the sizes of the first binding ---- */

struct chunk_plan {
    struct pd_frame *f;
    char *busy;
    size_t *size; /* by chunk: largest variable so far */
    int n;
};

static int take_chunk(struct chunk_plan *c, size_t bytes)
{
    int best = -1;
    for (int i = 0; i < c->n; i++) {
        if (c->busy[i]) continue;
        /* The smallest that is large enough; else the largest, which grows. */
        if (best < 0 || (c->size[i] >= bytes ? c->size[best] < bytes || c->size[i] < c->size[best]
                                             : c->size[best] < bytes && c->size[i] > c->size[best]))
            best = i;
    }
    if (best < 0) {
        best = c->n++;
        c->size[best] = 0;
    }
    c->busy[best] = 1;
    if (c->size[best] < bytes) c->size[best] = bytes;
    return best;
}

/* Number of the temporary whose chunk output `number` may take over; -1: none. */
static int shared_input(const struct chunk_plan *c, const struct pd_plan_op *op, int index, int slot, int number)
{
    const struct pd_plan *plan = c->f->plan;
    for (const struct pd_share *s = op->def->share; s && s->out >= 0; s++) {
        if (s->out != slot || op->in[s->in].n != 1) continue;
        int from = plan->args.at[op->in[s->in].first];
        if (from < 0 || from == number || c->f->chunk_of[from] < 0 || plan->vars.at[from].last_use != index) continue;
        if (bytes_of(&c->f->values[from]->tensor.meta) == bytes_of(&c->f->values[number]->tensor.meta)) return from;
    }
    return -1;
}

static void plan_op_chunks(struct chunk_plan *c, int index)
{
    struct pd_frame *f = c->f;
    const struct pd_plan *plan = f->plan;
    const struct pd_plan_op *op = &plan->ops.at[index];
    for (int s = 0; s < op->n_out; s++)
        for (int k = 0; k < op->out[s].n; k++) {
            int number = plan->args.at[op->out[s].first + k];
            if (number < 0 || f->chunk_of[number] >= 0 || !in_chunk(&plan->vars.at[number])) continue;
            int from = op->out[s].n == 1 ? shared_input(c, op, index, s, number) : -1;
            if (from >= 0) {
                f->chunk_of[number] = f->chunk_of[from];
                f->chunk_of[from] |= INT_MIN / 2; /* marks it as handed over; undone below */
            } else {
                f->chunk_of[number] = take_chunk(c, bytes_of(&f->values[number]->tensor.meta));
            }
        }
    for (int side = 0; side < 2; side++) {
        const struct pd_plan_slot *slots = side ? op->out : op->in;
        for (int s = 0; s < (side ? op->n_out : op->n_in); s++)
            for (int k = 0; k < slots[s].n; k++) {
                int number = plan->args.at[slots[s].first + k];
                if (number < 0 || plan->vars.at[number].last_use != index || !in_chunk(&plan->vars.at[number])) continue;
                if (f->chunk_of[number] >= 0) c->busy[f->chunk_of[number]] = 0;
            }
    }
}

static pd_status plan_chunks(struct pd_frame *f)
{
    int n = f->plan->vars.n;
    struct chunk_plan c = {.f = f, .busy = pd_calloc((size_t)n + 1, 1), .size = pd_calloc((size_t)n + 1, sizeof(size_t))};
    pd_status status = c.busy && c.size ? PD_OK : pd_no_memory();
    for (int i = 0; i < f->plan->ops.n && status == PD_OK; i++)
        plan_op_chunks(&c, i);
    for (int i = 0; i < n && status == PD_OK; i++)
        if (f->chunk_of[i] < -1) f->chunk_of[i] -= INT_MIN / 2;
    for (int i = 0; i < c.n && status == PD_OK; i++)
        if (!pd_vec_push(&f->chunks, ((struct pd_chunk){0}))) status = pd_no_memory();
    pd_free(c.busy);
    pd_free(c.size);
    return status;
}

/* ---- every binding ---- */

static pd_status grow(struct pd_chunk *chunk, size_t bytes)
{
    if (chunk->size >= bytes && chunk->data) return PD_OK;
    /* A little more than asked for, so that a stream of growing batches does not allocate each time. */
    size_t size = chunk->data ? bytes + bytes / 4 : bytes;
    void *data = pd_malloc_aligned(size);
    if (!data) return pd_fail(PD_NO_MEMORY, "out of memory: a step needs a block of %zu bytes", size);
    pd_free_aligned(chunk->data);
    *chunk = (struct pd_chunk){data, size};
    return PD_OK;
}

/* Memory of a variable outside the chunks. What an op updates in place is never moved while it fits. */
static pd_status own_memory(struct pd_value *value)
{
    struct pd_tensor *t = &value->tensor;
    if (t->meta.kind != PD_KIND_TENSOR) return PD_OK;
    if (t->data && t->buffer && t->buffer->size >= bytes_of(&t->meta)) return PD_OK;
    return pd_tensor_alloc(t);
}

/* Sizes of the op's outputs. A variable that lives on and is another kind now is emptied first. */
static pd_status infer_op(struct pd_frame_op *op) { return op->plan->def->infer ? op->plan->def->infer(&op->infer) : PD_OK; }

static pd_status own_outputs(struct pd_frame_op *op)
{
    const struct pd_plan *plan = op->frame->plan;
    for (int s = 0; s < op->plan->n_out; s++)
        for (int k = 0; k < op->run.out[s].n; k++) {
            int number = plan->args.at[op->plan->out[s].first + k];
            if (number < 0 || op->frame->chunk_of[number] >= 0) continue;
            PD_TRY(own_memory(op->frame->values[number]));
        }
    return PD_OK;
}

pd_status pd_frame_bind_late(struct pd_frame_op *op)
{
    if (op->plan->def->flags & PD_OP_DYNAMIC) return PD_OK;
    PD_TRY(infer_op(op));
    return own_outputs(op);
}

/* Which feed has another shape than the Program declares: often the reason why an op refuses its inputs. */
static void hint_feeds(const struct pd_frame *f)
{
    for (int e = 0; e < f->n_externals; e++) {
        const struct pd_plan_var *v = &f->plan->vars.at[f->externals[e]];
        const struct pd_meta *is = &f->values[f->externals[e]]->tensor.meta;
        if (v->place == PD_PLACE_FEED && v->desc && !pd_meta_dims_match(&v->desc->meta, is))
            pd_error_add("; '%s' is declared with shape %s and was fed %s", v->name, pd_meta_dims_text(&v->desc->meta), pd_meta_dims_text(is));
    }
}

pd_status pd_frame_bind(struct pd_frame *f)
{
    remember(f);
    for (int i = 0; i < f->plan->ops.n; i++) {
        struct pd_frame_op *op = &f->ops[i];
        if (op->plan->late) continue;
        pd_status status = infer_op(op);
        if (status == PD_OK && f->planned) status = own_outputs(op);
        if (status != PD_OK) {
            pd_opdesc_blame(op->plan->desc, f->plan->block);
            hint_feeds(f);
            return status;
        }
    }
    if (!f->planned) {
        PD_TRY(plan_chunks(f));
        f->planned = 1;
        for (int i = 0; i < f->plan->ops.n; i++)
            if (!f->ops[i].plan->late) PD_TRY(own_outputs(&f->ops[i]));
    }
    for (int i = 0; i < f->plan->vars.n; i++)
        if (f->chunk_of[i] >= 0) PD_TRY(grow(&f->chunks.at[f->chunk_of[i]], bytes_of(&f->values[i]->tensor.meta)));
    for (int i = 0; i < f->plan->vars.n; i++)
        if (f->chunk_of[i] >= 0) f->values[i]->tensor.data = f->chunks.at[f->chunk_of[i]].data;
    /* Scope variables that this plan itself sizes are as they are now. */
    remember(f);
    return PD_OK;
}
