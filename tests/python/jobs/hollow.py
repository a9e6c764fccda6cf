"""A job whose parameters have nothing in them, or less than there are servers: as a server, a trainer, or in one process."""

from __future__ import annotations

import numpy as np
import small

import paddle.fluid as fluid
from paddle.fluid import layers

KINDS = ["no columns", "no rows", "narrow table", "narrow dense table", "short table", "short distributed table", "no parameters"]


def build(kind: str, optimizer: str, decay: bool) -> fluid.framework.Variable:
    x = layers.data("x", [8], dtype="float32")
    ids = layers.data("ids", [1], dtype="int64")
    if kind == "no parameters":
        return layers.mean(x)
    cost = layers.mean(layers.square(layers.fc(x, size=3,
                                               param_attr=fluid.ParamAttr(name="w", initializer=fluid.initializer.Constant(0.25)))))
    if kind == "no columns":
        cost = cost + layers.reduce_sum(layers.mul(x, layers.create_parameter([8, 0], "float32", name="hollow")))
    if kind == "no rows":
        cost = cost + layers.reduce_sum(layers.create_parameter([0, 8], "float32", name="hollow"))
    if "table" in kind:
        size = [2, 4] if "short" in kind else [10, 0]
        attr = fluid.ParamAttr(name="hollow", initializer=fluid.initializer.Constant(0.5))
        cost = cost + layers.reduce_sum(layers.embedding(ids, size, is_sparse="dense" not in kind,
                                                         is_distributed="distributed" in kind, param_attr=attr))
    regularization = fluid.regularizer.L2Decay(0.1) if decay else None
    getattr(fluid.optimizer, optimizer)(0.1, regularization=regularization).minimize(cost)
    return cost


def batch(step: int) -> dict[str, np.ndarray]:
    return {"x": np.full([4, 8], 1 + step / 10, "float32"), "ids": np.array([[0], [1], [1], [1]], "int64")}


def main() -> None:
    parser = small.parse(__doc__)
    parser.add_argument("--kind", choices=KINDS)
    parser.add_argument("--optimizer", default="SGD")
    parser.add_argument("--decay", action="store_true")
    parser.add_argument("--async", dest="is_async", action="store_true")
    parser.add_argument("--out")
    options = parser.parse_args()
    cost = build(options.kind, options.optimizer, options.decay)
    if options.role == "single":
        exe, program = fluid.Executor(fluid.CPUPlace()), fluid.default_main_program()
        exe.run(fluid.default_startup_program())
    else:
        exe, program, _ = small.start(options, sync_mode=not options.is_async)
    losses = [exe.run(program, feed=batch(step), fetch_list=[cost])[0] for step in range(4)]
    if options.out:
        fluid.io.save_persistables(exe, options.out, program)
    print("losses", *(float(loss.item()) for loss in losses), flush=True)
    exe.close()


if __name__ == "__main__":
    main()
