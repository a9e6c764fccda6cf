"""Communicators in whole jobs: each step counts once, and what is promised of queues, rounds, GEO-SGD and failures."""

import re
import signal
import sys

import numpy as np
import pytest
from cluster import JOBS, Process, free_ports
from jobs import communicator_job as job

import paddle.fluid as fluid

SCRIPT = str(JOBS / "communicator_job.py")


class Job:
    """Servers and trainers; `with` kills what is left."""

    def __init__(self, folder, servers, *words, trainers=1, **env):
        self.folder, self.env, self.servers, self.trainers = folder, env, [], []
        self.endpoints = [f"127.0.0.1:{port}" for port in free_ports(servers)]
        self.words = ["--endpoints", ",".join(self.endpoints), "--trainers", str(trainers), *map(str, words)]
        for i in range(servers):
            self.servers.append(self.start("server", i))

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        for process in self.servers + self.trainers:
            process.close()

    def start(self, role, number, *words):
        command = [sys.executable, SCRIPT, role, "--id", str(number), *self.words, *map(str, words)]
        return Process(f"{role}-{number}", command, self.env, number=number)

    def start_trainer(self, number, *words):
        self.trainers.append(self.start("trainer", number, "--out", self.folder / f"out-{number}.npz", *words))
        return self.trainers[-1]

    def found(self, number):
        return dict(np.load(self.folder / f"out-{number}.npz"))

    def said(self):
        return "\n".join(f"--- {p.name}\n{p.output()}" for p in self.trainers + self.servers)

    def end(self, deadline=100):
        for process in self.trainers + self.servers:
            assert process.end(deadline) == 0, self.said()


def sums(steps, trainers):
    """What all steps give in the end."""
    w, table = np.ones(job.WIDTH, "float32"), np.ones((job.ROWS, 2), "float32")
    for trainer in range(trainers):
        for step in range(steps):
            w -= job.RATE * job.x_of(step, trainer)
            for row in job.ids_of(step, trainer):
                table[row] -= job.RATE * job.V
    return w, table


def assert_sums(found, steps, trainers):
    w, table = sums(steps, trainers)
    np.testing.assert_array_equal(found["w"], w)
    np.testing.assert_array_equal(found["table"], table)


QUEUES = {
    "one": {},
    "many": {"send_queue_size": 8, "max_merge_var_num": 1},
    "merged": {"send_queue_size": 8, "max_merge_var_num": 4, "send_wait_times": 0},
    "seldom": {"send_queue_size": 3, "min_send_grad_num_before_recv": 11},
    "own thread": {"independent_recv_thread": 0, "min_send_grad_num_before_recv": 1000},
}


def test_the_startup_program_brings_what_servers_have(tmp_path):
    """Beside a communicator: what is queued goes first, and what others have given is there too."""
    with Job(tmp_path, 2, "--steps", 30, trainers=2, **{"FLAGS_ps_on_trainer_loss": "wait"}) as run:
        go = tmp_path / "go"
        knobs = ("--knob", "communicator_send_queue_size=32", "--knob", "communicator_max_merge_var_num=32",
                 "--knob", "communicator_send_wait_times=1000")
        first = run.start_trainer(0, "--start-again-after", go, *knobs)
        first.wait_for("waits", 60)
        second = run.start_trainer(1)
        assert second.end(60) == 0, run.said()
        go.touch()
        run.end()
        w = [float(each) for each in re.search(r"has w (.*)", first.output())[1].split()]
        assert w == sums(30, 2)[0].tolist(), (w, first.output())


@pytest.mark.parametrize("mode", ["async", "half_async", "geo"])
def test_a_forked_child_starts_its_own(tmp_path, mode):
    """Nothing of the parent's thread, or of what waits for it, is waited for in the child."""
    with Job(tmp_path, 1, "--mode", mode, "--steps", 9) as run:
        trainer = run.start_trainer(0, "--fork-at", 5)
        run.end()
        assert "the child: " in trainer.output() and "this process was forked by a trainer" in trainer.output(), run.said()
        assert_sums(run.found(0), 9, 1)


@pytest.mark.parametrize("mode", ["async", "half_async"])
def test_evaluation_has_the_newest_parameters(tmp_path, mode):
    """Of the other trainer too, which trains when this one has trained all."""
    with Job(tmp_path, 2, "--mode", mode, "--steps", 7, trainers=2) as run:
        go = tmp_path / "go"
        first = run.start_trainer(0, "--evaluate-after", go, "--knob", "communicator_send_queue_size=8")
        first.wait_for("waits", 60)
        second = run.start_trainer(1)
        assert second.end(60) == 0, run.said()
        go.touch()
        run.end()
        said = float(re.search(r"sum of w: (\S+)", first.output())[1])
        assert said == sums(7, 2)[0].sum(), (said, first.output())
        assert_sums(run.found(0), 7, 2)


@pytest.mark.parametrize("name", QUEUES)
def test_each_queued_step_counts_once(tmp_path, name):
    knobs = [word for knob, value in QUEUES[name].items() for word in ("--knob", f"communicator_{knob}={value}")]
    with Job(tmp_path, 2, "--steps", 60, *knobs, trainers=2) as jobs:
        for i in range(2):
            jobs.start_trainer(i, "--done", tmp_path / f"done-{i}", "--then-wait-for", tmp_path / f"done-{1 - i}")
        jobs.end()
        for i in range(2):
            assert_sums(jobs.found(i), 60, 2)
            most, least = (60, 60) if name != "merged" else (60, 15)
            assert least <= jobs.found(i)["steps"] <= most


@pytest.mark.parametrize("mode", ["async", "geo"])
def test_who_saves_when_all_are_done_saves_what_servers_have(tmp_path, mode):
    """Also the dense parameters, of which its last exchange brought older ones."""
    with Job(tmp_path, 2, "--mode", mode, "--steps", 20, trainers=2) as jobs:
        early = jobs.start_trainer(0, "--done", tmp_path / "done-0", "--then-wait-for", tmp_path / "done-1",
                                   "--save", tmp_path / "model")
        early.wait_for("begins", 60)
        jobs.start_trainer(1, "--wait-for", tmp_path / "done-0", "--done", tmp_path / "done-1")
        jobs.end()
        found = jobs.found(0)
        assert (found["own_w"] != found["w"]).any()
        with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()), fluid.unique_name.guard():
            job.build()
            fluid.io.load_params(fluid.Executor(fluid.CPUPlace()), str(tmp_path / "model"), fluid.default_main_program())
            for name in ("w", "table"):
                np.testing.assert_array_equal(np.array(fluid.global_scope().find_var(name).get_tensor()), found[name], name)
        state = fluid.io.load_program_state(str(tmp_path / "model" / "state" / "m"))
        for name in ("w", "table"):
            np.testing.assert_array_equal(state[name], found[name], name)


def write_files(folder, counts):
    """Files of the same sample: x of 2, v of 2, id 3."""
    paths = [folder / f"part-{i}" for i in range(len(counts))]
    for path, n in zip(paths, counts):
        path.write_text((f"{job.WIDTH} " + "2 " * job.WIDTH + "2 2 2 1 3\n") * n)
    return paths


@pytest.mark.parametrize("mode", ["half_async", "sync"])
@pytest.mark.parametrize("counts", [(40, 40), (9, 40, 25)])
def test_threads_give_one_step_a_round(tmp_path, mode, counts):
    """The average of what they compute; those that have data left go on when others have none."""
    files = write_files(tmp_path, counts)
    with Job(tmp_path, 2, "--mode", mode, "--files", *files) as jobs:
        jobs.start_trainer(0)
        jobs.end()
        found = jobs.found(0)
        rounds = max(counts)
        assert found["steps"] == rounds
        np.testing.assert_array_equal(found["w"], np.full(job.WIDTH, 1 - job.RATE * 2 * rounds, "float32"))
        # Rows of a round are added up after each was divided by the number of threads in it: 1, 2 or 3.
        table = np.ones((job.ROWS, 2), "float32")
        table[3] -= job.RATE * job.V * rounds
        np.testing.assert_allclose(found["table"], table, rtol=1e-6)


def test_an_async_job_of_threads_counts_each_batch(tmp_path):
    files = write_files(tmp_path, (30, 50))
    with Job(tmp_path, 1, "--mode", "async", "--knob", "communicator_send_queue_size=4", "--files", *files) as jobs:
        jobs.start_trainer(0)
        jobs.end()
        found = jobs.found(0)
        assert found["steps"] == 80
        np.testing.assert_array_equal(found["w"], np.full(job.WIDTH, 1 - job.RATE * 2 * 80, "float32"))
        assert found["table"][3, 0] == 1 - job.RATE * job.V * 80


# ---- GEO-SGD ----


class Geo:
    """A trainer of GEO-SGD by hand: what it has, and what it believes servers to have."""

    def __init__(self, servers, trainers, every):
        self.servers, self.trainers, self.every = servers, np.float32(trainers), every
        self.now = {name: value.copy() for name, value in servers.items()}
        self.old = {name: value.copy() for name, value in servers.items()}
        self.touched = set()

    def tell(self):
        for name in self.now:
            rows = sorted(self.touched) if name == "table" else slice(None)
            delta = (self.now[name][rows] - self.old[name][rows]) / self.trainers
            self.old[name][rows] += delta
            self.servers[name][rows] += delta
            self.now[name][rows] += self.servers[name][rows] - self.old[name][rows]
            self.old[name][rows] = self.servers[name][rows]
        self.touched = set()

    def train(self, steps, trainer):
        for step in range(steps):
            self.now["w"] -= np.float32(job.RATE) * job.x_of(step, trainer)
            for row in job.ids_of(step, trainer):
                self.now["table"][row] -= np.float32(job.RATE * job.V)
                self.touched.add(row)
            if (step + 1) % self.every == 0:
                self.tell()
        if self.touched:
            self.tell()


@pytest.mark.parametrize("servers, every, steps", [(1, 1, 7), (2, 3, 20), (2, 100, 20)])
def test_geo_adds_a_share_of_what_each_trainer_has_changed(tmp_path, servers, every, steps):
    """Two trainers, one after the other, so that the end is known; the second one begins before the first trains."""
    start = {"w": np.ones(job.WIDTH, "float32"), "table": np.ones((job.ROWS, 2), "float32")}
    by_hand = [Geo(start, 2, every), Geo(start, 2, every)]
    with Job(tmp_path, servers, "--mode", "geo", "--every", every, "--steps", steps, trainers=2) as jobs:
        second = jobs.start_trainer(1, "--wait-for", tmp_path / "done-0")
        second.wait_for("begins", 60)
        jobs.start_trainer(0, "--done", tmp_path / "done-0")
        jobs.end()
        by_hand[0].train(steps, 0)
        by_hand[1].train(steps, 1)
        found = jobs.found(1)
        for name in ("w", "table"):
            np.testing.assert_allclose(found[name], start[name], rtol=1e-6, err_msg=name)
            np.testing.assert_allclose(found[f"own_{name}"], by_hand[1].now[name], rtol=1e-6, err_msg=name)


def test_geo_of_one_trainer_is_one_process(tmp_path):
    """With its own Adam, whose states stay in the trainer."""
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()), fluid.unique_name.guard():
        loss = job.build()[1]
        fluid.optimizer.Adam(0.01, lazy_mode=True).minimize(loss)
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(fluid.default_startup_program())
        for step in range(25):
            exe.run(feed=job.feed(step, 0))
        one = {name: np.array(fluid.global_scope().find_var(name).get_tensor()) for name in ("w", "table")}
    with Job(tmp_path, 2, "--mode", "geo", "--every", 4, "--steps", 25, "--optimizer", "Adam") as jobs:
        jobs.start_trainer(0)
        jobs.end()
        for name in ("w", "table"):
            np.testing.assert_allclose(jobs.found(0)[f"own_{name}"], one[name], rtol=1e-6, err_msg=name)
            np.testing.assert_allclose(jobs.found(0)[name], one[name], rtol=1e-6, err_msg=name)


# ---- failures ----


@pytest.mark.parametrize("mode", ["async", "geo"])
def test_a_server_that_is_killed_and_started_again_loses_nothing(tmp_path, mode):
    """In the middle of many steps; the last ones come after that, however fast the others are done."""
    steps = 400
    words = ["--mode", mode, "--every", "2", "--steps", steps, "--knob", "communicator_send_queue_size=4"]
    with Job(tmp_path, 1, *words, FLAGS_ps_dir=str(tmp_path / "kept"), FLAGS_ps_log="write", FLAGS_rpc_deadline="60000") as jobs:
        trainer = jobs.start_trainer(0, "--last-after", tmp_path / "killed")
        trainer.wait_for("step 40\n", 60)
        jobs.servers[0].process.send_signal(signal.SIGKILL)
        assert jobs.servers.pop().end(30) != 0
        (tmp_path / "killed").touch()
        jobs.servers.append(jobs.start("server", 0))
        jobs.end()
        if mode == "async":
            assert_sums(jobs.found(0), steps, 1)
        else:
            for name in ("w", "table"):
                np.testing.assert_allclose(jobs.found(0)[name], dict(zip(("w", "table"), sums(steps, 1)))[name], rtol=1e-5)


@pytest.mark.parametrize("mode", ["async", "half_async", "geo"])
def test_a_server_that_stays_away_is_named_and_the_trainer_fails(tmp_path, mode):
    words = ["--mode", mode, "--every", "2", "--steps", 100000]
    with Job(tmp_path, 1, *words, FLAGS_rpc_deadline="2000", FLAGS_ps_notice="1000") as jobs:
        trainer = jobs.start_trainer(0)
        trainer.wait_for("step 5\n", 60)
        jobs.servers[0].process.send_signal(signal.SIGKILL)
        assert jobs.servers.pop().end(30) != 0
        assert trainer.end(60) == 1
        assert re.search(rf"not done after \d+ s \(.*{jobs.endpoints[0]}", trainer.output()), trainer.output()


def test_knobs_are_checked():
    program = fluid.Program()
    for knob, value in (("send_queue_size", 0), ("max_merge_var_num", "x"), ("send_wait_times", -1)):
        with pytest.raises(ValueError, match=rf"communicator_{knob} is {value!r}; it must be a whole number from [01] on"):
            fluid.communicator.Communicator(program, envs={f"communicator_{knob}": value})


def test_two_at_a_time_are_refused():
    first, second = (fluid.communicator.Communicator(fluid.Program()) for _ in range(2))
    first.start()
    try:
        with pytest.raises(ValueError, match="runs already: stop it before"):
            second.start()
    finally:
        first.stop()
    second.start()
    second.stop()


def test_geo_without_a_communicator_or_a_start_says_so(tmp_path):
    config = fluid.DistributeTranspilerConfig()
    config.sync_mode, config.geo_sgd_mode = False, True
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()), fluid.unique_name.guard():
        fluid.optimizer.SGD(0.1).minimize(job.build()[1])
        t = fluid.DistributeTranspiler(config)
        t.transpile(0, pservers="127.0.0.1:1", trainers=1, sync_mode=False)
        main = t.get_trainer_program()
        assert [op.type for op in main.global_block().ops][-3:] == ["sgd", "sgd", "geo_sgd"], "it keeps its own updates"
        rule = [op for block in t.get_pserver_program("127.0.0.1:1").blocks for op in block.ops if op.type == "sgd"]
        assert sorted(op.input("Grad")[0] for op in rule) == ["table@DELTA", "w@DELTA"]


@pytest.mark.parametrize("every", [0, -1, 2.5, True])
def test_geo_wants_a_whole_number_of_batches(every):
    config = fluid.DistributeTranspilerConfig()
    config.sync_mode, config.geo_sgd_mode, config.geo_sgd_need_push_nums = False, True, every
    with pytest.raises(ValueError, match="geo_sgd_need_push_nums is .*; it must be a whole number of batches from 1 on"):
        fluid.DistributeTranspiler(config)
