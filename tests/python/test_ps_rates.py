"""Several optimizers in one Program, and servers that hold parameters of one of them only: a trainer fetches and saves all that one
process would, each rate and schedule from a server that has it.

One trainer and small numbers (jobs/rates.py): sync or not, what is saved is bit by bit what one process saves."""

import pickle
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from cluster import JOBS, Job, alone

sys.path.insert(0, str(JOBS))
import rates  # noqa: E402

SIZES = pytest.mark.parametrize("servers, mode", [(2, []), (3, ["--async"])], ids=["2 servers", "3 servers, async"])


def of_one(out: Path, *options: str) -> Path:
    out.mkdir()
    alone("rates.py", "--out", str(out), *options)
    return out


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    """What one process gives with these options."""
    return cache(lambda *options: of_one(tmp_path_factory.mktemp("one") / "out", *options))


def of_job(out: Path, servers: int, *options: str) -> Path:
    out.mkdir()
    with Job(servers, 1, "rates.py", env={"FLAGS_ps_reconnect": "500"}) as job:
        job.start_all(*options, "--out", str(out))
        job.end(60)
    return out


def assert_same(got: Path, want: Path) -> None:
    for name in ("saved.pdparams", "saved.pdopt"):
        mine, theirs = (pickle.loads((folder / name).read_bytes()) for folder in (got, want))
        assert sorted(mine) == sorted(theirs), name
        for key, value in theirs.items():
            np.testing.assert_array_equal(mine[key], value, err_msg=key)
    mine, theirs = ({path.name: path.read_bytes() for path in (folder / "persistables").iterdir()} for folder in (got, want))
    assert sorted(mine) == sorted(theirs)
    assert not [name for name in theirs if mine[name] != theirs[name]]
    mine, theirs = (np.load(folder / "fetched.npz") for folder in (got, want))
    assert len(mine.files) == len(theirs.files) > 1
    for key in theirs.files:
        np.testing.assert_array_equal(mine[key], theirs[key], err_msg=key)


@SIZES
@pytest.mark.parametrize("kind", list(rates.KINDS))
def test_a_trainer_saves_and_fetches_what_one_process_would(tmp_path, one, kind, servers, mode):
    assert_same(of_job(tmp_path / "job", servers, "--kind", kind, *mode), one("--kind", kind))


@pytest.mark.parametrize("how", ["load", "persistables"])
@pytest.mark.parametrize("kind", ["powers", "schedule first"])
def test_one_process_goes_on_from_what_a_trainer_saved(tmp_path, one, kind, how):
    saved = of_job(tmp_path / "job", 2, "--kind", kind)
    got = of_one(tmp_path / "rest", "--kind", kind, "--load", str(saved), "--how", how)
    assert_same(got, one("--kind", kind, "--load", str(one("--kind", kind)), "--how", how))


@SIZES
@pytest.mark.parametrize("kind", ["constants", "schedule first", "schedule last"])
def test_a_rate_that_no_update_reads_as_it_is(tmp_path, one, kind, servers, mode):
    """w0 learns at twice of it."""
    assert_same(of_job(tmp_path / "job", servers, "--kind", kind, "--scaled", *mode), one("--kind", kind, "--scaled"))


@SIZES
@pytest.mark.parametrize("frozen", ["constant", "schedule", "own schedule"])
def test_a_rate_that_no_server_has(tmp_path, one, frozen, servers, mode):
    """That of an optimizer whose only parameter is frozen: the trainer has it."""
    options = ["--kind", "schedule first", "--frozen", frozen]
    assert_same(of_job(tmp_path / "job", servers, *options, *mode), one(*options))
