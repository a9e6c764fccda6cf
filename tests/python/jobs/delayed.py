"""A server or worker of an async job with delay compensation. A worker does the words of its command line:

train:N: so many steps; feed:X: of this gradient from here on; wait:FILE: until that is there; make:FILE; weight: says it.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import numpy as np

import paddle.fluid as fluid
from paddle.fluid.incubate.fleet.base import role_maker
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet


def main() -> None:
    fleet.init(role_maker.PaddleCloudRoleMaker())
    x = fluid.data("x", [None, 1])
    start = fluid.ParamAttr(name="w", initializer=fluid.initializer.Constant(0.0))
    loss = fluid.layers.mean(fluid.layers.fc(x, 1, param_attr=start, bias_attr=False))
    decay = fluid.regularizer.L2Decay(0.5) if "JOB_DECAY" in os.environ else None
    config = fluid.DistributeTranspilerConfig()
    config.sync_mode, config.enable_dc_asgd, config.runtime_split_send_recv = False, True, False
    fleet.distributed_optimizer(fluid.optimizer.SGD(1.0, regularization=decay), config).minimize(loss)
    if fleet.is_server():
        fleet.init_server()
        fleet.run_server()
        return
    fleet.init_worker()
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fleet.startup_program)
    value = 1.0
    for word in sys.argv[1:]:
        what, _, how = word.partition(":")
        if what == "feed":
            value = float(how)
        elif what == "train":
            for _ in range(int(how)):
                exe.run(fleet.main_program, feed={"x": np.array([[value]], "float32")})
        elif what == "make":
            Path(how).touch()
        elif what == "wait":
            while not Path(how).exists():
                time.sleep(0.005)
        elif what == "weight":
            exe.run(fleet.startup_program)
            print(f"weight {np.array(fluid.global_scope().find_var('w').get_tensor()).item():.4f}", flush=True)
    fleet.stop_worker()


if __name__ == "__main__":
    main()
