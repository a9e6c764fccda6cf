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
    int refs;               /* by list_lock: the list, calls, and what is on its way */
    int n;                  /* it is known by these two, which stay as they are */
    struct pd_value *first; /* counted */

    pthread_mutex_t lock; /* of all that follows */
    pthread_cond_t answered;
    struct tracked *params;             /* n; NULL: it has not begun */
    PD_VEC(struct pd_geo_slice) slices; /* of the last batch */
    uint64_t client;
    int trainers;
    int64_t batches, told_batches; /* since the last time, and those told then */
    enum state state;
    struct pd_step_copy *copy; /* NULL: it is on its way */
    uint64_t tellings, answers;
    uint64_t unsent;      /* the last telling of which nothing was sent */
    PD_VEC(int64_t) rows; /* those of one slice, while it is gathered */
};

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static PD_VEC(struct pd_geo *) all; /* one for each model */

/* ---- forks ---- */

PD_LOCK_FORKS(&list_lock)

/* The parent's models: nobody knows in which state, or with which locks. Their memory stays. */
static void in_child(void)
{
    all.n = 0;
    pthread_mutex_unlock(&list_lock);
}

static void make_ready(void)
{
    pthread_atfork(before_fork, in_parent, in_child);
}

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
    pd_value_unref(g->first);
    pd_step_copy_free(g->copy);
    pd_vec_free(&g->slices);
    pd_vec_free(&g->rows);
    pthread_mutex_destroy(&g->lock);
    pthread_cond_destroy(&g->answered);
    pd_free(g);
}

/* With list_lock. */
static struct pd_geo *ref(struct pd_geo *g)
{
    if (g) g->refs++;
    return g;
}

/* With list_lock. */
static void unref(struct pd_geo *g)
{
    if (g && --g->refs == 0) free_geo(g);
}

/* Without the model's lock. */
static void let_go(struct pd_geo **g)
{
    PD_HOLD(&list_lock);
    unref(*g);
}

#define MODEL(name) __attribute__((cleanup(let_go))) struct pd_geo *name = NULL

void pd_geo_forget(void)
{
    PD_HOLD(&list_lock);
    for (int i = 0; i < all.n; i++)
        unref(all.at[i]);
    pd_vec_free(&all);
}

/* A new reference; NULL: there is none. With list_lock. */
static struct pd_geo *find_held(int n, struct pd_value *const *params)
{
    for (int i = 0; i < all.n; i++)
        if (n && all.at[i]->n == n && all.at[i]->first == params[0]) return ref(all.at[i]);
    return NULL;
}

static struct pd_geo *find(int n, struct pd_value *const *params)
{
    PD_HOLD(&list_lock);
    return find_held(n, params);
}

static pd_status make(int n, struct pd_value *first, struct pd_geo **out)
{
    struct pd_geo *g = pd_calloc(1, sizeof *g);
    if (!g) return pd_no_memory();
    pthread_mutex_init(&g->lock, NULL);
    pd_cond_init(&g->answered);
    g->refs = 1;
    g->n = n;
    g->first = pd_value_ref(first);
    if (pd_step_copy_new(&g->copy) == PD_OK && pd_vec_push(&all, g)) {
        *out = ref(g);
        return PD_OK;
    }
    free_geo(g);
    return pd_no_memory();
}

/* A new reference. */
static pd_status find_or_make(int n, struct pd_value *const *params, struct pd_geo **out)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_ready);
    PD_HOLD(&list_lock);
    *out = find_held(n, params);
    return *out ? PD_OK : make(n, params[0], out);
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

static int is_touched(const struct tracked *p, int64_t row)
{
    return p->touched[row / 64] >> (row % 64) & 1;
}

static void set_touched(const struct tracked *p, int64_t row, int is_on)
{
    uint64_t bit = 1ULL << (row % 64), *word = &p->touched[row / 64];
    *word = is_on ? *word | bit : *word & ~bit;
}

/* The touched rows of a slice. */
static pd_status gather(struct pd_geo *g, const struct tracked *p, int64_t first, int64_t n)
{
    g->rows.n = 0;
    for (int64_t at = first; at < first + n; at++) {
        if (at % 64 == 0 && !p->touched[at / 64])
            at += 63;
        else if (is_touched(p, at) && !pd_vec_push(&g->rows, at - first))
            return pd_no_memory();
    }
    return PD_OK;
}

/* Room for what is told of a slice: all of it, or the rows that were gathered. Nothing is changed yet. */
static pd_status add_item(struct pd_geo *g, const struct pd_geo_slice *s, int64_t n)
{
    const struct tracked *p = &g->params[s->param];
    size_t row = row_bytes(p);
    if (p->is_sparse)
        PD_TRY(pd_step_copy_rows(g->copy, s->push, dtype_of(p), n, g->rows.at, NULL, row, 1));
    else
        PD_TRY(pd_step_copy_dense(g->copy, s->push, dtype_of(p), NULL, (size_t)n * row, row));
    return pd_step_copy_brings(g->copy, s->pull);
}

static pd_status copy_slice(struct pd_geo *g, const struct pd_geo_slice *s)
{
    const struct tracked *p = &g->params[s->param];
    int64_t n = height_of(p, s);
    int before = g->copy->n;
    if (p->is_sparse) {
        PD_TRY(gather(g, p, s->first, n));
        n = g->rows.n;
        if (!n) return PD_OK;
    }
    pd_status status = add_item(g, s, n);
    if (status != PD_OK) {
        g->copy->n = before;
        return status;
    }
    char *deltas = g->copy->items.at[before]->data;
    if (!p->is_sparse) take(p, s->first, n, deltas, g->trainers);
    for (int i = 0; p->is_sparse && i < g->rows.n; i++) {
        take(p, s->first + g->rows.at[i], 1, deltas + (size_t)i * row_bytes(p), g->trainers);
        set_touched(p, s->first + g->rows.at[i], 0);
    }
    return PD_OK;
}

/* What was told, or could not be. */
static void is_over(void *arg, struct pd_step_copy *copy)
{
    struct pd_geo *g = arg;
    pthread_mutex_lock(&g->lock);
    g->copy = copy;
    g->state = ANSWERED;
    g->answers++;
    if (copy->outcome == PD_INTERRUPTED) g->unsent = g->answers;
    pthread_cond_broadcast(&g->answered);
    pthread_mutex_unlock(&g->lock);
    let_go(&g);
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
        for (int r = 0; r < item->rows.n; r++)
            set_touched(p, s->first + item->rows.at[r], 1);
    }
    pd_step_copy_clear(g->copy);
}

static pd_status queue_copy(struct pd_geo *g)
{
    g->copy->over = is_over;
    g->copy->arg = g;
    pthread_mutex_lock(&list_lock);
    ref(g);
    pthread_mutex_unlock(&list_lock);
    pd_status status = pd_comm_queue(g->copy);
    if (status == PD_OK) return PD_OK;
    struct pd_geo *same = g; /* the caller has a reference, too */
    let_go(&same);
    return status;
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
    if (status == PD_OK) status = queue_copy(g);
    if (status != PD_OK) {
        take_back(g);
        return status;
    }
    g->copy = NULL;
    g->told_batches = g->batches;
    g->batches = 0;
    g->state = ON_ITS_WAY;
    g->tellings++;
    return PD_OK;
}

/* ---- hearing; with the lock ---- */

static void meet_all(struct pd_geo *g)
{
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
}

static pd_status take_in(struct pd_geo *g)
{
    if (g->state != ANSWERED) return PD_OK;
    g->state = RESTS;
    pd_status outcome = g->copy->outcome;
    if (outcome == PD_OK) {
        meet_all(g);
        return PD_OK;
    }
    if (outcome == PD_INTERRUPTED) {
        take_back(g);
        g->batches += g->told_batches;
        return PD_OK;
    }
    pd_step_copy_clear(g->copy);
    PD_TRY(pd_comm_told());
    return pd_fail(outcome, "the exchange with the servers was broken off");
}

/* For a moment, or until an answer comes; the lock is free meanwhile. The communicator's thread has a
 * deadline, and says whom it waits for. */
static pd_status doze(struct pd_geo *g, pd_status (*poll)(void *arg), void *arg)
{
    uint64_t answers = g->answers;
    pd_cond_wait_ms(&g->answered, &g->lock, LOOK_MS);
    if (g->answers != answers) return PD_OK;
    pthread_mutex_unlock(&g->lock);
    pd_status status = poll(arg);
    pthread_mutex_lock(&g->lock);
    return status;
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

static pd_status not_begun(void)
{
    return pd_fail(PD_INVALID, "this trainer has not begun: run the startup Program first, which brings the "
                               "servers' parameters, in the same scope and process");
}

static pd_status begin(struct pd_geo *g, const struct pd_run *run, struct pd_value *const *params,
                       const int *is_sparse)
{
    PD_HOLD(&g->lock);
    while (g->state == ON_ITS_WAY)
        PD_TRY(doze(g, pd_comm_poll_run, (void *)run));
    g->state = RESTS; /* what comes of before is of no use any more */
    pd_step_copy_clear(g->copy);
    free_params(g);
    g->batches = 0;
    g->slices.n = 0;
    struct tracked *tracked = pd_calloc((size_t)g->n, sizeof *tracked);
    if (!tracked) return pd_no_memory();
    g->params = tracked;
    for (int i = 0; i < g->n; i++) {
        pd_status status = track(&tracked[i], params[i], is_sparse[i]);
        if (status == PD_OK) continue;
        free_params(g);
        return status;
    }
    return PD_OK;
}

pd_status pd_geo_begin(const struct pd_run *run, int n, struct pd_value *const *params, const int *is_sparse)
{
    MODEL(g);
    if (n < 1) return pd_fail(PD_INVALID, "geo_sgd has no Param");
    for (int i = 0; i < n; i++)
        if (!pd_step_copy_takes(params[i]->tensor.meta.dtype))
            return pd_fail(PD_UNSUPPORTED, "geo_sgd takes parameters of float32 and float64, found %s",
                           pd_dtype_name(params[i]->tensor.meta.dtype));
    PD_TRY(find_or_make(n, params, &g));
    return begin(g, run, params, is_sparse);
}

/* With the lock. */
static int has_begun(const struct pd_geo *g, struct pd_value *const *params)
{
    for (int i = 0; g->params && i < g->n; i++)
        if (g->params[i].value != params[i]) return 0;
    return g->params != NULL;
}

/* With the lock. */
static void mark(const struct tracked *p, const struct pd_tensor *ids)
{
    int64_t n = pd_tensor_numel(ids);
    for (int64_t i = 0; p->touched && i < n; i++) {
        int64_t id = ids->meta.dtype == PD_DTYPE_INT32 ? ((const int32_t *)ids->data)[i]
                                                       : ((const int64_t *)ids->data)[i];
        if (id >= 0 && id < p->height) set_touched(p, id, 1); /* padding: the lookup has refused others */
    }
}

/* With the lock. What is on its way is of those before. */
static pd_status take_slices(struct pd_geo *g, const struct pd_run *run, const struct pd_geo_step *step)
{
    if (g->client == step->client && g->slices.n == step->n_slices) return PD_OK;
    while (g->state == ON_ITS_WAY)
        PD_TRY(doze(g, pd_comm_poll_run, (void *)run));
    PD_TRY(take_in(g));
    if (!pd_vec_reserve(&g->slices, step->n_slices)) return pd_no_memory();
    memcpy(g->slices.at, step->slices, (size_t)step->n_slices * sizeof *step->slices);
    g->slices.n = step->n_slices;
    g->client = step->client;
    g->trainers = step->trainers;
    return PD_OK;
}

static pd_status count_batch(struct pd_geo *g, const struct pd_run *run, struct pd_value *const *params,
                             const struct pd_geo_step *step)
{
    PD_HOLD(&g->lock);
    if (!has_begun(g, params)) return not_begun();
    for (int i = 0; i < step->n_ids; i++)
        mark(&g->params[step->ids_of[i]], &step->ids[i]->tensor);
    PD_TRY(take_in(g));
    PD_TRY(pd_comm_told());
    PD_TRY(take_slices(g, run, step));
    g->batches++;
    while (g->batches >= step->every && g->state == ON_ITS_WAY) { /* until another thread has told it */
        PD_TRY(doze(g, pd_comm_poll_run, (void *)run));
        PD_TRY(take_in(g));
    }
    return g->batches >= step->every ? tell(g) : PD_OK;
}

pd_status pd_geo_batch(const struct pd_run *run, int n, struct pd_value *const *params,
                       const struct pd_geo_step *step)
{
    MODEL(g);
    g = find(n, params);
    return g ? count_batch(g, run, params, step) : not_begun();
}

/* ---- at the end ---- */

/* Until what is on its way now has come, and what was not told yet. Others go on meanwhile, and may tell it.
 */
static pd_status flush(struct pd_geo *g, struct pd_comm_user *user)
{
    PD_HOLD(&g->lock);
    PD_TRY(take_in(g));
    uint64_t before = g->answers, last = g->tellings + (g->batches > 0);
    while (g->answers < last) {
        if (g->state == RESTS) PD_TRY(tell(g));
        if (g->state == RESTS) break; /* nothing has changed */
        PD_TRY(doze(g, pd_comm_poll_user, user));
        PD_TRY(take_in(g));
    }
    if (g->unsent <= before) return PD_OK;
    PD_TRY(pd_comm_told());
    return pd_fail(PD_INTERRUPTED,
                   "the communicator was stopped: what this trainer has changed was not sent to "
                   "the servers");
}

/* A new reference. */
static struct pd_geo *at(int i)
{
    PD_HOLD(&list_lock);
    return ref(i < all.n ? all.at[i] : NULL);
}

pd_status pd_geo_flush(int (*poll)(void *arg), void *arg)
{
    for (int i = 0;; i++) {
        MODEL(g);
        g = at(i);
        if (!g) return PD_OK;
        PD_TRY(flush(g, &(struct pd_comm_user){poll, arg}));
    }
}
