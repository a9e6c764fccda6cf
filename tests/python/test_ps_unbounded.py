"""contrib.layers.sparse_embedding: a table without a vocabulary, and which of its ids have a row (jobs/unbounded.py)."""

from __future__ import annotations

import json
import re
import sys

import numpy as np
import pytest
from cluster import JOBS, Job

import paddle.fluid as fluid
from paddle.fluid.entry_attr import CountFilterEntry, ProbabilityEntry

sys.path.insert(0, str(JOBS))
from unbounded import IDS, SELDOM  # noqa: E402


def run(servers: int, *options: str, trainers: int = 2) -> list[float]:
    with Job(servers, trainers, "unbounded.py") as job:
        job.start_all(*options)
        job.end(120)
        said = job.clear()
    return json.loads(re.search(r"^ends (.*)$", said[servers], re.MULTILINE)[1])


def test_any_id():
    """Seldom ones came in steps 0 and 3 of 6."""
    assert run(2) == [6.0] * len(IDS) + [2.0] * len(SELDOM)


def test_a_count():
    """The first two steps of an id are dropped, and with them all of those that come twice."""
    assert run(2, "--count", "3") == [4.0] * len(IDS) + [0.0] * len(SELDOM)


def test_a_chance():
    found = run(1, "--chance", "0.3", "--steps", "30", trainers=1)
    assert all(0 <= each <= 30 for each in found) and max(found) > 10
    assert sum(found) < 30 * len(IDS) + 10 * len(SELDOM)


def test_expiry():
    """What comes in every third step only begins anew each time, where rows live for two, and is gone two steps behind the last."""
    assert run(2, "--expires", "2") == [6.0] * len(IDS) + [0.0] * len(SELDOM)
    assert run(2, "--expires", "2", "--steps", "5") == [5.0] * len(IDS) + [1.0] * len(SELDOM)


@pytest.mark.parametrize("mode", [[], ["--async"]], ids=["sync", "async"])
def test_every_step_counts_once(tmp_path, mode):
    """All are killed in the middle, and started again with the log; then other servers go on."""
    env = {"FLAGS_ps_dir": str(tmp_path), "FLAGS_ps_log": "write", "FLAGS_ps_snapshot_seconds": "1"}
    with Job(2, 1, "unbounded.py", env) as job:
        job.start_all("--steps", "300", "--count", "2", *mode)
        job.processes[2].wait_for("did 40", 60)
        for process in job.processes:
            process.kill()
        job.clear()
        job.start_all("--steps", "300", "--count", "2", *mode)
        job.end(120)
        said = job.clear()
    assert json.loads(re.search(r"^ends (.*)$", said[2], re.MULTILINE)[1]) == [299.0] * len(IDS) + [99.0] * len(SELDOM)


def test_files(tmp_path):
    run(2, "--save", str(tmp_path))
    assert run(3, "--load", str(tmp_path), "--steps", "0") == [6.0] * len(IDS) + [2.0] * len(SELDOM)


def test_a_whole_table_of_one_process(tmp_path):
    """Row i is that of id i."""
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard(), fluid.scope_guard(fluid.Scope()):
        ids = fluid.layers.data("ids", [1], dtype="int64")
        attr = fluid.ParamAttr(name="emb", initializer=fluid.initializer.Constant(-5.0))
        rows = fluid.contrib.layers.sparse_embedding(ids, [10, 2], param_attr=attr)
        fluid.optimizer.SGD(1.0).minimize(fluid.layers.reduce_sum(rows))
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(fluid.default_startup_program())
        fluid.io.save_persistables(exe, str(tmp_path), fluid.default_main_program())
    assert run(2, "--load", str(tmp_path), "--steps", "0") == [5.0, 5.0, 0.0, 0.0, 0.0, 5.0, 0.0]


def test_what_is_refused():
    with pytest.raises(ValueError, match="float between 0 and 1"):
        ProbabilityEntry(1.0)
    with pytest.raises(ValueError, match="whole number"):
        CountFilterEntry(0)
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
        ids = fluid.layers.data("ids", [1], dtype="int64")
        with pytest.raises(ValueError, match="entry must be"):
            fluid.contrib.layers.sparse_embedding(ids, [10, 2], entry="count_filter_entry:3")
        with pytest.raises(ValueError, match="expires is 0"):
            fluid.contrib.layers.sparse_embedding(ids, [10, 2], expires=0)
        attr = fluid.ParamAttr(name="emb", initializer=fluid.initializer.Normal(0.0, 1.0, seed=3))
        rows = fluid.contrib.layers.sparse_embedding(ids, [10, 2], entry=CountFilterEntry(3), param_attr=attr)
        with pytest.raises(ValueError, match="another entry"):
            fluid.contrib.layers.sparse_embedding(ids, [10, 2], param_attr=attr)
        fluid.optimizer.SGD(1.0).minimize(fluid.layers.reduce_sum(rows))
        with pytest.raises(ValueError, match="no vocabulary, and a Normal initializer with a seed"):
            fluid.DistributeTranspiler().transpile(0, pservers="127.0.0.1:6174", trainers=1)


def test_without_servers():
    """An ordinary table of the size that was given."""
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard(), fluid.scope_guard(fluid.Scope()):
        ids = fluid.layers.data("ids", [1], dtype="int64")
        attr = fluid.ParamAttr(name="emb", initializer=fluid.initializer.Constant(2.0))
        rows = fluid.contrib.layers.sparse_embedding(ids, [10, 2], param_attr=attr, entry=ProbabilityEntry(0.5))
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(fluid.default_startup_program())
        (found,) = exe.run(feed={"ids": np.array([[9]])}, fetch_list=[rows])
        assert found.tolist() == [[2.0, 2.0]]
