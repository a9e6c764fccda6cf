"""Makes random jobs and judges them, for some time.

    python tests/clusters/hunt.py [--seconds 60] [--seed 0] [--keep-going]
    python tests/clusters/hunt.py --seed 123 --count 1           # one of them again; --times 20: timing may matter
    python tests/clusters/hunt.py --recipe FILE                  # one that was changed by hand (what --write FILE wrote)

Prints of each job that fails its seed, the command that does it again, the recipe and what all processes said. Status 1 when one
failed. The Python that runs this must have the package.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from clusters import generate
from clusters.judge import Judge
from clusters.nursery import Nursery
from clusters.recipe import text_of
from clusters.stage import Wrong


def report(recipe: dict, wrong: Wrong) -> str:
    rule = "-" * 100
    again = f"python tests/clusters/hunt.py --count 1 --seed {recipe['seed']}"
    return f"{rule}\nseed {recipe['seed']}: {wrong.kind}: {wrong}\n{rule}\n{text_of(recipe)}\n{rule}\n{again}\n{rule}"


def hunt(judge: Judge, recipes, seconds: float, keep_going: bool = False) -> list[str]:
    """The reports of what fails."""
    end = time.monotonic() + seconds
    found = []
    for recipe in recipes:
        if time.monotonic() > end:
            break
        wrong = judge.look(recipe)
        if wrong is not None:
            judge.counts[f"found: {wrong.kind}"] += 1
            found.append(report(recipe, wrong))
            print(found[-1], flush=True)
            if not keep_going:
                break
    return found


def seeds(first: int):
    while True:
        yield generate.make(first)
        first += 1


def counts(judge: Judge) -> list[str]:
    """Lines for the end."""
    lines = [f"{count:7} {name}" for name, count in sorted(judge.counts.items())]
    lines += [f"{count:7} refused by {why} (seed {judge.examples[why]})" for why, count in judge.reasons.most_common()]
    return [*lines, f"parameters and states differ by {judge.worst:.1e} at most where they agree"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0, help="the first one; they count up from it")
    parser.add_argument("--count", type=int, default=0, help="so many seeds, however long that takes")
    parser.add_argument("--times", type=int, default=1, help="each so often")
    parser.add_argument("--keep-going", action="store_true", help="go on after a job that failed")
    parser.add_argument("--recipe", help="a file with one recipe, in the place of seeds")
    parser.add_argument("--write", help="write the recipe of the seed there, and do nothing else")
    options = parser.parse_args()
    if options.write:
        Path(options.write).write_text(json.dumps(generate.make(options.seed), indent=1))
        return 0
    recipes, seconds = seeds(options.seed), options.seconds
    if options.recipe:
        recipes = [json.loads(Path(options.recipe).read_text())]
    elif options.count:
        recipes = [generate.make(options.seed + i) for i in range(options.count)]
    if options.recipe or options.count:
        recipes, seconds = [each for each in recipes for _ in range(options.times)], 1e9
    with Nursery() as nursery:
        judge = Judge(nursery)
        found = hunt(judge, recipes, seconds, options.keep_going)
    print(*counts(judge), f"{len(found)} failed", sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
