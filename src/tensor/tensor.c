/* Buffers and tensors. */
#include "tensor/tensor.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

pd_status pd_buffer_new(const struct pd_device *device, size_t size, struct pd_buffer **out)
{
    struct pd_buffer *b = pd_calloc(1, sizeof *b);
    if (!b) return pd_no_memory();
    b->data = device->alloc(device, size);
    if (!b->data) {
        pd_free(b);
        return pd_fail(PD_NO_MEMORY, "out of memory: a tensor needs %zu bytes", size);
    }
    b->refs = 1;
    b->size = size;
    b->device = device;
    *out = b;
    return PD_OK;
}

struct pd_buffer *pd_buffer_ref(struct pd_buffer *buffer)
{
    if (buffer) __atomic_add_fetch(&buffer->refs, 1, __ATOMIC_RELAXED);
    return buffer;
}

void pd_buffer_unref(struct pd_buffer *buffer)
{
    if (!buffer || __atomic_sub_fetch(&buffer->refs, 1, __ATOMIC_ACQ_REL) != 0) return;
    buffer->device->release(buffer->device, buffer->data);
    pd_free(buffer);
}

size_t pd_tensor_bytes(const struct pd_tensor *tensor)
{
    return (size_t)pd_tensor_numel(tensor) * pd_dtype_size(tensor->meta.dtype);
}

static pd_status checked_bytes(const struct pd_meta *meta, size_t *out)
{
    size_t bytes = pd_dtype_size(meta->dtype);
    if (!bytes) return pd_fail(PD_TYPE, "a tensor needs an element type, found number %d", (int)meta->dtype);
    int64_t n = pd_meta_numel(meta);
    if (!pd_meta_fits(meta) || n < 0)
        return pd_fail(PD_SHAPE, "cannot make a tensor of shape %s", pd_meta_dims_text(meta));
    *out = bytes * (size_t)n;
    return PD_OK;
}

pd_status pd_tensor_alloc(struct pd_tensor *tensor)
{
    size_t bytes;
    PD_TRY(checked_bytes(&tensor->meta, &bytes));
    struct pd_buffer *b = tensor->buffer;
    if (b && b->size >= bytes && tensor->data == b->data && __atomic_load_n(&b->refs, __ATOMIC_ACQUIRE) == 1)
        return PD_OK;
    struct pd_buffer *fresh;
    pd_status status = pd_buffer_new(&pd_device_cpu, bytes, &fresh);
    if (status != PD_OK) {
        tensor->buffer = NULL; /* what it has may be too small for its size */
        tensor->data = NULL;
        pd_buffer_unref(b);
        return status;
    }
    pd_buffer_unref(b);
    tensor->buffer = fresh;
    tensor->data = fresh->data;
    return PD_OK;
}

pd_status pd_tensor_resize(struct pd_tensor *tensor, enum pd_dtype dtype, int rank, const int64_t *dim)
{
    struct pd_meta wanted = {.dtype = dtype};
    size_t bytes;
    PD_TRY(pd_meta_set_dims(&wanted, rank, dim));
    PD_TRY(checked_bytes(&wanted, &bytes));
    tensor->meta.dtype = dtype;
    pd_meta_copy_dims(&tensor->meta, &wanted);
    return pd_tensor_alloc(tensor);
}

void pd_tensor_share(struct pd_tensor *to, const struct pd_tensor *from)
{
    if (to == from) return;
    pd_meta_like(&to->meta, &from->meta);
    struct pd_buffer *old = to->buffer;
    to->buffer = pd_buffer_ref(from->buffer);
    to->data = from->data;
    pd_buffer_unref(old);
}

pd_status pd_tensor_copy(struct pd_tensor *to, const struct pd_tensor *from)
{
    if (to == from) return PD_OK;
    PD_TRY(pd_tensor_resize(to, from->meta.dtype, from->meta.rank, from->meta.dim));
    pd_meta_share_lod(&to->meta, &from->meta);
    size_t bytes = pd_tensor_bytes(from);
    if (bytes) memcpy(to->data, from->data, bytes);
    return PD_OK;
}

void pd_tensor_reset(struct pd_tensor *tensor)
{
    enum pd_kind kind = tensor->meta.kind;
    pd_lod_unref(tensor->meta.lod);
    pd_buffer_unref(tensor->buffer);
    *tensor = (struct pd_tensor){.meta = {.kind = kind, .dtype = PD_DTYPE_NONE}};
}
