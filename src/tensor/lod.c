/* Level of detail: one allocation holds the header, the levels and their offsets. */
#include "tensor/lod.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

pd_status pd_lod_alloc(int levels, const int64_t *entries, struct pd_lod **out)
{
    size_t total = 0;
    for (int i = 0; i < levels; i++) {
        if (entries[i] < 1 || (uint64_t)entries[i] > SIZE_MAX / 64)
            return pd_fail(PD_INVALID, "LoD level %d has %lld entries, it needs at least one", i,
                           (long long)entries[i]);
        total += (size_t)entries[i];
    }
    size_t head = sizeof(struct pd_lod) + (size_t)levels * sizeof(struct pd_lod_level);
    struct pd_lod *lod = pd_malloc(head + total * sizeof(int64_t));
    if (!lod) return pd_no_memory();
    lod->refs = 1;
    lod->levels = levels;
    int64_t *offset = (int64_t *)((char *)lod + head);
    for (int i = 0; i < levels; i++) {
        lod->level[i] = (struct pd_lod_level){entries[i], offset};
        offset += entries[i];
    }
    *out = lod;
    return PD_OK;
}

static pd_status check(int levels, const struct pd_lod_level *level)
{
    for (int i = 0; i < levels; i++) {
        if (level[i].n < 1)
            return pd_fail(PD_INVALID, "LoD level %d is empty; it needs at least the offset 0", i);
        if (level[i].offset[0] != 0)
            return pd_fail(PD_INVALID, "LoD level %d starts at %lld instead of 0", i,
                           (long long)level[i].offset[0]);
        for (int64_t k = 1; k < level[i].n; k++)
            if (level[i].offset[k] < level[i].offset[k - 1])
                return pd_fail(PD_INVALID, "LoD level %d decreases at entry %lld: %lld after %lld", i,
                               (long long)k, (long long)level[i].offset[k],
                               (long long)level[i].offset[k - 1]);
        if (i + 1 < levels && level[i].offset[level[i].n - 1] != level[i + 1].n - 1)
            return pd_fail(PD_INVALID, "LoD level %d ends at %lld, but level %d has %lld sequences", i,
                           (long long)level[i].offset[level[i].n - 1], i + 1, (long long)level[i + 1].n - 1);
    }
    return PD_OK;
}

pd_status pd_lod_new(int levels, const struct pd_lod_level *level, struct pd_lod **out)
{
    int64_t entries[16];
    if (levels < 1 || levels > 16) return pd_fail(PD_INVALID, "a LoD has 1 to 16 levels, found %d", levels);
    PD_TRY(check(levels, level));
    for (int i = 0; i < levels; i++)
        entries[i] = level[i].n;
    struct pd_lod *lod;
    PD_TRY(pd_lod_alloc(levels, entries, &lod));
    for (int i = 0; i < levels; i++)
        memcpy(lod->level[i].offset, level[i].offset, (size_t)level[i].n * sizeof(int64_t));
    *out = lod;
    return PD_OK;
}

pd_status pd_lod_from_lengths(const int64_t *lengths, int64_t count, struct pd_lod **out)
{
    struct pd_lod *lod;
    int64_t entries = count + 1;
    PD_TRY(pd_lod_alloc(1, &entries, &lod));
    int64_t *offset = lod->level[0].offset;
    offset[0] = 0;
    for (int64_t i = 0; i < count; i++) {
        if (lengths[i] < 0) {
            pd_lod_unref(lod);
            return pd_fail(PD_INVALID, "sequence %lld has the negative length %lld", (long long)i,
                           (long long)lengths[i]);
        }
        offset[i + 1] = offset[i] + lengths[i];
    }
    *out = lod;
    return PD_OK;
}

struct pd_lod *pd_lod_ref(struct pd_lod *lod)
{
    if (lod) __atomic_add_fetch(&lod->refs, 1, __ATOMIC_RELAXED);
    return lod;
}

void pd_lod_unref(struct pd_lod *lod)
{
    if (lod && __atomic_sub_fetch(&lod->refs, 1, __ATOMIC_ACQ_REL) == 0) pd_free(lod);
}

int pd_lod_equal(const struct pd_lod *a, const struct pd_lod *b)
{
    if (a == b) return 1;
    if (!a || !b || a->levels != b->levels) return 0;
    for (int i = 0; i < a->levels; i++)
        if (a->level[i].n != b->level[i].n ||
            memcmp(a->level[i].offset, b->level[i].offset, (size_t)a->level[i].n * sizeof(int64_t)) != 0)
            return 0;
    return 1;
}

pd_status pd_lod_slice(const struct pd_lod *lod, int from, int to, struct pd_lod **out)
{
    if (!lod || from >= to) {
        *out = NULL;
        return PD_OK;
    }
    return pd_lod_new(to - from, lod->level + from, out);
}
