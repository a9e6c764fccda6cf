"""paddle.dataset: readers of public data sets, one module each.

A module is loaded at first use and reads files only when a reader is asked for. Files are looked for in
~/.cache/paddle/dataset (PADDLE_DATASET_HOME names another folder), then downloaded. With
PADDLE_DATASET_SYNTHETIC=1 a small made-up set of the same layout takes the place of a missing file.
"""

from __future__ import annotations

import importlib
from types import ModuleType

__all__ = [
    "mnist",
    "imikolov",
    "imdb",
    "cifar",
    "movielens",
    "conll05",
    "sentiment",
    "uci_housing",
    "wmt14",
    "wmt16",
    "mq2007",
    "flowers",
    "voc2012",
    "image",
]


def __getattr__(name: str) -> ModuleType:
    if name in __all__ or name == "common":
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module 'paddle.dataset' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "common"})
