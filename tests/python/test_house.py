"""Rules of the house that no compiler checks: layout, file sizes, words that do not belong in the tree."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CHECK = ROOT / "tools" / "check_includes.py"
NOT_OURS = {"build", "dist", "__pycache__"}
CODE = {".c", ".h", ".cu", ".py", ".cmake", ".proto", ".sh"}
TEXT = CODE | {".md", ".txt", ".toml", ".in", ""}
MAX_LINES = 800

# Written in parts, so that this file does not find itself.
FOLDERS = "|".join(["work", "tmp", "opt", "root", "home"])
# The profiler's default path is part of upstream's signatures.
MACHINE_PATH = re.compile(rf"(?<![\w.$}}~*/-])/(?!tmp/profile\b)(?:{FOLDERS})(?:/|\b)")
UNFINISHED = re.compile(r"\b(?:" + "|".join(["TO" + "DO", "FIX" + "ME", "not " + "implemented"]) + r")\b")


def files(endings: set[str]) -> list[Path]:
    """All files of the tree with one of these endings, but not what was built or fetched."""
    found, todo = [], [ROOT]
    while todo:
        for path in todo.pop().iterdir():
            if path.is_symlink() or path.name in NOT_OURS or path.name.startswith("."):
                continue
            if path.is_dir():
                todo.append(path)
            elif path.suffix in endings and path.name != "LICENSE":
                found.append(path)
    return sorted(found)


def lines_with(pattern: re.Pattern) -> list[str]:
    found = []
    for path in files(TEXT):
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # a data file without an ending
        found += [f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}"
                  for number, line in enumerate(text.splitlines(), 1) if pattern.search(line)]
    return found


def check(root: Path) -> subprocess.CompletedProcess:
    command = [sys.executable, str(CHECK), str(root)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_layout_is_kept():
    done = check(ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path, line", [
    ("src/base/a.c", '#include "tensor/tensor.h"'),
    ("src/program/a.c", '#include "ops/list.h"'),
    ("src/exec/a.h", '#include "ops/list.h"'),
    ("src/exec/a.c", '#  include "kernels/gemm.h"'),
    ("src/pserver/a.c", '#include "backend/device.h"'),
    ("src/pserver/shard/a.c", '#include "pserver/server/server.h"'),
    ("src/pserver/client/a.c", '#include "backend/device.h"'),
    ("src/cli/a.c", '#include "base/map.h"'),
    ("src/ops/a.c", "#include <paddle/paddle.h>"),
    ("src/ops/a.c", "#include <dnnl.h>"),
    ("src/tensor/a.c", '#include "../base/map.h"'),
    ("src/base/a.c", "#include <somebody/library.h>"),
    ("src/other/a.c", ""),
    ("python/ext/a.c", '#include "api/handle.h"'),
    ("include/paddle/a.h", '#include "base/map.h"'),
    ("examples/a.c", '#include "base/map.h"'),
    ("python/paddle/a.py", "import six"),
    ("python/paddle/fluid/a.py", "from . import core"),
])
def test_check_finds_a_breach(tmp_path, path, line):
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_text(f"\n{line}\n")
    done = check(tmp_path)
    assert done.returncode == 1
    assert done.stdout.startswith(path)


@pytest.mark.parametrize("path, line", [
    ("src/base/a.c", "#include <stdio.h>"),
    ("src/base/a.c", "#include <sys/mman.h>"),
    ("src/base/a.c", "#include <paddle/status.h>"),
    ("src/kernels/a.c", "#include <oneapi/dnnl/dnnl.h>"),
    ("src/program/a.c", '#include "program/framework.pb-c.h"'),
    ("src/ops/a.c", '#include "kernels/gemm.h"'),
    ("src/api/a.c", '#include "ops/list.h"'),
    ("src/cli/a.c", "#include <paddle/paddle.h>"),
    ("python/ext/a.c", "#include <Python.h>"),
    ("python/ext/a.c", '#include "module.h"'),
    ("python/paddle/a.py", "import numpy as np, os\nfrom paddle import fluid"),
    ("python/paddle/a.py", "def plot():\n    import matplotlib"),
])
def test_check_lets_pass(tmp_path, path, line):
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_text(f"\n{line}\n")
    done = check(tmp_path)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout


def tool(name: str, *words: str | Path, text: str | None = None) -> subprocess.CompletedProcess:
    """Runs a program of the virtual environment, where every machine has the version that pyproject.toml names."""
    program = Path(sys.executable).with_name(name)
    assert program.exists(), f"{program} is not there: tools/setup installs it"
    return subprocess.run([program, *words], cwd=ROOT, input=text, capture_output=True, text=True, timeout=120)


def test_c_files_are_laid_out():
    done = tool("clang-format", "--dry-run", "-Werror", *files({".c", ".h"}))
    places = [line for line in done.stderr.splitlines() if ": error: " in line]
    assert done.returncode == 0, "make format lays these out:\n" + "\n".join(places or [done.stderr])


def test_python_files_keep_the_rules():
    done = tool("ruff", "check", "--no-cache", "--output-format=concise")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("words, text, said", [
    (["clang-format", "--dry-run", "-Werror", "--assume-filename=src/base/a.c"], "int  one(void){return 1;}\n", "src/base/a.c:1:4"),
    (["ruff", "check", "--no-cache", "--output-format=concise", "--stdin-filename=python/paddle/a.py", "-"],
     f"x = '{'x' * 132}'\n", "python/paddle/a.py:1:133: E501"),
    (["ruff", "check", "--no-cache", "--output-format=concise", "--stdin-filename=tests/python/a.py", "-"],
     "def one():\n    two = 2\n", "tests/python/a.py:2:5: F841"),
])
def test_layout_is_found_wanting(words, text, said):
    done = tool(*words, text=text)
    assert done.returncode == 1
    assert said in done.stdout + done.stderr


def test_no_file_is_too_long():
    long = {str(path.relative_to(ROOT)): count for path in files(CODE)
            if (count := len(path.read_text(encoding="utf-8").splitlines())) > MAX_LINES}
    assert not long, f"split these files, {MAX_LINES} lines is the limit: {long}"


def test_no_path_of_one_machine():
    found = lines_with(MACHINE_PATH)
    assert not found, "\n".join(found)


def test_nothing_is_marked_unfinished():
    found = lines_with(UNFINISHED)
    assert not found, "\n".join(found)
