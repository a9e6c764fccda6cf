"""A job of two trainers, of which the first closes its executor after two steps and trains on in the same process when the other
has done four more: prints the parameter that each step is computed with."""

from __future__ import annotations

import os
import time

import numpy as np
import small

import paddle.fluid as fluid
from paddle.fluid import layers


def main() -> None:
    parser = small.parse(__doc__)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--places", type=int, default=1)
    args = parser.parse_args()
    weight = fluid.ParamAttr(name="w", initializer=fluid.initializer.Constant(0.3))
    loss = layers.mean(layers.square(layers.fc(layers.data("x", [4]), 1, param_attr=weight, bias_attr=False) - 1.0))
    before = layers.assign(fluid.default_main_program().global_block().var("w"))
    test = fluid.default_main_program().clone(for_test=True)
    fluid.optimizer.SGD(0.1).minimize(loss)
    exe, program, _ = small.start(args)
    if args.places > 1:
        places = fluid.cpu_places(args.places)
        program = fluid.CompiledProgram(program).with_data_parallel(loss_name=loss.name, places=places)

    def train(step: int) -> None:
        x = np.random.RandomState(10 * step + args.id).randn(4, 4).astype("float32")
        value, = exe.run(program, feed={"x": x}, fetch_list=[before])
        print("step", step, np.asarray(value)[:4].tobytes().hex(), flush=True)

    def path(name: str) -> str:
        return os.path.join(args.folder, name)

    for step in range(2):
        train(step)
    if args.id == 0:
        exe.close()
        exe = fluid.Executor(fluid.CPUPlace())
        while not os.path.exists(path("alone")):
            time.sleep(0.01)
        exe.run(test, feed={"x": np.ones((1, 4), "float32")})  # is no step
        for step in range(2, 4):
            train(step)
        open(path("done"), "w").close()
        return
    step = 2
    while not os.path.exists(path("done")):
        train(step)
        step += 1
        if step == 6:
            open(path("alone"), "w").close()


if __name__ == "__main__":
    main()
