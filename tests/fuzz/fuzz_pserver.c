/* A server's sessions: two trainers talk to one lane over connections that are made, broken and made again,
 * in sync or async mode. The input is a list of commands; messages are raw bytes, or pushes whose parts are
 * mostly right, so that the steps behind the decoder are reached too. Whatever comes, the job does not fail
 * and every number stays within its memory. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/op_list.h"
#include "base/log.h"
#include "exec/frame.h"
#include "net/conn_inside.h"
#include "net/wire.h"
#include "pserver/job_text.h"
#include "pserver/proto.h"
#include "pserver/server/book.h"
#include "pserver/server/server_private.h"

enum { TRAINERS = 2, UNITS = 3, BIG = 300000 };

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void must(pd_status status)
{
    if (status == PD_OK) return;
    fprintf(stderr, "%s\n", pd_error());
    abort();
}

/* ---- the server's half of a Program: a small parameter, one of two parts, a table ---- */

static const struct {
    const char *param, *grad;
    int rank, is_rows;
    int64_t dim[2];
} units[UNITS] = {
    {"w", "w@GRAD", 1, 0, {7}},
    {"big", "big@GRAD", 1, 0, {BIG}},
    {"table", "table@GRAD", 2, 1, {5, 3}},
};

static struct pd_program *program;
static struct pd_scope *scope;
static struct pd_plan *plan;
static struct pd_frame *frame;
static struct pd_step step;
static int blocks[UNITS];

static void add_value(const char *name, int rank, const int64_t *dim)
{
    struct pd_value *value;
    struct pd_var *var;
    int existed;
    must(pd_var_new(pd_program_block(program, 0), name, PD_KIND_TENSOR, &var, &existed));
    must(pd_scope_get(scope, name, &value));
    must(pd_tensor_resize(&value->tensor, PD_DTYPE_FP32, rank, dim));
    memset(value->tensor.data, 0, pd_tensor_bytes(&value->tensor));
}

static void add_unit(int i)
{
    struct pd_block *block;
    struct pd_opdesc *op;
    struct pd_var *var;
    int existed;
    must(pd_var_new(pd_program_block(program, 0), units[i].grad,
                    units[i].is_rows ? PD_KIND_SELECTED_ROWS : PD_KIND_TENSOR, &var, &existed));
    add_value(units[i].param, units[i].rank, units[i].dim);
    must(pd_block_new(program, 0, &block));
    must(pd_opdesc_new(program, "sgd", &op));
    must(pd_opdesc_add_arg(op, 0, "Param", units[i].param));
    must(pd_opdesc_add_arg(op, 0, "Grad", units[i].grad));
    must(pd_opdesc_add_arg(op, 0, "LearningRate", "rate"));
    must(pd_opdesc_add_arg(op, 1, "ParamOut", units[i].param));
    must(pd_block_insert(block, -1, op, 0));
    blocks[i] = block->index;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    pd_log_set_limit(PD_LOG_ERROR);
    must(pd_program_new(&pd_ops, &program));
    must(pd_scope_new(NULL, &scope));
    add_value("rate", 1, (int64_t[]){1});
    for (int i = 0; i < UNITS; i++)
        add_unit(i);
    pd_step_init(&step);
    must(pd_plan_new(program, 0, NULL, 0, NULL, &plan));
    must(pd_frame_new(plan, NULL, NULL, &step, &frame));
    frame->scope = scope;
    return 0;
}

/* ---- connections that read from memory ---- */

struct wire {
    struct pd_pipe base;
    struct pd_conn *conn; /* NULL: none */
    const uint8_t *at, *end;
    int is_ended, is_blocked;
    unsigned step;
};

static pd_status wire_read(struct pd_pipe *base, const struct iovec *parts, int n, size_t *done, int *end)
{
    struct wire *w = (struct wire *)base;
    size_t left = (size_t)(w->end - w->at), most = left > 256 ? left / 2 : 1 + w->step % 97;
    w->step = w->step * 5 + 1;
    *done = 0;
    *end = !left && w->is_ended;
    for (int i = 0; i < n && most && w->at < w->end; i++) {
        size_t take = parts[i].iov_len < most ? parts[i].iov_len : most;
        if (take > (size_t)(w->end - w->at)) take = (size_t)(w->end - w->at);
        if (take) memcpy(parts[i].iov_base, w->at, take);
        w->at += take;
        *done += take;
        most -= take;
    }
    return PD_OK;
}

static pd_status wire_write(struct pd_pipe *base, const struct iovec *parts, int n, size_t *done)
{
    volatile uint8_t sum = 0; /* touches every page that would be sent */
    *done = 0;
    if (((struct wire *)base)->is_blocked) return PD_OK;
    for (int i = 0; i < n; i++) {
        for (size_t k = 0; k < parts[i].iov_len; k += 512)
            sum = (uint8_t)(sum ^ ((const uint8_t *)parts[i].iov_base)[k]);
        *done += parts[i].iov_len;
    }
    return PD_OK;
}

static void wire_want(struct pd_pipe *base, int read, int write)
{
    (void)base, (void)read, (void)write;
}

static int wire_finish(struct pd_pipe *base)
{
    (void)base;
    return 0;
}

static void wire_close(struct pd_pipe *base)
{
    ((struct wire *)base)->conn = NULL;
}

/* Sometimes, so that both ways are gone. */
static const void *wire_borrow(struct pd_pipe *base, size_t n, size_t alignment)
{
    struct wire *wire = (struct wire *)base;
    return n <= (size_t)(wire->end - wire->at) && wire->step % 3 && (uintptr_t)wire->at % alignment == 0
               ? wire->at
               : NULL;
}

static void wire_give_back(struct pd_pipe *base, size_t n)
{
    ((struct wire *)base)->at += n;
}

static const struct pd_transport transport = {
    .borrow = wire_borrow,
    .give_back = wire_give_back,
    .name = "memory",
    .read = wire_read,
    .write = wire_write,
    .want = wire_want,
    .finish = wire_finish,
    .close = wire_close,
};

/* ---- one job ---- */

struct world {
    struct pd_server server;
    struct lane lane;
    struct wire wires[4];
};

static void make(struct world *w, int is_sync)
{
    struct pd_server *s = &w->server;
    memset(w, 0, sizeof *w);
    s->engine = (struct pd_engine){.scope = scope, .frame = frame};
    s->lanes = &w->lane;
    s->n_lanes = 1;
    s->config = (struct pd_server_config){.trainers = TRAINERS,
                                          .is_sync = is_sync,
                                          .lr_block = -1,
                                          .prepare_block = -1,
                                          .on_loss = PD_LOSS_SHRINK,
                                          .reconnect_ms = 60000, /* no verdict depends on how fast it runs */
                                          .notice_ms = 1000,
                                          .deadline_ms = 100000};
    pthread_mutex_init(&s->lock, NULL);
    pthread_mutex_init(&s->engine_lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    must(pd_book_new(s, &s->book));
    w->lane.server = s;
    must(pd_loop_new(&w->lane.loop));
    must(pd_lane_open(&w->lane));
    for (int i = 0; i < UNITS; i++) {
        struct pd_unit_spec spec = {.grad = units[i].grad, .block = blocks[i], .is_rows = units[i].is_rows};
        struct pd_engine engine = pd_engine_of(frame, NULL);
        struct pd_rule *rule;
        int number;
        engine.scope = scope;
        must(pd_rule_new(&engine, blocks[i], units[i].grad, &rule));
        if (!rule) abort();
        must(pd_table_of_value(units[i].param, pd_scope_lookup(scope, units[i].param), rule, &spec.table));
        must(pd_shard_add(w->lane.shard, &spec, &number));
        must(pd_known_names_add(&s->names, NULL, units[i].grad, units[i].param, NULL, 0, number));
    }
    pd_known_names_close(&s->names, NULL, 0);
    pd_job_text_pack(2, (const char *const[]){"mode: sync", "parameter w: float32 [4, 3]"}, &s->job_text);
}

static void drop(struct world *w)
{
    if (w->server.failed) abort(); /* a trainer's message must not end the job */
    pd_loop_free(w->lane.loop);
    pd_lane_close(&w->lane);
    pd_book_free(w->server.book);
    pd_known_names_free(&w->server.names);
    pd_buf_free(&w->server.job_text);
    pthread_mutex_destroy(&w->server.lock);
    pthread_mutex_destroy(&w->server.engine_lock);
    pthread_cond_destroy(&w->server.changed);
}

/* Gives a connection its bytes, until they are used up or it has closed. */
static void feed(struct world *w, struct wire *wire, const void *bytes, size_t n, int is_end)
{
    wire->at = bytes;
    wire->end = wire->at + n;
    wire->is_ended = is_end;
    for (size_t turns = 0; wire->conn && (wire->at < wire->end || is_end); turns++) {
        if (turns > 2 * n + 100) abort();
        pd_loop_enter(w->lane.loop);
        pd_pipe_ready(wire->conn, 1, !wire->is_blocked);
        pd_loop_exit(w->lane.loop);
        pd_loop_turn(w->lane.loop, 0);
        if (wire->conn && wire->conn->state == PD_CONN_CLOSING) { /* it was refused: nobody reads on */
            pd_loop_enter(w->lane.loop);
            pd_conn_end(wire->conn, PD_OK, "");
            pd_loop_exit(w->lane.loop);
        }
    }
    wire->at = wire->end = NULL;
}

static void open_wire(struct world *w, struct wire *wire, int trainer, uint64_t incarnation)
{
    if (wire->conn) feed(w, wire, "", 0, 1);
    struct pd_conn *conn;
    must(pd_conn_make(w->lane.loop, NULL, &conn));
    *wire = (struct wire){.base = {.transport = &transport, .loop = w->lane.loop, .conn = conn},
                          .conn = conn,
                          .step = (unsigned)trainer};
    conn->pipe = &wire->base;
    conn->state = PD_CONN_OPEN;
    conn->hello = (struct pd_hello){.role = PD_ROLE_TRAINER, .id = trainer, .incarnation = incarnation};
    pd_loop_enter(w->lane.loop);
    pd_session_accepted(&w->lane, conn);
    pd_loop_exit(w->lane.loop);
}

static void tell(struct world *w, struct wire *wire, struct pd_frame_head *head, const struct pd_buf *meta,
                 const struct pd_buf *payload)
{
    struct pd_buf all = {0};
    uint8_t packed[PD_FRAME_HEAD];
    head->meta = (uint32_t)meta->n;
    pd_frame_pack(head, packed);
    pd_buf_add(&all, packed, sizeof packed);
    if (meta->n) pd_buf_add(&all, meta->at, meta->n);
    if (payload->n) pd_buf_add(&all, payload->at, payload->n);
    if (!all.failed) feed(w, wire, all.at, all.n, 0);
    pd_buf_free(&all);
}

/* ---- commands ---- */

static void add_name(struct pd_buf *meta, int is_pull, const char *name, struct pd_reader *r)
{
    int how = pd_read_u8(r);
    pd_put_u8(meta, (uint8_t)is_pull);
    pd_put_text(meta, name);
    pd_put_u8(meta, how & 1 ? pd_read_u8(r) : 0);
    pd_put_u8(meta, how & 1 ? pd_read_u8(r) : 0);
    pd_put_u8(meta, how & 1 ? 2 : 0);
    for (int i = 0; how & 1 && i < 2; i++)
        pd_put_u64(meta, how & 2 ? pd_read_u64(r) : (uint64_t)units[how >> 2 & 1].dim[i]);
}

static void say_open(struct world *w, struct wire *wire, struct pd_reader *r)
{
    struct pd_buf meta = {0}, none = {0};
    int n = pd_read_u8(r) % 8;
    pd_put_u32(&meta, (uint32_t)n);
    for (int i = 0; i < n; i++) {
        int which = pd_read_u8(r);
        add_name(&meta, which & 1,
                 which & 64  ? ""
                 : which & 1 ? units[(which >> 1) % UNITS].param
                             : units[(which >> 1) % UNITS].grad,
                 r);
    }
    struct pd_frame_head head = {.type = PD_PS_OPEN, .request = 1};
    tell(w, wire, &head, &meta, &none);
    pd_buf_free(&meta);
}

static void put_zeros(struct pd_buf *b, size_t n)
{
    static const uint8_t zeros[4096];
    for (size_t k; n; n -= k) {
        k = n < sizeof zeros ? n : sizeof zeros;
        pd_buf_add(b, zeros, k);
    }
}

/* Parts that fit, unless a byte says otherwise. */
static void say_push(struct world *w, struct wire *wire, struct pd_reader *r, int is_end)
{
    struct pd_buf meta = {0}, payload = {0};
    int n = pd_read_u8(r) % 5, wrong = pd_read_u8(r);
    uint64_t base = pd_shard_step(w->lane.shard);
    struct pd_frame_head head = {.type = PD_PS_PUSH,
                                 .flags = is_end ? PD_PS_END : 0,
                                 .request = 2,
                                 .step = base + (wrong & 3 ? 1 : pd_read_u8(r) % 4)};
    pd_put_u32(&meta, (uint32_t)n);
    for (int i = 0; i < n; i++) {
        int how = pd_read_u8(r), unit = how & 3, rows = how >> 4;
        uint32_t part = how & 4 ? pd_read_u8(r) % 4 : 0;
        pd_put_u32(&meta, (uint32_t)unit);
        pd_put_u32(&meta, part);
        pd_put_u64(&meta, unit == 2 ? (uint64_t)rows : 0);
        for (int k = 0; unit == 2 && k < rows; k++)
            pd_put_i64(&payload, how & 8 ? (int8_t)pd_read_u8(r) : k % (int)units[2].dim[0]);
        size_t first = (size_t)part * (PD_PS_PART / 4);
        put_zeros(&payload, unit == 0     ? 7 * 4
                            : unit == 2   ? (size_t)rows * 12
                            : first < BIG ? 4 * (BIG - first < PD_PS_PART / 4 ? BIG - first : PD_PS_PART / 4)
                                          : 4);
    }
    if (is_end) {
        int m = pd_read_u8(r) % 4;
        pd_put_u32(&meta, (uint32_t)m);
        for (int i = 0; i < m; i++)
            pd_put_u32(&meta, pd_read_u8(r) % 5);
    }
    head.payload = payload.n + (wrong == 0x55 ? 1 : 0);
    tell(w, wire, &head, &meta, &payload);
    pd_buf_free(&meta);
    pd_buf_free(&payload);
}

static void say_rows(struct world *w, struct wire *wire, struct pd_reader *r)
{
    struct pd_buf meta = {0}, payload = {0};
    int n = pd_read_u8(r) % 16;
    pd_put_u32(&meta, pd_read_u8(r) % 5);
    pd_put_u64(&meta, (uint64_t)n);
    for (int i = 0; i < n; i++)
        pd_put_i64(&payload, (int8_t)pd_read_u8(r));
    struct pd_frame_head head = {.type = PD_PS_ROWS, .request = 3, .payload = payload.n};
    tell(w, wire, &head, &meta, &payload);
    pd_buf_free(&meta);
    pd_buf_free(&payload);
}

/* Any head, any meta, any payload. SAVE is left out: it writes files. */
static void say_raw(struct world *w, struct wire *wire, struct pd_reader *r)
{
    struct pd_buf meta = {0}, payload = {0};
    struct pd_frame_head head = {.type = (uint16_t)(16 + pd_read_u8(r) % 10), .flags = pd_read_u8(r)};
    size_t meta_n = pd_read_u8(r), payload_n = pd_read_u8(r);
    int is_lie = payload_n > 200;
    head.step = pd_read_u8(r) & 1 ? pd_read_u64(r) : pd_shard_step(w->lane.shard) + 1;
    if (head.type == PD_PS_SAVE) head.type = PD_PS_BEAT;
    const void *at = pd_read_bytes(r, meta_n);
    if (at) pd_buf_add(&meta, at, meta_n);
    if (!is_lie && (at = pd_read_bytes(r, payload_n))) pd_buf_add(&payload, at, payload_n);
    head.payload = is_lie ? (uint64_t)payload_n << (payload_n % 50) : payload.n;
    tell(w, wire, &head, &meta, &payload);
    pd_buf_free(&meta);
    pd_buf_free(&payload);
}

/* Meetings under a few names, of rounds that may be; some of the first are barriers. */
static void say_meet(struct world *w, struct wire *wire, struct pd_reader *r)
{
    struct pd_buf meta = {0}, payload = {0};
    int how = pd_read_u8(r);
    char name[2] = {(char)('a' + (how >> 4 & 3)), 0};
    struct pd_frame_head head = {.type = PD_PS_MEET, .request = 5 + (uint64_t)(how & 3)};
    head.flags = how & 64 ? PD_PS_BARRIER : 0;
    pd_put_text(&meta, how & 128 ? "" : name);
    pd_put_u64(&meta, how & 8 ? pd_read_u64(r) : (uint64_t)(how & 7));
    if (!head.flags || how & 4) put_zeros(&payload, pd_read_u8(r));
    head.payload = payload.n;
    tell(w, wire, &head, &meta, &payload);
    pd_buf_free(&meta);
    pd_buf_free(&payload);
}

static void say_bye(struct world *w, struct wire *wire, int failed)
{
    struct pd_buf meta = {0}, none = {0};
    struct pd_frame_head head = {.type = PD_PS_BYE, .request = 4};
    pd_put_u8(&meta, (uint8_t)failed);
    pd_put_text(&meta, "why");
    tell(w, wire, &head, &meta, &none);
    pd_buf_free(&meta);
}

static void command(struct world *w, int what, struct pd_reader *r)
{
    struct wire *wire = &w->wires[what & 3];
    if (what >> 2 & 1 && wire->conn) wire->is_blocked = what >> 7;
    int kind = what >> 3 & 7;
    if (kind == 0 || !wire->conn) {
        int who = pd_read_u8(r);
        open_wire(w, wire, who % TRAINERS, 1 + (uint64_t)(who >> 4) % 3);
        if (kind == 0) return;
    }
    switch (kind) {
    case 1:
        say_open(w, wire, r);
        break;
    case 2:
        say_push(w, wire, r, 0);
        break;
    case 3:
        say_push(w, wire, r, 1);
        break;
    case 4:
        say_rows(w, wire, r);
        break;
    case 5:
        say_raw(w, wire, r);
        break;
    case 6: {
        int which = pd_read_u8(r);
        if (which & 2)
            say_meet(w, wire, r);
        else
            say_bye(w, wire, which & 1);
        break;
    }
    default:
        feed(w, wire, "", 0, 1); /* it breaks */
    }
}

/* Two trainers come, open all names, and go through a step: where many inputs start. */
static const uint8_t usual[] = {
    0,  0, 1, 1,                                /* connections */
    8,  6, 0, 0, 2,  0, 4, 0, 1, 0, 3, 0, 5, 0, /* OPEN: three gradients, three values */
    9,  6, 0, 0, 2,  0, 4, 0, 1, 0, 3, 0, 5, 0, /* */
    16, 2, 1, 0, 50,                            /* PUSH: the small parameter, three rows */
    17, 2, 1, 0, 50,                            /* */
    24, 0, 1, 2, 0,  2,                         /* END, two values wanted */
    25, 0, 1, 2, 1,  0,                         /* */
};

static void play(struct world *w, const uint8_t *bytes, size_t n)
{
    struct pd_reader r = pd_reader_of(bytes, n);
    while (r.at < r.end && !r.bad)
        command(w, pd_read_u8(&r), &r);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    static struct world w;
    if (n == 0) return 0;
    make(&w, bytes[0] & 1);
    if (bytes[0] & 2) {
        play(&w, usual, sizeof usual);
        if (pd_shard_step(w.lane.shard) != 1) abort();
    }
    play(&w, bytes + 1, n - 1);
    drop(&w);
    return 0;
}
