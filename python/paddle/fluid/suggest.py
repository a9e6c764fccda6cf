"""What an error about a name adds: the name that was meant, the layer that the user called, a way out."""

from __future__ import annotations

import functools
import re
import sys
from types import FunctionType
from typing import Any, Callable, Iterable

from paddle import absent

# Arguments as other libraries and releases call them, and what they may be called here.
_SYNONYMS = {
    "activation": "act",
    "axes": "axis dim",
    "axis": "dim",
    "bias": "bias_attr",
    "bias_regularizer": "bias_attr",
    "classes": "num_classes class_dim",
    "dim": "axis",
    "dims": "dim axis",
    "eps": "epsilon",
    "features": "size",
    "filters": "num_filters",
    "in_channels": "num_channels",
    "input": "x",
    "inputs": "input x",
    "keepdim": "keep_dim",
    "keepdims": "keep_dim",
    "kernel_size": "filter_size pool_size",
    "kernel_initializer": "param_attr",
    "l2": "regularization",
    "labels": "label",
    "logits": "input",
    "lr": "learning_rate",
    "mean": "loc",
    "out_channels": "num_filters",
    "out_features": "size",
    "p": "dropout_prob",
    "rate": "dropout_prob learning_rate",
    "std": "scale",
    "strides": "stride pool_stride",
    "target": "label",
    "units": "size",
    "weight_attr": "param_attr",
    "weight_decay": "regularization",
    "x": "input",
}

# What can be used while an op is not there.
_INSTEAD = dict.fromkeys("gru lstm lstmp cudnn_lstm recurrent".split(), absent.STEPS)
_INSTEAD |= {op: f"The example in help(fluid.layers.{op}) is the same cell made of other layers."
             for op in ("gru_unit", "lstm_unit")}
_INSTEAD |= dict.fromkeys("split_lod_tensor merge_lod_tensor".split(), "fluid.layers.cond runs one of two branches.")


def nearest(word: str, words: Iterable[str]) -> str | None:
    """The word that was most likely meant; None when none is near."""
    import difflib

    found = difflib.get_close_matches(word, list(words), n=1, cutoff=0.6)
    return found[0] if found else None


def did_you_mean(word: str, words: Iterable[str]) -> str:
    """A sentence with the nearest word, a blank before it; empty when none is near."""
    near = nearest(word, words)
    return f" Did you mean {near!r}?" if near else ""


# ---- arguments ----


def arguments_of(call: Callable) -> list[str]:
    """The names of the arguments of a function, or of a class with the classes it hands them on to."""
    import inspect

    calls = [call]
    if isinstance(call, type):
        calls = [base.__init__ for base in call.__mro__ if "__init__" in vars(base) and base is not object]
    names: dict[str, None] = {}
    for each in calls:
        parameters = inspect.signature(each).parameters.values()
        names.update({one.name: None for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)})
        if not any(one.kind is one.VAR_KEYWORD for one in parameters):
            break
    names.pop("self", None)
    return list(names)


def no_argument(call: Callable, name: str) -> TypeError:
    """The error for a keyword argument that a function or class does not have."""
    names = arguments_of(call)
    near = next((each for each in _SYNONYMS.get(name, "").split() if each in names), None) or nearest(name, names)
    hint = f"Did you mean {near!r}?" if near else f"It takes {', '.join(names)}." if names else "It takes none."
    return TypeError(f"{call.__name__} has no argument {name!r}. {hint}")


def _explain(call: Callable, inside: str, given: dict, error: TypeError) -> None:
    """Raises a better error when the call, which Python knows as `inside`, has a keyword that it does not know or lacks
    an argument."""
    text = str(error)
    lacks = re.search(r" missing \d+ required positional arguments?: (.*)$", text)
    if "unexpected keyword argument" not in text and not lacks:
        return
    names = arguments_of(call)
    unknown = [name for name in given if name not in {*names, *getattr(call, "__older__", ())}]
    if unknown:
        raise no_argument(call, unknown[0]) from None
    if lacks and text.startswith(f"{inside}() missing"):
        raise TypeError(f"{call.__name__} needs {lacks[1]}. It takes {', '.join(names)}.") from None


def helpful(call: Callable) -> Callable:
    """The function, or the class with its __init__, with better errors for wrong keywords."""
    target = call.__init__ if isinstance(call, type) else call

    @functools.wraps(target)
    def asked(*args, **kwargs):
        try:
            return target(*args, **kwargs)
        except TypeError as error:
            _explain(type(args[0]) if target is not call else call, target.__qualname__, kwargs, error)
            raise

    if isinstance(call, type):
        call.__init__ = asked
        return call
    return asked


def make_helpful(names: Iterable[str], *modules: dict[str, Any]) -> None:
    """Makes functions and classes of these names helpful, in all modules (their globals()) that hold them."""
    made: dict[int, Callable] = {}
    wanted = set(names)
    for module in modules:
        for name in wanted & module.keys():
            value = module[name]
            if id(value) not in made:
                own = vars(value).get("__init__") if isinstance(value, type) else value
                made[id(value)] = helpful(value) if isinstance(own, FunctionType) else value
            module[name] = made[id(value)]


# ---- ops and activations ----


def _called_layer() -> str | None:
    """The layer of fluid.layers or fluid.nets that the user's script has called; None when it called none."""
    from paddle.fluid import layers, nets

    found = None
    frame = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__", "").startswith("paddle."):
        name = frame.f_code.co_name
        names = [name, type(frame.f_locals["self"]).__name__ if "self" in frame.f_locals else name]
        for each in names:
            if each in layers.__all__:
                found = f"fluid.layers.{each}"
            elif each in nets.__all__:
                found = f"fluid.nets.{each}"
        frame = frame.f_back
    return found


def no_op(op_type: str) -> ValueError:
    """The error for an op that is not there, in the words of the layer that needs it."""
    from paddle.fluid import core

    layer = _called_layer()
    if layer is None:
        return ValueError(
            f"There is no op {op_type!r} in this package.{did_you_mean(op_type, core.get_all_op_names())} "
            "fluid.core.get_all_op_names() lists them."
        )
    instead = _INSTEAD.get(op_type)
    return ValueError(
        f"{layer} is not there yet: it needs the op {op_type!r}, which this package has not. "
        + (f"{instead} " if instead else "")
        + "docs/MISSING.md lists such layers."
    )


def check_activation(layer: str, act: Any) -> None:
    """Raises unless `act` names an activation: an op from X to Out."""
    from paddle import _core
    from paddle.fluid.layers import ops

    name = act.get("type") if isinstance(act, dict) else act
    if not isinstance(name, str):
        raise TypeError(f"{layer}: act must be the name of an activation, not {act!r}.")
    if _core.op_known(name):
        return
    if name in ("linear", "identity", "none", ""):
        raise ValueError(f"{layer}: there is no activation {name!r}. Leave act out for none.")
    names = [each for each in (*ops.__all__, "softmax", "log_softmax", "sequence_softmax") if _core.op_known(each)]
    raise ValueError(
        f"{layer}: there is no activation {name!r}."
        + (did_you_mean(name, names) or f" There are {', '.join(sorted(names))}.")
    )
