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


class Enum:
    """A kind of fields that hold one of some numbers, which have names in a text."""

    def __init__(self, numbers: dict[str, int]):
        self.numbers, self.names = numbers, {number: name for name, number in numbers.items()}


class Field(NamedTuple):
    """One field: its number, its kind (a word of the protobuf language, an Enum, or a class of messages), and its default."""

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
        return self._values.get(name, _DEFAULTS.get(field.kind, 0) if field.default is None else field.default)

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
        for name, field, value in self._items():
            if isinstance(value, Message):
                lines += [f"{name} {{", *("  " + line for line in str(value).splitlines()), "}"]
            elif isinstance(field.kind, Enum):
                lines.append(f"{name}: {field.kind.names.get(value, value)}")
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
                out += _tag(field, 2) + _sized(value.encode(errors="surrogateescape"))
            elif field.kind == "float":
                out += _tag(field, 5) + struct.pack("<f", value)
            else:
                out += _tag(field, 0) + _varint(int(value) & (2**64 - 1))
        return out

    def merge_bytes(self, data: bytes) -> None:
        """Adds what bytes of protobuf say; fields of other numbers are passed over. Bytes that are none raise a ValueError."""
        by_number = {field.number: (name, field) for name, field in self.fields.items()}
        at = 0
        while at < len(data):
            key, at = _read_varint(data, at)
            wire = key & 7
            if wire == 0:
                value, at = _read_varint(data, at)
            else:
                size, at = (4, at) if wire == 5 else (8, at) if wire == 1 else _read_varint(data, at) if wire == 2 else (None, at)
                if size is None or at + size > len(data):
                    raise ValueError(f"these are no bytes of a {type(self).__name__}: a field at byte {at} does not end in them.")
                value, at = data[at : at + size], at + size
            if key >> 3 in by_number:
                self._merge(*by_number[key >> 3], wire, value)

    def _merge(self, name: str, field: Field, wire: int, value: Any) -> None:
        if isinstance(field.kind, type):
            if wire != 2:
                raise ValueError(f"{type(self).__name__}.{name} is no message in these bytes.")
            (getattr(self, name).add() if field.repeated else getattr(self, name)).merge_bytes(value)
            return
        if field.kind == "string":
            found = [value.decode(errors="surrogateescape")] if wire == 2 else None
        elif field.kind == "float":
            found = list(struct.unpack(f"<{len(value) // 4}f", value)) if wire in (2, 5) and len(value) % 4 == 0 else None
        elif wire == 2:  # packed
            found, at = [], 0
            while at < len(value):
                number, at = _read_varint(value, at)
                found.append(_signed(number))
        else:
            found = [_signed(value)] if wire == 0 else None
        if found is None or not found and not field.repeated:
            raise ValueError(f"{type(self).__name__}.{name} is no {field.kind} in these bytes.")
        if field.repeated:
            getattr(self, name).extend(map(bool, found) if field.kind == "bool" else found)
        else:
            setattr(self, name, found[-1])


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")
        return f'"{escaped}"'
    if not isinstance(value, float):
        return repr(value)
    short = f"{value:.8g}"
    is_whole = not abs(value) < 3e38 or struct.pack("<f", float(short)) == struct.pack("<f", value)
    return short if is_whole else f"{value:.9g}"  # which tells all float32 apart


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    """(number, where it ends)."""
    for end in range(at, min(at + 10, len(data))):
        if data[end] < 128:
            return sum((byte & 127) << 7 * i for i, byte in enumerate(data[at : end + 1])) & (2**64 - 1), end + 1
    raise ValueError(f"these are no bytes of a message: a number at byte {at} does not end.")


def _signed(number: int) -> int:
    return number - (number >> 63 << 64)


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
        if isinstance(field.kind, Enum) and word in field.kind.numbers:
            return field.kind.numbers[word]
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
        wanted = f"one of {', '.join(field.kind.numbers)}" if isinstance(field.kind, Enum) else f"of type {field.kind}"
        raise self._fail(f"{name} is {wanted}, found {word!r}")


def _unescaped(word: str) -> str:
    """What stands between quotes; protobuf writes bytes beyond ASCII as three digits of base 8."""

    def byte(match: re.Match) -> bytes:
        code = match[1].decode()
        return bytes([int(code, 8) & 255]) if code.isdigit() else _ESCAPES.get(code, code).encode()

    raw = word[1:-1].encode(errors="surrogateescape")
    return re.sub(rb"\\([0-7]{1,3}|.)", byte, raw, flags=re.DOTALL).decode(errors="surrogateescape")
