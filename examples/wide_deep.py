"""Click prediction by a wide linear part and a deep part, added: wide & deep.

    python examples/wide_deep.py                       # made-up clicks
    python examples/wide_deep.py --data train.txt      # Criteo's file
"""

import argparse

import clicks
import paddle
import paddle.fluid as fluid

layers = fluid.layers


def pooled(slot, rows, width, table):
    found = layers.embedding(input=slot, size=[rows, width], is_sparse=True,
                             param_attr=fluid.ParamAttr(name=table))
    return layers.sequence_pool(input=found, pool_type="sum")


def network(options):
    dense = layers.data(name="dense_input", shape=[clicks.DENSE], dtype="float32")
    slots = [layers.data(name=name, shape=[1], dtype="int64", lod_level=1) for name in clicks.SLOT_NAMES]
    label = layers.data(name="label", shape=[1], dtype="int64")

    wide = layers.sums([pooled(slot, options.rows, 1, "wide_table") for slot in slots])
    wide = wide + layers.fc(input=dense, size=1)
    deep = layers.concat([pooled(slot, options.rows, options.width, "deep_table") for slot in slots]
                         + [dense], axis=1)
    for size in (75, 50, 25):
        deep = layers.fc(input=deep, size=size, act="relu")
    deep = layers.fc(input=deep, size=1)

    prediction = layers.sigmoid(wide + deep)
    loss = layers.mean(layers.log_loss(input=prediction, label=layers.cast(label, "float32")))
    both = layers.concat([1.0 - prediction, prediction], axis=1)
    auc, batch_auc, _ = layers.auc(input=both, label=label)
    return [dense, *slots, label], loss, auc


def main(options):
    feeds, loss, auc = network(options)
    fluid.optimizer.Adagrad(learning_rate=options.rate).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    feeder = fluid.DataFeeder(feed_list=feeds, place=fluid.CPUPlace())
    step = 0
    for number in range(options.passes):
        source = clicks.reader(options.data, options.rows, options.samples, seed=number + 1)
        for batch in paddle.batch(source, options.batch_size)():
            loss_now, auc_now = exe.run(feed=feeder.feed(batch), fetch_list=[loss, auc])
            if step % options.every == 0:
                print(f"pass {number}, step {step}: loss {loss_now.item():.4f}, AUC {auc_now.item():.4f}")
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
    parser.add_argument("--width", type=int, default=10, help="values for each id of the deep part")
    parser.add_argument("--rate", type=float, default=0.05, help="learning rate")
    main(parser.parse_args())
