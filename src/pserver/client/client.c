/* Connections of a trainer, one to each loop of each server: made at first use, made again when they break.
 * See client.h.
 *
 * Here is what is said first on a new one (PROGRAM, then OPEN with the names of gradients and values, which
 * are numbers from then on), and where each message of a server goes (on_head, on_done). It also makes and
 * frees the client, and reads its settings. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/flags.h"
#include "base/log.h"
#include "base/rng.h"
#include "base/wait.h"
#include "net/endpoint.h"
#include "net/wire.h"
#include "pserver/client/client_private.h"
#include "pserver/job_text.h"
#include "pserver/proto.h"

enum {
    RETRY_MS = 200,
    RETRIES_ENDED = 2, /* so often a server that has ended is looked for once more */
    REFUSALS = 3, /* in a row count. One may be made of bytes that were damaged, or by somebody on the way */
};

/* ---- events of a connection ---- */

void pd_wire_forget_names(struct wire *w)
{
    const struct pd_client *c = w->link->client;
    w->names_opened = w->names_answered = c->is_leaving ? c->names.n : 0;
}

static void broke(struct wire *w, const char *text)
{
    int64_t now = pd_clock_ns();
    int was_welcome = w->state == WIRE_WELCOME || w->state == WIRE_OPEN;
    pd_stall_forget(&w->stall);
    w->notices = 0;
    w->conn = NULL;
    w->breaks += w->state == WIRE_OPEN;
    if (w->state != WIRE_QUIT) w->state = WIRE_DOWN;
    pd_wire_unsend(w);
    w->said[0] = 0;
    w->said_program = 0;
    pd_wire_forget_names(w);
    if (!w->broke_at) w->broke_at = now;
    /* A connection that was cut is there again at once; a server that is gone is not. */
    w->retry_at = now + (int64_t)(w->retries++ ? RETRY_MS : RETRY_MS / 20) * 1000000;
    /* Why it was not let in tells more than that the connection has ended. */
    if (!w->is_taken)
        snprintf(w->trouble, sizeof w->trouble, "%s", text);
    else if (!was_welcome)
        snprintf(w->trouble, sizeof w->trouble, "%.180s (before that, it refused this process: %.280s)", text,
                 w->refusal);
}

static void send_program(struct wire *w)
{
    const struct pd_buf *program = &w->link->program;
    struct pd_frame_head head = {.type = PD_PS_PROGRAM};
    struct pd_buf meta = {0};
    if (w->said_program || !program->n) return;
    w->said_program = 1;
    pd_buf_add(&meta, program->at, program->n);
    pd_conn_say(w->conn, &head, &meta);
}

void pd_client_ask_names(struct wire *w)
{
    struct pd_client *c = w->link->client;
    send_program(w);
    struct pd_buf meta = {0};
    uint32_t n = 0;
    for (int i = w->names_opened; i < c->names.n; i++)
        n += c->names.at[i].link == w->link;
    pd_put_u32(&meta, n);
    for (int i = w->names_opened; i < c->names.n; i++) {
        const struct name *name = &c->names.at[i];
        if (name->link != w->link) continue;
        pd_put_u8(&meta, (uint8_t)name->is_pull);
        pd_put_text(&meta, name->text);
        pd_put_u8(&meta, (uint8_t)name->meta.kind);
        pd_put_u8(&meta, (uint8_t)name->meta.dtype);
        pd_put_u8(&meta, (uint8_t)name->meta.rank);
        for (int d = 0; d < name->meta.rank; d++)
            pd_put_i64(&meta, name->meta.dim[d]);
    }
    struct pd_frame_head head = {
        .type = PD_PS_OPEN, .request = (uint64_t)c->names.n, .flags = c->is_beside ? PD_PS_BESIDE : 0};
    w->names_opened = c->names.n;
    if (meta.n > PD_FRAME_META_MAX) {
        (void)pd_fail(PD_RANGE,
                      "%u parameters and gradients have names of %zu bytes, a message %d at most: use "
                      "shorter names, or more servers",
                      n, meta.n, PD_FRAME_META_MAX);
        pd_client_job_failed(c, PD_RANGE, w->link->endpoint, pd_error());
    }
    pd_conn_say(w->conn, &head, &meta);
}

/* Servers that do not agree on what to do about a lost trainer would do it each for itself, or wait for each
 * other. */
static void compare_policies(struct link *link, const char *mine)
{
    struct pd_client *c = link->client;
    snprintf(link->on_loss, sizeof link->on_loss, "%.15s", mine);
    for (int i = 0; i < c->links.n; i++) {
        const struct link *other = c->links.at[i];
        if (other->group != link->group || !other->on_loss[0] || strcmp(other->on_loss, link->on_loss) == 0)
            continue;
        (void)pd_fail(PD_INVALID,
                      "FLAGS_ps_on_trainer_loss is '%s' there, and '%s' at server %s: give all servers of a "
                      "job the same",
                      link->on_loss, other->on_loss, other->endpoint);
        pd_client_job_failed(c, PD_INVALID, link->endpoint, pd_error());
    }
}

static void on_opened(struct pd_conn *conn, const struct pd_welcome *welcome)
{
    struct wire *w = pd_conn_user(conn);
    struct link *link = w->link;
    struct pd_client *c = link->client;
    link->n_loops = welcome->loops;
    w->state = WIRE_WELCOME;
    w->refusals = 0;
    if (link->incarnation != welcome->incarnation) link->applied = 0; /* what it had told is of before */
    link->incarnation = welcome->incarnation;
    if (welcome->processes) pd_loop_spin_for(c->loop, (int)welcome->processes);
    compare_policies(link, welcome->note);
    pd_client_ask_names(w);
}

/* Said once the server has let this trainer in: it may refuse one again and again. */
static void say_connected(const struct wire *w)
{
    const char *name = pd_conn_transport(w->conn), *to = w->link->endpoint;
    const char *way = strcmp(name, "shm") == 0 ? "shared memory" : strcmp(name, "tls") == 0 ? "TLS" : "TCP";
    pd_log(PD_LOG_INFO, "connected to %s over %s", to, way);
    if (w->broke_at && w->step > 1) pd_log(PD_LOG_INFO, "server %s is back", to);
}

static pd_status on_names(struct wire *w, const struct pd_message *m)
{
    struct pd_client *c = w->link->client;
    struct pd_reader r = pd_reader_of(m->meta, m->head.meta);
    uint64_t step = pd_read_u64(&r), mine = pd_read_u64(&r);
    uint32_t n = pd_read_u32(&r);
    if (m->head.request > (uint64_t)c->names.n)
        return pd_fail(PD_FORMAT, "an answer to an OPEN that was not sent");
    for (int i = w->names_answered; i < (int)m->head.request && !r.bad; i++) {
        struct name *name = &c->names.at[i];
        if (name->link != w->link) continue;
        uint32_t number = pd_read_u32(&r);
        if (n-- == 0) r.bad = 1;
        if (number != UINT32_MAX) name->wire = w->index, name->number = number;
    }
    pd_link_read_job(w->link, &r, step);
    if (!pd_reader_done(&r) || n) return pd_fail(PD_FORMAT, "malformed answer to an OPEN");
    w->names_answered = (int)m->head.request;
    if (c->id < 0) c->id = (int)m->head.extra;
    w->has_parts = m->head.flags & PD_PS_PARTS;
    if (w->state == WIRE_OPEN) return PD_OK;
    say_connected(w);
    w->state = WIRE_OPEN;
    w->was_opened = 1;
    c->is_beside = 0;
    w->said[0] = 0;
    w->is_taken = 0;
    w->retries = 0;
    w->broke_at = 0;
    pd_status status = pd_link_returned(w);
    if (status != PD_OK) {
        pd_client_job_failed(c, status, w->link->endpoint, pd_error());
        return PD_OK;
    }
    pd_push_again(w, mine, m->head.step);
    return PD_OK;
}

void pd_client_job_failed(struct pd_client *c, pd_status status, const char *endpoint, const char *text)
{
    if (c->failed) return;
    c->failed = 1;
    c->failure = status;
    snprintf(c->failure_text, sizeof c->failure_text, "server %s: %.900s", endpoint, text);
}

static pd_status on_head(struct pd_conn *conn, struct pd_message *m)
{
    return pd_ask_head(pd_conn_user(conn), m);
}

static pd_status on_done(struct pd_conn *conn, const struct pd_message *m)
{
    struct wire *w = pd_conn_user(conn);
    struct pd_reader r = pd_reader_of(m->meta, m->head.meta);
    char text[PD_PS_TEXT_MOST + 1];
    switch (m->head.type) {
    case PD_PS_OPENED:
        return on_names(w, m);
    case PD_PS_NOTICE:
        pd_read_text(&r, text, sizeof text);
        w->notices += PD_FRAME_HEAD + m->head.meta;
        pd_log(PD_LOG_WARNING, "server %s: %s", w->link->endpoint, text);
        snprintf(w->said, sizeof w->said, "%.511s", text);
        w->said_at = w->link->client->noticed = pd_clock_ns();
        return PD_OK;
    case PD_PS_FAILED: {
        uint32_t status = pd_read_u32(&r);
        pd_read_text(&r, text, sizeof text);
        if (!status || status > PD_UNAVAILABLE) status = PD_UNAVAILABLE;
        /* Another process has this trainer's id: it may be on its way out, so we try again and say so. */
        if (status == PD_EXISTS && w->state != WIRE_OPEN) {
            w->is_taken = w->link->client->is_beside = 1;
            snprintf(w->trouble, sizeof w->trouble, "%.511s", text);
            snprintf(w->refusal, sizeof w->refusal, "%.280s", text);
            return PD_OK;
        }
        if (!pd_ask_refused(w, m->head.request, (pd_status)status, text))
            pd_client_job_failed(w->link->client, (pd_status)status, w->link->endpoint, text);
        return PD_OK;
    }
    case PD_PS_HERE:
        return PD_OK;
    case PD_PS_KEPT:
        pd_link_kept(w->link, m->head.step);
        return PD_OK;
    case PD_PS_AWAITED:
        w->awaited = m->head.step;
        w->calls++;
        return PD_OK;
    default:
        return pd_ask_done(w, m);
    }
}

static void on_closed(struct pd_conn *conn, pd_status why, const char *text)
{
    struct wire *w = pd_conn_user(conn);
    int is_refusal = why == PD_INVALID || why == PD_RANGE || why == PD_UNSUPPORTED;
    if (why == PD_GONE && w->was_opened) /* it has no Program, and had one */
        pd_client_job_failed(w->link->client, PD_INVALID, w->link->endpoint,
                             "it was started again and has nothing of this job: it had no FLAGS_ps_dir, so "
                             "that nothing was kept. Start all servers and trainers anew");
    if (is_refusal && (w->state >= WIRE_WELCOME || ++w->refusals == REFUSALS))
        pd_client_job_failed(w->link->client, why, w->link->endpoint, text);
    else if (is_refusal)
        pd_log(PD_LOG_INFO, "%s%s Trying again", text, pd_full_stop(text));
    broke(w, text);
}

static const struct pd_conn_events events = {
    .opened = on_opened, .head = on_head, .done = on_done, .closed = on_closed};

static pd_status connect_wire(void *arg, const struct pd_conn_events *handlers, void *user,
                              struct pd_conn **out)
{
    const struct wire *w = arg;
    struct pd_client *c = w->link->client;
    struct pd_hello hello = {.role = PD_ROLE_TRAINER,
                             .loop = (uint16_t)w->index,
                             .id = c->id,
                             .incarnation = c->incarnation,
                             .trainers = (uint32_t)w->link->group->trainers};
    memcpy(hello.job, c->settings.job, sizeof hello.job);
    struct pd_conn_options options = {.connect_ms = 5000};
    char mapped[280];
    return pd_conn_open(c->loop, pd_endpoint_map(w->link->endpoint, mapped, sizeof mapped), &hello, &options,
                        handlers, user, out);
}

static void replace(void *arg, struct pd_conn *conn, const struct pd_welcome *welcome, const char *why)
{
    struct wire *w = arg;
    broke(w, why);
    w->conn = conn;
    pd_conn_set_user(conn, &events, w);
    on_opened(conn, welcome);
}

static void start_wire(struct wire *w)
{
    struct pd_client *c = w->link->client;
    pd_status status = connect_wire(w, &events, w, &w->conn);
    if (status == PD_OK) return;
    /* About arguments and settings: a secret that cannot be read, a wrong address. */
    if (status != PD_NO_MEMORY) pd_client_job_failed(c, status, w->link->endpoint, pd_error());
    broke(w, pd_error());
}

/* ---- all of them ---- */

struct wire *pd_wire_after(const struct pd_client *c, const struct wire *w)
{
    int i = w ? w->link->index : 0, k = w ? w->index + 1 : 0;
    for (; i < c->links.n; i++, k = 0)
        if (k < c->links.at[i]->wires.n) return c->links.at[i]->wires.at[k];
    return NULL;
}

static struct wire *add_wire(struct link *link)
{
    static const struct pd_stall_owner calls = {.connect = connect_wire, .replace = replace};
    struct wire *w = pd_calloc(1, sizeof *w);
    if (!w || !pd_vec_push(&link->wires, w)) {
        pd_free(w);
        return NULL;
    }
    w->link = link;
    w->index = link->wires.n - 1;
    w->step = 1;
    w->push.end.kind = REQUEST_STEP;
    w->pass.kind = REQUEST_PASS;
    w->bye.kind = REQUEST_BYE;
    w->stall = (struct pd_stall){.calls = &calls, .owner = w, .endpoint = link->endpoint};
    return w;
}

/* Notices come without being asked for. */
static void watch(struct wire *w, int64_t now)
{
    struct pd_stall_wait wait = {pd_wire_is_waited_for(w), w->asked + w->answered + (uint64_t)w->names_opened,
                                 w->notices};
    if (w->conn && w->state >= WIRE_WELCOME)
        pd_stall_look(&w->stall, w->conn, &wait, w->link->client->settings.silence_ms, now);
}

/* The first trainer without an id waits for the first server's word before it speaks to the others. */
void pd_client_tend(struct pd_client *c, int64_t now)
{
    for (int i = 0; i < c->links.n; i++) {
        struct link *link = c->links.at[i];
        if (c->id < 0 && i > 0) break;
        while (link->wires.n < (link->n_loops ? link->n_loops : 1))
            if (!add_wire(link)) return;
        for (int k = 0; k < link->wires.n; k++) {
            struct wire *w = link->wires.at[k];
            if (c->id < 0 && k > 0) break;
            if (!w->conn && w->state != WIRE_QUIT && now >= w->retry_at) start_wire(w);
            if (w->state == WIRE_OPEN) send_program(w);
            if (w->state == WIRE_OPEN && w->names_opened < c->names.n) pd_client_ask_names(w);
            watch(w, now);
        }
    }
}

/* ---- finding and making ---- */

struct pd_client_settings pd_client_settings_read(void)
{
    struct pd_client_settings s = {.deadline_ms = pd_flag_int(PD_FLAG_rpc_deadline),
                                   .notice_ms = pd_flag_int(PD_FLAG_ps_notice),
                                   .silence_ms = pd_stall_limit_ms(),
                                   .retry_times = pd_flag_int(PD_FLAG_rpc_retry_times),
                                   .accepts_rollback = pd_flag_int(PD_FLAG_ps_accept_rollback)};
    snprintf(s.job, sizeof s.job, "%s", pd_flag_text(PD_FLAG_ps_job));
    return s;
}

int pd_client_id(const struct pd_client *c)
{
    return c->id;
}

pd_status pd_client_new(int trainer_id, int comes_again, struct pd_client **out)
{
    struct pd_client *c = pd_calloc(1, sizeof *c);
    if (!c) return pd_no_memory();
    pd_status status = pd_endpoint_check_map();
    if (status == PD_OK) status = pd_loop_new(&c->loop);
    if (status != PD_OK) {
        pd_free(c);
        return status;
    }
    c->id = trainer_id;
    c->settings = pd_client_settings_read();
    c->pid = getpid();
    c->incarnation = pd_rng_fresh_seed() | 1;
    c->comes_again = comes_again;
    pd_client_make_groups(c);
    pd_client_mind(c);
    *out = c;
    return PD_OK;
}

uint64_t pd_client_incarnation(const struct pd_client *client)
{
    return client->incarnation;
}

static int link_is_open(void *arg)
{
    const struct link *link = arg;
    if (!link->n_loops || link->wires.n < link->n_loops) return 0;
    for (int i = 0; i < link->wires.n; i++)
        if (link->wires.at[i]->state != WIRE_OPEN) return 0;
    return 1;
}

pd_status pd_client_expect(struct pd_client *c, int trainers, int n, const char *const *endpoints)
{
    PD_CLIENT_HOLD(c);
    struct link *link;
    PD_TRY(pd_client_find_all(c, n, endpoints));
    if (!n || trainers <= 0) return PD_OK;
    PD_TRY(pd_client_find(c, endpoints[0], &link));
    link->group->trainers = trainers;
    return PD_OK;
}

/* The first line differs from server to server: lists in another order would mix up what lies where. */
static pd_status pack_program(struct link *link, int place, int of, int n, const char *const *lines)
{
    char first[80];
    const char **all = pd_calloc((size_t)n + 1, sizeof *all);
    if (!all) return pd_no_memory();
    snprintf(first, sizeof first, "the place of this server in pservers: %d of %d", place, of);
    all[0] = first;
    memcpy(all + 1, lines, (size_t)n * sizeof *lines);
    pd_buf_free(&link->program);
    pd_job_text_pack(n + 1, all, &link->program);
    pd_free(all);
    return link->program.failed ? pd_no_memory() : PD_OK;
}

pd_status pd_client_trains(struct pd_client *c, const char *endpoints, int n, const char *const *lines)
{
    PD_CLIENT_HOLD(c);
    int of = 1, place = 0;
    struct link *servers = NULL;
    for (const char *at = endpoints; *at; at++)
        of += *at == ',';
    for (const char *at = endpoints; *at; at += strspn(at, ",")) {
        struct link *link;
        char one[280];
        size_t length = strcspn(at, ",");
        snprintf(one, sizeof one, "%.*s", (int)length, at);
        at += length;
        PD_TRY(pd_client_find(c, one, &link));
        if (!place) servers = link;
        pd_client_join(servers, link);
        PD_TRY(pack_program(link, ++place, of, n, lines));
        for (int k = 0; k < link->wires.n; k++) {
            link->wires.at[k]->said_program = 0;
            if (link->wires.at[k]->state == WIRE_OPEN) send_program(link->wires.at[k]);
        }
    }
    return PD_OK;
}

/* No server is there for a process that trains on after its goodbye: they had no trainer left. */
static int have_ended(const struct pd_client *c)
{
    int gone = 0;
    if (!c->trains_on) return 0;
    PD_EACH_WIRE(c, w) {
        if (w->conn || w->was_opened || w->retries <= RETRIES_ENDED) return 0;
        gone++;
    }
    return gone > 0;
}

static int is_open_or_over(void *arg)
{
    const struct link *link = arg;
    return link_is_open(arg) || have_ended(link->client);
}

pd_status pd_client_connect(struct pd_client *c, const struct pd_run *run, const char *endpoint,
                            struct link **out)
{
    static const char why[] = "fleet.stop_worker() and Executor.close() are for the end of training";
    struct link *link;
    PD_TRY(pd_client_find(c, endpoint, &link));
    *out = link;
    if (link_is_open(link)) return PD_OK;
    char what[400];
    snprintf(what, sizeof what, "connecting to server %s%s%s%s", endpoint,
             c->comes_again ? " again, after this process said goodbye (" : "", c->comes_again ? why : "",
             c->comes_again ? ")" : "");
    PD_TRY(pd_client_wait_until(c, run, is_open_or_over, link, what));
    if (link_is_open(link)) return PD_OK;
    return pd_fail(PD_UNAVAILABLE,
                   "this process has said goodbye to its servers, and trains on: as no other trainer was "
                   "left, they have ended (server %s is not there any more). %s",
                   endpoint, why);
}

pd_status pd_client_reach(struct pd_client *c, const struct pd_run *run, int n, const char *const *endpoints)
{
    PD_CLIENT_HOLD(c);
    struct link *link;
    PD_TRY(pd_client_find_all(c, n, endpoints));
    PD_VEC(struct link *) links = {0};
    pd_status status = PD_OK;
    for (int i = 0; i < n && status == PD_OK; i++) {
        status = pd_client_connect(c, run, endpoints[i], &link);
        if (status == PD_OK && !pd_vec_push(&links, link)) status = pd_no_memory();
    }
    if (status == PD_OK) status = pd_client_agree(c, run, links.n, links.at);
    pd_vec_free(&links);
    return status;
}

static int names_are_known(void *arg)
{
    const struct link *link = arg;
    for (int i = 0; i < link->wires.n; i++)
        if (link->wires.at[i]->state != WIRE_OPEN ||
            link->wires.at[i]->names_answered < link->client->names.n)
            return 0;
    return link_is_open(arg);
}

static int find_name(const struct pd_client *c, const struct link *link, int is_pull, const char *text)
{
    for (int i = 0; i < c->names.n; i++) {
        const struct name *n = &c->names.at[i];
        if (n->link == link && n->is_pull == is_pull && strcmp(n->text, text) == 0) return i;
    }
    return -1;
}

static pd_status add_name(struct pd_client *c, struct link *link, int is_pull, const char *text,
                          const struct pd_meta *meta, int *number)
{
    struct name name = {.link = link, .text = pd_strdup(text), .is_pull = is_pull, .wire = -1};
    if (meta) {
        name.meta = *meta;
        name.meta.lod = NULL;
    }
    if (!name.text || !pd_vec_push(&c->names, name)) {
        pd_free(name.text);
        return pd_no_memory();
    }
    *number = c->names.n - 1;
    return PD_OK;
}

/* A name that was asked for before may not be known yet: the run that asked was broken off. */
pd_status pd_client_name(struct pd_client *c, const struct pd_run *run, const char *endpoint, int is_pull,
                         const char *text, const struct pd_meta *meta, int *number)
{
    PD_CLIENT_HOLD(c);
    struct link *link;
    PD_TRY(pd_client_connect(c, run, endpoint, &link));
    *number = find_name(c, link, is_pull, text);
    if (*number >= 0 && c->names.at[*number].wire >= 0) return PD_OK;
    if (*number < 0) PD_TRY(add_name(c, link, is_pull, text, meta, number));
    for (int k = 0; k < link->wires.n; k++)
        if (link->wires.at[k]->state == WIRE_OPEN) pd_client_ask_names(link->wires.at[k]);
    char what[700];
    snprintf(what, sizeof what, "asking server %s for '%s'", endpoint, text);
    PD_TRY(pd_client_wait_until(c, run, names_are_known, link, what));
    return c->names.at[*number].wire >= 0
               ? PD_OK
               : pd_fail(PD_NOT_FOUND, "server %s does not know '%s'", endpoint, text);
}

/* ---- the end ---- */

void pd_client_free(struct pd_client *c)
{
    pd_loop_free(c->loop);
    pd_client_free_groups(c);
    pd_client_free_asks(c);
    for (int i = 0; i < c->names.n; i++)
        pd_free(c->names.at[i].text);
    pd_vec_free(&c->names);
    pthread_mutex_destroy(&c->lock);
    pthread_cond_destroy(&c->over);
    pthread_cond_destroy(&c->freed);
    pd_free(c);
}
