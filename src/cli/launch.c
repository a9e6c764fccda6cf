/* `paddle launch`: starts the processes of a job. The launchers are Python (paddle.distributed), which get
 * the same words. */
#include "cli/command.h"

#include <stdio.h>
#include <string.h>

static int run(int argc, char **argv, const void *settings)
{
    (void)settings;
    if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        pd_cli_show_help(&pd_cli_launch, argc < 2 ? stderr : stdout);
        return argc < 2 ? PD_CLI_EXIT_USAGE : PD_CLI_EXIT_OK;
    }
    return pd_cli_become_python("launch", "paddle.distributed.cli", argc - 1, argv + 1);
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
