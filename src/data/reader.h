/* Samples out of a list of files. Several readers share the list: each takes the next file that nobody has
 * begun.
 *
 * A line that cannot be read is left out, told with its file and number (the first ones) and counted. When a
 * good part of all lines is bad, the description of the slots is wrong, and that is an error: judged at the
 * end, so that it does not hang on the order in which files are read. A file that begins with a thousand bad
 * lines, and no other, ends the reading at once. */
#ifndef PD_DATA_READER_H
#define PD_DATA_READER_H

#include <pthread.h>

#include "base/buf.h"
#include "base/vec.h"
#include "data/schema.h"

/* A file, or what a command of its own makes. */
struct pd_file {
    char *path;
    char *command; /* NULL: the file itself */
    int64_t bytes; /* what the command's text counts for */
};

/* What readers share. All but the first three are under `lock`, or atomic. */
struct pd_files {
    const struct pd_schema *schema;
    char *command; /* for files without one of their own; as pd_source_open has it */
    PD_VEC(struct pd_file) list;
    pthread_mutex_t lock;
    int next;            /* file that nobody has begun */
    int stop;            /* atomic: readers end soon */
    int64_t lines, bad;  /* of all that was read; bad ones are among them */
    int64_t bytes;       /* of all files */
    int64_t done;        /* of them read; atomic */
    char first_bad[400]; /* for an error */
};

/* `schema` is borrowed; `command` and `list` are copied. What there is then is for pd_files_clear, also when
 * it fails. */
pd_status pd_files_init(struct pd_files *files, const struct pd_schema *schema, const char *command, int n,
                        const struct pd_file *list);
/* A copy; 0: memory is short, and what there is then is for pd_file_clear. */
int pd_file_copy(const struct pd_file *file, struct pd_file *out);
void pd_file_clear(struct pd_file *file);
void pd_files_clear(struct pd_files *files);
/* After all readers: an error when nothing was read, or too much of it was bad. Tells how many lines were
 * left out. */
pd_status pd_files_check(struct pd_files *files);

struct pd_line_reader;

/* `turns` 0: it takes the next file that nobody has begun. Else every so many files from `first` on, whatever
 * others do. */
pd_status pd_line_reader_new(struct pd_files *files, int first, int turns, struct pd_line_reader **out);
void pd_line_reader_free(struct pd_line_reader *reader);
/* The number in the list of the file that the last sample was of. */
int pd_line_reader_file(const struct pd_line_reader *reader);
/* Appends the next sample to `out`; *more is 0 when there is none. */
pd_status pd_line_reader_next(struct pd_line_reader *reader, struct pd_buf *out, int *more);

#endif
