"""An asynchronous job with one wide parameter, which leaves in many parts: each step takes 1 from every number of it. At its end a
trainer says how often each value is there."""

import numpy as np
import small

import paddle.fluid as fluid

ROWS, WIDTH = 512, 2048  # 4 MiB: eight parts, and four on each of two servers


def main() -> None:
    parser = small.parse(__doc__)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--more", type=int, help="steps after those that were done, instead")
    args = parser.parse_args()
    x = fluid.layers.data("x", [ROWS])
    start = fluid.ParamAttr(name="w", initializer=fluid.initializer.Constant(0.0))
    fluid.optimizer.SGD(1.0).minimize(fluid.layers.reduce_sum(fluid.layers.fc(x, WIDTH, param_attr=start, bias_attr=False)))
    exe, program, transpiler = small.start(args, sync_mode=False)
    print("steps done", transpiler.steps_done(), flush=True)
    done = transpiler.steps_done()
    for step in range(done, args.steps if args.more is None else done + args.more):
        exe.run(program, feed={"x": np.ones((1, ROWS), "float32")})
        print("did step", step, flush=True)
    values, counts = np.unique(np.array(fluid.global_scope().find_var("w").get_tensor()), return_counts=True)
    print("values", dict(zip(values.tolist(), counts.tolist())), flush=True)


if __name__ == "__main__":
    main()
