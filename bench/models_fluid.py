"""The works in paddle.fluid, for this project's package and for paddlepaddle 1.8.5 alike (Python 3.7 too)."""

import os
import time

import numpy as np
import paddle
import paddle.fluid as fluid
import works

layers = fluid.layers


def fit_a_line():
    x = layers.data(name="x", shape=[13], dtype="float32")
    y = layers.data(name="y", shape=[1], dtype="float32")
    predict = layers.fc(input=x, size=1)
    loss = layers.mean(layers.square_error_cost(input=predict, label=y))
    fluid.optimizer.SGD(learning_rate=0.01).minimize(loss)
    return loss


def classify(hidden, classes, label):
    predict = layers.fc(input=hidden, size=classes, act="softmax")
    return layers.mean(layers.cross_entropy(input=predict, label=label))


def mlp():
    img = layers.data(name="img", shape=[784], dtype="float32")
    label = layers.data(name="label", shape=[1], dtype="int64")
    hidden = layers.fc(input=img, size=200, act="tanh")
    hidden = layers.fc(input=hidden, size=200, act="tanh")
    loss = classify(hidden, 10, label)
    fluid.optimizer.Adam(learning_rate=0.001).minimize(loss)
    return loss


def lenet():
    img = layers.data(name="img", shape=[1, 28, 28], dtype="float32")
    label = layers.data(name="label", shape=[1], dtype="int64")
    group = dict(filter_size=5, pool_size=2, pool_stride=2, act="relu")
    hidden = fluid.nets.simple_img_conv_pool(input=img, num_filters=20, **group)
    hidden = layers.batch_norm(hidden)
    hidden = fluid.nets.simple_img_conv_pool(input=hidden, num_filters=50, **group)
    loss = classify(hidden, 10, label)
    fluid.optimizer.Adam(learning_rate=0.001).minimize(loss)
    return loss


def word2vec(is_sparse=False):
    ids = [layers.data(name=name, shape=[1], dtype="int64") for name in works.WORDS]
    found = [
        layers.embedding(
            input=word, size=[works.DICT, works.EMB], is_sparse=is_sparse, param_attr="shared_table"
        )
        for word in ids[:4]
    ]
    hidden = layers.fc(input=layers.concat(input=found, axis=1), size=works.HIDDEN, act="sigmoid")
    loss = classify(hidden, works.DICT, ids[4])
    fluid.optimizer.SGD(learning_rate=0.01).minimize(loss)
    return loss


def word2vec_sparse():
    return word2vec(is_sparse=True)


def skip_gram():
    word = layers.data(name="word", shape=[1], dtype="int64")
    neighbour = layers.data(name="neighbour", shape=[1], dtype="int64")
    vector = layers.embedding(input=word, size=[works.VOCABULARY, works.VECTOR], is_sparse=True, param_attr="vectors")
    vector = layers.reshape(vector, [-1, works.VECTOR])
    is_sparse = hasattr(paddle.version, "cpaddle")  # a sparse nce cannot be transpiled in 1.8.5
    cost = layers.nce(input=vector, label=neighbour, num_total_classes=works.VOCABULARY, num_neg_samples=works.NEGATIVES,
                      sampler="log_uniform", is_sparse=is_sparse, param_attr="contexts", bias_attr="contexts_bias")
    loss = layers.mean(cost)
    fluid.optimizer.SGD(learning_rate=0.01).minimize(loss)
    return loss


def click_inputs():
    """The inputs of CTR-DNN, in the order of a line of a file."""
    dense = layers.data(name="dense", shape=[works.DENSE], dtype="float32")
    slots = [layers.data(name=name, shape=[1], dtype="int64", lod_level=1) for name in works.SLOT_NAMES]
    return [dense] + slots + [layers.data(name="label", shape=[1], dtype="int64")]


def ctr_dnn(optimizer=None):
    inputs = click_inputs()
    dense, slots, label = inputs[0], inputs[1:-1], inputs[-1]
    table = fluid.ParamAttr(name="table", initializer=fluid.initializer.Uniform())
    pooled = [
        layers.sequence_pool(
            input=layers.embedding(
                input=slot, size=[works.ROWS, works.WIDTH], is_sparse=True, param_attr=table
            ),
            pool_type="sum",
        )
        for slot in slots
    ]
    hidden = layers.concat(input=pooled + [dense], axis=1)
    for _ in range(3):
        hidden = layers.fc(input=hidden, size=works.FC, act="relu")
    loss = classify(hidden, 2, label)
    (optimizer or fluid.optimizer.SGD(learning_rate=0.01)).minimize(loss)
    return loss


def ctr_dnn_light():
    """Exchanges what ctr_dnn does (the same parameters, rows and gradients in size) and computes next to nothing."""
    inputs = click_inputs()
    table = fluid.ParamAttr(name="table", initializer=fluid.initializer.Uniform())
    sums = []
    for slot in inputs[1:-1]:
        rows = layers.embedding(input=slot, size=[works.ROWS, works.WIDTH], is_sparse=True, param_attr=table)
        sums.append(layers.reduce_sum(rows))
    widths = [works.SLOTS * works.WIDTH + works.DENSE] + 3 * [works.FC] + [2]
    for shape in [*zip(widths, widths[1:]), *[(width,) for width in widths[1:]]]:
        sums.append(layers.reduce_sum(layers.create_parameter(shape=list(shape), dtype="float32")))
    loss = layers.scale(layers.sums(sums), scale=1e-6)
    fluid.optimizer.SGD(learning_rate=0.01).minimize(loss)
    return loss


def ctr_dnn_lazy():
    return ctr_dnn(fluid.optimizer.Adam(learning_rate=0.001, lazy_mode=True))


def ctr_dnn_adam():
    return ctr_dnn(fluid.optimizer.Adam(learning_rate=0.001))


def sequences(is_sparse=True):
    """A text classifier over sequences of any length: the stream of batches runs through it."""
    ids = layers.data(name="ids", shape=[1], dtype="int64", lod_level=1)
    label = layers.data(name="label", shape=[1], dtype="int64")
    found = layers.embedding(input=ids, size=[5000, 32], is_sparse=is_sparse)
    hidden = fluid.nets.sequence_conv_pool(
        input=found, num_filters=32, filter_size=3, act="tanh", pool_type="sum"
    )
    loss = classify(hidden, 2, label)
    fluid.optimizer.SGD(learning_rate=0.001).minimize(loss)
    return loss


def lod(array, lengths):
    return fluid.create_lod_tensor(array, [lengths], fluid.CPUPlace())


def convert(batch):
    """A batch as a script feeds it; slots of LoD level 1 get one id for each sample."""
    ones = {}
    for name in works.SLOT_NAMES:
        if name in batch:
            ones[name] = lod(batch[name], [1] * len(batch[name]))
    return dict(batch, **ones)


class Step:
    """A built work: calling it runs the next batch and returns the loss.

    how: "plain" is exe.run as most scripts have it; "cached" adds use_program_cache.
    """

    def __init__(self, name, how):
        self.loss = globals()[name]()
        self.exe = fluid.Executor(fluid.CPUPlace())
        self.exe.run(fluid.default_startup_program())
        self.program = fluid.default_main_program()
        self.options = {"use_program_cache": True} if how == "cached" else {}
        self.fetch = [self.loss]
        if name in works.WORKS:
            self.feeds = [convert(batch) for batch in works.WORKS[name].data()]
            self.at = 0

    def __call__(self):
        feed = self.feeds[self.at]
        self.at = (self.at + 1) % len(self.feeds)
        return self.exe.run(self.program, feed=feed, fetch_list=self.fetch, **self.options)[0]

    def run(self, feed):
        return self.exe.run(self.program, feed=feed, fetch_list=self.fetch, **self.options)[0]


class Files:
    """Passes over text files: with a net ("ctr_dnn") they train it, without one they are read and no more."""

    def __init__(self, net, folder, threads):
        self.exe = fluid.Executor(fluid.CPUPlace())
        if net:
            globals()[net]()
            self.exe.run(fluid.default_startup_program())
            inputs = [fluid.default_main_program().global_block().var(name) for name in ["dense"] + works.SLOT_NAMES + ["label"]]
        else:
            inputs = click_inputs()
        self.files = sorted(os.path.join(folder, name) for name in os.listdir(folder))
        self.bytes = sum(os.path.getsize(path) for path in self.files)
        self.dataset = fluid.DatasetFactory().create_dataset("QueueDataset")
        self.dataset.set_use_var(inputs)
        self.dataset.set_batch_size(works.WORKS["ctr_dnn"].batch)
        self.dataset.set_thread(threads)
        self.dataset.set_filelist(self.files)
        with open(self.files[0]) as lines:
            self.steps = len(self.files) * sum(1 for _ in lines) // works.WORKS["ctr_dnn"].batch

    def round(self, seconds):
        """As many passes as take so long; the first one that is not over by then is the last."""
        steps, begin, used = 0, time.perf_counter(), time.process_time()
        while steps == 0 or time.perf_counter() - begin < seconds:
            self.exe.train_from_dataset(fluid.default_main_program(), self.dataset)
            steps += self.steps
        passes = steps // self.steps
        return {"steps": steps, "seconds": time.perf_counter() - begin, "cpu_seconds": time.process_time() - used,
                "bytes": passes * self.bytes}


class Gemm:
    """A square product as a Program, for the peak of this machine's products."""

    def __init__(self, size):
        start = fluid.initializer.ConstantInitializer(0.5)
        a, b = [
            layers.create_parameter([size, size], "float32", name=name, default_initializer=start)
            for name in ("a", "b")
        ]
        self.fetch = [layers.reduce_max(layers.mul(a, b))]
        self.exe = fluid.Executor(fluid.CPUPlace())
        self.exe.run(fluid.default_startup_program())

    def __call__(self):
        return self.exe.run(fluid.default_main_program(), fetch_list=self.fetch)[0]


def stream_lengths(rng, total, sequences_in_batch):
    """Lengths of one batch: at least 1 each, `total` together."""
    cuts = rng.choice(total - 1, sequences_in_batch - 1, replace=False) + 1
    edges = np.concatenate([[0], np.sort(cuts), [total]])
    return np.diff(edges).tolist()
