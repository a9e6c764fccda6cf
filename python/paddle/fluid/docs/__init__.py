"""The argument sections of docstrings, for families whose members share most arguments: layers, optimizers, initializers.

A layer says in its own docstring what it computes. What its arguments are and what it returns stands here, in one
TEXT for each family: the names of one layer or of several that share a paragraph, then `argument: meaning` and
`-> what comes back`. Arguments that mean the same everywhere stand once, in SHARED. `complete` puts both into the
docstrings, with types and defaults from the signatures: help(fluid.layers.fc) shows them.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Iterable, NamedTuple

WIDTH = 100

SHARED = {
    "act": "an activation that goes over the result, e.g. 'relu'; None: none.",
    "bias_attr": "how the bias is made: a ParamAttr, a name, an initializer; None: zeros; False: no bias.",
    "cond": "the Variable to write to; None: a new one.",
    "data_format": "where the channels are: 'NCHW' or 'NHWC', for volumes 'NCDHW' or 'NDHWC'.",
    "data_layout": "where the channels are: 'NCHW' or 'NHWC'.",
    "device": "has no effect: there are processors only.",
    "dtype": "the element type, e.g. 'float32'.",
    "epsilon": "a small number that keeps a division or a logarithm from 0.",
    "force_cpu": "has no effect: there are processors only.",
    "grad_clip": "a GradientClipBy... object that goes over all gradients; None: none.",
    "input": "the input.",
    "is_test": "behave as in tests.",
    "learning_rate": "a number, or a Variable that a schedule of fluid.layers gives.",
    "name": "a part of the automatic names of what it makes; None: its own.",
    "out": "the Variable to write to; None: a new one.",
    "parameter_list": "Parameters or names that are trained; None: all trainable ones.",
    "param_attr": "how the weight is made: a ParamAttr, a name, an initializer; None: Xavier.",
    "regularization": "the decay of parameters that have none of their own, e.g. fluid.regularizer.L2Decay(1e-4).",
    "seed": "of the random numbers; 0: initializers and dropout take the Program's, others draw anew in each run.",
    "stop_gradient": "no gradient flows through the result.",
    "use_cudnn": "has no effect: it chose a library for GPUs.",
    "x": "the input.",
}


class Section(NamedTuple):
    """What the texts say of one layer."""

    arguments: dict[str, str]
    returns: str


def parse(text: str) -> dict[str, Section]:
    """{layer: its section} of one text."""
    found = {}
    for paragraph in text.strip().split("\n\n"):
        names, *lines = paragraph.replace("\n        ", " ").split("\n    ")
        arguments, returns = {}, ""
        for line in lines:
            if line.startswith("-> "):
                returns = line[3:]
            else:
                key, _, meaning = line.partition(": ")
                arguments[key] = meaning
        section = Section(arguments, returns)
        for name in names.split():
            found[name] = section
    return found


def _code(call: Callable) -> tuple[Callable, int]:
    """The function whose signature a user sees, and how many of its arguments are not his."""
    skipped = isinstance(call, type)
    function = call.__init__ if skipped else call
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    return function, int(skipped)


def arguments_of(call: Callable) -> list[str]:
    """The names of the arguments of a layer."""
    function, skipped = _code(call)
    code = function.__code__
    return list(code.co_varnames[skipped : code.co_argcount + code.co_kwonlyargcount])


def section_text(call: Callable, section: Section) -> str:
    """The paragraphs 'Args' and 'Returns' of a docstring."""
    function, skipped = _code(call)
    names = arguments_of(call)
    defaults = function.__defaults__ or ()
    first = function.__code__.co_argcount - skipped - len(defaults)
    hints = function.__annotations__
    lines = ["Args:"] if names else []
    for place, name in enumerate(names):
        default = None if place < first else _default(defaults[place - first])
        lines += _argument(name, hints.get(name), default, section.arguments.get(name) or SHARED.get(name, ""))
    if section.returns:
        hint = hints.get("return", "")
        lines += ["", "Returns:"]
        lines += _wrapped(f"    {hint + ': ' if hint and hint != 'Any' else ''}{section.returns}")
    return "\n".join(lines).strip("\n")


@functools.cache  # most lines occur in many docstrings
def _argument(name: str, hint: str | None, default: str | None, meaning: str) -> list[str]:
    kind = f"{hint}, " if hint else ""
    kind += "required" if default is None else f"default {default}"
    return _wrapped(f"    {name} ({kind}): {meaning}")


def _wrapped(line: str) -> list[str]:
    """The line, cut into several of up to WIDTH columns, the later ones further in."""
    lines = []
    while len(line) > WIDTH:
        cut = line.rfind(" ", 0, WIDTH + 1)
        lines.append(line[:cut])
        line = "        " + line[cut + 1 :]
    return [*lines, line]


def _flush_left(doc: str) -> str:
    """A docstring without the indentation that it has in the source (before Python 3.13)."""
    first, *others = doc.rstrip().split("\n")
    margin = min((len(line) - len(line.lstrip()) for line in others if line.strip()), default=0)
    return "\n".join([first, *(line[margin:] for line in others)])


def _default(value: Any) -> str:
    return str(value) if type(value).__name__ == "VarType" else repr(value)


def complete(names: Iterable[str], module: dict[str, Any], *texts: str) -> None:
    """Puts the sections into the docstrings of a module's functions and classes; `module` is its globals()."""
    sections: dict[str, Section] = {}
    for text in texts:
        sections.update(parse(text))
    for name in names:
        call = module[name]
        section = sections.get(name)
        if section is None or not call.__doc__:  # python -OO drops docstrings
            continue
        head, mark, example = _flush_left(call.__doc__).partition("\n>>> ")
        parts = [head.rstrip(), section_text(call, section)] + ([f">>> {example}"] if mark else [])
        call.__doc__ = "\n\n".join(parts)
