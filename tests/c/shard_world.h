/* A shard with one dense parameter of three parts, which falls by its gradient. */
#ifndef PD_TESTS_SHARD_WORLD_H
#define PD_TESTS_SHARD_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <paddle/paddle.h>

#include "exec/executor.h"
#include "pserver/proto.h"
#include "pserver/shard/shard.h"

enum { PART = PD_PS_PART / sizeof(float), LAST = 1000, NUMEL = 2 * PART + LAST };

struct world {
    pd_program *program;
    pd_scope *scope;
    pd_executor *executor;
    pd_value *param;
    struct pd_shard *shard;
    struct pd_frame *frame;
    int unit, block; /* of the update */
    uint64_t answered;
};

static void must(pd_status status)
{
    if (status != PD_OK) fail_msg("%s", pd_error());
}

static void add_var(struct world *w, const char *name, int64_t n, float value, unsigned flags)
{
    int64_t id;
    int existed;
    must(pd_var_create(w->program, 0, name, PD_LOD_TENSOR, &id, &existed));
    must(pd_var_set_dtype(w->program, id, PD_FLOAT32));
    must(pd_var_set_shape(w->program, id, 1, &n));
    must(pd_var_set_flags(w->program, id, flags, flags));
    if (!flags) return;
    pd_value *held;
    pd_tensor_desc tensor;
    must(pd_scope_var(w->scope, name, &held));
    must(pd_value_set_tensor(held, PD_FLOAT32, 1, &n, NULL));
    must(pd_value_tensor(held, &tensor));
    for (int64_t i = 0; i < n; i++)
        ((float *)tensor.data)[i] = value;
}

static pd_status begin_step(void *arg, uint64_t step)
{
    (void)arg, (void)step;
    return PD_OK;
}

static pd_status run_blocks(void *arg, struct pd_shard *shard)
{
    (void)arg, (void)shard;
    return PD_OK;
}

static void answer(void *arg, int trainer, uint64_t request, uint64_t step)
{
    (void)trainer, (void)request;
    ((struct world *)arg)->answered = step;
}

/* What an op reads (0) or writes (1), in which slot. */
struct world_arg {
    int is_output;
    const char *slot, *name;
};

/* The shard over a parameter `w`, which one optimizer op updates. Its other variables are there already.
 * Nobody is there yet. The hooks of `config` that keep a log stay; the others are given here. */
static void build_of(struct world *w, struct pd_shard_config config, const char *type, int n,
                     const struct world_arg *args)
{
    struct pd_shard_hooks *hooks = &config.hooks;
    int block;
    int64_t id;
    pd_op_builder *op;
    pd_prepared *plan;
    add_var(w, "w", NUMEL, 1, PD_VAR_IS_PERSISTABLE);
    add_var(w, "w@GRAD", NUMEL, 0, 0);
    must(pd_block_create(w->program, 0, &block));
    w->block = block;
    must(pd_op_begin(w->program, type, &op));
    for (int i = 0; i < n; i++)
        must(pd_op_add_arg(op, args[i].is_output, args[i].slot, args[i].name));
    must(pd_op_insert(op, block, -1, &id));
    must(pd_executor_create(&w->executor));
    must(pd_executor_prepare(w->executor, w->program, 0, NULL, 0, NULL, &plan));
    plan->frame->scope = w->scope;
    w->frame = plan->frame;
    w->param = pd_scope_find(w->scope, "w");

    hooks->begin_step = begin_step;
    hooks->run_blocks = run_blocks;
    hooks->answer = answer;
    hooks->arg = w;
    struct pd_unit_spec spec = {.grad = "w@GRAD", .block = block};
    struct pd_rule *rule;
    must(pd_shard_new(&config, &w->shard));
    struct pd_engine engine = pd_engine_of(plan->frame, NULL);
    engine.is_checked = config.is_checked;
    must(pd_rule_new(&engine, block, "w@GRAD", &rule));
    assert_non_null(rule);
    must(pd_table_of_value("w", w->param, rule, &spec.table));
    must(pd_shard_add(w->shard, &spec, &w->unit));
}

static void open_world(struct world *w)
{
    memset(w, 0, sizeof *w);
    must(pd_program_create(&w->program));
    must(pd_scope_create(NULL, &w->scope));
}

/* w falls by the gradient. */
static inline void build_as(struct world *w, struct pd_shard_config config)
{
    static const struct world_arg args[] = {
        {0, "Param", "w"}, {0, "Grad", "w@GRAD"}, {0, "LearningRate", "rate"}, {1, "ParamOut", "w"}};
    open_world(w);
    add_var(w, "rate", 1, 1, PD_VAR_IS_PERSISTABLE);
    build_of(w, config, "sgd", 4, args);
}

static inline void build(struct world *w, int is_sync, int is_whole, int trainers)
{
    build_as(w, (struct pd_shard_config){.trainers = trainers, .is_sync = is_sync, .is_whole = is_whole});
}

static void drop(struct world *w)
{
    pd_shard_free(w->shard);
    pd_executor_free(w->executor);
    pd_scope_release(w->scope);
    pd_program_free(w->program);
}

#endif
