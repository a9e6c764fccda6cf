"""A Fleet job of one worker whose only parameter is a table on servers. Its communicator has steps queued when the worker comes to
a barrier, or evaluates; it prints what the one row is then.
"""

from __future__ import annotations

import sys
import tempfile

import numpy as np

import paddle.fluid as fluid
from paddle.fluid.incubate.fleet.base import role_maker
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler.distributed_strategy import StrategyFactory

STEPS, ROW = 20, 3
KNOBS = {"send_queue_size": STEPS, "max_merge_var_num": STEPS, "send_wait_times": 2000}


def evaluate(exe, test, ids, row) -> None:
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(f"1 {ROW}\n")
        file.flush()
        dataset = fluid.DatasetFactory().create_dataset("QueueDataset")
        dataset.set_use_var([ids])
        dataset.set_filelist([file.name])
        exe.infer_from_dataset(test, dataset, fetch_list=[row], fetch_info=["is"], print_period=1)


def main() -> None:
    how = sys.argv[1]
    fleet.init(role_maker.PaddleCloudRoleMaker())
    ids = fluid.data("ids", [None, 1], dtype="int64", lod_level=1)
    table = fluid.ParamAttr("table", initializer=fluid.initializer.Constant(0.0))
    row = fluid.layers.reduce_sum(fluid.embedding(ids, [10, 1], is_sparse=True, param_attr=table))
    test = fluid.default_main_program().clone(for_test=True)
    strategy = StrategyFactory.create_async_strategy()
    strategy.set_trainer_runtime_config({f"communicator_{name}": value for name, value in KNOBS.items()})
    fleet.distributed_optimizer(fluid.optimizer.SGD(1.0), strategy).minimize(row)
    if fleet.is_server():
        fleet.init_server()
        fleet.run_server()
        return
    fleet.init_worker()
    exe = fluid.Executor()
    exe.run(fleet.startup_program)
    feed = {"ids": fluid.create_lod_tensor(np.array([[ROW]], "int64"), [[1]], fluid.CPUPlace())}
    for _ in range(STEPS):
        exe.run(fleet.main_program, feed=feed)
    if how == "barrier":
        fleet.barrier_worker()
        print("is", exe.run(test, feed=feed, fetch_list=[row])[0].item())
    else:
        evaluate(exe, test, ids, row)
    fleet.stop_worker()


main()
