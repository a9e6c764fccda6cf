/* Ops of plans over many lookups that one concat joins (along its second dimension): the forward op, the
 * tables' gradients, and those of the other inputs. They share their first inputs and their attributes.
 *
 * An input of the concat is either an embedding (lookup_table, perhaps with sequence_pool SUM behind it) or a
 * plain tensor. */
#ifndef PD_OPS_FUSED_EMBEDDING_CONCAT_H
#define PD_OPS_FUSED_EMBEDDING_CONCAT_H

#include "kernels/embed.h"
#include "program/op.h"

enum { PD_EMBEDDING_W, PD_EMBEDDING_IDS, PD_EMBEDDING_X, PD_EMBEDDING_DOUT }; /* inputs */

enum {
    PD_EMBEDDING_ORDER,   /* for each input of the concat, 1: an embedding, 0: a plain one */
    PD_EMBEDDING_VERSION, /* these for each embedding: lookup_table 1 or 2 */
    PD_EMBEDDING_POOLED,
    PD_EMBEDDING_PADDING,
    PD_EMBEDDING_PAD,
    PD_EMBEDDING_PART, /* which part its lookup is; sequence_pool is the next one */
    PD_EMBEDDING_OWN,  /* first attribute of an op's own */
};
#define PD_EMBEDDING_ATTRS                                                                                   \
    PD_DEF_INTS("order"), PD_DEF_INTS("version"), PD_DEF_INTS("pooled"), PD_DEF_LONGS("padding_idx"),        \
        PD_DEF_FLOATS("pad_value"), PD_DEF_INTS("part")

/* What the kernels need of a run. */
struct pd_embedding {
    int n;
    struct pd_embed_item *items; /* in the order of the concat; rows is NULL */
    int64_t row;                 /* elements of a row of the concat's output */
    void *extra;                 /* as many bytes as were asked for */
};

/* Checks the ids and describes all inputs of a matrix of `samples` rows. Uses the call's scratch memory. */
pd_status pd_embedding_describe(const struct pd_run *r, int64_t samples, size_t extra,
                                struct pd_embedding *out);

#endif
