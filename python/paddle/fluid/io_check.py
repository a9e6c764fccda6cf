"""What fluid.io says of arguments in the wrong order, of files that are not there, of names that cannot be files."""

from __future__ import annotations

import os
from typing import Any

from paddle.fluid import core, shown, suggest


def check_order(executor: Any, dirname: Any, order: str) -> None:
    """A TypeError where a path stands for the executor, or something else for the folder."""
    is_path = isinstance(dirname, (str, bytes, os.PathLike))
    if dirname is not None and not is_path:
        raise TypeError(f"dirname must be the path of a folder, found {shown.found(dirname)}. The order is {order}.")
    if isinstance(executor, (str, bytes, os.PathLike)):
        raise TypeError(f"executor must be an Executor, found {shown.found(executor)}. The order is {order}.")


def listed(folder: str) -> str:
    """What is in a folder, in a few words."""
    names = sorted(os.listdir(folder))
    return ", ".join(map(repr, names[:5])) + (f" and {len(names) - 5} others" if len(names) > 5 else "") or "nothing"


def not_there(path: str) -> str:
    """What an error about a path that is not there adds, a blank before it: what the nearest folder above it has, a name there that
    was perhaps meant, and the working directory where the path begins in it."""
    path = os.path.normpath(path)
    above = os.path.dirname(path)
    while above and not os.path.isdir(above):
        above = os.path.dirname(above)
    missing = os.path.relpath(path, above or ".").split(os.sep)[0]
    here = "" if os.path.isabs(path) else f"the working directory {os.getcwd()!r}"
    place = f"{above!r} in {here}" if above and here else repr(above) if above else here
    try:
        near = suggest.did_you_mean(missing, os.listdir(above or "."))
        return f" {place[0].upper()}{place[1:]} has {listed(above or '.')}.{near}"
    except OSError:
        return ""


def need_files(folder: str, names: list[str], filename: str | None) -> None:
    """A FileError unless all files of these variables, or their one file, are in the folder."""
    if not os.path.isdir(folder):
        raise core.FileError(f"There is no folder {folder!r} to load from.{not_there(folder)}")
    wanted = names if filename is None else [filename]
    lacks = [name for name in wanted if not os.path.exists(os.path.join(folder, name))]
    if not lacks:
        return
    more = f" and {len(lacks) - 1} others" if len(lacks) > 1 else ""
    hint = ""
    if filename is None and len(lacks) == len(wanted):
        hint = " Where one file holds all variables, give its name: filename=..., in load_inference_model params_filename=..."
    raise core.FileError(f"{folder!r} has no file {lacks[0]!r}{more}; it has {listed(folder)}.{hint}")


def need_model(folder: str, name: str) -> None:
    """A FileError unless the file of the Program is in the folder."""
    if not os.path.exists(os.path.join(folder, name)):
        raise core.FileError(
            f"{folder!r} has no model {name!r}; it has {listed(folder)}. The file of the Program is named by model_filename=..., "
            "'__model__' by default."
        )


# ---- a file for each variable ----


def need_own_files(folder: str, names: list[str], taken: dict[str, str] | None = None, one_file: str | None = "filename") -> None:
    """Before variables are written, a file for each: an InvalidArgumentError unless each has a file of its own in the folder.

    taken: other paths in it, with what each is. one_file: the argument that has all variables written into one file, if there is
    one.
    """
    taken, files, folders = taken or {}, {}, {}
    name_limit, path_limit = _limits(folder)
    more = f", or write all variables into one file ({one_file}=...)" if one_file else ""

    def refuse(said: str, which: str) -> None:
        raise core.InvalidArgumentError(f"{said} Give {which} another name (name=... of its ParamAttr){more}.")

    for name in names:
        parts = name.split("/")
        path = os.path.normpath(name)
        whole, told = os.path.join(folder, path), repr(_cut(name))
        above = [os.path.normpath("/".join(parts[:i])) for i in range(1, len(parts))]
        if os.path.isabs(name) or any(each.split("/")[0] == ".." for each in [*above, path]):
            refuse(f"The variable {told} would be written to {os.path.normpath(whole)!r}, which is not in the "
                   f"folder {folder!r}.", "it")
        if parts[-1] in ("", ".", ".."):
            refuse(f"The variable {told} cannot be written: {os.path.join(folder, name)!r} is the path of a folder.", "it")
        longest = max(len(os.fsencode(part)) for part in parts)
        if longest > name_limit:
            refuse(f"The variable {told} has a name of {longest} bytes, and that of a file in {folder!r} may have "
                   f"{name_limit}.", "it")
        length = len(os.fsencode(os.path.join(folder, name)))
        if length > path_limit:
            refuse(f"The variable {told} would have a path of {length} bytes in {folder!r}, and a path may have "
                   f"{path_limit}.", "it")
        for each in [path, *above]:
            if each in taken:
                needs = "would be written to" if each == path else "needs the folder"
                refuse(f"The variable {told} {needs} {os.path.join(folder, each)!r}, which is {taken[each]}.", "it")
        if path in files:
            said = (f"The variables {_cut(files[path])!r} and {told} would be written to the same file {whole!r}, and one "
                    "would be lost.")
            refuse(said, "one of them")
        files[path] = name
        folders.update(dict.fromkeys(above, name))
    for path in (path for path in files if path in folders):
        first, other = _cut(files[path]), _cut(folders[path])
        said = (f"The variable {first!r} would be the file {os.path.join(folder, path)!r}, and {other!r} needs a folder "
                "of that name.")
        refuse(said, "one of them")


def _cut(name: str) -> str:
    return name if len(name) <= 80 else name[:77] + "..."


def _limits(folder: str) -> tuple[int, int]:
    """How many bytes the name of a file and a path may have there."""
    there = os.path.abspath(folder)
    while not os.path.exists(there):
        there = os.path.dirname(there)
    try:
        name, path = os.pathconf(there, "PC_NAME_MAX"), os.pathconf(there, "PC_PATH_MAX")
    except (OSError, ValueError):
        return 255, 4095
    return (name if name > 0 else 255), (path - 1 if path > 0 else 4095)
