/* OPEN: a trainer names what it will push and pull, and becomes a member of the job.
 *
 * The id is taken here and not before: who only shakes hands holds nothing. */
#include <stdio.h>

#include "base/log.h"
#include "net/wire.h"
#include "pserver/job_text.h"
#include "pserver/proto.h"
#include "pserver/server/book.h"
#include "pserver/server/order.h"
#include "pserver/server/session_private.h"
#include "pserver/store/durable.h"

enum { NOT_MINE = 0xffffffff };

/* ---- names ---- */

/* Shape and type as the trainer's Program declares them; kind 0: it does not say. */
struct claim {
    int kind, dtype, rank;
    int64_t dim[PD_MAX_RANK];
};

/* Rows come in any number: only their size is compared. */
static int same_dims(const struct claim *claim, const struct pd_meta *mine, int is_rows)
{
    if (claim->rank != mine->rank) return 0;
    for (int i = is_rows; i < mine->rank; i++)
        if (claim->dim[i] != mine->dim[i]) return 0;
    return 1;
}

static pd_status check_claim(const char *name, const struct pd_meta *mine, int is_rows,
                             const struct claim *claim)
{
    struct pd_meta theirs = {.dtype = claim->dtype};
    if (!claim->kind) return PD_OK;
    PD_TRY(pd_meta_set_dims(&theirs, claim->rank, claim->dim));
    int same_kind = (claim->kind == PD_KIND_SELECTED_ROWS) == is_rows;
    if (same_kind && same_dims(claim, mine, is_rows) &&
        (claim->dtype == (int)mine->dtype || claim->dtype < 0))
        return PD_OK;
    return pd_fail(
        PD_SHAPE, "'%s' is %s %s %s at the trainer, and %s %s %s here: do both run the same Program?", name,
        pd_dtype_name(claim->dtype), claim->kind == PD_KIND_SELECTED_ROWS ? "selected rows" : "tensor",
        pd_meta_dims_text(&theirs), pd_dtype_name(mine->dtype), is_rows ? "selected rows" : "tensor",
        pd_meta_dims_text(mine));
}

static pd_status open_push(struct session *session, const char *name, const struct claim *claim,
                           uint32_t *number)
{
    const struct lane *lane = session->lane;
    const struct name_place *place = pd_map_get(&lane->server->names.grads, name);
    *number = NOT_MINE;
    if (!place)
        return pd_fail(PD_NOT_FOUND,
                       "this server has no gradient '%s': do trainer and server run the same Program?", name);
    if (place->lane != lane->index) return PD_OK;
    const struct pd_unit_spec *spec = pd_shard_unit(lane->shard, place->unit);
    *number = (uint32_t)place->unit;
    return check_claim(name, &spec->table->meta, spec->is_rows, claim);
}

/* Parameters, and what the Program keeps from step to step. The rest of the scope is the server's own. */
static int is_for_trainers(const struct pd_server *s, const char *name)
{
    const struct pd_block *top = s->engine.program ? pd_program_block(s->engine.program, 0) : NULL;
    const struct pd_var *var = top ? pd_block_find(top, name) : NULL;
    if (pd_map_get(&s->names.values, name)) return 1;
    return var && pd_server_keeps(s, var);
}

/* The value may also be a state of the unit's optimizer. */
static struct pd_table *table_of(const struct lane *lane, const struct name_place *place)
{
    return place && place->unit >= 0 ? pd_shard_unit(lane->shard, place->unit)->table : NULL;
}

static pd_status open_pull(struct session *session, const char *name, const struct claim *claim,
                           uint32_t *number)
{
    struct lane *lane = session->lane;
    struct pd_value *value = pd_engine_lasting(&lane->server->engine, name);
    *number = NOT_MINE;
    if (!value || (value->tensor.meta.kind != PD_KIND_TENSOR && !pd_value_is_rows(value)) ||
        !value->tensor.data)
        return pd_fail(PD_NOT_FOUND,
                       "this server has no variable '%s': do trainer and server run the same Program?", name);
    if (!is_for_trainers(lane->server, name))
        return pd_fail(
            PD_NOT_FOUND,
            "'%s' is not for trainers: they may read the persistable variables of the server's Program",
            name);
    const struct name_place *place = pd_map_get(&lane->server->names.values, name);
    if ((place ? place->lane : 0) != lane->index) return PD_OK;
    PD_TRY(check_claim(name, &value->tensor.meta, 0, claim));
    uintptr_t known = (uintptr_t)pd_map_get(&lane->served_at, name);
    if (!known) {
        struct pd_table *of = table_of(lane, place);
        struct served served = {.name = pd_strdup(name),
                                .value = value,
                                .table = of && of->value == value ? of : NULL,
                                .of = of,
                                .is_shared = place && place->unit == PD_UNIT_SHARED};
        known = (uintptr_t)lane->served.n + 1;
        if (!served.name || !pd_map_set(&lane->served_at, name, (void *)known) ||
            !pd_vec_push(&lane->served, served)) {
            (void)pd_map_remove(&lane->served_at, name);
            pd_free(served.name);
            return pd_no_memory();
        }
    }
    *number = (uint32_t)known - 1;
    return PD_OK;
}

/* ---- who it is ---- */

/* From now on this connection is its trainer. */
static void take_place(struct session *session)
{
    struct lane *lane = session->lane;
    const struct pd_hello *hello = pd_conn_hello(session->conn);
    int id = session->trainer;
    struct member *m = &lane->members[id];
    if (m->session) {
        /* It came back before we saw its old connection end. */
        m->session->said_bye = 1;
        pd_conn_close(m->session->conn, 0);
    }
    m->session = session;
    m->refused[0] = 0;
    pd_book_note_refusal(lane->server->book, id, "");
    m->lost_at = 0;
    m->is_missed = 0;
    m->failed[0] = 0;
    snprintf(m->who, sizeof m->who, "trainer %d (host %.60s, pid %u, %.60s)", id, hello->host, hello->pid,
             pd_conn_peer(session->conn));
    pd_log(PD_LOG_INFO, "%s joined by %s", m->who, pd_conn_transport(session->conn));
    if (m->is_back)
        pd_log(PD_LOG_INFO, "%s comes back after trainer %d had ended: it takes part from step %llu on",
               m->who, id, (unsigned long long)pd_shard_trainer_step(lane->shard, id) + 1);
}

/* The first OPEN: who is it? *is_in is 0 when that has to be settled with the other servers first. */
static pd_status enter(struct session *session, int says_beside, int *is_in)
{
    struct lane *lane = session->lane;
    struct pd_order *order = lane->server->order;
    uint64_t incarnation = pd_conn_hello(session->conn)->incarnation;
    int id;
    PD_TRY(pd_book_claim(lane, pd_conn_hello(session->conn), says_beside, &id));
    session->trainer = id;
    session->is_in = 1;
    pd_conn_limit_meta(session->conn, 0);
    enum pd_trainer_state before = pd_shard_trainer(lane->shard, id);
    int is_known = pd_shard_incarnation(lane->shard, id) == incarnation;
    *is_in = !order || (before == PD_TRAINER_IN && is_known);
    if (!*is_in) {
        pd_order_want(order, id, incarnation, PD_TRAINER_IN, NULL);
        return PD_OK;
    }
    if (!order) lane->members[id].is_back = before == PD_TRAINER_DONE && !is_known;
    PD_TRY(pd_shard_join(lane->shard, id, incarnation));
    take_place(session);
    return PD_OK;
}

/* Each name gets its number, in order. */
static pd_status read_names(struct session *session, const struct pd_message *m, struct pd_buf *numbers)
{
    struct pd_reader r = pd_reader_of(m->meta, m->head.meta);
    uint32_t n = pd_read_u32(&r);
    int most = session->lane->server->names.most;
    if (!r.bad && n > (uint32_t)most)
        return pd_fail(PD_FORMAT, "an OPEN has %u names; what this server holds makes %d at most", n, most);
    for (uint32_t i = 0; i < n && !r.bad; i++) {
        char name[512];
        struct claim claim = {0};
        uint32_t number = NOT_MINE;
        int is_pull = pd_read_u8(&r);
        pd_read_text(&r, name, sizeof name);
        claim.kind = pd_read_u8(&r);
        claim.dtype = (int8_t)pd_read_u8(&r);
        claim.rank = pd_read_u8(&r);
        if (claim.rank > PD_MAX_RANK) r.bad = 1;
        for (int d = 0; !r.bad && d < claim.rank; d++)
            claim.dim[d] = pd_read_i64(&r);
        if (r.bad) break;
        PD_TRY(is_pull ? open_pull(session, name, &claim, &number)
                       : open_push(session, name, &claim, &number));
        pd_put_u32(numbers, number);
    }
    return pd_reader_done(&r) ? PD_OK : pd_fail(PD_FORMAT, "malformed OPEN");
}

/* What a trainer has to know to see whether the servers are those of one job. */
static void put_job(const struct pd_server *s, struct pd_buf *meta)
{
    int units = 0;
    for (int i = 0; i < s->n_lanes; i++)
        units += pd_shard_units(s->lanes[i].shard);
    pd_put_u64(meta, atomic_load(&s->job_id));
    pd_put_u8(meta,
              (uint8_t)((units ? PD_PS_JOB_HOLDS : 0) |
                        (pd_durable_is_bare(s->durable) ? PD_PS_JOB_BARE : 0) |
                        (s->durable ? 0 : PD_PS_JOB_FORGETS) | (s->config.is_sync ? 0 : PD_PS_JOB_ASYNC) |
                        (pd_durable_is_changed(s->durable) ? PD_PS_JOB_CHANGED : 0) |
                        (s->engine.is_checked ? PD_PS_JOB_CHECKS : 0) |
                        (pd_durable_was_logged(s->durable) ? PD_PS_JOB_LOGGED : 0)));
    pd_put_u64(meta, pd_durable_ahead(s->durable));
}

static void send_opened(struct session *session, uint64_t request, const struct pd_buf *numbers)
{
    const struct pd_shard *shard = session->lane->shard;
    struct pd_buf meta = {0};
    struct pd_frame_head head = {.type = PD_PS_OPENED,
                                 .request = request,
                                 .flags = pd_shard_has_parts(shard, session->trainer) ? PD_PS_PARTS : 0,
                                 .step = pd_shard_counted(shard, session->trainer),
                                 .extra = (uint64_t)session->trainer};
    pd_put_u64(&meta, pd_shard_step(shard));
    pd_put_u64(&meta, pd_shard_trainer_step(shard, session->trainer));
    pd_put_u32(&meta, (uint32_t)(numbers->n / sizeof(uint32_t)));
    if (numbers->n) pd_buf_add(&meta, numbers->at, numbers->n);
    put_job(session->lane->server, &meta);
    meta.failed |= numbers->failed;
    pd_conn_say(session->conn, &head, &meta);
}

void pd_session_joined(struct session *session, int trainer, uint64_t incarnation)
{
    if (!session->opens || session->trainer != trainer ||
        pd_conn_hello(session->conn)->incarnation != incarnation)
        return;
    session->opens = 0;
    take_place(session);
    send_opened(session, session->opens_as, &session->opened);
    pd_buf_free(&session->opened);
    if (session->lane->index == 0) pd_session_tell_kept(session);
}

pd_status pd_session_compare(const struct session *session, const struct pd_message *m)
{
    const struct pd_buf *mine = &session->lane->server->job_text;
    return mine->n ? pd_job_text_compare(mine, m->meta, m->head.meta) : PD_OK;
}

pd_status pd_session_job(struct session *session, const struct pd_message *m)
{
    struct pd_reader r = pd_reader_of(m->meta, m->head.meta);
    uint64_t job = pd_read_u64(&r);
    return pd_reader_done(&r) && job ? pd_book_set_job(session->lane->server->book, job)
                                     : pd_fail(PD_FORMAT, "malformed JOB");
}

pd_status pd_session_open(struct session *session, const struct pd_message *m)
{
    struct pd_buf numbers = {0};
    int is_in = 1;
    pd_status status = read_names(session, m, &numbers);
    if (status == PD_OK && !session->is_in) status = enter(session, m->head.flags & PD_PS_BESIDE, &is_in);
    if (status == PD_OK && !is_in) {
        session->opens = 1;
        session->opens_as = m->head.request;
        session->opened = numbers;
        return PD_OK;
    }
    if (status == PD_OK) send_opened(session, m->head.request, &numbers);
    pd_buf_free(&numbers);
    if (status == PD_OK && session->lane->index == 0) pd_session_tell_kept(session);
    return status;
}
