/* `paddle help`: the list of commands, or how one of them is called. */
#include "cli/command.h"

#include <stddef.h>
#include <stdio.h>

void pd_cli_show_help(const struct pd_cli_command *command, FILE *to)
{
    fprintf(to, "usage: paddle %s%s%s\n\n", command->name, command->arguments[0] ? " " : "",
            command->arguments);
    if (command->details)
        fputs(command->details, to);
    else
        fprintf(to, "%s\n", command->summary);
}

static int run(int argc, char **argv)
{
    if (argc > 2) return pd_cli_report_extra(&pd_cli_help, argv[2]);
    if (argc == 2) {
        const struct pd_cli_command *command = pd_cli_find(argv[1]);
        if (!command) return pd_cli_report_unknown(argv[1]);
        pd_cli_show_help(command, stdout);
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
