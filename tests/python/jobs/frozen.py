"""A job without a seed whose first layer is not trained: what does it start with on each trainer?
"""

import sys

import numpy as np
import small

import paddle.fluid as fluid

STEPS = 5


def main() -> int:
    options = small.parse(__doc__).parse_args()
    x = fluid.layers.data(name="x", shape=[13], dtype="float32")
    y = fluid.layers.data(name="y", shape=[1], dtype="float32")
    hidden = fluid.layers.fc(x, 4, param_attr=fluid.ParamAttr(name="frozen", trainable=False), bias_attr=False)
    loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(hidden, 1, param_attr="moving"), y))
    fluid.optimizer.SGD(0.01).minimize(loss)
    exe, program, _ = small.start(options)
    start = {name: np.array(fluid.global_scope().find_var(name).get_tensor()) for name in ("frozen", "moving")}
    for _ in range(STEPS):
        exe.run(program, feed={"x": np.ones((2, 13), "float32"), "y": np.ones((2, 1), "float32")})
    end = np.array(fluid.global_scope().find_var("frozen").get_tensor())
    print("frozen", start["frozen"].tobytes().hex(), "moving", start["moving"].tobytes().hex(), flush=True)
    assert np.array_equal(start["frozen"], end)
    assert np.ptp(end) > 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
