"""fused_embedding_seq_pool and nce with sparse gradients, through servers: what one process gives (jobs/pooled.py)."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from cluster import Job, alone


def found(said: str) -> tuple[list[float], list[np.ndarray]]:
    losses = [float(each) for each in re.findall(r"^loss (\S+)$", said, re.MULTILINE)]
    return losses, [np.array(each) for each in json.loads(re.search(r"^ends (.*)$", said, re.MULTILINE)[1])]


@pytest.mark.parametrize("rule", ["SGD", "Adagrad"])
def test_pooled_rows_equal_one_process(rule):
    losses, want = found(alone("pooled.py", "--rule", rule))
    with Job(2, 2, "pooled.py") as job:
        job.start_all("--rule", rule)
        job.end(60)
        told = [found(each) for each in job.clear()[2:]]
    np.testing.assert_allclose(np.mean([each for each, _ in told], axis=0), losses, rtol=1e-5, atol=1e-5)
    for _, values in told:
        for value, each in zip(values, want):
            np.testing.assert_allclose(value, each, rtol=0, atol=1e-5)


def test_nce_on_servers():
    """One trainer draws the numbers that one process draws; two trainers agree on what servers have in the end."""
    losses, want = found(alone("pooled.py", "--kind", "nce"))
    for trainers in (1, 2):
        with Job(2, trainers, "pooled.py") as job:
            job.start_all("--kind", "nce")
            job.end(60)
            told = [found(each) for each in job.clear()[2:]]
        if trainers == 1:
            np.testing.assert_allclose(told[0][0], losses, rtol=1e-5, atol=1e-5)
        for value, each in zip(told[0][1], want if trainers == 1 else told[1][1]):
            np.testing.assert_allclose(value, each, rtol=0, atol=1e-5)
