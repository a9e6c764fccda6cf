/* `paddle help`: the list of commands, or how one of them is called. */
#include "cli/command.h"

#include <stddef.h>
#include <stdio.h>

static int run(int argc, char **argv)
{
    if (argc > 2) return pd_cli_report_extra(&pd_cli_help, argv[2]);
    if (argc == 2) {
        const struct pd_cli_command *command = pd_cli_find(argv[1]);
        if (!command) return pd_cli_report_unknown(argv[1]);
        printf("usage: paddle %s%s%s\n\n%s\n", command->name, command->arguments[0] ? " " : "",
               command->arguments, command->summary);
        return PD_CLI_EXIT_OK;
    }
    printf("usage: paddle <command> [arguments]\n\nThe commands are:\n");
    for (size_t i = 0; pd_cli_commands[i]; i++)
        printf("    %-12s %s\n", pd_cli_commands[i]->name, pd_cli_commands[i]->summary);
    printf("\n'paddle help <command>' says how a command is called.\n");
    return PD_CLI_EXIT_OK;
}

const struct pd_cli_command pd_cli_help = {
    .name = "help",
    .arguments = "[command]",
    .summary = "Show the commands, or how one of them is called.",
    .run = run,
};
