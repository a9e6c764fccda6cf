"""Made-up words: pronounceable, all different, the same every time."""

from __future__ import annotations

import itertools

_SYLLABLES = [c + v for v in "aeiou" for c in "bdfgklmnprstvz"]


def words(count: int, ending: str = "") -> list[str]:
    """Return `count` words of three syllables and an ending."""
    triples = itertools.product(_SYLLABLES, repeat=3)
    # A step without a common factor with 70 ** 3 walks through all triples and keeps neighbours unlike.
    total = len(_SYLLABLES) ** 3
    table = ["".join(triple) for triple in triples]
    return [table[number * 31337 % total] + ending for number in range(count)]
