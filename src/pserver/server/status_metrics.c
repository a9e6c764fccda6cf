/* A server's status in the words of Prometheus (text format 0.0.4). One table has the names, in the order in
 * which they are shown: docs/WATCHING.md says what each one means. What is not measured is not there. */
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "pserver/server/server_private.h"
#include "pserver/server/status.h"
#include "pserver/server/watch.h"
#include "pserver/store/durable.h"

struct scene {
    struct pd_server *server; /* NULL: it has no Program */
    const struct pd_lane_report *lanes;
    int n; /* of lanes; 0: it does not serve */
    double uptime_s;
    int is_ready;
    const struct pd_status_whole *whole; /* NULL: it does not serve */
    struct pd_buf *out;
};

struct family {
    const char *name, *kind, *help;
    void (*put)(const struct scene *s, const char *name);
};

/* ---- samples ---- */

static void put_number(const struct scene *s, const char *name, double value)
{
    pd_buf_printf(s->out, "%s %.17g\n", name, value);
}

static void put_label(const struct scene *s, const char *label, const char *text)
{
    pd_buf_printf(s->out, "%s=\"", label);
    for (; *text; text++)
        if (*text == '\n')
            pd_buf_text(s->out, "\\n");
        else if (*text == '"' || *text == '\\')
            pd_buf_printf(s->out, "\\%c", *text);
        else
            pd_buf_add(s->out, text, 1);
    pd_buf_text(s->out, "\"");
}

static void put_labelled(const struct scene *s, const char *name, const char *label, const char *text,
                         double value)
{
    pd_buf_printf(s->out, "%s{", name);
    put_label(s, label, text);
    pd_buf_printf(s->out, "} %.17g\n", value);
}

/* `label` and `text`: one more label, or NULL. Bounds are times `unit`. */
static void put_histogram(const struct scene *s, const char *name, const char *label, const char *text,
                          const struct pd_histogram *h, double unit)
{
    uint64_t n = 0;
    const char *comma = label ? "," : "";
    for (int i = 0; i <= PD_HISTOGRAM_BOUNDS; i++) {
        n += h->counts[i];
        pd_buf_printf(s->out, "%s_bucket{", name);
        if (label) put_label(s, label, text);
        if (i < PD_HISTOGRAM_BOUNDS)
            pd_buf_printf(s->out, "%sle=\"%.10g\"} ", comma, (double)pd_histogram_bound(i) * unit);
        else
            pd_buf_printf(s->out, "%sle=\"+Inf\"} ", comma);
        pd_buf_printf(s->out, "%llu\n", (unsigned long long)n);
    }
    for (int k = 0; k < 2; k++) {
        pd_buf_printf(s->out, "%s_%s", name, k ? "count" : "sum");
        if (label) {
            pd_buf_text(s->out, "{");
            put_label(s, label, text);
            pd_buf_text(s->out, "}");
        }
        if (k)
            pd_buf_printf(s->out, " %llu\n", (unsigned long long)n);
        else
            pd_buf_printf(s->out, " %.17g\n", h->sum);
    }
}

static uint64_t count_of(const struct pd_histogram *h)
{
    uint64_t n = 0;
    for (int i = 0; i <= PD_HISTOGRAM_BOUNDS; i++)
        n += h->counts[i];
    return n;
}

/* ---- the process and the job ---- */

static void ready(const struct scene *s, const char *name)
{
    put_number(s, name, s->is_ready);
}

static void uptime(const struct scene *s, const char *name)
{
    put_number(s, name, s->uptime_s);
}

static void info(const struct scene *s, const char *name)
{
    const struct pd_server *server = s->server;
    if (!server) return;
    pd_buf_printf(s->out, "%s{", name);
    put_label(s, "endpoint", server->config.endpoint);
    pd_buf_text(s->out, ",");
    put_label(s, "job", server->config.job);
    pd_buf_printf(s->out, ",mode=\"%s\",incarnation=\"%016llx\"} 1\n",
                  server->config.is_sync ? "sync" : "async", (unsigned long long)server->incarnation);
}

static void resident(const struct scene *s, const char *name)
{
    put_number(s, name, (double)pd_status_resident_bytes());
}

static void cpu(const struct scene *s, const char *name)
{
    struct rusage used;
    if (getrusage(RUSAGE_SELF, &used) != 0) return;
    put_number(s, name,
               (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                   (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6);
}

static void step(const struct scene *s, const char *name)
{
    if (s->server) put_number(s, name, (double)pd_server_step(s->server));
}

static void steps_applied(const struct scene *s, const char *name)
{
    if (s->whole) put_number(s, name, (double)s->whole->applied);
}

static void failed(const struct scene *s, const char *name)
{
    if (s->whole) put_number(s, name, s->whole->failed);
}

/* ---- loops ---- */

static void loop_busy(const struct scene *s, const char *name)
{
    for (int i = 0; i < s->n; i++)
        pd_buf_printf(s->out, "%s{loop=\"%d\"} %d\n", name, i, !s->lanes[i].is_known);
}

static void loop_cpu(const struct scene *s, const char *name)
{
    for (int i = 0; i < s->n; i++)
        if (s->lanes[i].is_known) pd_buf_printf(s->out, "%s{loop=\"%d\"} %.6f\n", name, i, s->lanes[i].cpu_s);
}

/* ---- tables ---- */

/* A number of each table of rows by id. */
#define OF_TABLES(put, number)                                                                               \
    static void put(const struct scene *s, const char *name)                                                 \
    {                                                                                                        \
        for (int i = 0; i < s->n; i++)                                                                       \
            for (int t = 0; t < s->lanes[i].tables.n; t++) {                                                 \
                const struct pd_table_report *r = &s->lanes[i].tables.at[t];                                 \
                if (r->rows >= 0) put_labelled(s, name, "table", r->name, (double)r->number);                \
            }                                                                                                \
    }
OF_TABLES(table_rows, rows)
OF_TABLES(rows_admitted, tally.admitted)
OF_TABLES(rows_evicted, tally.evicted)

static void table_bytes(const struct scene *s, const char *name)
{
    for (int i = 0; i < s->n; i++)
        for (int t = 0; t < s->lanes[i].tables.n; t++) {
            const struct pd_table_report *r = &s->lanes[i].tables.at[t];
            const char *kinds[] = {r->rows >= 0 ? "rows" : "dense", "waiting"};
            uint64_t bytes[] = {r->bytes - r->tally.waiting_bytes, r->tally.waiting_bytes};
            for (int k = 0; k < 2; k++) {
                if (k && !bytes[k]) continue;
                pd_buf_printf(s->out, "%s{", name);
                put_label(s, "table", r->name);
                pd_buf_printf(s->out, ",kind=\"%s\"} %llu\n", kinds[k], (unsigned long long)bytes[k]);
            }
        }
}

static void gradient_bytes(const struct scene *s, const char *name)
{
    uint64_t bytes = 0;
    for (int i = 0; i < s->n; i++)
        bytes += s->lanes[i].held;
    if (s->n) put_number(s, name, (double)bytes);
}

/* ---- trainers ---- */

static void trainers(const struct scene *s, const char *name)
{
    static const char *const states[] = {"in", "waiting", "late", "lost", "done", "absent"};
    for (size_t k = 0; s->whole && k < sizeof states / sizeof states[0]; k++) {
        int n = 0;
        for (int i = 0; i < s->whole->trainers.n; i++)
            n += strcmp(s->whole->trainers.at[i].state, states[k]) == 0;
        put_labelled(s, name, "state", states[k], n);
    }
}

#define OF_TRAINERS(put, number)                                                                             \
    static void put(const struct scene *s, const char *name)                                                 \
    {                                                                                                        \
        for (int i = 0; s->whole && i < s->whole->trainers.n; i++)                                           \
            pd_buf_printf(s->out, "%s{trainer=\"%d\"} %.17g\n", name, s->whole->trainers.at[i].any->trainer, \
                          (double)s->whole->trainers.at[i].number);                                          \
    }
OF_TRAINERS(trainer_step, step)
OF_TRAINERS(trainer_late, late_s)
OF_TRAINERS(trainer_in, in)
OF_TRAINERS(trainer_out, out)

static void barrier_wait(const struct scene *s, const char *name)
{
    struct pd_histogram all = {0};
    if (!s->n || !s->server->config.is_sync) return;
    for (int i = 0; i < s->n; i++)
        pd_histogram_join(&all, &s->lanes[i].counts.waits);
    put_histogram(s, name, NULL, NULL, &all, pd_histogram_seconds);
}

static void staleness(const struct scene *s, const char *name)
{
    struct pd_histogram all = {0};
    if (!s->n || s->server->config.is_sync) return;
    for (int i = 0; i < s->n; i++)
        pd_histogram_join(&all, &s->lanes[i].counts.staleness);
    put_histogram(s, name, NULL, NULL, &all, 1);
}

/* ---- messages ---- */

static void rpc_duration(const struct scene *s, const char *name)
{
    for (int k = 0; k < PD_LANE_MESSAGES; k++) {
        struct pd_histogram all = {0};
        for (int i = 0; i < s->n; i++)
            pd_histogram_join(&all, &s->lanes[i].counts.messages[k]);
        const char *op = pd_session_message(PD_PS_OPEN + k);
        if (op && count_of(&all)) put_histogram(s, name, "op", op, &all, pd_histogram_seconds);
    }
}

static void rpc_errors(const struct scene *s, const char *name)
{
    for (int k = 0; k < PD_LANE_STATUSES; k++) {
        uint64_t n = 0;
        for (int i = 0; i < s->n; i++)
            n += s->lanes[i].counts.errors[k];
        if (n) put_labelled(s, name, "code", pd_status_name((pd_status)k), (double)n);
    }
}

static void duplicates(const struct scene *s, const char *name)
{
    if (s->whole) put_number(s, name, (double)s->whole->repeated);
}

static void connections_refused(const struct scene *s, const char *name)
{
    if (s->whole) put_number(s, name, (double)pd_listener_refused(s->server->listener));
}

/* ---- the disk ---- */

/* 0: there is none. */
static int look_at_disk(const struct scene *s, struct pd_durable_tally *out)
{
    if (!s->n || !s->server->durable) return 0;
    pd_durable_count(s->server->durable, out);
    return 1;
}

static void checkpoint_duration(const struct scene *s, const char *name)
{
    struct pd_durable_tally t;
    if (look_at_disk(s, &t))
        pd_buf_printf(s->out, "%s_sum %.9g\n%s_count %llu\n", name, (double)t.written_ns * 1e-9, name,
                      (unsigned long long)t.written);
}

static void checkpoints_failed(const struct scene *s, const char *name)
{
    struct pd_durable_tally t;
    if (look_at_disk(s, &t)) put_number(s, name, (double)t.failed);
}

static void checkpoint_step(const struct scene *s, const char *name)
{
    struct pd_durable_tally t;
    if (look_at_disk(s, &t) && t.written) put_number(s, name, (double)t.last_step);
}

static void checkpoint_bytes(const struct scene *s, const char *name)
{
    struct pd_durable_tally t;
    if (look_at_disk(s, &t) && t.written) put_number(s, name, (double)t.last_bytes);
}

static void fsyncs(const struct scene *s, const char *name)
{
    struct pd_histogram all = {0};
    for (int i = 0; i < s->n; i++)
        pd_histogram_join(&all, &s->lanes[i].syncs);
    if (count_of(&all)) put_histogram(s, name, NULL, NULL, &all, pd_histogram_seconds);
}

/* ---- all of them ---- */

static const struct family families[] = {
    {"ps_ready", "gauge", "1 when trainers can train: what /readyz says.", ready},
    {"ps_failed", "gauge", "1 when the job has failed on this server.", failed},
    {"ps_info", "gauge", "Always 1: what this server is, as labels.", info},
    {"ps_uptime_seconds", "gauge", "Since the server was started.", uptime},
    {"ps_step", "gauge", "The last step that is applied.", step},
    {"ps_steps_applied_total", "counter", "Steps that are applied: in async mode those of all trainers.",
     steps_applied},
    {"ps_trainers", "gauge", "Trainers by their state.", trainers},
    {"ps_trainer_step", "gauge", "The last step that is applied for a trainer.", trainer_step},
    {"ps_trainer_late_seconds", "gauge", "How long the present step has waited for this trainer.",
     trainer_late},
    {"ps_trainer_received_bytes_total", "counter", "Bytes from a trainer, by its present connections.",
     trainer_in},
    {"ps_trainer_sent_bytes_total", "counter", "Bytes to a trainer, by its present connections.",
     trainer_out},
    {"ps_barrier_wait_seconds", "histogram",
     "Sync: from the end of a trainer's push to its answer, which waits for the others.", barrier_wait},
    {"ps_staleness_steps", "histogram",
     "Async: steps of others that were applied between a trainer's values and its next push.", staleness},
    {"ps_table_rows", "gauge", "Rows that a table of rows by id has here.", table_rows},
    {"ps_table_bytes", "gauge", "Bytes that a parameter or table holds here.", table_bytes},
    {"ps_gradient_bytes", "gauge", "Bytes of room for dense gradients.", gradient_bytes},
    {"ps_rows_admitted_total", "counter", "Rows that a table made since the server was started.",
     rows_admitted},
    {"ps_rows_evicted_total", "counter", "Rows that expired or made room since the server was started.",
     rows_evicted},
    {"ps_rpc_duration_seconds", "histogram", "Work of a loop on a message, by what it asks for.",
     rpc_duration},
    {"ps_rpc_errors_total", "counter", "Messages that were refused, by status.", rpc_errors},
    {"ps_duplicates_dropped_total", "counter", "Parts of pushes that came twice, and were applied once.",
     duplicates},
    {"ps_connections_refused_total", "counter", "Connections that were not accepted.", connections_refused},
    {"ps_checkpoint_duration_seconds", "summary", "Writing a snapshot, of those that were written.",
     checkpoint_duration},
    {"ps_checkpoints_failed_total", "counter", "Snapshots that could not be written.", checkpoints_failed},
    {"ps_checkpoint_last_step", "gauge", "The number of the newest snapshot that this process wrote.",
     checkpoint_step},
    {"ps_checkpoint_last_bytes", "gauge", "Its size.", checkpoint_bytes},
    {"ps_wal_fsync_seconds", "histogram", "Syncs of the log (FLAGS_ps_log=fsync).", fsyncs},
    {"ps_loop_busy", "gauge", "1 when a loop did not answer within a second.", loop_busy},
    {"ps_loop_cpu_seconds_total", "counter", "Time that a loop has computed.", loop_cpu},
    {"process_resident_memory_bytes", "gauge", "Memory of the process.", resident},
    {"process_cpu_seconds_total", "counter", "Time that the process has computed.", cpu},
};

void pd_status_write_metrics(struct pd_server *server, double uptime_s, const struct pd_lane_report *lanes,
                             int is_ready, struct pd_buf *out)
{
    struct pd_status_whole whole;
    struct scene s = {
        .server = server, .lanes = lanes, .uptime_s = uptime_s, .is_ready = is_ready, .out = out};
    if (lanes && !pd_status_join(server, uptime_s, lanes, &whole)) {
        out->failed = 1;
        return;
    }
    s.n = lanes ? server->n_lanes : 0;
    s.whole = lanes ? &whole : NULL;
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        const struct family *f = &families[i];
        size_t before = out->n;
        pd_buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", f->name, f->help, f->name, f->kind);
        size_t head = out->n;
        f->put(&s, f->name);
        if (out->n == head) out->n = before; /* nothing was measured */
    }
    if (lanes) pd_status_whole_free(&whole);
}
