/* Copying in and out of a ring between two cores. The C library's memcpy may take `rep movsb` for such sizes,
 * which is several times slower when the lines come from another core's cache. */
#ifndef PD_NET_SHM_COPY_H
#define PD_NET_SHM_COPY_H

#include <stddef.h>

/* Like memcpy; the ranges do not overlap. */
void pd_shm_copy(void *to, const void *from, size_t n);
/* The same for what does not fit the cache anyway: the old lines of `to` are not read from memory first. */
void pd_shm_stream(void *to, const void *from, size_t n);

#endif
