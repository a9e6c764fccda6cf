"""fluid.layers: each function here appends ops to the current program and returns their outputs.

The families live in modules of their own: `nn` (and behind it `conv`, `norm`, `elementwise`, `reduce`,
`shape_ops`, `index_ops`, `random_ops`, `image` and `ops`), `tensor`, `loss`, `metric_op`, `sequence_lod`,
`recurrent`, `control_flow` (with `arrays` and `block_rnn`), `learning_rate_scheduler`, `io` and `device`.
All layers are built with the few functions of `build`.
"""

from __future__ import annotations

import sys

from paddle import absent
from paddle.fluid import docs, suggest
from paddle.fluid.docs import flow, losses, math, network, shapes
from paddle.fluid.layers import (  # noqa: F401  (all of them are reached as fluid.layers.<module>)
    block_rnn,
    control_flow,
    device,
    dtypes,
    io,
    layer_function_generator,
    learning_rate_scheduler,
    loss,
    math_op_patch,
    metric_op,
    nn,
    ops,
    recurrent,
    rnn,
    sequence_lod,
    tensor,
    utils,
)
from paddle.fluid.layers.block_rnn import *  # noqa: F401,F403
from paddle.fluid.layers.control_flow import *  # noqa: F401,F403
from paddle.fluid.layers.device import *  # noqa: F401,F403
from paddle.fluid.layers.io import *  # noqa: F401,F403
from paddle.fluid.layers.learning_rate_scheduler import *  # noqa: F401,F403
from paddle.fluid.layers.loss import *  # noqa: F401,F403
from paddle.fluid.layers.math_op_patch import monkey_patch_variable
from paddle.fluid.layers.metric_op import *  # noqa: F401,F403
from paddle.fluid.layers.nn import *  # noqa: F401,F403
from paddle.fluid.layers.recurrent import *  # noqa: F401,F403
from paddle.fluid.layers.sequence_lod import *  # noqa: F401,F403
from paddle.fluid.layers.tensor import *  # noqa: F401,F403

MODULES = (
    nn,
    io,
    tensor,
    control_flow,
    block_rnn,
    device,
    metric_op,
    learning_rate_scheduler,
    sequence_lod,
    loss,
    recurrent,
)

__all__ = list(dict.fromkeys(name for module in MODULES for name in module.__all__))

# What the docstrings say of arguments.
DOCS = (network.TEXT, math.TEXT, losses.TEXT, shapes.TEXT, flow.TEXT)

monkey_patch_variable()
docs.complete(__all__, globals(), *DOCS)
_spaces = [vars(module) for name, module in list(sys.modules.items()) if name.startswith(__name__)]
dtypes.check_all(globals(), *_spaces)
suggest.make_helpful(__all__, *_spaces)


def __getattr__(name: str):
    absent.refuse(__name__, name)
