/* A command of the user's through which a file goes ("pipe command"), while it runs.
 *
 * It runs in bash with pipefail, so that any part of `a | b` that fails fails it, where there is no bash in
 * sh, and in a process group of its own. What it writes to its standard error is passed on to ours; the end
 * of it is kept, and is part of the error when the command fails. How it ended comes through a pipe from a
 * second shell that waits for it: not from waitpid, whose answer is lost when the process ignores SIGCHLD or
 * waits for all its children. When this process ends in whatever way, the group ends. One thread at a time.
 */
#ifndef PD_DATA_COMMAND_H
#define PD_DATA_COMMAND_H

#include <paddle/status.h>
#include <stddef.h>

struct pd_command;

/* `text` for the shell; its input is `file`, whose name is `path`; -1: it needs none, and brings that file.
 * Borrows all. While the command is silent,
 * *stop (atomic) is looked at now and then: not 0 ends the read with PD_INTERRUPTED. */
pd_status pd_command_start(const char *text, const char *path, int file, const int *stop,
                           struct pd_command **out);
/* Up to `room` bytes; *n is 0 at the end: the command has ended, and all that write there have. A command
 * that failed, or of which that cannot be told, or that left something which holds the output and says
 * nothing, is an error. */
pd_status pd_command_read(struct pd_command *command, char *to, size_t room, size_t *n);
/* Ends what still runs of it, in the background too, and frees. NULL is fine. */
void pd_command_end(struct pd_command *command);

#endif
