"""The arguments of transpile, in all the orders that releases of Fluid have had.

- early 2018: (optimize_ops, params_grads, program, pservers, trainers, split_method)
- v0.11.1, v0.12: (optimize_ops, params_grads, trainer_id, program, pservers, trainers, split_method,
  sync_mode)
- v0.13, v0.14: (trainer_id, program, pservers, trainers, split_method, sync_mode, slice_var_up)
- v0.15 to v1.8: (trainer_id, program, pservers, trainers, sync_mode, startup_program, current_endpoint)

Without a trainer_id, in any of them, the first server hands one out.
"""

from __future__ import annotations

import operator
import os
import warnings
from dataclasses import dataclass

import numpy as np

from paddle.fluid import suggest
from paddle.fluid.framework import Program, default_main_program, default_startup_program
from paddle.fluid.log_helper import notice

_OLD = ("optimize_ops", "params_grads")
_EARLY = (*_OLD, "program", "pservers", "trainers", "split_method", "sync_mode")
_V12 = (*_OLD, "trainer_id", "program", "pservers", "trainers", "split_method", "sync_mode")
_V13 = ("trainer_id", "program", "pservers", "trainers", "split_method", "sync_mode", "slice_var_up")
_V18 = ("trainer_id", "program", "pservers", "trainers", "sync_mode", "startup_program", "current_endpoint")
_NAMES = tuple(dict.fromkeys([*_V12, *_V13, *_V18]))
_ROLES = ("PSERVER", "TRAINER")
DEFAULT_ENDPOINT = "127.0.0.1:6174"
ANY_TRAINER = -1


@dataclass
class Arguments:
    """The arguments of a call, checked."""

    trainer_id: int
    program: Program
    startup_program: Program
    endpoints: list
    trainers: int
    sync_mode: bool
    current_endpoint: str
    split_method: object = None
    slice_var_up: bool | None = None


def _is_split(value) -> bool:
    return callable(value) and not isinstance(value, (bool, Program))


def _order(values: tuple, named: dict) -> tuple:
    """The names that the plain arguments have, by what stands where."""
    first = values[0] if values else None
    if isinstance(first, (list, tuple)) or any(name in named for name in _OLD):
        third = values[2] if len(values) > 2 else None
        return _V12 if "trainer_id" in named or _number(third) is not None else _EARLY
    fifth = values[4] if len(values) > 4 else None
    return _V13 if _is_split(fifth) or ("split_method" in named and len(values) > 4) else _V18


def _number(value) -> int | None:
    """A whole number of Python or numpy as int; None for all else, True and False among them."""
    if isinstance(value, (bool, np.bool_)):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def parse(values: tuple, named: dict) -> Arguments:
    """Reads a call of transpile; says which argument is wrong."""
    order = _order(values, named)
    if len(values) > len(order):
        raise TypeError(
            f"transpile takes at most {len(order)} arguments ({', '.join(order)}), found {len(values)}."
        )
    given = dict(zip(order, values))
    for name, value in named.items():
        if name not in _NAMES:
            hint = suggest.did_you_mean(name, _NAMES) or f" It takes {', '.join(_NAMES)}."
            raise TypeError(f"transpile has no argument {name!r}.{hint}")
        if name in given:
            raise TypeError(f"transpile got the argument {name!r} twice.")
        given[name] = value
    trainers = _trainers(given.get("trainers", 1))
    return Arguments(
        trainer_id=_trainer_id(given, trainers),
        program=_program(given, "program", default_main_program),
        startup_program=_program(given, "startup_program", default_startup_program),
        endpoints=parse_endpoints(given.get("pservers", DEFAULT_ENDPOINT)),
        trainers=trainers,
        sync_mode=_flag(given, "sync_mode", True),
        current_endpoint=_current(given.get("current_endpoint", DEFAULT_ENDPOINT)),
        split_method=given.get("split_method"),
        slice_var_up=_flag(given, "slice_var_up", None),
    )


def _trainers(value) -> int:
    if isinstance(value, str) and ":" in value:
        raise TypeError(
            f"trainers is {value!r}; with parameter servers it is the number of trainers. Endpoints of "
            "trainers belong to mode 'nccl2', which this package does not have."
        )
    if isinstance(value, str):
        hint = f"give int({value!r})." if value.strip().isdigit() else "give a whole number, such as 2."
        raise TypeError(f"trainers is the text {value!r}; it is the number of trainers: {hint}")
    number = _number(value)
    if number is None:
        raise TypeError(f"trainers is {value!r}; it must be a whole number.")
    if number < 1:
        raise ValueError(f"trainers is {number}; there must be at least 1.")
    return number


def _role() -> str:
    """What the environment says that this process is. A typo is told: scripts take what is no PSERVER for a trainer."""
    name = next((name for name in ("TRAINING_ROLE", "PADDLE_TRAINING_ROLE") if name in os.environ), "")
    role = os.environ.get(name, "").upper()
    if role not in _ROLES and suggest.nearest(role, _ROLES):
        notice(f"warning: {name} is {os.environ[name]!r}.{suggest.did_you_mean(role, _ROLES)}")
    return role


def _trainer_id(given: dict, trainers: int) -> int:
    value, role = given.get("trainer_id"), _role()
    if value is None:
        return ANY_TRAINER
    number = _number(value)
    if number is None:
        raise TypeError(f"trainer_id is {value!r}; it must be a whole number from 0 on.")
    # Servers often pass a number that is not used.
    if number < ANY_TRAINER or (number >= trainers and role != "PSERVER"):
        raise ValueError(
            f"trainer_id is {number}, but trainers is {trainers}: trainers are numbered from 0 to {trainers - 1}. "
            "Only a server, a process with TRAINING_ROLE=PSERVER in its environment, may give another number."
        )
    return number


def _program(given: dict, name: str, default) -> Program:
    value = given.get(name)
    if value is None:
        return default()
    if not isinstance(value, Program):
        raise TypeError(f"{name} is a {type(value).__name__}; it must be a Program.")
    return value


def _flag(given: dict, name: str, default):
    value = given.get(name, default)
    if value is not default and not isinstance(value, (bool, int, np.bool_)):
        raise TypeError(f"{name} is {value!r}; it must be True or False.")
    return value if value is None else bool(value)


def _current(value) -> str:
    """Only collective jobs use it; scripts for both kinds give None here."""
    if value is None:
        return DEFAULT_ENDPOINT
    if not isinstance(value, str):
        raise TypeError(f"current_endpoint is {value!r}; it must be a str such as {DEFAULT_ENDPOINT!r}.")
    return value


def check_endpoint(text: str) -> str:
    """HOST:PORT or [IPV6]:PORT, without blanks around it; says what is wrong with others.

    Port 0 lets the system choose: a server may do that, when its trainers are told in another way.
    """
    endpoint = text.strip()
    host, colon, port = endpoint.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if not endpoint:
        raise ValueError("pservers has an empty endpoint; give HOST:PORT, separated by commas.")
    if not colon or not host or (":" in host and not bracketed) or " " in endpoint or host == "[]":
        raise ValueError(
            f"pservers has the endpoint {text!r}; it must be HOST:PORT, for IPv6 [ADDRESS]:PORT, with commas between several."
        )
    if not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"the port of the endpoint {text!r} must be a number from 1 to 65535.")
    return endpoint


def parse_endpoints(value) -> list[str]:
    """The endpoints of a comma list, or of a list."""
    if isinstance(value, str):
        parts = value.split(",")
    elif isinstance(value, (list, tuple)) and all(isinstance(each, str) for each in value):
        parts = list(value)
    else:
        raise TypeError(f"pservers is {value!r}; it must be a str of endpoints separated by commas.")
    found = [check_endpoint(each) for each in parts]
    if not found:
        raise ValueError("pservers is empty; give at least one endpoint.")
    for each in found:
        if found.count(each) > 1:
            raise ValueError(f"pservers names the endpoint {each!r} twice; each server has its own.")
    return found


def check_map(endpoints: list[str]) -> None:
    """Warns of ways in PADDLE_PS_MAP that nobody takes: their names are no endpoints of this job."""
    for entry in filter(None, os.environ.get("PADDLE_PS_MAP", "").split(",")):
        name = entry.partition("=")[0]
        if name not in endpoints:
            warnings.warn(
                f"PADDLE_PS_MAP has a way to {name!r}, which is not in pservers: nobody takes it."
                f"{suggest.did_you_mean(name, endpoints)} The endpoints are {', '.join(endpoints)}.",
                stacklevel=2,
            )
