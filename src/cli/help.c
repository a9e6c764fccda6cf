/* `paddle help`: the list of commands, or how one of them is called. */
#include "cli/command.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { WIDTH = 92, INDENT = 4, COLUMN = 23 }; /* of the text of an option */

/* Words of `text` from column COLUMN on, wrapped; `at`: the column that the line is at. */
static void show_wrapped(const char *text, int at, FILE *to)
{
    int begun = 0;
    for (const char *word = text; *word; word += strspn(word, " ")) {
        int n = (int)strcspn(word, " ");
        if (at > COLUMN - 2 && (at + 1 + n > WIDTH || !begun)) {
            fputc('\n', to);
            at = 0;
        }
        if (at < COLUMN) {
            fprintf(to, "%*s", COLUMN - at, "");
            at = COLUMN;
        } else {
            fputc(' ', to);
            at++;
        }
        fprintf(to, "%.*s", n, word);
        at += n;
        word += n;
        begun = 1;
    }
    fputc('\n', to);
}

static void show_option(const struct pd_cli_option *o, FILE *to)
{
    char text[1024];
    int at = fprintf(to, "%*s--%s%s%s", INDENT, "", o->name, o->kind == PD_CLI_SWITCH ? "" : " ",
                     o->kind == PD_CLI_SWITCH ? "" : o->value);
    if (o->preset)
        snprintf(text, sizeof text, "%s (default: %s)", o->help, o->preset);
    else
        snprintf(text, sizeof text, "%s", o->help);
    show_wrapped(text, at, to);
}

void pd_cli_show_help(const struct pd_cli_command *command, FILE *to)
{
    fprintf(to, "usage: paddle %s%s%s\n\n", command->name, command->arguments[0] ? " " : "",
            command->arguments);
    if (command->details)
        fputs(command->details, to);
    else
        fprintf(to, "%s\n", command->summary);
    for (const struct pd_cli_option *o = command->options; o && o->name; o++)
        show_option(o, to);
    if (command->notes) fputs(command->notes, to);
}

static int run(int argc, char **argv, const void *settings)
{
    (void)settings;
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
