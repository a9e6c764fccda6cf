/* Data sets, and training over them, in the public API. */
#include "data/pass.h"

#include <inttypes.h>
#include <sched.h>
#include <string.h>

#include "api/api.h"
#include "base/clock.h"
#include "base/flags.h"
#include "base/lock.h"
#include "exec/gate.h"
#include "exec/workers.h"

pd_status pd_dataset_create(int in_memory, pd_dataset **out)
{
    return pd_dataset_new(in_memory, out);
}

void pd_dataset_release(pd_dataset *dataset)
{
    pd_dataset_free(dataset);
}

/* Slots say how what is in memory is to be read. */
static pd_status add_slot(struct pd_dataset *d, const char *name, int is_float, int is_used, int rank,
                          const int64_t *dims)
{
    struct pd_meta shape = {0};
    if (d->store.n)
        return pd_fail(PD_INVALID,
                       "the data set has samples in memory; call release_memory() before other variables");
    for (int i = 0; i < d->schema.n; i++)
        if (strcmp(d->schema.slot[i].name, name) == 0)
            return pd_fail(PD_EXISTS, "variable '%s' is named twice for the data set", name);
    if (rank >= 0) PD_TRY(pd_meta_set_dims(&shape, rank, dims));
    return pd_schema_add(&d->schema, name, is_float, is_used, rank >= 0 ? &shape : NULL);
}

pd_status pd_dataset_add_slot(pd_dataset *dataset, const char *name, int is_float, int rank,
                              const int64_t *dims)
{
    PD_TRY(pd_dataset_change(dataset, "being set up", "change its slots"));
    pd_status status = add_slot(dataset, name, is_float, 1, rank, dims);
    pd_dataset_changed(dataset);
    return status;
}

pd_status pd_dataset_skip_slot(pd_dataset *dataset, const char *name)
{
    PD_TRY(pd_dataset_change(dataset, "being set up", "change its slots"));
    pd_status status = add_slot(dataset, name, 0, 0, -1, NULL);
    pd_dataset_changed(dataset);
    return status;
}

pd_status pd_dataset_clear_slots(pd_dataset *dataset)
{
    PD_TRY(pd_dataset_change(dataset, "being set up", "change its slots"));
    struct pd_schema old = dataset->schema;
    pd_status status = PD_OK;
    if (dataset->store.n)
        status = pd_fail(PD_INVALID,
                         "the data set has samples in memory; call release_memory() before other variables");
    else {
        pd_schema_clear(&dataset->schema);
        dataset->schema.drops_zeros = old.drops_zeros;
        dataset->schema.has_id = old.has_id;
        dataset->schema.has_text = old.has_text;
    }
    pd_dataset_changed(dataset);
    return status;
}

pd_status pd_dataset_expect(pd_dataset *dataset, int id, int text)
{
    PD_TRY(pd_dataset_change(dataset, "being set up", "say what its lines begin with"));
    pd_status status = PD_OK;
    if (!dataset->store.n) {
        dataset->schema.has_id = id;
        dataset->schema.has_text = text;
    } else if (!dataset->schema.has_id != !id || !dataset->schema.has_text != !text)
        status = pd_fail(PD_INVALID, "the data set has samples in memory; call release_memory() before lines "
                                     "that begin with other things");
    pd_dataset_changed(dataset);
    return status;
}

pd_status pd_dataset_use_files(pd_dataset *dataset, int n, const char *const *paths)
{
    return pd_dataset_set_files(dataset, n, paths);
}

pd_status pd_dataset_use_sources(pd_dataset *dataset, int n, const pd_data_source *sources)
{
    struct pd_file *files = pd_calloc((size_t)n, sizeof *files);
    if (!files) return pd_no_memory();
    for (int i = 0; i < n; i++)
        files[i] = (struct pd_file){(char *)sources[i].path, (char *)sources[i].command, sources[i].bytes};
    pd_status status = pd_dataset_set_sources(dataset, n, files);
    pd_free(files);
    return status;
}

pd_status pd_dataset_use_command(pd_dataset *dataset, const char *command)
{
    return pd_dataset_set_command(dataset, command);
}

pd_status pd_dataset_set_batch(pd_dataset *dataset, int64_t samples)
{
    if (samples < 1)
        return pd_fail(PD_INVALID, "the batch size is %lld; it must be 1 or more", (long long)samples);
    PD_TRY(pd_dataset_change(dataset, "being set up", "set its batch size"));
    dataset->batch_size = samples;
    pd_dataset_changed(dataset);
    return PD_OK;
}

pd_status pd_dataset_set_threads(pd_dataset *dataset, int threads)
{
    if (threads < 1) return pd_fail(PD_INVALID, "the number of threads is %d; it must be 1 or more", threads);
    PD_TRY(pd_dataset_change(dataset, "being set up", "set its threads"));
    dataset->threads = threads;
    pd_dataset_changed(dataset);
    return PD_OK;
}

pd_status pd_dataset_load(pd_dataset *dataset, const pd_run_options *options)
{
    return pd_dataset_read(dataset, options ? options->poll : NULL, options ? options->arg : NULL);
}

pd_status pd_dataset_shuffle(pd_dataset *dataset, uint64_t seed)
{
    PD_TRY(pd_dataset_change(dataset, "being shuffled", "shuffle it"));
    pd_store_shuffle(&dataset->store, seed);
    pd_dataset_changed(dataset);
    return PD_OK;
}

static pd_status exchange(struct pd_dataset *d, int n, const char *const *slots, uint64_t seed)
{
    const struct pd_schema *schema = &d->schema;
    char *moves = pd_calloc((size_t)schema->n_used, 1);
    if (!moves) return pd_no_memory();
    pd_status status = PD_OK;
    for (int i = 0; i < n && status == PD_OK; i++) {
        int found = 0;
        for (int k = 0, column = 0; k < schema->n; k++) {
            if (!schema->slot[k].is_used) continue;
            if (strcmp(schema->slot[k].name, slots[i]) == 0) moves[column] = 1, found = 1;
            column++;
        }
        if (!found) status = pd_fail(PD_NOT_FOUND, "the data set has no variable '%s' to shuffle", slots[i]);
    }
    if (status == PD_OK) status = pd_store_exchange(&d->store, schema, moves, seed);
    pd_free(moves);
    return status;
}

pd_status pd_dataset_exchange(pd_dataset *dataset, int n, const char *const *slots, uint64_t seed)
{
    PD_TRY(pd_dataset_change(dataset, "being shuffled", "shuffle slots"));
    pd_status status = exchange(dataset, n, slots, seed);
    pd_dataset_changed(dataset);
    return status;
}

pd_status pd_dataset_merge(pd_dataset *dataset, int size, int64_t *left_out)
{
    PD_TRY(pd_dataset_change(dataset, "being merged", "merge samples"));
    pd_status status =
        dataset->schema.has_id
            ? pd_store_merge(&dataset->store, &dataset->schema, size, left_out)
            : pd_fail(PD_INVALID,
                      "samples have no ids to merge by; call set_parse_ins_id(True) before loading");
    pd_dataset_changed(dataset);
    return status;
}

pd_status pd_dataset_drop(pd_dataset *dataset)
{
    PD_TRY(pd_dataset_change(dataset, "being emptied", "let go of its samples"));
    pd_store_clear(&dataset->store);
    pd_dataset_changed(dataset);
    return PD_OK;
}

void pd_dataset_size(pd_dataset *dataset, int64_t *samples, int64_t *bytes)
{
    PD_HOLD(&dataset->lock);
    *samples = dataset->samples;
    *bytes = dataset->bytes;
}

/* ---- training ---- */

struct train {
    struct pd_workers workers;
    struct pd_pass *pass;
    const pd_train_options *options;
    int *column;             /* of each feed */
    struct pd_value **feeds; /* n_feeds for each worker */
    const char **names;
    int64_t shown; /* when a batch was last printed */
    struct pd_gate gate;
    int64_t *since; /* of each worker: batches asked for since the gate was opened; NULL: there is none */
};

static void wake(void *arg)
{
    struct train *t = arg;
    pd_workers_wake(&t->workers);
}

static pd_status pass_gate(struct train *t, int worker)
{
    if (!t->since || t->since[worker]++ < t->options->pause_every) return PD_OK;
    t->since[worker] = 1; /* the batch behind it */
    return pd_gate_wait(&t->gate, wake, t);
}

static pd_status next_batch(void *arg, int worker, struct pd_value *const **values, int64_t *samples)
{
    struct train *t = arg;
    const struct pd_batch *batch;
    PD_TRY(pass_gate(t, worker));
    PD_TRY(pd_pass_next(t->pass, worker, &batch));
    *values = NULL;
    if (!batch) {
        if (t->since) pd_gate_leave(&t->gate, wake, t);
        return PD_OK;
    }
    struct pd_value **mine = t->feeds + (size_t)worker * (size_t)t->workers.n_feeds;
    for (int i = 0; i < t->workers.n_feeds; i++)
        mine[i] = batch->value[t->column[i]];
    *values = mine;
    *samples = batch->samples;
    return PD_OK;
}

static void stop_pass(void *arg)
{
    struct train *t = arg;
    if (t->since) pd_gate_stop(&t->gate);
    pd_pass_stop(t->pass);
}

static pd_status print_fetches(void *arg, int worker, int64_t batch, const struct pd_prepared *prepared)
{
    struct train *t = arg;
    const pd_train_options *o = t->options;
    const pd_value *fetched[64];
    if (worker) return PD_OK;
    int64_t now = o->show_ms ? pd_clock_ns() : 0;
    int is_time = o->show_ms && now - t->shown >= o->show_ms * 1000000;
    if ((batch + 1) % o->print_period && !is_time) return PD_OK;
    t->shown = now;
    for (int i = 0; i < o->n_fetches; i++)
        fetched[i] = pd_exec_fetched(prepared, i);
    o->print(o->arg, batch + 1, fetched);
    return PD_OK;
}

static void report_of(const struct train *t, pd_train_report *report)
{
    const struct pd_workers *w = &t->workers;
    *report = (pd_train_report){.batches = __atomic_load_n(&w->batches, __ATOMIC_RELAXED),
                                .samples = __atomic_load_n(&w->samples, __ATOMIC_RELAXED),
                                .read_ns = __atomic_load_n(&w->read_ns, __ATOMIC_RELAXED),
                                .run_ns = __atomic_load_n(&w->run_ns, __ATOMIC_RELAXED),
                                .wait_ns = __atomic_load_n(&w->wait_ns, __ATOMIC_RELAXED)};
    pd_pass_progress(t->pass, &report->done, &report->all);
}

/* When all threads have ended. The last batch that a thread asked for was not there. */
static int64_t since_pause(const struct train *t)
{
    int64_t most = 0;
    for (int i = 0; t->since && i < t->workers.n; i++)
        if (t->since[i] - 1 > most) most = t->since[i] - 1;
    return most;
}

static int poll_train(void *arg)
{
    struct train *t = arg;
    pd_train_report report;
    report_of(t, &report);
    if (t->options->poll && t->options->poll(t->options->arg, &report)) return 1;
    if (!t->since || !pd_gate_is_full(&t->gate)) return 0;
    if (t->options->pause(t->options->arg, &report)) return 1;
    pd_gate_open(&t->gate);
    return 0;
}

/* The slots that the Program has a variable for. */
static pd_status choose_feeds(struct train *t, const struct pd_schema *schema, struct pd_program *program)
{
    t->column = pd_calloc((size_t)schema->n_used, sizeof *t->column);
    t->names = pd_calloc((size_t)schema->n_used, sizeof *t->names);
    if (!t->column || !t->names) return pd_no_memory();
    for (int i = 0, column = 0; i < schema->n; i++) {
        if (!schema->slot[i].is_used) continue;
        if (pd_block_var(program->blocks.at[0], schema->slot[i].name)) {
            t->names[t->workers.n_feeds] = schema->slot[i].name;
            t->column[t->workers.n_feeds++] = column;
        }
        column++;
    }
    if (t->workers.n_feeds) return PD_OK;
    return pd_fail(PD_INVALID, "the Program has none of the data set's variables, the first of which is '%s'",
                   schema->slot[0].name);
}

static pd_status run(struct train *t, const struct pd_schema *schema, pd_program *program)
{
    const pd_train_options *o = t->options;
    struct pd_workers *w = &t->workers;
    PD_TRY(choose_feeds(t, schema, program));
    t->feeds = pd_calloc((size_t)w->n * (size_t)w->n_feeds, sizeof *t->feeds);
    if (!t->feeds) return pd_no_memory();
    w->feeds = t->names;
    w->n_fetches = o->n_fetches;
    w->fetches = o->fetches;
    w->next = next_batch;
    w->stop = stop_pass;
    w->ran = o->print && o->n_fetches ? print_fetches : NULL;
    w->arg = t;
    w->poll = o->poll || o->pause_every ? poll_train : NULL;
    w->poll_arg = t;
    if (o->pause_every && !(t->since = pd_calloc((size_t)w->n, sizeof *t->since))) return pd_no_memory();
    for (int i = 0; t->since && i < w->n; i++)
        t->since[i] = o->since_pause;
    pd_gate_init(&t->gate, w->n);
    pd_status status = pd_workers_run(w);
    pd_gate_clear(&t->gate);
    PD_TRY(status);
    return pd_pass_check(t->pass);
}

/* Where each computing thread has a core already, one that reads would only take theirs. */
static int batches_ahead(int threads)
{
    cpu_set_t may;
    int asked = pd_flag_int(PD_FLAG_data_ahead);
    if (asked >= 0) return asked;
    return sched_getaffinity(0, sizeof may, &may) == 0 && CPU_COUNT(&may) > threads ? 2 : 0;
}

#define MOST_SKIPPED (INT64_C(1) << 40)

pd_status pd_dataset_train(pd_dataset *dataset, pd_program *program, pd_scope *scope,
                           const pd_train_options *options, pd_train_report *report)
{
    if (options->threads < 1 || options->n_fetches < 0 || options->n_fetches > 64)
        return pd_fail(
            PD_INVALID,
            "training over a data set takes 1 or more threads and up to 64 fetches, found %d and %d",
            options->threads, options->n_fetches);
    if (options->skip < 0 || options->skip > MOST_SKIPPED || options->pause_every < 0)
        return pd_fail(PD_INVALID,
                       "training over a data set begins behind 0 to 2^40 batches and pauses after 0 or more, "
                       "found %" PRId64 " and %" PRId64,
                       options->skip, options->pause_every);
    if (options->pause_every && (options->since_pause < 0 || options->since_pause >= options->pause_every))
        return pd_fail(PD_INVALID,
                       "%" PRId64 " batches since the last pause are none, or as many as %" PRId64
                       " between two",
                       options->since_pause, options->pause_every);
    struct pd_pass_options pass = {.workers = options->threads,
                                   .ahead = batches_ahead(options->threads),
                                   .is_fixed = options->is_fixed,
                                   .skip = options->skip};
    struct train t = {.options = options,
                      .workers = {.program = program, .scope = scope, .n = options->threads}};
    PD_TRY(pd_flag_verify());
    PD_TRY(pd_pass_begin(dataset, &pass, &t.pass)); /* from here on its slots stay */
    pd_status status = run(&t, &dataset->schema, program);
    if (report) {
        report_of(&t, report);
        report->since_pause = since_pause(&t);
    }
    pd_pass_free(t.pass);
    pd_free(t.column);
    pd_free(t.names);
    pd_free(t.feeds);
    pd_free(t.since);
    return status;
}
