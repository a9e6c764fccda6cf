"""A distributed table whose optimizer has states: its rows are made when they are first trained (jobs/hashed.py). Sync jobs
equal one process; what is kept and saved goes on, on any number of servers, with every step counted once."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
from cluster import JOBS, Job, Process

sys.path.insert(0, str(JOBS))
from hashed import ROWS, RULES, STARTS, WIDTH  # noqa: E402


def single(*options: str) -> np.ndarray:
    process = Process("single", [sys.executable, str(JOBS / "hashed.py"), "single", "--trainers", "2", *options])
    try:
        assert process.end(120) == 0, process.output()
        return table_of(process.output())
    finally:
        process.close()


def table_of(said: str) -> np.ndarray:
    return np.array(json.loads(re.search(r"^ends (.*)$", said, re.MULTILINE)[1]))


def run(servers: int, *options: str, trainers: int = 2, env: dict | None = None) -> tuple[np.ndarray, str]:
    """The table as trainer 0 sees it at the end, and what everybody said."""
    with Job(servers, trainers, "hashed.py", env) as job:
        job.start_all(*options)
        job.end(120)
        said = job.clear()
    return table_of("".join(said)), "".join(said)


@pytest.mark.parametrize("rule", RULES)
def test_equals_one_process(rule):
    found, _ = run(2, "--rule", rule)
    want = single("--rule", rule)
    assert found.shape == want.shape == (ROWS, WIDTH)
    np.testing.assert_allclose(found, want, rtol=0, atol=1e-5)


@pytest.mark.parametrize("start", sorted(set(STARTS) - {"uniform"}))
def test_starts(start):
    found, _ = run(3, "--start", start, "--rule", "adagrad", "--steps", "2", trainers=1)
    np.testing.assert_allclose(found, single("--start", start, "--rule", "adagrad", "--steps", "2"), rtol=0, atol=1e-5)


@pytest.mark.parametrize("log", ["", "write"])
def test_killed_and_started_again(tmp_path, log):
    """All are killed in the middle; with a log nothing is lost, and without one a server goes on from its last snapshot."""
    env = {"FLAGS_ps_dir": str(tmp_path), "FLAGS_ps_log": log, "FLAGS_ps_snapshot_steps": "7"}
    options = ("--rule", "adam", "--steps", "60")
    servers = 2 if log else 1
    with Job(servers, 2, "hashed.py", env) as job:
        job.start_all(*options)
        for process in job.processes[servers:]:
            process.wait_for("did 25", 60)
        for process in job.processes:
            process.kill()
        job.clear()
        job.start_all(*options)
        job.end(120)
        said = "".join(job.clear())
    begun = int(re.search(r"begins (\d+)", said)[1])
    assert begun >= 25 if log else begun % 7 == 0 and begun >= 14, said
    np.testing.assert_allclose(table_of(said), single(*options), rtol=0, atol=1e-5)


@pytest.mark.parametrize("servers", [1, 3])
def test_another_number_of_servers_takes_it_up(tmp_path, servers):
    env = {"FLAGS_ps_dir": str(tmp_path)}
    with Job(2, 1, "hashed.py", env) as job:
        job.start_all("--steps", "100000", "--rule", "adam")
        job.processes[2].wait_for("did 10", 60)
        for process in job.processes[:2]:
            process.signal(signal.SIGTERM)
        for process in job.processes[:2]:
            assert process.end(60) == 0, process.output()
        job.clear()
    with Job(servers, 1, "hashed.py", env) as job:
        job.start_all("--steps", "0", "--rule", "adam")
        job.end(60)
        said = "".join(job.clear())
    begun = int(re.search(r"begins (\d+)", said)[1])
    assert begun > 10
    with_steps = table_of(said)
    want = Process("single", [sys.executable, str(JOBS / "hashed.py"), "single", "--rule", "adam", "--steps", str(begun)])
    assert want.end(120) == 0, want.output()
    np.testing.assert_allclose(with_steps, table_of(want.output()), rtol=0, atol=1e-5)
    want.close()


@pytest.mark.parametrize("rule, servers", [("adam", 3), ("adagrad", 1), ("momentum", 2)])
def test_files_for_other_servers(tmp_path, rule, servers):
    """save_persistables writes parts, states too; other servers go on from them as if nothing had been between."""
    folder = str(tmp_path / "model")
    run(2, "--rule", rule, "--steps", "4", "--save", folder, trainers=1)
    states = {"adam": ["moment1_0", "moment2_0"], "adagrad": ["moment_0"], "momentum": ["velocity_0"]}[rule]
    parts = sorted(os.listdir(Path(folder) / "__lookup_table__"))
    assert parts == sorted(f"{name}_{i}" for name in ("emb", *(f"emb_{state}" for state in states)) for i in (0, 1))
    found, _ = run(servers, "--rule", rule, "--steps", "3", "--load", folder, trainers=1)
    again, _ = run(1, "--rule", rule, "--steps", "3", "--load", folder, trainers=1)
    np.testing.assert_array_equal(found, again)
    # A part that is missing is told by number.
    (Path(folder) / "__lookup_table__" / "emb_1").unlink()
    with Job(1, 1, "hashed.py") as job:
        server = job.start("server", 0, "--rule", rule, "--load", folder)
        assert server.end(60) != 0
        assert "of 2 parts number 1" in server.output()


def test_a_snapshot_is_all_that_counts(tmp_path):
    """A server that loads a model each time it starts: what its snapshot has takes the place of that, rows that only the model has
    go."""
    model, env = str(tmp_path / "model"), {"FLAGS_ps_dir": str(tmp_path / "ps")}
    options = ("--rule", "adagrad", "--steps", "1")
    run(1, "--rule", "adagrad", "--steps", "6", "--save", model, trainers=1)
    want, _ = run(1, *options, trainers=1, env=env)
    found, said = run(1, *options, "--load", model, trainers=1, env=env)
    assert "begins 1" in said
    np.testing.assert_array_equal(found, want)


def test_status_tells_rows(tmp_path):
    with Job(1, 1, "hashed.py") as job:
        job.start_all("--steps", "100000", "--rule", "lazy")
        job.processes[1].wait_for("did 5", 60)
        paddle = str(Path(sys.executable).with_name("paddle"))
        asked = Process("status", [paddle, "ps", "status", job.endpoints[0]])
        assert asked.end(60) == 0, asked.output()
        rows = int(re.search(r"(\d+) rows by id", asked.output())[1])
        assert 0 < rows <= ROWS
        asked.close()
        asked = Process("status", [paddle, "ps", "status", "--json", job.endpoints[0]])
        assert asked.end(60) == 0, asked.output()
        found = json.loads(asked.output())["parameters"]
        assert rows <= found["rows"] <= ROWS and found["bytes"] > found["rows"] * (16 + 4 * 3 * WIDTH)
        asked.close()
        for process in job.processes:
            process.kill()
        job.clear()
