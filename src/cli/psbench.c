/* `paddle psbench`: how fast a parameter server is on this machine, beside what the machine can do. */
#include "cli/command.h"

#include <errno.h>
#include <math.h>
#include <paddle/paddle.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SIZES = 32 };

/* Short lines each, so that the layout here is what a terminal shows. */
static const char details[] =
    "Starts a parameter server and its trainers on this machine and measures pushes (with the\n"
    "update applied) and pulls, one exchange of a trainer at a time. Before the rows of a size\n"
    "stand the limits of the machine for as many bytes, measured in the same run: a blocking TCP\n"
    "stream between two processes, a ping-pong over one (all bytes there, 48 back) and memcpy.\n"
    "The last columns say how often each figure is the limit. All of it takes about 5 seconds.\n"
    "    --op OP            push, pull or both (default: both; then also a push and a pull in\n"
    "                       one exchange)\n"
    "    --dense SIZES      bytes of a dense parameter, e.g. 4K,1M; none: no dense ones\n"
    "                       (default: 4K,1M,30M)\n"
    "    --sparse ROWS      rows of a sparse push or pull, e.g. 10K; 0: none (default: 10000)\n"
    "    --width N          numbers in a row (default: 8)\n"
    "    --table ROWS       rows of the table; their numbers are drawn uniformly\n"
    "                       (default: 1000000)\n"
    "    --connections N    trainers, each a process (default: 1)\n"
    "    --transport NAME   tcp, shm or auto (default: tcp, then shm)\n"
    "    --loops N          threads of the server; a dense parameter is cut into as many pieces\n"
    "    --seconds S        of each measurement (default: 0.1; longer is steadier)\n"
    "    --optimizer NAME   sgd, momentum, adam, adagrad, ... (default: sgd)\n"
    "    --pin              the server stays on the first core, trainers on the others in turn\n"
    "    --json             a list of objects instead of a table\n"
    "Sizes take K, M and G (1024, 1024^2, 1024^3); rows take K, M and G (1000, ...).\n";

struct asked {
    pd_psbench_options options;
    uint64_t sizes[MAX_SIZES];
    int as_json, rows_shown;
    char shown[32]; /* the size whose limits were shown last */
};

static int misused(const char *option, const char *expected, const char *found)
{
    fprintf(stderr, "paddle: psbench: %s takes %s, found '%s'. 'paddle psbench --help' tells more.\n", option,
            expected, found);
    return PD_CLI_EXIT_USAGE;
}

/* "64", "4K", "1.5M"; *end is behind it. 0: not a number. */
static int read_count(const char *text, double thousand, uint64_t *out, const char **end)
{
    static const char letters[] = "KMG";
    char *after;
    errno = 0;
    double value = strtod(text, &after);
    if (after == text || errno || !(value >= 0)) return 0;
    const char *letter = *after ? strchr(letters, *after & ~0x20) : NULL;
    if (letter) {
        value *= pow(thousand, (double)(letter - letters + 1));
        after++;
    }
    if (value > 9e15) return 0;
    *out = (uint64_t)value;
    *end = after;
    return 1;
}

static int read_sizes(struct asked *asked, const char *text)
{
    const char *at = text;
    asked->options.n_sizes = 0;
    if (strcmp(text, "none") == 0) return PD_CLI_EXIT_OK;
    for (;;) {
        const char *end;
        uint64_t size;
        if (asked->options.n_sizes == MAX_SIZES || !read_count(at, 1024, &size, &end) ||
            (*end && *end != ',') || !size || size % 4)
            return misused("--dense", "sizes that are multiples of 4 bytes, as in 4K,1M, or none", text);
        asked->sizes[asked->options.n_sizes++] = size;
        if (!*end) return PD_CLI_EXIT_OK;
        at = end + 1;
    }
}

static int read_rows(const char *option, const char *text, int64_t least, int64_t *out)
{
    const char *end;
    uint64_t n;
    if (!read_count(text, 1000, &n, &end) || *end || (int64_t)n < least)
        return misused(option, least ? "a number of at least 1" : "a number", text);
    *out = (int64_t)n;
    return PD_CLI_EXIT_OK;
}

static int read_op(struct asked *asked, const char *text)
{
    static const struct {
        const char *name;
        unsigned ops;
    } table[] = {{"push", PD_PSBENCH_PUSH},
                 {"pull", PD_PSBENCH_PULL},
                 {"both", PD_PSBENCH_PUSH | PD_PSBENCH_PULL | PD_PSBENCH_BOTH}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(text, table[i].name) == 0) {
            asked->options.ops = table[i].ops;
            return PD_CLI_EXIT_OK;
        }
    return misused("--op", "push, pull or both", text);
}

static int read_option(struct asked *asked, const char *name, const char *text)
{
    pd_psbench_options *o = &asked->options;
    int64_t n = 0;
    int code = PD_CLI_EXIT_OK;
    if (strcmp(name, "--op") == 0) return read_op(asked, text);
    if (strcmp(name, "--dense") == 0) return read_sizes(asked, text);
    if (strcmp(name, "--sparse") == 0) return read_rows(name, text, 0, &o->rows);
    if (strcmp(name, "--width") == 0) return read_rows(name, text, 1, &o->width);
    if (strcmp(name, "--table") == 0) return read_rows(name, text, 1, &o->table);
    if (strcmp(name, "--connections") == 0 || strcmp(name, "--loops") == 0) {
        code = read_rows(name, text, 1, &n);
        if (code == PD_CLI_EXIT_OK && n > 1000000) return misused(name, "a smaller number", text);
        if (code == PD_CLI_EXIT_OK) *(name[2] == 'c' ? &o->connections : &o->loops) = (int)n;
        return code;
    }
    if (strcmp(name, "--transport") == 0) {
        if (strcmp(text, "tcp") != 0 && strcmp(text, "shm") != 0 && strcmp(text, "auto") != 0)
            return misused(name, "tcp, shm or auto", text);
        o->transport = text;
        return PD_CLI_EXIT_OK;
    }
    if (strcmp(name, "--seconds") == 0) {
        char *end;
        o->seconds = strtod(text, &end);
        return end == text || *end || !(o->seconds > 0) ? misused(name, "a number above 0", text) : code;
    }
    o->optimizer = text; /* --optimizer */
    return code;
}

static int read_options(struct asked *asked, int argc, char **argv)
{
    static const char *const with_value[] = {"--op",      "--dense",       "--sparse",    "--width",
                                             "--table",   "--connections", "--transport", "--loops",
                                             "--seconds", "--optimizer",   NULL};
    for (int i = 1; i < argc; i++) {
        int known = 0;
        if (strcmp(argv[i], "--json") == 0) {
            asked->as_json = 1;
            continue;
        }
        if (strcmp(argv[i], "--pin") == 0) {
            asked->options.pins = 1;
            continue;
        }
        for (int k = 0; with_value[k]; k++)
            known |= strcmp(argv[i], with_value[k]) == 0;
        if (!known && argv[i][0] != '-') {
            fprintf(stderr,
                    "paddle: psbench: '%s' is not an option. It starts and measures a server of its own; "
                    "'paddle psbench --help' tells how, 'paddle ps status' asks one that runs.\n",
                    argv[i]);
            return PD_CLI_EXIT_USAGE;
        }
        if (!known) {
            fprintf(stderr, "paddle: psbench: there is no option '%s'. 'paddle psbench --help' lists them.\n",
                    argv[i]);
            return PD_CLI_EXIT_USAGE;
        }
        if (i + 1 == argc) {
            fprintf(stderr, "paddle: psbench: %s needs a value. 'paddle psbench --help' tells which.\n",
                    argv[i]);
            return PD_CLI_EXIT_USAGE;
        }
        int code = read_option(asked, argv[i], argv[i + 1]);
        if (code != PD_CLI_EXIT_OK) return code;
        i++;
    }
    return PD_CLI_EXIT_OK;
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

static int run(int argc, char **argv)
{
    struct asked asked = {
        .options = {.n_sizes = 3,
                    .rows = 10000,
                    .width = 8,
                    .table = 1000000,
                    .connections = 1,
                    .seconds = 0.1,
                    .optimizer = "sgd"},
        .sizes = {4 << 10, 1 << 20, 30 << 20},
    };
    int code = read_options(&asked, argc, argv);
    if (code != PD_CLI_EXIT_OK) return code;
    asked.options.sizes = asked.sizes;
    pd_status status = pd_psbench(&asked.options, asked.as_json ? show_json : show_row, &asked);
    if (asked.as_json) printf("%s\n]\n", asked.rows_shown ? "" : "[");
    if (status == PD_OK) return PD_CLI_EXIT_OK;
    fflush(stdout);
    fprintf(stderr, "paddle: psbench: %s\n", pd_error());
    return PD_CLI_EXIT_FAILED;
}

const struct pd_cli_command pd_cli_psbench = {
    .name = "psbench",
    .arguments = "[options]",
    .summary = "Measure a parameter server on this machine, beside the machine's limits.",
    .details = details,
    .run = run,
};
