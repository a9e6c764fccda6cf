"""paddle: runs PaddlePaddle's training scripts of four generations on one small C engine.

Importing it is cheap: the parts are loaded when they are first used.

>>> import paddle
>>> import paddle.fluid as fluid
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

# Threads that wait for each other inside an op spin for about half a millisecond before they sleep. The default of the
# OpenMP library is ten times that, which hurts where other processes want the cores. It is read when the engine is loaded.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")

from paddle import absent, brought
from paddle.batch import batch
from paddle.version import full_version as __version__  # noqa: F401

__all__ = ["batch", "compat", "dataset", "distributed", "fluid", "reader", "sysconfig", "utils", "v2", "version"]

absent.answer_imports()
brought.explain()

if TYPE_CHECKING:
    from paddle import compat as compat
    from paddle import dataset as dataset
    from paddle import distributed as distributed
    from paddle import fluid as fluid
    from paddle import reader as reader
    from paddle import sysconfig as sysconfig
    from paddle import utils as utils
    from paddle import v2 as v2

def __getattr__(name: str) -> Any:
    if name in ("compat", "dataset", "distributed", "fluid", "reader", "sysconfig", "utils", "v2"):
        return importlib.import_module(f"paddle.{name}")
    absent.refuse(__name__, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
