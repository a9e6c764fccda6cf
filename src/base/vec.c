/* Growth of pd_vec arrays: doubling, checked. */
#include "base/vec.h"

#include <limits.h>

int pd_vec_grow(void **at, int *cap, int need, size_t item_size)
{
    if (need < 0 || need > INT_MAX / 2) return 0;
    int room = *cap ? *cap : 4;
    while (room < need)
        room *= 2;
    void *memory = pd_realloc_array(*at, (size_t)room, item_size);
    if (!memory) return 0;
    *at = memory;
    *cap = room;
    return 1;
}
