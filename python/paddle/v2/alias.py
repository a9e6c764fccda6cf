"""Makes a package or module of paddle.v2 another name of one of paddle, submodules included.

Both names give the same module objects, so a setting such as common.DATA_HOME is one setting.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from types import ModuleType
from typing import Any


class _Alias(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Answers `import <new>.x` with the module `<old>.x`."""

    def __init__(self, new: str, old: str) -> None:
        self.new = new
        self.old = old

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if not fullname.startswith(f"{self.new}."):
            return None
        old_name = self.old + fullname[len(self.new) :]
        if importlib.util.find_spec(old_name) is None:
            return None
        return importlib.machinery.ModuleSpec(fullname, self)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        module = importlib.import_module(self.old + spec.name[len(self.new) :])
        # The import system puts its own spec on what it gets; exec_module gives the old one back.
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        spec = module.__spec__
        if spec is not None and spec.loader is self:
            module.__spec__ = spec.loader_state


def alias_package(new: str, old: str) -> None:
    """Call at the top of the package `new`: from then on its name gives the package `old`."""
    if not any(isinstance(finder, _Alias) and finder.new == new for finder in sys.meta_path):
        sys.meta_path.insert(0, _Alias(new, old))
    sys.modules[new] = importlib.import_module(old)
