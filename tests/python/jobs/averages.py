"""A job whose trainer holds something alone: with --average the moving average of a parameter. It may come to the job again in the
same process (--close-at), and load its own values first (--load); it saves after each step (--save). It may wait for its end by a
signal when its steps are done, without a word to the servers (--stay), and before its last step for a file (--last-after)."""

import signal

import numpy as np
import small

import paddle.fluid as fluid


def main() -> None:
    parser = small.parse(__doc__)
    parser.add_argument("--average", action="store_true")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--close-at", type=int, default=-1)
    parser.add_argument("--save")
    parser.add_argument("--load")
    parser.add_argument("--stay", action="store_true")
    parser.add_argument("--last-after")
    args = parser.parse_args()
    x = fluid.layers.data("x", [4])
    attr = fluid.ParamAttr(name="w", initializer=fluid.initializer.Constant(0.0))
    fluid.optimizer.SGD(1.0).minimize(fluid.layers.reduce_sum(fluid.layers.fc(x, 2, param_attr=attr, bias_attr=False)))
    average = fluid.optimizer.ExponentialMovingAverage(0.5) if args.average else None
    if average:
        average.update()
    exe, program, transpiler = small.start(args)
    if args.load:
        fluid.io.load_persistables(exe, args.load, program)
    first = transpiler.steps_done()
    print("steps done", first, flush=True)
    for step in range(first, args.steps):
        if step == args.steps - 1:
            small.wait_for(args.last_after)
        if step == args.close_at:
            exe.close()
            exe = fluid.Executor(fluid.CPUPlace())
        exe.run(program, feed={"x": np.full((1, 4), step + 1, "float32")})
        if args.save:
            fluid.io.save_persistables(exe, args.save, program)
        print("did step", step, flush=True)
    if args.stay:
        signal.pause()
    if average:
        with average.apply(exe):
            print("averaged", np.array(fluid.global_scope().find_var("w").get_tensor())[0, 0], flush=True)


if __name__ == "__main__":
    main()
