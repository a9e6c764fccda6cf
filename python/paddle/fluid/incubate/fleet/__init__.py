"""fluid.incubate.fleet: one script for servers and workers. docs/FLEET.md is the guide.

base: who a process is (role_maker), and what every Fleet has (fleet_base). parameter_server.distribute_transpiler: the Fleet that
trains with parameter servers. utils: files and small helpers.
"""

from __future__ import annotations

from paddle import absent

_MODULES = frozenset({"base", "collective", "parameter_server", "utils"})


def __getattr__(name: str):
    return absent.module_or_refuse(__name__, name, _MODULES)
