"""A server or a trainer of a job with whole-number gradients, whose end is known to the bit when each step counts once.

`w` has the gradient `x`, and row i of `table` that of the `v` it is looked up for; the rate is a half. A trainer writes what the
servers have in the end, and what it has itself, to an .npz file.
"""

from __future__ import annotations

import argparse
import os
import time

import numpy as np

import paddle.fluid as fluid

WIDTH, ROWS = 6, 10
RATE = 0.5


def x_of(step: int, trainer: int) -> np.ndarray:
    return np.arange(WIDTH, dtype="float32") % 3 + (step + trainer) % 4


def ids_of(step: int, trainer: int) -> list[int]:
    return [step % ROWS, (3 * trainer + step) % ROWS, 0]


V = 2.0


def build():
    x = fluid.data("x", [None, WIDTH])
    v = fluid.data("v", [None, 2])
    ids = fluid.data("ids", [None, 1], dtype="int64", lod_level=1)
    one = fluid.initializer.Constant(1.0)
    w = fluid.layers.create_parameter([WIDTH], "float32", "w", default_initializer=one)
    rows = fluid.layers.embedding(ids, [ROWS, 2], is_sparse=True, param_attr=fluid.ParamAttr("table", initializer=one))
    pooled = fluid.layers.sequence_pool(rows, "sum")
    loss = fluid.layers.reduce_sum(x * w) + fluid.layers.reduce_sum(pooled * v)
    return [x, v, ids], loss


def feed(step: int, trainer: int) -> dict:
    ids = np.array(ids_of(step, trainer), dtype="int64").reshape(-1, 1)
    return {"x": x_of(step, trainer).reshape(1, -1), "v": np.full((1, 2), V, "float32"),
            "ids": fluid.create_lod_tensor(ids, [[len(ids)]], fluid.CPUPlace())}


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("role", choices=["server", "trainer"])
    parser.add_argument("--id", type=int, default=0)
    parser.add_argument("--endpoints", required=True)
    parser.add_argument("--trainers", type=int, default=1)
    parser.add_argument("--mode", default="async", choices=["sync", "async", "half_async", "geo"])
    parser.add_argument("--every", type=int, default=3)
    parser.add_argument("--optimizer", default="SGD", choices=["SGD", "Adam"])
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--knob", action="append", default=[], help="NAME=VALUE of the communicator")
    parser.add_argument("--files", nargs="*", default=[], help="train on these, a thread for each")
    parser.add_argument("--wait-for", default="", help="a file, before training")
    parser.add_argument("--then-wait-for", default="", help="a file, before looking at the servers")
    parser.add_argument("--last-after", default="", help="a file, before the last ten steps")
    parser.add_argument("--start-again-after", default="", help="a file: then the startup Program, before the communicator stops")
    parser.add_argument("--evaluate-after", default="", help="a file: then infer_from_dataset, before the communicator stops")
    parser.add_argument("--fork-at", type=int, default=-1, help="a step: before it a child starts a communicator of its own")
    parser.add_argument("--done", default="", help="a file to write when the communicator has stopped")
    parser.add_argument("--save", default="", help="a folder for save_persistables and fluid.save, before looking at the servers")
    parser.add_argument("--out", default="")
    return parser.parse_args()


def wait_for(path: str) -> None:
    end = time.monotonic() + 100
    while path and not os.path.exists(path):
        assert time.monotonic() < end, f"{path} did not come"
        time.sleep(0.01)


def config_of(args: argparse.Namespace) -> fluid.DistributeTranspilerConfig:
    config = fluid.DistributeTranspilerConfig()
    if args.mode != "sync":
        config.sync_mode = False
        config.runtime_split_send_recv = True
    config.half_async = args.mode == "half_async"
    config.geo_sgd_mode = args.mode == "geo"
    config.geo_sgd_need_push_nums = args.every
    return config


def evaluate(exe, variables, out: str) -> None:
    """Prints the sum of x * w for an x of ones, by a Program that was not transpiled."""
    path = f"{out}.txt"
    with open(path, "w") as file:
        print(WIDTH, *[1] * WIDTH, 2, V, V, 1, 0, file=file)
    dataset = fluid.DatasetFactory().create_dataset("QueueDataset")
    dataset.set_use_var(variables)
    dataset.set_filelist([path])
    dataset.set_batch_size(1)
    test = fluid.Program()
    with fluid.program_guard(test, fluid.Program()):
        x = fluid.data("x", [None, WIDTH])
        w = test.global_block().create_parameter([WIDTH], "float32", name="w")
        found = fluid.layers.reduce_sum(x * w)
    exe.infer_from_dataset(test, dataset, fetch_list=[found], fetch_info=["sum of w"], print_period=1)


def fork_one(start, step) -> None:
    """The child, whose parent's thread waits for work, starts a communicator, is refused its first step and stops."""
    child = os.fork()
    if not child:
        try:
            comm = start()
            try:
                step()
            except Exception as error:
                print(f"the child: {error}", flush=True)
            comm.stop()
            os._exit(0)
        finally:
            os._exit(1)
    end = time.monotonic() + 20
    while (found := os.waitpid(child, os.WNOHANG)) == (0, 0):
        if time.monotonic() > end:
            os.kill(child, 9)
            os.waitpid(child, 0)
            raise AssertionError("the child hangs")
        time.sleep(0.01)
    assert found[1] == 0, found


def train(args: argparse.Namespace, t, exe, variables, loss) -> dict:
    knobs = dict(each.split("=") for each in args.knob)

    def start():
        comm = fluid.communicator.Communicator(t.get_trainer_program(), envs=knobs)
        comm.start()
        return comm

    comm = start()
    exe.run(fluid.default_startup_program())
    print("begins", flush=True)
    wait_for(args.wait_for)
    if args.files:
        dataset = fluid.DatasetFactory().create_dataset("QueueDataset")
        dataset.set_use_var(variables)
        dataset.set_filelist(args.files)
        dataset.set_batch_size(1)
        dataset.set_thread(len(args.files))
        exe.train_from_dataset(t.get_trainer_program(), dataset)
    else:
        for step in range(args.steps):
            if step == args.steps - 10:
                wait_for(args.last_after)
            if step == args.fork_at:
                fork_one(start, lambda step=step: exe.run(t.get_trainer_program(), feed=feed(step, args.id)))
            exe.run(t.get_trainer_program(), feed=feed(step, args.id))
            print(f"step {step}", flush=True)
    if args.start_again_after:
        print("waits", flush=True)
        wait_for(args.start_again_after)
        exe.run(fluid.default_startup_program())
        print("has w", *np.array(fluid.global_scope().find_var("w").get_tensor()), flush=True)
    if args.evaluate_after:
        print("waits", flush=True)
        wait_for(args.evaluate_after)
        evaluate(exe, variables, args.out)
    comm.stop()
    return {name: np.array(fluid.global_scope().find_var(name).get_tensor()) for name in ("w", "table")}


def main() -> None:
    args = parse()
    variables, loss = build()
    optimizer = fluid.optimizer.SGD(RATE) if args.optimizer == "SGD" else fluid.optimizer.Adam(0.01, lazy_mode=True)
    optimizer.minimize(loss)
    t = fluid.DistributeTranspiler(config_of(args))
    t.transpile(args.id if args.role == "trainer" else 0, pservers=args.endpoints, trainers=args.trainers,
                sync_mode=args.mode == "sync")
    exe = fluid.Executor(fluid.CPUPlace())
    if args.role == "server":
        main_program, startup = t.get_pserver_programs(args.endpoints.split(",")[args.id])
        exe.run(startup)
        exe.run(main_program)
        return
    own = train(args, t, exe, variables, loss)
    if args.done:
        open(args.done, "w").close()
    wait_for(args.then_wait_for)
    if args.save:
        fluid.io.save_persistables(exe, args.save, t.get_trainer_program())
        fluid.save(t.get_trainer_program(), os.path.join(args.save, "state", "m"))
    exe.run(fluid.default_startup_program())  # brings what the servers have
    scope = fluid.global_scope()
    table = exe.run(fluid.default_main_program().clone(for_test=True), feed=look_up_all(), fetch_list=[rows_var()],
                    return_numpy=False)[0]
    np.savez(args.out, w=np.array(scope.find_var("w").get_tensor()), table=np.array(table), steps=t.steps_done(),
             own_w=own["w"], own_table=own["table"])
    exe.close()


def rows_var() -> str:
    """What the lookup gives."""
    block = fluid.default_main_program().global_block()
    for op in block.ops:
        if op.type.startswith("lookup_table"):
            return op.output("Out")[0]
        if op.type == "distributed_lookup_table":
            return op.output("Outputs")[0]
    raise AssertionError("no lookup")


def look_up_all() -> dict:
    return {**feed(0, 0), "ids": fluid.create_lod_tensor(np.arange(ROWS).reshape(-1, 1), [[ROWS]], fluid.CPUPlace())}


if __name__ == "__main__":
    main()
