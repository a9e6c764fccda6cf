"""What the environment says of a Trainer's job: with PADDLE_TRAINING_ROLE it is one process of a cluster.

PADDLE_TRAINING_ROLE: PSERVER or TRAINER. PADDLE_PSERVER_IPS: the servers, separated by commas.
PADDLE_PSERVER_PORT: their port (6174). PADDLE_TRAINERS: how many trainers there are. PADDLE_TRAINER_ID: the
number of this trainer. PADDLE_CURRENT_IP: which of the servers this one is.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from paddle.fluid.framework import Program
from paddle.fluid.transpiler import DistributeTranspiler
from paddle.fluid.transpiler.arguments import check_endpoint

_PORT = "6174"


@dataclass
class Cluster:
    """One process of a job, as its environment has it."""

    is_server: bool
    endpoints: list
    endpoint: str | None  # of this server
    trainers: int
    trainer_id: int | None  # None: the first server hands one out
    transpiler: DistributeTranspiler = field(default_factory=DistributeTranspiler)

    def transpile(self, program: Program, startup: Program) -> tuple[Program, Program]:
        """The main and the startup Program that this process runs."""
        t = self.transpiler
        t.transpile(
            self.trainer_id,
            program=program,
            pservers=self.endpoints,
            trainers=self.trainers,
            startup_program=startup,
        )
        if self.is_server:
            return t.get_pserver_programs(self.endpoint)
        return t.get_trainer_program(), startup


def _text(name: str, what_for: str) -> str:
    value = os.environ.get(name, "").strip()
    if not value:
        raise ValueError(f"PADDLE_TRAINING_ROLE is set, but {name} is not: set it to {what_for}.")
    return value


def _number(name: str, text: str, least: int) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < least:
        raise ValueError(f"{name} is {text!r}; it must be a whole number from {least} on.")
    return int(text)


def _endpoint(address: str, port: str) -> str:
    """Address and port; an IPv6 address gets its brackets, and one that has a port keeps it."""
    address = address.strip()
    if address.count(":") > 1 and not address.startswith("["):
        address = f"[{address}]"
    has_port = address.rpartition("]")[2].count(":") == 1
    return check_endpoint(address if has_port else f"{address}:{port}")


def from_environment() -> Cluster | None:
    """The cluster that this process belongs to; None when it trains alone."""
    if "PADDLE_TRAINER_IPS" in os.environ:
        raise ValueError(
            f"The environment has PADDLE_TRAINER_IPS={os.environ['PADDLE_TRAINER_IPS']!r}: trainers that "
            "average among themselves on GPUs are not part of this package. Take the variable away and use parameter "
            "servers: PADDLE_TRAINING_ROLE and PADDLE_PSERVER_IPS."
        )
    role = os.environ.get("PADDLE_TRAINING_ROLE")
    if role is None:
        return None
    if role not in ("PSERVER", "TRAINER"):
        raise ValueError(f"PADDLE_TRAINING_ROLE is {role!r}; it must be PSERVER or TRAINER.")
    port = os.environ.get("PADDLE_PSERVER_PORT", _PORT).strip()
    servers = _text("PADDLE_PSERVER_IPS", "the addresses of all servers, separated by commas")
    endpoints = [_endpoint(each, port) for each in servers.split(",")]
    trainers = _number("PADDLE_TRAINERS", _text("PADDLE_TRAINERS", "the number of trainers"), 1)
    endpoint = number = None
    if role == "PSERVER":
        endpoint = _endpoint(_text("PADDLE_CURRENT_IP", "the address of this server"), port)
        if endpoint not in endpoints:
            raise ValueError(
                f"PADDLE_CURRENT_IP makes this the server {endpoint}, which is not among those of "
                f"PADDLE_PSERVER_IPS: {', '.join(endpoints)}."
            )
    elif os.environ.get("PADDLE_TRAINER_ID", "").strip():
        number = _number("PADDLE_TRAINER_ID", os.environ["PADDLE_TRAINER_ID"].strip(), 0)
    elif trainers == 1:
        number = 0
    return Cluster(role == "PSERVER", endpoints, endpoint, trainers, number)
