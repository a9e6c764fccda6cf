/* See seq_pool.h. Sequences are dealt out to threads; common widths get loops of their own, so that a row's
 * sum stays in registers. */
#include "kernels/seq_pool.h"

#include <math.h>
#include <string.h>

#include "base/parallel.h"
#include "kernels/clones.h"
#include "kernels/larger.h"

#define MAX_FIXED 64

static double factor(enum pd_seq_pool how, int64_t length)
{
    if (how == PD_SEQ_AVERAGE) return 1.0 / (double)length;
    if (how == PD_SEQ_SQRT) return 1.0 / sqrt((double)length);
    return 1;
}

#define POOL(suffix, T)                                                                                      \
    struct pool_##suffix {                                                                                   \
        enum pd_seq_pool how;                                                                                \
        const T *x;                                                                                          \
        const int64_t *offset;                                                                               \
        int64_t width;                                                                                       \
        T pad;                                                                                               \
        T *out;                                                                                              \
        int32_t *index;                                                                                      \
    };                                                                                                       \
    /* Sums of rows of a width that the compiler knows. */                                                   \
    static inline __attribute__((always_inline)) void sum_fixed_##suffix(                                    \
        const struct pool_##suffix *p, int64_t begin, int64_t end, int width)                                \
    {                                                                                                        \
        for (int64_t s = begin; s < end; s++) {                                                              \
            int64_t from = p->offset[s], to = p->offset[s + 1];                                              \
            T *out = p->out + s * width, acc[MAX_FIXED];                                                     \
            for (int k = 0; k < width; k++)                                                                  \
                acc[k] = from < to ? p->x[from * width + k] : p->pad;                                        \
            for (int64_t row = from + 1; row < to; row++)                                                    \
                for (int k = 0; k < width; k++)                                                              \
                    acc[k] += p->x[row * width + k];                                                         \
            const T f = from < to ? (T)factor(p->how, to - from) : 1;                                        \
            for (int k = 0; k < width; k++)                                                                  \
                out[k] = acc[k] * f;                                                                         \
        }                                                                                                    \
    }                                                                                                        \
    static inline __attribute__((always_inline)) void sum_any_##suffix(const struct pool_##suffix *p,        \
                                                                       int64_t begin, int64_t end)           \
    {                                                                                                        \
        const int64_t width = p->width;                                                                      \
        for (int64_t s = begin; s < end; s++) {                                                              \
            int64_t from = p->offset[s], to = p->offset[s + 1];                                              \
            T *out = p->out + s * width;                                                                     \
            for (int64_t k = 0; k < width; k++)                                                              \
                out[k] = from < to ? p->x[from * width + k] : p->pad;                                        \
            for (int64_t row = from + 1; row < to; row++)                                                    \
                for (int64_t k = 0; k < width; k++)                                                          \
                    out[k] += p->x[row * width + k];                                                         \
            if (p->how == PD_SEQ_SUM || from == to) continue;                                                \
            const T f = (T)factor(p->how, to - from);                                                        \
            for (int64_t k = 0; k < width; k++)                                                              \
                out[k] *= f;                                                                                 \
        }                                                                                                    \
    }                                                                                                        \
    PD_CLONES static void sum_##suffix(const struct pool_##suffix *p, int64_t begin, int64_t end)            \
    {                                                                                                        \
        switch (p->width) {                                                                                  \
        case 1:                                                                                              \
            sum_fixed_##suffix(p, begin, end, 1);                                                            \
            break;                                                                                           \
        case 8:                                                                                              \
            sum_fixed_##suffix(p, begin, end, 8);                                                            \
            break;                                                                                           \
        case 10:                                                                                             \
            sum_fixed_##suffix(p, begin, end, 10);                                                           \
            break;                                                                                           \
        case 16:                                                                                             \
            sum_fixed_##suffix(p, begin, end, 16);                                                           \
            break;                                                                                           \
        case 32:                                                                                             \
            sum_fixed_##suffix(p, begin, end, 32);                                                           \
            break;                                                                                           \
        case 64:                                                                                             \
            sum_fixed_##suffix(p, begin, end, 64);                                                           \
            break;                                                                                           \
        default:                                                                                             \
            sum_any_##suffix(p, begin, end);                                                                 \
        }                                                                                                    \
    }                                                                                                        \
    PD_CLONES static void max_##suffix(const struct pool_##suffix *p, int64_t begin, int64_t end)            \
    {                                                                                                        \
        const int64_t width = p->width;                                                                      \
        for (int64_t s = begin; s < end; s++) {                                                              \
            int64_t from = p->offset[s], to = p->offset[s + 1];                                              \
            T *out = p->out + s * width;                                                                     \
            int32_t *index = p->index ? p->index + s * width : NULL;                                         \
            for (int64_t k = 0; k < width; k++)                                                              \
                out[k] = from < to ? p->x[from * width + k] : p->pad;                                        \
            for (int64_t k = 0; index && k < width; k++)                                                     \
                index[k] = from < to ? (int32_t)from : -1;                                                   \
            for (int64_t row = from + 1; row < to; row++) {                                                  \
                const T *x = p->x + row * width;                                                             \
                for (int64_t k = 0; index && k < width; k++)                                                 \
                    index[k] = PD_ABOVE(x[k], out[k]) ? (int32_t)row : index[k];                             \
                for (int64_t k = 0; k < width; k++)                                                          \
                    out[k] = PD_LARGER(x[k], out[k]);                                                        \
            }                                                                                                \
        }                                                                                                    \
    }                                                                                                        \
    static void pick_##suffix(const struct pool_##suffix *p, int64_t begin, int64_t end)                     \
    {                                                                                                        \
        const int64_t width = p->width;                                                                      \
        for (int64_t s = begin; s < end; s++) {                                                              \
            int64_t from = p->offset[s], to = p->offset[s + 1];                                              \
            T *out = p->out + s * width;                                                                     \
            if (from < to)                                                                                   \
                memcpy(out, p->x + (p->how == PD_SEQ_FIRST ? from : to - 1) * width,                         \
                       (size_t)width * sizeof(T));                                                           \
            for (int64_t k = 0; from == to && k < width; k++)                                                \
                out[k] = p->pad;                                                                             \
        }                                                                                                    \
    }                                                                                                        \
    static void part_##suffix(void *arg, int64_t begin, int64_t end)                                         \
    {                                                                                                        \
        const struct pool_##suffix *p = arg;                                                                 \
        if (p->how == PD_SEQ_MAX)                                                                            \
            max_##suffix(p, begin, end);                                                                     \
        else if (p->how == PD_SEQ_LAST || p->how == PD_SEQ_FIRST)                                            \
            pick_##suffix(p, begin, end);                                                                    \
        else                                                                                                 \
            sum_##suffix(p, begin, end);                                                                     \
    }                                                                                                        \
    void pd_seq_pool_##suffix(enum pd_seq_pool how, const T *x, const int64_t *offset, int64_t sequences,    \
                              int64_t width, T pad, T *out, int32_t *index)                                  \
    {                                                                                                        \
        struct pool_##suffix p = {how, x, offset, width, pad, out, index};                                   \
        if (sequences > 0) pd_parallel(sequences, grain(offset, sequences, width), part_##suffix, &p);       \
    }

/* Sequences per thread, so that a thread gets enough elements. */
static int64_t grain(const int64_t *offset, int64_t sequences, int64_t width)
{
    int64_t each = offset[sequences] * width / sequences;
    return each > 0 ? 16384 / each + 1 : 16384;
}

POOL(f32, float)
POOL(f64, double)

#define POOL_GRAD(suffix, T)                                                                                 \
    struct grad_##suffix {                                                                                   \
        enum pd_seq_pool how;                                                                                \
        const T *dout;                                                                                       \
        const int32_t *index;                                                                                \
        const int64_t *offset;                                                                               \
        int64_t width;                                                                                       \
        T *dx;                                                                                               \
    };                                                                                                       \
    PD_CLONES static void spread_##suffix(const struct grad_##suffix *p, int64_t begin, int64_t end)         \
    {                                                                                                        \
        const int64_t width = p->width;                                                                      \
        for (int64_t s = begin; s < end; s++) {                                                              \
            int64_t from = p->offset[s], to = p->offset[s + 1];                                              \
            const T *dout = p->dout + s * width;                                                             \
            const T f = from < to ? (T)factor(p->how, to - from) : 0;                                        \
            for (int64_t row = from; row < to; row++)                                                        \
                for (int64_t k = 0; k < width; k++)                                                          \
                    p->dx[row * width + k] = dout[k] * f;                                                    \
        }                                                                                                    \
    }                                                                                                        \
    static void grad_part_##suffix(void *arg, int64_t begin, int64_t end)                                    \
    {                                                                                                        \
        const struct grad_##suffix *p = arg;                                                                 \
        const int64_t width = p->width;                                                                      \
        if (p->how != PD_SEQ_MAX && p->how != PD_SEQ_LAST && p->how != PD_SEQ_FIRST) {                       \
            spread_##suffix(p, begin, end);                                                                  \
            return;                                                                                          \
        }                                                                                                    \
        for (int64_t s = begin; s < end; s++) {                                                              \
            int64_t from = p->offset[s], to = p->offset[s + 1];                                              \
            const T *dout = p->dout + s * width;                                                             \
            if (from == to) continue;                                                                        \
            memset(p->dx + from * width, 0, (size_t)((to - from) * width) * sizeof(T));                      \
            if (p->how == PD_SEQ_MAX) {                                                                      \
                for (int64_t k = 0; k < width; k++) {                                                        \
                    int64_t row = p->index[s * width + k];                                                   \
                    if (row >= from && row < to) p->dx[row * width + k] = dout[k];                           \
                }                                                                                            \
            } else {                                                                                         \
                int64_t row = p->how == PD_SEQ_FIRST ? from : to - 1;                                        \
                memcpy(p->dx + row * width, dout, (size_t)width * sizeof(T));                                \
            }                                                                                                \
        }                                                                                                    \
    }                                                                                                        \
    void pd_seq_pool_grad_##suffix(enum pd_seq_pool how, const T *dout, const int32_t *index,                \
                                   const int64_t *offset, int64_t sequences, int64_t width, T *dx)           \
    {                                                                                                        \
        struct grad_##suffix p = {how, dout, index, offset, width, dx};                                      \
        if (sequences > 0) pd_parallel(sequences, grain(offset, sequences, width), grad_part_##suffix, &p);  \
    }

POOL_GRAD(f32, float)
POOL_GRAD(f64, double)
