"""Averages of parameters over the steps of training: ModelAverage, ExponentialMovingAverage, Lookahead.

Each adds ops to the program of training. The first two also hold two small programs, one that puts the
averages in the parameters' place and one that brings the parameters back.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Iterator

import numpy as np

from paddle.fluid import framework, unique_name
from paddle.fluid.framework import Program, name_scope, program_guard
from paddle.fluid.layer_helper import LayerHelper
from paddle.fluid.optimizer_base import Optimizer, state_name

if TYPE_CHECKING:
    from paddle.fluid.hints import Variable, WeightDecayRegularizer


def _share(block, var, shape=None):
    """Declares `var` in the block of another program, so that both find it in the scope."""
    return block.create_var(
        name=var.name,
        shape=var.shape if shape is None else shape,
        dtype=var.dtype,
        type=var.type,
        lod_level=var.lod_level,
        persistable=True,
    )


class _Swap:
    """The two programs and the calls to run them."""

    def _build_swap(self, apply, restore) -> None:
        self.apply_program = Program()
        with program_guard(main_program=self.apply_program):
            apply(self.apply_program.global_block())
        self.restore_program = Program()
        with program_guard(main_program=self.restore_program):
            restore(self.restore_program.global_block())

    @contextlib.contextmanager
    def apply(self, executor, need_restore: bool = True) -> Iterator[None]:
        """In the body the parameters have their averages; afterwards they are back, unless told otherwise."""
        executor.run(self.apply_program)
        try:
            yield
        finally:
            if need_restore:
                self.restore(executor)

    def restore(self, executor) -> None:
        """Brings the parameters back."""
        executor.run(self.restore_program)


class ModelAverage(_Swap, Optimizer):
    """The mean of each parameter over a window of recent steps.

    The window grows with `average_window_rate` times the number of updates, between the two bounds. Make it
    after minimize; use `with model_average.apply(exe):` around an evaluation.

    Args:
        average_window_rate: the window as a share of the number of updates.
        min_average_window: the smallest window.
        max_average_window: the largest window.
        regularization: has no effect.
        name: a part of the names of the states.
    """

    type = "average_accumulates"
    _sums = ("sum_1", "sum_2", "sum_3")
    _counts = ("num_accumulates", "old_num_accumulates", "num_updates")

    def __init__(
        self,
        average_window_rate: float,
        min_average_window: int = 10000,
        max_average_window: int = 10000,
        regularization: WeightDecayRegularizer | None = None,
        name: str | None = None,
        **old,
    ):
        chosen = old.pop("params_grads", None)  # v0.12 and v0.13: average only these
        if not isinstance(min_average_window, int):
            raise TypeError(
                "ModelAverage: the second argument is min_average_window, a whole number. Name the others."
            )
        Optimizer.__init__(self, 0.0, regularization=regularization, name=name, **old)
        self.average_window = float(average_window_rate)
        self.min_average_window = int(min_average_window)
        self.max_average_window = int(max_average_window)
        # Pairs of a parameter and the place that keeps its value while the average stands in.
        self.params_grads = []
        if chosen is None:
            params = framework.default_main_program().global_block().all_parameters()
        else:
            params = [param for param, _ in chosen]
        for param in params:
            if param.do_model_average is not False:
                kept = param.block.create_var(
                    name=unique_name.generate_with_ignorable_key(f"{param.name}.tmp"),
                    dtype=param.dtype,
                    persistable=False,
                    stop_gradient=True,
                )
                self.params_grads.append((param, kept))
        for param, kept in self.params_grads:
            with param.block.program._optimized_guard([param, kept]), name_scope("move_average"):
                self._append_average_accumulate_op(param)
        self._build_swap(self._apply_ops, self._restore_ops)

    def _append_average_accumulate_op(self, param) -> None:
        self.helper = LayerHelper("average_accumulate")
        states = {kind: self._add_accumulator(kind, param) for kind in self._sums}
        for kind in self._counts:
            states[kind] = self._add_accumulator(kind, param, dtype="int64", shape=[1])
        self.helper.append_op(
            type=self.type,
            inputs={"param": [param], **{f"in_{kind}": [var] for kind, var in states.items()}},
            outputs={f"out_{kind}": [var] for kind, var in states.items()},
            attrs={
                "average_window": self.average_window,
                "min_average_window": self.min_average_window,
                "max_average_window": self.max_average_window,
            },
            stop_gradient=True,
        )

    def _apply_ops(self, block) -> None:
        from paddle.fluid import layers

        dtype = "float32" if self._dtype is None else self._dtype
        for pair in self.params_grads:
            param, kept = (_share(block, var) for var in pair)
            states = [_share(block, self._get_accumulator(kind, param)) for kind in self._sums + self._counts]
            layers.assign(input=param, output=kept)
            count = layers.sum(x=states[3:5])
            total = layers.sum(x=states[:3])
            count = layers.cast(x=count, dtype=dtype)
            total = layers.cast(x=total, dtype=dtype)
            LayerHelper("elementwise_div").append_op(
                type="elementwise_div",
                inputs={"X": [total], "Y": [count]},
                outputs={"Out": [param]},
                attrs={"axis": -1},
            )

    def _restore_ops(self, block) -> None:
        from paddle.fluid import layers

        for param, kept in self.params_grads:
            kept = _share(block, kept, shape=param.shape)
            layers.assign(input=kept, output=_share(block, param))


class ExponentialMovingAverage(_Swap):
    """ema = decay * ema + (1 - decay) * param, for each parameter; `apply` uses ema / (1 - decay ** steps).

    With `thres_steps` (a Variable that counts) the decay starts low: min(decay, (1 + t) / (10 + t)).
    Make it and call `update()` once, after minimize.

    Args:
        decay: the share of the old value.
        thres_steps: a Variable that counts steps; None: the decay is constant.
        name: a part of the names of the states.
    """

    _step_counter_name = "@EMA_STEP_COUNTER@"

    def __init__(self, decay: float = 0.999, thres_steps: Variable | None = None, name: str | None = None):
        self._decay = decay
        self._thres_steps = thres_steps
        self._name = "" if name is None else name
        self._decay_var = self._get_ema_decay()
        self._params_tmps = []
        for param in framework.default_main_program().global_block().all_parameters():
            if param.do_model_average is not False:
                kept = param.block.create_var(
                    name=unique_name.generate(f"{self._name}{param.name}.ema_tmp"),
                    dtype=param.dtype,
                    persistable=False,
                    stop_gradient=True,
                )
                self._params_tmps.append((param, kept))
        self._ema_vars = {}
        for param, kept in self._params_tmps:
            with param.block.program._optimized_guard([param, kept]), name_scope("moving_average"):
                self._ema_vars[param.name] = self._create_ema_var(param)
        self._build_swap(self._apply_ops, self._restore_ops)

    def _get_ema_decay(self):
        from paddle.fluid import layers

        with framework.default_main_program()._lr_schedule_guard():
            decay = layers.create_global_var(
                shape=[1],
                value=self._decay,
                dtype="float32",
                persistable=True,
                name="scheduled_ema_decay_rate",
            )
            if self._thres_steps is not None:
                early = (self._thres_steps + 1.0) / (self._thres_steps + 10.0)
                with layers.Switch() as switch:
                    with switch.case(early < self._decay):
                        layers.assign(early, decay)
                    with switch.default():
                        layers.assign(np.array([self._decay], dtype=np.float32), decay)
        return decay

    def _create_ema_var(self, param):
        from paddle.fluid import layers

        return layers.create_global_var(
            name=state_name(param.block, f"{self._name}{param.name}_ema"),
            shape=param.shape,
            value=0.0,
            dtype=param.dtype,
            persistable=True,
        )

    def _apply_ops(self, block) -> None:
        from paddle.fluid import layers

        steps = layers.create_global_var(
            name=self._step_counter_name, shape=[1], value=0, dtype="int64", persistable=True
        )
        steps = layers.cast(steps, "float32")
        decay_pow = layers.elementwise_pow(_share(block, self._decay_var), steps)
        for pair in self._params_tmps:
            param, kept = (_share(block, var) for var in pair)
            ema = _share(block, self._ema_vars[param.name])
            layers.assign(input=param, output=kept)
            # Before the first step there is no average to correct. The average itself stays as it is: training
            # goes on with it.
            layers.assign(input=ema, output=param)
            with layers.Switch() as switch:
                with switch.case(steps > 0):
                    layers.assign(output=param, input=ema / (1.0 - decay_pow))

    def _restore_ops(self, block) -> None:
        from paddle.fluid import layers

        for param, kept in self._params_tmps:
            kept = _share(block, kept, shape=param.shape)
            layers.assign(input=kept, output=_share(block, param))

    def update(self) -> None:
        """Adds the ops that move the averages by one step to the current program."""
        from paddle.fluid import layers

        layers.autoincreased_step_counter(counter_name=self._step_counter_name)
        for param, kept in self._params_tmps:
            with param.block.program._optimized_guard([param, kept]), name_scope("moving_average"):
                ema = self._ema_vars[param.name]
                moved = ema * self._decay_var + param * (1 - self._decay_var)
                layers.assign(input=moved, output=ema)


class LookaheadOptimizer:
    """Lets `inner_optimizer` run ahead and, every `k` steps, moves slow weights by `alpha` towards it.

    Args:
        inner_optimizer: the optimizer that runs ahead.
        alpha: how far the slow weights follow.
        k: how often, in steps.
    """

    type = "lookahead"

    def __init__(self, inner_optimizer: Optimizer, alpha: float = 0.5, k: int = 5):
        if inner_optimizer is None:
            raise ValueError("LookaheadOptimizer: inner_optimizer is None. Give it an optimizer.")
        if not 0.0 <= alpha <= 1.0:
            raise ValueError(f"LookaheadOptimizer: alpha is {alpha}; it must be between 0 and 1.")
        if not isinstance(k, int) or k <= 0:
            raise ValueError(f"LookaheadOptimizer: k is {k!r}; it must be a whole number above 0.")
        self.inner_optimizer = inner_optimizer
        self.alpha = alpha
        self.k = k

    def minimize(self, loss: Variable, startup_program: Program | None = None) -> tuple:
        """Adds the inner optimizer's ops and the slow weights; returns what the inner minimize returned.

        Args:
            loss: a Variable of one element.
            startup_program: the Program that fills the states; None: the default one.

        Returns:
            what the inner minimize returned.
        """
        from paddle.fluid import layers

        result = self.inner_optimizer.minimize(loss, startup_program=startup_program)
        if startup_program is None:
            startup_program = framework.default_startup_program()
        main_block = loss.block
        pairs = []
        for fast in main_block.all_parameters():
            pairs.append((fast, self._slow_of(main_block, fast)))
        startup_block = startup_program.global_block()
        for fast, _ in pairs:
            first = startup_block.var(fast.name)
            slow = self._slow_of(startup_block, first)
            startup_block.append_op(type="assign", inputs={"X": [first]}, outputs={"Out": [slow]})

        k = self._global("lookahead_k", int(self.k), "int32")
        alpha = self._global("lookahead_alpha", float(self.alpha), "float32")
        step = self._global("lookahead_step", 0, "int32")
        layers.increment(x=step, value=1.0, in_place=True)
        zero = layers.fill_constant(shape=[1], dtype="float32", value=0.0)
        one = layers.fill_constant(shape=[1], dtype="float32", value=1.0)
        rest = layers.elementwise_mod(step, k)
        with layers.Switch() as switch:
            with switch.case(rest == zero):
                for fast, slow in pairs:
                    moved = layers.elementwise_add(
                        layers.elementwise_mul(fast, alpha),
                        layers.elementwise_mul(slow, layers.elementwise_sub(one, alpha)),
                    )
                    layers.assign(input=moved, output=slow)
                    layers.assign(input=moved, output=fast)
            with switch.default():
                pass
        return result

    @staticmethod
    def _slow_of(block, fast):
        return block.create_var(
            name=f"{fast.name}@SLOW", shape=fast.shape, dtype=fast.dtype, persistable=True
        )

    @staticmethod
    def _global(name: str, value, dtype: str):
        from paddle.fluid import layers

        return layers.create_global_var(name=name, shape=[1], value=value, dtype=dtype, persistable=True)
