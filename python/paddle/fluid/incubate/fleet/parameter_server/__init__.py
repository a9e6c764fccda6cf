"""Fleets with parameter servers: `distribute_transpiler` trains; `pslib` only says what is not there yet."""

from __future__ import annotations

from paddle import absent

_MODULES = frozenset({"distribute_transpiler", "pslib"})


def __getattr__(name: str):
    return absent.module_or_refuse(__name__, name, _MODULES)
