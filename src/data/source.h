/* Where text comes from: a file, or what a command of the user's makes of it ("pipe command").
 *
 * A command runs in a shell of its own, with the file as its input. What it writes to its standard error is
 * passed on to ours; the end of it is kept, and is part of the error when the command fails. One thread at a
 * time. */
#ifndef PD_DATA_SOURCE_H
#define PD_DATA_SOURCE_H

#include <paddle/status.h>
#include <stddef.h>
#include <stdint.h>

struct pd_source;

/* `command` NULL or "cat": the file itself. Borrows both. While a command is silent, *stop (atomic) is looked
 * at now and then: not 0 ends the read with PD_INTERRUPTED. */
pd_status pd_source_open(const char *path, const char *command, const int *stop, struct pd_source **out);
/* Up to `room` bytes; *n is 0 at the end, where a command that failed is an error. */
pd_status pd_source_read(struct pd_source *source, char *to, size_t room, size_t *n);
/* Of the file: its size, 0 where it is not known, and how much of it has been read; a command may be ahead.
 */
int64_t pd_source_size(const struct pd_source *source);
int64_t pd_source_done(const struct pd_source *source);
/* Ends a command that still runs, with all that it has started. */
void pd_source_close(struct pd_source *source);

#endif
