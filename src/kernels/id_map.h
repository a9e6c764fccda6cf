/* A hash map from ids to positions, in memory of the caller: for ids that come and go with one call. */
#ifndef PD_KERNELS_ID_MAP_H
#define PD_KERNELS_ID_MAP_H

#include <stddef.h>
#include <stdint.h>

struct pd_id_map {
    int64_t *id; /* by place; only where at[place] >= 0 */
    int32_t *at; /* -1: free */
    uint64_t mask;
};

/* Bytes of memory for up to n ids. */
size_t pd_id_map_bytes(int64_t n);
void pd_id_map_init(struct pd_id_map *map, int64_t n, void *memory);
/* Position of an id; -1 when it is not there. */
int32_t pd_id_map_get(const struct pd_id_map *map, int64_t id);
/* Adds an id; when it is there already its position stays and is returned, else `at`. */
int32_t pd_id_map_add(struct pd_id_map *map, int64_t id, int32_t at);

#endif
