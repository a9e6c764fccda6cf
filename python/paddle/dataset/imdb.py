"""IMDB: film reviews. A sample is ([word ids], label); label 0 is a good review, 1 a bad one."""

from __future__ import annotations

import collections
import re
import string
import tarfile
from typing import Any, Iterator

from paddle.dataset import common
from paddle.dataset.words import Samples, WordDict, as_bytes, by_frequency

__all__ = ["build_dict", "train", "test", "convert"]

URL = "https://dataset.bj.bcebos.com/imdb%2FaclImdb_v1.tar.gz"
MD5 = "7c2ac02c03563afcf9b574c7e56c153a"

_NO_PUNCTUATION = string.punctuation.encode()


def tokenize(pattern: re.Pattern) -> Iterator[list[bytes]]:
    """Yield the words of each file whose name matches: lower case, without punctuation."""
    # As a stream: the archive holds 100,000 small files, and going back in it is slow.
    with tarfile.open(common.download(URL, "imdb", MD5), "r|*") as tar:
        for member in tar:
            if member.isfile() and pattern.match(member.name):
                text = tar.extractfile(member).read()
                yield text.translate(None, _NO_PUNCTUATION).lower().split()


def build_dict(pattern: re.Pattern, cutoff: int) -> WordDict:
    """Number the words that occur more than `cutoff` times in the files whose names match."""
    counts: collections.Counter = collections.Counter()
    for words in tokenize(pattern):
        counts.update(words)
    return by_frequency(counts, cutoff)


def reader_creator(pos_pattern: re.Pattern, neg_pattern: re.Pattern, word_idx: dict, *_: Any) -> Samples:
    """Read all reviews now and return a reader of them, good ones first."""
    ids = as_bytes(word_idx)
    unknown = ids[b"<unk>"]
    samples = [
        ([ids.get(word, unknown) for word in words], label)
        for label, pattern in enumerate((pos_pattern, neg_pattern))
        for words in tokenize(pattern)
    ]
    return Samples(lambda: samples)


def train(word_idx: dict) -> Samples:
    """Return a reader of the training reviews."""
    return reader_creator(
        re.compile(r"aclImdb/train/pos/.*\.txt$"), re.compile(r"aclImdb/train/neg/.*\.txt$"), word_idx
    )


def test(word_idx: dict) -> Samples:
    """Return a reader of the test reviews."""
    return reader_creator(
        re.compile(r"aclImdb/test/pos/.*\.txt$"), re.compile(r"aclImdb/test/neg/.*\.txt$"), word_idx
    )


def word_dict() -> WordDict:
    """Number the words that occur more than 150 times in all reviews."""
    return build_dict(re.compile(r"aclImdb/(train|test)/(pos|neg)/.*\.txt$"), 150)


def fetch() -> None:
    """Get the file."""
    common.download(URL, "imdb", MD5)


def convert(path: str) -> None:
    """RecordIO files cannot be written; raises the error of common.convert."""
    common.convert(path, None, 1000, "imdb_train")
