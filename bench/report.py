"""Turns the figures of bench/run.py into text."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

from runners import BEFORE, OURS, PADDLE, TORCH

BENCH = Path(__file__).resolve().parent


def work_facts() -> dict:
    """Title, batch size, unit and operations of each work, from works.py in a process of its own."""
    code = ("import json, works; print(json.dumps({name: {key: value for key, value in vars(work).items() "
            "if key != 'make'} for name, work in works.WORKS.items()}))")
    return json.loads(subprocess.run([sys.executable, "-c", code], cwd=BENCH, check=True,
                                     capture_output=True, text=True).stdout)


def machine() -> str:
    """Processor, cores, vector extensions."""
    name, flags = platform.machine(), set()
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                name = value.strip()
            elif key.strip() == "flags":
                flags = set(value.split())
    except OSError:
        pass
    words = [word for word in ("avx2", "avx512f", "amx_tile") if word in flags]
    return (f"{name}, {os.cpu_count()} cores, {' '.join(words) or 'no AVX2'}, "
            f"Python {platform.python_version()}")


def best(runners: dict, family: str) -> dict | None:
    """The best way of a family in one row."""
    found = [got for got in runners.values() if got["family"] == family]
    return max(found, key=lambda got: got["steps_per_s"], default=None)


def speed(got: dict | None, fact: dict) -> str:
    if got is None:
        return "-"
    if fact["unit"] == "us":
        return f"{1e6 / got['steps_per_s']:,.1f} us"
    return f"{got['steps_per_s'] * fact['batch']:,.0f}"


def share(got: dict | None, fact: dict, peak: float) -> str:
    """How much of the sgemm peak the products of the work reach."""
    if got is None or not peak or not fact["flops"]:
        return "-"
    return f"{100 * got['steps_per_s'] * fact['batch'] * fact['flops'] / peak:.0f}%"


def ratio(ours: dict | None, other: dict | None) -> str:
    return f"{ours['steps_per_s'] / other['steps_per_s']:.2f}x" if ours and other else "-"


def details(row: dict, fact: dict, peak: float) -> list[str]:
    """One line for each runner of a work."""
    ours = best(row["runners"], OURS)
    lines = []
    for name, got in row["runners"].items():
        median = dict(got, steps_per_s=got["median"])
        lines.append(f"{name:30} {speed(got, fact):>12} (median {speed(median, fact):>10})  "
                     f"{1e6 / got['steps_per_s']:>9,.1f} us/step  {share(got, fact, peak):>4} of sgemm  "
                     f"{got['peak_mb']:>6.0f} MB  ours is {ratio(ours, got)}")
    return lines


def table(head: list[str], rows: list[list[str]]) -> list[str]:
    """A Markdown table with columns of even width."""
    widths = [max(len(row[i]) for row in [head] + rows) for i in range(len(head))]
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |"
             for row in [head] + rows]
    return [lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|"] + lines[1:]


def beside_before(result: dict, facts: dict) -> list[str]:
    """This build beside the other one, when there is one."""
    rows = []
    for row in result["works"]:
        fact = facts[row["work"]]
        ours, before = (best(row["runners"], family) for family in (OURS, BEFORE))
        if ours and before:
            rows.append([f"{fact['title']}, batch {fact['batch']}", str(row["threads"]), speed(ours, fact), speed(before, fact),
                         ratio(ours, before), f"{ours['median'] / before['median']:.2f}x",
                         f"{ours['peak_mb']:.0f}/{before['peak_mb']:.0f}"])
    return ["", *table(["work", "threads", "ours", "before", "ratio", "of medians", "peak MB"], rows)] if rows else []


def summary(result: dict, facts: dict) -> list[str]:
    """The closing tables."""
    lines = []
    if result["works"]:
        rows = []
        for row in result["works"]:
            fact, all_ = facts[row["work"]], row["runners"]
            ours, paddle, torch = (best(all_, family) for family in (OURS, PADDLE, TORCH))
            rival = max(filter(None, (paddle, torch)), key=lambda got: got["steps_per_s"], default=None)
            how = f" ({torch['how']})" if torch else ""
            memory = "/".join(f"{got['peak_mb']:.0f}" if got else "-" for got in (ours, paddle, torch))
            rows.append([f"{fact['title']}, batch {fact['batch']}", str(row["threads"]), speed(ours, fact),
                         speed(paddle, fact), ratio(ours, paddle), speed(torch, fact) + how,
                         ratio(ours, torch), ratio(ours, rival),
                         share(ours, fact, result["sgemm"].get(row["threads"], 0.0)), memory])
        lines += ["Samples/s, or us for one run; best of "
                  f"{result['rounds']} interleaved rounds of {result['seconds']} s. "
                  "Peak memory in MB: ours/1.8.5/PyTorch.", ""]
        lines += table(["work", "threads", "ours", "1.8.5", "ratio", "PyTorch", "ratio", "to the better",
                        "of sgemm peak", "peak MB"], rows)
        lines += beside_before(result, facts)
        peaks = ", ".join(f"{peak / 1e9:.0f} GFLOP/s with {threads} thread{'s' * (threads > 1)}"
                          for threads, peak in result["sgemm"].items())
        lines += ["", f"sgemm peak in this run: {peaks}."]
    if result.get("start"):
        lines += ["", "Fresh process to the end of the first step of fit_a_line, seconds:", ""]
        lines += table(["who", "best", "median"], [[name, f"{got['seconds']:.2f}", f"{got['median']:.2f}"]
                                                   for name, got in result["start"].items()])
    for threads, got in (result.get("stream") or {}).items():
        if got:
            lines += ["", f"Stream of {got['batches']:,} batches of all-different lengths, {threads} "
                      f"thread{'s' * (threads > 1)}: {got['varied_us']:,.0f} us a step, fixed lengths of the "
                      f"same mean {got['fixed_us']:,.0f} us: {got['varied_us'] / got['fixed_us']:.2f}x. "
                      f"Memory after {got['batches'] // 10:,}: {got['rss_early_mb']:.1f} MB, at the end: "
                      f"{got['rss_end_mb']:.1f} MB."]
    return lines


def page(result: dict, facts: dict) -> str:
    """docs/BENCH.md."""
    names = dict.fromkeys(name for row in result["works"] for name in row["runners"])
    head = ["# Figures", "", "Made by `bench/run.py --page docs/BENCH.md`; "
            "[bench/README.md](../bench/README.md) says how it measures.", "",
            f"Machine: {result['machine']}. Date: {time.strftime('%Y-%m-%d')}. "
            f"Compared: {'; '.join(names)}.", ""]
    return "\n".join(head + summary(result, facts)) + "\n"
