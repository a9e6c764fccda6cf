"""The secret of a job: a file that only this user can read, made at the start and removed at the end.

A file, because what stands in the environment is soon in a log, and what stands in a command is in the list of processes.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import tempfile

VALUE, FILE = "PADDLE_PS_SECRET", "PADDLE_PS_SECRET_FILE"


def file_name() -> str:
    """Where the file of a new job will be: a name that is free."""
    return os.path.join(tempfile.gettempdir(), f"paddle-job-{os.getpid()}-{secrets.token_hex(4)}.secret")


def make(path: str) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(secrets.token_hex(32) + "\n")


def remove(path: str) -> None:
    if path:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
