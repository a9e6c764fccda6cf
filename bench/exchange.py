"""Measures pushes and pulls between one trainer and one server, beside what the machine and its rivals can do.

    python bench/exchange.py [--rounds N] [--quick] [--json FILE] [--page FILE]

Each round runs `paddle psbench`, iperf3 over loopback where it is installed, and ps-lite where PS_LITE_BENCH names a
program for it (README.md says which), in turn; the best round of each counts. Without that program the figures of
ps-lite are those of another machine.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import cluster
import runners

SMALL, ROWS = 4096, 10000
DENSE = {30 << 20: "30 MiB", 64 << 20: "64 MiB"}
# ps-lite 15b8adf, best of 4, 2 cores of an AMD Zen 3: operations/s by op and bytes.
PS_LITE_ELSEWHERE = {(op, size): 1.9e9 / size for op in ("push", "pull") for size in DENSE} | {("push", SMALL): 6957}


def psbench(python: str, seconds: float) -> list[dict]:
    """One run of `paddle psbench` of a build over both transports: what it measured."""
    command = [str(Path(python).with_name("paddle")), "psbench", "--json", "--pin", "--dense", "4K,30M,64M",
               "--sparse", str(ROWS), "--table", "10M",
               "--seconds", str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=runners.environment(1, {}, True))
    if done.returncode:
        raise RuntimeError(f"paddle psbench ended with status {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def iperf3(seconds: float) -> float | None:
    """Bytes/s of one loopback stream of iperf3; None when it is not there."""
    if not shutil.which("iperf3"):
        return None
    port = cluster.free_endpoints(1)[0].rpartition(":")[2]
    server = subprocess.Popen(["iperf3", "-s", "-1", "-B", "127.0.0.1", "-p", port, "--forceflush"],
                              stdout=subprocess.PIPE, text=True)
    try:
        for line in server.stdout:
            if "listening" in line:
                break
        done = subprocess.run(["iperf3", "-c", "127.0.0.1", "-p", port, "-A", "1,0", "-l", "1M",
                               "-t", str(max(1, round(seconds))), "-J"],
                              capture_output=True, text=True, timeout=60)
        return json.loads(done.stdout)["end"]["sum_received"]["bits_per_second"] / 8
    finally:
        server.kill()
        server.communicate()


def ps_lite(program: str) -> dict:
    """Operations/s of ps-lite by op and bytes."""
    got = {}
    for size in (SMALL, *DENSE):
        done = subprocess.run([program, str(size), str(max(20, min(20000, (2 << 30) // size)))],
                              capture_output=True, text=True, timeout=120)
        if done.returncode:
            raise RuntimeError(f"{program} ended with status {done.returncode}: {done.stderr.strip()}")
        got["push", size], got["pull", size] = map(float, done.stdout.split())
    return got


def table(best: dict, stream: float | None, other: dict, copy: float, ping: float) -> str:
    """Rows of what was wanted, with the ratio."""
    rows = ["| work | transport | ours | beside | ratio | wanted |", "|---|---|---|---|---|---|"]

    def add(work, transport, ours, unit, beside, name, wanted):
        ratio = f"{ours / beside:.2f}x" if beside else "-"
        scale, digits = (1e9, 2) if unit == "GB/s" else (1e6, 1) if unit.startswith("M ") else (1, 0)
        shown = f"{name} {beside / scale:,.{digits}f}" if beside else f"{name} is not installed"
        rows.append(f"| {work} | {transport} | {ours / scale:,.{digits}f} {unit} | {shown} | {ratio} | {wanted}x |")

    for size, name in DENSE.items():
        for op in ("push", "pull"):
            for transport in ("tcp", "shm"):
                beside = (stream, "iperf3", 0.7) if transport == "tcp" else (other[op, size] * size, "ps-lite", 3)
                add(f"{op} {name}", transport, best[op, transport, size, 0]["bytes_per_s"], "GB/s", *beside)
    for transport, wanted in (("tcp", 1.5), ("shm", 5)):
        add("push 4 KB, one outstanding", transport, best["push", transport, SMALL, 0]["ops_per_s"],
            "/s", other["push", SMALL], "ps-lite", wanted)
    updates = max(best["push", transport, ROWS]["rows_per_cpu_s"] for transport in ("tcp", "shm"))
    add("sparse rows of 8 updated, batches of 10k, 10 M rows", "-", updates, "M rows/s a core", 5e6, "goal", 1)
    limits = f"\nIn the same run: memcpy of 64 MiB {copy / 1e9:.1f} GB/s, a blocking ping-pong of 4 KB {ping:,.0f}/s.\n"
    return "\n".join(rows) + "\n" + limits


def beside_before(best: dict) -> str:
    """This build beside the other one, when there is one."""
    if runners.BEFORE not in best:
        return ""
    rows = ["", "| op | transport | bytes or rows | ours | before | ratio |", "|---|---|---|---|---|---|"]
    for which, row in best[runners.OURS].items():
        old = best[runners.BEFORE].get(which)
        if old:
            cells = [row["op"], row["transport"], str(row["rows"] or row["bytes"]), f"{value(row):,.0f}/s", f"{value(old):,.0f}/s",
                     f"{value(row) / value(old):.2f}x"]
            rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows) + "\n"


def key(row: dict) -> tuple:
    """Which work it is; sparse rows count by their number."""
    return (row["op"], row["transport"], row["rows"]) if row["rows"] else (row["op"], row["transport"], row["bytes"], 0)


def value(row: dict) -> float:
    return row["rows_per_cpu_s"] if row["rows"] else row["ops_per_s"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="one short round")
    parser.add_argument("--json", help="every figure of every round")
    parser.add_argument("--page", help="the table as a page")
    options = parser.parse_args()
    seconds, rounds = (0.2, 1) if options.quick else (1, options.rounds)
    busy = cluster.others_load()
    print(busy, end="", flush=True)
    if not shutil.which("iperf3"):
        print("iperf3 is not installed: its column stays empty.", flush=True)
    program = os.environ.get("PS_LITE_BENCH")
    if not program:
        print("PS_LITE_BENCH is not set: the figures of ps-lite are from another machine.", flush=True)
    best: dict = {runner.family: {} for runner in runners.builds()}
    other = {} if program else PS_LITE_ELSEWHERE
    every, streams = [], []
    for number in range(rounds):
        streams.append(iperf3(seconds))
        for what, rate in (ps_lite(program) if program else {}).items():
            other[what] = max(other.get(what, 0), rate)
        for runner in runners.builds():
            got = psbench(runner.python, seconds)
            every.append({"build": runner.family, "psbench": got, "iperf3": streams[-1]})
            for row in got:
                where = best[runner.family]
                if key(row) not in where or value(row) > value(where[key(row)]):
                    where[key(row)] = row
        print(f"round {number + 1} of {rounds} is through", flush=True)
    flat = [row for one in every for row in one["psbench"]]
    text = table(best[runners.OURS], max((s for s in streams if s), default=None), other,
                 max(r["copy_bytes_per_s"] for r in flat if r["bytes"] == 64 << 20),
                 max(r["pings_per_s"] for r in flat if r["bytes"] == SMALL))
    text += beside_before(best)
    cluster.publish("Pushes and pulls", text, busy, every, options)
    return 0


if __name__ == "__main__":
    os.chdir(runners.BENCH)
    sys.exit(main())
