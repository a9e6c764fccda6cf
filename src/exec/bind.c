/* Binding: sizes of all variables, and memory for the temporaries. */
#include <string.h>

#include "exec/frame.h"
#include "exec/grad_check.h"

static size_t bytes_of(const struct pd_meta *m)
{
    int64_t n = pd_meta_numel(m);
    size_t size = pd_dtype_size(m->dtype);
    return n <= 0 ? size : (size_t)n * size;
}

static int same_size(const struct pd_meta *a, const struct pd_meta *b)
{
    return a->dtype == b->dtype && a->kind == b->kind && pd_meta_same_dims(a, b) &&
           pd_lod_equal(a->lod, b->lod);
}

int pd_frame_stale(const struct pd_frame *f)
{
    for (int e = 0; e < f->n_externals; e++)
        if (!same_size(&f->seen[f->externals[e]], &f->values[f->externals[e]]->tensor.meta)) return 1;
    return 0;
}

static void remember_one(struct pd_frame *f, int number)
{
    const struct pd_meta *is = &f->values[number]->tensor.meta;
    f->seen[number].kind = is->kind;
    pd_meta_like(&f->seen[number], is);
}

static void remember(struct pd_frame *f)
{
    for (int e = 0; e < f->n_externals; e++)
        remember_one(f, f->externals[e]);
}

/* ---- what lives on, when a run is refused or sized again ---- */

static void keep(struct pd_frame *f, int number)
{
    const struct pd_tensor *is = &f->values[number]->tensor;
    f->before[number].meta.kind = is->meta.kind;
    pd_meta_like(&f->before[number].meta, &is->meta);
    f->before[number].data = is->data;
}

/* Without the value where it had to get other memory. */
static void put_back(struct pd_frame *f, int number)
{
    const struct pd_before *before = &f->before[number];
    struct pd_value *value = f->values[number];
    if (value->tensor.data != before->data) {
        pd_value_reset(value, before->meta.kind);
        return;
    }
    value->tensor.meta.kind = before->meta.kind;
    pd_meta_like(&value->tensor.meta, &before->meta);
}

static void for_externals(struct pd_frame *f, void (*fn)(struct pd_frame *f, int number))
{
    for (int e = 0; e < f->n_externals; e++)
        fn(f, f->externals[e]);
}

/* Those of an op that lives on. */
static void for_outputs(struct pd_frame_op *op, void (*fn)(struct pd_frame *f, int number))
{
    const struct pd_plan *plan = op->frame->plan;
    for (int s = 0; s < op->plan->n_out; s++)
        for (int k = 0; k < op->plan->out[s].n; k++) {
            int number = plan->args.at[op->plan->out[s].first + k];
            if (number >= 0 && plan->vars.at[number].place != PD_PLACE_TEMP) fn(op->frame, number);
        }
}

/* Temporaries whose memory the frame plans: sized before the run, used by this block alone. */
static int in_chunk(const struct pd_plan_var *v)
{
    return v->place == PD_PLACE_TEMP && !v->dynamic && !v->pinned && v->desc &&
           v->desc->meta.kind == PD_KIND_TENSOR;
}

/* ---- which temporaries share a chunk: decided once, from the sizes of the first binding ---- */

/* Chunks of one size that are free now. */
struct pool {
    size_t bytes;
    PD_VEC(int) chunks; /* at least one */
};

struct chunk_plan {
    struct pd_frame *f;
    char *busy;               /* by chunk */
    char *taken_over;         /* by variable: another one goes on in its chunk */
    size_t *size;             /* by chunk: largest variable so far */
    PD_VEC(struct pool) free; /* by rising size */
    int n;
};

/* The first pool of chunks that are large enough. */
static int pool_for(const struct chunk_plan *c, size_t bytes)
{
    int low = 0, high = c->free.n;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (c->free.at[middle].bytes < bytes)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The smallest free chunk that is large enough; else the largest, which grows; else a new one. */
static int take_chunk(struct chunk_plan *c, size_t bytes)
{
    int at = pool_for(c, bytes), chunk;
    if (at == c->free.n) at--;
    if (at < 0) {
        chunk = c->n++;
    } else {
        struct pool *pool = &c->free.at[at];
        chunk = pool->chunks.at[--pool->chunks.n];
        if (!pool->chunks.n) {
            pd_vec_free(&pool->chunks);
            pd_vec_remove(&c->free, at);
        }
    }
    c->busy[chunk] = 1;
    if (c->size[chunk] < bytes) c->size[chunk] = bytes;
    return chunk;
}

static pd_status release_chunk(struct chunk_plan *c, int chunk)
{
    if (!c->busy[chunk]) return PD_OK;
    int at = pool_for(c, c->size[chunk]);
    c->busy[chunk] = 0;
    if ((at == c->free.n || c->free.at[at].bytes != c->size[chunk]) &&
        !pd_vec_insert(&c->free, at, ((struct pool){.bytes = c->size[chunk]})))
        return pd_no_memory();
    return pd_vec_push(&c->free.at[at].chunks, chunk) ? PD_OK : pd_no_memory();
}

/* How often the op reads the data of a variable. */
static int count_reads(const struct pd_plan *plan, const struct pd_plan_op *op, int number)
{
    int n = 0;
    for (int s = 0; s < op->n_in; s++)
        for (int k = 0; k < op->in[s].n && !(op->def->inputs[s].flags & PD_SLOT_META); k++)
            n += plan->args.at[op->in[s].first + k] == number;
    return n;
}

/* Number of the temporary whose chunk output `number` may take over; -1: none. */
static int shared_input(const struct chunk_plan *c, const struct pd_plan_op *op, int index, int slot,
                        int number)
{
    const struct pd_plan *plan = c->f->plan;
    for (const struct pd_share *s = op->def->share; s && s->out >= 0; s++) {
        if (s->out != slot || op->in[s->in].n != 1) continue;
        int from = plan->args.at[op->in[s->in].first];
        if (from < 0 || c->f->chunk_of[from] < 0 || c->taken_over[from] ||
            plan->vars.at[from].last_use != index)
            continue;
        if (count_reads(plan, op, from) != 1) continue;
        if (bytes_of(&c->f->values[from]->tensor.meta) == bytes_of(&c->f->values[number]->tensor.meta))
            return from;
    }
    return -1;
}

/* Does the op write into the variable itself, not into this temporary? */
static int is_direct(const struct pd_frame *f, int arg, int number)
{
    return f->flat_values[arg] != f->values[number];
}

static pd_status plan_output(struct chunk_plan *c, const struct pd_plan_op *op, int index, int slot, int arg)
{
    struct pd_frame *f = c->f;
    const struct pd_plan *plan = f->plan;
    int number = plan->args.at[arg];
    if (number < 0 || f->chunk_of[number] >= 0 || !in_chunk(&plan->vars.at[number]) ||
        is_direct(f, arg, number))
        return PD_OK;
    int from = plan->shares && op->out[slot].n == 1 ? shared_input(c, op, index, slot, number) : -1;
    if (from < 0) {
        f->chunk_of[number] = take_chunk(c, bytes_of(&f->values[number]->tensor.meta));
        return PD_OK;
    }
    f->chunk_of[number] = f->chunk_of[from];
    c->taken_over[from] = 1;
    return pd_vec_push(&f->takeovers, ((struct pd_takeover){from, number})) ? PD_OK : pd_no_memory();
}

static pd_status plan_op_chunks(struct chunk_plan *c, int index)
{
    struct pd_frame *f = c->f;
    const struct pd_plan *plan = f->plan;
    const struct pd_plan_op *op = &plan->ops.at[index];
    for (int s = 0; s < op->n_out; s++)
        for (int k = 0; k < op->out[s].n; k++)
            PD_TRY(plan_output(c, op, index, s, op->out[s].first + k));
    for (int side = 0; side < 2 && plan->shares; side++) {
        const struct pd_plan_slot *slots = side ? op->out : op->in;
        for (int s = 0; s < (side ? op->n_out : op->n_in); s++)
            for (int k = 0; k < slots[s].n; k++) {
                int number = plan->args.at[slots[s].first + k];
                if (number < 0 || plan->vars.at[number].last_use != index || c->taken_over[number]) continue;
                if (f->chunk_of[number] >= 0) PD_TRY(release_chunk(c, f->chunk_of[number]));
            }
    }
    return PD_OK;
}

static pd_status plan_chunks(struct pd_frame *f)
{
    size_t n = (size_t)f->plan->vars.n + 1;
    struct chunk_plan c = {
        .f = f, .busy = pd_calloc(n, 1), .taken_over = pd_calloc(n, 1), .size = pd_calloc(n, sizeof(size_t))};
    pd_status status = c.busy && c.taken_over && c.size ? PD_OK : pd_no_memory();
    for (int i = 0; i < f->plan->ops.n && status == PD_OK; i++)
        status = plan_op_chunks(&c, i);
    for (int i = 0; i < c.n && status == PD_OK; i++)
        if (!pd_vec_push(&f->chunks, ((struct pd_chunk){0}))) status = pd_no_memory();
    for (int i = 0; i < c.free.n; i++)
        pd_vec_free(&c.free.at[i].chunks);
    pd_vec_free(&c.free);
    pd_free(c.busy);
    pd_free(c.taken_over);
    pd_free(c.size);
    return status;
}

/* Back to no chunks: the temporaries have no memory. */
static void drop_chunks(struct pd_frame *f)
{
    for (int i = 0; i < f->plan->vars.n; i++) {
        if (f->chunk_of[i] >= 0) f->values[i]->tensor.data = NULL;
        f->chunk_of[i] = -1;
    }
    for (int i = 0; i < f->chunks.n; i++)
        pd_free_aligned(f->chunks.at[i].data);
    f->chunks.n = f->takeovers.n = 0;
    f->planned = 0;
}

/* An op writes over its input only while both have the same number of bytes. */
static int takeovers_hold(const struct pd_frame *f)
{
    for (int i = 0; i < f->takeovers.n; i++) {
        const struct pd_takeover *t = &f->takeovers.at[i];
        if (bytes_of(&f->values[t->from]->tensor.meta) != bytes_of(&f->values[t->to]->tensor.meta)) return 0;
    }
    return 1;
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

/* Where the op writes what it makes for a variable that it reads too: into the variable, when it may work in
 * place and the size stays. */
static void settle_results(struct pd_frame_op *op, int inferred)
{
    struct pd_frame *f = op->frame;
    op->stores = 0;
    for (int i = 0; i < op->plan->n_results; i++) {
        const struct pd_plan_result *r = &f->plan->results.at[op->plan->first_result + i];
        struct pd_value *own = f->values[f->plan->args.at[r->arg]], *to = f->values[r->to];
        int direct = inferred && r->in_place && f->plan->shares && to->tensor.data &&
                     own->tensor.meta.kind == PD_KIND_TENSOR &&
                     same_size(&own->tensor.meta, &to->tensor.meta);
        f->flat_values[r->arg] = direct ? to : own;
        op->stores |= !direct;
    }
}

/* Sizes are multiplied from here on without a look: they fit into memory's addresses, or are refused. */
static pd_status check_sizes(const struct pd_frame_op *op)
{
    const struct pd_frame *f = op->frame;
    for (int s = 0; s < op->plan->n_out; s++)
        for (int k = 0; k < op->plan->out[s].n; k++) {
            int number = f->plan->args.at[op->plan->out[s].first + k];
            if (number < 0 || pd_meta_fits(&f->values[number]->tensor.meta)) continue;
            return pd_fail(PD_SHAPE, "'%s' would have shape %s, which is more than any memory holds",
                           f->plan->vars.at[number].name, pd_meta_dims_text(&f->values[number]->tensor.meta));
        }
    return PD_OK;
}

static int reads_kind(const struct pd_frame_op *op, enum pd_kind kind)
{
    for (int s = 0; s < op->plan->n_in; s++)
        for (int k = 0; k < op->run.in[s].n; k++)
            if (op->run.in[s].at[k] && op->run.in[s].at[k]->tensor.meta.kind == kind) return 1;
    return 0;
}

/* An op makes tensors or selected rows, whatever its outputs were declared to be, unless its infer says
 * otherwise or it reads one of that kind. Returns whether one is affected. */
static int expect_tensors(struct pd_frame_op *op)
{
    const struct pd_frame *f = op->frame;
    int changed = 0;
    for (int s = 0; s < op->plan->n_out; s++)
        for (int k = 0; k < op->plan->out[s].n; k++) {
            int number = f->plan->args.at[op->plan->out[s].first + k];
            enum pd_kind *kind = number < 0 ? NULL : &f->values[number]->tensor.meta.kind;
            if (!kind || *kind == PD_KIND_TENSOR || *kind == PD_KIND_SELECTED_ROWS || reads_kind(op, *kind))
                continue;
            *kind = PD_KIND_TENSOR;
            changed = 1;
        }
    return changed;
}

static pd_status check_kinds(const struct pd_frame_op *op)
{
    const struct pd_frame *f = op->frame;
    for (int s = 0; s < op->plan->n_out; s++)
        for (int k = 0; k < op->plan->out[s].n; k++) {
            int number = f->plan->args.at[op->plan->out[s].first + k];
            const struct pd_var *desc = number < 0 ? NULL : f->plan->vars.at[number].desc;
            if (!desc || desc->meta.kind == PD_KIND_TENSOR || desc->meta.kind == PD_KIND_SELECTED_ROWS)
                continue;
            if (f->values[number]->tensor.meta.kind == PD_KIND_TENSOR)
                return pd_fail(PD_TYPE, "'%s' is declared as %s, but the op makes a tensor", desc->name,
                               pd_kind_name(desc->meta.kind));
        }
    return PD_OK;
}

static pd_status infer_op(struct pd_frame_op *op)
{
    int infers = op->plan->def->infer && !(op->plan->def->flags & PD_OP_DYNAMIC);
    if (op->check) PD_TRY(pd_grad_check_run(op->check));
    if (infers) {
        int changed = expect_tensors(op);
        PD_TRY(op->plan->def->infer(&op->infer));
        if (changed) PD_TRY(check_kinds(op));
        PD_TRY(check_sizes(op));
    }
    PD_TRY(pd_infer_one_type(&op->infer));
    if (op->plan->n_results) settle_results(op, infers);
    return PD_OK;
}

pd_status pd_frame_store(struct pd_frame_op *op)
{
    struct pd_frame *f = op->frame;
    for (int i = 0; i < op->plan->n_results; i++) {
        const struct pd_plan_result *r = &f->plan->results.at[op->plan->first_result + i];
        if (f->flat_values[r->arg] != f->values[r->to])
            PD_TRY(pd_value_copy(f->values[r->to], f->flat_values[r->arg]));
    }
    return PD_OK;
}

static pd_status own_outputs(struct pd_frame_op *op)
{
    const struct pd_frame *f = op->frame;
    for (int s = 0; s < op->plan->n_out; s++)
        for (int k = 0; k < op->run.out[s].n; k++) {
            int arg = op->plan->out[s].first + k, number = f->plan->args.at[arg];
            if (number < 0 || f->chunk_of[number] >= 0 || is_direct(f, arg, number)) continue;
            PD_TRY(own_memory(f->values[number]));
        }
    return PD_OK;
}

static int runs_block(const struct pd_frame_op *op)
{
    return pd_opdesc_sub_block(op->plan->desc, 0) >= 0;
}

/* An input to which nothing has given a value in this run: a hole where it is a gradient and the slot allows
 * it, otherwise an error. An op that runs a block only hands its inputs on to it. */
static pd_status check_inputs(struct pd_frame_op *op)
{
    struct pd_frame *f = op->frame;
    for (int s = 0; s < op->plan->n_in; s++) {
        int flags = op->plan->def->inputs[s].flags;
        for (int k = 0; k < op->plan->in[s].n; k++) {
            int arg = op->plan->in[s].first + k, number = f->plan->args.at[arg];
            if (number < 0) continue;
            struct pd_value *value = f->values[number];
            const char *name = f->plan->vars.at[number].name;
            int ready = pd_value_ready(value);
            int is_hole = !ready && (flags & PD_SLOT_UNWRITTEN) && strstr(name, PD_GRAD_SUFFIX);
            if (!ready && !is_hole && !(flags & (PD_SLOT_META | PD_SLOT_UNSET)) && !runs_block(op))
                return pd_fail(PD_INVALID,
                               "variable '%s' has no value: no op has written it in this run, or only in a "
                               "block that did not run",
                               name);
            if (!is_hole && value->tensor.meta.kind != PD_KIND_TENSOR && !pd_value_is_rows(value) &&
                !(flags & (PD_SLOT_META | PD_SLOT_OTHERS)) && !runs_block(op))
                return pd_fail(PD_TYPE, "variable '%s' is a %s; a tensor is needed", name,
                               pd_kind_name(value->tensor.meta.kind));
            f->flat_values[arg] = is_hole ? NULL : value;
            f->flat_metas[arg] = is_hole ? NULL : &value->tensor.meta;
        }
    }
    return PD_OK;
}

pd_status pd_frame_bind_late(struct pd_frame_op *op)
{
    PD_TRY(check_inputs(op));
    for_outputs(op, keep);
    pd_status status = infer_op(op);
    if (status == PD_OK && !(op->plan->def->flags & PD_OP_DYNAMIC)) status = own_outputs(op);
    if (status != PD_OK) for_outputs(op, put_back);
    return status;
}

/* Does the op give a variable that lives on another size than earlier ops of this run saw? Sizes that are
 * bound before the run have only one for each variable. */
static int changes_size(struct pd_frame_op *op, int index)
{
    struct pd_frame *f = op->frame;
    const struct pd_plan *plan = f->plan;
    for (int i = 0; i < op->plan->n_results; i++) {
        const struct pd_plan_result *r = &plan->results.at[op->plan->first_result + i];
        if (!same_size(&f->values[plan->args.at[r->arg]]->tensor.meta, &f->values[r->to]->tensor.meta))
            return 1;
    }
    for (int s = 0; s < op->plan->n_out; s++)
        for (int k = 0; k < op->plan->out[s].n; k++) {
            int number = plan->args.at[op->plan->out[s].first + k];
            if (number < 0 || (plan->vars.at[number].place != PD_PLACE_SCOPE &&
                               plan->vars.at[number].place != PD_PLACE_FEED))
                continue;
            if (same_size(&f->seen[number], &f->values[number]->tensor.meta)) continue;
            if (plan->vars.at[number].first_use < index) return 1;
            remember_one(f, number);
        }
    return 0;
}

/* From now on each op is sized when it runs, and every temporary has memory of its own. No op has run yet:
 * the first ones find what lives on as it was. */
static void loosen(struct pd_frame *f)
{
    for_externals(f, put_back);
    drop_chunks(f);
    for (int i = 0; i < f->plan->ops.n; i++)
        f->ops[i].late = 1;
    f->loose = 1;
}

/* Which feed has another shape than the Program declares: often the reason why an op refuses its inputs. */
static void hint_feeds(const struct pd_frame *f)
{
    for (int e = 0; e < f->n_externals; e++) {
        const struct pd_plan_var *v = &f->plan->vars.at[f->externals[e]];
        const struct pd_meta *is = &f->values[f->externals[e]]->tensor.meta;
        if (v->place == PD_PLACE_FEED && v->desc && !pd_meta_dims_match(&v->desc->meta, is))
            pd_error_lead("feed '%s': the Program declares shape %s, found %s; ", v->name,
                          pd_meta_dims_text(&v->desc->meta), pd_meta_dims_text(is));
    }
}

static pd_status infer_all(struct pd_frame *f)
{
    for (int i = 0; i < f->plan->ops.n && !f->loose; i++) {
        struct pd_frame_op *op = &f->ops[i];
        if (op->late) continue;
        pd_status status = infer_op(op);
        if (status != PD_OK) {
            pd_opdesc_blame(op->plan->desc, f->plan->block);
            hint_feeds(f);
            return status;
        }
        if (changes_size(op, i)) loosen(f);
    }
    return PD_OK;
}

static pd_status bind(struct pd_frame *f)
{
    PD_TRY(infer_all(f));
    if (f->loose) return PD_OK;
    if (f->planned && !takeovers_hold(f)) drop_chunks(f);
    if (!f->planned) PD_TRY(plan_chunks(f));
    f->planned = 1;
    for (int i = 0; i < f->plan->ops.n; i++)
        if (!f->ops[i].late) PD_TRY(own_outputs(&f->ops[i]));
    for (int i = 0; i < f->plan->vars.n; i++)
        if (f->chunk_of[i] >= 0)
            PD_TRY(grow(&f->chunks.at[f->chunk_of[i]], bytes_of(&f->values[i]->tensor.meta)));
    for (int i = 0; i < f->plan->vars.n; i++)
        if (f->chunk_of[i] >= 0) f->values[i]->tensor.data = f->chunks.at[f->chunk_of[i]].data;
    /* Scope variables that this plan itself sizes are as they are now. */
    remember(f);
    return PD_OK;
}

pd_status pd_frame_bind(struct pd_frame *f)
{
    remember(f);
    for_externals(f, keep);
    pd_status status = bind(f);
    if (status != PD_OK) for_externals(f, put_back);
    return status;
}
