"""What an installation brings along."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from paddle import _core, brought

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

# What paddlepaddle 1.8.5 required on Python 3.8, less what is in the standard library today.
BROUGHT = """
    opencv-python requests numpy protobuf gast matplotlib scipy nltk rarfile pillow graphviz six pyyaml decorator
    prettytable objgraph astor
    """.split()


def names(requirements: list[str]) -> set[str]:
    return {re.match(r"[\w.-]+", text)[0].lower() for text in requirements}


def test_six_is_always_there():
    import six

    assert "six" in names(PROJECT["dependencies"])
    assert six.PY3


def test_the_extra_scripts_brings_what_1_8_5_brought():
    there = names(PROJECT["dependencies"]) | names(PROJECT["optional-dependencies"]["scripts"])
    assert set(BROUGHT) <= there


IMPORTED_AS = {"opencv-python": "cv2", "pillow": "PIL", "protobuf": "google", "pyyaml": "yaml"}


def test_a_script_that_lacks_a_module_that_1_8_5_brought_is_told_what_to_do(tmp_path):
    extra = names(PROJECT["optional-dependencies"]["scripts"])
    assert {IMPORTED_AS.get(name, name) for name in extra} == brought.MODULES
    for module in ("PIL", "google.protobuf", "torchvision"):
        script = tmp_path / "script.py"
        script.write_text(f"import sys\nsys.modules['PIL'] = sys.modules['google'] = None\nimport paddle\n"
                          f"try:\n    import PIL\nexcept ImportError:\n    print('tried')\nimport {module}\n")
        done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stdout) == (1, "tried\n")
        last = done.stderr.splitlines()[-1]
        assert ("pip install 'cpaddle[scripts]'" in last) == (module != "torchvision"), done.stderr


# ---- the command: it holds no engine of its own, and finds the library wherever both are put ----

COMMAND = (Path(sys.executable).parent / "paddle").resolve()
LIBRARIES = Path(_core.__file__).parent / "_lib"
IS_WHEEL = LIBRARIES.parent.parent.name.endswith("-packages")


def place(bin_folder: Path, lib_folder: Path) -> Path:
    """Copies the command and the library there; the path of the command."""
    bin_folder.mkdir(parents=True)
    shutil.copytree(LIBRARIES, lib_folder)
    return Path(shutil.copy(COMMAND, bin_folder))


def version(command: Path) -> subprocess.CompletedProcess:
    return subprocess.run([str(command), "version"], capture_output=True, text=True, timeout=60)


def test_the_command_holds_no_engine():
    assert COMMAND.stat().st_size < 1 << 20
    assert max(path.stat().st_size for path in LIBRARIES.iterdir()) > 1 << 20


def test_the_command_runs_where_the_environment_is_moved(tmp_path):
    if IS_WHEEL:
        command = place(tmp_path / "venv" / "bin", tmp_path / "venv" / LIBRARIES.relative_to(sys.prefix))
    else:
        command = place(tmp_path / "bin", tmp_path / "python" / "paddle" / "_lib")
    (tmp_path / "moved").mkdir()
    moved = command.parents[1].rename(tmp_path / "moved" / "venv") if IS_WHEEL else command.parents[1]
    done = version(moved / "bin" / "paddle")
    assert (done.returncode, done.stderr) == (0, "")
    link = tmp_path / "elsewhere"
    link.symlink_to(moved / "bin" / "paddle")
    assert version(link).stdout == done.stdout == version(COMMAND).stdout


@pytest.mark.skipif(not IS_WHEEL, reason="a build folder has one layout")
@pytest.mark.parametrize("folder", [
    "lib/python3.11/site-packages/paddle/_lib", "lib/python3.14/site-packages/paddle/_lib",
    "lib64/python3.13/site-packages/paddle/_lib", "lib/python3.12/dist-packages/paddle/_lib", "paddle/_lib",
])
def test_the_command_runs_in_other_layouts(tmp_path, folder):
    assert version(place(tmp_path / "bin", tmp_path / folder)).returncode == 0


# ---- C programs ----


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_the_command_at_the_head_of_the_example_in_c_builds_and_runs_it(tmp_path):
    source = ROOT / "examples" / "fit_a_line.c"
    head = source.read_text(encoding="utf-8").partition("*/")[0]
    lines = [line.removeprefix(" *     ") for line in head.splitlines() if line.startswith(" *     ")]
    shutil.copy(source, tmp_path)
    script = "\n".join(["set -e", *lines]).replace("[folder]", "model")
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(["sh", "-c", script], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120)
    assert len(lines) == 3 and done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "model").is_dir()
