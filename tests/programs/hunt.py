"""Makes random Programs and judges them, for some time.

    python tests/programs/hunt.py [--seconds 60] [--seed 0] [--keep-going]

Prints the seed of each Program that fails, what is wrong, and the Program cut down, as a script. Status 1 when one failed.
PADDLE185_PYTHON names a Python with paddlepaddle 1.8.5, to compare with it. The Python that runs this must have the package;
what is set in the environment for it (sanitizers) is set for the processes that run Programs, too.
"""

import argparse
import os
import sys
import time
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from programs import generate, shrink
from programs.client import Child
from programs.judge import Finding, Judge


def report(judge: Judge, recipe: dict, finding: Finding) -> str:
    """What is wrong with a recipe, cut down."""
    def fails(smaller: dict) -> bool:
        again = judge.look(smaller)
        return again is not None and again.kind == finding.kind

    counts = judge.counts.copy()
    small = shrink.shrink(recipe, fails)
    last = judge.look(small) or finding
    judge.counts = counts
    rule = "-" * 100
    return f"{rule}\nseed {recipe['seed']}: {finding.kind}: {last.text}\n{rule}\n{shrink.script(small)}{rule}"


def hunt(judge: Judge, seed: int, seconds: float, keep_going: bool = False) -> list[str]:
    """The reports of what fails, of seeds from `seed` on."""
    end = time.monotonic() + seconds
    found = []
    while time.monotonic() < end:
        recipe = generate.make(seed)
        finding = judge.look(recipe)
        if finding:
            found.append(report(judge, recipe, finding))
            print(found[-1], flush=True)
            if not keep_going:
                break
        seed += 1
    return found


def children() -> tuple[Child, Child | None]:
    """This project's child, and 1.8.5's where it is named."""
    real = os.environ.get("PADDLE185_PYTHON")
    clean = {"LD_PRELOAD": "", "PYTHONPATH": ""}
    return Child(sys.executable), Child(real, clean) if real else None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0, help="the first one; they count up from it")
    parser.add_argument("--keep-going", action="store_true", help="go on after a Program that failed")
    options = parser.parse_args()
    ours, real = children()
    with ours:
        judge = Judge(ours, real)
        found = hunt(judge, options.seed, options.seconds, options.keep_going)
        if real:
            real.close()
    for name, count in judge.counts.most_common():
        print(f"{count:7} {name}")
    print(f"{len(found)} failed")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
