"""Async, states of an optimizer and a schedule: trainer 0 saves again and again while trainer 1 trains."""

import os

import numpy as np
import small

import paddle.fluid as fluid

parser = small.parse(__doc__)
parser.add_argument("--out", required=True, help="a folder")
options = parser.parse_args()
x = fluid.layers.data("x", [1024])
h = fluid.layers.fc(fluid.layers.fc(x, 1024, bias_attr=False), 1024, bias_attr=False)
rate = fluid.layers.exponential_decay(1e-5, 1, 0.99999)
fluid.optimizer.Adam(rate).minimize(fluid.layers.mean(h))
exe, program, _ = small.start(options, sync_mode=False)
feed, saved = {"x": np.random.rand(4, 1024).astype("float32")}, os.path.join(options.out, "saved")
exe.run(program, feed=feed)
if options.id == 0:
    for _ in range(25):
        fluid.io.save_persistables(exe, options.out, program)
    open(saved, "w").close()
else:
    while not os.path.exists(saved):
        exe.run(program, feed=feed)
exe.close()
