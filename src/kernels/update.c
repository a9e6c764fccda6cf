/* See update.h. A kernel works on pieces: equally long stretches of the arrays, each with its stretch of
 * gradient. A dense update is one piece per thread; an update of rows hands its kernel a batch of rows at a
 * time. */
#include "kernels/update.h"

#include <math.h>
#include <string.h>

#include "base/parallel.h"
#include "kernels/clones.h"

#define BATCH 16       /* rows per kernel call */
#define TILE 2048      /* elements of gradient that are added up or zero at a time */
#define GRAIN 16384    /* elements per thread at least */
#define NORM_PART 8192 /* elements per partial sum */

static inline float root_f32(float x)
{
    return sqrtf(x);
}

static inline double root_f64(double x)
{
    return sqrt(x);
}

static inline float power_f32(float x, float y)
{
    return powf(x, y);
}

static inline double power_f64(double x, double y)
{
    return pow(x, y);
}

static inline float size_f32(float x)
{
    return fabsf(x);
}

static inline double size_f64(double x)
{
    return fabs(x);
}

/* A kernel. Its last argument is the step for one element: p, a, b, c hold the arrays' values before and,
 * where changed, after; g is the gradient, k0 .. k3 the numbers. `arrays` is a constant, so that arrays that
 * are not there cost nothing. */
#define KERNEL(name, suffix, T, arrays, ...)                                                                 \
    PD_CLONES static void name##_##suffix(const struct pd_update *u, int pieces, const int64_t *at,          \
                                          const void *const *grad, int64_t n)                                \
    {                                                                                                        \
        const T k0 = (T)u->k[0], k1 = (T)u->k[1], k2 = (T)u->k[2], k3 = (T)u->k[3];                          \
        (void)k0, (void)k1, (void)k2, (void)k3;                                                              \
        for (int j = 0; j < pieces; j++) {                                                                   \
            const T *gs = grad[j];                                                                           \
            const T *p0 = (const T *)u->in[0] + at[j];                                                       \
            const T *a0 = arrays > 1 ? (const T *)u->in[1] + at[j] : p0;                                     \
            const T *b0 = arrays > 2 ? (const T *)u->in[2] + at[j] : p0;                                     \
            const T *c0 = arrays > 3 && u->in[3] ? (const T *)u->in[3] + at[j] : p0;                         \
            T *p1 = (T *)u->out[0] + at[j], *a1 = arrays > 1 ? (T *)u->out[1] + at[j] : NULL;                \
            T *b1 = arrays > 2 ? (T *)u->out[2] + at[j] : NULL;                                              \
            T *c1 = arrays > 3 ? (T *)u->out[3] + at[j] : NULL;                                              \
            _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++)                                             \
            {                                                                                                \
                const T g = gs[i];                                                                           \
                T p = p0[i], a = arrays > 1 ? a0[i] : 0, b = arrays > 2 ? b0[i] : 0,                         \
                  c = arrays > 3 ? c0[i] : 0;                                                                \
                (void)a, (void)b, (void)c;                                                                   \
                __VA_ARGS__;                                                                                 \
                p1[i] = p;                                                                                   \
                if (arrays > 1) a1[i] = a;                                                                   \
                if (arrays > 2) b1[i] = b;                                                                   \
                if (arrays > 3) c1[i] = c;                                                                   \
            }                                                                                                \
        }                                                                                                    \
    }

#define ALL_KERNELS(suffix, T)                                                                               \
    KERNEL(sgd, suffix, T, 1, p -= k0 * g + k1)                                                              \
    KERNEL(momentum, suffix, T, 2, a = a * k1 + (g + k2 * p); p -= k0 * a)                                   \
    KERNEL(nesterov, suffix, T, 2, const T d = g + k2 * p; a = a * k1 + d; p -= (d + a * k1) * k0)           \
    KERNEL(lars, suffix, T, 2, a = a * k1 + k0 * (g + k2 * p); p -= a)                                       \
    KERNEL(adam, suffix, T, 3, const T d1 = 1 - k1, d2 = 1 - k2; a = k1 * a + d1 * g;                        \
           b = k2 * b + d2 * g * g; p -= k0 * (a / (root_##suffix(b) + k3)))                                 \
    KERNEL(adamax, suffix, T, 3, const T d1 = 1 - k1; a = k1 * a + d1 * g;                                   \
           const T old = k2 * b + k3, now = size_##suffix(g); b = now > old ? now : old; p -= k0 * (a / b))  \
    KERNEL(adagrad, suffix, T, 2, a += g * g; p -= k0 * g / (root_##suffix(a) + k1))                         \
    KERNEL(decayed_adagrad, suffix, T, 2, const T d = 1 - k1; a = k1 * a + d * g * g;                        \
           p -= k0 * g / (root_##suffix(a) + k2))                                                            \
    KERNEL(adadelta, suffix, T, 3, const T d = 1 - k0; a = k0 * a + d * g * g;                               \
           const T s = -root_##suffix((b + k1) / (a + k1)) * g; b = k0 * b + d * s * s; p += s)              \
    KERNEL(rmsprop, suffix, T, 3, const T d = 1 - k1; a = k1 * a + d * g * g;                                \
           b = k3 * b + k0 * g / root_##suffix(a + k2); p -= b)                                              \
    KERNEL(rmsprop_centered, suffix, T, 4, const T d = 1 - k1; a = k1 * a + d * g * g; c = k1 * c + d * g;   \
           b = k3 * b + k0 * g / root_##suffix(a - c * c + k2); p -= b)                                      \
    KERNEL(ftrl, suffix, T, 3, const T now = a + g * g, root = root_##suffix(now);                           \
           b += g - (root - root_##suffix(a)) / k0 * p; const T x = (b > 0   ? k1                            \
                                                                     : b < 0 ? -k1                           \
                                                                             : 0) -                          \
                                                                    b,                                       \
                                                        y = root / k0 + 2 * k2;                              \
           p = size_##suffix(b) <= k1 ? 0 : x / y; a = now)                                                  \
    KERNEL(ftrl_power, suffix, T, 3, const T now = a + g * g, root = power_##suffix(now, -k3);               \
           b += g - (root - power_##suffix(a, -k3)) / k0 * p; const T x = (b > 0   ? k1                      \
                                                                           : b < 0 ? -k1                     \
                                                                                   : 0) -                    \
                                                                          b,                                 \
                                                              y = root / k0 + 2 * k2;                        \
           p = size_##suffix(b) <= k1 ? 0 : x / y; a = now)                                                  \
    KERNEL(proximal_gd, suffix, T, 1, const T den = 1 + k0 * k2, cut = k0 * k1; p -= k0 * g;                 \
           const T left = size_##suffix(p) - cut, kept = left <= 0 ? 0 : left;                               \
           p = (p < 0 ? -kept : kept) / den)                                                                 \
    KERNEL(proximal_adagrad, suffix, T, 2, const T den = 1 + k0 * k2, cut = k0 * k1; a += g * g;             \
           p -= k0 * g / root_##suffix(a);                                                                   \
           const T left = size_##suffix(p) - cut, kept = left <= 0 ? 0 : left;                               \
           p = (p < 0 ? -kept : kept) / den)                                                                 \
    KERNEL(lamb_moments, suffix, T, 4, const T d0 = 1 - k0; const T d1 = 1 - k1; a = k0 * a + d0 * g;        \
           b = k1 * b + d1 * g * g; c = a / (root_##suffix(b) + k2) + k3 * p)

ALL_KERNELS(f32, float)
ALL_KERNELS(f64, double)

typedef void (*kernel)(const struct pd_update *u, int pieces, const int64_t *at, const void *const *grad,
                       int64_t n);

#define TABLE(suffix)                                                                                        \
    {                                                                                                        \
        [PD_RULE_SGD] = sgd_##suffix, [PD_RULE_MOMENTUM] = momentum_##suffix,                                \
        [PD_RULE_NESTEROV] = nesterov_##suffix, [PD_RULE_LARS] = lars_##suffix,                              \
        [PD_RULE_ADAM] = adam_##suffix, [PD_RULE_ADAMAX] = adamax_##suffix,                                  \
        [PD_RULE_ADAGRAD] = adagrad_##suffix, [PD_RULE_DECAYED_ADAGRAD] = decayed_adagrad_##suffix,          \
        [PD_RULE_ADADELTA] = adadelta_##suffix, [PD_RULE_RMSPROP] = rmsprop_##suffix,                        \
        [PD_RULE_RMSPROP_CENTERED] = rmsprop_centered_##suffix, [PD_RULE_FTRL] = ftrl_##suffix,              \
        [PD_RULE_FTRL_POWER] = ftrl_power_##suffix, [PD_RULE_PROXIMAL_GD] = proximal_gd_##suffix,            \
        [PD_RULE_PROXIMAL_ADAGRAD] = proximal_adagrad_##suffix,                                              \
        [PD_RULE_LAMB_MOMENTS] = lamb_moments_##suffix,                                                      \
    }

static const kernel kernels[2][PD_RULES] = {TABLE(f32), TABLE(f64)};
static const double zeros[TILE];

static size_t item_size(const struct pd_update *u)
{
    return u->is_double ? sizeof(double) : sizeof(float);
}

/* ---- dense ---- */

static void dense_part(void *arg, int64_t begin, int64_t end)
{
    const struct pd_update *u = arg;
    const void *grad = (const char *)u->grad + (size_t)begin * item_size(u);
    kernels[u->is_double][u->rule](u, 1, &begin, &grad, end - begin);
}

/* ---- rows ---- */

/* Adds up columns [from, from + n) of the gradient rows of one group. */
static void add_group(const struct pd_update *u, int64_t group, int64_t from, int64_t n, void *tile)
{
    const struct pd_rows_groups *g = u->groups;
    for (int32_t m = g->start[group]; m < g->start[group + 1]; m++) {
        int64_t at = g->at[m] * u->width + from;
        if (u->is_double) {
            const double *x = (const double *)u->grad + at;
            double *to = tile;
            for (int64_t i = 0; i < n; i++)
                to[i] = m == g->start[group] ? x[i] : to[i] + x[i];
        } else {
            const float *x = (const float *)u->grad + at;
            float *to = tile;
            for (int64_t i = 0; i < n; i++)
                to[i] = m == g->start[group] ? x[i] : to[i] + x[i];
        }
    }
}

/* Where the gradient of a group lies when it is made of one row; else NULL. */
static const void *single(const struct pd_update *u, int64_t group)
{
    const struct pd_rows_groups *g = u->groups;
    if (g->start && g->start[group + 1] - g->start[group] != 1) return NULL;
    int64_t at = g->start ? g->at[g->start[group]] : group;
    return (const char *)u->grad + (size_t)(at * u->width) * item_size(u);
}

static void fetch_rows(const struct pd_update *u, int64_t row)
{
    size_t bytes = (size_t)u->width * item_size(u);
    for (int a = 0; a < u->arrays; a++) {
        const char *at = (const char *)u->in[a] + (size_t)row * bytes;
        __builtin_prefetch(at, 1);
        if (bytes > 24) __builtin_prefetch(at + bytes - 1, 1);
    }
}

/* Groups [begin, end), rows of any width. */
static void update_groups(const struct pd_update *u, int64_t begin, int64_t end)
{
    _Alignas(64) double memory[TILE];
    const kernel run = kernels[u->is_double][u->rule];
    const size_t item = item_size(u);
    const struct pd_rows_groups *g = u->groups;
    int64_t per_batch = u->width > TILE ? 1 : TILE / u->width < BATCH ? TILE / u->width : BATCH;
    for (int64_t i = begin; i < end; i += per_batch) {
        int n = (int)(end - i < per_batch ? end - i : per_batch);
        for (int64_t next = i + n; next < i + 2 * n && next < end; next++)
            fetch_rows(u, g->row[next]);
        for (int64_t from = 0; from < u->width; from += TILE) {
            int64_t columns = u->width - from < TILE ? u->width - from : TILE;
            int64_t at[BATCH];
            const void *grad[BATCH];
            for (int j = 0; j < n; j++) {
                const char *one = single(u, i + j);
                void *tile = (char *)memory + (size_t)(j * columns) * item;
                if (!one) add_group(u, i + j, from, columns, tile);
                at[j] = g->row[i + j] * u->width + from;
                grad[j] = one ? one + (size_t)from * item : tile;
            }
            run(u, n, at, grad, columns);
        }
    }
}

static void rows_part(void *arg, int64_t begin, int64_t end)
{
    update_groups(arg, begin, end);
}

/* Elements [begin, end) with a gradient of zero. */
static void update_zero(const struct pd_update *u, int64_t begin, int64_t end)
{
    const void *zero = zeros;
    for (int64_t at = begin; at < end; at += TILE)
        kernels[u->is_double][u->rule](u, 1, &at, &zero, end - at < TILE ? end - at : TILE);
}

/* Rows [begin, end) of the parameter: the ones with a gradient and the gaps between them. */
static void all_part(void *arg, int64_t begin, int64_t end)
{
    const struct pd_update *u = arg;
    const struct pd_rows_groups *g = u->groups;
    int64_t low = 0, high = g->n;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (g->row[middle] < begin)
            low = middle + 1;
        else
            high = middle;
    }
    for (int64_t row = begin, i = low; row < end;) {
        int64_t next = i < g->n && g->row[i] < end ? g->row[i] : end;
        update_zero(u, row * u->width, next * u->width);
        row = next;
        int64_t first = i;
        while (i < g->n && g->row[i] < end && g->row[i] == row)
            i++, row++;
        update_groups(u, first, i);
    }
}

void pd_update_run(const struct pd_update *u)
{
    if (!u->groups) {
        pd_parallel(u->n, GRAIN, dense_part, (void *)u);
    } else if (u->width > 0) {
        int64_t grain = GRAIN / u->width + 1;
        if (u->all)
            pd_parallel(u->n / u->width, grain, all_part, (void *)u);
        else
            pd_parallel(u->groups->n, grain, rows_part, (void *)u);
    }
}

/* ---- norms ---- */

struct norm {
    const void *x;
    int is_double;
    int64_t n;
    int64_t per_sum; /* parts that make one sum */
    double sum[256];
};

PD_CLONES static double squares_f32(const float *x, int64_t n)
{
    float sum[16] = {0};
    int64_t i = 0;
    for (; i + 16 <= n; i += 16)
        for (int j = 0; j < 16; j++)
            sum[j] += x[i + j] * x[i + j];
    double all = 0;
    for (int j = 0; j < 16; j++)
        all += sum[j];
    for (; i < n; i++)
        all += (double)x[i] * x[i];
    return all;
}

PD_CLONES static double squares_f64(const double *x, int64_t n)
{
    double sum[8] = {0};
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int j = 0; j < 8; j++)
            sum[j] += x[i + j] * x[i + j];
    double all = 0;
    for (int j = 0; j < 8; j++)
        all += sum[j];
    for (; i < n; i++)
        all += x[i] * x[i];
    return all;
}

static void norm_part(void *arg, int64_t begin, int64_t end)
{
    struct norm *m = arg;
    for (int64_t s = begin; s < end; s++) {
        double sum = 0;
        for (int64_t part = s * m->per_sum; part < (s + 1) * m->per_sum && part * NORM_PART < m->n; part++) {
            int64_t at = part * NORM_PART, n = m->n - at < NORM_PART ? m->n - at : NORM_PART;
            sum += m->is_double ? squares_f64((const double *)m->x + at, n)
                                : squares_f32((const float *)m->x + at, n);
        }
        m->sum[s] = sum;
    }
}

double pd_update_norm(const void *x, int is_double, int64_t n)
{
    int64_t parts = (n + NORM_PART - 1) / NORM_PART;
    struct norm m = {.x = x, .is_double = is_double, .n = n, .per_sum = (parts + 255) / 256};
    if (n <= 0) return 0;
    int64_t sums = (parts + m.per_sum - 1) / m.per_sum;
    pd_parallel(sums, 4, norm_part, &m);
    double all = 0;
    for (int64_t s = 0; s < sums; s++)
        all += m.sum[s];
    return sqrt(all);
}
