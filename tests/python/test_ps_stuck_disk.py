"""A disk that does not answer: the server says so, trains on where it can, and ends when it is asked to."""

import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
from cluster import Job, Process

PATIENT = {"FLAGS_rpc_deadline": "60000"}  # trainers wait for servers that start slowly
LONG = ["--model", "fit_a_line", "--optimizer", "momentum", "--steps", "1000000"]


@pytest.fixture(scope="module")
def shim(tmp_path_factory) -> str:
    library = tmp_path_factory.mktemp("shim") / "stuck_disk.so"
    source = Path(__file__).parent / "stuck_disk.c"
    subprocess.run(["cc", "-D_GNU_SOURCE", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"], check=True)
    return str(library)


class StuckJob(Job):
    """A job of one server, whose disk is stuck while the file `stuck` is there."""

    def __init__(self, folder: Path, shim: str, trainers: int = 1, **env: str):
        self.stuck = folder / "stuck"
        self.disk = {"LD_PRELOAD": shim, "STUCK_DISK": str(self.stuck), "FLAGS_ps_dir": str(folder / "ps")}
        super().__init__(1, trainers, env={"FLAGS_ps_notice": "300", "FLAGS_rpc_deadline": "1500", **env})

    def begin(self, *options: str) -> list[Process]:
        self.start("server", 0, *options, env=self.disk)
        return [self.processes[0], *(self.start("trainer", i, *options, env=PATIENT) for i in range(self.trainers))]


def steps_until(pace: Path, most: int, process: Process, text: str) -> None:
    """Trainers do a hundred steps more, again and again, until a process says something; after `most` steps in all it must do that
    without more."""
    end = time.monotonic() + 60
    while text not in process.output():
        assert time.monotonic() < end, f"{process.name} did not say {text!r}:\n{process.output()}"
        with pace.open("ab") as steps:
            if steps.tell() < most // 100:
                steps.write(b"1")
        time.sleep(0.02)


@pytest.mark.parametrize("mode", [[], ["--async"]], ids=["sync", "async"])
def test_training_goes_on_past_a_stuck_writer(tmp_path, shim, mode):
    """The writer is named, the next snapshots are passed over, it is given up at the deadline; with the disk back there are
    snapshots again."""
    every = {"FLAGS_ps_snapshot_seconds": "1"} if mode else {"FLAGS_ps_snapshot_steps": "50"}
    pace = tmp_path / "pace"
    pace.write_bytes(b"")
    with StuckJob(tmp_path, shim, trainers=2, **every) as job:
        server, *trainers = job.begin(*LONG, *mode, "--steps", "24000", "--pace", f"{pace}:100", "--say-at", "11000")
        steps_until(pace, 8000, server, "snapshot of step ")
        job.stuck.touch()
        steps_until(pace, 20000, server, "has stood still for")
        for trainer in trainers:  # steps are done while the disk is stuck
            steps_until(pace, 20000, trainer, "step 11000 has ended")
        steps_until(pace, 20000, server, "was given up (FLAGS_rpc_deadline is 1500 ms)")
        assert job.stuck.exists()
        assert "is the disk stuck?" in server.output()
        before = server.output().count("paddle: info: snapshot of step")
        job.stuck.unlink()
        pace.write_bytes(bytes(240))
        job.end(60)
        assert server.output().count("paddle: info: snapshot of step") > before, server.output()


def test_asked_to_end_while_the_disk_is_stuck(tmp_path, shim):
    """SIGTERM: it waits for the disk up to the deadline, says so, and ends with status 1."""
    with StuckJob(tmp_path, shim, FLAGS_ps_snapshot_steps="50") as job:
        server, trainer = job.begin(*LONG)
        server.wait_for("snapshot of step ")
        job.stuck.touch()
        server.wait_for("has stood still for")
        server.signal(signal.SIGTERM)
        assert server.end(30) == 1
        assert "was given up" in server.output().splitlines()[-1], server.output()
        trainer.kill()


def test_the_last_snapshot_of_a_job_and_a_stuck_disk(tmp_path, shim):
    """All trainers are done; the disk answers again before the deadline."""
    with StuckJob(tmp_path, shim, FLAGS_rpc_deadline="600000") as job:
        server, trainer = job.begin("--steps", "20", "--pause-at", "10", "--linger", str(tmp_path / "go"))
        trainer.wait_for("pauses")
        job.stuck.touch()
        (tmp_path / "go").touch()
        assert trainer.end(30) == 0
        server.wait_for("has stood still for")
        job.stuck.unlink()
        job.end(30)
        assert "snapshot of step 20:" in server.output()


@pytest.mark.parametrize("moment", ["training", "ending"])
def test_ctrl_c_while_the_disk_is_stuck(tmp_path, shim, moment):
    with StuckJob(tmp_path, shim, FLAGS_ps_snapshot_steps="50", FLAGS_rpc_deadline="600000") as job:
        server, trainer = job.begin(*LONG, "--steps", "149" if moment == "ending" else "1000000",
                                    "--pause-at", "120", "--linger", str(tmp_path / "go"))
        trainer.wait_for("pauses")
        job.stuck.touch()
        (tmp_path / "go").touch()
        server.wait_for("has stood still for")
        server.signal(signal.SIGINT)
        assert server.end(120) != 0
        assert "was given up" not in server.output(), server.output()
        assert "KeyboardInterrupt" in server.output()
        trainer.kill()


def test_a_disk_that_is_stuck_at_the_start(tmp_path, shim):
    with StuckJob(tmp_path, shim, FLAGS_ps_log="fsync") as job:
        job.stuck.touch()
        server = job.start("server", 0, env=job.disk)
        server.wait_for("loading what is kept in")
        job.stuck.unlink()
        assert job.start("trainer", 0, env=PATIENT).end(30) == 0
        job.end(30)


@pytest.mark.parametrize("mode", [[], ["--async"]], ids=["sync", "async"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_asked_to_end_while_the_log_is_stuck(tmp_path, shim, number, mode):
    """In async mode a snapshot, too, is wanted meanwhile, for which the lane that is stuck would have to stop."""
    more = {"FLAGS_ps_snapshot_seconds": "1"} if mode else {}
    with StuckJob(tmp_path, shim, FLAGS_ps_log="fsync", FLAGS_rpc_deadline="600000", **more) as job:
        server, trainer = job.begin(*LONG, *mode, "--pause-at", "20", "--linger", str(tmp_path / "go"))
        trainer.wait_for("pauses")
        job.stuck.touch()
        (tmp_path / "go").touch()
        server.wait_for("writing the log in")
        server.signal(number)
        assert server.end(120) != 0
        assert "was given up" not in server.output(), server.output()
        trainer.kill()


def test_a_log_that_cannot_be_written_now(tmp_path, shim):
    """Nothing is acknowledged before it is kept: the job waits, the server says for what, and goes on."""
    with StuckJob(tmp_path, shim, FLAGS_ps_log="fsync", FLAGS_rpc_deadline="600000") as job:
        server, trainer = job.begin("--steps", "400", "--pause-at", "200", "--linger", str(tmp_path / "go"))
        trainer.wait_for("pauses")
        job.stuck.touch()
        (tmp_path / "go").touch()
        server.wait_for("has taken")
        line = next(line for line in server.output().splitlines() if "has taken" in line)
        assert "log" in line and "is the disk stuck?" in line and str(tmp_path / "ps") in line, line
        trainer.wait_for(job.endpoints[0])  # it waits for this server, and says so
        job.stuck.unlink()
        job.end(30)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_trainer_that_joins_while_the_disk_is_stuck(tmp_path, shim, number):
    """Its name goes into a file: the server says that this does not come to an end, and can be ended meanwhile."""
    with StuckJob(tmp_path, shim, trainers=2, FLAGS_ps_log="fsync", FLAGS_rpc_deadline="600000") as job:
        server = job.start("server", 0, *LONG, env=job.disk)
        first = job.start("trainer", 0, *LONG, env=PATIENT)
        server.wait_for("trainer 0 (host")
        job.stuck.touch()
        second = job.start("trainer", 1, *LONG, env=PATIENT)
        server.wait_for("writing the book of trainers and the job's id in")
        server.signal(number)
        assert server.end(120) != 0
        assert "was given up" not in server.output(), server.output()
        first.kill()
        second.kill()


def test_a_table_that_cannot_be_written_for_a_trainer(tmp_path, shim):
    """A server that keeps nothing of its own: it says that the file takes long, and ends when it is asked to."""
    with Job(1, 1, "saving.py", env={"FLAGS_ps_notice": "300", "FLAGS_rpc_deadline": "600000"}) as job:
        stuck = tmp_path / "stuck"
        stuck.touch()
        server = job.start("server", 0, "--model", "table", env={"LD_PRELOAD": shim, "STUCK_DISK": str(stuck)})
        trainer = job.start("trainer", 0, "--model", "table", "--save", str(tmp_path / "saved"), env=PATIENT)
        server.wait_for("writing a value for a trainer has taken")
        server.signal(signal.SIGINT)
        assert server.end(120) != 0
        assert "was given up" not in server.output(), server.output()
        trainer.kill()


def test_the_book_of_trainers_and_a_stuck_disk(tmp_path, shim):
    """The trainer ends while the disk is stuck, and no trainer is left to wait: the server says what takes long, and ends at the
    deadline."""
    with StuckJob(tmp_path, shim) as job:
        job.disk["STUCK_BOOK"] = "1"
        server, trainer = job.begin("--steps", "20", "--pause-at", "10", "--linger", str(tmp_path / "go"))
        trainer.wait_for("pauses")
        job.stuck.touch()
        (tmp_path / "go").touch()
        server.wait_for("writing the book of trainers")
        assert server.end(30) == 1, server.output()
        assert trainer.end(80) == 0
        assert "the disk does not answer (FLAGS_rpc_deadline is 1500 ms)" in server.output()


def test_a_snapshot_that_is_slow_holds_the_job_for_a_moment_only(tmp_path, shim):
    """Its writer gets on: the next one waits for it, and is passed over with a word when that takes long."""
    with StuckJob(tmp_path, shim, FLAGS_ps_snapshot_steps="10", FLAGS_ps_notice="1500", FLAGS_rpc_deadline="600000") as job:
        job.disk["SLOW_DISK"] = "300"
        server, trainer = job.begin("--model", "mlp", "--steps", "60")
        assert trainer.end(40) == 0
        assert server.end(40) == 0
        assert re.search("no snapshot of step [2-6]0: that of step [1-5]0 is still being written", server.output()), server.output()
        assert "has stood still" not in server.output()
        assert "snapshot of step 60:" in server.output()
