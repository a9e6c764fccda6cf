/* See meta.h. */
#include "tensor/meta.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"

const char *pd_kind_name(enum pd_kind kind)
{
    switch (kind) {
    case PD_KIND_TENSOR:
        return "tensor";
    case PD_KIND_SELECTED_ROWS:
        return "selected rows";
    case PD_KIND_FEED:
        return "feed list";
    case PD_KIND_FETCH:
        return "fetch list";
    case PD_KIND_STEP_SCOPES:
        return "step scopes";
    case PD_KIND_RANK_TABLE:
        return "rank table";
    case PD_KIND_TENSOR_ARRAY:
        return "tensor array";
    case PD_KIND_PLACE_LIST:
        return "place list";
    case PD_KIND_READER:
        return "reader";
    case PD_KIND_RAW:
        return "raw";
    case PD_KIND_TUPLE:
        return "tuple";
    }
    return "unknown kind";
}

int64_t pd_meta_span(const struct pd_meta *meta, int from, int to)
{
    int64_t n = 1;
    for (int i = from; i < to; i++) {
        if (meta->dim[i] < 0) return -1;
        if (__builtin_mul_overflow(n, meta->dim[i], &n)) n = INT64_MAX; /* no such tensor is ever made */
    }
    return n;
}

size_t pd_meta_row_bytes(const struct pd_meta *meta)
{
    return (size_t)pd_meta_span(meta, 1, meta->rank) * pd_dtype_size(meta->dtype);
}

int pd_meta_fits(const struct pd_meta *meta)
{
    size_t bytes = pd_dtype_size(meta->dtype);
    for (int i = 0; i < meta->rank; i++)
        if (meta->dim[i] > 0 &&
            (__builtin_mul_overflow(bytes, (size_t)meta->dim[i], &bytes) || bytes > SIZE_MAX / 4))
            return 0;
    return 1;
}

int64_t pd_meta_numel(const struct pd_meta *meta)
{
    return pd_meta_span(meta, 0, meta->rank);
}

pd_status pd_meta_set_dims(struct pd_meta *meta, int rank, const int64_t *dim)
{
    if (rank < 0 || rank > PD_MAX_RANK)
        return pd_fail(PD_SHAPE, "a tensor has at most %d dimensions, asked for %d", PD_MAX_RANK, rank);
    meta->rank = rank;
    if (rank) memmove(meta->dim, dim, (size_t)rank * sizeof *dim);
    return PD_OK;
}

void pd_meta_copy_dims(struct pd_meta *to, const struct pd_meta *from)
{
    if (to == from) return;
    to->rank = from->rank;
    memcpy(to->dim, from->dim, (size_t)from->rank * sizeof *from->dim);
}

void pd_meta_share_lod(struct pd_meta *to, const struct pd_meta *from)
{
    to->lod_level = from->lod_level;
    if (to->lod != from->lod) {
        pd_lod_unref(to->lod);
        to->lod = pd_lod_ref(from->lod);
    }
}

void pd_meta_take_lod(struct pd_meta *meta, struct pd_lod *lod)
{
    pd_lod_unref(meta->lod);
    meta->lod = lod;
    meta->lod_level = lod ? lod->levels : 0;
}

void pd_meta_like(struct pd_meta *to, const struct pd_meta *from)
{
    to->dtype = from->dtype;
    pd_meta_copy_dims(to, from);
    pd_meta_share_lod(to, from);
}

int pd_meta_same_dims(const struct pd_meta *a, const struct pd_meta *b)
{
    return a->rank == b->rank && memcmp(a->dim, b->dim, (size_t)a->rank * sizeof *a->dim) == 0;
}

int pd_meta_dims_match(const struct pd_meta *a, const struct pd_meta *b)
{
    if (a->rank != b->rank) return 0;
    for (int i = 0; i < a->rank; i++)
        if (a->dim[i] >= 0 && b->dim[i] >= 0 && a->dim[i] != b->dim[i]) return 0;
    return 1;
}

const char *pd_meta_dims_text(const struct pd_meta *meta)
{
    static __thread char text[4][PD_MAX_RANK * 22 + 4];
    static __thread unsigned turn;
    char *out = text[turn++ % 4];
    size_t used = (size_t)sprintf(out, "[");
    for (int i = 0; i < meta->rank && i < PD_MAX_RANK; i++)
        used += (size_t)sprintf(out + used, i ? ", %lld" : "%lld", (long long)meta->dim[i]);
    sprintf(out + used, "]");
    return out;
}
