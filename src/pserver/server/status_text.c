/* A server's status in words: a table for people, JSON for programs; see status.h. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "pserver/server/server_private.h"
#include "pserver/server/status.h"

/* A step waits for someone at every moment; past this it is worth a word. */
static const double late_s = 1;

uint64_t pd_status_resident_bytes(void)
{
    unsigned long long all = 0, here = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (!file) return 0;
    int n = fscanf(file, "%llu %llu", &all, &here);
    fclose(file);
    return n == 2 ? here * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

static const char *word_of(const struct pd_trainer_line *line, int connected, int waits)
{
    switch (line->any->state) {
    case PD_TRAINER_ABSENT:
        return "absent";
    case PD_TRAINER_DONE:
        return "done";
    case PD_TRAINER_LOST:
        return "lost";
    default:
        if (!connected) return "lost";
        return line->late_s >= late_s ? "late" : waits ? "waiting" : "in";
    }
}

/* One trainer: it is as late as on its latest lane, and has done what all lanes have seen. */
static void join_trainer(struct pd_status_whole *w, int t)
{
    struct pd_trainer_line line = {0};
    int connected = 1, waits = 0;
    for (int i = 0; i < w->server->n_lanes; i++) {
        if (!w->lanes[i].is_known) continue;
        const struct pd_trainer_report *r = &w->lanes[i].trainers.at[t];
        if (!line.any || (!line.any->is_connected && r->is_connected)) line.any = r;
        if (r->is_late && w->lanes[i].waited_s > line.late_s) line.late_s = w->lanes[i].waited_s;
        if (r->away_s > line.away_s) line.away_s = r->away_s;
        if (line.any == r || r->step < line.step) line.step = r->step;
        connected &= r->is_connected;
        waits |= r->waits;
        line.in += r->in;
        line.out += r->out;
    }
    if (!line.any) return;
    line.state = word_of(&line, connected, waits);
    w->trainers.at[w->trainers.n++] = line;
}

int pd_status_join(struct pd_server *s, double uptime_s, const struct pd_lane_report *lanes,
                   struct pd_status_whole *w)
{
    *w = (struct pd_status_whole){.server = s, .lanes = lanes, .uptime_s = uptime_s};
    pthread_mutex_lock(&s->lock);
    w->failed = s->failed;
    snprintf(w->failure, sizeof w->failure, "%s", s->failed ? s->failure_text : "");
    pthread_mutex_unlock(&s->lock);
    w->memory = pd_status_resident_bytes();
    w->rows = -1;
    for (int i = 0; i < s->n_lanes; i++) {
        const struct pd_lane_report *r = &w->lanes[i];
        if (!r->is_known) continue;
        if (!w->n_known++ || r->step < w->step) w->step = r->step;
        if (r->waited_s > w->waited_s) w->waited_s = r->waited_s;
        w->parameters += r->parameters;
        w->bytes += r->bytes;
        if (r->rows >= 0) w->rows = (w->rows < 0 ? 0 : w->rows) + r->rows;
        w->repeated += r->repeated;
        w->refused += r->refused;
        w->cpu_s += r->cpu_s;
    }
    if (!pd_vec_reserve(&w->trainers, s->config.trainers)) return 0;
    for (int t = 0; t < s->config.trainers; t++)
        join_trainer(w, t);
    w->applied = s->config.is_sync ? w->step : 0;
    for (int i = 0; !s->config.is_sync && i < w->trainers.n; i++)
        w->applied += w->trainers.at[i].step;
    return 1;
}

void pd_status_whole_free(struct pd_status_whole *w)
{
    pd_vec_free(&w->trainers);
}

static int is_waited_for(const struct pd_status_whole *w, int t)
{
    for (int i = 0; i < w->server->n_lanes; i++)
        if (w->lanes[i].is_known && w->lanes[i].trainers.at[t].is_late) return 1;
    return 0;
}

/* ---- JSON ---- */

static void put_text(struct pd_buf *out, const char *text)
{
    pd_buf_text(out, "\"");
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            pd_buf_printf(out, "\\%c", c);
        else if (c < 0x20)
            pd_buf_printf(out, "\\u%04x", c);
        else
            pd_buf_add(out, text, 1);
    }
    pd_buf_text(out, "\"");
}

static void put_key(struct pd_buf *out, const char *key, const char *text)
{
    pd_buf_printf(out, "\"%s\": ", key);
    put_text(out, text);
    pd_buf_text(out, ", ");
}

static void put_lane(struct pd_buf *out, int index, const struct pd_lane_report *r)
{
    pd_buf_printf(out, "%s{\"loop\": %d, \"busy\": %s", index ? ", " : "", index,
                  r->is_known ? "false" : "true");
    if (r->is_known)
        pd_buf_printf(out,
                      ", \"parameters\": %d, \"bytes\": %llu, \"step\": %llu, \"cpu_s\": %.6f, "
                      "\"waited_s\": %.3f, \"parts_repeated\": %llu, \"messages_refused\": %llu, "
                      "\"gradient_bytes\": %llu",
                      r->parameters, (unsigned long long)r->bytes, (unsigned long long)r->step, r->cpu_s,
                      r->waited_s, (unsigned long long)r->repeated, (unsigned long long)r->refused,
                      (unsigned long long)r->held);
    pd_buf_text(out, "}");
}

/* With its rows, where it is a table of rows by id. */
static void put_tables(struct pd_buf *out, const struct pd_status_whole *w)
{
    const char *comma = "";
    for (int i = 0; i < w->server->n_lanes; i++)
        for (int t = 0; t < w->lanes[i].tables.n; t++, comma = ", ") {
            const struct pd_table_report *r = &w->lanes[i].tables.at[t];
            pd_buf_printf(out, "%s{", comma);
            put_key(out, "name", r->name);
            pd_buf_printf(out, "\"bytes\": %llu", (unsigned long long)r->bytes);
            if (r->rows >= 0) pd_buf_printf(out, ", \"rows\": %lld", (long long)r->rows);
            pd_buf_text(out, "}");
        }
}

static void put_trainer(struct pd_buf *out, int first, const struct pd_trainer_line *t)
{
    pd_buf_printf(out, "%s{\"id\": %d, \"state\": \"%s\", ", first ? "" : ", ", t->any->trainer, t->state);
    put_key(out, "host", t->any->host);
    put_key(out, "address", t->any->peer);
    put_key(out, "transport", t->any->transport);
    pd_buf_printf(out,
                  "\"pid\": %u, \"step\": %llu, \"bytes_in\": %llu, \"bytes_out\": %llu, \"late_s\": %.3f, "
                  "\"away_s\": %.3f}",
                  t->any->pid, (unsigned long long)t->step, (unsigned long long)t->in,
                  (unsigned long long)t->out, t->late_s, t->away_s);
}

static void write_json(const struct pd_status_whole *w, const char *host, struct pd_buf *out)
{
    const struct pd_server *s = w->server;
    int first = 1;
    char rows[40] = "";
    if (w->rows >= 0) snprintf(rows, sizeof rows, ", \"rows\": %lld", (long long)w->rows);
    pd_buf_text(out, "{");
    put_key(out, "endpoint", s->config.endpoint);
    put_key(out, "host", host);
    put_key(out, "job", s->config.job);
    put_key(out, "mode", s->config.is_sync ? "sync" : "async");
    put_key(out, "state", w->failed ? "failed" : "running");
    put_key(out, "failure", w->failure);
    pd_buf_printf(
        out,
        "\"port\": %d, \"pid\": %d, \"incarnation\": \"%016llx\", \"uptime_s\": %.3f, "
        "\"memory_bytes\": %llu, \"cpu_s\": %.6f, \"step\": %llu, \"waited_s\": %.3f, "
        "\"parameters\": {\"count\": %d, \"bytes\": %llu%s}, \"counters\": {\"steps_applied\": %llu, "
        "\"parts_repeated\": %llu, \"messages_refused\": %llu, \"connections_refused\": %llu}, \"loops\": [",
        pd_server_port(s), (int)getpid(), (unsigned long long)s->incarnation, w->uptime_s,
        (unsigned long long)w->memory, w->cpu_s, (unsigned long long)w->step, w->waited_s, w->parameters,
        (unsigned long long)w->bytes, rows, (unsigned long long)w->applied, (unsigned long long)w->repeated,
        (unsigned long long)w->refused, (unsigned long long)pd_listener_refused(s->listener));
    for (int i = 0; i < s->n_lanes; i++)
        put_lane(out, i, &w->lanes[i]);
    pd_buf_text(out, "], \"tables\": [");
    put_tables(out, w);
    pd_buf_printf(out, "], \"trainers_expected\": %d, \"trainers\": [", s->config.trainers);
    for (int i = 0; i < w->trainers.n; i++)
        put_trainer(out, i == 0, &w->trainers.at[i]);
    pd_buf_text(out, "], \"waits_for\": [");
    for (int t = 0; t < s->config.trainers; t++)
        if (is_waited_for(w, t)) {
            pd_buf_printf(out, "%s%d", first ? "" : ", ", t);
            first = 0;
        }
    pd_buf_text(out, "]}\n");
}

/* ---- for people ---- */

static const char *size_text(uint64_t bytes, char text[24])
{
    static const char *const units[] = {"B", "KB", "MB", "GB", "TB"};
    double n = (double)bytes;
    int u = 0;
    while (n >= 1000 && u < 4)
        n /= 1000, u++;
    snprintf(text, 24, u ? "%.1f %s" : "%.0f %s", n, units[u]);
    return text;
}

static const char *time_text(double seconds, char text[24])
{
    if (seconds < 120)
        snprintf(text, 24, "%.1f s", seconds);
    else if (seconds < 7200)
        snprintf(text, 24, "%.1f min", seconds / 60);
    else
        snprintf(text, 24, "%.1f h", seconds / 3600);
    return text;
}

static void write_waiting(const struct pd_status_whole *w, struct pd_buf *out)
{
    char time[24];
    int n = 0;
    for (int t = 0; t < w->server->config.trainers; t++)
        if (is_waited_for(w, t)) {
            if (n < 16)
                pd_buf_printf(out, "%strainer %d", n ? ", " : "; the next one waits for ", t);
            else if (n == 16)
                pd_buf_text(out, ", ...");
            n++;
        }
    if (n && w->waited_s > 0) pd_buf_printf(out, " (%s)", time_text(w->waited_s, time));
    pd_buf_text(out, "\n");
}

static void write_lanes(const struct pd_status_whole *w, struct pd_buf *out)
{
    char size[24];
    pd_buf_printf(out, "\n%-6s %10s %10s %10s %10s %9s %8s\n", "loop", "parameters", "bytes", "step", "CPU s",
                  "repeated", "refused");
    for (int i = 0; i < w->server->n_lanes; i++) {
        const struct pd_lane_report *r = &w->lanes[i];
        if (!r->is_known)
            pd_buf_printf(out, "%-6d busy: it has not answered within a second\n", i);
        else
            pd_buf_printf(out, "%-6d %10d %10s %10llu %10.2f %9llu %8llu\n", i, r->parameters,
                          size_text(r->bytes, size), (unsigned long long)r->step, r->cpu_s,
                          (unsigned long long)r->repeated, (unsigned long long)r->refused);
    }
}

static void write_trainers(const struct pd_status_whole *w, struct pd_buf *out)
{
    char in[24], sent[24], time[24], state[48];
    if (!w->trainers.n) return;
    pd_buf_printf(out, "\n%-8s %-14s %10s %-9s %10s %10s  %s\n", "trainer", "state", "step", "transport",
                  "in", "out", "where");
    for (int i = 0; i < w->trainers.n; i++) {
        const struct pd_trainer_line *t = &w->trainers.at[i];
        snprintf(state, sizeof state, "%s", t->state);
        if (strcmp(t->state, "late") == 0)
            snprintf(state, sizeof state, "late %s", time_text(t->late_s, time));
        if (t->away_s > 0) snprintf(state, sizeof state, "lost %s", time_text(t->away_s, time));
        pd_buf_printf(out, "%-8d %-14s %10llu %-9s %10s %10s  ", t->any->trainer, state,
                      (unsigned long long)t->step, t->any->transport[0] ? t->any->transport : "-",
                      size_text(t->in, in), size_text(t->out, sent));
        if (t->any->is_connected)
            pd_buf_printf(out, "%s, pid %u, %s\n", t->any->host, t->any->pid, t->any->peer);
        else
            pd_buf_text(out, "-\n");
    }
}

static void write_table(const struct pd_status_whole *w, const char *host, struct pd_buf *out)
{
    const struct pd_server *s = w->server;
    char a[24], b[24];
    pd_buf_printf(out, "server %s (%s, pid %d, incarnation %016llx), up %s, %s of memory\n",
                  s->config.endpoint, host, (int)getpid(), (unsigned long long)s->incarnation,
                  time_text(w->uptime_s, a), size_text(w->memory, b));
    pd_buf_printf(out, "job %s, %s mode, %d trainer%s, ", s->config.job[0] ? s->config.job : "without a name",
                  s->config.is_sync ? "sync" : "async", s->config.trainers,
                  s->config.trainers == 1 ? "" : "s");
    if (w->parameters || w->n_known < s->n_lanes) /* some may be in a loop that is busy */
        pd_buf_printf(out, "%d parameter%s of %s", w->parameters, w->parameters == 1 ? "" : "s",
                      size_text(w->bytes, a));
    else
        pd_buf_text(out, "no parameters: a job of this size needs fewer servers");
    if (w->rows >= 0) pd_buf_printf(out, ", %lld rows by id", (long long)w->rows);
    pd_buf_text(out, "\n");
    if (w->failed) pd_buf_printf(out, "FAILED: %s\n", w->failure);
    pd_buf_printf(out, "step %llu is applied", (unsigned long long)w->step);
    write_waiting(w, out);
    pd_buf_printf(out,
                  "counters: %llu steps applied, %llu parts repeated, %llu messages refused, %llu "
                  "connections refused\n",
                  (unsigned long long)w->applied, (unsigned long long)w->repeated,
                  (unsigned long long)w->refused, (unsigned long long)pd_listener_refused(s->listener));
    write_lanes(w, out);
    write_trainers(w, out);
}

void pd_status_write(struct pd_server *server, double uptime_s, const struct pd_lane_report *lanes,
                     int as_json, struct pd_buf *out)
{
    struct pd_status_whole w;
    char host[64] = "";
    gethostname(host, sizeof host - 1);
    if (!pd_status_join(server, uptime_s, lanes, &w))
        out->failed = 1;
    else if (as_json)
        write_json(&w, host, out);
    else
        write_table(&w, host, out);
    pd_status_whole_free(&w);
}
