"""fluid.incubate: Fleet, and what prepares its data. Each part is loaded when it is first used."""

from __future__ import annotations

from paddle import absent

_MODULES = frozenset({"data_generator", "fleet"})


def __getattr__(name: str):
    return absent.module_or_refuse(__name__, name, _MODULES)
