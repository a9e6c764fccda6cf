"""Messages that are described by a table of fields, with their text form and their bytes: what generated classes would do."""

from __future__ import annotations

import re
import struct
from typing import Any, NamedTuple

_DEFAULTS: dict[Any, Any] = {"string": "", "int32": 0, "int64": 0, "bool": False, "float": 0.0}
_TOKEN = re.compile(
    r"""\s*(?:\#[^\n]*\s*)*"""
    r"""(?:(?P<word>[\w.+-]+)|(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|(?P<sign>[{}<>:;,\[\]]))"""
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "'": "'", "\\": "\\"}


class Field(NamedTuple):
    """One field: its number, its kind (a word of the protobuf language, or a class of messages), and its default."""

    number: int
    kind: Any
    default: Any = None
    repeated: bool = False


class Repeated(list):
    """The items of a repeated field."""

    def __init__(self, kind: Any):
        super().__init__()
        self._kind = kind

    def add(self, **values: Any):
        """A new message at its end."""
        self.append(self._kind(**values))
        return self[-1]


class TextError(ValueError):
    """A text that is none of such a message."""


class Message:
    """A class of messages has `fields`, a table."""

    fields: dict[str, Field] = {}

    def __init__(self, **values: Any):
        object.__setattr__(self, "_values", {})
        for name, value in values.items():
            if self.fields[name].repeated:
                getattr(self, name).extend(value)
            else:
                setattr(self, name, value)

    def __getattr__(self, name: str) -> Any:
        field = type(self).fields.get(name)
        if field is None:
            raise AttributeError(f"{type(self).__name__} has no field {name!r}; it has {', '.join(self.fields)}.")
        if field.repeated:
            return self._values.setdefault(name, Repeated(field.kind))
        if isinstance(field.kind, type):
            return self._values.setdefault(name, field.kind())
        return self._values.get(name, _DEFAULTS[field.kind] if field.default is None else field.default)

    def __setattr__(self, name: str, value: Any) -> None:
        field = type(self).fields.get(name)
        if field is None or field.repeated or isinstance(field.kind, type):
            raise AttributeError(f"{type(self).__name__}.{name} cannot be assigned to.")
        wanted = {"string": str, "bool": (bool, int), "float": (float, int)}.get(field.kind, int)
        if not isinstance(value, wanted):
            raise TypeError(f"{type(self).__name__}.{name} is of type {field.kind}, found {value!r}.")
        self._values[name] = bool(value) if field.kind == "bool" else float(value) if field.kind == "float" else value

    def HasField(self, name: str) -> bool:  # noqa: N802 (the name that generated classes have)
        """Was it set?"""
        return name in self._values

    def _items(self):
        """(name, field, value) of what is set, by number."""
        for name, field in sorted(self.fields.items(), key=lambda item: item[1].number):
            value = self._values.get(name)
            if value is None or (field.repeated and not value):
                continue
            for each in value if field.repeated else (value,):
                yield name, field, each

    # ---- text ----

    def __str__(self) -> str:
        lines: list[str] = []
        for name, _, value in self._items():
            if isinstance(value, Message):
                lines += [f"{name} {{", *("  " + line for line in str(value).splitlines()), "}"]
            else:
                lines.append(f"{name}: {_text(value)}")
        return "".join(f"{line}\n" for line in lines)

    def merge_text(self, text: str) -> None:
        """Adds what a text says. A TextError has the line."""
        _Reader(text).read(self, None)

    # ---- bytes ----

    def SerializeToString(self) -> bytes:  # noqa: N802
        """The bytes of protobuf."""
        out = b""
        for _, field, value in self._items():
            if isinstance(value, Message):
                out += _tag(field, 2) + _sized(value.SerializeToString())
            elif field.kind == "string":
                out += _tag(field, 2) + _sized(value.encode())
            elif field.kind == "float":
                out += _tag(field, 5) + struct.pack("<f", value)
            else:
                out += _tag(field, 0) + _varint(int(value) & (2**64 - 1))
        return out


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")
        return f'"{escaped}"'
    return repr(value) if not isinstance(value, float) else f"{value:.8g}"


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def _tag(field: Field, wire: int) -> bytes:
    return _varint(field.number << 3 | wire)


def _sized(data: bytes) -> bytes:
    return _varint(len(data)) + data


class _Reader:
    """Reads the text form."""

    def __init__(self, text: str):
        self.text, self.at = text, 0

    def _fail(self, what: str) -> TextError:
        return TextError(f"line {self.text.count(chr(10), 0, self.at) + 1}: {what}")

    def _next(self) -> tuple[str | None, str]:
        match = _TOKEN.match(self.text, self.at)
        if match is None:
            rest = re.sub(r"#[^\n]*", "", self.text[self.at :]).strip()
            if rest:
                raise self._fail(f"found {rest[:20]!r}, which is no word, number, string or sign")
            return None, ""
        self.start, self.at = self.at, match.end()
        return match.lastgroup, match.group(match.lastgroup)

    def _peek(self, sign: str) -> bool:
        at = self.at
        if self._next()[1] == sign:
            return True
        self.at = at
        return False

    def read(self, message: Message, end: str | None) -> None:
        while True:
            kind, word = self._next()
            if kind is None and end is None or kind == "sign" and word == end:
                return
            if kind != "word":
                raise self._fail(f"found {word!r} where a field or {end or 'the end'!r} should stand")
            field = message.fields.get(word)
            if field is None:
                raise self._fail(f"{type(message).__name__} has no field {word!r}; it has {', '.join(message.fields)}")
            self._field(message, word, field)

    def _field(self, message: Message, name: str, field: Field) -> None:
        has_colon = self._peek(":")
        if isinstance(field.kind, type):
            close = "}" if self._peek("{") else ">" if self._peek("<") else None
            if close is None:
                raise self._fail(f"{name} wants '{{'")
            self.read(getattr(message, name).add() if field.repeated else getattr(message, name), close)
        elif not has_colon:
            raise self._fail(f"{name} wants ':' and a value")
        elif field.repeated and self._peek("["):
            while not self._peek("]"):
                getattr(message, name).append(self._value(name, field))
                self._peek(",")
        elif field.repeated:
            getattr(message, name).append(self._value(name, field))
        else:
            setattr(message, name, self._value(name, field))
        if not self._peek(";"):
            self._peek(",")

    def _value(self, name: str, field: Field) -> Any:
        kind, word = self._next()
        if field.kind == "string" and kind == "text":
            text = _unescaped(word)
            while (match := _TOKEN.match(self.text, self.at)) and match.lastgroup == "text":  # pieces of one
                text += _unescaped(self._next()[1])
            return text
        if field.kind == "bool" and word in ("true", "True", "t", "1", "false", "False", "f", "0"):
            return word in ("true", "True", "t", "1")
        if kind == "word" and field.kind in ("int32", "int64", "float"):
            try:
                return float(word) if field.kind == "float" else int(word, 0)
            except ValueError:
                pass
        raise self._fail(f"{name} is of type {field.kind}, found {word!r}")


def _unescaped(word: str) -> str:
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), word[1:-1])
