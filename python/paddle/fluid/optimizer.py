"""The update rules. Each is a small class: which state it keeps per parameter, which op it adds.

`fluid.optimizer` has the long names (SGDOptimizer) and the short ones (SGD).
"""

from __future__ import annotations

# The parts of minimize() can also be had from here, as upstream's own tests do.
from typing import TYPE_CHECKING, Callable

from paddle.fluid import docs, suggest
from paddle.fluid.backward import append_backward  # noqa: F401
from paddle.fluid.clip import append_gradient_clip_ops, error_clip_callback  # noqa: F401
from paddle.fluid.core import VarDesc
from paddle.fluid.docs import training
from paddle.fluid.framework import Variable, name_scope
from paddle.fluid.log_helper import notice
from paddle.fluid.optimizer_average import ExponentialMovingAverage, LookaheadOptimizer, ModelAverage
from paddle.fluid.optimizer_base import Optimizer
from paddle.fluid.regularizer import append_regularization_ops  # noqa: F401

if TYPE_CHECKING:
    from paddle.fluid.hints import GradientClipBase, Program, Rate, WeightDecayRegularizer

__all__ = [
    "SGD",
    "Momentum",
    "Adagrad",
    "Adam",
    "Adamax",
    "Dpsgd",
    "DecayedAdagrad",
    "Ftrl",
    "SGDOptimizer",
    "MomentumOptimizer",
    "AdagradOptimizer",
    "AdamOptimizer",
    "AdamaxOptimizer",
    "DpsgdOptimizer",
    "DecayedAdagradOptimizer",
    "RMSPropOptimizer",
    "FtrlOptimizer",
    "Adadelta",
    "AdadeltaOptimizer",
    "ModelAverage",
    "LarsMomentum",
    "LarsMomentumOptimizer",
    "DGCMomentumOptimizer",
    "LambOptimizer",
    "ExponentialMovingAverage",
    "PipelineOptimizer",
    "LookaheadOptimizer",
    "RecomputeOptimizer",
    "Optimizer",
]


class _Rule(Optimizer):
    """An optimizer given by tables.

    `_states` lists (kind of state, input slot, output slot or None); the state starts at zero with the
    parameter's shape unless `_create_accumulators` says otherwise. `_attributes` gives the op's attributes.
    """

    _states: tuple = ()
    _needs_rate = True

    def _create_accumulators(self, block, parameters: list) -> None:
        for param in parameters:
            for kind, _, _ in self._states:
                self._add_accumulator(kind, param)

    def _attributes(self, param) -> dict:
        return {}

    def _append_optimize_op(self, block, param_and_grad):
        param, grad = param_and_grad
        inputs = {"Param": [param], "Grad": [grad]}
        outputs = {"ParamOut": [param]}
        for kind, slot_in, slot_out in self._states:
            state = self._get_accumulator(kind, param)
            inputs[slot_in] = [state]
            if slot_out:
                outputs[slot_out] = [state]
        if self._needs_rate:
            inputs["LearningRate"] = [self._create_param_lr(param_and_grad)]
        self._extra_inputs(inputs)
        return block.append_op(
            type=self.type, inputs=inputs, outputs=outputs, attrs=self._attributes(param), stop_gradient=True
        )

    def _extra_inputs(self, inputs: dict) -> None:
        """Adds inputs beyond parameter, gradient, rate and states."""


def _numbers(who: str, **values) -> list:
    """Returns the values as floats; says which one is missing."""
    for name, value in values.items():
        if value is None:
            raise ValueError(f"{who}: {name} is None. Give a number, or leave it out for the default.")
    return [float(value) for value in values.values()]


class SGDOptimizer(_Rule):
    """param -= learning_rate * grad

    >>> loss = fluid.layers.mean(fluid.layers.fc(fluid.data(name='x', shape=[None, 2]), 1))
    >>> ops, pairs = fluid.optimizer.SGD(learning_rate=0.1).minimize(loss)
    >>> [param.name for param, grad in pairs]
    ['fc_0.w_0', 'fc_0.b_0']
    """

    type = "sgd"


class MomentumOptimizer(_Rule):
    """velocity = momentum * velocity + grad; param -= learning_rate * velocity.

    With `use_nesterov`: param -= learning_rate * (grad + momentum * velocity).
    """

    type = "momentum"
    _velocity_acc_str = "velocity"
    _states = ((_velocity_acc_str, "Velocity", "VelocityOut"),)

    def __init__(
        self,
        learning_rate: Rate,
        momentum: float,
        parameter_list: list | None = None,
        use_nesterov: bool = False,
        regularization: WeightDecayRegularizer | None = None,
        grad_clip: GradientClipBase | None = None,
        name: str | None = None,
        **old,
    ):
        if isinstance(parameter_list, bool):  # up to v1.6 the third argument was use_nesterov
            parameter_list, use_nesterov = None, parameter_list
        super().__init__(learning_rate, parameter_list, regularization, grad_clip, name, **old)
        (self._momentum,) = _numbers("Momentum", momentum=momentum)
        self._use_nesterov = bool(use_nesterov)

    def _attributes(self, param) -> dict:
        return {"mu": self._momentum, "use_nesterov": self._use_nesterov}


class LarsMomentumOptimizer(_Rule):
    """Momentum whose rate follows the size of each parameter:

    rate = learning_rate * lars_coeff * |param| / (|grad| + lars_weight_decay * |param|);
    velocity = momentum * velocity + rate * (grad + lars_weight_decay * param); param -= velocity
    """

    type = "lars_momentum"
    _velocity_acc_str = "velocity"
    _states = ((_velocity_acc_str, "Velocity", "VelocityOut"),)

    def __init__(
        self,
        learning_rate: Rate,
        momentum: float,
        lars_coeff: float = 0.001,
        lars_weight_decay: float = 0.0005,
        parameter_list: list | None = None,
        regularization: WeightDecayRegularizer | None = None,
        grad_clip: GradientClipBase | None = None,
        name: str | None = None,
        **old,
    ):
        super().__init__(learning_rate, parameter_list, regularization, grad_clip, name, **old)
        self._momentum, self._lars_coeff, self._lars_weight_decay = _numbers(
            "LarsMomentum", momentum=momentum, lars_coeff=lars_coeff, lars_weight_decay=lars_weight_decay
        )

    def _attributes(self, param) -> dict:
        return {
            "mu": self._momentum,
            "lars_coeff": self._lars_coeff,
            "lars_weight_decay": self._lars_weight_decay,
        }


class AdagradOptimizer(_Rule):
    """moment += grad * grad; param -= learning_rate * grad / (sqrt(moment) + epsilon)"""

    type = "adagrad"
    _moment_acc_str = "moment"
    _states = ((_moment_acc_str, "Moment", "MomentOut"),)

    def __init__(
        self,
        learning_rate: Rate,
        epsilon: float = 1.0e-6,
        parameter_list: list | None = None,
        regularization: WeightDecayRegularizer | None = None,
        grad_clip: GradientClipBase | None = None,
        name: str | None = None,
        initial_accumulator_value: float = 0.0,
        **old,
    ):
        super().__init__(learning_rate, parameter_list, regularization, grad_clip, name, **old)
        (self._epsilon,) = _numbers("Adagrad", epsilon=epsilon)
        self.initial_accumulator_value = initial_accumulator_value

    def _create_accumulators(self, block, parameters: list) -> None:
        for param in parameters:
            self._add_accumulator(self._moment_acc_str, param, fill_value=self.initial_accumulator_value)

    def _attributes(self, param) -> dict:
        return {"epsilon": self._epsilon}


class DecayedAdagradOptimizer(_Rule):
    """Adagrad with a moment that forgets: moment = decay * moment + (1 - decay) * grad * grad"""

    type = "decayed_adagrad"
    _moment_acc_str = "moment"
    _states = ((_moment_acc_str, "Moment", "MomentOut"),)

    def __init__(
        self,
        learning_rate: Rate,
        decay: float = 0.95,
        epsilon: float = 1.0e-6,
        parameter_list: list | None = None,
        regularization: WeightDecayRegularizer | None = None,
        grad_clip: GradientClipBase | None = None,
        name: str | None = None,
        **old,
    ):
        super().__init__(learning_rate, parameter_list, regularization, grad_clip, name, **old)
        self._decay, self._epsilon = _numbers("DecayedAdagrad", decay=decay, epsilon=epsilon)

    def _attributes(self, param) -> dict:
        return {"epsilon": self._epsilon, "decay": self._decay}


class AdamOptimizer(_Rule):
    """Adam. `beta1` and `beta2` may be Variables.

    With `lazy_mode`, a sparse gradient updates only its own rows; else all rows decay.

    >>> loss = fluid.layers.mean(fluid.layers.fc(fluid.data(name='x', shape=[None, 2]), 1))
    >>> ops, pairs = fluid.optimizer.Adam(learning_rate=0.001).minimize(loss)
    """

    type = "adam"
    _moment1_acc_str = "moment1"
    _moment2_acc_str = "moment2"
    _beta1_pow_acc_str = "beta1_pow_acc"
    _beta2_pow_acc_str = "beta2_pow_acc"
    _states = (
        (_moment1_acc_str, "Moment1", "Moment1Out"),
        (_moment2_acc_str, "Moment2", "Moment2Out"),
        (_beta1_pow_acc_str, "Beta1Pow", "Beta1PowOut"),
        (_beta2_pow_acc_str, "Beta2Pow", "Beta2PowOut"),
    )

    def __init__(
        self,
        learning_rate: Rate = 0.001,
        beta1: Rate = 0.9,
        beta2: Rate = 0.999,
        epsilon: float = 1e-8,
        parameter_list: list | None = None,
        regularization: WeightDecayRegularizer | None = None,
        grad_clip: GradientClipBase | None = None,
        name: str | None = None,
        lazy_mode: bool = False,
        **old,
    ):
        super().__init__(learning_rate, parameter_list, regularization, grad_clip, name, **old)
        (self._epsilon,) = _numbers("Adam", epsilon=epsilon)
        self._beta1 = beta1 if isinstance(beta1, Variable) else _numbers("Adam", beta1=beta1)[0]
        self._beta2 = beta2 if isinstance(beta2, Variable) else _numbers("Adam", beta2=beta2)[0]
        self._lazy_mode = lazy_mode

    def _create_accumulators(self, block, parameters: list) -> None:
        powers = (
            (self._beta1_pow_acc_str, 0.9 if isinstance(self._beta1, Variable) else self._beta1),
            (self._beta2_pow_acc_str, 0.999 if isinstance(self._beta2, Variable) else self._beta2),
        )
        for param in parameters:
            self._add_accumulator(self._moment1_acc_str, param)
            self._add_accumulator(self._moment2_acc_str, param)
            for kind, first in powers:
                self._add_accumulator(
                    kind, param, fill_value=first, shape=[1], type=VarDesc.VarType.LOD_TENSOR, device="cpu"
                )

    def _extra_inputs(self, inputs: dict) -> None:
        if isinstance(self._beta1, Variable):
            inputs["Beta1Tensor"] = [self._beta1]
        if isinstance(self._beta2, Variable):
            inputs["Beta2Tensor"] = [self._beta2]

    def _attributes(self, param) -> dict:
        attrs = {
            "epsilon": self._epsilon,
            "lazy_mode": bool(self._lazy_mode),
            "min_row_size_to_use_multithread": 1000,
        }
        if not isinstance(self._beta1, Variable):
            attrs["beta1"] = self._beta1
        if not isinstance(self._beta2, Variable):
            attrs["beta2"] = self._beta2
        return attrs


class LambOptimizer(AdamOptimizer):
    """Adam with decay, scaled per parameter by |param| / |update|, for large batches.

    `exclude_from_weight_decay_fn(param)` says True for parameters without decay.
    """

    type = "lamb"
    _states = (
        (AdamOptimizer._moment1_acc_str, "Moment1", "Moment1Out"),
        (AdamOptimizer._moment2_acc_str, "Moment2", "Moment2Out"),
        (AdamOptimizer._beta1_pow_acc_str, "Beta1Pow", None),
        (AdamOptimizer._beta2_pow_acc_str, "Beta2Pow", None),
    )

    def __init__(
        self,
        learning_rate: Rate = 0.001,
        lamb_weight_decay: float = 0.01,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-6,
        parameter_list: list | None = None,
        regularization: WeightDecayRegularizer | None = None,
        grad_clip: GradientClipBase | None = None,
        exclude_from_weight_decay_fn: Callable | None = None,
        name: str | None = None,
        **old,
    ):
        super().__init__(
            learning_rate, beta1, beta2, epsilon, parameter_list, regularization, grad_clip, name, **old
        )
        (self._weight_decay,) = _numbers("Lamb", lamb_weight_decay=lamb_weight_decay)
        self._exclude_from_weight_decay_fn = exclude_from_weight_decay_fn

    def _append_optimize_op(self, block, param_and_grad):
        block.program._use_lamb = True
        return super()._append_optimize_op(block, param_and_grad)

    def _extra_inputs(self, inputs: dict) -> None:
        """The op reads beta1 and beta2 as attributes only."""

    def _attributes(self, param) -> dict:
        exclude = self._exclude_from_weight_decay_fn
        return {
            "beta1": self._beta1,
            "beta2": self._beta2,
            "epsilon": self._epsilon,
            "weight_decay": 0.0 if exclude is not None and exclude(param) else self._weight_decay,
        }


class AdamaxOptimizer(_Rule):
    """Adam with the largest gradient seen (decayed by beta2) in place of the second moment."""

    type = "adamax"
    _moment_acc_str = "moment"
    _inf_norm_acc_str = "inf_norm"
    _beta1_pow_acc_str = "beta1_pow_acc"
    _states = (
        (_moment_acc_str, "Moment", "MomentOut"),
        (_inf_norm_acc_str, "InfNorm", "InfNormOut"),
        (_beta1_pow_acc_str, "Beta1Pow", None),
    )

    def __init__(
        self,
        learning_rate: Rate = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        parameter_list: list | None = None,
        regularization: WeightDecayRegularizer | None = None,
        grad_clip: GradientClipBase | None = None,
        name: str | None = None,
        **old,
    ):
        super().__init__(learning_rate, parameter_list, regularization, grad_clip, name, **old)
        self._beta1, self._beta2, self._epsilon = _numbers(
            "Adamax", beta1=beta1, beta2=beta2, epsilon=epsilon
        )

    def _create_accumulators(self, block, parameters: list) -> None:
        for param in parameters:
            self._add_accumulator(self._moment_acc_str, param)
            self._add_accumulator(self._inf_norm_acc_str, param)
            self._add_accumulator(self._beta1_pow_acc_str, param, fill_value=self._beta1, shape=[1])

    def _attributes(self, param) -> dict:
        return {"beta1": self._beta1, "beta2": self._beta2, "epsilon": self._epsilon}

    def _finish_update(self, block, parameters_and_grads: list) -> None:
        # The op reads the power of beta1 and leaves it as it is.
        for param, grad in parameters_and_grads:
            if grad is None or not param.trainable:
                continue
            with param.block.program._optimized_guard([param, grad]), name_scope("adamx"):
                power = self._get_accumulator(self._beta1_pow_acc_str, param)
                block.append_op(
                    type="scale",
                    inputs={"X": [power]},
                    outputs={"Out": [power]},
                    attrs={"scale": self._beta1},
                    stop_gradient=True,
                )


class DpsgdOptimizer(_Rule):
    """SGD with clipped gradients and noise: differential privacy."""

    type = "dpsgd"

    def __init__(
        self,
        learning_rate: Rate = 0.001,
        clip: float = 0.9,
        batch_size: float = 0.999,
        sigma: float = 1e-8,
        parameter_list: list | None = None,
    ):
        super().__init__(learning_rate, parameter_list)
        self._clip, self._batch_size, self._sigma = _numbers(
            "Dpsgd", clip=clip, batch_size=batch_size, sigma=sigma
        )
        self._seed = None

    def _attributes(self, param) -> dict:
        return {
            "clip": self._clip,
            "batch_size": self._batch_size,
            "sigma": self._sigma,
            "seed": int(self._seed or 0),
        }


class AdadeltaOptimizer(_Rule):
    """Adadelta: the step is the gradient times the ratio of the means of past updates and past gradients.

    The rule finds its own step size; `learning_rate` is accepted and not used by the op.
    """

    type = "adadelta"
    _needs_rate = False
    _avg_squared_grad_acc_str = "_avg_squared_grad"
    _avg_squared_update_acc_str = "_avg_squared_update"
    _states = (
        (_avg_squared_grad_acc_str, "AvgSquaredGrad", "AvgSquaredGradOut"),
        (_avg_squared_update_acc_str, "AvgSquaredUpdate", "AvgSquaredUpdateOut"),
    )

    def __init__(
        self,
        learning_rate: Rate,
        epsilon: float = 1.0e-6,
        rho: float = 0.95,
        parameter_list: list | None = None,
        regularization: WeightDecayRegularizer | None = None,
        grad_clip: GradientClipBase | None = None,
        name: str | None = None,
        **old,
    ):
        super().__init__(learning_rate, parameter_list, regularization, grad_clip, name, **old)
        self._epsilon, self._rho = _numbers("Adadelta", epsilon=epsilon, rho=rho)

    def _attributes(self, param) -> dict:
        return {"epsilon": self._epsilon, "rho": self._rho}


class RMSPropOptimizer(_Rule):
    """Divides the gradient by the root of a mean of its squares, with momentum.

    With `centered`, the squared mean of the gradient is taken off first.
    """

    type = "rmsprop"
    _momentum_acc_str = "momentum"
    _mean_square_acc_str = "mean_square"
    _mean_grad_acc_str = "mean_grad"
    _states = (
        (_momentum_acc_str, "Moment", "MomentOut"),
        (_mean_square_acc_str, "MeanSquare", "MeanSquareOut"),
        (_mean_grad_acc_str, "MeanGrad", "MeanGradOut"),
    )

    def __init__(
        self,
        learning_rate: Rate,
        rho: float = 0.95,
        epsilon: float = 1.0e-6,
        momentum: float = 0.0,
        centered: bool = False,
        parameter_list: list | None = None,
        regularization: WeightDecayRegularizer | None = None,
        grad_clip: GradientClipBase | None = None,
        name: str | None = None,
        **old,
    ):
        super().__init__(learning_rate, parameter_list, regularization, grad_clip, name, **old)
        self._rho, self._epsilon, self._momentum = _numbers(
            "RMSProp", rho=rho, epsilon=epsilon, momentum=momentum
        )
        self._centered = bool(centered)

    def _attributes(self, param) -> dict:
        return {
            "epsilon": self._epsilon,
            "decay": self._rho,
            "momentum": self._momentum,
            "centered": self._centered,
        }


class FtrlOptimizer(_Rule):
    """Follow the regularized leader, for sparse linear models."""

    type = "ftrl"
    _squared_acc_str = "squared"
    _linear_acc_str = "linear"
    _states = (
        (_squared_acc_str, "SquaredAccumulator", "SquaredAccumOut"),
        (_linear_acc_str, "LinearAccumulator", "LinearAccumOut"),
    )

    def __init__(
        self,
        learning_rate: Rate,
        l1: float = 0.0,
        l2: float = 0.0,
        lr_power: float = -0.5,
        parameter_list: list | None = None,
        regularization: WeightDecayRegularizer | None = None,
        grad_clip: GradientClipBase | None = None,
        name: str | None = None,
        **old,
    ):
        super().__init__(learning_rate, parameter_list, regularization, grad_clip, name, **old)
        self._l1, self._l2, self._lr_power = _numbers("Ftrl", l1=l1, l2=l2, lr_power=lr_power)

    def _attributes(self, param) -> dict:
        # All releases of Fluid hand l1 to the op as l2 too. Scripts were tuned with that, so it stays.
        return {"l1": self._l1, "l2": self._l1, "lr_power": self._lr_power}


def _absent(name: str, why: str) -> type:
    """Returns a class that says, when it is used, why there is no such optimizer and what to use."""

    def refuse(self, *args, **kwargs):
        raise RuntimeError(f"{name} is not there: {why}")

    return type(name, (Optimizer,), {"__init__": refuse, "__doc__": f"Not there: {why}"})


DGCMomentumOptimizer = _absent(
    "DGCMomentumOptimizer",
    "deep gradient compression needs several GPUs. Use Momentum, which computes the same without "
    "compression.",
)
PipelineOptimizer = _absent(
    "PipelineOptimizer",
    "a program runs on one place here. Give minimize() of the optimizer inside it the loss directly.",
)


class RecomputeOptimizer(Optimizer):
    """Upstream, it saves memory by computing activations between checkpoints again in the backward pass.

    Here activations are kept, so it does what the optimizer inside it does, with the same results.
    """

    def __init__(self, optimizer: Optimizer):
        self._optimizer = optimizer
        self._checkpoints = None
        self._learning_rate = optimizer._learning_rate
        self._learning_rate_map = optimizer._learning_rate_map

    def _set_checkpoints(self, checkpoints: list) -> None:
        """Takes the variables (or names) upstream would keep."""
        self._checkpoints = checkpoints

    def load(self, stat_dict):
        self._imperative_only("load")

    def backward(self, loss: Variable, startup_program: Program | None = None, parameter_list: list | None = None,
                 no_grad_set: set | list | None = None, callbacks: list | None = None):
        """Adds the backward pass of the optimizer inside.

        Args:
            loss: a Variable of one element.
            startup_program: the Program that fills the states; None: the default one.
            parameter_list: Parameters or names; None: all trainable ones.
            no_grad_set: Variables or names that get no gradient.
            callbacks: as append_backward takes them.

        Returns:
            pairs (parameter, gradient).
        """
        notice("RecomputeOptimizer keeps all activations: the results are the same, no memory is saved.")
        self._dtype = loss.dtype
        return self._optimizer.backward(loss, startup_program, parameter_list, no_grad_set, callbacks)

    def apply_gradients(self, params_grads: list) -> list:
        """Adds the updates of the optimizer inside.

        Args:
            params_grads: pairs (parameter, gradient), as backward gave them.

        Returns:
            the update ops.
        """
        return self._optimizer.apply_gradients(params_grads)

    def minimize(
        self, loss: Variable, startup_program: Program | None = None, parameter_list: list | None = None,
        no_grad_set: set | list | None = None, grad_clip: GradientClipBase | None = None
    ) -> tuple:
        """Like minimize of the optimizer inside; _set_checkpoints must come first, as upstream.

        Args:
            loss: a Variable of one element.
            startup_program: the Program that fills the states; None: the default one.
            parameter_list: Parameters or names; None: all trainable ones.
            no_grad_set: Variables or names that get no gradient.
            grad_clip: a GradientClipBy... object.

        Returns:
            (update ops, pairs (parameter, gradient)).
        """
        if self._checkpoints is None:
            raise ValueError("RecomputeOptimizer: call _set_checkpoints([...]) before minimize.")
        if grad_clip is not None and self._optimizer._grad_clip is None:
            self._optimizer._grad_clip = grad_clip
        return super().minimize(loss, startup_program, parameter_list, no_grad_set)


SGD = SGDOptimizer
Momentum = MomentumOptimizer
Adagrad = AdagradOptimizer
Adam = AdamOptimizer
Adamax = AdamaxOptimizer
Dpsgd = DpsgdOptimizer
DecayedAdagrad = DecayedAdagradOptimizer
Adadelta = AdadeltaOptimizer
RMSProp = RMSPropOptimizer
Ftrl = FtrlOptimizer
LarsMomentum = LarsMomentumOptimizer
Lamb = LambOptimizer

docs.complete(__all__, globals(), training.OPTIMIZERS)
suggest.make_helpful(__all__, globals())
