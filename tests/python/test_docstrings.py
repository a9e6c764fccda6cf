"""help() tells what users need: what a thing does, each argument, what comes back."""

import doctest
import importlib
import inspect
import pydoc
import re
from pathlib import Path

import numpy as np
import pytest
from paddle._core import op_known

import paddle
import paddle.fluid as fluid
from paddle.fluid import docs, layers

SECTIONS = {name: section for text in layers.DOCS for name, section in docs.parse(text).items()}


def described(text: str) -> dict[str, str]:
    """{argument: meaning} of the Args section of a docstring."""
    found = re.search(r"^Args:\n((?:    .*\n?|\n(?=    ))*)", inspect.cleandoc(text) + "\n", re.MULTILINE)
    rows = re.findall(r"^    \*{0,2}(\w+)(?: \([^\n]*?\))?: ((?:.|\n        )+)", found[1] if found else "", re.MULTILINE)
    return dict(rows)


@pytest.mark.parametrize("name", layers.__all__)
def test_layer_says_what_its_arguments_are(name):
    layer = getattr(layers, name)
    signature = inspect.signature(layer)
    told = described(layer.__doc__)
    assert list(told) == list(signature.parameters)
    assert all(meaning.strip().endswith(".") for meaning in told.values()), told
    has_result = inspect.isfunction(layer) and signature.return_annotation != "None"
    assert bool(re.search(r"^Returns:\n    \S", inspect.cleandoc(layer.__doc__), re.MULTILINE)) == has_result
    assert max(map(len, layer.__doc__.splitlines()[2:])) <= 110


def test_texts_name_only_layers_and_arguments_that_are_there():
    names = [name for text in layers.DOCS for paragraph in text.strip().split("\n\n")
             for name in paragraph.replace("\n        ", " ").split("\n")[0].split()]
    assert sorted(names) == sorted(set(names)), "a layer stands twice"
    assert set(names) == set(layers.__all__)
    used: set[str] = set()
    for text in layers.DOCS:
        for paragraph in text.strip().split("\n\n"):
            group = paragraph.replace("\n        ", " ").split("\n")[0].split()
            arguments = {each for name in group for each in docs.arguments_of(getattr(layers, name))}
            assert set(SECTIONS[group[0]].arguments) <= arguments, group
            used |= arguments - set(SECTIONS[group[0]].arguments)
    assert set(docs.SHARED) - {"grad_clip", "learning_rate", "parameter_list", "regularization"} <= used


def test_help_shows_it():
    text = pydoc.render_doc(layers.fc, renderer=pydoc.plaintext)
    assert re.match(r"fc\(\s*input", text.split("\n\n", 1)[1])
    assert "size (int, required): the number of columns of the result." in text
    assert "Returns:" in text and ">>> fluid.layers.fc(input=x, size=1).shape" in text


API = Path(__file__).resolve().parents[2] / "docs" / "api"
EXAMPLES = {f"{page.stem} {i}": text for page in sorted(API.glob("*.md"))
            for i, text in enumerate(re.findall(r"^```python\n(>>> .*?)^```", page.read_text(encoding="utf-8"),
                                                re.MULTILINE | re.DOTALL))}


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_of_the_reference_runs_as_it_stands(name, tmp_path, monkeypatch):
    """After these imports, which its first page names."""
    monkeypatch.chdir(tmp_path)
    lacks = [op for layer, op in (("StaticRNN", "recurrent"), ("IfElse", "split_lod_tensor"))
             if layer in EXAMPLES[name] and not op_known(op)]
    if lacks:
        pytest.skip(f"the engine has no op {lacks[0]} yet")
    names = {"np": np, "paddle": paddle, "fluid": fluid}
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard(), fluid.scope_guard(fluid.Scope()):
        test = doctest.DocTestParser().get_doctest(EXAMPLES[name], names, name, None, None)
        assert test.examples and doctest.DocTestRunner().run(test).failed == 0


def test_what_is_used_most_has_an_example():
    for call in (layers.fc, layers.conv2d, layers.embedding, layers.data, fluid.data, fluid.optimizer.SGD, fluid.optimizer.Adam,
                 fluid.Executor, fluid.io.save_inference_model, fluid.DistributeTranspiler):
        assert ">>> " in call.__doc__, call


# ---- everything else that users call ----

MODULES = """
    fluid fluid.optimizer fluid.initializer fluid.regularizer fluid.clip fluid.metrics fluid.evaluator fluid.io fluid.nets
    fluid.backward fluid.reader fluid.data_feeder fluid.executor fluid.framework fluid.lod_tensor fluid.profiler fluid.param_attr
    fluid.transpiler fluid.compiler fluid.parallel_executor fluid.unique_name fluid.average fluid.input reader batch
    fluid.communicator fluid.incubate.data_generator fluid.incubate.fleet.base.role_maker fluid.incubate.fleet.base.fleet_base
    fluid.incubate.fleet.parameter_server.distribute_transpiler fluid.incubate.fleet.utils.fleet_util
    fluid.incubate.fleet.utils.hdfs fluid.incubate.fleet.utils.fs fluid.incubate.fleet.utils.utils
    """.split()


def public_calls() -> dict[str, object]:
    """Functions, classes, and the methods of these that have a docstring, each under one name."""
    found: dict[int, tuple[str, object]] = {}
    for name in MODULES:
        module = importlib.import_module(f"paddle.{name}")
        for each in module.__all__:
            value = getattr(module, each)
            if inspect.ismodule(value) or not callable(value):
                continue
            found.setdefault(id(value), (f"{name}.{each}", value))
            for key, method in vars(value).items() if isinstance(value, type) else ():
                method = getattr(method, "__func__", method)
                if inspect.isfunction(method) and not key.startswith("_") and method.__doc__:
                    found.setdefault(id(method), (f"{name}.{each}.{key}", method))
    return dict(found.values())


CALLS = public_calls()


def test_there_are_calls():
    assert {"fluid.Executor", "fluid.optimizer.SGD.minimize", "fluid.io.save_params"} & set(CALLS)
    assert len(CALLS) > 150


@pytest.mark.parametrize("name", CALLS)
def test_call_says_what_its_arguments_are(name):
    call = CALLS[name]
    assert call.__doc__, "there is no docstring"
    try:
        parameters = inspect.signature(call).parameters.values()
    except ValueError:
        return  # a class of the extension without a signature
    wanted = [one.name for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
    told = described(call.__doc__)
    assert [each for each in wanted if each not in ("self", "cls", *told)] == []
    assert all(meaning.strip().endswith(".") for meaning in told.values()), told


def test_run_says_what_its_arguments_are():
    told = described(fluid.Executor.run.__doc__)
    assert ["self", *told] == list(inspect.signature(fluid.Executor.run).parameters)


def test_annotations_is_a_module():
    assert inspect.ismodule(fluid.annotations) and fluid.annotations.deprecated
