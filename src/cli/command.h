/* A command of `paddle`: one file each, ending in one const struct that commands.c lists. */
#ifndef PADDLE_CLI_COMMAND_H
#define PADDLE_CLI_COMMAND_H

#include <stdio.h>

#include "cli/options.h"

/* What the process returns to the shell. */
enum pd_cli_exit { PD_CLI_EXIT_OK = 0, PD_CLI_EXIT_FAILED = 1, PD_CLI_EXIT_USAGE = 2 };

struct pd_cli_command {
    const char *name;
    const char *arguments; /* what follows the name in a usage line; "" when nothing may */
    const char *summary;   /* one line for the list of commands */
    const char *details;   /* what it does, in lines of at most 92 columns; NULL: the summary says it all */
    const char *notes;     /* the same, behind its options; NULL: none */
    const struct pd_cli_option *options; /* NULL: it has none */
    int as_given;                        /* 1: `run` gets all words as they are, options and --help too */
    /* Runs the command. argv has its name and the words that are no options. Returns a pd_cli_exit; writes
     * its own messages. Not called when --help is among the arguments, or when they do not fit the options.
     */
    int (*run)(int argc, char **argv, const void *settings);
};

enum { PD_CLI_SETTINGS = 4096 }; /* bytes that options may fill */

extern const char *pd_cli_called; /* argv[0] of the process */

/* All commands, in the order help shows them; the last entry is NULL. */
extern const struct pd_cli_command *const pd_cli_commands[];

/* The command of that name, or NULL. */
const struct pd_cli_command *pd_cli_find(const char *name);

/* How the command is called and what it does: the answer to --help. */
void pd_cli_show_help(const struct pd_cli_command *command, FILE *to);

/* The known name that a misspelt one was meant to be. Start with {.name = ...}, offer every known one, read
 * `best`; NULL: more than about a third would have to change. */
enum { PD_CLI_NAME_MOST = 31 };
struct pd_cli_nearest {
    const char *name;
    const char *best; /* borrowed from an offer */
    size_t changes;   /* of the best one */
};
void pd_cli_offer(struct pd_cli_nearest *nearest, const char *known);

/* Reports that there is no such command, with the nearest name if one is near. Returns PD_CLI_EXIT_USAGE. */
int pd_cli_report_unknown(const char *name);

/* Reports an argument that is one too many for the command. Returns PD_CLI_EXIT_USAGE. */
int pd_cli_report_extra(const struct pd_cli_command *command, const char *argument);

/* The process becomes `python -m module` with these words. Returns only where that fails, which it has said:
 * a pd_cli_exit. `command` is for messages. */
int pd_cli_become_python(const char *command, const char *module, int n, char **words);

extern const struct pd_cli_command pd_cli_help;
extern const struct pd_cli_command pd_cli_launch;
extern const struct pd_cli_command pd_cli_ps;
extern const struct pd_cli_command pd_cli_psbench;
extern const struct pd_cli_command pd_cli_table;
extern const struct pd_cli_command pd_cli_version;

#endif
