/* One value in a file of its own, in the format of tensor/file.h. */
#ifndef PD_PSERVER_VALUE_FILE_H
#define PD_PSERVER_VALUE_FILE_H

#include <stdio.h>

#include "tensor/value.h"

enum pd_value_file_mode { PD_VALUE_FILE_KEEP, PD_VALUE_FILE_REPLACE };

enum { PD_VALUE_FILE_NAME = 280 };

/* What a file has: `write` puts it into the stream. Errors are named with the path by who calls it. */
struct pd_file_body {
    pd_status (*write)(const void *arg, FILE *file);
    const void *arg;
};
/* As tensor/file.h writes the value; borrowed. */
struct pd_file_body pd_file_body_of(const struct pd_value *value);

/* Writes aside, syncs and renames: a file under its final name is always whole, also after a power failure. A
 * link of that name is replaced, not followed. Folders that are missing are made. PD_EXISTS: the file is
 * there already, and the mode is KEEP. */
pd_status pd_value_file_write(const struct pd_value *value, const char *path, enum pd_value_file_mode mode);
/* Opens the folder of `path`, which is made when it is missing. */
pd_status pd_value_file_folder(const char *path, int *out);
/* The same in an open folder, with `n_tail` bytes behind the body; `path` is for messages. */
pd_status pd_value_file_write_in(int folder, const char *name, struct pd_file_body body, const void *tail,
                                 size_t n_tail, const char *path);

#endif
