"""Program: blocks of ops over variables, and the default Programs that layers write into."""

from __future__ import annotations

import contextlib
import functools
import os
import weakref
from typing import TYPE_CHECKING, Callable, Iterator

from paddle import _core, absent
from paddle.fluid import core, unique_name  # noqa: F401
from paddle.fluid.framework_block import Block
from paddle.fluid.framework_op import Operator, wrap_operator
from paddle.fluid.framework_variable import ComplexVariable, Parameter, Variable, wrap_variable  # noqa: F401
from paddle.fluid.name_scopes import NameScope, device_guard, name_scope  # noqa: F401
from paddle.fluid.name_scopes import full_name_scope as _full_name_scope  # noqa: F401
from paddle.fluid.protos import OpProtoHolder  # noqa: F401
from paddle.fluid.vartype import OpRole, VarType, convert_np_dtype_to_dtype_, dtype_is_floating  # noqa: F401

if TYPE_CHECKING:
    from paddle.fluid.hints import Variables

__all__ = [
    "Program",
    "default_startup_program",
    "default_main_program",
    "program_guard",
    "name_scope",
    "cuda_places",
    "cpu_places",
    "cuda_pinned_places",
    "in_dygraph_mode",
    "is_compiled_with_cuda",
    "Variable",
    "ComplexVariable",
    "load_op_library",
    "require_version",
    "device_guard",
    "set_flags",
    "get_flags",
]

EMPTY_VAR_NAME = core.kEmptyVarName()
TEMP_VAR_NAME = core.kTempVarName()
GRAD_VAR_SUFFIX = core.kGradVarSuffix()
ZERO_VAR_SUFFIX = core.kZeroVarSuffix()
CONTROL_DEP_VAR_PREFIX = core.kControlDepVarName()

is_compiled_with_cuda = core.is_compiled_with_cuda

_seed_of_new_programs = 0

# What a Program knows about distributed training; a clone takes it along.
_DISTRIBUTED = {
    "_is_distributed": False,
    "_is_chief": False,
    "_parameters_on_pservers": None,
    "_endpoints": (),
    "_ps_endpoint": None,
    "_trainers_endpoints": (),
    "_distributed_lookup_table": None,
}


# What transpiled Programs in use have as _parameters_on_pservers.
JOBS: weakref.WeakSet = weakref.WeakSet()


class Program(_core.Program):
    """Blocks of ops over named variables. Layers append to the default one, which program_guard changes.

    >>> main, startup = fluid.Program(), fluid.Program()
    >>> with fluid.program_guard(main, startup):
    ...     y = fluid.layers.fc(fluid.layers.data("x", [4]), size=2)
    """

    def __init__(self):
        self._parts: dict = {}
        self._blocks: list = []
        self.current_block_idx = 0
        self._current_role = OpRole.Forward
        self._role_vars: list = []
        self._appending_grad_times = 0
        self._use_lamb = False
        self._enable_dgc = False
        self._is_mem_optimized = False
        self._fleet_opt = None
        self._pipeline_opt = None
        self._program_config = None
        for name, value in _DISTRIBUTED.items():
            setattr(self, name, list(value) if isinstance(value, tuple) else value)
        if _seed_of_new_programs:
            self._seed = _seed_of_new_programs

    # ---- objects of variables and ops ----

    def _variable(self, number: int) -> Variable:
        found = self._parts.get(number)
        return wrap_variable(self, number) if found is None else found

    def _operator(self, number: int) -> Operator:
        found = self._parts.get(number)
        return wrap_operator(self, number) if found is None else found

    def _op_or_none(self, number: int) -> Operator | None:
        op = self._operator(number)
        try:
            op.idx
        except _core.GoneError:
            self._parts.pop(number, None)
            return None
        return op

    def _remove_parts(self, parts: list) -> None:
        """Removes ops and variables, in one pass over the Program for all."""
        numbers = [part._id for part in parts]
        self._delete_parts(numbers)
        for number in numbers:
            self._parts.pop(number, None)

    # ---- blocks ----

    @property
    def blocks(self) -> list:
        """All blocks."""
        while len(self._blocks) < self.num_blocks:
            self._blocks.append(Block(self, len(self._blocks)))
        return self._blocks

    def global_block(self) -> Block:
        """Block 0."""
        return self.blocks[0]

    def block(self, index: int) -> Block:
        """The block with this number.

        Args:
            index: the number; 0 is the outermost block.

        Returns:
            the Block.
        """
        return self.blocks[index]

    def current_block(self) -> Block:
        """The block that layers append to."""
        return self.blocks[self.current_block_idx]

    def _create_block(self, parent_idx: int | None = None) -> Block:
        """A new block inside `parent_idx` (or the current block), which becomes the current one.

        Args:
            parent_idx: the number of the block around it; None: the current block.

        Returns:
            the new Block.
        """
        parent = self.current_block_idx if parent_idx is None else parent_idx
        self.current_block_idx = self._add_block(parent)
        return self.current_block()

    create_block = _create_block

    def _rollback(self) -> None:
        """The block around the current one becomes current."""
        self.current_block_idx = self.current_block().parent_idx

    rollback = _rollback

    # ---- roles of new ops ----

    @property
    def _op_role(self):
        """The role that new ops get."""
        return self._current_role

    @_op_role.setter
    def _op_role(self, role) -> None:
        self._current_role = role

    op_role = _op_role

    @property
    def _op_role_var(self) -> list:
        """The names of parameter and gradient that new optimizer ops carry."""
        return self._role_vars

    @_op_role_var.setter
    def _op_role_var(self, names) -> None:
        self._role_vars = names

    op_role_var = _op_role_var

    @contextlib.contextmanager
    def _roles(self, role, names: list | None) -> Iterator[None]:
        before = self._current_role, self._role_vars
        self._current_role = role
        if names is not None:
            self._role_vars = names
        try:
            yield
        finally:
            self._current_role, self._role_vars = before

    def _backward_role_guard(self):
        """Ops made in the `with` block belong to the backward pass."""
        return self._roles(OpRole.Backward, None)

    def _optimized_guard(self, param_and_grads: list):
        """Ops made in the `with` block update this parameter by this gradient.

        Args:
            param_and_grads: the parameter and its gradient, as Variables.
        """
        names = [each.name if isinstance(each, Variable) else each for each in param_and_grads]
        return self._roles(OpRole.Optimize, names)

    optimized_guard = _optimized_guard

    def _lr_schedule_guard(self, is_with_opt: bool = False):
        """Ops made in the `with` block compute the learning rate."""
        role = int(OpRole.LRSched) | int(OpRole.Optimize) if is_with_opt else OpRole.LRSched
        return self._roles(role, [])

    # ---- copies ----

    def _take_notes_from(self, other: "Program") -> None:
        """What only Python knows of variables with the same ids: a copy of the other Program has them."""
        mine = {number for block in self.blocks for number in self._var_ids(block.idx)}
        for number, part in list(other._parts.items()):
            if isinstance(part, Variable) and part.__dict__ and number in mine:
                self._variable(number).__dict__.update(part.__dict__)
        for name in _DISTRIBUTED:
            setattr(self, name, getattr(other, name))

    def _copied(self, for_test: bool) -> "Program":
        copy = Program()
        copy._become_copy(self, for_test)
        copy._take_notes_from(self)
        return copy

    def clone(self, for_test: bool = False) -> "Program":
        """A copy. With `for_test` it has no backward and optimizer ops, and its other ops are set to test.

        Args:
            for_test: leave out backward and optimizer ops, and set dropout and batch_norm to test. Clone
                before minimize.

        Returns:
            a Program with the same parameters, by name.
        """
        copy = self._copied(bool(for_test))
        if not for_test:
            copy.current_block_idx = self.current_block_idx
            copy._current_role = self._current_role
            copy._role_vars = self._role_vars
            copy._appending_grad_times = self._appending_grad_times
        return copy

    def _prune(self, targets: Variables) -> "Program":
        """A copy that has only what the targets need.

        Args:
            targets: a Variable, or a list of them.

        Returns:
            a Program.
        """
        return self._prune_with_input([], targets)

    prune = _prune

    def _prune_with_input(self, feeded_var_names, targets) -> "Program":
        """A copy that has only what the targets need when the named variables are fed."""
        feeds = [feeded_var_names] if isinstance(feeded_var_names, str) else list(feeded_var_names)
        for name in feeds:
            if not isinstance(name, str):
                raise ValueError(f"The feeds of a pruned Program are names (str), found {name!r}.")
        names = []
        for target in targets if isinstance(targets, (list, tuple, set)) else [targets]:
            if isinstance(target, Operator):
                names.extend(target.output_arg_names)
            elif isinstance(target, Variable):
                names.append(target.name)
            elif isinstance(target, str):
                names.append(target)
            else:
                raise ValueError(f"A target is a Variable, its name or an Operator, found {target!r}.")
        copy = self._copied(False)
        copy._keep_only(feeds, [name for name in names if name not in feeds])
        return copy

    def _inference_optimize(self, prune_read_op: bool = True) -> "Program":
        """A copy for inference: ops are set to test, and readers go unless `prune_read_op` is False.

        Args:
            prune_read_op: leave readers out.

        Returns:
            a Program.
        """
        copy = self._copied(False)
        block = copy.global_block()
        if prune_read_op:
            ops = block.ops
            last = next((i for i, op in enumerate(ops) if op.type == "read"), -1)
            readers = [var for var in block._all_vars() if var.type == VarType.READER]
            copy._remove_parts([*ops[: last + 1], *readers])
        for each in copy.blocks:
            for op in each.ops:
                if op._attr("is_test") is not None:
                    op._put_attr("is_test", True)
        return copy

    inference_optimize = _inference_optimize

    @staticmethod
    def parse_from_string(binary_str: bytes) -> "Program":
        """The Program that these bytes (a `__model__` file) describe.

        Args:
            binary_str: what serialize_to_string gave, or the bytes of a `__model__` file.

        Returns:
            a Program.
        """
        program = Program()
        program._become_parsed(binary_str)
        return program

    @staticmethod
    def _construct_from_desc(desc) -> "Program":
        """The Program behind a fluid.core.ProgramDesc."""
        return desc._program

    # ---- the rest ----

    @property
    def desc(self):
        """The Program in the form of fluid.core.ProgramDesc."""
        from paddle.fluid.descs import ProgramDesc

        return ProgramDesc._of(self)

    def _get_desc(self):
        return self.desc

    def _version(self) -> int:
        return self.desc._version()

    @property
    def random_seed(self) -> int:
        """The seed of the Program; 0: another one in each process.

        Set it before the layers: initializers and dropout take it as they are made, and then give the numbers of
        paddlepaddle 1.8.5 on a CPU. Random ops without a seed of their own follow it too, with other numbers in
        each run.
        """
        return self._seed

    @random_seed.setter
    def random_seed(self, seed: int) -> None:
        if not isinstance(seed, int):
            raise ValueError(f"The seed of a Program is an int, found {seed!r}.")
        self._seed = seed

    def global_seed(self, seed: int = 0) -> None:
        """Sets the seed of this Program and of all that are made from now on.

        Args:
            seed: a whole number; 0: none.
        """
        global _seed_of_new_programs
        _seed_of_new_programs = seed
        self._seed = seed

    def list_vars(self) -> Iterator[Variable]:
        """All variables of all blocks."""
        return (var for block in self.blocks for var in block._all_vars())

    def all_parameters(self) -> list:
        """All Parameters of all blocks."""
        return [param for block in self.blocks for param in block.all_parameters()]

    def _copy_param_info_from(self, other: "Program") -> None:
        self.global_block()._copy_param_info_from(other.global_block())

    def _copy_dist_param_info_from(self, other: "Program") -> None:
        for name in _DISTRIBUTED:
            setattr(self, name, getattr(other, name))

    def _copy_data_info_from(self, other: "Program", *unused) -> None:
        for var in other.global_block()._all_vars():
            mine = self.global_block().vars.get(var.name)
            if mine is not None:
                mine.is_data = var.is_data
                mine.stop_gradient = var.stop_gradient
                mine.need_check_feed = var.need_check_feed

    copy_param_info_from = _copy_param_info_from
    copy_data_info_from = _copy_data_info_from

    def _sync_with_cpp(self) -> None:
        """Nothing to do: the Program lives in the engine."""

    def to_string(self, throw_on_error: bool = True, with_details: bool = False) -> str:
        """The Program as text; `with_details` adds what only Python knows.

        Args:
            throw_on_error: has no effect.
            with_details: add what only Python knows.

        Returns:
            a text.
        """
        if not isinstance(throw_on_error, bool) or not isinstance(with_details, bool):
            raise TypeError("throw_on_error and with_details of to_string are bools.")
        if with_details:
            return "\n".join(block.to_string(throw_on_error, True) for block in self.blocks)
        return self._dump()

    def __str__(self) -> str:
        return self._dump()

    def __repr__(self) -> str:
        return self._dump()


# ---- the default Programs ----

_startup_program_ = Program()
_core._set_default_main(Program())


def default_startup_program() -> Program:
    """The Program that layers put initializers into."""
    return _startup_program_


def default_main_program() -> Program:
    """The Program that layers append to."""
    return _core._get_default_main()


def switch_main_program(program: Program) -> Program:
    """Makes `program` the default main Program; returns the one before."""
    before = _core._get_default_main()
    _core._set_default_main(program)
    return before


def switch_startup_program(program: Program) -> Program:
    """Makes `program` the default startup Program; returns the one before."""
    global _startup_program_
    before = _startup_program_
    _startup_program_ = program
    return before


@contextlib.contextmanager
def program_guard(main_program: Program, startup_program: Program | None = None) -> Iterator[None]:
    """Inside the `with` block, layers write into these Programs.

    Args:
        main_program: the Program that layers write to.
        startup_program: the Program that gets the ops which fill parameters; None: the default one stays.
    """
    for what, program in (("main_program", main_program), ("startup_program", startup_program)):
        if not isinstance(program, Program) and (program is not None or what == "main_program"):
            raise TypeError(f"program_guard: {what} must be a Program, found {program!r}.")
    main = switch_main_program(main_program)
    startup = switch_startup_program(startup_program) if startup_program is not None else None
    try:
        yield
    finally:
        switch_main_program(main)
        if startup is not None:
            switch_startup_program(startup)


def _get_var(name: str, program: Program | None = None) -> Variable:
    """A variable of block 0 of the Program (or the default main one)."""
    if not isinstance(name, str):
        raise TypeError(f"The name of a variable is a str, found {name!r}.")
    return (default_main_program() if program is None else program).global_block().var(name)


get_var = _get_var


def grad_var_name(var_name: str) -> str:
    """The name of a variable's gradient."""
    return var_name + GRAD_VAR_SUFFIX


def generate_control_dev_var_name() -> str:
    return f"{CONTROL_DEP_VAR_PREFIX}@{unique_name.generate('')}"


# ---- dygraph, which is not here ----

_dygraph_tracer_ = None


def in_dygraph_mode() -> bool:
    """Always False: this package runs Programs."""
    return False


def _dygraph_tracer() -> None:
    return None


def dygraph_not_support(func: Callable) -> Callable:
    return func


def dygraph_only(func: Callable) -> Callable:
    """Marks a function that only dygraph has: calling it raises."""

    @functools.wraps(func)
    def refuse(*args, **kwargs):
        raise RuntimeError(f"{func.__qualname__} belongs to dygraph, which this package does not have.")

    return refuse


fake_interface_only = dygraph_only


# ---- places, versions, flags ----


def _cpu_num() -> int:
    given = os.environ.get("CPU_NUM", "1")
    try:
        return int(given)
    except ValueError:
        raise ValueError(f"CPU_NUM in the environment must be a number of places, found {given!r}.") from None


def cpu_places(device_count: int | None = None) -> list:
    """One CPUPlace per worker; CPU_NUM in the environment says how many when nothing is given.

    Args:
        device_count: how many; None: as CPU_NUM says, else 1.

    Returns:
        a list of CPUPlaces.
    """
    return [core.CPUPlace()] * (_cpu_num() if device_count is None else device_count)


def cuda_places(device_ids: list[int] | None = None) -> list:
    """The GPUs; raises, as this build has none.

    Args:
        device_ids: numbers of GPUs.
    """
    return [core.CUDAPlace(0)]


def cuda_pinned_places(device_count: int | None = None) -> list:
    """Memory that GPUs can read; raises, as this build has no GPU.

    Args:
        device_count: how many.
    """
    return [core.CUDAPinnedPlace()]


def require_version(min_version: str, max_version: str | None = None) -> None:
    """Raises unless the Paddle whose names we follow lies between the two versions.

    Args:
        min_version: the oldest version that will do, e.g. '1.6.0'.
        max_version: the newest one; None: any.
    """
    from paddle import version

    def parts(text: str, what: str) -> list:
        if not isinstance(text, str):
            raise TypeError(f"require_version: {what} must be a str, found {text!r}.")
        numbers = text.split(".")
        if not 1 <= len(numbers) <= 4 or not all(number.isdigit() for number in numbers):
            raise ValueError(f"require_version: {what} must look like '1.5.2.0', found {text!r}.")
        return [int(number) for number in numbers] + [0] * (4 - len(numbers))

    here = parts(version.full_version, "the installed version")
    least = parts(min_version, "min_version")
    most = None if max_version is None else parts(max_version, "max_version")
    if here < least or (most is not None and here > most):
        wanted = f"at least {min_version}" + (f" and at most {max_version}" if most else "")
        raise Exception(f"The script needs Paddle {wanted}; this package follows {version.full_version}.")


def set_flags(flags: dict) -> None:
    """Sets run-time flags: set_flags({'FLAGS_check_nan_inf': True}).

    Args:
        flags: {name: value}; names with or without FLAGS_.
    """
    if not isinstance(flags, dict):
        raise TypeError(f"set_flags takes a dict, found {flags!r}.")
    for name, value in flags.items():
        core.globals()[name] = value


def get_flags(flags: str | list[str]) -> dict:
    """The values of run-time flags: get_flags(['FLAGS_check_nan_inf']).

    Args:
        flags: a name, or a list of names.

    Returns:
        {name: value}.
    """
    if isinstance(flags, str):
        flags = [flags]
    if not isinstance(flags, (list, tuple)):
        raise TypeError(f"get_flags takes a name or a list of names, found {flags!r}.")
    return {name: core.globals()[name] for name in flags}


def load_op_library(lib_filename: str) -> None:
    """Ops from a library of the user's; they are compiled against upstream's C++ and cannot work here.

    Args:
        lib_filename: the library.
    """
    raise RuntimeError(
        f"load_op_library({lib_filename!r}): ops compiled for upstream's C++ cannot be loaded. An op is "
        "added in C, as the docs tell."
    )


def get_all_op_protos() -> list:
    """The descriptions of all ops."""
    return core.get_all_op_protos()


def _current_expected_place():
    return core.CPUPlace()


def __getattr__(name: str):
    absent.refuse(__name__, name)
