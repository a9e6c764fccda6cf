"""python -m paddle.distributed.launch, and fleetrun: servers and workers of a script, with the options of v2.0.

    python -m paddle.distributed.launch --server_num=2 --worker_num=2 train.py
    python -m paddle.distributed.launch --servers=10.0.0.1:6170,10.0.0.2:6170 --workers=10.0.0.1,10.0.0.2 train.py

With lists of hosts the same line is typed on each machine, which starts what is its own. docs/LAUNCH.md is the guide.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from paddle.distributed import guard, start
from paddle.distributed.options import CHOICE, COUNT, TEXT, Option, Refused

_SERVERS = "Use --server_num=N --worker_num=N on this machine, or --servers=HOST:PORT,... --workers=HOST,... on several."

REFUSED = (
    Refused("gpus selected_gpus xpus selected_xpus npus devices",
            f"there are no GPUs here; processes compute on the cores of the machine. {_SERVERS}"),
    Refused("ips cluster_node_ips node_ip started_port use_paddlecloud cluster_topo_path rank_mapping_path "
            "enable_auto_mapping backend", f"it belongs to jobs of workers without servers, which are not here. {_SERVERS}"),
    Refused("nproc_per_node nnodes np",
            f"processes have roles here. {_SERVERS} (--worker_num=4 is what --nproc_per_node=4 was.)"),
    Refused("heter_workers heter_worker_num heter_devices coordinators coordinator_num",
            f"there are servers and workers only. {_SERVERS}"),
    Refused("master rank rdzv_id rdzv_backend rdzv_endpoint elastic_server elastic_pre_hook elastic_level elastic_timeout "
            "scale force",
            "machines do not look for each other here: type the same --servers=HOST:PORT,... --workers=HOST,... on each of them."),
    Refused("http_port with_gloo", "no meeting point is needed: workers find each other through the servers. Leave it out."),
)


def listed() -> tuple[Option, ...]:
    """The options that say how many processes there are, and where."""
    return (
        Option("server_num", COUNT, "N", None, "servers on this machine"),
        Option("worker_num", COUNT, "N", None, "workers on this machine", "trainer_num"),
        Option("servers", TEXT, "HOST:PORT,...", "", "all servers of the job; those of this machine are started"),
        Option("workers", TEXT, "HOST,...", "", "the host of each worker; those of this machine are started", "trainers"),
    )


COMMAND = start.Command(
    "python -m paddle.distributed.launch",
    """\
Starts servers and workers of SCRIPT and watches them: the status is that of the process that
failed first, 0 when all went well. With lists of hosts, type the same on each machine: it starts
what is its own.

    python -m paddle.distributed.launch --server_num=2 --worker_num=2 train.py
    python -m paddle.distributed.launch --servers=10.0.0.1:6170,10.0.0.2:6170 \\
        --workers=10.0.0.1,10.0.0.2 train.py
    python -m paddle.distributed.launch --server_num=1 --worker_num=4 --dry_run train.py
""",
    (
        *listed(),
        Option("log_dir", TEXT, "DIR", "log", "folder of serverlog.N and workerlog.N; '': write to this output"),
        *start.COMMON,
        Option("run_mode", CHOICE, "ps", "ps", "jobs with servers are all there is"),
        Option("job_id", TEXT, "", "", ""),
        Option("log_level", TEXT, "", "", ""),
    ),
    refused=REFUSED,
)


def _with_upstreams_port(words: Sequence[str]) -> list[str]:
    """FLAGS_START_PORT of the environment is what --start_port is."""
    port = os.environ.get("FLAGS_START_PORT")
    return [f"--start_port={port}", *words] if port else list(words)


def launch(words: Sequence[str] | None = None) -> None:
    """Runs it with the words of the command line, and ends this process."""
    guard.leave(start.main(COMMAND, _with_upstreams_port(sys.argv[1:] if words is None else words)))


def fleetrun() -> None:
    """The command of that name."""
    guard.leave(start.main(COMMAND._replace(name="fleetrun"), _with_upstreams_port(sys.argv[1:])))


if __name__ == "__main__":
    launch()
