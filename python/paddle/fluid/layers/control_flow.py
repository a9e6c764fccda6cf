"""Blocks that run under a condition or in a loop."""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any, Callable

from paddle.fluid import unique_name
from paddle.fluid.framework import Block, Program, Variable
from paddle.fluid.layer_helper import LayerHelper
from paddle.fluid.layers import arrays, homes
from paddle.fluid.layers.arrays import *  # noqa: F401,F403
from paddle.fluid.layers.arrays import equal, merge_lod_tensor
from paddle.fluid.layers.build import VarType, need_variable
from paddle.fluid.layers.elementwise import logical_and, logical_not
from paddle.fluid.layers.tensor import assign, cast, fill_constant
from paddle.fluid.layers.utils import (
    assert_same_structure,
    copy_mutable_vars,
    hold_mutable_vars,
    map_structure,
)

__all__ = [
    *arrays.__all__,
    "While",
    "while_loop",
    "Switch",
    "cond",
    "case",
    "switch_case",
    "IfElse",
    "ConditionalBlock",
    "BlockGuard",
    "select_input",
    "select_output",
]


class BlockGuard:
    """Ops appended inside a `with` of this go to a new block of the program."""

    def __init__(self, main_program: Program):
        if not isinstance(main_program, Program):
            raise TypeError(f"BlockGuard takes a Program, but {type(main_program).__name__} was given.")
        self.main_program = main_program

    def __enter__(self) -> None:
        self.main_program._create_block()

    def __exit__(self, exc_type, exc_val, exc_tb) -> bool:
        self.main_program._rollback()
        return False


class _CompletingGuard(BlockGuard):
    """A BlockGuard that, when its block is done, lets its owner append the op that runs the block."""

    def __init__(self, owner: Any, before: Callable[[], None] | None = None):
        super().__init__(owner.helper.main_program)
        self.owner, self.before = owner, before

    def __enter__(self) -> None:
        if self.before is not None:
            self.before()
        super().__enter__()

    def __exit__(self, exc_type, exc_val, exc_tb) -> bool:
        try:
            if exc_type is None:
                self.owner._complete()
        finally:
            self.main_program._rollback()
        return False


def parent_of(program: Program) -> Block:
    """The block around the current one."""
    index = program.current_block().parent_idx
    if index < 0:
        raise ValueError("This must be called inside the block of a loop or a condition.")
    return program.block(index)


def block_reads_and_writes(block: Block, known: tuple[str, ...] = ()) -> tuple[list[str], list[str]]:
    """The names that a block reads before it writes them, and those it writes; `known` counts as written."""
    reads, writes = {}, dict.fromkeys(known)
    for op in block.ops:
        for slot in op.input_names:
            reads.update(dict.fromkeys(name for name in op.input(slot) if name not in writes))
        for slot in op.output_names:
            writes.update(dict.fromkeys(op.output(slot)))
    return list(reads), list(writes)


def outer_vars(block: Block, names: list[str]) -> list[Variable]:
    """Those of the names that a block or the blocks around it know."""
    found = (block._find_var_recursive(name) for name in names)
    return [var for var in found if var is not None]


def _need_condition(cond: Any, layer: str) -> None:
    need_variable(cond, "cond", layer)
    if cond.dtype != VarType.BOOL or prod(cond.shape) != 1:
        raise TypeError(
            f"{layer}: the condition must be one bool, but {cond.name} is {cond.dtype} of shape {cond.shape}."
        )


class While:
    """A loop that runs its block as long as a condition, which the block must renew, is True.

    >>> i = fluid.layers.fill_constant([1], 'int64', 0)
    >>> limit = fluid.layers.fill_constant([1], 'int64', 10)
    >>> going_on = fluid.layers.less_than(i, limit)
    >>> loop = fluid.layers.While(cond=going_on)
    >>> with loop.block():
    ...     i = fluid.layers.increment(i)
    ...     going_on = fluid.layers.less_than(i, limit, cond=going_on)
    >>> fluid.Executor().run(fetch_list=[i])
    [array([10])]
    """

    BEFORE_WHILE_BLOCK, IN_WHILE_BLOCK, AFTER_WHILE_BLOCK = 0, 1, 2

    def __init__(self, cond: Variable, is_test: bool = False, name: str | None = None):
        self.helper = LayerHelper("while", name=name)
        self.status = While.BEFORE_WHILE_BLOCK
        _need_condition(cond, "While")
        self.cond_var, self.is_test = cond, is_test

    def block(self) -> BlockGuard:
        """The guard for the body of the loop."""
        return _CompletingGuard(self, before=self._begin)

    def _begin(self) -> None:
        self.status = While.IN_WHILE_BLOCK

    def _complete(self) -> None:
        self.status = While.AFTER_WHILE_BLOCK
        body, parent = self.helper.main_program.current_block(), parent_of(self.helper.main_program)
        reads, writes = block_reads_and_writes(body, known=(self.cond_var.name,))
        outs = outer_vars(parent, writes)
        scopes = parent.create_var(type=VarType.STEP_SCOPES)
        parent.append_op(
            type="while",
            inputs={"X": [parent._var_recursive(name) for name in reads], "Condition": [self.cond_var]},
            outputs={"Out": outs, "StepScopes": [scopes]},
            attrs={"sub_block": body, "is_test": self.is_test},
        )


def while_loop(
    cond: Callable, body: Callable, loop_vars: list, is_test: bool = False, name: str | None = None
) -> list:
    """Call body(*loop_vars) in a loop while cond(*loop_vars) holds; the values after the last round."""
    LayerHelper("while_loop", name=name)
    for arg, function in (("cond", cond), ("body", body)):
        if not callable(function):
            raise TypeError(f"while_loop: {arg} must be a function, but {type(function).__name__} was given.")
    if not isinstance(loop_vars, (list, tuple)):
        raise TypeError(
            f"while_loop: loop_vars must be a list or a tuple, but {type(loop_vars).__name__} was given."
        )
    if not loop_vars:
        raise ValueError("while_loop: loop_vars must not be empty.")
    going_on = cond(*loop_vars)
    _need_condition(going_on, "while_loop")
    with While(going_on, is_test, name).block():
        results = body(*(copy_mutable_vars(loop_vars) if hold_mutable_vars(loop_vars) else loop_vars))
        results = results if isinstance(results, (list, tuple)) else [results]
        try:
            assert_same_structure(results, loop_vars, check_types=False)
        except ValueError as error:
            raise ValueError(
                f"while_loop: body must return as many values as loop_vars holds, in the same structure. "
                f"{error}"
            ) from None
        still_going = cond(*results)
        map_structure(assign, results, loop_vars)
        assign(still_going, going_on)
    return loop_vars


class ConditionalBlock:
    """A block that runs when its inputs are True; without is_scalar_condition, when they are not empty."""

    def __init__(self, inputs: list[Variable], is_scalar_condition: bool = False, name: str | None = None):
        for each in inputs:
            need_variable(each, "inputs", "ConditionalBlock")
        self.inputs, self.is_scalar_condition = inputs, is_scalar_condition
        self.helper = LayerHelper("conditional_block", name=name)

    def block(self) -> BlockGuard:
        """The guard for what runs under the condition."""
        return _CompletingGuard(self)

    def _complete(self) -> None:
        inside, parent = self.helper.main_program.current_block(), parent_of(self.helper.main_program)
        reads, writes = block_reads_and_writes(inside)
        params = [parent._var_recursive(name) for name in reads]
        outs = outer_vars(parent, writes)
        scope = parent.create_var(type=VarType.STEP_SCOPES)
        parent.append_op(
            type="conditional_block",
            inputs={"Cond": self.inputs, "Input": params},
            outputs={"Out": outs, "Scope": [scope]},
            attrs={"sub_block": inside, "is_scalar_condition": self.is_scalar_condition},
        )


class Switch:
    """The first case whose condition holds, or the default.

    >>> step = fluid.layers.fill_constant([1], 'float32', 7.0)
    >>> rate = fluid.layers.create_global_var([1], 0.0, 'float32', persistable=True)
    >>> with fluid.layers.Switch() as switch:
    ...     with switch.case(step < 5.0):
    ...         rate = fluid.layers.assign(np.array([0.1], 'float32'), rate)
    ...     with switch.default():
    ...         rate = fluid.layers.assign(np.array([0.01], 'float32'), rate)
    """

    def __init__(self, name: str | None = None):
        self.helper = LayerHelper("switch", name=name)
        self.inside_scope = False
        self.pre_not_conditions: list[Variable] = []

    def __enter__(self) -> Switch:
        self.inside_scope = True
        return self

    def __exit__(self, exc_type, exc_val, exc_tb) -> bool:
        self.inside_scope = False
        return False

    def case(self, condition: Variable) -> BlockGuard:
        """The guard for what runs when this condition holds and none before it did."""
        if not self.inside_scope:
            raise ValueError("Switch: case must be called inside the `with` of the Switch.")
        need_variable(condition, "condition", "Switch.case")
        if not self.pre_not_conditions:
            chosen = ConditionalBlock([condition], is_scalar_condition=True)
            self.pre_not_conditions.append(logical_not(x=condition))
        else:
            none_before = self.pre_not_conditions[-1]
            self.pre_not_conditions.append(logical_and(x=none_before, y=logical_not(x=condition)))
            chosen = ConditionalBlock([logical_and(x=none_before, y=condition)], is_scalar_condition=True)
        return chosen.block()

    def default(self) -> BlockGuard:
        """The guard for what runs when no case was chosen."""
        if not self.pre_not_conditions:
            raise ValueError("Switch: default needs at least one case before it.")
        return ConditionalBlock([self.pre_not_conditions[-1]], is_scalar_condition=True).block()


def select_input(inputs: list[Variable], mask: Variable) -> Variable:
    """The input whose number the mask holds."""
    helper = LayerHelper("select_input")
    out = helper.create_variable(dtype=inputs[0].dtype, shape=inputs[0].shape, type=inputs[0].type)
    helper.append_op(type="select_input", inputs={"X": inputs, "Mask": mask}, outputs={"Out": out})
    return out


def select_output(input: Variable, outputs: list[Variable], mask: Variable) -> list[Variable]:
    """Copy the input to the output whose number the mask holds."""
    LayerHelper("select_output").append_op(
        type="select_output", inputs={"X": input, "Mask": mask}, outputs={"Out": outputs}
    )
    return outputs


def _copy_outside(var: Variable | None, helper: LayerHelper) -> Variable | None:
    if var is None:
        return None
    outside = parent_of(helper.main_program).create_var(dtype=var.dtype, shape=var.shape, type=var.type)
    assign(var, outside)
    return outside


def cond(
    pred: Variable, true_fn: Callable | None = None, false_fn: Callable | None = None, name: str | None = None
) -> Any:
    """What true_fn returns where pred is True, else what false_fn returns, in the same structure."""
    need_variable(pred, "pred", "cond")
    helper = LayerHelper("cond", name=name)
    results = []
    for function, arg in ((true_fn, "true_fn"), (false_fn, "false_fn")):
        results.append(None)
        if function is None:
            continue
        if not callable(function):
            raise TypeError(f"cond: {arg} must be a function, but {type(function).__name__} was given.")
        when = pred if arg == "true_fn" else logical_not(pred)
        with ConditionalBlock([when], is_scalar_condition=True).block():
            value = function()
            if value is not None:
                results[-1] = map_structure(lambda var: _copy_outside(var, helper), value)
    on_true, on_false = results
    if on_true is None and on_false is None:
        return None
    if on_true is None or on_false is None:
        raise ValueError("cond: true_fn and false_fn must both return something, or both nothing.")
    try:
        assert_same_structure(on_true, on_false, check_types=False)
    except ValueError as error:
        raise ValueError(f"cond: true_fn and false_fn must return the same structure. {error}") from None
    mask = cast(pred, dtype="int32")
    return map_structure(lambda no, yes: select_input([no, yes], mask), on_false, on_true)


def _chain(pairs: list[tuple[Variable, Callable]], default: Callable) -> Any:
    """Nested conds: the last pair in the list is asked first."""
    chosen = default
    for pred, function in pairs:
        chosen = partial(cond, pred=pred, true_fn=function, false_fn=chosen)
    return chosen()


def case(
    pred_fn_pairs: list[tuple[Variable, Callable]], default: Callable | None = None, name: str | None = None
) -> Any:
    """The result of the first function whose condition holds, else of the default (the last function)."""
    LayerHelper("case", name=name)
    if not isinstance(pred_fn_pairs, (list, tuple)) or not pred_fn_pairs:
        raise TypeError("case: pred_fn_pairs must be a non-empty list of pairs (condition, function).")
    for pair in pred_fn_pairs:
        if (
            not isinstance(pair, tuple)
            or len(pair) != 2
            or not isinstance(pair[0], Variable)
            or not callable(pair[1])
        ):
            raise TypeError(f"case: each entry must be a pair (condition, function), but {pair!r} was given.")
    if default is None:
        pred_fn_pairs, default = pred_fn_pairs[:-1], pred_fn_pairs[-1][1]
    elif not callable(default):
        raise TypeError(f"case: default must be a function, but {type(default).__name__} was given.")
    return _chain(list(reversed(pred_fn_pairs)), default)


def switch_case(
    branch_index: Variable, branch_fns: list | dict, default: Callable | None = None, name: str | None = None
) -> Any:
    """The result of the function number branch_index, else of the default (the one with the largest number).

    branch_fns is a list of functions, a list of pairs (number, function) or a dict.
    """
    LayerHelper("switch_case", name=name)
    need_variable(branch_index, "branch_index", "switch_case")
    if branch_index.dtype != VarType.INT64:
        branch_index = cast(branch_index, "int64")
    pairs = list(branch_fns.items() if isinstance(branch_fns, dict) else branch_fns)
    if all(callable(each) for each in pairs):
        pairs = list(enumerate(pairs))
    for pair in pairs:
        if (
            not isinstance(pair, tuple)
            or len(pair) != 2
            or not isinstance(pair[0], int)
            or not callable(pair[1])
        ):
            raise TypeError(
                f"switch_case: each entry must be a function or a pair (number, function), "
                f"but {pair!r} was given."
            )
    if len({number for number, _ in pairs}) != len(pairs):
        raise ValueError(f"switch_case: the numbers {[number for number, _ in pairs]} are not all different.")
    if default is None:
        pairs.sort(key=lambda pair: pair[0])
        default = pairs.pop()[1]
    elif not callable(default):
        raise TypeError(f"switch_case: default must be a function, but {type(default).__name__} was given.")
    tested = [
        (equal(branch_index, fill_constant(shape=[1], dtype="int64", value=number)), function)
        for number, function in pairs
    ]
    return _chain(tested, default)


class IfElse:
    """Rows of a batch go through one of two blocks, as a column of bools says, and come back in their order.

    >>> x = fluid.data(name='x', shape=[None, 4])
    >>> label = fluid.data(name='label', shape=[None, 1], dtype='int64')
    >>> choice = fluid.layers.IfElse(label < fluid.layers.fill_constant([1], 'int64', 5))
    >>> with choice.true_block():
    ...     choice.output(fluid.layers.fc(choice.input(x), size=10))
    >>> with choice.false_block():
    ...     choice.output(fluid.layers.fc(choice.input(x), size=10))
    >>> merged, = choice()
    """

    OUT_IF_ELSE_BLOCKS, IN_IF_ELSE_TRUE_BLOCKS, IN_IF_ELSE_FALSE_BLOCKS = 0, 1, 2

    def __init__(self, cond: Variable, name: str | None = None):
        need_variable(cond, "cond", "IfElse")
        self.helper = LayerHelper("ifelse", name=name)
        self.cond = cond
        self.input_table: dict[int, tuple[Variable, Variable]] = {}
        self.status = IfElse.OUT_IF_ELSE_BLOCKS
        self.conditional_true_block = ConditionalBlock(inputs=[self.cond])
        self.conditional_false_block = ConditionalBlock(inputs=[self.cond])
        self.output_table: tuple[list, list] = ([], [])  # of the false block, of the true block

    def input(self, x: Variable) -> Variable:
        """The rows of x that belong to the block this is called in."""
        if self.status == IfElse.OUT_IF_ELSE_BLOCKS:
            raise ValueError("IfElse: input must be called inside true_block or false_block.")
        if id(x) not in self.input_table:
            parent = parent_of(self.helper.main_program)
            halves = tuple(
                parent.create_var(
                    name=unique_name.generate_with_ignorable_key(f"ifelse_input{self.helper.name}"),
                    dtype=x.dtype,
                )
                for _ in range(2)
            )
            parent.append_op(
                type="split_lod_tensor",
                inputs={"X": x, "Mask": self.cond},
                outputs={"OutTrue": halves[0], "OutFalse": halves[1]},
                attrs={"level": 0},
            )
            self.input_table[id(x)] = halves
        return self.input_table[id(x)][0 if self.status == IfElse.IN_IF_ELSE_TRUE_BLOCKS else 1]

    def true_block(self) -> _BranchGuard:
        """The guard for the rows where the condition is True."""
        return _BranchGuard(self, True)

    def false_block(self) -> _BranchGuard:
        """The guard for the rows where the condition is False."""
        return _BranchGuard(self, False)

    def output(self, *outs: Variable) -> None:
        """Say what the block this is called in gives; both blocks must give as many."""
        if self.status == IfElse.OUT_IF_ELSE_BLOCKS:
            raise ValueError("IfElse: output must be called inside true_block or false_block.")
        table = self.output_table[1 if self.status == IfElse.IN_IF_ELSE_TRUE_BLOCKS else 0]
        parent = parent_of(self.helper.main_program)
        for each in outs:
            need_variable(each, "output", "IfElse")
            outside = parent.create_var(
                name=unique_name.generate_with_ignorable_key(f"{self.helper.name}_output"), dtype=each.dtype
            )
            table.append(outside)
            assign(input=each, output=outside)

    def __call__(self) -> list[Variable]:
        if self.status != IfElse.OUT_IF_ELSE_BLOCKS:
            raise ValueError("IfElse: the outputs can be taken only after the blocks.")
        on_false, on_true = self.output_table
        if not on_false and not on_true:
            raise ValueError("IfElse: call true_block or false_block and output before taking the outputs.")
        if not on_false or not on_true:
            return on_false or on_true
        if len(on_false) != len(on_true):
            raise ValueError(
                f"IfElse: the true block gave {len(on_true)} outputs, the false block {len(on_false)}."
            )
        return [
            merge_lod_tensor(in_true=yes, in_false=no, mask=self.cond, x=self.cond, level=0)
            for no, yes in zip(on_false, on_true)
        ]


class _BranchGuard:
    """The `with` of one branch of an IfElse."""

    def __init__(self, owner: IfElse, is_true: bool):
        if owner.status != IfElse.OUT_IF_ELSE_BLOCKS:
            raise ValueError("IfElse: one branch cannot be inside the other.")
        self.owner, self.is_true = owner, is_true
        branch = owner.conditional_true_block if is_true else owner.conditional_false_block
        self.guard = branch.block()

    def __enter__(self) -> None:
        self.owner.status = IfElse.IN_IF_ELSE_TRUE_BLOCKS if self.is_true else IfElse.IN_IF_ELSE_FALSE_BLOCKS
        self.guard.__enter__()

    def __exit__(self, exc_type, exc_val, exc_tb) -> bool:
        self.guard.__exit__(exc_type, exc_val, exc_tb)
        self.owner.status = IfElse.OUT_IF_ELSE_BLOCKS
        if exc_type is None and not self.owner.output_table[1 if self.is_true else 0]:
            raise ValueError("IfElse: a branch must call output.")
        return False


__getattr__ = homes.served(__name__)
