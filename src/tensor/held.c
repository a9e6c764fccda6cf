/* See held.h. */
#include "tensor/held.h"

#include "base/crc32c.h"

int pd_held_any;

static void set_state(struct pd_value *value, enum pd_held_state state)
{
    __atomic_store_n(&value->held.state, (int)state, __ATOMIC_RELAXED);
    if (!pd_held_exist()) __atomic_store_n(&pd_held_any, 1, __ATOMIC_RELAXED);
}

/* Tells values apart. */
static uint32_t mark_of(const struct pd_value *value)
{
    const struct pd_tensor *t = &value->tensor;
    uint32_t mark = pd_crc32c(0, t->meta.dim, (size_t)t->meta.rank * sizeof *t->meta.dim);
    return t->data ? pd_crc32c(mark, t->data, pd_tensor_bytes(t)) : mark;
}

void pd_held_same(struct pd_value *value)
{
    if (pd_held_state(value) != PD_HELD_SAME) set_state(value, PD_HELD_SAME);
}

void pd_held_lost(struct pd_value *value)
{
    set_state(value, PD_HELD_NOT);
}

void pd_held_away(struct pd_value *value)
{
    value->on_servers = 1;
    set_state(value, PD_HELD_NOT);
}

void pd_held_write(struct pd_value *value, enum pd_held_by by, const char *op, uint64_t lineage)
{
    enum pd_held_state state = pd_held_state(value);
    struct pd_held *h = &value->held;
    if (state == PD_HELD_NOT) return;
    /* What a user did stands before what ops have made of it since. */
    if (state == PD_HELD_CHANGED && h->by != PD_HELD_COMPUTED) return;
    if (state == PD_HELD_SAME) h->mark = mark_of(value);
    h->by = (int)by;
    h->op = op;
    h->lineage = lineage;
    set_state(value, PD_HELD_CHANGED);
}

int pd_held_differs(struct pd_value *value)
{
    if (pd_held_state(value) != PD_HELD_CHANGED) return 0;
    if (mark_of(value) != value->held.mark) return 1;
    set_state(value, PD_HELD_SAME);
    return 0;
}
