"""FLAGS_check_nan_inf on servers: a gradient with NaN or Inf is refused, and who pushed it is named, with the variable."""

import numpy as np
import pytest
from cluster import Job

MODES = {
    "sync": [],
    "async": ["--async"],
    "sparse": ["--sparse"],
    "sparse async": ["--sparse", "--async"],
    "engine": ["--decay"],
}


@pytest.mark.parametrize("trainers", [1, 2])
@pytest.mark.parametrize("mode", MODES)
def test_who_and_what_is_named(mode, trainers):
    options = [*MODES[mode], "--bad", str(trainers - 1)]
    with Job(1, trainers, script="not_finite.py") as job:
        server = job.start("server", 0, *options, env={"FLAGS_check_nan_inf": "1"})
        others = [job.start("trainer", i, *options) for i in range(trainers)]
        bad = others.pop()
        assert bad.end(30) == 1
        assert f"trainer {trainers - 1} pushes NaN or Inf in " in server.output(), server.output()
        assert "@GRAD' in step 5: refused (flag check_nan_inf is on). Nothing of the step was sent" in bad.output(), bad.output()
        if "async" in mode:  # the others go on, if there are any
            assert all(p.end(30) == 0 for p in others) and server.end(30) == (0 if others else 1)
        else:
            assert all(p.end(30) == 1 and "pushes NaN or Inf" in p.output() for p in others) and server.end(30) == 1


def test_nothing_of_it_is_applied(tmp_path):
    """The others go on without it, and with numbers."""
    env = {"FLAGS_check_nan_inf": "1", "FLAGS_ps_on_trainer_loss": "shrink"}
    with Job(1, 2, script="not_finite.py", env=env) as job:
        server = job.start("server", 0)
        good = job.start("trainer", 0)
        bad = job.start("trainer", 1, env={"FLAGS_check_nan_inf": "0"})
        assert bad.end(30) == 1 and good.end(30) == 0 and server.end(30) == 0, server.output()


@pytest.mark.parametrize("mode", MODES)
def test_what_a_server_makes_of_finite_gradients(mode):
    """The rate is too large: the op is named, as in one process."""
    options = [*MODES[mode], "--value", "1.0", "--rate", "3e38"]
    with Job(1, 1, script="not_finite.py") as job:
        server = job.start("server", 0, *options, env={"FLAGS_check_nan_inf": "1"})
        trainer = job.start("trainer", 0, *options)
        assert [p.end(30) for p in (trainer, server)] == [1, 1], server.output()
        for p in (trainer, server):
            assert "op 'sgd' made NaN or Inf" in p.output(), p.output()


def test_a_sum_of_gradients_that_is_too_large():
    """Each of them is finite, and so is their mean; what the server adds up is not."""
    options = ["--value", "3e38", "--bad", "-1"]
    with Job(1, 2, script="not_finite.py") as job:
        server = job.start("server", 0, *options, env={"FLAGS_check_nan_inf": "1"})
        trainers = [job.start("trainer", i, *options) for i in range(2)]
        assert [p.end(30) for p in (*trainers, server)] == [1, 1, 1], server.output()
        assert "op 'sgd' made NaN or Inf of finite gradients, in the update of variable 'w'" in server.output(), server.output()


def test_without_the_flag_it_is_applied():
    with Job(1, 2, script="not_finite.py") as job:
        job.start_all()
        job.end(30)


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_nothing_of_its_step_is_applied(mode, tmp_path):
    """A gradient of four parts, of which only the last has a NaN in its last element, and another one of the same step that has
    none. Trainer 1 gives zeros, so that the parameters tell what was applied of trainer 0."""
    env = {"FLAGS_check_nan_inf": "1", "FLAGS_ps_on_trainer_loss": "shrink", "FLAGS_ps_loops": "1"}
    options = [*MODES[mode], "--wide", "--bad", "0", "--go", str(tmp_path / "go")]
    with Job(1, 2, script="not_finite.py") as job:
        server = job.start("server", 0, *options, env=env)
        bad = job.start("trainer", 0, *options)
        good = job.start("trainer", 1, *options, "--out", str(tmp_path / "out.npz"))
        assert bad.end(60) == 1 and "trainer 0 pushes NaN or Inf in 'wide@GRAD' in step 5" in bad.output(), bad.output()
        (tmp_path / "go").touch()
        assert good.end(60) == 0 and server.end(60) == 0, server.output()
    out = np.load(tmp_path / "out.npz")
    for name in ("wide", "other"):
        assert np.unique(out[name]).tolist() == [-4 if mode == "async" else -2], (name, np.unique(out[name]))


@pytest.mark.parametrize("servers, loops", [(2, "1"), (1, "2")], ids=["servers", "loops"])
@pytest.mark.parametrize("bad", ["0", "1"])
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_no_server_has_a_part_of_a_step_that_was_refused(mode, bad, servers, loops, tmp_path):
    """One parameter's gradient has a NaN, that of another, on another server or loop, has none. Who takes the batch out of the data
    and starts the job again, or catches the error, loses no other one."""
    env = {"FLAGS_ps_loops": loops, "FLAGS_ps_dir": str(tmp_path), "FLAGS_ps_log": "write"}
    options = [*MODES[mode], "--bad", bad, "--two"]
    want = f"values {[[-110111.0], [-110111.0]]}"

    def start(what: str) -> list:
        started = [job.start("server", i, *options, what, env={"FLAGS_check_nan_inf": "1"}) for i in range(servers)]
        return [*started, job.start("trainer", 0, *options, what)]

    with Job(servers, 1, script="not_finite.py", env=env) as job:
        for each in start("with"):
            assert each.end(30) == 1 and f"trainer 0 pushes NaN or Inf in 'w{bad}@GRAD' in step 4" in each.output(), each.output()
        job.clear()
        trainer = start("without")[-1]
        job.end(30)
        assert want in trainer.output(), trainer.output()
    with Job(servers, 1, script="not_finite.py", env={"FLAGS_ps_loops": loops}) as job:
        trainer = start("catch")[-1]
        job.end(30)
        assert want in trainer.output() and "Nothing of the step was sent" in trainer.output(), trainer.output()
