"""The messages that describe ops, as plain Python objects with the look of generated ones.

Only what scripts and tools build by hand is here: OpProto (what an op is) and OpDesc (one op). Programs are
read and written by the engine.
"""

INT, FLOAT, STRING, INTS, FLOATS, STRINGS, BOOLEAN, BOOLEANS, BLOCK, LONG, BLOCKS, LONGS = range(12)

_ATTR_NAMES = "INT FLOAT STRING INTS FLOATS STRINGS BOOLEAN BOOLEANS BLOCK LONG BLOCKS LONGS".split()


class AttrType:
    """Numbers of the attribute types and their names."""

    @staticmethod
    def Name(number: int) -> str:
        return _ATTR_NAMES[number]

    @staticmethod
    def Value(name: str) -> int:
        return _ATTR_NAMES.index(name)

    @staticmethod
    def items() -> list:
        return list(zip(_ATTR_NAMES, range(12)))


class _List(list):
    """A repeated field."""

    def __init__(self, kind=None):
        super().__init__()
        self._kind = kind

    def add(self, **fields):
        """Appends a new message and returns it."""
        message = self._kind(**fields)
        self.append(message)
        return message


class _Message:
    """A message: `single` fields with their defaults, `repeated` ones with the class of their items."""

    single: dict = {}
    required: tuple = ()
    repeated: dict = {}

    def __init__(self, **fields):
        self._set = set()
        for name, kind in self.repeated.items():
            object.__setattr__(self, name, _List(kind))
        for name, value in fields.items():
            if name in self.repeated:
                getattr(self, name).extend(value)
            else:
                setattr(self, name, value)

    def __getattr__(self, name: str):
        if name in type(self).single:
            return type(self).single[name]
        raise AttributeError(f"{type(self).__name__} has no field {name!r}.")

    def __setattr__(self, name: str, value) -> None:
        if name != "_set":
            if name not in self.single:
                raise AttributeError(f"{type(self).__name__} has no field {name!r} that can be set.")
            self._set.add(name)
        object.__setattr__(self, name, value)

    def HasField(self, name: str) -> bool:
        return name in self._set

    def IsInitialized(self) -> bool:
        """Are all required fields set, here and in the messages below?"""
        if any(name not in self._set for name in self.required):
            return False
        return all(
            item.IsInitialized()
            for name, kind in self.repeated.items()
            if kind
            for item in getattr(self, name)
        )

    def __eq__(self, other) -> bool:
        if type(self) is not type(other) or self._set != other._set:
            return False
        return all(getattr(self, name) == getattr(other, name) for name in (*self._set, *self.repeated))

    __hash__ = object.__hash__

    def __str__(self) -> str:
        lines = [f"{name}: {getattr(self, name)!r}" for name in self.single if name in self._set]
        for name, kind in self.repeated.items():
            for item in getattr(self, name):
                if kind is None:
                    lines.append(f"{name}: {item!r}")
                else:
                    inner = "\n".join(f"  {line}" for line in str(item).splitlines())
                    lines.append(f"{name} {{\n{inner}\n}}")
        return "\n".join(lines) + "\n"

    __repr__ = __str__


class _ProtoVar(_Message):
    single = {"name": "", "comment": "", "duplicable": False, "intermediate": False, "dispensable": False}
    required = ("name", "comment")


class _ProtoAttr(_Message):
    single = {"name": "", "type": INT, "comment": "", "generated": False}
    required = ("name", "type", "comment")


class OpProto(_Message):
    """What an op takes, gives and can be told."""

    Var = _ProtoVar
    Attr = _ProtoAttr
    single = {"type": "", "comment": ""}
    required = ("type", "comment")
    repeated = {"inputs": _ProtoVar, "outputs": _ProtoVar, "attrs": _ProtoAttr}


class _DescVar(_Message):
    single = {"parameter": ""}
    required = ("parameter",)
    repeated = {"arguments": None}


class _DescAttr(_Message):
    single = {"name": "", "type": INT, "i": 0, "f": 0.0, "s": "", "b": False, "block_idx": 0, "l": 0}
    required = ("name", "type")
    repeated = {
        "ints": None,
        "floats": None,
        "strings": None,
        "bools": None,
        "blocks_idx": None,
        "longs": None,
    }


class OpDesc(_Message):
    """One op of a Program."""

    Var = _DescVar
    Attr = _DescAttr
    single = {"type": "", "is_target": False}
    required = ("type",)
    repeated = {"inputs": _DescVar, "outputs": _DescVar, "attrs": _DescAttr}
