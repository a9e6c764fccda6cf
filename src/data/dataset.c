/* See dataset.h. */
#include "data/dataset.h"

#include <inttypes.h>
#include <string.h>

#include "base/crew.h"
#include "base/error.h"
#include "base/lock.h"

enum { BLOCK = 1 << 20 };

pd_status pd_dataset_new(int is_in_memory, struct pd_dataset **out)
{
    struct pd_dataset *d = pd_calloc(1, sizeof *d);
    if (!d) return pd_no_memory();
    d->batch_size = 1;
    d->threads = 1;
    d->is_in_memory = is_in_memory;
    d->schema.drops_zeros = is_in_memory;
    pd_store_init(&d->store);
    d->lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    *out = d;
    return PD_OK;
}

/* Under the lock. */
static pd_status check_rest(const struct pd_dataset *d, const char *then)
{
    if (d->has_pass) return pd_fail(PD_INVALID, "the data set is being trained on; %s before or after", then);
    if (d->doing)
        return pd_fail(PD_INVALID,
                       "the data set is %s by another thread; wait for its end (wait_preload_done() after "
                       "preload_into_memory()), then %s",
                       d->doing, then);
    return PD_OK;
}

pd_status pd_dataset_change(struct pd_dataset *dataset, const char *doing, const char *then)
{
    PD_HOLD(&dataset->lock);
    PD_TRY(check_rest(dataset, then));
    dataset->doing = doing;
    return PD_OK;
}

void pd_dataset_changed(struct pd_dataset *dataset)
{
    PD_HOLD(&dataset->lock);
    dataset->doing = NULL;
    dataset->samples = dataset->store.n;
    dataset->bytes = dataset->store.bytes;
}

static void drop_files(struct pd_dataset *d)
{
    for (int i = 0; i < d->files.n; i++)
        pd_file_clear(&d->files.at[i]);
    pd_vec_free(&d->files);
}

void pd_dataset_free(struct pd_dataset *dataset)
{
    if (!dataset) return;
    pd_store_clear(&dataset->store);
    pd_schema_clear(&dataset->schema);
    drop_files(dataset);
    pd_free(dataset->command);
    pd_free(dataset);
}

static pd_status take_files(struct pd_dataset *d, int n, const struct pd_file *files)
{
    drop_files(d);
    if (!pd_vec_reserve(&d->files, n)) return pd_no_memory();
    for (int i = 0; i < n; i++)
        if (!pd_file_copy(&files[i], &d->files.at[d->files.n++])) return pd_no_memory();
    return PD_OK;
}

pd_status pd_dataset_set_sources(struct pd_dataset *dataset, int n, const struct pd_file *files)
{
    PD_TRY(pd_dataset_change(dataset, "being set up", "name its files"));
    pd_status status = take_files(dataset, n, files);
    pd_dataset_changed(dataset);
    return status;
}

pd_status pd_dataset_set_files(struct pd_dataset *dataset, int n, const char *const *paths)
{
    struct pd_file *files = pd_calloc((size_t)n, sizeof *files);
    if (!files) return pd_no_memory();
    for (int i = 0; i < n; i++)
        files[i].path = (char *)paths[i];
    pd_status status = pd_dataset_set_sources(dataset, n, files);
    pd_free(files);
    return status;
}

pd_status pd_dataset_set_command(struct pd_dataset *dataset, const char *command)
{
    char *copy = command && *command ? pd_strdup(command) : NULL;
    if (command && *command && !copy) return pd_no_memory();
    pd_status status = pd_dataset_change(dataset, "being set up", "set its pipe command");
    if (status != PD_OK) {
        pd_free(copy);
        return status;
    }
    pd_free(dataset->command);
    dataset->command = copy;
    pd_dataset_changed(dataset);
    return PD_OK;
}

static pd_status check(const struct pd_dataset *d)
{
    if (d->schema.n_used == 0)
        return pd_fail(PD_INVALID, "the data set has no variables to fill; name them with set_use_var");
    if (d->batch_size < 1)
        return pd_fail(PD_INVALID, "the batch size is %" PRId64 "; it must be 1 or more", d->batch_size);
    return PD_OK;
}

pd_status pd_dataset_open_files(const struct pd_dataset *dataset, struct pd_files *files)
{
    return pd_files_init(files, &dataset->schema, dataset->command, dataset->files.n, dataset->files.at);
}

/* ---- loading ---- */

struct load {
    struct pd_dataset *dataset;
    struct pd_files files;
};

/* The samples of a thread that are not in the store yet; all of them are of one file. */
struct part {
    struct pd_buf samples;
    int file, number; /* the part's number in the file */
};

static pd_status hand_over(struct load *l, struct part *part)
{
    return pd_store_take(&l->dataset->store, &part->samples,
                         ((int64_t)part->file + 1) * ((int64_t)1 << 32) + part->number++);
}

/* The sample behind `before` is of another file: what stands before it goes first. */
static pd_status turn_to(struct load *l, struct part *part, size_t before, int file)
{
    struct pd_buf next = {0};
    pd_buf_add(&next, part->samples.at + before, part->samples.n - before);
    if (next.failed) return pd_no_memory();
    part->samples.n = before;
    pd_status status = hand_over(l, part);
    pd_buf_free(&part->samples);
    *part = (struct part){.samples = next, .file = file};
    return status;
}

static pd_status load_files(struct load *l, struct pd_line_reader *reader, struct part *part)
{
    for (;;) {
        size_t before = part->samples.n;
        int more;
        PD_TRY(pd_line_reader_next(reader, &part->samples, &more));
        if (!more) return hand_over(l, part);
        int file = pd_line_reader_file(reader);
        if (file != part->file) PD_TRY(turn_to(l, part, before, file));
        if (part->samples.n >= BLOCK) PD_TRY(hand_over(l, part));
    }
}

static pd_status load_some(void *arg, int number)
{
    struct load *l = arg;
    struct pd_line_reader *reader;
    struct part part = {.file = -1};
    (void)number;
    PD_TRY(pd_line_reader_new(&l->files, 0, 0, &reader));
    pd_status status = load_files(l, reader, &part);
    pd_buf_free(&part.samples);
    pd_line_reader_free(reader);
    return status;
}

static void stop_loading(void *arg)
{
    struct load *l = arg;
    __atomic_store_n(&l->files.stop, 1, __ATOMIC_RELAXED);
}

static pd_status read_files(struct pd_dataset *dataset, int (*poll)(void *), void *arg)
{
    struct load load = {.dataset = dataset};
    PD_TRY(check(dataset));
    pd_status status = pd_dataset_open_files(dataset, &load.files);
    if (status == PD_OK) {
        int n = dataset->threads < dataset->files.n ? dataset->threads : dataset->files.n;
        struct pd_crew crew = {.n = n > 0 ? n : 1,
                               .work = load_some,
                               .stop = stop_loading,
                               .arg = &load,
                               .poll = poll,
                               .poll_arg = arg};
        status = pd_crew_run(&crew);
    }
    if (status == PD_OK) status = pd_files_check(&load.files);
    pd_files_clear(&load.files);
    if (status == PD_OK) status = pd_store_arrange(&dataset->store, &dataset->schema);
    if (status != PD_OK) pd_store_forget(&dataset->store); /* all of the files, or none */
    return status;
}

pd_status pd_dataset_read(struct pd_dataset *dataset, int (*poll)(void *), void *arg)
{
    PD_TRY(pd_dataset_change(dataset, "being loaded", "load it"));
    pd_status status = read_files(dataset, poll, arg);
    pd_dataset_changed(dataset);
    return status;
}

/* ---- passes ---- */

pd_status pd_dataset_enter(struct pd_dataset *dataset)
{
    PD_HOLD(&dataset->lock);
    PD_TRY(check_rest(dataset, "train"));
    PD_TRY(check(dataset));
    if (dataset->is_in_memory && dataset->store.n == 0)
        return pd_fail(PD_INVALID, "the data set has no samples in memory; call load_into_memory() first");
    dataset->has_pass = 1;
    return PD_OK;
}

void pd_dataset_leave(struct pd_dataset *dataset)
{
    PD_HOLD(&dataset->lock);
    dataset->has_pass = 0;
}
