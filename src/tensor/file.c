/* See file.h. One reader and one writer work over bytes in memory and over streams; the description of a
 * tensor (a protobuf message of two fields) is taken apart here, so that this folder needs no protobuf
 * library. */
#include "tensor/file.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

#define MAX_LEVELS 16
#define MAX_DESC 4096 /* bytes of a tensor description; real ones have a few dozen */

/* ---- writing ---- */

struct sink {
    struct pd_buf *buf;
    FILE *file; /* used when there is no buffer */
};

static pd_status put(struct sink *s, const void *bytes, size_t n)
{
    if (s->buf) {
        pd_buf_add(s->buf, bytes, n);
        return s->buf->failed ? pd_no_memory() : PD_OK;
    }
    if (n && fwrite(bytes, 1, n, s->file) != n) return pd_fail(PD_IO, "cannot write: %s", strerror(errno));
    return PD_OK;
}

static pd_status put_u32(struct sink *s, uint32_t v)
{
    return put(s, &v, sizeof v);
}

static pd_status put_u64(struct sink *s, uint64_t v)
{
    return put(s, &v, sizeof v);
}

static size_t put_varint(uint8_t *to, uint64_t v)
{
    size_t n = 0;
    for (; v >= 0x80; v >>= 7)
        to[n++] = (uint8_t)(v | 0x80);
    to[n++] = (uint8_t)v;
    return n;
}

/* Version and description; the data follow. */
static pd_status write_tensor_head(struct sink *s, const struct pd_meta *m)
{
    uint8_t desc[16 + PD_MAX_RANK * 11];
    size_t n = 0;
    desc[n++] = 0x08;
    n += put_varint(desc + n, (uint64_t)m->dtype);
    for (int i = 0; i < m->rank; i++) {
        desc[n++] = 0x10;
        n += put_varint(desc + n, (uint64_t)m->dim[i]);
    }
    PD_TRY(put_u32(s, 0));
    PD_TRY(put_u32(s, (uint32_t)n));
    return put(s, desc, n);
}

static pd_status write_tensor(struct sink *s, const struct pd_tensor *t)
{
    size_t bytes = pd_tensor_bytes(t);
    PD_TRY(write_tensor_head(s, &t->meta));
    return bytes ? put(s, t->data, bytes) : PD_OK;
}

static pd_status write_value(struct sink *s, const struct pd_value *v)
{
    const struct pd_meta *m = &v->tensor.meta;
    if (m->kind != PD_KIND_TENSOR && m->kind != PD_KIND_SELECTED_ROWS)
        return pd_fail(PD_UNSUPPORTED,
                       "a variable of kind %s has no file format; tensors and selected rows have",
                       pd_kind_name(m->kind));
    if (!pd_dtype_size(m->dtype) || !v->tensor.data)
        return pd_fail(PD_NOT_FOUND, "the variable holds no data yet; run the startup program first");
    PD_TRY(put_u32(s, 0));
    if (m->kind == PD_KIND_SELECTED_ROWS) {
        PD_TRY(put_u64(s, (uint64_t)v->rows.n));
        if (v->rows.n) PD_TRY(put(s, v->rows.at, (size_t)v->rows.n * sizeof *v->rows.at));
        PD_TRY(put_u64(s, (uint64_t)v->height));
        return write_tensor(s, &v->tensor);
    }
    int levels = m->lod ? m->lod->levels : 0;
    PD_TRY(put_u64(s, (uint64_t)levels));
    for (int i = 0; i < levels; i++) {
        const struct pd_lod_level *level = &m->lod->level[i];
        PD_TRY(put_u64(s, (uint64_t)level->n * sizeof *level->offset));
        PD_TRY(put(s, level->offset, (size_t)level->n * sizeof *level->offset));
    }
    return write_tensor(s, &v->tensor);
}

pd_status pd_value_write(const struct pd_value *value, struct pd_buf *out)
{
    size_t before = out->n;
    pd_status status = write_value(&(struct sink){.buf = out}, value);
    if (status != PD_OK && !out->failed) {
        out->n = before;
        if (out->at) out->at[before] = 0;
    }
    return status;
}

pd_status pd_value_write_file(const struct pd_value *value, FILE *file)
{
    return write_value(&(struct sink){.file = file}, value);
}

enum { PIECE = 1 << 18 }; /* bytes of rows that are put together at a time */

pd_status pd_rows_write_file(const struct pd_rows_given *rows, FILE *file)
{
    struct sink s = {.file = file};
    int64_t bytes = rows->width * (int64_t)sizeof(float), most = PIECE / bytes > 0 ? PIECE / bytes : 1;
    char *piece = pd_malloc((size_t)(most * bytes > PIECE ? most * bytes : PIECE));
    if (!piece) return pd_no_memory();
    struct pd_meta m = {.dtype = PD_DTYPE_FP32, .rank = 2, .dim = {rows->n, rows->width}};
    pd_status status = put_u32(&s, 0);
    if (status == PD_OK) status = put_u64(&s, (uint64_t)rows->n);
    for (int64_t at = 0, n; status == PD_OK && at < rows->n; at += n) {
        n = rows->n - at < PIECE / 8 ? rows->n - at : PIECE / 8;
        rows->numbers(rows->arg, (int)n, (int64_t *)(void *)piece);
        status = put(&s, piece, (size_t)n * 8);
    }
    if (status == PD_OK) status = put_u64(&s, (uint64_t)rows->height);
    if (status == PD_OK) status = write_tensor_head(&s, &m);
    for (int64_t at = 0, n; status == PD_OK && at < rows->n; at += n) {
        n = rows->n - at < most ? rows->n - at : most;
        rows->values(rows->arg, (int)n, (float *)(void *)piece);
        status = put(&s, piece, (size_t)(n * bytes));
    }
    pd_free(piece);
    return status;
}

/* ---- reading ---- */

struct source {
    const char *at; /* NULL: the stream */
    FILE *file;
    uint64_t left; /* bytes that are still there */
};

static pd_status truncated(const struct source *s, const char *what, uint64_t need)
{
    return pd_fail(PD_FORMAT,
                   "the data end inside %s: it needs %" PRIu64 " bytes, %" PRIu64 " are left; the file is "
                   "cut short or not a tensor file",
                   what, need, s->left);
}

static pd_status take(struct source *s, void *to, uint64_t n, const char *what)
{
    if (n > s->left) return truncated(s, what, n);
    if (s->at) {
        if (n) memcpy(to, s->at, n);
        s->at += n;
    } else if (n && fread(to, 1, n, s->file) != n) {
        return pd_fail(PD_IO, "cannot read %s: %s", what,
                       ferror(s->file) ? strerror(errno) : "the file got shorter");
    }
    s->left -= n;
    return PD_OK;
}

/* As take, of what is read later. */
static pd_status pass(struct source *s, uint64_t n, const char *what)
{
    if (n > s->left) return truncated(s, what, n);
    if (n && fseeko(s->file, (off_t)n, SEEK_CUR) != 0)
        return pd_fail(PD_IO, "cannot read %s: %s", what, strerror(errno));
    s->left -= n;
    return PD_OK;
}

static pd_status take_version(struct source *s, const char *what)
{
    uint32_t version;
    PD_TRY(take(s, &version, sizeof version, what));
    if (version == 0) return PD_OK;
    return pd_fail(PD_FORMAT,
                   "%s has version %" PRIu32
                   ", only version 0 can be read; the file is of another kind or of "
                   "a newer format",
                   what, version);
}

static pd_status bad_desc(const char *why)
{
    return pd_fail(PD_FORMAT, "the description of the tensor %s; the file is damaged or not a tensor file",
                   why);
}

static int get_varint(const uint8_t **at, const uint8_t *end, uint64_t *v)
{
    *v = 0;
    for (int shift = 0; *at < end && shift < 64; shift += 7) {
        uint8_t byte = *(*at)++;
        *v |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) return 1;
    }
    return 0;
}

static pd_status add_dim(struct pd_meta *m, uint64_t v)
{
    if (m->rank == PD_MAX_RANK)
        return pd_fail(PD_FORMAT, "the tensor in the file has more than %d dimensions", PD_MAX_RANK);
    if (v > INT64_MAX) return bad_desc("has a negative dimension");
    m->dim[m->rank++] = (int64_t)v;
    return PD_OK;
}

/* TensorDesc: field 1 element type, field 2 dimensions (one by one, or packed); others are passed over. */
static pd_status parse_desc(const uint8_t *at, size_t n, struct pd_meta *m)
{
    const uint8_t *end = at + n;
    uint64_t key, v;
    int typed = 0;
    m->rank = 0;
    while (at < end) {
        if (!get_varint(&at, end, &key)) return bad_desc("ends inside a field");
        unsigned wire = key & 7;
        if (wire == 0 || wire == 2) {
            if (!get_varint(&at, end, &v)) return bad_desc("ends inside a field");
            if (wire == 2 && v > (uint64_t)(end - at)) return bad_desc("ends inside a field");
        } else if (wire == 1 || wire == 5) {
            v = wire == 1 ? 8 : 4;
            if (v > (uint64_t)(end - at)) return bad_desc("ends inside a field");
        } else {
            return bad_desc("is not a protobuf message");
        }
        if (key == 0x08) {
            if (v > 255 || !pd_dtype_size((enum pd_dtype)v))
                return pd_fail(PD_FORMAT,
                               "the tensor in the file has element type number %" PRIu64
                               ", which is none that "
                               "can be read",
                               v);
            m->dtype = (enum pd_dtype)v;
            typed = 1;
        } else if (key == 0x10) {
            PD_TRY(add_dim(m, v));
        } else if (key == 0x12) {
            for (const uint8_t *stop = at + v; at < stop;) {
                uint64_t d;
                if (!get_varint(&at, stop, &d)) return bad_desc("ends inside a field");
                PD_TRY(add_dim(m, d));
            }
        }
        if (wire != 0 && key != 0x12) at += v;
    }
    return typed ? PD_OK : bad_desc("names no element type");
}

/* The bytes of the tensor's values, which are there. */
static pd_status size_of_values(const struct source *s, const struct pd_meta *m, uint64_t *out)
{
    uint64_t bytes = pd_dtype_size(m->dtype);
    for (int i = 0; i < m->rank; i++)
        if (__builtin_mul_overflow(bytes, (uint64_t)m->dim[i], &bytes))
            return pd_fail(PD_FORMAT, "a tensor of shape %s does not fit into memory", pd_meta_dims_text(m));
    if (bytes > s->left) {
        truncated(s, "the tensor's values", bytes);
        pd_error_add(" (shape %s, %s)", pd_meta_dims_text(m), pd_dtype_name(m->dtype));
        return PD_FORMAT;
    }
    *out = bytes;
    return PD_OK;
}

static pd_status take_values(struct source *s, struct pd_tensor *t)
{
    uint64_t bytes;
    PD_TRY(size_of_values(s, &t->meta, &bytes));
    PD_TRY(pd_tensor_alloc(t));
    return take(s, t->data, bytes, "the tensor's values");
}

/* After the version. */
static pd_status take_desc(struct source *s, struct pd_meta *m)
{
    int32_t size;
    uint8_t desc[MAX_DESC];
    PD_TRY(take(s, &size, sizeof size, "the size of the tensor's description"));
    if (size < 0 || size > MAX_DESC)
        return pd_fail(PD_FORMAT,
                       "the description of the tensor would have %" PRId32
                       " bytes; the file is damaged or not a "
                       "tensor file",
                       size);
    PD_TRY(take(s, desc, (uint64_t)size, "the tensor's description"));
    return parse_desc(desc, (size_t)size, m);
}

/* Description and data, after the version. */
static pd_status take_tensor(struct source *s, struct pd_tensor *t)
{
    PD_TRY(take_desc(s, &t->meta));
    return take_values(s, t);
}

static pd_status take_lod(struct source *s, uint64_t levels, struct pd_lod **out)
{
    struct pd_lod_level level[MAX_LEVELS] = {{0, NULL}};
    struct pd_lod *lod = NULL;
    pd_status status = PD_OK;
    uint64_t filled = 0;
    if (levels > MAX_LEVELS)
        return pd_fail(PD_FORMAT,
                       "the tensor would have %" PRIu64
                       " LoD levels, at most %d can be read; the file is damaged "
                       "or not a tensor file",
                       levels, MAX_LEVELS);
    for (uint64_t i = 0; i < levels && status == PD_OK; i++) {
        uint64_t bytes;
        status = take(s, &bytes, sizeof bytes, "a LoD level");
        if (status != PD_OK) break;
        if (bytes % 8)
            status = pd_fail(PD_FORMAT,
                             "LoD level %" PRIu64 " has %" PRIu64 " bytes, which is no number of offsets", i,
                             bytes);
        else if (bytes > s->left)
            status = truncated(s, "a LoD level", bytes);
        if (status != PD_OK) break;
        level[i].n = (int64_t)(bytes / 8);
        level[i].offset = pd_realloc_array(NULL, (size_t)(bytes / 8) + 1, 8);
        status = level[i].offset ? take(s, level[i].offset, bytes, "a LoD level") : pd_no_memory();
        filled += bytes != 0;
    }
    /* Levels without any offset are how a tensor without sequences may be written. */
    if (status == PD_OK && filled) status = pd_lod_new((int)levels, level, &lod);
    if (status == PD_INVALID) {
        pd_error_add("; the file is damaged");
        status = PD_FORMAT;
    }
    for (uint64_t i = 0; i < levels; i++)
        pd_free(level[i].offset);
    *out = lod;
    return status;
}

static pd_status check_lod(const struct pd_lod *lod, const struct pd_meta *m)
{
    if (!lod) return PD_OK;
    int64_t end = pd_lod_last(lod)->offset[pd_lod_sequences(lod)], rows = m->rank ? m->dim[0] : 0;
    if (end == rows) return PD_OK;
    return pd_fail(PD_FORMAT,
                   "the LoD in the file counts %" PRId64
                   " rows, the tensor has shape %s; the file is damaged",
                   end, pd_meta_dims_text(m));
}

/* After the first version: LoD, version, tensor. The first Fluid wrote tensor, then LoD, and no second
 * version. */
static pd_status take_lod_tensor(struct source *s, struct pd_tensor *t)
{
    uint64_t levels;
    PD_TRY(take(s, &levels, sizeof levels, "the number of LoD levels"));
    uint32_t low = (uint32_t)levels;
    if (levels > MAX_LEVELS && low >= 2 && low <= MAX_DESC && (uint8_t)(levels >> 32) == 0x08 &&
        s->left >= low - 4) {
        uint8_t desc[MAX_DESC];
        uint32_t high = (uint32_t)(levels >> 32);
        if (low < 4) return bad_desc("is too short");
        memcpy(desc, &high, 4);
        PD_TRY(take(s, desc + 4, low - 4, "the tensor's description"));
        PD_TRY(parse_desc(desc, low, &t->meta));
        PD_TRY(take_values(s, t));
        PD_TRY(take(s, &levels, sizeof levels, "the number of LoD levels"));
        struct pd_lod *lod;
        PD_TRY(take_lod(s, levels, &lod));
        pd_meta_take_lod(&t->meta, lod);
        return check_lod(lod, &t->meta);
    }
    struct pd_lod *lod;
    PD_TRY(take_lod(s, levels, &lod));
    pd_meta_take_lod(&t->meta, lod);
    PD_TRY(take_version(s, "the tensor"));
    PD_TRY(take_tensor(s, t));
    return check_lod(lod, &t->meta);
}

static pd_status take_count(struct source *s, uint64_t *out)
{
    uint64_t n;
    PD_TRY(take(s, &n, sizeof n, "the number of rows"));
    if (n > s->left / 8) return truncated(s, "the row numbers", n > UINT64_MAX / 8 ? UINT64_MAX : n * 8);
    if (n > INT32_MAX / 2)
        return pd_fail(PD_FORMAT, "the file holds %" PRIu64 " rows, at most %d can be read", n,
                       INT32_MAX / 2);
    *out = n;
    return PD_OK;
}

static pd_status check_rows(uint64_t n, const struct pd_meta *m)
{
    if (m->rank >= 1 && m->dim[0] == (int64_t)n) return PD_OK;
    return pd_fail(PD_FORMAT, "the file names %" PRIu64 " rows but holds values of shape %s; it is damaged",
                   n, pd_meta_dims_text(m));
}

static pd_status take_rows(struct source *s, struct pd_value *v)
{
    uint64_t n;
    PD_TRY(take_count(s, &n));
    if (!pd_vec_reserve(&v->rows, (int)n)) return pd_no_memory();
    v->rows.n = (int)n;
    PD_TRY(take(s, v->rows.at, n * 8, "the row numbers"));
    PD_TRY(take(s, &v->height, sizeof v->height, "the height"));
    PD_TRY(take_version(s, "the tensor"));
    PD_TRY(take_tensor(s, &v->tensor));
    for (uint64_t i = 0; i < n; i++)
        if (v->rows.at[i] < 0 || (v->height > 0 && v->rows.at[i] >= v->height))
            return pd_fail(PD_FORMAT,
                           "row number %" PRId64 " lies outside the height %" PRId64 "; the file is damaged",
                           v->rows.at[i], v->height);
    return check_rows(n, &v->tensor.meta);
}

static pd_status read_value(struct source *s, struct pd_value *v)
{
    enum pd_kind kind = v->tensor.meta.kind;
    if (kind != PD_KIND_TENSOR && kind != PD_KIND_SELECTED_ROWS)
        return pd_fail(PD_UNSUPPORTED, "a variable of kind %s cannot be read from a file",
                       pd_kind_name(kind));
    struct pd_value fresh = {.refs = 1, .tensor.meta = {.kind = kind, .dtype = PD_DTYPE_NONE}};
    pd_status status =
        take_version(s, kind == PD_KIND_TENSOR ? "the tensor with its LoD" : "the selected rows");
    if (status == PD_OK)
        status = kind == PD_KIND_TENSOR ? take_lod_tensor(s, &fresh.tensor) : take_rows(s, &fresh);
    if (status != PD_OK) {
        pd_tensor_reset(&fresh.tensor);
        pd_vec_free(&fresh.rows);
        return status;
    }
    pd_value_reset(v, kind);
    v->tensor = fresh.tensor;
    if (kind == PD_KIND_SELECTED_ROWS) {
        v->rows.at = fresh.rows.at;
        v->rows.n = fresh.rows.n;
        v->rows.cap = fresh.rows.cap;
        v->height = fresh.height;
    }
    return PD_OK;
}

pd_status pd_value_read(struct pd_value *value, const void *bytes, size_t n, size_t *used)
{
    struct source s = {.at = bytes ? bytes : "", .left = n};
    PD_TRY(read_value(&s, value));
    *used = n - (size_t)s.left;
    return PD_OK;
}

/* From the stream's present place on. */
static pd_status source_of(FILE *file, struct source *out)
{
    long here = ftell(file), end = -1;
    if (here >= 0 && fseek(file, 0, SEEK_END) == 0) {
        end = ftell(file);
        if (fseek(file, here, SEEK_SET) != 0) end = -1;
    }
    if (end < 0) return pd_fail(PD_IO, "cannot find out the size of the file: %s", strerror(errno));
    *out = (struct source){.file = file, .left = end > here ? (uint64_t)(end - here) : 0};
    return PD_OK;
}

pd_status pd_value_read_file(struct pd_value *value, FILE *file)
{
    struct source s;
    PD_TRY(source_of(file, &s));
    return read_value(&s, value);
}

pd_status pd_rows_map_file(FILE *file, struct pd_rows_map *out)
{
    struct source s;
    struct pd_rows_map m = {.meta = {.kind = PD_KIND_TENSOR}};
    uint64_t n, bytes;
    PD_TRY(source_of(file, &s));
    uint64_t end = (uint64_t)ftello(file) + s.left;
    PD_TRY(take_version(&s, "the selected rows"));
    PD_TRY(take_count(&s, &n));
    m.numbers_at = end - s.left;
    PD_TRY(pass(&s, n * 8, "the row numbers"));
    PD_TRY(take(&s, &m.height, sizeof m.height, "the height"));
    PD_TRY(take_version(&s, "the tensor"));
    PD_TRY(take_desc(&s, &m.meta));
    m.values_at = end - s.left;
    PD_TRY(size_of_values(&s, &m.meta, &bytes));
    PD_TRY(check_rows(n, &m.meta));
    m.n = (int64_t)n;
    *out = m;
    return PD_OK;
}
