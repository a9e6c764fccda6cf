"""paddle.distributed: starts the processes of a job.

`python -m paddle.distributed.launch_ps`, `python -m paddle.distributed.launch` and the command `paddle launch` make one
description of a job from their options (job.py), which becomes an environment and a command for each process (plan.py), which an
engine starts and watches (local.py). docs/LAUNCH.md is the guide.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paddle import absent

if TYPE_CHECKING:
    from paddle.distributed import fleet as fleet
    from paddle.distributed import fs_wrapper as fs_wrapper
    from paddle.distributed import launch as launch
    from paddle.distributed import launch_ps as launch_ps

_MODULES = ("fleet", "fs_wrapper", "launch", "launch_ps")


def __getattr__(name: str) -> Any:
    return absent.module_or_refuse(__name__, name, _MODULES)
