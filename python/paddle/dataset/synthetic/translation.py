"""Stand-ins of the translation data sets: wmt14 and wmt16.

Each source word has one target word, and the target runs backwards: something to learn for attention.
"""

from __future__ import annotations

import numpy as np

from paddle.dataset.synthetic import names, pack

_USED = 200
_MARKS = ["<s>", "<e>", "<unk>"]


def _pairs(seed: int, count: int, source: list[str], target: list[str]) -> bytes:
    rng = np.random.RandomState(seed)
    rows = []
    for _ in range(count):
        # The square makes low numbers frequent, as words are in real text.
        picked = (rng.random_sample(rng.randint(3, 9)) ** 2 * _USED).astype(int)
        rows.append(" ".join(source[n] for n in picked) + "\t" + " ".join(target[n] for n in picked[::-1]))
    return pack.lines(rows)


def wmt14() -> bytes:
    """wmt14.tgz with 2,000 training, 200 test and 100 pairs to generate from; dictionaries of 30,000 words.

    The dictionaries are as long as the real ones, so any id below 30,000 is a word.
    """
    source, target = names.words(29997, "s"), names.words(29997, "t")
    members = [
        ("wmt14/src.dict", pack.lines(_MARKS + source)),
        ("wmt14/trg.dict", pack.lines(_MARKS + target)),
        ("wmt14/train/train", _pairs(14, 2000, source, target)),
        ("wmt14/test/test", _pairs(15, 200, source, target)),
        ("wmt14/gen/gen", _pairs(16, 100, source, target)),
    ]
    return pack.gz(pack.tar(members))


def wmt16() -> bytes:
    """wmt16.tar.gz with 2,000 training, 200 test and 200 validation pairs."""
    source, target = names.words(_USED, "e"), names.words(_USED, "d")
    parts = [("train", 2000), ("test", 200), ("val", 200)]
    return pack.gz(
        pack.tar(
            (f"wmt16/{name}", _pairs(17 + n, count, source, target)) for n, (name, count) in enumerate(parts)
        )
    )
