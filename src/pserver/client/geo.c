/* See geo.h. */
#include "pserver/client/geo.h"

#include <pthread.h>
#include <string.h>

#include "base/error.h"
#include "base/lock.h"
#include "base/wait.h"
#include "pserver/client/communicator.h"
#include "pserver/client/step_copy.h"
#include "tensor/held.h"

enum { LOOK_MS = 20 };

struct tracked {
    struct pd_value *value; /* counted */
    int is_sparse;
    int64_t height, width; /* a row is what has one number of the first dimension */
    char *old;             /* what servers have, as far as this trainer knows */
    uint64_t *touched;     /* of a sparse one: a bit for each row since the last time */
};

enum state { RESTS, ON_ITS_WAY, ANSWERED };

struct pd_geo {
    pthread_mutex_t lock;
    pthread_cond_t answered;
    int n;
    struct tracked *params;
    PD_VEC(struct pd_geo_slice) slices; /* of the last batch */
    uint64_t client;
    int trainers;
    int64_t batches; /* since the last time */
    enum state state;
    pd_status outcome;
    struct pd_step_copy *copy; /* NULL: it is on its way */
    PD_VEC(int64_t) rows;      /* those of one slice, while it is gathered */
    PD_VEC(char) deltas;
};

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static PD_VEC(struct pd_geo *) all; /* one for each model */

/* ---- made and freed ---- */

static void free_params(struct pd_geo *g)
{
    for (int i = 0; g->params && i < g->n; i++) {
        pd_value_unref(g->params[i].value);
        pd_free_aligned(g->params[i].old);
        pd_free(g->params[i].touched);
    }
    pd_free(g->params);
    g->params = NULL;
}

static void free_geo(struct pd_geo *g)
{
    free_params(g);
    pd_step_copy_free(g->copy);
    pd_vec_free(&g->slices);
    pd_vec_free(&g->rows);
    pd_vec_free(&g->deltas);
    pthread_mutex_destroy(&g->lock);
    pthread_cond_destroy(&g->answered);
    pd_free(g);
}

void pd_geo_forget(void)
{
    PD_HOLD(&list_lock);
    for (int i = 0; i < all.n; i++)
        free_geo(all.at[i]);
    pd_vec_free(&all);
}

static struct pd_geo *find(int n, struct pd_value *const *params)
{
    PD_HOLD(&list_lock);
    for (int i = 0; i < all.n; i++)
        if (n && all.at[i]->n == n && all.at[i]->params && all.at[i]->params[0].value == params[0])
            return all.at[i];
    return NULL;
}

static pd_status find_or_make(int n, struct pd_value *const *params, struct pd_geo **out)
{
    *out = find(n, params);
    if (*out) return PD_OK;
    struct pd_geo *g = pd_calloc(1, sizeof *g);
    if (!g) return pd_no_memory();
    pthread_mutex_init(&g->lock, NULL);
    pd_cond_init(&g->answered);
    pd_status status = pd_step_copy_new(&g->copy);
    PD_HOLD(&list_lock);
    if (status == PD_OK && !pd_vec_push(&all, g)) status = pd_no_memory();
    if (status == PD_OK)
        *out = g;
    else
        free_geo(g);
    return status;
}

/* ---- the arithmetic ---- */

/* What is told of n elements: the trainer's share of what has changed. */
#define ARITHMETIC(name, T)                                                                                  \
    static void take_##name(T *delta, T *old, const T *now, int64_t n, int trainers)                         \
    {                                                                                                        \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            delta[i] = (now[i] - old[i]) / (T)trainers;                                                      \
            old[i] += delta[i];                                                                              \
        }                                                                                                    \
    }                                                                                                        \
    /* What servers have now. */                                                                             \
    static void meet_##name(T *now, T *old, const T *theirs, int64_t n)                                      \
    {                                                                                                        \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            now[i] += theirs[i] - old[i];                                                                    \
            old[i] = theirs[i];                                                                              \
        }                                                                                                    \
    }
ARITHMETIC(f32, float)
ARITHMETIC(f64, double)

static enum pd_dtype dtype_of(const struct tracked *p)
{
    return p->value->tensor.meta.dtype;
}

static size_t row_bytes(const struct tracked *p)
{
    return (size_t)p->width * pd_dtype_size(dtype_of(p));
}

/* n rows from `row` on. */
static void take(const struct tracked *p, int64_t row, int64_t n, void *delta, int trainers)
{
    size_t at = (size_t)row * row_bytes(p);
    const char *now = (const char *)p->value->tensor.data + at;
    if (dtype_of(p) == PD_DTYPE_FP32)
        take_f32(delta, (float *)(p->old + at), (const float *)now, n * p->width, trainers);
    else
        take_f64(delta, (double *)(p->old + at), (const double *)now, n * p->width, trainers);
}

static void meet(const struct tracked *p, int64_t row, int64_t n, const void *theirs)
{
    size_t at = (size_t)row * row_bytes(p);
    char *now = (char *)p->value->tensor.data + at;
    if (dtype_of(p) == PD_DTYPE_FP32)
        meet_f32((float *)now, (float *)(p->old + at), theirs, n * p->width);
    else
        meet_f64((double *)now, (double *)(p->old + at), theirs, n * p->width);
}

/* ---- telling; with the lock ---- */

static int64_t height_of(const struct tracked *p, const struct pd_geo_slice *s)
{
    return s->n < 0 ? p->height : s->n;
}

/* The touched rows of a slice, and their bits are off. */
static pd_status gather(struct pd_geo *g, const struct tracked *p, int64_t first, int64_t n)
{
    g->rows.n = 0;
    for (int64_t at = first; at < first + n;) {
        uint64_t *word = &p->touched[at / 64];
        int64_t end = at / 64 * 64 + 64 < first + n ? at / 64 * 64 + 64 : first + n;
        uint64_t mask = (end - at == 64 ? ~0ULL : ((1ULL << (end - at)) - 1) << (at % 64));
        uint64_t bits = __atomic_load_n(word, __ATOMIC_RELAXED) & mask;
        if (bits) {
            if (!pd_vec_reserve(&g->rows, g->rows.n + 64)) return pd_no_memory();
            bits = __atomic_fetch_and(word, ~mask, __ATOMIC_ACQ_REL) & mask;
        }
        for (; bits; bits &= bits - 1)
            g->rows.at[g->rows.n++] = at / 64 * 64 + __builtin_ctzll(bits) - first;
        at = end;
    }
    return PD_OK;
}

static pd_status copy_slice(struct pd_geo *g, const struct pd_geo_slice *s)
{
    const struct tracked *p = &g->params[s->param];
    int64_t n = height_of(p, s);
    size_t row = row_bytes(p);
    if (p->is_sparse) {
        PD_TRY(gather(g, p, s->first, n));
        n = g->rows.n;
        if (!n) return PD_OK;
    }
    if ((uint64_t)n * row > INT32_MAX)
        return pd_fail(PD_RANGE,
                       "a part of a parameter of %lld rows is too large to be told at once: use more "
                       "servers",
                       (long long)n);
    if (!pd_vec_reserve(&g->deltas, (int)((size_t)n * row))) return pd_no_memory();
    if (!p->is_sparse) {
        take(p, s->first, n, g->deltas.at, g->trainers);
        PD_TRY(pd_step_copy_dense(g->copy, s->push, dtype_of(p), g->deltas.at, (size_t)n * row, row));
    } else {
        for (int64_t i = 0; i < n; i++)
            take(p, s->first + g->rows.at[i], 1, g->deltas.at + (size_t)i * row, g->trainers);
        PD_TRY(pd_step_copy_rows(g->copy, s->push, dtype_of(p), n, g->rows.at, g->deltas.at, row, 1));
    }
    return pd_step_copy_brings(g->copy, s->pull);
}

/* In the communicator's thread. */
static void is_over(void *arg, struct pd_step_copy *copy, pd_status status)
{
    struct pd_geo *g = arg;
    PD_HOLD(&g->lock);
    g->copy = copy;
    g->outcome = status;
    g->state = ANSWERED;
    pthread_cond_broadcast(&g->answered);
}

/* What was taken and cannot be told is told the next time: `old` goes back. */
static void take_back(struct pd_geo *g)
{
    for (int i = 0, k = 0; i < g->slices.n && k < g->copy->n; i++) {
        const struct pd_geo_slice *s = &g->slices.at[i];
        const struct pd_copied *item = g->copy->items.at[k];
        const struct tracked *p = &g->params[s->param];
        if (item->number != s->push) continue;
        k++;
        for (size_t e = 0; e < item->bytes / pd_dtype_size(item->dtype); e++) {
            int64_t row = (int64_t)e / p->width;
            int64_t at =
                (s->first + (item->is_rows ? item->rows.at[row] : row)) * p->width + (int64_t)e % p->width;
            if (item->dtype == PD_DTYPE_FP32)
                ((float *)p->old)[at] -= ((float *)item->data)[e];
            else
                ((double *)p->old)[at] -= ((double *)item->data)[e];
        }
        for (int r = 0; r < item->rows.n; r++) {
            int64_t row = s->first + item->rows.at[r];
            __atomic_fetch_or(&p->touched[row / 64], 1ULL << (row % 64), __ATOMIC_RELAXED);
        }
    }
    pd_step_copy_clear(g->copy);
}

static pd_status tell(struct pd_geo *g)
{
    pd_step_copy_clear(g->copy);
    pd_status status = PD_OK;
    for (int i = 0; status == PD_OK && i < g->slices.n; i++)
        status = copy_slice(g, &g->slices.at[i]);
    if (status == PD_OK && !g->copy->n) {
        g->batches = 0;
        return PD_OK;
    }
    g->copy->over = is_over;
    g->copy->arg = g;
    if (status == PD_OK) status = pd_comm_queue(g->copy);
    if (status != PD_OK) {
        take_back(g);
        return status;
    }
    g->copy = NULL;
    g->batches = 0;
    g->state = ON_ITS_WAY;
    return PD_OK;
}

/* ---- hearing; with the lock ---- */

static pd_status take_in(struct pd_geo *g)
{
    if (g->state != ANSWERED) return PD_OK;
    g->state = RESTS;
    if (g->outcome != PD_OK) {
        PD_TRY(pd_comm_told());
        return pd_fail(g->outcome, "the exchange with the servers was broken off");
    }
    for (int i = 0, k = 0; i < g->slices.n && k < g->copy->n; i++) {
        const struct pd_geo_slice *s = &g->slices.at[i];
        const struct pd_copied *item = g->copy->items.at[k];
        const struct tracked *p = &g->params[s->param];
        if (item->number != s->push) continue; /* no row of this slice was told */
        k++;
        if (!item->is_rows) meet(p, s->first, height_of(p, s), item->answer);
        for (int r = 0; r < item->rows.n; r++)
            meet(p, s->first + item->rows.at[r], 1, (char *)item->answer + (size_t)r * item->row);
    }
    pd_step_copy_clear(g->copy);
    return PD_OK;
}

/* Until nothing is on its way. The communicator's thread has a deadline, and says whom it waits for. */
static pd_status settle(struct pd_geo *g, const struct pd_run *run, int (*poll)(void *arg), void *arg)
{
    while (g->state == ON_ITS_WAY) {
        pd_cond_wait_ms(&g->answered, &g->lock, LOOK_MS);
        if (g->state != ON_ITS_WAY) break;
        pthread_mutex_unlock(&g->lock);
        pd_status status = run ? run->step->poll(run) : PD_OK;
        if (status == PD_OK && poll && poll(arg)) status = pd_fail(PD_INTERRUPTED, "interrupted");
        pthread_mutex_lock(&g->lock);
        PD_TRY(status);
    }
    return take_in(g);
}

/* ---- for the ops ---- */

static pd_status track(struct tracked *p, struct pd_value *value, int is_sparse)
{
    const struct pd_tensor *t = &value->tensor;
    size_t bytes = pd_tensor_bytes(t);
    p->value = pd_value_ref(value);
    p->is_sparse = is_sparse;
    p->height = t->meta.rank ? t->meta.dim[0] : 1;
    p->width = t->meta.rank > 1 ? pd_meta_span(&t->meta, 1, t->meta.rank) : 1;
    p->old = pd_malloc_aligned(bytes ? bytes : 1);
    if (is_sparse) p->touched = pd_calloc((size_t)p->height / 64 + 1, sizeof *p->touched);
    if (!p->old || (is_sparse && !p->touched)) return pd_no_memory();
    if (bytes) memcpy(p->old, t->data, bytes);
    pd_held_lost(value); /* from now on it is this trainer's own */
    return PD_OK;
}

pd_status pd_geo_begin(const struct pd_run *run, int n, struct pd_value *const *params, const int *is_sparse)
{
    struct pd_geo *g;
    if (n < 1) return pd_fail(PD_INVALID, "geo_sgd has no Param");
    for (int i = 0; i < n; i++)
        if (!pd_step_copy_takes(params[i]->tensor.meta.dtype))
            return pd_fail(PD_UNSUPPORTED, "geo_sgd takes parameters of float32 and float64, found %s",
                           pd_dtype_name(params[i]->tensor.meta.dtype));
    PD_TRY(find_or_make(n, params, &g));
    PD_HOLD(&g->lock);
    if (g->params) PD_TRY(settle(g, run, NULL, NULL));
    free_params(g);
    g->n = n;
    g->batches = 0;
    g->params = pd_calloc((size_t)n, sizeof *g->params);
    if (!g->params) return pd_no_memory();
    for (int i = 0; i < n; i++)
        PD_TRY(track(&g->params[i], params[i], is_sparse[i]));
    return PD_OK;
}

static void mark(const struct tracked *p, const struct pd_tensor *ids)
{
    int64_t n = pd_tensor_numel(ids);
    for (int64_t i = 0; p->touched && i < n; i++) {
        int64_t id = ids->meta.dtype == PD_DTYPE_INT32 ? ((const int32_t *)ids->data)[i]
                                                       : ((const int64_t *)ids->data)[i];
        uint64_t bit = 1ULL << (id & 63);
        if (id < 0 || id >= p->height) continue; /* padding: the lookup has refused others */
        if (!(__atomic_load_n(&p->touched[id / 64], __ATOMIC_RELAXED) & bit))
            __atomic_fetch_or(&p->touched[id / 64], bit, __ATOMIC_RELEASE);
    }
}

static pd_status take_slices(struct pd_geo *g, const struct pd_geo_step *step)
{
    if (g->client == step->client && g->slices.n == step->n_slices) return PD_OK;
    if (!pd_vec_reserve(&g->slices, step->n_slices)) return pd_no_memory();
    memcpy(g->slices.at, step->slices, (size_t)step->n_slices * sizeof *step->slices);
    g->slices.n = step->n_slices;
    g->client = step->client;
    g->trainers = step->trainers;
    return PD_OK;
}

pd_status pd_geo_batch(const struct pd_run *run, int n, struct pd_value *const *params,
                       const struct pd_geo_step *step)
{
    struct pd_geo *g = find(n, params);
    if (!g)
        return pd_fail(PD_INVALID,
                       "this trainer has not begun: run the startup Program first, which brings the "
                       "servers' parameters, in the same scope and process");
    for (int i = 0; i < step->n_ids; i++)
        mark(&g->params[step->ids_of[i]], &step->ids[i]->tensor);
    PD_HOLD(&g->lock);
    PD_TRY(take_in(g));
    PD_TRY(pd_comm_told());
    PD_TRY(take_slices(g, step));
    g->batches++;
    if (g->batches < step->every) return PD_OK;
    PD_TRY(settle(g, run, NULL, NULL));
    return tell(g);
}

static struct pd_geo *at(int i)
{
    PD_HOLD(&list_lock);
    return i < all.n ? all.at[i] : NULL;
}

static pd_status flush(struct pd_geo *g, int (*poll)(void *arg), void *arg)
{
    PD_HOLD(&g->lock);
    PD_TRY(settle(g, NULL, poll, arg));
    if (!g->batches) return PD_OK;
    PD_TRY(tell(g));
    return settle(g, NULL, poll, arg);
}

pd_status pd_geo_flush(int (*poll)(void *arg), void *arg)
{
    struct pd_geo *g;
    for (int i = 0; (g = at(i)); i++)
        PD_TRY(flush(g, poll, arg));
    return PD_OK;
}
