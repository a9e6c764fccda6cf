"""python -m paddle.distributed.launch_ps: servers and workers of a script on this machine, with the options of v1.7 and v1.8.

    python -m paddle.distributed.launch_ps --server_num=2 --worker_num=2 train.py --is_cloud=1

docs/LAUNCH.md is the guide.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from paddle.distributed import guard, start
from paddle.distributed.options import COUNT, TEXT, Option

COMMAND = start.Command(
    "python -m paddle.distributed.launch_ps",
    """\
Starts servers and workers of SCRIPT on this machine, and watches them: the status is that of the
process that failed first, 0 when all went well.

    python -m paddle.distributed.launch_ps train.py                              2 servers, 2 workers
    python -m paddle.distributed.launch_ps --worker_num=4 train.py --is_cloud=1  4 workers
    python -m paddle.distributed.launch_ps --dry_run train.py                    only say what would run
""",
    (
        Option("server_num", COUNT, "N", None, "servers (default: 2, or as many as --endpoints has)"),
        Option("worker_num", COUNT, "N", None, "workers (default: 2)"),
        Option("servers", TEXT, "HOST:PORT,...", "", "the servers; without it on 127.0.0.1, from --start_port on", "endpoints"),
        Option("workers", TEXT, "", "", ""),
        Option("log_dir", TEXT, "DIR", "logs", "folder of serverlog.N and workerlog.N; '': write to this output"),
        *start.COMMON,
        Option("cluster_node_ips", TEXT, "IP,...", "127.0.0.1", "has no effect, as in 1.8"),
        Option("node_ip", TEXT, "IP", "127.0.0.1", "has no effect, as in 1.8"),
    ),
    (2, 2),
    words=("all workers exit, going to finish parameter server", "all parameter server are killed"),
)


def launch(words: Sequence[str] | None = None) -> None:
    """Runs it with the words of the command line, and ends this process."""
    guard.leave(start.main(COMMAND, sys.argv[1:] if words is None else words))


if __name__ == "__main__":
    launch()
