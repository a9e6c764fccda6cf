"""The demonstration behind `make demo`: trains a model, shows how it goes, and plots the loss.

    python examples/demo.py [--model digits|ctr] [--passes N] [--out loss.png]

The digits come from the cache folder of paddle.dataset when MNIST is there, else from the cut of MNIST in
tests/data. The clicks of `ctr` are made up. Needs no network.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
CUT = HERE.parent / "tests" / "data"
CACHE = Path(os.path.expanduser(os.environ.get("PADDLE_DATASET_HOME") or "~/.cache/paddle/dataset"))
if not (CACHE / "mnist" / "train-images-idx3-ubyte.gz").exists() and (CUT / "mnist").is_dir():
    os.environ["PADDLE_DATASET_HOME"] = str(CUT)  # read when paddle.dataset is imported
    warnings.filterwarnings("ignore", "paddle.dataset: .* has md5")  # a cut has another one

import clicks
import ctr_dnn
import numpy as np
import paddle
import paddle.fluid as fluid
import plot
import recognize_digits


class Progress:
    """One line that is rewritten on a terminal; elsewhere a plain line now and then."""

    def __init__(self, total: int, stream=None):
        self.stream = stream or sys.stdout
        self.total = total
        self.live = self.stream.isatty()
        self.colored = self.live and not os.environ.get("NO_COLOR")
        self.next = 0.0

    def paint(self, code: str, text: str) -> str:
        return f"\033[{code}m{text}\033[0m" if self.colored else text

    def show(self, step: int, begin: float, samples: int, facts: str, last: bool = False) -> None:
        """Shows the state after `step` steps; does nothing when it was shown a moment ago."""
        now = time.monotonic()
        if now < self.next and not last:
            return
        self.next = now + (0.1 if self.live else 1.0)
        speed = samples / max(now - begin, 1e-9)
        left = (now - begin) / step * (self.total - step)
        text = f"step {step:,}/{self.total:,}  {speed:>9,.0f} samples/s  {facts}  ETA {clock(left)}"
        if not self.live:
            print(text, file=self.stream, flush=True)
            return
        width = shutil.get_terminal_size().columns
        cells = max(min(width - len(text) - 4, 30), 0)
        done = round(cells * step / self.total)
        bar = self.paint("32", "█" * done) + "░" * (cells - done) + "  " if cells > 4 else ""
        print(f"\r{bar}{text[: width - 1]}\033[K", end="\n" if last else "", file=self.stream, flush=True)


def clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


@dataclass
class Job:
    """What is trained: fetched values, batches of one pass as feeds, and how to say how good it is."""

    title: str
    loss: object
    fetches: list
    batches: list[tuple[dict, int]]
    score_name: str
    score: object  # called with the values fetched last, gives a number
    steps: int  # about so many, where the user does not say
    test: object = None  # called with the executor after each pass
    losses: list[float] = field(default_factory=list)


def digits(batch_size: int) -> Job:
    """The MLP on MNIST."""
    image = fluid.layers.data(name="img", shape=[1, 28, 28], dtype="float32")
    label = fluid.layers.data(name="label", shape=[1], dtype="int64")
    _, loss, accuracy = recognize_digits.mlp(image, label)
    test_program = fluid.default_main_program().clone(for_test=True)
    fluid.optimizer.Adam(learning_rate=0.001).minimize(loss)
    feeder = fluid.DataFeeder(feed_list=[image, label], place=fluid.CPUPlace())
    train = paddle.reader.shuffle(paddle.dataset.mnist.train(), buf_size=8192)
    batches = [(feeder.feed(batch), len(batch)) for batch in paddle.batch(train, batch_size)()]

    def test(exe) -> float:
        return recognize_digits.test(exe, test_program, feeder, [loss, accuracy], batch_size)[1]

    recent: list[float] = []

    def score(values) -> float:
        recent.append(values[1].item())
        return float(np.mean(recent[-len(batches) :]))

    return Job("Digits, MLP 784-200-200-10", loss, [loss, accuracy], batches, "accuracy", score, 1280, test)


def ctr(batch_size: int) -> Job:
    """CTR-DNN on made-up clicks."""
    options = argparse.Namespace(rows=100001, width=10)
    feeds, loss, accuracy, auc = ctr_dnn.network(options)
    fluid.optimizer.Adam(learning_rate=0.001, lazy_mode=True).minimize(loss)
    feeder = fluid.DataFeeder(feed_list=feeds, place=fluid.CPUPlace())
    source = clicks.made_up(20000, options.rows)
    batches = [(feeder.feed(batch), len(batch)) for batch in paddle.batch(source, batch_size)()]
    return Job("Clicks, CTR-DNN", loss, [loss, auc], batches, "AUC",
               lambda values: values[1].item(), 200)


def train(job: Job, passes: int) -> tuple[float, float, float | None]:
    """Trains; returns samples a second, the last score and the last score on test data."""
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    total = passes * len(job.batches)
    progress = Progress(total)
    step = samples = 0
    tested, outside = None, 0.0
    begin = time.monotonic()
    for _ in range(passes):
        for feed, size in job.batches:
            values = exe.run(feed=feed, fetch_list=job.fetches)
            step, samples = step + 1, samples + size
            job.losses.append(values[0].item())
            score = job.score(values)
            facts = f"loss {job.losses[-1]:.4f}  {job.score_name} {score:.4f}"
            if tested is not None:
                facts += f"  test {tested:.4f}"
            progress.show(step, begin + outside, samples, facts, last=step == total)
        if job.test:
            before = time.monotonic()
            tested = job.test(exe)
            outside += time.monotonic() - before
    return samples / (time.monotonic() - begin - outside), score, tested


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=["digits", "ctr"], default="digits")
    parser.add_argument("--passes", type=int, help="times over the data (cut of MNIST 40, all 1; ctr 10)")
    parser.add_argument("--batch-size", type=int, help="samples in a step (digits 64, ctr 1000)")
    parser.add_argument("--out", default="demo-loss.png", help="file for the plot (demo-loss.png)")
    options = parser.parse_args()
    if options.passes is not None and options.passes < 1:
        parser.error(f"--passes is {options.passes}; give 1 or more")

    job = digits(options.batch_size or 64) if options.model == "digits" else ctr(options.batch_size or 1000)
    passes = options.passes or max(1, job.steps // len(job.batches))
    size = sum(count for _, count in job.batches)
    print(f"{job.title}: {size:,} samples, {passes} passes of {len(job.batches)} steps", flush=True)
    speed, score, tested = train(job, passes)

    good = f"{job.score_name} {score:.4f}"
    if tested is not None:
        good += f", on test data {tested:.4f}"
    steps = range(1, len(job.losses) + 1)
    plot.save(options.out, [plot.Curve(steps, job.losses, "each step", (170, 205, 235), 1.2),
                            plot.Curve(steps, plot.smooth(job.losses), "mean", (31, 119, 180), 2.4)],
              title=f"{job.title}: {good}", x_label="step", y_label="loss")
    print(f"Loss {job.losses[0]:.4f} -> {np.mean(job.losses[-len(job.batches):]):.4f}, {good}, "
          f"{speed:,.0f} samples/s.")
    print(f"The loss is plotted in {options.out}.")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("\nStopped.")
        sys.exit(130)
