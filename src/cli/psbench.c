/* `paddle psbench`: how fast a parameter server is on this machine, beside what the machine can do. */
#include "cli/command.h"

#include <paddle/paddle.h>
#include <stdio.h>
#include <string.h>

enum { MAX_SIZES = 32 };

struct settings {
    const char *op, *dense, *transport, *optimizer;
    int64_t sparse, width, table, connections, loops;
    double seconds;
    int pins, as_json;
};
_Static_assert(sizeof(struct settings) <= PD_CLI_SETTINGS, "main has room for that");

#define AT(field) .at = offsetof(struct settings, field)
static const struct pd_cli_option options[] = {
    {"op", PD_CLI_CHOICE, AT(op), .value = "push|pull|both", .preset = "both",
     .help = "both: also a push and a pull in one exchange"},
    {"dense", PD_CLI_TEXT, AT(dense), .value = "SIZES", .preset = "4K,1M,30M",
     .help = "bytes of a dense parameter, e.g. 4K,1M; none: no dense ones"},
    {"sparse", PD_CLI_COUNT, AT(sparse), .value = "ROWS", .preset = "10000",
     .help = "rows of a sparse push or pull, e.g. 10K; 0: none"},
    {"width", PD_CLI_COUNT, AT(width), .value = "N", .preset = "8", .least = 1, .most = 1e15,
     .help = "numbers in a row"},
    {"table", PD_CLI_COUNT, AT(table), .value = "ROWS", .preset = "1000000", .least = 1, .most = 1e15,
     .help = "rows of the table; their numbers are drawn uniformly"},
    {"connections", PD_CLI_COUNT, AT(connections), .value = "N", .preset = "1", .least = 1, .most = 1e6,
     .expects = "a number of at least 1 (and a million at most)", .help = "trainers, each a process"},
    {"transport", PD_CLI_CHOICE, AT(transport), .value = "tcp|shm|auto",
     .help = "how they talk (default: tcp, then shm)"},
    {"loops", PD_CLI_COUNT, AT(loops), .value = "N", .least = 1, .most = 1e6,
     .expects = "a number of at least 1 (and a million at most)",
     .help = "threads of the server; a dense parameter is cut into as many pieces"},
    {"seconds", PD_CLI_REAL, AT(seconds), .value = "S", .preset = "0.1", .least = 1e-9, .most = 1e9,
     .expects = "a number above 0", .help = "of each measurement; longer is steadier"},
    {"optimizer", PD_CLI_TEXT, AT(optimizer), .value = "NAME", .preset = "sgd",
     .help = "sgd, momentum, adam, adagrad, ..."},
    {"pin", PD_CLI_SWITCH, AT(pins),
     .help = "the server stays on the first core, trainers on the others in turn"},
    {"json", PD_CLI_SWITCH, AT(as_json), .help = "a list of objects instead of a table"},
    {0},
};

struct asked {
    pd_psbench_options options;
    uint64_t sizes[MAX_SIZES];
    int rows_shown;
    char shown[32]; /* the size whose limits were shown last */
};

static int read_sizes(struct asked *asked, const char *text)
{
    const char *at = text;
    asked->options.n_sizes = 0;
    if (strcmp(text, "none") == 0) return PD_CLI_EXIT_OK;
    for (;;) {
        const char *end;
        uint64_t size;
        if (asked->options.n_sizes == MAX_SIZES || !pd_cli_read_count(at, 1024, &size, &end) ||
            (*end && *end != ',') || !size || size % 4)
            return pd_cli_report_value(&pd_cli_psbench, "dense",
                                       "sizes that are multiples of 4 bytes, as in 4K,1M, or none", text);
        asked->sizes[asked->options.n_sizes++] = size;
        if (!*end) return PD_CLI_EXIT_OK;
        at = end + 1;
    }
}

static unsigned ops_of(const char *op)
{
    if (strcmp(op, "push") == 0) return PD_PSBENCH_PUSH;
    if (strcmp(op, "pull") == 0) return PD_PSBENCH_PULL;
    return PD_PSBENCH_PUSH | PD_PSBENCH_PULL | PD_PSBENCH_BOTH;
}

/* ---- what it prints ---- */

static const char *what_text(const pd_psbench_row *row, char text[32])
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
static void show_row(void *arg, const pd_psbench_row *row)
{
    struct asked *asked = arg;
    char what[32];
    double stream = row->bytes_per_s / row->stream_bytes_per_s,
           copy = row->bytes_per_s / row->copy_bytes_per_s, pings = row->ops_per_s / row->pings_per_s;
    what_text(row, what);
    if (!asked->rows_shown++)
        printf("%d %s, %s, %g s each\n%67s %-20s %s\n%-4s %-10s %-4s %9s %7s %9s %9s %9s %6s %6s %6s %8s\n",
               row->connections, row->connections == 1 ? "trainer" : "trainers", asked->options.optimizer,
               asked->options.seconds, "", "x of the limit by", "M rows", "op", "what", "via", "ops/s",
               "GB/s", "p50 us", "p99 us", "max us", "stream", "ping", "memcpy", "a CPU s");
    if (strcmp(what, asked->shown) != 0) {
        printf("%s: the limits are %.2f GB/s by stream, %.1f pings/s, %.2f GB/s by memcpy\n", what,
               row->stream_bytes_per_s * 1e-9, row->pings_per_s, row->copy_bytes_per_s * 1e-9);
        snprintf(asked->shown, sizeof asked->shown, "%s", what);
    }
    printf("%-4s %-10s %-4s %9.1f %7.3f %9.1f %9.1f %9.1f %6.2f %6.2f %6.2f", row->op, what, row->transport,
           row->ops_per_s, row->bytes_per_s * 1e-9, row->p50_us, row->p99_us, row->max_us, stream, pings,
           copy);
    if (row->rows) printf(" %8.2f", row->rows_per_cpu_s * 1e-6);
    printf("\n");
    fflush(stdout);
}

static void show_json(void *arg, const pd_psbench_row *row)
{
    struct asked *asked = arg;
    printf(
        "%s\n  {\"op\": \"%s\", \"transport\": \"%s\", \"connections\": %d, \"rows\": %lld, \"bytes\": %llu, "
        "\"operations\": %llu, \"seconds\": %.6f, \"ops_per_s\": %.3f, \"bytes_per_s\": %.1f, \"p50_us\": "
        "%.3f, "
        "\"p90_us\": %.3f, \"p99_us\": %.3f, \"max_us\": %.3f, \"server_cpu_s\": %.6f, \"rows_per_cpu_s\": "
        "%.1f, "
        "\"stream_bytes_per_s\": %.1f, \"copy_bytes_per_s\": %.1f, \"pings_per_s\": %.3f}",
        asked->rows_shown++ ? "," : "[", row->op, row->transport, row->connections, (long long)row->rows,
        (unsigned long long)row->bytes, (unsigned long long)row->operations, row->seconds, row->ops_per_s,
        row->bytes_per_s, row->p50_us, row->p90_us, row->p99_us, row->max_us, row->server_cpu_s,
        row->rows_per_cpu_s, row->stream_bytes_per_s, row->copy_bytes_per_s, row->pings_per_s);
    fflush(stdout);
}

static int run(int argc, char **argv, const void *settings)
{
    const struct settings *set = settings;
    struct asked asked = {.options = {.ops = ops_of(set->op),
                                      .rows = set->sparse,
                                      .width = set->width,
                                      .table = set->table,
                                      .connections = (int)set->connections,
                                      .loops = (int)set->loops,
                                      .transport = set->transport,
                                      .seconds = set->seconds,
                                      .optimizer = set->optimizer,
                                      .pins = set->pins}};
    if (argc > 1) {
        fprintf(stderr,
                "paddle: psbench: '%s' is not an option. It starts and measures a server of its own; "
                "'paddle psbench --help' tells how, 'paddle ps status' asks one that runs.\n",
                argv[1]);
        return PD_CLI_EXIT_USAGE;
    }
    int code = read_sizes(&asked, set->dense);
    if (code != PD_CLI_EXIT_OK) return code;
    asked.options.sizes = asked.sizes;
    pd_status status = pd_psbench(&asked.options, set->as_json ? show_json : show_row, &asked);
    if (set->as_json) printf("%s\n]\n", asked.rows_shown ? "" : "[");
    if (status == PD_OK) return PD_CLI_EXIT_OK;
    fflush(stdout);
    fprintf(stderr, "paddle: psbench: %s\n", pd_error());
    return PD_CLI_EXIT_FAILED;
}

const struct pd_cli_command pd_cli_psbench = {
    .name = "psbench",
    .arguments = "[options]",
    .summary = "Measure a parameter server on this machine, beside the machine's limits.",
    .details = "Starts a parameter server and its trainers on this machine and measures pushes (with the\n"
               "update applied) and pulls, one exchange of a trainer at a time. Before the rows of a size\n"
               "stand the limits of the machine for as many bytes, measured in the same run: a blocking TCP\n"
               "stream between two processes, a ping-pong over one (all bytes there, 48 back) and memcpy.\n"
               "The last columns say how often each figure is the limit. All of it takes about 5 seconds.\n",
    .notes = "Sizes take K, M and G (1024, 1024^2, 1024^3); rows take K, M and G (1000, ...).\n",
    .options = options,
    .run = run,
};
