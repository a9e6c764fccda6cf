/* A tensor: its meta data and a place in a counted buffer. */
#ifndef PD_TENSOR_TENSOR_H
#define PD_TENSOR_TENSOR_H

#include "backend/device.h"
#include "tensor/meta.h"

/* Counted memory. */
struct pd_buffer {
    int refs; /* atomic */
    size_t size;
    void *data;
    const struct pd_device *device;
};

pd_status pd_buffer_new(const struct pd_device *device, size_t size, struct pd_buffer **out);
struct pd_buffer *pd_buffer_ref(struct pd_buffer *buffer);
void pd_buffer_unref(struct pd_buffer *buffer);

struct pd_tensor {
    struct pd_meta meta;
    void *data;               /* where element 0 lies; NULL: no data yet */
    struct pd_buffer *buffer; /* counted; NULL while a plan lends the memory */
};

/* Memory for the tensor's present dtype and dims. A buffer that is large enough and not shared is kept. */
pd_status pd_tensor_alloc(struct pd_tensor *tensor);
/* Sets dtype and dims, then pd_tensor_alloc. LoD is left alone. */
pd_status pd_tensor_resize(struct pd_tensor *tensor, enum pd_dtype dtype, int rank, const int64_t *dim);
/* `to` becomes another view of the same memory, with the same meta data. */
void pd_tensor_share(struct pd_tensor *to, const struct pd_tensor *from);
/* A deep copy with own memory. */
pd_status pd_tensor_copy(struct pd_tensor *to, const struct pd_tensor *from);
/* Lets go of memory and LoD; meta data become those of an empty tensor. */
void pd_tensor_reset(struct pd_tensor *tensor);
/* Bytes of the data; the caller knows that all dimensions are known. */
size_t pd_tensor_bytes(const struct pd_tensor *tensor);

static inline int64_t pd_tensor_numel(const struct pd_tensor *t)
{
    return pd_meta_numel(&t->meta);
}

#endif
