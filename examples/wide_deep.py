"""Click prediction by wide & deep: a linear part with a weight for each id, and a deep part over rows of ids, added.

    python examples/wide_deep.py                      # in one process, on made-up clicks
    python -u examples/wide_deep.py --is_cloud=1      # a server or a worker of a job: examples/ctr_dnn/README.md
"""

import sys
from pathlib import Path

import paddle.fluid as fluid

sys.path.insert(0, str(Path(__file__).resolve().parent / "ctr_dnn"))
import network_conf as conf
import train

layers = fluid.layers


def network(options):
    dense, slots, label = conf.inputs()

    weights = conf.table("wide_table", scale=0.01)
    wide = layers.sums([conf.pooled(slot, [options.rows, 1], weights) for slot in slots]) + layers.fc(input=dense, size=1)

    factors = conf.table("deep_table")
    deep = layers.concat([*(conf.pooled(slot, [options.rows, options.width], factors) for slot in slots), dense], axis=1)
    for size in (256, 128, 64):
        deep = layers.fc(input=deep, size=size, act="relu")
    odds = wide + layers.fc(input=deep, size=1)

    return conf.Net([dense, *slots, label], label, conf.click_loss(odds, label), conf.two_columns(odds))


if __name__ == "__main__":
    train.main(__doc__, train.Model(network), rate=0.02, optimizer="adagrad")
