"""Click prediction by a deep net over 26 sparse slots and 13 dense values.

    python examples/ctr_dnn.py                       # made-up clicks
    python examples/ctr_dnn.py --data train.txt      # Criteo's file
"""

import argparse
import math

import clicks
import paddle
import paddle.fluid as fluid

layers = fluid.layers


def network(options):
    dense = layers.data(name="dense_input", shape=[clicks.DENSE], dtype="float32")
    slots = [layers.data(name=name, shape=[1], dtype="int64", lod_level=1) for name in clicks.SLOT_NAMES]
    label = layers.data(name="label", shape=[1], dtype="int64")
    table = fluid.ParamAttr(name="SparseFeatFactors", initializer=fluid.initializer.Uniform(-0.1, 0.1))
    pooled = [layers.sequence_pool(
        input=layers.embedding(input=slot, size=[options.rows, options.width], is_sparse=True,
                               param_attr=table), pool_type="sum") for slot in slots]
    hidden = layers.concat([*pooled, dense], axis=1)
    for _ in range(3):
        start = fluid.initializer.Normal(scale=1 / math.sqrt(hidden.shape[1]))
        hidden = layers.fc(input=hidden, size=400, act="relu", param_attr=fluid.ParamAttr(initializer=start))
    prediction = layers.fc(input=hidden, size=2, act="softmax")
    loss = layers.mean(layers.cross_entropy(input=prediction, label=label))
    accuracy = layers.accuracy(input=prediction, label=label)
    auc, batch_auc, _ = layers.auc(input=prediction, label=label)
    return [dense, *slots, label], loss, accuracy, auc


def main(options):
    feeds, loss, accuracy, auc = network(options)
    fluid.optimizer.Adam(learning_rate=options.rate, lazy_mode=True).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    feeder = fluid.DataFeeder(feed_list=feeds, place=fluid.CPUPlace())
    step = 0
    for number in range(options.passes):
        source = clicks.reader(options.data, options.rows, options.samples, seed=number + 1)
        for batch in paddle.batch(source, options.batch_size)():
            values = exe.run(feed=feeder.feed(batch), fetch_list=[loss, accuracy, auc])
            if step % options.every == 0:
                loss_now, accuracy_now, auc_now = (value.item() for value in values)
                print(f"pass {number}, step {step}: loss {loss_now:.4f}, accuracy {accuracy_now:.3f}, "
                      f"AUC {auc_now:.4f}")
            step += 1
            if step == options.steps:
                break
        if options.model:
            fluid.io.save_persistables(exe, options.model)
        if step == options.steps:
            break


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    clicks.add_arguments(parser)
    parser.add_argument("--width", type=int, default=10, help="values for each id")
    parser.add_argument("--rate", type=float, default=0.001, help="learning rate")
    main(parser.parse_args())
