"""A worker or server of a Fleet job that keeps checkpoints: files of samples, several passes, with all that a checkpoint must have.

Dropout and statistics of batch norm (random state, values of workers), Adam with a schedule (states, counters), sparse rows, a
shuffle in memory without a seed, numpy's random numbers. What it ends with goes to `--save`.
"""

from __future__ import annotations

import argparse
import os
import random
import time

import numpy as np

import paddle.fluid as fluid
from paddle.fluid.incubate.fleet.base import role_maker
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler.distributed_strategy import StrategyFactory

ROWS = 50


def build(args) -> tuple:
    ids = fluid.data("ids", [None, 1], "int64", lod_level=1)
    x = fluid.data("x", [None, 6])
    y = fluid.data("y", [None, 1])
    if args.table:
        rows = fluid.contrib.layers.sparse_embedding(ids, [ROWS, 4], param_attr=fluid.ParamAttr(name="table"))
    else:
        rows = fluid.layers.embedding(ids, [ROWS, 4], is_sparse=True, param_attr=fluid.ParamAttr(name="rows"))
    pooled = fluid.layers.sequence_pool(rows, "sum")
    hidden = fluid.layers.fc(fluid.layers.concat([x, pooled], axis=1), 16, param_attr=fluid.ParamAttr(name="w1"))
    if args.noise:
        hidden = fluid.layers.batch_norm(hidden, moving_mean_name=args.mean, moving_variance_name="variance")
        hidden = fluid.layers.dropout(hidden, 0.3)
    predicted = fluid.layers.fc(fluid.layers.tanh(hidden), 1, param_attr=fluid.ParamAttr(name="w2"))
    loss = fluid.layers.mean(fluid.layers.square_error_cost(predicted, y))
    rate = args.rate if args.constant else fluid.layers.exponential_decay(args.rate, 10, 0.9)
    return [ids, x, y], loss, fluid.optimizer.Adagrad(rate) if args.table else fluid.optimizer.Adam(rate, lazy_mode=True)


def dataset(args, inputs, files):
    made = fluid.DatasetFactory().create_dataset("InMemoryDataset" if args.memory else "QueueDataset")
    made.set_use_var(inputs)
    made.set_batch_size(4)
    made.set_thread(args.threads)
    made.set_filelist(files)
    return made


def train(args, exe, inputs, loss) -> None:
    files = fleet.split_files(sorted(os.path.join(args.data, name) for name in os.listdir(args.data)))[:: -1 if args.reverse else 1]
    if args.shuffle:
        random.seed(1)
        np.random.seed(2)
    for _ in range(args.warm):  # counted by nobody
        exe.run(fleet.main_program, feed={"ids": fluid.create_lod_tensor(np.ones((4, 1), "int64"), [[1] * 4], fluid.CPUPlace()),
                                          "x": np.ones((4, 6), "float32"), "y": np.ones((4, 1), "float32")})
    data = dataset(args, inputs, files)
    if args.memory:
        data.load_into_memory()
    for number in range(args.passes):
        print(f"pass {number}", flush=True)
        if args.memory:
            data.global_shuffle(fleet) if args.memory == "global" else data.local_shuffle()
        if args.memory == "twice":
            data.local_shuffle()
        if args.feed:
            feed(args, exe, loss, number)
        else:
            exe.train_from_dataset(fleet.main_program, data)
        while args.wait and not os.path.exists(args.wait):
            time.sleep(0.01)
        fleet.barrier_worker()
        if args.each and fleet.is_first_worker():
            fleet.save_persistables(exe, f"{args.each}-{number}")
    print("drawn", np.random.randint(0, 1 << 30), flush=True)


def feed(args, exe, loss, number) -> None:
    worker = fleet.worker_index()

    def batches():
        rng = np.random.RandomState(10 * number + worker)
        order = list(range(args.batches + worker))
        if args.shuffle:  # by the generators of the process, which the script has seeded once
            random.shuffle(order)
        for place in order:
            if args.shuffle:
                rng = np.random.RandomState(np.random.randint(1000) + place)
            yield {"ids": fluid.create_lod_tensor(rng.randint(0, ROWS, (4, 1)), [[1] * 4], fluid.CPUPlace()),
                   "x": rng.uniform(-1, 1, (4, 6)).astype("float32"), "y": rng.uniform(-1, 1, (4, 1)).astype("float32")}

    for each in fleet.resumable(batches)():
        exe.run(fleet.main_program, feed=each)
        print("trained a batch", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="")
    parser.add_argument("--save", required=True)
    parser.add_argument("--each", default="", help="worker 0 saves behind each pass, too")
    parser.add_argument("--wait", default="", help="a file, behind each pass")
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--memory", default="", choices=["", "local", "twice", "global"])
    parser.add_argument("--feed", action="store_true")
    parser.add_argument("--shuffle", action="store_true", help="what is fed")
    parser.add_argument("--reverse", action="store_true", help="the order of the files")
    parser.add_argument("--warm", type=int, default=0, help="so many steps before the passes")
    parser.add_argument("--batches", type=int, default=7)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--noise", type=int, default=1)
    parser.add_argument("--mean", default="mean", help="the name of a statistic")
    parser.add_argument("--strategy", default="sync")
    parser.add_argument("--rate", type=float, default=0.01)
    parser.add_argument("--constant", action="store_true", help="the learning rate")
    args = parser.parse_args()
    fleet.init(role_maker.PaddleCloudRoleMaker())
    inputs, loss, optimizer = build(args)
    strategy = (StrategyFactory.create_geo_strategy(3) if args.strategy == "geo" else
                getattr(StrategyFactory, f"create_{args.strategy}_strategy")())
    fleet.distributed_optimizer(optimizer, strategy).minimize(loss)
    if fleet.is_server():
        fleet.init_server()
        fleet.run_server()
        return
    fleet.init_worker()
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fleet.startup_program)
    train(args, exe, inputs, loss)
    if fleet.is_first_worker():
        fleet.save_persistables(exe, args.save)
    fleet.stop_worker()


if __name__ == "__main__":
    main()
