"""fluid.Trainer in a job that is started again: every batch counts once, whatever the servers went on from
(jobs/trainer_resume.py)."""

from __future__ import annotations

import shutil
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
from cluster import JOBS, Process, free_ports

BATCHES = 15
SAID = "batches, which are in the parameters already: they are not trained again"
NOTHING = "train() has read no batch behind the first 15: it has trained nothing"
LOG = {"FLAGS_ps_log": "write"}


class TrainerJob:
    """Servers and trainers; `with` kills what is left."""

    def __init__(self, folder: Path, trainers: int, *options: str, servers: int = 1, **env: str):
        self.folder, self.options, self.trainers, self.processes = folder, options, trainers, []
        self.endpoints = [f"127.0.0.1:{port}" for port in free_ports(servers)]
        self.env = {"PADDLE_PSERVER_IPS": ",".join(self.endpoints), "PADDLE_TRAINERS": str(trainers),
                    "FLAGS_rpc_deadline": "30000", **env}

    def __enter__(self) -> TrainerJob:
        return self

    def __exit__(self, *unused) -> None:
        for process in self.processes:
            process.close()

    def _start(self, name: str, options: tuple, env: dict) -> Process:
        command = [sys.executable, str(JOBS / "trainer_resume.py"),
                   "--out", str(self.folder / f"{name}.npz"), *self.options, *options]
        self.processes.append(Process(name, command, env={**self.env, **env}))
        return self.processes[-1]

    def server(self, *options: str, index: int = 0, **env: str) -> Process:
        return self._start(f"server{index}", options,
                           {"PADDLE_TRAINING_ROLE": "PSERVER", "PADDLE_CURRENT_IP": self.endpoints[index], **env})

    def trainer(self, index: int, *options: str) -> Process:
        return self._start(f"trainer{index}", options, {"PADDLE_TRAINING_ROLE": "TRAINER", "PADDLE_TRAINER_ID": str(index)})

    def start(self, *options: str, **env: str) -> list[Process]:
        """The trainers, beside servers with this environment."""
        for i in range(len(self.endpoints)):
            self.server(*options, index=i, **env)
        return [self.trainer(i, *options) for i in range(self.trainers)]

    def stop(self, how: int = signal.SIGKILL) -> None:
        for process in self.processes:
            process.signal(how)
        for process in self.processes:
            process.end()
        self.__exit__()
        self.processes = []

    def end(self) -> None:
        for process in self.processes:
            assert process.end() == 0, process.output()

    def values(self) -> dict:
        return dict(np.load(self.folder / "trainer0.npz"))


def steps(trainer: Process) -> list[str]:
    """Its steps with their losses."""
    return [line for line in trainer.output().splitlines() if line.startswith("EndStep")]


def epochs(trainer: Process) -> list[str]:
    return [line for line in trainer.output().splitlines() if line.startswith(("BeginEpoch", "EndEpoch"))]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """For a number of trainers, and options: the steps of each with their losses, and the parameters."""
    known: dict = {}

    def give(trainers: int, *options: str) -> tuple:
        if (trainers, options) not in known:
            with TrainerJob(tmp_path_factory.mktemp("undisturbed"), trainers, *options) as job:
                found = job.start()
                job.end()
                assert all(SAID not in each.output() for each in found)
                known[trainers, options] = [steps(each) for each in found], job.values()
        return known[trainers, options]

    return give


def goes_on(job: TrainerJob, trainers: list[Process], want: tuple, done: int, has_own: bool = False) -> None:
    """Each goes on behind so many batches, to what an undisturbed job has."""
    job.end()
    for trainer, whole in zip(trainers, want[0]):
        assert steps(trainer) == whole[done:], trainer.output()
        assert (f"{done} {SAID}" in trainer.output()) == (done > 0), trainer.output()
    for name, value in job.values().items():
        if name == "mean" and not has_own:  # of batch_norm: trainers alone hold it
            continue
        np.testing.assert_array_equal(value, want[1][name], err_msg=name)


def stopped_before(job: TrainerJob, at: str, want: tuple, how: int = signal.SIGKILL, first: int = 0, **env: str) -> int:
    """The job up to that step of trainer 0, and how many batches it has had."""
    found = job.start("--hold", at, **env)
    found[0].wait_for("holds")
    done = 1 + next(i for i, line in enumerate(want[0][0]) if line.startswith("EndStep {} {} ".format(*at.split(".")))) - 1
    for other in found[1:]:
        other.wait_for(want[0][int(other.name[-1])][done - 1])
    assert steps(found[0]) == want[0][0][first:done]
    job.stop(how)
    return done


@pytest.mark.parametrize("trainers", [1, 2])
@pytest.mark.parametrize("how", ["log", "snapshot"])
@pytest.mark.parametrize("checkpoints", [True, False])
def test_servers_that_went_on_by_themselves(tmp_path, undisturbed, trainers, how, checkpoints):
    """Their last step is behind the checkpoint's, in the second epoch of one trainer and of the other."""
    want = undisturbed(trainers)
    options = ["--checkpoints", str(tmp_path / "checkpoints")] if checkpoints else []
    env = {"FLAGS_ps_dir": str(tmp_path / "ps"), **(LOG if how == "log" else {})}
    with TrainerJob(tmp_path, trainers, *options) as job:
        done = stopped_before(job, "1.5", want, signal.SIGKILL if how == "log" else signal.SIGTERM, **env)
        assert done == 9
        found = job.start(**env)
        goes_on(job, found, want, done)
        assert epochs(found[0])[-4:] == ["BeginEpoch 1", "EndEpoch 1", "BeginEpoch 2", "EndEpoch 2"]
        assert "EndEpoch 0" not in found[0].output()


@pytest.mark.parametrize("trainers", [1, 2])
def test_checkpoints_alone(tmp_path, undisturbed, trainers):
    """Servers begin with the checkpoint, of the fourth step of the second epoch."""
    want = undisturbed(trainers)
    with TrainerJob(tmp_path, trainers, "--checkpoints", str(tmp_path / "checkpoints")) as job:
        assert stopped_before(job, "1.5", want) == 9
        found = job.start()
        goes_on(job, found, want, 8, has_own=True)
        assert [epochs(each)[0] for each in found] == ["BeginEpoch 1"] * trainers  # the first one is not read again
        assert [name.name[:18] for name in (tmp_path / "checkpoints").iterdir()] == ["checkpoint_of_job_"]


@pytest.mark.parametrize("trainers", [1, 2])
def test_servers_that_had_kept_nothing(tmp_path, undisturbed, trainers):
    """They know their job, have no snapshot yet, and begin with the checkpoint, as often as it happens."""
    want, env = undisturbed(trainers), {"FLAGS_ps_dir": str(tmp_path / "ps")}
    with TrainerJob(tmp_path, trainers, "--checkpoints", str(tmp_path / "checkpoints")) as job:
        assert stopped_before(job, "1.1", want, **env) == 5  # the checkpoint: 4 batches
        assert stopped_before(job, "1.5", want, first=5, **env) == 9  # the checkpoint: 8
        goes_on(job, job.start(**env), want, 8, has_own=True)


@pytest.mark.parametrize("trainers", [1, 2])
def test_a_trainer_that_is_started_again(tmp_path, undisturbed, trainers):
    want = undisturbed(trainers)
    env = {"FLAGS_ps_on_trainer_loss": "wait", "FLAGS_ps_reconnect": "500"}
    with TrainerJob(tmp_path, trainers, "--checkpoints", str(tmp_path / "checkpoints"), **env) as job:
        server = job.server()
        stays = [job.trainer(i) for i in range(trainers - 1)]
        last = trainers - 1
        goes = job.trainer(last, "--hold", "1.5" if last == 0 else "2.0")
        goes.wait_for("holds")
        server.wait_for("listening")
        goes.kill()
        job.processes.remove(goes)
        goes.close()
        again = job.trainer(last)
        job.end()
        assert steps(again) == want[0][last][9:], again.output()
        assert f"9 {SAID}" in again.output()
        for trainer, whole in zip(stays, want[0]):
            assert steps(trainer) == whole
        if trainers == 1:
            np.testing.assert_array_equal(job.values()["w"], want[1]["w"])


def test_a_job_that_began_with_a_checkpoint(tmp_path, undisturbed):
    """It has no checkpoint of its own when it is killed: what it began with is known all the same. When it has ended it goes on,
    too: nothing is left to train."""
    want, env = undisturbed(2), {"FLAGS_ps_dir": str(tmp_path / "ps"), **LOG}
    with TrainerJob(tmp_path, 2, "--checkpoints", str(tmp_path / "checkpoints"), "--interval", "5", servers=2) as job:
        assert stopped_before(job, "1.3", want) == 7  # the checkpoint: 5 batches
        assert stopped_before(job, "1.5", want, first=5, **env) == 9
        goes_on(job, job.start(**env), want, 9)
        job.stop()
        found = job.start(**env)
        job.end()
        assert all(steps(each) == [] and f"15 {SAID}" in each.output() and NOTHING in each.output() for each in found)
        np.testing.assert_array_equal(job.values()["w"], want[1]["w"])


def test_servers_behind_the_checkpoint(tmp_path, undisturbed):
    """An older snapshot was put back by hand: training goes on behind what that has."""
    want, root, old = undisturbed(2), tmp_path / "ps", tmp_path / "old"
    env = {"FLAGS_ps_dir": str(root)}
    with TrainerJob(tmp_path, 2, "--checkpoints", str(tmp_path / "checkpoints")) as job:
        assert stopped_before(job, "1.1", want, signal.SIGTERM, **env) == 5
        shutil.copytree(root, old)
        assert stopped_before(job, "1.5", want, signal.SIGTERM, first=5, **env) == 9
        shutil.rmtree(root)
        shutil.copytree(old, root)
        goes_on(job, job.start(**env), want, 5)


@pytest.mark.parametrize("options", [[], ["--table"]], ids=["dense", "table"])
def test_servers_that_do_not_see_the_checkpoints(tmp_path, undisturbed, options):
    want = undisturbed(1, *options)
    with TrainerJob(tmp_path, 1, *options) as job:
        mine = ["--checkpoints", str(tmp_path / "checkpoints")]
        job.server(*mine)
        trainer = job.trainer(0, *mine, "--hold", "1.2")
        trainer.wait_for("holds")
        job.stop()
        job.server("--checkpoints", str(tmp_path / "nothing"))
        trainer = job.trainer(0, *mine)
        assert trainer.end() == 1
        assert "the servers have not begun with the checkpoint in" in trainer.output() and "checkpoint_dir" in trainer.output()
        assert steps(trainer) == []
        job.stop()
        goes_on(job, job.start(*mine), want, 5)


def test_servers_of_another_job_than_the_checkpoints(tmp_path, undisturbed):
    want, one, other = undisturbed(1), str(tmp_path / "one"), str(tmp_path / "other")
    env = {"FLAGS_ps_dir": str(tmp_path / "ps"), **LOG}
    with TrainerJob(tmp_path, 1) as job:
        for folder, more in ((one, {}), (other, env)):
            job.options = ("--checkpoints", folder)
            stopped_before(job, "1.5", want, **more)
        job.options = ("--checkpoints", one)
        (trainer,) = job.start(**env)
        assert trainer.end() == 1
        for text in ("the servers have taken up the job", "trainer 0 is 9", f"in '{one}' is of the job", "FLAGS_ps_fresh=1"):
            assert text in trainer.output(), trainer.output()
        job.stop()
        goes_on(job, job.start(**env, FLAGS_ps_fresh="1"), want, 8)


@pytest.mark.parametrize("checkpoints", [True, False])
def test_train_is_called_twice(tmp_path, undisturbed, checkpoints):
    """Stopped in the second call."""
    want = undisturbed(2, "--calls", "2")
    assert len(want[0][0]) == 2 * BATCHES
    options = ["--checkpoints", str(tmp_path / "checkpoints")] if checkpoints else []
    env = {"FLAGS_ps_dir": str(tmp_path / "ps"), **LOG}
    with TrainerJob(tmp_path, 2, *options) as job:
        job.start("--calls", "1", **env)
        job.end()
        job.stop()
        found = job.start("--calls", "2", "--hold", "1.2", **env)
        found[0].wait_for("holds")
        assert steps(found[0]) == want[0][0][BATCHES : BATCHES + 6]
        found[1].wait_for(want[0][1][BATCHES + 5])
        job.stop()
        goes_on(job, job.start("--calls", "2", **env), want, BATCHES + 6)


def test_parameters_to_begin_with_are_not_loaded_again(tmp_path, undisturbed):
    """They are those of the begin: the servers have trained since."""
    params = tmp_path / "params"
    with TrainerJob(tmp_path, 1, "--checkpoints", str(tmp_path / "checkpoints")) as job:
        job.start("--hold", "0.2")[0].wait_for("holds")
        job.stop()
    shutil.copytree(sorted((tmp_path / "checkpoints").glob("checkpoint_*"))[-1] / "__model__", params)
    want, env = undisturbed(1, "--params", str(params)), {"FLAGS_ps_dir": str(tmp_path / "ps"), **LOG}
    assert want[0] != undisturbed(1)[0]
    with TrainerJob(tmp_path, 1, "--params", str(params)) as job:
        done = stopped_before(job, "1.5", want, **env)
        goes_on(job, job.start(**env), want, done)
