/* distributed_lookup_table and prefetch at work: rows of tables that lie on servers.
 *
 * All ids of a lookup are put together, each once, dealt out to the servers that hold their rows, and all
 * servers are asked at the same time: one round trip for a batch. */
#include <string.h>

#include "kernels/id_map.h"
#include "pserver/client/client.h"
#include "pserver/op_run.h"

enum { IDS };

/* What is asked of one part of the table. */
struct pd_ps_share {
    int number;           /* of the value at its server */
    PD_VEC(int64_t) rows; /* that were put together for it */
    const int64_t *from;  /* those, or ids as they came */
    int64_t n;
    size_t row; /* bytes */
    char *to;   /* where the rows go */
    void *data; /* its own memory for that */
    size_t data_size;
};

void pd_ps_lookup_free(void *state)
{
    struct pd_ps_lookup *l = state;
    for (int i = 0; i < l->n; i++) {
        pd_vec_free(&l->shares[i].rows);
        pd_free_aligned(l->shares[i].data);
    }
    pd_free(l->shares);
    pd_vec_free(&l->places);
    pd_free_aligned(l->map_memory);
}

static pd_status client_of(const struct pd_run *r, struct pd_client **out)
{
    struct pd_ps_lookup *l = r->state;
    int is_new;
    PD_TRY(pd_ps_client(r, 0, &l->client, &is_new, out));
    if (!is_new) return PD_OK;
    pd_ps_lookup_free(l);
    *l = (struct pd_ps_lookup){.client = l->client};
    return PD_OK;
}

static int64_t id_at(const struct pd_tensor *t, int64_t i)
{
    return t->meta.dtype == PD_DTYPE_INT32 ? ((const int32_t *)t->data)[i] : ((const int64_t *)t->data)[i];
}

/* The last of `names` is also that of the parts behind it. */
static pd_status make_shares(const struct pd_run *r, struct pd_client *client, int n, int n_names,
                             const char *const *names, const char *const *endpoints)
{
    struct pd_ps_lookup *l = r->state;
    PD_TRY(pd_client_expect(client, 0, n, endpoints));
    struct pd_ps_share *shares = pd_calloc((size_t)n, sizeof *shares);
    if (!shares) return pd_no_memory();
    for (int i = 0; i < n; i++) {
        const char *name = names[i < n_names ? i : n_names - 1];
        pd_status status = pd_client_name(client, r, endpoints[i], 1, name, NULL, &shares[i].number);
        if (status != PD_OK) {
            pd_free(shares);
            return status;
        }
    }
    l->shares = shares;
    l->n = n;
    return PD_OK;
}

static pd_status make_map(struct pd_ps_lookup *l, int64_t ids, struct pd_id_map *map)
{
    size_t bytes = pd_id_map_bytes(ids);
    if (!pd_room_aligned(&l->map_memory, &l->map_size, bytes)) return pd_no_memory();
    pd_id_map_init(map, ids, l->map_memory);
    return PD_OK;
}

/* Which part has the row, and which row of it that is; `number` of Ids is the id's place. */
static pd_status find_part(const struct pd_attr *heights, int64_t id, int64_t number, int *part, int64_t *row)
{
    int64_t first = 0;
    for (int p = 0; p < heights->n; p++) {
        if (id >= first && id < first + heights->longs[p]) {
            *part = p;
            *row = id - first;
            return PD_OK;
        }
        first += heights->longs[p];
    }
    return pd_fail(
        PD_RANGE,
        "id %lld (number %lld of Ids) is outside the table, which has %lld rows: ids go from 0 to %lld",
        (long long)id, (long long)number, (long long)first, (long long)first - 1);
}

static pd_status deal_out(const struct pd_run *r, struct pd_ps_lookup *l, struct pd_id_map *map,
                          const struct pd_attr *heights, int64_t padding)
{
    l->places.n = 0;
    for (int s = 0; s < l->n; s++)
        l->shares[s].rows.n = 0;
    for (int k = 0; k < r->in[IDS].n; k++) {
        const struct pd_tensor *t = pd_run_in_at(r, IDS, k);
        int64_t n = pd_tensor_numel(t);
        for (int64_t i = 0; i < n; i++) {
            int64_t id = id_at(t, i), row;
            int part;
            if (padding >= 0 && id == padding) continue;
            int at = l->places.n / 2;
            if (id >= 0 && pd_id_map_add(map, id, at) != at) continue;
            PD_TRY(find_part(heights, id, i, &part, &row));
            if (!pd_vec_push(&l->places, part) || !pd_vec_push(&l->places, l->shares[part].rows.n) ||
                !pd_vec_push(&l->shares[part].rows, row))
                return pd_no_memory();
        }
    }
    return PD_OK;
}

/* All servers at the same time. A share that is too large for one answer is asked for in several. */
static pd_status fetch(const struct pd_run *r, struct pd_client *client, struct pd_ps_lookup *l)
{
    PD_ASK(ask);
    for (int s = 0; s < l->n; s++) {
        struct pd_ps_share *share = &l->shares[s];
        int64_t most = pd_client_rows_most(share->row);
        for (int64_t at = 0; at < share->n; at += most) {
            int64_t left = share->n - at;
            PD_TRY(pd_ask_rows(client, &ask, share->number, left < most ? left : most, share->from + at,
                               share->row, share->to + (size_t)at * share->row));
        }
    }
    return pd_ask_wait(client, r, &ask, "fetching rows");
}

static pd_status ask(const struct pd_run *r, struct pd_client *client, struct pd_ps_lookup *l, size_t row)
{
    for (int s = 0; s < l->n; s++) {
        struct pd_ps_share *share = &l->shares[s];
        size_t bytes = (size_t)share->rows.n * row;
        if (!pd_room_growing(&share->data, &share->data_size, bytes)) return pd_no_memory();
        share->from = share->rows.at;
        share->n = share->rows.n;
        share->row = row;
        share->to = share->data;
    }
    return fetch(r, client, l);
}

pd_status pd_ps_distributed_lookup_table_run(const struct pd_run *r)
{
    struct pd_ps_lookup *l = r->state;
    const struct pd_attr *names = pd_ps_attr(r, "table_names"), *heights = pd_ps_attr(r, "height_sections"),
                         *endpoints = pd_ps_attr(r, "endpoints");
    int64_t padding = pd_ps_attr(r, "padding_idx")->l, total = 0;
    struct pd_client *client;
    PD_TRY(client_of(r, &client));
    if (!l->shares) PD_TRY(make_shares(r, client, names->n, names->n, names->strings, endpoints->strings));
    for (int k = 0; k < r->in[IDS].n; k++)
        total += pd_tensor_numel(pd_run_in_at(r, IDS, k));
    struct pd_id_map map;
    PD_TRY(make_map(l, total ? total : 1, &map));
    PD_TRY(deal_out(r, l, &map, heights, padding));
    const struct pd_meta *out = &pd_run_out_at(r, 0, 0)->meta;
    size_t row = (size_t)out->dim[out->rank - 1] * pd_dtype_size(out->dtype);
    PD_TRY(pd_ps_done(r, client, ask(r, client, l, row)));
    for (int k = 0; k < r->in[IDS].n; k++) {
        const struct pd_tensor *t = pd_run_in_at(r, IDS, k);
        char *to = pd_run_out_at(r, 0, k)->data;
        int64_t n = pd_tensor_numel(t);
        for (int64_t i = 0; i < n; i++, to += row) {
            int64_t id = id_at(t, i);
            int32_t at = padding >= 0 && id == padding ? -1 : pd_id_map_get(&map, id);
            if (at < 0)
                memset(to, 0, row);
            else
                memcpy(to,
                       (char *)l->shares[l->places.at[2 * at]].data + (size_t)l->places.at[2 * at + 1] * row,
                       row);
        }
    }
    return PD_OK;
}

/* The row of the padding id is zeros, whatever the table holds. */
static void blank_padding(const struct pd_run *r, int64_t padding)
{
    for (int i = 0; padding >= 0 && i < r->in[IDS].n; i++) {
        const struct pd_tensor *ids = pd_run_in_at(r, IDS, i), *out = pd_run_out_at(r, 0, i);
        int64_t n = pd_tensor_numel(ids);
        size_t row = n ? pd_tensor_bytes(out) / (size_t)n : 0;
        for (int64_t k = 0; k < n; k++)
            if (id_at(ids, k) == padding) memset((char *)out->data + (size_t)k * row, 0, row);
    }
}

/* Row id / n of a server's part for each id. Of a single server they are the ids, lent until it answers. */
static pd_status take_ids(struct pd_ps_share *share, const struct pd_tensor *ids, int n)
{
    share->n = pd_tensor_numel(ids);
    share->from = ids->data;
    if (n == 1 && ids->meta.dtype == PD_DTYPE_INT64) return PD_OK;
    share->rows.n = 0;
    for (int64_t k = 0; k < share->n; k++)
        if (!pd_vec_push(&share->rows, id_at(ids, k) / n)) return pd_no_memory();
    share->from = share->rows.at;
    return PD_OK;
}

/* Each X holds ids that one server has, of a table that is dealt out by id % n. */
pd_status pd_ps_prefetch_run(const struct pd_run *r)
{
    struct pd_ps_lookup *l = r->state;
    const struct pd_attr *epmap = pd_ps_attr(r, "epmap");
    const char *table = pd_ps_attr(r, "table_name")->s;
    int n = r->in[IDS].n;
    struct pd_client *client;
    PD_TRY(client_of(r, &client));
    if (!l->shares && epmap->n != n)
        return pd_fail(PD_INVALID, "epmap names %d servers for %d X", epmap->n, n);
    if (!l->shares) PD_TRY(make_shares(r, client, n, 1, &table, epmap->strings));
    for (int i = 0; i < n; i++) {
        const struct pd_tensor *t = pd_run_in_at(r, IDS, i);
        struct pd_tensor *out = pd_run_out_at(r, 0, i);
        const struct pd_meta *want = pd_ps_declared(r, 1, 0, i);
        int64_t count = pd_tensor_numel(t), width = want && want->rank ? want->dim[want->rank - 1] : -1;
        if (width < 1)
            return pd_fail(PD_SHAPE, "'%s' is not declared with the width of the table",
                           r->step->name(r, 1, 0, i));
        PD_TRY(take_ids(&l->shares[i], t, n));
        PD_TRY(pd_tensor_resize(out, want->dtype, 2, (int64_t[]){count, width}));
        l->shares[i].row = (size_t)width * pd_dtype_size(out->meta.dtype);
        l->shares[i].to = out->data;
    }
    PD_TRY(pd_ps_done(r, client, fetch(r, client, l)));
    blank_padding(r, pd_ps_attr(r, "padding_idx")->l);
    return PD_OK;
}
