/* How a reduction is cut into pieces; the loops over elements are in reduce_kernels.c. */
#include "kernels/reduce.h"

#include <string.h>

#include "base/parallel.h"

#define COLUMNS 512 /* columns of one piece of work when the last dimension stays */
#define GRAIN 32768 /* elements worth a thread */
#define MOST_PARTS 16

void pd_reduce_make(struct pd_reduce *r, int rank, const int64_t *dim, const uint8_t *gone)
{
    int64_t step = 1;
    int last = -1; /* kind of the dimension merged into last */
    r->kept = r->gone = 0;
    r->outputs = r->folded = 1;
    r->inner_gone = 0;
    /* From the last dimension to the first, so that steps are known; reversed below. */
    for (int i = rank - 1; i >= 0; i--) {
        int kind = gone[i] != 0;
        *(kind ? &r->folded : &r->outputs) *= dim[i];
        if (dim[i] == 1) continue;
        if (last < 0) r->inner_gone = kind;
        int64_t *dims = kind ? r->gone_dim : r->kept_dim, *steps = kind ? r->gone_step : r->kept_step;
        int *n = kind ? &r->gone : &r->kept;
        if (kind == last) {
            dims[*n - 1] *= dim[i];
        } else {
            dims[*n] = dim[i];
            steps[*n] = step;
            ++*n;
        }
        last = kind;
        step *= dim[i];
    }
    for (int kind = 0; kind < 2; kind++) {
        int64_t *dims = kind ? r->gone_dim : r->kept_dim, *steps = kind ? r->gone_step : r->kept_step;
        int n = kind ? r->gone : r->kept;
        for (int i = 0, j = n - 1; i < j; i++, j--) {
            int64_t d = dims[i], s = steps[i];
            dims[i] = dims[j], steps[i] = steps[j];
            dims[j] = d, steps[j] = s;
        }
    }
    r->parts = 1;
    int64_t total = r->outputs * r->folded;
    int64_t units = r->inner_gone ? r->outputs : r->outputs / COLUMNS;
    if (r->gone && total >= 2 * GRAIN && units < 8) {
        r->parts = total / GRAIN;
        if (r->parts > MOST_PARTS) r->parts = MOST_PARTS;
        if (r->parts > r->gone_dim[0]) r->parts = r->gone_dim[0];
    }
}

size_t pd_reduce_scratch(const struct pd_reduce *r, const struct pd_reduce_kernel *k)
{
    return r->parts > 1 ? (size_t)(r->parts * r->outputs) * k->item : 0;
}

static void start(const struct pd_reduce_kernel *k, char *out, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        memcpy(out + (size_t)i * k->item, k->start, k->item);
}

/* Offset of the index-th combination of the first `n` dimensions. */
static int64_t offset(int64_t index, int n, const int64_t *dim, const int64_t *step)
{
    int64_t at = 0;
    for (int i = n - 1; i > 0; i--) {
        at += index % dim[i] * step[i];
        index /= dim[i];
    }
    return n ? at + index * step[0] : 0;
}

/* The last dimension goes: outputs [first, end), each over [lo, hi) of the first dimension that goes. */
static void inner_gone(const struct pd_reduce *r, const struct pd_reduce_kernel *k, const char *in, char *out,
                       int64_t first, int64_t end, int64_t lo, int64_t hi)
{
    int outer = r->gone - 1;
    int64_t n = r->gone_dim[outer], runs = 1, skip = 0;
    if (outer == 0) {
        skip = lo;
        n = hi - lo;
        lo = 0;
    } else {
        for (int i = 1; i < outer; i++)
            runs *= r->gone_dim[i];
        lo *= runs;
        runs = hi * runs;
    }
    for (int64_t u = first; u < end; u++) {
        char *acc = out + (size_t)u * k->item;
        const char *base = in + (size_t)(offset(u, r->kept, r->kept_dim, r->kept_step) + skip) * k->item;
        start(k, acc, 1);
        for (int64_t run = lo; run < runs; run++)
            k->fold(acc, base + (size_t)offset(run, outer, r->gone_dim, r->gone_step) * k->item, n);
    }
}

/* The last dimension stays: pieces of up to COLUMNS columns. */
static void inner_kept(const struct pd_reduce *r, const struct pd_reduce_kernel *k, const char *in, char *out,
                       int64_t first, int64_t end, int64_t lo, int64_t hi)
{
    int64_t columns = r->kept_dim[r->kept - 1], blocks = (columns + COLUMNS - 1) / COLUMNS;
    int last = r->gone - 1;
    int64_t rows = r->gone_dim[last], runs = 1, skip = 0;
    if (last == 0) {
        skip = lo * r->gone_step[0];
        rows = hi - lo;
        lo = 0;
    } else {
        for (int i = 1; i < last; i++)
            runs *= r->gone_dim[i];
        lo *= runs;
        runs = hi * runs;
    }
    for (int64_t u = first; u < end; u++) {
        int64_t outer = u / blocks, column = u % blocks * COLUMNS;
        int64_t n = columns - column < COLUMNS ? columns - column : COLUMNS;
        char *acc = out + (size_t)(outer * columns + column) * k->item;
        int64_t base = offset(outer, r->kept - 1, r->kept_dim, r->kept_step) + column + skip;
        start(k, acc, n);
        for (int64_t run = lo; run < runs; run++)
            k->merge(acc, in + (size_t)(base + offset(run, last, r->gone_dim, r->gone_step)) * k->item, n,
                     rows, r->gone_step[last]);
    }
}

static int64_t unit_count(const struct pd_reduce *r)
{
    if (r->inner_gone) return r->outputs;
    int64_t columns = r->kept_dim[r->kept - 1];
    return r->outputs / columns * ((columns + COLUMNS - 1) / COLUMNS);
}

struct job {
    const struct pd_reduce *r;
    const struct pd_reduce_kernel *k;
    const char *in;
    char *out;
};

static void piece(const struct job *j, char *out, int64_t first, int64_t end, int64_t lo, int64_t hi)
{
    (j->r->inner_gone ? inner_gone : inner_kept)(j->r, j->k, j->in, out, first, end, lo, hi);
}

static void units_part(void *arg, int64_t begin, int64_t end)
{
    const struct job *j = arg;
    piece(j, j->out, begin, end, 0, j->r->gone_dim[0]);
}

static void parts_part(void *arg, int64_t begin, int64_t end)
{
    const struct job *j = arg;
    const struct pd_reduce *r = j->r;
    for (int64_t part = begin; part < end; part++)
        piece(j, j->out + (size_t)(part * r->outputs) * j->k->item, 0, unit_count(r),
              r->gone_dim[0] * part / r->parts, r->gone_dim[0] * (part + 1) / r->parts);
}

void pd_reduce_run(const struct pd_reduce *r, const struct pd_reduce_kernel *k, const void *in, void *out,
                   void *scratch)
{
    if (r->outputs <= 0) return;
    if (r->folded <= 0) {
        start(k, out, r->outputs);
        return;
    }
    if (!r->gone) {
        /* One element for each result: fold it, since a reduction may also change values. */
        start(k, out, r->outputs);
        k->merge(out, in, r->outputs, 1, 0);
        return;
    }
    struct job j = {r, k, in, out};
    if (r->parts > 1) {
        j.out = scratch;
        pd_parallel(r->parts, 1, parts_part, &j);
        start(k, out, r->outputs);
        k->join(out, scratch, r->outputs, r->parts, r->outputs);
        return;
    }
    int64_t units = unit_count(r);
    pd_parallel(units, GRAIN * units / (r->outputs * r->folded) + 1, units_part, &j);
}
