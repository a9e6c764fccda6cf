"""One process of a job of fluid.Trainer; the environment says which. Writes its losses and parameters, an .npz file."""

import sys

import numpy as np

import paddle
import paddle.fluid as fluid

out, folder, last = sys.argv[1], sys.argv[2], int(sys.argv[3])
BATCHES, ROWS, EPOCHS = 5, 8, 3


def train_func():
    x, y = fluid.layers.data("x", [13]), fluid.layers.data("y", [1])
    predicted = fluid.layers.fc(x, 1, param_attr=fluid.initializer.Constant(0.1))
    row = fluid.layers.embedding(fluid.layers.data("row", [1], dtype="int64"), [50, 1], is_sparse=True,
                                 param_attr=fluid.initializer.Constant(0.0))
    return fluid.layers.mean(fluid.layers.square_error_cost(predicted + row, y))


def optimizer_func():
    return fluid.optimizer.Adam(0.01)


def samples():
    """All trainers read the same rows: their average is that of one."""
    rng = np.random.RandomState(3)
    for _ in range(BATCHES * ROWS):
        x = rng.rand(13).astype("float32")
        yield x, [int(x[0] * 50)], [x.sum()]


losses = []


def show(event):
    if isinstance(event, fluid.EndStepEvent):
        losses.append(float(np.mean(event.metrics[0])))
        if len(losses) == last:  # train() is left in the middle
            np.savez(out, losses=losses, id=trainer.trainer_id)
            sys.exit(0)


config = fluid.CheckpointConfig(folder, step_interval=1) if folder != "-" else None
trainer = fluid.Trainer(train_func, optimizer_func, place=fluid.CPUPlace(), checkpoint_config=config)
trainer.train(EPOCHS, show, paddle.batch(samples, ROWS), ["x", "row", "y"])
mean = trainer.test(paddle.batch(samples, ROWS), ["x", "row", "y"])
with fluid.scope_guard(trainer.scope):
    w = np.array(fluid.global_scope().find_var("fc_0.w_0").get_tensor())
np.savez(out, losses=losses, w=w, mean=mean, id=trainer.trainer_id)
