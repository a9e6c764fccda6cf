"""What the scripts that write golden files share: each is run with an interpreter that has paddlepaddle 1.8.5."""

import os
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))  # for `from golden import ...`

import paddle  # noqa: E402

if paddle.__version__ != '1.8.5' or hasattr(paddle.version, 'cpaddle'):
    raise SystemExit('golden files are made by paddlepaddle 1.8.5 itself; this interpreter has another paddle')


def path_of(*parts):
    """Of a golden file; the folder is made."""
    path = os.path.join(HERE, 'data', *parts)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    return path


def save_cases(name, found):
    """Writes the arrays of each case, as CASE/ARRAY in one file."""
    arrays = {}
    for case, of_case in found:
        print(f'{case:24} {len(of_case)} arrays')
        for key, value in of_case.items():
            arrays[case + '/' + key] = value
    np.savez_compressed(path_of(name), **arrays)
