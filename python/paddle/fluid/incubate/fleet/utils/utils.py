"""Programs in files: reading, writing, listing and comparing them."""

from __future__ import annotations

import logging
import os
import subprocess
from typing import Any

from paddle.fluid import debugger, io
from paddle.fluid.framework import Block, Program
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
    """Runs a saved model once.

    Args:
        dump_dir: its folder.
        dump_prog_fn: the file of its Program.
        is_text_dump_program: which form that has.
        feed_config: what to feed.
        fetch_config: what to fetch.
        batch_size: samples to feed.
        save_filename: one file of all parameters.
    """
    raise NotImplementedError(
        "check_saved_vars_try_dump is not there yet: fluid.io.load_inference_model loads the model and says what does not fit, and "
        "Executor.run runs it."
    )


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
