/* See shm_copy.h. Plain vector loads and stores, the widest that the processor has. */
#include "net/shm_copy.h"

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && !defined(PD_SANITIZED)
#include <immintrin.h>

enum { SMALL = 256, LINE = 64 };

/* Four vectors at a time; `fence`: what comes after stores past the cache, which come in any order, but
 * before what follows. */
#define COPY_FN(name, isa, vector, load, store, fence)                                                       \
    __attribute__((target(isa))) static void name(uint8_t *to, const uint8_t *from, size_t n)                \
    {                                                                                                        \
        enum { WIDE = sizeof(vector), STEP = 4 * WIDE };                                                     \
        for (; n >= STEP; n -= STEP, to += STEP, from += STEP) {                                             \
            vector a = load((const void *)from), b = load((const void *)(from + WIDE));                      \
            vector c = load((const void *)(from + 2 * WIDE)), d = load((const void *)(from + 3 * WIDE));     \
            store((void *)to, a), store((void *)(to + WIDE), b);                                             \
            store((void *)(to + 2 * WIDE), c), store((void *)(to + 3 * WIDE), d);                            \
        }                                                                                                    \
        memcpy(to, from, n);                                                                                 \
        fence;                                                                                               \
    }

COPY_FN(copy_avx2, "avx2", __m256i, _mm256_loadu_si256, _mm256_storeu_si256, (void)0)
COPY_FN(copy_avx512, "avx512f", __m512i, _mm512_loadu_si512, _mm512_storeu_si512, (void)0)
/* Past the cache, to places that are aligned to 64 bytes. */
COPY_FN(stream_avx2, "avx2", __m256i, _mm256_loadu_si256, _mm256_stream_si256, _mm_sfence())
COPY_FN(stream_avx512, "avx512f", __m512i, _mm512_loadu_si512, _mm512_stream_si512, _mm_sfence())

static void copy_plain(uint8_t *to, const uint8_t *from, size_t n)
{
    memcpy(to, from, n);
}

typedef void (*copy_fn)(uint8_t *to, const uint8_t *from, size_t n);

/* The best of three for this processor; looked up once. */
static copy_fn choose(_Atomic(copy_fn) *chosen, copy_fn avx512, copy_fn avx2)
{
    copy_fn copy = atomic_load_explicit(chosen, memory_order_relaxed);
    if (copy) return copy;
    __builtin_cpu_init();
    copy = __builtin_cpu_supports("avx512f") ? avx512 : __builtin_cpu_supports("avx2") ? avx2 : copy_plain;
    atomic_store_explicit(chosen, copy, memory_order_relaxed);
    return copy;
}

void pd_shm_copy(void *to, const void *from, size_t n)
{
    static _Atomic(copy_fn) chosen;
    if (n <= SMALL)
        memcpy(to, from, n);
    else
        choose(&chosen, copy_avx512, copy_avx2)(to, from, n);
}

void pd_shm_stream(void *to, const void *from, size_t n)
{
    static _Atomic(copy_fn) chosen;
    size_t before = -(uintptr_t)to % LINE;
    if (n <= SMALL) before = n;
    memcpy(to, from, before);
    if (n > before)
        choose(&chosen, stream_avx512, stream_avx2)((uint8_t *)to + before, (const uint8_t *)from + before,
                                                    n - before);
}

#else

void pd_shm_copy(void *to, const void *from, size_t n)
{
    memcpy(to, from, n);
}

void pd_shm_stream(void *to, const void *from, size_t n)
{
    memcpy(to, from, n);
}

#endif
