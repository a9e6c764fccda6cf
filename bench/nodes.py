"""How far a job of CTR-DNN grows: measures what a step costs a server and a worker, and works out 4 to 1,000 nodes from it.

    python bench/nodes.py [--network 10,25,100] [--cores 4] [--quick] [--page FILE]

Light workers exchange what CTR-DNN does (the same parameters, 26,000 rows and gradients) over TCP, and compute next to nothing, so
that many of them fit on one machine. What a step costs a server (seconds of its processor, from its status) is taken as

    once / S + N (message + share / S)         N workers, S servers

and fitted on small jobs; larger ones, with up to eight times the workers, must then cost what the formula says. A worker's own
step is measured alone. A step of N nodes takes, with nothing done at the same time:

    computing + worker (fixed + S message) + bytes on the busier wire / network + server / cores

All workers are taken as equally fast, and rows as evenly spread. Efficiency is that of a node beside one of 4 nodes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import report
import runners
from cluster import free_endpoints
from runners import BENCH, Child

BATCH = 1000
NODES = (4, 8, 16, 32, 100, 320, 1000)
FITTED = ((1, 1), (2, 1), (4, 1), (1, 2), (2, 2), (4, 2), (1, 4), (2, 4), (4, 4))  # workers, servers
CHECKED = ((8, 1), (8, 4), (16, 2), (32, 4))


class Job:
    """Servers and light workers that train until they are stopped."""

    def __init__(self, workers: int, servers: int):
        self.endpoints, self.processes = free_endpoints(servers), []
        env = {**runners.environment(1, {}, True), "PADDLE_PS_TRANSPORT": "tcp"}
        for role, count in (("server", servers), ("trainer", workers)):
            for index in range(count):
                command = [sys.executable, str(BENCH / "cluster_child.py"), role, str(index), "ctr_dnn_light",
                           ",".join(self.endpoints), str(workers), "0", "plain"]
                self.processes.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env,
                                                       cwd=runners.scratch()))
        self.trainers = self.processes[servers:]

    def status(self, endpoint: str) -> dict:
        done = subprocess.run([str(Path(sys.executable).with_name("paddle")), "ps", "status", endpoint, "--json"],
                              capture_output=True, text=True)
        return json.loads(done.stdout) if done.returncode == 0 else {"step": -1}

    def wait_for(self, step: int, deadline: float = 300) -> list[dict]:
        """The status of each server, once it has done so many steps."""
        end = time.monotonic() + deadline
        while True:
            found = [self.status(endpoint) for endpoint in self.endpoints]
            if all(each["step"] >= step for each in found):
                return found
            if time.monotonic() > end or any(process.poll() is not None for process in self.processes):
                raise SystemExit(f"a job of light workers did not reach step {step}: {[each['step'] for each in found]}")
            time.sleep(0.2)

    def measure(self, steps: int) -> dict[str, float]:
        """For one step: seconds of a server's and of a worker's processor, bytes of a worker."""
        before, worked = self.wait_for(5), [seconds_of(process.pid) for process in self.trainers]
        begun = max(each["step"] for each in before)
        after, worked_after = self.wait_for(begun + steps), [seconds_of(process.pid) for process in self.trainers]
        done = [b["step"] - a["step"] for a, b in zip(before, after)]
        trainers = [(a["trainers"], b["trainers"], n) for a, b, n in zip(before, after, done)]
        moved = {way: sum((sum(t[way] for t in b) - sum(t[way] for t in a)) / n for a, b, n in trainers) / len(self.trainers)
                 for way in ("bytes_in", "bytes_out")}
        return {
            "server": float(np.mean([(b["cpu_s"] - a["cpu_s"]) / n for a, b, n in zip(before, after, done)])),
            "worker": float(np.mean([b - a for a, b in zip(worked, worked_after)])) / np.mean(done),
            **moved,
        }

    def stop(self) -> None:
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()


def seconds_of(pid: int) -> float:
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def measure(workers: int, servers: int, steps: int) -> dict[str, float]:
    job = Job(workers, servers)
    try:
        return job.measure(steps)
    finally:
        job.stop()


def computing() -> float:
    """Seconds of a step of CTR-DNN in one process with one thread."""
    child = Child(runners.ours(), "ctr_dnn", 1)
    child.answer()
    took = []
    for _ in range(5):
        said = child.ask(do="round", seconds=1.0)
        took.append(said["seconds"] / said["steps"])
    child.end()
    return min(took)


def fit(rows: list[list[float]], seconds: list[float]) -> np.ndarray:
    """Costs that are not negative: what would be is left out."""
    rows, used = np.array(rows), list(range(len(rows[0])))
    while True:
        # Each job counts alike, whatever it costs.
        found = np.linalg.lstsq(rows[:, used] / np.array(seconds)[:, None], np.ones(len(seconds)), rcond=None)[0]
        if (found >= 0).all():
            costs = np.zeros(len(rows[0]))
            costs[used] = found
            return costs
        used.pop(int(np.argmin(found)))


def server_row(workers: int, servers: int) -> list[float]:
    return [1 / servers, workers, workers / servers]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--network", default="10,25,100", help="Gbit/s of a node (10,25,100)")
    parser.add_argument("--cores", type=int, default=4, help="loops of a server, each on a core of its own (4)")
    parser.add_argument("--quick", action="store_true", help="fewer steps, fewer workers")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the tables there as a page")
    options = parser.parse_args()
    steps = 30 if options.quick else 150
    fitted = {pair: measure(*pair, steps) for pair in FITTED}
    costs = fit([server_row(*pair) for pair in FITTED], [found["server"] for found in fitted.values()])
    own = fit([[1, servers] for _, servers in FITTED], [found["worker"] for found in fitted.values()])
    bytes_in = np.mean([found["bytes_in"] for found in fitted.values()])
    bytes_out = np.mean([found["bytes_out"] for found in fitted.values()])
    alone = computing()
    text = [f"A worker's step: {alone * 1e3:.1f} ms of computing alone, {own[0] * 1e3:.2f} ms and {own[1] * 1e6:.0f} us for each"
            f" server to exchange, {bytes_in / 1e6:.2f} MB to the servers and {bytes_out / 1e6:.2f} MB back. A server's:"
            f" {costs[0] * 1e3:.2f} ms of updates in all, {costs[1] * 1e6:.0f} us for each worker, {costs[2] * 1e3:.2f} ms for all"
            " that a worker sends and takes.", ""]
    rows = []
    for pair in FITTED + (CHECKED[:2] if options.quick else CHECKED):
        seen = fitted.get(pair) or measure(*pair, max(20, steps // pair[0]))
        said = float(np.dot(costs, server_row(*pair)))
        rows.append([str(pair[0]), str(pair[1]), f"{seen['server'] * 1e3:.2f}", f"{said * 1e3:.2f}", f"{seen['server'] / said:.2f}",
                     "fitted" if pair in fitted else "foretold"])
    text += report.table(["workers", "servers", "ms of a server, measured", "by the formula", "ratio", "how"], rows) + [""]

    def step(nodes: int, servers: int, network: float) -> float:
        wire = max(1.0, nodes / servers) * (bytes_in + bytes_out) / (network * 1e9 / 8)
        return alone + own[0] + own[1] * servers + wire + float(np.dot(costs, server_row(nodes, servers))) / options.cores

    rows = []
    for network in map(float, options.network.split(",")):
        best = {nodes: min(range(1, nodes + 1), key=lambda servers: step(nodes, servers, network)) for nodes in NODES}
        first = step(4, best[4], network)
        for nodes in NODES:
            took = step(nodes, best[nodes], network)
            rows.append([f"{network:g}", str(nodes), str(best[nodes]), f"{took * 1e3:.1f}", f"{nodes * BATCH / took:,.0f}",
                         f"{first / took:.0%}"])
    text += report.table(["Gbit/s", "workers", "servers, the best number", "ms a step", "samples/s", "of 4 nodes"], rows)
    page = "\n".join(text)
    print(page)
    if options.page:
        options.page.write_text(page + "\n")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
