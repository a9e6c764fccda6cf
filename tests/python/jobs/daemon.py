"""A trainer that trains in a daemon thread, and ends when that is in the middle of a step and the file --go is there."""

import os
import sys
import threading
import time

import numpy as np
import small

import paddle.fluid as fluid


def main() -> int:
    parser = small.parse(__doc__)
    parser.add_argument("--go", default="")
    options = parser.parse_args()
    x = fluid.layers.data(name="x", shape=[3], dtype="float32")
    loss = fluid.layers.mean(fluid.layers.fc(x, 1))
    fluid.optimizer.SGD(0.01).minimize(loss)
    exe, program, _ = small.start(options)

    def train() -> None:
        exe.run(program, feed={"x": np.ones((2, 3), "float32")})

    threading.Thread(target=train, daemon=True).start()
    while not os.path.exists(options.go):
        time.sleep(0.01)
    print("main ends", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
