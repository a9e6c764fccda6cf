"""A job with a table without a vocabulary: each step takes 1 from all rows of the same few ids, of which some come in every third
step only. Trainer 0 prints what it looks up at the end."""

import json

import numpy as np
import small

import paddle.fluid as fluid
from paddle.fluid.entry_attr import CountFilterEntry, ProbabilityEntry

IDS = [0, 7, 123456789012, 2**62 + 1, 2**63 - 2]
SELDOM = [5, 2**40]


def main() -> None:
    parser = small.parse(__doc__)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--count", type=int, default=0)
    parser.add_argument("--chance", type=float, default=0)
    parser.add_argument("--expires", type=int, default=None)
    parser.add_argument("--load", default="")
    parser.add_argument("--save", default="")
    parser.add_argument("--async", dest="is_async", action="store_true")
    args = parser.parse_args()
    entry = CountFilterEntry(args.count) if args.count else ProbabilityEntry(args.chance) if args.chance else None
    fluid.default_main_program().random_seed = 5
    ids = fluid.layers.data("ids", [1], dtype="int64")
    attr = fluid.ParamAttr(name="emb", initializer=fluid.initializer.Constant(0.0))
    rows = fluid.contrib.layers.sparse_embedding(ids, [10, 2], entry=entry, param_attr=attr, expires=args.expires)
    test = fluid.default_main_program().clone(for_test=True)
    fluid.optimizer.SGD(1.0).minimize(fluid.layers.reduce_sum(rows))

    def load(exe, program) -> None:
        if args.load:
            fluid.io.load_persistables(exe, args.load, program)

    exe, program, job = small.start(args, sync_mode=not args.is_async, load=load)
    for step in range(job.steps_done(), args.steps):
        exe.run(program, feed={"ids": np.array(IDS + (SELDOM if step % 3 == 0 else []), "int64").reshape(-1, 1)})
        print("did", step, flush=True)
    if args.save:
        fluid.io.save_persistables(exe, args.save, program)
    every = np.array(IDS + SELDOM, "int64").reshape(-1, 1)
    (found,) = exe.run(test, feed={"ids": every}, fetch_list=[rows.name])
    print("ends", json.dumps((-found[:, 0]).tolist()), flush=True)


if __name__ == "__main__":
    main()
