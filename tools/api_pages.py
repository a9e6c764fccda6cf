"""Writes docs/api: the reference of what users call, from the docstrings of the running package.

    python tools/api_pages.py [--write | --check]
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from pathlib import Path
from typing import Any, Callable, Iterator

import missing
import pages

FOLDER = pages.ROOT / "docs" / "api"

# Page -> the modules whose layers it shows. A layer of another module gets a page of that module's name.
LAYERS = {
    "networks": ("fully connected, embeddings, products, convolutions, norms, recurrent", "nn conv norm recurrent"),
    "images": ("images", "image"),
    "math": ("element by element, reductions, random numbers", "elementwise ops reduce random_ops"),
    "shapes": ("tensors: making, reshaping, picking", "shape_ops tensor index_ops"),
    "sequences": ("sequences", "sequence_lod"),
    "control_flow": ("loops, branches, arrays, comparisons", "control_flow block_rnn arrays device"),
    "losses": ("losses and metrics", "loss metric_op"),
    "learning_rates": ("learning rates", "learning_rate_scheduler"),
    "data": ("what is fed", "io"),
}

# Page -> title and modules.
OTHERS = {
    "fluid": ("`fluid`: Programs, the Executor, parameters",
              "fluid fluid.framework fluid.executor fluid.backward fluid.param_attr"),
    "optimizer": ("`fluid.optimizer`", "fluid.optimizer"),
    "initializer": ("`fluid.initializer`", "fluid.initializer"),
    "regularizer_clip": ("`fluid.regularizer` and `fluid.clip`", "fluid.regularizer fluid.clip"),
    "io": ("`fluid.io`: files and loaders", "fluid.io fluid.reader"),
    "transpiler": ("`fluid.transpiler`: jobs of several machines", "fluid.transpiler"),
    "fleet": ("`fluid.incubate.fleet`: one script for servers and workers",
              "fluid.incubate.fleet.parameter_server.distribute_transpiler fluid.incubate.fleet.base.role_maker "
              "fluid.incubate.fleet.base.fleet_base fluid.incubate.fleet.utils.fleet_util fluid.incubate.fleet.utils.hdfs "
              "fluid.incubate.fleet.utils.fs fluid.incubate.fleet.utils.utils fluid.incubate.data_generator fluid.communicator "
              "fluid.contrib.utils.hdfs_utils fluid.contrib.reader.distributed_reader"),
    "metrics": ("`fluid.metrics` and `fluid.evaluator`", "fluid.metrics fluid.evaluator"),
    "nets": ("`fluid.nets`", "fluid.nets"),
    "tools": ("`fluid.profiler`, `fluid.unique_name` and other tools",
              "fluid.profiler fluid.unique_name fluid.average fluid.lod_tensor fluid.contrib.memory_usage_calc "
              "fluid.contrib.layers.nn fluid.contrib.layers.metric_op fluid.entry_attr"),
    "reader": ("`paddle.batch` and `paddle.reader`", "batch reader"),
}

ABOUT = ("Made by `tools/api_pages.py --write` from the docstrings, which `help()` shows too. Examples run after `import numpy as "
         "np, paddle, paddle.fluid as fluid`.")


def signature_of(call: Any, name: str) -> str:
    """The call as a user writes it."""
    try:
        parameters = inspect.signature(call).parameters.values()
    except (ValueError, TypeError):
        return name
    shown = []
    for one in parameters:
        if one.name in ("self", "cls") or one.kind is one.VAR_KEYWORD:
            continue
        star = "*" if one.kind is one.VAR_POSITIONAL else ""
        default = "" if one.default is one.empty else f"={one.default}" if not isinstance(one.default, str) else f"={one.default!r}"
        shown.append(f"{star}{one.name}{default}")
    text = f"{name}({', '.join(shown)})"
    if len(text) <= 100:
        return text
    return f"{name}(\n" + "".join(f"    {each},\n" for each in shown) + ")"


def argument_rows(lines: list[str]) -> list[str]:
    """The lines of an Args section as a list."""
    rows: list[str] = []
    for line in lines:
        found = re.match(r"    (\*{0,2}\w+)(?: \((.*?)\))?: (.*)", line)
        if found and not line.startswith("     "):
            kind = f" ({found[2]})" if found[2] else ""
            rows.append(f"- `{found[1]}`{kind}: {found[3]}")
        elif line.strip():
            rows[-1] += " " + line.strip()
    return rows


def sections(text: str) -> Iterator[tuple[str, list[str]]]:
    """(kind, lines) of the parts of a docstring: 'text', 'Args', 'Returns', 'example'."""
    kind, lines = "text", []
    for line in inspect.cleandoc(text).splitlines():
        new = kind
        if line in ("Args:", "Returns:"):
            new = line[:-1]
        elif line.startswith(">>>"):
            new = "example"
        elif line and not line.startswith(" ") and kind in ("Args", "Returns"):
            new = "text"
        if new != kind:
            yield kind, lines
            kind, lines = new, []
            if new in ("Args", "Returns"):
                continue
        lines.append(line)
    yield kind, lines


def doc_lines(call: Any) -> list[str]:
    """The docstring as Markdown."""
    found: list[str] = []
    for kind, lines in sections(call.__doc__ or ""):
        text = "\n".join(lines).strip("\n")
        if not text.strip():
            continue
        if kind == "Args":
            found += argument_rows(lines) + [""]
        elif kind == "Returns":
            found += ["Returns " + " ".join(line.strip() for line in lines if line.strip()), ""]
        elif kind == "example":
            found += ["```python", re.sub(r"\s+# doctest: \+SKIP", "", text), "```", ""]
        else:
            found += [text.replace("__", r"\_\_"), ""]
    return found


def entry(call: Any, name: str, level: str = "##") -> list[str]:
    """A function or a class with its methods."""
    lines = [f"{level} {name.rpartition('.')[2] if level == '##' else name}", "", "```python", signature_of(call, name), "```", ""]
    ops = missing.layers_without_op().get(name.removeprefix("fluid.layers.")) if name.startswith("fluid.layers.") else None
    if ops:
        lines += [f"**Not there yet**, or not for all arguments: it needs {pages.names(ops)}, which this package has not. A "
                  "call says so.", ""]
    lines += doc_lines(call)
    for key, method in vars(call).items() if isinstance(call, type) else ():
        method = getattr(call, key)
        if not key.startswith("_") and callable(method) and not isinstance(method, type) and method.__doc__:
            lines += entry(method, f"{name.rpartition('.')[2]}.{key}", "###")
    return lines


def calls_of(module: str, seen: set[int]) -> Iterator[tuple[str, Callable]]:
    """(name, call) of what a module makes public, each thing once."""
    home = importlib.import_module(f"paddle.{module}")
    prefix = "paddle." if module in ("batch", "reader") else ""
    fluid = importlib.import_module("paddle.fluid")
    for name in home.__all__:
        call = getattr(home, name)
        if inspect.ismodule(call) or not callable(call) or id(call) in seen:
            continue
        seen.add(id(call))
        path = "paddle.batch" if module == "batch" else f"{prefix}{module}.{name}"
        if name in fluid.__all__ and getattr(fluid, name) is call:
            path = f"fluid.{name}"  # the shorter one, which scripts use
        yield path, call


def page(title: str, calls: list[tuple[str, Callable]]) -> str:
    lines = [f"# {title}", "", ABOUT, ""]
    for name, call in sorted(calls, key=lambda each: each[0].lower()):
        lines += entry(call, name)
    return "\n".join(lines).rstrip("\n") + "\n"


def all_pages() -> dict[Path, str]:
    from paddle.fluid import hints, layers

    seen: set[int] = set()
    made: dict[str, tuple[str, list]] = {}
    made["fluid"] = ("", [])  # first on the index, but it shows only what no other page shows
    for key, (title, modules) in sorted(OTHERS.items(), key=lambda item: item[0] == "fluid"):
        made[key] = (title, [each for module in modules.split() for each in calls_of(module, seen)])
    homes = {module: key for key, (_, modules) in LAYERS.items() for module in modules.split()}
    for name in layers.__all__:
        call = getattr(layers, name)
        module = inspect.unwrap(call).__module__.rpartition(".")[2]
        key = homes.get(module, module)
        title = f"`fluid.layers`: {LAYERS[key][0] if key in LAYERS else key}"
        made.setdefault(f"layers_{key}", (title, []))[1].append((f"fluid.layers.{name}", call))
    index = ["# API reference", "", ABOUT, "", "Types of arguments:", ""]
    index += [f"- `{name}`: {meaning}." for name, meaning in hints.MEANINGS.items()] + [""]
    for key, (title, calls) in made.items():
        links = ", ".join(f"[{name.rpartition('.')[2]}]({key}.md#{name.rpartition('.')[2].lower()})"
                          for name, _ in sorted(calls, key=lambda each: each[0].lower()))
        index += [f"## [{title}]({key}.md)", "", pages.paragraph(links), ""]
    found = {FOLDER / f"{key}.md": page(title, calls) for key, (title, calls) in made.items()}
    return {FOLDER / "README.md": "\n".join(index).rstrip("\n") + "\n", **found}


if __name__ == "__main__":
    sys.exit(pages.main_many(__doc__.splitlines()[0], FOLDER, all_pages()))
