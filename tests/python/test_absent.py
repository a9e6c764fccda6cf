"""Names that upstream has and this package has not: whichever way they are asked for, one sentence answers."""

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from paddle import absent

NAMES = Path(__file__).resolve().parents[2] / "tools" / "upstream_names"


def read(name: str) -> list[str]:
    return [line.split()[0] for line in (NAMES / name).read_text(encoding="utf-8").splitlines() if line.strip()]


def is_there(path: str) -> bool:
    module, _, name = path.rpartition(".")
    try:
        return hasattr(importlib.import_module(module), name)
    except ImportError:
        return False


def can_be_imported(path: str) -> bool:
    try:
        importlib.import_module(path)
    except ImportError:
        return False
    return True


MISSING_MODULES = [path for path in read("modules.txt") if not can_be_imported(path)]
MISSING_NAMES = [f"paddle.{path}" for path in read("fluid.txt") if not is_there(f"paddle.{path}")]


def test_every_sentence_ends_with_what_to_do():
    from paddle import fluid

    for row in absent.ABSENT:
        assert absent.sentence("paddle.x", row).endswith((row.instead, "docs/MISSING.md lists what is missing."))
    with pytest.raises(AttributeError,
                       match=r"of Paddle 0\.12 to 1\.2\. Build the network without it, and run it on several places"):
        fluid.layers.ParallelDo
    with pytest.raises(AttributeError, match=r"docs/MISSING\.md lists what is missing\.$"):
        fluid.layers.warpctc


def test_no_sentence_advises_what_is_not_there():
    from paddle.fluid import suggest

    text = (NAMES.parents[1] / "docs" / "MISSING.md").read_text(encoding="utf-8")
    waiting = re.findall(r"^- `(\w+)`: `", text, re.MULTILINE)
    assert "StaticRNN" in waiting and "gru_unit" in waiting
    for sentence in {row.instead for row in absent.ABSENT} | set(suggest._INSTEAD.values()):
        advised = set(re.findall(r"\w+", re.sub(r"help\(.*?\)", "", sentence)))
        assert not advised & set(waiting), sentence


def test_python_adds_no_guess_to_the_sentence():
    done = subprocess.run([sys.executable, "-c", "import paddle.fluid as fluid\nfluid.data_generator"],
                          capture_output=True, text=True,
                          timeout=120)
    assert done.returncode == 1 and done.stderr.endswith("fluid.incubate.data_generator has it.\n"), done.stderr


def test_names_of_core():
    from paddle.fluid import core

    with pytest.raises(AttributeError, match=r"fluid\.core\.from_dlpack is not there yet\. .* by way of numpy\.$"):
        core.from_dlpack
    with pytest.raises(AttributeError, match=r"module 'paddle\.fluid\.core' has no attribute 'nothing'"):
        core.nothing
    assert not hasattr(core, "__wrapped__")
    assert core.RecordIOWriter.Compressor.Snappy != core.RecordIOWriter.Compressor.NoCompress
    with pytest.raises(NotImplementedError, match=r"RecordIOWriter is not there yet\. It belongs to the recordio files"):
        core.RecordIOWriter("x.recordio", core.RecordIOWriter.Compressor.Snappy, 1000)


def test_there_is_something_to_test():
    assert "paddle.fluid.dygraph.nn" in MISSING_MODULES
    assert "paddle.fluid.layers.warpctc" in MISSING_NAMES


@pytest.mark.parametrize("path", MISSING_MODULES)
def test_import_of_a_module(path):
    with pytest.raises(ImportError, match=r"is not there yet\. It belongs to .* of Paddle \d"):
        importlib.import_module(path)


@pytest.mark.parametrize("path", MISSING_MODULES + MISSING_NAMES)
def test_from_import(path):
    module, _, name = path.rpartition(".")
    with pytest.raises(ModuleNotFoundError, match=r"is not there yet\. It belongs to") as caught:
        exec(f"from {module} import {name}", {})
    asked = path.replace("paddle.v2.fluid", "paddle.fluid")
    assert asked.startswith(str(caught.value).split(" ")[0]), "the sentence names what was asked for"


@pytest.mark.parametrize("path", [path for path in MISSING_MODULES + MISSING_NAMES if can_be_imported(path.rpartition(".")[0])])
def test_attribute(path):
    module, _, name = path.rpartition(".")
    with pytest.raises(AttributeError, match=r"is not there yet\. It belongs to"):
        getattr(importlib.import_module(module), name)


def test_the_table_names_nothing_that_is_there():
    there = [f"{module}.{name}" for row in absent.ABSENT for module, names in row.names.items()
             for name in names.split() if name != "*" and is_there(f"{module}.{name}")]
    assert not there, f"these are there now, so they leave the table in paddle/absent.py: {there}"


@pytest.mark.parametrize("path", ["paddle.flud", "paddle.fluid.nothing", "paddle.v2.dataset.nothing", "paddle.v2.reader.x"])
def test_a_name_that_never_was_is_just_unknown(path):
    with pytest.raises(ModuleNotFoundError, match=f"No module named '{path}'"):
        importlib.import_module(path)
    module, _, name = path.rpartition(".")
    with pytest.raises(ImportError, match="cannot import name"):
        exec(f"from {module} import {name}", {})


@pytest.mark.parametrize("line, near", [
    ("fluid.layers.sigmod", "sigmoid"), ("fluid.Exector", "Executor"), ("fluid.optimizer.Adm", "Adam"),
    ("fluid.core.LoDTenser", "LoDTensor"),
])
def test_a_slip_in_a_name_gives_the_nearest(line, near):
    done = subprocess.run([sys.executable, "-c", f"import paddle.fluid as fluid\nfluid.optimizer, fluid.layers\n{line}"],
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert f"Did you mean: '{near}'" in done.stderr


def test_hasattr_is_false_and_a_guarded_import_goes_on():
    from paddle import fluid

    assert not hasattr(fluid, "dygraph") and not hasattr(fluid.framework, "IrGraph")
    try:
        from paddle.fluid.dygraph.nn import Conv2D
    except ImportError:
        Conv2D = None
    assert Conv2D is None


def test_first_lines_for_a_half_that_is_not_run():
    """As upstream's scripts for several machines begin, which train a Program."""
    code = """
import paddle.fluid.dygraph as dygraph
from paddle.fluid.dygraph.base import to_variable
from paddle.fluid.dygraph.parallel import DataParallel
import paddle.fluid.dygraph.parallel as parallel, paddle.fluid as fluid
from paddle import fluid as same

assert same is fluid and parallel.DataParallel is DataParallel and not hasattr(fluid, "dygraph")
for call in (lambda: to_variable(1), lambda: DataParallel(None), parallel.ParallelEnv):
    try:
        call()
        raise SystemExit("it went on")
    except NotImplementedError as error:
        assert "is not there yet. It belongs to dygraph" in str(error), error
for line in ("fluid.dygraph.guard()", "dygraph.guard()", "dygraph.nn", "from paddle.fluid import dygraph",
             "import paddle.fluid.dygraph.nn", "import paddle.fluid.dygraph.nn as nn", "from paddle.fluid.dygraph import Linear",
             "from paddle.fluid.dygraph.nn import Conv2D"):
    try:
        exec(line)
        raise SystemExit(f"{line} went on")
    except (AttributeError, ImportError) as error:
        assert "is not there yet. It belongs to dygraph" in str(error), (line, error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_fluid_of_v2():
    from paddle.v2.fluid.layers import fc

    import paddle.fluid
    import paddle.v2.fluid as fluid
    from paddle.v2.plot import Ploter

    assert fluid is paddle.fluid and fc is paddle.fluid.layers.fc
    assert Ploter is paddle.utils.plot.Ploter
