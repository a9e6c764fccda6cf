/* `paddle ps status`: what a running parameter server holds, whom it knows, who is late. */
#include "cli/command.h"

#include <paddle/paddle.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct settings {
    int as_json;
    double watch; /* seconds; 0: once */
};
_Static_assert(sizeof(struct settings) <= PD_CLI_SETTINGS, "main has room for that");

static const struct pd_cli_option options[] = {
    {.name = "json",
     .kind = PD_CLI_SWITCH,
     .at = offsetof(struct settings, as_json),
     .help = "one line of JSON instead of tables"},
    {.name = "watch",
     .kind = PD_CLI_REAL,
     .at = offsetof(struct settings, watch),
     .value = "SECONDS",
     .least = 0.1,
     .most = 86400,
     .expects = "0.1 to 86400 seconds",
     .help = "again every so many seconds, until the server is gone"},
    {0},
};

static int misused(const char *what, const char *found)
{
    fprintf(stderr, "paddle: ps: %s%s%s%s\n", what, found ? " '" : "", found ? found : "", found ? "'" : "");
    pd_cli_show_help(&pd_cli_ps, stderr);
    return PD_CLI_EXIT_USAGE;
}

static int show(const char *endpoint, int as_json)
{
    pd_bytes text;
    if (pd_ps_status(endpoint, as_json, &text) != PD_OK) {
        fflush(stdout);
        fprintf(stderr, "paddle: ps status: %s\n", pd_error());
        return PD_CLI_EXIT_FAILED;
    }
    fwrite(text.at, 1, text.n, stdout);
    pd_bytes_free(&text);
    return fflush(stdout) == 0 ? PD_CLI_EXIT_OK : PD_CLI_EXIT_FAILED;
}

static void pause_for(double seconds)
{
    struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&t, NULL);
}

static int status(const char *endpoint, const struct settings *asked)
{
    int code = show(endpoint, asked->as_json);
    while (asked->watch > 0 && code == PD_CLI_EXIT_OK) {
        pause_for(asked->watch);
        if (!asked->as_json) fputs(isatty(STDOUT_FILENO) ? "\033[H\033[2J" : "\n", stdout);
        code = show(endpoint, asked->as_json);
    }
    return code;
}

static int run(int argc, char **argv, const void *settings)
{
    if (argc < 2) return misused("say what: status", NULL);
    if (strcmp(argv[1], "status") != 0) return misused("it can tell the status, it cannot", argv[1]);
    if (argc < 3) return misused("the ENDPOINT is missing", NULL);
    if (argc > 3) return misused("one ENDPOINT is enough, found also", argv[3]);
    return status(argv[2], settings);
}

const struct pd_cli_command pd_cli_ps = {
    .name = "ps",
    .arguments = "status ENDPOINT [--json] [--watch SECONDS]",
    .summary = "Show what a running parameter server holds and whom it waits for.",
    .details =
        "Asks the parameter server at ENDPOINT (host:port) for its parameters, its step and mode, the\n"
        "trainers it knows (in, waiting, late, lost, done) and its counters.\n",
    .notes = "The secret, where the server has one, is taken from PADDLE_PS_SECRET or "
             "PADDLE_PS_SECRET_FILE.\n",
    .options = options,
    .run = run,
};
