"""fluid.Trainer as a server or a trainer of a cluster, by the environment."""

import os
import sys

import numpy as np
import pytest
from cluster import JOBS, Process, free_ports

import paddle.fluid as fluid
from paddle.fluid.contrib import trainer_cluster

NAMES = "TRAINING_ROLE PSERVER_IPS PSERVER_PORT TRAINERS TRAINER_ID CURRENT_IP TRAINER_IPS"


def run(tmp_path, trainers: int, folder="-", last: int = 0, ids: bool = True) -> list[dict]:
    """A server and trainers (0: one process alone), all of which end well. What the trainers saw, in the order of their ids."""
    common = {"PADDLE_PSERVER_PORT": str(free_ports(1)[0]), "PADDLE_PSERVER_IPS": "127.0.0.1", "PADDLE_TRAINERS": str(trainers)}
    roles = [{**common, "PADDLE_TRAINING_ROLE": "PSERVER", "PADDLE_CURRENT_IP": "127.0.0.1"}] if trainers else [{}]
    for i in range(trainers):
        number = {"PADDLE_TRAINER_ID": str(i)} if ids else {}
        roles.append({**common, "PADDLE_TRAINING_ROLE": "TRAINER", **number})
    script, processes = str(JOBS / "trainer_api.py"), []
    outs = [tmp_path / f"{i}.npz" for i in range(len(roles))]
    try:
        for role, out in zip(roles, outs):
            command = [sys.executable, script, str(out), str(folder), str(last)]
            processes.append(Process(out.stem, command, env=role))
        for p in processes:
            assert p.end(60) == 0, p.output()
    finally:
        for p in processes:
            p.close()
    assert not (trainers and outs[0].exists())  # the server's train() has ended its process
    return sorted((dict(np.load(out)) for out in outs if out.exists()), key=lambda seen: seen["id"])


def same(found: list[dict], want: dict, losses) -> None:
    assert [seen["id"] for seen in found] == list(range(len(found)))
    for seen in found:
        np.testing.assert_allclose(seen["losses"], losses, rtol=1e-5)
        for name in ("w", "mean"):
            np.testing.assert_allclose(seen[name], want[name], rtol=1e-4, atol=1e-6)


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    (seen,) = run(tmp_path_factory.mktemp("alone"), 0)
    assert len(seen["losses"]) == 15 and seen["losses"][-1] < seen["losses"][0]
    return seen


@pytest.mark.parametrize("ids", [True, False])
def test_a_server_and_two_trainers(tmp_path, alone, ids):
    same(run(tmp_path, 2, ids=ids), alone, alone["losses"])


def test_goes_on_after_a_checkpoint(tmp_path, alone):
    """Servers take up the states of the optimizer too; at the end no checkpoint is left, but how many batches the job
    began with."""
    folder = tmp_path / "checkpoints"
    first = run(tmp_path, 2, folder, last=7)
    for seen in first:
        np.testing.assert_allclose(seen["losses"], alone["losses"][:7], rtol=1e-5)
    (tmp_path / "again").mkdir()
    assert os.listdir(folder)
    same(run(tmp_path / "again", 2, folder), alone, alone["losses"][7:])
    (record,) = os.listdir(folder)
    assert record.startswith("checkpoint_of_job_") and (folder / record).read_text() == "7"


@pytest.mark.parametrize(
    "env, text",
    [
        (dict(TRAINING_ROLE="WORKER"), "PADDLE_TRAINING_ROLE is 'WORKER'.*PSERVER or TRAINER"),
        (dict(TRAINING_ROLE="TRAINER"), "PADDLE_PSERVER_IPS is not"),
        (dict(TRAINING_ROLE="TRAINER", PSERVER_IPS="a"), "PADDLE_TRAINERS is not"),
        (dict(TRAINING_ROLE="TRAINER", PSERVER_IPS="a", TRAINERS="two"), "PADDLE_TRAINERS is 'two'"),
        (dict(TRAINING_ROLE="TRAINER", PSERVER_IPS="a", TRAINERS="2", TRAINER_ID="-1"), "PADDLE_TRAINER_ID is '-1'"),
        (dict(TRAINING_ROLE="PSERVER", PSERVER_IPS="a", TRAINERS="2"), "PADDLE_CURRENT_IP is not"),
        (dict(TRAINING_ROLE="PSERVER", PSERVER_IPS="a,b", TRAINERS="2", CURRENT_IP="c"), "c:6174.*a:6174, b:6174"),
        (dict(TRAINER_IPS="a,b"), "PADDLE_TRAINER_IPS.*parameter servers"),
    ],
)
def test_wrong_environments(monkeypatch, env, text):
    for name in NAMES.split():
        monkeypatch.delenv(f"PADDLE_{name}", raising=False)
    for name, value in env.items():
        monkeypatch.setenv(f"PADDLE_{name}", value)
    with pytest.raises(ValueError, match=text):
        fluid.Trainer(lambda: None, lambda: None)


def test_environments(monkeypatch):
    for name in NAMES.split():
        monkeypatch.delenv(f"PADDLE_{name}", raising=False)
    assert trainer_cluster.from_environment() is None
    monkeypatch.setenv("PADDLE_TRAINING_ROLE", "PSERVER")
    monkeypatch.setenv("PADDLE_PSERVER_IPS", "10.0.0.1, ::1,[::2]:7,host:8")
    monkeypatch.setenv("PADDLE_CURRENT_IP", "::1")
    monkeypatch.setenv("PADDLE_TRAINERS", "3")
    found = trainer_cluster.from_environment()
    assert found.endpoints == ["10.0.0.1:6174", "[::1]:6174", "[::2]:7", "host:8"]
    assert found.is_server and (found.endpoint, found.trainers) == ("[::1]:6174", 3)
