"""A job that goes on from files which its servers load: with what does each trainer start? Two layers are not trained (drawn at
random, and a constant), and a norm has statistics. As `single` it trains and writes those files."""

import sys

import numpy as np
import small

import paddle.fluid as fluid

LOADS = {
    "persistables": lambda exe, folder, program: fluid.io.load_persistables(exe, folder, program),
    "params": lambda exe, folder, program: fluid.io.load_params(exe, folder, program),
    "one file": lambda exe, folder, program: fluid.io.load_persistables(exe, folder, program, filename="all"),
    "state": lambda exe, folder, program: fluid.load(program, f"{folder}/m"),
}
HELD = ["drawn", "constant", "mean", "variance", "trained"]


def net(is_single: bool) -> None:
    x = fluid.layers.data(name="x", shape=[4], dtype="float32")
    # What the files hold is not what this script starts with.
    constant = fluid.initializer.Constant(2.0 if is_single else 1.0)
    hidden = fluid.layers.fc(x, 4, param_attr=fluid.ParamAttr("drawn", trainable=False), bias_attr=False)
    hidden = fluid.layers.fc(hidden, 4, param_attr=fluid.ParamAttr("constant", constant, trainable=False), bias_attr=False)
    hidden = fluid.layers.batch_norm(hidden, moving_mean_name="mean", moving_variance_name="variance")
    loss = fluid.layers.mean(fluid.layers.fc(hidden, 1, param_attr="trained"))
    fluid.optimizer.SGD(0.1).minimize(loss)


def show(when: str) -> None:
    for name in HELD:
        print(when, name, np.array(fluid.global_scope().find_var(name).get_tensor()).tobytes().hex(), flush=True)


def main() -> int:
    parser = small.parse(__doc__)
    parser.add_argument("--folder")
    parser.add_argument("--how", choices=list(LOADS))
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    fluid.default_startup_program().random_seed = fluid.default_main_program().random_seed = options.seed
    net(options.role == "single")
    feed = {"x": np.random.RandomState(1).rand(8, 4).astype("float32")}
    if options.role == "single":
        exe, program = fluid.Executor(fluid.CPUPlace()), fluid.default_main_program()
        exe.run(fluid.default_startup_program())
        for _ in range(3):
            exe.run(program, feed=feed)
        fluid.io.save_persistables(exe, options.folder)
        fluid.io.save_persistables(exe, options.folder, filename="all")
        fluid.save(program, f"{options.folder}/m")
        show("saved")
        return 0
    exe, program, _ = small.start(options, load=lambda exe, program: LOADS[options.how](exe, options.folder, program))
    show("starts")
    exe.run(program, feed=feed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
