/* Folders that hold logs and snapshots: made with their parents, listed by number, synced, removed. */
#ifndef PD_PSERVER_FOLDER_H
#define PD_PSERVER_FOLDER_H

#include <limits.h>
#include <paddle/status.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum { PD_FOLDER_DIGITS = 20 }; /* of a number in a name: names sort as numbers do */

/* Makes the folder and those above it. That it is there already is fine. */
pd_status pd_folder_make(const char *path);
/* Locks the folder by the file `name` in it, which is made; *fd holds the lock until it is closed. PD_EXISTS:
 * a process has it, which the message names. Where there are no locks a warning is logged and *fd is fine. */
pd_status pd_folder_lock(const char *path, const char *name, int *fd);
/* The process that has that lock; 0: none, or it cannot be known. Not of a lock of this process, which would
 * lose it. */
long pd_folder_holder(const char *path, const char *name);
/* Writes a file in the folder, aside first, and syncs it: it is whole under its name, or as it was before. */
pd_status pd_folder_write(const char *path, const char *name, const void *bytes, size_t n);
/* Names in the folder reach the disk. */
pd_status pd_folder_sync(const char *path);
int pd_folder_sync_at(int fd); /* 0, or the number of the error; system calls only */
/* Removes the folder `name` of the folder `path` with the plain files in it. That it is not there is fine. */
pd_status pd_folder_remove(const char *path, const char *name);

/* The number of a name `<prefix><20 digits>`; 0 when the name is another one. */
int pd_folder_number(const char *name, const char *prefix, uint64_t *number);
/* The numbers of all such names in the folder, rising. Free *out with pd_free. A folder that is not there has
 * none. */
pd_status pd_folder_numbers(const char *path, const char *prefix, uint64_t **out, int *n);
/* The names in the folder, in order, but for "." and "..". Free with pd_folder_free_names. */
pd_status pd_folder_names(const char *path, char ***out, int *n);
void pd_folder_free_names(char **names, int n);

/* "<folder>/<name>"; an error when that is too long. */
pd_status pd_folder_path(char path[PATH_MAX], const char *folder, const char *name);
/* The whole file of that name, a zero byte behind it. More than `most` bytes are not read. *is_there is 0
 * when there is none. */
pd_status pd_folder_read(const char *folder, const char *name, size_t most, struct pd_buf *out,
                         int *is_there);
/* An error: what could not be done with which path, why, and what to do about it. */
pd_status pd_folder_trouble(const char *what, const char *path, int number);
/* What an error number of the system means, and what a user can do about it. Safe in a forked child. */
const char *pd_folder_error(int number);
const char *pd_folder_advice(int number);

#endif
