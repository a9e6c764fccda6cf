"""A child process that runs recipes (worker.py), started again when it has died."""

import contextlib
import os
import pickle
import select
import signal
import struct
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

WORKER = Path(__file__).with_name("worker.py")


class Died(Exception):
    """The child ended, or did not answer in time; the text says how, with the end of what it printed."""


def unpacked(values):
    """Arrays out of what worker.packed() made, at any depth."""
    if isinstance(values, tuple) and len(values) == 3 and isinstance(values[2], bytes):
        return np.frombuffer(values[2], values[0]).reshape(values[1])
    if isinstance(values, dict):
        return {key: unpacked(value) for key, value in values.items()}
    if isinstance(values, list):
        return [unpacked(value) for value in values]
    return values


class Child:
    """One interpreter with a worker in it."""

    def __init__(self, python: str, env: dict[str, str] | None = None, prefix: tuple[str, ...] = ()) -> None:
        self.command = [*prefix, python, str(WORKER)]
        self.env = os.environ | {"OMP_NUM_THREADS": "1"} | (env or {})
        self.process: subprocess.Popen | None = None

    def start(self) -> None:
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen(self.command, env=self.env, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.errors)

    def call(self, timeout: float = 60.0, **job) -> dict:
        """The answer to a job."""
        if self.process is None:
            self.start()
        text = pickle.dumps(job, protocol=2)
        deadline = time.monotonic() + timeout
        try:
            self.process.stdin.write(struct.pack("<q", len(text)) + text)
            self.process.stdin.flush()
            size = struct.unpack("<q", self.read(8, deadline))[0]
            return unpacked(pickle.loads(self.read(size, deadline)))
        except (BrokenPipeError, EOFError, TimeoutError) as error:
            raise Died(self.obituary(error)) from None

    def read(self, count: int, deadline: float) -> bytes:
        found = b""
        while len(found) < count:
            if not select.select([self.process.stdout], [], [], max(deadline - time.monotonic(), 0))[0]:
                raise TimeoutError
            part = os.read(self.process.stdout.fileno(), count - len(found))
            if not part:
                raise EOFError
            found += part
        return found

    def obituary(self, error: Exception) -> str:
        """How the child ended, after which it is gone."""
        late = isinstance(error, TimeoutError)
        if late:
            self.process.kill()
        status = self.process.wait()
        how = "no answer in time" if late else f"signal {signal.Signals(-status).name}" if status < 0 else f"status {status}"
        self.errors.seek(0)
        tail = self.errors.read().decode(errors="replace")[-6000:]
        self.close()
        return f"{how}\n{tail}"

    def close(self) -> None:
        if self.process is not None:
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.close()
            self.process.stdout.close()
            self.process.wait()
            self.errors.close()
            self.process = None

    def __enter__(self) -> "Child":
        return self

    def __exit__(self, *_) -> None:
        if self.process is not None:
            self.process.kill()
        self.close()
