"""The path of recurrent layers since 1.6; they stand in `recurrent`. Upstream has a layer of this name too."""

import sys
import types
from typing import NoReturn

from paddle import absent
from paddle.fluid.layers import homes

__getattr__ = homes.served(__name__)


class _Module(types.ModuleType):
    def __call__(self, *args, **kwargs) -> NoReturn:
        raise NotImplementedError(absent.sentence(__name__, absent.find("paddle.fluid.layers.RNNCell")))


sys.modules[__name__].__class__ = _Module
