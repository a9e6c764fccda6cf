"""Options of a launcher as a table: how they are read, what --help prints and what a message about one says all come from it.

Written as users of gflags, getopt and argparse write them: --name=value, --name value, -name; '-' and '_' in a name are the same.
The first word that is no option is the script; all behind it is the script's.
"""

from __future__ import annotations

import difflib
import textwrap
from collections.abc import Sequence
from typing import Any, NamedTuple

from paddle.distributed.hosts import Usage

WIDTH, COLUMN = 92, 25

SWITCH, TEXT, COUNT, SECONDS, CHOICE, YES_NO, MANY = "switch", "text", "count", "seconds", "choice", "yes_no", "many"


class Option(NamedTuple):
    name: str
    kind: str
    value: str  # what --help shows for it; of a choice "a|b|c"
    preset: Any
    help: str  # begins with a small letter, has no full stop; "": --help does not show it
    other_names: str = ""  # separated by blanks
    least: int = 0


class Refused(NamedTuple):
    """Options of upstream that mean something which is not here."""

    names: str
    why: str


def _plain(name: str) -> str:
    return name.lstrip("-").replace("-", "_")


def _find(table: Sequence[Option], name: str) -> Option | None:
    return next((each for each in table if name == each.name or name in each.other_names.split()), None)


def _unknown(table: Sequence[Option], refused: Sequence[Refused], typed: str) -> Usage:
    name = _plain(typed.partition("=")[0])
    for each in refused:
        if name in each.names.split():
            return Usage(f"--{name}: {each.why}")
    known = {other: option for option in table for other in (option.name, *option.other_names.split()) if option.help}
    near = difflib.get_close_matches(name, known, 1)
    guess = f" Did you mean '--{near[0]}'?" if near else ""
    return Usage(f"there is no option '{typed.partition('=')[0]}'.{guess} --help lists them.")


def _value(option: Option, text: str) -> Any:
    if option.kind == COUNT:
        if text.isascii() and text.isdigit() and int(text) >= option.least:
            return int(text)
        expects = f"a whole number from {option.least} on"
    elif option.kind == SECONDS:
        try:
            if 0 <= float(text) < float("inf"):
                return float(text)
        except ValueError:
            pass
        expects = "a number of seconds"
    elif option.kind == CHOICE:
        if text in option.value.split("|"):
            return text
        near = difflib.get_close_matches(text, option.value.split("|"), 1)
        expects = " or ".join(option.value.split("|")) + (f" (did you mean {near[0]}?)" if near else "")
    elif option.kind == YES_NO:
        if text.lower() in ("true", "1", "yes", "on", "false", "0", "no", "off", ""):
            return text.lower() in ("true", "1", "yes", "on")
        expects = "True or False"
    else:
        return text
    raise Usage(f"--{option.name} takes {expects}, found {text!r}.")


def read(table: Sequence[Option], words: Sequence[str], refused: Sequence[Refused] = ()) -> tuple[dict[str, Any], list[str]]:
    """The settings, and the words from the script on. A setting that nobody gave is None where its preset is."""
    settings = {option.name: [] if option.kind == MANY else option.preset for option in table}
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] != "-":
        typed, has_value, text = words[at].partition("=")
        at += 1
        if typed == "--" and not has_value:
            break
        option = _find(table, _plain(typed))
        if option is None:
            raise _unknown(table, refused, words[at - 1])
        if option.kind == SWITCH:
            settings[option.name] = _value(option._replace(kind=YES_NO), text) if has_value else True
            continue
        if not has_value:
            if at == len(words):
                raise Usage(f"{typed} needs a value: {option.value}.")
            text = words[at]
            at += 1
        value = _value(option, text)
        if option.kind == MANY:
            settings[option.name].append(value)
        else:
            settings[option.name] = value
    return settings, list(words[at:])


def show(table: Sequence[Option]) -> str:
    """The options as --help lists them."""
    lines = []
    for option in table:
        if not option.help:
            continue
        head = f"    --{option.name}" + ("" if option.kind == SWITCH else f" {option.value}")
        preset = "" if option.preset in (None, "", False) else f" (default: {option.preset})"
        text = textwrap.wrap(option.help + preset, WIDTH - COLUMN)
        if len(head) < COLUMN - 1:
            head += " " * (COLUMN - len(head)) + text.pop(0)
        lines += [head, *(" " * COLUMN + line for line in text)]
    return "\n".join(lines) + "\n"
