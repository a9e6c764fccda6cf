"""What fluid.io says of arguments in the wrong order and of files that are not there."""

from __future__ import annotations

import os
from typing import Any

from paddle.fluid import core, shown


def check_order(executor: Any, dirname: Any, order: str) -> None:
    """A TypeError where a path stands for the executor, or something else for the folder."""
    is_path = isinstance(dirname, (str, bytes, os.PathLike))
    if dirname is not None and not is_path:
        raise TypeError(f"dirname must be the path of a folder, found {shown.found(dirname)}. The order is {order}.")
    if isinstance(executor, (str, bytes, os.PathLike)):
        raise TypeError(f"executor must be an Executor, found {shown.found(executor)}. The order is {order}.")


def _listed(folder: str) -> str:
    names = sorted(os.listdir(folder))
    return ", ".join(map(repr, names[:5])) + (f" and {len(names) - 5} others" if len(names) > 5 else "") or "nothing"


def need_files(folder: str, names: list[str], filename: str | None) -> None:
    """A FileError unless all files of these variables, or their one file, are in the folder."""
    if not os.path.isdir(folder):
        raise core.FileError(f"There is no folder {folder!r} to load from.")
    wanted = names if filename is None else [filename]
    lacks = [name for name in wanted if not os.path.exists(os.path.join(folder, name))]
    if not lacks:
        return
    more = f" and {len(lacks) - 1} others" if len(lacks) > 1 else ""
    hint = ""
    if filename is None and len(lacks) == len(wanted):
        hint = " Where one file holds all variables, give its name: filename=..., in load_inference_model params_filename=..."
    raise core.FileError(f"{folder!r} has no file {lacks[0]!r}{more}; it has {_listed(folder)}.{hint}")


def need_model(folder: str, name: str) -> None:
    """A FileError unless the file of the Program is in the folder."""
    if not os.path.exists(os.path.join(folder, name)):
        raise core.FileError(
            f"{folder!r} has no model {name!r}; it has {_listed(folder)}. The file of the Program is named by model_filename=..., "
            "'__model__' by default."
        )
