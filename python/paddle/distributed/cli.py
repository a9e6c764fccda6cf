"""What `paddle launch` runs: jobs on one machine (local), on the description and the engine that all launchers share.

    paddle launch local --server_num=2 --worker_num=2 train.py
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Sequence

from paddle.distributed import guard, start
from paddle.distributed.launch import listed
from paddle.distributed.options import TEXT, Option

NUMBERS = (1, 2)  # servers and workers where nobody says how many


def _told(option: Option) -> Option:
    """Its help says what is there when nobody gives it."""
    number = {"server_num": NUMBERS[0], "worker_num": NUMBERS[1]}.get(option.name)
    return option if number is None else option._replace(help=f"{option.help} (default: {number})")


LOCAL = start.Command(
    "paddle launch local",
    """\
Starts servers and workers of SCRIPT on this machine, and watches them: the status is that of the
process that failed first, 0 when all went well. The first worker's output is shown here too.

    paddle launch local train.py                                 1 server, 2 workers
    paddle launch local --server_num=2 --worker_num=4 train.py --is_cloud=1
    paddle launch local --restart=workers train.py               a worker that fails is started again
    paddle launch local --dry_run train.py                       only say what would run

With --servers=HOST:PORT,... --workers=HOST,... the same line on each machine starts what is its own.
""",
    (
        *(_told(each) for each in listed()),
        Option("log_dir", TEXT, "DIR", "logs", "folder of serverlog.N and workerlog.N; '': write to this output"),
        *(each._replace(preset="first") if each.name == "follow" else each for each in start.COMMON),
    ),
    NUMBERS,
)
ENGINES = {"local": LOCAL}


def main(words: Sequence[str]) -> int:
    """The status, as start.main has it."""
    if words and words[0] in ENGINES:
        return start.main(ENGINES[words[0]], words[1:])
    known = ", ".join(ENGINES)
    if not words:
        print(f"paddle launch: say where: {known}. 'paddle launch local --help' tells more.", file=sys.stderr)
        return 2
    near = difflib.get_close_matches(words[0], ENGINES, 1)
    guess = f" Did you mean '{near[0]}'?" if near else ""
    print(f"paddle launch: it can start jobs by: {known}; found '{words[0]}'.{guess} 'paddle launch local --help' tells more.",
          file=sys.stderr)
    return 2


if __name__ == "__main__":
    guard.leave(main(sys.argv[1:]))
