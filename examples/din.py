"""Click prediction by a deep interest network: attention over what a user has looked at, by what is offered now.

    python examples/din.py                            # in one process, on made-up visits
    python -u examples/din.py --is_cloud=1            # a server or a worker of a job: examples/ctr_dnn/README.md

A sample is the history of a user, from 1 to 40 goods, one good that is offered, and whether it was taken. In the made-up data goods
have a hidden kind, and a good is mostly taken when several of the history are of its kind: which ones count depends on the good.
"""

import sys
from pathlib import Path

import numpy as np
import paddle.fluid as fluid

sys.path.insert(0, str(Path(__file__).resolve().parent / "ctr_dnn"))
import multislot
import network_conf as conf
import train

layers = fluid.layers
KINDS, LONGEST = 20, 40


def write_visits(path, count, seed, options):
    """A file of so many lines: the history, the good, the label. The kind of a good is its number modulo KINDS."""
    rng = np.random.RandomState(seed)
    with open(path, "wb") as file:
        for start in range(0, count, 10000):
            some = min(10000, count - start)
            lengths = rng.randint(1, LONGEST + 1, some)
            liked = rng.randint(0, KINDS, (some, 4))  # kinds that a user likes
            kinds = np.where(rng.random_sample((some, LONGEST)) < 0.8,
                             liked[np.arange(some)[:, None], rng.randint(0, 4, (some, LONGEST))],
                             rng.randint(0, KINDS, (some, LONGEST)))
            history = goods_of(kinds, rng, options.goods)
            kind = np.where(rng.random_sample(some) < 0.5, liked[:, 0], rng.randint(0, KINDS, some))
            offered = goods_of(kind, rng, options.goods)
            seen = np.arange(LONGEST) < lengths[:, None]
            same = ((kinds == kind[:, None]) & seen).sum(axis=1)
            odds = 1.2 * np.minimum(same, 4) - 2.5 + 0.5 * (kind % 3 - 1)
            label = rng.random_sample(some) < 1 / (1 + np.exp(-odds))
            lines = multislot.Lines()
            lines.ids(history, lengths)
            lines.ids(offered[:, None])
            lines.ids(label[:, None].astype("int64"))
            file.write(lines.text())


def goods_of(kinds, rng, goods):
    """For each kind a good of it, number 1 to goods, a few of them often."""
    rank = (goods // KINDS * rng.random_sample(kinds.shape) ** 3).astype("int64")
    return KINDS * rank + (kinds - 1) % KINDS + 1


def attention(history, offered):
    """The rows of a history, each as much as it has to do with the good that is offered, added up."""
    offered = layers.sequence_expand_as(offered, history)
    both = layers.concat([history, offered, history - offered, history * offered], axis=1)
    hidden = layers.fc(input=both, size=32, act="sigmoid")
    weight = layers.fc(input=hidden, size=1)
    return layers.sequence_pool(layers.elementwise_mul(history, weight, axis=0), pool_type="sum")


def network(options):
    history = fluid.data(name="history", shape=[None, 1], dtype="int64", lod_level=1)
    offered = fluid.data(name="offered", shape=[None, 1], dtype="int64", lod_level=1)
    label = fluid.data(name="label", shape=[None, 1], dtype="int64")
    size, goods = [options.goods + 1, options.width], conf.table("goods")
    rows = layers.embedding(input=history, size=size, is_sparse=True, param_attr=goods)
    good = conf.pooled(offered, size, goods)
    interest = attention(rows, good)
    hidden = layers.concat([interest, good, interest * good], axis=1)
    for width in (80, 40):
        hidden = layers.fc(input=hidden, size=width, act="relu")
    odds = layers.fc(input=hidden, size=1)
    return conf.Net([history, offered, label], label, conf.click_loss(odds, label), conf.two_columns(odds))


def add_options(parser):
    parser.add_argument("--goods", type=int, default=2000, help="how many goods there are")
    parser.add_argument("--width", type=int, default=16, help="values for each good")


if __name__ == "__main__":
    model = train.Model(network, write=write_visits, facts=("goods",), folder="visits")
    train.main(__doc__, model, rate=0.005, options=add_options)
