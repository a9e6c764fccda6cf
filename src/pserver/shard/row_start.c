/* See row_start.h. */
#include "pserver/shard/row_start.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/rng.h"

struct pd_row_start {
    struct pd_step step;
    struct pd_run run;
    struct pd_attr *attrs;
    struct pd_attr *row; /* of them: row_begin */
    struct pd_value *out;
    struct pd_value *args[1];
    struct pd_values slot, *inputs; /* none of these has a variable */
    int64_t width;
    int is_seeded; /* by the user: upstream's numbers, which come again and again */
};

/* Upstream's generator has so many numbers; behind them the first comes again. */
#define PERIOD INT64_C(2147483646)
/* Above it, ids of tables without a size share what they begin with. */
#define FAR ((int64_t)1 << 40)

static void *no_scratch(const struct pd_run *run, size_t bytes)
{
    (void)run, (void)bytes;
    pd_fail(PD_UNSUPPORTED, "op '%s' needs memory of its own, and cannot fill rows one by one",
            run->op->type);
    return NULL;
}

static pd_status no_poll(const struct pd_run *run)
{
    (void)run;
    return PD_OK;
}

static struct pd_attr *find_attr(const struct pd_row_start *s, const char *name)
{
    for (int i = 0; s->run.op->attrs && s->run.op->attrs[i].name; i++)
        if (strcmp(s->run.op->attrs[i].name, name) == 0) return &s->attrs[i];
    return NULL;
}

static pd_status prepare(struct pd_row_start *s, const struct pd_engine *engine, const struct pd_opdesc *op)
{
    int n_attrs;
    s->run = (struct pd_run){.op = op->def, .out = &s->slot, .step = &s->step, .place = pd_opdesc_place(op)};
    s->step = (struct pd_step){.scratch = no_scratch, .poll = no_poll};
    s->step.seed = engine->run ? engine->run->step->seed : pd_rng_fresh_seed();
    PD_TRY(pd_opdesc_bind_attrs(op, &s->attrs, &n_attrs));
    s->run.attr = s->attrs;
    s->inputs = pd_calloc((size_t)pd_slot_count(op->def->inputs) + 1, sizeof *s->inputs);
    if (!s->inputs) return pd_no_memory();
    s->run.in = s->inputs;
    if (op->def->state_size) {
        s->run.state = pd_calloc(1, op->def->state_size);
        if (!s->run.state) return pd_no_memory();
    }
    s->row = find_attr(s, "row_begin");
    const struct pd_attr *seed = find_attr(s, "seed"), *dtype = find_attr(s, "dtype");
    if (!s->row || !dtype || dtype->i != PD_DTYPE_FP32)
        return pd_fail(PD_INVALID, "op '%s' cannot fill one row of float32 after the other", op->type);
    s->is_seeded = seed && seed->i;
    PD_TRY(pd_value_new(PD_KIND_TENSOR, &s->out));
    PD_TRY(pd_tensor_resize(&s->out->tensor, PD_DTYPE_FP32, 2, (int64_t[]){1, s->width}));
    s->args[0] = s->out;
    s->slot = (struct pd_values){1, s->args};
    return PD_OK;
}

pd_status pd_row_start_new(const struct pd_engine *engine, int block, const char *table, int64_t width,
                           struct pd_row_start **out)
{
    const struct pd_block *b = pd_program_block(engine->program, block);
    const struct pd_opdesc *op = b && b->ops.n == 1 ? b->ops.at[0] : NULL;
    const char *filled = op ? pd_opdesc_arg(op, 1, "Out") : NULL;
    if (!filled || strcmp(filled, table) != 0 || !op->def || !op->def->run || op->in.n)
        return pd_fail(
            PD_INVALID,
            "block %d of the server's Program is to say what rows of the table '%s' begin with: it "
            "has one op, which fills '%s'",
            block, table, table);
    struct pd_row_start *s = pd_calloc(1, sizeof *s);
    if (!s) return pd_no_memory();
    s->width = width;
    pd_status status = prepare(s, engine, op);
    if (status != PD_OK) {
        pd_row_start_free(s);
        return status;
    }
    *out = s;
    return PD_OK;
}

void pd_row_start_free(struct pd_row_start *s)
{
    if (!s) return;
    if (s->out) pd_value_unref(s->out);
    pd_free(s->run.state);
    pd_free(s->inputs);
    pd_free(s->attrs);
    pd_free(s);
}

uint64_t pd_row_start_seed(const struct pd_row_start *s)
{
    return s->step.seed;
}

void pd_row_start_set_seed(struct pd_row_start *s, uint64_t seed)
{
    s->step.seed = seed;
}

/* Which row of the whole table has the numbers of this one: its own, as long as they can be counted. */
static int64_t row_of(const struct pd_row_start *s, int64_t id)
{
    if (s->is_seeded) return (int64_t)((uint64_t)id % PERIOD);
    return id >= 0 && id < FAR ? id : (int64_t)(pd_rng_mix((uint64_t)id) >> 24);
}

pd_status pd_row_start_fill(struct pd_row_start *s, int64_t id, float *out)
{
    s->row->l = row_of(s, id);
    if (s->run.state) memset(s->run.state, 0, s->run.op->state_size); /* each is the op's first draw */
    PD_TRY(s->run.op->run(&s->run));
    const struct pd_tensor *t = &s->out->tensor;
    if (t->meta.dtype != PD_DTYPE_FP32 || pd_tensor_numel(t) != s->width)
        return pd_fail(PD_SHAPE, "op '%s' fills %s, and a row of the table has %lld numbers", s->run.op->type,
                       pd_meta_dims_text(&t->meta), (long long)s->width);
    memcpy(out, t->data, (size_t)s->width * sizeof *out);
    return PD_OK;
}
