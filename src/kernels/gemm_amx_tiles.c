/* Splits floats into three bfloat16 parts, lays them out as tiles and multiplies tiles; see gemm_amx_tiles.h.
 */
#include "kernels/gemm_amx_tiles.h"

#ifdef PD_WITH_AMX
#include <immintrin.h>
#include <string.h>

#define CODE __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,amx-tile,amx-bf16")))
#define INLINE CODE __attribute__((always_inline)) static inline

/* ---- packing ---- */

INLINE int clamp16(int64_t n)
{
    return n < 0 ? 0 : n > 16 ? 16 : (int)n;
}

INLINE __mmask16 first_lanes(int64_t n)
{
    return (__mmask16)((1u << clamp16(n)) - 1);
}

/* Rounding at each step leaves 8, 8 and at most 7 bits, so that the three parts add up to x. */
INLINE void split(__m512 x, __m512i part[PD_AMX_PARTS])
{
    const __m512i half = _mm512_set1_epi32(0x8000), top = _mm512_set1_epi32((int)0xffff0000u);
    part[0] = _mm512_and_si512(_mm512_add_epi32(_mm512_castps_si512(x), half), top);
    __m512 rest = _mm512_sub_ps(x, _mm512_castsi512_ps(part[0]));
    part[1] = _mm512_and_si512(_mm512_add_epi32(_mm512_castps_si512(rest), half), top);
    part[2] = _mm512_castps_si512(_mm512_sub_ps(rest, _mm512_castsi512_ps(part[1])));
}

/* Pairs of bfloat16 from the upper halves of two vectors. */
INLINE void put_pairs(__m512i low, __m512i high, char *to)
{
    _mm512_store_si512(to, _mm512_mask_blend_epi16(0xaaaaaaaau, _mm512_srli_epi32(low, 16), high));
}

#define PLACE(part) ((part)*2 * PD_AMX_TILE_BYTES)

/* One row of a tile, all parts. */
INLINE void put_row(__m512 low, __m512 high, char *to)
{
    __m512i l[PD_AMX_PARTS], h[PD_AMX_PARTS];
    split(low, l);
    split(high, h);
#pragma GCC unroll 3
    for (int part = 0; part < PD_AMX_PARTS; part++)
        put_pairs(l[part], h[part], to + PLACE(part));
}

/* The same in the last block of k when it has 16 numbers or fewer: the free half takes other parts, so that
 * three tile products give all six of the parts: (a1 a1)(b3 b2) + (a2 a2)(b2 b1) + (a3 a1)(b1 b1). */
INLINE void put_half_row(__m512 low, int is_a, char *to)
{
    __m512i l[PD_AMX_PARTS];
    split(low, l);
    put_pairs(is_a ? l[0] : l[2], is_a ? l[0] : l[1], to + PLACE(0));
    put_pairs(l[1], is_a ? l[1] : l[0], to + PLACE(1));
    put_pairs(is_a ? l[2] : l[0], l[0], to + PLACE(2));
}

#define AS_PD(x) _mm512_castps_pd(x)
#define AS_PS(x) _mm512_castpd_ps(x)

/* to[j][i] = at[i * ld + j], 16 x 16, zeros outside rows and mask. */
INLINE void transpose(const float *at, int64_t ld, int rows, __mmask16 mask, float (*to)[16])
{
    __m512 x[16], y[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++)
        x[i] = _mm512_maskz_loadu_ps(i < rows ? mask : 0, at + i * ld);
#pragma GCC unroll 16
    for (int i = 0; i < 16; i += 2) {
        y[i] = _mm512_unpacklo_ps(x[i], x[i + 1]);
        y[i + 1] = _mm512_unpackhi_ps(x[i], x[i + 1]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < 16; i += 4) {
        x[i] = AS_PS(_mm512_unpacklo_pd(AS_PD(y[i]), AS_PD(y[i + 2])));
        x[i + 1] = AS_PS(_mm512_unpackhi_pd(AS_PD(y[i]), AS_PD(y[i + 2])));
        x[i + 2] = AS_PS(_mm512_unpacklo_pd(AS_PD(y[i + 1]), AS_PD(y[i + 3])));
        x[i + 3] = AS_PS(_mm512_unpackhi_pd(AS_PD(y[i + 1]), AS_PD(y[i + 3])));
    }
#pragma GCC unroll 16
    for (int i = 0; i < 4; i++) {
        y[i] = _mm512_shuffle_f32x4(x[i], x[i + 4], 0x88);
        y[i + 4] = _mm512_shuffle_f32x4(x[i], x[i + 4], 0xdd);
        y[i + 8] = _mm512_shuffle_f32x4(x[i + 8], x[i + 12], 0x88);
        y[i + 12] = _mm512_shuffle_f32x4(x[i + 8], x[i + 12], 0xdd);
    }
#pragma GCC unroll 16
    for (int i = 0; i < 8; i++) {
        _mm512_store_ps(to[i], _mm512_shuffle_f32x4(y[i], y[i + 8], 0x88));
        _mm512_store_ps(to[i + 8], _mm512_shuffle_f32x4(y[i], y[i + 8], 0xdd));
    }
}

/* Finds the floats behind the next tile: `low` has k = 0..15 of the block, `high` k = 16..31, each up to 16
 * x 16. */
CODE static void open_tile(struct pd_amx_packing *p)
{
    const struct pd_amx_operand *from = p->from;
    int64_t lane = p->lane + p->tile * PD_AMX_LANES, k = p->block * PD_AMX_DEPTH;
    int64_t lanes = from->width - lane, left = from->k - k;
    p->row = 0;
    p->ld = from->ld;
    if (from->k_inner) {
        p->low = from->at + lane * from->ld + k;
        p->high = p->low + 16;
        p->low_rows = p->high_rows = clamp16(lanes);
        p->low_mask = first_lanes(left);
        p->high_mask = first_lanes(left - 16);
    } else {
        p->low = from->at + k * from->ld + lane;
        p->high = p->low + 16 * from->ld;
        p->low_rows = clamp16(left);
        p->high_rows = clamp16(left - 16);
        p->low_mask = p->high_mask = first_lanes(lanes);
    }
    if (from->is_a == from->k_inner) return;
    transpose(p->low, p->ld, p->low_rows, p->low_mask, p->turned[0]);
    transpose(p->high, p->ld, p->high_rows, p->high_mask, p->turned[1]);
    p->low = p->turned[0][0];
    p->high = p->turned[1][0];
    p->ld = p->low_rows = p->high_rows = 16;
    p->low_mask = p->high_mask = 0xffff;
}

static void next_tile(struct pd_amx_packing *p)
{
    p->tile++;
    if (p->tile == 2 || p->lane + p->tile * PD_AMX_LANES >= p->from->width) {
        p->tile = 0;
        p->to += PD_AMX_BLOCK_BYTES;
        if (++p->block == p->block_end) {
            p->from = NULL;
            return;
        }
    }
    open_tile(p);
}

/* Packs up to `rows` rows of the tile that is open. */
INLINE int pack_in_tile(struct pd_amx_packing *p, int rows)
{
    const struct pd_amx_operand *from = p->from;
    const int begin = p->row, end = rows < 16 - begin ? begin + rows : 16;
    const int half = from->k - p->block * PD_AMX_DEPTH <= PD_AMX_DEPTH / 2;
    const __m512 factor = _mm512_set1_ps(from->scale);
    char *to = p->to + p->tile * PD_AMX_TILE_BYTES;
    for (int i = begin; i < end; i++) {
        __m512 low = _mm512_maskz_loadu_ps(i < p->low_rows ? p->low_mask : 0, p->low + i * p->ld);
        __m512 high = _mm512_maskz_loadu_ps(i < p->high_rows ? p->high_mask : 0, p->high + i * p->ld);
        if (from->scale != 1) {
            low = _mm512_mul_ps(low, factor);
            high = _mm512_mul_ps(high, factor);
        }
        if (half)
            put_half_row(low, from->is_a, to + i * 64);
        else
            put_row(low, high, to + i * 64);
    }
    p->row = end;
    return end - begin;
}

INLINE void pack_rows(struct pd_amx_packing *p, int rows)
{
    while (rows > 0 && p->from) {
        rows -= pack_in_tile(p, rows);
        if (p->row == 16) next_tile(p);
    }
}

void pd_amx_pack_start(struct pd_amx_packing *packing, const struct pd_amx_operand *from, int64_t panel,
                       int64_t block, int64_t block_end, char *to)
{
    packing->from = from;
    packing->lane = panel * PD_AMX_PANEL;
    packing->block = block;
    packing->block_end = block_end;
    packing->to = to;
    packing->tile = 0;
    open_tile(packing);
}

CODE void pd_amx_pack_finish(struct pd_amx_packing *packing)
{
    while (packing->from)
        pack_rows(packing, 16);
}

CODE uint32_t pd_amx_largest(const struct pd_amx_operand *from, int64_t part, int64_t parts)
{
    int64_t rows = from->k_inner ? from->width : from->k, columns = from->k_inner ? from->k : from->width;
    const __m512i magnitude = _mm512_set1_epi32(0x7fffffff), zero = _mm512_setzero_si512();
    __m512i most[4] = {zero, zero, zero, zero};
    for (int64_t row = rows * part / parts; row < rows * (part + 1) / parts; row++) {
        const float *at = from->at + row * from->ld;
        int64_t j = 0;
        for (; j + 64 <= columns; j += 64)
#pragma GCC unroll 4
            for (int u = 0; u < 4; u++) {
                __m512i x = _mm512_loadu_si512(at + j + 16 * u);
                most[u] = _mm512_max_epu32(most[u], _mm512_and_si512(x, magnitude));
            }
        for (; j < columns; j += 16) {
            __m512i x = _mm512_maskz_loadu_epi32(first_lanes(columns - j), at + j);
            most[0] = _mm512_max_epu32(most[0], _mm512_and_si512(x, magnitude));
        }
    }
    most[0] = _mm512_max_epu32(_mm512_max_epu32(most[0], most[1]), _mm512_max_epu32(most[2], most[3]));
    return _mm512_reduce_max_epu32(most[0]);
}

/* ---- multiplying: tiles 0-3 are C, 4 and 5 A, 6 and 7 B ---- */

/* The compiler does not know which memory the tile instructions read: what was written before must be there.
 */
#define ALL_WRITTEN(at) __asm__ volatile("" ::"r"(at) : "memory")

CODE void pd_amx_tiles_on(void)
{
    struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } config;
    memset(&config, 0, sizeof config);
    config.palette = 1;
    for (int t = 0; t < 8; t++) {
        config.row_bytes[t] = 64;
        config.rows[t] = 16;
    }
    ALL_WRITTEN(&config);
    _tile_loadconfig(&config);
}

CODE void pd_amx_tiles_off(void)
{
    _tile_release();
}

#define GET_A0(part) _tile_loadd(4, a + (part)*2 * PD_AMX_TILE_BYTES, 64)
#define GET_A1(part)                                                                                         \
    if (high == 2) _tile_loadd(5, a + ((part)*2 + 1) * PD_AMX_TILE_BYTES, 64)
#define GET_B0(part) _tile_loadd(6, b + (part)*2 * PD_AMX_TILE_BYTES, 64)
#define GET_B1(part)                                                                                         \
    if (wide == 2) _tile_loadd(7, b + ((part)*2 + 1) * PD_AMX_TILE_BYTES, 64)
#define MULTIPLY_00 _tile_dpbf16ps(0, 4, 6)
#define MULTIPLY_01                                                                                          \
    if (wide == 2) _tile_dpbf16ps(1, 4, 7)
#define MULTIPLY_10                                                                                          \
    if (high == 2) _tile_dpbf16ps(2, 5, 6)
#define MULTIPLY_11                                                                                          \
    if (high == 2 && wide == 2) _tile_dpbf16ps(3, 5, 7)
/* All products of the loaded tiles. A tile is replaced as soon as it has been used, and first those that are
 * used first: with a busy twin thread on the core a tile can only be loaded when its last use is over. */
#define MULTIPLY_THEN_A(part)                                                                                \
    MULTIPLY_00;                                                                                             \
    MULTIPLY_01;                                                                                             \
    GET_A0(part);                                                                                            \
    MULTIPLY_10;                                                                                             \
    MULTIPLY_11;                                                                                             \
    GET_A1(part)
#define MULTIPLY_THEN_B(part)                                                                                \
    MULTIPLY_00;                                                                                             \
    MULTIPLY_10;                                                                                             \
    GET_B0(part);                                                                                            \
    MULTIPLY_01;                                                                                             \
    MULTIPLY_11;                                                                                             \
    GET_B1(part)

/* C = A B, high x wide tiles. In each block the products of parts come in an order in which one operand
 * stays, and the largest product comes last. */
INLINE void multiply(const char *a, const char *b, int64_t k, int high, int wide, float *c, int64_t ldc,
                     struct pd_amx_packing *packing, int rows)
{
    const int64_t step = ldc * (int64_t)sizeof *c;
    ALL_WRITTEN(a);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    GET_A0(0);
    GET_B0(2);
    GET_A1(0);
    GET_B1(2);
    for (; k > PD_AMX_DEPTH / 2; k -= PD_AMX_DEPTH) {
        MULTIPLY_THEN_B(1);
        MULTIPLY_THEN_A(1);
        MULTIPLY_THEN_B(0);
        pack_rows(packing, rows);
        MULTIPLY_THEN_A(2);
        MULTIPLY_THEN_A(0);
        a += PD_AMX_BLOCK_BYTES;
        b += PD_AMX_BLOCK_BYTES;
        MULTIPLY_00;
        MULTIPLY_01;
        GET_A0(0);
        MULTIPLY_10;
        GET_B0(2);
        MULTIPLY_11;
        GET_A1(0);
        GET_B1(2);
    }
    if (k > 0) {
        GET_B0(0);
        GET_B1(0);
        MULTIPLY_THEN_A(1);
        GET_B0(1);
        GET_B1(1);
        MULTIPLY_THEN_A(2);
        GET_B0(2);
        GET_B1(2);
        MULTIPLY_THEN_A(2);
    }
    _tile_stored(0, c, step);
    if (wide == 2) _tile_stored(1, c + 16, step);
    if (high == 2) _tile_stored(2, c + 16 * ldc, step);
    if (high == 2 && wide == 2) _tile_stored(3, c + 16 * ldc + 16, step);
}

CODE static void multiply_tiles(const char *a, const char *b, int64_t k, int high, int wide, float *c,
                                int64_t ldc, struct pd_amx_packing *packing, int rows)
{
    if (high == 2 && wide == 2)
        multiply(a, b, k, 2, 2, c, ldc, packing, rows);
    else if (high == 2)
        multiply(a, b, k, 2, 1, c, ldc, packing, rows);
    else if (wide == 2)
        multiply(a, b, k, 1, 2, c, ldc, packing, rows);
    else
        multiply(a, b, k, 1, 1, c, ldc, packing, rows);
}

/* Sums that start at 0 keep more digits than sums that start at the C of earlier blocks of k. */
CODE static void add_square(const struct pd_amx_square *c, float (*square)[PD_AMX_PANEL])
{
    const __m512 beta = _mm512_set1_ps(c->beta);
    for (int64_t i = 0; i < c->high; i++)
        for (int64_t j = 0; j < c->wide; j += 16) {
            __mmask16 mask = first_lanes(c->wide - j);
            float *at = c->at + i * c->ld + j;
            __m512 sum = _mm512_load_ps(square[i] + j);
            if (c->beta != 0) sum = _mm512_fmadd_ps(beta, _mm512_maskz_loadu_ps(mask, at), sum);
            _mm512_mask_storeu_ps(at, mask, sum);
        }
}

void pd_amx_multiply(const char *a, const char *b, int64_t k, const struct pd_amx_square *c,
                     struct pd_amx_packing *packing, int rows)
{
    int high = c->high > PD_AMX_LANES ? 2 : 1, wide = c->wide > PD_AMX_LANES ? 2 : 1;
    if (c->beta == 0 && c->high % PD_AMX_LANES == 0 && c->wide % PD_AMX_LANES == 0) {
        multiply_tiles(a, b, k, high, wide, c->at, c->ld, packing, rows);
        return;
    }
    _Alignas(64) float square[PD_AMX_PANEL][PD_AMX_PANEL];
    multiply_tiles(a, b, k, high, wide, square[0], PD_AMX_PANEL, packing, rows);
    add_square(c, square);
}

#else
/* No file of C may be empty. */
typedef int pd_amx_tiles_are_left_out;
#endif
