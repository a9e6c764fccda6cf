"""Where a seed is given, the numbers are those of paddlepaddle 1.8.5 (tests/golden/seeded.py), bit by bit.

Passes under 1.8.5 itself, too.
"""

import os
import sys

import numpy as np
import pytest

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
if TESTS not in sys.path:
    sys.path.insert(0, TESTS)

from golden import seeded  # noqa: E402

# The engine computes these from the drawn numbers in its own order; all else is compared bit by bit.
NEAR = {'loss': 1e-4}


@pytest.fixture(scope='module')
def golden():
    with np.load(os.path.join(TESTS, 'golden', 'data', 'seeded.npz')) as data:
        return {key: data[key] for key in data.files}


@pytest.mark.parametrize('name', list(seeded.CASES))
def test_seeded(name, golden):
    wanted = {key[len(name) + 1 :]: value for key, value in golden.items() if key.startswith(name + '/')}
    found = seeded.CASES[name]()
    assert sorted(found) == sorted(wanted)
    for key, value in found.items():
        want, tol = wanted[key], NEAR.get(key.split('/')[-1], 0)
        assert value.dtype == want.dtype and value.shape == want.shape, key
        if tol:
            np.testing.assert_allclose(value, want, rtol=tol, err_msg=key)
        else:
            np.testing.assert_array_equal(value, want, err_msg=key)

