/* A sample, as bytes: how many numbers each used slot has (4 bytes each), then the numbers of each, in the
 * same order (floats of 4 bytes, whole numbers of 8), then its id and its text where the schema has them (4
 * bytes of length, the bytes). The highest bit of the id's length says that the sample is one of several that
 * were merged. Nothing is aligned. */
#ifndef PD_DATA_RECORD_H
#define PD_DATA_RECORD_H

#include <string.h>

#include "data/schema.h"

static inline uint32_t pd_record_count(const char *record, int column)
{
    uint32_t n;
    memcpy(&n, record + 4 * (size_t)column, 4);
    return n;
}

static inline size_t pd_slot_bytes(const struct pd_slot *slot)
{
    return slot->is_float ? 4 : 8;
}

/* Where the numbers begin. */
static inline size_t pd_record_head(const struct pd_schema *schema)
{
    return 4 * (size_t)schema->n_used;
}

#define PD_RECORD_MERGED (1u << 31)

/* The bytes of all of it. */
size_t pd_record_bytes(const struct pd_schema *schema, const char *record);
/* The id; "" where there is none. */
const char *pd_record_id(const struct pd_schema *schema, const char *record, uint32_t *length);
/* Is it one of several that were merged? */
int pd_record_is_merged(const struct pd_schema *schema, const char *record);

#endif
