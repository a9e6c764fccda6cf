"""Measures jobs of several processes on this machine: servers x trainers, beside paddlepaddle 1.8.5.

    python bench/cluster.py [--only NAME] [--rounds N] [--quick] [--no-faults] [--json FILE] [--page FILE]

Each round starts a whole job of one library, then of the other; the best round counts. Samples/s are summed over
the trainers. One thread for each process. Memory is the largest of all trainers, and of all servers. The end of a job
is the time from the last trainer's exit to the last server's. Then processes are killed (cluster_faults.py).
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import cluster_faults
import runners
from runners import BEFORE, BENCH, OURS, PADDLE, Runner

# name -> work, servers, trainers, samples a step of one trainer, steps of ours, steps of 1.8.5, the ratio we want; the strategy of
# Fleet, else a sync job of DistributeTranspiler. Those of geo exchange every 100 steps.
JOBS = {
    "fit_a_line 1x2": ("fit_a_line", 1, 2, 20, 20000, 500, 10, None),
    "fit_a_line 2x2": ("fit_a_line", 2, 2, 20, 12000, 400, None, None),
    "word2vec sparse 2x2": ("word2vec_sparse", 2, 2, 100, 500, 100, 3, None),
    "CTR-DNN 2x2": ("ctr_dnn", 2, 2, 1000, 60, 25, 4, None),
    "CTR-DNN 2x2 async": ("ctr_dnn", 2, 2, 1000, 60, 25, 4, "async"),
    "CTR-DNN 2x2 half_async": ("ctr_dnn", 2, 2, 1000, 60, 25, 4, "half_async"),
    "CTR-DNN 2x2 geo": ("ctr_dnn", 2, 2, 1000, 300, 200, 3, "geo"),
    "skip-gram nce 2x2 async": ("skip_gram", 2, 2, 100, 2000, 400, 3, "async"),
}


def free_endpoints(n: int) -> list[str]:
    sockets = [socket.socket() for _ in range(n)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    found = [f"127.0.0.1:{s.getsockname()[1]}" for s in sockets]
    for s in sockets:
        s.close()
    return found


def peak_of(pid: int) -> float:
    """Peak memory of a running process, MB."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
        return int(text.split("VmHWM:")[1].split()[0]) / 1024
    except (OSError, IndexError, ValueError):
        return float("nan")


def wait_for_end(processes: list[subprocess.Popen], seconds: float) -> tuple[list[float], float | None]:
    """Peak memory of each process, MB, and how long it took until all had ended (None: not in that time)."""
    start, peaks, left = time.time(), {}, {p.pid: p for p in processes}
    while left and time.time() - start < seconds:
        for pid, process in list(left.items()):
            done, status, used = os.wait4(pid, os.WNOHANG)
            if done:
                process.returncode = os.waitstatus_to_exitcode(status)
                peaks[pid] = used.ru_maxrss / 1024
                del left[pid]
        time.sleep(0.001)
    took = None if left else time.time() - start
    peaks.update((pid, peak_of(pid)) for pid in left)
    return [peaks[p.pid] for p in processes], took


class JobFailed(Exception):
    """A process of the job failed; the text says which and why."""


def run_job(runner: Runner, name: str, quick: bool) -> dict:
    """Starts a job, waits for its end, returns what was measured."""
    work, servers, trainers, batch, our_steps, their_steps, _, strategy = JOBS[name]
    steps = our_steps if runner.is_cpaddle else their_steps
    if quick and strategy != "geo":
        steps = max(20, steps // 10)
    endpoints = ",".join(free_endpoints(servers))
    env = runners.environment(1, runner.env, runner.is_cpaddle)
    logs, processes = [], []

    def start(role: str, index: int) -> subprocess.Popen:
        log = tempfile.TemporaryFile("w+")
        logs.append((f"{role} {index}", log))
        command = [runner.python, str(BENCH / "cluster_child.py"), role, str(index), work, endpoints,
                   str(trainers), str(steps), runner.how, *([strategy] if strategy else [])]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, cwd=runners.scratch(), env=env)
        processes.append(process)
        return process

    born = time.time()
    serving = [start("server", i) for i in range(servers)]
    training = [start("trainer", i) for i in range(trainers)]
    try:
        said = []
        for process in training:
            out, _ = process.communicate(timeout=300)
            if process.returncode:
                raise JobFailed(f"a trainer ended with status {process.returncode}")
            said.append(json.loads(out.splitlines()[-1]))
        peaks, end = wait_for_end(serving, 2)
        return {
            "rate": trainers * steps * batch / max(s["seconds"] for s in said),
            "first": max(s["first"] for s in said) - born,
            "trainer_mb": max(s["peak_mb"] for s in said),
            "server_mb": max(peaks),
            "params_mb": said[0]["params_mb"],
            "end": end,
        }
    except (subprocess.TimeoutExpired, JobFailed) as error:
        words = []
        for who, log in logs:
            log.seek(0)
            lines = log.read().strip().splitlines()
            words.append(f"{who}: {lines[-1] if lines else '-'}")
        raise JobFailed(f"{error}; " + "; ".join(words)) from None
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
            process.wait()
        for _, log in logs:
            log.close()


def others_load() -> str:
    """A sentence when the machine was busy before anything was measured. Speeds then differ by factors, up and down."""
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    return (f"The machine was busy at the start (load {load:.1f} on {cores} cores): the speeds and times here "
            "mean nothing.\n") if load > cores / 2 else ""


def beside_before(results: dict) -> list[str]:
    """This build beside the other one, when there is one; in brackets what the other one takes."""
    rows = []
    for name, by in results.items():
        if OURS in by and BEFORE in by:
            now, old = by[OURS], by[BEFORE]
            cells = [name, f"{now['rate']:,.0f}", f"{old['rate']:,.0f}", f"{now['rate'] / old['rate']:.2f}x"]
            cells += [f"{now[key]:.{digits}f} ({old[key]:.{digits}f})"
                      for key, digits in (("first", 2), ("trainer_mb", 0), ("server_mb", 0))]
            rows.append("| " + " | ".join(cells) + " |")
    head = ["", "| job | samples/s | before | ratio | first step, s | trainer MB | server MB |", "|---|---|---|---|---|---|---|"]
    return head + rows if rows else []


def table(results: dict, rivals: list[Runner]) -> str:
    rows = [
        "| job | samples/s | paddle 1.8.5 | ratio | wanted | start to first step, s | parameters MB | trainer MB | server MB | "
        "servers gone after, s |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, by in results.items():
        ours, theirs = by.get(OURS), by.get(PADDLE)
        wanted = JOBS[name][6]
        ratio = ours["rate"] / theirs["rate"] if ours and theirs else None

        def show(value, digits=0):
            return "-" if value is None or value != value else f"{value:,.{digits}f}"

        def both(key, digits, nothing="-"):
            values = [show(by_one[key], digits) if by_one[key] is not None else nothing for by_one in (ours, theirs) if by_one]
            return values[0] + "".join(f" ({value})" for value in values[1:])

        rows.append(f"| {name} | {show(ours and ours['rate'])} | {show(theirs and theirs['rate'])} | "
                    f"{show(ratio, 1) + 'x' if ratio else '-'} | {f'{wanted}x' if wanted else '-'} | {both('first', 2)} | "
                    f"{show((ours or theirs)['params_mb'], 1)} | {both('trainer_mb', 0)} | {both('server_mb', 0)} | "
                    f"{both('end', 2, 'never')} |")
    rows += beside_before(results)
    note = "" if rivals else "\npaddlepaddle 1.8.5 is not installed here.\n"
    return "\n".join(rows) + "\n" + note


def publish(title: str, text: str, busy: str, figures, options) -> None:
    """Prints the tables, with the word on a busy machine, and writes the files that were asked for."""
    text += "\n" + busy if busy else ""
    print("\n" + text)
    if options.json:
        Path(options.json).write_text(json.dumps(figures, indent=1))
    if options.page:
        Path(options.page).write_text(f"# {title}\n\n" + text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=sorted(JOBS), help="one job; may be given again")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--no-faults", action="store_true", help="kill nobody")
    parser.add_argument("--quick", action="store_true", help="one round, a tenth of the steps")
    parser.add_argument("--json", help="every figure of every round")
    parser.add_argument("--page", help="the table as a page")
    options = parser.parse_args()
    rivals = [r for r in runners.rivals(print) if r.family == PADDLE and r.how == "cached" and "FLAGS_use_mkldnn" not in r.env]
    group = [*runners.builds(), *rivals]
    busy = others_load()
    print(busy, end="", flush=True)
    results: dict = {}
    rounds: dict = {}
    for name in options.only or JOBS:
        results[name] = {}
        for number in range(1 if options.quick else options.rounds):
            for runner in group:
                try:
                    got = run_job(runner, name, options.quick)
                except JobFailed as error:
                    print(f"{name}, {runner.name}: {error}", flush=True)
                    continue
                rounds.setdefault(name, {}).setdefault(runner.family, []).append(got)
                best = results[name].get(runner.family)
                if best is None or got["rate"] > best["rate"]:
                    results[name][runner.family] = got
                print(f"{name}, {runner.name}, round {number + 1}: {got['rate']:,.0f} samples/s, first step after "
                      f"{got['first']:.2f} s", flush=True)
    text = table(results, rivals)
    if not options.no_faults and not options.only:
        faults = {}
        for runner in [runner for runner in group if runner.family != BEFORE]:
            try:
                faults[runner.family] = cluster_faults.measure(runner, free_endpoints)
            except TimeoutError as error:
                print(f"{runner.name}: {error}", flush=True)
        rounds["faults"] = faults
        text += "\n" + cluster_faults.table(faults)
    publish("Jobs of several processes", text, busy, rounds, options)
    return 0


if __name__ == "__main__":
    os.chdir(BENCH)
    sys.exit(main())
