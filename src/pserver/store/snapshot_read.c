/* Reading a snapshot: see snapshot.h. The manifest is taken apart strictly, line by line in the order in
 * which it is written, and everything it says is checked against the rest and against the size of the data
 * before anything is believed. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/crc32c.h"
#include "base/decimal.h"
#include "base/error.h"
#include "base/map.h"
#include "base/vec.h"
#include "pserver/store/folder.h"
#include "pserver/store/snapshot_private.h"

struct pd_snapshot {
    char *path, *text, *words; /* the manifest, and its words unescaped */
    const char *data;
    size_t data_size;
    struct pd_snapshot_info info;
    PD_VEC(const char *) servers;
    PD_VEC(struct pd_snapshot_trainer) trainers;
    PD_VEC(struct pd_snapshot_var) vars;
    PD_VEC(struct pd_snapshot_note) notes;
    struct pd_map by_name; /* to 1 + index */
    uint32_t crc;          /* of the manifest */
};

int64_t pd_snapshot_rows(const struct pd_snapshot_var *var)
{
    return var->rank ? var->dim[0] : 1;
}

int64_t pd_snapshot_row_bytes(const struct pd_snapshot_var *var)
{
    int64_t bytes = (int64_t)pd_dtype_size(var->dtype);
    for (int i = 1; i < var->rank; i++)
        bytes *= var->dim[i];
    return bytes;
}

pd_status pd_snapshot_sizes(const struct pd_snapshot_var *v, uint64_t *bytes)
{
    const char *name = v->name ? v->name : "";
    int64_t product = (int64_t)pd_dtype_size(v->dtype), last;
    int is_empty = 0;
    if (!product)
        return pd_fail(PD_TYPE, "'%s' has element type %d, which a snapshot cannot hold", name,
                       (int)v->dtype);
    if (v->rank < 0 || v->rank > PD_MAX_RANK)
        return pd_fail(PD_SHAPE, "'%s' has %d dimensions; at most %d", name, v->rank, PD_MAX_RANK);
    for (int i = 0; i < v->rank; i++) {
        if (v->dim[i] < 0) return pd_fail(PD_SHAPE, "'%s': dimension %d is %" PRId64, name, i, v->dim[i]);
        is_empty |= v->dim[i] == 0;
        /* The others must make sense beside a zero too. */
        if (__builtin_mul_overflow(product, v->dim[i] ? v->dim[i] : 1, &product))
            return pd_fail(PD_RANGE, "'%s': its dimensions make more bytes than there can be", name);
    }
    int64_t rows = pd_snapshot_rows(v);
    if (v->first_row < 0 || v->row_step < 1 || v->whole_rows < 0 ||
        __builtin_mul_overflow(rows ? rows - 1 : 0, v->row_step, &last) ||
        __builtin_add_overflow(last, v->first_row, &last) ||
        (rows ? last >= v->whole_rows : v->first_row > v->whole_rows))
        return pd_fail(PD_RANGE,
                       "'%s': %" PRId64 " rows from %" PRId64 " on in steps of %" PRId64
                       " do not lie in the %" PRId64 " rows of '%s'",
                       name, rows, v->first_row, v->row_step, v->whole_rows, v->whole);
    *bytes = is_empty ? 0 : (uint64_t)product;
    return PD_OK;
}

/* ---- the text ---- */

struct text {
    struct pd_snapshot *snapshot;
    const char *at, *end;
    char *word; /* next free place for an unescaped word */
    int line;
};

static pd_status wrong(const struct text *t, const char *expected)
{
    int n = 0;
    while (t->at + n < t->end && n < 40 && t->at[n] >= ' ' && t->at[n] != 0x7f)
        n++;
    return pd_fail(
        PD_FORMAT,
        "manifest '%s', line %d: expected %s, found '%.*s'; the file was changed or is of another kind",
        t->snapshot->path, t->line, expected, n, t->at);
}

static int takes(struct text *t, const char *literal)
{
    size_t n = strlen(literal);
    if ((size_t)(t->end - t->at) < n || memcmp(t->at, literal, n) != 0) return 0;
    t->at += n;
    if (literal[n - 1] == '\n') t->line++;
    return 1;
}

static pd_status take(struct text *t, const char *literal)
{
    return takes(t, literal) ? PD_OK : wrong(t, literal[0] == '\n' ? "the end of the line" : literal);
}

static pd_status take_number(struct text *t, uint64_t most, uint64_t *out)
{
    int n = pd_decimal(t->at, t->end, most, out);
    if (!n)
        return wrong(t, t->at < t->end && *t->at >= '0' && *t->at <= '9' ? "a smaller number" : "a number");
    if (*t->at == '0' && n > 1) return wrong(t, "a number");
    t->at += n;
    return PD_OK;
}

static pd_status take_signed(struct text *t, int64_t *out)
{
    uint64_t value;
    PD_TRY(take_number(t, INT64_MAX, &value));
    *out = (int64_t)value;
    return PD_OK;
}

static int hex_digit(char c, const char *digits)
{
    const char *found = c ? strchr(digits, c) : NULL;
    return found ? (int)(found - digits) : -1;
}

static pd_status take_crc(struct text *t, uint32_t *out)
{
    uint32_t value = 0;
    if (t->end - t->at < 8) return wrong(t, "a checksum");
    for (int i = 0; i < 8; i++) {
        int digit = hex_digit(t->at[i], "0123456789abcdef");
        if (digit < 0) return wrong(t, "a checksum");
        value = value << 4 | (uint32_t)digit;
    }
    t->at += 8;
    *out = value;
    return PD_OK;
}

/* Text up to one of the characters of `stops` or the end of the line, unescaped. */
static pd_status take_word(struct text *t, const char *stops, int may_be_empty, const char **out)
{
    char *begin = t->word, *to = begin;
    const char *start = t->at;
    while (t->at < t->end && *t->at != '\n' && !(*t->at && strchr(stops, *t->at))) {
        unsigned char c = (unsigned char)*t->at;
        if (c < ' ' || c == 0x7f) return wrong(t, "text without control characters");
        if (c == '%') {
            int high = t->end - t->at > 2 ? hex_digit(t->at[1], "0123456789ABCDEF") : -1;
            int low = high >= 0 ? hex_digit(t->at[2], "0123456789ABCDEF") : -1;
            if (low < 0 || high + low == 0) return wrong(t, "%XX for a byte");
            c = (unsigned char)(high << 4 | low);
            t->at += 2;
        }
        *to++ = (char)c;
        t->at++;
    }
    if (to == begin && !may_be_empty) {
        t->at = start;
        return wrong(t, "a name");
    }
    *to++ = 0;
    t->word = to;
    *out = begin;
    return PD_OK;
}

static pd_status take_dtype(struct text *t, enum pd_dtype *out)
{
#define NAME(name, number, ctype, size, text)                                                                \
    if (takes(t, text " ")) {                                                                                \
        *out = PD_DTYPE_##name;                                                                              \
        return PD_OK;                                                                                        \
    }
    PD_DTYPE_MAP(NAME)
#undef NAME
    return wrong(t, "an element type");
}

static pd_status take_dims(struct text *t, struct pd_snapshot_var *v)
{
    if (takes(t, "scalar")) return PD_OK;
    do {
        if (v->rank == PD_MAX_RANK) return wrong(t, "fewer dimensions");
        PD_TRY(take_signed(t, &v->dim[v->rank++]));
    } while (takes(t, "x"));
    return PD_OK;
}

/* Variables lie in the order of their lines and never one in the other, so `used` bytes decide. */
static pd_status take_var(struct text *t, uint64_t *used)
{
    struct pd_snapshot *s = t->snapshot;
    struct pd_snapshot_var v = {0};
    uint64_t bytes, offset = (*used + PD_SNAPSHOT_ALIGN - 1) / PD_SNAPSHOT_ALIGN * PD_SNAPSHOT_ALIGN;
    int line = t->line;
    PD_TRY(take_word(t, " ", 0, &v.name));
    PD_TRY(take(t, " dtype="));
    PD_TRY(take_dtype(t, &v.dtype));
    PD_TRY(take(t, "dims="));
    PD_TRY(take_dims(t, &v));
    PD_TRY(take(t, " offset="));
    PD_TRY(take_number(t, INT64_MAX, &v.offset));
    PD_TRY(take(t, " bytes="));
    PD_TRY(take_number(t, INT64_MAX, &v.bytes));
    PD_TRY(take(t, " crc32c="));
    PD_TRY(take_crc(t, &v.crc));
    PD_TRY(take(t, " whole="));
    PD_TRY(take_word(t, " ", 0, &v.whole));
    PD_TRY(take(t, " first_row="));
    PD_TRY(take_signed(t, &v.first_row));
    PD_TRY(take(t, " row_step="));
    PD_TRY(take_signed(t, &v.row_step));
    PD_TRY(take(t, " whole_rows="));
    PD_TRY(take_signed(t, &v.whole_rows));
    PD_TRY(take(t, "\n"));
    pd_status status = pd_snapshot_sizes(&v, &bytes);
    if (status != PD_OK) {
        pd_error_add(" (manifest '%s', line %d)", s->path, line);
        return status;
    }
    if (v.bytes != bytes || v.offset != offset || v.offset > s->data_size ||
        v.bytes > s->data_size - v.offset)
        return pd_fail(PD_FORMAT,
                       "manifest '%s', line %d: '%s' has %" PRIu64 " bytes at offset %" PRIu64
                       ", its shape asks for %" PRIu64 " at %" PRIu64
                       ", the data have %zu; the files do not belong together",
                       s->path, line, v.name, v.bytes, v.offset, bytes, offset, s->data_size);
    *used = v.offset + v.bytes;
    v.data = v.bytes ? s->data + v.offset : "";
    if (pd_map_get(&s->by_name, v.name))
        return pd_fail(PD_FORMAT, "manifest '%s', line %d: '%s' is there twice", s->path, line, v.name);
    if (!pd_vec_push(&s->vars, v) || !pd_map_set(&s->by_name, v.name, (void *)(uintptr_t)s->vars.n))
        return pd_no_memory();
    return PD_OK;
}

static pd_status take_trainer(struct text *t)
{
    struct pd_snapshot_trainer trainer;
    uint64_t number;
    PD_TRY(take_number(t, INT_MAX, &number));
    if (number != (uint64_t)t->snapshot->trainers.n) return wrong(t, "trainers in order, from 0 on");
    PD_TRY(take(t, " step="));
    PD_TRY(take_number(t, UINT64_MAX, &trainer.step));
    PD_TRY(take(t, " incarnation="));
    PD_TRY(take_number(t, UINT64_MAX, &trainer.incarnation));
    PD_TRY(take(t, "\n"));
    return pd_vec_push(&t->snapshot->trainers, trainer) ? PD_OK : pd_no_memory();
}

static pd_status take_note(struct text *t)
{
    struct pd_snapshot_note note;
    PD_TRY(take_word(t, "= ", 0, &note.key));
    PD_TRY(take(t, "="));
    PD_TRY(take_word(t, "", 1, &note.value));
    PD_TRY(take(t, "\n"));
    return pd_vec_push(&t->snapshot->notes, note) ? PD_OK : pd_no_memory();
}

static pd_status take_manifest(struct text *t)
{
    struct pd_snapshot *s = t->snapshot;
    uint64_t version, used = 0, size;
    const char *begin = t->at, *word;
    uint32_t crc, found;
    int is_named = 0;
    PD_TRY(take(t, PD_SNAPSHOT_MAGIC " "));
    PD_TRY(take_number(t, UINT64_MAX, &version));
    if (version != PD_SNAPSHOT_VERSION)
        return pd_fail(PD_FORMAT,
                       "manifest '%s' has version %" PRIu64
                       ", this program reads version %d: use the program that wrote it",
                       s->path, version, PD_SNAPSHOT_VERSION);
    PD_TRY(take(t, "\nstep "));
    t->line++;
    PD_TRY(take_number(t, UINT64_MAX, &s->info.step));
    PD_TRY(take(t, "\nendpoint "));
    t->line++;
    PD_TRY(take_word(t, " ", 0, &s->info.endpoint));
    PD_TRY(take(t, "\n"));
    while (takes(t, "server ")) {
        PD_TRY(take_word(t, " ", 0, &word));
        PD_TRY(take(t, "\n"));
        is_named |= strcmp(word, s->info.endpoint) == 0;
        if (!pd_vec_push(&s->servers, word)) return pd_no_memory();
    }
    while (takes(t, "trainer "))
        PD_TRY(take_trainer(t));
    while (takes(t, "var name="))
        PD_TRY(take_var(t, &used));
    while (takes(t, "note "))
        PD_TRY(take_note(t));
    PD_TRY(take(t, "end bytes="));
    PD_TRY(take_number(t, INT64_MAX, &size));
    PD_TRY(take(t, " crc32c="));
    found = pd_crc32c(0, begin, (size_t)(t->at - begin));
    PD_TRY(take_crc(t, &crc));
    PD_TRY(take(t, "\n"));
    if (t->at != t->end) return wrong(t, "nothing behind the last line");
    if (crc != found)
        return pd_fail(PD_FORMAT,
                       "manifest '%s': its checksum is %08" PRIx32 ", its text gives %08" PRIx32
                       "; the file was changed",
                       s->path, crc, found);
    s->crc = crc;
    if (size != used || size != s->data_size)
        return pd_fail(PD_FORMAT, "manifest '%s': the data must have %" PRIu64 " bytes, they have %zu",
                       s->path, size, s->data_size);
    if (!is_named)
        return pd_fail(PD_FORMAT, "manifest '%s': its server '%s' is not in its list of servers", s->path,
                       s->info.endpoint);
    return PD_OK;
}

/* ---- files ---- */

static pd_status open_file(const char *folder, const char *name, const char *file, int *fd, uint64_t *size)
{
    char path[PATH_MAX];
    struct stat st;
    if (snprintf(path, sizeof path, "%s/%s/%s", folder, name, file) >= (int)sizeof path)
        return pd_fail(PD_INVALID, "the path of the folder '%s' is too long", folder);
    *fd = open(path, O_RDONLY | O_CLOEXEC);
    if (*fd < 0)
        return pd_fail(errno == ENOENT ? PD_NOT_FOUND : PD_IO, "cannot open '%s': %s; %s", path,
                       pd_folder_error(errno), pd_folder_advice(errno));
    if (fstat(*fd, &st) == 0 && S_ISREG(st.st_mode)) {
        *size = (uint64_t)st.st_size;
        return PD_OK;
    }
    close(*fd);
    return pd_fail(PD_FORMAT, "'%s' is no plain file", path);
}

static pd_status map_data(struct pd_snapshot *s, const char *folder, const char *name)
{
    int fd;
    uint64_t size;
    PD_TRY(open_file(folder, name, PD_SNAPSHOT_DATA, &fd, &size));
    void *data = size ? mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0) : NULL;
    int number = errno;
    close(fd);
    if (data == MAP_FAILED)
        return pd_fail(PD_IO, "cannot map the data of '%s/%s' (%" PRIu64 " bytes): %s; %s", folder, name,
                       size, pd_folder_error(number), pd_folder_advice(number));
    s->data = data;
    s->data_size = size;
    return PD_OK;
}

static pd_status read_manifest(struct pd_snapshot *s, const char *folder, const char *name, size_t *n)
{
    int fd;
    uint64_t size;
    PD_TRY(open_file(folder, name, PD_SNAPSHOT_MANIFEST, &fd, &size));
    pd_status status = PD_OK;
    if (size > PD_SNAPSHOT_MAX_MANIFEST)
        status = pd_fail(PD_FORMAT, "manifest '%s' has %" PRIu64 " bytes; at most %d", s->path, size,
                         PD_SNAPSHOT_MAX_MANIFEST);
    /* A word has at most as many bytes as its text and the character behind it, so all fit in a second copy.
     */
    if (status == PD_OK && (!(s->text = pd_malloc(size + 1)) || !(s->words = pd_malloc(size + 1))))
        status = pd_no_memory();
    for (*n = 0; status == PD_OK && *n < size;) {
        ssize_t got = read(fd, s->text + *n, size - *n);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) status = pd_folder_trouble("read", s->path, errno);
        if (got <= 0) break;
        *n += (size_t)got;
    }
    close(fd);
    return status;
}

pd_status pd_snapshot_open(const char *folder, uint64_t step, struct pd_snapshot **out)
{
    char name[64];
    struct pd_buf path = {0};
    size_t n = 0;
    pd_snapshot_name(name, step);
    struct pd_snapshot *s = pd_calloc(1, sizeof *s);
    pd_buf_printf(&path, "%s/%s/" PD_SNAPSHOT_MANIFEST, folder, name);
    if (!s || path.failed) {
        pd_buf_free(&path);
        pd_free(s);
        return pd_no_memory();
    }
    s->path = path.at;
    pd_status status = map_data(s, folder, name);
    if (status == PD_OK) status = read_manifest(s, folder, name, &n);
    if (status == PD_OK) status = take_manifest(&(struct text){s, s->text, s->text + n, s->words, 1});
    if (status == PD_OK && s->info.step != step)
        status = pd_fail(PD_FORMAT, "manifest '%s' is of step %" PRIu64 ": give the folder its name back",
                         s->path, s->info.step);
    if (status != PD_OK) {
        pd_snapshot_close(s);
        return status;
    }
    s->info.n_servers = s->servers.n, s->info.servers = s->servers.at;
    s->info.n_trainers = s->trainers.n, s->info.trainers = s->trainers.at;
    s->info.n_vars = s->vars.n, s->info.vars = s->vars.at;
    s->info.n_notes = s->notes.n, s->info.notes = s->notes.at;
    *out = s;
    return PD_OK;
}

void pd_snapshot_close(struct pd_snapshot *s)
{
    if (!s) return;
    if (s->data) munmap((void *)(uintptr_t)s->data, s->data_size);
    pd_map_free(&s->by_name);
    pd_vec_free(&s->servers);
    pd_vec_free(&s->trainers);
    pd_vec_free(&s->vars);
    pd_vec_free(&s->notes);
    pd_free(s->text);
    pd_free(s->words);
    pd_free(s->path);
    pd_free(s);
}

const struct pd_snapshot_info *pd_snapshot_info(const struct pd_snapshot *s)
{
    return &s->info;
}

const struct pd_snapshot_var *pd_snapshot_find(const struct pd_snapshot *s, const char *name)
{
    uintptr_t found = (uintptr_t)pd_map_get(&s->by_name, name);
    return found ? &s->vars.at[found - 1] : NULL;
}

const char *pd_snapshot_note(const struct pd_snapshot *s, const char *key)
{
    for (int i = 0; i < s->notes.n; i++)
        if (strcmp(s->notes.at[i].key, key) == 0) return s->notes.at[i].value;
    return NULL;
}

uint64_t pd_snapshot_number(const struct pd_snapshot *s, const char *key, int base, uint64_t otherwise)
{
    const char *text = pd_snapshot_note(s, key);
    return text ? strtoull(text, NULL, base) : otherwise;
}

uint64_t pd_snapshot_id(const struct pd_snapshot *s)
{
    uint64_t id = pd_snapshot_number(s, "id", 16, 0);
    return id ? id : s->crc;
}

uint64_t pd_snapshot_job_id(const struct pd_snapshot *s)
{
    return pd_snapshot_number(s, "job", 16, 0);
}

uint64_t pd_snapshot_era(const struct pd_snapshot *s)
{
    return pd_snapshot_number(s, "era", 10, 0);
}

uint64_t pd_snapshot_applied(const struct pd_snapshot *s)
{
    return pd_snapshot_number(s, "applied", 10, s->info.step);
}

int pd_snapshot_is_async(const struct pd_snapshot *s)
{
    const char *mode = pd_snapshot_note(s, "mode");
    return mode && strcmp(mode, "async") == 0;
}

const char *pd_snapshot_placing(const struct pd_snapshot *s)
{
    return pd_snapshot_note(s, "placing");
}

int pd_snapshot_same_placing(const char *a, const char *b)
{
    return !a || !*a || !b || !*b || strcmp(a, b) == 0;
}

int pd_snapshot_is_hollow(const struct pd_snapshot *s)
{
    const char *optimizers = pd_snapshot_note(s, "optimizers");
    return pd_snapshot_is_async(s) && optimizers && !optimizers[strspn(optimizers, " ")];
}

int pd_snapshot_is_torn(const struct pd_snapshot *s)
{
    return pd_snapshot_note(s, "step0") != NULL;
}

pd_status pd_snapshot_check(const struct pd_snapshot *s)
{
    uint64_t end = 0;
    for (int i = 0; i < s->vars.n; i++) {
        const struct pd_snapshot_var *v = &s->vars.at[i];
        for (; end < v->offset; end++)
            if (s->data[end])
                return pd_fail(
                    PD_FORMAT,
                    "the data beside '%s' are not zero before '%s': they were damaged; use another snapshot",
                    s->path, v->name);
        uint32_t crc = pd_crc32c(0, v->data, (size_t)v->bytes);
        if (crc != v->crc)
            return pd_fail(PD_FORMAT,
                           "the data beside '%s': '%s' has the checksum %08" PRIx32
                           ", the manifest says %08" PRIx32 "; they were damaged; use another snapshot",
                           s->path, v->name, crc, v->crc);
        end = v->offset + v->bytes;
    }
    return PD_OK;
}
