"""What servers hold is changed in a trainer alone (jobs/changed.py): before the first step that is told, later it is refused, and
in no case does a step train with it in silence. What is changed back, or not at all, is nobody's affair."""

import re

import pytest
from cluster import Job

GIVEN = "loaded or set in this trainer only: w"
SAID = {
    "clone": GIVEN,
    "vars": GIVEN,
    "set": GIVEN,
    "element": GIVEN,
    "feed_copy": "fed in this trainer only: w",
    "ops": "written by op 'assign' of another Program in this trainer only: w",
}
FUSED = [{}, {"FLAGS_fuse_ops": "0"}]


def run(tmp_path, how: str, *options: str, servers: int = 2, env: dict | None = None) -> str:
    """What the trainer says; all processes end well."""
    with Job(servers, 1, "changed.py", env) as job:
        job.start_all("--how", how, "--folder", str(tmp_path), *options)
        job.end(60)
        said = job.processes[-1].output()
    assert "done" in said, said
    return said


def steps(said: str) -> list[str]:
    return re.findall(r"^step .*", said, re.MULTILINE)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> list[str]:
    said = run(tmp_path_factory.mktemp("job"), "evaluate", "--at", "9")
    assert "trainer only" not in said and "refused" not in said, said
    return steps(said)


@pytest.mark.parametrize("how", SAID)
def test_before_the_first_step_it_is_told(tmp_path, how, undisturbed):
    said = run(tmp_path, how)
    assert "refused" not in said, said
    (line,) = [line for line in said.splitlines() if "in this trainer only" in line]
    assert SAID[how] in line and "Load them in the servers" in line and "NumpyArrayInitializer" in line, said
    assert steps(said) == undisturbed


@pytest.mark.parametrize("env", FUSED, ids=["", "not fused"])
@pytest.mark.parametrize("how", SAID)
def test_later_it_is_refused(tmp_path, how, env, undisturbed):
    said = run(tmp_path, how, "--at", "1", env=env)
    (line,) = [line for line in said.splitlines() if line.startswith("refused in step 1")]
    assert SAID[how] in line and "after its first step" in line and "startup Program" in line, said
    assert steps(said) == undisturbed


def test_on_several_places(tmp_path):
    """A step is several runs then: what they write themselves is no change."""
    assert "trainer only" not in run(tmp_path, "evaluate", "--places", "2", "--at", "1")
    for how in ("set", "feed_copy"):
        assert f"refused in step 1: {SAID[how]}" in run(tmp_path, how, "--places", "2", "--at", "1")
    assert "refused in step 1: 'base' was loaded or set" in run(tmp_path, "rate", "--places", "2", "--at", "1")


def test_in_async_mode(tmp_path):
    assert GIVEN in run(tmp_path, "set", "--async")
    assert "refused in step 2: " + GIVEN in run(tmp_path, "set", "--async", "--at", "2", servers=1)


@pytest.mark.parametrize("env", FUSED, ids=["", "not fused"])
@pytest.mark.parametrize("at", ["0", "1"])
@pytest.mark.parametrize("how", ["same", "swap", "evaluate"])
def test_what_is_changed_back_is_no_change(tmp_path, how, at, env, undisturbed):
    said = run(tmp_path, how, "--at", at, env=env)
    assert "trainer only" not in said and "refused" not in said, said
    assert steps(said) == undisturbed


@pytest.mark.parametrize("at", ["0", "1"])
@pytest.mark.parametrize("how, name", [("feed", "w"), ("table_feed", "emb"), ("rate_feed", "base")])
def test_what_servers_hold_is_not_fed_to_a_step(tmp_path, how, name, at, undisturbed):
    said = run(tmp_path, how, "--at", at)
    (line,) = [line for line in said.splitlines() if line.startswith(f"refused in step {at}")]
    assert f"'{name}' is fed to a step of a trainer. Servers hold it" in line, said
    assert steps(said) == undisturbed


@pytest.mark.parametrize("at", ["0", "1"])
@pytest.mark.parametrize("how, name, way", [
    ("rate", "base", "loaded or set"), ("rate_count", "count", "loaded or set"),
    ("rate_ops", "base", "written by op 'assign' of another Program"),
])
def test_what_a_rate_is_made_from_is_refused(tmp_path, how, name, way, at, undisturbed):
    said = run(tmp_path, how, "--at", at)
    (line,) = [line for line in said.splitlines() if line.startswith(f"refused in step {at}")]
    assert f"'{name}' was {way} in this trainer only. Servers compute the learning rate" in line, said
    assert steps(said) == undisturbed


@pytest.mark.parametrize("at", ["0", "1"])
def test_a_table_that_lies_on_servers_is_not_set(tmp_path, at, undisturbed):
    said = run(tmp_path, "table", "--at", at)
    assert "the values of 'emb' lie on the servers of this job" in said, said
    assert steps(said) == undisturbed


def test_a_table_that_is_loaded_beside_the_servers(tmp_path, undisturbed):
    said = run(tmp_path, "table_ops", "--at", "1")
    (line,) = [line for line in said.splitlines() if "in this trainer only" in line]
    assert "op 'load' gives 'emb' values in this trainer only" in line, said
    assert [line.split()[2] for line in steps(said)] == [line.split()[2] for line in undisturbed]
