"""A script of pslib, as processes, on this package's own servers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from test_fleet_jobs import Job

import paddle.fluid as fluid
from paddle.fluid.incubate.fleet.base import role_maker
from paddle.fluid.incubate.fleet.parameter_server import pslib
from paddle.fluid.incubate.fleet.parameter_server.pslib import PSLib, fleet_embedding

SCRIPT = Path(__file__).parent / "jobs" / "pslib_job.py"


def run(servers: int, workers: int, *words: str) -> tuple[list[list[float]], str]:
    with Job(servers, workers, SCRIPT) as job:
        job.start_servers(*words)
        job.start_workers(*words)
        job.end()
        said = [each.output() for each in job.workers]
    return [[float(each) for each in re.findall(r"^loss (\S+)$", text, re.MULTILINE)] for text in said], said[0]


def test_a_script_of_pslib_trains_and_goes_on(tmp_path):
    losses, said = run(2, 2, "--save", str(tmp_path / "model"))
    assert max(each[0] for each in losses) > 0.6  # who comes later finds what the other one has trained
    for each in losses:
        assert len(each) == 60 and sum(each[-5:]) / 5 < 0.3, each
    assert said.count("fleet.shrink_sparse_table has no effect") == 1 and said.count("paddle ps status 127.0.0.1:") == 2
    assert sorted(path.name for path in (tmp_path / "model" / "__lookup_table__").iterdir()) == [
        f"embedding_{name}{i}" for name in ("", "moment_0_") for i in (0, 1)]
    again, _ = run(1, 1, "--load", str(tmp_path / "model"), "--steps", "3")
    assert again[0][0] < 0.35, again


def test_what_only_servers_can_do_is_said():
    fleet = PSLib()
    fleet.init(role_maker.UserDefinedRoleMaker(current_id=0, role=role_maker.Role.WORKER, worker_num=1,
                                               server_endpoints=["127.0.0.1:1"]))
    fleet.init_server()
    for call in (lambda: fleet.init_server("model"), lambda: fleet.load_model("model"), lambda: fleet.load_one_table(0, "model")):
        with pytest.raises(ValueError, match=r"in a worker: servers load \w+ here.* fleet\.run_server\(\)"):
            call()
    with pytest.raises(ValueError, match="need invoke DistributedOptimizer.minimize first"):
        fleet.run_server()
    for call in (fleet.clear_model, lambda: fleet.clear_one_table(0), lambda: fleet.load_pslib_whitelist(0, "x")):
        with pytest.raises(NotImplementedError, match="is not there yet: it belongs to pslib"):
            call()
    with pytest.raises(TypeError, match="losses has 2"):
        fleet.distributed_optimizer(fluid.optimizer.Adam()).minimize([None, None])
    with pytest.raises(ValueError, match="must be an instance of Optimizer"):
        fleet.distributed_optimizer("adam")


def test_the_layers_of_fleet_embedding_have_names(fresh):
    ids = fluid.data("ids", [4, 1], "int64")
    for layer, shape in ((pslib._fleet_embedding, (4, 1)), (pslib._fleet_embedding_v2, (4, 1, 1))):
        found = layer(input=ids, size=[-1, 1], param_attr=fluid.ParamAttr(name="embedding"))
        assert found.shape == shape and found.op.attr("is_distributed") and found.op.attr("is_sparse")
    with pytest.raises(ImportError, match="_prepare_params is not there yet: it belongs to pslib"):
        pslib._prepare_params(input=ids, size=[-1, 1])


def test_embeddings_are_what_they_were_afterwards():
    before = fluid.layers.embedding, fluid.embedding
    with pytest.raises(ZeroDivisionError), fleet_embedding(click_name=None):
        assert fluid.layers.embedding is not before[0]
        raise ZeroDivisionError
    assert (fluid.layers.embedding, fluid.embedding) == before
