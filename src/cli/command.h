/* A command of `paddle`: one file each, ending in one const struct that commands.c lists. */
#ifndef PADDLE_CLI_COMMAND_H
#define PADDLE_CLI_COMMAND_H

#include <stdio.h>

/* What the process returns to the shell. */
enum pd_cli_exit { PD_CLI_EXIT_OK = 0, PD_CLI_EXIT_FAILED = 1, PD_CLI_EXIT_USAGE = 2 };

struct pd_cli_command {
    const char *name;
    const char *arguments; /* what follows the name in a usage line; "" when nothing may */
    const char *summary;   /* one line for the list of commands */
    const char *details;   /* lines that say what it does and list its options; NULL: the summary says it all */
    /* Runs the command. argv[0] is its name. Returns a pd_cli_exit; writes its own messages. Not called when
     * --help is among the arguments. */
    int (*run)(int argc, char **argv);
};

/* All commands, in the order help shows them; the last entry is NULL. */
extern const struct pd_cli_command *const pd_cli_commands[];

/* The command of that name, or NULL. */
const struct pd_cli_command *pd_cli_find(const char *name);

/* How the command is called and what it does: the answer to --help. */
void pd_cli_show_help(const struct pd_cli_command *command, FILE *to);

/* Reports that there is no such command, with the nearest name if one is near. Returns PD_CLI_EXIT_USAGE. */
int pd_cli_report_unknown(const char *name);

/* Reports an argument that is one too many for the command. Returns PD_CLI_EXIT_USAGE. */
int pd_cli_report_extra(const struct pd_cli_command *command, const char *argument);

extern const struct pd_cli_command pd_cli_help;
extern const struct pd_cli_command pd_cli_ps;
extern const struct pd_cli_command pd_cli_psbench;
extern const struct pd_cli_command pd_cli_version;

#endif
