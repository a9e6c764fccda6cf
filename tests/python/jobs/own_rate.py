"""A job whose rate the script computes with plain layers from variables of its own: as a server, a trainer, or in one process.

It trains, fetches what it computes in each step, and saves with fluid.save and save_persistables; or it stays after some steps
until it is killed, and is started again behind those that count."""

import os
import time

import numpy as np
import small

import paddle.fluid as fluid
from paddle.fluid import layers, optimizer


def halves():
    rate = layers.create_global_var([1], 1.0, "float32", persistable=True, name="rate")
    layers.assign(layers.scale(rate, 0.5), rate)
    return rate, rate


def counts():
    count = layers.create_global_var([1], 0.0, "float32", persistable=True, name="count")
    layers.increment(count, 1.0, in_place=True)
    return layers.scale(count, 0.125), count


def counter():
    count = layers.autoincreased_step_counter("steps", begin=1)
    return layers.scale(layers.cast(count, "float32"), 0.125), count


def switches():
    count = layers.cast(layers.autoincreased_step_counter(), "float32")
    low = layers.fill_constant([1], "float32", 0.25)
    return layers.cond(layers.less_than(count, layers.fill_constant([1], "float32", 4.0)),
                       lambda: layers.scale(low, 4.0), lambda: low), count


KINDS = {"halves": halves, "counts": counts, "counter": counter, "switches": switches}


def weight(name: str) -> fluid.ParamAttr:
    return fluid.ParamAttr(name=name, initializer=fluid.initializer.Constant(0.0))


def main() -> None:
    parser = small.parse(__doc__)
    parser.add_argument("--kind", choices=KINDS, required=True)
    parser.add_argument("--in-loss", action="store_true", help="trainers use it, too")
    parser.add_argument("--average", action="store_true", help="something that trainers alone hold")
    parser.add_argument("--async", dest="is_async", action="store_true")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--stay", action="store_true")
    parser.add_argument("--out", default="")
    options = parser.parse_args()
    x = layers.data("x", [4], dtype="float32")
    rate, shown = KINDS[options.kind]()
    outs = [layers.fc(x, 2, param_attr=weight("w"), bias_attr=weight("b")),
            layers.fc(x, 2, param_attr=weight("v"), bias_attr=False)]
    loss = layers.reduce_sum(layers.sums(outs))
    if options.in_loss:
        loss = layers.elementwise_mul(loss, layers.cast(shown, "float32"))
    optimizer.SGD(rate).minimize(loss)
    if options.average:
        fluid.optimizer.ExponentialMovingAverage(0.5).update()
    done = 0
    if options.role == "single":
        exe, program = fluid.Executor(fluid.CPUPlace()), fluid.default_main_program()
        exe.run(fluid.default_startup_program())
    else:
        exe, program, t = small.start(options, sync_mode=not options.is_async)
        done = t.steps_done()
    for step in range(done, options.steps):
        value = exe.run(program, feed={"x": np.full((1, 4), step + 1, "float32")}, fetch_list=[shown])[0]
        print(f"step {step}: {float(np.asarray(value).ravel()[0])}", flush=True)
    if options.stay:
        print("stays", flush=True)
        time.sleep(120)
    fluid.save(program, os.path.join(options.out, "saved"))
    fluid.io.save_persistables(exe, os.path.join(options.out, "persistables"), program)


if __name__ == "__main__":
    main()
