"""What a launcher says to the processes of a job about checkpoints: docs/RESUME.md."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from paddle.distributed.hosts import Usage

_FLAGS = ("dir", "seconds", "steps", "keep")


def variables(settings: Mapping[str, Any], around: Mapping[str, str]) -> dict[str, str]:
    """The variables that say where checkpoints go, and which one the job begins with: the same for all of it. `around`: the
    environment, with what the user gave by --env."""
    found = {f"FLAGS_checkpoint_{name}": str(settings[f"checkpoint_{name}"]) for name in _FLAGS
             if settings[f"checkpoint_{name}"] not in (None, "")}
    folder = found.get("FLAGS_checkpoint_dir") or around.get("FLAGS_checkpoint_dir", "")
    resume = settings["resume"] or around.get("FLAGS_resume", "never")
    if not folder:
        if found:
            name = next(iter(found)).removeprefix("FLAGS_")
            raise Usage(f"--{name} is for jobs with checkpoints: --checkpoint_dir=DIR says where they go.")
        if resume == "never":
            return {}
    if settings["restart"] in ("workers", "servers", "all"):
        raise Usage(f"--restart={settings['restart']} starts a process again while the others go on, and one of a job with "
                    "checkpoints goes on with all of it: --restart=job.")
    folder = os.path.abspath(folder) if folder else ""
    return {**found, **({"FLAGS_checkpoint_dir": folder} if folder else {}), "FLAGS_resume": chosen(folder, resume)}


def chosen(folder: str, resume: str) -> str:
    """The checkpoint that a job goes on from, every byte of which was looked at; "never": it begins anew."""
    if resume == "never" and not os.path.isdir(folder):
        return resume
    from paddle.distributed.show import say
    from paddle.fluid.incubate.fleet.base import checkpoint_folder

    try:
        found, wrong = checkpoint_folder.choose(folder, resume, reads_all=True)
    except ValueError as why:
        raise Usage(str(why).replace("FLAGS_resume", "--resume").replace("FLAGS_checkpoint_dir", "--checkpoint_dir")) from None
    for problem in wrong:
        say(f"a checkpoint is passed over: {problem}")
    return os.path.abspath(found) if found else "never"
