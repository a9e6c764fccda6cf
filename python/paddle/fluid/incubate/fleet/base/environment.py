"""Reads the environment variables of a role maker, all of them, and says in one error what is set, missing and wrong."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence

from paddle.fluid import suggest
from paddle.fluid.transpiler.arguments import check_endpoint


class Environment:
    """The variables of one process. Each reader notes what it finds; `check` raises when something was not right.

    `example` has a value for each variable that the message may show in its lines to copy.
    """

    def __init__(self, what: str, example: dict[str, str]):
        self._what, self._example = what, dict(example)
        self._good: dict[str, str] = {}
        self._missing: dict[str, str] = {}
        self._wrong: dict[str, str] = {}
        self._copied: list[str] = []

    def text(self, name: str, meaning: str, default: str | None = None) -> str | None:
        """The variable without blanks around it, or its default; None when it is missing."""
        self._copied.append(name)
        value = os.environ.get(name, "").strip()
        if value:
            self._good[name] = value
            return value
        if default is None:
            self._missing[name] = meaning
        return default

    def number(self, name: str, meaning: str, least: int = 0, default: str | None = None) -> int | None:
        """A whole number that is not below `least`."""
        value = self.text(name, meaning, default)
        if value is None:
            return None
        if not (value.isascii() and value.isdigit() and int(value) >= least):
            return self.refuse(name, f"it must be a whole number from {least} on")
        return int(value)

    def choice(self, name: str, meaning: str, choices: Sequence[str], default: str | None = None) -> str | None:
        """One of some words."""
        value = self.text(name, meaning, default)
        if value is None or value in choices:
            return value
        return self.refuse(name, f"it must be {' or '.join(choices)}.{suggest.did_you_mean(value.upper(), choices)}".rstrip("."))

    def endpoints(self, name: str, meaning: str) -> list[str] | None:
        """HOST:PORT,HOST:PORT,..., each once."""
        value = self.text(name, meaning)
        if value is None:
            return None
        found = [each.strip() for each in value.split(",")]
        for each in found:
            try:
                check_endpoint(each)
            except ValueError:
                return self.refuse(name, f"{each!r} is not HOST:PORT, and commas stand between several")
            if found.count(each) > 1:
                return self.refuse(name, f"it names {each!r} twice")
        return found

    def show(self, name: str, value: str) -> None:
        """Sets what the lines to copy have for a variable that is missing or wrong."""
        self._example[name] = value

    def refuse(self, name: str, why: str) -> None:
        """Notes that a variable is wrong."""
        value = self._good.pop(name, os.environ.get(name, ""))
        self._wrong[name] = f"{name}={value!r}: {why}"

    def check(self, head: str, kind: type[ValueError] = ValueError, is_launched: bool = False) -> None:
        """Raises one error of this kind for all that was found; `head` is what upstream says. `is_launched`: `paddle launch local`
        sets all of them, which the last line says where none is set."""
        if not self._missing and not self._wrong:
            return
        lines = [f"{head}: {self._what} is told by environment variables."]
        if self._good:
            lines.append("  set:     " + ", ".join(f"{name}={value}" for name, value in self._good.items()))
        lines += [f"  missing: {name}, {meaning}" for name, meaning in self._missing.items()]
        lines += [f"  wrong:   {text}" for text in self._wrong.values()]
        lines.append("For example:")
        lines += [f"  export {name}={self._good.get(name) or self._example[name]}"
                  for name in self._copied if name in self._good or name in self._example]
        if is_launched and not self._good and not self._wrong:
            script = sys.argv[0] if sys.argv[0].endswith(".py") else "train.py"
            lines.append(f"Or have all of them set: paddle launch local --server_num=1 --worker_num=2 {shlex.quote(script)}")
        raise kind("\n".join(lines))
