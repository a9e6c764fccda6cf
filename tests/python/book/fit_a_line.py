"""The book's first chapter in its own shape: train until the test loss is below 10, save, load, infer."""

import sys

import numpy as np
import paddle
import paddle.fluid as fluid

FOLDER = sys.argv[1]
train_reader = paddle.batch(paddle.reader.shuffle(paddle.dataset.uci_housing.train(), buf_size=500), batch_size=20)
test_reader = paddle.batch(paddle.dataset.uci_housing.test(), batch_size=20)

x = fluid.data(name="x", shape=[None, 13], dtype="float32")
y = fluid.data(name="y", shape=[None, 1], dtype="float32")
y_predict = fluid.layers.fc(input=x, size=1, act=None)
avg_loss = fluid.layers.mean(fluid.layers.square_error_cost(input=y_predict, label=y))
test_program = fluid.default_main_program().clone(for_test=True)
fluid.optimizer.SGD(learning_rate=0.001).minimize(avg_loss)

exe = fluid.Executor(fluid.CPUPlace())
feeder = fluid.DataFeeder(place=fluid.CPUPlace(), feed_list=[x, y])
exe.run(fluid.default_startup_program())


def train():
    for _ in range(100):
        for data in train_reader():
            exe.run(feed=feeder.feed(data), fetch_list=[avg_loss])
        losses = [exe.run(test_program, feed=feeder.feed(data), fetch_list=[avg_loss])[0] for data in test_reader()]
        if float(np.mean(losses)) < 10.0:
            fluid.io.save_inference_model(FOLDER, ["x"], [y_predict], exe)
            return
    sys.exit(f"the loss is still {np.mean(losses)}")


def infer():
    with fluid.scope_guard(fluid.Scope()):
        program, feeds, fetches = fluid.io.load_inference_model(FOLDER, exe)
        data = next(paddle.batch(paddle.dataset.uci_housing.test(), batch_size=10)())
        features = np.array([row[0] for row in data], dtype="float32")
        results = exe.run(program, feed={feeds[0]: features}, fetch_list=fetches)
    for value, row in zip(results[0], data):
        print(f"{float(value):.2f} for {float(row[1]):.2f}")


train()
infer()
