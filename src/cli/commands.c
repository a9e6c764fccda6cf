/* The list of commands, and how a name finds its entry. A new command is one new file and one new line here.
 */
#include "cli/command.h"

#include <stddef.h>
#include <string.h>

const struct pd_cli_command *const pd_cli_commands[] = {
    &pd_cli_help, &pd_cli_launch, &pd_cli_ps, &pd_cli_psbench, &pd_cli_table, &pd_cli_version, NULL,
};

/* Flags that people try first, and the command each one stands for. */
static const struct {
    const char *flag;
    const char *name;
} aliases[] = {
    {"-h", "help"},
    {"--help", "help"},
    {"--version", "version"},
};

const struct pd_cli_command *pd_cli_find(const char *name)
{
    for (size_t i = 0; i < sizeof aliases / sizeof aliases[0]; i++) {
        if (strcmp(name, aliases[i].flag) == 0) name = aliases[i].name;
    }
    for (size_t i = 0; pd_cli_commands[i]; i++) {
        if (strcmp(name, pd_cli_commands[i]->name) == 0) return pd_cli_commands[i];
    }
    return NULL;
}
