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

#endif
