"""One process of a job of fluid.Trainer whose epochs, and those of each trainer, are of different lengths; the environment says
which.

Prints each event, and the loss of each step. --hold: waits there, before that step, until it is killed. --table: the model has a
sparse table alone. --calls: train() is called as often."""

import argparse
import time

import numpy as np

import paddle.fluid as fluid

LENGTHS = ((4, 6, 5), (5, 4, 6))  # of the epochs of each trainer

parser = argparse.ArgumentParser()
parser.add_argument("--checkpoints")
parser.add_argument("--interval", type=int, default=3)
parser.add_argument("--hold")
parser.add_argument("--out")
parser.add_argument("--table", action="store_true")
parser.add_argument("--calls", type=int, default=1)
parser.add_argument("--params")
args = parser.parse_args()
epoch = 0


def train_func():
    row = fluid.layers.data("row", [1], dtype="int64")
    table = fluid.ParamAttr(name="table", initializer=fluid.initializer.Constant(0.1))
    found = fluid.layers.embedding(row, [20, 3], is_sparse=True, param_attr=table)
    if not args.table:
        found = fluid.layers.fc(found, 3, bias_attr=False,
                                param_attr=fluid.ParamAttr(name="w", initializer=fluid.initializer.Constant(0.2)))
        found = fluid.layers.batch_norm(found, act="tanh", moving_mean_name="mean", moving_variance_name="variance")
    return fluid.layers.mean(fluid.layers.square(found - 1.0))


def batches():
    """Those of the epoch of the last event."""
    for batch in range(LENGTHS[trainer.trainer_id][epoch]):
        rng = np.random.RandomState(1000 * trainer.trainer_id + 100 * epoch + batch)
        yield [([int(row)],) for row in rng.randint(0, 20, 6)]


def show(event):
    global epoch
    kind, at = type(event).__name__[:-5], [event.epoch, *([event.step] if hasattr(event, "step") else [])]
    if kind == "BeginEpoch":
        epoch = event.epoch
    if kind == "BeginStep" and args.hold == f"{event.epoch}.{event.step}":
        print("holds", flush=True)
        time.sleep(600)
    if kind != "BeginStep":
        print(kind, *at, *([repr(float(np.mean(event.metrics[0])))] if kind == "EndStep" else []), flush=True)


def optimizer_func():
    return fluid.optimizer.Momentum(0.1, 0.9)


config = fluid.CheckpointConfig(args.checkpoints, step_interval=args.interval) if args.checkpoints else None
trainer = fluid.Trainer(train_func, optimizer_func, args.params, fluid.CPUPlace(), checkpoint_config=config)
for call in range(args.calls):
    print("train", call, flush=True)
    trainer.train(3, show, batches, ["row"])
with fluid.scope_guard(trainer.scope):
    values = {name: np.array(trainer.scope.find_var(name).get_tensor())
              for name in ("table", *([] if args.table else ["w", "mean"]))}
np.savez(args.out, **values)
