/* Options of a command as a table: how they are read, what --help prints and what a message about one says
 * all come from it. Written as users of gflags and of getopt write them: --name=value, --name value, -name; a
 * switch also as --name=0 and --noname; '-' and '_' in a name are the same; after '--' there are none. */
#ifndef PADDLE_CLI_OPTIONS_H
#define PADDLE_CLI_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

enum pd_cli_kind {
    PD_CLI_SWITCH, /* an int: 0 or 1 */
    PD_CLI_TEXT,   /* a const char * */
    PD_CLI_CHOICE, /* a const char *, one of those that `value` lists */
    PD_CLI_COUNT,  /* an int64_t; K, M and G behind it are 1000, ... */
    PD_CLI_REAL,   /* a double */
};

/* A table ends with an option without a name. */
struct pd_cli_option {
    const char *name; /* without dashes */
    enum pd_cli_kind kind;
    size_t at;           /* where it goes in the command's settings: offsetof */
    const char *value;   /* what --help shows for the value: "SECONDS"; of a choice "push|pull|both" */
    const char *preset;  /* what it is when nobody gives it, written as by a user; NULL: 0 or none */
    double least, most;  /* of a number; least == most: any that is not negative */
    const char *expects; /* what a message says that it takes; NULL: made from the fields above */
    const char *help;    /* begins with a small letter, has no full stop */
};

struct pd_cli_command;

/* Fills `settings` from presets and arguments, and moves the words that are no options to the front of argv,
 * behind its first. The number of them, the first counted; -1: misused, and it was said. */
int pd_cli_read_options(const struct pd_cli_command *command, void *settings, int argc, char **argv);

/* "64", "4K", "1.5M"; *end is behind it. 0: not such a number. */
int pd_cli_read_count(const char *text, double thousand, uint64_t *out, const char **end);

/* Says that an option takes something else. Returns PD_CLI_EXIT_USAGE. */
int pd_cli_report_value(const struct pd_cli_command *command, const char *option, const char *expects,
                        const char *found);

#endif
