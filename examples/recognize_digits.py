"""Handwritten digits: trains an MLP or LeNet on MNIST, tests it, saves it, loads it again and uses it.

    python examples/recognize_digits.py --net lenet --passes 2
    python examples/recognize_digits.py --infer          # only load what was saved, and use it
"""

import argparse

import numpy as np
import paddle
import paddle.fluid as fluid


def mlp(image, label):
    hidden = fluid.layers.fc(input=image, size=200, act="tanh")
    hidden = fluid.layers.fc(input=hidden, size=200, act="tanh")
    return classify(hidden, label)


def lenet(image, label):
    group = dict(filter_size=5, pool_size=2, pool_stride=2, act="relu")
    hidden = fluid.nets.simple_img_conv_pool(input=image, num_filters=20, **group)
    hidden = fluid.layers.batch_norm(hidden)
    hidden = fluid.nets.simple_img_conv_pool(input=hidden, num_filters=50, **group)
    return classify(hidden, label)


def classify(hidden, label):
    prediction = fluid.layers.fc(input=hidden, size=10, act="softmax")
    loss = fluid.layers.mean(fluid.layers.cross_entropy(input=prediction, label=label))
    accuracy = fluid.layers.accuracy(input=prediction, label=label)
    return prediction, loss, accuracy


def test(exe, program, feeder, fetches, batch_size):
    """Mean loss and accuracy over the test images."""
    sums, count = np.zeros(2), 0
    for batch in paddle.batch(paddle.dataset.mnist.test(), batch_size)():
        values = exe.run(program, feed=feeder.feed(batch), fetch_list=fetches)
        sums += len(batch) * np.array([value.item() for value in values])
        count += len(batch)
    return sums / count


def train(options):
    image = fluid.layers.data(name="img", shape=[1, 28, 28], dtype="float32")
    label = fluid.layers.data(name="label", shape=[1], dtype="int64")
    prediction, loss, accuracy = {"mlp": mlp, "lenet": lenet}[options.net](image, label)
    test_program = fluid.default_main_program().clone(for_test=True)
    fluid.optimizer.Adam(learning_rate=0.001).minimize(loss)

    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    feeder = fluid.DataFeeder(feed_list=[image, label], place=fluid.CPUPlace())
    reader = paddle.batch(paddle.reader.shuffle(paddle.dataset.mnist.train(), buf_size=8192),
                          options.batch_size)

    step = 0
    for number in range(options.passes):
        for batch in reader():
            loss_now, accuracy_now = exe.run(feed=feeder.feed(batch), fetch_list=[loss, accuracy])
            if step % options.every == 0:
                print(f"pass {number}, step {step}: loss {loss_now.item():.4f}, "
                      f"accuracy {accuracy_now.item():.3f}")
            step += 1
            if step == options.steps:
                break
        test_loss, test_accuracy = test(exe, test_program, feeder, [loss, accuracy], options.batch_size)
        print(f"pass {number}, test: loss {test_loss:.4f}, accuracy {test_accuracy:.4f}")
        fluid.io.save_inference_model(options.model, ["img"], [prediction], exe)
        if step == options.steps:
            break


def infer(options):
    """Loads the saved model into a scope of its own and reads the first test images."""
    samples = [sample for sample, _ in zip(paddle.dataset.mnist.test()(), range(10))]
    images = np.array([image for image, _ in samples], dtype="float32").reshape(-1, 1, 28, 28)
    exe = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(fluid.core.Scope()):
        program, feeds, fetches = fluid.io.load_inference_model(options.model, exe)
        scores, = exe.run(program, feed={feeds[0]: images}, fetch_list=fetches)
    print("labels  ", *[label for _, label in samples])
    print("inferred", *scores.argmax(axis=1))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--net", choices=["mlp", "lenet"], default="mlp")
    parser.add_argument("--passes", type=int, default=1)
    parser.add_argument("--steps", type=int, default=0, help="stop after so many steps; 0: never")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--every", type=int, default=100, help="steps between two lines")
    parser.add_argument("--model", default="recognize_digits.model", help="folder of the saved model")
    parser.add_argument("--infer", action="store_true", help="do not train")
    options = parser.parse_args()
    # MNIST images come as 784 numbers; both nets take them as 1 x 28 x 28.
    if not options.infer:
        train(options)
    infer(options)
