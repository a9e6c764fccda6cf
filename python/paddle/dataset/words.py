"""What the text data sets share: word dictionaries and samples that can be read in two ways."""

from __future__ import annotations

from typing import Any, Callable, Iterable, Iterator


class WordDict(dict):
    """Word -> id with words as bytes, that also finds a word given as str, and the other way round.

    Upstream had bytes on Python 3 and str on Python 2; scripts of both kinds look words up.

    >>> WordDict({b"cat": 3})["cat"]
    3
    """

    def __missing__(self, word: Any) -> int:
        return dict.__getitem__(self, _other(word))

    def __contains__(self, word: Any) -> bool:
        return dict.__contains__(self, word) or dict.__contains__(self, _other(word))

    def get(self, word: Any, default: Any = None) -> Any:
        """Return the id of a word, else the default."""
        return self[word] if word in self else default


def _other(word: Any) -> Any:
    if isinstance(word, bytes):
        return word.decode("utf-8", "surrogateescape")
    return word.encode("utf-8", "surrogateescape") if isinstance(word, str) else word


def as_bytes(word_idx: dict) -> dict[bytes, int]:
    """Return the dictionary with every word as bytes, for fast lookups of words from files."""
    return {_other(word) if isinstance(word, str) else word: number for word, number in word_idx.items()}


def by_frequency(counts: dict[Any, int], cutoff: int) -> WordDict:
    """Number the words seen more than `cutoff` times: frequent first, then by spelling; '<unk>' is last."""
    kept = sorted((w for w, n in counts.items() if n > cutoff), key=lambda w: (-counts[w], as_key(w)))
    words = WordDict((word, number) for number, word in enumerate(kept))
    words["<unk>"] = len(kept)
    return words


def as_key(word: Any) -> bytes:
    """The form of a word that is compared: bytes."""
    return _other(word) if isinstance(word, str) else word


class Samples:
    """A reader that can also be iterated over itself.

    Some data sets gave a reader in one release and a running iterator in another; this serves both.
    """

    def __init__(self, start: Callable[[], Iterable[Any]]) -> None:
        self._start = start
        self._running: Iterator[Any] | None = None

    def __call__(self) -> Iterator[Any]:
        return iter(self._start())

    def __iter__(self) -> Iterator[Any]:
        return iter(self._start())

    def __next__(self) -> Any:
        if self._running is None:
            self._running = iter(self._start())
        return next(self._running)
