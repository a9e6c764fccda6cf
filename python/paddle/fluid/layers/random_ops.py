"""Layers that draw random tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from paddle.fluid import unique_name
from paddle.fluid.data_feeder import check_dtype, check_type, check_variable_and_dtype
from paddle.fluid.framework import Variable
from paddle.fluid.layer_helper import LayerHelper
from paddle.fluid.layers.build import (
    VarType,
    add_op,
    as_tensors,
    dtype_name,
    emit,
    frozen,
    has_variable,
    need_variable,
    older,
    to_vartype,
)
from paddle.fluid.layers.utils import shape_inputs

if TYPE_CHECKING:
    from paddle.fluid.hints import DTypeLike, ShapeLike

_FLOATS, _INTS = ("float32", "float64"), ("int32", "int64")

__all__ = [
    "uniform_random",
    "gaussian_random",
    "uniform_random_batch_size_like",
    "gaussian_random_batch_size_like",
    "sampling_id",
    "random_crop",
    "randint",
    "randn",
    "randperm",
    "dropout",
]


def _random_shape(helper: LayerHelper, shape, ins: dict, attrs: dict, layer: str) -> None:
    """A shape for uniform_random and randint, which take its tensors as int64."""
    if isinstance(shape, Variable):
        ins["ShapeTensor"] = frozen(shape)
        return
    if not isinstance(shape, (list, tuple)) or not shape:
        raise TypeError(
            f"{layer}: shape must be a Variable or a non-empty list or tuple, but {shape!r} was given."
        )
    for size in shape:
        if not isinstance(size, Variable) and size <= 0:
            raise ValueError(f"{layer}: each size in shape must be above 0, but {list(shape)} was given.")
    if layer == "uniform_random" or not has_variable(shape):
        attrs["shape"] = [-1 if isinstance(size, Variable) else size for size in shape]
    if has_variable(shape):
        ins["ShapeTensorList"] = as_tensors(helper, shape, "int64")


def uniform_random(shape: ShapeLike, dtype: DTypeLike = "float32", min: float = -1.0, max: float = 1.0, seed: int = 0) -> Variable:
    """Values drawn evenly from min to max. With seed 0 each run draws others."""
    dtype = to_vartype("float32" if dtype is None else dtype)
    check_dtype(dtype, "dtype", _FLOATS, "uniform_random")
    helper = LayerHelper("uniform_random")
    ins = {}
    attrs = {
        "seed": seed or 0,
        "min": -1.0 if min is None else min,
        "max": 1.0 if max is None else max,
        "dtype": None if dtype == VarType.FP32 else dtype,
    }
    _random_shape(helper, shape, ins, attrs, "uniform_random")
    return add_op(helper, "uniform_random", ins, {"Out": dtype}, attrs)[0]


def gaussian_random(shape: ShapeLike, mean: float = 0.0, std: float = 1.0, seed: int = 0, dtype: DTypeLike = "float32") -> Variable:
    """Values drawn from a normal distribution. With seed 0 each run draws others."""
    check_dtype(dtype, "dtype", _FLOATS, "gaussian_random")
    helper = LayerHelper("gaussian_random")
    out = helper.create_variable_for_type_inference(dtype)
    ins, attrs = {}, {"mean": mean, "std": std, "seed": seed, "dtype": to_vartype(dtype), "use_mkldnn": False}
    shape_inputs(helper, shape, ins, attrs)
    return add_op(helper, "gaussian_random", ins, {"Out": out}, attrs)[0]


def uniform_random_batch_size_like(
    input: Variable,
    shape: ShapeLike,
    dtype: DTypeLike = "float32",
    input_dim_idx: int = 0,
    output_dim_idx: int = 0,
    min: float = -1.0,
    max: float = 1.0,
    seed: int = 0,
) -> Variable:
    """uniform_random whose batch size is that of the input."""
    check_variable_and_dtype(input, "input", _FLOATS, "uniform_random_batch_size_like")
    check_type(shape, "shape", (list, tuple), "uniform_random_batch_size_like")
    check_dtype(dtype, "dtype", _FLOATS, "uniform_random_batch_size_like")
    return emit(
        "uniform_random_batch_size_like",
        {"Input": input},
        {"Out": dtype},
        {
            "shape": shape,
            "input_dim_idx": input_dim_idx,
            "output_dim_idx": output_dim_idx,
            "min": min,
            "max": max,
            "seed": seed,
            "dtype": to_vartype(dtype),
        },
    )


def gaussian_random_batch_size_like(
    input: Variable,
    shape: ShapeLike,
    input_dim_idx: int = 0,
    output_dim_idx: int = 0,
    mean: float = 0.0,
    std: float = 1.0,
    seed: int = 0,
    dtype: DTypeLike = "float32",
) -> Variable:
    """gaussian_random whose batch size is that of the input."""
    need_variable(input, "input", "gaussian_random_batch_size_like")
    check_type(shape, "shape", (list, tuple), "gaussian_random_batch_size_like")
    check_dtype(dtype, "dtype", _FLOATS, "gaussian_random_batch_size_like")
    return emit(
        "gaussian_random_batch_size_like",
        {"Input": input},
        {"Out": dtype},
        {
            "shape": shape,
            "input_dim_idx": input_dim_idx,
            "output_dim_idx": output_dim_idx,
            "mean": mean,
            "std": std,
            "seed": seed,
            "dtype": to_vartype(dtype),
        },
    )


def sampling_id(x: Variable, min: float = 0.0, max: float = 1.0, seed: int = 0, dtype: DTypeLike = "float32") -> Variable:
    """One column number per row, drawn with the probabilities in that row."""
    return emit("sampling_id", {"X": x}, {"Out": dtype}, {"min": min, "max": max, "seed": seed})


@older(input="x")
def random_crop(x: Variable, shape: list[int], seed: int | Variable | None = None) -> Variable:
    """A piece of this shape cut from a random place of each sample; the seed advances at each run."""
    need_variable(x, "x", "random_crop")
    check_type(shape, "shape", (list, tuple), "random_crop")
    helper = LayerHelper("random_crop")
    out = helper.create_variable_for_type_inference(x.dtype)
    attrs = {"shape": shape}
    if seed is None:
        seed = int(np.random.randint(-65536, 65536))
    if isinstance(seed, int):
        attrs["startup_seed"] = seed
        seed = helper.create_variable(
            name=unique_name.generate("random_crop_seed"), dtype="int64", persistable=True
        )
    add_op(
        helper,
        "random_crop",
        {"X": x, "Seed": need_variable(seed, "seed", "random_crop")},
        {"Out": out, "SeedOut": seed},
        attrs,
    )
    return out


def randint(
    low: int,
    high: int | None = None,
    shape: ShapeLike | None = None,
    out: Variable | None = None,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    stop_gradient: bool = False,
    seed: int = 0,
    name: str | None = None,
) -> Variable:
    """Whole numbers from low up to but without high; one argument means from 0 up to it."""
    dtype = "int64" if dtype is None else dtype
    check_dtype(dtype, "dtype", _INTS, "randint")
    helper = LayerHelper("randint", name=name)
    ins, attrs = {}, {}
    _random_shape(helper, [1] if shape is None else shape, ins, attrs, "randint")
    low, high = (0, low) if high is None else (low, high)
    if low >= high:
        raise ValueError(f"randint: low must be below high, but {low} and {high} were given.")
    if out is None:
        out = (
            helper.create_variable_for_type_inference(dtype=dtype)
            if name is None
            else helper.create_variable(name=name, dtype=dtype, persistable=False)
        )
    out.stop_gradient = stop_gradient
    attrs.update(low=low, high=high, seed=seed, dtype=out.dtype)
    return add_op(helper, "randint", ins, {"Out": out}, attrs)[0]


def randn(
    shape: ShapeLike,
    out: Variable | None = None,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    stop_gradient: bool = True,
    name: str | None = None,
) -> Variable:
    """Values drawn from the standard normal distribution."""
    dtype = "float32" if dtype is None else dtype
    check_type(shape, "shape", (list, tuple), "randn")
    check_dtype(dtype, "dtype", _FLOATS, "randn")
    helper = LayerHelper("randn", name=name)
    if out is None:
        out = helper.create_variable_for_type_inference(dtype=dtype)
    out.stop_gradient = stop_gradient
    return add_op(
        helper,
        "gaussian_random",
        {},
        {"Out": out},
        {
            "shape": list(shape),
            "mean": 0.0,
            "std": 1.0,
            "seed": int(np.random.randint(0, 100)),
            "dtype": to_vartype(dtype),
            "use_mkldnn": False,
        },
    )[0]


def randperm(
    n: int, out: Variable | None = None, dtype: DTypeLike = "int64", device: str | None = None,
    stop_gradient: bool = True, seed: int = 0
) -> Variable:
    """The numbers from 0 to n - 1 in random order."""
    if n < 1:
        raise ValueError(f"randperm: n must be 1 or more, but {n} was given.")
    check_dtype(dtype, "dtype", _INTS, "randperm")
    helper = LayerHelper("randperm")
    if out is None:
        out = helper.create_variable_for_type_inference(dtype=dtype_name(dtype))
    check_variable_and_dtype(out, "out", [dtype_name(dtype)], "randperm")
    if stop_gradient:
        frozen(out)
    return add_op(helper, "randperm", {}, {"Out": [out]}, {"n": n, "dtype": out.dtype, "seed": seed})[0][0]


def dropout(
    x: Variable,
    dropout_prob: float,
    is_test: bool = False,
    seed: int | None = None,
    name: str | None = None,
    dropout_implementation: str = "downgrade_in_infer",
) -> Variable:
    """x with a random share of its elements set to 0 in training.

    'downgrade_in_infer' scales by 1 - dropout_prob in tests; 'upscale_in_train' scales up in training
    and leaves tests alone. Without a seed the program's random_seed is used, where one is set.
    """
    check_variable_and_dtype(x, "x", ("float16", *_FLOATS), "dropout")
    helper = LayerHelper("dropout", name=name)
    if not seed and helper.main_program.random_seed != 0:
        seed = helper.main_program.random_seed
    out = helper.create_variable_for_type_inference(dtype=x.dtype)
    mask = helper.create_variable_for_type_inference(dtype=VarType.UINT8, stop_gradient=True)
    attrs = {
        "dropout_prob": dropout_prob,
        "is_test": is_test,
        "fix_seed": seed is not None,
        "seed": seed or 0,
        "dropout_implementation": dropout_implementation,
    }
    return add_op(helper, "dropout", {"X": [x]}, {"Out": out, "Mask": mask}, attrs)[0]
