"""One process of a job that keeps a ledger: every step of every trainer takes 1 from places of its own.

After it, each parameter tells how often each place was counted, exactly: numbers stay whole (sync: halves). Trainers write a line
for each step that was acknowledged, so that the history survives their end too.
"""

import argparse
import os
import sys
import time

import numpy as np

import paddle.fluid as fluid

PLACES = 16  # of each trainer; step s counts at s % PLACES
WIDTH = 4  # of the table
WIDE = 65536  # of the parameter that travels in many parts, all of whose places count each step of all trainers


def build(args):
    n = args.trainers * PLACES
    place = fluid.layers.data(name="place", shape=[n], dtype="float32")
    row = fluid.layers.data(name="row", shape=[1], dtype="int64")
    zero = fluid.initializer.Constant(0.0)
    parts = [
        fluid.layers.fc(place, size=1, bias_attr=False, param_attr=fluid.ParamAttr(name=f"dense_{i}", initializer=zero))
        for i in range(1 if args.single else 3)
    ]
    table = fluid.ParamAttr(name="table", initializer=zero)
    if not args.single:
        parts.append(fluid.layers.reduce_sum(fluid.layers.embedding(row, size=[n, WIDTH], is_sparse=True, param_attr=table)))
    if args.wide:
        ones = fluid.layers.fill_constant([1, n], "float32", 1.0)
        wide = fluid.layers.fc(ones, size=WIDE, bias_attr=False, param_attr=fluid.ParamAttr(name="wide", initializer=zero))
        parts.append(fluid.layers.reduce_sum(wide))
    loss = fluid.layers.mean(fluid.layers.sums([fluid.layers.reshape(part, [1]) for part in parts]))
    fluid.optimizer.SGD(1.0).minimize(loss)


def feed(args, step: int) -> dict:
    at = args.id * PLACES + step % PLACES
    place = np.zeros((1, args.trainers * PLACES), "float32")
    place[0, at] = 1
    return {"place": place, "row": np.array([[at]], "int64")}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("role", choices=["server", "trainer"])
    parser.add_argument("--endpoints", required=True)
    parser.add_argument("--endpoint", default="")
    parser.add_argument("--trainers", type=int, required=True)
    parser.add_argument("--id", type=int, default=0)
    parser.add_argument("--steps", type=int, default=10**9)
    parser.add_argument("--until", default="", help="a trainer ends when this file is there")
    parser.add_argument("--async", dest="is_async", action="store_true")
    parser.add_argument("--single", action="store_true", help="with one parameter: other servers than the first hold nothing")
    parser.add_argument("--wide", action="store_true", help="with a parameter of many parts")
    parser.add_argument("--resume", action="store_true", help="begin behind the steps that count this trainer already")
    parser.add_argument("--pause-at", type=int, default=-1,
                        help="before this step, say so and stay until the file of --until is there")
    parser.add_argument("--out", required=True, help="a folder")
    args = parser.parse_args()
    build(args)
    t = fluid.DistributeTranspiler()
    t.transpile(args.id, pservers=args.endpoints, trainers=args.trainers, sync_mode=not args.is_async)
    exe = fluid.Executor(fluid.CPUPlace())
    if args.role == "trainer":
        exe.run(fluid.default_startup_program())
        with open(f"{args.out}/acknowledged-{args.id}-{os.getpid()}", "w", buffering=1) as ledger:
            for step in range(t.steps_done() if args.resume else 0, args.steps):
                while step == args.pause_at and not os.path.exists(args.until):
                    print("pauses", flush=True)
                    time.sleep(0.05)
                if args.until and os.path.exists(args.until) and args.pause_at < 0:
                    break
                exe.run(t.get_trainer_program(), feed=feed(args, step))
                ledger.write(f"{step}\n")
        return 0
    program, startup = t.get_pserver_programs(args.endpoint)
    exe.run(startup)
    try:
        exe.run(program)
    finally:
        held = {}
        for name in ("dense_0", "dense_1", "dense_2", "table", "wide"):
            var = fluid.global_scope().find_var(name)
            if var is not None and program.global_block().has_var(name):
                held[name] = np.array(var.get_tensor())
        np.savez(f"{args.out}/held-{args.endpoint}.npz", **held)
    raise AssertionError("the server's run ends the process")


if __name__ == "__main__":
    sys.exit(main())
