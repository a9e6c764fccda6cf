/* The loops of layer_norm.c for one element type; T and F(name) are defined where this is included. */

PD_CLONES static void F(row_forward)(int64_t n, double epsilon, const T *x, const T *scale, const T *bias,
                                     T *y, T *mean, T *variance)
{
    T sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < n; j++)
        sum += x[j];
    T m = sum / (T)n;
#pragma omp simd reduction(+ : squares)
    for (int64_t j = 0; j < n; j++)
        squares += (x[j] - m) * (x[j] - m);
    T v = squares / (T)n, inv = (T)(1 / sqrt((double)v + epsilon));
    *mean = m;
    *variance = v;
    if (scale && bias)
        for (int64_t j = 0; j < n; j++)
            y[j] = (x[j] - m) * inv * scale[j] + bias[j];
    else
        for (int64_t j = 0; j < n; j++)
            y[j] = (x[j] - m) * inv * (scale ? scale[j] : 1) + (bias ? bias[j] : 0);
}

static void F(forward)(void *arg, int64_t begin, int64_t end)
{
    const struct pd_layer_norm *w = arg;
    for (int64_t i = begin; i < end; i++) {
        F(row_forward)
        (w->cols, w->epsilon, (const T *)w->x + i * w->cols, w->scale, w->bias, (T *)w->y + i * w->cols,
         (T *)w->mean + i, (T *)w->variance + i);
    }
}

/* dx = inv * (g - mean(g) - xhat * mean(g * xhat)) with g = dy * scale */
PD_CLONES static void F(row_backward)(int64_t n, T m, T inv, const T *x, const T *scale, const T *dy, T *dx)
{
    T sum = 0, products = 0;
#pragma omp simd reduction(+ : sum, products)
    for (int64_t j = 0; j < n; j++) {
        T g = scale ? dy[j] * scale[j] : dy[j];
        sum += g;
        products += g * (x[j] - m);
    }
    T shift = sum / (T)n, slope = products * inv * inv / (T)n;
    for (int64_t j = 0; j < n; j++) {
        T g = scale ? dy[j] * scale[j] : dy[j];
        dx[j] = inv * (g - shift - (x[j] - m) * slope);
    }
}

static void F(backward)(void *arg, int64_t begin, int64_t end)
{
    const struct pd_layer_norm_grad *w = arg;
    for (int64_t i = begin; i < end; i++) {
        T inv = (T)(1 / sqrt((double)((const T *)w->variance)[i] + w->epsilon));
        F(row_backward)
        (w->cols, ((const T *)w->mean)[i], inv, (const T *)w->x + i * w->cols, w->scale,
         (const T *)w->dy + i * w->cols, (T *)w->dx + i * w->cols);
    }
}

/* Sums over rows for columns [begin, end). */
PD_CLONES static void F(add_row)(int64_t n, T m, T inv, const T *restrict x, const T *restrict dy,
                                 T *restrict d_scale, T *restrict d_bias)
{
    if (d_bias)
        for (int64_t j = 0; j < n; j++)
            d_bias[j] += dy[j];
    if (d_scale)
        for (int64_t j = 0; j < n; j++)
            d_scale[j] += dy[j] * (x[j] - m) * inv;
}

static void F(columns)(void *arg, int64_t begin, int64_t end)
{
    const struct pd_layer_norm_grad *w = arg;
    T *d_scale = w->d_scale ? (T *)w->d_scale + begin : NULL,
      *d_bias = w->d_bias ? (T *)w->d_bias + begin : NULL;
    if (d_scale) memset(d_scale, 0, (size_t)(end - begin) * sizeof(T));
    if (d_bias) memset(d_bias, 0, (size_t)(end - begin) * sizeof(T));
    for (int64_t i = 0; i < w->rows; i++) {
        T inv = (T)(1 / sqrt((double)((const T *)w->variance)[i] + w->epsilon));
        F(add_row)
        (end - begin, ((const T *)w->mean)[i], inv, (const T *)w->x + i * w->cols + begin,
         (const T *)w->dy + i * w->cols + begin, d_scale, d_bias);
    }
}
