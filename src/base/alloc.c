/* The one allocator of the library; see alloc.h. */
#include "base/alloc.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static atomic_uint_fast64_t requests;
static atomic_uint_fast64_t fail_from; /* 0: never */
static atomic_uint_fast64_t fail_to = UINT64_MAX;

static void fail_between(uint64_t n, uint64_t count)
{
    uint64_t from = atomic_load(&requests) + n;
    atomic_store(&fail_from, 0);
    atomic_store(&fail_to, count < UINT64_MAX - from ? from + count : UINT64_MAX);
    atomic_store(&fail_from, n ? from : 0);
}

void pd_alloc_fail_at(uint64_t n)
{
    fail_between(n, UINT64_MAX);
}

void pd_alloc_fail_once(uint64_t n)
{
    fail_between(n, 1);
}

uint64_t pd_alloc_count(void)
{
    return atomic_load(&requests);
}

static int must_fail(void)
{
    uint64_t now = atomic_fetch_add_explicit(&requests, 1, memory_order_relaxed) + 1;
    uint64_t from = atomic_load_explicit(&fail_from, memory_order_relaxed);
    return from && now >= from && now < atomic_load_explicit(&fail_to, memory_order_relaxed);
}

void *pd_malloc(size_t size)
{
    return must_fail() ? NULL : malloc(size ? size : 1);
}

void *pd_calloc(size_t count, size_t size)
{
    if (must_fail()) return NULL;
    return count && size ? calloc(count, size) : calloc(1, 1);
}

void *pd_realloc_array(void *old, size_t count, size_t size)
{
    size_t total;
    if (must_fail() || __builtin_mul_overflow(count, size, &total)) return NULL;
    return realloc(old, total ? total : 1);
}

char *pd_strndup(const char *text, size_t length)
{
    char *copy = pd_malloc(length + 1);
    if (copy) {
        memcpy(copy, text, length);
        copy[length] = 0;
    }
    return copy;
}

char *pd_strdup(const char *text)
{
    return pd_strndup(text, strlen(text));
}

char *pd_strdup_some(const char *text)
{
    return pd_strdup(text ? text : "");
}

void pd_free(void *memory)
{
    free(memory);
}

/* Rows picked at random from a large table miss the address cache with almost every small page. */
#define HUGE_PAGE ((size_t)2 << 20)

void *pd_malloc_aligned(size_t size)
{
    if (must_fail() || size > SIZE_MAX - HUGE_PAGE) return NULL;
    if (size < 4 * HUGE_PAGE) return aligned_alloc(64, (size + 63) / 64 * 64 + (size ? 0 : 64));
    size = (size + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    void *memory = aligned_alloc(HUGE_PAGE, size);
    if (memory) madvise(memory, size, MADV_HUGEPAGE); /* only a wish */
    return memory;
}

void pd_free_aligned(void *memory)
{
    free(memory);
}

int pd_room_aligned(void **at, size_t *size, size_t need)
{
    if (*size >= need) return 1;
    pd_free_aligned(*at);
    *at = pd_malloc_aligned(need);
    *size = *at ? need : 0;
    return *at != NULL;
}

int pd_room_growing(void **at, size_t *size, size_t need)
{
    return *size >= need || pd_room_aligned(at, size, need + need / 4);
}
