/* Draws with a seed of the user's: the numbers that upstream's CPU kernels make of it, bit by bit, in any
 * part of a variable; see draw.h.
 *
 * Upstream draws element after element from minstd through the distributions of libstdc++ (of gcc 4.8).
 * Uniform and truncated numbers use as many words each, so any of them can be had by itself. Normal numbers
 * and integers are made by tries that may fail. A try uses as many words each, so blocks of tries are counted
 * side by side, and then those that are wanted are made. This file is compiled without fused multiply-add. */
#include <float.h>
#include <math.h>

#include "base/parallel.h"
#include "kernels/clones.h"
#include "kernels/minstd.h"
#include "ops/draw.h"

enum {
    GRAIN = 8192, /* elements worth a thread */
    GROUP = 512,  /* elements made together */
    TRIES = 1024, /* of a block */
    BLOCKS = 256, /* counted together */
    BLOCK_GRAIN = 4,
    RANGE = 2147483646, /* how many numbers minstd has */
};

struct job {
    const struct pd_draw *d;
    struct pd_minstd minstd;
    uint32_t start;
    int words;           /* of an element, or of a try */
    int64_t width, step; /* runs as in pd_draw; one run: width is all */
    uint32_t row_power;  /* from the beginning of a run to that of the next */
    /* Tries. */
    int per_try;            /* elements that one gives */
    uint32_t scale, past;   /* integers: a word below `past` is the integer times `scale` */
    uint64_t tried, passed; /* before this wave of blocks */
    uint32_t count[BLOCKS]; /* passed tries of each block; then those before it in this wave */
};

static uint32_t state_at(const struct job *j, int64_t element)
{
    return pd_minstd_skip(j->start, (uint64_t)element * (uint64_t)j->words);
}

/* ---- a word or two for each element ---- */

#define FIXED(T)                                                                                             \
    PD_CLONES static void uniform_##T(const T *restrict u, int64_t n, T low, T span, T *restrict out)        \
    {                                                                                                        \
        for (int64_t i = 0; i < n; i++)                                                                      \
            out[i] = u[i] * span + low;                                                                      \
    }                                                                                                        \
                                                                                                             \
    /* The inverse of the normal distribution by a quotient of polynomials (Wichura's AS 241, his middle     \
     * part: upstream never reaches the others), of a uniform number between the values at -2 and 2. */      \
    PD_CLONES static void truncated_##T(const T *restrict u, int64_t n, T mean, T std, T *restrict out)      \
    {                                                                                                        \
        const T low = (T)FLT_MIN, span = (T)1 - low;                                                         \
        const T below = (T)((1.0 + erf(-2.0 / sqrt(2.0))) / 2.0);                                            \
        const T between = (T)((1.0 + erf(2.0 / sqrt(2.0))) / 2.0) - below;                                   \
        const T a[] = {(T)1.1975323115670912564578e0, (T)4.7072688112383978012285e1,                         \
                       (T)6.9706266534389598238465e2, (T)4.8548868893843886794648e3,                         \
                       (T)1.6235862515167575384252e4, (T)2.3782041382114385731252e4,                         \
                       (T)1.1819493347062294404278e4, (T)8.8709406962545514830200e2};                        \
        const T b[] = {(T)1.0,                                                                               \
                       (T)4.2313330701600911252e1,                                                           \
                       (T)6.8718700749205790830e2,                                                           \
                       (T)5.3941960214247511077e3,                                                           \
                       (T)2.1213794301586595867e4,                                                           \
                       (T)3.9307895800092710610e4,                                                           \
                       (T)2.8729085735721942674e4,                                                           \
                       (T)5.2264952788528545610e3};                                                          \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            T p = below + between * (u[i] * span + low), x = 2 * p - 1;                                      \
            T r = (T)(0.180625 - 0.25 * (double)x * (double)x);                                              \
            T over =                                                                                         \
                ((((((a[7] * r + a[6]) * r + a[5]) * r + a[4]) * r + a[3]) * r + a[2]) * r + a[1]) * r +     \
                a[0];                                                                                        \
            T under =                                                                                        \
                ((((((b[7] * r + b[6]) * r + b[5]) * r + b[4]) * r + b[3]) * r + b[2]) * r + b[1]) * r +     \
                b[0];                                                                                        \
            out[i] = (T)(sqrt(2.0) * (double)(x * over / under) * (double)std + (double)mean);               \
        }                                                                                                    \
    }                                                                                                        \
                                                                                                             \
    static void fixed_##T(const struct job *j, const uint32_t *word, int64_t n, int64_t to)                  \
    {                                                                                                        \
        T u[GROUP], *out = (T *)j->d->out + to, a = (T)j->d->a, b = (T)j->d->b;                              \
        pd_minstd_##T##s(word, n, u);                                                                        \
        if (j->d->law == PD_LAW_UNIFORM)                                                                     \
            uniform_##T(u, n, a, b - a, out);                                                                \
        else                                                                                                 \
            truncated_##T(u, n, a, b, out);                                                                  \
    }
FIXED(float)
FIXED(double)

static void fixed_part(void *arg, int64_t begin, int64_t end)
{
    const struct job *j = arg;
    uint32_t word[2 * GROUP];
    int64_t row = begin / j->width, column = begin % j->width, size = j->words;
    uint32_t row_state = state_at(j, j->d->first + row * j->step);
    uint32_t state = pd_minstd_skip(row_state, (uint64_t)(column * size));
    for (int64_t at = begin; at < end; at += GROUP) {
        int64_t n = end - at < GROUP ? end - at : GROUP;
        for (int64_t done = 0; done < n;) {
            int64_t run = j->width - column < n - done ? j->width - column : n - done;
            state = pd_minstd_words(&j->minstd, state, run * size, word + done * size);
            done += run;
            column += run;
            if (column < j->width) continue;
            column = 0;
            state = row_state = pd_minstd_times(row_state, j->row_power);
        }
        (j->d->dtype == PD_DTYPE_FP64 ? fixed_double : fixed_float)(j, word, n, at);
    }
}

/* ---- tries ---- */

/* Words of TRIES tries, from the given one on. */
static void try_words(const struct job *j, uint64_t first, uint32_t *word)
{
    pd_minstd_words(&j->minstd, pd_minstd_skip(j->start, first * (uint64_t)j->words),
                    (int64_t)TRIES * j->words, word);
}

/* The polar method: a point of a square that lies in the circle around its middle gives two numbers, that of
 * its second coordinate first. */
#define NORMAL(T, LOG, SQRT)                                                                                 \
    PD_CLONES static uint32_t count_##T(const T *restrict u)                                                 \
    {                                                                                                        \
        uint32_t count = 0;                                                                                  \
        for (int i = 0; i < TRIES; i++) {                                                                    \
            T x = 2 * u[2 * i] - 1, y = 2 * u[2 * i + 1] - 1, square = x * x + y * y;                        \
            count += !(square > 1) & (square != 0);                                                          \
        }                                                                                                    \
        return count;                                                                                        \
    }                                                                                                        \
                                                                                                             \
    static uint32_t passed_##T(const uint32_t *word)                                                         \
    {                                                                                                        \
        T u[2 * TRIES];                                                                                      \
        pd_minstd_##T##s(word, 2 * TRIES, u);                                                                \
        return count_##T(u);                                                                                 \
    }                                                                                                        \
                                                                                                             \
    struct passed_##T {                                                                                      \
        T x[TRIES + 1], y[TRIES + 1], square[TRIES + 1];                                                     \
    };                                                                                                       \
                                                                                                             \
    static void keep_##T(const uint32_t *word, struct passed_##T *p)                                         \
    {                                                                                                        \
        T u[2 * TRIES];                                                                                      \
        int n = 0;                                                                                           \
        pd_minstd_##T##s(word, 2 * TRIES, u);                                                                \
        for (int i = 0; i < TRIES; i++) {                                                                    \
            T x = 2 * u[2 * i] - 1, y = 2 * u[2 * i + 1] - 1, square = x * x + y * y;                        \
            p->x[n] = x;                                                                                     \
            p->y[n] = y;                                                                                     \
            p->square[n] = square;                                                                           \
            n += !(square > 1) & (square != 0);                                                              \
        }                                                                                                    \
    }                                                                                                        \
                                                                                                             \
    /* Elements [begin, end) of a block. */                                                                  \
    static void normal_##T(const struct job *j, const struct passed_##T *p, int64_t begin, int64_t end,      \
                           int64_t to)                                                                       \
    {                                                                                                        \
        T *out = (T *)j->d->out + to, mean = (T)j->d->a, std = (T)j->d->b;                                   \
        for (int64_t i = begin / 2; 2 * i < end; i++) {                                                      \
            T square = p->square[i], radius = SQRT(-2 * LOG(square) / square);                               \
            if (2 * i >= begin) *out++ = p->y[i] * radius * std + mean;                                      \
            if (2 * i + 1 < end) *out++ = p->x[i] * radius * std + mean;                                     \
        }                                                                                                    \
    }
NORMAL(float, logf, sqrtf)
NORMAL(double, log, sqrt)

static uint32_t passed_integer(const struct job *j, const uint32_t *word)
{
    uint32_t count = 0;
    for (int i = 0; i < TRIES; i++)
        count += word[i] - 1 < j->past;
    return count;
}

static void keep_integer(const struct job *j, const uint32_t *word, uint32_t *passed)
{
    int n = 0;
    for (int i = 0; i < TRIES; i++) {
        passed[n] = word[i] - 1;
        n += word[i] - 1 < j->past;
    }
}

static void integers(const struct job *j, const uint32_t *passed, int64_t begin, int64_t end, int64_t to)
{
    PD_SWITCH_INDEX(j->d->dtype, T, {
        T *out = (T *)j->d->out + to;
        for (int64_t i = begin; i < end; i++)
            *out++ = (T)((int64_t)j->d->a + passed[i] / j->scale);
    })
}

static void count_part(void *arg, int64_t begin, int64_t end)
{
    struct job *j = arg;
    uint32_t word[4 * TRIES];
    for (int64_t b = begin; b < end; b++) {
        try_words(j, j->tried + (uint64_t)b * TRIES, word);
        j->count[b] = j->d->law == PD_LAW_INTEGER    ? passed_integer(j, word)
                      : j->d->dtype == PD_DTYPE_FP64 ? passed_double(word)
                                                     : passed_float(word);
    }
}

union passed {
    struct passed_float f;
    struct passed_double d;
    uint32_t i[TRIES + 1];
};

/* What is wanted of a block, which has elements [from, to) of the variable. */
static void make_block(const struct job *j, uint64_t first_try, int64_t from, int64_t to)
{
    const struct pd_draw *d = j->d;
    union passed p;
    uint32_t word[4 * TRIES];
    int64_t rows = d->n / j->width, row = from <= d->first ? 0 : (from - d->first) / j->step;
    if (row >= rows || d->first + row * j->step >= to) return;
    try_words(j, first_try, word);
    if (d->law == PD_LAW_INTEGER)
        keep_integer(j, word, p.i);
    else if (d->dtype == PD_DTYPE_FP64)
        keep_double(word, &p.d);
    else
        keep_float(word, &p.f);
    for (; row < rows && d->first + row * j->step < to; row++) {
        int64_t begin = d->first + row * j->step, end = begin + j->width, out = row * j->width;
        if (begin < from) {
            out += from - begin;
            begin = from;
        }
        if (end > to) end = to;
        if (begin >= end) continue;
        if (d->law == PD_LAW_INTEGER)
            integers(j, p.i, begin - from, end - from, out);
        else if (d->dtype == PD_DTYPE_FP64)
            normal_double(j, &p.d, begin - from, end - from, out);
        else
            normal_float(j, &p.f, begin - from, end - from, out);
    }
}

static void make_part(void *arg, int64_t begin, int64_t end)
{
    const struct job *j = arg;
    for (int64_t b = begin; b < end; b++) {
        uint64_t before = j->passed + j->count[b], after = j->passed + j->count[b + 1];
        make_block(j, j->tried + (uint64_t)b * TRIES, (int64_t)before * j->per_try,
                   (int64_t)after * j->per_try);
    }
}

/* Waves of blocks, until the last wanted element was made. `luck` is the share of tries that pass. */
static void make_by_tries(struct job *j, double luck)
{
    const struct pd_draw *d = j->d;
    int64_t last = d->first + (d->n / j->width - 1) * j->step + j->width;
    uint64_t wanted = (uint64_t)((last + j->per_try - 1) / j->per_try);
    while (j->passed < wanted) {
        double tries = (double)(wanted - j->passed) / luck;
        int64_t blocks = tries > (double)(BLOCKS - 2) * TRIES ? BLOCKS - 1 : (int64_t)(tries / TRIES) + 1;
        pd_parallel(blocks, BLOCK_GRAIN, count_part, j);
        uint32_t sum = 0;
        for (int64_t b = 0; b <= blocks; b++) {
            uint32_t count = b < blocks ? j->count[b] : 0;
            j->count[b] = sum;
            sum += count;
        }
        pd_parallel(blocks, BLOCK_GRAIN, make_part, j);
        j->tried += (uint64_t)blocks * TRIES;
        j->passed += sum;
    }
}

/* Integers of a range wider than minstd's: a word for the low part, another draw for the high part. Only
 * whole variables have them (randint). */
static void wide_integers(const struct job *j)
{
    const struct pd_draw *d = j->d;
    uint64_t range = (uint64_t)(int64_t)(d->b - d->a) - 1, highs = range / RANGE + 1,
             share = (RANGE - 1) / highs;
    uint32_t state = j->start;
    for (int64_t i = 0; i < d->n; i++) {
        uint64_t high, all;
        do {
            do
                high = pd_minstd_next(&state) - 1;
            while (high >= highs * share);
            high = high / share * RANGE;
            all = high + pd_minstd_next(&state) - 1;
        } while (all > range);
        int64_t value = (int64_t)d->a + (int64_t)all;
        if (d->dtype == PD_DTYPE_INT32)
            ((int32_t *)d->out)[i] = (int32_t)value;
        else
            ((int64_t *)d->out)[i] = value;
    }
}

void pd_draw_seeded(const struct pd_draw *d, uint32_t seed)
{
    struct job j = {
        .d = d, .minstd = pd_minstd_make(), .start = pd_minstd_start(seed), .per_try = 1, .words = 1};
    if (d->n <= 0) return;
    j.width = d->step == d->width ? d->n : d->width;
    j.step = d->step == d->width ? d->n : d->step;
    if (d->law == PD_LAW_INTEGER) {
        uint64_t count = (uint64_t)(int64_t)(d->b - d->a);
        if (count > RANGE) {
            wide_integers(&j);
            return;
        }
        j.scale = count == RANGE ? 1 : (uint32_t)((RANGE - 1) / count);
        j.past = (uint32_t)count * j.scale;
        make_by_tries(&j, (double)j.past / RANGE);
    } else if (d->law == PD_LAW_NORMAL) {
        j.words = d->dtype == PD_DTYPE_FP64 ? 4 : 2;
        j.per_try = 2;
        make_by_tries(&j, 0.785);
    } else {
        j.words = d->dtype == PD_DTYPE_FP64 ? 2 : 1;
        j.row_power = pd_minstd_power((uint64_t)(j.step * j.words));
        pd_parallel(d->n, GRAIN, fixed_part, &j);
    }
}
