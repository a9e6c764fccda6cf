"""Write data/transpiled.json: the Programs that the transpiler of paddlepaddle 1.8.5 makes. From anywhere:

    python3.7 tests/golden/make_transpiled.py

A second run writes the same bytes.
"""

import json

import maker

from golden import transpiled


def main():
    found = {}
    for name, case in transpiled.CASES.items():
        found[name] = transpiled.describe(case)
        print(f"{name:24} {len(found[name]['types'])} ops")
    with open(maker.path_of('transpiled.json'), 'w') as file:
        json.dump(found, file, sort_keys=True, separators=(',', ':'))
        file.write('\n')


if __name__ == '__main__':
    main()
