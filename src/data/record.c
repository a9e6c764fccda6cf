/* See record.h. */
#include "data/record.h"

static size_t end_of_numbers(const struct pd_schema *schema, const char *record)
{
    size_t bytes = pd_record_head(schema);
    for (int i = 0, column = 0; i < schema->n; i++)
        if (schema->slot[i].is_used)
            bytes += pd_record_count(record, column++) * pd_slot_bytes(&schema->slot[i]);
    return bytes;
}

static uint32_t length_at(const char *at)
{
    uint32_t n;
    memcpy(&n, at, 4);
    return n;
}

size_t pd_record_bytes(const struct pd_schema *schema, const char *record)
{
    size_t bytes = end_of_numbers(schema, record);
    if (schema->has_id) bytes += 4 + (length_at(record + bytes) & ~PD_RECORD_MERGED);
    if (schema->has_text) bytes += 4 + length_at(record + bytes);
    return bytes;
}

const char *pd_record_id(const struct pd_schema *schema, const char *record, uint32_t *length)
{
    *length = 0;
    if (!schema->has_id) return "";
    const char *at = record + end_of_numbers(schema, record);
    *length = length_at(at) & ~PD_RECORD_MERGED;
    return at + 4;
}

int pd_record_is_merged(const struct pd_schema *schema, const char *record)
{
    return schema->has_id && (length_at(record + end_of_numbers(schema, record)) & PD_RECORD_MERGED);
}
