"""Write data/training.npz: training Programs as paddlepaddle 1.8.5 writes them, and their results. From anywhere:

    python3.7 tests/golden/make_training.py
"""

import os
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

import paddle  # noqa: E402

from golden import training  # noqa: E402


def main():
    if paddle.__version__ != '1.8.5' or hasattr(paddle.version, 'cpaddle'):
        raise SystemExit('golden files are made by paddlepaddle 1.8.5 itself; this interpreter has another paddle')
    arrays = {}
    for name, code in training.cases(training.KEPT).items():
        for key, value in training.write(code).items():
            arrays[name + '/' + key] = value
    np.savez_compressed(os.path.join(HERE, 'data', 'training.npz'), **arrays)


if __name__ == '__main__':
    main()
