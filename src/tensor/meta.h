/* What is known of a variable without its data: kind, element type, shape, LoD. The same struct describes a
 * variable of a Program (a dimension below 0 is not known yet; ops see -1, see verify.c) and a tensor at run
 * time. */
#ifndef PD_TENSOR_META_H
#define PD_TENSOR_META_H

#include "base/buf.h"
#include "tensor/dtype.h"
#include "tensor/lod.h"

#define PD_MAX_RANK 9

/* Kinds of variables; numbers as in framework.proto. */
enum pd_kind {
    PD_KIND_TENSOR = 7, /* LOD_TENSOR */
    PD_KIND_SELECTED_ROWS = 8,
    PD_KIND_FEED = 9,
    PD_KIND_FETCH = 10,
    PD_KIND_STEP_SCOPES = 11,
    PD_KIND_RANK_TABLE = 12,
    PD_KIND_TENSOR_ARRAY = 13,
    PD_KIND_PLACE_LIST = 14,
    PD_KIND_READER = 15,
    PD_KIND_RAW = 17,
    PD_KIND_TUPLE = 18,
};

struct pd_meta {
    enum pd_kind kind;
    enum pd_dtype dtype;
    int rank;
    int lod_level;      /* in a Program; at run time the LoD itself tells */
    struct pd_lod *lod; /* counted; NULL in a Program */
    int64_t dim[PD_MAX_RANK];
};

/* "tensor", "selected rows", ... */
const char *pd_kind_name(enum pd_kind kind);

/* Product of the dimensions; -1 when one of them is not known. */
int64_t pd_meta_numel(const struct pd_meta *meta);
/* Can memory hold it? What is not known counts as 1, and so does 0: products of some of the dimensions fit
 * too. */
int pd_meta_fits(const struct pd_meta *meta);
/* Product of dimensions [from, to); -1 when one is not known. */
int64_t pd_meta_span(const struct pd_meta *meta, int from, int to);
/* Bytes of one row, which is what has one number of the first dimension. */
size_t pd_meta_row_bytes(const struct pd_meta *meta);
/* Sets rank and dimensions (all others stay). */
pd_status pd_meta_set_dims(struct pd_meta *meta, int rank, const int64_t *dim);
static inline void pd_meta_set_1d(struct pd_meta *m, int64_t d0)
{
    m->rank = 1, m->dim[0] = d0;
}
static inline void pd_meta_set_2d(struct pd_meta *m, int64_t d0, int64_t d1)
{
    m->rank = 2, m->dim[0] = d0, m->dim[1] = d1;
}
/* Copies rank and dimensions. */
void pd_meta_copy_dims(struct pd_meta *to, const struct pd_meta *from);
/* Makes `to` carry the LoD of `from` (both the level count of a Program and the LoD of a run). */
void pd_meta_share_lod(struct pd_meta *to, const struct pd_meta *from);
/* Takes the reference `lod` (may be NULL). */
void pd_meta_take_lod(struct pd_meta *meta, struct pd_lod *lod);
/* dtype, dims and LoD of `from`: the output of an elementwise op. */
void pd_meta_like(struct pd_meta *to, const struct pd_meta *from);
/* Equal rank and dimensions. */
int pd_meta_same_dims(const struct pd_meta *a, const struct pd_meta *b);
/* Dimensions agree where both are known. */
int pd_meta_dims_match(const struct pd_meta *a, const struct pd_meta *b);
/* "[-1, 13]" into a rotating per-thread buffer: fine inside one pd_fail call. */
const char *pd_meta_dims_text(const struct pd_meta *meta);

#endif
