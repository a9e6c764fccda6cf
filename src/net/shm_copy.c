/* See shm_copy.h. Plain vector loads and stores, the widest that the processor has. */
#include "net/shm_copy.h"

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && !defined(PD_SANITIZED)
#include <immintrin.h>

enum { SMALL = 256, LINE = 64 };

__attribute__((target("avx2"))) static void copy_avx2(uint8_t *to, const uint8_t *from, size_t n)
{
    for (; n >= 128; n -= 128, to += 128, from += 128) {
        __m256i a = _mm256_loadu_si256((const __m256i *)from);
        __m256i b = _mm256_loadu_si256((const __m256i *)(from + 32));
        __m256i c = _mm256_loadu_si256((const __m256i *)(from + 64));
        __m256i d = _mm256_loadu_si256((const __m256i *)(from + 96));
        _mm256_storeu_si256((__m256i *)to, a);
        _mm256_storeu_si256((__m256i *)(to + 32), b);
        _mm256_storeu_si256((__m256i *)(to + 64), c);
        _mm256_storeu_si256((__m256i *)(to + 96), d);
    }
    memcpy(to, from, n);
}

__attribute__((target("avx512f"))) static void copy_avx512(uint8_t *to, const uint8_t *from, size_t n)
{
    for (; n >= 256; n -= 256, to += 256, from += 256) {
        __m512i a = _mm512_loadu_si512(from);
        __m512i b = _mm512_loadu_si512(from + 64);
        __m512i c = _mm512_loadu_si512(from + 128);
        __m512i d = _mm512_loadu_si512(from + 192);
        _mm512_storeu_si512(to, a);
        _mm512_storeu_si512(to + 64, b);
        _mm512_storeu_si512(to + 128, c);
        _mm512_storeu_si512(to + 192, d);
    }
    memcpy(to, from, n);
}

/* The same with stores that go past the cache, to places that are aligned to 64 bytes. */
__attribute__((target("avx2"))) static void stream_avx2(uint8_t *to, const uint8_t *from, size_t n)
{
    for (; n >= 128; n -= 128, to += 128, from += 128) {
        __m256i a = _mm256_loadu_si256((const __m256i *)from);
        __m256i b = _mm256_loadu_si256((const __m256i *)(from + 32));
        __m256i c = _mm256_loadu_si256((const __m256i *)(from + 64));
        __m256i d = _mm256_loadu_si256((const __m256i *)(from + 96));
        _mm256_stream_si256((__m256i *)to, a);
        _mm256_stream_si256((__m256i *)(to + 32), b);
        _mm256_stream_si256((__m256i *)(to + 64), c);
        _mm256_stream_si256((__m256i *)(to + 96), d);
    }
    memcpy(to, from, n);
    _mm_sfence(); /* they come in any order, but before what follows */
}

__attribute__((target("avx512f"))) static void stream_avx512(uint8_t *to, const uint8_t *from, size_t n)
{
    for (; n >= 256; n -= 256, to += 256, from += 256) {
        __m512i a = _mm512_loadu_si512(from);
        __m512i b = _mm512_loadu_si512(from + 64);
        __m512i c = _mm512_loadu_si512(from + 128);
        __m512i d = _mm512_loadu_si512(from + 192);
        _mm512_stream_si512((__m512i *)to, a);
        _mm512_stream_si512((__m512i *)(to + 64), b);
        _mm512_stream_si512((__m512i *)(to + 128), c);
        _mm512_stream_si512((__m512i *)(to + 192), d);
    }
    memcpy(to, from, n);
    _mm_sfence();
}

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
