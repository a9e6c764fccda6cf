"""What minimize() says of a loss that trains nothing. 1.8.5 says nothing, and neither does the loss, which stays as it is."""

from __future__ import annotations

import warnings

from paddle.fluid.core import VarDesc
from paddle.fluid.framework import Variable

_MOST = 3  # are named
_FLOATS = (VarDesc.VarType.FP32, VarDesc.VarType.FP64)


def _stopped_between(loss: Variable) -> list[str]:
    """Variables with stop_gradient that are computed from trainable parameters and lead to the loss, in the order of the ops."""
    block = loss.block.program.global_block()
    ops = [(set(op.input_arg_names), op.output_arg_names) for op in block.ops]
    from_parameters = {param.name for param in block.all_parameters() if param.trainable}
    for inputs, outputs in ops:
        if not inputs.isdisjoint(from_parameters):
            from_parameters.update(outputs)
    to_loss = {loss.name}
    for inputs, outputs in reversed(ops):
        if not to_loss.isdisjoint(outputs):
            to_loss.update(inputs)
    names = dict.fromkeys(name for _, outputs in ops for name in outputs if name in from_parameters and name in to_loss)
    made = [block.var(name) for name in names if block.has_var(name) and name != loss.name]
    return [var.name for var in made if var.stop_gradient and var._has_dtype and var.dtype in _FLOATS]


def warn(loss: Variable, parameters: list | None) -> None:
    """`parameters`: the parameter_list of the call, or None."""
    asked = "any trainable parameter" if parameters is None else "a parameter of parameter_list"
    text = f"minimize: no gradient of the loss {loss.name!r} reaches {asked}, so that this trains nothing."
    stopped = _stopped_between(loss)
    if stopped:
        names = ", ".join(repr(name) for name in stopped[:_MOST]) + (", ..." if len(stopped) > _MOST else "")
        text += (
            f" stop_gradient is on for {names}, between the two. Set stop_gradient = False there, before the layers that "
            "read it; a loop may start from layers.assign(...) of a variable instead."
        )
    else:
        text += " Make the loss from layers with parameters, or name those in parameter_list that it is made from."
    warnings.warn(text, stacklevel=3)
