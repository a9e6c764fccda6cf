/* See crc32c.h. The processor's instruction has a latency of three cycles and takes one a cycle, so long
 * inputs are cut into three lanes that run side by side; their results are joined by a product of polynomials
 * over GF(2). Where the processor has products of 64 bytes at a time, they are folded onto the bytes 256
 * further on instead, which is three times as fast: about the speed of memory. */
#include "base/crc32c.h"

#include <string.h>

#define POLYNOMIAL 0x82F63B78u /* reflected: the coefficient of x^31 is bit 0 */
#define LANE ((size_t)8192)
#define OVER_LANE 0x28461564u  /* x^(8 * LANE) modulo the polynomial */
#define OVER_LANES 0xBF455269u /* x^(16 * LANE) */

#if defined(__SSE4_2__)

#include <immintrin.h>

#define FOLD ((size_t)256)
#define FOLD_FIRST ((uint64_t)0xE9A5D8BE << 32)  /* x^(8 * FOLD + 63) modulo the polynomial */
#define FOLD_SECOND ((uint64_t)0x1426A815 << 32) /* x^(8 * FOLD - 1) */

static inline uint32_t add1(uint32_t crc, uint8_t byte)
{
    return _mm_crc32_u8(crc, byte);
}

static inline uint32_t add8(uint32_t crc, uint64_t word)
{
    return (uint32_t)_mm_crc32_u64(crc, word);
}

static int can_fold(void)
{
    static _Atomic int known; /* 0: not asked yet */
    if (!known) known = __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("avx512f") ? 2 : 1;
    return known == 2;
}

/* n is a multiple of FOLD, and not 0. Bytes that were folded are a message with the same remainder: the last
 * of them go through the instruction. */
__attribute__((target("avx512f,vpclmulqdq,pclmul"))) static uint32_t fold(uint32_t crc,
                                                                          const unsigned char *p, size_t n)
{
    const __m512i by = _mm512_set_epi64(FOLD_SECOND, FOLD_FIRST, FOLD_SECOND, FOLD_FIRST, FOLD_SECOND,
                                        FOLD_FIRST, FOLD_SECOND, FOLD_FIRST);
    __m512i sum[4];
    uint64_t words[FOLD / 8];
    for (int i = 0; i < 4; i++)
        sum[i] = _mm512_loadu_si512(p + 64 * i);
    sum[0] = _mm512_xor_si512(sum[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)crc)));
    for (p += FOLD, n -= FOLD; n; p += FOLD, n -= FOLD)
        for (int i = 0; i < 4; i++)
            sum[i] = _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(sum[i], by, 0x00),
                                               _mm512_clmulepi64_epi128(sum[i], by, 0x11),
                                               _mm512_loadu_si512(p + 64 * i), 0x96);
    for (int i = 0; i < 4; i++)
        _mm512_storeu_si512(words + 8 * i, sum[i]);
    crc = 0;
    for (size_t i = 0; i < FOLD / 8; i++)
        crc = add8(crc, words[i]);
    return crc;
}

#else

#define FOLD ((size_t)256)

static int can_fold(void)
{
    return 0;
}

static uint32_t fold(uint32_t crc, const unsigned char *p, size_t n)
{
    (void)p, (void)n;
    return crc;
}

/* What four zero bits after the value i make of it. */
static const uint32_t nibble[16] = {0x00000000, 0x105EC76F, 0x20BD8EDE, 0x30E349B1, 0x417B1DBC, 0x5125DAD3,
                                    0x61C69362, 0x7198540D, 0x82F63B78, 0x92A8FC17, 0xA24BB5A6, 0xB21572C9,
                                    0xC38D26C4, 0xD3D3E1AB, 0xE330A81A, 0xF36E6F75};

static inline uint32_t add1(uint32_t crc, uint8_t byte)
{
    crc ^= byte;
    crc = crc >> 4 ^ nibble[crc & 15];
    return crc >> 4 ^ nibble[crc & 15];
}

static inline uint32_t add8(uint32_t crc, uint64_t word)
{
    for (int i = 0; i < 8; i++)
        crc = add1(crc, (uint8_t)(word >> 8 * i));
    return crc;
}

#endif

static uint32_t product(uint32_t a, uint32_t b)
{
    uint32_t sum = 0;
    for (int bit = 31; bit >= 0; bit--) {
        sum ^= b & (0 - (a >> bit & 1));
        b = b >> 1 ^ (POLYNOMIAL & (0 - (b & 1)));
    }
    return sum;
}

static inline uint64_t word_at(const unsigned char *p)
{
    uint64_t word;
    memcpy(&word, p, sizeof word);
    return word;
}

uint32_t pd_crc32c(uint32_t crc, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    crc = ~crc;
    if (n >= 4 * FOLD && can_fold()) {
        size_t folded = n / FOLD * FOLD;
        crc = fold(crc, p, folded);
        p += folded;
        n -= folded;
    }
    for (; n >= 3 * LANE; p += 3 * LANE, n -= 3 * LANE) {
        uint32_t second = 0, third = 0;
        for (size_t i = 0; i < LANE; i += 8) {
            crc = add8(crc, word_at(p + i));
            second = add8(second, word_at(p + LANE + i));
            third = add8(third, word_at(p + 2 * LANE + i));
        }
        crc = product(crc, OVER_LANES) ^ product(second, OVER_LANE) ^ third;
    }
    for (; n >= 8; p += 8, n -= 8)
        crc = add8(crc, word_at(p));
    for (; n; p++, n--)
        crc = add1(crc, *p);
    return ~crc;
}
