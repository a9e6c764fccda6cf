"""A job with one parameter of 160 KiB, and one step of it."""

import numpy as np
import small

import paddle.fluid as fluid

ROWS, WIDTH = 40, 1024


def main() -> None:
    options = small.parse(__doc__).parse_args()
    x = fluid.layers.data("x", [ROWS])
    zero = fluid.ParamAttr(name="w", initializer=fluid.initializer.Constant(0.0))
    fluid.optimizer.SGD(1.0).minimize(fluid.layers.reduce_sum(fluid.layers.fc(x, WIDTH, param_attr=zero, bias_attr=False)))
    exe, program, _ = small.start(options)
    exe.run(program, feed={"x": np.ones((1, ROWS), "float32")})
    print("values", np.unique(fluid.global_scope().find_var("w").get_tensor()).tolist(), flush=True)


if __name__ == "__main__":
    main()
