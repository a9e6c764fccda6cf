"""Saving and loading: single variables, all parameters, inference models, and fluid.save / fluid.load.

The files are upstream's. Variables are written and read by the ops save, load, save_combine and load_combine
in a small Program made for it.
"""

from __future__ import annotations

import importlib
import os
import warnings
from typing import Callable

from paddle import absent
from paddle.fluid import core, data_passes, io_check, io_distributed, io_table_parts, shown, suggest
from paddle.fluid.executor import Executor, global_scope  # noqa: F401
from paddle.fluid.framework import Parameter, Program, Variable, default_main_program, program_guard
from paddle.fluid.vartype import VarType

__all__ = [
    "save_vars",
    "save_params",
    "save_persistables",
    "load_vars",
    "load_params",
    "load_persistables",
    "save_inference_model",
    "load_inference_model",
    "batch",
    "save",
    "load",
    "load_program_state",
    "set_program_state",
    "get_program_parameter",
    "get_program_persistable_vars",
]

_NEVER_SAVED = (VarType.FEED_MINIBATCH, VarType.FETCH_LIST, VarType.READER)
_CHECKPOINTS = frozenset("""
    save_checkpoint load_checkpoint clean_checkpoint get_latest_checkpoint_serial save_trainer_args
    load_trainer_args save_persist_vars_without_grad load_persist_vars_without_grad
    """.split())
_SAVED_STATE = ("save", "load", "load_program_state", "set_program_state")


def __getattr__(name: str):
    """fluid.io also has the readers: DataLoader, PyReader, and the functions of paddle.reader."""
    if name in _SAVED_STATE:
        return getattr(importlib.import_module("paddle.fluid.io_state"), name)
    if name in _CHECKPOINTS:
        return getattr(importlib.import_module("paddle.fluid.io_checkpoint"), name)
    if name == "batch":
        return importlib.import_module("paddle").batch
    for home in ("paddle.fluid.reader", "paddle.reader"):
        module = importlib.import_module(home)
        if name in getattr(module, "__all__", ()):
            return getattr(module, name)
    absent.refuse(__name__, name)


# ---- which variables ----


def is_parameter(var: Variable) -> bool:
    """Is it a Parameter?"""
    return isinstance(var, Parameter)


def is_persistable(var: Variable) -> bool:
    """Does it live in the scope, from run to run?"""
    return var.type not in _NEVER_SAVED and var.persistable


def is_belong_to_optimizer(var: Variable) -> bool:
    """Is it persistable, but no Parameter: a moment, a learning rate?"""
    return not isinstance(var, Parameter) and not var.need_check_feed and is_persistable(var)


def get_program_parameter(program: Program) -> list:
    """All Parameters of a Program.

    Args:
        program: a Program.

    Returns:
        a list of Parameters.
    """
    return [var for var in program.list_vars() if is_parameter(var)]


def get_program_persistable_vars(program: Program) -> list:
    """All persistable variables of a Program.

    Args:
        program: a Program.

    Returns:
        a list of Variables.
    """
    return [var for var in program.list_vars() if is_persistable(var)]


def _valid_program(program) -> Program:
    if program is None:
        return default_main_program()
    from paddle.fluid.compiler import CompiledProgram

    if isinstance(program, CompiledProgram):
        return program._program
    if not isinstance(program, Program):
        raise TypeError(f"main_program must be a Program, found {shown.found(program)}.")
    return program


_get_valid_program = _valid_program


def _clone_var_in_block_(block, var: Variable) -> Variable:
    """The same variable in the block of a Program that saves or loads it."""
    return block.create_var(
        name=var.name,
        shape=var.shape,
        dtype=var.dtype if var._has_dtype else None,
        type=var.type,
        lod_level=var.lod_level if var.type == VarType.LOD_TENSOR else None,
        persistable=True,
    )


def _chosen(main_program, vars, predicate) -> list:
    if vars is None:
        chosen = _valid_program(main_program).list_vars()
        vars = chosen if predicate is None else filter(predicate, chosen)
    unique = {}
    for var in vars:
        if isinstance(var, str):
            var = _valid_program(main_program).global_block().var(var)
        if not isinstance(var, Variable):
            raise TypeError(
                f"vars holds Variables or their names, found {shown.found(var)}."
            )
        if var.type != VarType.RAW:
            unique.setdefault(var.name, var)
    return list(unique.values())


def _folder_of(dirname, filename) -> str | None:
    """Where files go; None: to memory."""
    if dirname is None and filename is None:
        return None
    return os.path.normpath(dirname) if dirname else "."


# ---- variables ----


def save_vars(
    executor: Executor, dirname: str | None, main_program: Program | None = None, vars: list | None = None,
    predicate: Callable | None = None, filename: str | None = None
):
    """Writes variables into `dirname`: a file for each, or all into the one file `filename`.

    vars: Variables or names; without it, those of main_program that `predicate` accepts. With neither
    dirname nor filename the bytes of the one file are returned.

    Args:
        executor: an Executor.
        dirname: the folder.
        main_program: whose variables they are; None: the default main program.
        vars: Variables or names; None: those that predicate accepts.
        predicate: a function of a Variable that says whether it is written.
        filename: one file for all; None: a file for each.
    """
    io_check.check_order(executor, dirname, "executor, dirname")
    if dirname and data_passes.is_passing_over(f"saving to {dirname!r}"):
        return None
    chosen = _chosen(main_program, vars, predicate)
    owner = io_distributed.knowing(_valid_program(main_program))
    if io_distributed.is_trainer(owner):
        return io_distributed.save(executor, _folder_of(dirname, filename), owner, chosen, filename, [])
    if not chosen:
        warnings.warn("save_vars: there is no variable to save.", stacklevel=2)
        return None
    folder = _folder_of(dirname, filename)
    if folder is None:
        return b"".join(_tensor_of(var.name)._serialize() for var in sorted(chosen, key=lambda var: var.name))
    if filename is None:
        io_check.need_own_files(folder, [var.name for var in chosen])
    program = Program()
    block = program.global_block()
    copies = {var.name: _clone_var_in_block_(block, var) for var in chosen}
    if filename is None:
        for name, var in copies.items():
            path = os.path.join(folder, name)
            block.append_op(type="save", inputs={"X": [var]}, attrs={"file_path": path})
    else:
        path = os.path.join(folder, filename)
        ordered = [copies[name] for name in sorted(copies)]
        block.append_op(type="save_combine", inputs={"X": ordered}, attrs={"file_path": path})
    with io_table_parts.replaced(folder, list(copies) if filename is None else []):
        executor.run(program)
    return None


def save_params(executor: Executor, dirname: str | None, main_program: Program | None = None, filename: str | None = None):
    """Writes all Parameters.

    Args:
        executor: an Executor.
        dirname: the folder.
        main_program: whose Parameters they are; None: the default main program.
        filename: one file for all; None: a file for each.
    """
    return save_vars(executor, dirname, main_program, predicate=is_parameter, filename=filename)


def save_persistables(executor: Executor, dirname: str | None, main_program: Program | None = None, filename: str | None = None):
    """Writes all persistable variables: Parameters, moments, learning rates, statistics.

    In a job with servers every trainer writes all of them: what it holds, and what lies on the servers; a distributed table is
    written by the servers.

    Args:
        executor: an Executor.
        dirname: the folder.
        main_program: whose variables they are; None: the default main program.
        filename: one file for all; None: a file for each.
    """
    io_check.check_order(executor, dirname, "executor, dirname")
    program = _valid_program(main_program)
    if not io_distributed.is_trainer(program):
        return save_vars(executor, dirname, main_program, predicate=is_persistable, filename=filename)
    if dirname and data_passes.is_passing_over(f"saving to {dirname!r}"):
        return None
    chosen = _chosen(program, None, is_persistable)
    states = io_distributed.lasting_on_servers(program)
    return io_distributed.save(executor, _folder_of(dirname, filename), program, chosen, filename, states)


def _tensor_of(name: str):
    holder = global_scope().find_var(name)
    if holder is None:
        raise core.NotFoundError(
            f"The scope has no variable {name!r}. Run the startup Program first, or load its value."
        )
    tensor = holder.get_tensor()
    if tensor.shape() and 0 not in tensor.shape() and not tensor._is_initialized():
        raise core.InvalidArgumentError(
            f"The variable {name!r} has a shape here, but no values. In a job with servers they lie there: "
            "use the trainer's Program, or a copy of it that is made after transpile."
        )
    return tensor


def _load_from_memory(chosen: list, data: bytes) -> None:
    view = memoryview(data)
    for var in sorted(chosen, key=lambda var: var.name):
        used = global_scope().var(var.name).get_tensor()._parse(view)
        view = view[used:]
    if len(view):
        raise core.FormatError(
            f"{len(view)} bytes are left after {len(chosen)} variables: they belong to other ones."
        )


def _check_shapes(chosen: list, where: str) -> None:
    for var in chosen:
        if isinstance(var, Parameter):
            found = tuple(_tensor_of(var.name).shape())
            if found != var.shape:
                raise core.ShapeError(
                    f"Parameter {var.name!r} has shape {var.shape} in the Program, but {found} in {where}. "
                    "Load files that belong to this Program."
                )


def load_vars(
    executor: Executor, dirname: str | None, main_program: Program | None = None, vars: list | None = None,
    predicate: Callable | None = None, filename: str | None = None
):
    """Reads variables from `dirname`: a file for each, or all from the one file `filename`.

    With dirname None, filename holds the bytes of such a file. A server (main_program is its Program; call it
    after the startup Program) reads its slices of the whole variables.

    Args:
        executor: an Executor.
        dirname: the folder.
        main_program: whose variables they are; None: the default main program.
        vars: Variables or names; None: those that predicate accepts.
        predicate: a function of a Variable that says whether it is read.
        filename: the one file of all; None: a file for each.
    """
    io_check.check_order(executor, dirname, "executor, dirname")
    owner = _valid_program(main_program)
    if io_distributed.is_job_server(owner) and dirname is not None:
        wanted = io_distributed.of_whole(owner, vars, predicate)
        if wanted is not None:
            io_distributed.load_server(executor, dirname, owner, wanted, filename)
            return
    chosen = _chosen(main_program, vars, predicate)
    if io_distributed.is_trainer(owner) and dirname is not None:
        _load_as_trainer(executor, dirname, owner, chosen, filename, [])
        return
    _load(executor, dirname, chosen, filename)


def _load_as_trainer(executor, dirname, program: Program, chosen: list, filename, states: list) -> None:
    mine = io_distributed.without_remote(program, chosen)
    how = "fluid.io.load_params, load_vars or load_persistables with the server's Program"
    io_distributed.tell_of_tables(program, chosen, how)
    if filename is None:
        _load(executor, dirname, mine, None)
    else:
        path = os.path.join(dirname, filename)
        io_distributed.load_joined(executor, path, program, chosen, states)
        _check_shapes(mine, repr(path))


def _load(executor, dirname, chosen: list, filename) -> None:
    if not chosen:
        return
    if dirname is None:
        if filename is None:
            raise ValueError("load_vars needs a dirname, or the bytes of a file as filename.")
        _load_from_memory(chosen, filename)
        _check_shapes(chosen, "the bytes")
        return
    program = Program()
    block = program.global_block()
    tables = {var.name: var for var in chosen if filename is None and _is_in_parts(dirname, var)}
    io_check.need_files(dirname, [var.name for var in chosen if var.name not in tables], filename)
    copies = {var.name: _clone_var_in_block_(block, var) for var in chosen if var.name not in tables}
    if filename is None:
        for name, var in copies.items():
            path = os.path.join(dirname, name)
            block.append_op(type="load", outputs={"Out": [var]}, attrs={"file_path": path})
    else:
        path = os.path.join(dirname, filename)
        ordered = [copies[name] for name in sorted(copies)]
        block.append_op(type="load_combine", outputs={"Out": ordered}, attrs={"file_path": path})
    if filename is None:
        for var in chosen:
            io_table_parts.check_whole(executor, dirname, var)
    executor.run(program)
    for name, var in tables.items():
        value = io_table_parts.read_table(executor, dirname, name, var.shape)
        global_scope().var(name).get_tensor().set(value, core.CPUPlace())
    _check_shapes(chosen, repr(os.path.join(dirname, filename or "")))


def _is_in_parts(dirname, var: Variable) -> bool:
    """A table that the servers of a job wrote, each its part."""
    if os.path.exists(os.path.join(dirname, var.name)) or not isinstance(var, Parameter):
        return False
    return bool(io_table_parts.table_parts(dirname, var.name))


def load_params(executor: Executor, dirname: str | None, main_program: Program | None = None, filename: str | None = None) -> None:
    """Reads all Parameters.

    Args:
        executor: an Executor.
        dirname: the folder.
        main_program: whose Parameters they are; None: the default main program.
        filename: the one file of all; None: a file for each.
    """
    load_vars(executor, dirname, main_program, predicate=is_parameter, filename=filename)


def load_persistables(executor: Executor, dirname: str | None, main_program: Program | None = None,
                      filename: str | None = None) -> None:
    """Reads all persistable variables.

    A server (main_program is its Program; call it after the startup Program) reads its slices out of the same
    files.

    Args:
        executor: an Executor.
        dirname: the folder.
        main_program: whose variables they are; None: the default main program.
        filename: the one file of all; None: a file for each.
    """
    io_check.check_order(executor, dirname, "executor, dirname")
    program = _valid_program(main_program)
    if io_distributed.is_job_server(program):
        if dirname is None:
            raise ValueError("a server loads from files, not from bytes; give dirname.")
        wanted = io_distributed.all_of_whole(program, is_persistable) if filename is not None else None
        io_distributed.load_server(executor, dirname, program, wanted, filename)
        return
    if io_distributed.is_trainer(program) and dirname is not None:
        states = io_distributed.lasting_on_servers(program)
        chosen = _chosen(program, None, is_persistable)
        _load_as_trainer(executor, dirname, program, chosen, filename, states)
        return
    load_vars(executor, dirname, main_program, predicate=is_persistable, filename=filename)


def get_parameter_value(para: Parameter, executor: Executor):
    """The value of a Parameter, as an array."""
    if not is_parameter(para):
        raise TypeError(f"get_parameter_value takes a Parameter, found {para!r}.")
    program = Program()
    var = _clone_var_in_block_(program.global_block(), para)
    return executor.run(program, fetch_list=[var])[0]


def get_parameter_value_by_name(name: str, executor: Executor, program: Program | None = None):
    """The value of the Parameter of that name, as an array."""
    return get_parameter_value(_valid_program(program).global_block().var(name), executor)


# ---- inference models ----


def prepend_feed_ops(
    inference_program: Program, feed_target_names: list, feed_holder_name: str = "feed"
) -> None:
    """Puts a feed op in front for each name."""
    if not feed_target_names:
        return
    block = inference_program.global_block()
    holder = block.create_var(name=feed_holder_name, type=VarType.FEED_MINIBATCH, persistable=True)
    for i, name in enumerate(feed_target_names):
        block._prepend_op(
            type="feed", inputs={"X": [holder]}, outputs={"Out": [block.var(name)]}, attrs={"col": i}
        )


def append_fetch_ops(
    inference_program: Program, fetch_target_names: list, fetch_holder_name: str = "fetch"
) -> None:
    """Appends a fetch op for each name."""
    block = inference_program.global_block()
    holder = block.create_var(name=fetch_holder_name, type=VarType.FETCH_LIST, persistable=True)
    for i, name in enumerate(fetch_target_names):
        block.append_op(type="fetch", inputs={"X": [name]}, outputs={"Out": [holder]}, attrs={"col": i})


def _named_targets(program: Program, target_vars: list) -> list:
    """One scale op by 1 after each target, so that the model's outputs have names of their own."""
    from paddle.fluid import layers

    block = program.global_block()
    with program_guard(program):
        return [
            layers.scale(block.var(var.name), 1.0, name=f"save_infer_model/scale_{i}")
            for i, var in enumerate(target_vars)
        ]


def _without_feed_fetch(program: Program) -> None:
    program._remove_parts([op for op in program.global_block().ops if op.type in ("feed", "fetch")])


def _aside(path: str) -> str:
    """Where the file is while it is written. Of a long name only the start is kept: this one must not be too long where that one is
    not."""
    folder, name = os.path.split(path)
    start = os.fsencode(name)[:64].decode(errors="ignore")
    return os.path.join(folder, f"{start}.{os.urandom(8).hex()}.part")  # processes of several machines may write into one folder


def _write(path: str, data: bytes) -> None:
    """Writes aside, then renames: there is never half a file under the name."""
    aside = _aside(path)
    try:
        with open(aside, "wb") as file:
            file.write(data)
        os.replace(aside, path)
    except OSError as error:
        if os.path.exists(aside):
            os.unlink(aside)
        raise core.FileError(f"{path!r} cannot be written: {error.strerror or error}.") from None


def _make_folder(folder: str) -> None:
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise core.FileError(f"The folder {folder!r} cannot be made: {error.strerror or error}.") from None


def save_inference_model(
    dirname: str,
    feeded_var_names: list[str],
    target_vars: list,
    executor: Executor,
    main_program: Program | None = None,
    model_filename: str | None = None,
    params_filename: str | None = None,
    export_for_deployment: bool = True,
    program_only: bool = False,
) -> list:
    """Writes what is needed to compute `target_vars` from the named feeds: the Program and its persistables.

    Returns the names of the model's outputs. Files: `__model__` (or model_filename), and a file for each
    variable (or params_filename).

    Args:
        dirname: the folder.
        feeded_var_names: the names that will be fed.
        target_vars: the Variables that will be fetched.
        executor: an Executor.
        main_program: what to cut the model from; None: the default main program.
        model_filename: the file of the Program; None: '__model__'.
        params_filename: one file for all variables; None: a file for each.
        export_for_deployment: leave out what only training needs.
        program_only: write the Program alone.

    Returns:
        the names of the model's outputs.

    >>> predicted = fluid.layers.fc(fluid.data(name='x', shape=[None, 2]), 1)
    >>> exe = fluid.Executor()
    >>> exe.run(fluid.default_startup_program())
    []
    >>> fluid.io.save_inference_model('model', ['x'], [predicted], exe)
    ['save_infer_model/scale_0.tmp_0']
    """
    io_check.check_order(executor, dirname, "dirname, feeded_var_names, target_vars, executor")
    feeds = [feeded_var_names] if isinstance(feeded_var_names, str) else list(feeded_var_names)
    targets = [target_vars] if isinstance(target_vars, Variable) else list(target_vars)
    if data_passes.is_passing_over(f"saving the model {dirname!r}"):
        return [var.name for var in targets]
    if not all(isinstance(name, str) for name in feeds):
        raise ValueError(f"feeded_var_names is a list of names (str), found {feeded_var_names!r}.")
    if (export_for_deployment and not targets) or not all(isinstance(var, Variable) for var in targets):
        raise ValueError(f"target_vars is a list of Variables with at least one, found {target_vars!r}.")
    program = io_distributed.knowing(_valid_program(main_program)).clone()
    if any(op.type == "auc" for op in program.global_block().ops):
        warnings.warn(
            "The model has an auc op: its state is saved as it is. Set it to zeros before.", stacklevel=2
        )
    block = program.global_block()
    for name in feeds:
        if not block.has_var(name):
            hint = suggest.did_you_mean(name, block.vars)
            data = ", ".join(var.name for var in block.vars.values() if var.is_data)
            raise ValueError(
                f"save_inference_model: feeded_var_names has {name!r}, which the Program has not.{hint} "
                f"{f'It declares the data {data}.' if data else 'It declares no data.'}"
            )
    _without_feed_fetch(program)
    if io_distributed.is_trainer(program):
        io_distributed.own_lookups(program)
    outputs = [var.name for var in _named_targets(program, targets)]
    folder = os.path.normpath(dirname)
    model = os.path.basename(model_filename) if model_filename else "__model__"
    name = os.path.basename(params_filename) if params_filename else None
    if export_for_deployment:
        program = program._prune_with_input(feeds, outputs)._inference_optimize(prune_read_op=True)
        prepend_feed_ops(program, feeds)
        append_fetch_ops(program, outputs)
    else:
        model = f"{model}.main_program"
    has_values = not program_only and bool(get_program_persistable_vars(program))
    if has_values:
        _check_model_files(folder, model, name, _chosen(program, None, is_persistable))
    _make_folder(folder)
    _write(os.path.join(folder, model), program._serialize())
    if has_values:
        save_vars(executor, folder, program, predicate=is_persistable, filename=name)
    return outputs


def _check_model_files(folder: str, model: str, params: str | None, chosen: list) -> None:
    """Nothing is written over the Program's file: neither the one file of all variables, nor that of one of them."""
    path = os.path.join(folder, model)
    if params is None:
        io_check.need_own_files(folder, [var.name for var in chosen], {model: "the file of the Program"}, "params_filename")
    elif params == model:
        raise core.InvalidArgumentError(
            f"save_inference_model: params_filename is {params!r}, and the variables would be written over the Program, "
            f"which is in {path!r}. Give params_filename another name."
        )


def get_inference_program(target_vars: list, main_program: Program | None = None) -> Program:
    """A copy of the Program that has only what the targets need, set to test."""
    targets = target_vars if isinstance(target_vars, list) else [target_vars]
    names = []
    for target in targets:
        names.extend(getattr(target, "states", []) + getattr(target, "metrics", []) or [target])
    return _valid_program(main_program)._prune(names)._inference_optimize()


def load_inference_model(
    dirname: str | None, executor: Executor, model_filename: str | None = None, params_filename: str | None = None,
    pserver_endpoints: list[str] | None = None
) -> list:
    """Reads what save_inference_model wrote: [Program, names to feed, Variables to fetch].

    With dirname None, model_filename and params_filename hold the bytes of the files.

    Args:
        dirname: the folder.
        executor: an Executor.
        model_filename: the file of the Program; None: '__model__'.
        params_filename: the one file of all variables; None: a file for each.
        pserver_endpoints: the servers of a distributed lookup table.

    Returns:
        [Program, names to feed, Variables to fetch].
    """
    io_check.check_order(executor, dirname, "dirname, executor")
    if dirname is None:
        if model_filename is None or params_filename is None:
            raise ValueError(
                "With dirname None, model_filename and params_filename must hold the files' bytes."
            )
        data, params = model_filename, params_filename
    else:
        folder = os.path.normpath(dirname)
        if not os.path.isdir(folder):
            raise ValueError(f"There is no folder {dirname!r} to load an inference model from.")
        name = os.path.basename(model_filename) if model_filename else "__model__"
        io_check.need_model(folder, name)
        path = os.path.join(folder, name)
        params = os.path.basename(params_filename) if params_filename else None
        try:
            with open(path, "rb") as file:
                data = file.read()
        except OSError as error:
            raise core.FileError(f"The model {path!r} cannot be read: {error.strerror or error}.") from None
    try:
        program = Program.parse_from_string(data)
    except core.FormatError as error:
        where = "the bytes given" if dirname is None else repr(path)
        raise core.FormatError(f"{where} holds no inference model: {error}") from None
    load_persistables(executor, dirname, program, params)
    if pserver_endpoints:
        for op in program.global_block().ops:
            if op._attr("epmap") is not None:
                op._put_attr("epmap", pserver_endpoints)
    feeds = {op.attr("col"): op.output("Out")[0] for op in program.global_block().ops if op.type == "feed"}
    fetches = {op.attr("col"): op.input("X")[0] for op in program.global_block().ops if op.type == "fetch"}
    targets = [program.global_block().var(fetches[i]) for i in sorted(fetches)]
    return [program, [feeds[i] for i in sorted(feeds)], targets]


suggest.make_helpful(__all__, globals())
