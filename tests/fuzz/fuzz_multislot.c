/* Any bytes as lines of samples. The first byte says what a line has: an id, a text, zeros that are dropped,
 * and of which kind the slots are. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "data/batch.h"
#include "data/multislot.h"
#include "data/numbers.h"
#include "data/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void check(int is_right)
{
    if (!is_right) abort();
}

/* Records become a batch, whose columns have all their numbers. */
static void check_batch(const struct pd_schema *schema, const struct pd_buf *records)
{
    struct pd_batch batch;
    const char *record[64];
    int64_t samples = 0;
    size_t at = 0;
    for (; at < records->n && samples < 64; at += pd_record_bytes(schema, records->at + at))
        record[samples++] = records->at + at;
    check(at <= records->n);
    check(pd_batch_init(&batch, schema) == PD_OK);
    if (samples && pd_batch_fill(&batch, record, samples) == PD_OK)
        for (int i = 0, column = 0; i < schema->n; i++) {
            if (!schema->slot[i].is_used) continue;
            check(pd_tensor_numel(&batch.value[column]->tensor) == batch.total[column]);
            check(batch.to[column] == (char *)batch.value[column]->tensor.data +
                                          (size_t)batch.total[column] * pd_slot_bytes(&schema->slot[i]));
            column++;
        }
    pd_batch_clear(&batch);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct pd_schema schema = {0};
    struct pd_buf out = {0};
    struct pd_meta shape = {0};
    if (n < 1) return 0;
    uint8_t how = bytes[0];
    schema.has_id = how & 1;
    schema.has_text = (how & 2) != 0;
    schema.drops_zeros = (how & 4) != 0;
    check(pd_meta_set_dims(&shape, 2, (int64_t[]){-1, 2}) == PD_OK);
    check(pd_schema_add(&schema, "a", (how & 8) != 0, 1, NULL) == PD_OK);
    check(pd_schema_add(&schema, "b", 0, (how & 16) != 0, NULL) == PD_OK);
    check(pd_schema_add(&schema, "c", (how & 32) != 0, 1, &shape) == PD_OK);
    /* As a reader has it: lines that end, and readable bytes behind the last. */
    char *text = malloc(n + PD_NUMBERS_PAST);
    check(text != NULL);
    memcpy(text, bytes + 1, n - 1);
    text[n - 1] = '\n';
    memset(text + n, 0, PD_NUMBERS_PAST);
    for (const char *at = text; at < text + n;) {
        const char *next = NULL, *why = NULL;
        size_t before = out.n;
        check(pd_multislot_read(&schema, at, text + n, &out, &next, &why) == PD_OK);
        check(next > at && next <= text + n && next[-1] == '\n' && !(why && out.n > before));
        if (out.n > before) check(pd_record_bytes(&schema, out.at + before) == out.n - before);
        at = next;
    }
    check_batch(&schema, &out);
    free(text);
    pd_buf_free(&out);
    pd_schema_clear(&schema);
    return 0;
}
