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
#include <string.h>

#include "base/error.h"

#define PD_ROW_NONE UINT32_MAX
#define PD_ROW_BUCKET 12

struct pd_row_bucket {
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

/* Places of a bucket that have this tag, as the top bits of bytes: `low` is of the first 8, `high` of the
 * other 4. Above the lowest there may be one too many. */
struct pd_row_match {
    uint64_t low, high;
};

static inline struct pd_row_match pd_row_bucket_match(const struct pd_row_bucket *b, uint8_t tag)
{
    const uint64_t ones = 0x0101010101010101ull, tops = 0x8080808080808080ull;
    uint64_t low;
    uint32_t last;
    memcpy(&low, b->tag, sizeof low);
    memcpy(&last, b->tag + 8, sizeof last);
    uint64_t x = low ^ ones * tag, y = (last ^ ones * tag) & UINT32_MAX;
    y |= (uint64_t)UINT32_MAX << 32;
    return (struct pd_row_match){(x - ones) & ~x & tops, (y - ones) & ~y & tops};
}

static inline int pd_row_match_any(struct pd_row_match m)
{
    return (m.low | m.high) != 0;
}

static inline int pd_row_match_first(struct pd_row_match m)
{
    return m.low ? __builtin_ctzll(m.low) / 8 : 8 + __builtin_ctzll(m.high) / 8;
}

static inline struct pd_row_match pd_row_match_next(struct pd_row_match m)
{
    if (m.low)
        m.low &= m.low - 1;
    else
        m.high &= m.high - 1;
    return m;
}

/* The row that the hash most likely is of: the first of its bucket with its tag, or else one that
 * pd_row_index_find has to be asked for, as the bucket is passed. PD_ROW_NONE: there is no such row. */
static inline uint32_t pd_row_index_first(const struct pd_row_index *index, uint64_t hash)
{
    const struct pd_row_bucket *b = pd_row_index_bucket(index, hash);
    struct pd_row_match m = pd_row_bucket_match(b, pd_row_tag(hash));
    if (pd_row_match_any(m)) return b->row[pd_row_match_first(m)];
    return b->is_passed ? b->row[0] : PD_ROW_NONE;
}

#endif
