/* Rank tables: the sequences of a tensor ordered by length, longest first; and picking sequences in another
 * order. They are what a dynamic recurrent net is built from. */
#ifndef PD_OPS_RANK_TABLE_H
#define PD_OPS_RANK_TABLE_H

#include "base/vec.h"
#include "program/op.h"

struct pd_rank_item {
    int64_t index, length; /* which sequence it was, how many entries it has */
};

/* The raw part of a value of kind PD_KIND_RANK_TABLE. */
struct pd_rank_table {
    struct pd_lod *coarse; /* levels above the ranked one; NULL: none */
    int level;
    int64_t n;
    struct pd_rank_item item[];
};

/* The table that an input holds. */
pd_status pd_rank_table_get(const struct pd_run *r, int slot, const struct pd_rank_table **out);

#define PD_PICK_LEVELS 8

/* Collects units of tensors: a unit of level l is the l-th level's sequence of that number, or a row below
 * the last level. */
struct pd_picker {
    struct pd_picked {
        const struct pd_tensor *from;
        int64_t begin, end; /* rows */
    } * at;                 /* a vector of parts */
    int n, cap;
    PD_VEC(int64_t) lengths[PD_PICK_LEVELS]; /* of the sequences inside the units */
    int levels;                              /* -1: nothing picked yet */
};

void pd_picker_free(struct pd_picker *p);
pd_status pd_picker_add(struct pd_picker *p, const struct pd_tensor *from, int level, int64_t unit);
/* Writes the picked rows to `out`. Its LoD is `above` (taken; may be NULL), then the sequences inside the
 * units. Where nothing was picked, dtype and width are those of `like`. */
pd_status pd_picker_finish(struct pd_picker *p, const struct pd_tensor *like, struct pd_lod *above,
                           struct pd_tensor *out);

#endif
