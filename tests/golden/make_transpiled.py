"""Write data/transpiled.json: the Programs that the transpiler of paddlepaddle 1.8.5 makes. From anywhere:

    python3.7 tests/golden/make_transpiled.py

A second run writes the same bytes.
"""

import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

from golden import transpiled  # noqa: E402


def main():
    found = {}
    for name, case in transpiled.CASES.items():
        found[name] = transpiled.describe(case)
        print(f"{name:24} {len(found[name]['types'])} ops")
    with open(os.path.join(HERE, 'data', 'transpiled.json'), 'w') as file:
        json.dump(found, file, sort_keys=True, separators=(',', ':'))
        file.write('\n')


if __name__ == '__main__':
    main()
