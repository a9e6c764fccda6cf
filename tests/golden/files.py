"""Files as users keep them: written by one `paddle`, read by another, every value bit-equal.

`write(root)` trains a small network two steps and writes each kind of file with whichever `paddle` is
imported, and `expected.npz` with the values in memory. `CHECKS` read one kind each back and compare. The
golden folder `data/files` was written by paddlepaddle 1.8.5; tests/interop runs both directions between two
interpreters.
"""

import os
import pickle
from collections import OrderedDict

import numpy as np
import paddle.fluid as fluid

from golden.replay import TYPES, Built, dtype_name

layers = fluid.layers
DTYPES = ['float32', 'float64', 'int64', 'int32']
LENGTHS = OrderedDict([('lod1', [[2, 3, 1]]), ('lod2', [[2, 1, 2], [1, 3, 2, 1, 2]])])
INFER_FEEDS = ['img', 'ids']


def network():
    """Parameters of rank 1, 2 and 4, batch norm's statistics, Adam's moments, and a LoD input."""
    img = layers.data(name='img', shape=[1, 8, 8], dtype='float32')
    ids = layers.data(name='ids', shape=[1], dtype='int64', lod_level=1)
    label = layers.data(name='label', shape=[1], dtype='int64')
    conv = layers.conv2d(input=img, num_filters=3, filter_size=3, act='relu')
    normed = layers.batch_norm(input=conv)
    pooled = layers.pool2d(input=normed, pool_size=2, pool_stride=2, pool_type='max')
    words = layers.sequence_pool(layers.embedding(input=ids, size=[9, 4], is_sparse=True), 'sum')
    predict = layers.fc(input=[pooled, words], size=3, act='softmax')
    loss = layers.mean(layers.cross_entropy(input=predict, label=label))
    fluid.optimizer.Adam(learning_rate=0.01).minimize(loss)
    return [img, ids, label], loss, predict


def batch():
    rng = np.random.RandomState(3)
    img = (np.round(rng.uniform(-1, 1, (4, 1, 8, 8)) * 64) / 64).astype('float32')
    return {
        'img': img,
        'ids': (rng.randint(0, 9, (7, 1)).astype('int64'), [2, 1, 3, 1]),
        'label': rng.randint(0, 3, (4, 1)).astype('int64'),
    }


def tensors():
    """Values for the single-tensor files, by name: array, or (array, lengths)."""
    rng = np.random.RandomState(8)
    found = OrderedDict((dtype, (rng.uniform(-1, 1, (3, 2, 4)) * 1e6).astype(dtype)) for dtype in DTYPES)
    found['float32_one'] = np.array([np.float32(1) / 3], 'float32')
    found['int64_wide'] = np.array([-(2**62), -1, 0, 2**62 + 1], 'int64')
    for name, lengths in LENGTHS.items():
        found[name] = (rng.uniform(-1, 1, (sum(lengths[-1]), 3)).astype('float32'), lengths)
    return found


def selected_rows():
    """Height, row ids (one twice, not sorted) and values of the SelectedRows file."""
    return 20, [7, 0, 19, 7], np.random.RandomState(9).uniform(-1, 1, (4, 3)).astype('float32')


class Bench:
    """A scope and an executor to move single variables through save and load ops."""

    def __init__(self):
        self.scope, self.place = fluid.Scope(), fluid.CPUPlace()
        self.exe = fluid.Executor(self.place)

    def run_op(self, kind, name, path, var_type=TYPES.LOD_TENSOR, dtype='float32'):
        program = fluid.Program()
        block = program.global_block()
        var = block.create_var(name=name, type=var_type, dtype=dtype, persistable=True)
        slot = {'inputs': {'X': [var]}} if kind == 'save' else {'outputs': {'Out': [var]}}
        block.append_op(type=kind, attrs={'file_path': path}, **slot)
        with fluid.scope_guard(self.scope):
            self.exe.run(program)

    def save_tensor(self, name, value, path):
        array, lengths = value if isinstance(value, tuple) else (value, None)
        tensor = self.scope.var(name).get_tensor()
        tensor.set(array, self.place)
        if lengths:
            tensor.set_recursive_sequence_lengths(lengths)
        self.run_op('save', name, path, dtype=str(array.dtype))

    def load_tensor(self, name, dtype, path):
        self.run_op('load', name, path, dtype=dtype)
        tensor = self.scope.find_var(name).get_tensor()
        return np.array(tensor), tensor.recursive_sequence_lengths()

    def save_rows(self, name, path):
        height, rows, values = selected_rows()
        found = self.scope.var(name).get_selected_rows()
        found.set_height(height)
        found.set_rows(rows)
        found.get_tensor().set(values, self.place)
        self.run_op('save', name, path, TYPES.SELECTED_ROWS)

    def load_rows(self, name, path):
        self.run_op('load', name, path, TYPES.SELECTED_ROWS)
        found = self.scope.find_var(name).get_selected_rows()
        return found.height(), list(found.rows()), np.array(found.get_tensor())


def write_persistables(built, root):
    """Persistables and parameters, one file a variable and combined."""
    join = lambda *parts: os.path.join(root, *parts)
    with fluid.scope_guard(built.scope):
        fluid.io.save_persistables(built.exe, join('persistables'), built.main)
        fluid.io.save_persistables(built.exe, join('persistables_combined'), built.main, filename='all')
        fluid.io.save_params(built.exe, join('params'), built.main)
        fluid.io.save_params(built.exe, join('params_combined'), built.main, filename='all')


def write_tensors(root):
    """Single tensors of several dtypes and LoD levels, and selected rows."""
    folder = os.path.join(root, 'tensors')
    if not os.path.isdir(folder):
        os.makedirs(folder)
    bench = Bench()
    for name, value in tensors().items():
        bench.save_tensor(name, value, os.path.join(folder, name))
    bench.save_rows('selected_rows', os.path.join(folder, 'selected_rows'))


def write(root):
    """Write every kind of file below `root`."""
    built = Built(network)
    feeds, loss, predict = built.result
    built.start()
    built.start(built.seeded('files'))
    for _ in range(2):
        built.step(batch(), [loss])
    write_persistables(built, root)
    inputs, join = INFER_FEEDS, lambda *parts: os.path.join(root, *parts)
    with fluid.scope_guard(built.scope):
        # before the inference models: saving those appends scale ops to the program
        fluid.save(built.main, join('save', 'model'))
        fluid.io.save_inference_model(join('infer'), inputs, [predict], built.exe, built.main)
        fluid.io.save_inference_model(
            join('infer_combined'),
            inputs,
            [predict],
            built.exe,
            built.main,
            model_filename='model',
            params_filename='params',
        )
    write_tensors(root)
    wanted = {'value/' + name: value for name, value in built.values().items()}
    wanted['output'] = infer(built.exe, *load_infer(join('infer'), built.exe, fluid.Scope()))
    np.savez_compressed(join('expected.npz'), **wanted)


def load_infer(folder, exe, scope, **names):
    """Load an inference model into `scope`; returns what `infer` takes."""
    with fluid.scope_guard(scope):
        program, feeds, fetches = fluid.io.load_inference_model(folder, exe, **names)
    return program, feeds, fetches, scope


def infer(exe, program, feeds, fetches, scope):
    assert feeds == INFER_FEEDS, f'feed names {feeds}, wanted {INFER_FEEDS}'
    data = batch()
    ids = fluid.create_lod_tensor(data['ids'][0], [data['ids'][1]], fluid.CPUPlace())
    with fluid.scope_guard(scope):
        return np.array(exe.run(program, feed={'img': data['img'], 'ids': ids}, fetch_list=fetches)[0])


def expected(root):
    with np.load(os.path.join(root, 'expected.npz')) as data:
        return {key: data[key] for key in data.files}


def same(name, found, wanted):
    """Bit-equal: the same dtype, shape and bytes."""
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert found.dtype == wanted.dtype, f'{name}: dtype {found.dtype}, wanted {wanted.dtype}'
    assert found.shape == wanted.shape, f'{name}: shape {found.shape}, wanted {wanted.shape}'
    assert found.tobytes() == wanted.tobytes(), f'{name}: values differ'


def check_values(built, root, names):
    wanted = expected(root)
    assert names, 'no variables to check'
    for name in names:
        same(name, np.array(built.scope.find_var(name).get_tensor()), wanted['value/' + name])


def fresh():
    """The network after startup, with every value replaced by noise: what is read must come from the file."""
    built = Built(network)
    built.start()
    noise = np.random.RandomState(1)
    for name, value in built.values().items():
        built.scope.find_var(name).get_tensor().set(
            noise.uniform(5, 9, value.shape).astype(value.dtype), built.place
        )
    return built


def loader(folder, load, which, **names):
    """A check that loads `folder` by the named fluid.io function and compares what it covers."""

    def check(root):
        built = fresh()
        with fluid.scope_guard(built.scope):
            getattr(fluid.io, load)(built.exe, os.path.join(root, folder), built.main, **names)
        check_values(built, root, which(built))

    return check


def all_kept(built):
    return built.persistables()


def parameters(built):
    return [p.name for p in built.main.global_block().all_parameters()]


def inference(folder, **names):
    def check(root):
        exe = fluid.Executor(fluid.CPUPlace())
        loaded = load_infer(os.path.join(root, folder), exe, fluid.Scope(), **names)
        wanted = expected(root)
        for var in loaded[0].list_vars():
            if var.persistable and var.name not in ('feed', 'fetch'):
                same(
                    var.name, np.array(loaded[3].find_var(var.name).get_tensor()), wanted['value/' + var.name]
                )
                assert dtype_name(var.dtype) == 'float32'
        np.testing.assert_allclose(infer(exe, *loaded), wanted['output'], rtol=1e-5, atol=1e-6)

    return check


def saved(root):
    """fluid.load reads what fluid.save wrote."""
    built = fresh()
    with fluid.scope_guard(built.scope):
        fluid.load(built.main, os.path.join(root, 'save', 'model'), built.exe)
    check_values(built, root, built.persistables())


def saved_pickles(root):
    """The .pdparams and .pdopt files are pickled dicts from name to array; .pdmodel is a program."""
    wanted, found = expected(root), {}
    for suffix in ('.pdparams', '.pdopt'):
        with open(os.path.join(root, 'save', 'model' + suffix), 'rb') as file:
            found.update(pickle.load(file, encoding='latin1'))
    assert sorted(found) == sorted(key[len('value/') :] for key in wanted if key.startswith('value/'))
    for name, value in found.items():
        same(name, value, wanted['value/' + name])
    with open(os.path.join(root, 'save', 'model.pdmodel'), 'rb') as file:
        program = fluid.Program.parse_from_string(file.read())
    ours = Built(network).main
    assert [op.type for op in program.global_block().ops] == [op.type for op in ours.global_block().ops]


def single_tensors(root):
    bench = Bench()
    for name, value in tensors().items():
        array, lengths = value if isinstance(value, tuple) else (value, [])
        found, lens = bench.load_tensor(name, str(array.dtype), os.path.join(root, 'tensors', name))
        same(name, found, array)
        assert [list(level) for level in lens] == lengths, f'{name}: lengths {lens}, wanted {lengths}'


def single_rows(root):
    height, rows, values = selected_rows()
    found = Bench().load_rows('selected_rows', os.path.join(root, 'tensors', 'selected_rows'))
    assert found[:2] == (height, rows), f'height and rows {found[:2]}, wanted {(height, rows)}'
    same('selected_rows', found[2], values)


CHECKS = OrderedDict(
    [
        ('persistables', loader('persistables', 'load_persistables', all_kept)),
        (
            'persistables_combined',
            loader('persistables_combined', 'load_persistables', all_kept, filename='all'),
        ),
        ('params', loader('params', 'load_params', parameters)),
        ('params_combined', loader('params_combined', 'load_params', parameters, filename='all')),
        ('inference_model', inference('infer')),
        (
            'inference_model_combined',
            inference('infer_combined', model_filename='model', params_filename='params'),
        ),
        ('save_and_load', saved),
        ('save_pickles', saved_pickles),
        ('tensors', single_tensors),
        ('selected_rows', single_rows),
    ]
)


def rewrite(root, target):
    """Load the persistables below `root` and write them, and the single tensors, again below `target`."""
    built = fresh()
    with fluid.scope_guard(built.scope):
        fluid.io.load_persistables(built.exe, os.path.join(root, 'persistables'), built.main)
    write_persistables(built, target)
    write_tensors(target)
