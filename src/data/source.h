/* Where text comes from: a file, or what a command of the user's makes of it. */
#ifndef PD_DATA_SOURCE_H
#define PD_DATA_SOURCE_H

#include <paddle/status.h>
#include <stddef.h>
#include <stdint.h>

struct pd_source;

/* `command` NULL or "cat": the file itself. Borrows all until the close. While a pipe, a terminal or a
 * command is silent, *stop (atomic) is looked at now and then: not 0 ends the call with PD_INTERRUPTED. A
 * pipe with a name is waited for until somebody writes to it. */
pd_status pd_source_open(const char *path, const char *command, const int *stop, struct pd_source **out);
/* What a command writes that needs no input; `path` is a name for messages. */
pd_status pd_source_make(const char *path, const char *command, const int *stop, struct pd_source **out);
/* Up to `room` bytes; *n is 0 at the end, where a command that failed is an error. */
pd_status pd_source_read(struct pd_source *source, char *to, size_t room, size_t *n);
/* Of the file: its size, 0 where it is not known, and how much of it has been read; a command may be ahead.
 */
int64_t pd_source_size(const struct pd_source *source);
int64_t pd_source_done(const struct pd_source *source);
/* Ends a command that still runs, with all that it has started. */
void pd_source_close(struct pd_source *source);

#endif
