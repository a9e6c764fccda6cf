"""Stand-ins made of rows of numbers: uci_housing and mq2007."""

from __future__ import annotations

import numpy as np

from paddle.dataset.synthetic import pack


def housing() -> bytes:
    """506 rows of 13 features and a price that is nearly linear in them, in the layout of housing.data."""
    rng = np.random.RandomState(13)
    rows = 506
    lows = np.array([0.0, 0, 0.5, 0, 0.38, 3.5, 3, 1.1, 1, 187, 12.6, 0.3, 1.7])
    highs = np.array([30.0, 100, 27, 1, 0.87, 8.8, 100, 12, 24, 711, 22, 396.9, 38])
    # Two hidden qualities of a district move all features, as in real districts.
    hidden = rng.randn(rows, 2)
    mix = rng.uniform(-1, 1, (2, 13))
    scaled = 1 / (1 + np.exp(-(hidden @ mix + 0.7 * rng.randn(rows, 13))))
    features = lows + scaled * (highs - lows)
    features[:, 3] = scaled[:, 3] > 0.85
    # So small that plain SGD at 0.001 is below a loss of 10 in a hundred passes.
    weights = 0.6 * np.array([-4.0, 3, -1, 2, -5, 14, 0.5, -8, 4, -5, -6, 3, -15])
    price = 22 + (scaled - 0.5) @ weights + 1.5 * rng.randn(rows)
    table = np.column_stack([features, np.clip(price, 5, 50)])
    return pack.lines(" ".join(f"{value:.5f}" for value in row) for row in table)


def mq2007() -> bytes:
    """120 queries to train on and 40 to test, 8 to 15 documents each; relevance follows a linear score.

    The real file is a RAR; this is a zip with the same members.
    """
    rng = np.random.RandomState(46)
    weights = rng.randn(46)

    def part(first: int, queries: int) -> bytes:
        rows = []
        for query in range(first, first + queries):
            features = rng.uniform(0, 1, (rng.randint(8, 16), 46))
            score = (features - 0.5) @ weights + 0.1 * rng.randn(len(features))
            for values, relevance in zip(features, np.digitize(score, [0.5, 2.0])):
                pairs = " ".join(f"{number + 1}:{value:.6f}" for number, value in enumerate(values))
                rows.append(f"{relevance} qid:{query} {pairs} #docid = made-up")
        return pack.lines(rows)

    folder = "MQ2007/MQ2007/Fold1"
    return pack.zipped(
        [
            (f"{folder}/train.txt", part(1, 120)),
            (f"{folder}/vali.txt", part(201, 40)),
            (f"{folder}/test.txt", part(301, 40)),
        ]
    )
