"""Sync training on n servers x m trainers gives what one process gives with the joined batch."""

import itertools
import os
import subprocess
import sys

import numpy as np
import pytest
from cluster import JOBS, Job

SMALL = [
    ("1x1", "fit_a_line", "sgd", []),
    ("1x2", "fit_a_line", "sgd", []),
    ("2x2", "mlp", "adam", []),
    ("2x2", "mlp", "momentum", ["--decay", "--schedule"]),
    ("2x2", "word2vec_sparse", "adagrad", []),
    ("3x2", "word2vec", "sgd", ["--schedule"]),
    ("2x2", "mlp", "sgd", ["--clip", "value"]),
    ("2x2", "mlp", "sgd", ["--clip", "norm"]),
    ("2x2", "mlp", "adam", ["--clip", "global_norm"]),
    ("2x2", "mlp", "sgd", ["--no-slices"]),
]
WHOLE = [
    (shape, model, optimizer, [*more, *slices])
    for shape, model, optimizer, more, slices in itertools.product(
        ["1x1", "1x2", "2x2", "3x2"],
        ["fit_a_line", "mlp", "word2vec", "word2vec_sparse"],
        ["sgd", "momentum", "adam", "adagrad"],
        [[], ["--decay"], ["--clip", "value"], ["--clip", "norm"], ["--clip", "global_norm"], ["--schedule"]],
        [[], ["--no-slices"]],
    )
]
CASES = WHOLE if os.environ.get("PADDLE_SOAK") else SMALL


def single(tmp_path, trainers: int, options: list[str]) -> dict:
    out = tmp_path / "single.npz"
    command = [sys.executable, str(JOBS / "equality.py"), "single", "--trainers", str(trainers), "--out", str(out), *options]
    subprocess.run(command, check=True, timeout=120, env={**os.environ, "OMP_NUM_THREADS": "1"})
    return dict(np.load(out))


def whole(name: str, trainer: dict, servers: list[dict]) -> np.ndarray:
    """A parameter as the trainer has it, else put together from the servers' slices."""
    if name in trainer:
        return trainer[name]
    held = {key: value for server in servers for key, value in server.items()}
    if name in held:
        return held[name]
    slices = [held[f"{name}.block{k}"] for k in range(len(held)) if f"{name}.block{k}" in held]
    return np.concatenate(slices)


@pytest.mark.parametrize("shape, model, optimizer, more", CASES, ids=lambda v: v if isinstance(v, str) else "_".join(v).replace("--", "") or "plain")
def test_equals_one_process(tmp_path, shape, model, optimizer, more):
    servers, trainers = map(int, shape.split("x"))
    options = ["--model", model, "--optimizer", optimizer, *more]
    want = single(tmp_path, trainers, options)
    with Job(servers, trainers) as job:
        job.start_all(*options, out=tmp_path)
        job.end(deadline=60)
    got = [dict(np.load(tmp_path / f"trainer-{i}.npz")) for i in range(trainers)]
    held = [dict(np.load(tmp_path / f"server-{i}.npz")) for i in range(servers)]
    losses = np.mean([g["losses"] for g in got], axis=0)
    np.testing.assert_allclose(losses, want["losses"], rtol=1e-5, atol=1e-6)
    for name in want:
        if name == "losses":
            continue
        distance = np.linalg.norm(whole(name, got[0], held) - want[name]) / max(1e-12, np.linalg.norm(want[name]))
        assert distance < 1e-5, f"{name}: {distance}"
