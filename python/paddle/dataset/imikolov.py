"""imikolov: the Penn Treebank text, as n-grams or as sequences of word ids.

An NGRAM sample is a tuple of n ids; a SEQ sample is (ids after <s>, ids before <e>), one word apart.
"""

from __future__ import annotations

import collections
import tarfile
from typing import Callable, Iterable, Iterator

from paddle.dataset import common
from paddle.dataset.words import WordDict, as_bytes, by_frequency

__all__ = ["train", "test", "build_dict", "convert"]

URL = "https://dataset.bj.bcebos.com/imikolov%2Fsimple-examples.tgz"
MD5 = "30177ea32e27c525793142b6bf2c8e2d"

_TRAIN_FILE = "./simple-examples/data/ptb.train.txt"
_TEST_FILE = "./simple-examples/data/ptb.valid.txt"


class DataType:
    """The kinds of sample."""

    NGRAM = 1
    SEQ = 2


def word_count(f: Iterable, word_freq: dict | None = None) -> dict:
    """Count the words of lines into `word_freq`, and one <s> and <e> for each line."""
    if word_freq is None:
        word_freq = collections.defaultdict(int)
    for line in f:
        for word in line.split():
            word_freq[word] += 1
        word_freq["<s>"] += 1
        word_freq["<e>"] += 1
    return word_freq


def _lines(member: str) -> Iterator[bytes]:
    path = common.download(URL, "imikolov", MD5)
    with tarfile.open(path) as tar:
        names = {name.removeprefix("./"): name for name in tar.getnames()}
        wanted = member.removeprefix("./")
        if wanted not in names:
            raise ValueError(f"{path}: has no member {member}.")
        yield from tar.extractfile(names[wanted])


def build_dict(min_word_freq: int = 50) -> WordDict:
    """Number the words of the training and test text that occur more than `min_word_freq` times."""
    counts = word_count(_lines(_TEST_FILE), word_count(_lines(_TRAIN_FILE)))
    counts.pop(b"<unk>", None)
    return by_frequency(counts, min_word_freq)


def reader_creator(filename: str, word_idx: dict, n: int, data_type: int) -> Callable[[], Iterator[tuple]]:
    """Return a reader of one text file of the archive."""
    if data_type not in (DataType.NGRAM, DataType.SEQ):
        raise ValueError(f"imikolov: data_type must be DataType.NGRAM or DataType.SEQ, got {data_type!r}.")
    if data_type == DataType.NGRAM and n < 1:
        raise ValueError(f"imikolov: n-grams need n of at least 1, got {n!r}.")

    def reader() -> Iterator[tuple]:
        ids = as_bytes(word_idx)
        first, last, unknown = ids[b"<s>"], ids[b"<e>"], ids[b"<unk>"]
        for line in _lines(filename):
            words = [ids.get(word, unknown) for word in line.split()]
            if data_type == DataType.NGRAM:
                words = [first, *words, last]
                for end in range(n, len(words) + 1):
                    yield tuple(words[end - n : end])
            elif n <= 0 or len(words) + 1 <= n:
                yield [first, *words], [*words, last]

    return reader


def train(word_idx: dict, n: int, data_type: int = DataType.NGRAM) -> Callable[[], Iterator[tuple]]:
    """Return a reader of the training text. For SEQ, `n` > 0 is the longest sequence taken."""
    return reader_creator(_TRAIN_FILE, word_idx, n, data_type)


def test(word_idx: dict, n: int, data_type: int = DataType.NGRAM) -> Callable[[], Iterator[tuple]]:
    """Return a reader of the test text. For SEQ, `n` > 0 is the longest sequence taken."""
    return reader_creator(_TEST_FILE, word_idx, n, data_type)


def fetch() -> None:
    """Get the file."""
    common.download(URL, "imikolov", MD5)


def convert(path: str) -> None:
    """RecordIO files cannot be written; raises the error of common.convert."""
    common.convert(path, None, 1000, "imikolov_train")
