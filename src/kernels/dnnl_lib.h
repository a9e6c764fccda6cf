/* The functions of oneDNN that we call, looked up at run time. Only dnnl*.c include this. */
#ifndef PD_KERNELS_DNNL_LIB_H
#define PD_KERNELS_DNNL_LIB_H

#include <dnnl.h>

#define PD_DNNL_FUNCTIONS(X)                                                                                 \
    X(version)                                                                                               \
    X(sgemm)                                                                                                 \
    X(set_primitive_cache_capacity)                                                                          \
    X(engine_create)                                                                                         \
    X(stream_create)                                                                                         \
    X(stream_destroy)                                                                                        \
    X(stream_wait)                                                                                           \
    X(memory_desc_create_with_tag)                                                                           \
    X(memory_desc_destroy)                                                                                   \
    X(memory_desc_equal)                                                                                     \
    X(memory_desc_get_size)                                                                                  \
    X(memory_create)                                                                                         \
    X(memory_set_data_handle)                                                                                \
    X(memory_destroy)                                                                                        \
    X(primitive_attr_create)                                                                                 \
    X(primitive_attr_set_scratchpad_mode)                                                                    \
    X(primitive_attr_destroy)                                                                                \
    X(convolution_forward_primitive_desc_create)                                                             \
    X(convolution_backward_data_primitive_desc_create)                                                       \
    X(convolution_backward_weights_primitive_desc_create)                                                    \
    X(reorder_primitive_desc_create)                                                                         \
    X(primitive_desc_query_md)                                                                               \
    X(primitive_desc_destroy)                                                                                \
    X(primitive_create)                                                                                      \
    X(primitive_execute)                                                                                     \
    X(primitive_destroy)

struct pd_dnnl_lib {
#define PD_DNNL_FIELD(name) __typeof__(&dnnl_##name) name;
    PD_DNNL_FUNCTIONS(PD_DNNL_FIELD)
#undef PD_DNNL_FIELD
    dnnl_engine_t engine;
};

/* NULL when oneDNN is not there. */
const struct pd_dnnl_lib *pd_dnnl_lib(void);
/* How many threads oneDNN uses when the calling thread calls it; one where several threads call it at once.
 */
void pd_dnnl_use_threads(int threads);

#endif
