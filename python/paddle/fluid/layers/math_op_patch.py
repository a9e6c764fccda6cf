"""Python's operators on Variables.

With a number on the other side, + - * / become one `scale` op; the other operators, and all of them
where the number is on the left of / or **, turn the number into a constant first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddle.fluid import unique_name
from paddle.fluid.framework import Block, Variable
from paddle.fluid.layers.build import VarType

if TYPE_CHECKING:
    from paddle.fluid.hints import DTypeLike

__all__ = ["monkey_patch_variable"]

INTEGERS = (VarType.UINT8, VarType.INT8, VarType.INT16, VarType.INT32, VarType.INT64)

compare_ops = ["__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"]

# Method, op, whether the Variable is the right operand, and (scale, bias) when the other side is a number.
OPERATORS = (
    ("__add__", "elementwise_add", False, lambda number: (1.0, number)),
    ("__radd__", "elementwise_add", False, lambda number: (1.0, number)),
    ("__sub__", "elementwise_sub", False, lambda number: (1.0, -number)),
    ("__rsub__", "elementwise_sub", True, lambda number: (-1.0, number)),
    ("__mul__", "elementwise_mul", False, lambda number: (number, 0.0)),
    ("__rmul__", "elementwise_mul", False, lambda number: (number, 0.0)),
    ("__truediv__", "elementwise_div", False, lambda number: (1.0 / number, 0.0)),
    ("__div__", "elementwise_div", False, lambda number: (1.0 / number, 0.0)),
    ("__rtruediv__", "elementwise_div", True, None),
    ("__rdiv__", "elementwise_div", True, None),
    ("__pow__", "elementwise_pow", False, None),
    ("__rpow__", "elementwise_pow", True, None),
    ("__floordiv__", "elementwise_floordiv", False, None),
    ("__mod__", "elementwise_mod", False, None),
    ("__eq__", "equal", False, None),
    ("__ne__", "not_equal", False, None),
    ("__lt__", "less_than", False, None),
    ("__le__", "less_equal", False, None),
    ("__gt__", "greater_than", False, None),
    ("__ge__", "greater_equal", False, None),
)


def _block_of(var: Variable) -> Block:
    return var.block.program.current_block()


def _temporary(block: Block, dtype) -> Variable:
    return block.create_var(name=unique_name.generate("tmp"), dtype=dtype)


def _scaled(var: Variable, scale: float, bias: float) -> Variable:
    block = _block_of(var)
    out = _temporary(block, var.dtype)
    block.append_op(
        type="scale", inputs={"X": [var]}, outputs={"Out": [out]}, attrs={"scale": scale, "bias": bias}
    )
    return out


def _astype(self: Variable, dtype: DTypeLike) -> Variable:
    """The variable as another dtype.

    Args:
        dtype: the new element type, e.g. 'float32'.

    Returns:
        a new Variable.
    """
    block = _block_of(self)
    out = _temporary(block, dtype)
    block.append_op(
        type="cast",
        inputs={"X": [self]},
        outputs={"Out": [out]},
        attrs={"in_dtype": self.dtype, "out_dtype": out.dtype},
    )
    return out


def _constant(block: Block, value: float, dtype, shape: list[int]) -> Variable:
    out = _temporary(block, dtype)
    block.append_op(
        type="fill_constant",
        outputs={"Out": [out]},
        attrs={"dtype": out.dtype, "shape": shape, "value": value, "force_cpu": False},
    )
    out.stop_gradient = True
    return out


def _constant_like(var: Variable, value: float) -> Variable:
    """A constant in the shape of a variable; the first size that is not known is read at run time."""
    unknown = [i for i, size in enumerate(var.shape) if size < 0]
    if not unknown:
        return _constant(_block_of(var), value, var.dtype, list(var.shape))
    block = _block_of(var)
    out = _temporary(block, var.dtype)
    shape = [1 if i in unknown[1:] else size for i, size in enumerate(var.shape)]
    block.append_op(
        type="fill_constant_batch_size_like",
        outputs={"Out": [out]},
        inputs={"Input": [var]},
        attrs={
            "shape": shape,
            "value": value,
            "dtype": out.dtype,
            "input_dim_idx": unknown[0],
            "output_dim_idx": unknown[0],
        },
    )
    out.stop_gradient = True
    return out


def _as_operand(var: Variable, other, method: str, reverse: bool) -> Variable:
    """The other side as a Variable of the dtype of `var`."""
    if not isinstance(other, Variable):
        try:
            value = float(other)
        except (TypeError, ValueError):
            raise TypeError(
                f"Variable.{method}: the other side must be a Variable or a number, "
                f"but {type(other).__name__} was given."
            ) from None
        other = _constant_like(var, value) if reverse else _constant(_block_of(var), value, var.dtype, [1])
    return other if other.dtype == var.dtype else _astype(other, var.dtype)


def _make_operator(method: str, op_type: str, reverse: bool, by_scale):
    def operator(self: Variable, other) -> Variable:
        is_integer = self.dtype in INTEGERS
        if (
            by_scale is not None
            and isinstance(other, (int, float))
            and not (op_type == "elementwise_div" and is_integer)
        ):
            if is_integer and other != int(other):
                raise ValueError(
                    f"Variable.{method}: {self.name} holds integers, so {other} would lose its fraction. "
                    "Cast the variable to float32 first."
                )
            return _scaled(self, *by_scale(float(other)))
        dtype = self.dtype
        other = _as_operand(self, other, method, reverse)
        left, right = (other, self) if reverse else (self, other)
        block = _block_of(left)
        out = _temporary(block, "bool" if method in compare_ops else dtype)
        axis = 0 if len(right.shape) and right.shape[0] == -1 else -1
        block.append_op(
            type=op_type, inputs={"X": [left], "Y": [right]}, outputs={"Out": out}, attrs={"axis": axis}
        )
        return out

    operator.__name__ = operator.__qualname__ = method
    operator.__doc__ = f"The op {op_type} with another Variable or a number."
    return operator


def _negative(self: Variable) -> Variable:
    """-x."""
    return _scaled(self, -1.0, 0.0)


def monkey_patch_variable() -> None:
    """Give class Variable its operators."""
    for method, op_type, reverse, by_scale in OPERATORS:
        setattr(Variable, method, _make_operator(method, op_type, reverse, by_scale))
    Variable.__neg__ = _negative
    Variable.astype = _astype
