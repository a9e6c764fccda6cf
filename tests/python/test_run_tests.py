"""tools/run_tests.py: a file of tests that hangs or runs nothing is a failure, and does not hold up the others."""

import importlib.util
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def runner():
    spec = importlib.util.spec_from_file_location("run_tests", ROOT / "tools" / "run_tests.py")
    module = sys.modules["run_tests"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules["run_tests"]


def counts(runner, folder: Path, text: str, **options) -> tuple[int, int, int]:
    path = folder / "test_it.py"
    path.write_text(text)
    count = runner.run_pytest(str(path), report=folder / "report.xml", cwd=folder, **options)
    return count.passed, count.failed, count.skipped


def test_what_a_file_counts(runner, tmp_path):
    good, bad = "def test_good(): pass\n", "def test_bad(): assert 0\n"
    assert counts(runner, tmp_path, good) == (1, 0, 0)
    assert counts(runner, tmp_path, good + bad) == (1, 1, 0)
    assert counts(runner, tmp_path, "import pytest\npytest.skip('not here', allow_module_level=True)\n") == (0, 0, 1)
    assert counts(runner, tmp_path, "") == (0, 1, 0)
    assert counts(runner, tmp_path, "def testing(: pass\n")[1] == 1


def test_a_file_that_hangs_is_a_failure(runner, tmp_path):
    assert counts(runner, tmp_path, "import time\ndef test_long(): time.sleep(1000)\n", limit=2) == (0, 1, 0)


def runs(pid: int) -> bool:
    """Z: ended, and nobody has waited for it yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_what_a_command_started_ends_with_it(runner, tmp_path):
    note = tmp_path / "pid"
    assert runner.call_within(3, ["sh", "-c", f"sleep 1000 & echo $! > {note}; wait"]) is None
    end = time.monotonic() + 60
    while runs(int(note.read_text())):
        assert time.monotonic() < end, "it runs on"
        time.sleep(0.05)
    assert runner.call_within(60, ["sh", "-c", "exit 7"]) == 7
