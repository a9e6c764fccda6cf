"""tools/run_tests.py: what is not run, or does not end, counts as a failure."""

import importlib.util
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "tools" / "run_tests.py"


@pytest.fixture
def runner(tmp_path, monkeypatch):
    spec = importlib.util.spec_from_file_location("run_tests", SOURCE)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "run_tests", module)  # its dataclasses ask for it
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("text, wanted", [
    ("def test_a():\n    pass\n", (1, 0, 0)),
    ("def test_a():\n    assert 0\n", (0, 1, 0)),
    ("import pytest\npytest.skip('not here', allow_module_level=True)\n", (0, 0, 1)),
    ("def tset_a():\n    pass\n", (0, 1, 0)),
    ("import os\nos._exit(3)\n", (0, 1, 0)),
    ("import time\ndef test_a():\n    time.sleep(600)\n", (0, 1, 0)),
], ids=["passes", "fails", "skipped", "no test", "dies", "hangs"])
def test_a_file_is_counted(runner, tmp_path, text, wanted):
    path = tmp_path / "test_it.py"
    path.write_text(text)
    count = runner.run_file(path, report=tmp_path / "report.xml", timeout=5 if "sleep" in text else 120)
    assert (count.passed, count.failed, count.skipped) == wanted
