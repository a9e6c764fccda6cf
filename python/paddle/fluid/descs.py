"""fluid.core's ProgramDesc, BlockDesc, OpDesc and VarDesc: other views of the same Program.

An op of the engine is always whole: known, with its slots filled. A desc may be put together step by step, so
an OpDesc begins as a draft in Python and becomes an op of the engine once it is asked to infer its shapes, is
copied from a whole one, or its Program is written. Drafts of a type that is not known stay drafts.
"""

from __future__ import annotations

import weakref

from paddle import _core
from paddle.fluid import core, protos
from paddle.fluid.framework import Operator, Program
from paddle.fluid.vartype import AttrType, VarType, convert_np_dtype_to_dtype_, dtype_is_floating

_program_descs: "weakref.WeakKeyDictionary" = weakref.WeakKeyDictionary()


def _text(name) -> str:
    return name.decode() if isinstance(name, bytes) else name


class ProgramDesc:
    """A Program."""

    def __init__(self, other: "ProgramDesc | None" = None):
        self._program = Program() if other is None else other._program.clone()
        self._block_descs: dict = {}
        _program_descs[self._program] = self

    @classmethod
    def _of(cls, program: Program) -> "ProgramDesc":
        desc = _program_descs.get(program)
        if desc is None:
            desc = cls.__new__(cls)
            desc._program = program
            desc._block_descs = {}
            _program_descs[program] = desc
        return desc

    def block(self, index: int) -> "BlockDesc":
        if not 0 <= index < self._program.num_blocks:
            raise IndexError(f"Block {index} was asked for, but the Program has {self._program.num_blocks}.")
        return self._block_descs.setdefault(index, BlockDesc(self, index))

    def append_block(self, parent: "BlockDesc") -> "BlockDesc":
        return self.block(self._program._add_block(parent.id))

    def num_blocks(self) -> int:
        return self._program.num_blocks

    def flush(self) -> None:
        for desc in self._block_descs.values():
            desc._settle()

    def serialize_to_string(self) -> bytes:
        self.flush()
        return self._program._serialize()

    def parse_from_string(self, data: bytes) -> None:
        self._program._become_parsed(data)

    def get_feed_target_names(self) -> list:
        ops = [op for op in self._program.global_block().ops if op.type == "feed"]
        return [op.output("Out")[0] for op in sorted(ops, key=lambda op: op.attr("col"))]

    def get_fetch_target_names(self) -> list:
        ops = [op for op in self._program.global_block().ops if op.type == "fetch"]
        return [op.input("X")[0] for op in sorted(ops, key=lambda op: op.attr("col"))]

    def _set_version(self, version: int = 0) -> None:
        """The engine writes the version of the format itself."""

    def _version(self) -> int:
        return 0

    def __str__(self) -> str:
        return str(self._program)


class BlockDesc:
    """A block: its ops and variables."""

    def __init__(self, program: ProgramDesc, index: int):
        self._program_desc = program
        self._index = index
        self._drafts: list = []  # (number of whole ops in front, OpDesc)

    @property
    def _block(self):
        return self._program_desc._program.block(self._index)

    @property
    def id(self) -> int:
        return self._index

    @property
    def idx(self) -> int:
        return self._index

    @property
    def parent(self) -> int:
        return self._block.parent_idx

    def get_forward_block_idx(self) -> int:
        return self._block.forward_block_idx

    def _set_forward_block_idx(self, index: int) -> None:
        self._block._set_forward_block_idx(index)

    # ---- ops ----

    def _all_ops(self) -> list:
        whole = [OpDesc(self, op=op) for op in self._block.ops]
        ops, at = [], 0
        for position, draft in self._drafts:
            ops += whole[at:position]
            at = max(at, min(position, len(whole)))
            ops.append(draft)
        return ops + whole[at:]

    def op_size(self) -> int:
        return len(self._block.ops) + len(self._drafts)

    def op(self, index: int) -> "OpDesc":
        return self._all_ops()[index]

    def append_op(self) -> "OpDesc":
        return self._insert_op(self.op_size())

    def _prepend_op(self) -> "OpDesc":
        return self._insert_op(0)

    def _insert_op(self, index: int) -> "OpDesc":
        before = self._all_ops()[:index]
        drafts = sum(1 for each in before if each._op is None)
        made = OpDesc(self)
        self._drafts.insert(drafts, (len(before) - drafts, made))
        return made

    def _remove_op(self, start: int, end: int) -> None:
        for each in self._all_ops()[start:end]:
            if each._op is None:
                self._drafts = [pair for pair in self._drafts if pair[1] is not each]
            else:
                self._block._remove_op(each._op.idx)
                self._drafts = [(max(0, position - 1), draft) for position, draft in self._drafts]

    def _place_of(self, draft: "OpDesc") -> int:
        return next(position for position, each in self._drafts if each is draft)

    def _settled(self, draft: "OpDesc") -> None:
        """The draft has become a whole op: the drafts behind it stand one place further on."""
        at = next(i for i, (_, each) in enumerate(self._drafts) if each is draft)
        rest = [(position + 1, each) for position, each in self._drafts[at + 1 :]]
        self._drafts = self._drafts[:at] + rest

    def _settle(self) -> None:
        for _, draft in list(self._drafts):
            draft._settle()

    # ---- variables ----

    def var(self, name) -> "BoundVarDesc":
        block = self._block
        found = block.vars.get(_text(name))
        return BoundVarDesc(block.create_var(name=_text(name)) if found is None else found)

    def has_var(self, name) -> bool:
        return self._block.has_var(_text(name))

    def has_var_recursive(self, name) -> bool:
        return self._block._find_var_recursive(_text(name)) is not None

    def find_var(self, name) -> "BoundVarDesc | None":
        found = self._block.vars.get(_text(name))
        return None if found is None else BoundVarDesc(found)

    def find_var_recursive(self, name) -> "BoundVarDesc | None":
        found = self._block._find_var_recursive(_text(name))
        return None if found is None else BoundVarDesc(found)

    def all_vars(self) -> list:
        return [BoundVarDesc(var) for var in self._block._all_vars()]

    def _rename_var(self, name, new_name) -> None:
        self._block._rename_var(_text(name), _text(new_name))

    def _remove_var(self, name) -> None:
        self._block._remove_var(_text(name))


class BoundVarDesc(core.VarDesc):
    """A variable of a Program. A reader describes several tensors at once."""

    def __init__(self, var):
        if isinstance(var, (str, bytes)):
            self._home = Program()
            var = self._home.global_block().create_var(name=_text(var))
        self._var = var

    def __eq__(self, other) -> bool:
        return isinstance(other, BoundVarDesc) and self._var is other._var

    def __hash__(self) -> int:
        return hash(self._var)

    def name(self) -> str:
        return self._var.name

    def set_name(self, name) -> None:
        self._var.name = _text(name)

    def shape(self) -> list:
        return list(self._var.shape)

    get_shape = shape

    def set_shape(self, shape) -> None:
        self._var._set_shape([int(side) for side in shape])

    def dtype(self) -> VarType:
        return self._var.dtype

    def set_dtype(self, dtype) -> None:
        self._var._set_dtype(convert_np_dtype_to_dtype_(dtype))

    def type(self) -> VarType:
        return self._var.type

    def set_type(self, kind) -> None:
        self._var._set_kind(kind)

    def lod_level(self) -> int:
        return self._var.lod_level

    def set_lod_level(self, level: int) -> None:
        self._var._set_lod_level(level)

    def persistable(self) -> bool:
        return self._var.persistable

    def set_persistable(self, value: bool) -> None:
        self._var.persistable = value

    def need_check_feed(self) -> bool:
        return self._var.need_check_feed

    def set_need_check_feed(self, value: bool) -> None:
        self._var.need_check_feed = value

    def set_shapes(self, shapes) -> None:
        self._var._set_info("shapes", [list(shape) for shape in shapes])

    def shapes(self) -> list:
        return self._var._get_info("shapes") or []

    def set_dtypes(self, dtypes) -> None:
        self._var._set_info("dtypes", list(dtypes))

    def dtypes(self) -> list:
        return self._var._get_info("dtypes") or []

    def set_lod_levels(self, levels) -> None:
        self._var._set_info("lod_levels", list(levels))

    def lod_levels(self) -> list:
        return self._var._get_info("lod_levels") or []

    def __str__(self) -> str:
        return str(self._var)


def _attr_type_of(value) -> AttrType:
    """The type of an attribute that no op's table names."""
    single = {bool: AttrType.BOOL, int: AttrType.INT, float: AttrType.FLOAT, str: AttrType.STRING}
    many = {bool: AttrType.BOOLS, int: AttrType.INTS, float: AttrType.FLOATS, str: AttrType.STRINGS}
    if isinstance(value, (list, tuple)):
        return many[type(value[0])] if value else AttrType.INTS
    if isinstance(value, BlockDesc):
        return AttrType.BLOCK
    return single.get(type(value), AttrType.INT)


class OpDesc:
    """An op: a draft, or one of the engine's."""

    def __init__(self, block: BlockDesc | None = None, op: Operator | None = None):
        self._block_desc = block
        self._op = op
        self._type = ""
        self._inputs: dict = {}
        self._outputs: dict = {}
        self._attrs: dict = {}

    def __eq__(self, other) -> bool:
        if not isinstance(other, OpDesc) or self._op is None or other._op is None:
            return self is other
        return self._op is other._op

    def __hash__(self) -> int:
        return hash(id(self) if self._op is None else id(self._op))

    # ---- from draft to op ----

    def _settle(self) -> None:
        """Puts a draft of a known type into the Program."""
        block = self._block_desc
        if self._op is not None or block is None or not _core.op_known(self._type):
            return
        attrs = {name: block_or(value) for name, value in self._attrs.items()}
        place = block._place_of(self)
        number = block._block.program._insert_op(
            block.id, place, self._type, self._inputs, self._outputs, attrs
        )
        self._op = block._block.program._operator(number)
        block._settled(self)

    def copy_from(self, other: "OpDesc") -> None:
        if self._op is not None:
            raise ValueError(
                f"The op {self._op.type!r} is in its Program already and cannot be replaced by a copy."
            )
        self._type = other.type()
        self._inputs = {slot: other.input(slot) for slot in other.input_names()}
        self._outputs = {slot: other.output(slot) for slot in other.output_names()}
        self._attrs = dict(other._own_attrs())
        if self._block_desc is not None:
            for name in self.output_arg_names():
                self._block_desc.var(name)
        self._settle()

    def _own_attrs(self) -> dict:
        if self._op is None:
            return self._attrs
        values = {}
        for name, (kind, value) in self._op._attrs().items():
            if kind in (AttrType.BLOCK, AttrType.BLOCKS):
                value = self._op.attr(name)
            values[name] = value
        return values

    def check_attrs(self) -> None:
        """Are the attributes those of the op?"""
        if self._op is None and self._type and _core.op_known(self._type):
            known = protos.attr_defaults(self._type).keys() | protos.GENERATED_DEFAULTS.keys()
            for name in self._attrs:
                if name not in known:
                    raise core.NotFoundError(f"Op {self._type!r} has no attribute {name!r}.")

    def infer_shape(self, block: BlockDesc) -> None:
        self._settle()
        if self._op is not None:
            self._op._infer()

    def infer_var_type(self, block: BlockDesc) -> None:
        self._settle()

    # ---- type and slots ----

    def type(self) -> str:
        return self._type if self._op is None else self._op.type

    def set_type(self, op_type: str) -> None:
        if self._op is not None:
            raise ValueError(
                f"The op {self._op.type!r} is in its Program already; its type cannot be changed."
            )
        self._type = op_type

    def input(self, slot: str) -> list:
        return list(self._inputs.get(slot, [])) if self._op is None else self._op.input(slot)

    def output(self, slot: str) -> list:
        return list(self._outputs.get(slot, [])) if self._op is None else self._op.output(slot)

    def set_input(self, slot: str, names: list) -> None:
        if self._op is None:
            self._inputs[slot] = [_text(name) for name in names]
        else:
            self._op._set_slot(False, slot, names)

    def set_output(self, slot: str, names: list) -> None:
        if self._op is None:
            self._outputs[slot] = [_text(name) for name in names]
        else:
            self._op._set_slot(True, slot, names)

    def input_names(self) -> list:
        return list(self._inputs) if self._op is None else self._op.input_names

    def output_names(self) -> list:
        return list(self._outputs) if self._op is None else self._op.output_names

    def input_arg_names(self) -> list:
        if self._op is not None:
            return self._op.input_arg_names
        return [name for names in self._inputs.values() for name in names]

    def output_arg_names(self) -> list:
        if self._op is not None:
            return self._op.output_arg_names
        return [name for names in self._outputs.values() for name in names]

    def _rename(self, is_output: bool, old: str, new: str) -> None:
        if self._op is not None:
            self._op._rename_in(is_output, old, new)
            return
        for names in (self._outputs if is_output else self._inputs).values():
            names[:] = [new if name == old else name for name in names]

    def _rename_input(self, old: str, new: str) -> None:
        self._rename(False, old, new)

    def _rename_output(self, old: str, new: str) -> None:
        self._rename(True, old, new)

    # ---- attributes ----

    def _set_attr(self, name: str, value) -> None:
        if self._op is None:
            self._attrs[name] = value
        else:
            self._op._put_attr(name, block_or(value))

    def remove_attr(self, name: str) -> None:
        if self._op is None:
            self._attrs.pop(name, None)
        else:
            self._op._drop_attr(name)

    def set_block_attr(self, name: str, block: BlockDesc) -> None:
        self._set_attr(name, block)

    def set_blocks_attr(self, name: str, blocks: list) -> None:
        self._set_attr(name, blocks)

    def _defaults(self) -> dict:
        return protos.attr_defaults(self._type) if self._type else {}

    def has_attr(self, name: str) -> bool:
        return (
            name in self._attrs or name in self._defaults() if self._op is None else self._op.has_attr(name)
        )

    def attr(self, name: str):
        if self._op is not None:
            return self._op.attr(name)
        if name in self._attrs:
            return self._attrs[name]
        defaults = self._defaults()
        if name not in defaults:
            raise core.NotFoundError(f"Op {self._type!r} has no attribute {name!r}.")
        return defaults[name]

    def attr_type(self, name: str) -> AttrType:
        return _attr_type_of(self.attr(name)) if self._op is None else self._op.attr_type(name)

    def attr_names(self) -> list:
        return list(self._attrs) if self._op is None else self._op.attr_names

    def _block_attr_id(self, name: str) -> int:
        return self.attr(name).id

    def _blocks_attr_ids(self, name: str) -> list:
        return [block.id for block in self.attr(name)]

    def set_is_target(self, value: bool) -> None:
        """Upstream marks what pruning must keep; here pruning is told."""

    def block(self) -> BlockDesc:
        return self._block_desc

    def __str__(self) -> str:
        if self._op is not None:
            return str(self._op)
        return f"{self._outputs} = {self._type}(inputs={self._inputs}, attrs={self._attrs})"


def block_or(value):
    """The Block behind a BlockDesc (also in a list); everything else as it is."""
    if isinstance(value, BlockDesc):
        return value._block
    if isinstance(value, list) and any(isinstance(each, BlockDesc) for each in value):
        return [each._block for each in value]
    return value


def _bare_copy(op: Operator) -> tuple[Program, Operator]:
    """A Program with nothing but this op and its variables."""
    program = Program()
    block = program.global_block()
    for name in dict.fromkeys((*op.input_arg_names, *op.output_arg_names)):
        var = op.block._find_var_recursive(name)
        if var is not None:
            copy = block._clone_variable(var, force_persistable=False)
            copy.stop_gradient = False
    made = block.append_op(
        type=op.type,
        inputs={slot: op.input(slot) for slot in op.input_names},
        outputs={slot: op.output(slot) for slot in op.output_names},
        attrs={name: value for name, (_, value) in op._attrs().items()},
    )
    return program, made


def get_grad_op_desc(op_desc: OpDesc, no_grad_set: set, grad_sub_block: list) -> tuple[list, dict]:
    """The gradient ops of one op, as OpDescs outside of any Program, and {gradient: variable}."""
    op_desc._settle()
    if op_desc._op is None:
        raise ValueError(f"The op {op_desc.type()!r} is not whole: it has no gradient.")
    program, op = _bare_copy(op_desc._op)
    block = program.global_block()
    hidden = {slot.name for slot in protos.proto_of(op.type).outputs if slot.intermediate}
    outputs = [name for slot in op.output_names if slot not in hidden for name in op.output(slot)]
    targets = [block.var(name) for name in outputs if dtype_is_floating(block.var(name).dtype)]
    inputs = [block.var(name) for name in dict.fromkeys(op.input_arg_names)]
    skipped = [name[: -len("@GRAD")] if name.endswith("@GRAD") else name for name in no_grad_set]
    before = len(block.ops)
    program._gradients(targets, [], inputs, skipped)
    found, grad_to_var = [], {}
    for each in block.ops[before:]:
        if not each.type.endswith("_grad"):
            continue
        desc = OpDesc()
        desc.copy_from(OpDesc(program.desc.block(0), op=each))
        found.append(desc)
        for name in desc.output_arg_names():
            if name.endswith("@GRAD"):
                grad_to_var[name] = name[: -len("@GRAD")]
    return found, grad_to_var


def prune(desc: ProgramDesc, feeds: set, targets: list) -> tuple[ProgramDesc, dict]:
    """A copy with only what the ops at (block, position) need, and the numbers of its blocks."""
    program = desc._program
    ops = [program.block(block).ops[index] for block, index in targets]
    pruned = program._prune_with_input([_text(name) for name in feeds], ops)
    return pruned.desc, {block.idx: block.idx for block in pruned.blocks}


__all__ = ["ProgramDesc", "BlockDesc", "OpDesc", "BoundVarDesc", "get_grad_op_desc", "prune"]
