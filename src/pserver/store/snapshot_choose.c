/* Which snapshots below a root belong together: what all servers of a job have left, the newest of it. See
 * snapshot.h. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "pserver/store/folder.h"
#include "pserver/store/snapshot_private.h"

/* ---- what there is ---- */

/* A snapshot that some folder has. */
struct candidate {
    uint64_t era, step, number, job;
    int is_passed_over; /* it is not looked for */
    int is_hollow;      /* nothing was trained there: it belongs with others, and tells nothing of its own */
    const char *folder; /* its name below the root */
};

struct candidates {
    const struct pd_snapshot_but *but;
    PD_VEC(struct candidate) list;
    char **names;
    int n;
};

static int newest_first(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    if (x->era != y->era) return x->era < y->era ? 1 : -1;
    if (x->step != y->step) return x->step < y->step ? 1 : -1;
    return strcmp(x->folder, y->folder);
}

static int is_other(uint64_t job, uint64_t than)
{
    return job && than && job != than;
}

static int is_of(const struct pd_snapshot *snapshot, const struct pd_snapshot_but *but)
{
    const struct pd_snapshot_info *info = pd_snapshot_info(snapshot);
    return but->n && pd_snapshot_same_servers(info->n_servers, info->servers, but->n, but->servers) &&
           pd_snapshot_same_placing(pd_snapshot_placing(snapshot), but->placing);
}

/* PD_NOT_FOUND: it is gone. */
static pd_status look_at(const char *path, const struct pd_snapshot_but *but, struct candidate *c)
{
    struct pd_snapshot *snapshot;
    pd_status status = pd_snapshot_open(path, c->number, &snapshot);
    c->step = c->number;
    if (status != PD_OK) return status == PD_NO_MEMORY || status == PD_NOT_FOUND ? status : PD_OK;
    c->era = pd_snapshot_era(snapshot);
    c->step = pd_snapshot_applied(snapshot);
    c->job = pd_snapshot_job_id(snapshot);
    c->is_passed_over = is_of(snapshot, but) || is_other(c->job, but->job);
    c->is_hollow = pd_snapshot_is_hollow(snapshot);
    pd_snapshot_close(snapshot);
    return PD_OK;
}

/* One that cannot be read is taken to be of the era of the one before it in the folder. */
static pd_status look_into(const char *path, const char *name, struct candidates *c)
{
    uint64_t *steps, era = 0;
    int n;
    pd_status status = pd_snapshot_list(path, &steps, &n);
    if (status == PD_NO_MEMORY) return status;
    if (status != PD_OK) return PD_OK; /* no folder */
    for (int k = 0; k < n && status != PD_NO_MEMORY; k++) {
        struct candidate one = {.era = era, .number = steps[k], .folder = name};
        status = look_at(path, c->but, &one);
        era = one.era;
        if (status == PD_OK && !pd_vec_push(&c->list, one)) status = pd_no_memory();
    }
    pd_free(steps);
    return status == PD_NO_MEMORY ? status : PD_OK;
}

static pd_status find_candidates(const char *root, struct candidates *c)
{
    PD_TRY(pd_folder_names(root, &c->names, &c->n));
    for (int i = 0; i < c->n; i++) {
        char path[PATH_MAX];
        if (snprintf(path, sizeof path, "%s/%s", root, c->names[i]) >= (int)sizeof path) continue;
        PD_TRY(look_into(path, c->names[i], c));
    }
    if (c->list.n) qsort(c->list.at, (size_t)c->list.n, sizeof *c->list.at, newest_first);
    return PD_OK;
}

static void free_candidates(struct candidates *c)
{
    pd_folder_free_names(c->names, c->n);
    pd_vec_free(&c->list);
}

static uint64_t newest_era(const struct candidates *c)
{
    uint64_t era = 0;
    for (int i = 0; i < c->list.n; i++)
        if (!c->list.at[i].is_passed_over && !c->list.at[i].is_hollow && c->list.at[i].era > era)
            era = c->list.at[i].era;
    return era;
}

pd_status pd_snapshot_newest_era(const char *root, const struct pd_snapshot_but *but, uint64_t *era)
{
    struct candidates c = {.but = but};
    pd_status status = find_candidates(root, &c);
    *era = newest_era(&c);
    free_candidates(&c);
    return status;
}

/* ---- what belongs with one of them ---- */

/* Why a server has nothing that fits. */
struct misfit {
    pd_status status;
    char why[512];
    int is_gone; /* its folder is of another job now */
};

static void remember(struct misfit *m, pd_status status)
{
    if (m->status != PD_OK) return;
    m->status = status;
    snprintf(m->why, sizeof m->why, "%s", pd_error());
}

/* Does this snapshot, in the folder of the server in that place, belong with `first`? */
static int fits(const struct pd_snapshot *first, int place, const struct pd_snapshot *s, struct misfit *m)
{
    const struct pd_snapshot_info *a = pd_snapshot_info(first), *b = pd_snapshot_info(s);
    if (is_other(pd_snapshot_job_id(s), pd_snapshot_job_id(first))) {
        m->is_gone = 1;
        return 0;
    }
    int is_async = pd_snapshot_is_async(first),
        same_step = pd_snapshot_applied(s) == pd_snapshot_applied(first);
    if (pd_snapshot_is_async(s) != is_async || pd_snapshot_era(s) != pd_snapshot_era(first) ||
        (!is_async && !same_step) ||
        !pd_snapshot_same_placing(pd_snapshot_placing(s), pd_snapshot_placing(first)))
        return 0;
    if (!pd_snapshot_same_places(b->n_servers, b->servers, a->n_servers, a->servers)) {
        if (same_step)
            remember(
                m,
                pd_fail(
                    PD_FORMAT,
                    "the snapshots of step %" PRIu64
                    " of '%s' (%d servers) and '%s' (%d servers) name other servers: they are not of one job",
                    a->step, a->endpoint, a->n_servers, b->endpoint, b->n_servers));
        return 0;
    }
    if (pd_snapshot_place(b->n_servers, b->servers, b->endpoint) == place) return 1;
    remember(m, pd_fail(PD_FORMAT,
                        "the snapshot of step %" PRIu64
                        " in the folder of server '%s' is of server '%s': give the folder its name back",
                        b->step, a->servers[place], b->endpoint));
    return 0;
}

/* The newest in the folder that fits, and is not damaged. In async mode a newer one that is damaged is told:
 * it is what should have been taken. */
static pd_status find_fitting(const char *folder, const struct pd_snapshot *first, int place,
                              struct misfit *m, struct pd_snapshot **out)
{
    uint64_t *steps;
    int n;
    *out = NULL;
    PD_TRY(pd_snapshot_list(folder, &steps, &n));
    pd_status status = PD_OK;
    for (int i = n - 1; i >= 0 && !*out && status != PD_NO_MEMORY; i--) {
        struct pd_snapshot *snapshot;
        status = pd_snapshot_open(folder, steps[i], &snapshot);
        if (status != PD_OK) {
            if (status != PD_NOT_FOUND) remember(m, status);
            continue;
        }
        if (fits(first, place, snapshot, m)) {
            status = pd_snapshot_check(snapshot);
            if (status == PD_OK) *out = snapshot;
            if (status != PD_OK) remember(m, status);
        }
        if (!*out) pd_snapshot_close(snapshot);
    }
    pd_free(steps);
    return status == PD_NO_MEMORY ? status : PD_OK;
}

static pd_status add_server(struct pd_snapshot_set *set, const char *root, const struct pd_snapshot *first,
                            int place, int *is_gone)
{
    const struct pd_snapshot_info *info = pd_snapshot_info(first);
    const char *endpoint = info->servers[place];
    struct pd_snapshot *found;
    struct misfit m = {0};
    char *folder, *name = pd_strdup(endpoint);
    if (!name || !pd_vec_push(&set->endpoints, name)) {
        pd_free(name);
        return pd_no_memory();
    }
    PD_TRY(pd_snapshot_folder(root, endpoint, &folder));
    pd_status status = find_fitting(folder, first, place, &m, &found);
    if (status == PD_OK && !found) {
        *is_gone = m.is_gone;
        status = m.status != PD_OK ? pd_fail(m.status, "%s", m.why)
                                   : pd_fail(PD_NOT_FOUND,
                                             "server '%s' has no snapshot of step %" PRIu64
                                             " in '%s', but others of its job have; bring its folder there",
                                             endpoint, pd_snapshot_applied(first), folder);
    } else if (status == PD_OK && !pd_vec_push(&set->servers, found)) {
        pd_snapshot_close(found);
        status = pd_no_memory();
    } else if (status == PD_OK && m.status != PD_OK && pd_snapshot_is_async(first) && !set->damage[0]) {
        snprintf(set->damage, sizeof set->damage, "%s", m.why);
    }
    pd_free(folder);
    return status;
}

/* What belongs with a candidate. NULL: its servers have begun another job since. */
static pd_status open_set(const char *root, const struct candidate *c, struct pd_snapshot_set **out)
{
    struct pd_snapshot *first;
    char path[PATH_MAX];
    int is_gone = 0;
    *out = NULL;
    snprintf(path, sizeof path, "%s/%s", root, c->folder);
    PD_TRY(pd_snapshot_open(path, c->number, &first));
    const struct pd_snapshot_info *info = pd_snapshot_info(first);
    struct pd_snapshot_set *set = pd_calloc(1, sizeof *set);
    pd_status status = set ? PD_OK : pd_no_memory();
    if (set) set->step = c->step;
    for (int i = 0; status == PD_OK && i < info->n_servers; i++)
        status = add_server(set, root, first, i, &is_gone);
    if (status == PD_OK) status = pd_snapshot_set_index(set);
    pd_snapshot_close(first);
    if (status == PD_OK) *out = set;
    if (status != PD_OK) pd_snapshot_set_close(set);
    return is_gone && status != PD_NO_MEMORY ? PD_OK : status;
}

/* Folders of former servers may lie beside the present ones, so each snapshot is asked whom it belongs with.
 */
static pd_status open_first_whole(const char *root, uint64_t step, const struct candidates *c,
                                  struct pd_snapshot_set **out)
{
    char why[1024] = "";
    pd_status first = PD_OK;
    for (int i = 0; i < c->list.n; i++) {
        const struct candidate *candidate = &c->list.at[i];
        if (candidate->is_passed_over || candidate->is_hollow ||
            (step != PD_SNAPSHOT_NEWEST && candidate->step != step))
            continue;
        pd_status status = open_set(root, candidate, out);
        if (status == PD_NO_MEMORY) return status;
        if (status == PD_OK && *out) {
            if (why[0]) memcpy((*out)->damage, why, sizeof why);
            (*out)->era = newest_era(c);
            return PD_OK;
        }
        if (status == PD_OK) continue;
        if (first != PD_OK) continue;
        first = status;
        snprintf(why, sizeof why, "%s", pd_error());
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
    struct candidates c = {.but = but ? but : &(struct pd_snapshot_but){0}};
    *out = NULL;
    pd_status status = find_candidates(root, &c);
    if (status == PD_OK) status = open_first_whole(root, step, &c, out);
    free_candidates(&c);
    return status;
}
