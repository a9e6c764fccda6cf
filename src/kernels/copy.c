/* See copy.h. The work is cut into units (rows, or bands of a transposed tile) that threads share. */
#include "kernels/copy.h"

#include <string.h>

#include "base/parallel.h"
#include "kernels/clones.h"

#define GRAIN (128 * 1024) /* bytes worth a thread */
#define BAND 32            /* rows of a transposed tile in one unit */
#define BLOCK 16           /* side of the squares that a transposed tile is walked in */

enum { ROWS, TILES, STRIDED };

void pd_copy_steps(int rank, const int64_t *dim, int64_t *step)
{
    int64_t n = 1;
    for (int i = rank - 1; i >= 0; i--) {
        step[i] = n;
        n *= dim[i];
    }
}

/* Moves dimension `at` to position `to`, the ones between go one down. */
static void move_dim(struct pd_copy *c, int at, int to)
{
    int64_t d = c->dim[at], t = c->to_step[at], f = c->from_step[at];
    for (int i = at; i < to; i++) {
        c->dim[i] = c->dim[i + 1];
        c->to_step[i] = c->to_step[i + 1];
        c->from_step[i] = c->from_step[i + 1];
    }
    c->dim[to] = d, c->to_step[to] = t, c->from_step[to] = f;
}

void pd_copy_make(struct pd_copy *c, size_t item, int rank, const int64_t *dim, const int64_t *to_step,
                  const int64_t *from_step)
{
    int n = 0;
    c->item = item;
    c->count = 1;
    for (int i = 0; i < rank; i++) {
        c->count *= dim[i];
        if (dim[i] == 1) continue;
        if (n && c->to_step[n - 1] == to_step[i] * dim[i] && c->from_step[n - 1] == from_step[i] * dim[i]) {
            c->dim[n - 1] *= dim[i];
            c->to_step[n - 1] = to_step[i], c->from_step[n - 1] = from_step[i];
            continue;
        }
        c->dim[n] = dim[i], c->to_step[n] = to_step[i], c->from_step[n] = from_step[i];
        n++;
    }
    if (n == 0) c->dim[0] = 1, c->to_step[0] = c->from_step[0] = 1, n = 1;
    c->rank = n;
    for (int i = n - 2; i >= 0 && c->to_step[n - 1] != 1; i--)
        if (c->to_step[i] == 1) move_dim(c, i, n - 1);
    c->kind = STRIDED;
    if (c->to_step[n - 1] != 1) return;
    if (c->from_step[n - 1] == 1) {
        c->kind = ROWS;
        return;
    }
    for (int i = n - 2; i >= 0; i--)
        if (c->from_step[i] == 1) {
            move_dim(c, i, n - 2);
            c->kind = TILES;
            return;
        }
}

/* ---- inner loops, one set per element size ---- */

#define LOOPS(T)                                                                                             \
    /* to[r][k] = from[k][r]: rows of `to` are columns of `from` */                                          \
    PD_CLONES static void tile_##T(T *restrict to, int64_t to_row, const T *restrict from, int64_t from_row, \
                                   int64_t rows, int64_t n)                                                  \
    {                                                                                                        \
        for (int64_t r0 = 0; r0 < rows; r0 += BLOCK) {                                                       \
            int64_t r1 = r0 + BLOCK < rows ? r0 + BLOCK : rows;                                              \
            for (int64_t k0 = 0; k0 < n; k0 += BLOCK) {                                                      \
                int64_t k1 = k0 + BLOCK < n ? k0 + BLOCK : n;                                                \
                if (r1 - r0 == BLOCK && k1 - k0 == BLOCK) {                                                  \
                    T square[BLOCK][BLOCK];                                                                  \
                    for (int k = 0; k < BLOCK; k++)                                                          \
                        for (int r = 0; r < BLOCK; r++)                                                      \
                            square[k][r] = from[(k0 + k) * from_row + r0 + r];                               \
                    for (int r = 0; r < BLOCK; r++)                                                          \
                        for (int k = 0; k < BLOCK; k++)                                                      \
                            to[(r0 + r) * to_row + k0 + k] = square[k][r];                                   \
                } else {                                                                                     \
                    for (int64_t r = r0; r < r1; r++)                                                        \
                        for (int64_t k = k0; k < k1; k++)                                                    \
                            to[r * to_row + k] = from[k * from_row + r];                                     \
                }                                                                                            \
            }                                                                                                \
        }                                                                                                    \
    }                                                                                                        \
    PD_CLONES static void strided_##T(T *restrict to, int64_t to_step, const T *restrict from,               \
                                      int64_t from_step, int64_t n)                                          \
    {                                                                                                        \
        if (to_step == 1 && from_step == 0) {                                                                \
            const T value = *from;                                                                           \
            for (int64_t i = 0; i < n; i++)                                                                  \
                to[i] = value;                                                                               \
        } else if (to_step == 1 && from_step == -1) {                                                        \
            for (int64_t i = 0; i < n; i++)                                                                  \
                to[i] = from[-i];                                                                            \
        } else {                                                                                             \
            for (int64_t i = 0; i < n; i++)                                                                  \
                to[i * to_step] = from[i * from_step];                                                       \
        }                                                                                                    \
    }

LOOPS(uint8_t)
LOOPS(uint16_t)
LOOPS(uint32_t)
LOOPS(uint64_t)

static void tile(size_t item, void *to, int64_t to_row, const void *from, int64_t from_row, int64_t rows,
                 int64_t n)
{
    switch (item) {
    case 1:
        tile_uint8_t(to, to_row, from, from_row, rows, n);
        break;
    case 2:
        tile_uint16_t(to, to_row, from, from_row, rows, n);
        break;
    case 4:
        tile_uint32_t(to, to_row, from, from_row, rows, n);
        break;
    case 8:
        tile_uint64_t(to, to_row, from, from_row, rows, n);
        break;
    }
}

static void strided(size_t item, void *to, int64_t to_step, const void *from, int64_t from_step, int64_t n)
{
    switch (item) {
    case 1:
        strided_uint8_t(to, to_step, from, from_step, n);
        break;
    case 2:
        strided_uint16_t(to, to_step, from, from_step, n);
        break;
    case 4:
        strided_uint32_t(to, to_step, from, from_step, n);
        break;
    case 8:
        strided_uint64_t(to, to_step, from, from_step, n);
        break;
    }
}

/* ---- walking ---- */

struct walk {
    const struct pd_copy *c;
    char *to;
    const char *from;
    int outer;     /* dimensions that the units walk */
    int64_t bands; /* of one tile; 1 for rows */
};

static void unit(const struct walk *w, int64_t band, int64_t to_at, int64_t from_at)
{
    const struct pd_copy *c = w->c;
    const int last = c->rank - 1;
    const int64_t item = (int64_t)c->item;
    char *to = w->to + to_at * item;
    const char *from = w->from + from_at * item;
    if (c->kind == ROWS) {
        memcpy(to, from, (size_t)(c->dim[last] * item));
    } else if (c->kind == STRIDED) {
        strided(c->item, to, c->to_step[last], from, c->from_step[last], c->dim[last]);
    } else {
        int64_t first = band * BAND, rows = c->dim[last - 1] - first < BAND ? c->dim[last - 1] - first : BAND;
        tile(c->item, to + first * c->to_step[last - 1] * item, c->to_step[last - 1], from + first * item,
             c->from_step[last], rows, c->dim[last]);
    }
}

static void run_units(void *arg, int64_t begin, int64_t end)
{
    const struct walk *w = arg;
    const struct pd_copy *c = w->c;
    int64_t at[PD_COPY_RANK], to = 0, from = 0, index = begin / w->bands, band = begin % w->bands;
    for (int i = w->outer - 1; i >= 0; i--) {
        at[i] = index % c->dim[i];
        index /= c->dim[i];
        to += at[i] * c->to_step[i];
        from += at[i] * c->from_step[i];
    }
    for (int64_t u = begin; u < end; u++) {
        unit(w, band, to, from);
        if (++band < w->bands) continue;
        band = 0;
        for (int i = w->outer - 1; i >= 0; i--) {
            to += c->to_step[i], from += c->from_step[i];
            if (++at[i] < c->dim[i]) break;
            to -= at[i] * c->to_step[i], from -= at[i] * c->from_step[i];
            at[i] = 0;
        }
    }
}

void pd_copy_run(const struct pd_copy *c, void *to, const void *from)
{
    if (c->count == 0) return;
    if (c->kind == ROWS && c->rank == 1) {
        pd_copy_bytes(to, from, (size_t)c->count * c->item);
        return;
    }
    struct walk w = {c, to, from, c->kind == TILES ? c->rank - 2 : c->rank - 1, 1};
    int64_t per_unit = c->dim[c->rank - 1] * (int64_t)c->item, units = 1;
    if (c->kind == TILES) {
        w.bands = (c->dim[c->rank - 2] + BAND - 1) / BAND;
        per_unit *= c->dim[c->rank - 2] < BAND ? c->dim[c->rank - 2] : BAND;
    }
    for (int i = 0; i < w.outer; i++)
        units *= c->dim[i];
    pd_parallel(units * w.bands, GRAIN / per_unit + 1, run_units, &w);
}

/* ---- blocks ---- */

struct block {
    char *to;
    const char *from;
};

static void run_bytes(void *arg, int64_t begin, int64_t end)
{
    const struct block *x = arg;
    memcpy(x->to + begin, x->from + begin, (size_t)(end - begin));
}

void pd_copy_bytes(void *to, const void *from, size_t bytes)
{
    if (bytes == 0) return;
    if (bytes < 4 * GRAIN) {
        memcpy(to, from, bytes);
        return;
    }
    struct block x = {.to = to, .from = from};
    pd_parallel((int64_t)bytes, 2 * GRAIN, run_bytes, &x);
}

static void run_zero(void *arg, int64_t begin, int64_t end)
{
    const struct block *x = arg;
    memset(x->to + begin, 0, (size_t)(end - begin));
}

void pd_copy_zero(void *to, size_t bytes)
{
    if (bytes == 0) return;
    if (bytes < 4 * GRAIN) {
        memset(to, 0, bytes);
        return;
    }
    struct block x = {.to = to};
    pd_parallel((int64_t)bytes, 2 * GRAIN, run_zero, &x);
}
