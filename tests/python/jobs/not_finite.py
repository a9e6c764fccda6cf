"""A job of which one trainer is fed an infinity at step 5."""

from __future__ import annotations

import numpy as np
import small

import paddle.fluid as fluid
from paddle.fluid import layers


def main() -> None:
    parser = small.parse(__doc__)
    parser.add_argument("--sparse", action="store_true")
    parser.add_argument("--async", dest="is_async", action="store_true")
    parser.add_argument("--decay", action="store_true", help="updates through the engine")
    parser.add_argument("--bad", type=int, default=1, help="the trainer")
    options = parser.parse_args()
    x = layers.data("x", [4], dtype="float32")
    ids = layers.data("ids", [1], dtype="int64")
    hidden = layers.elementwise_mul(layers.embedding(ids, [10, 4], is_sparse=True, param_attr="table"), x) if options.sparse else x
    loss = layers.mean(layers.fc(hidden, 1, param_attr="w", bias_attr=False))
    fluid.optimizer.SGD(0.1, regularization=fluid.regularizer.L2Decay(0.1) if options.decay else None).minimize(loss)
    exe, program = small.start(options, sync_mode=not options.is_async)
    for step in range(1, 11):
        value = np.inf if step == 5 and options.id == options.bad else 1.0
        exe.run(program, feed={"x": np.full([3, 4], value, "float32"), "ids": np.full([3, 1], step % 10, "int64")}, fetch_list=[loss])
    exe.close()


if __name__ == "__main__":
    main()
