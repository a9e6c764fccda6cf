"""The messages of a file with a Program, framework.proto, for their text form; the engine reads and writes the bytes by itself."""

from __future__ import annotations

from paddle.fluid.proto.framework_pb2 import AttrType
from paddle.fluid.proto.table_message import Enum, Field, Message
from paddle.fluid.vartype import VarType

_ATTR = Enum(dict(AttrType.items()))
_KIND = Enum({**{each.name: each.value for each in VarType}, "TUPLE": 18, "SIZE_T": 19})
_CHANGE = Enum({"COMPATIBLE": 0, "DEFINITELY_NOT": 1, "POSSIBLE": 2, "BUG_FIX": 3, "PRECISION_CHANGE": 4})


class OpAttr(Message):
    fields = {
        "name": Field(1, "string"),
        "type": Field(2, _ATTR),
        "i": Field(3, "int32"),
        "f": Field(4, "float"),
        "s": Field(5, "string"),
        "ints": Field(6, "int32", repeated=True),
        "floats": Field(7, "float", repeated=True),
        "strings": Field(8, "string", repeated=True),
        "b": Field(10, "bool"),
        "bools": Field(11, "bool", repeated=True),
        "block_idx": Field(12, "int32"),
        "l": Field(13, "int64"),
        "blocks_idx": Field(14, "int32", repeated=True),
        "longs": Field(15, "int64", repeated=True),
    }


class OpVar(Message):
    fields = {"parameter": Field(1, "string"), "arguments": Field(2, "string", repeated=True)}


class OpDesc(Message):
    fields = {
        "inputs": Field(1, OpVar, repeated=True),
        "outputs": Field(2, OpVar, repeated=True),
        "type": Field(3, "string"),
        "attrs": Field(4, OpAttr, repeated=True),
        "is_target": Field(5, "bool"),
    }


class TensorDesc(Message):
    fields = {"data_type": Field(1, _KIND), "dims": Field(2, "int64", repeated=True)}


class LoDTensorDesc(Message):
    fields = {"tensor": Field(1, TensorDesc), "lod_level": Field(2, "int32")}


class ReaderDesc(Message):
    fields = {"lod_tensor": Field(1, LoDTensorDesc, repeated=True)}


class TupleDesc(Message):
    fields = {"element_type": Field(1, _KIND, repeated=True)}


class VarTypeDesc(Message):
    fields = {
        "type": Field(1, _KIND),
        "selected_rows": Field(2, TensorDesc),
        "lod_tensor": Field(3, LoDTensorDesc),
        "tensor_array": Field(4, LoDTensorDesc),
        "reader": Field(5, ReaderDesc),
        "tuple": Field(7, TupleDesc),
    }


class VarDesc(Message):
    fields = {
        "name": Field(1, "string"),
        "type": Field(2, VarTypeDesc),
        "persistable": Field(3, "bool"),
        "need_check_feed": Field(4, "bool"),
    }


class BlockDesc(Message):
    fields = {
        "idx": Field(1, "int32"),
        "parent_idx": Field(2, "int32"),
        "vars": Field(3, VarDesc, repeated=True),
        "ops": Field(4, OpDesc, repeated=True),
        "forward_block_idx": Field(5, "int32", -1),
    }


class Version(Message):
    fields = {"version": Field(1, "int64")}


class CompatibleInfo(Message):
    fields = {"version": Field(1, "string"), "type": Field(2, _CHANGE)}


class OpCompatiblePair(Message):
    fields = {"op_name": Field(1, "string"), "compatible_info": Field(2, CompatibleInfo)}


class OpCompatibleMap(Message):
    fields = {"pair": Field(1, OpCompatiblePair, repeated=True), "default_required_version": Field(2, "string")}


class ProgramDesc(Message):
    fields = {
        "blocks": Field(1, BlockDesc, repeated=True),
        "op_compatible_map": Field(3, OpCompatibleMap),
        "version": Field(4, Version),
    }
