"""The inputs of click-through models, and the net of CTR-DNN: 26 slots of ids and 13 dense values, three wide layers.

Also what all models of these examples give to train.py: a Net.
"""

import math
from collections import namedtuple

import generate
import paddle.fluid as fluid

layers = fluid.layers

# inputs: what a line of a file fills, in its order. prediction: what the saved model gives; beside a label it has two columns, the
# second the probability of a click. Without a label (None) the example has a measure of its own.
Net = namedtuple("Net", "inputs label loss prediction")


def inputs():
    """The dense values, the 26 slots of ids, and the label."""
    dense = fluid.data(name="dense_input", shape=[None, generate.DENSE], dtype="float32")
    slots = [fluid.data(name="C%d" % number, shape=[None, 1], dtype="int64", lod_level=1)
             for number in range(1, generate.SLOTS + 1)]
    label = fluid.data(name="label", shape=[None, 1], dtype="int64")
    return dense, slots, label


def pooled(slot, size, table):
    """The sum of a sample's rows, of a table that may be shared."""
    rows = layers.embedding(input=slot, size=size, is_sparse=True, param_attr=table)
    return layers.sequence_pool(input=rows, pool_type="sum")


def table(name, scale=0.1):
    return fluid.ParamAttr(name=name, initializer=fluid.initializer.Uniform(-scale, scale))


def two_columns(odds):
    """The probabilities of no click and of a click."""
    click = layers.sigmoid(odds)
    return layers.concat([1.0 - click, click], axis=1)


def click_loss(odds, label):
    return layers.mean(layers.sigmoid_cross_entropy_with_logits(odds, layers.cast(label, "float32")))


def add_options(parser):
    parser.add_argument("--rows", type=int, default=1000001, help="rows of the table of ids")
    parser.add_argument("--width", type=int, default=10, help="values for each id")


def network(options):
    dense, slots, label = inputs()
    factors = table("SparseFeatFactors")
    hidden = layers.concat([*(pooled(slot, [options.rows, options.width], factors) for slot in slots), dense], axis=1)
    for _ in range(3):
        start = fluid.initializer.Normal(scale=1 / math.sqrt(hidden.shape[1]))
        hidden = layers.fc(input=hidden, size=400, act="relu", param_attr=fluid.ParamAttr(initializer=start))
    prediction = layers.fc(input=hidden, size=2, act="softmax")
    loss = layers.mean(layers.cross_entropy(input=prediction, label=label))
    return Net([dense, *slots, label], label, loss, prediction)
