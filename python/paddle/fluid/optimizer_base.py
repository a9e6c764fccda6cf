"""What all optimizers share: the learning rate, the state per parameter, and the steps of `minimize`.

An update rule is a subclass that says which state it keeps and which op it adds per parameter.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Iterable

from paddle.fluid import framework, suggest, unique_name, untrained
from paddle.fluid.backward import append_backward
from paddle.fluid.clip import GradientClipBase, append_gradient_clip_ops, error_clip_callback
from paddle.fluid.framework import Variable, name_scope, program_guard
from paddle.fluid.initializer import Constant
from paddle.fluid.layer_helper import LayerHelper
from paddle.fluid.log_helper import notice
from paddle.fluid.regularizer import WeightDecayRegularizer, append_regularization_ops
from paddle.fluid.shown import Shown

if TYPE_CHECKING:
    from paddle.fluid.hints import Program, Rate

_DEVICE = "op_device"


def _learning_rate(value):
    """Returns a float or the Variable; whole numbers are taken as floats."""
    if isinstance(value, Variable):
        return value
    if isinstance(value, (str, bool)) or not hasattr(value, "__float__"):
        raise TypeError(f"learning_rate must be a number or a Variable, not a {type(value).__name__}.")
    return float(value)


def _names(what: Iterable | None) -> set:
    """Returns the names of the given variables or names."""
    if what is None:
        return set()
    if not isinstance(what, (set, frozenset, list, tuple)):
        raise TypeError(f"no_grad_set must be a set of variables or names, not a {type(what).__name__}.")
    return {each.name if isinstance(each, Variable) else str(each) for each in what}


def state_name(block, stem: str) -> str:
    """The next name for a state that no parameter has: one that a user called so would become the state."""
    name = unique_name.generate(stem)
    while isinstance(block.vars.get(name), framework.Parameter):
        name = unique_name.generate(stem)
    return name


class Optimizer(Shown):
    """Base of all optimizers.

    `learning_rate` is a number or a Variable (a schedule). `regularization` is the decay for parameters that
    have none of their own, `grad_clip` a GradientClipBy... object, `name` a part of the names of the states.
    """

    type = ""

    def __init__(
        self,
        learning_rate: Rate,
        parameter_list: list | None = None,
        regularization: WeightDecayRegularizer | None = None,
        grad_clip: GradientClipBase | None = None,
        name: str | None = None,
        **old,
    ):
        if isinstance(parameter_list, WeightDecayRegularizer):
            # Up to v1.6 there was no parameter_list, and regularization stood in its place.
            if isinstance(regularization, str):
                name = regularization
            parameter_list, regularization = None, parameter_list
        for key in ("LARS_weight_decay", "global_step"):
            if old.pop(key, None):
                notice(
                    f"{key} of {self.__class__.__name__} has no effect. For layer-wise rates use "
                    "LarsMomentum."
                )
        if old:
            raise suggest.no_argument(self.__class__, sorted(old)[0])
        if learning_rate is None:
            raise ValueError(
                f"{self.__class__.__name__}: learning_rate is None. Give a number or a Variable."
            )
        if grad_clip is not None and not isinstance(grad_clip, GradientClipBase):
            raise TypeError(
                f"grad_clip must be a GradientClipBy... object, not a {grad_clip.__class__.__name__}."
            )
        self._parameter_list = parameter_list
        self._name = name
        self.regularization = regularization
        self._grad_clip = grad_clip
        self._learning_rate = _learning_rate(learning_rate)
        self._dtype = None
        # Each program has a rate of its own; a Variable belongs to the program it was made in.
        self._learning_rate_map: dict = {}
        if isinstance(self._learning_rate, Variable):
            self._learning_rate_map[framework.default_main_program()] = self._learning_rate
        # State: {kind: {parameter name: variable}}.
        self._accumulators: dict = {}
        self._opti_name_list: list = []
        self._param_device_map: dict = {}
        self.helper = None

    # -- what a rule defines ------------------------------------------------------------------------------

    def _create_accumulators(self, block, parameters: list) -> None:
        """Adds the state of the given parameters."""

    def _append_optimize_op(self, block, param_and_grad):
        """Adds the op that updates one parameter and returns it."""
        raise NotImplementedError(
            f"{self.__class__.__name__} must define _append_optimize_op(block, param_and_grad)."
        )

    def _finish_update(self, block, parameters_and_grads: list) -> None:
        """Adds what comes once after all updates."""

    # -- learning rate ------------------------------------------------------------------------------------

    def _create_global_learning_rate(self) -> None:
        """Makes the rate of the current program, unless it is there."""
        from paddle.fluid import layers

        if isinstance(self._global_learning_rate(), Variable):
            return
        if not isinstance(self._learning_rate, float):
            raise TypeError(
                f"the learning rate {self._learning_rate.name} was made in another program. Make "
                "the schedule and the "
                "optimizer inside the program_guard of the program to train."
            )
        self._learning_rate_map[framework.default_main_program()] = layers.create_global_var(
            name=state_name(framework.default_main_program().global_block(), "learning_rate"),
            shape=[1],
            value=self._learning_rate,
            dtype="float32" if self._dtype is None else self._dtype,
            persistable=True,
        )

    def _global_learning_rate(self, program=None):
        """Returns the rate's Variable in `program` (the current one by default), or None.

        Args:
            program: whose rate; None: the default main program.

        Returns:
            a Variable.
        """
        return self._learning_rate_map.get(framework.default_main_program() if program is None else program)

    def global_learning_rate(self, program: Program | None = None):
        """The name of v0.x for the same.

        Args:
            program: whose rate; None: the default main program.
        """
        return self._global_learning_rate(program)

    def _create_param_lr(self, param_and_grad):
        """Returns the rate for one parameter: the global one times that of its ParamAttr."""
        rate = param_and_grad[0].optimize_attr["learning_rate"]
        if isinstance(rate, Variable):
            return rate
        if rate == 1.0:
            return self._global_learning_rate()
        program = framework.default_main_program()
        with program._lr_schedule_guard(is_with_opt=True), name_scope("scale_with_param_lr"):
            return self._global_learning_rate() * rate

    # -- state --------------------------------------------------------------------------------------------

    def get_opti_var_name_list(self) -> list:
        """Returns the names of all state variables made so far."""
        return self._opti_name_list

    def _state_key(self, name: str) -> str:
        return name if self._name is None else f"{self._name}_{name}"

    def _add_accumulator(
        self,
        name: str,
        param,
        dtype=None,
        fill_value: float = 0.0,
        shape=None,
        type=None,
        device: str | None = None,
    ):
        """Makes the state `name` of one parameter: same type and shape as the parameter unless given."""
        key = self._state_key(name)
        of_kind = self._accumulators.setdefault(key, {})
        if param.name in of_kind:
            raise ValueError(
                f"{self.__class__.__name__} already has a state {key} for {param.name}. Call minimize once."
            )
        var_name = state_name(self.helper.main_program.global_block(), f"{param.name}_{key}")
        self._opti_name_list.append(var_name)
        var = self.helper.create_global_variable(
            name=var_name,
            persistable=True,
            dtype=dtype or param.dtype,
            type=param.type if type is None else type,
            shape=param.shape if shape is None else shape,
            belong_to_optimizer=True,
        )
        with framework.device_guard(self._param_device_map.get(param.name) if device is None else device):
            self.helper.set_variable_initializer(var, initializer=Constant(value=float(fill_value)))
        of_kind[param.name] = var
        return var

    def _get_accumulator(self, name: str, param):
        """Returns the state `name` of one parameter."""
        key = self._state_key(name)
        try:
            return self._accumulators[key][param.name]
        except KeyError:
            raise ValueError(f"{self.__class__.__name__} has no state {key} for {param.name}.") from None

    def _update_param_device_map(self, parameters_and_grads: list, target_block) -> None:
        """Notes for each parameter the device that the first op using it was pinned to."""
        wanted = {param.name for param, _ in parameters_and_grads if param.trainable}
        for op in target_block.ops:
            if not wanted:
                return
            used = wanted.intersection(op.input_arg_names)
            if used:
                wanted -= used
                device = op.attr(_DEVICE) if op.has_attr(_DEVICE) else None
                if device:
                    self._param_device_map.update(dict.fromkeys(used, device))

    # -- minimize and its parts ---------------------------------------------------------------------------

    def _create_optimization_pass(self, parameters_and_grads: list) -> list:
        """Adds state, rate and update ops; returns the ops that were added."""
        target = framework.default_main_program().current_block()  # a branch updates only when it is taken
        start = len(target.ops)
        self.helper = LayerHelper(self.__class__.__name__)
        self._update_param_device_map(parameters_and_grads, target)
        self._create_accumulators(target, [param for param, _ in parameters_and_grads if param.trainable])
        self._create_global_learning_rate()
        for param, grad in parameters_and_grads:
            if grad is None:
                continue
            with param.block.program._optimized_guard([param, grad]), name_scope("optimizer"):
                if param.trainable:
                    with framework.device_guard(self._param_device_map.get(param.name)):
                        self._append_optimize_op(target, (param, grad))
        self._finish_update(target, parameters_and_grads)
        return list(target.ops)[start:]

    def _split_off_table(self, params_grads: list) -> tuple:
        """Takes the parameter of a distributed lookup table out: no decay and no clip is for it, and an optimizer that is not
        among TABLE_RULES leaves it to plain SGD.

        Returns (the other pairs, the table's pair or None, its ops: none yet where this optimizer is for it too).
        """
        program = framework.default_main_program()
        name = _distributed_table(program)
        table = [pair for pair in params_grads if pair[0].name == name] if name else []
        if not table:
            return params_grads, None, []
        param, grad = table[0]
        if self.type != "sgd" and self.type in TABLE_RULES:
            return [pair for pair in params_grads if pair[0].name != name], (param, grad), []
        if self.type != "sgd":
            warnings.warn(f"The distributed table '{name}' is trained by plain SGD: {type(self).__name__} does not go row by row. "
                          f"Optimizers that do: {', '.join(sorted(TABLE_RULES))}.", stacklevel=4)
        with param.block.program._optimized_guard([param, grad]), name_scope("optimizer"):
            self._create_global_learning_rate()
            op = program.global_block().append_op(
                type="sgd",
                inputs={
                    "Param": [param],
                    "Grad": [grad],
                    "LearningRate": [self._create_param_lr((param, grad))],
                },
                outputs={"ParamOut": [param]},
            )
        return [pair for pair in params_grads if pair[0].name != name], (param, grad), [op]

    def _get_no_grad_set(self, loss, no_grad_set=None) -> set:
        names = _names(no_grad_set)
        names.update(p.name for p in loss.block.program.global_block().all_parameters() if not p.trainable)
        return names

    def backward(
        self, loss: Variable, startup_program: Program | None = None, parameter_list: list | None = None,
        no_grad_set: set | list | None = None, callbacks: list | None = None
    ) -> list:
        """Adds the backward pass of `loss`; returns the (parameter, gradient) pairs.

        Args:
            loss: a Variable of one element.
            startup_program: the Program that fills the states; None: the default one.
            parameter_list: Parameters or names; None: all trainable ones.
            no_grad_set: Variables or names that get no gradient.
            callbacks: as append_backward takes them.

        Returns:
            pairs (parameter, gradient).
        """
        if callbacks is None:
            callbacks = [error_clip_callback]
        elif not isinstance(callbacks, list):
            raise TypeError(f"callbacks must be a list of functions, not a {callbacks.__class__.__name__}.")
        if tuple(loss.shape) != (1,):
            raise ValueError(
                f"the loss {loss.name} has shape {tuple(loss.shape)}; it must be (1,). Use "
                "fluid.layers.mean on it."
            )
        names = self._get_no_grad_set(loss, no_grad_set)
        self._dtype = loss.dtype
        with program_guard(loss.block.program, startup_program):
            return append_backward(loss, parameter_list or self._parameter_list, names, callbacks)

    def apply_gradients(self, params_grads: list) -> list:
        """Adds clipping, decay and updates for the pairs to the current program; returns the update ops.

        Args:
            params_grads: pairs (parameter, gradient), as backward gave them.

        Returns:
            the update ops.
        """
        params_grads = sorted(params_grads, key=lambda pair: pair[0].name)
        params_grads, table, table_ops = self._split_off_table(params_grads)
        if self._grad_clip is not None:
            params_grads = self._grad_clip(params_grads)
        else:
            params_grads = append_gradient_clip_ops(params_grads)
        params_grads = append_regularization_ops(params_grads, self.regularization)
        ops = self._create_optimization_pass([*params_grads, *([table] if table and not table_ops else [])])
        return ops + table_ops

    def apply_optimize(self, loss: Variable, startup_program: Program, params_grads: list) -> list:
        """Like apply_gradients, in the program of `loss`.

        Args:
            loss: a Variable of one element.
            startup_program: the Program that fills the states.
            params_grads: pairs (parameter, gradient), as backward gave them.

        Returns:
            the update ops.
        """
        with program_guard(loss.block.program, startup_program):
            return self.apply_gradients(params_grads)

    def minimize(
        self, loss: Variable, startup_program: Program | None = None, parameter_list: list | None = None,
        no_grad_set: set | list | None = None, grad_clip: GradientClipBase | None = None
    ) -> tuple:
        """Adds all that trains on `loss`; returns (update ops, (parameter, gradient) pairs).

        Args:
            loss: a Variable of one element.
            startup_program: the Program that fills the states; None: the default one.
            parameter_list: Parameters or names; None: all trainable ones.
            no_grad_set: Variables or names that get no gradient.
            grad_clip: a GradientClipBy... object, as v1.7 took it here.

        Returns:
            (update ops, pairs (parameter, gradient)).
        """
        if not isinstance(loss, Variable):
            raise TypeError(f"minimize takes a Variable as loss, not a {loss.__class__.__name__}.")
        if grad_clip is not None and self._grad_clip is None:
            self._grad_clip = grad_clip
        params_grads = self.backward(loss, startup_program, parameter_list, no_grad_set)
        if not any(grad is not None for _, grad in params_grads):
            untrained.warn(loss, parameter_list or self._parameter_list)
        return self.apply_optimize(loss, startup_program, params_grads), params_grads

    # -- imperative mode only -----------------------------------------------------------------------------

    def _imperative_only(self, what: str):
        raise RuntimeError(
            f"{self.__class__.__name__}.{what} belongs to dygraph mode, which is not there. In "
            "static mode the state "
            "of an optimizer is in the scope: use fluid.io.save_persistables and fluid.io.load_persistables."
        )

    def state_dict(self):
        self._imperative_only("state_dict")

    def set_dict(self, state_dict):
        self._imperative_only("set_dict")

    def current_step_lr(self):
        self._imperative_only("current_step_lr")

    def clear_gradients(self):
        self._imperative_only("clear_gradients")


# Optimizers that servers can run on the rows of a distributed table.
TABLE_RULES = frozenset("sgd momentum adagrad decayed_adagrad adam adadelta rmsprop ftrl".split())


def _distributed_table(program) -> str | None:
    """Returns the name of the parameter whose lookups are marked is_distributed; there can be one."""
    found = None
    for op in program.global_block().ops:
        if op.type == "lookup_table" and op.has_attr("is_distributed") and op.attr("is_distributed"):
            name = op.input("W")[0]
            if found not in (None, name):
                raise ValueError(f"both {found} and {name} are distributed lookup tables. Only one can be.")
            found = name
    return found
