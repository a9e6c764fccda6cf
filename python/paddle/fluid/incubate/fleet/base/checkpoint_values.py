"""What a worker alone holds, in a checkpoint of its job: values that no server has, and the state of random numbers."""

from __future__ import annotations

import contextlib
import functools
import os
import random
import zlib
from typing import Any

import numpy as np

from paddle.fluid import io, io_distributed
from paddle.fluid.data_feeder import convert_dtype
from paddle.fluid.framework import Program
from paddle.fluid.vartype import VarType


def own(program: Program) -> list:
    """The variables that this worker alone holds, by their names."""
    chosen = io._chosen(program, None, io.is_persistable)
    return sorted((var for var in io_distributed.of_trainer_alone(program, chosen) if var.type == VarType.LOD_TENSOR),
                  key=lambda var: var.name)


def save(executor: Any, folder: str, program: Program, scope: Any) -> list[dict]:
    """Statistics, metrics, averages; with geo states of optimizers. A file each; returns how to read them back."""
    saving, found = Program(), []
    for number, var in enumerate(each for each in own(program) if _has_value(scope, each.name)):
        here = saving.global_block().create_var(name=var.name, shape=var.shape, dtype=var.dtype, persistable=True)
        path = os.path.join(folder, str(number))
        saving.global_block().append_op(type="save", inputs={"X": [here]}, attrs={"file_path": path})
        found.append({"name": var.name, "shape": list(var.shape), "dtype": convert_dtype(var.dtype)})
    if found:
        executor.run(saving, scope=scope)
    return found


def _has_value(scope: Any, name: str) -> bool:
    holder = scope.find_var(name)
    return holder is not None and holder.get_tensor()._is_initialized()


def load(executor: Any, folder: str, values: list[dict], scope: Any, but: set[str]) -> None:
    """Brings back what save() wrote, `but` these; `values` is what it returned."""
    loading = Program()
    for number, each in enumerate(values):
        if each["name"] in but:
            continue
        out = loading.global_block().create_var(name=each["name"], shape=each["shape"], dtype=each["dtype"], persistable=True)
        path = os.path.join(folder, str(number))
        loading.global_block().append_op(type="load", outputs={"Out": [out]}, attrs={"file_path": path})
    if values:
        executor.run(loading, scope=scope)


def mark(item: Any) -> int:
    """A number by which a batch is known again: of its numbers and texts. What else is in it counts by its type alone."""
    found = zlib.crc32(type(item).__name__.encode())
    if isinstance(item, (list, tuple)):
        return functools.reduce(lambda known, each: zlib.crc32(b"%d" % mark(each), known), item, found)
    if isinstance(item, dict):
        return functools.reduce(lambda known, key: zlib.crc32(b"%d %d" % (mark(key), mark(item[key])), known), item, found)
    if isinstance(item, (bool, int, float, str, bytes)):
        return zlib.crc32(repr(item).encode(), found)
    try:
        array = np.ascontiguousarray(item)
    except Exception:
        return found
    return found if array.dtype.hasobject else zlib.crc32(array.view("uint8").ravel().data, found)


def random_state() -> dict:
    """Of Python and numpy, which scripts shuffle with; in plain values."""
    name, keys, at, has_gauss, gauss = np.random.get_state()
    version, state, rest = random.getstate()
    return {"python": [version, list(state), rest], "numpy": [name, keys.tolist(), int(at), int(has_gauss), float(gauss)]}


def set_random_state(found: dict) -> None:
    """Sets what random_state() has returned."""
    version, state, rest = found["python"]
    random.setstate((version, tuple(state), rest))
    name, keys, at, has_gauss, gauss = found["numpy"]
    with contextlib.suppress(ValueError):  # this process has another generator of numpy's
        np.random.set_state((name, np.array(keys, "uint32"), at, has_gauss, gauss))
