/* See nn_rows.h. */
#include "ops/nn_rows.h"

#include <stdlib.h>
#include <string.h>

struct entry {
    int64_t id, at;
};

static int by_id(const void *a, const void *b)
{
    int64_t x = ((const struct entry *)a)->id, y = ((const struct entry *)b)->id;
    return (x > y) - (x < y);
}

pd_status pd_nn_rows_make(struct pd_value *value, const int64_t *ids, int64_t n, int64_t height,
                          int64_t width, enum pd_dtype dtype, int64_t *place)
{
    struct entry *sorted = (struct entry *)(place + n);
    int64_t distinct = 0;
    for (int64_t i = 0; i < n; i++)
        sorted[i] = (struct entry){ids[i], i};
    qsort(sorted, (size_t)n, sizeof *sorted, by_id);
    for (int64_t i = 0; i < n; i++) {
        distinct += i == 0 || sorted[i].id != sorted[i - 1].id;
        place[sorted[i].at] = distinct - 1;
    }
    PD_TRY(pd_rows_resize(value, distinct, height, dtype, 2, (int64_t[]){distinct, width}));
    for (int64_t i = 0; i < n; i++)
        value->rows.at[place[i]] = ids[i];
    memset(value->tensor.data, 0, (size_t)(distinct * width) * pd_dtype_size(dtype));
    return PD_OK;
}
