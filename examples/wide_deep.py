"""Click prediction by a wide linear part and a deep part, added: wide & deep.

    python examples/wide_deep.py                       # made-up clicks
    python examples/wide_deep.py --data train.txt      # Criteo's file
"""

import click_training
import paddle.fluid as fluid

layers = fluid.layers


def pooled(slot, rows, width, table):
    found = layers.embedding(input=slot, size=[rows, width], is_sparse=True,
                             param_attr=fluid.ParamAttr(name=table))
    return layers.sequence_pool(input=found, pool_type="sum")


def network(options):
    dense, slots, label = click_training.inputs()

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


if __name__ == "__main__":
    options = click_training.arguments(__doc__, rate=0.05)
    feeds, loss, auc = network(options)
    click_training.train(options, fluid.optimizer.Adagrad(learning_rate=options.rate), feeds,
                         {"loss": loss, "AUC": auc})
