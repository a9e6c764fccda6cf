/* The loops of elementwise kernels, written once: private to the ew_*.c files. */
#ifndef PD_KERNELS_EW_TILE_H
#define PD_KERNELS_EW_TILE_H

#include "kernels/clones.h"
#include "kernels/ew_binary.h"
#include "kernels/ew_math.h"

/* The result may lie where an operand lies, element on element: ivdep says that nothing else overlaps. */
#define PD_EW_LOOP(n) _Pragma("GCC ivdep") for (int64_t i = 0; i < (n); i++)

/* A kernel named `name` from T operands to an R result; `expr` is a formula in x and y. */
#define PD_EW_BINARY(name, clones, T, R, expr)                                                               \
    clones static void name(const struct pd_ew_arrays *a, const struct pd_tile *t)                           \
    {                                                                                                        \
        const int64_t n = t->n;                                                                              \
        for (int64_t row = 0; row < t->rows; row++) {                                                        \
            const T *xs = (const T *)a->x + t->x + row * t->x_row;                                           \
            const T *ys = (const T *)a->y + t->y + row * t->y_row;                                           \
            R *to = (R *)a->to + t->at + row * n;                                                            \
            if (t->x_step && t->y_step) {                                                                    \
                PD_EW_LOOP(n)                                                                                \
                {                                                                                            \
                    const T x = xs[i], y = ys[i];                                                            \
                    to[i] = (expr);                                                                          \
                }                                                                                            \
            } else if (t->x_step) {                                                                          \
                const T y = ys[0];                                                                           \
                PD_EW_LOOP(n)                                                                                \
                {                                                                                            \
                    const T x = xs[i];                                                                       \
                    to[i] = (expr);                                                                          \
                }                                                                                            \
            } else {                                                                                         \
                const T x = xs[0];                                                                           \
                PD_EW_LOOP(n)                                                                                \
                {                                                                                            \
                    const T y = ys[i];                                                                       \
                    to[i] = (expr);                                                                          \
                }                                                                                            \
            }                                                                                                \
        }                                                                                                    \
    }

/* The same with out and dout in the formula. All four arrays must be readable, also those it does not name.
 */
#define PD_EW_GRADIENT(name, clones, T, expr)                                                                \
    clones static void name(const struct pd_ew_arrays *a, const struct pd_tile *t)                           \
    {                                                                                                        \
        const int64_t n = t->n;                                                                              \
        for (int64_t row = 0; row < t->rows; row++) {                                                        \
            const T *xs = (const T *)a->x + t->x + row * t->x_row;                                           \
            const T *ys = (const T *)a->y + t->y + row * t->y_row;                                           \
            const T *outs = (const T *)a->out + t->at + row * n;                                             \
            const T *douts = (const T *)a->dout + t->at + row * n;                                           \
            T *to = (T *)a->to + t->at + row * n;                                                            \
            if (t->x_step && t->y_step) {                                                                    \
                PD_EW_LOOP(n)                                                                                \
                {                                                                                            \
                    const T x = xs[i], y = ys[i], out = outs[i], dout = douts[i];                            \
                    (void)x, (void)y, (void)out;                                                             \
                    to[i] = (expr);                                                                          \
                }                                                                                            \
            } else if (t->x_step) {                                                                          \
                const T y = ys[0];                                                                           \
                PD_EW_LOOP(n)                                                                                \
                {                                                                                            \
                    const T x = xs[i], out = outs[i], dout = douts[i];                                       \
                    (void)x, (void)y, (void)out;                                                             \
                    to[i] = (expr);                                                                          \
                }                                                                                            \
            } else {                                                                                         \
                const T x = xs[0];                                                                           \
                PD_EW_LOOP(n)                                                                                \
                {                                                                                            \
                    const T y = ys[i], out = outs[i], dout = douts[i];                                       \
                    (void)x, (void)y, (void)out;                                                             \
                    to[i] = (expr);                                                                          \
                }                                                                                            \
            }                                                                                                \
        }                                                                                                    \
    }

#endif
