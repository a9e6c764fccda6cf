/* One value in a file of its own, in the format of tensor/file.h. */
#ifndef PD_PSERVER_VALUE_FILE_H
#define PD_PSERVER_VALUE_FILE_H

#include "tensor/value.h"

enum pd_value_file_mode { PD_VALUE_FILE_KEEP, PD_VALUE_FILE_REPLACE };

enum { PD_VALUE_FILE_NAME = 280 };

/* Writes aside, syncs and renames: a file under its final name is always whole, also after a power failure. A
 * link of that name is replaced, not followed. Folders that are missing are made. PD_EXISTS: the file is
 * there already, and the mode is KEEP. */
pd_status pd_value_file_write(const struct pd_value *value, const char *path, enum pd_value_file_mode mode);
/* Opens the folder of `path`, which is made when it is missing. */
pd_status pd_value_file_folder(const char *path, int *out);
/* The same in an open folder, with `n_tail` bytes behind the value; `path` is for messages. */
pd_status pd_value_file_write_in(int folder, const char *name, const struct pd_value *value, const void *tail,
                                 size_t n_tail, const char *path);

#endif
