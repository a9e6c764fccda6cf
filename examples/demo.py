"""The demonstration behind `make demo`: a whole cluster on this machine, with one command.

    python examples/demo.py [--model ctr|digits] [--servers 2] [--trainers 2] [--seconds 20 | --steps N]

Starts parameter servers and trainers as processes of their own (the scripts in examples/cluster, as they
are), shows how they go, and plots the loss. The clicks of `ctr` are made up; the digits come from the cache
folder of paddle.dataset when MNIST is there, else from the cut of MNIST in tests/data. Needs no network.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path

import demo_view
import numpy as np
import plot

HERE = Path(__file__).resolve().parent
CUT = HERE.parent / "tests" / "data"
PATIENCE = 10.0  # seconds that servers have to end after the last trainer
TICKS = os.sysconf("SC_CLK_TCK")
NEVER = "1000000000"


@dataclass
class Model:
    """What can be trained."""

    title: str
    script: str
    words: list[str]  # its options, for trainers and servers alike


MODELS = {
    "ctr": Model("CTR-DNN", "ctr_dnn.py", ["--rows", "100001", "--samples", NEVER]),
    "digits": Model("Digits, MLP 784-200-200-10", "recognize_digits.py", ["--passes", NEVER, "--model", ""]),
}


class Failed(Exception):
    """The job cannot go on."""


class Member:
    """One process of the job: its log, what it reported, what it used."""

    def __init__(self, name: str, command: list[str], env: dict[str, str], folder: Path):
        self.name, self.is_server = name, name.startswith("server")
        self.log, self.report = (folder / f"{name.replace(' ', '-')}.{end}" for end in ("log", "json"))
        self.records: list[dict] = []
        self.memory, self.cpu, self.busy = 0, 0.0, deque([(time.monotonic(), 0.0)], maxlen=20)
        self.read_to, self.is_ready = 0, False
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen([*command, "--report", str(self.report)], stdout=log, stderr=log,
                                            stdin=subprocess.DEVNULL, env=env)

    def look(self) -> None:
        """Takes in what is new."""
        self.read_usage()
        if self.is_server:
            self.is_ready = self.is_ready or b"Server listening on" in self.log.read_bytes()
        elif self.report.exists():
            with open(self.report, "rb") as file:
                file.seek(self.read_to)
                text = file.read()
            whole = text[: text.rfind(b"\n") + 1]  # the last line may be half written
            self.read_to += len(whole)
            self.records += map(json.loads, whole.splitlines())

    def read_usage(self) -> None:
        """Peak memory, and cores in use over the last second; stays as it was when the process is gone."""
        folder = Path("/proc", str(self.process.pid))
        try:
            status, stat = (folder / "status").read_text(), (folder / "stat").read_text()
        except OSError:
            return
        peak = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")]
        self.memory = 1024 * int(peak[0]) if peak else self.memory
        fields = stat.rpartition(")")[2].split()
        self.busy.append((time.monotonic(), (int(fields[11]) + int(fields[12])) / TICKS))
        (begin, before), (end, after) = self.busy[0], self.busy[-1]
        self.cpu = (after - before) / max(end - begin, 1e-9)

    @property
    def state(self) -> str:
        status = self.process.poll()
        if status is not None:
            return "failed" if status else "done"
        if self.is_server:
            return "serving" if self.is_ready else "starting"
        return "training" if self.records else "starting"

    @property
    def step(self) -> int:
        return self.records[-1]["step"] if self.records else 0

    @property
    def loss(self) -> float:
        return self.records[-1]["loss"] if self.records else float("nan")

    @property
    def speed(self) -> float:
        """Samples a second over the last two seconds."""
        last = self.records[-1]
        near = next((r for r in reversed(self.records) if r["at"] < last["at"] - 2), self.records[0])
        return (last["samples"] - near["samples"]) / max(last["at"] - near["at"], 1e-9)

    def last_words(self) -> str:
        """How it ended, and the end of its log."""
        status = self.process.returncode
        how = f"was ended by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
        lines = self.log.read_text(errors="replace").splitlines()[-15:]
        return "\n  ".join([f"{self.name} {how}. The end of its log, {self.log}:", *lines])


class Cluster:
    """All processes of the job; none is left when the block ends."""

    def __init__(self, model: Model, options: argparse.Namespace, folder: Path):
        endpoints = [f"127.0.0.1:{port}" for port in free_ports(options.servers)]
        words = [*model.words, "--steps", str(options.steps), "--seconds", str(options.seconds)]
        command = [sys.executable, str(HERE / "cluster" / model.script), *words]
        env = os.environ | data_folder() | {
            "PSERVERS": ",".join(endpoints), "PADDLE_TRAINERS": str(options.trainers),
            "FLAGS_ps_job": f"demo-{os.getpid()}",
        }
        env.setdefault("OMP_NUM_THREADS", str(max((os.cpu_count() or 1) // options.trainers, 1)))
        self.options, self.members, self.begin = options, [], time.monotonic()
        for i, endpoint in enumerate(endpoints):
            mine = {"TRAINING_ROLE": "PSERVER", "SERVER_ENDPOINT": endpoint}
            self.members.append(Member(f"server {i}", command, env | mine, folder))
        for i in range(options.trainers):
            mine = {"TRAINING_ROLE": "TRAINER", "PADDLE_TRAINER_ID": str(i)}
            self.members.append(Member(f"trainer {i}", command, env | mine, folder))
        self.trainers = self.members[options.servers :]

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *unused) -> None:
        """Asks those that still run to end, then makes them."""
        left = [member.process for member in self.members if member.process.poll() is None]
        for process in left:
            process.send_signal(signal.SIGINT)
        end = time.monotonic() + 0.5
        while time.monotonic() < end and any(process.poll() is None for process in left):
            time.sleep(0.01)
        for process in left:
            process.kill()
            process.wait()

    def run(self, view) -> None:
        """Until all have ended; the first one that fails ends the rest."""
        trained = None
        while any(member.process.poll() is None for member in self.members):
            self.look()
            view.show(self.members, *self.done())
            if trained is None and all(member.process.poll() is not None for member in self.trainers):
                trained = time.monotonic()
            if trained is not None and time.monotonic() > trained + PATIENCE:
                late = [member.name for member in self.members if member.process.poll() is None]
                raise Failed(f"{', '.join(late)}: still there {PATIENCE:.0f} s after the last trainer ended.")
            time.sleep(0.05)
        self.look()
        view.show(self.members, 1.0, "done", last=True)

    def look(self) -> None:
        for member in self.members:
            member.look()
        for member in self.members:
            if member.process.poll():
                raise Failed(member.last_words())

    def done(self) -> tuple[float, str]:
        """How much of the work is done, and what is left of it, in words."""
        if not all(member.records for member in self.trainers):
            return 0.0, "starting"
        if self.options.steps:
            step = min(member.step for member in self.trainers)
            return step / self.options.steps, f"{self.options.steps - step:,} steps left"
        spent = time.monotonic() - self.trainers[0].records[0]["at"]
        return spent / self.options.seconds, f"{max(self.options.seconds - spent, 0):.0f} s left"


def free_ports(count: int) -> list[int]:
    """Ports that the kernel says are free. They are held together, so that they differ."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def data_folder() -> dict[str, str]:
    """Where the digits are: MNIST when it was fetched before, else the cut that comes with the code."""
    cache = Path(os.path.expanduser(os.environ.get("PADDLE_DATASET_HOME") or "~/.cache/paddle/dataset"))
    has_mnist = (cache / "mnist" / "train-images-idx3-ubyte.gz").exists()
    return {} if has_mnist or not CUT.is_dir() else {"PADDLE_DATASET_HOME": str(CUT)}


def several(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("s" if count != 1 else "")


def result(title: str, cluster: Cluster, out: str) -> None:
    """Says how it went, and plots it."""
    losses = [[record["loss"] for record in member.records] for member in cluster.trainers]
    begin = max(member.records[0]["at"] for member in cluster.trainers)
    end = max(member.records[-1]["at"] for member in cluster.trainers)
    samples = sum(member.records[-1]["samples"] - member.records[0]["samples"] for member in cluster.trainers)
    speed = samples / max(end - begin, 1e-9)
    steps = min(map(len, losses))
    mean = np.mean([values[:steps] for values in losses], axis=0)
    tail = max(steps // 20, 1)
    print(f"Loss {mean[0]:.4f} -> {mean[-tail:].mean():.4f} in {steps:,} steps, {speed:,.0f} samples/s over "
          f"{several(len(losses), 'trainer')}, {begin - cluster.begin:.2f} s from start to first step.")
    peaks = [f"{member.name} {demo_view.megabytes(member.memory)}" for member in cluster.members]
    print(f"Peak memory: {', '.join(peaks)}.")
    tints = [(170, 205, 235), (240, 205, 165), (185, 225, 185), (225, 190, 225)]
    curves = [plot.Curve(range(1, len(values) + 1), values, member.name, tints[i % 4], 1.2)
              for i, (member, values) in enumerate(zip(cluster.trainers, losses))]
    smooth = plot.smooth(mean, keep=min(max(1 - 40 / steps, 0.5), 0.95))
    curves.append(plot.Curve(range(1, steps + 1), smooth, "mean", (31, 119, 180), 2.4))
    plot.save(out, curves, title=f"{title}: {speed:,.0f} samples/s", x_label="step", y_label="loss")
    print(f"The loss is plotted in {out}.")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=MODELS, default="ctr", help="click prediction or digits (ctr)")
    parser.add_argument("--servers", type=int, default=2, help="parameter servers (2)")
    parser.add_argument("--trainers", type=int, default=2, help="trainers (2)")
    parser.add_argument("--seconds", type=float, help="train so long (20, if there is no --steps)")
    parser.add_argument("--steps", type=int, help="train so many steps")
    parser.add_argument("--out", default="demo-loss.png", help="file for the plot (demo-loss.png)")
    options = parser.parse_args()
    for name in ("servers", "trainers", "seconds", "steps"):
        value = getattr(options, name)
        if value is not None and value <= 0:
            parser.error(f"--{name} is {value}; it must be more than 0")
    if options.seconds is None:
        options.seconds = 0 if options.steps else 20
    options.steps = options.steps or 0
    return options


def main() -> int:
    options = arguments()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    model = MODELS[options.model]
    title = f"{model.title}, {several(options.servers, 'server')} x {several(options.trainers, 'trainer')}"
    print(f"{title}, as processes of their own on this machine", flush=True)
    folder = Path(tempfile.mkdtemp(prefix="paddle-demo-"))
    try:
        with Cluster(model, options, folder) as cluster:
            cluster.run(demo_view.view())
        result(title, cluster, options.out)
    except Failed as error:
        print(error, file=sys.stderr)
        return 1  # the logs stay
    except BaseException:
        shutil.rmtree(folder)
        raise
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("\nStopped.")
        sys.exit(130)
