/* `paddle psbench`: how fast a parameter server is on this machine, beside what the machine can do. */
#include "cli/command.h"

#include <stdio.h>
#include <string.h>

#include "cli/psbench/measure.h"
#include "cli/psbench/show.h"
#include "cli/psbench/why.h"

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

static int read_sizes(const char *text, uint64_t sizes[MAX_SIZES], int *n)
{
    const char *at = text;
    *n = 0;
    if (strcmp(text, "none") == 0) return PD_CLI_EXIT_OK;
    for (;;) {
        const char *end;
        uint64_t size;
        if (*n == MAX_SIZES || !pd_cli_read_count(at, 1024, &size, &end) || (*end && *end != ',') || !size ||
            size % 4)
            return pd_cli_report_value(&pd_cli_psbench, "dense",
                                       "sizes that are multiples of 4 bytes, as in 4K,1M, or none", text);
        sizes[(*n)++] = size;
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

static int run(int argc, char **argv, const void *settings)
{
    const struct settings *set = settings;
    uint64_t sizes[MAX_SIZES];
    struct pd_psbench_options asked = {.ops = ops_of(set->op),
                                       .sizes = sizes,
                                       .rows = set->sparse,
                                       .width = set->width,
                                       .table = set->table,
                                       .connections = (int)set->connections,
                                       .loops = (int)set->loops,
                                       .transport = set->transport,
                                       .seconds = set->seconds,
                                       .optimizer = set->optimizer,
                                       .pins = set->pins};
    struct pd_psbench_shown shown = {.optimizer = set->optimizer, .seconds = set->seconds};
    if (argc > 1) {
        fprintf(stderr,
                "paddle: psbench: '%s' is not an option. It starts and measures a server of its own; "
                "'paddle psbench --help' tells how, 'paddle ps status' asks one that runs.\n",
                argv[1]);
        return PD_CLI_EXIT_USAGE;
    }
    int code = read_sizes(set->dense, sizes, &asked.n_sizes);
    if (code != PD_CLI_EXIT_OK) return code;
    pd_status status =
        pd_psbench_measure(&asked, set->as_json ? pd_psbench_show_json : pd_psbench_show_row, &shown);
    if (set->as_json) printf("%s\n]\n", shown.rows ? "" : "[");
    if (status == PD_OK) return PD_CLI_EXIT_OK;
    fflush(stdout);
    fprintf(stderr, "paddle: psbench: %s\n", pd_psbench_why());
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
