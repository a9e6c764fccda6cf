"""Workers of a Fleet job have batches in different numbers: who is through early waits in a meeting, and the others finish."""

import numpy as np
import pytest
from test_fleet_meet import Job, said

SOON = {"FLAGS_rpc_deadline": "20000"}
ONE, BOTH, OTHER = 0.5 * 1, 0.5 * 2, 0.5 * 3  # what a step takes from w: of worker 0, of both together, of worker 1


def weights(job):
    """What each worker has in the end; `v` has twice the gradient of `w`, and is on the other server."""
    found = [eval(said(worker, "weights ")[-1].removeprefix("weights ")) for worker in job.workers]
    assert all(w * 2 == v for w, v in found), found
    return [w for w, _ in found]


@pytest.mark.parametrize("loss", ["fail", "wait"])
def test_five_batches_and_eight(loss):
    """Of the steps that one has no batch for the other's gradient counts whole. Behind the meeting both train on together."""
    with Job(2, "feed:1 train:5 barrier train:2 barrier weight weights", "feed:3 train:8 barrier train:2 barrier weight weights",
             FLAGS_ps_on_trainer_loss=loss, **SOON) as job:
        job.end()
        assert weights(job) == [-(5 * BOTH + 3 * OTHER + 2 * BOTH)] * 2
        assert len(said(job.workers[0], "did train")) == 2
        told = "the others train on: trainer 0 waits for them in 'barrier_worker' and gives nothing to their steps, from step 6 on"
        assert job.workers[0].output().count(told) == 1 and "the others train on" not in job.workers[1].output()
        assert all(server.output().count("passes step 6, which it has no batch for") >= 1 for server in job.servers)
        assert all("passes step 7, which" not in server.output() for server in job.servers)


def test_who_has_passed_steps_has_the_parameters_of_now(tmp_path):
    """Behind the meeting in its scope, in what it saves, and in the gradient of its next step, which depends on them."""
    words = "feed:0.5 train:{} barrier weights save:{} barrier train:2 barrier weights"
    with Job(2, *(words.format(batches, tmp_path / str(i)) for i, batches in enumerate((3, 8))), JOB_LOSS="square", **SOON) as job:
        job.end()
        right = [2 - 2 * 0.75**steps for steps in (8, 10)]
        for i, worker in enumerate(job.workers):
            found = [eval(line.removeprefix("weights ")) for line in said(worker, "weights ")]
            np.testing.assert_allclose(found, [[each] * 2 for each in right], rtol=1e-5, err_msg=f"worker {i}")
            saved = [np.frombuffer((tmp_path / str(i) / name).read_bytes()[-4:], "float32").item() for name in "wv"]
            np.testing.assert_allclose(saved, [right[0]] * 2, rtol=1e-5, err_msg=f"worker {i}")


def test_sums_epochs_and_a_worker_without_a_batch():
    """Three workers, each the shortest once; one begins with a meeting, before its first step."""
    words = ("feed:1 reduce train:4 reduce train:1 reduce weight weights",
             "feed:3 train:3 reduce train:2 reduce train:2 reduce weight weights",
             "feed:2 train:1 reduce reduce train:3 reduce weight weights")
    with Job(2, *words, **SOON) as job:
        job.end()
        # Those who train in each step: 1 and 2, 1, 1; 0 and 1, 0 and 1, 0, 0; 0, 1 and 2, 1 and 2, 2.
        right = sum([2.5, 3, 3] + [2, 2, 1, 1] + [2, 2.5, 2]) * 0.5
        assert weights(job) == pytest.approx([-right] * 3, abs=1e-5)
        assert len({said(worker, "reduced ")[0] for worker in job.workers}) == 1


def test_the_deadline_is_of_a_wait_in_which_nothing_moves(tmp_path):
    """The barrier takes longer than FLAGS_rpc_deadline, while the other trains a step now and then."""
    files = [tmp_path / str(i) for i in range(5)]
    words = " ".join(f"wait:{file} train:1" for file in files)
    with Job(2, "train:1 barrier weight weights", f"train:1 {words} barrier weight weights", FLAGS_rpc_deadline="2500") as job:
        for i, file in enumerate(files):
            job.workers[0].wait_for(f"has waited {i + 1} s", 60)
            file.touch()
            job.workers[1].wait_for(f"did wait {file}", 60)
        job.end()
        assert weights(job) == [-0.5 * 6] * 2


@pytest.mark.parametrize("killed", [0, 1])
def test_a_server_is_killed_while_one_waits_and_one_trains(tmp_path, killed):
    """With the log on. The first server is the one where they meet."""
    go = tmp_path / "go"
    with Job(2, "feed:1 train:5 barrier train:1 barrier weight weights",
             f"feed:3 train:6 say:six wait:{go} train:2 barrier train:1 barrier weight weights", folder=tmp_path, **SOON) as job:
        job.workers[1].wait_for("six", 60)
        job.servers[killed].kill()
        go.touch()
        job.restart_server(killed)
        job.end()
        assert weights(job) == [-(5 * BOTH + 3 * OTHER + BOTH)] * 2


def test_who_waits_is_killed_and_comes_again(tmp_path):
    """It is waited for in the step, as it may have a batch; started again it waits in the same meeting."""
    go = tmp_path / "go"
    with Job(2, "feed:1 train:2 barrier weight weights", f"feed:3 train:3 say:three wait:{go} train:2 barrier weight weights",
             folder=tmp_path, FLAGS_ps_on_trainer_loss="wait", **SOON) as job:
        job.workers[1].wait_for("three", 60)
        job.workers[0].kill()
        go.touch()
        job.workers[1].wait_for("trainer 0", 60)
        job.workers.pop(0).close()
        job.worker(0, "barrier weight weights")
        job.end()
        assert weights(job) == [-(2 * BOTH + 3 * OTHER)] * 2


def test_a_barrier_beside_training_gives_up_no_step(tmp_path):
    """One thread of a worker waits in a barrier, while another one trains: slowly, but its batches count."""
    with Job(2, "feed:1 beside:6 weight weights", "feed:3 train:6 barrier weight weights", **SOON) as job:
        job.end()
        assert weights(job) == [-(6 * BOTH)] * 2
