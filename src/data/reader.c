/* See reader.h. */
#include "data/reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/log.h"
#include "data/multislot.h"
#include "data/numbers.h"
#include "data/source.h"

enum {
    BLOCK = 1 << 20,
    LINE_MOST = 1 << 30,
    TOLD = 10,        /* bad lines that are told one by one */
    BAD_FREE = 100,   /* so many bad lines are never too many, */
    BAD_SHARE = 10,   /* more are when one line in so many is bad */
    BAD_FIRST = 1000, /* so many at the beginning of a file, and no other, are too many at once */
};

struct pd_line_reader {
    struct pd_files *files;
    struct pd_source *source; /* NULL: the next file is to be opened */
    const char *path;
    int own, turns;        /* the next file of its own; turns 0: it has none */
    int number;            /* of the file in the list */
    int64_t line;          /* the number of the line at `at`, from 1 on */
    int64_t counted, size; /* bytes of this file that the list knows of */
    int64_t lines, bad;    /* not added to the list yet */
    int64_t bad_first;     /* with which the file began; -1: and then a good one */
    char *block;
    size_t cap, at, end,
        filled;  /* lines from `at` to `end`; bytes of a line that is not whole up to `filled` */
    int is_over; /* the source has no more */
};

int pd_file_copy(const struct pd_file *file, struct pd_file *out)
{
    *out = (struct pd_file){.path = pd_strdup(file->path), .bytes = file->bytes};
    if (file->command) out->command = pd_strdup(file->command);
    return out->path && (out->command || !file->command);
}

void pd_file_clear(struct pd_file *file)
{
    pd_free(file->path);
    pd_free(file->command);
}

pd_status pd_files_init(struct pd_files *files, const struct pd_schema *schema, const char *command, int n,
                        const struct pd_file *list)
{
    *files = (struct pd_files){.schema = schema, .lock = PTHREAD_MUTEX_INITIALIZER};
    if (command && !(files->command = pd_strdup(command))) return pd_no_memory();
    if (!pd_vec_reserve(&files->list, n)) return pd_no_memory();
    for (int i = 0; i < n; i++) {
        if (!pd_file_copy(&list[i], &files->list.at[files->list.n++])) return pd_no_memory();
        struct stat about;
        if (list[i].command)
            files->bytes += list[i].bytes;
        else if (stat(list[i].path, &about) == 0 && S_ISREG(about.st_mode))
            files->bytes += about.st_size;
    }
    return PD_OK;
}

void pd_files_clear(struct pd_files *files)
{
    for (int i = 0; i < files->list.n; i++)
        pd_file_clear(&files->list.at[i]);
    pd_vec_free(&files->list);
    pd_free(files->command);
    files->command = NULL;
}

static pd_status too_bad(const struct pd_files *files)
{
    if (files->bad < files->lines && (files->bad <= BAD_FREE || files->bad * BAD_SHARE < files->lines))
        return PD_OK;
    return pd_fail(PD_FORMAT,
                   "%" PRId64 " of %" PRId64
                   " lines cannot be read. Are the slots those of the files, in their order "
                   "(set_use_var), and what the pipe command writes? The first: %s",
                   files->bad, files->lines, files->first_bad);
}

pd_status pd_files_check(struct pd_files *files)
{
    if (files->list.n == 0)
        return pd_fail(PD_INVALID, "there is no file to read; give some with set_filelist");
    if (files->lines == 0)
        return pd_fail(PD_INVALID,
                       "%d file%s, the first '%s', ha%s no sample%s%s%s: nothing would be trained",
                       files->list.n, files->list.n == 1 ? "" : "s", files->list.at[0].path,
                       files->list.n == 1 ? "s" : "ve", files->command ? " after the pipe command '" : "",
                       files->command ? files->command : "", files->command ? "'" : "");
    if (files->bad) PD_TRY(too_bad(files));
    if (files->bad)
        pd_log(PD_LOG_WARNING, "%" PRId64 " of %" PRId64 " lines could not be read and %s left out",
               files->bad, files->lines, files->bad == 1 ? "was" : "were");
    return PD_OK;
}

/* ---- one reader ---- */

pd_status pd_line_reader_new(struct pd_files *files, int first, int turns, struct pd_line_reader **out)
{
    struct pd_line_reader *r = pd_calloc(1, sizeof *r);
    if (!r) return pd_no_memory();
    r->files = files;
    r->own = first;
    r->turns = turns;
    r->cap = BLOCK;
    r->block = pd_malloc(r->cap + 1 + PD_NUMBERS_PAST);
    if (!r->block) {
        pd_free(r);
        return pd_no_memory();
    }
    *out = r;
    return PD_OK;
}

/* Adds what was read to what all have read. */
static void account(struct pd_line_reader *r)
{
    struct pd_files *f = r->files;
    int64_t done = r->source ? pd_source_done(r->source) : r->size;
    __atomic_fetch_add(&f->done, done - r->counted, __ATOMIC_RELAXED);
    r->counted = done;
    pthread_mutex_lock(&f->lock);
    f->lines += r->lines;
    f->bad += r->bad;
    r->lines = r->bad = 0;
    pthread_mutex_unlock(&f->lock);
}

void pd_line_reader_free(struct pd_line_reader *reader)
{
    if (!reader) return;
    pd_source_close(reader->source);
    pd_free(reader->block);
    pd_free(reader);
}

int pd_line_reader_file(const struct pd_line_reader *reader)
{
    return reader->number;
}

/* The next file of the list; *more is 0 when there is none. */
static pd_status begin_file(struct pd_line_reader *r, int *more)
{
    struct pd_files *f = r->files;
    pthread_mutex_lock(&f->lock);
    int *next = r->turns ? &r->own : &f->next;
    *more = *next < f->list.n;
    if (*more) {
        r->number = *next;
        *next += r->turns ? r->turns : 1;
    }
    pthread_mutex_unlock(&f->lock);
    if (!*more) return PD_OK;
    const struct pd_file *file = &f->list.at[r->number];
    r->path = file->path;
    PD_TRY(file->command ? pd_source_make(r->path, file->command, &f->stop, &r->source)
                         : pd_source_open(r->path, f->command, &f->stop, &r->source));
    r->size = file->command ? file->bytes : pd_source_size(r->source);
    r->counted = 0;
    r->line = 1;
    r->bad_first = 0;
    r->at = r->end = r->filled = 0;
    r->is_over = 0;
    return PD_OK;
}

static pd_status grow(struct pd_line_reader *r)
{
    if (r->cap >= LINE_MOST)
        return pd_fail(PD_FORMAT, "%s:%" PRId64 ": the line is longer than 1 GiB; is this a text file?",
                       r->path, r->line);
    char *larger = pd_realloc_array(r->block, 2 * r->cap + 1 + PD_NUMBERS_PAST, 1);
    if (!larger) return pd_no_memory();
    r->block = larger;
    r->cap *= 2;
    return PD_OK;
}

/* At least one whole line from `at` on, unless the file is at its end. */
static pd_status fill(struct pd_line_reader *r)
{
    memmove(r->block, r->block + r->at, r->filled - r->at);
    r->filled -= r->at;
    r->at = r->end = 0;
    account(r);
    if (__atomic_load_n(&r->files->stop, __ATOMIC_RELAXED))
        return pd_fail(PD_INTERRUPTED, "reading was ended");
    while (!r->end && !r->is_over) {
        size_t n;
        if (r->filled == r->cap) PD_TRY(grow(r));
        PD_TRY(pd_source_read(r->source, r->block + r->filled, r->cap - r->filled, &n));
        if (n == 0) {
            r->is_over = 1;
            /* The last line may lack its end. */
            if (r->filled && r->block[r->filled - 1] != '\n') r->block[r->filled++] = '\n';
            r->end = r->filled;
            break;
        }
        const char *last = memrchr(r->block + r->filled, '\n', n);
        r->filled += n;
        if (last) r->end = (size_t)(last - r->block) + 1;
    }
    memset(r->block + r->filled, 0, PD_NUMBERS_PAST);
    return PD_OK;
}

static void end_file(struct pd_line_reader *r)
{
    pd_source_close(r->source);
    r->source = NULL;
    account(r);
}

/* A line that cannot be read. */
static pd_status tell(struct pd_line_reader *r, const char *why)
{
    struct pd_files *f = r->files;
    r->bad++;
    pthread_mutex_lock(&f->lock);
    int64_t so_far = f->bad + r->bad;
    if (!f->first_bad[0])
        snprintf(f->first_bad, sizeof f->first_bad, "%.100s:%" PRId64 ": %s", r->path, r->line, why);
    pthread_mutex_unlock(&f->lock);
    if (so_far <= TOLD)
        pd_log(PD_LOG_WARNING, "%s:%" PRId64 ": this line is left out: %s%s", r->path, r->line, why,
               so_far == TOLD ? " (more of these are counted, not told)" : "");
    if (r->bad_first < 0 || ++r->bad_first < BAD_FIRST) return PD_OK;
    return pd_fail(
        PD_FORMAT,
        "the first %d lines of '%s' cannot be read, none of them. Are the slots those of the files, "
        "in their order (set_use_var), and what the pipe command writes? The last of them, line "
        "%" PRId64 ": %s",
        BAD_FIRST, r->path, r->line, why);
}

pd_status pd_line_reader_next(struct pd_line_reader *reader, struct pd_buf *out, int *more)
{
    struct pd_line_reader *r = reader;
    for (;;) {
        if (!r->source) {
            PD_TRY(begin_file(r, more));
            if (!*more) return PD_OK;
        }
        while (r->at < r->end) {
            const char *next, *why, *text = r->block + r->at;
            size_t before = out->n;
            PD_TRY(pd_multislot_read(r->files->schema, text, r->block + r->end, out, &next, &why));
            if (why) PD_TRY(tell(r, why));
            r->at = (size_t)(next - r->block);
            r->line++;
            r->lines += why || out->n > before;
            if (out->n > before) {
                r->bad_first = -1;
                *more = 1;
                return PD_OK;
            }
        }
        if (r->is_over)
            end_file(r);
        else
            PD_TRY(fill(r));
    }
}
