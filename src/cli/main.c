/* The `paddle` command: finds the command named first in its table and runs it with the rest. */
#include "cli/command.h"

#include <paddle/paddle.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

const char *pd_cli_called = "paddle";

/* A full disk or a closed pipe shows only when the output is flushed; then the run has failed after all. */
static int finish(int code)
{
    if (fflush(stdout) != 0 || ferror(stdout)) {
        perror("paddle: the output could not be written");
        return code == PD_CLI_EXIT_OK ? PD_CLI_EXIT_FAILED : code;
    }
    return code;
}

int main(int argc, char **argv)
{
    const struct pd_cli_command *command;

    pd_log_set(pd_log_to_stderr, NULL);
    if (argc > 0) pd_cli_called = argv[0];
    if (argc < 2) {
        char *help[] = {(char *)"help", NULL};
        pd_cli_help.run(1, help, NULL);
        return finish(PD_CLI_EXIT_USAGE);
    }
    command = pd_cli_find(argv[1]);
    if (!command) return pd_cli_report_unknown(argv[1]);
    if (command->as_given) return finish(command->run(argc - 1, argv + 1, NULL));
    for (int i = 2; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            pd_cli_show_help(command, stdout);
            return finish(PD_CLI_EXIT_OK);
        }
    _Alignas(max_align_t) char settings[PD_CLI_SETTINGS] = {0};
    int words = pd_cli_read_options(command, settings, argc - 1, argv + 1);
    return finish(words < 0 ? PD_CLI_EXIT_USAGE : command->run(words, argv + 1, settings));
}
