"""Replay the golden files of paddlepaddle 1.8.5 (tests/golden): losses, gradients, updates, names and files.

The same file passes under 1.8.5 itself, which proves the replay; see tests/golden/README.md.
"""

import filecmp
import json
import os
import sys

import numpy as np
import pytest

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
if TESTS not in sys.path:
    sys.path.insert(0, TESTS)

from golden import files, loops, models, replay, small  # noqa: E402

DATA = os.path.join(TESTS, 'golden', 'data')
FILES = os.path.join(DATA, 'files')
SMALL = {'optimizers': (small.OPTIMIZERS, 5), 'rules': (small.RULES, 5), 'schedules': (small.SCHEDULES, 12)}
# lazy tables: each golden file is read once
LOADED = {}


def load(name):
    """All arrays of one npz file below the data folder."""
    if name not in LOADED:
        with np.load(os.path.join(DATA, name)) as data:
            LOADED[name] = {key: data[key] for key in data.files}
    return LOADED[name]


def names():
    if 'names' not in LOADED:
        with open(os.path.join(DATA, 'names.json')) as file:
            LOADED['names'] = json.load(file)
    return LOADED['names']


def small_cases(kind):
    """The cases that 1.8.5 could run: those in the file."""
    return sorted({key.split('/')[0] for key in load(kind + '.npz')})


def near(what, found, wanted, tol, floor=1e-7):
    """Relative in norm; `floor` is the norm below which a difference is rounding, not a fault."""
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert found.shape == wanted.shape, f'{what}: shape {found.shape}, wanted {wanted.shape}'
    assert found.dtype == wanted.dtype, f'{what}: dtype {found.dtype}, wanted {wanted.dtype}'
    if wanted.dtype.kind in 'biu':
        assert np.array_equal(found, wanted), f'{what}: integers differ'
        return
    off = np.linalg.norm((found.astype('float64') - wanted).ravel())
    size = np.linalg.norm(wanted.astype('float64').ravel())
    assert off <= tol * max(size, floor), f'{what}: off by {off:.3g} of norm {size:.3g}, allowed {tol:.1g}'


def each_near(what, found, wanted, tol):
    """Element by element, relative above one and absolute below."""
    found, wanted = np.asarray(found, 'float64'), np.asarray(wanted, 'float64')
    assert found.shape == wanted.shape, f'{what}: shape {found.shape}, wanted {wanted.shape}'
    off = np.abs(found - wanted) / np.maximum(1, np.abs(wanted))
    assert (off <= tol).all(), f'{what}: off by {off}, allowed {tol:.1g}; found {found}, wanted {wanted}'


@pytest.fixture(scope='module', params=list(models.CASES))
def model(request):
    """One model run from the golden start values: (case, golden arrays, what was found)."""
    data = load(request.param + '/case.npz')
    case = models.CASES[request.param]
    return case, data, replay.run_model(case, replay.section(data, 'init/'), replay.unpack(data))


def test_model_batches(model):
    """The stored batches are those of the data functions, so the files can be made again."""
    case, data, _ = model
    name = [key for key, value in models.CASES.items() if value is case][0]
    fresh = replay.pack(case.batches(name, 10))
    for key, value in fresh.items():
        assert np.array_equal(value, data[key]), key


def same_start(found, wanted):
    """Learning rates, accumulators and statistics start as in 1.8.5 (the parameters are set)."""
    assert sorted(found) == sorted(wanted)
    for name, value in wanted.items():
        near('start of ' + name, found[name], value, 1e-7)


def test_model_start(model):
    _, data, found = model
    same_start(found['init'], replay.section(data, 'init/'))


def test_model_first_loss(model):
    _, data, found = model
    each_near('step-1 loss', found['loss'][:1], data['loss'][:1], 1e-5)


def test_model_first_gradients(model):
    _, data, found = model
    wanted = replay.section(data, 'grad/')
    assert sorted(found['grad']) == sorted(wanted)
    for name, value in wanted.items():
        near(name + '@GRAD', found['grad'][name], value, 1e-4)


def test_model_ten_losses(model):
    case, data, found = model
    each_near('losses', found['loss'], data['loss'], case.loss_tol)


def test_model_extra_fetches(model):
    """Accuracy, AUC and predictions of all ten steps."""
    case, data, found = model
    for i, value in enumerate(found['extra']):
        each_near(f'extra fetch {i}', value, data[f'extra/{i}'], case.loss_tol)


def test_model_final_parameters(model):
    case, data, found = model
    wanted = replay.section(data, 'final/')
    assert sorted(found['final']) == sorted(wanted)
    for name, value in wanted.items():
        near(name, found['final'][name], value, case.loss_tol)


def small_params():
    return [(kind, name) for kind in sorted(SMALL) for name in small_cases(kind)]


# Where 1.8.5 departs from the published rule we follow the rule; test_optimizer_rules.py checks these against numpy.
DEFECTS_OF_185 = {
    'adadelta.dense': 'its step is computed with the already updated average of squared updates',
    'adadelta.float64': 'the same',
    'adam.sparse': "sparse gradients see the next step's beta powers",
    'adam_betas.sparse': 'the same',
    'adam_lazy.sparse': 'the same',
    'adam_slow_params.sparse': 'the same',
}


@pytest.mark.parametrize('kind,name', [case for case in small_params() if case[1] not in DEFECTS_OF_185])
def test_small(kind, name):
    """Optimizers, regularizers, clips and schedules: losses, learning rates, parameters and accumulators."""
    table, steps = SMALL[kind]
    data = replay.section(load(kind + '.npz'), name + '/')
    dtype = 'float64' if name.endswith('.float64') else 'float32'
    found = replay.run_small(table[name], replay.section(data, 'init/'), steps, small.batches(steps, dtype))
    same_start(found['init'], replay.section(data, 'init/'))
    each_near('losses', found['loss'], data['loss'], 1e-5)
    if 'extra' in data:
        near('learning rates', found['extra'], data['extra'], 1e-5)
        assert np.allclose(found['extra'], data['extra'], rtol=1e-5, atol=1e-8)
    wanted = replay.section(data, 'final/')
    assert sorted(found['final']) == sorted(wanted)
    for key, value in wanted.items():
        near(key, found['final'][key], value, 1e-5)


def same_names(found, wanted):
    """Most telling first: what is kept in files, then how it starts, then ops, then every name."""
    found = json.loads(json.dumps(found))
    for program in ('main', 'startup'):
        assert found[program]['persistables'] == wanted[program]['persistables']
    assert sorted(found['init']) == sorted(wanted['init'])
    for name, (op, attrs) in wanted['init'].items():
        assert found['init'][name][0] == op, name
        assert found['init'][name][1] == pytest.approx(attrs, rel=1e-5, abs=1e-7), name
    for program in ('main', 'startup'):
        assert found[program]['ops'] == wanted[program]['ops']
        assert found[program]['vars'] == wanted[program]['vars']


@pytest.mark.parametrize('optimizer', list(models.OPTIMIZERS))
@pytest.mark.parametrize('name', list(models.CASES))
def test_model_names(name, optimizer):
    build = lambda: models.CASES[name].full_network(models.OPTIMIZERS[optimizer])
    same_names(replay.names_of(replay.Built(build)), names()['models'][name][optimizer])


@pytest.mark.parametrize('kind,name', small_params())
def test_small_names(kind, name):
    same_names(replay.names_of(replay.Built(SMALL[kind][0][name])), names()['small'][name])


@pytest.mark.parametrize('name', list(files.CHECKS))
def test_files(name):
    """Files written by 1.8.5 load here, every value bit-equal."""
    files.CHECKS[name](FILES)


def test_files_written_again_are_the_same_bytes(tmp_path):
    """Tensors loaded from 1.8.5's files and saved here give the same files, byte for byte."""
    files.rewrite(FILES, str(tmp_path))
    compared = 0
    for folder, _, leaves in os.walk(str(tmp_path)):
        for leaf in leaves:
            path = os.path.join(folder, leaf)
            golden = os.path.join(FILES, os.path.relpath(path, str(tmp_path)))
            assert filecmp.cmp(path, golden, shallow=False), f'file {os.path.relpath(golden, FILES)} differs'
            compared += 1
    assert compared > 60


def test_files_are_complete(tmp_path):
    """What is written here has the same set of file names as what 1.8.5 wrote."""
    files.write(str(tmp_path))

    def tree(root):
        return sorted(
            os.path.relpath(os.path.join(folder, leaf), root)
            for folder, _, leaves in os.walk(root)
            for leaf in leaves
        )

    assert tree(str(tmp_path)) == tree(FILES)


@pytest.mark.parametrize('name', list(loops.CASES))
def test_loop(name):
    """Losses of five steps, and the gradients of the first one."""
    found, wanted = loops.run(name), replay.section(load('loops.npz'), name + '/')
    assert sorted(found) == sorted(wanted)
    for key, value in wanted.items():
        near(key, found[key], value, 1e-4)
