/* Many snapshots: those in a server's folder, and those of all servers of a job, read as one. See snapshot.h;
 * snapshot_choose.c finds which of them belong together. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/vec.h"
#include "pserver/store/folder.h"
#include "pserver/store/snapshot_private.h"

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
    PD_TRY(pd_folder_path(from, folder, name));
    PD_TRY(pd_folder_path(to, folder, aside));
    PD_TRY(pd_folder_remove(folder, aside));
    if (rename(from, to) != 0) return errno == ENOENT ? PD_OK : pd_folder_trouble("remove", from, errno);
    return pd_folder_remove(folder, aside);
}

pd_status pd_snapshot_keep(const char *folder, int keep, uint64_t also)
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
        if (steps[i] > also || steps[i + 1] <= also) /* not the newest of those up to it */
            status = remove_snapshot(folder, steps[i]);
    pd_free(steps);
    return status;
}

/* ---- all servers of a job ---- */

void pd_snapshot_set_close(struct pd_snapshot_set *set)
{
    if (!set) return;
    for (int i = 0; i < set->servers.n; i++)
        pd_snapshot_close(set->servers.at[i]);
    for (int i = 0; i < set->endpoints.n; i++)
        pd_free((char *)set->endpoints.at[i]);
    pd_vec_free(&set->endpoints);
    pd_vec_free(&set->servers);
    pd_vec_free(&set->slices);
    pd_free(set);
}

static int by_whole(const void *a, const void *b)
{
    const struct pd_snapshot_slice *x = a, *y = b;
    int order = strcmp(x->var->whole, y->var->whole);
    if (!order) order = (x->var->first_row > y->var->first_row) - (x->var->first_row < y->var->first_row);
    return order ? order : x->turn - y->turn;
}

/* Slices of one variable must agree on what it is. */
static pd_status check_slices(const struct pd_snapshot_set *set)
{
    for (int i = 1; i < set->slices.n; i++) {
        const struct pd_snapshot_var *a = set->slices.at[i - 1].var, *b = set->slices.at[i].var;
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

/* What several servers have (counters, rates) is of that one whose schedule is furthest. */
static int find_lead(const struct pd_snapshot_set *set)
{
    int lead = 0;
    for (int i = 1; i < set->servers.n; i++) {
        const struct pd_snapshot *a = set->servers.at[lead], *b = set->servers.at[i];
        uint64_t x = pd_snapshot_number(a, "schedule", 10, 0), y = pd_snapshot_number(b, "schedule", 10, 0);
        if (y > x || (y == x && pd_snapshot_info(b)->step > pd_snapshot_info(a)->step)) lead = i;
    }
    return lead;
}

pd_status pd_snapshot_set_index(struct pd_snapshot_set *set)
{
    set->lead = find_lead(set);
    for (int i = 0; i < set->servers.n; i++) {
        const struct pd_snapshot_info *info = pd_snapshot_info(set->servers.at[i]);
        for (int k = 0; k < info->n_vars; k++)
            if (!pd_vec_push(&set->slices,
                             ((struct pd_snapshot_slice){&info->vars[k], i == set->lead ? 0 : 1 + i})))
                return pd_no_memory();
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

int pd_snapshot_same_servers(int n, const char *const *before, int m, const char *const *now)
{
    int same = n == m;
    for (int i = 0; i < n && same; i++)
        same = strcmp(before[i], now[i]) == 0;
    return same;
}

int pd_snapshot_same_places(int n, const char *const *before, int m, const char *const *now)
{
    int same = n == m;
    for (int i = 0; i < n && same; i++)
        same = strcmp(before[i], now[i]) == 0 ||
               (pd_snapshot_place(m, now, before[i]) < 0 && pd_snapshot_place(n, before, now[i]) < 0);
    return same;
}

/* Index of the first slice of `whole`, or where it would be. */
static int first_slice(const struct pd_snapshot_set *set, const char *whole)
{
    int low = 0, high = set->slices.n;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (strcmp(set->slices.at[middle].var->whole, whole) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int is_slice(const struct pd_snapshot_set *set, int i, const char *whole)
{
    return i < set->slices.n && strcmp(set->slices.at[i].var->whole, whole) == 0;
}

const struct pd_snapshot_var *pd_snapshot_set_find(const struct pd_snapshot_set *set, const char *whole)
{
    int i = first_slice(set, whole);
    return is_slice(set, i, whole) ? set->slices.at[i].var : NULL;
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
    const struct pd_snapshot_var *like = set->slices.at[begin].var;
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
        for (int tries = end - begin; tries > 0 && !(here = rows_there(set->slices.at[now].var, row, &at));
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
                   (const char *)set->slices.at[now].var->data + at * row_bytes, (size_t)(here * row_bytes));
        row += here;
        if (set->slices.at[now].var->row_step != 1) now = now + 1 < end ? now + 1 : begin;
    }
    return PD_OK;
}
