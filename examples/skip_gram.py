"""Word vectors by skip-gram: from a word its neighbours, told from a few drawn words (noise-contrastive estimation).

    python examples/skip_gram.py                      # in one process, on made-up text
    python -u examples/skip_gram.py --is_cloud=1      # a server or a worker of a job: examples/ctr_dnn/README.md

In the made-up text a sentence is about one of 50 topics. A line has a word and one of its neighbours. How good the vectors are is
told by an AUC: how probable it is that two words of one topic are nearer to each other than two words of different ones.
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
TOPICS, TOLD = 50, 1000  # TOLD: the most frequent words are compared


def write_pairs(path, count, seed, options):
    """A file of so many pairs. The topic of a word is its number modulo TOPICS; words are as frequent as Zipf says."""
    rng = np.random.RandomState(seed)
    most = options.words // TOPICS
    with open(path, "wb") as file:
        for start in range(0, count, 50000):
            some = min(50000, count - start)
            rank = np.minimum(np.exp(rng.random_sample((some, 2)) * np.log(most)).astype("int64") - 1, most - 1)
            of_sentence, any_topic = rng.randint(0, TOPICS, (some, 1)), rng.randint(0, TOPICS, (some, 2))
            topic = np.where(rng.random_sample((some, 2)) < 0.8, of_sentence, any_topic)
            words = TOPICS * rank + topic
            lines = multislot.Lines()
            lines.ids(words[:, :1])
            lines.ids(words[:, 1:])
            file.write(lines.text())


def network(options):
    word = fluid.data(name="word", shape=[None, 1], dtype="int64")
    neighbour = fluid.data(name="neighbour", shape=[None, 1], dtype="int64")
    start = fluid.initializer.Uniform(-0.5 / options.width, 0.5 / options.width)
    vector = layers.embedding(input=word, size=[options.words, options.width], is_sparse=True,
                              param_attr=fluid.ParamAttr(name="vectors", initializer=start))
    vector = layers.reshape(vector, [-1, options.width])
    cost = layers.nce(input=vector, label=neighbour, num_total_classes=options.words, num_neg_samples=options.negatives,
                      sampler="log_uniform", is_sparse=True,
                      param_attr=fluid.ParamAttr(name="contexts", initializer=fluid.initializer.Constant(0.0)),
                      bias_attr=fluid.ParamAttr(name="contexts_bias", initializer=fluid.initializer.Constant(0.0)))
    return conf.Net([word, neighbour], None, layers.mean(cost), vector)


def measure(exe, program, net, options):
    """The AUC of being of one topic, by the cosine of two vectors, among the most frequent words."""
    words = np.arange(min(TOLD, options.words))[:, None]
    vectors, = exe.run(program, feed={"word": words, "neighbour": words}, fetch_list=[net.prediction])
    vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    near = vectors @ vectors.T
    same = words % TOPICS == words.T % TOPICS
    upper = np.triu(np.ones_like(same), 1).astype(bool)
    order = np.argsort(near[upper])
    rank = np.empty(len(order))
    rank[order] = np.arange(len(order))
    is_same = same[upper]
    count = int(is_same.sum())
    return "AUC of topics", (rank[is_same].sum() - count * (count - 1) / 2) / count / (len(order) - count)


def add_options(parser):
    parser.add_argument("--words", type=int, default=10000, help="words that there are")
    parser.add_argument("--width", type=int, default=32, help="values for each word")
    parser.add_argument("--negatives", type=int, default=5, help="drawn words beside each neighbour")


if __name__ == "__main__":
    model = train.Model(network, write=write_pairs, facts=("words",), measure=measure, folder="pairs")
    train.main(__doc__, model, rate=0.2, optimizer="adagrad", samples=1000000, options=add_options)
