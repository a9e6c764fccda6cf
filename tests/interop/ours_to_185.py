"""One half of a file exchange between two `paddle`s; run it once with each interpreter.

    python    tests/interop/ours_to_185.py write FOLDER     # this project's paddle
    python3.7 tests/interop/ours_to_185.py read FOLDER      # paddlepaddle 1.8.5, or the other way round

`write` trains a small network two steps and writes every kind of file there is (persistables, parameters,
inference models, fluid.save, single tensors, LoD tensors, selected rows) with the values beside them; `read`
loads each kind and compares bit by bit. It prints one line a kind and exits 1 when one of them fails.
"""

import os
import sys
import traceback

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import paddle  # noqa: E402

from golden import files  # noqa: E402


def read(root):
    failed = 0
    for name, check in files.CHECKS.items():
        try:
            check(root)
            print(f'{name:26} bit-equal')
        except Exception:
            failed += 1
            print(f'{name:26} FAILED\n{traceback.format_exc()}')
    return failed


def main(role, root):
    ours = getattr(paddle.version, 'cpaddle', None)
    print(f'{role} by paddle {paddle.__version__}' + (f' (cpaddle {ours})' if ours else ''))
    if role == 'write':
        files.write(root)
        return 0
    return 1 if read(root) else 0


if __name__ == '__main__':
    if len(sys.argv) != 3 or sys.argv[1] not in ('write', 'read'):
        sys.exit('usage: ours_to_185.py write|read FOLDER')
    sys.exit(main(sys.argv[1], sys.argv[2]))
