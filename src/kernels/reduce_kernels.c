/* The loops of reductions. Folding a row keeps 16 running results, so that gcc can use vectors and so that
 * long sums stay exact enough; float32 sums carry on in double after each block. */
#include <math.h>
#include <stdint.h>

#include "kernels/clones.h"
#include "kernels/larger.h"
#include "kernels/reduce.h"

#define LANES 16
#define BLOCK 512
#define NAN_BLOCK 4096
#define NO_CLONES

/* `each` turns an element v into what is combined; `both` combines a and b. */
#define FOLD(name, clones, T, WIDE, zero, each, both)                                                        \
    clones static void name##_fold(void *acc_, const void *x_, int64_t n)                                    \
    {                                                                                                        \
        const T *x = x_;                                                                                     \
        WIDE total = *(T *)acc_;                                                                             \
        int64_t i = 0;                                                                                       \
        while (i + LANES <= n) {                                                                             \
            T lane[LANES];                                                                                   \
            int64_t stop = n - i > BLOCK ? i + BLOCK : n;                                                    \
            for (int l = 0; l < LANES; l++)                                                                  \
                lane[l] = zero;                                                                              \
            for (; i + LANES <= stop; i += LANES) {                                                          \
                for (int l = 0; l < LANES; l++) {                                                            \
                    const T v = x[i + l], a = lane[l], b = (each);                                           \
                    lane[l] = (both);                                                                        \
                }                                                                                            \
            }                                                                                                \
            for (int l = 0; l < LANES; l++) {                                                                \
                const WIDE a = total, b = lane[l];                                                           \
                total = (both);                                                                              \
            }                                                                                                \
        }                                                                                                    \
        for (; i < n; i++) {                                                                                 \
            const T v = x[i];                                                                                \
            const WIDE a = total, b = (each);                                                                \
            total = (both);                                                                                  \
        }                                                                                                    \
        *(T *)acc_ = (T)total;                                                                               \
    }

#define MERGE(name, clones, T, each, both)                                                                   \
    clones static void name(void *acc_, const void *x_, int64_t n, int64_t rows, int64_t step)               \
    {                                                                                                        \
        T *acc = acc_;                                                                                       \
        int64_t row = 0;                                                                                     \
        for (; row + 2 <= rows; row += 2) {                                                                  \
            const T *x0 = (const T *)x_ + row * step, *x1 = x0 + step;                                       \
            _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++)                                             \
            {                                                                                                \
                T v = x0[i], a = (each), b;                                                                  \
                v = x1[i];                                                                                   \
                b = (each);                                                                                  \
                b = (both);                                                                                  \
                a = acc[i];                                                                                  \
                acc[i] = (both);                                                                             \
            }                                                                                                \
        }                                                                                                    \
        for (; row < rows; row++) {                                                                          \
            const T *x0 = (const T *)x_ + row * step;                                                        \
            _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++)                                             \
            {                                                                                                \
                const T v = x0[i], b = (each), a = acc[i];                                                   \
                acc[i] = (both);                                                                             \
            }                                                                                                \
        }                                                                                                    \
    }

#define REDUCTION(name, clones, T, WIDE, first, each, both)                                                  \
    static const T name##_start = first;                                                                     \
    FOLD(name, clones, T, WIDE, name##_start, each, both)                                                    \
    MERGE(name##_merge, clones, T, each, both)

/* The largest or the smallest of a row, whose loop does not see NaN; block by block, so that the search finds
 * the elements in the cache. */
#define KEEPING_NAN(name, T)                                                                                 \
    PD_HAS_NAN(name##_has_nan, T)                                                                            \
    static void name##_fold_all(void *acc_, const void *x_, int64_t n)                                       \
    {                                                                                                        \
        T *acc = acc_;                                                                                       \
        const T *x = x_;                                                                                     \
        for (int64_t i = 0; i < n && *acc == *acc; i += NAN_BLOCK) {                                         \
            int64_t part = n - i < NAN_BLOCK ? n - i : NAN_BLOCK;                                            \
            name##_fold(acc, x + i, part);                                                                   \
            if (name##_has_nan(x + i, part)) *acc = (T)NAN;                                                  \
        }                                                                                                    \
    }

#define PLAIN(name)                                                                                          \
    {                                                                                                        \
        sizeof(name##_start), &name##_start, name##_fold, name##_merge, name##_merge                         \
    }

#define WITH_NAN(name)                                                                                       \
    {                                                                                                        \
        sizeof(name##_start), &name##_start, name##_fold_all, name##_merge, name##_merge                     \
    }

#define LARGER (a > b ? a : b)
#define SMALLER (a < b ? a : b)
/* `both` of a fold and of a merge. */
#define EXTREME(name, T, first, fold, merge)                                                                 \
    static const T name##_start = first;                                                                     \
    FOLD(name, PD_CLONES, T, T, name##_start, v, fold)                                                       \
    KEEPING_NAN(name, T)                                                                                     \
    MERGE(name##_merge, PD_CLONES, T, v, merge)

/* Formulas: clang-format would take their products for declarations. */
/* clang-format off */
REDUCTION(sum_f32, PD_CLONES, float, double, 0, v, a + b)
REDUCTION(sum_f64, PD_CLONES, double, double, 0, v, a + b)
REDUCTION(sum_i32, NO_CLONES, int32_t, int32_t, 0, v, (int32_t)((uint32_t)a + (uint32_t)b))
REDUCTION(sum_i64, NO_CLONES, int64_t, int64_t, 0, v, (int64_t)((uint64_t)a + (uint64_t)b))
EXTREME(max_f32, float, -INFINITY, LARGER, PD_LARGER(a, b))
EXTREME(max_f64, double, -INFINITY, LARGER, PD_LARGER(a, b))
REDUCTION(max_i32, NO_CLONES, int32_t, int32_t, INT32_MIN, v, LARGER)
REDUCTION(max_i64, NO_CLONES, int64_t, int64_t, INT64_MIN, v, LARGER)
REDUCTION(max_u8, NO_CLONES, uint8_t, uint8_t, 0, v != 0, LARGER)
EXTREME(min_f32, float, INFINITY, SMALLER, PD_SMALLER(a, b))
EXTREME(min_f64, double, INFINITY, SMALLER, PD_SMALLER(a, b))
REDUCTION(min_i32, NO_CLONES, int32_t, int32_t, INT32_MAX, v, SMALLER)
REDUCTION(min_i64, NO_CLONES, int64_t, int64_t, INT64_MAX, v, SMALLER)
REDUCTION(min_u8, NO_CLONES, uint8_t, uint8_t, 1, v != 0, SMALLER)
REDUCTION(prod_f32, PD_CLONES, float, double, 1, v, a * b)
REDUCTION(prod_f64, PD_CLONES, double, double, 1, v, a * b)
REDUCTION(prod_i32, NO_CLONES, int32_t, int32_t, 1, v, (int32_t)((uint32_t)a * (uint32_t)b))
REDUCTION(prod_i64, NO_CLONES, int64_t, int64_t, 1, v, (int64_t)((uint64_t)a * (uint64_t)b))
REDUCTION(square_f32, PD_CLONES, float, double, 0, v * v, a + b)
REDUCTION(square_f64, PD_CLONES, double, double, 0, v * v, a + b)
REDUCTION(abs_f32, PD_CLONES, float, double, 0, v < 0 ? -v : v, a + b)
REDUCTION(abs_f64, PD_CLONES, double, double, 0, v < 0 ? -v : v, a + b)
/* clang-format on */

const struct pd_reduce_kernel pd_reduce_sum[PD_REDUCE_TYPES] = {PLAIN(sum_f32), PLAIN(sum_f64),
                                                                PLAIN(sum_i32), PLAIN(sum_i64)};
const struct pd_reduce_kernel pd_reduce_max[PD_REDUCE_TYPES] = {
    WITH_NAN(max_f32), WITH_NAN(max_f64), PLAIN(max_i32), PLAIN(max_i64), PLAIN(max_u8)};
const struct pd_reduce_kernel pd_reduce_min[PD_REDUCE_TYPES] = {
    WITH_NAN(min_f32), WITH_NAN(min_f64), PLAIN(min_i32), PLAIN(min_i64), PLAIN(min_u8)};
const struct pd_reduce_kernel pd_reduce_prod[PD_REDUCE_TYPES] = {PLAIN(prod_f32), PLAIN(prod_f64),
                                                                 PLAIN(prod_i32), PLAIN(prod_i64)};
#define JOINED(name, sum)                                                                                    \
    {                                                                                                        \
        sizeof(name##_start), &name##_start, name##_fold, name##_merge, sum##_merge                          \
    }
const struct pd_reduce_kernel pd_reduce_square[PD_REDUCE_TYPES] = {JOINED(square_f32, sum_f32),
                                                                   JOINED(square_f64, sum_f64)};
const struct pd_reduce_kernel pd_reduce_abs[PD_REDUCE_TYPES] = {JOINED(abs_f32, sum_f32),
                                                                JOINED(abs_f64, sum_f64)};
