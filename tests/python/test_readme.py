"""What README.md tells people to save and to type works as it stands there."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cluster import free_ports

README = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    """The text under a heading."""
    found = re.search(rf"^## {title}\n(.*?)(?=^## )", README, re.DOTALL | re.MULTILINE)
    assert found, f"README.md has no section '{title}'"
    return found[1]


def try_out(title: str, folder: Path) -> subprocess.CompletedProcess:
    """Saves the scripts of a section under their names and runs its commands."""
    text = section(title)
    scripts = re.findall(r"```python\n# (\w+\.py)\n(.*?)```", text, re.DOTALL)
    commands = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    assert scripts and commands
    # Another port, for the one in the text may be taken on this machine.
    port = str(free_ports(1)[0])
    for name, source in scripts:
        (folder / name).write_text(source.replace("6174", port), encoding="utf-8")
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
                   "PADDLE_DATASET_HOME": str(folder / "data"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(["sh", "-ec", "".join(commands).replace("6174", port)], cwd=folder, env=environment,
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def test_training_run(tmp_path):
    lines = try_out("Train", tmp_path).stdout.splitlines()
    losses = [float(loss) for loss in re.findall(r"epoch \d+: loss ([\d.]+)", "\n".join(lines))]
    assert len(losses) == 3 and losses[-1] < min(losses[0], 20)
    found, right = map(float, re.fullmatch(r"price ([\d.]+), right is ([\d.]+)", lines[-1]).groups())
    assert abs(found - right) < 10


def test_first_cluster(tmp_path):
    done = try_out("A first cluster", tmp_path)
    # Both write to one pipe, so their lines may run into each other.
    losses = [float(loss) for loss in re.findall(r"loss (\d+\.\d\d)", done.stdout)]
    assert len(losses) == 2 and max(losses) < 20, done.stdout + done.stderr


def test_layers_that_it_says_are_not_there_yet():
    from paddle._core import op_known

    from paddle import fluid

    row = next(line for line in README.splitlines() if line.startswith("| Fluid (v0.11"))
    names = re.findall(r"`(\w+)`", re.sub(r"; .*?\)", ")", row.partition("Not yet: ")[2]))
    ops = {"dynamic_lstm": "lstm", "dynamic_gru": "gru", "StaticRNN": "recurrent"}
    there = [name for name in names if hasattr(fluid.layers, name) and op_known(ops.get(name, name))]
    assert len(names) >= 7 and not there, f"these are there now: {there}"
    assert op_known("while") and fluid.layers.DynamicRNN


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
def test_make_help_names_every_target():
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(["make", "help"], cwd=root, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    targets = re.search(r"^\.PHONY: (.*)$", (root / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)[1].split()
    shown = re.findall(r"^make (\w*) ", done.stdout, re.MULTILINE)
    assert sorted(shown) == sorted({*targets, ""} - {"install", "setup"})  # `make` alone installs


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
def test_commands_of_make_are_there():
    makefile = (Path(__file__).resolve().parents[2] / "Makefile").read_text(encoding="utf-8")
    for target in set(re.findall(r"`?make (\w+)", README)):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"make {target}"
