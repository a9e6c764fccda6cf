/* The server of a measurement: a Program with listen_and_serv and an optimize block for each parameter, run
 * through the engine. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/flags.h"
#include "exec/executor.h"
#include "pserver/bench/bench_private.h"
#include "pserver/server/server_private.h"

static const char endpoint[] = "127.0.0.1:0"; /* the system finds a port */

/* A lasting variable, in the Program and in the scope, with one value everywhere. */
static pd_status add_state(struct pd_block *block, struct pd_scope *scope, const char *name,
                           const struct pd_meta *like, float value)
{
    struct pd_var *var;
    struct pd_value *held;
    int existed;
    PD_TRY(pd_var_new(block, name, PD_KIND_TENSOR, &var, &existed));
    var->meta.dtype = PD_DTYPE_FP32;
    pd_meta_copy_dims(&var->meta, like);
    var->flags |= PD_VAR_PERSISTABLE;
    PD_TRY(pd_scope_get(scope, name, &held));
    PD_TRY(pd_tensor_resize(&held->tensor, PD_DTYPE_FP32, like->rank, like->dim));
    float *data = held->tensor.data;
    for (int64_t i = 0, n = pd_meta_numel(like); i < n; i++)
        data[i] = value;
    return PD_OK;
}

static pd_status add_grad(struct pd_block *block, const char *name, const struct pd_meta *meta)
{
    struct pd_var *var;
    int existed;
    PD_TRY(pd_var_new(block, name, meta->kind, &var, &existed));
    var->meta.dtype = PD_DTYPE_FP32;
    pd_meta_copy_dims(&var->meta, meta);
    return PD_OK;
}

/* The optimizer op of a piece. Inputs beside parameter, gradient and rate are its state, of the parameter's
 * shape, but for powers of beta, which are single numbers; an output XOut changes the state X. */
static pd_status add_inputs(const struct pd_bench_case *c, const struct pd_op *def, struct pd_opdesc *op,
                            struct pd_block *block, struct pd_scope *scope, int piece)
{
    struct pd_meta whole, single = {0};
    char name[96];
    PD_TRY(pd_bench_meta(c, 0, &whole));
    pd_meta_set_1d(&single, 1);
    for (int s = 0; def->inputs[s].name; s++) {
        const char *slot = def->inputs[s].name;
        if (def->inputs[s].flags & PD_SLOT_OPTIONAL) continue;
        int is_single = strstr(slot, "Pow") || strcmp(slot, "LearningRate") == 0;
        if (strcmp(slot, "Param") == 0 || strcmp(slot, "Grad") == 0)
            pd_bench_name(piece, slot[0] == 'G', name);
        else
            snprintf(name, sizeof name, "w%d.%s", piece, slot);
        if (strcmp(slot, "Grad") != 0)
            PD_TRY(add_state(block, scope, name, is_single ? &single : &whole,
                             strcmp(slot, "LearningRate") == 0 ? 0.01f
                             : is_single                       ? 0.9f
                                                               : 0.5f));
        PD_TRY(pd_opdesc_add_arg(op, 0, slot, name));
    }
    return PD_OK;
}

static pd_status add_outputs(const struct pd_op *def, struct pd_opdesc *op)
{
    for (int s = 0; def->outputs[s].name; s++) {
        const char *slot = def->outputs[s].name;
        size_t n = strlen(slot) - 3; /* without "Out" */
        for (int i = 0; i < op->in.n; i++)
            if (strncmp(op->in.at[i].slot, slot, n) == 0) {
                PD_TRY(pd_opdesc_add_arg(op, 1, slot, op->in.at[i].args.at[0]));
                break;
            }
    }
    return PD_OK;
}

static pd_status add_piece(const struct pd_bench_case *c, struct pd_program *program, struct pd_scope *scope,
                           int piece, int *block_number)
{
    struct pd_block *top = pd_program_block(program, 0), *block;
    struct pd_opdesc *op;
    struct pd_meta grad;
    char name[32];
    const struct pd_op *def = pd_op_find(c->op_set, c->options->optimizer);
    if (!def || pd_slot_index(def->inputs, "Param") < 0 || pd_slot_index(def->outputs, "ParamOut") < 0)
        return pd_fail(PD_NOT_FOUND, "there is no optimizer '%s'", c->options->optimizer);
    PD_TRY(pd_bench_meta(c, 1, &grad));
    pd_bench_name(piece, 1, name);
    PD_TRY(add_grad(top, name, &grad));
    PD_TRY(pd_block_new(program, 0, &block));
    PD_TRY(pd_opdesc_new(program, def->type, &op));
    pd_status status = add_inputs(c, def, op, top, scope, piece);
    if (status == PD_OK) status = add_outputs(def, op);
    if (status == PD_OK) status = pd_block_insert(block, -1, op, 0);
    if (status != PD_OK) pd_opdesc_free(op);
    *block_number = block->index;
    return status;
}

static pd_status add_listen(const struct pd_bench_case *c, struct pd_program *program, const int32_t *blocks,
                            int n)
{
    struct pd_opdesc *op;
    char entries[64][48], name[32];
    const char *list[64];
    for (int i = 0; i < n; i++) {
        pd_bench_name(i, 1, name);
        snprintf(entries[i], sizeof entries[i], "%s:%d", name, (int)blocks[i]);
        list[i] = entries[i];
    }
    PD_TRY(pd_opdesc_new(program, "listen_and_serv", &op));
    struct pd_attr where = {.type = PD_ATTR_STRING, .s = endpoint},
                   optimize = {.type = PD_ATTR_BLOCKS, .n = n, .blocks = blocks};
    pd_status status = pd_opdesc_set_attr(op, "endpoint", &where, 1);
    if (status == PD_OK) status = pd_opdesc_set_attr(op, "optimize_blocks", &optimize, 1);
    if (status == PD_OK) status = pd_opdesc_set_strings(op, "grad_to_block_id", n, list);
    if (status == PD_OK) status = pd_opdesc_set_int(op, "Fanin", c->options->connections);
    if (status == PD_OK) status = pd_opdesc_set_int(op, "distributed_mode", 1); /* async */
    if (status == PD_OK) status = pd_block_insert(pd_program_block(program, 0), -1, op, 0);
    if (status != PD_OK) pd_opdesc_free(op);
    return status;
}

/* Asked by the waiting server now and then: tells the others where it listens. */
static int tell_port(void *arg)
{
    struct pd_bench_shared *shared = arg;
    if (atomic_load(&shared->port)) return 0;
    struct pd_server *server = pd_server_running(endpoint);
    if (server) atomic_store(&shared->port, pd_server_port(server));
    return 0;
}

static pd_status serve(const struct pd_bench_case *c, struct pd_bench_shared *shared)
{
    struct pd_program *program;
    struct pd_scope *scope;
    struct pd_executor *executor;
    struct pd_prepared *plan;
    int32_t blocks[64];
    char loops[16];
    int n = c->pieces ? c->pieces : 1;
    snprintf(loops, sizeof loops, "%d", c->options->loops);
    if (c->options->loops > 0) PD_TRY(pd_flag_assign("ps_loops", loops));
    PD_TRY(pd_flag_assign("ps_dir", "")); /* what a job keeps there is not for us */
    PD_TRY(pd_program_new(c->op_set, &program));
    PD_TRY(pd_scope_new(NULL, &scope));
    for (int i = 0; i < n; i++)
        PD_TRY(add_piece(c, program, scope, i, &blocks[i]));
    PD_TRY(add_listen(c, program, blocks, n));
    PD_TRY(pd_exec_new(&executor));
    PD_TRY(pd_exec_prepare(executor, program, 0, NULL, 0, NULL, &plan));
    return pd_exec_run(plan, scope, tell_port, shared);
}

int pd_bench_serve(const struct pd_bench_case *c, struct pd_bench_shared *shared)
{
    pd_status status = serve(c, shared);
    if (status == PD_JOB_OVER) return 0;
    pd_bench_trouble(shared, "the server");
    return 1;
}
