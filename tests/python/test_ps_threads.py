"""Threads of one trainer, each with an executor of its own: every run of theirs is a step, and counts once."""

import pytest
from cluster import Job


@pytest.mark.parametrize("transport", ["tcp", "auto"])
@pytest.mark.parametrize("mode", [[], ["--async"]], ids=["sync", "async"])
def test_every_run_of_a_thread_counts_once(mode, transport):
    with Job(2, 1, "threads.py", env={"PADDLE_PS_TRANSPORT": transport}) as job:
        servers = [job.start("server", i, *mode) for i in range(2)]
        trainer = job.start("trainer", 0, *mode)
        assert trainer.end(120) == 0, trainer.output()
        assert "given 1197" in trainer.output(), trainer.output()
        assert all(each.end(20) == 0 for each in servers)
