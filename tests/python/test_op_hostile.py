"""Ops that get what does not fit: attributes, shapes, types, sequences and ids at random, on the cases of op_cases/*.py.

Whatever comes, an op gives numbers or an error. Crashes are seen anywhere, memory that is read or written beyond its end where the
sanitized extension runs this (tools/run_tests.py). The short test runs the same PADDLE_HOSTILE_CASES cases (2000) each time, on any
machine; the long one runs from another case each time, for PADDLE_HOSTILE_SECONDS (300). The cases run in a process of their own,
`python test_op_hostile.py FIRST COUNT SECONDS`, which names each before it runs.

Gradient ops count on what their forward ops checked, but may come alone, from a file, and the gradient of a target may be fed: each
gradient op that the cases lead to gets each of its inputs in shapes that do not fit, `python test_op_hostile.py gradients`.
"""

from __future__ import annotations

import copy
import os
import random
import resource
import subprocess
import sys
import time

import numpy as np
import test_ops

CASES = int(os.environ.get("PADDLE_HOSTILE_CASES", 2000))
SECONDS = float(os.environ.get("PADDLE_HOSTILE_SECONDS", 300 if os.environ.get("PADDLE_SOAK") else 0))  # 0: CASES says how many
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


def run_all(first: int, count: int, seconds: float) -> None:
    end = time.monotonic() + seconds
    for number in range(first, first + count):
        hostile = Hostile(number)
        print(f"@{number} {hostile.case['op']} {hostile.changes!r}".replace("\n", " ")[:2000], flush=True)
        hostile.run()
        if time.monotonic() >= end:
            return


# Gradient ops that have nothing to compare a gradient with: what they make follows from its shape, or it may be any that leaves its
# part of X. Those of the second row look at the number of elements, or rows, only.
ALONE = {
    "stack_grad", "label_smooth_grad", "add_position_encoding_grad", "pad_grad", "affine_grid_grad", "ceil_grad", "floor_grad",
    "round_grad", "scatter_grad", "scatter_nd_add_grad", "pad_constant_like_grad", "crop_grad", "crop_tensor_grad",
    "pixel_shuffle_grad", "shuffle_channel_grad", "temporal_shift_grad", "multiplex_grad", "sequence_scatter_grad",
}
COUNTED = {"reshape_grad", "reshape2_grad", "unsqueeze_grad", "unsqueeze2_grad", "sequence_unpad_grad", "sequence_slice_grad"}


def worse_shapes(shape) -> list[list[int]]:
    """One row fewer, one row more, another width, another rank."""
    shape = list(shape)
    if not shape:
        return [[1], [2]]
    rows = [[shape[0] - 1, *shape[1:]]] if shape[0] else []
    return [*rows, [shape[0] + 1, *shape[1:]], [*shape[:-1], shape[-1] + 3], [*shape, 2], [2, *shape], shape[1:], shape[:-1]]


class Gradient:
    """A gradient op of a case, alone in a Program, with what it got there as feeds."""

    def __init__(self, built, index: int):
        self.program = built.program.clone()
        block = self.program.global_block()
        op = block.ops[index]
        self.type, self.slots = op.type, {slot: op.input(slot) for slot in op.input_names}
        self.fetches = [name for name in op.output_arg_names if name != "@EMPTY@"]
        names = sorted({name for slot in self.slots.values() for name in slot} - {"@EMPTY@"})
        self.feed = dict(zip(names, built.run(names)))
        for at in reversed(range(len(block.ops))):
            if at != index:
                block._remove_op(at)
        self.exe = built.exe
        self.attrs = {name: block.ops[0].attr(name) for name in block.ops[0].attr_names if not name.startswith("op_")}

    def run_with_attr(self, name: str, value) -> None:
        changed = copy.copy(self)
        changed.program = self.program.clone()
        changed.program.global_block().ops[0]._set_attr(name, value)
        changed.run({})

    def run(self, changed: dict) -> None:
        with test_ops.fluid.scope_guard(test_ops.fluid.Scope()):
            self.exe.run(self.program, feed={**self.feed, **changed}, fetch_list=self.fetches, return_numpy=False)

    def worse(self):
        """(slot, name, shape, feed) for each input in each shape that does not fit, and with its sequences where they still do."""
        for slot, names in self.slots.items():
            for name in names:
                value = self.feed.get(name)
                if not isinstance(value, test_ops.fluid.core.LoDTensor):
                    continue
                array, lengths = np.array(value), value.recursive_sequence_lengths()
                for shape in worse_shapes(array.shape):
                    resized = np.resize(array, shape) if array.size else np.zeros(shape, array.dtype)
                    more = shape[0] - array.shape[0] if shape and array.shape else 0
                    fits = lengths and shape and lengths[-1] and lengths[-1][-1] + more >= 0
                    last = [[*lengths[-1][:-1], lengths[-1][-1] + more]] if fits else []
                    yield slot, name, shape, test_ops.Built.tensor(resized, [*lengths[:-1], *last] if fits else [])


def gradients():
    """The gradient ops of all cases."""
    for name, case in test_ops.ALL:
        if "raises" in case or not (case.get("grad") or case["op"].endswith("_grad")):
            continue
        built = test_ops.Built(case, np.float32, bool(case.get("grad")))
        for index, op in enumerate(built.program.global_block().ops):
            of_loss = op.type in ("elementwise_mul_grad", "reduce_sum_grad") and op.type != f"{case['op']}_grad"
            if "_grad" in op.type and not of_loss:  # the runner adds the loss
                yield name, Gradient(built, index)


def gives_numbers(fn, *arguments) -> bool:
    """If not, it said why not."""
    try:
        fn(*arguments)
    except Exception as error:
        assert not isinstance(error, SystemError) and "bug" not in str(error).lower(), error
        return False
    return True


def run_gradients() -> None:
    accepted, rng = [], Hostile(0)
    for name, gradient in gradients():
        print(f"@{name} {gradient.type} as it is", flush=True)
        gradient.run({})
        for attr in [*gradient.attrs, *gradient.attrs]:
            value = rng.attr(gradient.attrs[attr])
            print(f"@{name} {gradient.type} {attr}={value}", flush=True)
            gives_numbers(gradient.run_with_attr, attr, value)
        for slot, var, shape, value in gradient.worse():
            print(f"@{name} {gradient.type} {slot}={var} {shape}", flush=True)
            if gives_numbers(gradient.run, {var: value}):
                size = np.array(gradient.feed[var]).size
                as_many = int(np.prod(shape)) == size and (size == 1 or gradient.type in COUNTED)
                sized = "_interp_" in gradient.type and any(gradient.slots.get(each) for each in ("OutSize", "SizeTensor", "Scale"))
                if slot.endswith("@GRAD") and gradient.type not in ALONE and not as_many and not sized:
                    accepted.append(f"{name} {gradient.type} {slot} {shape}")
    assert not accepted, f"gradients of another shape than the output were taken: {accepted}"


def run_alone(arguments: list[str], seconds: float) -> None:
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    if "ASAN_OPTIONS" in env:
        env["ASAN_OPTIONS"] += f":max_allocation_size_mb={MEMORY >> 21}:allocator_may_return_null=1"
    done = subprocess.run([sys.executable, __file__, *arguments], env=env, text=True, errors="replace",
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=seconds + 300)
    last = done.stdout.rpartition("\n@")[2] if "\n@" in done.stdout else done.stdout
    assert done.returncode == 0, f"status {done.returncode} in case @{last}"


def test_anything():
    if SECONDS:
        run_alone([str(random.SystemRandom().randrange(10**9)), str(10**9), str(SECONDS)], SECONDS)
    else:
        run_alone(["0", str(CASES), "inf"], 300)


def test_gradient_ops():
    run_alone(["gradients"], 300)


if __name__ == "__main__":
    if "ASAN_OPTIONS" not in os.environ:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    if sys.argv[1] == "gradients":
        run_gradients()
    else:
        run_all(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
