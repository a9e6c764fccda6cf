"""paddle: runs PaddlePaddle's training scripts of four generations on one small C engine.

Importing it is cheap: the parts are loaded when they are first used.

>>> import paddle
>>> import paddle.fluid as fluid
"""

from __future__ import annotations

import importlib
import os
from typing import Any

# Threads that wait for each other inside an op spin for about half a millisecond before they sleep. The default of the
# OpenMP library is ten times that, which hurts where other processes want the cores. It is read when the engine is loaded.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")

from paddle.batch import batch
from paddle.version import full_version as __version__  # noqa: F401

__all__ = ["batch", "compat", "dataset", "fluid", "reader", "v2", "version"]

# Packages that upstream has and this package has not yet.
_NOT_YET = frozenset("""
    complex distributed hapi imperative incubate nn sysconfig tensor trainer trainer_config_helpers utils
    """.split())


def __getattr__(name: str) -> Any:
    if name in ("compat", "dataset", "fluid", "reader", "v2"):
        return importlib.import_module(f"paddle.{name}")
    if name in _NOT_YET:
        raise AttributeError(f"paddle.{name} is not there yet in this package.")
    raise AttributeError(f"module 'paddle' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
