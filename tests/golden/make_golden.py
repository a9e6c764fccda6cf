"""Write the golden files. Run with an interpreter that has paddlepaddle 1.8.5, from anywhere:

    python3.7 tests/golden/make_golden.py [models] [small] [names] [files] [loops]

Without arguments every part is made. The result depends on nothing but the code: start values and data come
from fixed numpy seeds, so a second run writes the same files (on another machine the last bits of losses and
gradients may move with its vector units).
"""

import json
import os
import shutil
import subprocess
import sys

import maker
import numpy as np
import paddle.fluid as fluid

from golden import files, loops, models, replay, small

STEPS = 10
SMALL = [
    ('optimizers.npz', small.OPTIMIZERS, 5),
    ('rules.npz', small.RULES, 5),
    ('schedules.npz', small.SCHEDULES, 12),
]


def flat(arrays, prefix, values):
    for name in sorted(values):
        arrays[prefix + name] = values[name]


def safe_bins(both, thresholds):
    """AUC counts predictions in bins: none may lie so near an edge that rounding can move it."""
    scaled = both[..., 1].astype('float64') * thresholds
    return np.abs(scaled - np.round(scaled)).min() > 1e-3


def make_models():
    for name, case in models.CASES.items():
        batches = case.batches(name, STEPS)
        found = replay.run_model(case, None, batches)
        if 'thresholds' in case.sizes and not safe_bins(found['extra'][-1], case.sizes['thresholds']):
            raise SystemExit(f'{name}: a prediction lies on the edge of an AUC bin; choose another seed')
        arrays = replay.pack(batches)
        for part in ('init', 'grad', 'final'):
            flat(arrays, part + '/', found[part])
        arrays['loss'] = found['loss']
        for i, extra in enumerate(found['extra']):
            arrays[f'extra/{i}'] = extra
        np.savez_compressed(maker.path_of(name, 'case.npz'), **arrays)
        print(f"{name:20} loss {found['loss'][0]:.6f} -> {found['loss'][-1]:.6f}")


def keep_small(arrays, name, found):
    arrays[name + '/loss'] = found['loss']
    flat(arrays, name + '/init/', found['init'])
    flat(arrays, name + '/final/', found['final'])
    if found['extra'] is not None:
        arrays[name + '/extra'] = found['extra']


def make_small():
    for path, table, steps in SMALL:
        arrays = {}
        for name, build in table.items():
            dtype = 'float64' if name.endswith('.float64') else 'float32'
            try:
                found = replay.run_small(build, None, steps, small.batches(steps, dtype))
            except Exception as error:
                lines = [line for line in str(error).splitlines() if 'Error' in line]
                print(f'{name}: left out, 1.8.5 does not run it: {(lines or [str(error)])[-1][:160]}')
                continue
            if not all(np.isfinite(value).all() for value in found['final'].values()):
                raise SystemExit(f'{name}: not finite')
            keep_small(arrays, name, found)
        np.savez_compressed(maker.path_of(path), **arrays)


def make_names():
    found = {'models': {}, 'small': {}}
    for name, case in models.CASES.items():
        found['models'][name] = {
            kind: replay.names_of(replay.Built(lambda: case.full_network(make)))
            for kind, make in models.OPTIMIZERS.items()
        }
    for path, table, _ in SMALL:
        with np.load(maker.path_of(path)) as data:
            ran = {key.split('/')[0] for key in data.files}
        for name, build in table.items():
            if name in ran:
                found['small'][name] = replay.names_of(replay.Built(build))
    with open(maker.path_of('names.json'), 'w') as file:
        json.dump(found, file, indent=None, separators=(',', ':'), sort_keys=True)
        file.write('\n')


def neutral(path):
    """1.8.5 keeps the Python stack of each op in a model file: replace the paths of this machine."""
    with open(path, 'rb') as file:
        program = fluid.Program.parse_from_string(file.read())
    for block in program.blocks:
        for op in block.ops:
            if op.has_attr('op_callstack'):
                op.desc._set_attr('op_callstack', ['  File "train.py", line 1, in <module>', '    train()'])
    with open(path, 'wb') as file:
        # only a copy of the desc writes changed attributes out
        file.write(fluid.core.ProgramDesc(program.desc).serialize_to_string())


def make_files():
    root = maker.path_of('files')
    shutil.rmtree(root, ignore_errors=True)
    files.write(root)
    for path in [('infer', '__model__'), ('infer_combined', 'model'), ('save', 'model.pdmodel')]:
        neutral(os.path.join(root, *path))


def make_loops():
    arrays = {}
    for name in loops.CASES:
        flat(arrays, name + '/', loops.run(name))
    np.savez_compressed(maker.path_of('loops.npz'), **arrays)


PARTS = {'models': make_models, 'small': make_small, 'names': make_names, 'files': make_files, 'loops': make_loops}

if __name__ == '__main__':
    parts = sys.argv[1:] or ['models', 'small', 'names', 'files', 'loops']
    if len(parts) == 1:
        PARTS[parts[0]]()
    else:
        # one process a part: a build that 1.8.5 refuses leaves its name scope open, and model files show it
        for part in parts:
            subprocess.check_call([sys.executable, os.path.abspath(__file__), part])
