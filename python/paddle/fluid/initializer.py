"""How variables get their first values. An initializer adds one op to the startup program.

The op goes to the front of the block, so that a variable is ready before anything that uses it.
"""

import contextlib
import math
import warnings
from typing import Iterator

import numpy as np

from paddle.fluid import docs, framework, suggest, unique_name
from paddle.fluid.core import VarDesc
from paddle.fluid.data_feeder import check_variable_and_dtype
from paddle.fluid.docs import training
from paddle.fluid.shown import Shown

__all__ = [
    "Constant",
    "Uniform",
    "Normal",
    "TruncatedNormal",
    "Xavier",
    "Bilinear",
    "MSRA",
    "force_init_on_cpu",
    "init_on_cpu",
    "ConstantInitializer",
    "UniformInitializer",
    "NormalInitializer",
    "TruncatedNormalInitializer",
    "XavierInitializer",
    "BilinearInitializer",
    "MSRAInitializer",
    "NumpyArrayInitializer",
]

_FLOATS = ("float16", "float32", "float64")
_on_cpu = False


def force_init_on_cpu() -> bool:
    """Tells whether the code runs inside `init_on_cpu`."""
    return _on_cpu


@contextlib.contextmanager
def init_on_cpu() -> Iterator[None]:
    """Inside the body, constants are marked to be made in host memory."""
    global _on_cpu
    before = _on_cpu
    _on_cpu = True
    try:
        yield
    finally:
        _on_cpu = before


class Initializer(Shown):
    """What all initializers share. A call adds the op that fills `var` to `block` and returns it."""

    _seed = 0

    def __call__(self, var, block):
        raise TypeError(
            f"{type(self).__name__} has no rule to fill a variable. Use Constant, Uniform, Normal, ..."
        )

    def _compute_fans(self, var) -> tuple:
        """Returns (fan_in, fan_out): the sides of a matrix, or those of a convolution's filter."""
        shape = var.shape
        if not shape:
            return 1, 1
        if len(shape) == 1:
            return shape[0], shape[0]
        if len(shape) == 2:
            return shape[0], shape[1]
        receptive = math.prod(shape[2:])
        return shape[1] * receptive, shape[0] * receptive

    def _seed_in(self, block) -> int:
        """The initializer's seed. One that has none takes the Program's, and keeps it for other Programs."""
        self._seed = self._seed or block.program.random_seed
        return int(self._seed)

    def _emit(self, var, block, op_type: str, tag: str, attrs: dict, *, prepend: bool = True):
        """Adds the op. A float16 variable is made in float32 under a name with `tag` and then cast."""
        if not isinstance(var, framework.Variable):
            raise TypeError(
                f"{type(self).__name__}: the variable to fill is a {type(var).__name__}, not a Variable."
            )
        if not isinstance(block, framework.Block):
            raise TypeError(
                f"{type(self).__name__}: the place for the op is a {type(block).__name__}, not a Block."
            )
        half = var.dtype == VarDesc.VarType.FP16
        made = var
        if half:
            made = block.create_var(
                name=unique_name.generate(f"{tag}.{var.name}.tmp"),
                shape=var.shape,
                dtype=VarDesc.VarType.FP32,
                type=VarDesc.VarType.LOD_TENSOR,
                persistable=False,
            )
        add = block._prepend_op if prepend else block.append_op
        attrs = {"shape": list(var.shape), "dtype": int(made.dtype), **attrs}
        op = add(type=op_type, inputs={}, outputs={"Out": [made]}, attrs=attrs, stop_gradient=True)
        if half:
            block.append_op(
                type="cast",
                inputs={"X": [made]},
                outputs={"Out": [var]},
                attrs={"in_dtype": int(made.dtype), "out_dtype": int(var.dtype)},
            )
        var.op = op
        return op


def _check_given(who: str, **values) -> None:
    for name, value in values.items():
        if value is None:
            raise ValueError(f"{who}: {name} is None. Give it a number, or leave it out for the default.")


class ConstantInitializer(Initializer):
    """Fills with one value."""

    def __init__(self, value: float = 0.0, force_cpu: bool = False):
        _check_given("Constant", value=value)
        self._value = value
        self._force_cpu = force_cpu

    def __call__(self, var, block):
        attrs = {"value": float(self._value), "force_cpu": bool(self._force_cpu or _on_cpu)}
        return self._emit(var, block, "fill_constant", "constant_init", attrs)


class UniformInitializer(Initializer):
    """Fills from the uniform distribution on [low, high].

    With `diag_num` and `diag_step`, the elements at 0, diag_step + 1, 2 * (diag_step + 1), ... (diag_num of
    them) are set to `diag_val` afterwards.
    """

    def __init__(
        self,
        low: float = -1.0,
        high: float = 1.0,
        seed: int = 0,
        diag_num: int = 0,
        diag_step: int = 0,
        diag_val: float = 1.0,
    ):
        _check_given(
            "Uniform",
            low=low,
            high=high,
            seed=seed,
            diag_num=diag_num,
            diag_step=diag_step,
            diag_val=diag_val,
        )
        if high < low:
            raise ValueError(f"Uniform: high ({high}) is below low ({low}).")
        if (diag_num > 0) != (diag_step > 0):
            raise ValueError(
                f"Uniform: diag_num ({diag_num}) and diag_step ({diag_step}) must be set together."
            )
        self._low = low
        self._high = high
        self._seed = seed
        self._diag_num = diag_num
        self._diag_step = diag_step
        self._diag_val = diag_val

    def __call__(self, var, block):
        check_variable_and_dtype(var, "Out", _FLOATS, "uniform_random")
        attrs = {
            "min": float(self._low),
            "max": float(self._high),
            "seed": self._seed_in(block),
            "diag_num": int(self._diag_num),
            "diag_step": int(self._diag_step),
            "diag_val": float(self._diag_val),
        }
        return self._emit(var, block, "uniform_random", "uniform_random", attrs)


class NormalInitializer(Initializer):
    """Fills from the normal distribution with mean `loc` and standard deviation `scale`."""

    _op_type = "gaussian_random"

    _kept_as = {"loc": "_mean", "scale": "_std_dev"}

    def __init__(self, loc: float = 0.0, scale: float = 1.0, seed: int = 0):
        _check_given(type(self).__name__, loc=loc, scale=scale, seed=seed)
        self._mean = loc
        self._std_dev = scale
        self._seed = seed

    def __call__(self, var, block):
        check_variable_and_dtype(var, "Out", _FLOATS, self._op_type)
        attrs = {"mean": float(self._mean), "std": float(self._std_dev), "seed": self._seed_in(block)}
        return self._emit(var, block, self._op_type, self._op_type, attrs)


class TruncatedNormalInitializer(NormalInitializer):
    """Like Normal, with all values within two standard deviations of the mean."""

    _op_type = "truncated_gaussian_random"


class _FanInitializer(Initializer):
    """Zero-centred values whose spread follows from the number of inputs (and outputs) of a layer."""

    _tag = ""

    def __init__(self, uniform: bool, fan_in: float | None, seed: int):
        _check_given(type(self).__name__, uniform=uniform, seed=seed)
        self._uniform = uniform
        self._fan_in = fan_in
        self._seed = seed

    def _fan(self, var) -> float:
        raise TypeError(f"{type(self).__name__} does not say which fans it uses.")

    def __call__(self, var, block):
        check_variable_and_dtype(var, "Out", _FLOATS, self._tag)
        fan = float(self._fan(var))
        seed = self._seed_in(block)
        if self._uniform:
            limit = math.sqrt(6.0 / fan)
            attrs = {"min": -limit, "max": limit, "seed": seed}
            return self._emit(var, block, "uniform_random", self._tag, attrs)
        attrs = {"mean": 0.0, "std": math.sqrt(2.0 / fan), "seed": seed}
        return self._emit(var, block, "gaussian_random", self._tag, attrs)


class XavierInitializer(_FanInitializer):
    """Keeps the scale of gradients alike over layers: limit sqrt(6 / (fan_in + fan_out)) when uniform,
    else standard deviation sqrt(2 / (fan_in + fan_out)). Fans are read from the shape when not given."""

    _tag = "xavier_init"

    def __init__(
        self, uniform: bool = True, fan_in: float | None = None, fan_out: float | None = None, seed: int = 0
    ):
        super().__init__(uniform, fan_in, seed)
        self._fan_out = fan_out

    def _fan(self, var) -> float:
        fan_in, fan_out = self._compute_fans(var)
        return (fan_in if self._fan_in is None else self._fan_in) + (
            fan_out if self._fan_out is None else self._fan_out
        )


class MSRAInitializer(_FanInitializer):
    """For rectifiers: limit sqrt(6 / fan_in) when uniform, else standard deviation sqrt(2 / fan_in)."""

    _tag = "masra_init"

    def __init__(self, uniform: bool = True, fan_in: float | None = None, seed: int = 0):
        super().__init__(uniform, fan_in, seed)

    def _fan(self, var) -> float:
        return self._compute_fans(var)[0] if self._fan_in is None else self._fan_in


class BilinearInitializer(Initializer):
    """The filter of a transposed convolution that upsamples by linear interpolation in both directions."""

    def __call__(self, var, block):
        if not isinstance(var, framework.Variable):
            raise ValueError(f"Bilinear: the variable to fill is a {type(var).__name__}, not a Variable.")
        shape = var.shape
        if len(shape) != 4:
            raise ValueError(f"Bilinear fills a filter with 4 dimensions; {var.name} has {len(shape)}.")
        if shape[2] != shape[3]:
            raise ValueError(f"Bilinear fills square filters; {var.name} has {shape[2]} x {shape[3]}.")
        if math.prod(shape) > 1024 * 1024:
            raise ValueError(
                f"Bilinear: {var.name} has {math.prod(shape)} elements; at most 1048576 fit into the op."
            )
        if var.dtype not in (VarDesc.VarType.FP32, VarDesc.VarType.FP16):
            raise ValueError(f"Bilinear fills float32 filters; {var.name} is {var.dtype}.")
        size = shape[3]
        half = math.ceil(size / 2.0)
        centre = (2 * half - 1 - half % 2) / (2.0 * half)
        slope = 1 - np.abs(np.arange(size) / half - centre)
        weight = np.broadcast_to(np.outer(slope, slope), shape).astype("float32")
        attrs = {"fp32_values": weight.ravel().tolist()}
        return self._emit(var, block, "assign_value", "bilinear_init", attrs, prepend=False)


class NumpyArrayInitializer(Initializer):
    """Fills with the elements of a numpy array, which become part of the startup program."""

    def __init__(self, value: np.ndarray):
        if not isinstance(value, np.ndarray):
            raise TypeError(f"NumpyArrayInitializer takes a numpy array, not a {type(value).__name__}.")
        self._value = value

    def __call__(self, var, block):
        kinds = VarDesc.VarType
        slots = {
            kinds.FP16: ("fp32_values", "float32"),
            kinds.FP32: ("fp32_values", "float32"),
            kinds.INT32: ("int32_values", "int32"),
            kinds.INT64: ("int64_values", "int64"),
            kinds.BOOL: ("bool_values", "bool"),
        }
        if var.dtype not in slots:
            raise ValueError(
                f"NumpyArrayInitializer: {var.name} is {var.dtype}; a startup program holds "
                "float32, int32, int64 and "
                "bool values. Declare the variable as one of these, or set its tensor in the scope."
            )
        if self._value.size > 1024 * 1024 * 1024:
            raise ValueError(
                f"NumpyArrayInitializer: {self._value.size} elements are too many for a program. "
                "Save the array to a file and load it with fluid.io.load_vars."
            )
        if len(var.shape) == self._value.ndim and tuple(var.shape) != self._value.shape:
            warnings.warn(
                f"NumpyArrayInitializer: the array has shape {list(self._value.shape)}, but {var.name} was made with "
                f"{list(var.shape)}. It will have the shape of the array.",
                stacklevel=2,
            )
        slot, dtype = slots[var.dtype]
        attrs = {"shape": list(self._value.shape), slot: self._value.astype(dtype).ravel().tolist()}
        return self._emit(var, block, "assign_value", "numpy_array_init", attrs)


Constant = ConstantInitializer
Uniform = UniformInitializer
Normal = NormalInitializer
TruncatedNormal = TruncatedNormalInitializer
Xavier = XavierInitializer
MSRA = MSRAInitializer
Bilinear = BilinearInitializer


docs.complete(__all__, globals(), training.INITIALIZERS)
suggest.make_helpful(__all__, globals())
