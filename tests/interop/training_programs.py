"""Training Programs of many layers, written by one `paddle` and run by another; used as ours_to_185.py is.

`write` makes them (tests/golden/training.py) and trains three steps; `read` runs what was written and compares the losses
and a weight.. It prints one line a case and exits 1 when one fails.
"""

import os
import sys
import traceback

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import paddle  # noqa: E402

from golden import training  # noqa: E402


def main(role, root):
    ours, failed = getattr(paddle.version, 'cpaddle', None), 0
    print(f'{role} by paddle {paddle.__version__}' + (f' (cpaddle {ours})' if ours else ''))
    for name, code in training.cases(training.KEPT + training.OTHERS).items():
        path = os.path.join(root, name + '.npz')
        try:
            if role == 'write':
                np.savez(path, **training.write(code))
            else:
                with np.load(path) as case:
                    training.check(case)
            print(f'{name:26} done')
        except Exception:
            failed += 1
            print(f'{name:26} FAILED\n{traceback.format_exc()}')
    return 1 if failed else 0


if __name__ == '__main__':
    if len(sys.argv) != 3 or sys.argv[1] not in ('write', 'read'):
        sys.exit('usage: training_programs.py write|read FOLDER')
    sys.exit(main(sys.argv[1], sys.argv[2]))
