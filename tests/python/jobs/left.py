"""A trainer whose thread is in a step that waits for a trainer that never comes, while the main thread fails or is interrupted."""

import threading
import time

import numpy as np
import small

import paddle.fluid as fluid

parser = small.parse(__doc__)
parser.add_argument("--how", choices=["raise", "sleep", "run"], default="raise")
options = parser.parse_args()
loss = fluid.layers.mean(fluid.layers.fc(fluid.layers.data("x", [4]), 1))
fluid.optimizer.SGD(0.1).minimize(loss)
exe, program, _ = small.start(options)


def step(exe):
    exe.run(program, feed={"x": np.ones((1, 4), "float32")})


threading.Thread(target=step, args=(fluid.Executor(),), daemon=True).start()
print("the thread is in its step", flush=True)
if options.how == "run":
    step(exe)
elif options.how == "sleep":
    time.sleep(1000)
time.sleep(3)
raise ValueError("this is why")
