"""Weight decay: ops that add a term of the parameter to its gradient."""

from __future__ import annotations

from paddle.fluid import framework, suggest
from paddle.fluid.core import VarDesc
from paddle.fluid.log_helper import notice
from paddle.fluid.shown import Shown

__all__ = [
    "append_regularization_ops",
    "WeightDecayRegularizer",
    "L1Decay",
    "L2Decay",
    "L1DecayRegularizer",
    "L2DecayRegularizer",
]

# The name of the dense gradient that a sparse one becomes once a decay term is added to it.
_NEW_GRAD_SUFFIX = "@NEWGRAD@"


class WeightDecayRegularizer(Shown):
    """What all decays share. A call adds ops to `block` and returns the variable with the decay term."""

    def __call__(self, param, grad, block):
        raise TypeError(f"{type(self).__name__} has no decay rule. Use L1Decay or L2Decay.")

    def __str__(self) -> str:
        return type(self).__name__


class _CoefficientDecay(WeightDecayRegularizer):
    _title = ""

    def __init__(self, regularization_coeff: float = 0.0):
        if regularization_coeff is None:
            raise ValueError(f"{self._title}: regularization_coeff is None. Give it a number.")
        if isinstance(regularization_coeff, (str, bytes)):
            raise TypeError(f"{self._title}: regularization_coeff must be a number, found {regularization_coeff!r}.")
        self._regularization_coeff = regularization_coeff

    def _decay_var(self, param, block):
        if not isinstance(param, framework.Parameter):
            raise TypeError(f"{self._title} decays parameters, not a {type(param).__name__}.")
        return block.create_var(dtype=param.dtype, shape=param.shape, lod_level=param.lod_level)

    def _append_scale(self, block, x, out) -> None:
        attrs = {"scale": float(self._regularization_coeff)}
        block.append_op(type="scale", inputs={"X": [x]}, outputs={"Out": [out]}, attrs=attrs)

    def __str__(self) -> str:
        return f"{self._title}, regularization_coeff={self._regularization_coeff:f}"


class L2DecayRegularizer(_CoefficientDecay):
    """Adds coeff * param to the gradient.

    Args:
        regularization_coeff: the coeff in the formula.
    """

    _title = "L2Decay"

    def __call__(self, param, grad, block):
        decay = self._decay_var(param, block)
        self._append_scale(block, param, decay)
        return decay


class L1DecayRegularizer(_CoefficientDecay):
    """Adds coeff * sign(param) to the gradient.

    Args:
        regularization_coeff: the coeff in the formula.
    """

    _title = "L1Decay"

    def __call__(self, param, grad, block):
        decay = self._decay_var(param, block)
        block.append_op(type="sign", inputs={"X": [param]}, outputs={"Out": [decay]})
        self._append_scale(block, decay, decay)
        return decay


def _regularize(param, grad, regularization):
    """Returns the gradient with the decay of `param` (its own, else the optimizer's), or as it is."""
    rule = param.regularizer if param.regularizer is not None else regularization
    if grad is None or rule is None:
        return grad
    block = grad.block
    decay = rule(param, grad, block)
    total = grad
    if grad.type == VarDesc.VarType.SELECTED_ROWS:
        # The term touches every row, so the sum is dense and cannot live in the sparse variable.
        total = block.create_var(
            name=grad.name + _NEW_GRAD_SUFFIX,
            dtype=param.dtype,
            shape=param.shape,
            lod_level=param.lod_level,
            type=VarDesc.VarType.LOD_TENSOR,
        )
    block.append_op(type="sum", inputs={"X": [grad, decay]}, outputs={"Out": [total]})
    return total


def append_regularization_ops(parameters_and_grads: list, regularization: WeightDecayRegularizer | None = None) -> list:
    """Adds the decay ops for all pairs; returns the pairs with the gradients to use from here on.

    Args:
        parameters_and_grads: pairs (parameter, gradient).
        regularization: the decay of parameters that have none of their own.

    Returns:
        pairs (parameter, gradient).
    """
    result = []
    own = [param.name for param, _ in parameters_and_grads if param.regularizer is not None]
    if own and regularization is not None:
        notice(
            f"parameters with a regularizer of their own (such as {own[0]}) keep it; the optimizer's ({regularization}) goes to "
            "the others."
        )
    with framework.name_scope("regularization"):
        for param, grad in parameters_and_grads:
            with param.block.program._optimized_guard([param, grad]):
                result.append((param, _regularize(param, grad, regularization)))
    return result


L1Decay = L1DecayRegularizer
L2Decay = L2DecayRegularizer


suggest.make_helpful(__all__, globals())
