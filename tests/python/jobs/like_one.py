"""A job in one of the odd ways that scripts have (--case), or one process that does the same: prints what each step fetched, in
bits."""

from __future__ import annotations

import numpy as np
import small

import paddle.fluid as fluid
from paddle.fluid import layers, optimizer

NAMES = {"plain": ("first", "second"), "marks": ("p.trainer_1.pserver_0", "p.pserver_0"),
         "one mark": ("p.trainer_1.pserver_0", "second"),
         "blanks": ("a b", "a")}  # fmt: skip
OTHERS = ("used", "places", "prune", "ops", "kept gradients")


def weight(name: str) -> fluid.ParamAttr:
    return fluid.ParamAttr(name=name, initializer=fluid.initializer.Constant(0.01))


def build(case: str) -> tuple:
    """The loss, what is fetched beside it, and what minimize() returned."""
    first, second = NAMES.get(case, NAMES["plain"])
    x = layers.data("x", [200])
    hidden = layers.fc(x, 100, bias_attr=False, param_attr=weight(first))
    loss = layers.mean(layers.square(layers.fc(hidden, 1, bias_attr=False, param_attr=weight(second)) - 1.0))
    if case == "used":  # the first rate is changed behind the updates: servers keep a copy of it, by a name of its own
        rates = [layers.create_global_var([1], value, "float32", persistable=True, name=name)
                 for name, value in (("lr", 0.1), ("lr.used0", 0.01))]
        made = [optimizer.SGD(rate).minimize(loss, parameter_list=[name]) for rate, name in zip(rates, (first, second))]
        layers.assign(layers.scale(rates[0], 0.5), output=rates[0])
        return loss, [first, second], made
    rate = layers.exponential_decay(0.01, 1, 0.5)
    decay = fluid.regularizer.L2Decay(0.1) if case == "kept gradients" else None
    clip = fluid.clip.GradientClipByValue(0.05) if case == "kept gradients" else None
    made = optimizer.Momentum(rate, 0.9, regularization=decay, grad_clip=clip).minimize(loss)
    for _, grad in made[1] if case == "kept gradients" else ():  # as scripts do that read them from the scope
        grad.persistable = True
        fluid.default_main_program().global_block().var(f"{first}@GRAD").persistable = True
    return loss, [first, second, f"{first}_velocity_0", rate], made


def main() -> None:
    parser = small.parse(__doc__)
    parser.add_argument("--case", choices=[*NAMES, *OTHERS], required=True)
    parser.add_argument("--until", type=int, default=3)
    args = parser.parse_args()
    loss, fetches, made = build(args.case)
    if args.role == "single":
        exe, program, done = fluid.Executor(fluid.CPUPlace()), fluid.default_main_program(), 0
        exe.run(fluid.default_startup_program())
    else:
        exe, program, job = small.start(args)
        done = job.steps_done()
    if args.case == "places":
        program = fluid.CompiledProgram(program).with_data_parallel(loss_name=loss.name, places=fluid.cpu_places(2))
    for step in range(done, args.until):
        x = np.random.RandomState(step).randn(4, 200).astype("float32")
        ops = [made] if args.case == "ops" else []
        found = exe.run(program, feed={"x": x}, fetch_list=[loss, *fetches, *ops], use_prune=args.case == "prune")
        print("step", step, *(np.asarray(value).tobytes().hex()[:64] for value in found), flush=True)


if __name__ == "__main__":
    main()
