"""A parameter past 4 GiB on a server: all of it travels, and the job gives what one process gives."""

import os
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "python"))

from cluster import JOBS, Job  # noqa: E402
from ps_peer import memory  # noqa: E402

ROWS, WIDTH, STEPS = 140_000_000, 8, 2
TABLE = ROWS * WIDTH * 4  # 4.48 GB
TOUCHED = [0, 5, *(ROWS // 2 + step for step in range(STEPS)), ROWS - 1]


def losses(text: str) -> list[float]:
    return [float(value) for value in re.findall(r"loss (\S+)", text)]


def touched(path: Path) -> dict[int, np.ndarray]:
    """The rows of a saved table that training has changed."""
    size = os.path.getsize(path)
    assert TABLE < size < TABLE + 200, size
    rows = np.memmap(path, "float32", "r", size - TABLE, (ROWS, WIDTH))
    found = {}
    for begin in range(0, ROWS, 10_000_000):
        part = rows[begin : begin + 10_000_000]
        for row in np.flatnonzero((part != np.float32(0.01)).any(axis=1)):
            found[begin + int(row)] = np.array(part[row])
    return found


def available_gib() -> float:
    """Memory that processes can still have."""
    text = Path("/proc/meminfo").read_text()
    return int(re.search(r"MemAvailable: +(\d+)", text)[1]) / 2**20


class Peaks(threading.Thread):
    """The most memory that each process of a job has had, looked at until all have ended."""

    def __init__(self, job: Job):
        super().__init__(daemon=True)
        self.job, self.kib = job, {}
        self.start()

    def run(self) -> None:
        while any(p.process.poll() is None for p in self.job.processes):
            for p in self.job.processes:
                try:
                    self.kib[p.name] = memory(p.pid)
                except (LookupError, OSError):
                    pass  # it has ended
            time.sleep(0.05)


@pytest.mark.parametrize("kind, transport", [("dense", "tcp"), ("dense", "shm"), ("sparse", "shm")])
def test_a_table_past_4_gib(tmp_path, record_property, kind, transport):
    """Dense: 4.48 GB are pushed and pulled in each step. Sparse: the trainer pulls all to save it."""
    if available_gib() < 15:
        pytest.skip(f"needs 15 GiB of memory, {available_gib():.1f} are free")
    words = ["--rows", str(ROWS), "--width", str(WIDTH), "--steps", str(STEPS), *(["--sparse"] if kind == "sparse" else [])]
    try:
        command = [sys.executable, str(JOBS / "big_table.py"), "single", *words, "--save", str(tmp_path / "one")]
        one = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert one.returncode == 0, one.stderr
        want = touched(tmp_path / "one" / "table")
        assert sorted(want) == TOUCHED
        shutil.rmtree(tmp_path / "one")
        begin = time.monotonic()
        with Job(1, 1, script="big_table.py", env={"PADDLE_PS_TRANSPORT": transport}) as job:
            server = job.start("server", 0, *words)
            trainer = job.start("trainer", 0, *words, "--save", str(tmp_path / "job"))
            peaks = Peaks(job)
            job.end(300)
            peaks.join(10)
            got = losses(trainer.output())
        record_property("seconds", f"{time.monotonic() - begin:.0f}")
        for p in (server, trainer):
            record_property(f"GiB of the {p.name.partition('-')[0]}", f"{peaks.kib[p.name] / 2**20:.2f}")
        assert len(got) == STEPS
        np.testing.assert_allclose(got, losses(one.stdout), rtol=1e-5)
        found = touched(tmp_path / "job" / "table")
        assert sorted(found) == TOUCHED
        for row in TOUCHED:
            np.testing.assert_allclose(found[row], want[row], rtol=1e-5)
    finally:
        shutil.rmtree(tmp_path, ignore_errors=True)


def test_a_snapshot_past_4_gib(tmp_path, record_property):
    """The server of the next run takes it up, with all that was trained."""
    if available_gib() < 12:
        pytest.skip(f"needs 12 GiB of memory, {available_gib():.1f} are free")
    words = ["--rows", str(ROWS), "--width", str(WIDTH), "--sparse"]
    begin = time.monotonic()
    try:
        for steps, more in ((STEPS, ()), (0, ("--save", str(tmp_path / "job")))):
            with Job(1, 1, script="big_table.py", env={"FLAGS_ps_dir": str(tmp_path / "ps")}) as job:
                server = job.start("server", 0, *words)
                job.start("trainer", 0, *words, "--steps", str(steps), *more)
                job.end(300)
                assert more == () or f"taken up at step {STEPS}" in server.output(), server.output()
        record_property("seconds", f"{time.monotonic() - begin:.0f}")
        record_property("bytes of the snapshot", max(path.stat().st_size for path in (tmp_path / "ps").rglob("*")))
        assert sorted(touched(tmp_path / "job" / "table")) == TOUCHED
    finally:
        shutil.rmtree(tmp_path, ignore_errors=True)
