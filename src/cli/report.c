/* What the command line says when it was not understood: what was asked, what there is, what to do. */
#include "cli/command.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

static size_t smallest(size_t a, size_t b, size_t c)
{
    size_t least = a < b ? a : b;
    return least < c ? least : c;
}

/* How many letters must be added, dropped, replaced or swapped with their neighbour to turn a into b. */
static size_t distance(const char *a, const char *b)
{
    size_t rows = strlen(a), columns = strlen(b);
    size_t cost[PD_CLI_NAME_MOST + 1][PD_CLI_NAME_MOST + 1];

    for (size_t i = 0; i <= rows; i++) {
        for (size_t j = 0; j <= columns; j++) {
            if (i == 0 || j == 0) {
                cost[i][j] = i + j;
                continue;
            }
            cost[i][j] =
                smallest(cost[i - 1][j] + 1, cost[i][j - 1] + 1, cost[i - 1][j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                cost[i - 2][j - 2] + 1 < cost[i][j])
                cost[i][j] = cost[i - 2][j - 2] + 1;
        }
    }
    return cost[rows][columns];
}

void pd_cli_offer(struct pd_cli_nearest *nearest, const char *known)
{
    size_t length = strlen(known), n = strlen(nearest->name);
    if (length > PD_CLI_NAME_MOST || n > PD_CLI_NAME_MOST) return; /* never a typing error of ours */
    int begins = n >= 3 && strncmp(known, nearest->name, n) == 0;
    size_t changes = begins ? 1 : distance(nearest->name, known);
    if (3 * changes > length + 2 || (nearest->best && changes >= nearest->changes)) return;
    nearest->best = known;
    nearest->changes = changes;
}

/* Commands that upstream's `paddle` had and this one has not yet. */
static const struct {
    const char *name, *what, *releases;
} not_yet[] = {
    {"train", "trains a v1 configuration", "0.9 to 1.2"},
    {"pserver", "is the parameter server of v1 and v2", "0.9 to 1.2"},
    {"merge_model", "puts a v1 model into one file", "0.9 to 1.2"},
    {"dump_config", "prints a v1 configuration", "0.9 to 1.2"},
    {"make_diagram", "draws a v1 configuration", "0.9 to 1.2"},
    {"usage", "uploads statistics of use", "0.10 to 0.11"},
};

int pd_cli_report_unknown(const char *name)
{
    for (size_t i = 0; i < sizeof not_yet / sizeof not_yet[0]; i++)
        if (strcmp(name, not_yet[i].name) == 0) {
            fprintf(stderr,
                    "paddle: the command '%s' is not there yet. In Paddle %s it %s. Scripts that import "
                    "paddle.fluid run here, also with parameter servers: docs/DISTRIBUTED.md is the guide.\n",
                    name, not_yet[i].releases, not_yet[i].what);
            return PD_CLI_EXIT_USAGE;
        }
    struct pd_cli_nearest nearest = {.name = name};
    for (size_t i = 0; pd_cli_commands[i]; i++)
        pd_cli_offer(&nearest, pd_cli_commands[i]->name);
    fprintf(stderr, "paddle: there is no command '%s'.", name);
    if (nearest.best) fprintf(stderr, " Did you mean '%s'?", nearest.best);
    fputs(" The commands are:", stderr);
    for (size_t i = 0; pd_cli_commands[i]; i++)
        fprintf(stderr, "%s %s", i ? "," : "", pd_cli_commands[i]->name);
    fputs(".\n", stderr);
    return PD_CLI_EXIT_USAGE;
}

int pd_cli_report_extra(const struct pd_cli_command *command, const char *argument)
{
    fprintf(stderr, "paddle: '%s' takes %s, but '%s' was found. Usage: paddle %s%s%s\n", command->name,
            command->arguments[0] ? "fewer arguments" : "no arguments", argument, command->name,
            command->arguments[0] ? " " : "", command->arguments);
    return PD_CLI_EXIT_USAGE;
}
