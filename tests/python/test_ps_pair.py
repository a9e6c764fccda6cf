"""One process trains two models with servers of their own, and is started again: each goes on at its own step (jobs/pair.py: the
rows count the updates)."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from cluster import JOBS, Job, Process, until
from test_ps_moved import LOGS, env_of, table
from test_ps_own_values import SAID
from test_ps_recovery import MODES, folder_of, snapshots

sys.path.insert(0, str(JOBS))
from counted import ROWS, ids_of  # noqa: E402

APART = pytest.mark.parametrize("second", [6, 11], ids=["far apart", "a step apart"])


class Pair:
    """Two jobs with two servers each, and a folder; the processes of trainers are with those of the first."""

    def __init__(self, root: Path, trainers: int = 1, log: str = "", **env: str):
        self.root = root
        self.jobs = {name: Job(2, trainers, "pair.py", env_of(root / name, log, **env)) for name in ("first", "second")}

    def __enter__(self) -> Pair:
        return self

    def __exit__(self, *unused) -> None:
        self.clear()

    def clear(self) -> None:
        for job in self.jobs.values():
            job.clear()

    def start_servers(self, *options: str) -> None:
        for name, job in self.jobs.items():
            for i in range(2):
                job.start("server", i, "--model", name, *options)

    def start_trainer(self, index: int, first: int, second: int, *options: str) -> Process:
        others = ",".join(self.jobs["second"].endpoints)
        return self.jobs["first"].start("trainer", index, "--others", others, "--steps", str(first), str(second), *options)

    def end(self) -> None:
        for job in self.jobs.values():
            job.end(60)

    def run(self, first: int, second: int, *options: str, new_from: int = -1) -> str:
        """One trainer, up to so many steps. What it said."""
        self.start_servers(*options)
        trainer = self.start_trainer(0, first, second, *options, "--new-from", str(new_from))
        self.end()
        said = trainer.output()
        self.clear()
        return said

    def tables(self) -> dict[str, np.ndarray]:
        return {name: table(job, self.root / name) for name, job in self.jobs.items()}


def counted(batches: list[int], trainers: int = 1, share: float = 1) -> np.ndarray:
    want = np.zeros(ROWS)
    for trainer in range(trainers):
        for batch in batches:
            np.subtract.at(want, ids_of(trainer, batch)[:, 0], share)
    return want


def check(tables: dict[str, np.ndarray], **want: np.ndarray) -> None:
    for name, each in want.items():
        np.testing.assert_array_equal(tables[name], each, err_msg=name)


@LOGS
@APART
@MODES
def test_each_model_goes_on_behind_its_own_steps(tmp_path, mode, second, log):
    with Pair(tmp_path, log=log) as pair:
        if log:
            pair.start_servers(*mode)
            pair.start_trainer(0, 12, second, *mode, "--stay").wait_for("did all")
            pair.clear()  # killed
        else:
            pair.run(12, second, *mode)
        said = pair.run(20, 20, *mode)
        assert "steps done of the first 12\n" in said and f"steps done of the second {second}\n" in said, said
        assert "repeats" not in said, said
        assert f"{SAID}: own_of_first" in said and f"{SAID}: own_of_second" in said, said
        check(pair.tables(), first=counted(range(20)), second=counted(range(20)))


@APART
@MODES
def test_batches_of_a_script_that_does_not_ask_all_count(tmp_path, mode, second):
    """None of them is taken for one that the servers of the other model lack."""
    with Pair(tmp_path) as pair:
        pair.run(12, second, *mode)
        said = pair.run(7, 7, *mode, new_from=100)
        assert "repeats" not in said, said
        new = range(100, 107)
        check(pair.tables(), first=counted([*range(12), *new]), second=counted([*range(second), *new]))


@MODES
def test_a_trainer_is_started_again_while_both_jobs_live(tmp_path, mode):
    with Pair(tmp_path, trainers=2, FLAGS_ps_on_trainer_loss="wait", FLAGS_ps_reconnect="500", FLAGS_rpc_deadline="30000") as pair:
        pair.start_servers(*mode)
        pair.start_trainer(0, 40, 20, *mode)
        goes = pair.start_trainer(1, 16, 8, *mode, "--stay")
        goes.wait_for("did all")
        goes.kill()
        pair.jobs["first"].processes.remove(goes)
        again = pair.start_trainer(1, 40, 20, *mode)
        pair.end()
        assert "steps done of the first 16\n" in again.output() and "steps done of the second 8\n" in again.output()
        share = 1 if mode else 0.5
        check(pair.tables(), first=counted(range(40), 2, share), second=counted(range(20), 2, share))
        goes.close()


def test_servers_of_each_model_keep_snapshots_of_the_same_steps(tmp_path):
    """Of those that their own first server chose, and not of one that the other model is to have."""
    with Pair(tmp_path, FLAGS_ps_snapshot_seconds="1", FLAGS_ps_keep="20") as pair:

        def kept() -> dict[str, list[list[int]]]:
            return {name: [snapshots(folder_of(job, tmp_path / name, i)) for i in range(2)] for name, job in pair.jobs.items()}

        pair.start_servers()
        pair.start_trainer(0, 1000000, 500000)
        until(lambda: all(len(each) > 1 for both in kept().values() for each in both), 60, kept)
        pair.clear()  # killed: one may have been about to write its last one
        for one, other in kept().values():
            both = min(len(one), len(other))
            assert one[:both] == other[:both] and max(len(one), len(other)) <= both + 1, kept()
