"""One process of a Fleet job that shuffles samples globally. `--files` are this worker's; what it holds then goes into --out, in
its order, a line for each sample: its number.

--seed; --merge N: samples of one line id become one; --times: so many shuffles; --kill: this worker ends itself when the others are
about to connect; --other: it has other variables; --train: a pass over what it has at the end.
"""

from __future__ import annotations

import argparse
import os
import signal

import numpy as np

import paddle.fluid as fluid
from paddle.fluid import dataset_deal
from paddle.fluid.incubate.fleet.base import role_maker
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler.distributed_strategy import StrategyFactory


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", nargs="*", default=[])
    parser.add_argument("--out")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--merge", type=int)
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--kill", action="store_true")
    parser.add_argument("--other", action="store_true")
    parser.add_argument("--train", action="store_true")
    return parser.parse_args()


def kill_when_met() -> None:
    """The process ends without a word when the others know where it is."""
    listen = dataset_deal._listen

    def last_words(*args):
        listen(*args)
        os.kill(os.getpid(), signal.SIGKILL)

    dataset_deal._listen = last_words


def main():
    args = arguments()
    ids = fluid.data("ids", [None, 1], dtype="int64", lod_level=1)
    value = fluid.data("value", [None, 1], dtype="float32")
    emb = fluid.embedding(ids, (1 << 20, 2), is_sparse=True, param_attr=fluid.ParamAttr(name="emb"))
    pooled = fluid.layers.sequence_pool(emb, "sum")
    loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(pooled, 1), value))
    fleet.init(role_maker.PaddleCloudRoleMaker())
    fleet.distributed_optimizer(fluid.optimizer.SGD(0.01), StrategyFactory.create_sync_strategy()).minimize(loss)
    if fleet.is_server():
        fleet.init_server()
        fleet.run_server()
        return
    dataset = fluid.DatasetFactory().create_dataset("InMemoryDataset")
    dataset.set_use_var([value, ids] if args.other else [ids, value])
    dataset.set_batch_size(7)
    dataset.set_filelist(args.files)
    dataset.set_shuffle_seed(args.seed)
    if args.merge is not None:
        dataset.set_merge_by_lineid(args.merge)
    dataset.load_into_memory()
    print(f"has {dataset.get_memory_data_size()} of {dataset.get_memory_data_size(fleet)}", flush=True)
    if args.kill:
        kill_when_met()
    for _ in range(args.times):
        dataset.global_shuffle(fleet)
    print(f"got {dataset.get_shuffle_data_size()} of {dataset.get_shuffle_data_size(fleet)}", flush=True)
    fleet.init_worker()
    exe = fluid.Executor()
    exe.run(fleet.startup_program)
    seen = []
    if args.out and dataset.get_memory_data_size():
        handler = Seen({"ids": ids, "value": value}, seen)
        exe.infer_from_dataset(fluid.default_main_program().clone(for_test=True), dataset, fetch_handler=handler)
    if args.train:
        exe.train_from_dataset(fleet.main_program, dataset)
    if args.out:
        with open(args.out, "w") as file:
            file.writelines(f"{line}\n" for line in seen)
    fleet.stop_worker()


class Seen(fluid.executor.FetchHandler):
    """Notes the samples of every batch."""

    def __init__(self, variables, seen):
        super().__init__(variables, period_secs=0)
        self.seen = seen

    def handler(self, found):
        """Sample k has k % 3 + 1 times the id k + 1, and the value k."""
        values = found["value"].ravel().astype(int)
        np.testing.assert_array_equal(found["ids"].ravel(), np.repeat(values + 1, values % 3 + 1))
        self.seen += values.tolist()


main()
