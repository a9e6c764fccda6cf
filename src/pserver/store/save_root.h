/* Folders of files that others ask for, below folders that they may not leave: neither by "..", nor by a
 * link, nor by a folder that is exchanged for a link while the file is written. */
#ifndef PD_PSERVER_SAVE_ROOT_H
#define PD_PSERVER_SAVE_ROOT_H

#include "base/error.h"

struct pd_save_root {
    const char *given; /* the one folder; NULL: the working folder (unless that is "/") and `kept` */
    const char *kept;  /* NULL or empty: none */
};

/* Opens the folder of the file `path`; makes the folders that are missing. PD_INVALID, with what to set, when
 * the path leads outside. */
pd_status pd_save_root_open(const char *path, const struct pd_save_root *root, int *out);

#endif
