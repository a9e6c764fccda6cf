/* Level of detail: how rows group into sequences. Immutable and counted, so that ops pass it on by pointer.
 */
#ifndef PD_TENSOR_LOD_H
#define PD_TENSOR_LOD_H

#include <paddle/status.h>
#include <stddef.h>
#include <stdint.h>

struct pd_lod_level {
    int64_t n;       /* entries: sequences + 1 */
    int64_t *offset; /* offset[0] == 0, not decreasing */
};

struct pd_lod {
    int refs; /* atomic */
    int levels;
    struct pd_lod_level level[]; /* level[levels - 1] counts rows of the tensor */
};

/* Copies the offsets. Fails when a level is empty, does not start at 0, decreases, or does not fit the next
 * level. Returns a new reference. */
pd_status pd_lod_new(int levels, const struct pd_lod_level *level, struct pd_lod **out);
/* One level from sequence lengths. */
pd_status pd_lod_from_lengths(const int64_t *lengths, int64_t count, struct pd_lod **out);
/* A block whose offsets the caller fills before anyone else sees it. `entries[i]` counts the entries of level
 * i. */
pd_status pd_lod_alloc(int levels, const int64_t *entries, struct pd_lod **out);
struct pd_lod *pd_lod_ref(struct pd_lod *lod); /* NULL gives NULL */
void pd_lod_unref(struct pd_lod *lod);
int pd_lod_equal(const struct pd_lod *a, const struct pd_lod *b);
/* Levels [from, to) as a LoD of its own; an empty range gives NULL. */
pd_status pd_lod_slice(const struct pd_lod *lod, int from, int to, struct pd_lod **out);

/* The finest level, which counts rows. */
static inline const struct pd_lod_level *pd_lod_last(const struct pd_lod *lod)
{
    return &lod->level[lod->levels - 1];
}
/* Sequences of the finest level. */
static inline int64_t pd_lod_sequences(const struct pd_lod *lod)
{
    return pd_lod_last(lod)->n - 1;
}

#endif
