/* Commands whose work is Python become the Python of the environment that the command is in. See command.h.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"

static const char *const names[] = {"python3", "python"};

/* Is there a program of that name in the folder, whose name has `n` bytes? Then its path is in `out`. */
static int is_in(const char *folder, size_t n, const char *name, char out[PATH_MAX])
{
    int length = snprintf(out, PATH_MAX, "%.*s/%s", (int)n, folder, name);
    return length > 0 && length < PATH_MAX && access(out, X_OK) == 0;
}

/* The first folder of $PATH that has a program of that name. */
static int is_in_path(const char *name, char out[PATH_MAX])
{
    const char *at = getenv("PATH");
    while (at && *at) {
        size_t n = strcspn(at, ":");
        if (n && is_in(at, n, name, out)) return 1;
        at += n + (at[n] == ':');
    }
    return 0;
}

static int is_beside(const char *command, char out[PATH_MAX])
{
    const char *slash = strrchr(command, '/');
    for (size_t i = 0; slash && i < sizeof names / sizeof names[0]; i++)
        if (is_in(command, (size_t)(slash - command), names[i], out)) return 1;
    return 0;
}

/* The Python beside the command as it was called (in a virtual environment its `paddle` may be a link to
 * somewhere else), beside the file itself, and last the one that a shell would find. */
static int find_python(char out[PATH_MAX])
{
    char command[PATH_MAX];
    const char *called = pd_cli_called;
    if (strchr(called, '/') ? is_beside(called, out) : is_in_path(called, command) && is_beside(command, out))
        return 1;
    ssize_t n = readlink("/proc/self/exe", command, sizeof command - 1);
    if (n > 0) {
        command[n] = '\0';
        if (is_beside(command, out)) return 1;
    }
    return is_in_path(names[0], out) || is_in_path(names[1], out);
}

int pd_cli_become_python(const char *command, const char *module, int n, char **given)
{
    /* -P: a paddle.py in the working folder is not taken for the package. */
    const char *const begin[] = {"-P", "-m", module};
    enum { BEGIN = sizeof begin / sizeof begin[0] };
    char python[PATH_MAX];
    if (!find_python(python)) {
        fprintf(stderr,
                "paddle: %s: there is no python3 beside this command or in $PATH. What it does is a part of "
                "the Python package paddle: activate its environment.\n",
                command);
        return PD_CLI_EXIT_FAILED;
    }
    const char **words = calloc(BEGIN + (size_t)n + 2, sizeof *words);
    if (!words) {
        fprintf(stderr, "paddle: %s: no memory for %d words\n", command, n);
        return PD_CLI_EXIT_FAILED;
    }
    words[0] = python;
    memcpy(words + 1, begin, sizeof begin);
    for (int i = 0; i < n; i++)
        words[1 + BEGIN + i] = given[i];
    execv(python, (char *const *)words);
    fprintf(stderr, "paddle: %s: %s cannot be run: %s\n", command, python, strerror(errno));
    free(words);
    return PD_CLI_EXIT_FAILED;
}
