"""How objects show themselves: the call that would make them, without what is as it is by default."""

from __future__ import annotations

from typing import Any

_NOTHING = object()


def sentence(text: str) -> str:
    """The text with a full stop, where it does not end in one, or in a question mark."""
    return text if text.endswith((".", "?", "!")) else f"{text}."


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 80 else text[:77] + "..."


def call_text(name: str, arguments: dict[str, Any]) -> str:
    """'Name(a=1, b=2)'; Variables by their names, long values cut."""
    parts = []
    for key, value in arguments.items():
        text = getattr(value, "name", None) if hasattr(value, "block") else repr(value)
        parts.append(f"{key}={_short(str(text))}")
    return f"{name}({', '.join(parts)})"


def found(value: Any) -> str:
    """What was given instead of what is wanted, for an error: short, and of an array its type and shape alone."""
    if hasattr(value, "block") and hasattr(value, "name"):
        return f"the Variable {value.name!r}"
    if hasattr(value, "__array_interface__"):
        return f"an array of {value.dtype} of shape {list(value.shape)}"
    if isinstance(value, (list, tuple, set, frozenset)) and value:
        return f"a {type(value).__name__} of {_short(', '.join(found(each) for each in list(value)[:4]))}"
    return f"{_short(repr(value))} of type {type(value).__name__}"


class Shown:
    """Gives a class a repr made from the arguments of its __init__ and the attributes that keep them.

    An argument `x` is looked for as `x` and `_x`, or under the name that _kept_as gives.
    """

    _kept_as: dict[str, str] = {}

    def __repr__(self) -> str:
        import inspect

        shown: dict[str, Any] = {}
        seen: set[str] = set()
        for base in type(self).__mro__:
            if "__init__" not in vars(base) or base is object:
                continue
            parameters = inspect.signature(base.__init__).parameters.values()
            for one in [one for one in parameters if one.name not in seen]:
                seen.add(one.name)
                kept = self._kept_as.get(one.name)
                for name in (kept,) if kept else (one.name, f"_{one.name}"):
                    value = vars(self).get(name, _NOTHING)
                    if value is not _NOTHING and not _same(value, one.default):
                        shown[one.name] = value
            if not any(one.kind is one.VAR_KEYWORD for one in parameters):
                break
        return call_text(type(self).__name__, shown)


def _same(value: Any, default: Any) -> bool:
    return value is default or (type(value) is type(default) and not hasattr(value, "shape") and value == default)
