/* Which servers are of one job, and the step that this trainer begins with there. A process may train several
 * models with servers of their own, each at a step of its own: what servers are compared in, and what is
 * given again, is of one job.
 *
 * Servers are of one job when a Program names them together, in a list of an op, or ends a step with all of
 * them.
 *
 * Before its first step in a job the trainer brings all servers to one step (pd_group_align): a step that
 * some of them lack is given to these again, or passed; one that others are in already is passed. Where that
 * would not do, as servers began with other snapshots, old folders or other rules, it is an error. */
#include <string.h>

#include "base/lock.h"
#include "base/log.h"
#include "pserver/client/client_private.h"
#include "pserver/proto.h"

/* ---- links and groups ---- */

void pd_client_make_groups(struct pd_client *c)
{
    pthread_mutex_init(&c->links_lock, NULL);
}

static void free_wire(struct wire *w)
{
    pd_vec_free(&w->push.pieces);
    pd_vec_free(&w->push.end.wanted);
    pd_vec_free(&w->requests);
    pd_vec_free(&w->spans);
    pd_free(w);
}

static void leave_group(struct link *link)
{
    if (link->group && --link->group->n_links == 0) pd_free(link->group);
    link->group = NULL;
}

static void free_link(struct link *link)
{
    for (int k = 0; k < link->wires.n; k++)
        free_wire(link->wires.at[k]);
    pd_vec_free(&link->wires);
    pd_gatherings_free(link);
    pd_buf_free(&link->program);
    pd_free(link->endpoint);
    leave_group(link);
    pd_free(link);
}

void pd_client_free_groups(struct pd_client *c)
{
    for (int i = 0; i < c->links.n; i++)
        free_link(c->links.at[i]);
    pd_vec_free(&c->links);
    pthread_mutex_destroy(&c->links_lock);
}

static struct link *find(const struct pd_client *c, const char *endpoint)
{
    for (int i = 0; i < c->links.n; i++)
        if (strcmp(c->links.at[i]->endpoint, endpoint) == 0) return c->links.at[i];
    return NULL;
}

static int add(struct pd_client *c, struct link *link)
{
    PD_HOLD(&c->links_lock);
    link->index = c->links.n;
    return pd_vec_push(&c->links, link);
}

pd_status pd_client_find(struct pd_client *c, const char *endpoint, struct link **out)
{
    struct link *link = *out = find(c, endpoint);
    if (link) return PD_OK;
    link = pd_calloc(1, sizeof *link);
    if (!link) return pd_no_memory();
    link->client = c;
    link->endpoint = pd_strdup(endpoint);
    link->group = pd_calloc(1, sizeof *link->group);
    if (link->group) link->group->n_links = 1;
    if (!link->endpoint || !link->group || !add(c, link)) {
        free_link(link);
        return pd_no_memory();
    }
    *out = link;
    return PD_OK;
}

/* A server that is met when the others have done a step goes on with them. */
void pd_client_join(struct link *link, struct link *other)
{
    struct pd_client *c = link->client;
    struct group *all = link->group, *from = other->group;
    if (all == from) return;
    if (!all->trainers) all->trainers = from->trainers;
    all->is_aligned |= from->is_aligned;
    all->checks |= from->checks;
    if (atomic_load(&from->is_asked)) atomic_store(&all->is_asked, 1);
    if (from->cut > all->cut) all->cut = from->cut;
    if (!atomic_load(&all->job)) atomic_store(&all->job, atomic_load(&from->job));
    all->common = 0; /* what one of them had told is not what all have */
    pthread_mutex_lock(&c->links_lock);
    for (int i = 0, left = from->n_links; left; i++) {
        if (c->links.at[i]->group != from) continue;
        leave_group(c->links.at[i]);
        c->links.at[i]->group = all;
        all->n_links++;
        left--;
    }
    pthread_mutex_unlock(&c->links_lock);
    pd_group_count(link);
}

pd_status pd_client_find_all(struct pd_client *c, int n, const char *const *endpoints)
{
    struct link *first, *link;
    for (int i = 0; i < n; i++) {
        PD_TRY(pd_client_find(c, endpoints[i], &link));
        if (i == 0) first = link;
        pd_client_join(first, link);
    }
    return PD_OK;
}

uint64_t pd_client_steps_at(struct pd_client *c, const char *endpoint)
{
    PD_HOLD(&c->links_lock);
    const struct link *link = find(c, endpoint);
    uint64_t steps = link ? atomic_load(&link->group->steps) : 0;
    if (link) atomic_store(&link->group->is_asked, 1);
    return steps;
}

uint64_t pd_client_job_at(struct pd_client *c, const char *endpoint)
{
    PD_HOLD(&c->links_lock);
    const struct link *link = find(c, endpoint);
    return link ? atomic_load(&link->group->job) : 0;
}

uint64_t pd_client_passed_at(struct pd_client *c, const char *endpoint)
{
    PD_HOLD(&c->links_lock);
    const struct link *link = find(c, endpoint);
    return link ? atomic_exchange(&link->group->passed, 0) : 0;
}

int pd_link_is_pushed_to(const struct link *link, int n, const char *const *endpoints)
{
    for (int k = 0; k < link->wires.n; k++)
        if (link->wires.at[k]->push.pieces.n || link->wires.at[k]->push.is_meant) return 1;
    for (int i = 0; i < n; i++)
        if (strcmp(endpoints[i], link->endpoint) == 0) return 1;
    return 0;
}

/* ---- the step that this trainer is in ---- */

/* A server without gradients has nothing of a step. */
static int is_hollow(const struct link *link)
{
    return link->answers && !(link->job_flags & PD_PS_JOB_HOLDS);
}

/* A trainer that starts again may find one server behind another, and that its gradients are in those steps
 * where they were applied: all were ended within a step or, in async mode, were killed with snapshots of
 * different ones. It gives them again to those that lack them. The first of them; 0: there are none. A hollow
 * server lacks none, but may have been asked first. */
static uint64_t repeats(const struct pd_client *c, const struct group *g)
{
    uint64_t last = 0, ahead = 0, least = UINT64_MAX;
    int is_async = 1;
    if (g->is_aligned) return 0;
    PD_EACH_WIRE_OF(c, g, w) {
        if (w->step > ahead) ahead = w->step;
        if (is_hollow(w->link)) continue;
        is_async &= (w->link->job_flags & PD_PS_JOB_ASYNC) != 0;
        if (w->counted + 1 != w->step) return 0;
        if (w->step > last) last = w->step;
        if (w->step < least) least = w->step;
    }
    return least >= ahead || (least + 1 < last && !is_async) ? 0 : least;
}

/* The last step that counts this trainer everywhere, for who asks. */
void pd_group_count(struct link *link)
{
    const struct pd_client *c = link->client;
    uint64_t last = 0, again = repeats(c, link->group);
    PD_EACH_WIRE_OF(c, link->group, w)
        if (!is_hollow(w->link) && w->counted > last) last = w->counted;
    atomic_store(&link->group->steps, again ? again - 1 : last);
}

static void repeat(struct pd_client *c, struct group *g, uint64_t step)
{
    uint64_t last = step;
    PD_EACH_WIRE_OF(c, g, w) {
        if (w->step <= step) continue;
        if (w->step > last) last = w->step;
        w->until = w->step;
        w->step = step;
    }
    if (last == step + 1)
        pd_log(PD_LOG_INFO, "trainer %d repeats step %llu, which not all servers and loops have", c->id,
               (unsigned long long)step);
    else
        pd_log(PD_LOG_WARNING,
               "trainer %d repeats steps %llu to %llu, which not all servers and loops have: they were "
               "started from snapshots of different steps",
               c->id, (unsigned long long)step, (unsigned long long)last - 1);
    g->is_aligned = 1;
}

/* Servers that stand at different steps, of which one has other rules than it had then: that step would be
 * done by both. */
static pd_status check_rules(const struct pd_client *c, const struct group *g)
{
    const struct wire *least = NULL, *most = NULL;
    int is_changed = 0;
    PD_EACH_WIRE_OF(c, g, w) {
        if (!(w->link->job_flags & PD_PS_JOB_HOLDS)) continue;
        is_changed |= w->link->job_flags & PD_PS_JOB_CHANGED;
        if (!least || w->step < least->step) least = w;
        if (!most || w->step > most->step) most = w;
    }
    if (!is_changed || least->step == most->step || c->settings.accepts_rollback) return PD_OK;
    return pd_fail(PD_INVALID,
                   "server %s lacks step %llu, which server %s has done by other rules than it has now "
                   "(optimizer, learning rate, mode, number of trainers): start the servers as they were, "
                   "and their trainers, until the step is through. Then end them and start these",
                   least->link->endpoint, (unsigned long long)least->step, most->link->endpoint);
}

static int is_numbered_alike(const struct link *link)
{
    const struct pd_client *c = link->client;
    for (int i = 0; i < c->links.n; i++)
        if (c->links.at[i]->group == link->group && c->links.at[i]->ahead != link->ahead) return 0;
    return 1;
}

int pd_group_passes_nothing(void *arg)
{
    const struct link *link = arg;
    const struct pd_client *c = link->client;
    PD_EACH_WIRE_OF(c, link->group, w)
        if (w->passes) return 0;
    return 1;
}

/* Async: does this process give the next batch of its data, whatever one before it had under way? Who did not
 * ask for the steps that are done does: what stands under the number of that step would be lost. */
static int begins_anew(const struct pd_client *c, const struct group *g)
{
    for (int i = 0; i < c->links.n; i++)
        if (c->links.at[i]->group == g && c->links.at[i]->answers &&
            !(c->links.at[i]->job_flags & PD_PS_JOB_ASYNC))
            return 0;
    return !atomic_load(&g->is_asked);
}

/* A server with a log lacks the step that was under way at most: with more its folder is an older one. */
static pd_status check_logged(const struct pd_client *c, const struct group *g)
{
    const struct wire *least = NULL, *most = NULL;
    PD_EACH_WIRE_OF(c, g, w) {
        if (is_hollow(w->link)) continue;
        if (!most || w->step > most->step) most = w;
        if (w->link->job_flags & PD_PS_JOB_LOGGED && (!least || w->step < least->step)) least = w;
    }
    if (!least || least->step + 1 >= most->step || c->settings.accepts_rollback) return PD_OK;
    return pd_fail(
        PD_INVALID,
        "server %s has step %llu of trainer %d and server %s step %llu: it has a log, and lost "
        "what it had acknowledged; is its folder in FLAGS_ps_dir an older copy? Bring the newest "
        "one back; or set FLAGS_ps_accept_rollback=1 on servers and trainers to train on with both "
        "as they are",
        least->link->endpoint, (unsigned long long)least->step - 1, c->id, most->link->endpoint,
        (unsigned long long)most->step - 1);
}

/* Its first step is one that no server has anything of. The ones before are passed where they are missing. */
static pd_status pass_begun(struct pd_client *c, struct link *one, const struct pd_run *run)
{
    uint64_t first = 0, least = UINT64_MAX;
    const struct group *g = one->group;
    int is_behind = 1;
    PD_TRY(check_logged(c, g));
    while (is_behind) {
        is_behind = 0;
        for (int turn = 0; turn < 2; turn++)
            PD_EACH_WIRE_OF(c, g, w) {
                if (w->step + (w->has_parts != 0) > first) first = w->step + (w->has_parts != 0);
                if (w->step < least) least = w->step;
                if (turn == 0 || w->step >= first) continue;
                is_behind = w->passes = 1;
                pd_push_flush(w);
            }
        PD_TRY(pd_client_wait_until(c, run, pd_group_passes_nothing, one, "passing a step that was begun"));
    }
    if (least < first)
        pd_log(PD_LOG_INFO,
               "trainer %d begins behind step %llu: steps from %llu on, which a process before it had under "
               "way, count where they are applied. A script that asks steps_done() before its first step "
               "gives them again",
               c->id, (unsigned long long)first - 1, (unsigned long long)least);
    return PD_OK;
}

/* A trainer that joins a running job may find one server a step behind another. It passes that step, so that
 * its gradients count in the same steps everywhere. */
pd_status pd_group_align(struct link *one, const struct pd_run *run, int n, const char *const *endpoints)
{
    struct pd_client *c = one->client;
    struct group *g = one->group;
    uint64_t last = 0;
    const char *newest = "";
    if (g->is_aligned) return PD_OK;
    PD_TRY(check_rules(c, g));
    uint64_t again = repeats(c, g);
    if (begins_anew(c, g)) {
        PD_TRY(pass_begun(c, one, run));
    } else if (again) {
        repeat(c, g, again);
        pd_client_tell_own(c, run, 1);
        return PD_OK;
    }
    for (int turn = 0; turn < 2; turn++)
        for (int i = 0; i < c->links.n; i++) {
            const struct link *link = c->links.at[i];
            for (int k = 0; pd_link_is_pushed_to(link, n, endpoints) && k < link->wires.n; k++) {
                struct wire *w = link->wires.at[k];
                if (w->step > last) {
                    last = w->step;
                    newest = link->endpoint;
                }
                if (turn == 1 && n && w->step + 1 < last && !c->settings.accepts_rollback)
                    return pd_fail(
                        PD_INVALID,
                        "server %s is at step %llu, server %s at step %llu: they were started from snapshots "
                        "of different steps. To go on from step %llu, if all have its snapshot: stop all, "
                        "move log-* and what is newer than snapshot-%020llu out of the folders that servers "
                        "have in FLAGS_ps_dir%s, and start all again, the servers with "
                        "FLAGS_ps_accept_rollback=1 where there were logs. Or set it everywhere to train on "
                        "with both as they are",
                        link->endpoint, (unsigned long long)w->step - 1, newest, (unsigned long long)last - 1,
                        (unsigned long long)w->step - 1, (unsigned long long)(w->step - 1 + link->ahead),
                        is_numbered_alike(link) ? "" : " (on others by `applied` in its manifest)");
                if (turn == 0 || w->step + 1 != last) continue;
                w->passes = 1;
                pd_push_flush(w);
            }
        }
    PD_TRY(pd_client_wait_until(c, run, pd_group_passes_nothing, one,
                                "joining the step that the servers are in"));
    if (last > 1)
        pd_log(PD_LOG_INFO, "trainer %d goes on after step %llu", c->id, (unsigned long long)last - 1);
    pd_client_tell_own(c, run, last > 1);
    g->is_aligned = 1;
    return PD_OK;
}
