"""Measures click-through training in one process: from text files, from memory, by optimizer; and the reader alone.

    python bench/clicks.py [--rounds N] [--seconds S] [--threads 1,2] [--json FILE]

CTR-DNN as in bench/run.py. From files: train_from_dataset with so many threads, beside paddlepaddle 1.8.5 on the same files,
PyTorch fed from memory, and our own exe.run fed from memory. Libraries take turns, and the best round counts. The reader
alone fills batches for a Program without ops; what counts there is the time of the processor, all threads together.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import report
import run
import runners
from runners import BENCH, OURS, PADDLE, TORCH, Child, ChildFailed, Runner

BATCH = 1000
FILES, BATCHES = 4, 16  # of each file
WRITE = """
import sys
import numpy as np, works
from multislot import Lines
rng = np.random.RandomState(1)
for number in range(int(sys.argv[2])):
    with open("%s/part-%d" % (sys.argv[1], number), "wb") as file:
        for _ in range(int(sys.argv[3])):
            batch, lines = works.clicks(rng, works.WORKS["ctr_dnn"].batch), Lines()
            lines.floats(batch["dense"])
            for name in works.SLOT_NAMES + ["label"]:
                lines.ids(batch[name])
            file.write(lines.text())
"""


def write_files(folder: str) -> None:
    """In a process of its own: what is measured inherits nothing from it."""
    examples = BENCH.parent / "examples" / "ctr_dnn"
    subprocess.run([sys.executable, "-c", WRITE, folder, str(FILES), str(BATCHES)], cwd=BENCH, check=True,
                   env={**os.environ, "PYTHONPATH": f"{BENCH}:{examples}"})


def start(wanted: list[tuple[Runner, str, int, list[str]]]) -> list[Child]:
    """One after the other, and without those that cannot do the work."""
    children = []
    for runner, work, threads, words in wanted:
        child = Child(runner, work, threads, words)
        try:
            child.answer()
            children.append(child)
        except ChildFailed as error:
            run.say(f"  {runner.name}: {error}")
    return children


def measure(wanted: list[tuple[Runner, str, int, list[str]]], options) -> dict[str, float]:
    """The best steps a second of each, by name."""
    children = start(wanted)
    try:
        rates = run.take_rounds(children, options.rounds, options.seconds)
        return {name: max(got) for name, got in rates.items() if got}
    finally:
        for child in children:
            child.kill()


def measure_reader(wanted: list[tuple[Runner, str, int, list[str]]], options) -> dict[str, float]:
    """Bytes a second of one core, the best round of each."""
    found: dict[str, float] = {}
    children = start(wanted)
    try:
        for _ in range(options.rounds):
            for child in children:
                got = child.ask(do="round", seconds=options.seconds)
                found[child.runner.name] = max(found.get(child.runner.name, 0.0), got["bytes"] / got["cpu_seconds"])
        return found
    except ChildFailed as error:
        run.say(f"  {error}")
        return found
    finally:
        for child in children:
            child.kill()


def training_rows(group: list[Runner], folder: str, threads: int, options) -> list[list[str]]:
    """From files, beside the others."""
    one = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    from_files = [replace(each, name=f"{each.family} files", env=each.env | one) for each in group if each.family != TORCH]
    wanted = [(each, "files", threads, [folder, str(threads)]) for each in from_files]
    wanted += [(replace(each, name=f"{each.family} memory {each.how}"), "ctr_dnn", threads, [])
               for each in group if each.family in (OURS, TORCH)]
    rates = measure(wanted, options)
    ours = rates.get(f"{OURS} files")
    torch = max((rate for name, rate in rates.items() if name.startswith(TORCH)), default=None)
    others = [(f"{PADDLE}, the same files", rates.get(f"{PADDLE} files"), 3.0), ("PyTorch, from memory", torch, 1.2),
              ("ours, from memory", rates.get(f"{OURS} memory plain"), 0.9)]
    return [["CTR-DNN from files", str(threads), count(ours), name, count(rate), ratio(ours, rate), f"{goal}x"]
            for name, rate, goal in others]


def optimizer_rows(group: list[Runner], threads: int, options) -> list[list[str]]:
    """Adam beside SGD, each library beside itself."""
    rows = []
    for runner in (each for each in group if each.family != TORCH):
        wanted = [(replace(runner, name=work), work, threads, []) for work in ("ctr_dnn", "ctr_dnn_lazy", "ctr_dnn_adam")]
        rates = measure(wanted, options)
        sgd = rates.get("ctr_dnn")
        for work, name, goal in (("ctr_dnn_lazy", "lazy Adam", 0.9), ("ctr_dnn_adam", "Adam", 0.6)):
            is_ours = runner.family == OURS
            rows.append([f"CTR-DNN, {name}" + ("" if is_ours else f", {runner.family}"), str(threads), count(rates.get(work)),
                         f"{runner.family}, SGD", count(sgd), ratio(rates.get(work), sgd), f"{goal}x" if is_ours else "-"])
    return rows


def count(rate: float | None) -> str:
    return f"{rate * BATCH:,.0f}" if rate else "-"


def ratio(ours: float | None, other: float | None) -> str:
    return f"{ours / other:.2f}x" if ours and other else "-"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="of each library (5)")
    parser.add_argument("--seconds", type=float, default=1.0, help="length of a round; from files it is whole passes (1)")
    parser.add_argument("--threads", default="1,2", help="numbers of threads (1,2)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the tables there")
    options = parser.parse_args()
    rivals = [each for each in runners.rivals(print)
              if each.family == TORCH or (each.how == "cached" and "FLAGS_use_mkldnn" not in each.env)]
    group = [runners.ours(), *rivals]
    rows: list[list[str]] = []
    with tempfile.TemporaryDirectory(prefix="paddle-bench-") as folder:
        write_files(folder)
        for threads in map(int, options.threads.split(",")):
            run.say(f"{threads} thread{'s' * (threads > 1)} ...")
            rows += training_rows(group, folder, threads, options)
            rows += optimizer_rows(group, threads, options)
        run.say("the reader alone ...")
        reading = [(each, "reader", 1, [folder, "1"]) for each in group if each.family != TORCH]
        speeds = {name: speed / 1e6 for name, speed in measure_reader(reading, options).items()}
    ours, theirs = (speeds.get(next((each.name for each in group if each.family == family), "")) for family in (OURS, PADDLE))
    rows.append(["reader alone, MB/s a core", "1", f"{ours:,.0f}" if ours else "-", PADDLE, f"{theirs:,.0f}" if theirs else "-",
                 ratio(ours, theirs), "500 MB/s"])
    head = ["work", "threads", "ours", "beside", "it has", "ratio", "wanted"]
    busy = f"Load of the machine: {os.getloadavg()[0]:.1f}."
    run.say("\n" + "\n".join(report.table(head, rows)) + f"\n\nSamples/s, best of {options.rounds} rounds. {busy}")
    if options.json:
        options.json.write_text(json.dumps([dict(zip(head, row)) for row in rows], indent=1))
    return 0 if ours else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
