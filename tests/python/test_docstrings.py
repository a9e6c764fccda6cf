"""help() tells what users need: what a thing does, each argument, what comes back."""

import doctest
import inspect
import pydoc
import re

import pytest

import paddle.fluid as fluid
from paddle.fluid import layers
from paddle.fluid.layers import docs

SECTIONS = {name: section for text in docs.TEXTS for name, section in docs.parse(text).items()}


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
    names = [name for text in docs.TEXTS for paragraph in text.strip().split("\n\n")
             for name in paragraph.split("\n")[0].split()]
    assert sorted(names) == sorted(set(names)), "a layer stands twice"
    assert set(names) == set(layers.__all__)
    used: set[str] = set()
    for text in docs.TEXTS:
        for paragraph in text.strip().split("\n\n"):
            group = paragraph.split("\n")[0].split()
            arguments = {each for name in group for each in docs.arguments_of(getattr(layers, name))}
            assert set(SECTIONS[group[0]].arguments) <= arguments, group
            used |= arguments - set(SECTIONS[group[0]].arguments)
    assert set(docs.SHARED) <= used


def test_help_shows_it():
    text = pydoc.render_doc(layers.fc, renderer=pydoc.plaintext)
    assert text.splitlines()[2].startswith("fc(input")
    assert "size (int, required): the number of columns of the result." in text
    assert "Returns:" in text and ">>> fluid.layers.fc(input=x, size=1).shape" in text


def test_example_in_a_docstring_runs():
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        for layer in (layers.fc, layers.conv2d, layers.data):
            test = doctest.DocTestParser().get_doctest(layer.__doc__, {"fluid": fluid}, layer.__name__, None, None)
            assert test.examples
            assert doctest.DocTestRunner().run(test).failed == 0
