"""One process of a small Fleet job, by its environment variables, or one process that trains the joined batch (`--single`).

What it saw (losses, final parameters) goes into an .npz file. All processes build the same Program and make the same data from the
step's number.
"""

from __future__ import annotations

import argparse

import numpy as np

import paddle.fluid as fluid
from paddle.fluid.incubate.fleet.base import role_maker
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler.distributed_strategy import StrategyFactory

ROWS, BATCH = 40, 8


def build() -> tuple:
    x = fluid.layers.data("x", [16])
    ids = fluid.layers.data("ids", [1], dtype="int64")
    y = fluid.layers.data("y", [1])

    def start(seed: int) -> fluid.ParamAttr:
        return fluid.ParamAttr(name=f"w{seed}", initializer=fluid.initializer.Uniform(-0.2, 0.2, seed=seed))

    row = fluid.layers.embedding(ids, [ROWS, 4], is_sparse=True, param_attr=start(1))
    hidden = fluid.layers.fc([x, row], 600, act="tanh", param_attr=[start(2), start(3)], bias_attr=False)
    predicted = fluid.layers.fc(hidden, 1, param_attr=start(4))
    return predicted, fluid.layers.mean(fluid.layers.square_error_cost(predicted, y))


def batch(step: int, worker: int) -> dict[str, np.ndarray]:
    rng = np.random.RandomState(100 * step + worker)
    x = rng.uniform(-1, 1, (BATCH, 16)).astype("float32")
    return {"x": x, "ids": rng.randint(0, ROWS, (BATCH, 1)), "y": np.sin(x.sum(axis=1, keepdims=True)).astype("float32")}


def joined(step: int, workers: int) -> dict[str, np.ndarray]:
    each = [batch(step, worker) for worker in range(workers)]
    return {name: np.concatenate([one[name] for one in each]) for name in each[0]}


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--single", type=int, default=0, help="one process with the joined batch of so many workers")
    parser.add_argument("--mpi", action="store_true", help="MPISymetricRoleMaker tells the role")
    parser.add_argument("--strategy", default="sync", choices=["sync", "async", "half_async", "geo", "config"])
    parser.add_argument("--optimizer", default="SGD", choices=["SGD", "Adam"])
    parser.add_argument("--rate", type=float, default=0.05)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--first", type=int, default=0, help="number of the first step")
    parser.add_argument("--load", default=None)
    parser.add_argument("--save", default="")
    parser.add_argument("--model", default="", help="worker 0 saves a model for inference there")
    parser.add_argument("--out", default="")
    return parser.parse_args()


def strategy_of(args):
    if args.strategy == "config":
        return fluid.DistributeTranspilerConfig()
    if args.strategy == "geo":
        return StrategyFactory.create_geo_strategy(5)
    return getattr(StrategyFactory, f"create_{args.strategy}_strategy")()


def run(args, exe, program, loss, feed) -> dict[str, np.ndarray]:
    losses = [exe.run(program, feed=feed(step), fetch_list=[loss])[0].item() for step in range(args.first, args.first + args.steps)]
    return {"losses": np.array(losses)}


def keep(args, found: dict, folder: str) -> None:
    """Adds the files of a folder to what goes into the .npz."""
    scope = fluid.Scope()
    with fluid.scope_guard(scope), fluid.program_guard(fluid.Program(), fluid.Program()):
        exe, block = fluid.Executor(fluid.CPUPlace()), fluid.default_main_program().global_block()
        for name, shape in (("w1", [ROWS, 4]), ("w2", [16, 600]), ("w3", [4, 600]), ("w4", [600, 1])):
            block.create_var(name=name, shape=shape, dtype="float32", persistable=True)
        fluid.io.load_persistables(exe, folder)
        for name in ("w1", "w2", "w3", "w4"):
            found[name] = np.array(scope.find_var(name).get_tensor())


def main() -> None:
    args = parse()
    predicted, loss = build()
    optimizer = getattr(fluid.optimizer, args.optimizer)(args.rate)
    if args.single:
        optimizer.minimize(loss)
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(fluid.default_startup_program())
        if args.load:
            fluid.io.load_persistables(exe, args.load)
        found = run(args, exe, fluid.default_main_program(), loss, lambda step: joined(step, args.single))
        fluid.io.save_persistables(exe, args.save)
        keep(args, found, args.save)
        np.savez(args.out, **found)
        return
    fleet.init(role_maker.MPISymetricRoleMaker() if args.mpi else role_maker.PaddleCloudRoleMaker())
    fleet.distributed_optimizer(optimizer, strategy_of(args)).minimize(loss)
    if fleet.is_server():
        fleet.init_server(args.load)
        fleet.run_server()
    if fleet.is_worker():
        fleet.init_worker()
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(fleet.startup_program)
        found = run(args, exe, fleet.main_program, loss, lambda step: batch(step, fleet.worker_index()))
        if args.save and fleet.is_first_worker():
            fleet.save_persistables(exe, args.save)
            keep(args, found, args.save)
        if args.model and fleet.is_first_worker():
            fleet.save_inference_model(exe, args.model, ["x", "ids"], [predicted])
            found["predicted"] = exe.run(fleet.main_program.clone(for_test=True), feed=batch(99, 0), fetch_list=[predicted])[0]
        if args.out:
            np.savez(args.out, **found)
        fleet.stop_worker()


if __name__ == "__main__":
    main()
