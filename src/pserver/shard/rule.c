/* See rule.h. */
#include "pserver/shard/rule_private.h"

#include <string.h>

#include "base/error.h"
#include "tensor/finite.h"

static void *rule_scratch(const struct pd_run *run, size_t bytes)
{
    struct pd_rule *rule = run->frame;
    if (!pd_room_growing(&rule->scratch, &rule->scratch_size, bytes)) (void)pd_no_memory();
    return rule->scratch;
}

static pd_status rule_poll(const struct pd_run *run)
{
    (void)run;
    return PD_OK;
}

/* Its number of elements: as it is, or as the Program declares it while it has no value yet. */
static int64_t size_of(const struct pd_engine *engine, const char *name, const struct pd_value *value)
{
    if (value && value->tensor.data) return pd_tensor_numel(&value->tensor);
    const struct pd_var *var = pd_block_find(pd_program_block(engine->program, 0), name);
    return var && value && var->meta.kind == PD_KIND_TENSOR ? pd_meta_numel(&var->meta) : -1;
}

static void call_free(struct pd_rule_call *c)
{
    for (int i = 0; i < c->n_views; i++)
        if (c->views[i].part != c->views[i].whole && c->views[i].part) {
            c->views[i].part->tensor.data = NULL;
            pd_value_unref(c->views[i].part);
        }
    pd_free(c->run.state);
    pd_free(c->views);
    pd_free(c->attrs);
    pd_free(c->slots);
    pd_free(c->args);
}

void pd_rule_free(struct pd_rule *rule)
{
    if (!rule) return;
    call_free(&rule->update);
    for (int i = 0; i < rule->n_tail; i++)
        call_free(&rule->tail[i]);
    pd_free(rule->tail);
    if (rule->grad) {
        rule->grad->tensor.data = NULL;
        rule->grad->rows.at = NULL;
        rule->grad->rows.n = rule->grad->rows.cap = 0;
        pd_value_unref(rule->grad);
    }
    pd_rule_free_columns(rule);
    pd_free_aligned(rule->scratch);
    pd_vec_free(&rule->rows);
    pd_free(rule);
}

/* The value an argument stands for while a part is updated. The parameter and state of its shape become
 * views; a variable has one view however many slots name it. */
static pd_status bind_arg(struct pd_rule *rule, struct pd_rule_call *c, const struct pd_engine *engine,
                          const char *name, const char *merged, struct pd_value **out)
{
    if (strcmp(name, merged) == 0) {
        *out = rule->grad;
        return PD_OK;
    }
    struct pd_value *whole = pd_engine_seen(engine, name);
    if (!whole || (!whole->tensor.data && size_of(engine, name, whole) != 1))
        return pd_fail(PD_NOT_FOUND,
                       "variable '%s' is not in the server's scope; run its startup program first", name);
    if (rule->has_columns && pd_rule_is_column(rule, whole)) PD_TRY(pd_rule_take_column(rule, &whole));
    for (int i = 0; i < c->n_views; i++)
        if (c->views[i].whole == whole) {
            *out = c->views[i].part;
            return PD_OK;
        }
    struct pd_rule_view *v = &c->views[c->n_views];
    v->whole = v->part = whole;
    int is_table = whole == rule->param && rule->row_step;
    if (is_table || (whole->tensor.meta.kind == PD_KIND_TENSOR && size_of(engine, name, whole) != 1)) {
        PD_TRY(pd_value_new(PD_KIND_TENSOR, &v->part));
        v->part->tensor.meta.dtype = whole->tensor.meta.dtype;
        pd_meta_copy_dims(&v->part->tensor.meta, &whole->tensor.meta);
        v->part->tensor.data = whole->tensor.data;
    }
    c->n_views++;
    *out = v->part;
    return PD_OK;
}

static pd_status bind_side(struct pd_rule *rule, struct pd_rule_call *c, const struct pd_opdesc *op,
                           int is_output, const struct pd_engine *engine, const char *merged,
                           struct pd_values *slots, int *used)
{
    const struct pd_slot_def *defs = is_output ? op->def->outputs : op->def->inputs;
    for (int s = 0; defs[s].name; s++) {
        const struct pd_io *io = pd_opdesc_slot(op, is_output, defs[s].name);
        slots[s] = (struct pd_values){0, c->args + *used};
        for (int k = 0; io && k < io->args.n; k++) {
            if (strcmp(io->args.at[k], PD_EMPTY_VAR) == 0) continue;
            PD_TRY(bind_arg(rule, c, engine, io->args.at[k], merged, &c->args[*used]));
            for (int v = 0; is_output && v < c->n_views; v++)
                if (c->views[v].part == c->args[*used]) c->views[v].is_written = 1;
            ++*used;
            slots[s].n++;
        }
    }
    return PD_OK;
}

static int count_args(const struct pd_opdesc *op)
{
    int n = 0;
    for (int s = 0; s < op->in.n; s++)
        n += op->in.at[s].args.n;
    for (int s = 0; s < op->out.n; s++)
        n += op->out.at[s].args.n;
    return n;
}

static pd_status call_new(struct pd_rule *rule, const struct pd_opdesc *op, const struct pd_engine *engine,
                          const char *merged, struct pd_rule_call *c)
{
    int n_in = pd_slot_count(op->def->inputs), n_out = pd_slot_count(op->def->outputs), n_attrs, used = 0;
    c->n_args = count_args(op);
    c->slots = pd_calloc((size_t)(n_in + n_out), sizeof *c->slots);
    c->args = pd_calloc((size_t)c->n_args, sizeof *c->args);
    c->views = pd_calloc((size_t)c->n_args, sizeof *c->views);
    if (!c->slots || !c->args || !c->views) return pd_no_memory();
    PD_TRY(pd_opdesc_bind_attrs(op, &c->attrs, &n_attrs));
    PD_TRY(bind_side(rule, c, op, 0, engine, merged, c->slots, &used));
    PD_TRY(bind_side(rule, c, op, 1, engine, merged, c->slots + n_in, &used));
    c->run = (struct pd_run){.op = op->def,
                             .attr = c->attrs,
                             .in = c->slots,
                             .out = c->slots + n_in,
                             .step = &rule->step,
                             .place = pd_opdesc_place(op),
                             .frame = rule};
    if (op->def->state_size) {
        c->run.state = pd_calloc(1, op->def->state_size);
        if (!c->run.state) return pd_no_memory();
    }
    return PD_OK;
}

/* Does the op only average gradients? `sum` over the trainers' parts, then `scale`, both into the merged
 * gradient. */
static int is_merge(const struct pd_engine *engine, const struct pd_opdesc *op, const char *merged)
{
    const char *out = pd_opdesc_arg(op, 1, "Out");
    if (!out || strcmp(out, merged) != 0) return 0;
    const struct pd_io *in = pd_opdesc_slot(op, 0, "X");
    if (!in) return 0;
    for (int i = 0; i < in->args.n; i++)
        if (!pd_engine_is_of(engine, in->args.at[i], merged)) return 0;
    if (strcmp(op->type, "sum") == 0) return 1;
    const struct pd_attr *bias = pd_opdesc_attr(op, "bias");
    return strcmp(op->type, "scale") == 0 && bias && bias->f == 0;
}

/* All variables of the op hold one number. */
static int is_small(const struct pd_opdesc *op, const struct pd_engine *engine)
{
    for (int side = 0; side < 2; side++) {
        const struct pd_io *at = side ? op->out.at : op->in.at;
        for (int s = 0; s < (side ? op->out.n : op->in.n); s++)
            for (int k = 0; k < at[s].args.n; k++)
                if (size_of(engine, at[s].args.at[k], pd_engine_seen(engine, at[s].args.at[k])) != 1)
                    return 0;
    }
    return pd_opdesc_sub_block(op, 0) < 0 && op->def && op->def->run;
}

/* The optimizer op of the block when the block has nothing else but merging before it and small ops after it.
 */
static const struct pd_opdesc *recognise(const struct pd_block *block, const struct pd_engine *engine,
                                         const char *merged, int *tail)
{
    int i = 0;
    while (i < block->ops.n && is_merge(engine, block->ops.at[i], merged))
        i++;
    if (i == block->ops.n) return NULL;
    const struct pd_opdesc *op = block->ops.at[i];
    const char *grad = pd_opdesc_arg(op, 0, "Grad");
    if (!op->def || !(op->def->flags & PD_OP_ELEMENTWISE) || !grad || strcmp(grad, merged) != 0) return NULL;
    const char *param = pd_opdesc_arg(op, 0, "Param"), *out = pd_opdesc_arg(op, 1, "ParamOut");
    if (!param || !out || strcmp(param, out) != 0) return NULL;
    *tail = i + 1;
    for (i++; i < block->ops.n; i++)
        if (!is_small(block->ops.at[i], engine)) return NULL;
    return op;
}

int pd_rule_adds(const struct pd_engine *engine, int prepare, int block, const char *merged)
{
    int adds = 0;
    for (int side = 0; side < 2; side++) {
        const struct pd_block *b = pd_program_block(engine->program, side ? block : prepare);
        for (int i = 0; b && i < b->ops.n; i++)
            if (is_merge(engine, b->ops.at[i], merged)) adds = strcmp(b->ops.at[i]->type, "sum") == 0;
    }
    return adds;
}

static void find_rows(struct pd_rule *rule)
{
    const struct pd_value *p = rule->param;
    if (!pd_value_is_rows(p) || !p->rows.n) return;
    int64_t step = p->rows.n > 1 ? p->rows.at[1] - p->rows.at[0] : 1;
    for (int i = 1; i < p->rows.n; i++)
        if (p->rows.at[i] - p->rows.at[i - 1] != step) return;
    if (step <= 0) return;
    rule->first_row = p->rows.at[0];
    rule->row_step = step;
}

int pd_rule_has_row(const struct pd_rule *rule, int64_t row)
{
    int64_t from = row - rule->first_row;
    if (!rule->row_step)
        return row >= 0 &&
               row < (pd_value_is_rows(rule->param) ? rule->param->height : rule->param->tensor.meta.dim[0]);
    return from >= 0 && from % rule->row_step == 0 && from / rule->row_step < rule->param->rows.n;
}

static pd_status rule_new(const struct pd_engine *engine, int block, const char *merged, int has_columns,
                          struct pd_rule **out)
{
    const struct pd_block *b = pd_program_block(engine->program, block);
    int tail = 0;
    *out = NULL;
    if (!b) return pd_fail(PD_RANGE, "the server's Program has no block %d", block);
    const struct pd_opdesc *op = recognise(b, engine, merged, &tail);
    if (!op) return PD_OK;
    struct pd_rule *rule = pd_calloc(1, sizeof *rule);
    if (!rule) return pd_no_memory();
    pd_status status = PD_NO_MEMORY;
    rule->step = (struct pd_step){.scratch = rule_scratch, .poll = rule_poll};
    rule->name = pd_opdesc_arg(op, 0, "Param");
    rule->is_checked = engine->is_checked;
    rule->param = pd_engine_seen(engine, rule->name);
    if (!rule->param || !rule->param->tensor.data) {
        status = pd_fail(PD_NOT_FOUND,
                         "parameter '%s' is not in the server's scope; run its startup program first",
                         pd_opdesc_arg(op, 0, "Param"));
        goto fail;
    }
    rule->has_columns = has_columns;
    if (has_columns) {
        struct pd_value *param = rule->param;
        if ((status = pd_rule_take_column(rule, &param)) != PD_OK) goto fail;
    } else {
        find_rows(rule);
    }
    if ((status = pd_value_new(PD_KIND_TENSOR, &rule->grad)) != PD_OK) goto fail;
    if ((status = call_new(rule, op, engine, merged, &rule->update)) != PD_OK) goto fail;
    rule->n_tail = b->ops.n - tail;
    rule->tail = pd_calloc((size_t)rule->n_tail, sizeof *rule->tail);
    if (!rule->tail) {
        status = pd_no_memory();
        goto fail;
    }
    for (int i = 0; i < rule->n_tail; i++)
        if ((status = call_new(rule, b->ops.at[tail + i], engine, merged, &rule->tail[i])) != PD_OK)
            goto fail;
    const struct pd_meta *m = &rule->param->tensor.meta;
    rule->numel = pd_meta_numel(m);
    rule->width = pd_meta_span(m, 1, m->rank);
    *out = rule;
    return PD_OK;
fail:
    pd_rule_free(rule);
    return status;
}

pd_status pd_rule_new(const struct pd_engine *engine, int block, const char *merged, struct pd_rule **out)
{
    return rule_new(engine, block, merged, 0, out);
}

pd_status pd_rule_new_of_rows(const struct pd_engine *engine, int block, const char *merged,
                              struct pd_rule **out)
{
    return rule_new(engine, block, merged, 1, out);
}

/* Points the views of whole-sized state at the part. */
void pd_rule_aim(struct pd_rule *rule, int64_t first, int64_t n)
{
    for (int i = 0; i < rule->update.n_views; i++) {
        struct pd_rule_view *v = &rule->update.views[i];
        if (v->part == v->whole) continue;
        struct pd_tensor *t = &v->part->tensor;
        t->data = (char *)v->whole->tensor.data + (size_t)first * pd_dtype_size(t->meta.dtype);
        if (n == rule->numel)
            pd_meta_copy_dims(&t->meta, &v->whole->tensor.meta);
        else
            pd_meta_set_1d(&t->meta, n);
    }
}

/* A single number that the optimizer itself advances (a power of beta). It is this loop's alone, as all that
 * an update writes; a number that it only reads, such as the rate, may be changed by another loop meanwhile.
 */
static int is_advanced(const struct pd_rule_view *v)
{
    return v->is_written && v->part == v->whole;
}

static pd_status check_finite(const struct pd_rule *rule)
{
    const struct pd_rule_call *c = &rule->update;
    for (int i = 0; i < c->n_views; i++) {
        const struct pd_tensor *t = &c->views[i].part->tensor;
        if (c->views[i].is_written && t->data &&
            pd_first_not_finite(t->meta.dtype, t->data, pd_tensor_numel(t)) >= 0)
            return pd_fail(
                PD_NOT_FINITE,
                "op '%s' made NaN or Inf of finite gradients, in the update of variable '%s' (flag "
                "check_nan_inf is on): their sum is too large, or the learning rate",
                c->run.op->type, rule->name);
    }
    return PD_OK;
}

/* Such numbers may advance once a step: before the last part they are put back. */
pd_status pd_rule_run(struct pd_rule *rule, int last)
{
    struct pd_rule_call *c = &rule->update;
    double kept[8];
    int n_kept = 0;
    for (int i = 0; !last && i < c->n_views && n_kept < 8; i++)
        if (is_advanced(&c->views[i]))
            memcpy(&kept[n_kept++], c->views[i].whole->tensor.data,
                   pd_dtype_size(c->views[i].whole->tensor.meta.dtype));
    PD_TRY(c->run.op->run(&c->run));
    if (rule->is_checked) PD_TRY(check_finite(rule));
    n_kept = 0;
    for (int i = 0; !last && i < c->n_views && n_kept < 8; i++)
        if (is_advanced(&c->views[i]))
            memcpy(c->views[i].whole->tensor.data, &kept[n_kept++],
                   pd_dtype_size(c->views[i].whole->tensor.meta.dtype));
    for (int i = 0; last && i < rule->n_tail; i++)
        PD_TRY(rule->tail[i].run.op->run(&rule->tail[i].run));
    return PD_OK;
}

pd_status pd_rule_dense(struct pd_rule *rule, int64_t first, int64_t n, const void *grad, int last)
{
    struct pd_value *g = rule->grad;
    pd_rule_aim(rule, first, n);
    g->tensor.meta.kind = PD_KIND_TENSOR;
    g->tensor.meta.dtype = rule->param->tensor.meta.dtype;
    if (n == rule->numel)
        pd_meta_copy_dims(&g->tensor.meta, &rule->param->tensor.meta);
    else
        pd_meta_set_1d(&g->tensor.meta, n);
    g->tensor.data = (void *)grad;
    return pd_rule_run(rule, last);
}

/* Row numbers as the op sees them. */
static pd_status own_rows(struct pd_rule *rule, int64_t n, const int64_t **rows)
{
    if (!rule->row_step) return PD_OK;
    if (!pd_vec_reserve(&rule->rows, (int)n)) return pd_no_memory();
    for (int64_t i = 0; i < n; i++) {
        if (!pd_rule_has_row(rule, (*rows)[i]))
            return pd_fail(PD_RANGE, "row %lld is not among the %d rows of the table here",
                           (long long)(*rows)[i], rule->param->rows.n);
        rule->rows.at[i] = ((*rows)[i] - rule->first_row) / rule->row_step;
    }
    *rows = rule->rows.at;
    return PD_OK;
}

int pd_rule_has_tail(const struct pd_rule *rule)
{
    return rule->n_tail > 0;
}

pd_status pd_rule_rows(struct pd_rule *rule, int is_given, int64_t n, const int64_t *rows, const void *grad)
{
    struct pd_value *g = rule->grad;
    rule->step.is_slice = is_given;
    PD_TRY(own_rows(rule, n, &rows));
    pd_rule_aim(rule, 0, rule->numel);
    g->tensor.meta.kind = PD_KIND_SELECTED_ROWS;
    g->tensor.meta.dtype = rule->param->tensor.meta.dtype;
    pd_meta_set_2d(&g->tensor.meta, n, rule->width);
    g->tensor.data = (void *)grad;
    g->rows.at = (int64_t *)rows;
    g->rows.n = g->rows.cap = (int)n;
    g->height = rule->param->tensor.meta.dim[0];
    pd_status status = pd_rule_run(rule, 1);
    g->rows.at = NULL;
    g->rows.n = g->rows.cap = 0;
    return status;
}
