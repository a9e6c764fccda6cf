"""A job whose options say how its parameters lie on the servers: each step takes x from the rows of them, so that no two rows are
the same. At its end a trainer saves them (--out)."""

import os
import time

import numpy as np
import small

import paddle.fluid as fluid

ROWS, WIDTH = 64, 300  # two slices on two servers
X = np.arange(ROWS, dtype="float32")[None]

RULES = {
    "sgd": fluid.optimizer.SGD,
    "momentum": lambda rate: fluid.optimizer.Momentum(rate, 0.5),
    "lars": lambda rate: fluid.optimizer.LarsMomentum(rate, 0.5),  # needs whole parameters
}


def main() -> None:
    parser = small.parse(__doc__)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--out")
    parser.add_argument("--rule", choices=RULES, default="sgd")
    parser.add_argument("--rate", type=float, default=1.0)
    parser.add_argument("--async", dest="is_async", action="store_true")
    parser.add_argument("--small", action="store_true", help="one parameter, which one server has")
    parser.add_argument("--frozen", action="store_true", help="the other parameter is not trained")
    parser.add_argument("--block", type=int, default=8192, help="min_block_size")
    parser.add_argument("--whole", action="store_true", help="no slices")
    parser.add_argument("--pause-at", type=int, default=-1,
                        help="before this step, say so and stay until the file of --until is there")
    parser.add_argument("--until", default="")
    args = parser.parse_args()
    fluid.default_startup_program().random_seed = 7
    drawn = fluid.initializer.Uniform(-1.0, 1.0)
    x = fluid.layers.data("x", [ROWS])
    sums = fluid.layers.reduce_sum(fluid.layers.fc(x, 4 if args.small else WIDTH,
                                                   param_attr=fluid.ParamAttr(name="w", initializer=drawn), bias_attr=False))
    if not args.small:
        other = fluid.ParamAttr(name="v", initializer=drawn, trainable=not args.frozen)
        sums = sums + fluid.layers.reduce_sum(fluid.layers.fc(x, WIDTH, param_attr=other, bias_attr=fluid.ParamAttr(name="b")))
    RULES[args.rule](args.rate).minimize(sums)
    config = fluid.DistributeTranspilerConfig()
    config.min_block_size, config.slice_var_up = args.block, not args.whole
    exe, program, job = small.start(args, sync_mode=not args.is_async, config=config)
    done = job.steps_done()
    print("steps done", done, flush=True)
    for step in range(done, args.steps):
        if step == args.pause_at:
            print("pauses", flush=True)
            while not os.path.exists(args.until):
                time.sleep(0.01)
        exe.run(program, feed={"x": X})
        print("did step", step, flush=True)
    if args.out:
        names = ["w"] if args.small else ["w", "v", "b"]
        np.savez(args.out, **{name: np.array(fluid.global_scope().find_var(name).get_tensor()) for name in names})


if __name__ == "__main__":
    main()
