"""A trainer that trains in a daemon thread, and ends when that is in the middle of a step."""

import argparse
import sys
import threading
import time

import numpy as np

import paddle.fluid as fluid


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("role", choices=["server", "trainer"])
    parser.add_argument("--endpoints")
    parser.add_argument("--trainers", type=int)
    parser.add_argument("--endpoint")
    parser.add_argument("--id", type=int, default=0)
    options = parser.parse_args()
    x = fluid.layers.data(name="x", shape=[3], dtype="float32")
    loss = fluid.layers.mean(fluid.layers.fc(x, 1))
    fluid.optimizer.SGD(0.01).minimize(loss)
    transpiler = fluid.DistributeTranspiler()
    transpiler.transpile(options.id, pservers=options.endpoints, trainers=options.trainers)
    exe = fluid.Executor(fluid.CPUPlace())
    if options.role == "server":
        program, startup = transpiler.get_pserver_programs(options.endpoint)
        exe.run(startup)
        exe.run(program)
    exe.run(fluid.default_startup_program())
    begun = threading.Event()

    def train() -> None:
        begun.set()
        exe.run(transpiler.get_trainer_program(), feed={"x": np.ones((2, 3), "float32")})

    threading.Thread(target=train, daemon=True).start()
    begun.wait()
    time.sleep(0.5)  # in which it gives its gradients, and waits for the other trainer
    print("main ends", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
