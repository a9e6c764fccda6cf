/* The server of a measurement: a startup Program that makes what it holds, and one with listen_and_serv and
 * an optimize block for each parameter. */
#include <stdio.h>
#include <string.h>

#include "cli/psbench/job.h"
#include "cli/psbench/why.h"

static const char endpoint[] = "127.0.0.1:0"; /* the system finds a port */

struct programs {
    pd_program *startup, *serve;
};

/* The input slots of an optimizer that it needs: the next one from *at on; NULL after the last. */
static const char *next_input(const char *type, int *at)
{
    const char *slot;
    unsigned flags;
    for (;; (*at)++) {
        if (pd_op_slot_def(type, 0, *at, &slot, &flags) != PD_OK || !slot) return NULL;
        if (!(flags & PD_SLOT_DISPENSABLE)) return slot;
    }
}

static int has_slot(const char *type, int is_output, const char *wanted)
{
    const char *slot;
    unsigned flags;
    for (int i = 0; pd_op_slot_def(type, is_output, i, &slot, &flags) == PD_OK && slot; i++)
        if (strcmp(slot, wanted) == 0) return 1;
    return 0;
}

/* What stands in an input slot. Inputs beside parameter and gradient are the optimizer's own. */
static void name_of(int piece, const char *slot, char name[96])
{
    if (strcmp(slot, "Param") == 0 || strcmp(slot, "Grad") == 0)
        pd_psbench_name(piece, slot[0] == 'G', name);
    else
        snprintf(name, 96, "w%d.%s", piece, slot);
}

/* A lasting variable with one value everywhere. */
static pd_status add_state(struct programs *p, const char *name, struct pd_psbench_shape shape, float value)
{
    pd_op_builder *op;
    PD_PSBENCH_TRY(
        pd_psbench_add_var(p->startup, name, PD_LOD_TENSOR, PD_FLOAT32, shape, PD_VAR_IS_PERSISTABLE));
    PD_PSBENCH_TRY(
        pd_psbench_add_var(p->serve, name, PD_LOD_TENSOR, PD_FLOAT32, shape, PD_VAR_IS_PERSISTABLE));
    PD_PSBENCH_TRY(pd_op_begin(p->startup, "fill_constant", &op));
    PD_PSBENCH_TRY(pd_op_add_arg(op, 1, "Out", name));
    PD_PSBENCH_TRY(pd_op_add_attr(
        op, "shape", &(struct pd_attr){.type = PD_ATTR_LONGS, .n = shape.rank, .longs = shape.dims}));
    PD_PSBENCH_TRY(pd_op_add_float(op, "value", value));
    PD_PSBENCH_TRY(pd_op_add_int(op, "dtype", PD_FLOAT32));
    return pd_psbench_end_op(op, 0);
}

/* State has the parameter's shape, but for the rate and powers of beta, which are single numbers. */
static pd_status add_input(const struct pd_psbench_case *c, struct programs *p, pd_op_builder *op, int piece,
                           const char *slot)
{
    char name[96];
    int is_rate = strcmp(slot, "LearningRate") == 0, is_single = is_rate || strstr(slot, "Pow");
    struct pd_psbench_shape single = {1, {1}};
    name_of(piece, slot, name);
    if (strcmp(slot, "Grad") == 0)
        PD_PSBENCH_TRY(pd_psbench_add_piece(c, p->serve, piece, 1));
    else
        PD_PSBENCH_TRY(add_state(p, name, is_single ? single : pd_psbench_shape(c),
                                 is_rate     ? 0.01f
                                 : is_single ? 0.9f
                                             : 0.5f));
    return pd_op_add_arg(op, 0, slot, name);
}

/* An output XOut changes the state X. */
static pd_status add_outputs(const char *type, pd_op_builder *op, int piece)
{
    const char *out, *in;
    unsigned flags;
    char name[96];
    for (int s = 0; pd_op_slot_def(type, 1, s, &out, &flags) == PD_OK && out; s++)
        for (int i = 0; (in = next_input(type, &i)); i++) {
            if (strncmp(in, out, strlen(out) - strlen("Out")) != 0) continue;
            name_of(piece, in, name);
            PD_PSBENCH_TRY(pd_op_add_arg(op, 1, out, name));
            break;
        }
    return PD_OK;
}

static pd_status add_piece(const struct pd_psbench_case *c, struct programs *p, int piece, int *block)
{
    const char *type = c->options->optimizer, *slot;
    pd_op_builder *op;
    if (!has_slot(type, 0, "Param") || !has_slot(type, 1, "ParamOut"))
        return pd_psbench_fail(PD_NOT_FOUND, "there is no optimizer '%s'", type);
    PD_PSBENCH_TRY(pd_block_create(p->serve, 0, block));
    PD_PSBENCH_TRY(pd_op_begin(p->serve, type, &op));
    for (int i = 0; (slot = next_input(type, &i)); i++)
        PD_PSBENCH_TRY(add_input(c, p, op, piece, slot));
    PD_PSBENCH_TRY(add_outputs(type, op, piece));
    return pd_psbench_end_op(op, *block);
}

static pd_status add_listen(const struct pd_psbench_case *c, pd_program *program, const int32_t *blocks,
                            int n)
{
    pd_op_builder *op;
    char entries[PD_PSBENCH_LOOPS][48], name[32];
    const char *list[PD_PSBENCH_LOOPS];
    for (int i = 0; i < n; i++) {
        pd_psbench_name(i, 1, name);
        snprintf(entries[i], sizeof entries[i], "%s:%d", name, (int)blocks[i]);
        list[i] = entries[i];
    }
    PD_PSBENCH_TRY(pd_op_begin(program, "listen_and_serv", &op));
    PD_PSBENCH_TRY(pd_op_add_text(op, "endpoint", endpoint));
    PD_PSBENCH_TRY(pd_op_add_attr(op, "optimize_blocks",
                                  &(struct pd_attr){.type = PD_ATTR_BLOCKS, .n = n, .blocks = blocks}));
    PD_PSBENCH_TRY(pd_psbench_add_texts(op, "grad_to_block_id", n, list));
    PD_PSBENCH_TRY(pd_op_add_int(op, "Fanin", c->options->connections));
    PD_PSBENCH_TRY(pd_op_add_int(op, "distributed_mode", 1)); /* async */
    return pd_psbench_end_op(op, 0);
}

/* Asked by the waiting server now and then: tells the others where it listens. */
static int tell_port(void *arg)
{
    struct pd_psbench_shared *shared = arg;
    if (!atomic_load(&shared->port)) atomic_store(&shared->port, pd_serve_port(endpoint));
    return 0;
}

static pd_status set_flags(const struct pd_psbench_options *o)
{
    char loops[16];
    snprintf(loops, sizeof loops, "%d", o->loops);
    if (o->loops > 0) PD_PSBENCH_TRY(pd_flag_set("ps_loops", loops));
    return pd_flag_set("ps_dir", ""); /* what a job keeps there is not for us */
}

static pd_status serve(const struct pd_psbench_case *c, struct pd_psbench_shared *shared)
{
    struct programs p;
    pd_scope *scope;
    pd_executor *executor;
    pd_prepared *plan;
    int32_t blocks[PD_PSBENCH_LOOPS];
    int n = pd_psbench_parameters(c);
    PD_PSBENCH_TRY(set_flags(c->options));
    PD_PSBENCH_TRY(pd_program_create(&p.startup));
    PD_PSBENCH_TRY(pd_program_create(&p.serve));
    for (int i = 0; i < n; i++)
        PD_PSBENCH_TRY(add_piece(c, &p, i, &blocks[i]));
    PD_PSBENCH_TRY(add_listen(c, p.serve, blocks, n));
    PD_PSBENCH_TRY(pd_scope_create(NULL, &scope));
    PD_PSBENCH_TRY(pd_executor_create(&executor));
    PD_PSBENCH_TRY(pd_executor_run(executor, p.startup, scope, 0, NULL, NULL, 0, NULL, NULL));
    PD_PSBENCH_TRY(pd_executor_prepare(executor, p.serve, 0, NULL, 0, NULL, &plan));
    return pd_prepared_run(plan, scope, &(pd_run_options){.poll = tell_port, .arg = shared});
}

int pd_psbench_serve(const struct pd_psbench_case *c, struct pd_psbench_shared *shared)
{
    if (serve(c, shared) == PD_JOB_OVER) return 0;
    pd_psbench_trouble(shared, "the server");
    return 1;
}
