"""The enums of framework.proto: element types and kinds of variables, types of attributes, roles of ops."""

from enum import IntEnum

from paddle import _core


class _Named(IntEnum):
    """Prints as upstream's enums do: 'VarType.FP32'."""

    def __str__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)


class VarType(_Named):
    """The type of an element (FP32, INT64, ...) or the kind of a variable (LOD_TENSOR, ...)."""

    BOOL = 0
    UINT8 = 20
    INT8 = 21
    INT16 = 1
    INT32 = 2
    INT64 = 3
    FP16 = 4
    FP32 = 5
    FP64 = 6
    LOD_TENSOR = 7
    SELECTED_ROWS = 8
    FEED_MINIBATCH = 9
    FETCH_LIST = 10
    STEP_SCOPES = 11
    LOD_RANK_TABLE = 12
    LOD_TENSOR_ARRAY = 13
    PLACE_LIST = 14
    READER = 15
    RAW = 17


class AttrType(_Named):
    """The type of an op's attribute."""

    INT = 0
    FLOAT = 1
    STRING = 2
    INTS = 3
    FLOATS = 4
    STRINGS = 5
    BOOL = 6
    BOOLS = 7
    BLOCK = 8
    LONG = 9
    BLOCKS = 10
    LONGS = 11


class OpRole(_Named):
    """What an op is there for; the values are bits."""

    Forward = 0
    Backward = 1
    Optimize = 2
    RPC = 4
    Dist = 8
    LRSched = 16
    Loss = 256


# Where the element types have names in numpy.
DTYPE_NAMES = {
    VarType.BOOL: "bool",
    VarType.INT16: "int16",
    VarType.INT32: "int32",
    VarType.INT64: "int64",
    VarType.FP16: "float16",
    VarType.FP32: "float32",
    VarType.FP64: "float64",
    VarType.UINT8: "uint8",
    VarType.INT8: "int8",
}
_BY_NAME = {name: dtype for dtype, name in DTYPE_NAMES.items()}
_BY_NAME["uint16"] = VarType.INT16

_members: list = list(range(22))
for _member in VarType:
    _members[_member] = _member
_core._set_var_types(_members)


def convert_np_dtype_to_dtype_(np_dtype) -> VarType:
    """The VarType of a numpy dtype, of its name, or of a Python type such as float."""
    if isinstance(np_dtype, VarType):
        return np_dtype
    found = _BY_NAME.get(np_dtype) if isinstance(np_dtype, str) else None
    if found is None:
        import numpy as np

        try:
            name = np.dtype(np_dtype).name
        except TypeError:
            from paddle.fluid import suggest

            near = suggest.did_you_mean(np_dtype, _BY_NAME) if isinstance(np_dtype, str) else ""
            hint = near or f" Use one of {', '.join(_BY_NAME)}."
            raise TypeError(f"{np_dtype!r} is no type of tensor elements.{hint}") from None
        found = _BY_NAME.get(name)
        if found is None:
            raise ValueError(f"{name} cannot be the type of a variable. Use one of {', '.join(_BY_NAME)}.")
    return found


def dtype_is_floating(dtype) -> bool:
    """Is it float16, float32 or float64?"""
    return convert_np_dtype_to_dtype_(dtype) in (VarType.FP16, VarType.FP32, VarType.FP64)
