"""What is known of a running job, for who watches it: processes as the engine has them, servers as they tell of themselves, workers
as they report. Nothing here holds anybody up who trains: servers are asked as `paddle ps status` does, workers only write a file.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import tempfile
import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from paddle.distributed.job import SERVER, WORKER, Job, progress_file
from paddle.distributed.show import ending
from paddle.distributed.summary import Running

FRESH = 1.0  # seconds; what was asked so lately is not asked again
POINTS = 600  # of a curve; then every second one of its older half goes
READ_AT_ONCE = 1 << 20

# ---- the folder by which processes tell each other: job.json of the engine, worker.N of each worker ----


def folder_name() -> str:
    """Where the folder of a new job will be: a name that is free."""
    return os.path.join(tempfile.gettempdir(), f"paddle-job-{os.getpid()}-{secrets.token_hex(4)}.reports")


def make_folder(folder: str) -> None:
    os.mkdir(folder, 0o700)


def remove_folder(folder: str) -> None:
    if folder:
        shutil.rmtree(folder, ignore_errors=True)


def _state(each: Running, is_stopping: bool) -> str:
    if each.again_at is not None:
        return "starting"
    if each.pid:
        return "ending" if is_stopping or each.asked else "running"
    return "starting" if each.status is None else "failed" if each.has_failed else "ended"


def write_state(folder: str, all_of_them: Iterable[Running], is_stopping: bool, before: str) -> str:
    """What the engine knows, written anew where that differs from `before`; returns it."""
    rows = [{"role": each.process.role, "id": each.process.index, "state": _state(each, is_stopping), "pid": each.pid or None,
             "starts": each.starts, "how": "" if each.status is None or each.pid else ending(each.status)} for each in all_of_them]
    text = json.dumps({"state": "ending" if is_stopping else "running", "processes": rows})
    if text != before:
        with contextlib.suppress(OSError):
            Path(folder, "job.part").write_text(text)
            os.replace(Path(folder, "job.part"), Path(folder, "job.json"))
    return text


# ---- a worker ----


class Worker:
    """Reads what a worker appends to its file."""

    def __init__(self, path: str, began: float):
        self.path, self.began, self.at, self.rest = path, began, 0, b""
        self.last: dict[str, Any] = {}
        self.curve: list[dict[str, float]] = []

    def read(self) -> None:
        try:
            with open(self.path, "rb") as file:
                file.seek(self.at)
                more = file.read(READ_AT_ONCE)
        except OSError:
            return  # it has not said anything yet
        self.at += len(more)
        *lines, self.rest = (self.rest + more).split(b"\n")
        for line in lines:
            with contextlib.suppress(ValueError, TypeError, KeyError, AttributeError):
                self._take(json.loads(line))

    def _take(self, record: dict[str, Any]) -> None:
        values = {str(name): float(value) for name, value in record.get("values", {}).items() if value is not None}
        rate = {"samples/s": float(record["samples_per_second"])} if record.get("samples_per_second") is not None else {}
        self.curve.append({"seconds": round(float(record["time"]) - self.began, 3), **rate, **values})
        self.last = {**record, "values": values}
        if len(self.curve) > POINTS:
            half = POINTS // 2
            self.curve = self.curve[:half:2] + self.curve[half:]

    def shown(self, since: float) -> dict[str, Any]:
        """For the page; of the curve only what is newer."""
        row = {name: self.last[name] for name in ("samples", "samples_per_second", "batches", "part", "seconds_left", "reading")
               if name in self.last}
        for name, value in self.last.get("values", {}).items():
            for known in ("loss", "auc"):
                if known in name.lower():
                    row.setdefault(known, value)
        return {**row, "curve": [point for point in self.curve if point["seconds"] > since]}


# ---- the job ----


class Watched:
    """Gathers when somebody asks, and at most once in FRESH seconds."""

    def __init__(self, job: Job, folder: str, name: str):
        self.job, self.folder, self.name = job, folder, name
        self.began, self.read_at, self.asked_at = time.time(), 0.0, 0.0
        self.lock, self.asking = threading.Lock(), threading.Lock()
        self.pool = ThreadPoolExecutor(min(16, max(1, len(job.servers.endpoints))), "ask")
        self.workers = [Worker(progress_file(folder, i), self.began) for i in range(len(job.workers.endpoints))]
        self.servers: list[dict[str, Any]] = []
        self.state: dict[str, Any] = {"state": "starting", "processes": []}

    def gather(self) -> None:
        """What lies in files: processes and workers."""
        with self.lock:
            if time.monotonic() - self.read_at < FRESH:
                return
            with contextlib.suppress(OSError, ValueError):
                self.state = json.loads(Path(self.folder, "job.json").read_text())
            for worker in self.workers:
                worker.read()
            self.read_at = time.monotonic()

    def gather_servers(self) -> None:
        """What servers answer. One that is stopped takes seconds; who asks for files does not wait for it."""
        with self.asking:
            if time.monotonic() - self.asked_at < FRESH:
                return
            self.servers = list(self.pool.map(self._ask, range(len(self.job.servers.endpoints))))
            self.asked_at = time.monotonic()

    def process(self, role: str, index: int) -> dict[str, Any]:
        """As the engine has it; empty for those of other machines."""
        return next((row for row in self.state["processes"] if (row["role"], row["id"]) == (role, index)), {})

    def _ask(self, index: int) -> dict[str, Any]:
        from paddle import _core

        endpoint, process = str(self.job.servers.endpoints[index]), self.process(SERVER, index)
        bare = {"endpoint": endpoint, **{key: process[key] for key in ("state", "pid", "starts") if key in process}}
        if process.get("state") in ("ended", "failed", "starting"):
            return {**bare, "failure": f"it {process['how']}" if process["state"] == "failed" else ""}
        try:
            return {**json.loads(_core.ps_status(endpoint)), "endpoint": endpoint}
        except Exception as why:  # whatever it is, it is told
            return {**bare, "state": "away", "unreachable": str(why)}

    def shown(self, since: float = -1.0) -> dict[str, Any]:
        """The whole job, for /status.json."""
        self.gather()
        self.gather_servers()
        with self.lock:
            workers = []
            for index, worker in enumerate(self.workers):
                row = self.process(WORKER, index) or {"state": "elsewhere"}
                workers.append({"id": index, "state": row["state"], "pid": row.get("pid"), "starts": row.get("starts"),
                                "how": row.get("how", ""), **worker.shown(since)})
            has_failed = any(row["state"] == "failed" for row in self.state["processes"])
            return {"name": self.name, "state": "failed" if has_failed else self.state["state"], "pid": os.getpid(),
                    "uptime_s": round(time.time() - self.began, 3), "servers": self.servers, "workers": workers}

    def why_not_ready(self) -> str:
        """Empty: all servers of the job take trainers, and no process of it has failed."""
        job = self.shown(float("inf"))
        if job["state"] != "running":
            return f"the job is {job['state']}"
        late = [f"server {each['endpoint']}: {each.get('unreachable') or each.get('failure') or each['state']}"
                for each in job["servers"] if each["state"] != "running"]
        return "; ".join(late)


# ---- /metrics ----


def _label(text: Any) -> str:
    return str(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


FAMILIES: Sequence[tuple[str, str, str]] = (
    ("job_processes", "gauge", "Processes of this machine by role and state."),
    ("job_process_starts_total", "counter", "How often a process was started."),
    ("train_examples_total", "counter", "Samples that a worker has trained in its present run over data."),
    ("train_examples_per_second", "gauge", "Of the last second that it told of."),
    ("train_eta_seconds", "gauge", "Until its present run over data ends."),
    ("train_step_seconds", "summary", "Time of its threads by phase: reading or computing."),
    ("train_value", "gauge", "Numbers that it shows: loss, AUC."),
)


def metrics(watched: Watched) -> str:
    """Of the launcher; servers have their own (FLAGS_ps_http)."""
    watched.gather()
    rows: dict[str, list[str]] = {name: [] for name, _, _ in FAMILIES}
    with watched.lock:
        states: dict[tuple[str, str], int] = {}
        for each in watched.state["processes"]:
            key = each["role"], each["state"]
            states[key] = states.get(key, 0) + 1
            rows["job_process_starts_total"].append(
                f'job_process_starts_total{{role="{each["role"]}",id="{each["id"]}"}} {each["starts"]}')
        rows["job_processes"] = [f'job_processes{{role="{role}",state="{state}"}} {n}' for (role, state), n in states.items()]
        for index, worker in enumerate(watched.workers):
            last, who = worker.last, f'worker="{index}"'
            for name, key in (("train_examples_total", "samples"), ("train_examples_per_second", "samples_per_second"),
                              ("train_eta_seconds", "seconds_left")):
                if last.get(key) is not None:
                    rows[name].append(f"{name}{{{who}}} {last[key]}")
            for phase, key in (("reading", "read_seconds"), ("computing", "run_seconds")):
                if key in last:
                    rows["train_step_seconds"] += [f'train_step_seconds_sum{{{who},phase="{phase}"}} {last[key]}',
                                                   f'train_step_seconds_count{{{who},phase="{phase}"}} {last["batches"]}']
            rows["train_value"] += [f'train_value{{{who},name="{_label(name)}"}} {value!r}'
                                    for name, value in last.get("values", {}).items()]
    text = []
    for name, kind, help_text in FAMILIES:
        if rows[name]:
            text += [f"# HELP {name} {help_text}", f"# TYPE {name} {kind}", *rows[name]]
    return "\n".join(text) + "\n"
