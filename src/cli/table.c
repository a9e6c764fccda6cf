/* `paddle table`: looks at tables of rows by id that lie in files, and brings them into one portable file and
 * back. The work is Python (paddle.tables); it gets every setting as name=value, then "--" and the words. */
#include "cli/command.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct settings {
    const char *table, *output, *format, *on_duplicate, *name, *id;
    int64_t rows, parts, height, memory;
    int states, overwrite, as_json;
};
_Static_assert(sizeof(struct settings) <= PD_CLI_SETTINGS, "main has room for that");

#define AT(field) .at = offsetof(struct settings, field)
static const struct pd_cli_option options[] = {
    {"table", PD_CLI_TEXT, AT(table), .value = "NAME", .help = "which table, where there are several"},
    {"rows", PD_CLI_COUNT, AT(rows), .value = "N", .help = "inspect: show the first N rows, too"},
    {"id", PD_CLI_TEXT, AT(id), .value = "ID", .help = "inspect: show the row of this id, and nothing else"},
    {"json", PD_CLI_SWITCH, AT(as_json), .help = "inspect: one line of JSON"},
    {"output", PD_CLI_TEXT, AT(output), .value = "PATH",
     .help = "the file that is written; of the format numpy a folder, of parts the model's folder"},
    {"format", PD_CLI_CHOICE, AT(format), .value = "safetensors|npz|numpy|text|parts",
     .help = "how it is written (default: what PATH ends in says, else safetensors)"},
    {"on-duplicate", PD_CLI_CHOICE, AT(on_duplicate), .value = "first|sum|mean",
     .help = "what comes of rows of one id (default: they are an error)"},
    {"states", PD_CLI_SWITCH, AT(states), .preset = "1",
     .help = "with the optimizer's states; --nostates leaves them out"},
    {"parts", PD_CLI_COUNT, AT(parts), .value = "N", .preset = "1", .least = 1, .most = 1000,
     .help = "how many parts the format parts has; servers load any number"},
    {"name", PD_CLI_TEXT, AT(name), .value = "NAME", .help = "what the table is called from now on"},
    {"height", PD_CLI_COUNT, AT(height), .value = "N",
     .help = "ids are below it, as in the job that will load the parts; 0: as it is"},
    {"memory", PD_CLI_COUNT, AT(memory), .value = "BYTES", .preset = "256M", .least = 1e6, .most = 1e12,
     .help = "about what it uses; what does not fit goes through files beside PATH"},
    {"overwrite", PD_CLI_SWITCH, AT(overwrite), .help = "PATH may exist"},
    {0},
};

static const char *const works[] = {"inspect", "export", "merge"};
enum { WORKS = sizeof works / sizeof works[0], SETTINGS = sizeof options / sizeof options[0] - 1 };

static int misused(const char *why, const char *found)
{
    fprintf(stderr, "paddle: table: %s%s%s%s. Usage: paddle table %s\n", why, found ? " '" : "",
            found ? found : "", found ? "'" : "", pd_cli_table.arguments);
    return PD_CLI_EXIT_USAGE;
}

static int report_unknown(const char *typed)
{
    struct pd_cli_nearest nearest = {.name = typed};
    for (int i = 0; i < WORKS; i++)
        pd_cli_offer(&nearest, works[i]);
    fprintf(stderr, "paddle: table: it can inspect, export and merge, it cannot '%s'.", typed);
    if (nearest.best) fprintf(stderr, " Did you mean '%s'?", nearest.best);
    fputs(" 'paddle table --help' tells more.\n", stderr);
    return PD_CLI_EXIT_USAGE;
}

/* "on_duplicate=sum"; a word of its own. NULL: no memory. */
static char *written(const struct pd_cli_option *o, const void *settings)
{
    const void *at = (const char *)settings + o->at;
    char number[32] = "";
    const char *text = number;
    if (o->kind == PD_CLI_SWITCH)
        snprintf(number, sizeof number, "%d", *(const int *)at);
    else if (o->kind == PD_CLI_COUNT)
        snprintf(number, sizeof number, "%" PRId64, *(const int64_t *)at);
    else
        text = *(const char *const *)at ? *(const char *const *)at : "";
    size_t n = strlen(o->name) + strlen(text) + 2;
    char *word = malloc(n);
    if (!word) return NULL;
    snprintf(word, n, "%s=%s", o->name, text);
    for (char *c = word; *c && *c != '='; c++)
        if (*c == '-') *c = '_';
    return word;
}

static int start(int argc, char **argv, const void *settings)
{
    int code = PD_CLI_EXIT_FAILED, n = 0;
    char dashes[] = "--";
    char **words = calloc(SETTINGS + (size_t)argc, sizeof *words);
    for (; words && n < SETTINGS && (words[n] = written(&options[n], settings)); n++)
        ;
    if (n == SETTINGS) {
        words[SETTINGS] = dashes;
        memcpy(words + SETTINGS + 1, argv + 1, ((size_t)argc - 1) * sizeof *argv);
        code = pd_cli_become_python("table", "paddle.tables.command", SETTINGS + argc, words);
    } else {
        fprintf(stderr, "paddle: table: no memory for its words\n");
    }
    for (int i = 0; i < n; i++)
        free(words[i]);
    free(words);
    return code;
}

static int run(int argc, char **argv, const void *settings)
{
    const struct settings *s = settings;
    int known = 0;
    if (argc < 2) return misused("say what: inspect, export or merge", NULL);
    for (int i = 0; i < WORKS; i++)
        known |= strcmp(argv[1], works[i]) == 0;
    if (!known) return report_unknown(argv[1]);
    if (argc < 3) return misused("the PATH is missing", NULL);
    int writes = strcmp(argv[1], works[0]) != 0;
    if (writes && !(s->output && *s->output)) return misused("say where to write: --output PATH", NULL);
    if (!writes && s->output) return misused("inspect writes nothing, found --output", s->output);
    return start(argc, argv, settings);
}

const struct pd_cli_command pd_cli_table = {
    .name = "table",
    .arguments = "inspect|export|merge PATH... [options]",
    .summary = "Look at tables of rows by id in files; write them as one portable file.",
    .details =
        "PATH is a folder that save_persistables wrote, a folder of server snapshots (FLAGS_ps_dir), one\n"
        "part, or a file that export wrote.\n"
        "\n"
        "    paddle table inspect model                    rows, ids, norms of each table\n"
        "    paddle table inspect model --table emb --id 7\n"
        "    paddle table export model --output emb.safetensors\n"
        "    paddle table export emb.safetensors --format parts --output model2\n"
        "    paddle table merge monday tuesday --on-duplicate mean --output both.npz\n"
        "\n"
        "Rows are written in the order of their ids, so that tables that have the same rows give the same\n"
        "file, of however many servers they come. A table may be larger than memory.\n"
        "\n",
    .notes = "\ndocs/TABLES.md tells what is in the files.\n",
    .options = options,
    .run = run,
};
