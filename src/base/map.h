/* A hash map from strings to pointers, or to numbers, or of strings alone. Keys are copied; pointers are
 * borrowed. What a map is of is decided by the calls that fill it. */
#ifndef PD_BASE_MAP_H
#define PD_BASE_MAP_H

#include <stddef.h>
#include <stdint.h>

struct pd_map_entry {
    char *key; /* NULL: free; otherwise owned by the map */
    union {
        void *value;
        int number;
    };
    uint64_t hash;
};

struct pd_map {
    struct pd_map_entry *at;
    size_t cap, n;
};

uint64_t pd_hash_bytes(const void *bytes, size_t length);
uint64_t pd_hash_text(const char *text);

/* NULL when the key is not there. */
void *pd_map_get(const struct pd_map *map, const char *key);
/* Sets or replaces; 0 when memory is short. The key as the map keeps it can be had by pd_map_key. */
int pd_map_set(struct pd_map *map, const char *key, void *value);
/* The same with numbers, which are not negative; -1 when the key is not there. */
int pd_map_number(const struct pd_map *map, const char *key);
int pd_map_set_number(struct pd_map *map, const char *key, int number);
/* A key without a value; 0 when memory is short. */
int pd_map_add(struct pd_map *map, const char *key);
int pd_map_has(const struct pd_map *map, const char *key);
/* The map's own copy of a key, valid until it is removed; NULL when not there. */
const char *pd_map_key(const struct pd_map *map, const char *key);
/* Removes the key; returns its value or NULL. */
void *pd_map_remove(struct pd_map *map, const char *key);
void pd_map_free(struct pd_map *map);

#define pd_map_each(map, entry)                                                                              \
    for (struct pd_map_entry *entry = (map)->at; entry && entry < (map)->at + (map)->cap; entry++)           \
        if (entry->key)

#endif
