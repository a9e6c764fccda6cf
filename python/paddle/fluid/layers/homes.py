"""Module paths of layers. Upstream moved layers between its modules from release to release: a layer is found under each
of them, `paddle.fluid.layers.control_flow.StaticRNN` as well as `paddle.fluid.layers.nn.dynamic_lstm`.
"""

from __future__ import annotations

import importlib
from typing import Any, Callable

from paddle import absent


def served(module: str) -> Callable[[str], Any]:
    """The __getattr__ of a module: layers that stand in other modules; of what is not there, what is known of it."""

    def __getattr__(name: str) -> Any:
        layers = importlib.import_module("paddle.fluid.layers")
        if name in layers.__all__:
            return getattr(layers, name)
        absent.refuse(layers.__name__ if absent.find(f"{layers.__name__}.{name}") else module, name)

    return __getattr__
