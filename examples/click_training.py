"""What the click examples share: their arguments, the inputs of their nets, and the training loop."""

import argparse
import itertools

import clicks
import paddle
import paddle.fluid as fluid


def arguments(about, rate):
    """The command line of an example whose usual learning rate is `rate`."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--data", help="file of Criteo's layout; without it the data are made up")
    parser.add_argument("--rows", type=int, default=1000001, help="rows of a table of ids")
    parser.add_argument("--width", type=int, default=10, help="values for each id")
    parser.add_argument("--rate", type=float, default=rate, help="learning rate")
    parser.add_argument("--samples", type=int, default=100000, help="made-up samples in a pass")
    parser.add_argument("--passes", type=int, default=1)
    parser.add_argument("--steps", type=int, default=0, help="stop after so many steps; 0: never")
    parser.add_argument("--batch-size", type=int, default=1000)
    parser.add_argument("--every", type=int, default=20, help="steps between two lines")
    parser.add_argument("--model", help="folder for the parameters; without it they are not saved")
    return parser.parse_args()


def inputs():
    """The dense values, the 26 slots of ids, and the label."""
    dense = fluid.layers.data(name="dense_input", shape=[clicks.DENSE], dtype="float32")
    slots = [fluid.layers.data(name=name, shape=[1], dtype="int64", lod_level=1) for name in clicks.SLOT_NAMES]
    label = fluid.layers.data(name="label", shape=[1], dtype="int64")
    return dense, slots, label


def train(options, optimizer, feeds, shown):
    """Makes the first of `shown`, the loss, smaller; prints all of them, by their names, as it goes."""
    optimizer.minimize(next(iter(shown.values())))
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    feeder = fluid.DataFeeder(feed_list=feeds, place=fluid.CPUPlace())
    step = 0
    for number in range(options.passes):
        source = clicks.reader(options.data, options.rows, options.samples, seed=number + 1)
        batches = paddle.batch(source, options.batch_size)()
        for batch in itertools.islice(batches, options.steps - step if options.steps else None):
            values = exe.run(feed=feeder.feed(batch), fetch_list=list(shown.values()))
            if step % options.every == 0:
                texts = [f"{name} {value.item():.4f}" for name, value in zip(shown, values)]
                print(f"pass {number}, step {step}: {', '.join(texts)}")
            step += 1
        if options.model:
            fluid.io.save_persistables(exe, options.model)
