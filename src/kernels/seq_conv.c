/* See seq_conv.h. */
#include "kernels/seq_conv.h"

#include <string.h>

#include "base/parallel.h"
#include "kernels/clones.h"

static int64_t grain(const struct pd_seq_window *w)
{
    int64_t each = w->offset[w->sequences] * w->length * w->width / w->sequences;
    return each > 0 ? 16384 / each + 1 : 16384;
}

#define WINDOW(suffix, T)                                                                                    \
    struct window_##suffix {                                                                                 \
        const struct pd_seq_window *w;                                                                       \
        const T *x, *padding;                                                                                \
        T *col, *dx;                                                                                         \
    };                                                                                                       \
    static void window_part_##suffix(void *arg, int64_t begin, int64_t end)                                  \
    {                                                                                                        \
        const struct window_##suffix *a = arg;                                                               \
        const struct pd_seq_window *w = a->w;                                                                \
        const int64_t width = w->width, before = pd_seq_window_before(w);                                    \
        const size_t row_bytes = (size_t)width * sizeof(T);                                                  \
        for (int64_t s = begin; s < end; s++) {                                                              \
            int64_t first = w->offset[s], rows = w->offset[s + 1] - first;                                   \
            for (int64_t t = 0; t < rows; t++) {                                                             \
                T *to = a->col + (first + t) * w->length * width;                                            \
                int64_t p = t + w->start;                                                                    \
                if (p >= 0 && p + w->length <= rows) {                                                       \
                    memcpy(to, a->x + (first + p) * width, (size_t)w->length * row_bytes);                   \
                    continue;                                                                                \
                }                                                                                            \
                for (int64_t j = 0; j < w->length; j++, p++, to += width) {                                  \
                    if (p >= 0 && p < rows)                                                                  \
                        memcpy(to, a->x + (first + p) * width, row_bytes);                                   \
                    else if (a->padding)                                                                     \
                        memcpy(to, a->padding + (before + (p < 0 ? p : p - rows)) * width, row_bytes);       \
                    else                                                                                     \
                        memset(to, 0, row_bytes);                                                            \
                }                                                                                            \
            }                                                                                                \
        }                                                                                                    \
    }                                                                                                        \
    void pd_seq_window_##suffix(const struct pd_seq_window *w, const T *x, const T *padding, T *col)         \
    {                                                                                                        \
        struct window_##suffix a = {w, x, padding, col, NULL};                                               \
        if (w->sequences > 0) pd_parallel(w->sequences, grain(w), window_part_##suffix, &a);                 \
    }                                                                                                        \
    PD_CLONES static void back_##suffix(const struct window_##suffix *a, int64_t begin, int64_t end)         \
    {                                                                                                        \
        const struct pd_seq_window *w = a->w;                                                                \
        const int64_t width = w->width;                                                                      \
        for (int64_t s = begin; s < end; s++) {                                                              \
            int64_t first = w->offset[s], rows = w->offset[s + 1] - first;                                   \
            memset(a->dx + first * width, 0, (size_t)(rows * width) * sizeof(T));                            \
            for (int64_t t = 0; t < rows; t++) {                                                             \
                int64_t p = t + w->start, low = p < 0 ? 0 : p;                                               \
                int64_t high = p + w->length < rows ? p + w->length : rows;                                  \
                if (high <= low) continue;                                                                   \
                const T *from = a->col + ((first + t) * w->length + (low - p)) * width;                      \
                T *to = a->dx + (first + low) * width;                                                       \
                for (int64_t i = 0; i < (high - low) * width; i++)                                           \
                    to[i] += from[i];                                                                        \
            }                                                                                                \
        }                                                                                                    \
    }                                                                                                        \
    static void back_part_##suffix(void *arg, int64_t begin, int64_t end)                                    \
    {                                                                                                        \
        back_##suffix(arg, begin, end);                                                                      \
    }                                                                                                        \
    static void back_padding_##suffix(const struct pd_seq_window *w, const T *dcol, T *dpadding)             \
    {                                                                                                        \
        const int64_t width = w->width, before = pd_seq_window_before(w);                                    \
        for (int64_t s = 0; s < w->sequences; s++) {                                                         \
            int64_t first = w->offset[s], rows = w->offset[s + 1] - first;                                   \
            for (int64_t t = 0; t < rows; t++)                                                               \
                for (int64_t j = 0; j < w->length; j++) {                                                    \
                    int64_t p = t + w->start + j;                                                            \
                    if (p >= 0 && p < rows) continue;                                                        \
                    T *to = dpadding + (before + (p < 0 ? p : p - rows)) * width;                            \
                    const T *from = dcol + ((first + t) * w->length + j) * width;                            \
                    for (int64_t k = 0; k < width; k++)                                                      \
                        to[k] += from[k];                                                                    \
                }                                                                                            \
        }                                                                                                    \
    }                                                                                                        \
    void pd_seq_window_grad_##suffix(const struct pd_seq_window *w, const T *dcol, T *dx, T *dpadding)       \
    {                                                                                                        \
        struct window_##suffix a = {w, NULL, NULL, (T *)dcol, dx};                                           \
        if (w->sequences <= 0) return;                                                                       \
        if (dx) pd_parallel(w->sequences, grain(w), back_part_##suffix, &a);                                 \
        if (dpadding) back_padding_##suffix(w, dcol, dpadding);                                              \
    }

WINDOW(f32, float)
WINDOW(f64, double)
