/* Many snapshots: those in a server's folder, and those of all servers of a job, read as one. See snapshot.h.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/log.h"
#include "base/vec.h"
#include "pserver/folder.h"
#include "pserver/snapshot_private.h"

/* ---- a server's folder ---- */

pd_status pd_snapshot_list(const char *folder, uint64_t **steps, int *n)
{
    return pd_folder_numbers(folder, PD_SNAPSHOT_PREFIX, steps, n);
}

/* It loses its name before its files, so that no half of it is ever taken for a snapshot. */
static pd_status remove_snapshot(const char *folder, uint64_t step)
{
    char name[64], aside[64], from[PATH_MAX], to[PATH_MAX];
    pd_snapshot_name(name, step);
    snprintf(aside, sizeof aside, PD_SNAPSHOT_ASIDE "old-%" PRIu64, step);
    if (snprintf(from, sizeof from, "%s/%s", folder, name) >= (int)sizeof from ||
        snprintf(to, sizeof to, "%s/%s", folder, aside) >= (int)sizeof to)
        return pd_fail(PD_INVALID, "the path of the folder '%s' is too long", folder);
    PD_TRY(pd_folder_remove(folder, aside));
    if (rename(from, to) != 0)
        return errno == ENOENT ? PD_OK
                               : pd_fail(PD_IO, "cannot remove '%s': %s; %s", from, pd_folder_error(errno),
                                         pd_folder_advice(errno));
    return pd_folder_remove(folder, aside);
}

pd_status pd_snapshot_keep(const char *folder, int keep)
{
    char **names;
    int n;
    uint64_t *steps;
    if (keep < 1) return pd_fail(PD_INVALID, "at least 1 snapshot is kept, asked for %d", keep);
    PD_TRY(pd_folder_names(folder, &names, &n));
    pd_status status = PD_OK;
    for (int i = 0; i < n && status == PD_OK; i++)
        if (strncmp(names[i], PD_SNAPSHOT_ASIDE, strlen(PD_SNAPSHOT_ASIDE)) == 0)
            status = pd_folder_remove(folder, names[i]);
    pd_folder_free_names(names, n);
    PD_TRY(status);
    PD_TRY(pd_snapshot_list(folder, &steps, &n));
    for (int i = 0; i < n - keep && status == PD_OK; i++)
        status = remove_snapshot(folder, steps[i]);
    pd_free(steps);
    return status;
}

/* ---- all servers of a job ---- */

struct pd_snapshot_set {
    uint64_t step;
    char damage[512];
    PD_VEC(struct pd_snapshot *) servers;
    PD_VEC(const struct pd_snapshot_var *) slices; /* by whole name, then by first row */
};

void pd_snapshot_set_close(struct pd_snapshot_set *set)
{
    if (!set) return;
    for (int i = 0; i < set->servers.n; i++)
        pd_snapshot_close(set->servers.at[i]);
    pd_vec_free(&set->servers);
    pd_vec_free(&set->slices);
    pd_free(set);
}

static int by_whole(const void *a, const void *b)
{
    const struct pd_snapshot_var *x = *(const struct pd_snapshot_var *const *)a,
                                 *y = *(const struct pd_snapshot_var *const *)b;
    int order = strcmp(x->whole, y->whole);
    return order ? order : (x->first_row > y->first_row) - (x->first_row < y->first_row);
}

/* Slices of one variable must agree on what it is. */
static pd_status check_slices(const struct pd_snapshot_set *set)
{
    for (int i = 1; i < set->slices.n; i++) {
        const struct pd_snapshot_var *a = set->slices.at[i - 1], *b = set->slices.at[i];
        if (strcmp(a->whole, b->whole) != 0) continue;
        int differs = a->dtype != b->dtype || a->rank != b->rank || a->whole_rows != b->whole_rows;
        for (int k = 1; k < a->rank && !differs; k++)
            differs = a->dim[k] != b->dim[k];
        if (differs)
            return pd_fail(
                PD_FORMAT,
                "the slices '%s' and '%s' of '%s' do not fit each other: %s with %d dimensions, %" PRId64
                " bytes in each of %" PRId64 " rows, and %s with %d, %" PRId64 ", %" PRId64
                "; they are not of one job",
                a->name, b->name, a->whole, pd_dtype_name(a->dtype), a->rank, pd_snapshot_row_bytes(a),
                a->whole_rows, pd_dtype_name(b->dtype), b->rank, pd_snapshot_row_bytes(b), b->whole_rows);
    }
    return PD_OK;
}

static pd_status index_slices(struct pd_snapshot_set *set)
{
    for (int i = 0; i < set->servers.n; i++) {
        const struct pd_snapshot_info *info = pd_snapshot_info(set->servers.at[i]);
        for (int k = 0; k < info->n_vars; k++)
            if (!pd_vec_push(&set->slices, &info->vars[k])) return pd_no_memory();
    }
    if (set->slices.n) qsort(set->slices.at, (size_t)set->slices.n, sizeof *set->slices.at, by_whole);
    return check_slices(set);
}

int pd_snapshot_place(int n, const char *const *servers, const char *endpoint)
{
    for (int i = 0; i < n; i++)
        if (strcmp(servers[i], endpoint) == 0) return i;
    return -1;
}

int pd_snapshot_same_places(int n, const char *const *before, int m, const char *const *now)
{
    int same = n == m;
    for (int i = 0; i < n && same; i++)
        same = strcmp(before[i], now[i]) == 0 ||
               (pd_snapshot_place(m, now, before[i]) < 0 && pd_snapshot_place(n, before, now[i]) < 0);
    return same;
}

static int has_servers(const struct pd_snapshot_info *a, int n, const char *const *servers)
{
    int same = a->n_servers == n;
    for (int i = 0; i < n && same; i++)
        same = strcmp(a->servers[i], servers[i]) == 0;
    return same;
}

static pd_status same_servers(const struct pd_snapshot_info *a, const struct pd_snapshot_info *b)
{
    return !has_servers(a, b->n_servers, b->servers)
               ? pd_fail(PD_FORMAT,
                         "the snapshots of step %" PRIu64 " of '%s' (%d servers) and '%s' (%d servers) "
                         "name other servers: they are not of one job",
                         a->step, a->endpoint, a->n_servers, b->endpoint, b->n_servers)
               : PD_OK;
}

static pd_status open_server(const char *root, const char *endpoint, uint64_t step, struct pd_snapshot **out)
{
    char *folder;
    PD_TRY(pd_snapshot_folder(root, endpoint, &folder));
    pd_status status = pd_snapshot_open(folder, step, out);
    if (status == PD_NOT_FOUND)
        pd_fail(PD_NOT_FOUND,
                "server '%s' has no snapshot of step %" PRIu64
                " in '%s', but others of its job have; bring its folder there",
                endpoint, step, folder);
    if (status == PD_OK && strcmp(pd_snapshot_info(*out)->endpoint, endpoint) != 0) {
        status = pd_fail(PD_FORMAT,
                         "the snapshot of step %" PRIu64
                         " in '%s' is of server '%s': give the folder its name back",
                         step, folder, pd_snapshot_info(*out)->endpoint);
        pd_snapshot_close(*out);
    }
    pd_free(folder);
    return status;
}

/* All servers that the snapshot in `folder` names; NULL: those of `but`. */
static pd_status open_set(const char *root, const char *folder, uint64_t step,
                          const struct pd_snapshot_but *but, struct pd_snapshot_set **out)
{
    struct pd_snapshot *first;
    PD_TRY(pd_snapshot_open(folder, step, &first));
    const struct pd_snapshot_info *info = pd_snapshot_info(first);
    if (but && has_servers(info, but->n, but->servers)) {
        pd_snapshot_close(first);
        *out = NULL;
        return PD_OK;
    }
    struct pd_snapshot_set *set = pd_calloc(1, sizeof *set);
    pd_status status = set ? PD_OK : pd_no_memory();
    if (set) set->step = step;
    for (int i = 0; status == PD_OK && i < info->n_servers; i++) {
        struct pd_snapshot *server;
        status = open_server(root, info->servers[i], step, &server);
        if (status == PD_OK && !pd_vec_push(&set->servers, server)) {
            pd_snapshot_close(server);
            status = pd_no_memory();
        }
        if (status == PD_OK) status = same_servers(info, pd_snapshot_info(server));
    }
    if (status == PD_OK) status = index_slices(set);
    pd_snapshot_close(first);
    if (status != PD_OK) {
        pd_snapshot_set_close(set);
        return status;
    }
    *out = set;
    return PD_OK;
}

/* A snapshot that some folder has. */
struct candidate {
    uint64_t step;
    const char *folder; /* its name below the root */
};

static int newest_first(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    return x->step == y->step ? strcmp(x->folder, y->folder) : x->step < y->step ? 1 : -1;
}

struct candidates {
    PD_VEC(struct candidate) list;
    char **names;
    int n;
};

static pd_status find_candidates(const char *root, uint64_t step, struct candidates *c)
{
    PD_TRY(pd_folder_names(root, &c->names, &c->n));
    for (int i = 0; i < c->n; i++) {
        char path[PATH_MAX];
        uint64_t *steps;
        int n;
        if (snprintf(path, sizeof path, "%s/%s", root, c->names[i]) >= (int)sizeof path) continue;
        pd_status status = pd_snapshot_list(path, &steps, &n);
        if (status == PD_NO_MEMORY) return status;
        if (status != PD_OK) continue; /* no folder */
        for (int k = 0; k < n && status == PD_OK; k++)
            if ((step == PD_SNAPSHOT_NEWEST || steps[k] == step) &&
                !pd_vec_push(&c->list, ((struct candidate){steps[k], c->names[i]})))
                status = pd_no_memory();
        pd_free(steps);
        PD_TRY(status);
    }
    if (c->list.n) qsort(c->list.at, (size_t)c->list.n, sizeof *c->list.at, newest_first);
    return PD_OK;
}

/* Folders of former servers may lie beside the present ones, so each snapshot is asked whom it belongs with.
 */
static pd_status open_first_whole(const char *root, uint64_t step, const struct pd_snapshot_but *but,
                                  const struct candidates *c, struct pd_snapshot_set **out)
{
    char why[1024] = "", damage[512] = "";
    pd_status first = PD_OK;
    for (int i = 0; i < c->list.n; i++) {
        const struct candidate *candidate = &c->list.at[i];
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%s/%s", root, candidate->folder);
        pd_status status = open_set(root, path, candidate->step, but, out);
        if (status == PD_OK && *out) memcpy((*out)->damage, damage, sizeof damage);
        if (status == PD_NO_MEMORY || (status == PD_OK && *out)) return status;
        if (status == PD_OK) continue;
        if (first == PD_OK) {
            first = status;
            snprintf(why, sizeof why, "%s", pd_error());
        }
        if (!damage[0] && status != PD_NOT_FOUND) snprintf(damage, sizeof damage, "%s", pd_error());
        if (step == PD_SNAPSHOT_NEWEST)
            pd_log(PD_LOG_WARNING, "step %" PRIu64 " below '%s' cannot be used: %s", candidate->step, root,
                   pd_error());
    }
    if (first != PD_OK && step == PD_SNAPSHOT_NEWEST)
        return pd_fail(PD_INVALID, "the snapshots of other servers below '%s' do not make a whole: %s", root,
                       why);
    if (first != PD_OK) return pd_fail(first, "%s", why);
    if (step == PD_SNAPSHOT_NEWEST)
        return pd_fail(PD_NOT_FOUND, "there are no snapshots of servers below '%s'", root);
    return pd_fail(PD_NOT_FOUND, "no server has a snapshot of step %" PRIu64 " below '%s'", step, root);
}

pd_status pd_snapshot_set_open(const char *root, uint64_t step, const struct pd_snapshot_but *but,
                               struct pd_snapshot_set **out)
{
    struct candidates c = {0};
    pd_status status = find_candidates(root, step, &c);
    if (status == PD_OK) status = open_first_whole(root, step, but, &c, out);
    pd_folder_free_names(c.names, c.n);
    pd_vec_free(&c.list);
    return status;
}

const char *pd_snapshot_set_damage(const struct pd_snapshot_set *set)
{
    return set->damage;
}

uint64_t pd_snapshot_set_step(const struct pd_snapshot_set *set)
{
    return set->step;
}

int pd_snapshot_set_count(const struct pd_snapshot_set *set)
{
    return set->servers.n;
}

const struct pd_snapshot *pd_snapshot_set_at(const struct pd_snapshot_set *set, int server)
{
    return set->servers.at[server];
}

/* Index of the first slice of `whole`, or where it would be. */
static int first_slice(const struct pd_snapshot_set *set, const char *whole)
{
    int low = 0, high = set->slices.n;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (strcmp(set->slices.at[middle]->whole, whole) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int is_slice(const struct pd_snapshot_set *set, int i, const char *whole)
{
    return i < set->slices.n && strcmp(set->slices.at[i]->whole, whole) == 0;
}

const struct pd_snapshot_var *pd_snapshot_set_find(const struct pd_snapshot_set *set, const char *whole)
{
    int i = first_slice(set, whole);
    return is_slice(set, i, whole) ? set->slices.at[i] : NULL;
}

/* How many rows of the whole variable, from `row` on, lie one behind the other in the slice; *at is the first
 * one's place in it. */
static int64_t rows_there(const struct pd_snapshot_var *v, int64_t row, int64_t *at)
{
    int64_t behind = row - v->first_row;
    if (behind < 0 || behind % v->row_step != 0) return 0;
    *at = behind / v->row_step;
    int64_t left = pd_snapshot_rows(v) - *at;
    if (left <= 0) return 0;
    return v->row_step == 1 ? left : 1;
}

pd_status pd_snapshot_set_read(const struct pd_snapshot_set *set, const char *whole, int64_t first_row,
                               int64_t rows, void *out, size_t bytes)
{
    int begin = first_slice(set, whole), end = begin, now;
    if (!is_slice(set, begin, whole))
        return pd_fail(PD_NOT_FOUND, "the snapshots of step %" PRIu64 " (%d servers) hold no variable '%s'",
                       set->step, set->servers.n, whole);
    while (is_slice(set, end, whole))
        end++;
    const struct pd_snapshot_var *like = set->slices.at[begin];
    int64_t row_bytes = pd_snapshot_row_bytes(like), last = first_row, need;
    if (first_row < 0 || rows < 0 || __builtin_add_overflow(first_row, rows, &last) ||
        last > like->whole_rows)
        return pd_fail(PD_RANGE,
                       "asked for %" PRId64 " rows of '%s' from row %" PRId64 " on; it has %" PRId64, rows,
                       whole, first_row, like->whole_rows);
    if (__builtin_mul_overflow(rows, row_bytes, &need) || (uint64_t)need != bytes)
        return pd_fail(PD_SHAPE,
                       "%" PRId64 " rows of '%s' have %" PRId64 " bytes (%s, %" PRId64
                       " a row); there is room for %zu",
                       rows, whole, need, pd_dtype_name(like->dtype), row_bytes, bytes);
    now = begin;
    for (int64_t row = first_row; row < last;) {
        int64_t at = 0, here = 0;
        /* The slice behind the one used last comes next, both when they are cut in blocks and when rows take
         * turns. */
        for (int tries = end - begin; tries > 0 && !(here = rows_there(set->slices.at[now], row, &at));
             tries--)
            now = now + 1 < end ? now + 1 : begin;
        if (!here)
            return pd_fail(PD_NOT_FOUND,
                           "row %" PRId64
                           " of '%s' is in none of the %d slices that the %d servers saved at step %" PRIu64
                           ": a server's part is missing",
                           row, whole, end - begin, set->servers.n, set->step);
        if (here > last - row) here = last - row;
        if (row_bytes)
            memcpy((char *)out + (row - first_row) * row_bytes,
                   (const char *)set->slices.at[now]->data + at * row_bytes, (size_t)(here * row_bytes));
        row += here;
        if (set->slices.at[now]->row_step != 1) now = now + 1 < end ? now + 1 : begin;
    }
    return PD_OK;
}
