/* `paddle version`: the release of PaddlePaddle whose interface this is, what is compiled in, and our own
 * version. */
#include "cli/command.h"

#include <paddle/paddle.h>
#include <stddef.h>
#include <stdio.h>

static const char *const features[] = {"avx", "gpu", "double", "python", "rdma", "timer"};

static int run(int argc, char **argv, const void *settings)
{
    (void)settings;
    if (argc > 1) return pd_cli_report_extra(&pd_cli_version, argv[1]);
    printf("PaddlePaddle %s, compiled with\n", pd_paddle_version());
    for (size_t i = 0; i < sizeof features / sizeof features[0]; i++)
        printf("    with_%s: %s\n", features[i], pd_build_has(features[i]) ? "ON" : "OFF");
    printf("    cpaddle: %s\n", pd_version());
    return PD_CLI_EXIT_OK;
}

const struct pd_cli_command pd_cli_version = {
    .name = "version",
    .arguments = "",
    .summary = "Show the version and what is compiled in.",
    .run = run,
};
