"""One process of a job in which a trainer's run fails once: it catches the error and trains on.

The Program has a table on the servers. A batch with `scale` 0 is sound forwards; backwards it gives Inf below the layers whose
gradients are sent by then, and FLAGS_check_nan_inf tells.
"""

import os
import sys
import time

import numpy as np
import small

import paddle.fluid as fluid

BATCH = 8


def build(args):
    fluid.default_startup_program().random_seed = fluid.default_main_program().random_seed = 5
    words = fluid.layers.data(name="words", shape=[1], dtype="int64")
    label = fluid.layers.data(name="label", shape=[1], dtype="float32")
    scale = fluid.layers.data(name="scale", shape=[1], dtype="float32")
    attr = fluid.ParamAttr(name="table", initializer=fluid.initializer.Uniform(-0.5, 0.5))
    rows = fluid.layers.embedding(words, size=[args.rows, args.width], is_sparse=True,
                                  is_distributed=not args.slices, param_attr=attr)
    sizes = fluid.layers.sqrt(fluid.layers.square(fluid.layers.elementwise_mul(rows, scale)))
    hidden = fluid.layers.fc(sizes, size=args.hidden, act="tanh", param_attr=fluid.ParamAttr(name="w"))
    found = fluid.layers.fc(hidden, size=1, param_attr=fluid.ParamAttr(name="v"))
    loss = fluid.layers.mean(fluid.layers.square_error_cost(found, label))
    fluid.optimizer.SGD(0.1).minimize(loss)
    return loss


def feed(rows: int, seed: int, n: int = BATCH, scale: float = 1.0) -> dict:
    rng = np.random.default_rng(seed)
    words = rng.permutation(rows)[:n, None].astype("int64")
    return {"words": words, "scale": np.full((n, 1), scale, "float32"), "label": (words % 3).astype("float32")}


def main() -> int:
    parser = small.parse(__doc__)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--width", type=int, default=8)
    parser.add_argument("--hidden", type=int, default=8)
    parser.add_argument("--slices", action="store_true", help="of the table; else its rows are dealt out one by one")
    parser.add_argument("--fail-at", type=int, default=-1, help="trainer 0: before this step, a batch fails in its backward pass")
    parser.add_argument("--stray-at", type=int, default=-1, help="trainer 0: this step asks for a row that no server has")
    parser.add_argument("--raise-at", type=int, default=-1, help="trainer 0: before this step, an exception of many lines")
    parser.add_argument("--pause-at", type=int, default=-1,
                        help="before this step, say so, stay until the file of --go is there, and run once more what is "
                             "interrupted")
    parser.add_argument("--close-at", type=int, default=-1, help="trainer 0: before this step, another executor is closed")
    parser.add_argument("--go", default="")
    parser.add_argument("--batch", type=int, default=BATCH,
                        help="of a step that was interrupted, when it runs again, and of the last one")
    parser.add_argument("--out", default="")
    args = parser.parse_args()
    loss = build(args)
    exe, program, _ = small.start(args)
    losses = []
    if args.stray_at >= 0:  # the trainer does not see it; the server does
        next(op for op in program.global_block().ops if op.type == "split_ids")._set_attr("height", 0)

    def run(batch: dict) -> float:
        return float(np.mean(exe.run(program, feed=batch, fetch_list=[loss])[0]))

    for step in range(args.steps):
        seed = 100 * step + args.id
        if step == args.fail_at and args.id == 0:
            try:
                run(feed(args.rows, 7777, scale=0))
            except Exception as error:
                print(f"caught: {error}", flush=True)
        if step == args.raise_at and args.id == 0:
            raise ValueError("the first of many lines\n" + "and another one\n" * 500)
        if step == args.stray_at and args.id == 0:
            run({**feed(args.rows, seed), "words": np.full((BATCH, 1), 2 * args.rows, "int64")})
        if step == args.close_at and args.id == 0:
            fluid.Executor(fluid.CPUPlace()).close()
            print("closed another", flush=True)
        if step == args.pause_at:
            print("pauses", flush=True)
            while not os.path.exists(args.go):
                time.sleep(0.01)
            try:
                run(feed(args.rows, seed))
                raise AssertionError("nothing interrupted this run")
            except KeyboardInterrupt:
                print("interrupted", flush=True)
            losses.append(run(feed(args.rows, seed, args.batch)))
            continue
        losses.append(run(feed(args.rows, seed, args.batch if step == args.steps - 1 else BATCH)))
    if args.out:
        scope = fluid.global_scope()
        np.savez(args.out, losses=losses, **{name: np.array(scope.find_var(name).get_tensor()) for name in ("w", "v")})
    return 0


if __name__ == "__main__":
    sys.exit(main())
