"""Click prediction by a deep net over 26 sparse slots and 13 dense values.

    python examples/ctr_dnn.py                       # made-up clicks
    python examples/ctr_dnn.py --data train.txt      # Criteo's file
"""

import math

import click_training
import paddle.fluid as fluid

layers = fluid.layers


def network(options):
    dense, slots, label = click_training.inputs()
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


if __name__ == "__main__":
    options = click_training.arguments(__doc__, rate=0.001)
    feeds, loss, accuracy, auc = network(options)
    click_training.train(options, fluid.optimizer.Adam(learning_rate=options.rate, lazy_mode=True), feeds,
                         {"loss": loss, "accuracy": accuracy, "AUC": auc})
