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
    parser.add_argument("--from-files", action="store_true", help="train by train_from_dataset")
    args = parser.parse_args()
    weight = fluid.ParamAttr(name="w", initializer=fluid.initializer.Constant(0.3))
    data = layers.data("x", [4])
    loss = layers.mean(layers.square(layers.fc(data, 1, param_attr=weight, bias_attr=False) - 1.0))
    before = layers.assign(fluid.default_main_program().global_block().var("w"))
    test = fluid.default_main_program().clone(for_test=True)
    fluid.optimizer.SGD(0.1).minimize(loss)
    exe, program, _ = small.start(args)
    if args.places > 1:
        places = fluid.cpu_places(args.places)
        program = fluid.CompiledProgram(program).with_data_parallel(loss_name=loss.name, places=places)

    def train(step: int) -> None:
        x = np.random.RandomState(10 * step + args.id).randn(4, 4).astype("float32")
        if args.from_files:
            train_from_files(step, x)
            return
        value, = exe.run(program, feed={"x": x}, fetch_list=[before])
        print("step", step, np.asarray(value)[:4].tobytes().hex(), flush=True)

    def train_from_files(step: int, x: np.ndarray) -> None:
        class Handler(fluid.executor.FetchHandler):
            def handler(self, res_dict):
                print("step", step, np.asarray(res_dict["w"])[:4].tobytes().hex(), flush=True)

        np.savetxt(path(f"data-{args.id}"), np.insert(x, 0, 4, axis=1), "%.9g")
        dataset = fluid.DatasetFactory().create_dataset("QueueDataset")
        dataset.set_use_var([data])
        dataset.set_filelist([path(f"data-{args.id}")])
        exe.train_from_dataset(program, dataset, fetch_handler=Handler({"w": before}, 0))

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
