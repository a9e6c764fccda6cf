/* recv_save and checkpoint_notify at work: what lies on servers goes to files. */
#include <stdlib.h>
#include <string.h>

#include "pserver/client/client.h"
#include "pserver/client/communicator.h"
#include "pserver/op_run.h"
#include "pserver/store/value_file.h"

/* ---- recv_save ---- */

/* The elements of a shape such as "4,5". */
static pd_status count_elements(const char *text, int64_t *out)
{
    *out = 1;
    for (const char *at = text; *at;) {
        char *end;
        long long side = strtoll(at, &end, 10);
        if (end == at || side < 0 || (*end && *end != ',') || __builtin_mul_overflow(*out, side, out))
            return pd_fail(PD_INVALID, "slice_shapes has '%s'; a shape is sizes with commas between them",
                           text);
        at = *end ? end + 1 : end;
    }
    return PD_OK;
}

/* Where the slices come from and how large they are. */
struct slices {
    int n;
    const struct pd_attr *names, *shapes, *endpoints;
};

static pd_status read_slices(const struct pd_run *r, struct slices *out)
{
    const struct pd_attr *names = pd_ps_attr(r, "remote_varnames");
    *out = (struct slices){.names = names->n ? names : pd_ps_attr(r, "slice_varnames"),
                           .shapes = pd_ps_attr(r, "slice_shapes"),
                           .endpoints = pd_ps_attr(r, "endpoints")};
    out->n = out->names->n;
    if (!out->n || out->shapes->n != out->n || out->endpoints->n != out->n)
        return pd_fail(PD_INVALID,
                       "recv_save has %d names, %d slice_shapes and %d endpoints; there must be one of each "
                       "for every slice",
                       out->n, out->shapes->n, out->endpoints->n);
    return PD_OK;
}

static pd_status check_sizes(const struct slices *slices, const struct pd_meta *whole)
{
    int64_t total = 0;
    for (int i = 0; i < slices->n; i++) {
        int64_t n;
        PD_TRY(count_elements(slices->shapes->strings[i], &n));
        if (__builtin_add_overflow(total, n, &total)) total = INT64_MAX;
    }
    if (total == pd_meta_numel(whole)) return PD_OK;
    return pd_fail(PD_SHAPE, "the slices have %lld elements, the shape %s has %lld", (long long)total,
                   pd_meta_dims_text(whole), (long long)pd_meta_numel(whole));
}

/* All slices at the same time, each into its place in the whole. */
static pd_status pull_slices(const struct pd_run *r, const struct slices *slices, const int *numbers,
                             struct pd_client *client, struct pd_tensor *whole)
{
    PD_ASK(ask);
    char *at = whole->data;
    for (int i = 0; i < slices->n; i++) {
        int64_t n;
        PD_TRY(count_elements(slices->shapes->strings[i], &n));
        size_t bytes = (size_t)n * pd_dtype_size(whole->meta.dtype);
        PD_TRY(pd_ask_value(client, &ask, numbers[i], at, bytes));
        at += bytes;
    }
    return pd_ask_wait(client, r, &ask, "fetching a value");
}

static pd_status pull_whole(const struct pd_run *r, const struct slices *slices, struct pd_value *whole)
{
    struct pd_client *client;
    PD_TRY(check_sizes(slices, &whole->tensor.meta));
    PD_TRY(pd_ps_client(r, 0, NULL, NULL, &client));
    int *numbers = pd_calloc((size_t)slices->n, sizeof *numbers);
    pd_status status = numbers ? PD_OK : pd_no_memory();
    for (int i = 0; status == PD_OK && i < slices->n; i++)
        status = pd_client_name(client, r, slices->endpoints->strings[i], 1, slices->names->strings[i], NULL,
                                &numbers[i]);
    if (status == PD_OK) status = pull_slices(r, slices, numbers, client, &whole->tensor);
    pd_free(numbers);
    return pd_ps_done(r, client, status);
}

pd_status pd_ps_recv_save_run(const struct pd_run *r)
{
    const struct pd_attr *shape = pd_ps_attr(r, "shape");
    const char *path = pd_ps_attr(r, "file_path")->s;
    struct slices slices;
    struct pd_value *whole;
    if (!*path)
        return pd_fail(PD_INVALID, "attribute file_path is empty; give the path of the file to write");
    if (shape->n > PD_MAX_RANK)
        return pd_fail(PD_SHAPE, "attribute shape has %d dimensions; at most %d", shape->n, PD_MAX_RANK);
    PD_TRY(read_slices(r, &slices));
    PD_TRY(pd_comm_flush_for(r));
    PD_TRY(pd_value_new(PD_KIND_TENSOR, &whole));
    pd_status status =
        pd_tensor_resize(&whole->tensor, (enum pd_dtype)pd_ps_attr(r, "dtype")->i, shape->n, shape->longs);
    if (status == PD_OK) status = pull_whole(r, &slices, whole);
    if (status == PD_OK)
        status = pd_value_file_write(
            whole, path, pd_ps_attr(r, "overwrite")->b ? PD_VALUE_FILE_REPLACE : PD_VALUE_FILE_KEEP);
    pd_value_unref(whole);
    return status;
}

/* ---- checkpoint_notify ---- */

/* The first server numbers saves, so that two of them at a time leave all parts of the same one. */
static pd_status number_save(const struct pd_run *r, struct pd_client *client, int first, uint64_t *out)
{
    struct pd_client_save save = {.folder = ""};
    PD_ASK(ask);
    PD_TRY(pd_ask_save(client, &ask, first, &save));
    PD_TRY(pd_ask_wait(client, r, &ask, "the number of a save"));
    *out = save.save;
    return PD_OK;
}

/* All servers write at the same time. Their numbers are their places in epmap. When all have written, the
 * files take the places of those before them: a server whose disk is full harms no earlier save. */
static pd_status save_parts(const struct pd_run *r, struct pd_client *client, int n, const int *numbers)
{
    const char *folder = pd_ps_attr(r, "dir")->s;
    uint64_t save = 0;
    pd_status status = PD_OK;
    if (n) PD_TRY(number_save(r, client, numbers[0], &save));
    struct pd_client_save *saves = pd_calloc((size_t)n, sizeof *saves);
    if (!saves) return pd_no_memory();
    for (int turn = 0; turn < 2; turn++) {
        PD_ASK(ask);
        for (int i = 0; status == PD_OK && i < n; i++) {
            saves[i] = (struct pd_client_save){folder, (uint32_t)i, (uint32_t)n, save, turn};
            status = pd_ask_save(client, &ask, numbers[i], &saves[i]);
        }
        if (status == PD_OK) status = pd_ask_wait(client, r, &ask, "saving the table on the servers");
    }
    pd_free(saves);
    return status;
}

pd_status pd_ps_checkpoint_notify_run(const struct pd_run *r)
{
    const struct pd_attr *epmap = pd_ps_attr(r, "epmap");
    const char *table = pd_ps_attr(r, "lookup_table")->s;
    struct pd_client *client;
    PD_TRY(pd_comm_flush_for(r));
    PD_TRY(pd_ps_client(r, 0, NULL, NULL, &client));
    int *numbers = pd_calloc((size_t)epmap->n, sizeof *numbers);
    pd_status status = numbers ? PD_OK : pd_no_memory();
    for (int i = 0; status == PD_OK && i < epmap->n; i++)
        status = pd_client_name(client, r, epmap->strings[i], 1, table, NULL, &numbers[i]);
    if (status == PD_OK) status = save_parts(r, client, epmap->n, numbers);
    pd_free(numbers);
    return pd_ps_done(r, client, status);
}
