"""Ops that get what does not fit: attributes, shapes, types, sequences and ids at random, on the cases of op_cases/*.py.

Whatever comes, an op gives numbers or an error. Crashes are seen anywhere, memory that is read or written beyond its end where the
sanitized extension runs this (tools/run_tests.py). PADDLE_HOSTILE_SECONDS: for how long (4; in the long tests 300); past 30 from
another case each time. The cases run in a process of their own, `python test_op_hostile.py FIRST SECONDS`, which names each before
it runs.
"""

from __future__ import annotations

import os
import random
import resource
import subprocess
import sys
import time

import numpy as np
import test_ops

SECONDS = float(os.environ.get("PADDLE_HOSTILE_SECONDS", 300 if os.environ.get("PADDLE_SOAK") else 4))
WHOLE = [0, 1, -1, 2, 3, 7, 100, 2**31 - 1, -(2**31), 2**31, 2**32, 2**40, -(2**40), 2**62, -(2**63), 2**63 - 1]
REAL = [0.0, -1.0, 0.5, 1e-30, 1e30, -1e30, float("inf"), float("nan")]
WORDS = ["", "x", "SAME", "VALID", "max", "sum", "tanh", "NHWC"]
TYPES = ["float32", "float64", "int32", "int64", "bool", "uint8", "int8", "int16", "float16"]
MEMORY = 3 << 30  # bytes that a case may ask for: more is refused at once, not slowly


class Hostile:
    """One case, made worse by its own random numbers."""

    def __init__(self, number: int):
        self.rng = random.Random(number)
        _, case = self.rng.choice(test_ops.ALL)
        self.case = {**case, "inputs": dict(case["inputs"]), "attrs": dict(case.get("attrs") or {}), "outputs": self.names_of(case)}
        self.changes: list = []
        for _ in range(self.rng.choice([1, 1, 2, 3])):
            kind = self.rng.choice(["attrs", "inputs"]) if self.case["attrs"] else "inputs"
            if self.case[kind]:
                name = self.rng.choice(sorted(self.case[kind]))
                self.case[kind][name] = (self.attr if kind == "attrs" else self.value)(self.case[kind][name])
                self.changes.append((name, self.case[kind][name]))
        if self.rng.random() < 0.5:  # sizes that are found only when it runs
            self.case["declared"] = {
                name: [-1] * np.ndim(test_ops.split_lengths(each)[0])
                for slot, value in self.case["inputs"].items() for name, each in test_ops.entries(slot, value)
                if not isinstance(each, dict)
            }

    @staticmethod
    def names_of(case) -> dict:
        wanted = case.get("outputs") or {}
        return wanted(case["inputs"], case.get("attrs") or {}) if callable(wanted) else wanted

    def attr(self, value):
        if isinstance(value, bool):
            return not value
        if isinstance(value, int):
            return self.rng.choice([*WHOLE, value - 1, value + 1])
        if isinstance(value, float):
            return self.rng.choice(REAL)
        if isinstance(value, str):
            return self.rng.choice([*WORDS, value + "x"])
        if isinstance(value, (list, tuple)):
            value = list(value)
            how = self.rng.choice(["none", "twice", "less", "one", "one", "one"])
            if how == "one" and value:
                at = self.rng.randrange(len(value))
                worse = self.attr(value[at])
                # Windows of two thousand million points are right, and slow.
                return [*value[:at], 9 if isinstance(worse, int) and 2**20 < worse < 2**40 else worse, *value[at + 1:]]
            return {"none": [], "twice": value + value}.get(how, value[:-1])
        return value

    def shape(self, shape) -> list[int]:
        shape, how = list(shape), self.rng.choice(["empty", "empty", "size", "longer", "before", "less", "behind", "by one"])
        at = self.rng.randrange(len(shape)) if shape else 0
        if how == "longer" or not shape:
            return [*shape, self.rng.choice([1, 2])]
        if how == "before":
            return [1, *shape]
        if how in ("less", "behind"):
            return shape[:-1] if how == "less" else shape[1:]
        shape[at] = {"empty": 0, "size": self.rng.choice([1, 2, 3, 5, 17])}.get(how, shape[at] + self.rng.choice([-1, 1]))
        return [max(0, size) for size in shape]

    def resized(self, array):
        shape = self.shape(array.shape)
        return np.resize(array, shape) if array.size else np.zeros(shape, array.dtype)

    def value(self, value):
        if isinstance(value, dict):
            how = self.rng.choice(["height", "rows", "value", "type"])
            rows = [self.rng.choice([0, 1, -1, 2**40, 99, -(2**63)]) for _ in value["rows"]]
            held = np.asarray(value["value"])
            new = {"height": self.rng.choice([0, 1, 2, 2**31, 2**40]), "rows": rows, "value": self.resized(held)}
            return {**value, **({"value": held.astype(self.rng.choice(TYPES))} if how == "type" else {how: new[how]})}
        if isinstance(value, list):
            if not value or self.rng.random() < 0.2:
                return value[:-1]
            at = self.rng.randrange(len(value))
            each = value[at]
            named = isinstance(each, tuple) and isinstance(each[0], str)
            return [*value[:at], (each[0], self.value(each[1])) if named else self.value(each), *value[at + 1:]]
        array, lengths = test_ops.split_lengths(value)
        how = self.rng.choice(["shape", "shape", "number", "type", "lengths"])
        if how == "shape":
            array = self.resized(array)
        elif how == "type":
            with np.errstate(all="ignore"):
                array = array.astype(self.rng.choice(TYPES))
        elif how == "number" and array.size and array.dtype.kind in "iuf":
            array = array.copy()
            with np.errstate(all="ignore"):
                array.flat[self.rng.randrange(array.size)] = np.array(self.rng.choice(WHOLE if array.dtype.kind in "iu"
                                                                                      else REAL)).astype(array.dtype)
        elif how == "lengths":
            rows = array.shape[0] if array.ndim else 0
            lengths = self.rng.choice([[], [[rows]], [[1] * rows], [[0, 0, rows]], [*lengths, [1] * rows],
                                       [[rows + 1]], [[rows, 5]]])
        return (array, lengths) if lengths else array

    def run(self) -> None:
        for with_grad in (False, True) if self.case.get("grad") else (False,):
            try:
                built = test_ops.Built(self.case, self.rng.choice([np.float32, np.float64]), with_grad)
                built.run([name for name, _ in built.compared] + [f"{name}@GRAD" for name in built.grad_names])
            except Exception as error:
                assert not isinstance(error, SystemError), f"{self.case['op']} {self.changes}: {error}"
                assert "bug" not in str(error).lower(), f"{self.case['op']} {self.changes}: {error}"


def run_all(first: int, seconds: float) -> None:
    if "ASAN_OPTIONS" not in os.environ:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    end = time.monotonic() + seconds
    for number in range(first, first + 10**9):
        hostile = Hostile(number)
        print(f"@{number} {hostile.case['op']} {hostile.changes!r}".replace("\n", " ")[:2000], flush=True)
        hostile.run()
        if time.monotonic() >= end:
            return


def test_anything():
    first = random.SystemRandom().randrange(10**9) if SECONDS > 30 else 0
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    if "ASAN_OPTIONS" in env:
        env["ASAN_OPTIONS"] += f":max_allocation_size_mb={MEMORY >> 21}:allocator_may_return_null=1"
    done = subprocess.run([sys.executable, __file__, str(first), str(SECONDS)], env=env, text=True, errors="replace",
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS + 300)
    last = done.stdout.rpartition("\n@")[2] if "\n@" in done.stdout else done.stdout
    assert done.returncode == 0, f"status {done.returncode} in case @{last}"


if __name__ == "__main__":
    run_all(int(sys.argv[1]), float(sys.argv[2]))
