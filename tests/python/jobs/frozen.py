"""A job without a seed with something that is not trained, its first layer or a factor of one number: what does it start with on
each trainer?"""

import os
import sys
import time

import numpy as np
import small

import paddle.fluid as fluid

STEPS = 5


def main() -> int:
    parser = small.parse(__doc__)
    parser.add_argument("--scalar", action="store_true", help="the factor")
    parser.add_argument("--async", dest="is_async", action="store_true")
    parser.add_argument("--until", default="", help="stays after the second step until this file is there")
    options = parser.parse_args()
    x = fluid.layers.data(name="x", shape=[13], dtype="float32")
    y = fluid.layers.data(name="y", shape=[1], dtype="float32")
    attr = fluid.ParamAttr(name="frozen", trainable=False)
    if options.scalar:
        attr.initializer = fluid.initializer.Uniform(1.0, 2.0)
        hidden = fluid.layers.elementwise_mul(x, fluid.layers.create_parameter([1], "float32", attr=attr))
    else:
        hidden = fluid.layers.fc(x, 4, param_attr=attr, bias_attr=False)
    loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(hidden, 1, param_attr="moving"), y))
    fluid.optimizer.SGD(0.01).minimize(loss)
    exe, program, _ = small.start(options, sync_mode=not options.is_async)
    start = {name: np.array(fluid.global_scope().find_var(name).get_tensor()) for name in ("frozen", "moving")}
    for step in range(STEPS):
        if step == 2 and options.until:
            print("pauses", flush=True)
            while not os.path.exists(options.until):
                time.sleep(0.01)
        exe.run(program, feed={"x": np.ones((2, 13), "float32"), "y": np.ones((2, 1), "float32")})
    end = np.array(fluid.global_scope().find_var("frozen").get_tensor())
    print("frozen", start["frozen"].tobytes().hex(), "moving", start["moving"].tobytes().hex(), flush=True)
    assert np.array_equal(start["frozen"], end)
    assert options.scalar or np.ptp(end) > 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
