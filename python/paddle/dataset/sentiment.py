"""The movie_reviews corpus of NLTK, read without NLTK.

A sample is ([word ids], label); label 0 is a bad review, 1 a good one. Bad and good ones alternate.
"""

from __future__ import annotations

import collections
import itertools
import re
import zipfile

from paddle.dataset import common
from paddle.dataset.words import Samples

__all__ = ["train", "test", "get_word_dict", "convert"]

URL = "https://corpora.bj.bcebos.com/movie_reviews%2Fmovie_reviews.zip"
MD5 = "155de2b77c6834dd8eea7cbe88e93acb"

NUM_TRAINING_INSTANCES = 1600
NUM_TOTAL_INSTANCES = 2000

# A word, or a run of other signs: how NLTK cuts this corpus.
_TOKEN = re.compile(r"\w+|[^\w\s]+")


def download_data_if_not_yet() -> str:
    """Get the file and return its path."""
    return common.download(URL, "corpora", MD5, "movie_reviews.zip")


def _reviews() -> dict[str, list[list[str]]]:
    """Return the words of all reviews, by category, in the order of the file names."""
    path = download_data_if_not_yet()
    reviews: dict[str, list[list[str]]] = {"neg": [], "pos": []}
    with zipfile.ZipFile(path) as package:
        for name in sorted(package.namelist()):
            category = name.split("/")[-2] if name.count("/") else ""
            if name.endswith(".txt") and category in reviews:
                text = package.read(name).decode("ascii", "replace")
                reviews[category].append(_TOKEN.findall(text.lower()))
    return reviews


def _numbered(reviews: dict[str, list[list[str]]]) -> list[tuple[str, int]]:
    counts: collections.Counter = collections.Counter()
    for words in itertools.chain(reviews["neg"], reviews["pos"]):
        counts.update(words)
    return [(word, number) for number, (word, _) in enumerate(counts.most_common())]


def get_word_dict() -> list[tuple[str, int]]:
    """Return (word, id) pairs, frequent words first."""
    return _numbered(_reviews())


def load_sentiment_data() -> list[tuple[list[int], int]]:
    """Return all samples."""
    reviews = _reviews()
    ids = dict(_numbered(reviews))
    pairs = zip(reviews["neg"], reviews["pos"])
    return [([ids[word] for word in words], label) for pair in pairs for label, words in enumerate(pair)]


def train() -> Samples:
    """Return a reader of the first 1600 samples."""
    samples = load_sentiment_data()[:NUM_TRAINING_INSTANCES]
    return Samples(lambda: samples)


def test() -> Samples:
    """Return a reader of the samples after the first 1600."""
    samples = load_sentiment_data()[NUM_TRAINING_INSTANCES:]
    return Samples(lambda: samples)


def fetch() -> None:
    """Get the file."""
    download_data_if_not_yet()


def convert(path: str) -> None:
    """RecordIO files cannot be written; raises the error of common.convert."""
    common.convert(path, None, 1000, "sentiment_train")
