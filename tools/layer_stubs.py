"""Writes python/paddle/fluid/layers/__init__.pyi: the signatures of the layers, for editors and type checkers.

    python tools/layer_stubs.py [--write | --check]

Some layers are made from tables, which tools that only read the code do not see.
"""

from __future__ import annotations

import inspect
import re
import sys
from typing import Callable

import pages

FILE = pages.ROOT / "python" / "paddle" / "fluid" / "layers" / "__init__.pyi"
HEAD = "# Made by tools/layer_stubs.py --write from the running package."


def hint_text(hint: object) -> str:
    return hint if isinstance(hint, str) else getattr(hint, "__name__", str(hint))


def function_stub(name: str, layer: Callable) -> str:
    """The layer as a function without a body."""
    shown = []
    for one in inspect.signature(layer).parameters.values():
        star = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
        hint = "" if one.annotation is one.empty else f": {hint_text(one.annotation)}"
        default = "" if one.default is one.empty else " = ..." if hint else "=..."
        shown.append(f"{star}{one.name}{hint}{default}")
    result = inspect.signature(layer).return_annotation
    arrow = "" if result is inspect.Signature.empty else f" -> {hint_text(result)}"
    line = f"def {name}({', '.join(shown)}){arrow}: ...\n"
    if len(line) <= 121:
        return line
    return f"def {name}(\n" + "".join(f"    {each},\n" for each in shown) + f"){arrow}: ...\n"


def text() -> str:
    from paddle.fluid import hints, layers

    functions, classes = [], []
    for name in sorted(layers.__all__):
        layer = getattr(layers, name)
        if isinstance(layer, type):
            classes.append(f"from {layer.__module__} import {name} as {name}")
        else:
            functions.append(function_stub(name, layer))
    body = "".join(functions)
    used = set(re.findall(r"[A-Za-z_]\w*", " ".join(re.findall(r"(?:: |-> )([^,()]*)", body))))
    ours = [name for name in (*hints.MEANINGS, "Variable", "Program", "Initializer", "VarType", "ParamAttr", "LoDTensor", "Block")
            if name in used]
    typing = [name for name in ("Any", "Callable", "Iterable", "Sequence") if name in used]
    unknown = {name for name in used if name[0].isupper()} - {*ours, *typing, "None", "True", "False", "VarType"}
    modules = sorted({module.__name__.rpartition(".")[2] for module in vars(layers).values()
                      if inspect.ismodule(module) and module.__name__.startswith("paddle.fluid.layers.")})
    if unknown:
        raise SystemExit(f"layer_stubs: annotations use {sorted(unknown)}, which this tool does not import")
    lines = [HEAD]
    if typing:
        lines.append(f"from typing import {', '.join(typing)}")
    lines += ["", "import numpy as np", ""] if "np." in body else [""]
    lines += [f"from paddle.fluid.hints import {name} as {name}" for name in sorted(ours)]
    lines += [f"from paddle.fluid.layers import {module} as {module}" for module in modules]
    lines += classes
    return "\n".join(lines) + "\n\n__all__: list[str]\n\n" + body


if __name__ == "__main__":
    sys.exit(pages.main(__doc__.splitlines()[0], FILE, text()))
