"""A job whose table has many rows by id: it trains each of --rows ids once, saves, and says how long loading and saving took."""

import sys
import time

import numpy as np
import small

import paddle.fluid as fluid

WIDTH, BATCH = 8, 100_000
STRIDE = 7919 * 104729  # between ids, which are far from all there could be


def main() -> None:
    parser = small.parse(__doc__)
    parser.add_argument("--rows", type=int, default=0)
    parser.add_argument("--load", default="")
    parser.add_argument("--save", default="")
    parser.add_argument("--go", help="a file: saves when it is there")
    args = parser.parse_args()
    fluid.default_main_program().random_seed = 5
    ids, weight = fluid.layers.data("ids", [1], dtype="int64"), fluid.layers.data("weight", [WIDTH])
    attr = fluid.ParamAttr(name="emb", initializer=fluid.initializer.Uniform(-1.0, 1.0, seed=3))
    rows = fluid.contrib.layers.sparse_embedding(ids, [10, WIDTH], param_attr=attr)
    fluid.optimizer.Adagrad(0.1).minimize(fluid.layers.reduce_sum(rows * weight))

    def load(exe, program) -> None:
        print("serves", time.monotonic(), flush=True)
        if args.load:
            fluid.io.load_persistables(exe, args.load, program)

    exe, program, _ = small.start(args, load=load)
    first = np.zeros((1, 1), "int64"), np.ones((1, WIDTH), "float32")
    if not args.load:
        exe.run(program, feed=dict(zip(("ids", "weight"), first)))
    print("begins", time.monotonic(), flush=True)
    for begin in range(1, args.rows, BATCH):
        batch = np.arange(begin, min(begin + BATCH, args.rows), dtype="int64").reshape(-1, 1)
        weights = np.random.RandomState(begin).normal(size=(len(batch), WIDTH)).astype("float32")
        exe.run(program, feed={"ids": batch * STRIDE, "weight": weights})
    print("trained", flush=True)
    small.wait_for(args.go)
    begin = time.monotonic()
    fluid.io.save_persistables(exe, args.save, program)
    print("saved", time.monotonic() - begin, flush=True)
    sys.stdout.flush()


if __name__ == "__main__":
    main()
