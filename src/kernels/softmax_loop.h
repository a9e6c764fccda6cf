/* Softmax for one element type; included by softmax.c with T and F(name) defined. */

PD_CLONES static void F(rows)(int64_t rows, int64_t n, const T *x, T *y)
{
    for (int64_t i = 0; i < rows; i++, x += n, y += n) {
        T top = x[0], sum = 0;
#pragma omp simd reduction(max : top)
        for (int64_t j = 0; j < n; j++)
            top = x[j] > top ? x[j] : top;
#pragma omp simd reduction(+ : sum)
        for (int64_t j = 0; j < n; j++) {
            T d = x[j] - top;
            T e = pd_exp(d < -64 ? (T)-64 : d);
            y[j] = e;
            sum += e;
        }
        T scale = 1 / sum;
        for (int64_t j = 0; j < n; j++)
            y[j] *= scale;
    }
}

PD_CLONES static void F(bias_rows)(int64_t rows, int64_t n, const T *x, const T *bias, T *y)
{
    for (int64_t i = 0; i < rows; i++, x += n, y += n) {
        for (int64_t j = 0; j < n; j++)
            y[j] = x[j] + bias[j];
        F(rows)(1, n, y, y);
    }
}

/* Columns [from, from + width) of one [n, inner] block, width at most STRIP. */
PD_CLONES static void F(strip)(int64_t n, int64_t inner, int64_t width, const T *x, T *y)
{
    T top[STRIP], sum[STRIP];
    for (int64_t l = 0; l < width; l++) {
        top[l] = x[l];
        sum[l] = 0;
    }
    for (int64_t j = 1; j < n; j++)
        for (int64_t l = 0; l < width; l++)
            top[l] = x[j * inner + l] > top[l] ? x[j * inner + l] : top[l];
    for (int64_t j = 0; j < n; j++)
        for (int64_t l = 0; l < width; l++) {
            T d = x[j * inner + l] - top[l];
            T e = pd_exp(d < -64 ? (T)-64 : d);
            y[j * inner + l] = e;
            sum[l] += e;
        }
    for (int64_t j = 0; j < n; j++)
        for (int64_t l = 0; l < width; l++)
            y[j * inner + l] /= sum[l];
}

PD_CLONES static void F(grad_rows)(int64_t rows, int64_t n, const T *y, const T *dy, T *dx)
{
    for (int64_t i = 0; i < rows; i++, y += n, dy += n, dx += n) {
        T dot = 0;
#pragma omp simd reduction(+ : dot)
        for (int64_t j = 0; j < n; j++)
            dot += y[j] * dy[j];
        for (int64_t j = 0; j < n; j++)
            dx[j] = (dy[j] - dot) * y[j];
    }
}

PD_CLONES static void F(grad_strip)(int64_t n, int64_t inner, int64_t width, const T *y, const T *dy, T *dx)
{
    T dot[STRIP];
    for (int64_t l = 0; l < width; l++)
        dot[l] = 0;
    for (int64_t j = 0; j < n; j++)
        for (int64_t l = 0; l < width; l++)
            dot[l] += y[j * inner + l] * dy[j * inner + l];
    for (int64_t j = 0; j < n; j++)
        for (int64_t l = 0; l < width; l++)
            dx[j * inner + l] = (dy[j * inner + l] - dot[l]) * y[j * inner + l];
}

static void F(part)(void *arg, int64_t begin, int64_t end)
{
    const struct softmax *s = arg;
    int64_t n = s->n, inner = s->inner;
    const T *x = s->x, *dy = s->dy;
    T *y = s->y;
    if (inner == 1) {
        if (dy)
            F(grad_rows)(end - begin, n, x + begin * n, dy + begin * n, y + begin * n);
        else if (s->bias)
            F(bias_rows)(end - begin, n, x + begin * n, s->bias, y + begin * n);
        else
            F(rows)(end - begin, n, x + begin * n, y + begin * n);
        return;
    }
    for (int64_t o = begin; o < end; o++)
        for (int64_t l = 0; l < inner; l += STRIP) {
            int64_t at = o * n * inner + l, width = inner - l < STRIP ? inner - l : STRIP;
            if (dy)
                F(grad_strip)(n, inner, width, x + at, dy + at, y + at);
            else
                F(strip)(n, inner, width, x + at, y + at);
        }
}
