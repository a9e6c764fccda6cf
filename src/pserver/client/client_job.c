/* One id for the job, on all its servers. The first server draws it when the job is new, and every folder
 * keeps it; a trainer, which sees all of them, takes it to the others before it pushes anything. So a server
 * that has another one, or none, in a job that has run, is not the server that it was: its folder is lost, or
 * another's. */
#include <stdio.h>
#include <string.h>

#include "net/wire.h"
#include "pserver/client/client_private.h"
#include "pserver/proto.h"

void pd_link_read_job(struct link *link, struct pd_reader *r, uint64_t applied)
{
    link->job_id = pd_read_u64(r);
    link->job_flags = pd_read_u8(r);
    link->ahead = pd_read_u64(r);
    link->answers++;
    link->group->checks |= (link->job_flags & PD_PS_JOB_CHECKS) != 0;
    if (applied > link->applied) link->applied = applied;
    if (!atomic_load(&link->group->job)) atomic_store(&link->group->job, link->job_id);
}

/* A server's name in a message; the trainer stands for itself. */
static const char *name_of(const struct link *link, char text[300])
{
    snprintf(text, 300, "%s%s", link->client ? "server " : "", link->endpoint);
    return text;
}

static pd_status is_lost(const struct link *link, const struct link *other)
{
    char name[300];
    if (link->job_flags & PD_PS_JOB_FORGETS)
        return pd_fail(PD_INVALID,
                       "server %s was started again and has nothing of a job that %s has run up to step "
                       "%llu: it has no FLAGS_ps_dir, so that nothing was kept. Start all servers and "
                       "trainers anew (with FLAGS_ps_dir a server that is started again goes on); or set "
                       "FLAGS_ps_accept_rollback=1 on the trainers to go on with its initial values",
                       link->endpoint, name_of(other, name), (unsigned long long)other->applied);
    /* Its folder is that of the job, and had no state when it started. */
    if (link->job_flags & PD_PS_JOB_BARE && link->job_id == other->job_id)
        return pd_fail(
            PD_INVALID,
            "server %s was killed before its first snapshot, and had no log, so that nothing was kept of a "
            "job "
            "that %s has run up to step %llu (or its files were removed: bring them back then). Set "
            "FLAGS_ps_fresh=1 on all servers to start anew; or FLAGS_ps_accept_rollback=1 on the trainers to "
            "go "
            "on with its initial values. With FLAGS_ps_log=write on the servers nothing is lost",
            link->endpoint, name_of(other, name), (unsigned long long)other->applied);
    return pd_fail(
        PD_INVALID,
        "server %s has nothing of a job that %s has run up to step %llu: its folder is empty, lost or not "
        "the one it had. Bring that folder back to its FLAGS_ps_dir; or set FLAGS_ps_fresh=1 on all servers "
        "to start anew; or set FLAGS_ps_accept_rollback=1 on the trainers to go on with its initial values",
        link->endpoint, name_of(other, name), (unsigned long long)other->applied);
}

static pd_status is_foreign(const struct link *link, const struct link *other, uint64_t job)
{
    char name[300];
    return pd_fail(PD_INVALID,
                   "server %s, at step %llu, is of job %016llx, %s of job %016llx: one of them has the "
                   "folder of another job. Bring its own back to its FLAGS_ps_dir, or set FLAGS_ps_fresh=1 "
                   "on all servers to start anew",
                   link->endpoint, (unsigned long long)link->applied, (unsigned long long)link->job_id,
                   name_of(other, name), (unsigned long long)job);
}

/* May this server go on in the job `job`? `other` is the one that has run furthest. */
static pd_status check_link(const struct link *link, const struct link *other, uint64_t job)
{
    int has_other = link->job_id && link->job_id != job;
    if (has_other && link->applied) return is_foreign(link, other, job);
    if (link->applied || !(link->job_flags & PD_PS_JOB_HOLDS) || link->client->settings.accepts_rollback)
        return PD_OK;
    /* One step may have been under way. */
    int forgot = link->job_id == job && link->job_flags & PD_PS_JOB_BARE && other->applied > 1;
    return (link->job_id != job && other->applied) || forgot ? is_lost(link, other) : PD_OK;
}

static void tell(struct wire *w, uint64_t job)
{
    struct pd_buf meta = {0};
    struct pd_frame_head head = {.type = PD_PS_JOB};
    pd_put_u64(&meta, job);
    pd_conn_say(w->conn, &head, &meta);
}

struct servers {
    int n;
    struct link **links;
    uint64_t job;
};

static int all_know(void *arg)
{
    const struct servers *s = arg;
    for (int i = 0; i < s->n; i++)
        if (s->links[i]->job_id != s->job) return 0;
    return 1;
}

static int is_agreed(const struct servers *s)
{
    for (int i = 0; i < s->n; i++)
        if (!s->links[i]->agreed || s->links[i]->agreed != s->links[0]->agreed) return 0;
    return 1;
}

/* The one that has run furthest, and its job or, when none has run, that of the first that has one. */
static const struct link *choose(struct servers *s)
{
    const struct link *furthest = s->links[0];
    for (int i = 1; i < s->n; i++)
        if (s->links[i]->applied > furthest->applied) furthest = s->links[i];
    if (furthest->applied) s->job = furthest->job_id;
    for (int i = 0; i < s->n && !s->job; i++)
        s->job = s->links[i]->job_id;
    return furthest;
}

static pd_status check_all(struct servers *s)
{
    s->job = 0;
    const struct link *furthest = choose(s);
    for (int i = 0; s->job && i < s->n; i++)
        PD_TRY(check_link(s->links[i], furthest, s->job));
    return PD_OK;
}

static int all_answer(void *arg)
{
    const struct servers *s = arg;
    for (int i = 0; i < s->n; i++)
        if (s->links[i]->answers < s->links[i]->expected) return 0;
    return 1;
}

/* What a server told may be older than what another one did: others have begun to train meanwhile. Who has
 * trained had told the job to all servers before, so what they answer now is all there is to know. */
static pd_status ask_again(struct pd_client *c, const struct pd_run *run, struct servers *s)
{
    for (int i = 0; i < s->n; i++) {
        s->links[i]->expected = s->links[i]->answers + 1;
        for (int k = 0; k < s->links[i]->wires.n; k++)
            if (s->links[i]->wires.at[k]->state == WIRE_OPEN) pd_client_ask_names(s->links[i]->wires.at[k]);
    }
    return pd_client_wait_until(c, run, all_answer, s, "asking the servers which job they are in");
}

pd_status pd_client_agree(struct pd_client *c, const struct pd_run *run, int n, struct link **links)
{
    struct servers s = {n, links, 0};
    if (!n || is_agreed(&s)) return PD_OK;
    if (check_all(&s) != PD_OK) {
        PD_TRY(ask_again(c, run, &s));
        PD_TRY(check_all(&s));
    }
    if (!s.job) return PD_OK;
    for (int i = 0; i < n; i++)
        for (int k = 0; links[i]->job_id != s.job && k < links[i]->wires.n; k++) {
            if (links[i]->wires.at[k]->state != WIRE_OPEN) continue;
            tell(links[i]->wires.at[k], s.job);
            pd_client_ask_names(links[i]->wires.at[k]); /* the answer tells */
        }
    for (int i = 0; i < n; i++)
        links[i]->agreed = s.job;
    atomic_store(&links[0]->group->job, s.job);
    return pd_client_wait_until(c, run, all_know, &s, "telling the servers which job they are in");
}

/* The last step that this trainer has ended in the job. */
static uint64_t done_in(const struct pd_client *c, uint64_t job)
{
    uint64_t done = 0;
    PD_EACH_WIRE(c, w)
        if (w->link->agreed == job && w->step > done + 1) done = w->step - 1;
    return done;
}

/* A server that is started again without its folder may take part only as long as nothing was trained. It is
 * not told the job otherwise: it would be taken for the one that it was. */
pd_status pd_link_returned(struct wire *w)
{
    struct link *link = w->link;
    struct pd_client *c = link->client;
    struct link self = {.endpoint = (char *)"this trainer", .applied = done_in(c, link->agreed)};
    const struct link *furthest = &self;
    if (!link->agreed || link->job_id == link->agreed) return PD_OK;
    for (int i = 0; i < c->links.n; i++)
        if (c->links.at[i]->agreed == link->agreed && c->links.at[i]->applied > furthest->applied)
            furthest = c->links.at[i];
    PD_TRY(check_link(link, furthest, link->agreed));
    tell(w, link->agreed);
    pd_client_ask_names(w);
    return PD_OK;
}

/* ---- snapshots ---- */

static int has_kept(const struct link *link, uint64_t step)
{
    for (int i = 0; i < PD_LINK_KEPT; i++)
        if (link->kept[i] == step) return 1;
    return 0;
}

/* One of a job without a log is of use when every server has it: none removes the newest of these, whatever
 * its own disk has since. */
void pd_link_kept(struct link *link, uint64_t step)
{
    struct pd_client *c = link->client;
    uint64_t common = 0;
    if (link->kept[0] == step) return;
    memmove(link->kept + 1, link->kept, sizeof link->kept - sizeof *link->kept);
    link->kept[0] = step;
    for (int i = 0; i < PD_LINK_KEPT; i++) {
        int all = link->kept[i] > common;
        for (int l = 0; l < c->links.n && all; l++)
            all = c->links.at[l]->group != link->group || has_kept(c->links.at[l], link->kept[i]);
        if (all) common = link->kept[i];
    }
    if (common <= link->group->common) return;
    link->group->common = common;
    struct pd_frame_head head = {.type = PD_PS_COMMON, .step = common};
    for (int l = 0; l < c->links.n; l++) {
        struct wire *w = c->links.at[l]->wires.n ? c->links.at[l]->wires.at[0] : NULL;
        if (w && w->link->group == link->group && w->state == WIRE_OPEN && !w->bye.number)
            pd_conn_say(w->conn, &head, NULL);
    }
}
