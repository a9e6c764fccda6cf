/* Sums over servers: what they say to the one that adds, and what it answers; see sums.h. */

#include "base/lock.h"
#include "net/wire.h"
#include "pserver/proto.h"
#include "pserver/server/server_private.h"
#include "pserver/server/sums_private.h"

/* ---- at the one that adds ---- */

static void answer(const struct sum *s, struct asker *asker)
{
    struct pd_buf meta = {0};
    struct pd_frame_head head = {.type = PD_PS_SUMMED, .request = asker->request, .step = s->totals_step};
    pd_put_u32(&meta, (uint32_t)s->n);
    for (int i = 0; i < s->n; i++)
        pd_put_f64(&meta, s->totals[i]);
    pd_conn_say(asker->conn, &head, &meta);
    asker->conn = NULL;
}

void pd_sums_answer(void *arg)
{
    struct pd_sums *sums = arg;
    PD_HOLD(&sums->lock);
    for (int i = 0; i < sums->sums.n; i++) {
        struct sum *s = sums->sums.at[i];
        for (int k = 0; s->step == s->totals_step && k < sums->n_adders; k++)
            if (s->askers[k].conn) answer(s, &s->askers[k]);
    }
}

/* Under the lock. */
static pd_status take(struct pd_sums *sums, struct pd_conn *conn, const struct pd_message *m,
                      const char *group, int adder, int n, const double *values)
{
    struct sum *s = pd_sums_find(sums, group);
    if (!s)
        return pd_fail(
            PD_NOT_FOUND,
            "a SUM of '%s', but this server's Program has no such sum: do all servers run the same Program?",
            group);
    if (s->n != n)
        return pd_fail(PD_INVALID, "a SUM of '%s' with %d numbers; the Program adds %d", group, n, s->n);
    /* Said again after a broken connection, and this server has gone on since. */
    if (m->head.step < s->step) return PD_OK;
    if (m->head.step > s->step) pd_sums_begin(sums, s, m->head.step);
    if (m->head.flags & PD_PS_TOTALS) {
        pd_sums_know(sums, s, values);
        return PD_OK;
    }
    s->askers[adder] = (struct asker){conn, m->head.request};
    pd_sums_give(sums, s, adder, values);
    return PD_OK;
}

/* The number among those who add; -1: the server at this place of the job's list is none of them. */
static int number_of(const struct pd_sums *sums, uint32_t place)
{
    for (int i = 0; i < sums->n_adders; i++)
        if ((uint32_t)sums->adders[i].place == place) return i;
    return -1;
}

pd_status pd_sums_message(struct pd_sums *sums, struct pd_conn *conn, const struct pd_message *m)
{
    struct pd_reader r = pd_reader_of(m->meta, m->head.meta);
    char group[600];
    double values[PD_SUMS_MAX];
    pd_read_text(&r, group, sizeof group);
    uint32_t place = pd_read_u32(&r), adders = pd_read_u32(&r), n = pd_read_u32(&r);
    if (r.bad || !n || n > PD_SUMS_MAX) return pd_fail(PD_FORMAT, "malformed SUM");
    for (uint32_t i = 0; i < n; i++)
        values[i] = pd_read_f64(&r);
    if (!pd_reader_done(&r)) return pd_fail(PD_FORMAT, "malformed SUM");
    if (!sums || sums->self)
        return pd_fail(
            PD_INVALID,
            "a SUM of '%s', but this server is not the one that adds: do all have the same list of servers?",
            group);
    int adder = number_of(sums, place);
    if (adders != (uint32_t)sums->n_adders || adder <= 0 || pd_conn_hello(conn)->id != (int)place)
        return pd_fail(
            PD_INVALID,
            "a SUM of '%s' of server %u, over %u servers; server %d says it, and here it is over %d", group,
            place, adders, pd_conn_hello(conn)->id, sums->n_adders);
    /* Servers are a step apart at most; a sum of a later one would stand in the way of the real ones. */
    uint64_t applied = pd_server_step(sums->server), step = m->head.step;
    if (step < applied) return PD_OK; /* said again on a new connection */
    if (step > applied + 1)
        return pd_fail(PD_RANGE, "a SUM of step %llu, but this server has applied step %llu",
                       (unsigned long long)step, (unsigned long long)applied);
    pthread_mutex_lock(&sums->lock);
    pd_status status = take(sums, conn, m, group, adder, (int)n, values);
    pthread_mutex_unlock(&sums->lock);
    if (status == PD_OK) pd_sums_answer(sums);
    return status;
}

void pd_sums_forget(struct pd_sums *sums, const struct pd_conn *conn)
{
    if (!sums) return;
    PD_HOLD(&sums->lock);
    for (int i = 0; i < sums->sums.n; i++)
        for (int k = 0; k < sums->n_adders; k++)
            if (sums->sums.at[i]->askers[k].conn == conn) sums->sums.at[i]->askers[k].conn = NULL;
}

/* ---- at the others ---- */

void pd_sums_send(void *arg)
{
    struct pd_sums *sums = arg;
    if (!sums->link) return;
    PD_HOLD(&sums->lock);
    for (int i = 0; i < sums->sums.n; i++) {
        struct sum *s = sums->sums.at[i];
        struct pd_buf meta = {0};
        /* Where the one that adds has lost a step that was applied here, the sums are what it needs: this
         * server's own part may be gone with its last life. */
        int is_known = s->totals_step == s->step;
        const double *values = is_known ? s->totals : s->values + (size_t)sums->self * (size_t)s->n;
        if (s->is_sent || !s->step || (!is_known && !s->has[sums->self])) continue;
        struct pd_frame_head head = {.type = PD_PS_SUM,
                                     .flags = is_known ? PD_PS_TOTALS : 0,
                                     .step = s->step,
                                     .request = (uint64_t)i + 1};
        pd_put_text(&meta, s->group);
        pd_put_u32(&meta, (uint32_t)sums->adders[sums->self].place);
        pd_put_u32(&meta, (uint32_t)sums->n_adders);
        pd_put_u32(&meta, (uint32_t)s->n);
        for (int k = 0; k < s->n; k++)
            pd_put_f64(&meta, values[k]);
        pd_conn_say(sums->link, &head, &meta);
        s->is_sent = 1;
    }
}

void pd_sums_first_opened(struct pd_sums *sums, struct pd_conn *conn)
{
    sums->link = conn;
    pthread_mutex_lock(&sums->lock);
    for (int i = 0; i < sums->sums.n; i++)
        sums->sums.at[i]->is_sent = 0;
    pthread_mutex_unlock(&sums->lock);
    pd_sums_send(sums);
}

pd_status pd_sums_first_said(struct pd_sums *sums, const struct pd_message *m)
{
    struct pd_reader r = pd_reader_of(m->meta, m->head.meta);
    double totals[PD_SUMS_MAX];
    uint64_t number = m->head.request - 1;
    uint32_t n = pd_read_u32(&r);
    if (number >= (uint64_t)sums->sums.n || n != (uint32_t)sums->sums.at[number]->n)
        return pd_fail(PD_FORMAT, "the server that adds answers with other sums");
    for (uint32_t i = 0; i < n; i++)
        totals[i] = pd_read_f64(&r);
    if (!pd_reader_done(&r)) return pd_fail(PD_FORMAT, "malformed answer of the server that adds");
    PD_HOLD(&sums->lock);
    struct sum *s = sums->sums.at[number];
    if (s->step == m->head.step) pd_sums_know(sums, s, totals);
    return PD_OK;
}

void pd_sums_first_closed(struct pd_sums *sums)
{
    sums->link = NULL;
}

int pd_sums_first_owes(struct pd_sums *sums, uint64_t *request)
{
    int owes = 0;
    PD_HOLD(&sums->lock);
    for (int i = 0; i < sums->sums.n; i++) {
        const struct sum *s = sums->sums.at[i];
        owes |= s->is_sent && s->totals_step != s->step;
        *request += s->step;
    }
    return owes;
}
