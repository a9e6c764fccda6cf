/* Tensor files: the bytes that Fluid writes for one variable, a tensor with its LoD or selected rows.
 *
 * The reader trusts nothing: every size, count, dtype and product is checked against the bytes that are
 * really there before memory is asked for. */
#ifndef PD_TENSOR_FILE_H
#define PD_TENSOR_FILE_H

#include <stdio.h>

#include "base/buf.h"
#include "tensor/value.h"

/* Appends the value to `out`. Kinds other than tensor and selected rows are refused. */
pd_status pd_value_write(const struct pd_value *value, struct pd_buf *out);
/* Reads one value from the front of `bytes`; its kind decides the layout (selected rows, else a tensor).
 * `used` gets the bytes it took. On an error the value is as before. */
pd_status pd_value_read(struct pd_value *value, const void *bytes, size_t n, size_t *used);

/* The same over a stream, without a copy of the data in between. Write errors are PD_IO. */
pd_status pd_value_write_file(const struct pd_value *value, FILE *file);
/* Reads one value from the stream's present place. */
pd_status pd_value_read_file(struct pd_value *value, FILE *file);

/* Selected rows of float32 that come in pieces, from whoever has them in another form. */
struct pd_rows_given {
    int64_t n, height, width;
    /* The next m row numbers; once all were asked for, the values of the rows in the same order. */
    void (*numbers)(void *arg, int m, int64_t *out);
    void (*values)(void *arg, int m, float *out);
    void *arg;
};
pd_status pd_rows_write_file(const struct pd_rows_given *rows, FILE *file);

/* Where the parts of selected rows lie in a file that begins with them, so that they can be read in pieces.
 * Row numbers are not looked at. */
struct pd_rows_map {
    int64_t n, height;
    struct pd_meta meta; /* of the values */
    uint64_t numbers_at, values_at;
};
pd_status pd_rows_map_file(FILE *file, struct pd_rows_map *out);

#endif
