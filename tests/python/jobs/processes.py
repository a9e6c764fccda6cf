"""A whole job in one script: a server and two trainers, each a multiprocessing.Process that ends without exe.close(). Prints their
statuses. The first trainer may leave in the middle."""

import argparse
import multiprocessing
import os
import sys
import threading

import numpy as np


def transpiled(number: int, endpoint: str):
    import paddle.fluid as fluid

    x = fluid.layers.data("x", [4])
    fluid.optimizer.SGD(0.1).minimize(fluid.layers.mean(fluid.layers.fc(x, 1)))
    transpiler = fluid.DistributeTranspiler()
    transpiler.transpile(number, pservers=endpoint, trainers=2)
    return fluid, transpiler, fluid.Executor(fluid.CPUPlace())


def server(endpoint: str) -> None:
    _, transpiler, exe = transpiled(0, endpoint)
    program, startup = transpiler.get_pserver_programs(endpoint)
    exe.run(startup)
    exe.run(program)


def trainer(number: int, endpoint: str, how: str) -> None:
    fluid, transpiler, exe = transpiled(number, endpoint)
    exe.run(fluid.default_startup_program())

    def one_step() -> None:
        exe.run(program, feed={"x": np.ones((2, 4), "float32")})

    program = transpiler.get_trainer_program()
    for step in range(6):
        one_step()
        if step == 3 and number == 0 and how == "exits":
            sys.exit(0)
        if step == 3 and number == 0 and how == "exits with 3":
            sys.exit(3)
        if step == 3 and number == 0 and how == "raises":
            raise ValueError("the data is bad")
        if step == 3 and how == "leaves it to a thread":
            threading.Thread(target=lambda: [one_step() for _ in range(2)]).start()
            return
        if step == 3 and number == 0 and how == "forks":
            child = multiprocessing.get_context("fork").Process(target=os.getpid)
            child.start()
            child.join()
            assert child.exitcode == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("endpoint")
    parser.add_argument("method", choices=["fork", "spawn", "forkserver"])
    parser.add_argument("how", choices=["returns", "exits", "exits with 3", "raises", "forks", "leaves it to a thread"])
    parser.add_argument("--imported", action="store_true", help="before the processes start")
    options = parser.parse_args()
    if options.imported:
        multiprocessing.set_forkserver_preload(["paddle.fluid"])
        import paddle.fluid  # noqa: F401
    make = multiprocessing.get_context(options.method).Process
    processes = [make(target=server, args=(options.endpoint,))]
    processes += [make(target=trainer, args=(number, options.endpoint, options.how)) for number in range(2)]
    try:
        raise RuntimeError("in the past")
    except RuntimeError:
        for process in processes:
            process.start()
    for process in processes:
        process.join()
    print("statuses", *[process.exitcode for process in processes], flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
