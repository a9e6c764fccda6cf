/* What was loaded for a hashed table before its server began, by variables of the scope: NAME@ROWS has rows,
 * NAME@FILES (bytes) names files of them, which are read here piece by piece: "END PATH" on each line, END
 * the last bytes of the file in hexadecimal, "-": they were not looked at. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "exec/scope.h"
#include "pserver/shard/table_hashed_private.h"
#include "tensor/file.h"

enum { PIECE = 16 * PD_HASHED_BATCH }; /* rows that are read at a time */

/* ---- rows ---- */

/* Some rows into a column, one behind the other. A row that is not there yet is made for the parameter, and
 * left out for a state. */
static pd_status put(struct hashed *h, int column, int n, const int64_t *ids, const float *values)
{
    struct pd_row *rows[PD_HASHED_BATCH];
    int64_t w = h->width;
    for (int at = 0; at < n; at += PD_HASHED_BATCH) {
        int m = n - at < PD_HASHED_BATCH ? n - at : PD_HASHED_BATCH;
        if (column)
            pd_row_store_find(h->store, m, ids + at, rows);
        else
            PD_TRY(pd_row_store_make(h->store, m, ids + at, rows));
        for (int i = 0; i < m; i++) {
            if (!rows[i]) continue;
            if (!column) {
                if (rows[i]->count)
                    return pd_fail(PD_FORMAT,
                                   "the row %" PRId64
                                   " of the table '%s' was loaded twice: its files are of different saves",
                                   ids[at + i], h->table.name);
                memcpy(rows[i]->x + w, h->begin + w, (size_t)(w * (h->columns - 1)) * sizeof(float));
                rows[i]->count = 1;
                rows[i]->step = 0;
            }
            memcpy(rows[i]->x + column * w, values + (at + i) * w, (size_t)w * sizeof(float));
        }
    }
    return PD_OK;
}

/* Those of the rows that lie here, moved to the front. */
static int keep_own(const struct hashed *h, int64_t n, int64_t *ids, float *values)
{
    int kept = 0;
    for (int64_t i = 0; i < n; i++) {
        if (!h->table.kind->has_row(&h->table, ids[i])) continue;
        if (kept < i)
            memmove(values + kept * h->width, values + i * h->width, (size_t)h->width * sizeof *values);
        ids[kept++] = ids[i];
    }
    return kept;
}

static pd_status check_values(const struct hashed *h, const struct pd_meta *m, int64_t n)
{
    if (m->dtype == PD_DTYPE_FP32 && m->rank > 0 && pd_meta_span(m, 0, m->rank) == n * h->width) return PD_OK;
    return pd_fail(PD_SHAPE, "the rows that were loaded for the table '%s' are %s %s; a row has %lld numbers",
                   h->table.name, pd_dtype_name(m->dtype), pd_meta_dims_text(m), (long long)h->width);
}

static pd_status take_rows(struct hashed *h, int column, const struct pd_value *from)
{
    const float *values = from->tensor.data;
    PD_TRY(pd_rows_check(from));
    PD_TRY(check_values(h, &from->tensor.meta, from->rows.n));
    for (int i = 0; i < from->rows.n; i++)
        if (h->table.kind->has_row(&h->table, from->rows.at[i]))
            PD_TRY(put(h, column, 1, &from->rows.at[i], values + i * h->width));
    return PD_OK;
}

/* ---- files ---- */

static pd_status read_at(FILE *file, void *to, size_t bytes, uint64_t at)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t n = pread(fileno(file), (char *)to + done, bytes - done, (off_t)(at + done));
        if (n <= 0) return pd_fail(PD_IO, "it got shorter while it was read");
        done += (size_t)n;
    }
    return PD_OK;
}

static int has_own(const struct hashed *h, int64_t n, const int64_t *ids)
{
    for (int64_t i = 0; i < n; i++)
        if (h->table.kind->has_row(&h->table, ids[i])) return 1;
    return 0;
}

static pd_status take_pieces(struct hashed *h, int column, FILE *file, int64_t *ids, float *values)
{
    struct pd_rows_map map;
    size_t row = (size_t)h->width * sizeof *values;
    PD_TRY(pd_rows_map_file(file, &map));
    PD_TRY(check_values(h, &map.meta, map.n));
    for (int64_t at = 0, n; at < map.n; at += n) {
        n = map.n - at < PIECE ? map.n - at : PIECE;
        PD_TRY(read_at(file, ids, (size_t)n * sizeof *ids, map.numbers_at + (uint64_t)at * sizeof *ids));
        for (int64_t i = 0; i < n; i++)
            if (ids[i] < 0 || ids[i] >= h->options.height)
                return pd_fail(PD_RANGE, "it has a row %" PRId64 ", and rows are below %" PRId64, ids[i],
                               h->options.height);
        if (!has_own(h, n, ids)) continue;
        PD_TRY(read_at(file, values, (size_t)n * row, map.values_at + (uint64_t)at * row));
        PD_TRY(put(h, column, keep_own(h, n, ids, values), ids, values));
    }
    return PD_OK;
}

/* Rows of the file that lie here, so that there is room before the first of them comes. */
static pd_status count_own(const struct hashed *h, FILE *file, int64_t *ids, int64_t *out)
{
    struct pd_rows_map map;
    PD_TRY(pd_rows_map_file(file, &map));
    for (int64_t at = 0, n; at < map.n; at += n) {
        n = map.n - at < PIECE ? map.n - at : PIECE;
        PD_TRY(read_at(file, ids, (size_t)n * sizeof *ids, map.numbers_at + (uint64_t)at * sizeof *ids));
        for (int64_t i = 0; i < n; i++)
            *out += h->table.kind->has_row(&h->table, ids[i]);
    }
    return PD_OK;
}

/* Is the file still the one that was looked at when it was loaded? */
static pd_status check_end(FILE *file, const char *end, size_t n)
{
    struct stat info;
    char bytes[64], text[2 * sizeof bytes + 1] = "";
    if (n == 1 && *end == '-') return PD_OK;
    if (n / 2 > sizeof bytes || fstat(fileno(file), &info) != 0 || info.st_size < (off_t)(n / 2))
        return pd_fail(PD_FORMAT, "it is cut short");
    PD_TRY(read_at(file, bytes, n / 2, (uint64_t)info.st_size - n / 2));
    for (size_t i = 0; i < n / 2; i++)
        snprintf(text + 2 * i, 3, "%02x", (unsigned char)bytes[i]);
    if (strncmp(text, end, n) == 0) return PD_OK;
    return pd_fail(PD_FORMAT,
                   "another save has taken its place since it was loaded: load a folder that no job "
                   "saves into, or start the server again");
}

/* `count`: where rows are only counted; NULL: they are taken. */
static pd_status take_file(struct hashed *h, int column, const char *path, const char *end, size_t n_end,
                           int64_t *count)
{
    FILE *file = fopen(path, "rbe");
    if (!file) return pd_fail(PD_IO, "cannot read '%s', which was loaded for '%s'", path, h->table.name);
    int64_t *ids = pd_malloc(PIECE * sizeof *ids);
    float *values = pd_malloc(PIECE * (size_t)h->width * sizeof *values);
    pd_status status = ids && values ? check_end(file, end, n_end) : pd_no_memory();
    if (status == PD_OK)
        status = count ? count_own(h, file, ids, count) : take_pieces(h, column, file, ids, values);
    if (status != PD_OK) pd_error_add(" [file %s]", path);
    pd_free(values);
    pd_free(ids);
    fclose(file);
    return status;
}

static pd_status each_file(struct hashed *h, int column, const struct pd_value *named, int64_t *count)
{
    const char *at = named->tensor.data, *stop = at + pd_tensor_bytes(&named->tensor);
    char path[4096];
    while (at < stop) {
        const char *line = memchr(at, '\n', (size_t)(stop - at)),
                   *blank = memchr(at, ' ', (size_t)(stop - at));
        if (!line || !blank || blank > line || line - blank > (ptrdiff_t)sizeof path)
            return pd_fail(PD_FORMAT, "the names of the files of the table '%s' are damaged", h->table.name);
        snprintf(path, sizeof path, "%.*s", (int)(line - blank - 1), blank + 1);
        PD_TRY(take_file(h, column, path, at, (size_t)(blank - at), count));
        at = line + 1;
    }
    return PD_OK;
}

static pd_status take_files(struct hashed *h, int column, const struct pd_value *named)
{
    int64_t rows = 0;
    if (!column) {
        PD_TRY(each_file(h, column, named, &rows));
        PD_TRY(pd_row_store_reserve(h->store, rows));
    }
    return each_file(h, column, named, NULL);
}

/* ---- what there is ---- */

/* The scope's name of a column's variable; NULL: it is none of the Program's. */
static const char *name_of(const struct pd_engine *engine, const struct pd_value *value)
{
    const struct pd_block *top = pd_program_block(engine->program, 0);
    for (int i = 0; i < top->vars.n; i++)
        if (pd_engine_lasting(engine, top->vars.at[i]->name) == value) return top->vars.at[i]->name;
    return NULL;
}

static struct pd_value *loaded(const struct pd_engine *engine, const char *name, const char *what)
{
    char whole[512];
    if (snprintf(whole, sizeof whole, "%s%s", name, what) >= (int)sizeof whole) return NULL;
    struct pd_value *value = pd_engine_lasting(engine, whole);
    return value && value->tensor.data ? value : NULL;
}

/* What was loaded takes the place of what the startup Program has filled. */
pd_status pd_hashed_take(struct hashed *h, const struct pd_engine *engine)
{
    for (int k = 0; k < h->columns; k++) {
        const char *name = k ? name_of(engine, pd_rule_start(h->rule, k)) : h->table.name;
        struct pd_value *files = name ? loaded(engine, name, "@FILES") : NULL;
        struct pd_value *rows = name ? loaded(engine, name, "@ROWS") : NULL;
        if (files) {
            PD_TRY(take_files(h, k, files));
            pd_value_reset(files, PD_KIND_TENSOR);
        } else if (rows && pd_value_is_rows(rows)) {
            PD_TRY(take_rows(h, k, rows));
        }
        if (rows) pd_value_reset(rows, PD_KIND_SELECTED_ROWS);
    }
    return PD_OK;
}
