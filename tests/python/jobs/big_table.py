"""One process of a job with a table of any size: `single`, `server` or `trainer`.

Prints the loss of each step; `--save` writes what a trainer (or the single process) can save.
"""

import argparse
import sys

import numpy as np

import paddle.fluid as fluid


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("role", choices=["single", "server", "trainer"])
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--width", type=int, default=8)
    parser.add_argument("--sparse", action="store_true")
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--endpoints", default="")
    parser.add_argument("--endpoint", default="")
    parser.add_argument("--trainers", type=int, default=1)
    parser.add_argument("--id", type=int, default=0)
    parser.add_argument("--save", default="")
    return parser.parse_args()


def constant(value: float) -> fluid.ParamAttr:
    return fluid.ParamAttr(initializer=fluid.initializer.Constant(value))


def build(args):
    ids = fluid.layers.data("ids", [1], dtype="int64")
    wish = fluid.layers.data("wish", [1])
    table = fluid.ParamAttr(name="table", initializer=fluid.initializer.Constant(0.01))
    rows = fluid.layers.embedding(ids, [args.rows, args.width], is_sparse=args.sparse, param_attr=table)
    loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(rows, 1, param_attr=constant(0.5)), wish))
    fluid.optimizer.SGD(0.5).minimize(loss)
    return loss


def train(args, exe, program, loss) -> None:
    for step in range(args.steps):
        ids = np.array([[0], [args.rows - 1], [args.rows // 2 + step], [5]], "int64")
        feed = {"ids": ids, "wish": np.arange(4, dtype="float32").reshape(4, 1)}
        (value,) = exe.run(program, feed=feed, fetch_list=[loss])
        print(f"step {step}: loss {float(np.mean(value)):.9g}", flush=True)
    if args.save:
        fluid.io.save_persistables(exe, args.save, program)
        print("saved", flush=True)


def main() -> int:
    args = parse()
    loss = build(args)
    exe = fluid.Executor(fluid.CPUPlace())
    if args.role == "single":
        exe.run(fluid.default_startup_program())
        train(args, exe, fluid.default_main_program(), loss)
        return 0
    t = fluid.DistributeTranspiler()
    t.transpile(args.id, pservers=args.endpoints, trainers=args.trainers)
    if args.role == "server":
        main_of_server, startup = t.get_pserver_programs(args.endpoint)
        exe.run(startup)
        exe.run(main_of_server)
        raise AssertionError("the server's run ends the process")
    exe.run(fluid.default_startup_program())
    train(args, exe, t.get_trainer_program(), loss)
    return 0


if __name__ == "__main__":
    sys.exit(main())
