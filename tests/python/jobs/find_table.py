"""A trainer that looks at its parameters through the scope, as scripts do after training."""

from __future__ import annotations

import numpy as np
import small

import paddle.fluid as fluid
from paddle.fluid import layers


def main() -> None:
    parser = small.parse(__doc__)
    parser.add_argument("--distributed", action="store_true")
    parser.add_argument("--stray", action="store_true", help="a batch asks for a row that there is not")
    options = parser.parse_args()
    ids = layers.data("ids", [1], dtype="int64")
    attr = fluid.ParamAttr(name="emb", initializer=fluid.initializer.Constant(1.0))
    rows = layers.embedding(ids, [7, 3], is_sparse=True, is_distributed=options.distributed, param_attr=attr)
    loss = layers.reduce_sum(rows)
    fluid.optimizer.SGD(0.5).minimize(loss)
    exe, program, _ = small.start(options)
    if options.stray:
        exe.run(program, feed={"ids": np.array([[2], [9], [5]], "int64")}, fetch_list=[loss])
    held = fluid.global_scope().find_var("emb").get_tensor()
    first = np.array(held)
    assert first.shape == (7, 3) and (first == 1).all(), first
    exe.run(program, feed={"ids": np.array([[2], [5], [5]], "int64")}, fetch_list=[loss])
    want = np.ones([7, 3], "float32")
    want[2], want[5] = 0.5, 0.0
    assert (np.array(fluid.global_scope().find_var("emb").get_tensor()) == want).all(), np.array(held)
    assert (np.array(held).astype("float64") == want).all()
    exe.close()
    print("found")


if __name__ == "__main__":
    main()
