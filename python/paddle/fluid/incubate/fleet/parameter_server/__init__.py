"""Fleets with parameter servers: `distribute_transpiler`, and `pslib`, whose scripts train on the same servers."""

from __future__ import annotations

from paddle import absent

_MODULES = frozenset({"distribute_transpiler", "pslib"})


def __getattr__(name: str):
    return absent.module_or_refuse(__name__, name, _MODULES)
