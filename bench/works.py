"""The works that are measured, and their data. Runs under Python 3.7 too: paddlepaddle 1.8.5 needs that one.

A batch is a dict from feed name to an array. Ids of LoD slots are arrays too, one id for each row; the Fluid
models turn them into LoD tensors before the clock starts.
"""

from collections import OrderedDict

import numpy as np


class Work:
    """One training job: its batch size, its batches and the floating-point operations of its products."""

    def __init__(self, title, batch, batches, make, flops=0, unit="samples/s"):
        self.title = title
        self.batch = batch
        self.batches = batches
        self.make = make
        self.flops = flops
        self.unit = unit

    def data(self):
        """The batches of this work: the same ones for everybody."""
        rng = np.random.RandomState(1)
        return [self.make(rng, self.batch) for _ in range(self.batches)]


def products(sizes, first_gradient):
    """Operations for one sample in a chain of fully connected layers: forward, weight and input gradient.

    first_gradient says whether the first layer hands a gradient on to its input.
    """
    chain = [2 * a * b for a, b in zip(sizes, sizes[1:])]
    return 3 * sum(chain) - (0 if first_gradient else chain[0])


WORDS = ["first", "second", "third", "fourth", "next"]
DICT, EMB, HIDDEN = 2073, 32, 256
SLOTS, ROWS, WIDTH, DENSE, FC = 26, 1000001, 10, 13, 400
VOCABULARY, VECTOR, NEGATIVES = 10000, 64, 5
SLOT_NAMES = ["C%d" % i for i in range(1, SLOTS + 1)]


def column(rng, high, size):
    return rng.randint(0, high, (size, 1)).astype("int64")


def line(rng, size):
    x = rng.uniform(-1, 1, (size, 13)).astype("float32")
    return {"x": x, "y": x.sum(axis=1, keepdims=True)}


def digits(rng, size):
    return {"img": rng.uniform(-1, 1, (size, 784)).astype("float32"), "label": column(rng, 10, size)}


def pictures(rng, size):
    batch = digits(rng, size)
    batch["img"] = batch["img"].reshape(size, 1, 28, 28)
    return batch


def words(rng, size):
    return {name: column(rng, DICT, size) for name in WORDS}


def clicks(rng, size):
    batch = {"dense": rng.uniform(0, 1, (size, DENSE)).astype("float32")}
    for name in SLOT_NAMES:
        batch[name] = column(rng, ROWS, size)
    batch["label"] = column(rng, 2, size)
    return batch


def pairs(rng, size):
    """A word and one of its neighbours, few of them often, as words are."""
    ranks = np.exp(rng.uniform(0, np.log(VOCABULARY), (2, size, 1))).astype("int64") - 1
    return {"word": ranks[0], "neighbour": ranks[1]}


CONV_FLOPS = 2 * (2 * 24 * 24 * 20 * 25) + 3 * (2 * 8 * 8 * 50 * 20 * 25) + products([800, 10], True)
WORD_FLOPS = products([4 * EMB, HIDDEN, DICT], True)
CLICK_FLOPS = products([SLOTS * WIDTH + DENSE, FC, FC, FC, 2], True)

WORKS = OrderedDict(
    [
        ("fit_a_line", Work("fit_a_line, one run", 20, 64, line, unit="us")),
        ("mlp", Work("MLP 784-200-200-10, Adam", 64, 32, digits, products([784, 200, 200, 10], False))),
        ("word2vec_sparse", Work("word2vec N-gram, sparse", 100, 64, words, WORD_FLOPS)),
        ("word2vec", Work("word2vec N-gram, dense", 100, 64, words, WORD_FLOPS)),
        # Enough batches that their rows do not all stay in the cache: 32 x 26,000 rows of 40 bytes.
        ("ctr_dnn", Work("CTR-DNN, sparse", 1000, 32, clicks, CLICK_FLOPS)),
        ("ctr_dnn_light", Work("CTR-DNN, its exchange alone", 1000, 8, clicks)),
        ("ctr_dnn_lazy", Work("CTR-DNN, sparse, lazy Adam", 1000, 32, clicks, CLICK_FLOPS)),
        ("ctr_dnn_adam", Work("CTR-DNN, sparse, Adam", 1000, 32, clicks, CLICK_FLOPS)),
        ("skip_gram", Work("skip-gram, nce, sparse", 100, 64, pairs)),
        ("lenet", Work("LeNet + batch norm, Adam", 64, 16, pictures, CONV_FLOPS)),
    ]
)
