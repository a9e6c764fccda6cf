/* See engine.h. */
#include "pserver/engine.h"

#include <string.h>

struct pd_engine pd_engine_of(struct pd_frame *frame, const struct pd_run *run)
{
    return (struct pd_engine){
        .program = frame->plan->program, .scope = frame->scope, .frame = frame, .run = run};
}

struct pd_value *pd_engine_lasting(const struct pd_engine *e, const char *name)
{
    return pd_scope_lookup(e->scope, name);
}

struct pd_value *pd_engine_seen(const struct pd_engine *e, const char *name)
{
    int number = pd_plan_number(e->frame->plan, name);
    struct pd_value *value = number >= 0 ? e->frame->values[number] : NULL;
    return value ? value : pd_engine_lasting(e, name);
}

int pd_engine_is_of(const struct pd_engine *e, const char *name, const char *grad)
{
    const char *whole = e->parts ? pd_map_get(e->parts, name) : NULL;
    return strcmp(name, grad) == 0 || (whole && strcmp(whole, grad) == 0);
}

pd_status pd_engine_run(const struct pd_engine *e, int block, int is_slice)
{
    e->run->step->is_slice = is_slice;
    pd_status status = e->run->step->run_block(e->run, block);
    e->run->step->is_slice = 0;
    return status;
}

pd_status pd_engine_poll(const struct pd_engine *e)
{
    return e->run->step->poll(e->run);
}
