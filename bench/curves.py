"""Measures how the cost of a Program grows with its layers: it should grow with the work, not with its square.

    python bench/curves.py [--layers 25,100,400,1600] [--optimizer NAME] [--width N] [--rounds N] [--json FILE] [--page FILE]

Fully connected layers in a row, built, differentiated, copied, shown, written, run, saved and transpiled
(curves_child.py), each number of layers in a process of its own. CPU seconds, one thread, best of several rounds:
other processes slow them down less than they slow down a clock on the wall.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys

import cluster
import report
import runners


def measure(runner: runners.Runner, layers: int, optimizer: str, width: int) -> dict:
    """CPU seconds of each work with so many layers."""
    command = [runner.python, str(runners.BENCH / "curves_child.py"), str(layers), optimizer, str(width)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=runners.BENCH,
                          env=runners.environment(1, runner.env, True))
    if done.returncode:
        raise SystemExit(f"{layers} layers, {runner.name}: ended with status {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout.splitlines()[-1])


def shown(seconds: float) -> str:
    return f"{1e3 * seconds:,.{1 if seconds >= 0.01 else 3}f}"


def table(best: dict[int, dict]) -> list[str]:
    """Milliseconds of each work, its growth from size to size, and microseconds a layer."""
    sizes = list(best)
    pairs = list(zip(sizes, sizes[1:]))
    head = ["ms", *(f"{n:,} layers" for n in sizes), *(f"{a:,} to {b:,}" for a, b in pairs),
            *(f"us a layer of {n:,}" for n in (sizes[0], sizes[-1]))]
    rows = []
    for work in best[sizes[0]]:
        took = {n: max(best[n][work], 1e-9) for n in sizes}
        rows.append([work, *(shown(took[n]) for n in sizes), *(f"{took[b] / took[a]:.1f}x" for a, b in pairs),
                     *(f"{1e6 * took[n] / n:,.1f}" for n in (sizes[0], sizes[-1]))])
    return report.table(head, rows)


def beside_before(best: dict) -> list[str]:
    """This build beside the other one at the largest size, when there is one."""
    if runners.BEFORE not in best:
        return []
    now, old = (list(best[family].items())[-1] for family in (runners.OURS, runners.BEFORE))
    rows = [[work, shown(now[1][work]), shown(old[1][work]), f"{now[1][work] / max(old[1][work], 1e-9):.2f}x"]
            for work in now[1]]
    return ["", *report.table([f"ms, {now[0]:,} layers", "ours", "before", "ratio"], rows)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", default="25,100,400,1600", help="numbers of layers (25,100,400,1600)")
    parser.add_argument("--optimizer", default="Adam", help="class of fluid.optimizer that takes a rate (Adam)")
    parser.add_argument("--width", type=int, default=16, help="features of each layer (16)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", help="every figure of every round")
    parser.add_argument("--page", help="the table as a page")
    options = parser.parse_args()
    sizes = sorted({int(word) for word in options.layers.split(",")})
    busy = cluster.others_load()
    print(busy, end="", flush=True)
    best: dict = {}
    every: list = []
    for number in range(options.rounds):
        for runner in runners.builds():
            for layers in sizes:
                got = measure(runner, layers, options.optimizer, options.width)
                every.append({"build": runner.family, "layers": layers, "seconds": got})
                kept = best.setdefault(runner.family, {}).setdefault(layers, got)
                kept.update({work: min(seconds, kept[work]) for work, seconds in got.items()})
        print(f"round {number + 1} of {options.rounds} is through", flush=True)
    text = [f"{options.optimizer}, layers of {options.width} features, best of {options.rounds}, CPU time with one thread. "
            "Where the cost grows with the work alone, it grows as the layers do.", ""]
    text += table(best[runners.OURS]) + beside_before(best)
    cluster.publish("Costs by layers", "\n".join(text) + "\n", busy, every, options)
    return 0


if __name__ == "__main__":
    os.chdir(runners.BENCH)
    sys.exit(main())
