/* What a variable holds while a Program runs: a tensor, selected rows, an array of tensors, or something
 * opaque. */
#ifndef PD_TENSOR_VALUE_H
#define PD_TENSOR_VALUE_H

#include "base/vec.h"
#include "tensor/tensor.h"

enum pd_held_state {
    PD_HELD_NOT,     /* it is this process's own, or what is here will be lost */
    PD_HELD_SAME,    /* as servers have it */
    PD_HELD_CHANGED, /* somebody else has written it since */
};

/* Of a variable that came from servers, in a trainer (tensor/held.h). */
struct pd_held {
    int state;        /* enum pd_held_state; atomic */
    int by;           /* who has changed it: enum pd_held_by */
    uint32_t mark;    /* tells apart what it was before */
    int has_stepped;  /* this trainer has trained with it */
    int is_told;      /* that what is written here is not used, as its values lie on servers */
    const char *op;   /* of ops: the type of the last one, */
    uint64_t lineage; /* and whose Program it is in */
};

struct pd_value {
    int refs; /* atomic */
    /* tensor.meta.kind is the value's kind. For selected rows the tensor holds the rows' values [n, ...]. */
    struct pd_tensor tensor;
    /* Selected rows: row i of the tensor belongs to row rows.at[i] of a [height, ...] matrix; rows may
     * repeat. */
    PD_VEC(int64_t) rows;
    int64_t height;
    /* Tensor array. Each item is a value of its own (kind tensor). */
    PD_VEC(struct pd_value *) items;
    /* An item of an array of gradients that has been handed on: what comes next replaces it. */
    int handed_on;
    /* A tensor with a shape and no memory: its values lie on servers. */
    int on_servers;
    struct pd_held held; /* the variable's, whatever it is given */
    /* Opaque kinds. */
    void *raw;
    void (*raw_free)(void *raw);
};

pd_status pd_value_new(enum pd_kind kind, struct pd_value **out);
struct pd_value *pd_value_ref(struct pd_value *value);
void pd_value_unref(struct pd_value *value);
/* Empties the value and makes it one of `kind`. */
void pd_value_reset(struct pd_value *value, enum pd_kind kind);
/* Hands the contents of `from` to `to`, whose own are dropped; `from` keeps its kind and is empty then. */
void pd_value_move(struct pd_value *to, struct pd_value *from);
/* A deep copy of any kind that has data (opaque ones are refused). */
pd_status pd_value_copy(struct pd_value *to, const struct pd_value *from);
/* Holds data that an op may read: a tensor with memory, selected rows, an array. */
int pd_value_ready(const struct pd_value *value);

static inline int pd_value_is_rows(const struct pd_value *v)
{
    return v->tensor.meta.kind == PD_KIND_SELECTED_ROWS;
}

/* Selected rows: sets the row list (copied), the height, and gives the tensor room for [n, width...] where
 * the widths are dims 1.. of `like`. */
pd_status pd_rows_resize(struct pd_value *value, int64_t n, int64_t height, enum pd_dtype dtype, int rank,
                         const int64_t *dim);

/* Has each row that it names its values? What a user put together may not. */
pd_status pd_rows_check(const struct pd_value *value);

#endif
