"""Click prediction by DeepFM: a factorization machine and a deep net over the same rows of ids, added.

    python examples/deepfm.py                         # in one process, on made-up clicks
    python -u examples/deepfm.py --is_cloud=1         # a server or a worker of a job: examples/ctr_dnn/README.md
"""

import sys
from pathlib import Path

import paddle.fluid as fluid

sys.path.insert(0, str(Path(__file__).resolve().parent / "ctr_dnn"))
import network_conf as conf
import train

layers = fluid.layers


def pairs(rows):
    """What all pairs of rows give together: half of the square of their sum less the sum of their squares."""
    square_of_sum = layers.square(layers.sums(rows))
    sum_of_squares = layers.sums([layers.square(row) for row in rows])
    return 0.5 * layers.reduce_sum(square_of_sum - sum_of_squares, dim=1, keep_dim=True)


def network(options):
    dense, slots, label = conf.inputs()

    weights = conf.table("first_order", scale=0.01)
    first = layers.sums([conf.pooled(slot, [options.rows, 1], weights) for slot in slots]) + layers.fc(input=dense, size=1)

    factors = conf.table("factors", scale=0.05)
    rows = [conf.pooled(slot, [options.rows, options.width], factors) for slot in slots]

    deep = layers.concat([*rows, dense], axis=1)
    for _ in range(3):
        deep = layers.fc(input=deep, size=200, act="relu")
    odds = first + pairs(rows) + layers.fc(input=deep, size=1)

    return conf.Net([dense, *slots, label], label, conf.click_loss(odds, label), conf.two_columns(odds))


if __name__ == "__main__":
    train.main(__doc__, train.Model(network), rate=0.001)
