/* All memory of the library comes from here, so that a test can make the N-th request fail. */
#ifndef PD_BASE_ALLOC_H
#define PD_BASE_ALLOC_H

#include <stddef.h>
#include <stdint.h>

/* Each returns NULL when memory is short or the size overflows; the caller reports it (pd_no_memory). */
void *pd_malloc(size_t size);
void *pd_calloc(size_t count, size_t size);
void *pd_realloc_array(void *old, size_t count, size_t size);
char *pd_strdup(const char *text);
char *pd_strdup_some(const char *text); /* of NULL: "" */
char *pd_strndup(const char *text, size_t length);
void pd_free(void *memory);

/* 64-byte aligned blocks for tensor data. Freed by pd_free_aligned. */
void *pd_malloc_aligned(size_t size);
void pd_free_aligned(void *memory);
/* Room for `need` bytes at *at, which has *size: the same block, or a new one when it is too small; what was
 * in it goes. 0: memory is short, and there is none. */
int pd_room_aligned(void **at, size_t *size, size_t need);
/* The same for a need that grows little by little: a new block has a quarter more. */
int pd_room_growing(void **at, size_t *size, size_t need);

/* Tests: the `n`-th request from now fails, and all after it while `n` stays reached; 0 switches this off. */
void pd_alloc_fail_at(uint64_t n);
/* The same for that one alone. */
void pd_alloc_fail_once(uint64_t n);
/* Requests made so far. */
uint64_t pd_alloc_count(void);

#endif
