/* See theirs.h. */
#include "exec/theirs.h"

#include <stdatomic.h>
#include <string.h>

#include "base/log.h"
#include "exec/frame.h"
#include "tensor/held.h"

enum { SHOWN = 3 };

/* ---- finding them, when a plan is made ---- */

/* The list of such an op, or of a part of it. The transpiler gives one op of a Program a list. */
static const struct pd_attr *kept_of_op(const struct pd_opdesc *op)
{
    const struct pd_attr *kept = pd_opdesc_attr(op, PD_KEPT_ATTR);
    for (int i = 0; !kept && i < op->parts.n; i++)
        kept = kept_of_op(op->parts.at[i]);
    return kept;
}

/* What servers compute and keep as well, as an op of the block says; NULL: none does. */
static const struct pd_attr *kept_of_block(const struct pd_block *block)
{
    const struct pd_attr *kept = NULL;
    for (int i = 0; !kept && i < block->ops.n; i++)
        if (block->ops.at[i]->def && block->ops.at[i]->def->flags & PD_OP_SENDS)
            kept = kept_of_op(block->ops.at[i]);
    return kept;
}

static int has_name(const struct pd_attr *kept, const char *name)
{
    for (int i = 0; kept && i < kept->n; i++)
        if (strcmp(kept->strings[i], name) == 0) return 1;
    return 0;
}

/* What the op writes: an argument, or the variable that it is brought to. */
static int written_at(const struct pd_plan *plan, const struct pd_plan_op *op, int arg)
{
    for (int i = 0; i < op->n_results; i++)
        if (plan->results.at[op->first_result + i].arg == arg)
            return plan->results.at[op->first_result + i].to;
    return plan->args.at[arg];
}

/* Does it put slices together that servers sent? */
static int joins(const struct pd_plan *plan, const struct pd_plan_op *op, const char *is_theirs)
{
    int n = 0;
    if (strcmp(op->def->type, "concat") != 0) return 0;
    for (int s = 0; s < op->n_in; s++)
        for (int k = 0; k < op->in[s].n; k++, n++) {
            int number = plan->args.at[op->in[s].first + k];
            if (number >= 0 && !is_theirs[number]) return 0;
        }
    return n > 0;
}

/* Marks what each op gets from servers. */
static void look_at_op(const struct pd_plan *plan, const struct pd_plan_op *op, char *is_theirs,
                       struct pd_theirs *out)
{
    unsigned flags = op->def->flags;
    if (flags & PD_OP_SENDS) out->sends = 1;
    for (int s = 0; s < op->n_in && (flags & PD_OP_ASKS); s++)
        for (int k = 0; k < op->in[s].n && (op->def->inputs[s].flags & PD_SLOT_META); k++) {
            int number = plan->args.at[op->in[s].first + k];
            if (number >= 0 && plan->vars.at[number].place == PD_PLACE_FEED) out->fed = number;
        }
    if (!(flags & PD_OP_RECEIVES) && !joins(plan, op, is_theirs)) return;
    for (int s = 0; s < op->n_out; s++)
        for (int k = 0; k < op->out[s].n; k++) {
            int number = written_at(plan, op, op->out[s].first + k);
            if (number >= 0) is_theirs[number] = 1;
        }
}

/* The last op that writes the variable itself; NULL: it is in a block of one. */
static const struct pd_plan_op *writer_of(const struct pd_plan *plan, int number)
{
    for (int i = plan->ops.n - 1; i >= 0; i--) {
        const struct pd_plan_op *op = &plan->ops.at[i];
        for (int s = 0; s < op->n_out; s++)
            for (int k = 0; k < op->out[s].n; k++)
                if (written_at(plan, op, op->out[s].first + k) == number) return op;
    }
    return NULL;
}

pd_status pd_theirs_find(const struct pd_plan *plan, struct pd_theirs *out)
{
    char *is_theirs = pd_calloc((size_t)plan->vars.n + 1, 1);
    if (!is_theirs) return pd_no_memory();
    const struct pd_attr *kept = kept_of_block(plan->block);
    out->fed = -1;
    for (int i = 0; i < plan->ops.n; i++)
        look_at_op(plan, &plan->ops.at[i], is_theirs, out);
    int ok = 1;
    for (int i = 0; ok && i < plan->vars.n; i++) {
        const struct pd_plan_var *v = &plan->vars.at[i];
        if (v->place != PD_PLACE_SCOPE && v->place != PD_PLACE_FEED) continue;
        int is_kept = has_name(kept, v->name);
        if (v->place == PD_PLACE_FEED) {
            if (is_theirs[i] || is_kept) out->fed = i;
        } else if (is_theirs[i]) {
            ok = pd_vec_push(&out->brought, i);
        } else if (is_kept) {
            ok = pd_vec_push(&out->kept, i);
        } else if (v->written) {
            ok = pd_vec_push(&out->written, i);
        }
    }
    for (int i = 0; ok && kept && i < kept->n; i++)
        if (pd_plan_number(plan, kept->strings[i]) < 0) ok = pd_vec_push(&out->outside, kept->strings[i]);
    pd_free(is_theirs);
    return ok ? PD_OK : pd_no_memory();
}

void pd_theirs_free(struct pd_theirs *theirs)
{
    pd_vec_free(&theirs->brought);
    pd_vec_free(&theirs->kept);
    pd_vec_free(&theirs->outside);
    pd_vec_free(&theirs->written);
}

/* ---- writing them ---- */

static int is_load(const char *type)
{
    return strcmp(type, "load") == 0 || strcmp(type, "load_combine") == 0;
}

static void tell_away(const struct pd_frame *f, int number, const char *type)
{
    f->values[number]->held.is_told = 1;
    pd_log(PD_LOG_WARNING,
           "op '%s' gives '%s' values in this trainer only: the table lies on the servers of its job, and "
           "training reads and updates it there. Load it in the servers, after their startup Program and "
           "before they serve: fluid.io.load_params or load_persistables with the server's Program",
           type, f->plan->vars.at[number].name);
}

/* Does this change what is known of the value? A trainer's own statistics it writes in each step. */
static int is_news(const struct pd_frame *f, const struct pd_value *value)
{
    const struct pd_held *h = &value->held;
    if (value->on_servers) return !h->is_told;
    if (pd_held_state(value) != PD_HELD_CHANGED) return pd_held_state(value) == PD_HELD_SAME;
    return h->by == PD_HELD_COMPUTED && h->lineage != f->plan->program->lineage->salt;
}

static void write_one(const struct pd_frame *f, int number)
{
    struct pd_value *value = f->values[number];
    if (!is_news(f, value)) return;
    const struct pd_plan_op *op = writer_of(f->plan, number);
    const char *type = op ? op->def->type : "while or conditional_block";
    if (strcmp(type, "fake_init") == 0) return;
    if (value->on_servers)
        tell_away(f, number, type);
    else
        pd_held_write(value, is_load(type) ? PD_HELD_GIVEN : PD_HELD_COMPUTED, type,
                      f->plan->program->lineage->salt);
}

/* ---- before a step ---- */

static void print_how(struct pd_buf *out, const struct pd_held *held)
{
    if (held->by == PD_HELD_GIVEN)
        pd_buf_printf(out, "loaded or set");
    else if (held->by == PD_HELD_FED)
        pd_buf_printf(out, "fed");
    else
        pd_buf_printf(out, "written by op '%s' of another Program", held->op);
}

/* Those that differ for the same reason as the first of them, which is taken out of the list; how many. */
static int next_cause(const struct pd_frame *f, int n, int *numbers, struct pd_buf *out)
{
    const struct pd_held first = f->values[numbers[0]]->held;
    int left = 0, found = 0;
    print_how(out, &first);
    pd_buf_printf(out, " in this trainer only: ");
    for (int i = 0; i < n; i++) {
        const struct pd_held *h = &f->values[numbers[i]]->held;
        if (h->by != first.by || (h->by == PD_HELD_COMPUTED && strcmp(h->op, first.op) != 0)) {
            numbers[left++] = numbers[i];
            continue;
        }
        if (found < SHOWN) pd_buf_printf(out, "%s%s", found ? ", " : "", f->plan->vars.at[numbers[i]].name);
        found++;
    }
    if (found > SHOWN) pd_buf_printf(out, " and %d more", found - SHOWN);
    return left;
}

static pd_status refuse_kept(const struct pd_held *held, const char *name)
{
    struct pd_buf how = {0};
    print_how(&how, held);
    pd_status status = pd_fail(
        PD_INVALID,
        "'%s' was %s in this trainer only. Servers compute the learning rate, from their own '%s', which "
        "this does not reach. Give it its value where all processes do the same, before transpile; a rate "
        "that is to change while a job runs is computed by layers from a counter. The startup Program brings "
        "the servers' value back",
        name, how.failed ? "changed" : how.at, name);
    pd_buf_free(&how);
    return status;
}

static pd_status refuse(const struct pd_frame *f, int n, int *numbers)
{
    struct pd_buf text = {0};
    (void)next_cause(f, n, numbers, &text);
    pd_status status = pd_fail(
        PD_INVALID,
        "%s, after its first step. Servers hold other values, and this step would bring those back: the "
        "change would be lost, and the gradient be that of other parameters. Servers change parameters by "
        "the optimizer of the Program alone: what is to act on them in each step belongs there, before "
        "transpile (a clip of gradients, a decay); values that were loaded or set are given to servers, "
        "before they serve. To evaluate with others, put the servers' back before the next step (the startup "
        "Program brings them), or use a scope of its own (fluid.scope_guard)",
        text.failed ? "changed in this trainer only" : text.at);
    pd_buf_free(&text);
    return status;
}

static void tell(const struct pd_frame *f, int n, int *numbers)
{
    for (int i = 0; i < n; i++)
        pd_held_lost(f->values[numbers[i]]);
    while (n) {
        struct pd_buf text = {0};
        n = next_cause(f, n, numbers, &text);
        if (!text.failed)
            pd_log(PD_LOG_WARNING,
                   "%s. Servers hold other values, and this step brings those back. Load them in the servers "
                   "too, after their startup Program and before they serve (fluid.io.load_params, load_vars, "
                   "load_persistables or fluid.load with the server's Program), or give them to all by an "
                   "initializer (fluid.initializer.NumpyArrayInitializer)",
                   text.at);
        pd_buf_free(&text);
    }
}

/* A test clone of the trainer's Program may count as well. */
static int is_own_count(const struct pd_frame *f, const struct pd_held *held)
{
    return held->by == PD_HELD_COMPUTED && held->lineage == f->plan->program->lineage->salt;
}

static pd_status check_kept(const struct pd_frame *f, struct pd_value *value, const char *name)
{
    if (!value || !pd_held_differs(value)) return PD_OK;
    if (!is_own_count(f, &value->held)) return refuse_kept(&value->held, name);
    pd_held_same(value);
    return PD_OK;
}

static pd_status check_step(const struct pd_frame *f)
{
    const struct pd_theirs *theirs = &f->theirs;
    for (int i = 0; i < theirs->kept.n; i++) {
        int number = theirs->kept.at[i];
        PD_TRY(check_kept(f, f->values[number], f->plan->vars.at[number].name));
    }
    for (int i = 0; i < theirs->outside.n; i++)
        PD_TRY(check_kept(f, pd_scope_lookup(f->scope, theirs->outside.at[i]), theirs->outside.at[i]));
    int n = 0, late = 0;
    int *numbers = NULL;
    for (int i = 0; i < theirs->brought.n; i++) {
        struct pd_value *value = f->values[theirs->brought.at[i]];
        if (!pd_held_differs(value)) continue;
        if (!numbers) numbers = pd_calloc((size_t)theirs->brought.n, sizeof *numbers);
        if (!numbers) return pd_no_memory();
        numbers[n++] = theirs->brought.at[i];
        late |= value->held.has_stepped;
    }
    pd_status status = PD_OK;
    if (late)
        status = refuse(f, n, numbers);
    else
        tell(f, n, numbers);
    pd_free(numbers);
    return status;
}

static pd_status refuse_fed(const struct pd_plan_var *var)
{
    return pd_fail(
        PD_INVALID,
        "'%s' is fed to a step of a trainer. Servers hold it, and what is fed does not reach them: the step "
        "would bring their value back. Give it its value before transpile, or load it in the servers, after "
        "their startup Program and before they serve; feed it to a copy (clone(for_test=True)) to evaluate "
        "with it",
        var->name);
}

pd_status pd_theirs_begin(const struct pd_frame *f)
{
    const struct pd_theirs *theirs = &f->theirs;
    if (theirs->sends) {
        if (theirs->fed >= 0) return refuse_fed(&f->plan->vars.at[theirs->fed]);
        PD_TRY(check_step(f));
        for (int i = 0; i < theirs->brought.n; i++)
            f->values[theirs->brought.at[i]]->held.has_stepped = 1;
    }
    for (int i = 0; i < theirs->written.n; i++)
        write_one(f, theirs->written.at[i]);
    return PD_OK;
}

void pd_theirs_end(const struct pd_frame *f)
{
    for (int i = 0; i < f->theirs.brought.n; i++)
        pd_held_same(f->values[f->theirs.brought.at[i]]);
}

/* ---- steps of all threads ---- */

static atomic_int under_way;
static _Atomic uint64_t begun;

void pd_theirs_enter(void)
{
    atomic_fetch_add(&under_way, 1);
    atomic_fetch_add(&begun, 1);
}

void pd_theirs_leave(void)
{
    atomic_fetch_sub(&under_way, 1);
}

int pd_theirs_under_way(void)
{
    return atomic_load(&under_way);
}

uint64_t pd_theirs_begun(void)
{
    return atomic_load(&begun);
}
