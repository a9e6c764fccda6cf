"""The cluster examples run as they are: all processes end well, and what they train gets better."""

import itertools
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from cluster import Process, free_ports

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples" / "cluster"
CUT = str(ROOT / "tests" / "data")


class Job:
    """The processes of an example; `with` kills what is left."""

    def __init__(self, folder, script, servers, trainers, *words, **env):
        self.endpoints = [f"127.0.0.1:{port}" for port in free_ports(servers)]
        self.command = [sys.executable, str(EXAMPLES / script), *map(str, words)]
        self.env = {"PSERVERS": ",".join(self.endpoints), "PADDLE_TRAINERS": str(trainers), **env}
        self.folder, self.count = str(folder), trainers
        self.servers, self.trainers = [], []

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        for process in self.servers + self.trainers:
            process.close()

    def start_servers(self):
        for i, endpoint in enumerate(self.endpoints):
            env = {"TRAINING_ROLE": "PSERVER", "SERVER_ENDPOINT": endpoint}
            self.servers.append(Process(f"server-{i}", self.command, self.env | env, self.folder))

    def start_trainers(self):
        for i in range(self.count):
            env = {"TRAINING_ROLE": "TRAINER", "PADDLE_TRAINER_ID": str(i)}
            self.trainers.append(Process(f"trainer-{i}", self.command, self.env | env, self.folder))

    def end(self, deadline=60):
        """All end by themselves with status 0; prints how long after the last trainer the last server did."""
        ended, limit = {}, time.monotonic() + deadline
        everyone = self.servers + self.trainers
        while len(ended) < len(everyone) and time.monotonic() < limit:
            for process in everyone:
                if process not in ended and process.process.poll() is not None:
                    ended[process] = time.monotonic()
            time.sleep(0.005)
        outputs = "\n".join(f"--- {p.name}: {p.process.poll()}\n{p.output()}" for p in everyone)
        assert all(process.process.poll() == 0 for process in everyone), outputs
        late = max(ended[p] for p in self.servers) - max(ended[p] for p in self.trainers)
        print(f"the last server ended {late:.2f} s after the last trainer")

    def run(self):
        self.start_servers()
        self.start_trainers()
        self.end()

    def losses(self):
        """What each trainer printed."""
        return [[float(text) for text in re.findall(r"step \d+: loss ([-\d.einfa]+)", process.output())]
                for process in self.trainers]


def assert_falls(job):
    for found in job.losses():
        assert np.isfinite(found).all() and len(found) > 3, found
        assert np.mean(found[-(len(found) // 4) :]) < 0.95 * found[0], f"it does not fall: {found}"


@pytest.mark.parametrize("servers_first", [True, False])
def test_fit_a_line(tmp_path, servers_first):
    """Trainers without numbers; each ends by exit(0) in the middle of a pass when its loss is small."""
    with Job(tmp_path, "fit_a_line.py", 1, 2, PADDLE_DATASET_HOME=CUT, FLAGS_ps_notice="200") as job:
        first, second = (job.start_servers, job.start_trainers)[:: 1 if servers_first else -1]
        first()
        if servers_first:
            job.servers[0].wait_for(f"Server listening on {job.endpoints[0]}")
        else:
            for process in job.trainers:
                process.wait_for("is the server running?")
        second()
        job.end()
        assert all("is good enough" in process.output() for process in job.trainers)
        assert all(found[-1] < 10 < found[0] for found in job.losses())


@pytest.mark.parametrize("words", [(), ("--sparse",)])
def test_word2vec(tmp_path, words):
    with Job(tmp_path, "word2vec.py", 2, 2, "--steps", 60, "--passes", 5, "--every", 1, *words,
             PADDLE_DATASET_HOME=str(tmp_path), PADDLE_DATASET_SYNTHETIC="1") as job:
        job.run()
        assert_falls(job)


@pytest.mark.parametrize("net, servers, steps", [("mlp", 2, 40), ("lenet", 1, 12)])
def test_recognize_digits(tmp_path, net, servers, steps):
    with Job(tmp_path, "recognize_digits.py", servers, 2, "--net", net, "--steps", steps, "--batch-size", 20,
             "--every", 1, PADDLE_DATASET_HOME=CUT) as job:
        job.run()
        assert_falls(job)
        accuracy = re.search(r"test: loss [\d.]+, accuracy ([\d.]+)", job.trainers[0].output())
        assert float(accuracy.group(1)) > 0.3
    command = [sys.executable, str(ROOT / "examples" / "recognize_digits.py"), "--infer"]
    used = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60,
                          env=os.environ | {"PADDLE_DATASET_HOME": CUT})
    assert used.returncode == 0 and "inferred" in used.stdout, used.stderr  # the model that trainer 0 saved


def test_ctr_dnn(tmp_path):
    with Job(tmp_path, "ctr_dnn.py", 2, 2, "--steps", 12, "--every", 1, "--rows", 10001,
             "--batch-size", 500) as job:
        job.start_trainers()
        job.start_servers()
        job.end()
        assert_falls(job)


def test_unequal_shares(tmp_path):
    """The trainer that has data left goes on alone: of 41 samples one gets 21, 3 steps, the other 20, 2."""
    tokens = "\t".join(f"{number:08x}" for number in range(26))
    lines = [f"{number % 2}" + "\t5" * 13 + f"\t{tokens}" for number in range(41)]
    (tmp_path / "train.txt").write_text("\n".join(lines) + "\n")
    with Job(tmp_path, "ctr_dnn.py", 1, 2, "--data", "train.txt", "--rows", 1001, "--batch-size", 10,
             "--every", 1) as job:
        job.run()
        assert [len(found) for found in job.losses()] == [3, 2]


def test_shares_are_the_whole(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import job

    shares = [list(job.Job("", 3, False, "", number).share(lambda: iter(range(10)))()) for number in range(3)]
    assert sorted(itertools.chain(*shares)) == list(range(10))
    assert [len(share) for share in shares] == [4, 3, 3]


def test_port_0_is_not_an_address(tmp_path):
    """A server may have it; a trainer that was not told the real one ends at once."""
    done = subprocess.run([sys.executable, str(EXAMPLES / "fit_a_line.py")], cwd=tmp_path,
                          capture_output=True, text=True, timeout=20,
                          env=os.environ | {"PADDLE_DATASET_HOME": CUT, "PSERVERS": "127.0.0.1:0"})
    assert done.returncode == 1 and "Give the port that the server printed" in done.stderr, done.stderr


@pytest.mark.parametrize("env, said", [
    ({"TRAINING_ROLE": "MASTER"}, "TRAINING_ROLE is 'MASTER'; it must be PSERVER or TRAINER."),
    ({"TRAINING_ROLE": "PSERVER"}, "SERVER_ENDPOINT is not set"),
    ({"TRAINING_ROLE": "TRAINER"}, "PADDLE_TRAINER_ID is not set"),
    ({"PADDLE_TRAINER_ID": "x"}, "PADDLE_TRAINER_ID is 'x'; it must be a whole number from 0 on."),
    ({"PADDLE_TRAINER_ID": "0", "PADDLE_TRAINERS": "0"}, "PADDLE_TRAINERS is '0'; it must be a whole number"),
    ({"PADDLE_TRAINER_ID": "2"}, "PADDLE_TRAINER_ID is 2; with PADDLE_TRAINERS=2 it must be from 0 to 1."),
    ({"PADDLE_TRAINER_ID": "0", "PSERVERS": "127.0.0.1"}, "PSERVERS has '127.0.0.1'; it must be HOST:PORT,HOST:PORT,..."),
    ({"PADDLE_TRAINER_ID": "0", "PSERVERS": "127.0.0.1:6174,"}, "PSERVERS has ''; it must be HOST:PORT,HOST:PORT,..."),
    ({"TRAINING_ROLE": "PSERVER", "PSERVERS": "a:1, b:2", "SERVER_ENDPOINT": "c:3"},
     "'c:3'; it must be one of PSERVERS: a:1, b:2."),
])
def test_wrong_environment(tmp_path, env, said):
    done = subprocess.run([sys.executable, str(EXAMPLES / "ctr_dnn.py")], cwd=tmp_path, env=os.environ | env,
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert said in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("script", sorted(path.name for path in EXAMPLES.glob("*.py") if path.name != "job.py"))
def test_help_is_shown_and_nothing_is_started(script):
    done = subprocess.run([sys.executable, str(EXAMPLES / script), "--help"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stdout.startswith(f"usage: {script} [-h]"), done.stderr
