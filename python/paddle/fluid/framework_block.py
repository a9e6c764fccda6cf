"""Block: a list of ops and the variables they work on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Iterator

from paddle import _core
from paddle.fluid import name_scopes, shown, suggest
from paddle.fluid.callstack import user_frames
from paddle.fluid.framework_op import Operator
from paddle.fluid.framework_variable import Parameter, Variable


class _Variables(Mapping):
    """The variables of a block by name, in the order in which they were made. Always up to date."""

    def __init__(self, block: "Block"):
        self._block = block

    def _find(self, name) -> Variable | None:
        if isinstance(name, bytes):
            name = name.decode()
        if not isinstance(name, str):
            return None
        program = self._block.program
        number = program._find_var(self._block.idx, name, False)
        return None if number is None else program._variable(number)

    def __getitem__(self, name: str) -> Variable:
        var = self._find(name)
        if var is None:
            raise KeyError(name)
        return var

    def get(self, name: str, default=None):
        var = self._find(name)
        return default if var is None else var

    def __contains__(self, name) -> bool:
        return self._find(name) is not None

    def __iter__(self) -> Iterator[str]:
        return iter([var.name for var in self._block._all_vars()])

    def __len__(self) -> int:
        return len(self._block.program._var_ids(self._block.idx))

    def values(self) -> list:
        return self._block._all_vars()

    def items(self) -> list:
        return [(var.name, var) for var in self._block._all_vars()]

    def keys(self) -> list:
        return list(self)

    def pop(self, name: str, *default):
        """Removes a variable from the block; it can no longer be used."""
        var = self._find(name)
        if var is None:
            if default:
                return default[0]
            raise KeyError(name)
        self._block._remove_var(name)
        return var

    __delitem__ = pop

    def __repr__(self) -> str:
        return repr(dict(self.items()))


class Block:
    """One block of a Program. Block 0 is the outermost one; loops and branches have their own.

    >>> block = fluid.default_main_program().global_block()            # doctest: +SKIP
    >>> x = block.create_var(name="x", shape=[-1, 4], dtype="float32") # doctest: +SKIP
    """

    def __init__(self, program, idx: int):
        self.program = program
        self.idx = idx
        self.removed_vars: dict = {}
        self._seen = None
        self._ops: list = []

    # ---- the tree of blocks ----

    @property
    def parent_idx(self) -> int:
        """The block around this one; -1 for block 0."""
        return self.program._block_parent(self.idx)[0]

    @property
    def forward_block_idx(self) -> int:
        """For a block of gradients: the block it belongs to; -1: none."""
        return self.program._block_parent(self.idx)[1]

    def _set_forward_block_idx(self, idx: int) -> None:
        self.program._set_block_forward(self.idx, idx)

    @property
    def backward_block_idx(self) -> int:
        for block in self.program.blocks:
            if block.forward_block_idx == self.idx:
                return block.idx
        return -1

    @property
    def desc(self):
        """The block in the form of fluid.core.BlockDesc."""
        return self.program.desc.block(self.idx)

    # ---- variables ----

    @property
    def vars(self) -> _Variables:
        """All variables of this block, by name."""
        return _Variables(self)

    def _all_vars(self) -> list:
        program = self.program
        return [program._variable(number) for number in program._var_ids(self.idx)]

    def var(self, name: str) -> Variable:
        """The variable of that name in this block; ValueError when there is none."""
        if not isinstance(name, (str, bytes)):
            raise TypeError(f"The name of a variable is a str, found {shown.found(name)}.")
        var = self.vars.get(name)
        if var is None:
            raise ValueError(f"Block {self.idx} has no variable {name!r}.{suggest.did_you_mean(str(name), self.vars)}")
        return var

    def has_var(self, name: str) -> bool:
        """Has this block itself a variable of that name?"""
        return name in self.vars

    def _find_var_recursive(self, name: str) -> Variable | None:
        number = self.program._find_var(self.idx, name, True)
        return None if number is None else self.program._variable(number)

    def _var_recursive(self, name: str) -> Variable:
        var = self._find_var_recursive(name)
        if var is None:
            raise ValueError(f"Neither block {self.idx} nor the blocks around it have a variable {name!r}.")
        return var

    # Names of v0.11 to v1.0.
    var_recursive = _var_recursive

    def has_var_recursive(self, name: str) -> bool:
        return self._find_var_recursive(name) is not None

    def all_parameters(self) -> list:
        """All Parameters of this block."""
        return [var for var in self._all_vars() if isinstance(var, Parameter)]

    def iter_parameters(self) -> Iterator[Parameter]:
        return iter(self.all_parameters())

    def create_var(self, *args, **kwargs) -> Variable:
        """Makes a variable, or finds the one of that name.

        Takes name, shape, dtype, type, lod_level, persistable, stop_gradient, is_data and initializer.
        """
        initializer = kwargs.pop("initializer", None)
        var = Variable(self, *args, **kwargs)
        if initializer is not None:
            initializer(var, self)
        return var

    def create_parameter(self, *args, **kwargs) -> Parameter:
        """Makes a Parameter in block 0, and the op of its initializer here unless there is one already."""
        block = self.program.global_block()
        kwargs.setdefault("stop_gradient", False)
        is_known = kwargs.get("name") is not None and block.has_var(kwargs["name"])
        if is_known and getattr(block.var(kwargs["name"]), "belong_to_optimizer", False):
            raise ValueError(
                f"a Parameter cannot be called {kwargs['name']!r}: that is a state of an optimizer of this Program. Give it "
                "another name in its ParamAttr, or make it before minimize."
            )
        param = Parameter(block, *args, **kwargs)
        initializer = kwargs.get("initializer")
        if initializer is not None:
            name = param.name
            ops = block.ops if is_known else []  # a new variable has no writer
            writers = [op for op in ops if name in op.output_arg_names and not op.type.startswith("c_")]
            if len(writers) > 1:
                raise RuntimeError(
                    f"Parameter {name!r} is written by {len(writers)} ops of the program that initializes it "
                    f"({', '.join(op.type for op in writers)}). One is right."
                )
            if not writers:
                initializer(param, self)
        return param

    def _rename_var(self, name: str, new_name: str) -> Variable:
        var = self.var(name)
        var.name = new_name.decode() if isinstance(new_name, bytes) else new_name
        return var

    rename_var = _rename_var

    def _rename_vars(self, names: dict) -> None:
        """Old names -> new ones: all in one pass over the Program."""
        self.program._rename_vars(self.idx, [self.var(name)._id for name in names], list(names.values()))

    def _remove_var(self, name: str) -> None:
        var = self.var(name)
        number = var._id
        var._delete()
        self.program._parts.pop(number, None)

    def _clone_variable(self, var: Variable, force_persistable: bool = True) -> Variable:
        """A variable of the same name and make in this block."""
        from paddle.fluid.vartype import VarType

        if var.type in (VarType.STEP_SCOPES, VarType.RAW):
            return self.create_var(name=var.name, persistable=var.persistable, type=var.type)
        made = self.create_var(
            name=var.name,
            shape=var.shape,
            dtype=var.dtype if var._has_dtype else None,
            type=var.type,
            lod_level=None if var.type == VarType.SELECTED_ROWS else var.lod_level,
            persistable=True if force_persistable else var.persistable,
            is_data=var.is_data,
            need_check_feed=var.need_check_feed,
        )
        return made

    clone_variable = _clone_variable

    def _copy_param_info_from(self, other: "Block") -> None:
        """Takes over what Python knows of the other block's Parameters of the same names."""
        for param in other.all_parameters():
            var = self.vars.get(param.name)
            if var is not None:
                var._is_parameter = True
                var.__class__ = Parameter
                var.trainable = param.trainable
                var.stop_gradient = param.stop_gradient
                var.__dict__.update(param.__dict__)

    # ---- ops ----

    @property
    def ops(self) -> list:
        """The ops, in the order in which they run."""
        changes = self.program._changes
        if self._seen != changes:
            program = self.program
            self._ops = [program._operator(number) for number in program._op_ids(self.idx)]
            self._seen = changes
        return self._ops

    def _insert(self, index: int, type=None, inputs=None, outputs=None, attrs=None) -> Operator:
        if type is None:
            raise ValueError("append_op needs the type of the op, for example type='mul'.")
        if not _core.op_known(type):
            raise suggest.no_op(type)
        program = self.program
        attrs = {} if attrs is None else dict(attrs)
        if attrs.get("op_role") is None:
            attrs["op_role"] = int(program._op_role)
        if not attrs.get("op_role_var"):
            attrs.pop("op_role_var", None)
            if program._op_role_var:
                attrs["op_role_var"] = program._op_role_var
        attrs["op_namescope"] = name_scopes.full_name_scope()
        device = name_scopes.current_device()
        if device is not None:
            attrs["op_device"] = device
        if not attrs.get("op_callstack"):
            attrs["op_callstack"] = user_frames()
        number = program._insert_op(self.idx, index, type, inputs, outputs, attrs)
        op = program._operator(number)
        for vars_ in (outputs or {}).values():
            for var in vars_ if isinstance(vars_, (list, tuple)) else (vars_,):
                if isinstance(var, Variable):
                    var._op_id = number
        return op

    def append_op(self, type=None, inputs=None, outputs=None, attrs=None, stop_gradient=False) -> Operator:
        """Appends an op. inputs and outputs map slot names to Variables, names or lists of them.

        >>> block.append_op(type="relu", inputs={"X": [x]}, outputs={"Out": [y]})    # doctest: +SKIP
        """
        return self._insert(-1, type, inputs, outputs, attrs)

    def _prepend_op(self, type=None, inputs=None, outputs=None, attrs=None, stop_gradient=False) -> Operator:
        return self._insert(0, type, inputs, outputs, attrs)

    prepend_op = _prepend_op

    def _insert_op(self, index: int, type=None, inputs=None, outputs=None, attrs=None) -> Operator:
        return self._insert(index, type, inputs, outputs, attrs)

    insert_op = _insert_op

    def _remove_op(self, index: int) -> None:
        op = self.ops[index]
        number = op._id
        op._delete()
        self.program._parts.pop(number, None)

    remove_op = _remove_op

    def _slice_ops(self, start: int, end: int) -> list:
        return self.ops[start:end]

    slice_ops = _slice_ops

    def _sync_with_cpp(self) -> None:
        """Nothing to do: the block reads from the engine."""

    # ---- text ----

    def to_string(self, throw_on_error: bool = True, with_details: bool = False) -> str:
        """The block as text."""
        lines = [f"block {self.idx}, parent {self.parent_idx}"]
        lines += [f"    var {var.to_string(throw_on_error, with_details)}" for var in self._all_vars()]
        lines += [f"    {op}" for op in self.ops]
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.to_string()

    __repr__ = __str__
