"""A job of which one trainer is fed an infinity at step 5."""

from __future__ import annotations

import os
import time

import numpy as np
import small

import paddle.fluid as fluid
from paddle.fluid import layers


def train_wide(options) -> None:
    """Each step takes 1 from every element, where trainer 0 gives it."""
    x = layers.data("x", [1000, 400], append_batch_size=False)
    shapes = {"wide": [1000, 400], "other": [300, 400]}
    wide, other = (layers.create_parameter(s, "float32", n, default_initializer=fluid.initializer.Constant(0.0))
                   for n, s in shapes.items())
    corner = layers.reduce_sum(layers.slice(x, axes=[0, 1], starts=[0, 0], ends=[1, 1]))
    loss = layers.reduce_sum(layers.elementwise_mul(x, wide)) + layers.reduce_sum(other) * corner
    fluid.optimizer.SGD(1.0).minimize(loss)
    exe, program, _ = small.start(options, sync_mode=not options.is_async)
    value = np.full([1000, 400], 1.0 if options.id == options.bad else 0.0, "float32")
    for step in range(1, 11):
        if step == 5 and options.id == options.bad:
            value[-1, -1] = np.nan
        exe.run(program, feed={"x": value}, fetch_list=[loss])
    while not os.path.exists(options.go):
        time.sleep(0.01)
    exe.run(program, feed={"x": value}, fetch_list=[loss])
    if options.out:
        np.savez(options.out, **{name: np.array(fluid.global_scope().find_var(name).get_tensor()) for name in shapes})
    exe.close()


def train_two(options) -> None:
    """Batch k takes 10 to the k from all elements of two parameters; batch 3 has a NaN for one of them."""
    names, zero = ("w0", "w1"), fluid.initializer.Constant(0.0)
    parts = [layers.fc(layers.data(f"x{i}", [4]), 8, param_attr=fluid.ParamAttr(name=name, initializer=zero), bias_attr=False)
             for i, name in enumerate(names)]
    fluid.optimizer.SGD(1.0).minimize(layers.reduce_sum(parts[0]) + layers.reduce_sum(parts[1]))
    exe, program, transpiler = small.start(options, sync_mode=not options.is_async)
    batches = [k for k in range(6) if k != 3 or options.two != "without"]
    for k in batches[transpiler.steps_done() :]:
        feed = {f"x{i}": np.full([1, 4], np.nan if k == 3 and i == options.bad else 10.0**k, "float32") for i in range(2)}
        try:
            exe.run(program, feed=feed)
        except fluid.core.EnforceNotMet as error:
            print(error, flush=True)
            if options.two != "catch":
                raise
    print("values", [np.unique(fluid.global_scope().find_var(name).get_tensor()).tolist() for name in names])
    exe.close()


def main() -> None:
    parser = small.parse(__doc__)
    parser.add_argument("--sparse", action="store_true")
    parser.add_argument("--async", dest="is_async", action="store_true")
    parser.add_argument("--decay", action="store_true", help="updates through the engine")
    parser.add_argument("--bad", type=int, default=1, help="the trainer")
    parser.add_argument("--wide", action="store_true", help="gradients of several parts, with a NaN in the last element")
    parser.add_argument("--go", default="", help="... : the last step waits for this file")
    parser.add_argument("--out", default="", help="... : the parameters, in the end")
    parser.add_argument("--rate", type=float, default=0.1)
    parser.add_argument("--value", type=float, default=np.inf, help="of the step that is bad")
    parser.add_argument("--two", choices=["with", "catch", "without"],
                        help="batches of which one has a NaN, which is caught, or taken out")
    options = parser.parse_args()
    if options.two:
        train_two(options)
        return
    if options.wide:
        train_wide(options)
        return
    x = layers.data("x", [4], dtype="float32")
    ids = layers.data("ids", [1], dtype="int64")
    hidden = layers.elementwise_mul(layers.embedding(ids, [10, 4], is_sparse=True, param_attr="table"), x) if options.sparse else x
    loss = layers.mean(layers.fc(hidden, 1, param_attr="w", bias_attr=False))
    fluid.optimizer.SGD(options.rate, regularization=fluid.regularizer.L2Decay(0.1) if options.decay else None).minimize(loss)
    exe, program, _ = small.start(options, sync_mode=not options.is_async)
    for step in range(1, 11):
        value = options.value if step == 5 and options.bad in (options.id, -1) else 1.0
        exe.run(program, feed={"x": np.full([3, 4], value, "float32"),
                               "ids": np.full([3, 1], step % 10, "int64")}, fetch_list=[loss])
    exe.close()


if __name__ == "__main__":
    main()
