"""Type hints: there for everything users call, and visible to tools that do not run the code."""

import ast
import importlib
import inspect
from pathlib import Path

import pytest
from test_docstrings import CALLS

import paddle
from paddle import fluid
from paddle.fluid import hints, layers

ALL = {**CALLS, **{f"fluid.layers.{name}": getattr(layers, name) for name in layers.__all__}}


def test_the_package_says_that_it_is_typed():
    assert (Path(paddle.__file__).parent / "py.typed").is_file()
    assert (Path(layers.__file__).parent / "__init__.pyi").is_file()


@pytest.mark.parametrize("name", ALL)
def test_arguments_have_types(name):
    call = inspect.unwrap(ALL[name])
    function = call.__init__ if isinstance(call, type) else call
    if not inspect.isfunction(inspect.unwrap(function)):
        return  # made in C
    bare = [one.name for one in inspect.signature(function).parameters.values()
            if one.annotation is one.empty and one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
    assert [each for each in bare if each not in ("self", "cls")] == []


def seen_by_tools(module) -> dict[str, str]:
    """{name: module} of what `if TYPE_CHECKING:` imports."""
    found = {}
    for node in ast.parse(Path(module.__file__).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            for line in (line for line in node.body if isinstance(line, ast.ImportFrom)):
                found.update({alias.asname: f"{line.module}.{alias.name}" for alias in line.names if alias.asname})
    return found


def test_names_that_are_loaded_late_are_seen_by_tools():
    names = {name: f"paddle.fluid.{home}.{name}" for name, home in {**fluid._NAMES, **fluid._OLD_NAMES}.items()}
    modules = {name: f"paddle.fluid.{name}" for name in (*fluid._MODULES, *fluid._OLD_MODULES)}
    assert seen_by_tools(fluid) == {**names, **modules}
    assert set(seen_by_tools(paddle)) == {"compat", "dataset", "distributed", "fluid", "reader", "sysconfig", "utils", "v2"}


def test_hints_can_be_evaluated():
    """Each name in an annotation exists where a tool would look for it."""
    known = {**vars(importlib.import_module("builtins")), **vars(hints), **seen_by_tools(hints)}
    known |= {name: object for name in ("np", "core", "framework", "Any", "Callable", "Iterable", "Iterator", "Sequence")}
    for name, call in ALL.items():
        function = inspect.unwrap(call.__init__ if isinstance(call, type) else call)
        for hint in getattr(function, "__annotations__", {}).values():
            if isinstance(hint, str):
                for node in ast.walk(ast.parse(hint.strip("'\""), mode="eval")):
                    if isinstance(node, ast.Name):
                        assert node.id in known or node.id in function.__globals__, f"{name}: {hint}"
