"""One process of a job whose gradients are clipped by norms over some of its parameters: `single` with the joined batch, or
`server` or `trainer`.

Parameters w0, w1, ... go to the servers in turn. --clips "global w0 w2, norm w1": one norm over w0 and w2 together, and one of w1
alone. Losses and parameters of the end go into an .npz file.
"""

import argparse
import os
import sys
import time

import numpy as np

import paddle.fluid as fluid

ROWS = 8
LIMIT = 0.05


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("role", choices=["single", "server", "trainer"])
    parser.add_argument("--clips", required=True)
    parser.add_argument("--params", type=int, default=3)
    parser.add_argument("--wide", type=int, default=16, help="numbers in a row; 2048: each parameter is cut into two slices")
    parser.add_argument("--endpoints", default="")
    parser.add_argument("--endpoint", default="")
    parser.add_argument("--trainers", type=int, default=1)
    parser.add_argument("--id", type=int, default=0)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--pace", default="", help="FILE:N: no step from k * N on begins before this file has k bytes")
    parser.add_argument("--out", default="")
    return parser.parse_args()


def build(args):
    for program in (fluid.default_startup_program(), fluid.default_main_program()):
        program.random_seed = 5
    x = fluid.layers.data(name="x", shape=[ROWS], dtype="float32")
    y = fluid.layers.data(name="y", shape=[args.wide], dtype="float32")
    towers = [fluid.layers.fc(input=x, size=args.wide, param_attr=f"w{k}", bias_attr=False) for k in range(args.params)]
    losses = [fluid.layers.scale(fluid.layers.mean(fluid.layers.square(tower - y)), scale=k + 1.0)
              for k, tower in enumerate(towers)]
    loss = fluid.layers.sum(losses)
    block = fluid.default_main_program().global_block()
    for i, clip in enumerate(args.clips.split(",")):
        kind, *names = clip.split()
        by = fluid.clip.GradientClipByNorm(LIMIT) if kind == "norm" else fluid.clip.GradientClipByGlobalNorm(
            LIMIT, group_name=f"group{i}")
        fluid.clip.set_gradient_clip(by, param_list=[block.var(name) for name in names])
    fluid.optimizer.Momentum(0.5, momentum=0.9).minimize(loss)
    return loss


def feed(args, step: int, which: int | None) -> dict[str, np.ndarray]:
    """The joined batch of a step, or the share of one trainer."""
    rng = np.random.default_rng(100 + step)
    whole = {name: rng.standard_normal((4 * args.trainers, wide)).astype("float32")
             for name, wide in (("x", ROWS), ("y", args.wide))}
    return whole if which is None else {name: value[4 * which : 4 * which + 4] for name, value in whole.items()}


def keep_pace(pace: str, step: int) -> None:
    path, _, each = pace.rpartition(":")
    if step % int(each) == 0:
        print(f"before step {step}", flush=True)
    while os.path.getsize(path) < step // int(each):
        time.sleep(0.005)


def train(args, exe, program, loss, which: int | None) -> None:
    losses = []
    for step in range(args.steps):
        if args.pace:
            keep_pace(args.pace, step)
        losses.append(float(np.mean(exe.run(program, feed=feed(args, step, which), fetch_list=[loss])[0])))
    names = [f"w{k}" for k in range(args.params)]
    np.savez(args.out, losses=np.array(losses),
             **{name: np.array(fluid.global_scope().find_var(name).get_tensor()) for name in names})


def main() -> int:
    args = parse()
    loss = build(args)
    exe = fluid.Executor(fluid.CPUPlace())
    if args.role == "single":
        exe.run(fluid.default_startup_program())
        train(args, exe, fluid.default_main_program(), loss, None)
        return 0
    t = fluid.DistributeTranspiler()
    t.transpile(args.id, pservers=args.endpoints, trainers=args.trainers)
    if args.role == "server":
        program, startup = t.get_pserver_programs(args.endpoint)
        exe.run(startup)
        exe.run(program)
        raise AssertionError("the server's run ends the process")
    exe.run(fluid.default_startup_program())
    train(args, exe, t.get_trainer_program(), loss, args.id)
    return 0


if __name__ == "__main__":
    sys.exit(main())
