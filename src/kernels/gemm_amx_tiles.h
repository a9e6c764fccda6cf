/* The two steps of gemm_amx.c that know about tiles: packing an operand, and multiplying packed ones. Private
 * to it.
 *
 * A tile has 16 rows of 64 bytes, that is 16 pairs of bfloat16. For A a row is one row of the matrix with 32
 * numbers of k; for B it is two numbers of k of 16 columns. Pair i joins k = i and k = i + 16 of a block of
 * 32, which saves the packing all permutations and changes nothing else, since A and B agree on it.
 *
 * A panel is two tiles side by side: 32 rows of A or columns of B. For each block of 32 numbers of k a packed
 * panel has both tiles of the first parts, of the second and of the third. */
#ifndef PD_KERNELS_GEMM_AMX_TILES_H
#define PD_KERNELS_GEMM_AMX_TILES_H

#include <stdint.h>

#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__) &&                 \
    !defined(PD_SANITIZED)
#if __GNUC__ >= 11
#define PD_WITH_AMX 1
#endif
#endif

enum {
    PD_AMX_LANES = 16,             /* rows of A or columns of B in a tile */
    PD_AMX_PANEL = 32,             /* ... and in a panel */
    PD_AMX_DEPTH = 32,             /* numbers of k in a block */
    PD_AMX_TILE_BYTES = 1024,      /* of one tile */
    PD_AMX_PARTS = 3,              /* bfloat16 parts of a number */
    PD_AMX_BLOCK_BYTES = 6 * 1024, /* of a panel, for one block */
};

/* One operand: `width` rows of A or columns of B, each with `k` numbers. In memory the numbers of k lie side
 * by side
 * (`k_inner`) or the rows/columns do; `ld` is the step of the other one. */
struct pd_amx_operand {
    const float *at;
    int64_t ld, width, k;
    int k_inner, is_a;
    float scale; /* each number is multiplied by it */
};

/* The packing of one panel, which can go on in small steps while products run: they leave the vector units
 * idle. */
struct pd_amx_packing {
    const struct pd_amx_operand *from; /* NULL: nothing is left to do */
    int64_t lane, block, block_end;
    char *to;
    int tile, row, low_rows, high_rows;
    uint16_t low_mask, high_mask;
    int64_t ld;
    const float *low, *high;
    _Alignas(64) float turned[2][16][16];
};

/* Starts to pack blocks [block, block_end) of a panel to `to`, which is 64-byte aligned. What lies past the
 * edge of the matrix becomes 0; a second tile that lies wholly past it is left out. Borrows `from`. */
void pd_amx_pack_start(struct pd_amx_packing *packing, const struct pd_amx_operand *from, int64_t panel,
                       int64_t block, int64_t block_end, char *to);
/* Packs what is left. */
void pd_amx_pack_finish(struct pd_amx_packing *packing);

/* The largest magnitude, as the bits of a float without its sign (so that NaN is above all), in part `part`
 * of `parts` of the operand. */
uint32_t pd_amx_largest(const struct pd_amx_operand *from, int64_t part, int64_t parts);

/* A thread that multiplies calls the first before and the second after. */
void pd_amx_tiles_on(void);
void pd_amx_tiles_off(void);

/* A part of C, at most 32 x 32. */
struct pd_amx_square {
    float *at;
    int64_t ld, high, wide;
    float beta; /* C is multiplied by it before the product is added; with 0 it is not read */
};

/* C = beta C + A B with packed panels over `k` numbers of k. With each block of k `rows` rows of `packing`
 * are packed; that one may have nothing left to do. */
void pd_amx_multiply(const char *a, const char *b, int64_t k, const struct pd_amx_square *c,
                     struct pd_amx_packing *packing, int rows);

#endif
