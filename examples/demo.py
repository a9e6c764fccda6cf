"""The demonstration behind `make demo`: click prediction on a whole cluster on this machine, with one command.

    python examples/demo.py [--model ctr_dnn|wide_deep|deepfm|dcn] [--servers 2] [--workers 2] [--samples 500000]

Makes up clicks, starts servers and workers by `paddle launch local` (the scripts of the examples with --is_cloud=1, as they are),
shows how they go, and plots loss and AUC. Needs no network.
"""

from __future__ import annotations

import argparse
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import demo_view
import numpy as np
import plot
from demo_members import Member, find_members

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "ctr_dnn"))
import generate  # noqa: E402

ROWS = 200001


@dataclass
class Model:
    """What can be trained."""

    title: str
    script: str


MODELS = {
    "ctr_dnn": Model("CTR-DNN", "ctr_dnn/train.py"),
    "wide_deep": Model("Wide & deep", "wide_deep.py"),
    "deepfm": Model("DeepFM", "deepfm.py"),
    "dcn": Model("Deep & cross", "dcn.py"),
}


class Failed(Exception):
    """The job has ended with a status that is not 0."""

    def __init__(self, status: int, text: str):
        super().__init__(text)
        self.status = status


class Cluster:
    """The launcher and the processes that it starts; none is left when the block ends."""

    def __init__(self, options: argparse.Namespace, folder: Path):
        self.options, self.folder, self.began = options, folder, time.time()
        self.errors = folder / "launcher.err"
        words = {name: getattr(options, name) for name in (
            "strategy", "data", "samples", "test_samples", "parts", "seed", "rows", "passes", "batch_size")}
        command = [sys.executable, "-m", "paddle.distributed.cli", "local", f"--server_num={options.servers}",
                   f"--worker_num={options.workers}", f"--log_dir={folder / 'logs'}", "--follow=none", "--grace=5",
                   str(HERE / MODELS[options.model].script), "--is_cloud=1", f"--report={folder / 'report'}",
                   *(f"--{name}={value}" for name, value in words.items())]
        with open(self.errors, "w") as errors:
            # A group of its own: Ctrl-C on a terminal comes here alone, and the launcher gets it from here, once.
            self.launcher = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors,
                                             process_group=0)
        names = [f"server {i}" for i in range(options.servers)] + [f"worker {i}" for i in range(options.workers)]
        self.members = [Member(name, folder) for name in names]
        self.workers = self.members[options.servers :]

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *unused) -> None:
        """The launcher ends its job, also when it is killed."""
        if self.launcher.poll() is None:
            self.launcher.send_signal(signal.SIGINT)
            try:
                self.launcher.wait(20)
            except subprocess.TimeoutExpired:
                self.launcher.kill()
                self.launcher.wait()

    def run(self, view) -> None:
        """Until the job has ended."""
        while self.launcher.poll() is None:
            self.look()
            view.show(self.members, *self.done())
            time.sleep(0.05)
        for member in self.members:
            member.end()
        if self.launcher.returncode:
            raise Failed(self.launcher.returncode, self.errors.read_text(errors="replace"))
        view.show(self.members, 1.0, "done", last=True)

    def look(self) -> None:
        pids = find_members(self.launcher.pid)
        for member in self.members:
            member.look(pids.get(member.name))

    def done(self) -> tuple[float, str]:
        """How much of the work is done, and what is left of it, in words."""
        if not all(member.records for member in self.workers):
            return 0.0, "starting"
        wanted = self.options.samples * self.options.passes
        samples = sum(member.samples for member in self.workers)
        if all(member.state in ("testing", "done") for member in self.workers):
            return 1.0, "testing"
        speed = sum(member.speed for member in self.workers)
        return samples / wanted, f"{max(wanted - samples, 0) / speed:.0f} s left" if speed else ""


def several(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("s" if count != 1 else "")


def mean_of(members: list[Member], begin: float, end: float, name: str) -> tuple[np.ndarray, np.ndarray]:
    """A value of all workers over time, at 100 points from the first second to the last one."""
    points = np.linspace(begin, end, 100)
    values = [np.interp(points, [record["at"] for record in member.records], [record[name] for record in member.records])
              for member in members]
    return points, np.mean(values, axis=0)


def result(cluster: Cluster, out: str) -> None:
    """Says how it went, and plots it."""
    options, workers = cluster.options, cluster.workers
    begin = max(member.records[0]["at"] for member in workers)
    end = max(member.records[-1]["at"] for member in workers)
    samples = sum(member.samples - member.records[0]["samples"] for member in workers)
    speed = samples / max(end - begin, 1e-9)
    tests = [float(text) for text in re.findall(r"test AUC ([\d.]+)", workers[0].log.read_text())]
    tints = {"loss": [(170, 205, 235), (150, 190, 225)], "AUC": [(240, 205, 165), (235, 190, 150)]}
    curves, ends = [], {}
    for name, color in (("loss", (31, 119, 180)), ("AUC", (230, 110, 20))):
        for i, member in enumerate(workers):
            curves.append(plot.Curve([record["at"] - begin for record in member.records],
                                     [record[name] for record in member.records], "", tints[name][i % 2], 1.2))
        points, values = mean_of(workers, begin, end, name)
        smooth = plot.smooth(values, keep=0.8) if name == "loss" else values
        curves.append(plot.Curve(points - begin, smooth, name, color, 2.4))
        ends[name] = values[0], smooth[-1]
    print(f"Loss {ends['loss'][0]:.4f} -> {ends['loss'][1]:.4f} over {options.samples * options.passes:,} samples, "
          f"{speed:,.0f} samples/s of {several(len(workers), 'worker')}, {begin - cluster.began:.2f} s from start to first step.")
    print(f"AUC {tests[-1]:.4f} over {options.test_samples:,} samples that nobody trained on.")
    peaks = [f"{member.name} {demo_view.megabytes(member.memory)}" for member in cluster.members]
    print(f"Peak memory: {', '.join(peaks)}.")
    title = f"{MODELS[options.model].title}: {speed:,.0f} samples/s, AUC {tests[-1]:.3f} in the test"
    plot.save(out, curves, title=title, x_label="seconds", y_label="loss, AUC", legend=0.4)
    print(f"Loss and AUC are plotted in {out}.")


def arguments(folder: Path) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=MODELS, default="ctr_dnn", help="what is trained (ctr_dnn)")
    parser.add_argument("--strategy", choices=["sync", "async", "half_async", "geo"], default="sync", help="of the job (sync)")
    parser.add_argument("--servers", type=int, default=2, help="parameter servers (2)")
    parser.add_argument("--workers", type=int, default=2, help="workers (2)")
    parser.add_argument("--samples", type=int, default=500000, help="made-up samples to train on (500000)")
    parser.add_argument("--passes", type=int, default=1, help="times over them (1)")
    parser.add_argument("--batch_size", type=int, default=1000, help="samples in a step of one worker (1000)")
    parser.add_argument("--out", default="demo-loss.png", help="file for the plot (demo-loss.png)")
    options = parser.parse_args()
    for name in ("servers", "workers", "samples", "passes", "batch_size"):
        if getattr(options, name) <= 0:
            parser.error(f"--{name} is {getattr(options, name)}; it must be more than 0")
    options.test_samples, options.seed, options.rows, options.data = max(options.samples // 10, 1000), 1, ROWS, str(folder / "data")
    options.parts = options.workers  # one file each, of one size: in a sync job all make the same number of steps
    return options


def main() -> int:
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    folder = Path(tempfile.mkdtemp(prefix="paddle-demo-"))
    try:
        options = arguments(folder)
        title = f"{MODELS[options.model].title}, {several(options.servers, 'server')} x {several(options.workers, 'worker')}"
        print(f"{title}, {options.strategy}, as processes of their own on this machine", flush=True)
        begin = time.monotonic()
        generate.make(options, tells=False)
        print(f"Made up {options.samples + options.test_samples:,} clicks in {time.monotonic() - begin:.1f} s.", flush=True)
        with Cluster(options, folder) as cluster:
            cluster.run(demo_view.view())
        result(cluster, options.out)
    except Failed as error:
        shutil.rmtree(folder / "data", ignore_errors=True)
        print(f"{str(error).rstrip()}\nThe logs are in {folder / 'logs'}.", file=sys.stderr)
        return error.status
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("\nStopped.")
        sys.exit(130)
