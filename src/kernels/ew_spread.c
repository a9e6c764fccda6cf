/* See ew_spread.h. */
#include "kernels/ew_spread.h"

#include "kernels/clones.h"

/* x is never repeated: the result has the full shape. Arrays that the formula does not name must be readable
 * as well. */
#define SPREAD(name, clones, T, expr)                                                                        \
    clones static void name(const struct pd_spread_arrays *a, const struct pd_tile *t)                       \
    {                                                                                                        \
        const T scale = (T)a->scale;                                                                         \
        const int64_t n = t->n;                                                                              \
        (void)scale;                                                                                         \
        for (int64_t row = 0; row < t->rows; row++) {                                                        \
            const T *xs = (const T *)a->x + t->at + row * n;                                                 \
            const T *outs = (const T *)a->out + t->y + row * t->y_row;                                       \
            const T *douts = (const T *)a->dout + t->y + row * t->y_row;                                     \
            T *to = (T *)a->to + t->at + row * n;                                                            \
            if (t->y_step) {                                                                                 \
                _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++)                                         \
                {                                                                                            \
                    const T x = xs[i], out = outs[i], dout = douts[i];                                       \
                    (void)x, (void)out;                                                                      \
                    to[i] = (T)(expr);                                                                       \
                }                                                                                            \
            } else {                                                                                         \
                const T out = outs[0], dout = douts[0];                                                      \
                (void)out;                                                                                   \
                _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++)                                         \
                {                                                                                            \
                    const T x = xs[i];                                                                       \
                    (void)x;                                                                                 \
                    to[i] = (T)(expr);                                                                       \
                }                                                                                            \
            }                                                                                                \
        }                                                                                                    \
    }

#define TABLE(name, expr, whole)                                                                             \
    SPREAD(name##_f32, PD_CLONES, float, expr)                                                               \
    SPREAD(name##_f64, PD_CLONES, double, expr)                                                              \
    SPREAD(name##_i32, , int32_t, whole)                                                                     \
    SPREAD(name##_i64, , int64_t, whole)                                                                     \
    const pd_spread_kernel pd_spread_##name[4] = {name##_f32, name##_f64, name##_i32, name##_i64};

/* Formulas: clang-format would take their products for declarations. */
/* clang-format off */
TABLE(scaled, dout * scale, (double)dout * a->scale)
TABLE(equal, x == out ? dout : 0, x == out ? dout : 0)
TABLE(prod, dout * out / x, x == 0 ? 0 : (double)dout * (double)out / (double)x)
/* clang-format on */
