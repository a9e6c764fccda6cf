"""Processes that are started without standard input, output or error, as cron jobs and old launchers do."""

import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cluster import Job

SMALL = ["--model", "fit_a_line", "--optimizer", "momentum", "--steps", "5"]
PADDLE = Path(sys.executable).parent / "paddle"
CLOSED = {"0": "0<&-", "1": "1>&-", "2": "2>&-", "012": "0<&- 1>&- 2>&-"}


class ClosedJob(Job):
    """A job in which the processes of one role, or all, have no such files."""

    def __init__(self, who, which):
        super().__init__(1, 2)
        self.who, self.which = who, which

    def prefix(self, role, index):
        if self.who not in (role, "both"):
            return []
        return ["bash", "-c", f'exec "$@" {CLOSED[self.which]}', "bash"]


@pytest.mark.parametrize("who, which", [("server", "0"), ("server", "2"), ("trainer", "0"), ("trainer", "1"), ("both", "012")])
def test_a_job_ends_well(who, which, tmp_path):
    with ClosedJob(who, which) as job:
        job.start_all(*SMALL, out=tmp_path)
        job.end(120)
    losses = [np.load(tmp_path / f"trainer-{i}.npz") for i in range(2)]
    assert all(np.isfinite(each[name]).all() for each in losses for name in each)


SCRIPT = """
import os, sys
import paddle.fluid as fluid
fluid.Program()
made = open(sys.argv[1], "w")
os.system("echo lost >&2; echo lost")
made.write("number %d" % made.fileno())
made.close()
"""


def test_what_a_script_opens_does_not_get_the_messages(tmp_path):
    """A file of the script has none of the three numbers, and programs that it starts find them closed as before."""
    script, out = tmp_path / "script.py", tmp_path / "out"
    script.write_text(SCRIPT)
    command = f"exec {shlex.join([sys.executable, str(script), str(out)])} 0<&- 1>&- 2>&-"
    assert subprocess.run(["bash", "-c", command], timeout=120).returncode == 0
    said = out.read_text()
    assert said.startswith("number ") and int(said.split()[1]) > 2, said


@pytest.mark.parametrize("which", ["0", "2"])
def test_the_command_without_standard_files(which):
    """`paddle ps status` makes a loop; there is no server, so it says so with its own status, not with an abort."""
    done = subprocess.run(["bash", "-c", f'exec "$@" {CLOSED[which]}', "bash", str(PADDLE), "ps", "status", "127.0.0.1:1"],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE if which == "0" else None, timeout=120)
    assert done.returncode == 1


def test_output_that_nobody_gets_is_a_failure():
    done = subprocess.run(["bash", "-c", 'exec "$@" 1>&-', "bash", str(PADDLE), "version"], stderr=subprocess.PIPE, timeout=60)
    assert done.returncode == 1 and b"the output could not be written" in done.stderr
