"""Learning rates that change with the number of steps, as ops of the program.

Each schedule counts steps in the persistable variable @LR_DECAY_COUNTER@ and returns the rate as a
Variable for an optimizer.
"""

from __future__ import annotations

import math

from paddle.fluid.framework import Variable, default_main_program
from paddle.fluid.layers import homes, nn, ops, tensor
from paddle.fluid.layers.build import to_vartype
from paddle.fluid.layers.control_flow import Switch

__all__ = [
    "exponential_decay",
    "natural_exp_decay",
    "inverse_time_decay",
    "polynomial_decay",
    "piecewise_decay",
    "noam_decay",
    "cosine_decay",
    "linear_lr_warmup",
]


def _decay_step_counter(begin: int = 0) -> Variable:
    """The number of this step as a float, from `begin` on. Scripts use it in schedules of their own."""
    counter = nn.autoincreased_step_counter(counter_name="@LR_DECAY_COUNTER@", begin=begin, step=1)
    return tensor.cast(counter, "float32")


def _not_zero(layer: str, **given) -> None:
    """A ValueError for arguments that the formula divides by, and that are 0."""
    for name, value in given.items():
        if not isinstance(value, Variable) and value == 0:
            raise ValueError(f"{layer}: {name} is 0, but the rate is divided by it. Give 1 or more.")


def _periods(layer: str, decay_steps: int, staircase: bool) -> Variable:
    """How many times decay_steps has passed; whole times only with staircase."""
    _not_zero(layer, decay_steps=decay_steps)
    passed = _decay_step_counter() / decay_steps
    return ops.floor(passed) if staircase else passed


def _constant(value: float, **more) -> Variable:
    return tensor.fill_constant(shape=[1], dtype="float32", value=float(value), **more)


def noam_decay(d_model: int, warmup_steps: int, learning_rate: float = 1.0) -> Variable:
    """learning_rate * d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5)."""
    _not_zero("noam_decay", d_model=d_model, warmup_steps=warmup_steps)
    with default_main_program()._lr_schedule_guard():
        step = _decay_step_counter(1)
        falling = step**-0.5
        rising = (warmup_steps**-1.5) * step
        return learning_rate * (d_model**-0.5) * nn.elementwise_min(falling, rising)


def exponential_decay(
    learning_rate: float, decay_steps: int, decay_rate: float, staircase: bool = False
) -> Variable:
    """learning_rate * decay_rate^(step / decay_steps)."""
    with default_main_program()._lr_schedule_guard():
        return learning_rate * (decay_rate ** _periods("exponential_decay", decay_steps, staircase))


def natural_exp_decay(
    learning_rate: float, decay_steps: int, decay_rate: float, staircase: bool = False
) -> Variable:
    """learning_rate * exp(-decay_rate * step / decay_steps)."""
    with default_main_program()._lr_schedule_guard():
        return learning_rate * ops.exp(-1 * decay_rate * _periods("natural_exp_decay", decay_steps, staircase))


def inverse_time_decay(
    learning_rate: float, decay_steps: int, decay_rate: float, staircase: bool = False
) -> Variable:
    """learning_rate / (1 + decay_rate * step / decay_steps)."""
    with default_main_program()._lr_schedule_guard():
        return learning_rate / (1 + decay_rate * _periods("inverse_time_decay", decay_steps, staircase))


def polynomial_decay(
    learning_rate: float,
    decay_steps: int,
    end_learning_rate: float = 0.0001,
    power: float = 1.0,
    cycle: bool = False,
) -> Variable:
    """From learning_rate to end_learning_rate by (1 - step / decay_steps)^power.

    With cycle, decay_steps grows to its next multiple whenever it is reached.
    """
    _not_zero("polynomial_decay", decay_steps=decay_steps)
    with default_main_program()._lr_schedule_guard():
        step = _decay_step_counter()
        if cycle:
            cycles = ops.ceil(step / decay_steps)
            zero, one = _constant(0.0), _constant(1.0)
            with Switch() as switch:
                with switch.case(step == zero):
                    tensor.assign(input=one, output=cycles)
            decay_steps = decay_steps * cycles
        else:
            step = nn.elementwise_min(x=step, y=_constant(decay_steps))
        return (learning_rate - end_learning_rate) * ((1 - step / decay_steps) ** power) + end_learning_rate


def piecewise_decay(boundaries: list[int], values: list[float]) -> Variable:
    """values[i] for the steps before boundaries[i], and the last value after all boundaries."""
    if len(values) - len(boundaries) != 1:
        raise ValueError(
            f"piecewise_decay: there must be one value more than boundaries, but there are "
            f"{len(values)} values and {len(boundaries)} boundaries."
        )
    with default_main_program()._lr_schedule_guard():
        step = _decay_step_counter()
        rate = tensor.create_global_var(
            shape=[1], value=0.0, dtype="float32", persistable=True, name="learning_rate"
        )
        with Switch() as switch:
            for boundary, value in zip(boundaries, values):
                limit = _constant(boundary, force_cpu=True)
                constant = _constant(value)
                with switch.case(step < limit):
                    tensor.assign(constant, rate)
            constant = _constant(values[-1])
            with switch.default():
                tensor.assign(constant, rate)
        return rate


def cosine_decay(learning_rate: float, step_each_epoch: int, epochs: int) -> Variable:
    """learning_rate * 0.5 * (cos(pi * epoch / epochs) + 1)."""
    _not_zero("cosine_decay", step_each_epoch=step_each_epoch, epochs=epochs)
    with default_main_program()._lr_schedule_guard():
        epoch = ops.floor(_decay_step_counter() / step_each_epoch)
        return learning_rate * 0.5 * (ops.cos(epoch * math.pi / epochs) + 1)


def linear_lr_warmup(
    learning_rate: float | Variable, warmup_steps: int, start_lr: float, end_lr: float
) -> Variable:
    """From start_lr to end_lr in a line over warmup_steps, then learning_rate, which may be a schedule."""
    _not_zero("linear_lr_warmup", warmup_steps=warmup_steps)
    dtype = learning_rate.dtype if isinstance(learning_rate, Variable) else to_vartype("float32")
    with default_main_program()._lr_schedule_guard():
        rate = tensor.create_global_var(
            shape=[1], value=0.0, dtype=dtype, persistable=True, name="learning_rate_warmup"
        )
        step = _decay_step_counter()
        with Switch() as switch:
            with switch.case(step < warmup_steps):
                warm = start_lr + (float(end_lr) - float(start_lr)) * (step / float(warmup_steps))
                tensor.assign(warm, rate)
            with switch.default():
                if not isinstance(learning_rate, Variable):
                    learning_rate = tensor.fill_constant(shape=[1], dtype=dtype, value=float(learning_rate))
                tensor.assign(learning_rate, rate)
        return rate


__getattr__ = homes.served(__name__)
