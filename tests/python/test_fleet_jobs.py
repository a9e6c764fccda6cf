"""Whole jobs of Fleet as processes, by the environment variables of a cluster."""

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cluster import Process, free_ports

import paddle.fluid as fluid

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = Path(__file__).parent / "jobs" / "fleet_job.py"


class Job:
    """Servers and workers with the environment that a cluster sets; `with` kills what is left."""

    def __init__(self, servers, workers, script=SCRIPT, **env):
        self.ports = free_ports(servers)
        self.endpoints = [f"127.0.0.1:{port}" for port in self.ports]
        self.workers_num, self.script = workers, script
        self.env = {"PADDLE_PSERVERS_IP_PORT_LIST": ",".join(self.endpoints), "PADDLE_TRAINERS_NUM": str(workers), **env}
        self.servers, self.workers = [], []

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        for process in self.servers + self.workers:
            process.close()

    def _start(self, name, words, env):
        return Process(name, [sys.executable, "-u", str(self.script), *map(str, words)], self.env | env)

    def start_servers(self, *words):
        for i, port in enumerate(self.ports):
            env = {"TRAINING_ROLE": "PSERVER", "POD_IP": "127.0.0.1", "PADDLE_PORT": str(port)}
            self.servers.append(self._start(f"server-{i}", words, env))

    def start_workers(self, *words, out=None):
        for i in range(self.workers_num):
            env = {"TRAINING_ROLE": "TRAINER", "PADDLE_TRAINER_ID": str(i)}
            where = ["--out", out / f"worker-{i}.npz"] if out else []
            self.workers.append(self._start(f"worker-{i}", [*words, *where], env))

    def end(self, deadline=120):
        for process in self.workers + self.servers:
            assert process.end(deadline) == 0, "\n".join(f"--- {p.name}\n{p.output()}" for p in self.workers + self.servers)


def single(tmp_path, *words, workers=2):
    out = tmp_path / "single.npz"
    subprocess.run([sys.executable, str(SCRIPT), "--single", str(workers), "--out", str(out), "--save", str(tmp_path / "one"),
                    *map(str, words)], check=True, timeout=200, env={**os.environ, "OMP_NUM_THREADS": "1"})
    return dict(np.load(out))


def assert_same(tmp_path, one, workers=2):
    """The mean of the workers' losses, and worker 0's files, against one process with the joined batch."""
    found = [dict(np.load(tmp_path / f"worker-{i}.npz")) for i in range(workers)]
    np.testing.assert_allclose(np.mean([each["losses"] for each in found], axis=0), one["losses"], rtol=1e-5, atol=1e-5)
    for name in ("w1", "w2", "w3", "w4"):
        np.testing.assert_allclose(found[0][name], one[name], rtol=1e-5, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("servers_first", [True, False])
def test_two_servers_two_workers_are_one_process(tmp_path, servers_first):
    """In either order of starting. The lines that users know come in order."""
    one = single(tmp_path)
    with Job(2, 2) as job:
        save = ("--save", tmp_path / "saved")
        if servers_first:
            job.start_servers()
            for server, endpoint in zip(job.servers, job.endpoints):
                server.wait_for(f"Server listening on {endpoint} selected port: {endpoint.rpartition(':')[2]}")
            job.start_workers(*save, out=tmp_path)
        else:
            job.start_workers(*save, out=tmp_path)
            for worker in job.workers:
                worker.wait_for(f"server not ready, wait 3 sec to retry...\nnot ready endpoints:{job.endpoints}\n", 60)
            job.start_servers()
        job.end()
        assert_same(tmp_path, one)
        for i, worker in enumerate(job.workers):
            lines = ["TrainerRuntimeConfig Overview", "Communicator start", f"init rpc client with trainer_id {i}\n",
                     "Communicator stop"]
            lines = lines if servers_first else ["not ready endpoints:", *lines]
            places = [worker.output().find(line) for line in lines]
            assert -1 not in places and places == sorted(places), worker.output()


def test_a_plain_config_and_more_workers(tmp_path):
    one = single(tmp_path, "--optimizer", "Adam", workers=3)
    with Job(1, 3) as job:
        job.start_servers("--strategy", "config", "--optimizer", "Adam")
        job.start_workers("--strategy", "config", "--optimizer", "Adam", "--save", tmp_path / "saved", out=tmp_path)
        job.end()
        assert_same(tmp_path, one, workers=3)


def held_out_loss(parameters) -> float:
    """Of the job's net on samples that nobody trains."""
    rng = np.random.RandomState(7)
    x, ids = rng.uniform(-1, 1, (2000, 16)), rng.randint(0, 40, 2000)
    predicted = np.tanh(x @ parameters["w2"] + parameters["w1"][ids] @ parameters["w3"]) @ parameters["w4"]
    return float(np.mean((predicted - np.sin(x.sum(axis=1, keepdims=True))) ** 2))


@pytest.mark.parametrize("strategy", ["async", "half_async", "geo"])
def test_what_is_not_sync_trains(tmp_path, strategy):
    """Whichever worker comes first, and however far the other is then: one process comes from 4.3 to 0.54."""
    begin = held_out_loss(single(tmp_path, "--steps", 0))
    words = ("--strategy", strategy, "--steps", 40, "--rate", 0.01)
    with Job(2, 2) as job:
        job.start_servers(*words)
        job.start_workers(*words, "--save", tmp_path / "saved", out=tmp_path)
        job.end()
        for worker in job.workers:
            assert "Communicator start" in worker.output() and "Communicator stop" in worker.output()
        found = [np.load(tmp_path / f"worker-{i}.npz") for i in range(2)]
        assert all(np.isfinite(each["losses"]).all() for each in found)
        assert held_out_loss(found[0]) < begin / 3


@pytest.mark.parametrize("how", ["barrier", "evaluate"])
def test_what_is_queued_is_with_the_servers(how):
    """Behind a barrier of the only worker, and when it evaluates a Program of lookups alone."""
    with Job(2, 1, SCRIPT.parent / "queued.py") as job:
        job.start_servers(how)
        job.start_workers(how)
        job.end()
        assert float(re.search(r"\bis:? (\S+)", job.workers[0].output())[1]) == -20


@pytest.mark.parametrize("before, after", [(2, 3), (2, 1)])
def test_what_was_saved_goes_on_with_another_number_of_servers(tmp_path, before, after):
    """Six steps, saved, and six more on other servers: as twelve in one process."""
    one = single(tmp_path, "--steps", 12, "--optimizer", "Adam")
    for servers, words in ((before, ["--save", tmp_path / "half"]),
                           (after, ["--load", tmp_path / "half", "--first", 6, "--save", tmp_path / "saved"])):
        with Job(servers, 2) as job:
            job.start_servers("--optimizer", "Adam", *words)
            job.start_workers("--optimizer", "Adam", *words, out=tmp_path)
            job.end()
    one["losses"] = one["losses"][6:]
    assert_same(tmp_path, one)


def test_model_for_inference(tmp_path):
    with Job(2, 1) as job:
        job.start_servers()
        job.start_workers("--model", tmp_path / "model", out=tmp_path)
        job.end()
    sys.path.insert(0, str(SCRIPT.parent))
    try:
        import fleet_job
    finally:
        sys.path.remove(str(SCRIPT.parent))
    exe = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(fluid.Scope()):
        program, feeds, targets = fluid.io.load_inference_model(str(tmp_path / "model"), exe)
        batch = fleet_job.batch(99, 0)
        found = exe.run(program, feed={name: batch[name] for name in feeds}, fetch_list=targets)[0]
    np.testing.assert_allclose(found, np.load(tmp_path / "worker-0.npz")["predicted"], rtol=1e-6)


def two_in_a_row():
    """A free port, with a free one behind it."""
    while True:
        (port,) = free_ports(1)
        with socket.socket() as second:
            try:
                second.bind(("127.0.0.1", port + 1))
                return port
            except OSError:
                continue


def test_ranks_of_mpirun(tmp_path):
    """Four processes of one host, with the variables of Open MPI: ranks 0 and 2 serve, on ports from PADDLE_PORT on."""
    port = two_in_a_row()
    one = single(tmp_path)
    started = []
    try:
        for rank in range(4):
            env = {"OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_SIZE": "4",
                   "PADDLE_PORT": str(port)}
            words = ["--mpi", "--save", tmp_path / "saved", "--out", tmp_path / f"worker-{rank // 2}.npz"]
            started.append(Process(f"rank-{rank}", [sys.executable, str(SCRIPT), *map(str, words)], env))
        for process in started:
            assert process.end(120) == 0, process.output()
        assert_same(tmp_path, one)
    finally:
        for process in started:
            process.close()


def test_a_server_that_never_comes(tmp_path):
    with Job(1, 1, FLAGS_rpc_deadline="1500", FLAGS_ps_notice="300") as job:
        job.start_workers()
        assert job.workers[0].end(60) == 1
        said = job.workers[0].output()
        assert said.count("server not ready, wait 3 sec to retry...") > 1
        assert f"1 of the servers did not listen within 1.5 s: {job.endpoints[0]}: refused: is the server running?" in said


def test_the_guide_as_it_stands(tmp_path):
    """The script of docs/FLEET.md under its name, and its commands, on other ports."""
    text = (ROOT / "docs" / "FLEET.md").read_text(encoding="utf-8")
    name, source = re.search(r"```python\n# (\w+\.py)\n(.*?)```", text, re.DOTALL).groups()
    commands = "".join(re.findall(r"```sh\n(.*?)```", text, re.DOTALL))
    for old, new in zip(("36000", "36001"), free_ports(2)):
        commands = commands.replace(old, str(new))
    (tmp_path / name).write_text(source, encoding="utf-8")
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(["sh", "-ec", commands], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=200)
    losses = dict(re.findall(r"worker (\d): loss ([\d.]+)", done.stdout))
    assert set(losses) == {"0", "1"} and max(map(float, losses.values())) < 1, done.stdout + done.stderr
