/* The loops of norm.c for one element type; T and F(name) are defined where this is included.
 *
 * With inner == 1 the channels lie side by side: a range of them is walked row by row. Otherwise each
 * channel's runs are summed one after the other; totals are kept in double. */

PD_CLONES static void F(run_sum)(int64_t n, const T *x, T shift, double *sum, double *squares)
{
    T s = 0, q = 0;
#pragma omp simd reduction(+ : s, q)
    for (int64_t i = 0; i < n; i++) {
        T d = x[i] - shift;
        s += d;
        q += d * d;
    }
    *sum += (double)s;
    *squares += (double)q;
}

PD_CLONES static void F(run_products)(int64_t n, const T *x, const T *dy, T shift, double *sum,
                                      double *products)
{
    T s = 0, q = 0;
#pragma omp simd reduction(+ : s, q)
    for (int64_t i = 0; i < n; i++) {
        s += dy[i];
        q += dy[i] * (x[i] - shift);
    }
    *sum += (double)s;
    *products += (double)q;
}

PD_CLONES static void F(column_stats)(int64_t rows, int64_t step, int64_t n, const T *restrict x,
                                      T *restrict mean, T *restrict variance)
{
    double sum[STRIP] = {0};
    for (int64_t i = 0; i < rows; i++)
        for (int64_t c = 0; c < n; c++)
            sum[c] += (double)x[i * step + c];
    for (int64_t c = 0; c < n; c++) {
        mean[c] = (T)(sum[c] / (double)rows);
        sum[c] = 0;
    }
    for (int64_t i = 0; i < rows; i++)
        for (int64_t c = 0; c < n; c++) {
            T d = x[i * step + c] - mean[c];
            sum[c] += (double)(d * d);
        }
    for (int64_t c = 0; c < n; c++)
        variance[c] = (T)(sum[c] / (double)rows);
}

static void F(stats)(void *arg, int64_t begin, int64_t end)
{
    const struct work *w = arg;
    const struct pd_norm *n = w->norm;
    const T *x = w->x;
    T *mean = w->out[0], *variance = w->out[1];
    int64_t count = n->outer * n->inner;
    for (int64_t c = begin; n->inner == 1 && c < end; c += STRIP) {
        F(column_stats)
        (n->outer, n->channels, end - c < STRIP ? end - c : STRIP, x + c, mean + c, variance + c);
    }
    for (int64_t c = begin; n->inner != 1 && c < end; c++) {
        double sum = 0, squares = 0;
        for (int64_t o = 0; o < n->outer; o++)
            F(run_sum)(n->inner, x + (o * n->channels + c) * n->inner, 0, &sum, &squares);
        double m = count ? sum / (double)count : 0;
        sum = squares = 0;
        for (int64_t o = 0; o < n->outer; o++)
            F(run_sum)(n->inner, x + (o * n->channels + c) * n->inner, (T)m, &sum, &squares);
        mean[c] = (T)m;
        variance[c] = (T)(count ? squares / (double)count : 0);
    }
}

PD_CLONES static void F(run_apply)(int64_t n, const T *x, T mul, T add, T *y)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] * mul + add;
}

PD_CLONES static void F(row_apply)(int64_t n, const T *x, const T *mul, const T *add, T *y)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] * mul[i] + add[i];
}

/* Over runs [begin, end) of outer * channels, or over rows with inner == 1. */
static void F(apply)(void *arg, int64_t begin, int64_t end)
{
    const struct work *w = arg;
    const struct pd_norm *n = w->norm;
    const T *x = w->x, *mul = w->a, *add = w->b;
    T *y = w->out[0];
    if (n->inner == 1) {
        for (int64_t o = begin; o < end; o++)
            F(row_apply)(n->channels, x + o * n->channels, mul, add, y + o * n->channels);
        return;
    }
    for (int64_t i = begin; i < end; i++) {
        F(run_apply)
        (n->inner, x + i * n->inner, mul[i % n->channels], add[i % n->channels], y + i * n->inner);
    }
}

PD_CLONES static void F(column_sums)(int64_t rows, int64_t step, int64_t n, const T *restrict x,
                                     const T *restrict dy, const T *restrict mean, T *restrict sum_dy,
                                     T *restrict sum_dy_x)
{
    double sum[STRIP] = {0}, products[STRIP] = {0};
    for (int64_t i = 0; i < rows; i++)
        for (int64_t c = 0; c < n; c++) {
            T g = dy[i * step + c];
            sum[c] += (double)g;
            products[c] += (double)(g * (x[i * step + c] - mean[c]));
        }
    for (int64_t c = 0; c < n; c++) {
        sum_dy[c] = (T)sum[c];
        sum_dy_x[c] = (T)products[c];
    }
}

static void F(sums)(void *arg, int64_t begin, int64_t end)
{
    const struct work *w = arg;
    const struct pd_norm *n = w->norm;
    const T *x = w->x, *dy = w->dy, *mean = w->a;
    T *sum_dy = w->out[0], *sum_dy_x = w->out[1];
    for (int64_t c = begin; n->inner == 1 && c < end; c += STRIP) {
        F(column_sums)
        (n->outer, n->channels, end - c < STRIP ? end - c : STRIP, x + c, dy + c, mean + c, sum_dy + c,
         sum_dy_x + c);
    }
    for (int64_t c = begin; n->inner != 1 && c < end; c++) {
        double sum = 0, products = 0;
        for (int64_t o = 0; o < n->outer; o++) {
            int64_t at = (o * n->channels + c) * n->inner;
            F(run_products)(n->inner, x + at, dy + at, mean[c], &sum, &products);
        }
        sum_dy[c] = (T)sum;
        sum_dy_x[c] = (T)products;
    }
}

PD_CLONES static void F(run_blend)(int64_t n, const T *x, const T *dy, T by_dy, T by_x, T add, T *dx)
{
    for (int64_t i = 0; i < n; i++)
        dx[i] = dy[i] * by_dy + x[i] * by_x + add;
}

PD_CLONES static void F(row_blend)(int64_t n, const T *x, const T *dy, const T *by_dy, const T *by_x,
                                   const T *add, T *dx)
{
    for (int64_t i = 0; i < n; i++)
        dx[i] = dy[i] * by_dy[i] + x[i] * by_x[i] + add[i];
}

static void F(blend)(void *arg, int64_t begin, int64_t end)
{
    const struct work *w = arg;
    const struct pd_norm *n = w->norm;
    const T *x = w->x, *dy = w->dy, *by_dy = w->a, *by_x = w->b, *add = w->c;
    T *dx = w->out[0];
    int64_t width = n->inner == 1 ? n->channels : n->inner;
    for (int64_t i = begin; i < end; i++) {
        int64_t at = i * width, c = i % n->channels;
        if (n->inner == 1 && by_x)
            F(row_blend)(width, x + at, dy + at, by_dy, by_x, add, dx + at);
        else if (by_x)
            F(run_blend)(width, x + at, dy + at, by_dy[c], by_x[c], add[c], dx + at);
        else
            for (int64_t j = 0; j < width; j++)
                dx[at + j] = dy[at + j] * by_dy[n->inner == 1 ? j : c];
    }
}
