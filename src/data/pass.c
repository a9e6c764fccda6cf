/* See pass.h. */
#include "data/pass.h"

#include <inttypes.h>
#include <limits.h>

#include "base/error.h"
#include "data/ahead.h"

struct worker {
    struct pd_pass *pass;
    int64_t own, skip;             /* batches: in memory the number of its next own; to be read over */
    struct pd_line_reader *reader; /* NULL: in memory */
    struct pd_buf text;            /* the records of a batch that was read, */
    PD_VEC(size_t) begin;          /* where each begins in it, */
    const char **record;           /* and in memory */
    struct pd_ahead *ahead;        /* the thread that reads; NULL: the worker does */
    struct pd_batch *batch;        /* one, or as many as the thread has slots */
};

struct pd_pass {
    struct pd_dataset *dataset;
    struct pd_files files;
    struct worker *worker;
    int n, is_fixed;
    int slots;    /* batches of each worker */
    int64_t next; /* in memory: the first sample that nobody has; is_fixed: samples handed out; atomic */
};

/* Records lie one behind the other in `text`, which may move while it grows. */
static pd_status next_of_files(struct pd_pass *p, struct worker *w, int64_t *n)
{
    const struct pd_dataset *d = p->dataset;
    int had = w->begin.cap;
    w->text.n = 0;
    w->begin.n = 0;
    while (w->begin.n < d->batch_size) {
        size_t begin = w->text.n;
        int more;
        PD_TRY(pd_line_reader_next(w->reader, &w->text, &more));
        if (!more) break;
        if (w->begin.n == INT_MAX)
            return pd_fail(PD_INVALID, "a batch from files has at most %d samples; set a smaller batch size",
                           INT_MAX);
        if (!pd_vec_push(&w->begin, begin)) return pd_no_memory();
    }
    if (w->begin.cap > had) {
        const char **grown = pd_realloc_array(w->record, (size_t)w->begin.cap, sizeof *grown);
        if (!grown) return pd_no_memory();
        w->record = grown;
    }
    *n = w->begin.n;
    for (int64_t i = 0; i < *n; i++)
        w->record[i] = w->text.at + w->begin.at[i];
    return PD_OK;
}

/* The next samples in memory of a worker's own: *n of them from *begin on. */
static void own_of_memory(struct pd_pass *p, struct worker *w, int64_t *begin, int64_t *n)
{
    const struct pd_dataset *d = p->dataset;
    int64_t batches = d->store.n / d->batch_size + (d->store.n % d->batch_size > 0);
    w->own += w->skip * p->n;
    w->skip = 0;
    *n = 0;
    if (w->own >= batches) return;
    *begin = w->own * d->batch_size;
    *n = d->store.n - *begin < d->batch_size ? d->store.n - *begin : d->batch_size;
    w->own += p->n;
    __atomic_fetch_add(&p->next, *n, __ATOMIC_RELAXED);
}

/* The next ones that nobody has. */
static void next_of_memory(struct pd_pass *p, int64_t *begin, int64_t *n)
{
    const struct pd_dataset *d = p->dataset;
    *begin = __atomic_load_n(&p->next, __ATOMIC_RELAXED);
    do {
        int64_t left = d->store.n - *begin;
        *n = left < d->batch_size ? left : d->batch_size;
    } while (*n && !__atomic_compare_exchange_n(&p->next, begin, *begin + *n, 1, __ATOMIC_RELAXED,
                                                __ATOMIC_RELAXED));
}

/* Fills a batch; *more is 0 when there was nothing to fill it with. On the worker's thread or on the one that
 * reads for it. */
static pd_status make(void *arg, int slot, int *more)
{
    struct worker *w = arg;
    struct pd_pass *p = w->pass;
    const char **record;
    int64_t n;
    *more = 0;
    if (p->dataset->is_in_memory) {
        int64_t begin = 0;
        if (p->is_fixed)
            own_of_memory(p, w, &begin, &n);
        else
            next_of_memory(p, &begin, &n);
        record = p->dataset->store.record + begin;
    } else {
        do
            PD_TRY(next_of_files(p, w, &n));
        while (n && w->skip-- > 0);
        record = w->record;
    }
    if (n == 0) return PD_OK;
    PD_TRY(pd_batch_fill(&w->batch[slot], record, n));
    *more = 1;
    return PD_OK;
}

pd_status pd_pass_next(struct pd_pass *pass, int worker, const struct pd_batch **batch)
{
    struct worker *w = &pass->worker[worker];
    int slot = 0, more;
    *batch = NULL;
    if (w->ahead) {
        PD_TRY(pd_ahead_next(w->ahead, &slot));
        more = slot >= 0;
    } else
        PD_TRY(make(w, slot, &more));
    if (more) *batch = &w->batch[slot];
    return PD_OK;
}

/* ---- start and end ---- */

static pd_status worker_init(struct pd_pass *p, int number, const struct pd_pass_options *options)
{
    struct pd_dataset *d = p->dataset;
    struct worker *w = &p->worker[number];
    w->pass = p;
    w->own = number;
    w->skip = options->skip;
    w->batch = pd_calloc((size_t)p->slots, sizeof *w->batch);
    if (!w->batch) return pd_no_memory();
    for (int i = 0; i < p->slots; i++)
        PD_TRY(pd_batch_init(&w->batch[i], &d->schema));
    if (d->is_in_memory) return PD_OK;
    PD_TRY(pd_line_reader_new(&p->files, number, p->is_fixed ? p->n : 0, &w->reader));
    return p->slots > 1 ? pd_ahead_start(p->slots, make, w, &w->ahead) : PD_OK;
}

pd_status pd_pass_begin(struct pd_dataset *dataset, const struct pd_pass_options *options,
                        struct pd_pass **out)
{
    PD_TRY(pd_dataset_enter(dataset));
    struct pd_pass *p = pd_calloc(1, sizeof *p);
    if (!p) {
        pd_dataset_leave(dataset);
        return pd_no_memory();
    }
    p->dataset = dataset;
    p->n = options->workers;
    p->is_fixed = options->is_fixed;
    p->slots = dataset->is_in_memory || options->ahead < 1 ? 1 : options->ahead + 1; /* one is the worker's */
    p->worker = pd_calloc((size_t)p->n, sizeof *p->worker);
    pd_status status = p->worker ? pd_dataset_open_files(dataset, &p->files) : pd_no_memory();
    for (int i = 0; i < p->n && status == PD_OK; i++)
        status = worker_init(p, i, options);
    if (status != PD_OK) {
        pd_pass_free(p);
        return status;
    }
    *out = p;
    return PD_OK;
}

void pd_pass_stop(struct pd_pass *pass)
{
    __atomic_store_n(&pass->files.stop, 1, __ATOMIC_RELAXED);
}

void pd_pass_progress(const struct pd_pass *pass, int64_t *done, int64_t *all)
{
    if (pass->dataset->is_in_memory) {
        *done = __atomic_load_n(&pass->next, __ATOMIC_RELAXED);
        *all = pass->dataset->store.n;
        return;
    }
    *done = __atomic_load_n(&pass->files.done, __ATOMIC_RELAXED);
    *all = pass->files.bytes;
}

pd_status pd_pass_check(struct pd_pass *pass)
{
    return pass->dataset->is_in_memory ? PD_OK : pd_files_check(&pass->files);
}

static void worker_clear(struct pd_pass *p, struct worker *w)
{
    pd_line_reader_free(w->reader);
    pd_buf_free(&w->text);
    pd_vec_free(&w->begin);
    pd_free(w->record);
    for (int i = 0; w->batch && i < p->slots; i++)
        if (w->batch[i].schema) pd_batch_clear(&w->batch[i]);
    pd_free(w->batch);
}

void pd_pass_free(struct pd_pass *pass)
{
    if (!pass) return;
    pd_pass_stop(pass);
    for (int i = 0; pass->worker && i < pass->n; i++)
        pd_ahead_free(pass->worker[i].ahead);
    for (int i = 0; pass->worker && i < pass->n; i++)
        worker_clear(pass, &pass->worker[i]);
    pd_free(pass->worker);
    pd_files_clear(&pass->files);
    pd_dataset_leave(pass->dataset);
    pd_free(pass);
}
