/* Frames: making them, and the loop that runs the ops. */
#include "exec/frame.h"

#include <string.h>

#include "base/clock.h"
#include "base/flags.h"
#include "exec/grad_check.h"
#include "exec/profile.h"
#include "tensor/finite.h"
#include "tensor/held.h"

const struct pd_frame *pd_frame_other(const struct pd_plan_var *var, const struct pd_frame *outer,
                                      const struct pd_frame *forward)
{
    return var->place == PD_PLACE_OUTER ? outer : var->place == PD_PLACE_FORWARD ? forward : NULL;
}

static pd_status make_values(struct pd_frame *f)
{
    const struct pd_plan *plan = f->plan;
    int n = plan->vars.n;
    f->values = pd_calloc((size_t)n, sizeof *f->values);
    f->seen = pd_calloc((size_t)n, sizeof *f->seen);
    f->before = pd_calloc((size_t)n, sizeof *f->before);
    f->chunk_of = pd_calloc((size_t)n, sizeof *f->chunk_of);
    f->externals = pd_calloc((size_t)n, sizeof *f->externals);
    f->fresh = pd_calloc((size_t)n, sizeof *f->fresh);
    if (!f->values || !f->seen || !f->before || !f->chunk_of || !f->externals || !f->fresh)
        return pd_no_memory();
    for (int i = 0; i < n; i++) {
        const struct pd_plan_var *v = &plan->vars.at[i];
        f->chunk_of[i] = -1;
        if (v->place == PD_PLACE_SCOPE || v->place == PD_PLACE_FEED) f->externals[f->n_externals++] = i;
        if (v->place == PD_PLACE_TEMP && !v->given && v->desc &&
            (v->unsure || v->desc->meta.kind == PD_KIND_TENSOR_ARRAY))
            f->fresh[f->n_fresh++] = i;
        const struct pd_frame *other = pd_frame_other(v, f->outer, f->forward);
        if (other && !other->values[v->outer])
            f->lacking = v;
        else if (other)
            f->values[i] = pd_value_ref(other->values[v->outer]);
        else if (v->place != PD_PLACE_SCOPE)
            PD_TRY(pd_value_new(v->desc ? v->desc->meta.kind : PD_KIND_TENSOR, &f->values[i]));
    }
    return PD_OK;
}

/* Points every op's argument arrays at the values. Runs again when scope variables were found elsewhere. */
static void link_ops(struct pd_frame *f)
{
    const struct pd_plan *plan = f->plan;
    for (int i = 0; i < plan->args.n; i++) {
        int number = plan->args.at[i];
        struct pd_value *value = number < 0 ? NULL : f->values[number];
        f->flat_values[i] = value;
        f->flat_metas[i] = value ? &value->tensor.meta : NULL;
    }
}

static pd_status make_ops(struct pd_frame *f)
{
    const struct pd_plan *plan = f->plan;
    f->ops = pd_calloc((size_t)plan->ops.n, sizeof *f->ops);
    f->flat_values = pd_calloc((size_t)plan->args.n, sizeof *f->flat_values);
    f->flat_metas = pd_calloc((size_t)plan->args.n, sizeof *f->flat_metas);
    f->value_slots = pd_calloc((size_t)plan->slots.n, sizeof *f->value_slots);
    f->meta_slots = pd_calloc((size_t)plan->slots.n, sizeof *f->meta_slots);
    f->infer_values = pd_calloc((size_t)plan->slots.n, sizeof *f->infer_values);
    if (!f->ops || !f->flat_values || !f->flat_metas || !f->value_slots || !f->meta_slots || !f->infer_values)
        return pd_no_memory();
    for (int s = 0; s < plan->slots.n; s++) {
        const struct pd_plan_slot *slot = &plan->slots.at[s];
        f->value_slots[s] = (struct pd_values){slot->n, f->flat_values + slot->first};
        f->meta_slots[s] = (struct pd_metas){slot->n, f->flat_metas + slot->first};
        f->infer_values[s] = (const struct pd_value **)(f->flat_values + slot->first);
    }
    for (int i = 0; i < plan->ops.n; i++) {
        const struct pd_plan_op *p = &plan->ops.at[i];
        struct pd_frame_op *op = &f->ops[i];
        ptrdiff_t in = p->in - plan->slots.at, out = p->out - plan->slots.at;
        op->frame = f;
        op->plan = p;
        op->late = p->late;
        op->run = (struct pd_run){.op = p->def,
                                  .attr = p->attrs,
                                  .in = f->value_slots + in,
                                  .out = f->value_slots + out,
                                  .step = f->step,
                                  .place = pd_opdesc_place(p->desc),
                                  .frame = op};
        op->infer =
            (struct pd_infer){.op = p->def,
                              .attr = p->attrs,
                              .in = f->meta_slots + in,
                              .out = f->meta_slots + out,
                              .in_values = (const struct pd_value *const *const *)(f->infer_values + in),
                              .running = 1};
        if (p->def->state_size) {
            op->run.state = pd_calloc(1, p->def->state_size);
            if (!op->run.state) return pd_no_memory();
        }
        PD_TRY(pd_grad_check_new(p, &op->infer, &op->check));
    }
    return PD_OK;
}

pd_status pd_frame_new(struct pd_plan *plan, struct pd_frame *outer, struct pd_frame *forward,
                       struct pd_step *step, struct pd_frame **out)
{
    struct pd_frame *f = pd_calloc(1, sizeof *f);
    if (!f) return pd_no_memory();
    f->plan = plan;
    f->outer = outer;
    f->forward = forward;
    plan->framed = 1;
    f->step = step;
    pd_status status = make_values(f);
    if (status == PD_OK) status = make_ops(f);
    if (status == PD_OK && !outer) status = pd_theirs_find(plan, &f->theirs);
    if (status != PD_OK) {
        pd_frame_free(f);
        return status;
    }
    link_ops(f);
    *out = f;
    return PD_OK;
}

void pd_frame_free(struct pd_frame *f)
{
    if (!f) return;
    int blocks = f->plan->program->blocks.n;
    for (int i = 0; f->subs && i < blocks; i++)
        pd_frame_free(f->subs[i]);
    for (int i = 0; f->sub_plans && i < blocks; i++)
        pd_plan_free(f->sub_plans[i]);
    pd_free(f->subs);
    pd_free(f->sub_plans);
    for (int i = 0; f->ops && i < f->plan->ops.n; i++) {
        if (f->ops[i].run.state && f->plan->ops.at[i].def->state_free)
            f->plan->ops.at[i].def->state_free(f->ops[i].run.state);
        pd_free(f->ops[i].run.state);
        pd_grad_check_free(f->ops[i].check);
    }
    for (int i = 0; f->values && i < f->plan->vars.n; i++) {
        if (f->values[i] && f->chunk_of[i] >= 0) f->values[i]->tensor.data = NULL;
        pd_value_unref(f->values[i]);
    }
    for (int i = 0; f->seen && i < f->plan->vars.n; i++)
        pd_lod_unref(f->seen[i].lod);
    for (int i = 0; f->before && i < f->plan->vars.n; i++)
        pd_lod_unref(f->before[i].meta.lod);
    for (int i = 0; i < f->chunks.n; i++)
        pd_free_aligned(f->chunks.at[i].data);
    pd_vec_free(&f->chunks);
    pd_vec_free(&f->takeovers);
    pd_theirs_free(&f->theirs);
    pd_free(f->values);
    pd_free(f->seen);
    pd_free(f->before);
    pd_free(f->chunk_of);
    pd_free(f->externals);
    pd_free(f->fresh);
    pd_free(f->ops);
    pd_free(f->flat_values);
    pd_free(f->flat_metas);
    pd_free(f->value_slots);
    pd_free(f->meta_slots);
    pd_free(f->infer_values);
    pd_free_aligned(f->scratch);
    pd_free(f);
}

/* ---- variables of the scope ---- */

static pd_status not_there(const struct pd_plan_var *v)
{
    if (v->desc && (v->desc->flags & PD_VAR_PERSISTABLE))
        return pd_fail(
            PD_NOT_FOUND,
            "variable '%s' is not in the scope; run the startup program first (again, where layers or "
            "an optimizer came after it), or load it",
            v->name);
    return pd_fail(PD_NOT_FOUND, "variable '%s' has no value: feed it, or put it into the scope", v->name);
}

/* The stamp is of the time before: should another thread change the scope meanwhile, all are looked up again
 * in the next run. */
static pd_status find_scope_vars(struct pd_frame *f, struct pd_scope *scope)
{
    uint64_t stamp = pd_scope_stamp(scope);
    for (int e = 0; e < f->n_externals; e++) {
        int i = f->externals[e];
        const struct pd_plan_var *v = &f->plan->vars.at[i];
        if (v->place != PD_PLACE_SCOPE) continue;
        struct pd_value *value;
        PD_TRY(pd_scope_hold(scope, v->name, 0, &value));
        if (!value) {
            if (v->read_first) return not_there(v);
            PD_TRY(pd_scope_hold(scope, v->name, 1, &value));
            if (v->desc && v->desc->meta.kind != PD_KIND_TENSOR) pd_value_reset(value, v->desc->meta.kind);
        }
        pd_value_unref(f->values[i]);
        f->values[i] = value;
    }
    link_ops(f);
    f->scope_uid = scope->uid;
    f->scope_stamp = stamp;
    f->bound = 0;
    return PD_OK;
}

static pd_status not_ready(const struct pd_plan_var *v, const struct pd_value *value)
{
    if (value->on_servers)
        return pd_fail(
            PD_INVALID,
            "the values of variable '%s' lie on the servers of this job, not in this process. Lookups of the "
            "trainer's Program fetch rows of it, also those of a copy that is made after transpile "
            "(trainer_program.clone(for_test=True)); other ops cannot read it",
            v->name);
    if (v->desc && (v->desc->flags & PD_VAR_PERSISTABLE))
        return pd_fail(
            PD_INVALID,
            "variable '%s' is not initialised; run the startup program first (again, where layers or an "
            "optimizer came after it), or load it",
            v->name);
    return pd_fail(PD_INVALID, "variable '%s' has no value: feed it, or put it into the scope", v->name);
}

/* Ops go through rows by it. */
static pd_status check_lod(const struct pd_meta *meta)
{
    if (!meta->lod || meta->kind != PD_KIND_TENSOR) return PD_OK;
    int64_t rows = pd_lod_last(meta->lod)->offset[pd_lod_last(meta->lod)->n - 1];
    if (meta->rank > 0 && rows == meta->dim[0]) return PD_OK;
    return pd_fail(PD_SHAPE, "its LoD covers %lld rows, but it has shape %s", (long long)rows,
                   pd_meta_dims_text(meta));
}

static pd_status check_ready(const struct pd_frame *f)
{
    for (int e = 0; e < f->n_externals; e++) {
        const struct pd_plan_var *v = &f->plan->vars.at[f->externals[e]];
        const struct pd_value *value = f->values[f->externals[e]];
        if (v->place == PD_PLACE_SCOPE && v->read_first && v->needs_data && !pd_value_ready(value))
            return not_ready(v, value);
        if (!v->read_first || !v->needs_data) continue;
        if ((pd_value_is_rows(value) ? pd_rows_check(value) : check_lod(&value->tensor.meta)) != PD_OK) {
            pd_error_lead("variable '%s': ", v->name);
            return PD_SHAPE;
        }
    }
    return PD_OK;
}

/* ---- running ---- */

/* That another process does not answer is no fault of the op that asked it. A server names whom its error is
 * about; its variables are all that the job has. */
static pd_status blame(struct pd_frame_op *op, pd_status status)
{
    int from_outside = status == PD_INTERRUPTED || status == PD_JOB_OVER || status == PD_UNAVAILABLE;
    if (!from_outside && !(op->plan->def->flags & PD_OP_SERVES))
        pd_opdesc_blame(op->plan->desc, op->frame->plan->block);
    return status;
}

static int is_finite(const struct pd_value *v)
{
    const struct pd_tensor *t = &v->tensor;
    return !t->data || pd_first_not_finite(t->meta.dtype, t->data, pd_tensor_numel(t)) < 0;
}

static const char *name_of(const struct pd_frame_op *op, const struct pd_plan_slot *slot, int k)
{
    return op->frame->plan->vars.at[op->frame->plan->args.at[slot->first + k]].name;
}

/* An op made NaN or Inf in one of its outputs. Its input may have had some: one that was fed, or a parameter.
 */
static pd_status not_finite(const struct pd_frame_op *op, const struct pd_value *made, const char *name)
{
    (void)pd_fail(PD_NOT_FINITE, "op '%s' made NaN or Inf in variable '%s' (flag check_nan_inf is on)",
                  op->plan->def->type, name);
    for (int s = 0; s < op->plan->n_in; s++)
        for (int k = 0; k < op->run.in[s].n; k++) {
            const struct pd_value *v = op->run.in[s].at[k];
            if (!v || v == made || v->tensor.data == made->tensor.data || is_finite(v)) continue;
            pd_error_add(": its input '%s' has some already", name_of(op, &op->plan->in[s], k));
            return PD_NOT_FINITE;
        }
    return PD_NOT_FINITE;
}

static pd_status check_finite(const struct pd_frame_op *op)
{
    for (int s = 0; s < op->plan->n_out; s++)
        for (int k = 0; k < op->run.out[s].n; k++) {
            const struct pd_value *v = op->run.out[s].at[k];
            if (v && !is_finite(v)) return not_finite(op, v, name_of(op, &op->plan->out[s], k));
        }
    return PD_OK;
}

/* The loop with everything that is switched off in normal runs. */
static pd_status run_watched(struct pd_frame *f, int finite, int profile)
{
    for (int i = 0; i < f->plan->ops.n; i++) {
        struct pd_frame_op *op = &f->ops[i];
        int64_t start = profile ? pd_clock_ns() : 0;
        pd_status status = op->late ? pd_frame_bind_late(op) : PD_OK;
        if (status == PD_OK) status = op->run.op->run(&op->run);
        if (status == PD_OK && op->stores) status = pd_frame_store(op);
        if (status == PD_OK && finite) status = check_finite(op);
        if (profile) pd_profile_add(op->plan->def->type, pd_clock_ns() - start);
        if (status != PD_OK) return blame(op, status);
        PD_TRY(pd_frame_poll(f));
    }
    return PD_OK;
}

static pd_status run_ops(struct pd_frame *f)
{
    int finite = pd_flag_int(PD_FLAG_check_nan_inf), profile = pd_profile_on();
    if (__builtin_expect(finite || profile, 0)) return run_watched(f, finite, profile);
    int n = f->plan->ops.n;
    for (int i = 0; i < n; i++) {
        struct pd_frame_op *op = &f->ops[i];
        pd_status status = PD_OK;
        if (op->late) status = pd_frame_bind_late(op);
        if (status == PD_OK) status = op->run.op->run(&op->run);
        if (op->stores && status == PD_OK) status = pd_frame_store(op);
        if (__builtin_expect(status != PD_OK, 0)) return blame(op, status);
        if (f->poll && __builtin_expect(pd_clock_coarse_ns() >= f->next_poll, 0)) PD_TRY(pd_frame_poll(f));
    }
    return PD_OK;
}

static pd_status run(struct pd_frame *frame, struct pd_scope *scope)
{
    frame->scope = scope;
    if (frame->lacking) return not_there(frame->lacking);
    if (frame->scope_uid != scope->uid || frame->scope_stamp != pd_scope_stamp(scope)) {
        frame->scope_uid = 0;
        PD_TRY(find_scope_vars(frame, scope));
    }
    PD_TRY(check_ready(frame));
    if (__builtin_expect((pd_held_exist() || frame->theirs.sends) && !frame->outer, 0))
        PD_TRY(pd_theirs_begin(frame));
    if (!frame->bound || pd_frame_stale(frame)) {
        frame->bound = 0;
        PD_TRY(pd_frame_bind(frame));
        frame->bound = 1;
    }
    for (int i = 0; i < frame->n_fresh; i++)
        pd_value_reset(frame->values[frame->fresh[i]], frame->plan->vars.at[frame->fresh[i]].desc->meta.kind);
    PD_TRY(run_ops(frame));
    if (frame->theirs.brought.n) pd_theirs_end(frame);
    return PD_OK;
}

pd_status pd_frame_run(struct pd_frame *frame, struct pd_scope *scope)
{
    int is_step = frame->theirs.sends && !frame->outer;
    if (__builtin_expect(is_step, 0)) pd_theirs_enter();
    pd_status status = run(frame, scope);
    if (__builtin_expect(is_step, 0)) pd_theirs_leave();
    return status;
}
