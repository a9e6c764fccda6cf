/* Reading the options of a command by its table. See options.h. */
#include "cli/options.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"

/* ---- finding ---- */

/* The same name, where '-' and '_' are one; `n` bytes of `typed`. */
static int is_name(const char *name, const char *typed, size_t n)
{
    if (strlen(name) != n) return 0;
    for (size_t i = 0; i < n; i++)
        if (name[i] != typed[i] && !(strchr("-_", name[i]) && strchr("-_", typed[i]))) return 0;
    return 1;
}

static const struct pd_cli_option *find(const struct pd_cli_command *command, const char *typed, size_t n)
{
    for (const struct pd_cli_option *o = command->options; o && o->name; o++)
        if (is_name(o->name, typed, n)) return o;
    return NULL;
}

static int report_unknown(const struct pd_cli_command *command, const char *typed)
{
    struct pd_cli_nearest nearest = {.name = typed + strspn(typed, "-")};
    char name[PD_CLI_NAME_MOST + 1];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(nearest.name, "="), nearest.name);
    nearest.name = name;
    for (const struct pd_cli_option *o = command->options; o && o->name; o++)
        pd_cli_offer(&nearest, o->name);
    fprintf(stderr, "paddle: %s: there is no option '%s'.", command->name, typed);
    if (nearest.best) fprintf(stderr, " Did you mean '--%s'?", nearest.best);
    fprintf(stderr, " 'paddle %s --help' lists them.\n", command->name);
    return PD_CLI_EXIT_USAGE;
}

/* ---- values ---- */

int pd_cli_report_value(const struct pd_cli_command *command, const char *option, const char *expects,
                        const char *found)
{
    fprintf(stderr, "paddle: %s: --%s takes %s, found '%s'. 'paddle %s --help' tells more.\n", command->name,
            option, expects, found, command->name);
    return PD_CLI_EXIT_USAGE;
}

int pd_cli_read_count(const char *text, double thousand, uint64_t *out, const char **end)
{
    static const char letters[] = "KMG";
    char *after;
    errno = 0;
    double value = strtod(text, &after);
    if (after == text || errno || !(value >= 0)) return 0;
    const char *letter = *after ? strchr(letters, *after & ~0x20) : NULL;
    if (letter) {
        value *= pow(thousand, (double)(letter - letters + 1));
        after++;
    }
    if (value > 9e15) return 0;
    *out = (uint64_t)value;
    *end = after;
    return 1;
}

static int is_within(const struct pd_cli_option *o, double value)
{
    return o->least == o->most ? value >= 0 : value >= o->least && value <= o->most;
}

static int is_choice(const struct pd_cli_option *o, const char *text)
{
    size_t n = strlen(text);
    for (const char *at = o->value; n && *at; at += strspn(at, "|")) {
        size_t length = strcspn(at, "|");
        if (length == n && strncmp(at, text, n) == 0) return 1;
        at += length;
    }
    return 0;
}

static int read_switch(const char *text, int *out)
{
    static const char *const words[2][4] = {{"0", "false", "no", "off"}, {"1", "true", "yes", "on"}};
    for (int is_on = 0; is_on < 2; is_on++)
        for (int i = 0; i < 4; i++)
            if (strcmp(text, words[is_on][i]) == 0) {
                *out = is_on;
                return 1;
            }
    return 0;
}

/* 0: it is no value of this option. */
static int store(const struct pd_cli_option *o, const char *text, void *settings)
{
    void *to = (char *)settings + o->at;
    switch (o->kind) {
    case PD_CLI_SWITCH:
        return read_switch(text, to);
    case PD_CLI_CHOICE:
        if (!is_choice(o, text)) return 0;
        /* fall through */
    case PD_CLI_TEXT:
        *(const char **)to = text;
        return 1;
    case PD_CLI_COUNT: {
        const char *end;
        uint64_t n;
        if (!pd_cli_read_count(text, 1000, &n, &end) || *end || !is_within(o, (double)n)) return 0;
        *(int64_t *)to = (int64_t)n;
        return 1;
    }
    case PD_CLI_REAL: {
        char *end;
        double value = strtod(text, &end);
        if (end == text || *end || !is_within(o, value)) return 0;
        *(double *)to = value;
        return 1;
    }
    }
    return 0;
}

/* "push|pull|both" -> "push, pull or both" */
static void list_choices(const char *choices, char *out, size_t cap)
{
    size_t n = 0;
    for (const char *at = choices; *at && n + 1 < cap;) {
        size_t length = strcspn(at, "|");
        const char *rest = at + length + strspn(at + length, "|");
        const char *joint = !*rest ? "" : strchr(rest, '|') ? ", " : " or ";
        n += (size_t)snprintf(out + n, cap - n, "%.*s%s", (int)length, at, joint);
        at = rest;
    }
}

static int report_bad(const struct pd_cli_command *command, const struct pd_cli_option *o, const char *found)
{
    char text[256] = "another value";
    if (o->kind == PD_CLI_SWITCH)
        snprintf(text, sizeof text, "0 or 1");
    else if (o->kind == PD_CLI_CHOICE)
        list_choices(o->value, text, sizeof text);
    else if (o->least == o->most)
        snprintf(text, sizeof text, "a number");
    else if (o->most >= 1e15)
        snprintf(text, sizeof text, "a number of at least %.15g", o->least);
    else
        snprintf(text, sizeof text, "a number from %.15g to %.15g", o->least, o->most);
    return pd_cli_report_value(command, o->name, o->expects ? o->expects : text, found);
}

/* ---- arguments ---- */

/* One option, at *i; moves on over its value. 0: read. */
static int read_one(const struct pd_cli_command *command, void *settings, int argc, char **argv, int *i)
{
    const char *typed = argv[*i], *name = typed + strspn(typed, "-"), *equals = strchr(name, '=');
    size_t n = equals ? (size_t)(equals - name) : strlen(name);
    const struct pd_cli_option *o = find(command, name, n);
    const char *value = equals ? equals + 1 : NULL;
    if (!o && !equals && strncmp(name, "no", 2) == 0) {
        o = find(command, name + 2, n - 2);
        if (o && o->kind != PD_CLI_SWITCH) o = NULL;
        value = "0";
    }
    if (!o) return report_unknown(command, typed);
    if (!value && o->kind == PD_CLI_SWITCH) value = "1";
    if (!value && *i + 1 < argc) value = argv[++*i];
    if (!value) {
        fprintf(stderr, "paddle: %s: --%s needs a value. 'paddle %s --help' tells which.\n", command->name,
                o->name, command->name);
        return PD_CLI_EXIT_USAGE;
    }
    return store(o, value, settings) ? 0 : report_bad(command, o, value);
}

int pd_cli_read_options(const struct pd_cli_command *command, void *settings, int argc, char **argv)
{
    int words = 1, are_over = 0;
    for (const struct pd_cli_option *o = command->options; o && o->name; o++)
        if (o->preset) store(o, o->preset, settings);
    for (int i = 1; i < argc; i++) {
        if (!are_over && strcmp(argv[i], "--") == 0)
            are_over = 1;
        else if (are_over || argv[i][0] != '-' || !argv[i][1])
            argv[words++] = argv[i];
        else if (read_one(command, settings, argc, argv, &i))
            return -1;
    }
    return words;
}
