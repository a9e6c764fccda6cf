"""The models of the golden files, written with plain `paddle.fluid` calls.

Each builder adds one network to the default programs and returns (feed variables, loss, extra fetches).
It takes an optimizer factory: a callable that returns a fluid optimizer, or None for a network without
backward and update ops. The keyword arguments are the sizes; their defaults are the sizes users know.

`CASES` says, for each golden case, which builder to call, with which (small) sizes, learning rate and data.
Everything here runs alike on paddlepaddle 1.8.5 and on this project's `paddle`.
"""

import math
from collections import OrderedDict

import numpy as np
import paddle.fluid as fluid

layers = fluid.layers


def finish(optimizer, loss):
    """Append the backward and update ops when an optimizer is asked for."""
    if optimizer is not None:
        optimizer().minimize(loss)


def fit_a_line(optimizer=None):
    """Linear regression over the 13 columns of the housing data."""
    x = layers.data(name='x', shape=[13], dtype='float32')
    y = layers.data(name='y', shape=[1], dtype='float32')
    predict = layers.fc(input=x, size=1, act=None)
    loss = layers.mean(layers.square_error_cost(input=predict, label=y))
    finish(optimizer, loss)
    return [x, y], loss, [predict]


def classify(hidden, label):
    """Ten-class softmax head; returns (loss, accuracy)."""
    predict = layers.fc(input=hidden, size=10, act='softmax')
    loss = layers.mean(layers.cross_entropy(input=predict, label=label))
    return loss, layers.accuracy(input=predict, label=label)


def mlp(optimizer=None, hidden=200):
    """Digits by two tanh layers."""
    img = layers.data(name='img', shape=[784], dtype='float32')
    label = layers.data(name='label', shape=[1], dtype='int64')
    first = layers.fc(input=img, size=hidden, act='tanh')
    second = layers.fc(input=first, size=hidden, act='tanh')
    loss, accuracy = classify(second, label)
    finish(optimizer, loss)
    return [img, label], loss, [accuracy]


def lenet(optimizer=None, with_batch_norm=True):
    """Digits by two convolution and pooling groups, with or without batch norm between them."""
    img = layers.data(name='img', shape=[1, 28, 28], dtype='float32')
    label = layers.data(name='label', shape=[1], dtype='int64')
    group = dict(filter_size=5, pool_size=2, pool_stride=2, act='relu')
    first = fluid.nets.simple_img_conv_pool(input=img, num_filters=20, **group)
    if with_batch_norm:
        first = layers.batch_norm(first)
    second = fluid.nets.simple_img_conv_pool(input=first, num_filters=50, **group)
    loss, accuracy = classify(second, label)
    finish(optimizer, loss)
    return [img, label], loss, [accuracy]


WORDS = ['firstw', 'secondw', 'thirdw', 'forthw', 'nextw']


def word2vec(optimizer=None, dict_size=2073, emb=32, hidden=256, is_sparse=False):
    """N-gram language model: four words in, the next one out, one shared table."""
    words = [layers.data(name=name, shape=[1], dtype='int64') for name in WORDS]
    tables = [
        layers.embedding(
            input=word, size=[dict_size, emb], dtype='float32', is_sparse=is_sparse, param_attr='shared_w'
        )
        for word in words[:4]
    ]
    joined = layers.concat(input=tables, axis=1)
    inner = layers.fc(input=joined, size=hidden, act='sigmoid')
    predict = layers.fc(input=inner, size=dict_size, act='softmax')
    loss = layers.mean(layers.cross_entropy(input=predict, label=words[4]))
    finish(optimizer, loss)
    return words, loss, []


def recommender_system(
    optimizer=None,
    users=6041,
    movies=3953,
    jobs=21,
    ages=7,
    categories=18,
    titles=5175,
    wide=200,
    is_sparse=True,
):
    """Rating of a movie by a user: the cosine of two feature vectors, times five."""

    def lookup(name, rows, width, table=None, lod_level=0):
        ids = layers.data(name=name, shape=[1], dtype='int64', lod_level=lod_level)
        found = layers.embedding(
            input=ids, size=[rows, width], dtype='float32', is_sparse=is_sparse, param_attr=table
        )
        return ids, found

    feeds, parts = [], []
    for name, rows, width, table in [
        ('user_id', users, 32, 'user_table'),
        ('gender_id', 2, 16, 'gender_table'),
        ('age_id', ages, 16, 'age_table'),
        ('job_id', jobs, 16, 'job_table'),
    ]:
        ids, found = lookup(name, rows, width, table)
        feeds.append(ids)
        parts.append(layers.fc(input=found, size=width))
    user = layers.fc(input=layers.concat(input=parts, axis=1), size=wide, act='tanh')

    movie_id, found = lookup('movie_id', movies, 32, 'movie_table')
    movie_part = layers.fc(input=found, size=32)
    category_id, found = lookup('category_id', categories, 32, lod_level=1)
    category_part = layers.sequence_pool(input=found, pool_type='sum')
    title_id, found = lookup('movie_title', titles, 32, lod_level=1)
    title_part = fluid.nets.sequence_conv_pool(
        input=found, num_filters=32, filter_size=3, act='tanh', pool_type='sum'
    )
    movie = layers.fc(
        input=layers.concat(input=[movie_part, category_part, title_part], axis=1), size=wide, act='tanh'
    )

    predict = layers.scale(x=layers.cos_sim(X=user, Y=movie), scale=5.0)
    score = layers.data(name='score', shape=[1], dtype='float32')
    loss = layers.mean(layers.square_error_cost(input=predict, label=score))
    finish(optimizer, loss)
    return feeds + [movie_id, category_id, title_id, score], loss, [predict]


def sparse_slots(count):
    """LoD id slots named C1, C2, ..."""
    return [layers.data(name=f'C{i}', shape=[1], dtype='int64', lod_level=1) for i in range(1, count + 1)]


def ctr_dnn(optimizer=None, rows=1000001, emb=10, slots=26, hidden=400, thresholds=4095):
    """Click prediction: pooled slots of one sparse table beside 13 dense values, three relu layers, AUC."""
    dense = layers.data(name='dense_input', shape=[13], dtype='float32')
    ids = sparse_slots(slots)
    label = layers.data(name='label', shape=[1], dtype='int64')
    table = fluid.ParamAttr(name='SparseFeatFactors', initializer=fluid.initializer.Uniform())
    pooled = [
        layers.sequence_pool(
            input=layers.embedding(
                input=slot, size=[rows, emb], dtype='float32', is_sparse=True, param_attr=table
            ),
            pool_type='sum',
        )
        for slot in ids
    ]
    last = layers.concat(input=pooled + [dense], axis=1)
    for _ in range(3):
        start = fluid.initializer.Normal(scale=1 / math.sqrt(last.shape[1]))
        last = layers.fc(input=last, size=hidden, act='relu', param_attr=fluid.ParamAttr(initializer=start))
    predict = layers.fc(input=last, size=2, act='softmax')
    loss = layers.reduce_sum(layers.cross_entropy(input=predict, label=label))
    accuracy = layers.accuracy(input=predict, label=label)
    auc, batch_auc, _ = layers.auc(input=predict, label=label, num_thresholds=thresholds, slide_steps=20)
    finish(optimizer, loss)
    return [dense] + ids + [label], loss, [accuracy, auc, batch_auc, predict]


def wide_deep(optimizer=None, rows=1000001, emb=10, slots=26, hidden=(75, 50, 25), thresholds=4095):
    """Click prediction: a linear part over ids and dense values plus a deep part, log loss, AUC."""
    dense = layers.data(name='dense_input', shape=[13], dtype='float32')
    ids = sparse_slots(slots)
    label = layers.data(name='label', shape=[1], dtype='int64')

    def pool(slot, width, name):
        found = layers.embedding(
            input=slot,
            size=[rows, width],
            dtype='float32',
            is_sparse=True,
            param_attr=fluid.ParamAttr(name=name),
        )
        return layers.sequence_pool(input=found, pool_type='sum')

    wide = layers.sums([pool(slot, 1, 'wide_table') for slot in ids]) + layers.fc(input=dense, size=1)
    deep = layers.concat(input=[pool(slot, emb, 'deep_table') for slot in ids] + [dense], axis=1)
    for size in hidden:
        deep = layers.fc(input=deep, size=size, act='relu')
    deep = layers.fc(input=deep, size=1)
    predict = layers.sigmoid(layers.elementwise_add(wide, deep))
    loss = layers.mean(layers.log_loss(input=predict, label=layers.cast(label, 'float32')))
    both = layers.concat(input=[1.0 - predict, predict], axis=1)
    auc, batch_auc, _ = layers.auc(input=both, label=label, num_thresholds=thresholds)
    finish(optimizer, loss)
    return [dense] + ids + [label], loss, [auc, batch_auc, both]


# Data: a batch is a dict from feed name to an array, or to (array, lengths) for a LoD feed. Values lie on a
# coarse binary grid: they are exact in float32 and compress well.


def grid(values, steps=64):
    return (np.round(values * steps) / steps).astype('float32')


def column(rng, high, size):
    return rng.randint(0, high, (size, 1)).astype('int64')


def ragged(rng, high, size, longest):
    """Ids with 1 to `longest` entries a row."""
    lengths = rng.randint(1, longest + 1, size)
    return column(rng, high, int(lengths.sum())), lengths.tolist()


def data_line(rng, size):
    x = grid(rng.uniform(-1, 1, (size, 13)))
    return {'x': x, 'y': grid(x.sum(axis=1, keepdims=True) * 0.5 + rng.uniform(-1, 1, (size, 1)))}


def data_mlp(rng, size):
    # a fixed third of the pixels is ever lit: rows of the first weight that stay zero keep the file small
    lit = np.random.RandomState(5).uniform(size=784) < 0.34
    return {'img': grid(rng.uniform(-1, 1, (size, 784)) * lit), 'label': column(rng, 10, size)}


def data_lenet(rng, size):
    return {'img': grid(rng.uniform(-1, 1, (size, 1, 28, 28)), 32), 'label': column(rng, 10, size)}


def data_words(rng, size):
    return {name: column(rng, 200, size) for name in WORDS}


def data_movies(rng, size):
    batch = {
        'user_id': column(rng, 60, size),
        'gender_id': column(rng, 2, size),
        'age_id': column(rng, 7, size),
        'job_id': column(rng, 21, size),
        'movie_id': column(rng, 50, size),
        'category_id': ragged(rng, 18, size, 3),
        'movie_title': ragged(rng, 80, size, 6),
    }
    batch['score'] = (1 + column(rng, 5, size)).astype('float32')
    return batch


def clicks(slots, rows):
    def data(rng, size):
        batch = {'dense_input': grid(rng.uniform(0, 1, (size, 13)))}
        for i in range(1, slots + 1):
            batch[f'C{i}'] = ragged(rng, rows, size, 3)
        batch['label'] = column(rng, 2, size)
        return batch

    return data


class Case:
    """One golden case: the network at golden size, its data, and how close losses must be."""

    def __init__(self, build, data, lr, size, loss_tol=1e-4, full=None, **sizes):
        self.build = build
        self.data = data
        self.lr = lr
        self.size = size
        self.loss_tol = loss_tol
        self.sizes = sizes
        self.full = full or {}

    def network(self, optimizer=None):
        """The network at golden size."""
        return self.build(optimizer, **self.sizes)

    def full_network(self, optimizer=None):
        """The network at the size users know (built for its names, never run)."""
        return self.build(optimizer, **self.full)

    def batches(self, name, count):
        """The batches of the case: a function of its name only."""
        seed = sum(ord(letter) * (i + 1) for i, letter in enumerate(name))
        return [self.data(np.random.RandomState(seed + step), self.size) for step in range(count)]


CASES = OrderedDict(
    [
        ('fit_a_line', Case(fit_a_line, data_line, 0.01, 20)),
        ('mlp', Case(mlp, data_mlp, 0.05, 16)),
        ('lenet', Case(lenet, data_lenet, 0.02, 8, loss_tol=1e-3)),
        (
            'lenet_plain',
            Case(lenet, data_lenet, 0.02, 8, with_batch_norm=False, full=dict(with_batch_norm=False)),
        ),
        ('word2vec', Case(word2vec, data_words, 0.2, 32, dict_size=200, emb=16, hidden=64)),
        (
            'word2vec_sparse',
            Case(
                word2vec,
                data_words,
                0.2,
                32,
                dict_size=200,
                emb=16,
                hidden=64,
                is_sparse=True,
                full=dict(is_sparse=True),
            ),
        ),
        (
            'recommender_system',
            Case(recommender_system, data_movies, 0.05, 16, users=60, movies=50, titles=80, wide=40),
        ),
        ('ctr_dnn', Case(ctr_dnn, clicks(26, 1000), 0.005, 16, rows=1000, hidden=32, thresholds=200)),
        (
            'wide_deep',
            Case(wide_deep, clicks(26, 500), 0.1, 16, rows=500, hidden=(24, 16, 8), thresholds=200),
        ),
    ]
)

OPTIMIZERS = OrderedDict(
    [
        ('SGD', lambda: fluid.optimizer.SGD(learning_rate=0.01)),
        ('Momentum', lambda: fluid.optimizer.Momentum(learning_rate=0.01, momentum=0.9)),
        ('Adam', lambda: fluid.optimizer.Adam(learning_rate=0.001)),
    ]
)
