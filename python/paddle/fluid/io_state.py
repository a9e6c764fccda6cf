"""fluid.save and load: a Program's parameters (.pdparams), optimizer state (.pdopt) and text (.pdmodel).

The first two are pickled dicts of arrays. Reading is limited to arrays: a pickle could otherwise run any
code.
"""

from __future__ import annotations

import os
import pickle
import pickletools
import warnings

import numpy as np

from paddle.fluid import core, data_passes, io_check, io_distributed, io_state_servers, shown
from paddle.fluid import io as fluid_io
from paddle.fluid.executor import Executor, global_scope, scope_guard
from paddle.fluid.framework import Program, Variable

_SUFFIXES = (".pdparams", ".pdopt", ".pdmodel")

# What a pickle of arrays is made of, under the names of old and new numpy.
_ALLOWED = {
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy.core.multiarray", "scalar"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "scalar"),
    ("_codecs", "encode"),
    ("collections", "OrderedDict"),
}


def _no_bytes(*args) -> bytes:
    """What old pickles call for an array without elements."""
    if args:
        raise core.FormatError("the file makes bytes of its own, which are no array")
    return b""


class _ArraysOnly(pickle.Unpickler):
    def find_class(self, module: str, name: str):
        if (module, name) in (("__builtin__", "bytes"), ("builtins", "bytes")):
            return _no_bytes
        if (module, name) not in _ALLOWED:
            raise core.FormatError(f"the file holds {module}.{name}, which is no array")
        if module.startswith("numpy.core") and int(np.__version__.split(".")[0]) >= 2:
            module = module.replace("numpy.core", "numpy._core")
        elif module.startswith("numpy._core") and int(np.__version__.split(".")[0]) < 2:
            module = module.replace("numpy._core", "numpy.core")
        return super().find_class(module, name)


def _read(path: str) -> dict:
    try:
        with open(path, "rb") as file:
            values = _ArraysOnly(file, encoding="latin1").load()
    except OSError as error:
        raise core.FileError(f"{path!r} cannot be read: {error.strerror or error}.") from None
    except Exception as error:
        raise core.FormatError(f"{path!r} is no file of fluid.save: {shown.sentence(str(error))}") from None
    if not isinstance(values, dict):
        raise core.FormatError(
            f"{path!r} is no file of fluid.save: it holds a {type(values).__name__}, not a dict."
        )
    return values


def _pickled(values: dict) -> bytes:
    """A pickle that old numpy reads too: numpy 2 has moved the function that makes arrays."""
    data = pickle.dumps(values, protocol=2)
    parts, at = [], 0
    for opcode, argument, position in pickletools.genops(data):
        if opcode.name == "GLOBAL" and argument.startswith("numpy._core."):
            end = data.index(b"\n", data.index(b"\n", position) + 1) + 1
            module, name = argument.split(" ")
            parts += [data[at:position], f"c{module.replace('numpy._core', 'numpy.core')}\n{name}\n".encode()]
            at = end
    return b"".join([*parts, data[at:]])


def _array(name: str) -> np.ndarray:
    return np.array(fluid_io._tensor_of(name))


def _values(program: Program, chosen: list, more: list[str] = ()) -> dict:
    """The values of variables, also of those that lie on servers."""
    away = io_state_servers.fetched(program, [*(var.name for var in chosen), *more])
    return {**{var.name: _array(var.name) for var in chosen if var.name not in away}, **away}


def _prefix(model_path: str) -> str:
    for suffix in _SUFFIXES:
        if model_path.endswith(suffix):
            return model_path[: -len(suffix)]
    return model_path


def save(program: Program, model_path: str) -> None:
    """Writes `model_path`.pdparams, .pdopt and .pdmodel.

    In a job with servers they are whole, too: what lies on servers is fetched.

    Args:
        program: whose parameters and states are written.
        model_path: the path without an ending.
    """
    if not os.path.basename(model_path):
        raise ValueError(
            f"fluid.save: the path must end in the first part of a file name, found {model_path!r}."
        )
    if data_passes.is_passing_over(f"saving {model_path!r}"):
        return
    program = io_distributed.knowing(program)
    if os.path.dirname(model_path):
        fluid_io._make_folder(os.path.dirname(model_path))
    params = _values(program, fluid_io.get_program_parameter(program))
    states = [var for var in program.list_vars() if fluid_io.is_belong_to_optimizer(var)]
    others = _values(program, states, io_state_servers.states(program))
    fluid_io._write(f"{model_path}.pdparams", _pickled(params))
    fluid_io._write(f"{model_path}.pdopt", _pickled(others))
    fluid_io._write(f"{model_path}.pdmodel", program._serialize())


def _of_one_shape(program: Program) -> set[str]:
    """Names of variables that have their declared shape at any time: parameters and what optimizer ops read. Others may
    change theirs: the counters of layers.auc(slide_steps=0) have one number more before their first batch.
    """
    trained = [op for block in program.blocks for op in block.ops if "Param" in op.input_names]
    states = {name for op in trained for name in op.input_arg_names}
    return states | {var.name for var in fluid_io.get_program_parameter(program)}


def _set(var: Variable, values: dict, path: str, is_checked: bool = True) -> None:
    if var.name not in values:
        raise core.NotFoundError(f"{path!r} has no value for {var.name!r}, which the Program needs.")
    array = np.asarray(values[var.name])
    if is_checked and -1 not in var.shape and array.shape != var.shape:
        raise core.ShapeError(
            f"{var.name!r} has shape {var.shape} in the Program, but {array.shape} in {path!r}."
        )
    global_scope().var(var.name).get_tensor().set(array, core.CPUPlace())


def load(
    program: Program, model_path: str, executor: Executor | None = None, var_list: list | None = None
) -> None:
    """Reads what fluid.save wrote, or a folder or file of save_params, save_persistables or save_vars.

    Those older files need an executor, and a single file also the list of variables in it. In a job with
    servers each trainer and server takes what it holds; call it after the startup Program.

    Args:
        program: whose variables are set.
        model_path: the path without an ending, or an older folder or file.
        executor: for older files.
        var_list: the Variables in an older single file.
    """
    prefix = _prefix(model_path)
    path = f"{prefix}.pdparams"
    if not os.path.exists(path):
        _load_older(program, model_path, executor, var_list, path)
        return
    values = _read(path)
    if io_state_servers.is_server(program):
        state = f"{prefix}.pdopt"
        io_state_servers.set_server(program, {**values, **_read(state)}, f"{path!r} or {state!r}")
        return
    params = fluid_io.get_program_parameter(program)
    io_state_servers.tell_of_tables(program, params, "fluid.load with the server's Program")
    for var in io_state_servers.held(program, params):
        _set(var, values, path)
    others = [var for var in program.list_vars() if fluid_io.is_belong_to_optimizer(var)]
    others = io_state_servers.held(program, others)
    if others:
        path = f"{prefix}.pdopt"
        values, checked = _read(path), _of_one_shape(program)
        for var in others:
            _set(var, values, path, var.name in checked)


def _load_older(program: Program, model_path: str, executor, var_list, wanted: str) -> None:
    if not os.path.exists(model_path):
        raise core.FileError(f"There is neither {wanted!r} nor {model_path!r}.{io_check.not_there(model_path)}")
    if executor is None:
        raise ValueError(
            f"There is no {wanted!r}. To load files of save_params and the like, give an executor."
        )
    if io_state_servers.is_server(program):
        folder, name = (model_path, None) if os.path.isdir(model_path) else os.path.split(model_path)
        if var_list is None:
            fluid_io.load_persistables(executor, folder, program, name)
        else:
            fluid_io.load_vars(executor, folder, program, vars=var_list, filename=name)
        return
    if os.path.isdir(model_path):
        found = [var for var in program.list_vars() if os.path.isfile(os.path.join(model_path, var.name))]
        fluid_io.load_vars(executor, model_path, program, vars=found)
        return
    if var_list is None:
        raise ValueError(f"To load the single file {model_path!r}, give var_list: the variables in it.")
    known = {var.name for var in program.list_vars()}
    for var in var_list:
        if var.name not in known:
            raise LookupError(f"{var.name!r} of var_list is not a variable of the Program.")
    folder, name = os.path.split(model_path)
    fluid_io.load_vars(executor, folder, program, vars=var_list, filename=name)


def load_program_state(model_path: str, var_list: list | None = None) -> dict:
    """{name: array} of what fluid.save, save_params, save_persistables or save_vars wrote.

    Args:
        model_path: the path without an ending, or an older folder or file.
        var_list: the Variables in an older single file.

    Returns:
        {name: array}.
    """
    prefix = _prefix(model_path)
    if os.path.exists(f"{prefix}.pdparams"):
        state = _read(f"{prefix}.pdparams")
        if os.path.exists(f"{prefix}.pdopt"):
            state.update(_read(f"{prefix}.pdopt"))
        return state
    if not os.path.exists(model_path):
        raise core.FileError(f"There is neither '{prefix}.pdparams' nor {model_path!r}.{io_check.not_there(model_path)}")
    if os.path.isfile(model_path) and var_list is None:
        raise ValueError(f"To read the single file {model_path!r}, give var_list: the variables in it.")
    block = Program().global_block()
    if var_list is not None:
        vars_ = [fluid_io._clone_var_in_block_(block, var) for var in var_list]
    else:
        names = [
            os.path.relpath(os.path.join(folder, name), model_path)
            for folder, _, names in os.walk(model_path)
            for name in names
        ]
        vars_ = [block.create_var(name=name.replace(os.sep, "/"), persistable=True) for name in sorted(names)]
    folder, name = os.path.split(model_path) if os.path.isfile(model_path) else (model_path, None)
    with scope_guard(core.Scope()):
        fluid_io.load_vars(Executor(), folder, block.program, vars=vars_, filename=name)
        return {var.name: _array(var.name) for var in vars_}


def set_program_state(program: Program, state_dict: dict) -> None:
    """Sets the persistable variables of a Program from {name: array}. Its startup Program must have run.

    Args:
        program: whose variables are set.
        state_dict: {name: array}.
    """
    if io_state_servers.is_server(program):
        io_state_servers.set_server(program, state_dict, "state_dict", set(state_dict))
        return
    unused, checked = set(state_dict), _of_one_shape(program)
    lasting = fluid_io.get_program_persistable_vars(program)
    given = [var for var in lasting if var.name in state_dict]
    io_state_servers.tell_of_tables(program, given, "set_program_state with the server's Program")
    for var in io_state_servers.held(program, lasting):
        old = _array(var.name)
        if var.name not in state_dict:
            continue
        new = np.asarray(state_dict[var.name])
        if (old.shape != new.shape and var.name in checked) or old.dtype != new.dtype:
            raise core.ShapeError(
                f"{var.name!r} is {old.dtype} of shape {old.shape} in the scope, but {new.dtype} of "
                f"shape {new.shape} in state_dict."
            )
        global_scope().var(var.name).get_tensor().set(new, core.CPUPlace())
        unused.discard(var.name)
    if unused:
        warnings.warn(
            f"Not set, as the Program has no such variables: {', '.join(sorted(unused))}.", stacklevel=2
        )
