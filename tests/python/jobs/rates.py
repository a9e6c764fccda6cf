"""A job with several optimizers in one Program, each for parameters of its own: as a server, a trainer, or in one process.

It trains, fetches the rates in its last step, and saves in both ways; or it loads what was saved, and trains on."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
import small

import paddle.fluid as fluid
from paddle.fluid import layers, optimizer

STEPS = 3


def decay(name: str = "") -> fluid.framework.Variable:
    """A schedule with a counter of its own, or with the one that schedules share."""
    if not name:
        return layers.exponential_decay(0.1, 2, 0.8)
    count = layers.cast(layers.autoincreased_step_counter(name, begin=1), "float32")
    return layers.scale(count, -0.01, 0.2)


def steps_down() -> fluid.framework.Variable:
    return layers.piecewise_decay([1, 2, 4], [0.3, 0.2, 0.1, 0.05])


def warmed_up() -> fluid.framework.Variable:
    return layers.linear_lr_warmup(layers.exponential_decay(0.1, 2, 0.8), 2, 0.01, 0.1)


def shared() -> fluid.framework.Variable:
    return layers.create_global_var([1], 0.05, "float32", persistable=True, name="shared_rate")


def of_both(rate: fluid.framework.Variable) -> list[optimizer.Optimizer]:
    return [optimizer.SGD(rate), optimizer.Momentum(rate, 0.9)]


# The optimizers of w0, w1, ...
KINDS: dict[str, Callable[[], list]] = {
    "constants": lambda: [optimizer.SGD(0.1), optimizer.Momentum(0.2, 0.9)],
    "three": lambda: [optimizer.SGD(0.1), optimizer.Momentum(0.2, 0.9), optimizer.Adagrad(0.3)],
    "powers": lambda: [optimizer.Adamax(0.01), optimizer.Adam(0.02), optimizer.Lamb(0.03)],
    "schedule first": lambda: [optimizer.SGD(decay()), optimizer.Momentum(0.2, 0.9), optimizer.Adam(0.01)],
    "schedule last": lambda: [optimizer.SGD(0.1), optimizer.Momentum(0.2, 0.9), optimizer.Adam(decay())],
    "schedules": lambda: [optimizer.SGD(decay()), optimizer.Momentum(decay(), 0.9), optimizer.Adam(decay("own_counter"))],
    "branches": lambda: [optimizer.SGD(steps_down()), optimizer.Momentum(warmed_up(), 0.9)],
    "own variable": lambda: of_both(shared()),
}
FETCHES = {
    "constants": ["learning_rate_0", "learning_rate_1"],
    "three": ["learning_rate_2", "learning_rate_1", "learning_rate_0"],
    "powers": ["learning_rate_0", "learning_rate_1", "learning_rate_2", "w1_beta1_pow_acc_0"],
    "schedule first": ["learning_rate_0", "learning_rate_1", "@LR_DECAY_COUNTER@"],
    "schedule last": ["learning_rate_0", "learning_rate_1", "@LR_DECAY_COUNTER@"],
    "schedules": ["@LR_DECAY_COUNTER@", "own_counter"],
    "branches": ["learning_rate", "learning_rate_warmup", "@LR_DECAY_COUNTER@"],
    "own variable": ["shared_rate"],
}


def weight(name: str, **more) -> fluid.ParamAttr:
    return fluid.ParamAttr(name=name, initializer=fluid.initializer.Constant(0.25), **more)


def build(kind: str, scaled: bool, frozen: str) -> tuple[fluid.framework.Variable, list]:
    """The loss, and what is fetched beside it. `scaled`: w0 learns at twice its rate. `frozen`: the rate of an optimizer that has
    no parameters but one that is not trained."""
    x = layers.data("x", [8], dtype="float32")
    made = KINDS[kind]()
    more = {"learning_rate": 2.0} if scaled else {}
    outs = [layers.fc(x, 4, bias_attr=False, param_attr=weight(f"w{i}", **(more if i == 0 else {}))) for i in range(len(made))]
    if frozen:
        outs.append(layers.fc(x, 4, bias_attr=False, param_attr=weight("still", trainable=False)))
    cost = layers.mean(layers.square(layers.sums(outs)))
    fetches: list = list(FETCHES[kind])
    for i, each in enumerate(made):
        each.minimize(cost, parameter_list=[f"w{i}"])
        fetches += [each._global_learning_rate()]
    if frozen:
        last = optimizer.SGD({"constant": lambda: 0.7, "schedule": decay, "own schedule": lambda: decay("still_counter")}[frozen]())
        last.minimize(cost, parameter_list=["still"])
        fetches += [last._global_learning_rate()]
    return cost, fetches


def batch(step: int) -> dict[str, np.ndarray]:
    return {"x": np.arange(32, dtype="float32").reshape(4, 8) / (50 + step)}


def main() -> None:
    parser = small.parse(__doc__)
    parser.add_argument("--kind", choices=KINDS)
    parser.add_argument("--scaled", action="store_true")
    parser.add_argument("--frozen", choices=["", "constant", "schedule", "own schedule"], default="")
    parser.add_argument("--async", dest="is_async", action="store_true")
    parser.add_argument("--out", required=True)
    parser.add_argument("--load", default="")
    parser.add_argument("--how", choices=["load", "persistables"])
    options = parser.parse_args()
    cost, fetches = build(options.kind, options.scaled, options.frozen)
    if options.role == "single":
        exe, program = fluid.Executor(fluid.CPUPlace()), fluid.default_main_program()
        exe.run(fluid.default_startup_program())
    else:
        exe, program, _ = small.start(options, sync_mode=not options.is_async)
    first = 0
    if options.load:
        first = STEPS
        if options.how == "load":
            fluid.load(program, os.path.join(options.load, "saved"), exe)
        else:
            fluid.io.load_persistables(exe, os.path.join(options.load, "persistables"), program)
    for step in range(first, first + STEPS - 1):
        exe.run(program, feed=batch(step))
    values = exe.run(program, feed=batch(first + STEPS - 1), fetch_list=[cost, *fetches])
    fluid.save(program, os.path.join(options.out, "saved"))
    fluid.io.save_persistables(exe, os.path.join(options.out, "persistables"), program)
    np.savez(os.path.join(options.out, "fetched.npz"), *values)
    exe.close()


if __name__ == "__main__":
    main()
