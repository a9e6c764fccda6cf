/* Which ids of a hashed table have a row: who gets one, who loses it. All of it is a function of the pushes
 * (of their ids and their order), never of memory or time. */
#include <string.h>

#include "base/rng.h"
#include "pserver/shard/table_hashed_private.h"

/* As it was never touched. */
static pd_status begin(struct hashed *h, struct pd_row *row, int64_t id)
{
    row->count = 0;
    PD_TRY(pd_row_start_fill(h->start, id, row->x));
    memcpy(row->x + h->width, h->begin + h->width, (size_t)(h->width * (h->columns - 1)) * sizeof *row->x);
    return PD_OK;
}

static void touch(const struct hashed *h, struct pd_row *row)
{
    if (row->count < PD_ROW_FREE - 1) row->count++;
    row->step = (uint32_t)pd_hashed_now(h);
}

/* Each time that it comes it has another chance. */
static int has_luck(const struct hashed *h, int64_t id)
{
    uint64_t drawn = pd_rng_mix(pd_rng_mix(pd_row_start_seed(h->start) + (uint64_t)id) + pd_hashed_now(h));
    return (double)(drawn >> 11) * 0x1p-53 < h->options.chance;
}

static pd_status may_have_row(struct hashed *h, int64_t id, int *yes)
{
    struct pd_row *seen;
    *yes = has_luck(h, id);
    if (!h->waiting) return PD_OK;
    PD_TRY(pd_row_store_make(h->waiting, 1, &id, &seen));
    if (pd_hashed_is_expired(h, seen)) seen->count = 0;
    touch(h, seen);
    *yes = seen->count >= (uint64_t)h->options.count;
    if (*yes) (void)pd_row_store_remove(h->waiting, id);
    return PD_OK;
}

pd_status pd_hashed_admit(struct hashed *h, int n, const int64_t *ids, struct pd_row **out)
{
    int takes_all = !h->waiting && h->options.chance >= 1;
    if (takes_all)
        PD_TRY(pd_row_store_make(h->store, n, ids, out));
    else
        pd_row_store_find(h->store, n, ids, out);
    for (int i = 0; i < n; i++) {
        int is_in = 1;
        if (!pd_hashed_is_there(h, out[i])) {
            if (!takes_all) PD_TRY(may_have_row(h, ids[i], &is_in));
            if (!is_in) {
                if (out[i]) h->evicted += (uint64_t)pd_row_store_remove(h->store, ids[i]);
                out[i] = NULL;
                continue;
            }
            if (!out[i]) PD_TRY(pd_row_store_make(h->store, 1, &ids[i], &out[i]));
            if (out[i]->count) h->evicted++; /* it had expired */
            PD_TRY(begin(h, out[i], ids[i]));
            h->admitted++;
        }
        touch(h, out[i]);
    }
    return PD_OK;
}

/* ---- expiry ---- */

/* A row that has expired is as good as gone; this gives its room back. A few at each update, as many as that
 * touched. */
static void sweep(struct hashed *h, struct pd_row_store *store, int64_t n, int64_t *from)
{
    int64_t numbers = pd_row_store_numbers(store);
    for (; n > 0 && numbers; n--) {
        if (*from >= numbers) *from = 0;
        const struct pd_row *row = pd_row_store_at(store, (*from)++);
        if (!row || !pd_hashed_is_expired(h, row)) continue;
        (void)pd_row_store_remove(store, pd_row_id(row));
        h->evicted += store == h->store;
    }
}

/* ---- the limit ---- */

enum { AGES = 4096, SPREAD = 4096 };

static uint32_t age_of(const struct hashed *h, const struct pd_row *row)
{
    uint32_t age = (uint32_t)pd_hashed_now(h) - row->step;
    return age < AGES ? age : AGES - 1;
}

/* Of rows of one age these go first: no order of memory. */
static uint32_t place_of(const struct pd_row *row)
{
    return (uint32_t)(pd_rng_mix((uint64_t)pd_row_id(row)) % SPREAD);
}

/* Down to 15/16 of the limit, so that it is not done again at the next update. */
static void trim(struct hashed *h)
{
    int64_t excess = pd_row_store_rows(h->store) - (h->options.most - h->options.most / 16);
    int64_t ages[AGES] = {0}, places[SPREAD] = {0}, numbers = pd_row_store_numbers(h->store);
    uint32_t age = AGES - 1, place = 0;
    for (int64_t k = 0; k < numbers; k++) {
        const struct pd_row *row = pd_row_store_at(h->store, k);
        if (row) ages[age_of(h, row)]++;
    }
    for (; age > 0 && ages[age] <= excess; age--)
        excess -= ages[age];
    for (int64_t k = 0; k < numbers; k++) {
        const struct pd_row *row = pd_row_store_at(h->store, k);
        if (row && age_of(h, row) == age) places[place_of(row)]++;
    }
    for (; place < SPREAD && excess > 0; place++)
        excess -= places[place];
    for (int64_t k = 0; k < numbers; k++) {
        const struct pd_row *row = pd_row_store_at(h->store, k);
        if (row && (age_of(h, row) > age || (age_of(h, row) == age && place_of(row) < place)))
            h->evicted += (uint64_t)pd_row_store_remove(h->store, pd_row_id(row));
    }
}

void pd_hashed_sweep(struct hashed *h, int64_t n)
{
    enum { LEAST = 64 };
    if (h->options.expires) sweep(h, h->store, n + LEAST, &h->swept[0]);
    if (h->options.expires && h->waiting) sweep(h, h->waiting, n + LEAST, &h->swept[1]);
    if (h->options.most && pd_row_store_rows(h->store) > h->options.most) trim(h);
}
