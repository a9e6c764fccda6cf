"""Tables of many rows through files: saved in pieces, loaded on another number of servers, the same bits. The long run has 20
million rows (PADDLE_SOAK), in which memory is what docs/TABLES.md promises, and the rates are told."""

from __future__ import annotations

import filecmp
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from cluster import Job, Process

PADDLE = str(Path(sys.executable).with_name("paddle"))
IS_LONG = bool(os.environ.get("PADDLE_SOAK"))
ROWS = 20_000_000 if IS_LONG else 200_000
FLOATS = 2 * 8 * 4  # bytes of a row: the parameter and its moment
DEADLINE = 1200 if IS_LONG else 60


def memory(process: Process, field: str) -> int:
    """Of /proc/<pid>/status, in bytes."""
    return int(re.search(rf"{field}:\s+(\d+)", Path(f"/proc/{process.pid}/status").read_text())[1]) * 1024


def number(process: Process, word: str) -> float:
    return float(re.search(rf"^{word} (\S+)$", process.output(), re.MULTILINE)[1])


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in (folder / "__lookup_table__").iterdir())


def exported(folder: Path) -> Path:
    out = folder.with_suffix(".safetensors")
    words = [PADDLE, "table", "export", str(folder), "--output", str(out)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=DEADLINE)
    assert done.returncode == 0 and f"{ROWS:,} rows" in done.stdout, done.stdout + done.stderr
    return out


def test_saved_and_loaded_on_other_servers(tmp_path, record_property):
    one, two, go = tmp_path / "one", tmp_path / "two", tmp_path / "go"
    with Job(2, 1, "many_rows.py") as job:
        job.start_all("--rows", str(ROWS), "--save", str(one), "--go", str(go))
        servers, trainer = job.processes[:2], job.processes[2]
        trainer.wait_for("begins", DEADLINE)
        bare = [memory(each, "VmRSS") for each in servers]
        trainer.wait_for("trained", DEADLINE)
        full = [memory(each, "VmRSS") for each in servers]
        for each in servers:
            Path(f"/proc/{each.pid}/clear_refs").write_text("5")  # VmHWM begins anew
        go.touch()
        trainer.wait_for("saved", DEADLINE)
        peaks = [memory(each, "VmHWM") for each in servers]
        saved = number(trainer, "saved")
        job.end(DEADLINE)
        job.clear()
    row = sum(now - before for now, before in zip(full, bare)) / ROWS
    record_property("bytes of memory a row", round(row, 1))
    record_property("saved at, GB/s", round(size(one) / saved / 1e9, 3))
    with Job(3, 1, "many_rows.py") as job:
        job.start_all("--load", str(one), "--save", str(two))
        trainer = job.processes[3]
        trainer.wait_for("saved", DEADLINE)
        loading = number(trainer, "begins") - min(number(each, "serves") for each in job.processes[:3])
        loaded = [memory(each, "VmHWM") for each in job.processes[:3]]
        job.end(DEADLINE)
        job.clear()
    record_property("loaded at, GB/s", round(size(one) / loading / 1e9, 3))
    assert filecmp.cmp(exported(one), exported(two), shallow=False)
    print(f"{row:.1f} bytes of memory a row; saved in {saved:.2f} s, loaded in {loading:.2f} s: {size(one) / 1e9:.2f} GB")
    if IS_LONG:
        assert row < 1.15 * FLOATS + 24, (bare, full)
        assert all(peak < now + 32e6 for peak, now in zip(peaks, full)), (full, peaks)
        # A server's memory while it loads is what it has afterwards.
        assert sum(loaded) < 3 * max(bare) + ROWS * (1.15 * FLOATS + 24) + 3 * 64e6, loaded


@pytest.mark.parametrize("damage, said", [
    ("cut", "end inside"), ("replaced", "another save has taken its place"), ("twice", "was loaded twice"),
])
def test_files_that_change_before_the_server_serves(tmp_path, damage, said):
    """They are looked at when the script loads them, and read when the server begins."""
    with Job(1, 1, "many_rows.py") as job:
        job.start_all("--rows", "500", "--save", str(tmp_path / "model"))
        job.end(60)
        job.clear()
    part = tmp_path / "model" / "__lookup_table__" / "emb_0"
    data = part.read_bytes()
    script = tmp_path / "server.py"
    change = {"cut": data[:200] + data[-24:], "replaced": data[:-8] + b"otherone",
              "twice": data[:20] + data[12:20] + data[28:]}[damage]
    (tmp_path / "other").write_bytes(change)
    # The server's script, with a change of the file behind its load.
    script.write_text(f"import sys, os; sys.path.insert(0, {str(Path(__file__).parent / 'jobs')!r})\n"
                      "import paddle.fluid as fluid, many_rows\nload = fluid.io.load_persistables\n"
                      f"fluid.io.load_persistables = lambda *a, **k: (load(*a, **k), os.replace({str(tmp_path / 'other')!r}, "
                      f"{str(part)!r}))\nmany_rows.main()\n")
    with Job(1, 1, str(script)) as job:
        server = job.start("server", 0, "--load", str(tmp_path / "model"), "--save", str(tmp_path / "x"))
        assert server.end(60) != 0
        output = server.output()
    assert re.search(said, output) and str(part) in output, output
