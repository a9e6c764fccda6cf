"""Descriptions of all ops, made from the engine's tables when they are asked for."""

import functools

from paddle import _core
from paddle.fluid import suggest
from paddle.fluid.proto import framework_pb2

_DUPLICABLE, _DISPENSABLE, _INTERMEDIATE = 1, 2, 4

# Every op has these besides its own attributes: (name, type, default).
GENERATED = (
    ("op_role", framework_pb2.INT, 0),
    ("op_role_var", framework_pb2.STRINGS, []),
    ("op_namescope", framework_pb2.STRING, "/"),
    ("op_callstack", framework_pb2.STRINGS, []),
)
GENERATED_DEFAULTS = {name: value for name, _, value in GENERATED}


@functools.cache
def definition(op_type: str) -> tuple:
    """(doc, [(input, flags)], [(output, flags)], [(attribute, type, default)]) of an op."""
    if not _core.op_known(op_type):
        raise suggest.no_op(op_type)
    return _core.op_def(op_type)


@functools.cache
def attr_defaults(op_type: str) -> dict:
    """{name: default} of an op's own attributes; empty for an op that only a file knows."""
    return {name: value for name, _, value in _core.op_def(op_type)[3]} if _core.op_known(op_type) else {}


@functools.cache
def proto_of(op_type: str) -> framework_pb2.OpProto:
    """The OpProto of an op; ValueError when there is no such op."""
    doc, inputs, outputs, attrs = definition(op_type)
    proto = framework_pb2.OpProto(type=op_type, comment=doc)
    for field, slots in ((proto.inputs, inputs), (proto.outputs, outputs)):
        for name, flags in slots:
            field.add(
                name=name,
                comment="",
                duplicable=bool(flags & _DUPLICABLE),
                dispensable=bool(flags & _DISPENSABLE),
                intermediate=bool(flags & _INTERMEDIATE),
            )
    for name, kind, _ in attrs:
        proto.attrs.add(name=name, type=kind, comment="", generated=False)
    for name, kind, _ in GENERATED:
        proto.attrs.add(name=name, type=kind, comment="", generated=True)
    return proto


def all_protos() -> list:
    """The OpProtos of all ops."""
    return [proto_of(op_type) for op_type in _core.op_types()]


class OpProtoHolder:
    """Looks up descriptions of ops; there is one, OpProtoHolder.instance()."""

    _instance = None

    @classmethod
    def instance(cls) -> "OpProtoHolder":
        if cls._instance is None:
            cls._instance = cls()
        return cls._instance

    @property
    def op_proto_map(self) -> dict:
        return {proto.type: proto for proto in all_protos()}

    def get_op_proto(self, type: str) -> framework_pb2.OpProto:
        """The description of an op; ValueError when there is none of that type."""
        return proto_of(type)

    def update_op_proto(self) -> None:
        """Takes in ops that were loaded since; here all ops are there from the start."""

    @staticmethod
    def generated_op_attr_names() -> set:
        """Names of the attributes that every op has."""
        return {name for name, _, _ in GENERATED} | {"op_device"}
