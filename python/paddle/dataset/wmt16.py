"""WMT16, the Multi30K picture descriptions in English and German.

A sample is (source ids from <s> to <e>, target ids after <s>, target ids before <e>).
"""

from __future__ import annotations

import collections
import functools
import os
import tarfile
from typing import Callable, Iterator

from paddle.dataset import common

__all__ = ["train", "test", "validation", "fetch", "get_dict", "convert"]

DATA_URL = "http://paddlemodels.bj.bcebos.com/wmt/wmt16.tar.gz"
DATA_MD5 = "0c38be43600334966403524a40dcd81e"

TOTAL_EN_WORDS = 11250
TOTAL_DE_WORDS = 19220

START_MARK = "<s>"
END_MARK = "<e>"
UNK_MARK = "<unk>"

_TOTAL = {"en": TOTAL_EN_WORDS, "de": TOTAL_DE_WORDS}


def _check_lang(lang: str) -> None:
    if lang not in _TOTAL:
        raise ValueError(f"wmt16: the language must be 'en' (English) or 'de' (German), got {lang!r}.")


def _file() -> str:
    return common.download(DATA_URL, "wmt16", DATA_MD5, "wmt16.tar.gz")


def _pairs(tar_file: str, member: str) -> Iterator[list[str]]:
    with tarfile.open(tar_file) as tar:
        for line in tar.extractfile(member):
            pair = line.decode().strip().split("\t")
            if len(pair) == 2:
                yield pair


@functools.lru_cache(maxsize=8)
def _words(tar_file: str, changed: int, lang: str) -> list[str]:
    """All words of the training text, frequent ones first. `changed` is part of the key."""
    column = 0 if lang == "en" else 1
    counts: collections.Counter = collections.Counter()
    for pair in _pairs(tar_file, "wmt16/train"):
        counts.update(pair[column].split())
    return [word for word, _ in counts.most_common()]


def _dictionary(tar_file: str, dict_size: int, lang: str) -> dict[str, int]:
    words = _words(tar_file, os.stat(tar_file).st_mtime_ns, lang)
    size = min(dict_size, _TOTAL[lang])
    marks = [START_MARK, END_MARK, UNK_MARK]
    return {word: number for number, word in enumerate([*marks, *words[: max(0, size - len(marks))]])}


def reader_creator(
    tar_file: str, file_name: str, src_dict_size: int, trg_dict_size: int, src_lang: str
) -> Callable[[], Iterator[tuple]]:
    """Return a reader of one member of the archive."""

    def reader() -> Iterator[tuple]:
        source_ids = _dictionary(tar_file, src_dict_size, src_lang)
        target_ids = _dictionary(tar_file, trg_dict_size, "de" if src_lang == "en" else "en")
        start, end, unknown = (source_ids[mark] for mark in (START_MARK, END_MARK, UNK_MARK))
        for pair in _pairs(tar_file, file_name):
            source, target = pair if src_lang == "en" else pair[::-1]
            ids = [target_ids.get(word, unknown) for word in target.split()]
            yield (
                [start, *(source_ids.get(w, unknown) for w in source.split()), end],
                [start, *ids],
                [*ids, end],
            )

    return reader


def _part(
    member: str, src_dict_size: int, trg_dict_size: int, src_lang: str
) -> Callable[[], Iterator[tuple]]:
    _check_lang(src_lang)
    return reader_creator(_file(), member, src_dict_size, trg_dict_size, src_lang)


def train(src_dict_size: int, trg_dict_size: int, src_lang: str = "en") -> Callable[[], Iterator[tuple]]:
    """Return a reader of the training pairs. The sizes count the marks <s>, <e> and <unk>."""
    return _part("wmt16/train", src_dict_size, trg_dict_size, src_lang)


def test(src_dict_size: int, trg_dict_size: int, src_lang: str = "en") -> Callable[[], Iterator[tuple]]:
    """Return a reader of the test pairs."""
    return _part("wmt16/test", src_dict_size, trg_dict_size, src_lang)


def validation(src_dict_size: int, trg_dict_size: int, src_lang: str = "en") -> Callable[[], Iterator[tuple]]:
    """Return a reader of the validation pairs."""
    return _part("wmt16/val", src_dict_size, trg_dict_size, src_lang)


def get_dict(lang: str, dict_size: int, reverse: bool = False) -> dict:
    """Return the dictionary of a language: word -> id, or id -> word with `reverse=True`."""
    _check_lang(lang)
    words = _dictionary(_file(), dict_size, lang)
    return {number: word for word, number in words.items()} if reverse else words


def fetch() -> None:
    """Get the file."""
    _file()


def convert(path: str, src_dict_size: int, trg_dict_size: int, src_lang: str) -> None:
    """RecordIO files cannot be written; raises the error of common.convert."""
    common.convert(path, None, 1000, "wmt16_train")
