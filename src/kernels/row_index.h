/* The index of a row store: from the hash of an id to the number of its row.
 *
 * A segment is some buckets of one cache line each: 12 row numbers, and 8 bits of the hash of each, so that
 * almost no row is looked at in vain. The leading bits of a hash choose the segment (the directory has 2^bits
 * places; several may be of one segment), others the bucket. A segment that fills up gets a fifth more
 * buckets; one that has grown large is cut in two. */
#ifndef PD_KERNELS_ROW_INDEX_H
#define PD_KERNELS_ROW_INDEX_H

#include <stddef.h>
#include <stdint.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "base/error.h"

#define PD_ROW_NONE UINT32_MAX
#define PD_ROW_BUCKET 12

struct pd_row_bucket {          /* aligned to its 64 bytes */
    uint8_t tag[PD_ROW_BUCKET]; /* 0: the place is free */
    uint8_t is_passed;          /* some that belong here are in buckets behind it */
    uint8_t unused[3];
    uint32_t row[PD_ROW_BUCKET];
};

struct pd_row_place { /* of the directory */
    struct pd_row_bucket *buckets;
    uint32_t n; /* of them */
    uint32_t segment;
};

struct pd_row_segment {
    uint32_t rows;
    uint32_t removed; /* since its buckets were last put in order */
    int bits;         /* of the hash that all of it have the same */
};

struct pd_row_index {
    struct pd_row_place *places;
    int bits;
    struct pd_row_segment *segments;
    uint32_t n_segments, room;
    uint64_t bytes;
};

/* The rows themselves: is that one of this id, which id has it, and it will be asked for soon. */
struct pd_row_source {
    int (*is_of)(void *arg, uint32_t row, int64_t id);
    int64_t (*id_of)(void *arg, uint32_t row);
    void (*fetch)(void *arg, uint32_t row);
    void *arg;
};

pd_status pd_row_index_open(struct pd_row_index *index); /* zeros */
void pd_row_index_close(struct pd_row_index *index);
uint32_t pd_row_index_find(const struct pd_row_index *index, const struct pd_row_source *source, int64_t id,
                           uint64_t hash); /* PD_ROW_NONE */
/* One that is not there. On error nothing has changed. */
pd_status pd_row_index_add(struct pd_row_index *index, const struct pd_row_source *source, uint64_t hash,
                           uint32_t row);
/* Makes an index that has nothing ready for so many rows, which need not be put in order again then. On error
 * nothing has changed. */
pd_status pd_row_index_reserve(struct pd_row_index *index, int64_t rows);
uint32_t pd_row_index_remove(struct pd_row_index *index, const struct pd_row_source *source, int64_t id,
                             uint64_t hash); /* PD_ROW_NONE */

/* Ids that count up, or are multiples of something, spread over all 64 bits. */
static inline uint64_t pd_row_hash(int64_t id)
{
    uint64_t x = (uint64_t)id;
    x = (x ^ (x >> 32)) * 0xD6E8FEB86659FD93ull;
    x = (x ^ (x >> 32)) * 0xD6E8FEB86659FD93ull;
    return x ^ (x >> 32);
}

static inline const struct pd_row_place *pd_row_index_place(const struct pd_row_index *index, uint64_t hash)
{
    return &index->places[index->bits ? hash >> (64 - index->bits) : 0];
}

static inline uint32_t pd_row_bucket_of(uint64_t hash, uint32_t n)
{
    return (uint32_t)(((hash & UINT32_MAX) * n) >> 32);
}

static inline uint8_t pd_row_tag(uint64_t hash)
{
    uint8_t tag = (uint8_t)(hash >> 32);
    return tag ? tag : 1;
}

static inline const struct pd_row_bucket *pd_row_index_bucket(const struct pd_row_index *index, uint64_t hash)
{
    const struct pd_row_place *p = pd_row_index_place(index, hash);
    return &p->buckets[pd_row_bucket_of(hash, p->n)];
}

/* Places of a bucket that have this tag, as bits. */
static inline uint32_t pd_row_bucket_match(const struct pd_row_bucket *b, uint8_t tag)
{
#ifdef __SSE2__
    __m128i tags = _mm_load_si128((const __m128i *)(const void *)b->tag);
    uint32_t found = (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(tags, _mm_set1_epi8((char)tag)));
    return found & ((1u << PD_ROW_BUCKET) - 1);
#else
    uint32_t found = 0;
    for (int k = 0; k < PD_ROW_BUCKET; k++)
        found |= (uint32_t)(b->tag[k] == tag) << k;
    return found;
#endif
}

/* The row that the hash most likely is of: the first of its bucket with its tag, or else one that
 * pd_row_index_find has to be asked for, as the bucket is passed. PD_ROW_NONE: there is no such row. */
static inline uint32_t pd_row_bucket_first(const struct pd_row_bucket *b, uint64_t hash)
{
    uint32_t found = pd_row_bucket_match(b, pd_row_tag(hash));
    if (found) return b->row[__builtin_ctz(found)];
    return b->is_passed ? b->row[0] : PD_ROW_NONE;
}

#endif
