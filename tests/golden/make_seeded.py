"""Write data/seeded.npz: what paddlepaddle 1.8.5 draws where a seed is given. From anywhere:

    python3.7 tests/golden/make_seeded.py

A second run writes the same numbers (losses: but for the last bits on another machine).
"""

import os
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

import paddle  # noqa: E402

from golden import seeded  # noqa: E402


def main():
    if paddle.__version__ != '1.8.5' or hasattr(paddle.version, 'cpaddle'):
        raise SystemExit('golden files are made by paddlepaddle 1.8.5 itself; this interpreter has another paddle')
    arrays = {}
    for name, case in seeded.CASES.items():
        found = case()
        print(f'{name:14} {len(found)} arrays')
        for key, value in found.items():
            arrays[name + '/' + key] = value
    np.savez_compressed(os.path.join(HERE, 'data', 'seeded.npz'), **arrays)


if __name__ == '__main__':
    main()
