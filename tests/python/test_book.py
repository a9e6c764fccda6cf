"""The chapters of Paddle's book on the stand-in data: each trains to its own threshold, saves, loads and infers."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

BOOK = Path(__file__).resolve().parent / "book"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("data")


@pytest.mark.parametrize("chapter, words, last", [
    ("fit_a_line", [], " for "),
    ("word2vec", [], "most likely: "),
    ("recommender_system", [], "predicted "),
    ("understand_sentiment", ["conv"], "this is very bad ["),
    ("understand_sentiment", ["rnn"], "this is very bad ["),
    ("image_classification", ["resnet"], "class "),
    ("image_classification", ["vgg"], "class "),
])
def test_chapter(chapter, words, last, home, tmp_path):
    environment = {**os.environ, "PADDLE_DATASET_SYNTHETIC": "1", "PADDLE_DATASET_HOME": str(home)}
    done = subprocess.run([sys.executable, str(BOOK / f"{chapter}.py"), str(tmp_path / "model"), *words], cwd=tmp_path,
                          env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert last in done.stdout.splitlines()[-1]
    assert (tmp_path / "model" / "__model__").is_file()
