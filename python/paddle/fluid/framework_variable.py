"""Variable and Parameter: handles of variables of a Program.

Name, shape, types and flags are read from the engine. What only Python knows (an initializer, a regularizer,
a clip) is an ordinary attribute of the object; there is one object for each variable, held by its Program,
and a clone of the Program takes these attributes along.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Sequence

from paddle import _core
from paddle.fluid import unique_name
from paddle.fluid.vartype import VarType, convert_np_dtype_to_dtype_

if TYPE_CHECKING:
    from paddle.fluid.hints import Block, DTypeLike


def _dims(shape) -> list[int]:
    return [-1 if side is None else int(side) for side in shape]


class Variable(_core.Var):
    """A variable of a Program. Layers make them; `Block.create_var` makes one by hand.

    Args:
        block: the Block it belongs to.
        name: None: an automatic one.
        type: the kind: a VarType.

    >>> x = fluid.layers.data(name="x", shape=[13], dtype="float32")
    >>> x.name, x.shape, x.dtype
    ('x', (-1, 13), VarType.FP32)
    """

    error_clip = None
    belong_to_optimizer = False
    initializer = None
    _op_id = None
    _info = None

    def __new__(cls, block, *args, name=None, type=VarType.LOD_TENSOR, **kwargs):
        if args and cls is Variable:  # Variable(block, type, name, ...)
            type = args[0]
            name = args[1] if len(args) > 1 else name
        if name is None:
            name = unique_name.generate("_generated_var")
        if isinstance(name, bytes):
            name = name.decode()
        program = block.program
        number, existed = program._make_var(block.idx, name, type)
        found = program._parts.get(number) if existed else None
        if found is None:
            found = _core.Var.__new__(cls, program, number)
            found._fresh = not existed
            program._parts[number] = found
        elif not isinstance(found, cls):
            found.__class__ = cls
        return found

    def __init__(
        self,
        block: Block,
        type: VarType = VarType.LOD_TENSOR,
        name: str | None = None,
        shape: Sequence | None = None,
        dtype: DTypeLike | None = None,
        lod_level: int | None = None,
        capacity: int | None = None,
        persistable: bool | None = None,
        error_clip: Any = None,
        stop_gradient: bool | None = None,
        is_data: bool = False,
        need_check_feed: bool = False,
        belong_to_optimizer: bool = False,
        **kwargs,
    ):
        state = self.__dict__
        if dtype is not None:
            dtype = convert_np_dtype_to_dtype_(dtype)
        if state.pop("_fresh", False):
            self._declare(shape, dtype, lod_level, persistable)
        else:
            self._agree(type, shape, dtype, lod_level, persistable)
        if stop_gradient is not None:
            self.stop_gradient = stop_gradient
        if is_data:
            self.is_data = True
        if need_check_feed:
            self.need_check_feed = True
        if error_clip is not None:
            self.error_clip = error_clip
        if belong_to_optimizer:
            self.belong_to_optimizer = True

    def _declare(self, shape, dtype, lod_level, persistable) -> None:
        if shape is not None:
            self._set_shape(_dims(shape))
        if dtype is not None:
            self._set_dtype(dtype)
        if lod_level:
            self._set_lod_level(lod_level)
        if persistable:
            self.persistable = True

    def _agree(self, type, shape, dtype, lod_level, persistable) -> None:
        """A second declaration under the same name must say the same as the first."""
        checks = (
            ("type", self.type, type),
            ("shape", self.shape, None if shape is None else tuple(_dims(shape))),
            ("dtype", self.dtype, dtype if self._has_dtype else None),
            ("lod_level", self.lod_level, lod_level),
            ("persistable", self.persistable, persistable),
        )
        for what, old, new in checks:
            if new is not None and old != new:
                raise ValueError(
                    f"Variable {self.name!r} is there already with {what} {old}; it cannot be made again "
                    f"with {what} {new}. Use another name or the same {what}."
                )
        if dtype is not None and not self._has_dtype:
            self._set_dtype(dtype)

    # ---- where it belongs ----

    @property
    def block(self):
        """The Block it belongs to."""
        return self._program.block(self._block_index)

    @property
    def program(self):
        return self._program

    @property
    def op(self):
        """The op that was last made to write it; None when there is none."""
        return None if self._op_id is None else self._program._op_or_none(self._op_id)

    @op.setter
    def op(self, op) -> None:
        self._op_id = None if op is None else op._id

    @property
    def desc(self):
        """The variable in the form of fluid.core.VarDesc."""
        from paddle.fluid.descs import BoundVarDesc

        return BoundVarDesc(self)

    @property
    def grad_name(self) -> str:
        """The name its gradient has."""
        return f"{self.name}@GRAD"

    # ---- text ----

    def to_string(self, throw_on_error: bool = True, with_details: bool = False) -> str:
        """The variable as one line of text; `with_details` adds what only Python knows.

        Args:
            throw_on_error: has no effect.
            with_details: add what only Python knows.

        Returns:
            a text.
        """
        text = self._dump()
        if with_details:
            text += f"\nerror_clip: {self.error_clip}\nstop_gradient: {self.stop_gradient}\n"
        return text

    def __str__(self) -> str:
        return self.to_string()

    __repr__ = __str__

    def _to_readable_code(self) -> str:
        return self._dump()

    # ---- small things that other modules need ----

    def __hash__(self) -> int:
        return id(self)

    def __bool__(self) -> bool:
        """True, as in 1.8.5; a condition says that this is not what it holds."""
        if self.dtype == VarType.BOOL and self.type == VarType.LOD_TENSOR:
            warnings.warn(
                f"The condition {self.name!r} counts as true here, whatever it will hold. {_NO_VALUE} Inside a Program use "
                "fluid.layers.cond, Switch or While.",
                stacklevel=2,
            )
        return True

    def _set_error_clip(self, error_clip) -> None:
        self.error_clip = error_clip

    def _set_info(self, key, value) -> None:
        if self._info is None:
            self._info = {}
        self._info[key] = value

    def _get_info(self, key) -> Any:
        return None if self._info is None else self._info.get(key)

    def _cloneVar(self, copy: bool = False):
        if copy:
            return self.clone()
        return self.block.create_var(
            name=unique_name.generate_with_ignorable_key(self.name),
            dtype=self.dtype,
            lod_level=self.lod_level,
        )

    def clone(self):
        """A new variable with the same value."""
        out = self._cloneVar()
        self.block.append_op(type="assign", inputs={"X": [self]}, outputs={"Out": [out]})
        return out

    def __getitem__(self, item):
        from paddle.fluid.variable_index import index

        return index(self, item)

    def __iter__(self):
        raise TypeError(
            f"Variable {self.name!r} cannot be looped over: its values are there only while a Program runs. "
            "Take it apart with fluid.layers.unstack or with indices."
        )

_NO_VALUE = (
    "A Variable of a Program has a value only while it runs: fetch it with Executor.run(fetch_list=[...])."
)


def _static_only(name: str):
    def method(self, *args, **kwargs):
        raise RuntimeError(f"Variable.{name}() belongs to dygraph, which this package does not have. {_NO_VALUE}")

    method.__name__ = name
    return method


for _name in ("numpy", "item", "detach", "set_value", "backward", "gradient", "clear_gradient"):
    setattr(Variable, _name, _static_only(_name))


def _no_number(kind: str):
    def method(self):
        raise TypeError(f"{kind}() cannot take the Variable {self.name!r}. {_NO_VALUE}")

    method.__name__ = f"__{kind}__"
    return method


for _name in ("float", "int", "complex"):
    setattr(Variable, f"__{_name}__", _no_number(_name))


class Parameter(Variable):
    """A persistable variable that training changes."""

    optimize_attr: dict = {"learning_rate": 1.0}
    regularizer = None
    do_model_average = None
    is_distributed = False
    gradient_clip_attr = None
    table_settings: dict | None = None  # of contrib.layers.sparse_embedding; None: it is no such table

    def __new__(cls, block, shape=None, dtype=None, type=VarType.LOD_TENSOR, **kwargs):
        if shape is None or dtype is None:
            raise ValueError("A Parameter needs a shape and a dtype.")
        if len(shape) == 0 or any(side is None or int(side) < 0 for side in shape):
            raise ValueError(f"The shape of a Parameter must be known in full, found {list(shape)}.")
        return Variable.__new__(cls, block, name=kwargs.get("name"), type=type)

    def __init__(self, block, shape, dtype, type=VarType.LOD_TENSOR, **kwargs):
        own = {
            key: kwargs.pop(key)
            for key in ("trainable", "optimize_attr", "regularizer", "do_model_average", "initializer")
            if key in kwargs
        }
        kwargs.pop("persistable", None)
        super().__init__(block, shape=shape, dtype=dtype, type=type, persistable=True, **kwargs)
        self._is_parameter = True
        self.trainable = own.get("trainable", True)
        self.optimize_attr = own.get("optimize_attr") or {"learning_rate": 1.0}
        self.regularizer = own.get("regularizer")
        self.do_model_average = own.get("do_model_average")
        if "initializer" in own:
            self.initializer = own["initializer"]

    @property
    def trainable(self) -> bool:
        """Does training change it?"""
        return self._is_trainable

    @trainable.setter
    def trainable(self, value: bool) -> None:
        self._is_trainable = bool(value)

    def to_string(self, throw_on_error: bool = True, with_details: bool = False) -> str:
        text = super().to_string(throw_on_error, with_details)
        if with_details:
            for name in ("trainable", "optimize_attr", "regularizer", "do_model_average"):
                text += f"{name}: {getattr(self, name)}\n"
        return text

    __str__ = Variable.__str__
    __repr__ = Variable.__repr__
    __hash__ = Variable.__hash__


class ComplexVariable:
    """A complex number as two Variables.

    Args:
        real: the real part.
        imag: the imaginary part.
    """

    def __init__(self, real: Variable, imag: Variable):
        if real.shape != imag.shape or real.dtype != imag.dtype:
            raise ValueError(
                f"The real part has shape {real.shape} and {real.dtype}, the imaginary part {imag.shape} and "
                f"{imag.dtype}. They must be the same."
            )
        self.real = real
        self.imag = imag
        self._dtype = "complex64" if real.dtype == VarType.FP32 else "complex128"

    @property
    def dtype(self) -> str:
        return self._dtype

    @property
    def shape(self) -> tuple:
        return self.real.shape

    @property
    def name(self) -> dict:
        return {"real": self.real.name, "imag": self.imag.name}

    def __str__(self) -> str:
        return f"REAL: {self.real}\nIMAG: {self.imag}"

    __repr__ = __str__


def wrap_variable(program, number: int) -> Variable:
    """The object of a variable that so far only the engine knows."""
    made = _core.Var.__new__(Variable, program, number)
    if made._is_parameter:
        made.__class__ = Parameter
    program._parts[number] = made
    return made
