"""Operator(type, **slots and attributes): one op that runs on the variables of a scope.

Upstream's tests compare gradients with finite differences this way, thousands of runs each. The op is put
into a Program of its own, whose variables are all persistable and so live in the scope; it is made again only
when kinds, types or ranks in the scope change.
"""

from __future__ import annotations

from paddle import _core
from paddle.fluid import protos
from paddle.fluid.framework import Program
from paddle.fluid.proto import framework_pb2
from paddle.fluid.vartype import VarType

_executor = None

# Hints to upstream's back ends that any op may carry; they change no result.
_HINTS = {"use_mkldnn", "use_cudnn", "use_quantizer", "mkldnn_data_type", "op_device"}


def get_all_op_protos() -> list:
    """The descriptions of all ops."""
    return protos.all_protos()


def is_str(value) -> bool:
    return isinstance(value, str)


class OpDescCreationMethod:
    """Makes OpDesc messages of one op from keyword arguments: slots take names, attributes values."""

    def __init__(self, op_proto):
        if not isinstance(op_proto, framework_pb2.OpProto):
            raise TypeError(f"An OpProto is wanted, found {op_proto!r}.")
        self.__op_proto__ = op_proto

    def __call__(self, *args, **kwargs):
        if args:
            raise ValueError("The slots and attributes of an op are given by name.")
        proto = self.__op_proto__
        desc = framework_pb2.OpDesc(type=proto.type)
        for field, slots in ((desc.inputs, proto.inputs), (desc.outputs, proto.outputs)):
            for slot in slots:
                names = kwargs.get(slot.name, [])
                names = [names] if isinstance(names, (str, bytes)) else list(names)
                if len(names) > 1 and not slot.duplicable:
                    raise ValueError(
                        f"Slot {slot.name!r} of op {proto.type!r} takes one variable, found {len(names)}."
                    )
                field.add(parameter=slot.name, arguments=names)
        for attr in proto.attrs:
            if kwargs.get(attr.name) is not None:
                self._add_attr(desc, attr, kwargs[attr.name])
        return desc

    _SINGLE = {
        framework_pb2.INT: "i",
        framework_pb2.FLOAT: "f",
        framework_pb2.STRING: "s",
        framework_pb2.BOOLEAN: "b",
        framework_pb2.LONG: "l",
        framework_pb2.BLOCK: "block_idx",
    }
    _LISTS = {
        framework_pb2.INTS: "ints",
        framework_pb2.FLOATS: "floats",
        framework_pb2.STRINGS: "strings",
        framework_pb2.BOOLEANS: "bools",
        framework_pb2.LONGS: "longs",
        framework_pb2.BLOCKS: "blocks_idx",
    }

    def _add_attr(self, desc, attr, value) -> None:
        made = desc.attrs.add(name=attr.name, type=attr.type)
        if attr.type in self._SINGLE:
            setattr(made, self._SINGLE[attr.type], value)
        else:
            getattr(made, self._LISTS[attr.type]).extend(value)


class _ScopedOp:
    """One op with its slots and attributes, to be run on a scope."""

    def __init__(self, op_type: str, inputs: dict, outputs: dict, attrs: dict):
        self._type = op_type
        self._inputs = inputs
        self._outputs = outputs
        self._attrs = attrs
        self._names = tuple(
            dict.fromkeys(name for slots in (inputs, outputs) for names in slots.values() for name in names)
        )
        self._input_names = tuple(dict.fromkeys(name for names in inputs.values() for name in names))
        self._built: tuple = (None, None)

    def type(self) -> str:
        return self._type

    def inputs(self) -> dict:
        return self._inputs

    def outputs(self) -> dict:
        return self._outputs

    def input_vars(self) -> list:
        return list(self._input_names)

    def output_vars(self) -> list:
        return [name for names in self._outputs.values() for name in names]

    def no_intermediate_outputs(self) -> list:
        hidden = {slot.name for slot in protos.proto_of(self._type).outputs if slot.intermediate}
        return [name for slot, names in self._outputs.items() if slot not in hidden for name in names]

    def support_gpu(self) -> bool:
        return False

    def _build(self, scope) -> Program:
        program = Program()
        block = program.global_block()
        for name in self._names:
            holder = scope.find_var(name)
            kind = holder._kind() if holder is not None else VarType.LOD_TENSOR
            var = block.create_var(name=name, type=kind, persistable=True)
            if kind in (VarType.LOD_TENSOR, VarType.SELECTED_ROWS) and name in self._input_names:
                rows = holder.get_selected_rows() if kind == VarType.SELECTED_ROWS else None
                tensor = rows.get_tensor() if rows is not None else holder.get_tensor()
                if tensor._is_initialized():
                    shape = tensor.shape()
                    var._set_dtype(tensor._dtype())
                    var._set_shape([rows.height(), *shape[1:]] if rows is not None else shape)
                    var._set_lod_level(len(tensor.lod()))
        block.append_op(type=self._type, inputs=self._inputs, outputs=self._outputs, attrs=self._attrs)
        return program

    def run(self, scope, place=None) -> None:
        """Runs the op once; its variables are those of the scope."""
        global _executor
        signature = scope._signature(self._input_names)
        if self._built[0] != signature:
            for name in self._names:
                if scope.find_var(name) is None:
                    scope.var(name)
            self._built = signature, self._build(scope)
        if _executor is None:
            from paddle.fluid.executor import Executor

            _executor = Executor()
        _executor.run(self._built[1], None, None, "", "", scope)

    def __str__(self) -> str:
        sides = []
        for slots in (self._inputs, self._outputs):
            sides.append(", ".join(f"{slot}[{', '.join(names)}]" for slot, names in slots.items()))
        return f"Op({self._type}), inputs:{{{sides[0]}}}, outputs:{{{sides[1]}}}."

    __repr__ = __str__


class OperatorFactory:
    """Makes ops; also tells what they take."""

    def __call__(self, *args, **kwargs) -> _ScopedOp:
        if "type" in kwargs:
            op_type = kwargs.pop("type")
        elif len(args) == 1:
            op_type = args[0]
        else:
            raise ValueError("Operator takes the op's type, then its slots and attributes by name.")
        proto = protos.proto_of(op_type)
        sides = []
        for slots in (proto.inputs, proto.outputs):
            side = {}
            for slot in slots:
                if slot.name in kwargs:
                    names = kwargs.pop(slot.name)
                    side[slot.name] = [names] if isinstance(names, str) else list(names)
            sides.append(side)
        known = {attr.name for attr in proto.attrs}
        attrs = {name: kwargs.pop(name) for name in list(kwargs) if name in known or name in _HINTS}
        if kwargs:
            raise ValueError(
                f"Op {op_type!r} has no slot or attribute {', '.join(map(repr, kwargs))}. It has: "
                f"{', '.join([slot.name for slot in (*proto.inputs, *proto.outputs)] + sorted(known))}."
            )
        return _ScopedOp(op_type, sides[0], sides[1], attrs)

    def types(self) -> list:
        return _core.op_types()

    def get_op_info(self, t: str):
        return protos.proto_of(t)

    def get_op_input_names(self, type: str) -> list:
        return [slot.name for slot in protos.proto_of(type).inputs]

    def get_op_inputs(self, type: str) -> list:
        """[(input slot, takes a list)]"""
        return [(slot.name, slot.duplicable) for slot in protos.proto_of(type).inputs]

    def get_op_output_names(self, type: str) -> list:
        return [slot.name for slot in protos.proto_of(type).outputs]

    def get_op_outputs(self, type: str) -> list:
        """[(output slot, takes a list)]"""
        return [(slot.name, slot.duplicable) for slot in protos.proto_of(type).outputs]

    def get_op_attr_names(self, type: str) -> list:
        return [attr.name for attr in protos.proto_of(type).attrs]


Operator = OperatorFactory()
