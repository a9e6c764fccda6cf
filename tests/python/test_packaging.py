"""What an installation brings along."""

import re
import tomllib
from pathlib import Path

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
