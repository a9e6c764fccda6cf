"""Real jobs that launchers start: scripts of Fleet and of the DistributeTranspiler, servers and workers that are killed."""

import json
import os
import re
import signal
from pathlib import Path

import numpy as np
import pytest
from cluster import until
from launcher import PADDLE, STUB, Launcher, is_alive, own_servers

ROOT = Path(__file__).resolve().parents[2]
JOB = STUB.with_name("launched_job.py")
TWO = ("--server_num=2", "--worker_num=2", "--follow=none")


class Job(Launcher):
    def pid(self, name: str) -> int:
        """Of its last start."""
        return int((self.folder / f"{name}.starts").read_text().split()[-1])


def start(folder: Path, *options: str, words: tuple = (), **env: str) -> Job:
    folder.mkdir(exist_ok=True)
    env = {"FLAGS_ps_reconnect": "1000", "FLAGS_rpc_deadline": "60000", **env}
    return Job(folder, *TWO, *options, script=JOB, words=[str(folder), *words], env=env)


def until_half(job: Job) -> None:
    until(lambda: (job.folder / "half").exists() or job.process.poll() is not None, 60, job.said)
    assert (job.folder / "half").exists(), job.said()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> np.ndarray:
    folder = tmp_path_factory.mktemp("undisturbed")
    (folder / "go").touch()
    with start(folder) as job:
        assert job.end(120) == 0, job.said()
        assert job.said().count("ended with status 0") == 4, "servers end by themselves"
    return np.load(folder / "found.npy")


def test_the_job_of_the_guide(tmp_path):
    """The script of docs/FLEET.md as it stands there, with the command of docs/LAUNCH.md."""
    guide = (ROOT / "docs" / "FLEET.md").read_text(encoding="utf-8")
    (tmp_path / "train.py").write_text(re.search(r"```python\n# train\.py\n(.*?)```", guide, re.DOTALL)[1])
    text = (ROOT / "docs" / "LAUNCH.md").read_text(encoding="utf-8")
    command = re.search(r"^paddle launch local (--server_num=2 .*)train\.py$", text, re.MULTILINE)
    with Launcher(tmp_path, *command[1].split(), script=tmp_path / "train.py", words=[]) as job:
        assert job.end(120) == 0, job.said()
        assert float(re.search(r"^worker 0 \| worker 0: loss ([\d.]+)$", job.printed(), re.MULTILINE)[1]) < 0.1
        assert "worker 1: loss" in (tmp_path / "logs" / "workerlog.1").read_text()
        for name in ("serverlog.0", "serverlog.1"):
            assert "the job is done after step 100" in (tmp_path / "logs" / name).read_text()
        assert job.said().count("ended with status 0") == 4


def test_the_cluster_of_the_readme(tmp_path):
    """Its script with a DistributeTranspiler, and its command."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (tmp_path / "cluster.py").write_text(re.search(r"```python\n# cluster\.py\n(.*?)```", readme, re.DOTALL)[1])
    options = re.search(r"^paddle launch local (.*) cluster\.py$", readme, re.MULTILINE)[1].split()
    env = {"PADDLE_DATASET_SYNTHETIC": "1", "PADDLE_DATASET_HOME": str(tmp_path / "data")}
    with Launcher(tmp_path, *options, script=tmp_path / "cluster.py", words=[], env=env) as job:
        assert job.end(120) == 0, job.said()
        assert float(re.search(r"^worker 0 \| loss ([\d.]+)$", job.printed(), re.MULTILINE)[1]) < 20


@pytest.mark.parametrize("script, words", [
    ("ctr_dnn/train.py", ["--is_cloud=1", "--samples=800", "--rows=1001", "--batch_size=100", "--every=1"]),
    ("cluster/ctr_dnn.py", ["--samples=400", "--rows=1001", "--batch-size=100", "--every=1"]),
])
def test_examples(tmp_path, script, words):
    """Fleet, and a script with a DistributeTranspiler that reads other variables."""
    with Launcher(tmp_path, *TWO, command="launch_ps", script=ROOT / "examples" / script, words=words) as job:
        assert job.end(120) == 0, job.said()
        assert re.search(r"(step 3: loss|^batch 4\tloss)", (tmp_path / "logs" / "workerlog.1").read_text(), re.MULTILINE)


def test_a_killed_server_is_started_again(tmp_path, undisturbed):
    """With its log it has lost nothing: the parameters are those of a job that nobody disturbed."""
    with start(tmp_path, "--restart=servers", own_servers(), FLAGS_ps_dir=str(tmp_path / "state"), FLAGS_ps_log="write") as job:
        until_half(job)
        os.kill(job.pid("server-1"), signal.SIGKILL)
        job.go()
        assert job.end(120) == 0, job.said()
        assert "server 1 was killed by SIGKILL" in job.said() and "started 2 times" in job.said()
    np.testing.assert_array_equal(np.load(tmp_path / "found.npy"), undisturbed)


def test_a_killed_worker_is_started_again(tmp_path, undisturbed):
    with start(tmp_path, "--restart=workers") as job:
        until_half(job)
        os.kill(job.pid("worker-1"), signal.SIGKILL)
        until(lambda: (tmp_path / "worker-1.starts").read_text().count("\n") == 2, 60, job.said)
        job.go()
        assert job.end(120) == 0, job.said()
        log = (tmp_path / "logs" / "workerlog.1").read_text()
        assert log.index("begins behind step 0") < log.index("--- started again at") < log.index("begins behind step 1")
    np.testing.assert_array_equal(np.load(tmp_path / "found.npy"), undisturbed)


def test_a_killed_server_ends_the_job(tmp_path):
    with start(tmp_path) as job:
        until_half(job)
        os.kill(job.pid("server-0"), signal.SIGKILL)
        assert job.end(60) == 137 and job.seconds < 20
        assert "server 0 was killed by SIGKILL" in job.said() and "server 0 failed first" in job.said()
        assert "Server listening on" in job.said(), "the tail of its log"


def test_a_script_that_does_not_serve(tmp_path):
    """That of the guide without fleet.run_server(): the workers would look for their servers until the deadline."""
    guide = (ROOT / "docs" / "FLEET.md").read_text(encoding="utf-8")
    script = re.search(r"```python\n# train\.py\n(.*?)```", guide, re.DOTALL)[1]
    (tmp_path / "train.py").write_text(script.replace("fleet.run_server()", "pass"))
    with Launcher(tmp_path, *TWO, script=tmp_path / "train.py", words=[]) as job:
        assert job.end(60) == 1, job.said()
        assert re.search(r"server \d has ended with status 0 before the workers: does the script call fleet", job.said())


def test_a_worker_that_raises_ends_the_job(tmp_path):
    with start(tmp_path, words=("--raise",)) as job:
        assert job.end(60) == 1
        assert "worker 1 failed first" in job.said() and "  | RuntimeError: the data are gone\n" in job.said()


def test_the_others_go_on_without_a_worker(tmp_path):
    with start(tmp_path, "--keep_going", words=("--raise",)) as job:
        job.go()
        assert job.end(120) == 1, job.said()
        assert "worker 1 failed first" in job.said() and job.said().count("ended with status 0") == 3
    assert (tmp_path / "found.npy").exists()


def test_a_job_that_was_ended_goes_on(tmp_path, undisturbed):
    """SIGTERM: servers write their snapshots. The same command goes on from them."""
    options = (own_servers(),)
    env = {"FLAGS_ps_dir": str(tmp_path / "state"), "FLAGS_ps_log": "write"}
    with start(tmp_path, *options, **env) as job:
        until_half(job)
        job.process.send_signal(signal.SIGTERM)
        assert job.end(60) == -signal.SIGTERM
        assert job.said().count("ended with status 0, asked by SIGTERM") == 2, job.said()
    job.go()
    with start(tmp_path, *options, **env) as job:
        assert job.end(120) == 0, job.said()
        assert "begins behind step 15" in (tmp_path / "logs" / "workerlog.0").read_text()
    np.testing.assert_array_equal(np.load(tmp_path / "found.npy"), undisturbed)


INSIDE = '''
import json, os, subprocess, sys
from pathlib import Path
depth, folder = sys.argv[1], Path(sys.argv[2])
(folder / f"{depth}-{os.environ['TRAINING_ROLE']}.json").write_text(json.dumps(dict(os.environ)))
if depth == "outer" and os.environ["TRAINING_ROLE"] == "TRAINER":
    os.environ.update(json.loads(sys.argv[3]))
    line = [sys.argv[4], "launch", "local", "--server_num=1", "--worker_num=1", "--log_dir=inner", *sys.argv[5:], __file__, "inner",
            str(folder)]
    sys.exit(subprocess.run(line).returncode)
'''


@pytest.mark.parametrize("own, options, keeps", [
    ({}, [], {}),
    ({"FLAGS_ps_dir": "of the script"}, ["--env=FLAGS_ps_job=inner"], {"FLAGS_ps_dir": "of the script", "FLAGS_ps_job": "inner"}),
    ({}, ["--restart=workers"], {"FLAGS_ps_on_trainer_loss": "wait"}),
    ({"PADDLE_PS_SECRET_FILE": "/dev/null"}, [], {"PADDLE_PS_SECRET_FILE": "/dev/null"}),
])
def test_a_job_inside_a_job(tmp_path, own, options, keeps):
    """It has nothing that is of the one around it: no secret, no folder, no way to go on. What the script sets itself counts."""
    (tmp_path / "inside.py").write_text(INSIDE)
    env = {"FLAGS_ps_dir": str(tmp_path / "state"), "FLAGS_rpc_deadline": "90000"}
    words = ["outer", str(tmp_path), json.dumps(own), str(PADDLE), *options]
    with Launcher(tmp_path, own_servers(1), "--worker_num=1", "--keep_going", "--env=FLAGS_ps_job=outer", "--env=KEPT=yes",
                  script=tmp_path / "inside.py", words=words, env=env) as job:
        assert job.end(60) == 0, job.said()
    found = {depth: [json.loads((tmp_path / f"{depth}-{role}.json").read_text()) for role in ("PSERVER", "TRAINER")]
             for depth in ("outer", "inner")}
    of_outer = {"FLAGS_ps_dir": str(tmp_path / "state"), "FLAGS_ps_job": "outer", "FLAGS_ps_on_trainer_loss": "shrink"}
    for outer, inner in zip(found["outer"], found["inner"]):
        assert {name: outer[name] for name in of_outer} == of_outer
        assert inner["KEPT"] == "yes" and inner["FLAGS_rpc_deadline"] == "90000"
        assert {name: inner[name] for name in of_outer if name in inner} == {
            name: value for name, value in keeps.items() if name in of_outer}
        assert inner["PADDLE_PS_SECRET_FILE"] != outer["PADDLE_PS_SECRET_FILE"] and inner["PSERVERS"] != outer["PSERVERS"]
        assert inner["PADDLE_PS_SECRET_FILE"] == keeps.get("PADDLE_PS_SECRET_FILE", inner["PADDLE_PS_SECRET_FILE"])
    said = (tmp_path / "logs" / "workerlog.0").read_text()
    assert ("does not take over" in said) and ("FLAGS_ps_dir" not in own or "over FLAGS_ps_dir" not in said)


def test_ctrl_c_in_a_real_job(tmp_path):
    """Workers see the KeyboardInterrupt that they would see alone."""
    with start(tmp_path) as job:
        until_half(job)
        job.process.send_signal(signal.SIGINT)
        assert job.end(60) == -signal.SIGINT and job.seconds < 20
        assert "KeyboardInterrupt" in (tmp_path / "logs" / "workerlog.0").read_text()


def test_the_launcher_of_a_real_job_is_killed(tmp_path):
    with start(tmp_path) as job:
        until_half(job)
        job.process.kill()
        job.wait_until_gone(60)
        assert not any(map(is_alive, job.pids()))
