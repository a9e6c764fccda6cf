"""Measures training speed and memory of this package beside paddlepaddle 1.8.5 and PyTorch.

    python bench/run.py [--quick] [--only NAME ...] [--threads 1,2] [--passes N] [--rounds N]
                        [--seconds S] [--batches N] [--json FILE] [--page FILE]

Every library runs in its own process; rounds go from one to the next in turn, so that all of them meet the
same moods of the machine, and the best round counts. A mood may last for minutes, so all of it is done in
several passes. See bench/README.md.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path

import report
import runners
from runners import OURS, PADDLE, Child, ChildFailed, Runner

# Names here, not imported from works.py: that one loads numpy, and what is measured inherits nothing from us.
WORKS = ["fit_a_line", "mlp", "word2vec_sparse", "word2vec", "ctr_dnn", "lenet"]
OTHERS = ["start", "stream"]
GEMM_FLOPS = 2.0 * 2048**3
SETTLE_S = 0.3  # threads of a finished round may go on spinning for that long


def say(text: str) -> None:
    print(text, flush=True)


def fits(runner: Runner, work: str, quick: bool) -> bool:
    """Leaves out what is never the best way: mkldnn without convolutions, no cache beyond fit_a_line."""
    if quick and runner.how == "compile":
        return False
    if runner.family != PADDLE:
        return True
    if runner.how == "plain":
        return work == "fit_a_line"
    return work == "lenet" or "FLAGS_use_mkldnn" not in runner.env


def start_children(group: list[Runner], work: str, threads: int) -> list[Child]:
    """Starts one child after the other, and leaves out those that cannot do the work."""
    children = []
    for runner in group:
        child = Child(runner, work, threads)
        try:
            child.answer()
            children.append(child)
        except ChildFailed as error:
            say(f"  {runner.name}: {error}")
    return children


def take_rounds(children: list[Child], rounds: int, seconds: float) -> dict[str, list[float]]:
    """Steps per second of each child in each round. Whoever goes first changes from round to round."""
    rates: dict[str, list[float]] = {child.runner.name: [] for child in children}
    alive = list(children)
    for number in range(rounds):
        shift = number % max(len(alive), 1)
        for child in alive[shift:] + alive[:shift]:
            time.sleep(SETTLE_S)
            try:
                got = child.ask(do="round", seconds=seconds)
                rates[child.runner.name].append(got["steps"] / got["seconds"])
            except ChildFailed as error:
                say(f"  {child.runner.name}: {error}")
                alive.remove(child)
    return rates


def measure(group: list[Runner], work: str, threads: int, options) -> dict:
    """One work with one number of threads: for each runner its best and median rate and its peak memory."""
    children = start_children(group, work, threads)
    try:
        rates = take_rounds(children, options.rounds, options.seconds)
        result = {}
        for child in children:
            got = rates[child.runner.name]
            if got and child.process.poll() is None:
                result[child.runner.name] = {
                    "family": child.runner.family, "how": child.runner.how, "steps_per_s": max(got),
                    "median": statistics.median(got), "rounds": got, "peak_mb": child.end(),
                }
        return result
    finally:
        for child in children:
            child.kill()


def join(before: dict, new: dict) -> dict:
    """The figures of two passes as one."""
    joined = dict(before)
    for name, got in new.items():
        old = before.get(name)
        rounds = got["rounds"] + (old["rounds"] if old else [])
        joined[name] = got | {"steps_per_s": max(rounds), "median": statistics.median(rounds), "rounds": rounds,
                              "peak_mb": max(got["peak_mb"], old["peak_mb"] if old else 0)}
    return joined


def measure_peak(threads: int, options) -> float:
    """sgemm peak in operations a second: the better of our own product of 2048 x 2048 and numpy's."""
    group = [runners.ours(), Runner("numpy", "numpy", sys.executable, "numpy", "plain")]
    found = measure(group, "gemm", threads, options)
    for name, got in found.items():
        say(f"  sgemm 2048, {name}: {got['steps_per_s'] * GEMM_FLOPS / 1e9:.0f} GFLOP/s")
    return max((got["steps_per_s"] * GEMM_FLOPS for got in found.values()), default=0.0)


def measure_start(group: list[Runner], options) -> dict:
    """Seconds from the start of a fresh process to the end of the first step of fit_a_line."""
    took: dict[str, list[float]] = {}
    for _ in range(options.rounds):
        for runner in group:
            begin = time.monotonic()
            child = Child(runner, "start", 1)
            try:
                child.answer()
                took.setdefault(runner.name, []).append(time.monotonic() - begin)
                child.process.wait()
            except ChildFailed as error:
                say(f"  {runner.name}: {error}")
            finally:
                child.kill()
    return {name: {"seconds": min(all_), "median": statistics.median(all_)} for name, all_ in took.items()}


def measure_stream(threads: int, options) -> dict | None:
    child = Child(runners.ours(), "stream", threads)
    try:
        child.answer()
        return child.ask(do="stream", batches=options.batches)
    except ChildFailed as error:
        say(f"  {OURS}: {error}")
        return None
    finally:
        child.kill()


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few short rounds, no torch.compile")
    parser.add_argument("--only", action="append", metavar="NAME", choices=WORKS + OTHERS,
                        help=f"only this work, may be given again: {', '.join(WORKS + OTHERS)}")
    parser.add_argument("--threads", default="1,2", help="numbers of threads (1,2)")
    parser.add_argument("--passes", type=int, help="times that all is done (2; quick: 1)")
    parser.add_argument("--rounds", type=int, help="rounds of each library in a pass (5; quick: 3)")
    parser.add_argument("--seconds", type=float, help="length of a round (0.5; quick: 0.25)")
    parser.add_argument("--batches", type=int, help="batches of the stream (10000; quick: 1000)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the tables there as a page")
    options = parser.parse_args()
    options.passes = options.passes or (1 if options.quick else 2)
    options.rounds = options.rounds or (3 if options.quick else 5)
    options.seconds = options.seconds or (0.25 if options.quick else 0.5)
    options.batches = options.batches or (1000 if options.quick else 10000)
    options.threads = [int(word) for word in options.threads.split(",")]
    if not 10 <= options.batches <= 10000:
        parser.error(f"--batches is {options.batches}; give 10 to 10000")
    return options


def main() -> int:
    options = parse_arguments()
    wanted = options.only or WORKS + OTHERS
    everyone = runners.builds() + runners.rivals(say)
    facts = report.work_facts()
    result = {"machine": report.machine(), "rounds": options.passes * options.rounds,
              "seconds": options.seconds, "works": [], "sgemm": {}}
    say(result["machine"])

    works = [work for work in WORKS if work in wanted]
    rows = {(threads, work): {"work": work, "threads": threads, "runners": {}}
            for threads in options.threads for work in works}
    result["works"] = list(rows.values())
    for number in range(options.passes if works else 0):
        for threads in options.threads:
            say(f"\nPass {number + 1} of {options.passes}, {threads} thread{'s' * (threads > 1)}")
            peak = measure_peak(threads, options)
            result["sgemm"][threads] = max(peak, result["sgemm"].get(threads, 0))
            for work in works:
                group = [runner for runner in everyone if fits(runner, work, options.quick)]
                say(f"  {facts[work]['title']} ...")
                row = rows[threads, work]
                got = measure(group, work, threads, options)
                row["runners"] = join(row["runners"], got)
                for text in report.details(row | {"runners": got}, facts[work], peak):
                    say(f"    {text}")
    if "start" in wanted:
        group = [runner for runner in everyone if runner.how in ("plain", "eager")]
        result["start"] = measure_start(group, options)
    if "stream" in wanted:
        result["stream"] = {threads: measure_stream(threads, options) for threads in options.threads}

    say("\n" + "\n".join(report.summary(result, facts)))
    if options.json:
        options.json.write_text(json.dumps(result, indent=1))
    if options.page:
        options.page.write_text(report.page(result, facts))
    missing = any(OURS not in row["runners"] for row in result["works"])
    return 1 if missing else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
