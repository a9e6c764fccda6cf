"""A job with two wide parameters, which leave in many parts: each step takes 1 from every number of them. At its end a trainer says
how often each value is there."""

import numpy as np
import small

import paddle.fluid as fluid

ROWS, WIDTH = 512, 1024  # 2 MiB each: four parts, and two on each of two servers

NAMES = ("v", "w")


def scheduled(last: float):
    return lambda rate: fluid.optimizer.SGD(fluid.layers.piecewise_decay([3], [rate, last]))


RULES = {
    "sgd": fluid.optimizer.SGD,
    "momentum": lambda rate: fluid.optimizer.Momentum(rate, 0.5),
    "momentum, other mu": lambda rate: fluid.optimizer.Momentum(rate, 0.25),
    "adam": lambda rate: fluid.optimizer.Adam(0.1 * rate),  # its state has numbers that advance once a step
    "adam, other beta": lambda rate: fluid.optimizer.Adam(0.1 * rate, beta1=0.5),
    "adagrad": fluid.optimizer.Adagrad,
    "adamax": lambda rate: fluid.optimizer.Adamax(0.1 * rate),
    "decay": lambda rate: fluid.optimizer.SGD(rate, regularization=fluid.regularizer.L2Decay(0.5)),
    "clip": fluid.optimizer.SGD,
    "schedule": scheduled(0.5),
    "other schedule": scheduled(0.25),
}


def main() -> None:
    parser = small.parse(__doc__)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--more", type=int, help="steps after those that were done, instead")
    parser.add_argument("--anew", action="store_true", help="does not ask what is done, and begins with its first batch")
    parser.add_argument("--rate", type=float, default=1.0)
    parser.add_argument("--rule", choices=RULES, default="sgd")
    parser.add_argument("--async", dest="is_async", action="store_true")
    args = parser.parse_args()
    x = fluid.layers.data("x", [ROWS])
    zero = fluid.initializer.Constant(0.0)
    sums = [fluid.layers.fc(x, WIDTH, param_attr=fluid.ParamAttr(name=name, initializer=zero), bias_attr=False) for name in NAMES]
    if args.rule == "clip":
        fluid.clip.set_gradient_clip(fluid.clip.GradientClipByValue(0.5))
    RULES[args.rule](args.rate).minimize(fluid.layers.reduce_sum(sums[0] + sums[1]))
    exe, program, transpiler = small.start(args, sync_mode=not args.is_async)
    done = 0
    if not args.anew:
        done = transpiler.steps_done()
        print("steps done", done, flush=True)
    for step in range(done, args.steps if args.more is None else done + args.more):
        exe.run(program, feed={"x": np.ones((1, ROWS), "float32")})
        print("did step", step, flush=True)
    values, counts = np.unique([np.array(fluid.global_scope().find_var(name).get_tensor()) for name in NAMES], return_counts=True)
    print("values", dict(zip(values.tolist(), counts.tolist())), flush=True)


if __name__ == "__main__":
    main()
