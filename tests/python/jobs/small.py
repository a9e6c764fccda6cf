"""What small jobs have in common: the command line of cluster.Job, and the server's side."""

from __future__ import annotations

import argparse
import os
import time

import paddle.fluid as fluid


def parse(about: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("role", choices=["server", "trainer", "single"])
    parser.add_argument("--endpoints")
    parser.add_argument("--trainers", type=int)
    parser.add_argument("--endpoint")
    parser.add_argument("--id", type=int, default=0)
    return parser


def wait_for(path: str | None) -> None:
    """A file that the test makes when this process is to go on; none: at once."""
    end = time.monotonic() + 100
    while path and not os.path.exists(path):
        assert time.monotonic() < end, f"{path} did not come"
        time.sleep(0.01)


def start(options: argparse.Namespace, sync_mode: bool = True, load=lambda exe, program: None,
          config=None) -> tuple[fluid.Executor, fluid.Program, fluid.DistributeTranspiler]:
    """Transpiles the default Programs. A server serves, and its process ends here; a trainer gets its executor, after the startup
    Program has run, its Program and the transpiler. `load` is called in servers before they serve."""
    transpiler = fluid.DistributeTranspiler(config)
    transpiler.transpile(options.id, pservers=options.endpoints, trainers=options.trainers, sync_mode=sync_mode)
    exe = fluid.Executor(fluid.CPUPlace())
    if options.role == "server":
        program, startup = transpiler.get_pserver_programs(options.endpoint)
        exe.run(startup)
        load(exe, program)
        exe.run(program)
        raise AssertionError("the server's run ends the process")
    exe.run(fluid.default_startup_program())
    return exe, transpiler.get_trainer_program(), transpiler
