"""Operator: the handle of an op of a Program."""

from __future__ import annotations

from typing import Any

from paddle import _core
from paddle.fluid import protos
from paddle.fluid.vartype import AttrType, OpRole


class Operator(_core.Op):
    """An op of a Program. `Block.append_op` makes one; the slots and attributes live in the engine.

    >>> op.type, op.input("X"), op.attr("axis")    # doctest: +SKIP
    ('concat', ['a', 'b'], 0)
    """

    @property
    def block(self):
        """The Block it stands in."""
        return self._program.block(self._block_index)

    @property
    def desc(self):
        """The op in the form of fluid.core.OpDesc."""
        from paddle.fluid.descs import OpDesc

        return OpDesc(self.block.desc, op=self)

    def to_string(self, throw_on_error: bool = True) -> str:
        """The op as one line of text."""
        return self._dump()

    def __str__(self) -> str:
        return self._dump()

    __repr__ = __str__

    # ---- slots ----

    def _rename_in(self, is_output: bool, old: str, new: str) -> None:
        slots = self.output_names if is_output else self.input_names
        for slot in slots:
            names = self.output(slot) if is_output else self.input(slot)
            if old in names:
                self._set_slot(is_output, slot, [new if name == old else name for name in names])
        if self.has_attr("op_role_var") and old in (pairs := self.attr("op_role_var")):
            self._put_attr("op_role_var", [new if name == old else name for name in pairs])

    def _rename_input(self, old_name: str, new_name: str) -> None:
        self._rename_in(False, old_name, new_name)

    def _rename_output(self, old_name: str, new_name: str) -> None:
        self._rename_in(True, old_name, new_name)

    # ---- attributes ----

    def _typed_attr(self, name: str) -> tuple:
        pair = self._attr(name)
        if pair is None:
            for generated, kind, default in protos.GENERATED:
                if name == generated:
                    return kind, default
            raise _core.NotFoundError(
                f"Op {self.type!r} has no attribute {name!r}. It has: {', '.join(self.attr_names)}."
            )
        return pair

    def has_attr(self, name: str) -> bool:
        """Does the op know this attribute?"""
        return self._attr(name) is not None or name in protos.GENERATED_DEFAULTS

    def attr_type(self, name: str) -> AttrType:
        """The attribute's type."""
        return AttrType(self._typed_attr(name)[0])

    def attr(self, name: str) -> Any:
        """The attribute's value: as set, else the default."""
        kind, value = self._typed_attr(name)
        if kind == AttrType.BLOCK:
            return self._program.block(value).desc
        if kind == AttrType.BLOCKS:
            return [self._program.block(index).desc for index in value]
        return value

    @property
    def attr_names(self) -> list:
        """Names of all attributes: those that were set, the op's own, and those that every op has."""
        names = {**self._attrs(), **protos.attr_defaults(self.type), **protos.GENERATED_DEFAULTS}
        return list(names)

    def all_attrs(self) -> dict:
        """{name: value} of all attributes; blocks come as Block objects."""
        values = {}
        for name in self.attr_names:
            kind, value = self._typed_attr(name)
            if kind == AttrType.BLOCK:
                value = self._program.block(value) if value >= 0 else None
            elif kind == AttrType.BLOCKS:
                value = [self._program.block(index) for index in value]
            values[name] = value
        return values

    def _set_attr(self, name: str, val) -> None:
        self._put_attr(name, val)

    def _update_desc_attr(self, name: str, val) -> None:
        self._put_attr(name, val)

    def _remove_attr(self, name: str) -> None:
        self._drop_attr(name)

    def _block_attr_id(self, name: str) -> int:
        return self._typed_attr(name)[1]

    def _block_attr(self, name: str):
        return self._program.block(self._block_attr_id(name))

    def _blocks_attr_ids(self, name: str) -> list:
        return list(self._typed_attr(name)[1])

    def _blocks_attr(self, name: str) -> list:
        return [self._program.block(index) for index in self._blocks_attr_ids(name)]

    def _is_optimize_op(self) -> bool:
        return bool(int(self.attr("op_role")) & OpRole.Optimize)

    def _is_backward_op(self) -> bool:
        return bool(int(self.attr("op_role")) & OpRole.Backward)


def wrap_operator(program, number: int) -> Operator:
    """The object of an op that so far only the engine knows."""
    made = _core.Op.__new__(Operator, program, number)
    program._parts[number] = made
    return made
