"""Click prediction by a deep & cross network: layers that multiply the input with itself, beside a deep net.

    python examples/dcn.py                            # in one process, on made-up clicks
    python -u examples/dcn.py --is_cloud=1            # a server or a worker of a job: examples/ctr_dnn/README.md
"""

import sys
from pathlib import Path

import paddle.fluid as fluid

sys.path.insert(0, str(Path(__file__).resolve().parent / "ctr_dnn"))
import network_conf as conf
import train

layers = fluid.layers


def cross(start, now, number):
    """start * (now . w) + b + now: another degree of products."""
    width = start.shape[1]
    product = layers.fc(input=now, size=1, bias_attr=False)
    bias = layers.create_parameter([width], "float32", name="cross_%d.b" % number, is_bias=True)
    return layers.elementwise_add(layers.elementwise_mul(start, product, axis=0), bias, axis=1) + now


def network(options):
    dense, slots, label = conf.inputs()
    factors = conf.table("factors")
    start = layers.concat([*(conf.pooled(slot, [options.rows, options.width], factors) for slot in slots), dense], axis=1)

    crossed = start
    for number in range(3):
        crossed = cross(start, crossed, number)
    deep = start
    for _ in range(2):
        deep = layers.fc(input=deep, size=256, act="relu")
    odds = layers.fc(input=layers.concat([crossed, deep], axis=1), size=1)

    return conf.Net([dense, *slots, label], label, conf.click_loss(odds, label), conf.two_columns(odds))


if __name__ == "__main__":
    train.main(__doc__, train.Model(network), rate=0.001)
