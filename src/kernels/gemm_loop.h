/* Our own matrix products for one element type; included by gemm_plain.c once per type with T and F(name)
 * defined.
 *
 * All loops see the operands as strided: a(i,p) = a[i*ai + p*ap], b(p,j) = b[p*bp + j*bj], c(i,j) = c[i*ci +
 * j*cj]. A sum over p runs in the same order whatever the number of threads. */

struct F(view) {
    int64_t m, n, k;
    T alpha, beta;
    const T *a, *b;
    T *c;
    int64_t ai, ap, bp, bj, ci, cj;
};

/* Operands as callers of gemm.h name them. */
static struct F(view) F(view_of)(const struct pd_gemm *g)
{
    return (struct F(view)){.m = g->m,
                            .n = g->n,
                            .k = g->k,
                            .alpha = (T)g->alpha,
                            .beta = (T)g->beta,
                            .a = g->a.at,
                            .b = g->b.at,
                            .c = g->c,
                            .ai = g->a.trans ? 1 : g->a.ld,
                            .ap = g->a.trans ? g->a.ld : 1,
                            .bp = g->b.trans ? 1 : g->b.ld,
                            .bj = g->b.trans ? g->b.ld : 1,
                            .ci = g->ldc,
                            .cj = 1};
}

enum { F(LANES) = 32 / sizeof(T), F(COLS) = 2 * F(LANES), F(ROWS) = 6, F(DEPTH) = 256 };
typedef T F(vec) __attribute__((vector_size(32)));

static inline __attribute__((always_inline)) void F(put)(T *c, T sum, T alpha, T beta)
{
    *c = alpha * sum + (beta == 0 ? 0 : beta * *c);
}

/* `rows` x `vecs` vectors of C at (i, j), kept in registers over all of k. Lanes before `skip` are not
 * stored: a last vector may overlap the one before it. `rows` and `vecs` are constants where this is called.
 */
static inline __attribute__((always_inline)) void F(panel)(const struct F(view) * v, int64_t i, int rows,
                                                           int64_t j, int vecs, int64_t skip)
{
    F(vec) acc[4][2];
    memset(acc, 0, sizeof acc);
    const T *a = v->a + i * v->ai, *b = v->b + j;
    for (int64_t p = 0; p < v->k; p++, a += v->ap, b += v->bp) {
        F(vec) b0, b1;
        memcpy(&b0, b, 32);
        if (vecs == 2) memcpy(&b1, b + F(LANES), 32);
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) {
            T s = a[r * v->ai];
            acc[r][0] += s * b0;
            if (vecs == 2) acc[r][1] += s * b1;
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++) {
        T *c = v->c + (i + r) * v->ci + j;
        if (v->beta == 0 && skip == 0) {
            acc[r][0] *= v->alpha;
            memcpy(c, &acc[r][0], 32);
            if (vecs == 2) {
                acc[r][1] *= v->alpha;
                memcpy(c + F(LANES), &acc[r][1], 32);
            }
        } else {
            T sums[F(COLS)];
            memcpy(sums, acc[r], sizeof sums);
            for (int64_t l = skip; l < vecs * F(LANES); l++)
                F(put)(c + l, sums[l], v->alpha, v->beta);
        }
    }
}

/* Fewer columns than a vector has lanes. */
static inline __attribute__((always_inline)) void F(narrow)(const struct F(view) * v, int64_t i, int rows)
{
    for (int64_t j = 0; j < v->n; j++) {
        T sum[4] = {0};
        const T *a = v->a + i * v->ai, *b = v->b + j;
        for (int64_t p = 0; p < v->k; p++, a += v->ap, b += v->bp)
#pragma GCC unroll 4
            for (int r = 0; r < rows; r++)
                sum[r] += a[r * v->ai] * *b;
        for (int r = 0; r < rows; r++)
            F(put)(v->c + (i + r) * v->ci + j, sum[r], v->alpha, v->beta);
    }
}

static inline __attribute__((always_inline)) void F(row_group)(const struct F(view) * v, int64_t i, int rows)
{
    int64_t n = v->n, j = 0;
    if (n < F(LANES)) {
        F(narrow)(v, i, rows);
        return;
    }
    for (; j + F(COLS) <= n; j += F(COLS))
        F(panel)(v, i, rows, j, 2, 0);
    for (; j + F(LANES) <= n; j += F(LANES))
        F(panel)(v, i, rows, j, 1, 0);
    if (j < n) F(panel)(v, i, rows, n - F(LANES), 1, F(LANES) - (n - j));
}

/* Rows of B are contiguous. */
PD_CLONES static void F(by_rows)(const struct F(view) * v)
{
    int64_t i = 0;
    for (; i + 4 <= v->m; i += 4)
        F(row_group)(v, i, 4);
    for (; i < v->m; i++)
        F(row_group)(v, i, 1);
}

/* Dot products of `x` with four vectors `step` apart. */
static inline __attribute__((always_inline)) void F(four_dots)(int64_t k, const T *x, const T *y,
                                                               int64_t step, T *out)
{
    const T *y0 = y, *y1 = y + step, *y2 = y + 2 * step, *y3 = y + 3 * step;
    T s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    int64_t p = 0;
    if (k >= F(LANES)) {
        F(vec) v0 = {0}, v1 = {0}, v2 = {0}, v3 = {0};
        for (; p + F(LANES) <= k; p += F(LANES)) {
            F(vec) vx, t0, t1, t2, t3;
            memcpy(&vx, x + p, 32);
            memcpy(&t0, y0 + p, 32);
            memcpy(&t1, y1 + p, 32);
            memcpy(&t2, y2 + p, 32);
            memcpy(&t3, y3 + p, 32);
            v0 += vx * t0;
            v1 += vx * t1;
            v2 += vx * t2;
            v3 += vx * t3;
        }
        for (int l = 0; l < F(LANES); l++) {
            s0 += v0[l];
            s1 += v1[l];
            s2 += v2[l];
            s3 += v3[l];
        }
    }
    for (; p < k; p++) {
        s0 += x[p] * y0[p];
        s1 += x[p] * y1[p];
        s2 += x[p] * y2[p];
        s3 += x[p] * y3[p];
    }
    out[0] = s0, out[1] = s1, out[2] = s2, out[3] = s3;
}

/* Rows of A and columns of B are contiguous: each element of C is a dot product. Four at a time share one
 * operand. */
PD_CLONES static void F(by_dots)(const struct F(view) * v)
{
    T sum[4];
    if (v->n == 1) {
        int64_t i = 0;
        for (; i + 4 <= v->m; i += 4) {
            F(four_dots)(v->k, v->b, v->a + i * v->ai, v->ai, sum);
            for (int l = 0; l < 4; l++)
                F(put)(v->c + (i + l) * v->ci, sum[l], v->alpha, v->beta);
        }
        for (; i < v->m; i++) {
            F(four_dots)(v->k, v->b, v->a + i * v->ai, 0, sum);
            F(put)(v->c + i * v->ci, sum[0], v->alpha, v->beta);
        }
        return;
    }
    for (int64_t i = 0; i < v->m; i++) {
        const T *a = v->a + i * v->ai;
        T *c = v->c + i * v->ci;
        int64_t j = 0;
        for (; j + 4 <= v->n; j += 4) {
            F(four_dots)(v->k, a, v->b + j * v->bj, v->bj, sum);
            for (int l = 0; l < 4; l++)
                F(put)(c + (j + l) * v->cj, sum[l], v->alpha, v->beta);
        }
        for (; j < v->n; j++) {
            F(four_dots)(v->k, a, v->b + j * v->bj, 0, sum);
            F(put)(c + j * v->cj, sum[0], v->alpha, v->beta);
        }
    }
}

static void F(by_elements)(const struct F(view) * v)
{
    for (int64_t i = 0; i < v->m; i++)
        for (int64_t j = 0; j < v->n; j++) {
            T sum = 0;
            for (int64_t p = 0; p < v->k; p++)
                sum += v->a[i * v->ai + p * v->ap] * v->b[p * v->bp + j * v->bj];
            F(put)(v->c + i * v->ci + j * v->cj, sum, v->alpha, v->beta);
        }
}

/* Products too small to be worth packing. */
static void F(small)(struct F(view) * v)
{
    /* A dimension of one has no stride to speak of. */
    if (v->m == 1) v->ai = v->ci = 1;
    if (v->n == 1) v->bj = 1;
    if (v->k == 1) v->ap = v->bp = 1;
    if (v->n < 4 && v->m > v->n && v->ci == 1 && v->ai == 1) {
        /* A narrow column of results: work on the transposed product, whose rows are long. */
        struct F(view) t = {.m = v->n,
                            .n = v->m,
                            .k = v->k,
                            .alpha = v->alpha,
                            .beta = v->beta,
                            .a = v->b,
                            .b = v->a,
                            .c = v->c,
                            .ai = v->bj,
                            .ap = v->bp,
                            .bp = v->ap,
                            .bj = v->ai,
                            .ci = v->cj,
                            .cj = v->ci};
        F(by_rows)(&t);
    } else if (v->ap == 1 && v->bp == 1 && (v->bj != 1 || v->n == 1) && v->k > 1) {
        F(by_dots)(v);
    } else if (v->bj == 1 && (v->cj == 1 || v->n == 1)) {
        F(by_rows)(v);
    } else {
        F(by_elements)(v);
    }
}

/* ---- the blocked product: strips of A and B are packed so that the inner loop reads them in order ---- */

/* ROWS x COLS of C from packed strips, kept in registers over the whole depth. */
PD_CLONES static void F(tile)(int64_t depth, const T *a, const T *b, T *out)
{
    F(vec) acc[F(ROWS)][2];
    memset(acc, 0, sizeof acc);
    for (int64_t p = 0; p < depth; p++) {
        F(vec) b0, b1;
        memcpy(&b0, b, 32);
        memcpy(&b1, b + F(LANES), 32);
#pragma GCC unroll 6
        for (int i = 0; i < F(ROWS); i++) {
            acc[i][0] += a[i] * b0;
            acc[i][1] += a[i] * b1;
        }
        a += F(ROWS);
        b += F(COLS);
    }
    memcpy(out, acc, sizeof acc);
}

struct F(blocked) {
    const struct F(view) * v;
    T *packed_a, *packed_b;
    int64_t p0, depth;
};

static void F(pack_b)(void *arg, int64_t begin, int64_t end)
{
    struct F(blocked) *w = arg;
    const struct F(view) *v = w->v;
    for (int64_t s = begin; s < end; s++) {
        T *to = w->packed_b + s * F(COLS) * w->depth;
        int64_t cols = v->n - s * F(COLS) < F(COLS) ? v->n - s * F(COLS) : F(COLS);
        for (int64_t p = 0; p < w->depth; p++) {
            const T *from = v->b + (w->p0 + p) * v->bp + s * F(COLS) * v->bj;
            for (int64_t j = 0; j < F(COLS); j++)
                to[p * F(COLS) + j] = j < cols ? from[j * v->bj] : 0;
        }
    }
}

static void F(pack_a)(void *arg, int64_t begin, int64_t end)
{
    struct F(blocked) *w = arg;
    const struct F(view) *v = w->v;
    for (int64_t s = begin; s < end; s++) {
        T *to = w->packed_a + s * F(ROWS) * w->depth;
        int64_t rows = v->m - s * F(ROWS) < F(ROWS) ? v->m - s * F(ROWS) : F(ROWS);
        for (int64_t p = 0; p < w->depth; p++)
            for (int64_t i = 0; i < F(ROWS); i++)
                to[p * F(ROWS) + i] = i < rows ? v->a[(s * F(ROWS) + i) * v->ai + (w->p0 + p) * v->ap] : 0;
    }
}

/* Tiles are numbered column strip by column strip, so that a strip of B stays near. */
static void F(multiply)(void *arg, int64_t begin, int64_t end)
{
    struct F(blocked) *w = arg;
    const struct F(view) *v = w->v;
    int64_t row_strips = (v->m + F(ROWS) - 1) / F(ROWS);
    T tile[F(ROWS) * F(COLS)];
    for (int64_t t = begin; t < end; t++) {
        int64_t sj = t / row_strips, si = t % row_strips;
        F(tile)(w->depth, w->packed_a + si * F(ROWS) * w->depth, w->packed_b + sj * F(COLS) * w->depth, tile);
        int64_t rows = v->m - si * F(ROWS) < F(ROWS) ? v->m - si * F(ROWS) : F(ROWS);
        int64_t cols = v->n - sj * F(COLS) < F(COLS) ? v->n - sj * F(COLS) : F(COLS);
        T beta = w->p0 == 0 ? v->beta : 1;
        for (int64_t i = 0; i < rows; i++) {
            T *c = v->c + (si * F(ROWS) + i) * v->ci + sj * F(COLS) * v->cj;
            const T *from = tile + i * F(COLS);
            for (int64_t j = 0; j < cols; j++)
                c[j * v->cj] = v->alpha * from[j] + (beta == 0 ? 0 : beta * c[j * v->cj]);
        }
    }
}

static void F(large)(struct F(view) * v)
{
    int64_t row_strips = (v->m + F(ROWS) - 1) / F(ROWS), col_strips = (v->n + F(COLS) - 1) / F(COLS);
    int64_t depth = v->k < F(DEPTH) ? v->k : F(DEPTH);
    size_t a_size = (size_t)(row_strips * F(ROWS) * depth), b_size = (size_t)(col_strips * F(COLS) * depth);
    T *packed = pd_malloc_aligned((a_size + b_size + 16) * sizeof(T));
    if (!packed) {
        F(small)(v);
        return;
    }
    struct F(blocked) w = {.v = v, .packed_b = packed, .packed_a = packed + b_size};
    for (w.p0 = 0; w.p0 < v->k; w.p0 += w.depth) {
        w.depth = v->k - w.p0 < F(DEPTH) ? v->k - w.p0 : F(DEPTH);
        pd_parallel(col_strips, 65536 / (F(COLS) * w.depth) + 1, F(pack_b), &w);
        pd_parallel(row_strips, 65536 / (F(ROWS) * w.depth) + 1, F(pack_a), &w);
        pd_parallel(row_strips * col_strips, 262144 / (F(ROWS) * F(COLS) * w.depth) + 1, F(multiply), &w);
    }
    pd_free_aligned(packed);
}
