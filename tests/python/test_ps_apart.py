"""A whole job is started again, and its servers have snapshots of steps that are more than one apart. Where servers agree on steps
(shrink, wait) it is as where they do not: every trainer hears which server is where and what to do, and every server ends with
that."""

import re

import pytest
from cluster import Job

STEPS = ["--model", "mlp", "--steps", "4"]
LONG = "600000"  # FLAGS_rpc_deadline: nobody waits for as long


def end_apart(job: Job, tmp_path, older: int) -> list:
    """A job that has ended at step 4; then the older server has only its snapshot of step 2. The folders of all servers."""
    job.start_all(*STEPS)
    job.end(30)
    folders = [tmp_path / "ps" / endpoint.replace(":", "_") for endpoint in job.endpoints]
    assert all([int(s.name[-20:]) for s in sorted(folder.glob("snapshot-*"))] == [2, 4] for folder in folders)
    (folders[older] / f"snapshot-{4:020}").rename(tmp_path / "not-written")
    job.clear()
    return folders


def env_of(tmp_path, loss: str) -> dict[str, str]:
    return {"FLAGS_ps_dir": str(tmp_path / "ps"), "FLAGS_ps_snapshot_steps": "2", "FLAGS_ps_on_trainer_loss": loss,
            "FLAGS_rpc_deadline": LONG}


def says_why(text: str, job: Job, older: int) -> str:
    """The error at the end of an output names the older server, another one, and what to do: the snapshot to go on from."""
    last = next(line for line in reversed(text.splitlines()) if "Error: " in line)
    assert f"server {job.endpoints[older]} is at step 2, server 127.0.0.1:" in last, text
    assert "at step 4: they were started from" in last, text
    return re.search("To go on from step 2, .* newer than (snapshot-[0-9]+) out of the folders that servers have in "
                     "FLAGS_ps_dir", last).group(1)


@pytest.mark.parametrize("loss", ["wait", "shrink"])
@pytest.mark.parametrize("servers, older", [(2, 0), (2, 1), (3, 0), (3, 1), (3, 2)])
def test_servers_that_agree_on_steps(tmp_path, servers, older, loss):
    with Job(servers, 2, env=env_of(tmp_path, loss)) as job:
        folders = end_apart(job, tmp_path, older)
        job.start_all(*STEPS)
        assert [p.end(120) for p in job.processes] == [1] * (servers + 2)
        keep = {says_why(p.output(), job, older) for p in job.processes}
        assert len(keep) == 1
        job.clear()
        for folder in folders:
            for snapshot in [p for p in folder.glob("snapshot-*") if p.name > keep.copy().pop()]:
                snapshot.rename(tmp_path / f"newer-{folder.name}")
        job.start_all(*STEPS)
        job.end(30)
        assert all("taken up at step 2" in server.output() for server in job.processes[:servers])


@pytest.mark.parametrize("loss", ["wait", "shrink"])
@pytest.mark.parametrize("older", [0, 1])
def test_a_trainer_that_comes_late(tmp_path, older, loss):
    """The servers are there as long as a trainer is to come: it hears the same."""
    with Job(2, 2, env=env_of(tmp_path, loss)) as job:
        end_apart(job, tmp_path, older)
        servers = [job.start("server", i, *STEPS) for i in range(2)]
        for i in range(2):
            trainer = job.start("trainer", i, *STEPS)
            assert trainer.end(30) == 1
            says_why(trainer.output(), job, older)
        for server in servers:
            assert server.end(30) == 1
            says_why(server.output(), job, older)


@pytest.mark.parametrize("older", [0, 1])
def test_only_trainers_accept_it(tmp_path, older):
    """Servers that agree on steps have to accept it too: nothing is trained, and one of them says so."""
    with Job(2, 2, env=env_of(tmp_path, "wait")) as job:
        folders = end_apart(job, tmp_path, older)
        for i in range(2):
            job.start("server", i, *STEPS)
        for i in range(2):
            job.start("trainer", i, *STEPS, "--steps", "12", env={"FLAGS_ps_accept_rollback": "1"})
        assert [p.end(40) for p in job.processes] == [1] * 4
        for p in job.processes:
            assert f"server {job.endpoints[older]} came back with step 2, but the job is at step 4" in p.output(), p.output()
            assert "set FLAGS_ps_accept_rollback=1 on all servers" in p.output(), p.output()
        kept = [[int(s.name[-20:]) for s in sorted(folder.glob("snapshot-*"))] for folder in folders]
        assert kept[older] == [2] and kept[1 - older] == [2, 4]


@pytest.mark.parametrize("older", [0, 1])
def test_all_accept_it(tmp_path, older):
    with Job(2, 2, env={**env_of(tmp_path, "wait"), "FLAGS_ps_accept_rollback": "1"}) as job:
        end_apart(job, tmp_path, older)
        job.start_all(*STEPS, "--steps", "6")
        job.end(30)
