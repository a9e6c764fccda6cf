"""Trainers that are multiprocessing.Processes of one script say how they ended, as scripts do."""

import subprocess
import sys

import pytest
from cluster import JOBS, Job, free_ports


def run(*words: str) -> tuple[list[int], str]:
    """The statuses of a server and two trainers, and all that was said."""
    endpoint = f"127.0.0.1:{free_ports(1)[0]}"
    done = subprocess.run([sys.executable, str(JOBS / "processes.py"), endpoint, *words], text=True,
                          capture_output=True, timeout=100)
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("statuses")]
    return [int(status) for status in line.split()[1:]], done.stderr


@pytest.mark.parametrize("imported", [[], ["--imported"]], ids=["imported there", "imported before"])
@pytest.mark.parametrize("how", ["returns", "exits", "forks"])
def test_one_that_was_forked_ends_well(how, imported):
    assert run("fork", how, *imported)[0] == [0, 0, 0]


@pytest.mark.parametrize("imported", [[], ["--imported"]], ids=["imported there", "imported before"])
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_other_ways_to_start_it(method, imported):
    assert run(method, "exits", *imported)[0] == [0, 0, 0]


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_its_threads_come_to_their_end(method):
    """The job has all steps, those of a thread that is left when the Process has come to its end too."""
    statuses, text = run(method, "leaves it to a thread")
    assert statuses == [0, 0, 0] and "the job is done after step 6" in text, text


@pytest.mark.parametrize("how, status, said",
                         [("raises", 1, "ValueError: the data is bad"), ("exits with 3", 3, "its process ended with status 3")])
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_one_that_fails_is_heard(method, how, status, said):
    statuses, text = run(method, how)
    assert statuses == [1, status, 1], text
    assert text.count(f"failed: {said}") >= 2, text


@pytest.mark.parametrize("close", [True, False])
def test_one_process_is_two_trainers_in_turn(close):
    """It says goodbye as the first, or is told that it cannot be both: it never gives steps for another one."""
    with Job(1, 2, script="two_in_turn.py") as job:
        server = job.start("server", 0)
        both = job.start("trainer", 0, *(["--close"] if close else []))
        assert both.end(30) == int(not close), both.output()
        if close:
            assert server.end(30) == 0 and "trainer 1 (" in server.output()
            return
        assert "this Program is that of trainer 1, and this process has begun to train as trainer 0" in both.output(), both.output()
        server.kill()
