"""A trainer asks a server for a variable that it has not: `asks.py server|trainer --endpoints ...`."""

import os
import signal
import time

import numpy as np
import small

import paddle.fluid as fluid

parser = small.parse(__doc__)
parser.add_argument("--async", dest="is_async", action="store_true")
parser.add_argument("--steps", type=int, default=6)
parser.add_argument("--asks", type=int, default=0, help="trainer 0, after three steps: the server with this number")
parser.add_argument("--then", choices=["raises", "dies", "stays"], default="raises")
parser.add_argument("--until", default="", help="one that stays does so until this file is there")
options = parser.parse_args()
x = fluid.layers.data("x", [8])
loss = fluid.layers.mean(fluid.layers.fc(fluid.layers.fc(x, 4, bias_attr=False), 4, bias_attr=False))
fluid.optimizer.SGD(0.01).minimize(loss)
exe, program, _ = small.start(options, sync_mode=not options.is_async)
for step in range(options.steps):
    if step == 3 and options.id == 0:
        asking = fluid.Program()
        out = asking.global_block().create_var(name="nothing", shape=[1], dtype="float32")
        attrs = {"epmap": [options.endpoints.split(",")[options.asks]], "recv_varnames": ["nothing"], "trainer_id": 0}
        asking.global_block().append_op(type="recv", inputs={"X": []}, outputs={"Out": [out]}, attrs=attrs)
        try:
            exe.run(asking, fetch_list=[out])
        except fluid.core.NotFoundError as error:
            print(f"caught: {error}", flush=True)
            if options.then == "dies":
                os.kill(os.getpid(), signal.SIGKILL)
            while options.then == "stays" and not os.path.exists(options.until):
                time.sleep(0.01)
            raise
    exe.run(program, feed={"x": np.ones([2, 8], "float32")})
