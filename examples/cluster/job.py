"""What the cluster examples share: who this process is, its share of the data, and how it goes.

All processes of a job run the same script. They differ in these environment variables:

    PSERVERS            all servers, HOST:PORT,HOST:PORT,...; the same in every process (127.0.0.1:6174)
    PADDLE_TRAINERS     the number of trainers; the same in every process (2)
    TRAINING_ROLE       PSERVER or TRAINER (TRAINER)
    SERVER_ENDPOINT     of a server: the one of PSERVERS that is its own
    PADDLE_TRAINER_ID   of a trainer: its number, from 0 on
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import time
from dataclasses import dataclass

import paddle.fluid as fluid


@dataclass
class Job:
    """The environment variables, checked."""

    servers: str
    trainers: int
    is_server: bool
    endpoint: str
    trainer_id: int

    def transpile(self) -> fluid.DistributeTranspiler:
        """Cuts the default Programs into those of trainers and servers; a server serves and ends here."""
        t = fluid.DistributeTranspiler()
        t.transpile(self.trainer_id, pservers=self.servers, trainers=self.trainers)
        if self.is_server:
            main, startup = t.get_pserver_programs(self.endpoint)
            exe = fluid.Executor(fluid.CPUPlace())
            exe.run(startup)
            exe.run(main)  # ends the process when all trainers have ended
        return t

    def share(self, reader):
        """A reader of the samples that belong to this trainer: every n-th one of n trainers."""
        return lambda: itertools.islice(reader(), self.trainer_id, None, self.trainers)


def whole_number(name: str, default: str | None, least: int) -> int:
    text = os.environ.get(name) or default
    if text is None:
        sys.exit(f"{name} is not set; it must be a whole number from {least} on.")
    if not text.isdecimal() or int(text) < least:
        sys.exit(f"{name} is {text!r}; it must be a whole number from {least} on.")
    return int(text)


def from_environment() -> Job:
    """Who this process is; ends it with a message when that is not clear."""
    role = os.environ.get("TRAINING_ROLE", "TRAINER")
    if role not in ("PSERVER", "TRAINER"):
        sys.exit(f"TRAINING_ROLE is {role!r}; it must be PSERVER or TRAINER.")
    is_server = role == "PSERVER"
    endpoint = os.environ.get("SERVER_ENDPOINT", "")
    if is_server and not endpoint:
        sys.exit("SERVER_ENDPOINT is not set; a server needs the one of PSERVERS that is its own.")
    trainers = whole_number("PADDLE_TRAINERS", "2", 1)
    trainer_id = 0 if is_server else whole_number("PADDLE_TRAINER_ID", None, 0)
    if trainer_id >= trainers:
        sys.exit(f"PADDLE_TRAINER_ID is {trainer_id}; with PADDLE_TRAINERS={trainers} it must be from 0 to {trainers - 1}.")
    servers = [each.strip() for each in os.environ.get("PSERVERS", "127.0.0.1:6174").split(",")]
    for each in servers:
        host, _, port = each.rpartition(":")
        if not host or not port.isdecimal():
            sys.exit(f"PSERVERS has {each!r}; it must be HOST:PORT,HOST:PORT,... with all servers of the job.")
    if is_server and endpoint not in servers:
        sys.exit(f"SERVER_ENDPOINT is {endpoint!r}; it must be one of PSERVERS: {', '.join(servers)}.")
    return Job(",".join(servers), trainers, is_server, endpoint, trainer_id)


def parser(about: str, batch_size: int) -> argparse.ArgumentParser:
    """The command line that all of these examples have."""
    found = argparse.ArgumentParser(description=about.splitlines()[0])
    found.add_argument("--passes", type=int, default=1, help="times over the data")
    found.add_argument("--steps", type=int, default=0, help="stop after so many steps; 0: never")
    found.add_argument("--seconds", type=float, default=0, help="stop so long after the first step; 0: never")
    found.add_argument("--batch-size", type=int, default=batch_size, help="samples in a step of one trainer")
    found.add_argument("--every", type=int, default=100, help="steps between two lines")
    found.add_argument("--report", help="file for a line of JSON after each step")
    return found


class Progress:
    """Goes over the data and tells how it goes."""

    def __init__(self, job: Job, options: argparse.Namespace):
        self.job, self.options = job, options
        self.report = open(options.report, "w", buffering=1) if options.report else None
        self.step = self.samples = self.number = 0
        self.begin = 0.0

    def over(self, reader):
        """The batches of all passes, until --steps or --seconds are over."""
        for self.number in range(self.options.passes):
            for batch in reader():
                yield batch
                if self.is_over():
                    return

    def is_over(self) -> bool:
        options = self.options
        late = options.seconds and time.monotonic() - self.begin > options.seconds
        return bool(late) or self.step == options.steps

    def note(self, samples: int, **values: float) -> None:
        """A step is done: `samples` in it, and what was fetched, the loss first."""
        now = time.monotonic()
        self.begin = self.begin or now
        if self.step % self.options.every == 0:
            texts = ", ".join(f"{name} {value:.4f}" for name, value in values.items())
            print(f"trainer {self.job.trainer_id}, pass {self.number}, step {self.step}: {texts}", flush=True)
        self.step, self.samples = self.step + 1, self.samples + samples
        if self.report:
            facts = {"step": self.step, "samples": self.samples, "at": now, **values}
            self.report.write(json.dumps(facts) + "\n")
