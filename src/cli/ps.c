/* `paddle ps status`: what a running parameter server holds, whom it knows, who is late. */
#include "cli/command.h"

#include <paddle/paddle.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char details[] =
    "Asks the parameter server at ENDPOINT (host:port) for its parameters, its step and mode, the trainers "
    "it\n"
    "knows (in, waiting, late, lost, done) and its counters.\n"
    "    --json            one line of JSON instead of tables\n"
    "    --watch SECONDS   again every so many seconds, until the server is gone\n"
    "The secret, where the server has one, is taken from PADDLE_PS_SECRET or PADDLE_PS_SECRET_FILE.\n";

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

static int status(int argc, char **argv)
{
    const char *endpoint = NULL;
    int as_json = 0;
    double every = 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0) {
            as_json = 1;
        } else if (strcmp(argv[i], "--watch") == 0) {
            char *end = NULL;
            if (++i == argc) return misused("--watch needs a number of seconds", NULL);
            every = strtod(argv[i], &end);
            if (end == argv[i] || *end || !(every >= 0.1 && every <= 86400))
                return misused("--watch takes 0.1 to 86400 seconds, found", argv[i]);
        } else if (argv[i][0] == '-') {
            return misused("there is no option", argv[i]);
        } else if (endpoint) {
            return misused("one ENDPOINT is enough, found also", argv[i]);
        } else {
            endpoint = argv[i];
        }
    }
    if (!endpoint) return misused("the ENDPOINT is missing", NULL);
    int code = show(endpoint, as_json);
    while (every > 0 && code == PD_CLI_EXIT_OK) {
        pause_for(every);
        if (!as_json) fputs(isatty(STDOUT_FILENO) ? "\033[H\033[2J" : "\n", stdout);
        code = show(endpoint, as_json);
    }
    return code;
}

static int run(int argc, char **argv)
{
    if (argc < 2) return misused("say what: status", NULL);
    if (strcmp(argv[1], "status") != 0) return misused("it can tell the status, it cannot", argv[1]);
    return status(argc - 1, argv + 1);
}

const struct pd_cli_command pd_cli_ps = {
    .name = "ps",
    .arguments = "status ENDPOINT [--json] [--watch SECONDS]",
    .summary = "Show what a running parameter server holds and whom it waits for.",
    .details = details,
    .run = run,
};
