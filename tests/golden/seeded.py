"""What a seed gives: the numbers that ops, initializers and networks draw with one.

Each case of `CASES` is a function that returns arrays by name. Runs alike on paddlepaddle 1.8.5, which writes
`data/seeded.npz`, and on this project's `paddle`. Of long outputs a checksum of all bytes and every 997th
number are kept.
"""

import zlib
from collections import OrderedDict

import numpy as np
import paddle.fluid as fluid

from golden import models

TYPES = fluid.core.VarDesc.VarType
VARTYPE = {'float32': TYPES.FP32, 'float64': TYPES.FP64, 'int32': TYPES.INT32, 'int64': TYPES.INT64}
# the last one draws the largest number first: 1.0 exactly, which [0, 1) does not have
SEEDS = (1, 7, -1, 2147483647, 247665088)
LONG = 300007


def run(build, feed=None, times=1):
    """The fetches of `build(block)`, which adds ops and returns names; a list of them when run several times."""
    main, startup, scope = fluid.Program(), fluid.Program(), fluid.Scope()
    exe = fluid.Executor(fluid.CPUPlace())
    with fluid.program_guard(main, startup), fluid.unique_name.guard(), fluid.scope_guard(scope):
        names = build(main.global_block())
        exe.run(startup)
        found = [exe.run(main, feed=feed, fetch_list=names) for _ in range(times)]
    found = [[np.array(one) for one in row] for row in found]
    return found[0] if times == 1 else found


def variable(block, name, value):
    """A variable that is fed with `value`."""
    var = block.create_var(name=name, shape=value.shape, dtype=str(value.dtype), is_data=True)
    var.stop_gradient = True
    return var


def draw(kind, dtype='float32', feed=None, times=1, outs=('Out',), **attrs):
    """Runs one op. `feed` is {slot: array}."""
    feed = feed or {}

    def build(block):
        ins = {slot: [variable(block, slot.lower(), value)] for slot, value in feed.items()}
        made = {slot: [block.create_var(name='out_' + slot.lower(), dtype=dtype)] for slot in outs}
        given = dict(attrs)
        if kind not in ('dropout', 'sampling_id', 'random_crop', 'nce', 'dpsgd'):
            given['dtype'] = int(VARTYPE[dtype])
        block.append_op(type=kind, inputs=ins, outputs=made, attrs=given)
        return [made[slot][0].name for slot in outs]

    return run(build, {slot.lower(): value for slot, value in feed.items()}, times)


def short(value):
    """A long array as its checksum and every 997th number."""
    value = np.ascontiguousarray(value)
    return np.array([zlib.crc32(value.tobytes())], 'int64'), value.reshape(-1)[::997]


def keep(found, name, value):
    if value.size < 3000:
        found[name] = value
    else:
        found[name + '/crc'], found[name + '/some'] = short(value)


def fills(kind, dtypes, **attrs):
    found = {}
    for dtype in dtypes:
        for seed in SEEDS:
            keep(found, f'{dtype}/{seed}', draw(kind, dtype, shape=[501], seed=seed, **attrs)[0])
        keep(found, dtype + '/3d', draw(kind, dtype, shape=[3, 5, 7], seed=3, **attrs)[0])
        keep(found, dtype + '/long', draw(kind, dtype, shape=[LONG], seed=90, **attrs)[0])
    return found


def uniform():
    found = fills('uniform_random', ('float32', 'float64'), min=-0.3, max=0.7)
    found['diagonal'] = draw('uniform_random', shape=[4, 6], seed=5, diag_num=3, diag_step=6, diag_val=2.5)[0]
    return found


def like():
    x, found = np.zeros((5, 2), 'float32'), {}
    for kind in ('uniform', 'gaussian'):
        found[kind] = draw(kind + '_random_batch_size_like', feed={'Input': x}, shape=[-1, 7], seed=4)[0]
    return found


def integers():
    found, top = {}, 2147483647
    ranges = [(0, 10), (-5, 5), (0, top), (-top, top), (-top - 1, top), (0, top - 1), (3, 1000000007), (4, 5)]
    for dtype in ('int32', 'int64'):
        for low, high in ranges:
            keep(found, f'{dtype}/{low}/{high}', draw('randint', dtype, shape=[201], low=low, high=high, seed=9)[0])
        keep(found, dtype + '/long', draw('randint', dtype, shape=[LONG], low=0, high=1500000000, seed=9)[0])
    return found


def orders():
    return {f'{n}/{seed}': draw('randperm', 'int64', n=n, seed=seed)[0] for n in (1, 2, 31, 1000) for seed in (1, 7, -2)}


def choices():
    """A class for each row: of sums just below, at and above 1."""
    found, rng = {}, np.random.RandomState(3)
    for dtype in ('float32', 'float64'):
        weights = rng.randint(1, 9, (300, 8)).astype(dtype)
        x = weights / weights.sum(1, keepdims=True)
        for seed in (1, 7, -1):
            found[f'{dtype}/{seed}'] = draw('sampling_id', dtype, {'X': x}, seed=seed)[0]
        found[dtype + '/range'] = draw('sampling_id', dtype, {'X': x}, seed=2, min=0.25, max=0.5)[0]
    return found


def crops():
    """The seed goes on from run to run."""
    x, found = np.arange(6 * 3 * 9 * 11, dtype='float32').reshape(6, 3, 9, 11), {}
    for seed in (1, 77, -400):

        def build(block):
            return [fluid.layers.random_crop(variable(block, 'x', x), [3, 5, 8], seed=seed).name]

        found[str(seed)] = np.stack([row[0] for row in run(build, {'x': x}, 3)])
    return found


def dropouts():
    found = {}
    for dtype in ('float32', 'float64'):
        x = (1 + np.arange(999) % 17).astype(dtype).reshape(27, 37)
        for how in ('downgrade_in_infer', 'upscale_in_train'):
            for seed, prob in ((0, 0.5), (5, 0.1), (-3, 0.9), (247665088, 0.25), (8, 1.0), (8, 0.0)):
                given = dict(dropout_prob=prob, dropout_implementation=how, fix_seed=True, seed=seed)
                out, mask = draw('dropout', dtype, {'X': x}, outs=('Out', 'Mask'), **given)
                found[f'{dtype}/{how}/{seed}/{prob}'] = out
                found[f'{dtype}/{how}/{seed}/{prob}/mask'] = mask.astype('uint8')
    both = ('Out', 'Mask')
    feed = {'X': np.ones((9, 9), 'float32'), 'Seed': np.array([-7], 'int32')}
    found['tensor'] = draw('dropout', 'float32', feed, outs=both, dropout_prob=0.4)[0]
    feed = {'X': np.ones((LONG,), 'float32')}
    keep(found, 'long', draw('dropout', 'float32', feed, outs=both, dropout_prob=0.3, fix_seed=True, seed=6)[0])
    return found


def negatives():
    """The classes that nce compares with."""
    found, rng = {}, np.random.RandomState(1)
    x, label = rng.uniform(-1, 1, (20, 4)).astype('float32'), rng.randint(0, 50, (20, 2)).astype('int64')
    law = (np.arange(50) + 1.0) / np.arange(51).sum()

    def samples(kind, seed):
        def build(block):
            fluid.layers.nce(
                variable(block, 'x', x),
                variable(block, 'label', label),
                50,
                num_neg_samples=11,
                sampler=kind,
                custom_dist=list(law) if kind == 'custom_dist' else None,
                seed=seed,
            )
            return [op.output('SampleLabels')[0] for op in block.ops if op.type == 'nce']

        return run(build, {'x': x, 'label': label})[0]

    for kind in ('uniform', 'log_uniform', 'custom_dist'):
        for seed in (1, 90, -1):
            found[f'{kind}/{seed}'] = samples(kind, seed)
    return found


def noise():
    """The step of dpsgd with no gradient: its noise."""
    zero, rate = np.zeros((3,), 'float32'), np.ones((1,), 'float32')
    found = {}
    for seed in (1, 7, 100, 5000, -4):
        feed = {'Param': zero, 'Grad': zero, 'LearningRate': rate}
        given = dict(clip=10.0, batch_size=1.0, sigma=1.0, seed=seed)
        found[str(seed)] = draw('dpsgd', 'float32', feed, outs=('ParamOut',), **given)[0]
    return found


INITIALIZERS = OrderedDict(
    [
        ('Uniform', lambda seed: fluid.initializer.Uniform(-0.4, 0.9, seed=seed)),
        ('Normal', lambda seed: fluid.initializer.Normal(0.5, 2.0, seed=seed)),
        ('TruncatedNormal', lambda seed: fluid.initializer.TruncatedNormal(-0.5, 0.3, seed=seed)),
        ('Xavier', lambda seed: fluid.initializer.Xavier(seed=seed)),
        ('Xavier.normal', lambda seed: fluid.initializer.Xavier(uniform=False, seed=seed)),
        ('Xavier.fans', lambda seed: fluid.initializer.Xavier(fan_in=3, fan_out=8, seed=seed)),
        ('MSRA', lambda seed: fluid.initializer.MSRA(seed=seed)),
        ('MSRA.normal', lambda seed: fluid.initializer.MSRA(uniform=False, seed=seed)),
    ]
)


def parameter(make, seed, shape):
    """The start value of a parameter: of the initializer, in a Program with this seed."""
    main, startup, scope = fluid.Program(), fluid.Program(), fluid.Scope()
    startup.random_seed = seed
    with fluid.program_guard(main, startup), fluid.unique_name.guard(), fluid.scope_guard(scope):
        w = fluid.layers.create_parameter(shape, 'float32', name='w', default_initializer=make)
        fluid.Executor(fluid.CPUPlace()).run(startup)
        return np.array(scope.find_var(w.name).get_tensor())


def initializers():
    found = {}
    for name, make in INITIALIZERS.items():
        found[name + '/own'] = parameter(make(5), 0, [13, 7])
        found[name + '/program'] = parameter(make(0), 6, [4, 3, 5, 5])
        found[name + '/both'] = parameter(make(5), 6, [33])
        # the first Program's seed stays with the initializer
        same = make(0)
        parameter(same, 8, [2, 2])
        found[name + '/again'] = parameter(same, 9, [9, 11])
    return found


class Seeded:
    """A network whose Programs have a seed, with executor and scope."""

    def __init__(self, build, seed=1):
        self.main, self.startup, self.scope = fluid.Program(), fluid.Program(), fluid.Scope()
        self.main.random_seed = self.startup.random_seed = seed
        with fluid.program_guard(self.main, self.startup):
            self.loss = build()[1]
        self.exe = fluid.Executor(fluid.CPUPlace())
        with fluid.scope_guard(self.scope):
            self.exe.run(self.startup)

    def start(self):
        """A checksum of each parameter's start value, in the order of their making."""
        params = self.main.global_block().all_parameters()
        values = [np.array(self.scope.find_var(p.name).get_tensor()) for p in params]
        return np.array([zlib.crc32(np.ascontiguousarray(v).tobytes()) for v in values], 'int64')

    def losses(self, batches):
        found, place = [], fluid.CPUPlace()
        for batch in batches:
            feed = {
                name: fluid.create_lod_tensor(v[0], [list(v[1])], place) if isinstance(v, tuple) else v
                for name, v in batch.items()
            }
            with fluid.scope_guard(self.scope):
                found.append(np.array(self.exe.run(self.main, feed=feed, fetch_list=[self.loss])[0]).item())
        return np.array(found)


def deep(optimizer):
    """Digits by layers of every random kind: other initializers, dropout, an embedding of the label's row."""
    layers, attr = fluid.layers, fluid.ParamAttr
    img = layers.data(name='img', shape=[784], dtype='float32')
    label = layers.data(name='label', shape=[1], dtype='int64')
    hidden = layers.fc(img, 64, act='relu', param_attr=attr(initializer=fluid.initializer.MSRA(uniform=False)))
    hidden = layers.dropout(hidden, 0.3)
    hidden = layers.fc(hidden, 32, act='tanh', param_attr=attr(initializer=fluid.initializer.TruncatedNormal(0, 0.1)))
    hidden = layers.dropout(hidden, 0.5, dropout_implementation='upscale_in_train', seed=12)
    predict = layers.fc(hidden, 10, act='softmax', param_attr=attr(initializer=fluid.initializer.Normal(0, 0.1)))
    loss = layers.mean(layers.cross_entropy(predict, label))
    optimizer().minimize(loss)
    return [img, label], loss, []


def networks():
    """First losses, and that a second network in the same process starts as the first."""
    found = {}
    cases = [(name, case, case.network) for name, case in models.CASES.items()]
    cases.append(('deep', models.CASES['mlp'], deep))
    for name, case, build in cases:
        batches = case.batches(name, 5)
        for again in ('', '/again'):
            net = Seeded(lambda: build(lambda: fluid.optimizer.SGD(learning_rate=case.lr)))
            found[name + again + '/start'] = net.start()
            found[name + again + '/loss'] = net.losses(batches)
    return found


CASES = OrderedDict(
    [
        ('uniform', uniform),
        ('normal', lambda: fills('gaussian_random', ('float32', 'float64'), mean=0.1, std=0.37)),
        ('truncated', lambda: fills('truncated_gaussian_random', ('float32',), mean=0.1, std=0.37)),
        ('like', like),
        ('integers', integers),
        ('orders', orders),
        ('choices', choices),
        ('crops', crops),
        ('dropouts', dropouts),
        ('negatives', negatives),
        ('noise', noise),
        ('initializers', initializers),
        ('networks', networks),
    ]
)
