"""Whole small scripts as recommendation, vision and text repositories write them: a reader in the Program, a loop until
EOFException, several passes, a test Program beside it."""

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

HEAD = """
import numpy as np
import paddle
import paddle.fluid as fluid
rng = np.random.RandomState(0)
fluid.default_main_program().random_seed = fluid.default_startup_program().random_seed = 1
place = fluid.CPUPlace()
"""

# Click-through rates: DNN over sparse slots, DataLoader with iterable=False, AUC over all steps (slide_steps=0).
CTR = """
def train_reader():
    for _ in range(400):
        slots = rng.randint(0, 50, 3)
        yield [[slots[0]], [slots[1]], [slots[2]], rng.rand(4).astype('float32'), [int(slots[0] < 25)]]

sparse = [fluid.layers.data(name='C%d' % i, shape=[1], lod_level=1, dtype='int64') for i in range(3)]
dense = fluid.layers.data(name='dense_input', shape=[4], dtype='float32')
label = fluid.layers.data(name='label', shape=[1], dtype='int64')
inputs = sparse + [dense, label]
loader = fluid.io.DataLoader.from_generator(feed_list=inputs, capacity=64, use_double_buffer=False, iterable=False)

def embedding_layer(ids):
    emb = fluid.layers.embedding(input=ids, size=[50, 8], is_sparse=True,
                                 param_attr=fluid.ParamAttr(name='SparseFeatFactors', initializer=fluid.initializer.Uniform()))
    return fluid.layers.sequence_pool(input=emb, pool_type='average')

concated = fluid.layers.concat([embedding_layer(each) for each in sparse] + [dense], axis=1)
fc = fluid.layers.fc(input=concated, size=16, act='relu')
predict = fluid.layers.fc(input=fc, size=2, act='softmax')
avg_cost = fluid.layers.reduce_mean(fluid.layers.cross_entropy(input=predict, label=label))
auc_var, batch_auc_var, auc_states = fluid.layers.auc(input=predict, label=label, num_thresholds=2**12, slide_steps=0)
fluid.optimizer.Adam(learning_rate=0.05).minimize(avg_cost)
loader.set_sample_list_generator(paddle.batch(train_reader, batch_size=40), places=place)
exe = fluid.Executor(place)
exe.run(fluid.default_startup_program())
for epoch in range(6):
    loader.start()
    n = 0
    try:
        while True:
            loss_val, auc_val, batch_auc = exe.run(fluid.default_main_program(),
                                                   fetch_list=[avg_cost.name, auc_var.name, batch_auc_var.name])
            n += 1
            assert auc_val == batch_auc
    except fluid.core.EOFException:
        loader.reset()
    print(n, np.mean(loss_val), float(auc_val[0]))
"""

# A CTR model as older repositories have it: py_reader, read_file, decorate_paddle_reader, ParallelExecutor.
PY_READER = """
import random
random.seed(0)

def samples():
    for _ in range(128):
        x = rng.randn(10).astype('float32')
        yield x, [int(x.sum() > 0)]

reader = fluid.layers.py_reader(capacity=64, shapes=[[-1, 10], [-1, 1]], dtypes=['float32', 'int64'], lod_levels=[0, 0],
                                name='train_reader', use_double_buffer=True)
x, y = fluid.layers.read_file(reader)
predict = fluid.layers.fc(fluid.layers.fc(x, 16, act='relu'), 2, act='softmax')
loss = fluid.layers.mean(fluid.layers.cross_entropy(predict, y))
acc = fluid.layers.accuracy(predict, y)
fluid.optimizer.Adam(0.05).minimize(loss)
exe = fluid.Executor(place)
exe.run(fluid.default_startup_program())
reader.decorate_paddle_reader(paddle.reader.shuffle(paddle.batch(samples, batch_size=16), buf_size=4))
exec_strategy = fluid.ExecutionStrategy()
build_strategy = fluid.BuildStrategy()
pe = fluid.ParallelExecutor(use_cuda=False, loss_name=loss.name, build_strategy=build_strategy, exec_strategy=exec_strategy)
for pass_id in range(8):
    reader.start()
    rows = []
    try:
        while True:
            rows.append(pe.run(fetch_list=[loss.name, acc.name]))
    except fluid.core.EOFException:
        reader.reset()
    print(len(rows), *(float(each) for each in np.mean(rows, axis=0).ravel()))
"""

# Image classification: train and test Programs with a reader each, parameters shared by name.
TWO_READERS = """
def digits(n, seed):
    def reader():
        r = np.random.RandomState(seed)
        for _ in range(n):
            label = r.randint(4)
            image = r.rand(1, 8, 8).astype('float32') * 0.3
            image[0, label * 2:label * 2 + 2] += 1
            yield image, label
    return reader

def build_program(is_train, main_prog, startup_prog):
    with fluid.program_guard(main_prog, startup_prog):
        py_reader = fluid.layers.py_reader(capacity=16, shapes=[[-1, 1, 8, 8], [-1, 1]], lod_levels=[0, 0],
                                           dtypes=["float32", "int64"], use_double_buffer=True,
                                           name='train_reader' if is_train else 'test_reader')
        with fluid.unique_name.guard():
            image, label = fluid.layers.read_file(py_reader)
            conv = fluid.nets.simple_img_conv_pool(image, 4, 3, 2, 2, act='relu')
            out = fluid.layers.fc(input=conv, size=4, act='softmax')
            avg_cost = fluid.layers.mean(x=fluid.layers.cross_entropy(input=out, label=label))
            acc_top1 = fluid.layers.accuracy(input=out, label=label, k=1)
            if is_train:
                fluid.optimizer.Momentum(learning_rate=0.1, momentum=0.9,
                                         regularization=fluid.regularizer.L2Decay(1e-4)).minimize(avg_cost)
    return py_reader, avg_cost, acc_top1

startup_prog, train_prog, test_prog = fluid.Program(), fluid.Program(), fluid.Program()
startup_prog.random_seed = 3
train_reader, train_cost, train_acc = build_program(True, train_prog, startup_prog)
test_reader, test_cost, test_acc = build_program(False, test_prog, startup_prog)
test_prog = test_prog.clone(for_test=True)
exe = fluid.Executor(place)
exe.run(startup_prog)
train_reader.decorate_paddle_reader(paddle.batch(digits(96, 1), batch_size=16))
test_reader.decorate_paddle_reader(paddle.batch(digits(40, 2), batch_size=8))
compiled = fluid.CompiledProgram(train_prog).with_data_parallel(loss_name=train_cost.name)
for pass_id in range(6):
    train_reader.start()
    try:
        while True:
            exe.run(compiled, fetch_list=[train_cost.name, train_acc.name])
    except fluid.core.EOFException:
        train_reader.reset()
    test_reader.start()
    rows = []
    try:
        while True:
            rows.append(exe.run(test_prog, fetch_list=[test_cost.name, test_acc.name]))
    except fluid.core.EOFException:
        test_reader.reset()
    print(len(rows), float(np.mean([row[0] for row in rows])), float(np.mean([row[1] for row in rows])))
"""

# Text: sequences of words, fluid.io.PyReader with iterable=False, a bow net.
TEXT = """
def sentences():
    for _ in range(160):
        label = rng.randint(2)
        words = rng.randint(0, 20, rng.randint(3, 9)) + 20 * label
        yield words.tolist(), label

data = fluid.layers.data(name="words", shape=[1], dtype="int64", lod_level=1)
label = fluid.layers.data(name="label", shape=[1], dtype="int64")
py_reader = fluid.io.PyReader(feed_list=[data, label], capacity=16, iterable=False, return_list=False)
emb = fluid.layers.embedding(input=data, size=[40, 16])
bow = fluid.layers.tanh(fluid.layers.sequence_pool(input=emb, pool_type='sum'))
prediction = fluid.layers.fc(input=[fluid.layers.fc(input=bow, size=16, act="tanh")], size=2, act="softmax")
avg_cost = fluid.layers.mean(x=fluid.layers.cross_entropy(input=prediction, label=label))
acc = fluid.layers.accuracy(input=prediction, label=label)
test_program = fluid.default_main_program().clone(for_test=True)
fluid.optimizer.Adagrad(learning_rate=0.1).minimize(avg_cost)
py_reader.decorate_sample_list_generator(paddle.batch(sentences, batch_size=16))
exe = fluid.Executor(place)
exe.run(fluid.default_startup_program())
for epoch in range(5):
    py_reader.start()
    n = 0
    while True:
        try:
            cost, accuracy = exe.run(program=test_program if epoch == 4 else fluid.default_main_program(),
                                     fetch_list=[avg_cost.name, acc.name])
            n += 1
        except fluid.core.EOFException:
            py_reader.reset()
            break
    print(n, float(cost[0]), float(accuracy[0]))
"""

# Session-based recommendation: tensors made by the script, decorate_tensor_provider.
TENSORS = """
def provider():
    for _ in range(10):
        ids = rng.randint(0, 30, (8, 5, 1)).astype('int64')
        yield ids, ids[:, -1]

reader = fluid.layers.py_reader(capacity=4, shapes=[[-1, 5, 1], [-1, 1]], dtypes=['int64', 'int64'], use_double_buffer=False)
items, target = fluid.layers.read_file(reader)
emb = fluid.layers.embedding(input=items, size=[30, 8], param_attr=fluid.ParamAttr(name='item_emb'))
last = fluid.layers.reshape(fluid.layers.slice(emb, axes=[1], starts=[4], ends=[5]), [-1, 8])
logits = fluid.layers.fc(last, 30)
loss = fluid.layers.reduce_mean(fluid.layers.softmax_with_cross_entropy(logits, target))
acc = fluid.layers.accuracy(fluid.layers.softmax(logits), target, k=3)
fluid.optimizer.Adam(0.1).minimize(loss)
exe = fluid.Executor(place)
exe.run(fluid.default_startup_program())
reader.decorate_tensor_provider(provider)
for epoch in range(6):
    reader.start()
    n = 0
    try:
        while True:
            loss_val, acc_val = exe.run(fetch_list=[loss, acc])
            n += 1
    except fluid.core.EOFException:
        reader.reset()
    print(n, float(loss_val[0]), float(acc_val[0]))
"""

# The feed_list form, as the documentation of 1.6 shows it, with fluid.data and a batch generator; and CPU_NUM places.
PLACES = """
import os
os.environ['CPU_NUM'] = '2'

def batches():
    for _ in range(12):
        x = rng.rand(6, 4).astype('float32')
        yield x, x.sum(1, keepdims=True)

x = fluid.data(name='x', shape=[None, 4], dtype='float32')
y = fluid.data(name='y', shape=[None, 1], dtype='float32')
reader = fluid.layers.create_py_reader_by_data(capacity=8, feed_list=[x, y])
x, y = fluid.layers.read_file(reader)
loss = fluid.layers.reduce_mean(fluid.layers.square_error_cost(fluid.layers.fc(x, 1), y))
fluid.optimizer.SGD(0.3).minimize(loss)
exe = fluid.Executor(place)
exe.run(fluid.default_startup_program())
reader.decorate_batch_generator(batches)
program = fluid.CompiledProgram(fluid.default_main_program()).with_data_parallel(loss_name=loss.name)
for epoch in range(6):
    reader.start()
    n = 0
    try:
        while True:
            losses, = exe.run(program, fetch_list=[loss.name])
            assert losses.shape == (2,)
            n += 1
    except fluid.core.EOFException:
        reader.reset()
    print(n, float(np.mean(losses)), 1.0)
"""

# Word vectors: skip-gram with nce, DataLoader with iterable=True and a list of places.
WORD2VEC = """
def pairs():
    for _ in range(240):
        word = rng.randint(20)
        yield [word], [(word + 1) % 20]

words = [fluid.layers.data(name=name, shape=[1], dtype='int64') for name in ('input_word', 'predict_word')]
loader = fluid.io.DataLoader.from_generator(feed_list=words, capacity=8, use_double_buffer=True, iterable=True)
emb = fluid.layers.embedding(input=words[0], is_sparse=True, size=[20, 16],
                             param_attr=fluid.ParamAttr(name='emb', initializer=fluid.initializer.Uniform(-0.5, 0.5)))
cost = fluid.layers.nce(input=emb, label=words[1], num_total_classes=20, num_neg_samples=5, sampler='uniform',
                        param_attr=fluid.ParamAttr(name='nce_w'), bias_attr=fluid.ParamAttr(name='nce_b'))
avg_cost = fluid.layers.reduce_mean(cost)
fluid.optimizer.SGD(learning_rate=3.0).minimize(avg_cost)
loader.set_sample_generator(pairs, batch_size=12, drop_last=True, places=fluid.cpu_places(2))
exe = fluid.Executor(place)
exe.run(fluid.default_startup_program())
program = fluid.CompiledProgram(fluid.default_main_program()).with_data_parallel(
    loss_name=avg_cost.name, places=fluid.cpu_places(2))
for epoch in range(8):
    costs = [exe.run(program, feed=feed, fetch_list=[avg_cost])[0] for feed in loader()]
    assert all(each.shape == (2,) for each in costs)
    print(len(costs), float(np.mean(costs)), 1.0)
"""

# A residual net with batch norm and a rate that falls by steps; the test Program is a clone that shares the reader.
RESNET = """
def conv_bn_layer(input, num_filters, filter_size, stride=1, act=None):
    conv = fluid.layers.conv2d(input=input, num_filters=num_filters, filter_size=filter_size, stride=stride,
                               padding=(filter_size - 1) // 2, groups=1, act=None, bias_attr=False)
    return fluid.layers.batch_norm(input=conv, act=act)

def shortcut(input, ch_out, stride):
    return input if input.shape[1] == ch_out and stride == 1 else conv_bn_layer(input, ch_out, 1, stride)

def basic_block(input, num_filters, stride):
    conv = conv_bn_layer(conv_bn_layer(input, num_filters, 3, stride, 'relu'), num_filters, 3)
    return fluid.layers.elementwise_add(x=shortcut(input, num_filters, stride), y=conv, act='relu')

def images():
    r = np.random.RandomState(5)
    for _ in range(64):
        label = r.randint(2)
        yield (r.rand(3, 16, 16).astype('float32') * 0.2 + label * 0.5).reshape(-1), label

image = fluid.layers.data(name='image', shape=[3, 16, 16], dtype='float32')
label = fluid.layers.data(name='label', shape=[1], dtype='int64')
py_reader = fluid.layers.create_py_reader_by_data(capacity=16, feed_list=[image, label])
image, label = fluid.layers.read_file(py_reader)
net = basic_block(conv_bn_layer(image, 4, 7, 2, 'relu'), 8, 2)
pool = fluid.layers.pool2d(input=net, pool_size=7, pool_type='avg', pool_stride=7, global_pooling=False)
out = fluid.layers.fc(input=pool, size=2, act='softmax')
cost = fluid.layers.mean(fluid.layers.cross_entropy(input=out, label=label))
acc = fluid.layers.accuracy(input=out, label=label)
test_program = fluid.default_main_program().clone(for_test=True)
fluid.optimizer.Momentum(learning_rate=fluid.layers.piecewise_decay([12, 20], [0.1, 0.01, 0.001]), momentum=0.9,
                         regularization=fluid.regularizer.L2Decay(1e-4)).minimize(cost)
exe = fluid.Executor(place)
exe.run(fluid.default_startup_program())
py_reader.decorate_paddle_reader(paddle.batch(images, batch_size=16))
for pass_id in range(8):
    py_reader.start()
    n = 0
    while True:
        try:
            loss, right = exe.run(test_program if pass_id % 4 == 3 else None, fetch_list=[cost.name, acc.name])
            n += 1
        except fluid.core.EOFException:
            py_reader.reset()
            break
    print(n, float(loss[0]), float(right[0]))
"""

# Matching: two towers, cos_sim, a Variable label made by the script, PyReader with batches.
TOWERS = """
def batches():
    for _ in range(10):
        query = rng.randint(0, 30, (16, 1)).astype('int64')
        near = rng.rand(16, 1) < 0.5
        yield query, np.where(near, query, rng.randint(0, 30, (16, 1))).astype('int64'), near.astype('float32')

query, doc = (fluid.data(name, [None, 1], 'int64') for name in ('query', 'doc'))
label = fluid.data('label', [None, 1], 'float32')
reader = fluid.io.PyReader(feed_list=[query, doc, label], capacity=4, iterable=False, use_double_buffer=False)

def tower(ids):
    emb = fluid.layers.embedding(ids, [30, 8], param_attr=fluid.ParamAttr(name='shared'))
    return fluid.layers.fc(emb, 8, act='tanh', param_attr=fluid.ParamAttr(name='fc_w'), bias_attr=fluid.ParamAttr(name='fc_b'))

score = fluid.layers.scale(fluid.layers.cos_sim(tower(query), tower(doc)), scale=4.0, bias=-2.0)
loss = fluid.layers.mean(fluid.layers.sigmoid_cross_entropy_with_logits(score, label))
predict = fluid.layers.sigmoid(score)
auc, batch_auc, states = fluid.layers.auc(fluid.layers.concat([1.0 - predict, predict], axis=1), fluid.layers.cast(label, 'int64'),
                                          slide_steps=0)
fluid.optimizer.Adam(0.005).minimize(loss)
exe = fluid.Executor(place)
exe.run(fluid.default_startup_program())
reader.decorate_batch_generator(batches)
for epoch in range(8):
    for state in states:
        held = fluid.global_scope().find_var(state.name).get_tensor()
        held.set(np.zeros(np.array(held).shape, 'int64'), place)
    reader.start()
    losses = []
    try:
        while True:
            value, area = exe.run(fetch_list=[loss, auc])
            losses.append(value)
    except fluid.core.EOFException:
        reader.reset()
    print(len(losses), float(np.mean(losses)), float(area[0]))
"""

# Regression as the book has it, with a reader made of several processes.
PROCESSES = """
def part(seed):
    def reader():
        r = np.random.RandomState(seed)
        for _ in range(60):
            x = r.rand(13).astype('float32')
            yield x.tolist(), [float(x.sum())]
    return reader

x = fluid.layers.data(name='x', shape=[13], dtype='float32')
y = fluid.layers.data(name='y', shape=[1], dtype='float32')
loader = fluid.io.DataLoader.from_generator(feed_list=[x, y], capacity=2, iterable=False)
loss = fluid.layers.mean(fluid.layers.square_error_cost(input=fluid.layers.fc(input=x, size=1), label=y))
fluid.optimizer.SGD(learning_rate=0.05).minimize(loss)
loader.set_sample_list_generator(fluid.io.batch(fluid.io.multiprocess_reader([part(1), part(2)], use_pipe=False), batch_size=20))
exe = fluid.Executor(place)
exe.run(fluid.default_startup_program())
for epoch in range(4):
    loader.start()
    losses = []
    try:
        while True:
            losses.append(exe.run(fetch_list=[loss])[0])
    except fluid.core.EOFException:
        loader.reset()
    print(len(losses), float(np.mean(losses)), 1.0)
"""

SCRIPTS = {
    "ctr_dnn": (CTR, 10, 0.5),
    "py_reader": (PY_READER, 8, 0.8),
    "two_readers": (TWO_READERS, 5, 0.9),
    "text": (TEXT, 10, 0.9),
    "tensors": (TENSORS, 10, 0.5),
    "places": (PLACES, 6, 1.0),
    "word2vec": (WORD2VEC, 10, 1.0),
    "resnet": (RESNET, 4, 0.9),
    "towers": (TOWERS, 10, 0.9),
    "processes": (PROCESSES, 6, 1.0),
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_script_trains(name, tmp_path):
    script, batches, right = SCRIPTS[name]
    env = {key: value for key, value in os.environ.items() if key != "CPU_NUM"}
    done = subprocess.run([sys.executable, "-c", HEAD + textwrap.dedent(script)], cwd=tmp_path,
                          env=env, capture_output=True, text=True,
                          timeout=300)  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = np.array([[float(word) for word in line.split()] for line in done.stdout.splitlines()])
    assert (rows[:, 0] == batches).all(), done.stdout
    assert rows[-1, 1] < 0.7 * rows[0, 1] and rows[-1, 2] >= right, done.stdout
