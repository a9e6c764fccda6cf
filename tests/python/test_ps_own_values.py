"""What a trainer alone holds (moving averages) when its process is replaced: it is told that servers do not keep it, and what it
saved and loads goes on as if nothing had happened (jobs/averages.py)."""

import re

import pytest
from cluster import Job

SAID = "servers do not keep what trainers alone hold"


def job_of(trainers: int = 1) -> Job:
    return Job(1, trainers, "averages.py", {"FLAGS_ps_on_trainer_loss": "wait", "FLAGS_ps_reconnect": "500",
                                            "FLAGS_rpc_deadline": "30000"})


def averaged(text: str) -> float:
    return float(re.search(r"averaged (\S+)", text)[1])


def undisturbed() -> float:
    with job_of() as job:
        job.start("server", 0, "--average")
        trainer = job.start("trainer", 0, "--average", "--steps", "8")
        job.end()
        assert SAID not in trainer.output(), trainer.output()
        return averaged(trainer.output())


def started_again(tmp_path, *options: str, loads: bool) -> str:
    """What the second process of a trainer says that was killed after four steps."""
    with job_of(2) as job:
        job.start("server", 0, *options)
        stays = job.start("trainer", 1, *options, "--steps", "8")
        goes = job.start("trainer", 0, *options, "--steps", "4", "--stay", "--save", str(tmp_path / "own"))
        stays.wait_for("did step 3")
        goes.wait_for("did step 3")
        assert goes.process.poll() is None, goes.output()
        goes.kill()
        job.processes.remove(goes)
        again = job.start("trainer", 0, *options, "--steps", "8", *(["--load", str(tmp_path / "own")] if loads else []))
        job.end()
        assert "steps done 4" in again.output(), again.output()
        assert SAID not in stays.output(), stays.output()
        return again.output()


@pytest.mark.parametrize("loads", [False, True], ids=["anew", "loaded"])
def test_a_moving_average_of_a_trainer_that_is_started_again(tmp_path, loads):
    said = started_again(tmp_path, "--average", loads=loads)
    assert SAID in said and "w_ema_0" in said, said
    assert (averaged(said) == pytest.approx(undisturbed(), rel=1e-5)) == loads, said


def test_a_trainer_that_holds_nothing_alone(tmp_path):
    assert SAID not in started_again(tmp_path, loads=False)


def test_a_trainer_that_comes_back_in_the_same_process(tmp_path):
    """It has its values still."""
    with job_of(2) as job:
        job.start("server", 0, "--average")
        job.start("trainer", 0, "--average", "--steps", "8", "--last-after", str(tmp_path / "back"))
        back = job.start("trainer", 1, "--average", "--steps", "8", "--close-at", "4")
        back.wait_for("goes on after step")
        (tmp_path / "back").touch()
        job.end()
        for trainer in job.processes[1:]:
            assert SAID not in trainer.output(), trainer.output()
