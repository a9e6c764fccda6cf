"""Servers load what was saved before: trainers get all of the model with their startup Program, also what nobody trains."""

import pytest
from cluster import Job, alone


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """(folder, name -> bytes of the value) of a model that one process has trained."""
    folder = tmp_path_factory.mktemp("model")
    return folder, values(alone("pretrained.py", "--folder", str(folder), "--seed", "7"), "saved")


def values(said: str, when: str) -> dict[str, str]:
    return dict(line.split()[1:3] for line in said.splitlines() if line.startswith(when + " "))


@pytest.mark.parametrize("servers", [1, 3])
@pytest.mark.parametrize("how", ["persistables", "params", "one file", "state"])
@pytest.mark.parametrize("seed", [0, 5])
def test_trainers_start_with_all_that_servers_loaded(saved, servers, how, seed):
    folder, want = saved
    with Job(servers, 2, "pretrained.py") as job:
        job.start_all("--folder", str(folder), "--how", how, "--seed", str(seed))
        job.end()
        started = [values(p.output(), "starts") for p in job.processes if values(p.output(), "starts")]
    assert len(want) == 5
    assert started == [want, want]
