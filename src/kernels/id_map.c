/* See id_map.h. Open addressing, at most half full. */
#include "kernels/id_map.h"

#include <string.h>

static uint64_t places(int64_t n)
{
    uint64_t size = 16;
    while (size < 2 * (uint64_t)n)
        size *= 2;
    return size;
}

size_t pd_id_map_bytes(int64_t n)
{
    return places(n) * (sizeof(int64_t) + sizeof(int32_t));
}

void pd_id_map_init(struct pd_id_map *map, int64_t n, void *memory)
{
    uint64_t size = places(n);
    map->id = memory;
    map->at = (int32_t *)(map->id + size);
    map->mask = size - 1;
    memset(map->at, 0xff, size * sizeof *map->at);
}

static uint64_t find(const struct pd_id_map *map, int64_t id)
{
    uint64_t place = ((uint64_t)id * 0x9E3779B97F4A7C15ull) >> 20 & map->mask;
    while (map->at[place] >= 0 && map->id[place] != id)
        place = (place + 1) & map->mask;
    return place;
}

int32_t pd_id_map_get(const struct pd_id_map *map, int64_t id)
{
    return map->at[find(map, id)];
}

int32_t pd_id_map_add(struct pd_id_map *map, int64_t id, int32_t at)
{
    uint64_t place = find(map, id);
    if (map->at[place] < 0) {
        map->id[place] = id;
        map->at[place] = at;
    }
    return map->at[place];
}
