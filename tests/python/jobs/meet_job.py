"""One process of a Fleet job whose workers meet. Each word of the command line is something that a worker does, in order:

barrier, reduce, gather: meets the others; bad: gives what cannot be given; rounds:N: N barriers, noted in a file before
and behind; sums:N: N sums, all checked; wait:FILE: until that is there; train:N: so many steps; beside:N: the same, at
a barrier in another thread meanwhile; feed:X: of this value from here on; weight: says a parameter, as servers have it;
weights: both of them, as they are here; save:FOLDER; say:TEXT; go: from here on a meeting that fails is told, and it
goes on. leave: ends without a word to anybody. With JOB_LOSS=square gradients depend on the parameters; with JOB_CHECKS
servers refuse NaN.
"""

from __future__ import annotations

import os
import sys
import threading
import time

import numpy as np

import paddle.fluid as fluid
from paddle.fluid.incubate.fleet.base import role_maker
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler.distributed_strategy import StrategyFactory

STRATEGY = os.environ.get("JOB_STRATEGY", "sync")


def build() -> fluid.framework.Variable:
    x = fluid.data("x", [None, 1])
    zero = fluid.initializer.Constant(0.0)
    sums = [fluid.layers.fc(x, 1, param_attr=fluid.ParamAttr(name=name, initializer=zero), bias_attr=False) for name in ("w", "v")]
    if os.environ.get("JOB_LOSS") == "square":
        return fluid.layers.mean(fluid.layers.square(sums[0] - 1.0)) + fluid.layers.mean(fluid.layers.square(sums[1] - 1.0))
    return fluid.layers.mean(sums[0]) + fluid.layers.mean(sums[1] * 2.0)


class Worker:
    def __init__(self):
        self.id, self.count = fleet.worker_index(), fleet.worker_num()
        self.role, self.exe = fleet._role_maker, fluid.Executor()
        self.is_ready = self.goes_on = False
        self.x = 1.0

    def note(self, text: str) -> None:
        with open(os.environ["JOB_NOTES"], "a") as notes:
            notes.write(text + "\n")

    def sum_of(self, values: list, mode: str = "sum") -> list:
        found = [None] * len(values)
        self.role.all_reduce_worker(values, found, mode)
        return found

    def reduce(self) -> None:
        i = self.id
        ints, floats = [i + 1, 1 << 70, -i], [[1e16, 1.0, -1e16, 0.1][(i + k) % 4] for k in range(4)]
        found = [self.sum_of(ints, mode) for mode in ("sum", "min", "max")]
        found += [[each.hex() for each in self.sum_of(floats, mode)] for mode in ("sum", "min", "max")]
        for dtype in ("int64", "float32", "float64"):
            mine, total = (np.arange(1000) * (i + 0.3)).astype(dtype), np.zeros(1000, dtype)
            for mode in ("sum", "min", "max"):
                self.role.all_reduce_worker(mine, total, mode)
                found.append(total.tobytes().hex())
        print(f"reduced {found}")
        nans = [float("nan") if k == i else float(i) for k in range(self.count + 1)]  # one worker's each, and nobody's
        both = [[float(each) for each in self.sum_of(given, mode)] for given in (nans, np.array(nans))
                for mode in ("sum", "min", "max")]
        print(f"with NaN {both}")

    def gather(self) -> None:
        mine = {"id": self.id, "list": [1, (2, None), {3}], "raw": b"\x00\xff" * self.id, "nan": [0.1, float("inf")],
                "array": np.arange(self.id), "scalar": np.float32(1.5)}
        print(f"gathered {self.role.all_gather(mine)}")

    def bad(self) -> None:
        try:
            self.role.all_gather(object())
        except TypeError as error:
            print(f"bad: {error}")

    def rounds(self, count: int) -> None:
        for i in range(count):
            self.note(f"in {i}")
            fleet.barrier_worker()
            self.note(f"out {i}")

    def sums(self, count: int) -> None:
        for i in range(count):
            found = self.sum_of([i + self.id, 1])
            assert found == [self.count * i + sum(range(self.count)), self.count], (i, found)
        print(f"did {count} sums")

    def train(self, steps: int) -> None:
        if not self.is_ready:
            fleet.init_worker()
            self.exe.run(fleet.startup_program)
            self.is_ready = True
        for _ in range(steps):
            self.exe.run(fleet.main_program, feed={"x": np.full((1, 1), self.x, "float32")}, fetch_list=[])

    def weight(self) -> None:
        self.train(0)
        self.exe.run(fleet.startup_program)  # brings what the servers have
        print(f"weight {float(np.array(fluid.global_scope().find_var('w').get_tensor())[0, 0]):.3f}")

    def beside(self, steps: int) -> None:
        """Trains while another thread is at a barrier."""
        self.train(1)
        wall = threading.Thread(target=fleet.barrier_worker)
        wall.start()
        for _ in range(steps - 1):
            self.train(1)
        wall.join()

    def weights(self) -> None:
        found = [np.array(fluid.global_scope().find_var(name).get_tensor()).item() for name in ("w", "v")]
        print(f"weights {found}")

    def do(self, what: str, how: str) -> None:
        if what == "barrier":
            fleet.barrier_worker()
        elif what == "wait":
            while not os.path.exists(how):
                time.sleep(0.005)
        elif what == "say":
            print(how)
        elif what == "leave":
            sys.exit(0)
        elif what == "save":
            fleet.save_persistables(self.exe, how)
        elif what == "feed":
            self.x = float(how)
        elif what == "go":
            self.goes_on = True
        else:
            getattr(self, what)(*[int(how)] if how else [])
        print(f"did {what} {how}".rstrip())

    def work(self, words: list[str]) -> None:
        for word in words:
            what, _, how = word.partition(":")
            try:
                self.do(what, how)
            except Exception as error:
                if not self.goes_on:
                    raise
                print(f"{what} failed: {error}")


def main() -> None:
    fleet.init(role_maker.PaddleCloudRoleMaker())
    strategy = getattr(StrategyFactory, f"create_{STRATEGY}_strategy")(*[3] if STRATEGY == "geo" else [])
    fleet.distributed_optimizer(fluid.optimizer.SGD(0.5), strategy).minimize(build())
    if fleet.is_server():
        fluid.set_flags({"FLAGS_check_nan_inf": "JOB_CHECKS" in os.environ})
        fleet.init_server()
        fleet.run_server()
        return
    worker = Worker()
    worker.work(sys.argv[1:])
    if fleet._communicator is not None:
        fleet.stop_worker()


main()
