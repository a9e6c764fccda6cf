"""What every Fleet has, and how a process learns its role."""

from __future__ import annotations

from paddle import absent

_MODULES = frozenset({"fleet_base", "mode", "role_maker"})


def __getattr__(name: str):
    return absent.module_or_refuse(__name__, name, _MODULES)
