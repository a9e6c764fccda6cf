"""Strategies of Fleet, their knobs, what `fleet` refuses, and the Communicator."""

import os
import re
import subprocess
import sys

import pytest

import paddle.fluid as fluid
from paddle.fluid.communicator import Communicator, DistributedMode
from paddle.fluid.incubate.fleet.base import role_maker
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import (
    DistributedTranspiler,
    TranspilerOptimizer,
    fleet,
    strategy_of,
)
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler.distributed_strategy import (
    AsyncStrategy,
    DistributedStrategy,
    GeoStrategy,
    HalfAsyncStrategy,
    StrategyFactory,
    SyncStrategy,
    TrainerRuntimeConfig,
)
from paddle.fluid.transpiler.config import mode_of


@pytest.fixture(autouse=True)
def plain(monkeypatch):
    for name in [name for name in os.environ if name.startswith("FLAGS_communicator") or name == "CPU_NUM"]:
        monkeypatch.delenv(name)
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard(), fluid.scope_guard(fluid.Scope()):
        yield


@pytest.mark.parametrize("strategy, kind, mode", [
    (StrategyFactory.create_sync_strategy(), SyncStrategy, DistributedMode.SYNC),
    (StrategyFactory.create_async_strategy(), AsyncStrategy, DistributedMode.ASYNC),
    (StrategyFactory.create_half_async_strategy(), HalfAsyncStrategy, DistributedMode.HALF_ASYNC),
    (StrategyFactory.create_geo_strategy(7), GeoStrategy, DistributedMode.GEO),
])
def test_factory(strategy, kind, mode):
    assert type(strategy) is kind and strategy.get_trainer_runtime_config().mode == mode
    config = strategy.get_program_config()
    assert (config.sync_mode, config.runtime_split_send_recv, config.geo_sgd_mode) == (False, True, mode == DistributedMode.GEO)
    assert config.geo_sgd_need_push_nums == (7 if mode == DistributedMode.GEO else 100)
    assert strategy.get_build_strategy().async_mode
    assert strategy.get_execute_strategy().use_thread_barrier == (mode in (DistributedMode.SYNC, DistributedMode.HALF_ASYNC))
    if mode in (DistributedMode.SYNC, DistributedMode.ASYNC):
        assert mode_of(config, config.sync_mode) == mode, "what the transpiler makes of it"


def config(**options):
    found = fluid.DistributeTranspilerConfig()
    for name, value in options.items():
        setattr(found, name, value)
    return found


@pytest.mark.parametrize("options, kind", [
    ({}, SyncStrategy),
    ({"sync_mode": False, "runtime_split_send_recv": True}, AsyncStrategy),
    ({"sync_mode": False}, HalfAsyncStrategy),
    ({"sync_mode": False, "runtime_split_send_recv": True, "half_async": True}, HalfAsyncStrategy),
    ({"sync_mode": False, "geo_sgd_mode": True, "geo_sgd_need_push_nums": 5}, GeoStrategy),
])
def test_a_config_of_the_transpiler_stands_for_a_strategy(options, kind):
    given = config(**options)
    found = strategy_of(given)
    assert type(found) is kind and found.get_program_config() is given
    assert given.geo_sgd_need_push_nums == options.get("geo_sgd_need_push_nums", 100)


def test_defaults_and_environment(monkeypatch):
    knobs = TrainerRuntimeConfig().runtime_configs
    assert knobs == {
        "communicator_max_merge_var_num": "1", "communicator_send_queue_size": "1", "communicator_independent_recv_thread": "1",
        "communicator_min_send_grad_num_before_recv": "1", "communicator_thread_pool_size": "5",
        "communicator_send_wait_times": "5", "communicator_is_sgd_optimizer": "1", "rpc_deadline": "180000", "rpc_retry_times": "3",
    }
    monkeypatch.setenv("CPU_NUM", "4")
    monkeypatch.setenv("FLAGS_communicator_send_wait_times", "9")
    monkeypatch.setenv("FLAGS_communicator_send_queue_size", "20")
    strategy = StrategyFactory.create_async_strategy()
    knobs = strategy.get_trainer_runtime_config().runtime_configs
    assert knobs["communicator_max_merge_var_num"] == "4" and knobs["communicator_send_wait_times"] == "9"
    assert knobs["communicator_send_queue_size"] == "20"
    assert strategy.get_execute_strategy().num_threads == 4
    assert strategy.get_build_strategy().reduce_strategy == fluid.BuildStrategy.ReduceStrategy.Reduce


def test_knobs_as_dict_and_as_object():
    strategy = StrategyFactory.create_async_strategy()
    strategy.set_trainer_runtime_config({"communicator_send_queue_size": 20})
    assert strategy.get_trainer_runtime_config().get_communicator_flags()["communicator_send_queue_size"] == "20"
    strategy.set_program_config({"min_block_size": 10000, "slice_var_up": False})
    assert (strategy.get_program_config().min_block_size, strategy.get_program_config().slice_var_up) == (10000, False)
    strategy.set_server_runtime_config({"rpc_send_thread_num": 3, "_rpc_get_thread_num": 4})
    server = strategy.get_server_runtime_config()
    assert (server._rpc_send_thread_num, server._rpc_get_thread_num) == (3, 4)
    strategy.set_execute_strategy({"num_threads": 2})
    strategy.set_build_strategy({"memory_optimize": True, "async_mode": False})
    assert strategy.get_execute_strategy().num_threads == 2 and strategy.get_build_strategy().async_mode, "the mode's own stays"
    for part, owner in (("program_config", fluid.DistributeTranspilerConfig), ("trainer_runtime_config", TrainerRuntimeConfig),
                        ("execute_strategy", fluid.ExecutionStrategy), ("build_strategy", fluid.BuildStrategy)):
        given = owner()
        getattr(strategy, f"set_{part}")(given)
        assert getattr(strategy, f"get_{part}")() is given
    assert strategy.get_trainer_runtime_config().mode == DistributedMode.ASYNC


@pytest.mark.parametrize("part, key, said", [
    ("program_config", "min_blok_size",
     "DistributeTranspilerConfig doesn't have key: min_blok_size. Did you mean 'min_block_size'?"),
    ("trainer_runtime_config", "communicator_send_que_size",
     "TrainerRuntimeConfig doesn't have key: communicator_send_que_size. Did you mean 'communicator_send_queue_size'?"),
    ("server_runtime_config", "threads", "ServerRuntimeConfig doesn't have key: threads. There are "),
    ("execute_strategy", "num_thread", "ExecutionStrategy doesn't have key: num_thread. Did you mean 'num_threads'?"),
    ("build_strategy", "async_mod", "BuildStrategy doesn't have key: async_mod. Did you mean 'async_mode'?"),
])
def test_an_unknown_key(part, key, said):
    strategy = StrategyFactory.create_sync_strategy()
    with pytest.raises(ValueError) as found:
        getattr(strategy, f"set_{part}")({key: 1})
    assert str(found.value).startswith(said)
    with pytest.raises(TypeError, match=f"{part} only accept input type: dict or"):
        getattr(strategy, f"set_{part}")("text")


def test_the_table_of_a_worker(capsys):
    strategy = StrategyFactory.create_sync_strategy()
    strategy.set_trainer_runtime_config({"communicator_max_merge_var_num": 20})
    text = repr(strategy.get_trainer_runtime_config())
    warned = "WARNING: In sync or half_async mode, communicator_max_merge_var_num must be equal to CPU_NUM."
    assert warned in capsys.readouterr().out
    lines = text.strip().splitlines()
    assert lines[0] == "=" * 50 and "TrainerRuntimeConfig Overview" in lines[1]
    assert lines[3] == f"{'communicator_max_merge_var_num':<45}1    " and len(lines) == 8
    with pytest.raises(ValueError, match="Unsupported Mode"):
        strategy.get_trainer_runtime_config().mode = 9
        repr(strategy.get_trainer_runtime_config())


def test_the_base_class_is_no_strategy():
    strategy = DistributedStrategy()
    for part in ("program_config", "trainer_runtime_config", "server_runtime_config", "execute_strategy", "build_strategy"):
        with pytest.raises(NotImplementedError, match="You should use StrategyFactory"):
            getattr(strategy, f"check_{part}")()
    assert strategy.get_debug_opt() == {}
    strategy.set_debug_opt({"dump_param": ["w"]})
    assert strategy.get_debug_opt()["dump_param"] == ["w"] and strategy.get_debug_opt()["dump_file_num"] == 16


# ---- fleet ----


def loss_of():
    return fluid.layers.mean(fluid.layers.fc(fluid.data("x", [None, 2]), 1))


def init(role=role_maker.Role.SERVER, workers=2):
    fleet.__init__()
    fleet.init(role_maker.UserDefinedRoleMaker(0, role, workers, ["127.0.0.1:36011", "127.0.0.1:36012"]))


def test_what_fleet_refuses():
    fresh = DistributedTranspiler()
    exe = fluid.Executor(fluid.CPUPlace())
    with pytest.raises(ValueError, match=r"use fleet\.init\(role\)"):
        fresh.distributed_optimizer(fluid.optimizer.SGD(0.1))
    with pytest.raises(ValueError, match=r"startup_program is None, need .* first: fleet.distributed_optimizer\(optimizer"):
        fresh.init_server()
    with pytest.raises(ValueError, match="main_program is None, need invoke DistributedOptimizer.minimize first"):
        fresh.run_server()
    with pytest.raises(ValueError, match="main_program is None"):
        fresh.init_worker()
    with pytest.raises(ValueError, match="main_program is None"):
        fresh.save_persistables(exe, "x")
    with pytest.raises(ValueError, match=r"There is no directory named 'nowhere'\. The working directory '.+' has '"):
        fresh.init_server("nowhere")
    with pytest.raises(TypeError, match=r"in fleet.save_persistables\(\) function, executor must be as Executor type$"):
        fresh.save_persistables("executor", "x")
    compiled = fluid.CompiledProgram(fluid.default_main_program())
    with pytest.raises(TypeError, match="CompiledProgram is not allowed"):
        fresh.save_inference_model(exe, "x", ["x"], [], compiled)
    with pytest.raises(ValueError, match="main_program is for local, may not use fleet.save_persistables"):
        fresh.save_persistables(exe, "x", fluid.default_main_program())
    with pytest.raises(TypeError, match="config must be an instance of DistributeTranspilerConfig, SyncStrategy"):
        fresh._transpile("config")
    init()
    with pytest.raises(ValueError, match="optimizer must be an instance of Optimizer"):
        fleet.distributed_optimizer("SGD")
    with pytest.raises(TypeError, match="In transpiler mode, strategy must be an instance of DistributeTranspilerConfig"):
        TranspilerOptimizer(fluid.optimizer.SGD(0.1), "strategy")
    optimizer = fleet.distributed_optimizer(fluid.optimizer.SGD(0.1))
    with pytest.raises(TypeError, match="can not accept loss with list"):
        optimizer.minimize([])
    with pytest.raises(TypeError, match="can not accept program with list"):
        optimizer.minimize("loss", startup_program=[])


def test_a_server_in_this_process():
    init()
    loss = loss_of()
    optimizer = fleet.distributed_optimizer(fluid.optimizer.SGD(0.1))
    ops, pairs = optimizer.minimize(loss)
    assert ops and len(pairs) == 2
    assert [op.type for op in fleet.main_program.global_block().ops] == ["listen_and_serv"]
    assert loss.block.program._fleet_opt["device_worker"] == "Hogwild"
    assert "send" not in [op.type for op in fleet._origin_program.global_block().ops]
    with pytest.raises(fluid.core.NotFoundError, match=r"has no value; run .*\(Fleet: fleet.init_server\(\)\)"):
        fleet.run_server()
    fleet.init_server()
    with pytest.raises(ValueError, match="this process is a server"):
        fleet.init_worker()


def test_a_server_of_another_strategy():
    """minimize again: the Programs are those of the second strategy alone, as if the first had not been."""
    def made(loss, strategy):
        fleet.distributed_optimizer(fluid.optimizer.SGD(0.1), strategy).minimize(loss)
        return [re.sub(r"learning_rate_\d+", "learning_rate", str(p)) for p in (fleet.main_program, fleet.startup_program)]

    init()
    loss = loss_of()
    factory = StrategyFactory
    for strategy in (factory.create_geo_strategy(5), factory.create_async_strategy(), factory.create_sync_strategy()):
        again = made(loss, strategy)
        with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
            assert made(loss_of(), strategy) == again
        assert made(loss, strategy) == again
    init(role_maker.Role.WORKER)
    config = fluid.DistributeTranspilerConfig()
    config.wait_port = False
    optimizer = fleet.distributed_optimizer(fluid.optimizer.SGD(0.1), config)
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        loss = loss_of()
        optimizer.minimize(loss)
        with pytest.raises(ValueError, match="minimize\\(\\) was called before for this Program"):
            optimizer.minimize(loss)


def test_a_worker_that_does_not_wait(capfd):
    """wait_port = False: nothing needs a server before the first run. Starting and stopping again and again is fine."""
    init(role_maker.Role.WORKER)
    strategy = StrategyFactory.create_async_strategy()
    strategy.set_program_config({"wait_port": False})
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        loss = loss_of()
    fleet.distributed_optimizer(fluid.optimizer.SGD(0.1), strategy).minimize(loss, startup_program=startup)
    assert fleet.main_program is main and fleet.startup_program is startup, "not the default ones"
    with pytest.raises(ValueError, match=r"run_server\(\) is for servers; this process is a worker: call init_worker"):
        fleet.run_server()
    fleet.init_worker()
    with pytest.warns(UserWarning, match="communicator has been initialized, skip"):
        fleet.init_worker()
    fleet.stop_worker()
    out, err = capfd.readouterr()
    assert "communicator_is_sgd_optimizer" in out and "paddle: info: Communicator start\n" in err
    assert "server not ready" not in err


# ---- the Communicator ----


def test_communicator(capfd):
    comm = Communicator(fluid.Program(), DistributedMode.SYNC, {"pserver_endpoints": ["a:1"], "trainer_id": 3}, {})
    assert not comm.is_running() and repr(comm) == "Communicator(sync, stopped)"
    comm.start()
    comm.start()
    assert comm.is_running()
    comm.stop()
    comm.stop()
    said = [line.partition("info: ")[2] for line in capfd.readouterr().err.splitlines()]
    assert said == ["Communicator start", "init rpc client with trainer_id 3", "Communicator stop"]
    assert not Communicator(fluid.Program()).is_running(), "as v1.5 called it"


def test_what_a_communicator_takes():
    for mode, name in ((DistributedMode.HALF_ASYNC, "half_async"), (DistributedMode.GEO, "geo")):
        assert repr(Communicator(fluid.Program(), mode)) == f"Communicator({name}, stopped)"
    with pytest.raises(ValueError, match="the mode of a Communicator is 9"):
        Communicator(fluid.Program(), 9)
    with pytest.raises(TypeError, match="takes the trainer's Program"):
        Communicator("program", DistributedMode.SYNC)


def test_lines_follow_the_log_level():
    code = "import paddle.fluid as fluid\nfluid.communicator.Communicator(fluid.Program()).start()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60,
                          env={**os.environ, "FLAGS_log_level": "error"})
    assert done.returncode == 0 and done.stderr == "", done.stderr


# ---- what is not there yet ----


def test_collective_says_what_to_use():
    from paddle.fluid.incubate.fleet.collective import CollectiveOptimizer, DistributedStrategy, TrainStatus, fleet

    assert DistributedStrategy().use_local_sgd is False and TrainStatus(2) == TrainStatus(2) != TrainStatus(3)
    optimizer = CollectiveOptimizer(fluid.optimizer.Adam(), strategy=None)
    for call in (fleet.init_worker, lambda: fleet.distributed_optimizer(fluid.optimizer.Adam()),
                 lambda: optimizer.minimize(loss_of())):
        with pytest.raises(NotImplementedError, match="workers cannot train without servers. Train with parameter servers"):
            call()


def test_pslib_says_what_to_use():
    from paddle.fluid.incubate.fleet.parameter_server.pslib import fleet, node, optimizer_factory

    for call in (fleet.clear_model, lambda: node.DownpourServer().add_dense_table(0),
                 lambda: optimizer_factory.DistributedAdam(None).minimize([])):
        with pytest.raises(NotImplementedError, match=r"is not there yet: it belongs to pslib.*docs/FLEET\.md is the guide"):
            call()
