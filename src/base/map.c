/* Open addressing with linear probing; removal shifts the following entries back, so there are no tombstones.
 */
#include "base/map.h"

#include <string.h>

#include "base/alloc.h"

uint64_t pd_hash_bytes(const void *bytes, size_t length)
{
    const unsigned char *p = bytes;
    uint64_t h = 0x9E3779B97F4A7C15ull ^ length;
    for (size_t i = 0; i < length; i++)
        h = (h ^ p[i]) * 0x100000001B3ull;
    h ^= h >> 32;
    h *= 0xD6E8FEB86659FD93ull;
    return h ^ (h >> 29);
}

uint64_t pd_hash_text(const char *text)
{
    return pd_hash_bytes(text, strlen(text));
}

static struct pd_map_entry *find(const struct pd_map *map, const char *key, uint64_t hash)
{
    for (size_t i = hash & (map->cap - 1);; i = (i + 1) & (map->cap - 1)) {
        struct pd_map_entry *e = &map->at[i];
        if (!e->key || (e->hash == hash && strcmp(e->key, key) == 0)) return e;
    }
}

void *pd_map_get(const struct pd_map *map, const char *key)
{
    if (!map->cap) return NULL;
    struct pd_map_entry *e = find(map, key, pd_hash_text(key));
    return e->key ? e->value : NULL;
}

int pd_map_number(const struct pd_map *map, const char *key)
{
    if (!map->cap) return -1;
    struct pd_map_entry *e = find(map, key, pd_hash_text(key));
    return e->key ? e->number : -1;
}

int pd_map_has(const struct pd_map *map, const char *key)
{
    return pd_map_key(map, key) != NULL;
}

const char *pd_map_key(const struct pd_map *map, const char *key)
{
    return map->cap ? find(map, key, pd_hash_text(key))->key : NULL;
}

static int grow(struct pd_map *map)
{
    size_t cap = map->cap ? map->cap * 2 : 16;
    struct pd_map bigger = {.at = pd_calloc(cap, sizeof *bigger.at), .cap = cap, .n = map->n};
    if (!bigger.at) return 0;
    pd_map_each(map, e)
        *find(&bigger, e->key, e->hash) = *e;
    pd_free(map->at);
    *map = bigger;
    return 1;
}

/* The entry of the key, new ones without a value; NULL when memory is short. */
static struct pd_map_entry *entry_of(struct pd_map *map, const char *key)
{
    if (map->n * 4 >= map->cap * 3 && !grow(map)) return NULL;
    uint64_t hash = pd_hash_text(key);
    struct pd_map_entry *e = find(map, key, hash);
    if (!e->key) {
        e->key = pd_strdup(key);
        if (!e->key) return NULL;
        e->hash = hash;
        map->n++;
    }
    return e;
}

int pd_map_set(struct pd_map *map, const char *key, void *value)
{
    struct pd_map_entry *e = entry_of(map, key);
    if (e) e->value = value;
    return e != NULL;
}

int pd_map_set_number(struct pd_map *map, const char *key, int number)
{
    struct pd_map_entry *e = entry_of(map, key);
    if (e) e->number = number;
    return e != NULL;
}

int pd_map_add(struct pd_map *map, const char *key)
{
    return entry_of(map, key) != NULL;
}

void *pd_map_remove(struct pd_map *map, const char *key)
{
    if (!map->cap) return NULL;
    struct pd_map_entry *e = find(map, key, pd_hash_text(key));
    if (!e->key) return NULL;
    void *value = e->value;
    pd_free(e->key);
    size_t mask = map->cap - 1, hole = (size_t)(e - map->at);
    for (size_t i = (hole + 1) & mask; map->at[i].key; i = (i + 1) & mask) {
        size_t home = map->at[i].hash & mask;
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            map->at[hole] = map->at[i];
            hole = i;
        }
    }
    map->at[hole] = (struct pd_map_entry){0};
    map->n--;
    return value;
}

void pd_map_free(struct pd_map *map)
{
    pd_map_each(map, e)
        pd_free(e->key);
    pd_free(map->at);
    *map = (struct pd_map){0};
}
