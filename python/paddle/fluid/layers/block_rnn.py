"""Recurrent networks whose step is a block of any ops, over padded steps or sequences of any length."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Iterator

from paddle.fluid import unique_name
from paddle.fluid.framework import Variable
from paddle.fluid.layer_helper import LayerHelper
from paddle.fluid.layers.arrays import (
    array_read,
    array_to_lod_tensor,
    array_write,
    increment,
    less_than,
    shrink_memory,
)
from paddle.fluid.layers.build import VarType, need_variable
from paddle.fluid.layers.control_flow import BlockGuard, While, _CompletingGuard, parent_of
from paddle.fluid.layers.tensor import fill_constant

if TYPE_CHECKING:
    from paddle.fluid.hints import DTypeLike

__all__ = ["StaticRNN", "DynamicRNN"]


class _Memory:
    """A state that one step hands to the next: where it starts, its name in the step, its new value."""

    def __init__(self, init: Variable, pre_mem: Variable):
        self.init, self.pre_mem, self.mem = init, pre_mem, None


class StaticRNN:
    """A network over steps: the first dimension of each step input is the time.

    >>> words = fluid.data(name='words', shape=[20, None, 16])  # 20 steps
    >>> rnn = fluid.layers.StaticRNN()
    >>> with rnn.step():
    ...     word = rnn.step_input(words)
    ...     before = rnn.memory(shape=[-1, 32], batch_ref=word)
    ...     now = fluid.layers.fc([word, before], size=32)
    ...     rnn.update_memory(before, now)
    ...     rnn.step_output(now)
    >>> all_steps = rnn()
    """

    BEFORE_RNN_BLOCK, IN_RNN_BLOCK, AFTER_RNN_BLOCK = 0, 1, 2

    def __init__(self, name: str | None = None):
        self.helper = LayerHelper("static_rnn", name=name)
        self.memories: dict[str, _Memory] = {}
        self.inputs: list[Variable] = []
        self.outputs: list[Variable] = []
        self.status = StaticRNN.BEFORE_RNN_BLOCK
        self.seq_len: int | None = None

    def step(self) -> BlockGuard:
        """The guard for the ops of one step."""
        return _CompletingGuard(self, before=self._begin)

    def _begin(self) -> None:
        self.status = StaticRNN.IN_RNN_BLOCK

    def _need_inside(self, method: str) -> None:
        if self.status != StaticRNN.IN_RNN_BLOCK:
            raise ValueError(f"StaticRNN: {method} must be called inside `with rnn.step()`.")

    def memory(
        self,
        init: Variable | None = None,
        shape: list[int] | None = None,
        batch_ref: Variable | None = None,
        init_value: float = 0.0,
        init_batch_dim_idx: int = 0,
        ref_batch_dim_idx: int = 1,
    ) -> Variable:
        """A state from the step before; from `init`, or from init_value with the batch size of batch_ref."""
        self._need_inside("memory")
        if init is None:
            if shape is None or batch_ref is None:
                raise ValueError("StaticRNN.memory: give init, or shape and batch_ref.")
            parent = parent_of(self.helper.main_program)
            init = parent.create_var(
                name=unique_name.generate_with_ignorable_key(f"{self.helper.name}@memory_boot"),
                shape=shape,
                dtype=batch_ref.dtype,
                persistable=False,
            )
            parent.append_op(
                type="fill_constant_batch_size_like",
                inputs={"Input": [batch_ref]},
                outputs={"Out": [init]},
                attrs={
                    "value": init_value,
                    "shape": list(init.shape),
                    "dtype": init.dtype,
                    "input_dim_idx": ref_batch_dim_idx,
                    "output_dim_idx": init_batch_dim_idx,
                },
            )
        before = self.helper.create_variable(
            name=unique_name.generate_with_ignorable_key(f"{self.helper.name}@mem"),
            dtype=init.dtype,
            shape=init.shape,
        )
        self.memories[before.name] = _Memory(init, before)
        return before

    def step_input(self, x: Variable) -> Variable:
        """The part of x that belongs to the current step."""
        self._need_inside("step_input")
        need_variable(x, "x", "StaticRNN.step_input")
        if self.seq_len is None:
            self.seq_len = x.shape[0]
        elif x.shape[0] >= 0 and self.seq_len != x.shape[0]:
            raise ValueError(
                f"StaticRNN: all step inputs must have the same number of steps, but {x.name} has "
                f"{x.shape[0]} and another one {self.seq_len}."
            )
        part = self.helper.create_variable(name=x.name, dtype=x.dtype, shape=list(x.shape[1:]), type=x.type)
        self.inputs.append(part)
        return part

    def step_output(self, o: Variable) -> None:
        """Say what the network gives at each step."""
        self._need_inside("step_output")
        need_variable(o, "o", "StaticRNN.step_output")
        inside = self.helper.create_variable_for_type_inference(dtype=o.dtype)
        self.helper.append_op(
            type="rnn_memory_helper", inputs={"X": [o]}, outputs={"Out": inside}, attrs={"dtype": o.dtype}
        )
        self.outputs.append(
            parent_of(self.helper.main_program).create_var(
                name=inside.name, shape=[self.seq_len, *inside.shape], dtype=inside.dtype
            )
        )

    def output(self, *outputs: Variable) -> None:
        """step_output for each of several variables."""
        for each in outputs:
            self.step_output(each)

    def update_memory(self, mem: Variable, var: Variable) -> None:
        """Say which variable the next step sees as `mem`."""
        need_variable(mem, "mem", "StaticRNN.update_memory")
        need_variable(var, "var", "StaticRNN.update_memory")
        if mem.name not in self.memories:
            raise ValueError(f"StaticRNN.update_memory: {mem.name} was not made by memory.")
        self.memories[mem.name].mem = var

    def __call__(self, *args, **kwargs):
        if self.status != StaticRNN.AFTER_RNN_BLOCK:
            raise ValueError("StaticRNN: the outputs can be taken only after `with rnn.step()`.")
        if not self.outputs:
            raise ValueError("StaticRNN: the step gave no output.")
        return self.outputs[0] if len(self.outputs) == 1 else self.outputs

    def _complete(self) -> None:
        self.status = StaticRNN.AFTER_RNN_BLOCK
        block, parent = self.helper.main_program.current_block(), parent_of(self.helper.main_program)
        local = {name for op in block.ops for slot in op.output_names for name in op.output(slot)}
        local.update(var.name for var in self.inputs)
        local.update(self.memories)
        outside = dict.fromkeys(
            name
            for op in block.ops
            for slot in op.input_names
            for name in op.input(slot)
            if name not in local
        )
        scopes = parent.create_var(type=VarType.STEP_SCOPES)
        states = []
        for memory in self.memories.values():
            if memory.mem is None:
                raise ValueError(f"StaticRNN: call update_memory for {memory.pre_mem.name}.")
            value = block.var(memory.mem.name)
            state = self.helper.create_variable_for_type_inference(dtype=value.dtype)
            block.append_op(
                type="rnn_memory_helper",
                inputs={"X": [value]},
                outputs={"Out": [state]},
                attrs={"dtype": value.dtype},
            )
            states.append(state.name)
        parent.append_op(
            type="recurrent",
            inputs={
                "inputs": [parent._var_recursive(var.name) for var in self.inputs],
                "initial_states": [memory.init for memory in self.memories.values()],
                "parameters": [parent._var_recursive(name) for name in outside],
            },
            outputs={"outputs": self.outputs, "step_scopes": [scopes]},
            attrs={
                "has_states": bool(states),
                "ex_states": list(self.memories),
                "states": states,
                "sub_block": block,
            },
        )


class DynamicRNN:
    """A network over sequences of any lengths: step t sees the sequences that are long enough, longest first.

    >>> words = fluid.layers.data(name='words', shape=[16], lod_level=1)
    >>> rnn = fluid.layers.DynamicRNN()
    >>> with rnn.block():
    ...     word = rnn.step_input(words)
    ...     before = rnn.memory(shape=[32])
    ...     now = fluid.layers.fc([word, before], size=32)
    ...     rnn.update_memory(before, now)
    ...     rnn.output(now)
    >>> all_steps = rnn()
    """

    BEFORE_RNN, IN_RNN, AFTER_RNN = 0, 1, 2

    def __init__(self, name: str | None = None):
        self.helper = LayerHelper("dynamic_rnn", name=name)
        self.status = DynamicRNN.BEFORE_RNN
        self.lod_rank_table: Variable | None = None
        self.max_seq_len: Variable | None = None
        self.step_idx: Variable | None = None
        self.zero_idx: Variable | None = None
        self.mem_dict: dict[str, Variable] = {}
        self.output_array: list[Variable] = []
        self.outputs: list[Variable] = []
        self.cond = self.helper.create_variable_for_type_inference(dtype="bool")
        self.cond.stop_gradient = False
        self.while_op = While(self.cond)
        self.input_array: list[tuple] = []
        self.mem_link: list[tuple[Variable, Variable]] = []

    def _parent(self, method: str):
        if self.status != DynamicRNN.IN_RNN:
            raise ValueError(f"DynamicRNN: {method} must be called inside `with rnn.block()`.")
        return parent_of(self.helper.main_program)

    def step_input(self, x: Variable, level: int = 0) -> Variable:
        """The current step of the sequences of x."""
        parent = self._parent("step_input")
        need_variable(x, "x", "DynamicRNN.step_input")
        if self.lod_rank_table is None:
            self.lod_rank_table = parent.create_var(
                name=unique_name.generate("lod_rank_table"), type=VarType.LOD_RANK_TABLE
            )
            self.lod_rank_table.stop_gradient = True
            parent.append_op(
                type="lod_rank_table",
                inputs={"X": x},
                outputs={"Out": self.lod_rank_table},
                attrs={"level": level},
            )
            self.max_seq_len = parent.create_var(
                name=unique_name.generate("dynamic_rnn_max_seq_len"), dtype="int64"
            )
            self.max_seq_len.stop_gradient = False
            parent.append_op(
                type="max_sequence_len",
                inputs={"RankTable": self.lod_rank_table},
                outputs={"Out": self.max_seq_len},
            )
            self.cond.stop_gradient = True
            parent.append_op(
                type="less_than",
                inputs={"X": self.step_idx, "Y": self.max_seq_len},
                outputs={"Out": self.cond},
                attrs={"force_cpu": True},
            )
        array = parent.create_var(
            name=unique_name.generate("dynamic_rnn_input_array"), type=VarType.LOD_TENSOR_ARRAY, dtype=x.dtype
        )
        self.input_array.append((array, x.dtype))
        parent.append_op(
            type="lod_tensor_to_array",
            inputs={"X": x, "RankTable": self.lod_rank_table},
            outputs={"Out": array},
        )
        return array_read(array=array, i=self.step_idx)

    def _reordered(self, parent, x: Variable, stem: str, method: str) -> Variable:
        if self.lod_rank_table is None:
            raise ValueError(
                f"DynamicRNN: {method} needs a step_input before it, which gives the order of sequences."
            )
        out = parent.create_var(name=unique_name.generate(stem), type=VarType.LOD_TENSOR, dtype=x.dtype)
        parent.append_op(
            type="reorder_lod_tensor_by_rank",
            inputs={"X": [x], "RankTable": [self.lod_rank_table]},
            outputs={"Out": [out]},
        )
        return out

    def static_input(self, x: Variable) -> Variable:
        """x as a whole at each step, without the sequences that have ended."""
        parent = self._parent("static_input")
        need_variable(x, "x", "DynamicRNN.static_input")
        ordered = self._reordered(parent, x, "dynamic_rnn_static_input_reordered", "static_input")
        return shrink_memory(ordered, self.step_idx, self.lod_rank_table)

    @contextlib.contextmanager
    def block(self) -> Iterator[None]:
        """The guard for the ops of one step."""
        if self.status != DynamicRNN.BEFORE_RNN:
            raise ValueError("DynamicRNN: block can be used only once.")
        self.step_idx = fill_constant(shape=[1], dtype="int64", value=0, force_cpu=True)
        self.step_idx.stop_gradient = False
        self.status = DynamicRNN.IN_RNN
        with self.while_op.block():
            yield
            if self.max_seq_len is None:
                raise ValueError("DynamicRNN: the block must call step_input.")
            increment(x=self.step_idx, value=1.0, in_place=True)
            for new, array in self.mem_link:
                array_write(x=new, i=self.step_idx, array=array)
            less_than(x=self.step_idx, y=self.max_seq_len, force_cpu=True, cond=self.cond)
        self.status = DynamicRNN.AFTER_RNN
        for array in self.output_array:
            self.outputs.append(array_to_lod_tensor(x=array, table=self.lod_rank_table))

    def __call__(self, *args, **kwargs):
        if self.status != DynamicRNN.AFTER_RNN:
            raise ValueError("DynamicRNN: the outputs can be taken only after `with rnn.block()`.")
        return self.outputs[0] if len(self.outputs) == 1 else self.outputs

    def _zero(self, parent) -> Variable:
        if self.zero_idx is None:
            self.zero_idx = parent.create_var(name=unique_name.generate("zero_idx"), dtype="int64")
            parent.append_op(
                type="fill_constant",
                inputs={},
                outputs={"Out": [self.zero_idx]},
                attrs={"shape": [1], "dtype": self.zero_idx.dtype, "value": 0.0, "force_cpu": True},
            )
        return self.zero_idx

    def memory(
        self,
        init: Variable | None = None,
        shape: list[int] | None = None,
        value: float = 0.0,
        need_reorder: bool = False,
        dtype: DTypeLike = "float32",
    ) -> Variable:
        """A state from the step before; it starts as `init`, or as rows of this shape filled with a value.

        need_reorder puts the rows of `init`, one per sequence, into the order in which steps see them.
        """
        parent = self._parent("memory")
        zero = self._zero(parent)
        if init is None:
            if not self.input_array or shape is None:
                raise ValueError("DynamicRNN.memory: give init, or shape after a step_input.")
            init = parent.create_var(name=unique_name.generate("mem_init"), dtype=dtype)
            array, array_dtype = self.input_array[0]
            first = parent.create_var(name=unique_name.generate("in0"), dtype=array_dtype)
            parent.append_op(
                type="read_from_array", inputs={"X": [array], "I": [zero]}, outputs={"Out": [first]}
            )
            parent.append_op(
                type="fill_constant_batch_size_like",
                inputs={"Input": [first]},
                outputs={"Out": [init]},
                attrs={"shape": [-1, *shape], "value": float(value), "dtype": init.dtype},
            )
        elif need_reorder:
            need_variable(init, "init", "DynamicRNN.memory")
            init = self._reordered(parent, init, "dynamic_rnn_mem_init_reordered", "memory")
        need_variable(init, "init", "DynamicRNN.memory")
        array = parent.create_var(
            name=unique_name.generate("dynamic_rnn_mem_array"),
            type=VarType.LOD_TENSOR_ARRAY,
            dtype=init.dtype,
        )
        parent.append_op(type="write_to_array", inputs={"X": init, "I": zero}, outputs={"Out": array})
        state = shrink_memory(
            x=array_read(array=array, i=self.step_idx), i=self.step_idx, table=self.lod_rank_table
        )
        self.mem_dict[state.name] = array
        return state

    def update_memory(self, ex_mem: Variable, new_mem: Variable) -> None:
        """Say which variable the next step sees as `ex_mem`."""
        self._parent("update_memory")
        need_variable(ex_mem, "ex_mem", "DynamicRNN.update_memory")
        need_variable(new_mem, "new_mem", "DynamicRNN.update_memory")
        if ex_mem.name not in self.mem_dict:
            raise ValueError(f"DynamicRNN.update_memory: {ex_mem.name} was not made by memory.")
        self.mem_link.append((new_mem, self.mem_dict[ex_mem.name]))

    def output(self, *outputs: Variable) -> None:
        """Say what the network gives at each step."""
        parent = self._parent("output")
        for each in outputs:
            need_variable(each, "output", "DynamicRNN")
            array = parent.create_var(
                name=unique_name.generate_with_ignorable_key(f"{self.helper.name}_output_array_{each.name}"),
                type=VarType.LOD_TENSOR_ARRAY,
                dtype=each.dtype,
            )
            array_write(x=each, i=self.step_idx, array=array)
            self.output_array.append(array)
