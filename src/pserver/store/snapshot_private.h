/* Names and limits of snapshot files, for the snapshot_*.c files only. */
#ifndef PD_PSERVER_SNAPSHOT_PRIVATE_H
#define PD_PSERVER_SNAPSHOT_PRIVATE_H

#include "base/vec.h"
#include "pserver/store/snapshot.h"

#define PD_SNAPSHOT_PREFIX "snapshot-"
#define PD_SNAPSHOT_ASIDE ".tmp-" /* then process and step */
#define PD_SNAPSHOT_DATA "data"
#define PD_SNAPSHOT_MANIFEST "manifest"
#define PD_SNAPSHOT_MAGIC "paddle-snapshot"

enum { PD_SNAPSHOT_VERSION = 1, PD_SNAPSHOT_ALIGN = 64, PD_SNAPSHOT_MAX_MANIFEST = 256 << 20 };

void pd_snapshot_name(char name[64], uint64_t step);
/* Checks element type, dimensions and rows of a variable against each other, all of which may be hostile;
 * gives its bytes. */
pd_status pd_snapshot_sizes(const struct pd_snapshot_var *var, uint64_t *bytes);

/* A slice of a variable; where several servers have the same rows, the first in turn counts. */
struct pd_snapshot_slice {
    const struct pd_snapshot_var *var;
    int turn;
};

/* All servers are there: finds the slices, and what comes first. */
pd_status pd_snapshot_set_index(struct pd_snapshot_set *set);

#endif
