"""Clicks on advertisements for the examples: files in Criteo's layout, or made-up ones.

A sample is (13 floats, ids of slot 1, ..., ids of slot 26, label); ids lie in [0, rows).
"""

import zlib

import numpy as np

DENSE, SLOTS = 13, 26
SLOT_NAMES = [f"C{number}" for number in range(1, SLOTS + 1)]


def criteo(path, rows):
    """A reader of lines: label, 13 counts and 26 tokens, all separated by tabs; any of them may be empty."""

    def reader():
        with open(path, encoding="ascii") as lines:
            for line in lines:
                label, *fields = line.rstrip("\n").split("\t")
                counts = np.array([float(field or 0) for field in fields[:DENSE]], dtype="float32")
                tokens = [f"{slot}_{token}".encode() for slot, token in enumerate(fields[DENSE:])]
                ids = [[zlib.crc32(token) % rows] for token in tokens]
                yield (np.log1p(np.maximum(counts, 0)), *ids, [int(label)])

    return reader


def made_up(count, rows, seed=1, values=200):
    """A reader of `count` samples: each slot has `values` tokens, and each token pulls the label one way."""

    def reader():
        fixed = np.random.RandomState(7)
        pull = fixed.normal(0, 0.5, (SLOTS, values))
        row = fixed.randint(0, rows, (SLOTS, values))
        weight = fixed.normal(0, 1.0, DENSE)
        rng = np.random.RandomState(seed)
        slots = np.arange(SLOTS)
        for _ in range(0, count, 1000):
            # Like real tokens: a few are frequent, most are rare.
            token = (values * rng.power(0.5, (1000, SLOTS))).astype("int64")
            dense = rng.uniform(-1, 1, (1000, DENSE)).astype("float32")
            odds = pull[slots, token].sum(axis=1) + dense @ weight
            label = (rng.uniform(size=1000) < 1 / (1 + np.exp(-odds))).astype("int64")
            ids = row[slots, token][..., None].tolist()  # a list of one id for each slot
            for i in range(1000):
                yield (dense[i], *ids[i], [int(label[i])])

    return reader


def reader(path, rows, count, seed=1):
    """Of the file when there is one, else of made-up samples."""
    return criteo(path, rows) if path else made_up(count, rows, seed)
