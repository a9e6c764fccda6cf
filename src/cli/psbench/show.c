/* See show.h. */
#include "cli/psbench/show.h"

#include <stdio.h>
#include <string.h>

static const char *what_text(const struct pd_psbench_row *row, char text[32])
{
    static const char *const units[] = {"B", "K", "M", "G"};
    double n = (double)row->bytes / (strcmp(row->op, "both") == 0 ? 2 : 1);
    int u = 0;
    if (row->rows) {
        snprintf(text, 32, "%lld rows", (long long)row->rows);
        return text;
    }
    while (n >= 1024 && u < 3)
        n /= 1024, u++;
    snprintf(text, 32, "%.4g %s", n, units[u]);
    return text;
}

/* The table is 100 columns wide at most, whatever the figures (rows of more than 7 digits aside). */
void pd_psbench_show_row(void *arg, const struct pd_psbench_row *row)
{
    struct pd_psbench_shown *shown = arg;
    char what[32];
    double stream = row->bytes_per_s / row->stream_bytes_per_s,
           copy = row->bytes_per_s / row->copy_bytes_per_s, pings = row->ops_per_s / row->pings_per_s;
    what_text(row, what);
    if (!shown->rows++)
        printf("%d %s, %s, %g s each\n%67s %-20s %s\n%-4s %-10s %-4s %9s %7s %9s %9s %9s %6s %6s %6s %8s\n",
               row->connections, row->connections == 1 ? "trainer" : "trainers", shown->optimizer,
               shown->seconds, "", "x of the limit by", "M rows", "op", "what", "via", "ops/s", "GB/s",
               "p50 us", "p99 us", "max us", "stream", "ping", "memcpy", "a CPU s");
    if (strcmp(what, shown->size) != 0) {
        printf("%s: the limits are %.2f GB/s by stream, %.1f pings/s, %.2f GB/s by memcpy\n", what,
               row->stream_bytes_per_s * 1e-9, row->pings_per_s, row->copy_bytes_per_s * 1e-9);
        snprintf(shown->size, sizeof shown->size, "%s", what);
    }
    printf("%-4s %-10s %-4s %9.1f %7.3f %9.1f %9.1f %9.1f %6.2f %6.2f %6.2f", row->op, what, row->transport,
           row->ops_per_s, row->bytes_per_s * 1e-9, row->p50_us, row->p99_us, row->max_us, stream, pings,
           copy);
    if (row->rows) printf(" %8.2f", row->rows_per_cpu_s * 1e-6);
    printf("\n");
    fflush(stdout);
}

void pd_psbench_show_json(void *arg, const struct pd_psbench_row *row)
{
    struct pd_psbench_shown *shown = arg;
    printf(
        "%s\n  {\"op\": \"%s\", \"transport\": \"%s\", \"connections\": %d, \"rows\": %lld, \"bytes\": %llu, "
        "\"operations\": %llu, \"seconds\": %.6f, \"ops_per_s\": %.3f, \"bytes_per_s\": %.1f, \"p50_us\": "
        "%.3f, "
        "\"p90_us\": %.3f, \"p99_us\": %.3f, \"max_us\": %.3f, \"server_cpu_s\": %.6f, \"rows_per_cpu_s\": "
        "%.1f, "
        "\"stream_bytes_per_s\": %.1f, \"copy_bytes_per_s\": %.1f, \"pings_per_s\": %.3f}",
        shown->rows++ ? "," : "[", row->op, row->transport, row->connections, (long long)row->rows,
        (unsigned long long)row->bytes, (unsigned long long)row->operations, row->seconds, row->ops_per_s,
        row->bytes_per_s, row->p50_us, row->p90_us, row->p99_us, row->max_us, row->server_cpu_s,
        row->rows_per_cpu_s, row->stream_bytes_per_s, row->copy_bytes_per_s, row->pings_per_s);
    fflush(stdout);
}
