"""A process of a job that counts: each lookup of a row of a distributed table takes 1 (--rate) from it, whatever else happens, so
that every update that is lost, or done twice, is seen in the rows."""

import atexit
import os
import time

import numpy as np
import small

import paddle.fluid as fluid

ROWS, BATCH = 50, 4


def ids_of(trainer: int, step: int) -> np.ndarray:
    return np.random.RandomState(trainer * 100003 + step).randint(0, ROWS, (BATCH, 1)).astype("int64")


def counts(steps: dict[int, int]) -> np.ndarray:
    """The rows after so many steps of each trainer, alone or in async mode."""
    want = np.zeros(ROWS)
    for trainer, n in steps.items():
        for step in range(n):
            np.subtract.at(want, ids_of(trainer, step)[:, 0], 1)
    return want


def stay(what: str, until: str) -> None:
    """Says what it does, and stays until the file is there."""
    print(what, flush=True)
    while not os.path.exists(until):
        time.sleep(0.01)


def main() -> None:
    parser = small.parse(__doc__)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--rows", type=int, default=ROWS, help="of the table")
    parser.add_argument("--rate", type=float, default=1.0)
    parser.add_argument("--async", dest="is_async", action="store_true")
    parser.add_argument("--pause-at", type=int, default=-1,
                        help="before this step, say so and stay until the file of --until is there")
    parser.add_argument("--until", default="")
    parser.add_argument("--stay", action="store_true", help="stay behind the last step, too, before saying goodbye")
    parser.add_argument("--end-at", default="", help="a server that is done stays, as its process ends, until this file is there")
    args = parser.parse_args()
    if args.role == "server" and args.end_at:
        atexit.register(stay, "ends", args.end_at)
    ids = fluid.layers.data("ids", [1], dtype="int64")
    table = fluid.ParamAttr(name="table", initializer=fluid.initializer.Constant(0.0))
    rows = fluid.layers.embedding(ids, [args.rows, 1], is_sparse=True, is_distributed=True, param_attr=table)
    fluid.optimizer.SGD(args.rate).minimize(fluid.layers.reduce_sum(rows))
    exe, program, job = small.start(args, sync_mode=not args.is_async)
    done = job.steps_done()
    print("steps done", done, flush=True)
    for step in range(done, args.steps):
        if step == args.pause_at:
            stay("pauses", args.until)
        exe.run(program, feed={"ids": ids_of(args.id, step)})
        if step == done:
            print("trains", flush=True)
    if args.stay:
        stay("has trained", args.until)


if __name__ == "__main__":
    main()
