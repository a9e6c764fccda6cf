/* `paddle launch`: starts the processes of a job. The launchers are Python (paddle.distributed); this finds
 * the Python of the environment that the command is in and becomes it, with the same words. */
#include "cli/command.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The words before those of the user. -P: a paddle.py in the working folder is not taken for the package. */
static const char *const begin[] = {"-P", "-m", "paddle.distributed.cli"};
enum { BEGIN = sizeof begin / sizeof begin[0] };

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

static int run(int argc, char **argv, const void *settings)
{
    (void)settings;
    char python[PATH_MAX];
    if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        pd_cli_show_help(&pd_cli_launch, argc < 2 ? stderr : stdout);
        return argc < 2 ? PD_CLI_EXIT_USAGE : PD_CLI_EXIT_OK;
    }
    if (!find_python(python)) {
        fprintf(
            stderr,
            "paddle: launch: there is no python3 beside this command or in $PATH. The launchers are a part "
            "of the Python package paddle: activate its environment.\n");
        return PD_CLI_EXIT_FAILED;
    }
    const char **words = malloc((BEGIN + (size_t)argc + 1) * sizeof *words);
    if (!words) {
        fprintf(stderr, "paddle: launch: no memory for %d words\n", argc);
        return PD_CLI_EXIT_FAILED;
    }
    words[0] = python;
    memcpy(words + 1, begin, sizeof begin);
    for (int i = 1; i <= argc; i++)
        words[BEGIN + i] = argv[i]; /* the NULL behind the last one too */
    execv(python, (char *const *)words);
    fprintf(stderr, "paddle: launch: %s cannot be run: %s\n", python, strerror(errno));
    free(words);
    return PD_CLI_EXIT_FAILED;
}

const struct pd_cli_command pd_cli_launch = {
    .name = "launch",
    .arguments = "local [options] SCRIPT [arguments of the script]",
    .summary = "Start the servers and workers of a job, and watch them.",
    .details = "Runs SCRIPT as servers and workers on this machine. Its options:\n"
               "\n"
               "    paddle launch local --help\n"
               "\n"
               "    paddle launch local train.py                           1 server, 2 workers\n"
               "    paddle launch local --server_num=2 --worker_num=4 train.py --is_cloud=1\n"
               "    paddle launch local --dry_run train.py                 only say what would run\n",
    .notes = "\nThe status is that of the process that failed first, 0 when all went well.\n",
    .as_given = 1,
    .run = run,
};
