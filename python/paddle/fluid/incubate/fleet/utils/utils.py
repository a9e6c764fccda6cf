"""Programs in files: reading, writing, listing and comparing them."""

from __future__ import annotations

import logging
import os
import subprocess
from typing import Any

import numpy as np

from paddle.fluid import core, debugger, io
from paddle.fluid.executor import Executor, scope_guard
from paddle.fluid.framework import Block, Program, Variable
from paddle.fluid.lod_tensor import create_lod_tensor
from paddle.fluid.log_helper import get_logger
from paddle.fluid.proto.program_message import ProgramDesc
from paddle.fluid.proto.table_message import TextError
from paddle.fluid.vartype import VarType

__all__ = [
    "load_program",
    "save_program",
    "program_type_trans",
    "check_saved_vars_try_dump",
    "parse_program",
    "check_pruned_program_vars",
    "graphviz",
]

_logger = get_logger(__name__, logging.INFO, fmt="%(asctime)s - %(levelname)s - %(message)s")
_FEED_FETCH = (VarType.FEED_MINIBATCH, VarType.FETCH_LIST)


def load_program(model_filename: str, is_text: bool = False) -> Program:
    """The Program of a file.

    Args:
        model_filename: a file such as `__model__`.
        is_text: it is protobuf's text.
    """
    with open(model_filename, "rb") as file:
        data = file.read()
    if is_text:
        message = ProgramDesc()
        try:
            message.merge_text(data.decode(errors="surrogateescape"))
        except TextError as error:
            raise ValueError(f"{model_filename} is no text of a Program: {error}") from None
        data = message.SerializeToString()
    return Program.parse_from_string(data)


def save_program(program: Program, model_filename: str = "__model__", is_text: bool = False) -> None:
    """Writes a Program.

    Args:
        program: the Program.
        model_filename: the file.
        is_text: as protobuf's text.
    """
    data = program.desc.serialize_to_string()
    if is_text:
        message = ProgramDesc()
        message.merge_bytes(data)
        data = str(message).encode(errors="surrogateescape")
    with open(model_filename, "wb") as file:
        file.write(data)


def program_type_trans(prog_dir: str, prog_fn: str, is_text: bool) -> str:
    """Writes a Program in the other form beside its file; returns the new name.

    Args:
        prog_dir: the folder.
        prog_fn: the file.
        is_text: which form it has.
    """
    program = load_program(os.path.join(prog_dir, prog_fn), is_text)
    name = f"{prog_fn}.{'bin' if is_text else 'pbtxt'}"
    save_program(program, os.path.join(prog_dir, name), not is_text)
    return name


def check_pruned_program_vars(train_prog: Program, pruned_prog: Program) -> bool:
    """Have the lasting variables of a pruned Program the shapes and types that the whole one gives them? What differs is logged.

    Args:
        train_prog: the whole one.
        pruned_prog: the one that was cut from it.
    """
    same, known = True, train_prog.global_block().vars
    for var in filter(io.is_persistable, pruned_prog.list_vars()):
        if var.type in _FEED_FETCH:
            continue
        whole = known.get(var.name)
        if whole is None:
            _logger.error("not find variable '%s' in train program. please check pruning.", var.name)
        elif (whole.shape, whole.dtype) != (var.shape, var.dtype):
            _logger.error("variable: %s not match. in pruned program shape: %s dtype:%s, in train program shape: %s dtype: %s",
                          var.name, var.shape, var.dtype, whole.shape, whole.dtype)
            same = False
    return same


def check_saved_vars_try_dump(dump_dir: str, dump_prog_fn: str, is_text_dump_program: bool, feed_config: Any, fetch_config: Any,
                              batch_size: int = 1, save_filename: str | None = None) -> list:
    """Loads a saved model and runs it once. What does not fit raises; what may be wrong, and the results, are logged.

    Args:
        dump_dir: its folder.
        dump_prog_fn: the file of its Program.
        is_text_dump_program: which form that has.
        feed_config: what to feed: lists feeded_vars_names, feeded_vars_dims (of a sample: a number, or several), feeded_vars_types
            and feeded_vars_filelist (files of numbers; None: random ones are fed).
        fetch_config: has fetch_vars_names, what to fetch; None: what the Program says.
        batch_size: samples to feed; a line of a file has one batch after another.
        save_filename: one file of all parameters.

    Returns:
        what was fetched.
    """
    if is_text_dump_program:
        dump_prog_fn = program_type_trans(dump_dir, dump_prog_fn, True)
    executor = Executor(core.CPUPlace())
    with scope_guard(core.Scope()):
        program, feeds, fetches = io.load_inference_model(dump_dir, executor, dump_prog_fn, save_filename)
        block = program.global_block()
        if any(op.type == "lookup_table" for op in block.ops):
            _logger.warning("the Program has an op lookup_table; please check that it was pruned as it should be.")
        names, shapes = list(feed_config.feeded_vars_names), list(feed_config.feeded_vars_dims)
        targets = fetches if fetch_config.fetch_vars_names is None else [block.var(name) for name in fetch_config.fetch_vars_names]
        for what, has, wanted in (("feed", feeds, names), ("fetch", [var.name for var in fetches], [var.name for var in targets])):
            if has != wanted:
                _logger.warning("the Program says to %s %s, and the configuration %s.", what, has, wanted)
                for index in reversed([index for index, op in enumerate(block.ops) if op.type == what]):
                    block._remove_op(index)
        files = feed_config.feeded_vars_filelist or [None] * len(names)
        feed = {name: _fed(block.var(name), shape, dtype, file, batch_size)
                for name, shape, dtype, file in zip(names, shapes, feed_config.feeded_vars_types, files, strict=True)}
        found = executor.run(program, feed=feed, fetch_list=targets, return_numpy=all(var.lod_level == 0 for var in targets))
    for var, value in zip(targets, found):
        _logger.info("fetch_targets name: %s\nfetch_targets: %s", var.name, value)
    return found


def _fed(var: Variable, shape: Any, dtype: Any, file: str | None, batch_size: int) -> Any:
    """A batch of a variable, from a file or at random."""
    shape = tuple(shape) if isinstance(shape, (list, tuple)) else (shape,)
    if shape != tuple(var.shape[1:]):
        raise ValueError(f"the samples of {var.name!r} have shape {tuple(var.shape[1:])} in the Program, and {shape} in "
                         "feeded_vars_dims.")
    if var.lod_level > 1:
        raise ValueError(f"{var.name!r} has {var.lod_level} levels of sequences; this check feeds one at most.")
    if file is None:
        value = np.random.random((batch_size, *shape))
    else:
        size = batch_size * int(np.prod(shape))
        with open(file, encoding="utf-8") as lines:
            rows = [np.array(line.split(), "float64") for line in lines]
        value = np.concatenate([row[: len(row) // size * size] for row in rows] or [np.zeros(0)]).reshape(-1, *shape)
        if not len(value):
            raise ValueError(f"no line of {file} has the {size} numbers of a batch of {batch_size} for {var.name!r}.")
    value = value.astype(dtype)
    return value if var.lod_level == 0 else create_lod_tensor(value, [[1] * len(value)], core.CPUPlace())


def graphviz(block: Block, output_dir: str = "", filename: str = "debug") -> None:
    """Draws a block: a .dot file, and a .pdf where the command `dot` is installed.

    Args:
        block: the block.
        output_dir: the folder.
        filename: the name of both files, without ending.
    """
    dot, pdf = (os.path.join(output_dir, f"{filename}.{ending}") for ending in ("dot", "pdf"))
    debugger.draw_block_graphviz(block, path=dot)
    try:
        subprocess.run(["dot", "-Tpdf", dot, "-o", pdf], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        _logger.warning("%s is there; %s was not made of it: %s", dot, pdf, error)


def parse_program(program: Program, output_dir: str) -> None:
    """Lists a Program in the files vars_persistable.log, vars_all.log and ops.log.

    Args:
        program: the Program.
        output_dir: their folder.
    """
    every = list(program.list_vars())
    rows = {
        "vars_persistable.log": ("persistable vars:", [
            {"name": var.name, "shape": str(var.shape), "lod_level": var.lod_level, "dtype": str(var.dtype), "type": str(var.type)}
            for var in every if io.is_persistable(var)]),
        "vars_all.log": ("all vars:", [
            {"name": var.name, "type": str(var.type)} if var.type in _FEED_FETCH else
            {"name": var.name, "shape": str(var.shape), "lod_level": var.lod_level, "dtype": str(var.dtype)} for var in every]),
        "ops.log": ("ops:", [
            {"type": op.type, "input_arg_names": str(op.input_arg_names), "output_arg_names": str(op.output_arg_names)}
            for op in program.global_block().ops]),
    }
    for name, (title, found) in rows.items():
        with open(os.path.join(output_dir, name), "w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in (title, *found))
