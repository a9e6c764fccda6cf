"""Writes docs/MISSING.md: what upstream had and this package has not, name by name.

    python tools/missing.py            prints it
    python tools/missing.py --write    writes the file
    python tools/missing.py --check    says with its status whether the file is up to date

The names of upstream are in tools/upstream_names; what is there is asked of the running package.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import sys
import textwrap
from collections import defaultdict

import pages

NAMES = pages.ROOT / "tools" / "upstream_names"
PAGE = pages.ROOT / "docs" / "MISSING.md"

# Ops that an upstream build makes for other devices or other libraries; a CPU program never names them.
FOREIGN = ("nccl", "tensorrt", "anakin", "lite_engine", "ngraph", "cudnn", "fusion_", "fused_",
           "quantize", "dequantize", "requantize", "dgc", "c_", "gen_nccl")


def read(name: str) -> list[list[str]]:
    """The words of each line of a list."""
    return [line.split() for line in (NAMES / name).read_text().splitlines() if line.strip()]


def find(path: str) -> object | None:
    """What `fluid.a.b` is in the package; None when it is not there."""
    *folders, name = path.split(".")
    try:
        module = importlib.import_module("paddle." + ".".join(folders))
    except ImportError:
        return None
    found = getattr(module, name, None)
    # A module that can be called stands in the place of a layer of its name.
    return None if inspect.ismodule(found) and callable(found) else found


def op_names() -> set[str]:
    from paddle.fluid import core

    return set(core.get_all_op_names())


def strings_of(function: object) -> set[str]:
    """Strings in the source of a function or class that may name an op: no attributes and their values."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function))))
    except (TypeError, OSError, SyntaxError):
        return set()
    skipped = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            skipped.update(map(id, node.keys))
        elif isinstance(node, ast.keyword) and node.arg not in ("type", "op_type"):
            skipped.add(id(node.value))
    return {node.value for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped}


@functools.cache
def layers_without_op() -> dict[str, list[str]]:
    """Layers that can be called but would append an op that is not there, and these ops."""
    from paddle.fluid import layers

    there = op_names()
    missing_ops = {name for name, in read("ops.txt")} - there
    found = {}
    for name in sorted(layers.__all__):
        value = getattr(layers, name)
        strings = strings_of(value)
        # A layer whose source names no op is made from a table: it is called as its op is.
        needed = (strings if strings & (there | missing_ops) else {name}) & missing_ops
        if callable(value) and needed:
            found[name] = sorted(needed)
    return found


def ops_part(there: set[str], upstream: list[str]) -> list[str]:
    missing = [op for op in upstream if op not in there]
    foreign = [op for op in missing if op.startswith(FOREIGN)]
    forward = [op for op in missing if "_grad" not in op and op not in foreign]
    grads = [op for op in missing if "_grad" in op and op not in foreign]
    ours = sorted(there - set(upstream))
    lines = ["## Ops", "", f"Upstream v1.7.2 and 1.8.5 had {len(upstream)} op types, gradients of the first counted. "
             f"{len(upstream) - len(missing)} of them are here.", ""]
    for what, found in [
        ("Missing", forward),
        ("Missing gradient ops; where the gradient of an op is another known op, that one is used", grads),
        ("Ops of other devices, of inference engines and of upstream's fusion passes", foreign),
        ("Here, but in neither of them", ours),
    ]:
        lines += [f"{what} ({len(found)}):", "", pages.names(found), ""]
    return lines


def names_part() -> list[str]:
    missing: dict[str, list[str]] = {}
    total: dict[str, int] = defaultdict(int)
    last: dict[str, str] = {}
    for path, release in read("fluid.txt"):
        module, _, name = path.rpartition(".")
        total[module] += 1
        last[path] = release
        if find(path) is None:
            missing.setdefault(module, []).append(name)
    lines = ["## Names of `paddle.fluid`", "", pages.paragraph(
        f"{sum(total.values())} public names of v0.11 to v1.8.5 were looked for, "
        f"{sum(map(len, missing.values()))} are not there. Behind a name that 1.8 does not have any more "
        "stands the last release that had it."), "", "| module | upstream | here | missing |", "|---|---|---|---|"]
    for module in sorted(total):
        gone = len(missing.get(module, []))
        lines.append(f"| `{module}` | {total[module]} | {total[module] - gone} | {gone} |")
    lines.append("")
    for module in sorted(missing):
        named = [name if last[f"{module}.{name}"] == "1.8" else f"{name} ({last[f'{module}.{name}']})"
                 for name in missing[module]]
        whole = ", the whole module" if len(named) == total[module] else ""
        lines += [f"### `{module}`{whole}", "", pages.names(named), ""]
    return lines


def flags_part() -> list[str]:
    from paddle import fluid

    missing = []
    for name, in read("flags.txt"):
        try:
            fluid.get_flags(f"FLAGS_{name}")
        except Exception:
            missing.append(name)
    return ["## Flags", "", pages.paragraph(
        "Flags that a script can set in 1.8.5 (CPU build) and that are unknown here. In the environment an "
        "unknown flag is ignored. [FLAGS.md](FLAGS.md) has the known ones."), "", pages.names(missing), ""]


def page() -> str:
    upstream = [name for name, in read("ops.txt")]
    there = op_names()
    lines = ["# What upstream had and this package has not", "", pages.paragraph(
        "Made by `tools/missing.py --write` from the lists in `tools/upstream_names` and the running package. "
        "A script that imports or uses one of these names gets an error that says so (`paddle/absent.py`)."), ""]
    lines += ops_part(there, upstream)
    waiting = layers_without_op()
    if waiting:
        lines += ["## Layers that wait for their op", "", pages.paragraph(
            "These can be called, but an op that they append, always or for some arguments, is not in the "
            "library yet, and they say so."), ""]
        lines += [f"- `{name}`: {', '.join(f'`{op}`' for op in ops)}" for name, ops in waiting.items()] + [""]
    lines += names_part() + flags_part()
    return "\n".join(lines).rstrip("\n") + "\n"


if __name__ == "__main__":
    sys.exit(pages.main(__doc__.splitlines()[0], PAGE, page()))
