/* Any bytes as a tensor file. The first byte says whether they are read as a tensor or as selected rows. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/file.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct pd_value *value = NULL, *again = NULL;
    size_t used = 0;
    if (n == 0) return 0;
    enum pd_kind kind = bytes[0] & 1 ? PD_KIND_SELECTED_ROWS : PD_KIND_TENSOR;
    if (pd_value_new(kind, &value) != PD_OK || pd_value_new(kind, &again) != PD_OK) abort();
    if (pd_value_read(value, bytes + 1, n - 1, &used) == PD_OK) {
        /* What was understood can be written and is read as the same. */
        struct pd_buf buf = {0};
        size_t size = 0;
        if (used > n - 1 || pd_value_write(value, &buf) != PD_OK) abort();
        if (pd_value_read(again, buf.at, buf.n, &size) != PD_OK || size != buf.n) abort();
        size_t data = pd_tensor_bytes(&value->tensor);
        if (!pd_meta_same_dims(&value->tensor.meta, &again->tensor.meta)) abort();
        if (data && memcmp(value->tensor.data, again->tensor.data, data) != 0) abort();
        pd_buf_free(&buf);
    }
    pd_value_unref(value);
    pd_value_unref(again);
    return 0;
}
