"""A job is ended, its script gets another learning rate, and it goes on from its snapshot: with the new one, and says so.

The rows of a table count the updates (jobs/counted.py), in units of the rate."""

import re

import numpy as np
import pytest
from cluster import Job, free_ports
from test_ps_files import ended_by_sigterm
from test_ps_half_step import stopped_at
from test_ps_moved import LOGS, counts, env_of, job_of, refused, run, table
from test_ps_prepare import cut, last_log, records
from test_ps_recovery import MODES

NOW = "is 0.5 in this Program, and was 1 in the snapshot: it is 0.5 now"


def rows_after(*parts: tuple[float, int]) -> np.ndarray:
    """(rate, up to which step), one after the other."""
    rows, before = np.zeros(50), 0
    for rate, steps in parts:
        rows += rate * (counts({0: steps}) - counts({0: before}))
        before = steps
    return rows


@LOGS
@MODES
@pytest.mark.parametrize("servers", [2, 3], ids=["the same servers", "others"])
def test_another_rate(tmp_path, mode, log, servers):
    root = tmp_path / "ps"
    with job_of(root, 2, log=log) as job:
        run(job, *mode, steps=4)
        if servers != 2:
            job.endpoints = [f"127.0.0.1:{port}" for port in free_ports(servers)]
        said = run(job, *mode, "--rate", "0.5", steps=8)
        assert all(NOW in text for text in said[:servers]), said
        np.testing.assert_array_equal(table(job, root), rows_after((1, 4), (0.5, 8)))
        said = run(job, *mode, "--rate", "0.5", steps=9)
        assert not any("in this Program" in text for text in said), said
        np.testing.assert_array_equal(table(job, root), rows_after((1, 4), (0.5, 9)))


@MODES
def test_killed_after_that(tmp_path, mode):
    """The log goes on from a snapshot that has the new rate."""
    root = tmp_path / "ps"
    with job_of(root, 1, log="write") as job:
        run(job, *mode, steps=4)
        stopped_at(job, 6, tmp_path, *mode, "--rate", "0.5", is_killed=True)
        run(job, *mode, "--rate", "0.5", steps=8)
        np.testing.assert_array_equal(table(job, root), rows_after((1, 4), (0.5, 8)))


@MODES
def test_a_log_is_done_again_with_its_own_rate(tmp_path, mode):
    """Refused, with advice that works."""
    root = tmp_path / "ps"
    with job_of(root, 1, log="write") as job:
        stopped_at(job, 4, tmp_path, *mode, is_killed=True)
        (said,) = refused(job, *mode, "--rate", "0.5")
        assert "is 0.5 in this Program, and was 1 in the snapshot of step 0" in said, said
        assert "Start the servers as they were, without trainers, and end them with SIGTERM" in said, said
        server = job.start("server", 0, *mode)
        server.wait_for("Server listening on")
        ended_by_sigterm(job, server)
        job.clear()
        run(job, *mode, "--rate", "0.5", steps=8)
        np.testing.assert_array_equal(table(job, root), rows_after((1, 4), (0.5, 8)))


@MODES
def test_a_log_that_has_parts_of_a_step_only(tmp_path, mode):
    """They are void, and were done with no rate."""
    with Job(1, 1, "wide.py", {**env_of(tmp_path, "write"), "FLAGS_ps_loops": "1"}) as job:
        server, trainer = job.start("server", 0, *mode), job.start("trainer", 0, *mode, "--steps", "999999")
        trainer.wait_for("did step 0")
        server.kill()
        job.clear()
        log = last_log(tmp_path, job.endpoints[0])
        cut(log, records(log)[2][1])
        server = job.start("server", 0, *mode, "--rate", "0.5")
        trainer = job.start("trainer", 0, *mode, "--rate", "0.5", "--steps", "2")
        job.end(40)
        assert NOW in server.output(), trainer.output()
        assert "steps done 0" in trainer.output(), trainer.output()
        assert "values {-1.0: " in trainer.output(), trainer.output()


@LOGS
@MODES
def test_a_frozen_number_is_no_rate(tmp_path, mode, log):
    """It is drawn at random, anew at each start (jobs/frozen.py). The one of the job stays."""
    go = tmp_path / "go"
    with Job(1, 1, "frozen.py", env_of(tmp_path / "ps", log)) as job:
        options = ["--scalar", *mode, "--until", str(go)]
        server, first = job.start("server", 0, *options), job.start("trainer", 0, *options)
        first.wait_for("pauses")
        if log:
            server.kill()
            job.processes.remove(server)
        else:
            ended_by_sigterm(job, server)
        again = job.start("server", 0, *options)
        again.wait_for("Server listening on")
        assert "in this Program" not in again.output(), again.output()
        go.touch()
        job.end(60)
        said = first.output()
        job.clear()
        job.start("server", 0, *options)
        second = job.start("trainer", 0, *options)
        job.end(60)
        values = [re.search(r"frozen (\w+)", text)[1] for text in (said, second.output())]
        assert values[0] == values[1], values
