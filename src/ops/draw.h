/* Random elements of a variable, or of those of its rows that lie here: the same numbers either way.
 *
 * With a seed that the user gave they are upstream's (draw_seeded.c); else they come from base/rng.h
 * (draw_counted.c), where element i is a function of the stream and i. */
#ifndef PD_OPS_DRAW_H
#define PD_OPS_DRAW_H

#include "base/rng.h"
#include "program/op.h"

enum pd_law { PD_LAW_UNIFORM, PD_LAW_NORMAL, PD_LAW_TRUNCATED, PD_LAW_INTEGER };

struct pd_draw {
    enum pd_law law;
    double a, b; /* least and greatest; mean and deviation; least integer and the one after the greatest */
    enum pd_dtype dtype; /* FP32 or FP64; INT32 or INT64 for integers */
    void *out;
    int64_t n;     /* elements here */
    int64_t first; /* where they begin in the whole variable */
    int64_t width,
        step; /* they lie there in runs of `width`, `step` from one beginning to the next; equal: in one */
};

/* The stream of an op without a seed: a function of the Program's seed, the op's place in the user's Program,
 * how often the Program ran, and how often the op did in this run. */
struct pd_draw_count { /* the op's state */
    uint64_t number, count;
};
struct pd_rng pd_draw_rng(const struct pd_run *r);

void pd_draw_counted(const struct pd_draw *draw, const struct pd_rng *rng);
/* `seed` is not 0. Uniform and truncated numbers are made by themselves; of the others, whose number of tries
 * differs, all those before are counted, in bounded memory. */
void pd_draw_seeded(const struct pd_draw *draw, uint32_t seed);

#endif
