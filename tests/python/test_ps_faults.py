"""Processes that die, stop, or do not belong: nobody waits in silence, nothing acknowledged is lost or counted twice."""

import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import ps_peer as ps
import pytest
from cluster import Job, single
from test_ps_equality import distance, whole

SOAK = bool(os.environ.get("PADDLE_SOAK"))
ROUNDS = 50 if SOAK else 5
PADDLE = Path(sys.executable).parent / "paddle"
LONG = ["--model", "fit_a_line", "--optimizer", "momentum", "--steps", "4000"]


def check_equal(tmp_path, want: dict) -> None:
    got = dict(np.load(tmp_path / "trainer-0.npz"))
    other = dict(np.load(tmp_path / "trainer-1.npz"))
    np.testing.assert_allclose((got["losses"] + other["losses"]) / 2, want["losses"], rtol=1e-5, atol=1e-6)
    for name in want:
        if name != "losses":
            np.testing.assert_allclose(got[name], want[name], rtol=1e-5, atol=1e-6)


def kill_servers(job: Job, options: list[str], out, rng: random.Random, choices, rounds: int,
                 while_starting: float = 0, pace: Path | None = None) -> tuple[int, int]:
    """Kill -9 of servers, one or more of `choices` at once, at random moments, each started again at once. The job must be long
    enough: a server that is killed when all is done, and started again, waits for another run. Trainers that keep to `pace`, a file
    that grows by a byte for each round, see to that. `while_starting`: how often it is not waited until all are in the job. Returns
    how many rounds there were, and how many of the killed had gone on from files."""
    servers, trainers = job.processes[: len(job.endpoints)], job.processes[len(job.endpoints) :]
    kills = taken_up = 0
    while kills < rounds and all(t.process.poll() is None for t in trainers):
        goes = rng.choice(choices)
        if not kills or rng.random() >= while_starting:
            end = time.monotonic() + 30  # all are in the job again, or it is over
            while any("(host" not in s.output() and s.process.poll() is None for s in servers) and time.monotonic() < end:
                if any(t.process.poll() is not None for t in trainers):
                    break
                time.sleep(0.005)
        time.sleep(rng.uniform(0.0, 0.3))
        if any(servers[which].process.poll() is not None for which in goes):
            break  # the job is over
        for which in goes:
            servers[which].kill()
        for which in goes:
            taken_up += "taken up at step" in servers[which].output()
            job.processes.remove(servers[which])
            servers[which].close()
            more = ["--out", str(out / f"server-{which}.npz")] if out else []
            servers[which] = job.start("server", which, *options, *more)
        kills += 1
        if pace:
            pace.write_bytes(bytes(kills))
    return kills, taken_up


def paced(tmp_path, rounds: int, each: int) -> tuple[Path, list[str]]:
    """For kill_servers, and options of a job that ends after `rounds` of it: `each` steps for every round, and some more."""
    pace = tmp_path / "kills"
    pace.touch()
    return pace, ["--steps", str(rounds * each + 50), "--pace", f"{pace}:{each}"]


@pytest.mark.parametrize("log", ["write", "fsync"])
def test_server_killed_and_started_again_loses_nothing(tmp_path, record_property, log):
    """Kill -9 at random moments: with the log on, the result is that of a run without any fault."""
    rng = random.Random(4 if log == "write" else 5)
    pace, steps = paced(tmp_path, ROUNDS, 300 if log == "fsync" else 1200)
    options = ["--model", "fit_a_line", "--optimizer", "momentum", *steps]
    want = single(tmp_path / "single.npz", *options)
    env = {"FLAGS_ps_dir": str(tmp_path / "ps"), "FLAGS_ps_log": log, "FLAGS_ps_snapshot_steps": "700"}
    with Job(2, 2, env=env) as job:
        job.start_all(*options, out=tmp_path)
        kills, taken_up = kill_servers(job, options, tmp_path, rng, [(0,), (1,)], ROUNDS, while_starting=0.25, pace=pace)
        job.end(deadline=180)
    record_property("kills", kills)
    record_property("of servers that had gone on after one", taken_up)
    record_property("steps", steps[1])
    assert kills == ROUNDS
    check_equal(tmp_path, want)


# Each kind of update, of state and of what servers tell each other; loops of a server have logs of their own.
KINDS = [
    ("2", "mlp", "adam", ["--decay", "--schedule"]),
    ("1", "word2vec_sparse", "sgd", ["--clip", "global_norm"]),
    ("1", "turns", "momentum", []),
    ("1", "gradients", "momentum", []),
]
if SOAK:
    KINDS += [
        ("1", "mlp", "adam", ["--decay", "--schedule"]),
        ("2", "mlp", "adagrad", ["--schedule"]),
        ("2", "mlp", "sgd", ["--clip", "value"]),
        ("1", "mlp", "momentum", ["--clip", "norm"]),
        ("1", "word2vec", "momentum", ["--clip", "global_norm"]),
        ("1", "word2vec_sparse", "sgd", ["--schedule"]),
        ("2", "word2vec_sparse", "sgd", ["--schedule", "--no-slices"]),
        ("2", "word2vec_sparse", "adagrad", []),
        ("2", "word2vec_sparse", "momentum", ["--decay"]),
        ("2", "turns", "momentum", ["--decay"]),
        ("1", "turns", "adamax", []),
    ]


def results(folder: Path) -> tuple[list[dict], list[dict]]:
    """What the trainers and the servers of a 2x2 job have written."""
    return tuple([dict(np.load(folder / f"{who}-{i}.npz")) for i in range(2)] for who in ("trainer", "server"))


@pytest.mark.parametrize("loops, model, optimizer, more", KINDS)
def test_servers_killed_in_jobs_of_all_kinds(tmp_path, record_property, loops, model, optimizer, more):
    """One or both at once, while they add norms or write snapshots too: a step that is done again gives what it gave. So all bits
    are those of a job that nobody disturbs. They are close to one process, but where an update divides by the size of a gradient
    that is nearly 0 (adamax): rounding, which the number of processes changes, decides there in the long run."""
    rounds = 20 if SOAK else 5
    pace, steps = paced(tmp_path, rounds, 400)
    options = ["--model", model, "--optimizer", optimizer, *more, *steps]
    want = single(tmp_path / "single.npz", *[word for word in options if word != "--no-slices"])
    env = {"FLAGS_ps_log": "write", "FLAGS_ps_snapshot_steps": "50", "FLAGS_ps_loops": loops}
    with Job(2, 2, env={**env, "FLAGS_ps_dir": str(tmp_path / "ps")}) as job:
        job.start_all(*options, out=tmp_path)
        rng = random.Random(f"{loops} {model} {more}")
        kills, taken_up = kill_servers(job, options, tmp_path, rng, [(0,), (1,), (0, 1)], rounds, pace=pace)
        job.end(deadline=180)
    calm = tmp_path / "calm"
    calm.mkdir()
    with Job(2, 2, env={**env, "FLAGS_ps_dir": str(calm / "ps")}) as job:
        job.start_all(*options, out=calm)  # the pace is at its end
        job.end(deadline=180)
    got, held = results(tmp_path)
    distances = {name: distance(whole(name, got[0], held), want[name]) for name in want if name != "losses"}
    record_property("kills", kills)
    record_property("of servers that had gone on after one", taken_up)
    record_property("parameters differ by", f"{max(distances.values()):.1e}")
    assert kills == rounds
    for mine, undisturbed in zip([*got, *held], sum(results(calm), [])):
        assert mine.keys() == undisturbed.keys()
        for name in mine:
            np.testing.assert_array_equal(mine[name], undisturbed[name], name)
    if optimizer != "adamax":
        np.testing.assert_allclose(np.mean([g["losses"] for g in got], axis=0), want["losses"], rtol=1e-5, atol=1e-6)
        assert max(distances.values()) < 1e-5, distances


def test_trainer_killed_ends_the_job_by_name():
    """Sync: the others end with an error that names it, and not by the deadline of a call."""
    with Job(1, 2, env={"FLAGS_rpc_deadline": "600000"}) as job:
        job.start_all(*LONG, "--steps", "1000000")
        server, stays, goes = job.processes
        server.wait_for("trainer 1 (")
        goes.kill()
        assert stays.end(60) == 1 and server.end(60) == 1
        for p in (stays, server):
            assert "trainer 1 (host" in p.output() and f"pid {goes.pid}" in p.output() and "is gone without a word" in p.output()


@pytest.mark.parametrize("transport", ["shm", "tcp"])
def test_trainer_killed_whose_children_live(transport):
    """Children that it forked do not stand for it: not when they end, not when they train, not when they stay."""
    with Job(1, 2, env={"PADDLE_PS_TRANSPORT": transport, "FLAGS_ps_reconnect": "300", "FLAGS_rpc_deadline": "600000"}) as job:
        job.start_all(*LONG, "--steps", "1000000", "--fork-at", "20", "--say-at", "400")
        server, stays, goes = job.processes
        for trainer in (stays, goes):
            trainer.wait_for("step 400 has ended")  # the job went on
            assert "child: this process was forked by a trainer" in trainer.output(), trainer.output()
        children = [int(re.search(r"forked (\d+)\.", trainer.output()).group(1)) for trainer in (stays, goes)]
        try:
            goes.kill()
            assert stays.end(60) == 1 and server.end(60) == 1
            assert "trainer 1 (host" in stays.output() and "is gone without a word" in stays.output()
        finally:
            for child in children:
                os.kill(child, signal.SIGKILL)


def test_trainer_killed_and_the_others_go_on():
    with Job(1, 2, env={"FLAGS_ps_on_trainer_loss": "shrink", "FLAGS_ps_reconnect": "500"}) as job:
        job.start("server", 0, *LONG)
        stays = job.start("trainer", 0, *LONG)
        goes = job.start("trainer", 1, *LONG, "--steps", "1000000")
        job.processes[0].wait_for("trainer 1 (")
        goes.kill()
        assert stays.end(30) == 0
        assert job.processes[0].end(10) == 0
        assert "the others go on" in job.processes[0].output()


SHRINK = {"FLAGS_ps_on_trainer_loss": "shrink", "FLAGS_ps_reconnect": "300"}


def last_steps(job: Job, id: int, n: int = 1, loops: int = 1) -> list[int]:
    """The last step that counts a lost trainer, as each loop of each server tells it when that happens for the n-th time."""
    found = []
    for server in job.processes[: len(job.endpoints)]:
        end = time.monotonic() + 30
        while len(steps := re.findall(rf"trainer {id}\b.*has been lost: the last step that counts it is (\d+)",
                                      server.output())) < n * loops:
            assert server.process.poll() is None and time.monotonic() < end, server.output()
            time.sleep(0.01)
        found += [int(step) for step in steps[(n - 1) * loops :]]
    return found


@pytest.mark.parametrize("servers, loops", [(3, 1), (2, 2), (1, 3)])
def test_all_servers_agree_on_a_killed_trainer(servers, loops):
    """Kill -9 at random moments: every server counts a lost trainer in the same steps, and the others go on."""
    rng = random.Random(10 * servers + loops)
    options = ["--model", "mlp", "--optimizer", "momentum", "--steps", "1000000"]
    with Job(servers, 4, env={**SHRINK, "FLAGS_ps_loops": str(loops), "FLAGS_log_level": "debug"}) as job:
        job.start_all(*options)
        trainers = dict(enumerate(job.processes[servers:]))
        for server in job.processes[:servers]:
            for i in trainers:
                server.wait_for(f"trainer {i} (host")
        lost = dict.fromkeys(range(4), 0)
        for n in range(max(ROUNDS // 2, 1) + 3):
            which = rng.choice([i for i in trainers if i])
            time.sleep(rng.uniform(0.02, 0.3))
            trainers[which].kill()
            lost[which] += 1
            steps = last_steps(job, which, lost[which], loops)
            assert len(set(steps)) == 1, steps
            if n < ROUNDS // 2:
                trainers[which] = job.start("trainer", which, *options)
                for server in job.processes[:servers]:
                    server.wait_for(f"pid {trainers[which].pid},")
            else:
                del trainers[which]
        assert trainers[0].process.poll() is None


def test_a_step_that_one_server_has_whole_and_another_has_not(tmp_path):
    """The trainer dies after it ended its step on one server: it counts nowhere, and the others train as if it had not come."""
    options = ["--model", "fit_a_line", "--optimizer", "momentum", "--steps", "200"]
    with Job(2, 2) as job:
        job.start_all(*options, out=tmp_path)
        job.end(30)
    want = [dict(np.load(tmp_path / f"trainer-{i}.npz")) for i in range(2)]
    with Job(2, 3, env=SHRINK) as job:
        for i in range(2):
            job.start("server", i, *options)
        for server in job.processes:
            server.wait_for("Server listening on")
        peers = [ps.Peer(endpoint) for endpoint in job.endpoints]
        for peer in peers:
            assert peer.greet(2, incarnation=55).type == ps.WELCOME
            assert peer.open().type == ps.OPENED
        for i in range(2):
            job.start("trainer", i, *options, "--shards", "2", "--out", str(tmp_path / f"trainer-{i}.npz"))
        for server in job.processes[:2]:
            server.wait_for("trainer 0 (host")
            server.wait_for("trainer 1 (host")
        peers[0].send(ps.frame(ps.PUSH, ps.parts(wishes=[]), flags=ps.END, step=1, request=9))
        peers[0].socket.settimeout(0.5)
        with pytest.raises(TimeoutError):
            peers[0].answer()  # not applied: the other server has not heard of it
        for peer in peers:
            peer.socket.close()
        assert last_steps(job, 2) == [0, 0]
        job.end(30)
    for i in range(2):
        got = dict(np.load(tmp_path / f"trainer-{i}.npz"))
        for name, value in want[i].items():
            np.testing.assert_allclose(got[name], value, rtol=1e-6, atol=1e-7)


def test_servers_killed_while_trainers_may_be_lost(tmp_path):
    """The order of steps outlives each server, the first too: nothing is lost, nobody stands still."""
    options = ["--model", "fit_a_line", "--optimizer", "momentum", "--steps", "1500"]
    want = single(tmp_path / "single.npz", *options)
    env = {"FLAGS_ps_dir": str(tmp_path / "ps"), "FLAGS_ps_log": "write", "FLAGS_ps_on_trainer_loss": "wait"}
    rng = random.Random(8)
    with Job(2, 2, env=env) as job:
        job.start_all(*options, "--say-at", "20", out=tmp_path)
        servers = job.processes[:2]
        job.processes[2].wait_for("step 20 has ended")
        for which in (1, 0, 0):
            time.sleep(rng.uniform(0.02, 0.1))
            if servers[which].process.poll() is not None:
                break  # the job is over
            servers[which].kill()
            job.processes.remove(servers[which])
            servers[which].close()
            servers[which] = job.start("server", which, *options)
            servers[which].wait_for("taken up at step")
        job.end(60)
    check_equal(tmp_path, want)


EMPTY = ["--model", "fit_a_line", "--optimizer", "momentum", "--no-slices", "--steps", "3000"]  # 2 parameters


def empty_server(job: Job) -> int:
    """Which server of a job has no parameter."""
    counts = []
    for i in range(len(job.endpoints)):
        done = subprocess.run([PADDLE, "ps", "status", job.endpoints[i], "--json"], capture_output=True, text=True, timeout=20)
        counts.append(json.loads(done.stdout)["parameters"]["count"])
    assert sorted(counts) == [0, 1, 1]
    return counts.index(0)


@pytest.mark.parametrize("loss", ["fail", "shrink"])
def test_a_server_without_parameters_killed_and_started_again(tmp_path, loss):
    """More servers than parameters: the one with nothing to hold has its place in every step all the same."""
    want = single(tmp_path / "single.npz", *EMPTY[:-3], *EMPTY[-2:])
    env = {"FLAGS_ps_dir": str(tmp_path / "ps"), "FLAGS_ps_log": "write", "FLAGS_ps_on_trainer_loss": loss}
    with Job(3, 2, env=env) as job:
        job.start_all(*EMPTY, "--say-at", "20", out=tmp_path)
        job.processes[3].wait_for("step 20 has ended")
        which = empty_server(job)
        for _ in range(2):
            killed = job.processes[which]
            killed.kill()
            killed.close()
            job.processes[which] = job.start("server", which, *EMPTY)
            job.processes.pop()
            job.processes[which].wait_for("taken up at step")
        assert job.processes[3].process.poll() is None
        job.end(60)
    check_equal(tmp_path, want)


def test_trainer_killed_in_a_job_with_a_server_without_parameters():
    """All servers agree on its last step, and the job ends well."""
    with Job(3, 2, env=SHRINK) as job:
        job.start_all(*EMPTY, "--say-at", "20")
        stays, goes = job.processes[3:]
        goes.wait_for("step 20 has ended")
        goes.kill()
        assert len(set(last_steps(job, 1))) == 1
        job.processes.remove(goes)
        goes.close()
        job.end(60)
        assert stays.process.returncode == 0


def test_killed_trainer_comes_back(tmp_path):
    """Policy wait: a trainer that is started again goes on after the last step applied."""
    options = [*LONG, "--steps", "3000"]
    with Job(1, 2, env={"FLAGS_ps_on_trainer_loss": "wait", "FLAGS_ps_reconnect": "300"}) as job:
        server = job.start("server", 0, *options)
        job.start("trainer", 0, *options)
        goes = job.start("trainer", 1, *options, "--say-at", "20")
        goes.wait_for("step 20 has ended")
        goes.kill()
        server.wait_for("waiting for it to come back")
        job.processes.remove(goes)
        goes.close()
        again = job.start("trainer", 1, *options, "--resume")
        job.end(60)
        done = int(again.output().split("steps done: ")[1].split()[0])
        assert 0 < done < 3000
        assert f"trainer 1 goes on after step {done}" in again.output()


@pytest.mark.parametrize("how", ["sys.exit()", "exit(0)", "raise SystemExit",
                                 "exec('try: sys.exit(1)\\nexcept SystemExit: sys.exit(None)')"])
def test_trainer_that_exits_without_one_is_done(how):
    """Also one that has caught another exit before."""
    with Job(1, 2) as job:
        job.start("server", 0, *LONG)
        job.start("trainer", 0, *LONG, "--steps", "100")
        job.start("trainer", 1, *LONG, "--exit-at", "20", "--exit", how)
        job.end(30)


def test_unequal_shards_end_well():
    """A trainer with fewer batches leaves the barrier; the other goes on alone."""
    with Job(1, 2) as job:
        job.start("server", 0, *LONG)
        job.start("trainer", 0, *LONG, "--steps", "10")
        job.start("trainer", 1, *LONG, "--steps", "300")
        job.end(30)


@pytest.mark.parametrize("servers, loops", [(1, 1), (2, 3)])
def test_server_killed_after_a_trainer_had_ended(tmp_path, servers, loops):
    """A server that is started again does not wait for trainers that said goodbye before: the job ends by itself."""
    options = ["--model", "fit_a_line", "--optimizer", "momentum", "--steps", "8000"]
    env = {"FLAGS_ps_dir": str(tmp_path / "ps"), "FLAGS_ps_log": "write", "FLAGS_ps_loops": str(loops)}
    with Job(servers, 2, env=env) as job:
        for i in range(servers):
            job.start("server", i, *options)
        job.start("trainer", 0, *options, "--out", str(tmp_path / "trainer-0.npz"))
        assert job.start("trainer", 1, *options, "--steps", "20").end(30) == 0
        killed = job.processes[servers - 1]
        killed.kill()
        job.processes.remove(killed)
        killed.close()
        again = job.start("server", servers - 1, *options)
        again.wait_for("trainer 1 had ended before this server was started again")
        job.end(60)
        assert len(np.load(tmp_path / "trainer-0.npz")["losses"]) == 8000
    assert not list((tmp_path / "ps").glob("*/trainers"))


def test_a_second_server_by_mistake_leaves_the_files_alone(tmp_path):
    """The same command twice: the port is taken, and what the first server knows of its trainers stays."""
    with Job(1, 2, env={"FLAGS_ps_dir": str(tmp_path / "ps")}) as job:
        server = job.start("server", 0, *LONG)
        job.start("trainer", 0, *LONG)
        server.wait_for("trainer 0 (")
        (book,) = (tmp_path / "ps").glob("*/trainers")
        before = book.read_bytes()
        second = job.start("server", 0, *LONG)
        job.processes.remove(second)
        try:
            assert second.end(30) == 1, second.output()
        finally:
            second.close()
        assert before and book.read_bytes() == before
        job.start("trainer", 1, *LONG)
        job.end(60)


@contextmanager
def done_while_the_server_is_down(tmp_path, **env):
    """Trainer 1 has made its steps when the server is killed, and wants to leave."""
    options = ["--model", "fit_a_line", "--optimizer", "momentum", "--steps", "300"]
    env = {"FLAGS_ps_dir": str(tmp_path / "ps"), "FLAGS_ps_log": "write", "FLAGS_ps_notice": "300", "FLAGS_ps_loops": "2", **env}
    with Job(1, 2, env=env) as job:
        server = job.start("server", 0, *options)
        job.start("trainer", 0, *options)
        leaves = job.start("trainer", 1, *options, "--steps", "20", "--linger", str(tmp_path / "leave"))
        leaves.wait_for("all steps have ended")
        server.kill()
        (tmp_path / "leave").touch()
        leaves.wait_for("this trainer is done; saying goodbye to the servers has waited")
        job.processes.remove(server)
        server.close()
        yield job, leaves, lambda: job.start("server", 0, *options)


@pytest.mark.parametrize("transport", ["auto", "tcp"])
@pytest.mark.parametrize("secret", [{}, {"PADDLE_PS_SECRET": "of sixteen characters or more"}], ids=["open", "secret"])
def test_server_killed_while_a_trainer_ends(tmp_path, secret, transport):
    """It hears the goodbye when it is back, and waits for nobody: the job ends by itself. The trainer connects at the end of its
    process, where other libraries have ended already: one with a secret uses theirs."""
    with done_while_the_server_is_down(tmp_path, PADDLE_PS_TRANSPORT=transport, **secret) as (job, _, start_again):
        start_again()
        job.end(30)


def test_nobody_says_goodbye_for_ever(tmp_path):
    """A server that does not come back: the trainer that is done ends well, after the deadline or by Ctrl-C."""
    with done_while_the_server_is_down(tmp_path, FLAGS_rpc_deadline="2000") as (_, leaves, _):
        assert leaves.end(10) == 0
        assert "a server that is started again will miss it" in leaves.output()
    (tmp_path / "leave").unlink()
    with done_while_the_server_is_down(tmp_path, FLAGS_ps_fresh="1") as (_, leaves, _):
        leaves.signal(signal.SIGINT)
        assert leaves.end(2) == 0


def test_another_run_in_the_same_folder_waits_for_all(tmp_path):
    """What a killed server knew of the trainers of a run does not hold for those of the next one."""
    env = {"FLAGS_ps_dir": str(tmp_path / "ps"), "FLAGS_ps_log": "write", "FLAGS_ps_notice": "300"}
    with Job(1, 2, env=env) as job:
        server = job.start("server", 0, *LONG)
        job.start("trainer", 0, *LONG, "--steps", "1000000")
        assert job.start("trainer", 1, *LONG, "--steps", "20").end(30) == 0
        for p in job.processes:
            p.close()
        job.processes.clear()
        server = job.start("server", 0, *LONG)
        job.start("trainer", 0, *LONG, "--steps", "50")
        server.wait_for("for trainer 1 (had ended before this server was started again")
        job.start("trainer", 1, *LONG, "--steps", "50")
        job.end(30)


def test_an_ended_trainer_comes_back():
    """Started again while the job runs, it takes part again, from the same step on all servers."""
    with Job(2, 2) as job:
        for i in range(2):
            job.start("server", i, *LONG)
        job.start("trainer", 0, *LONG, "--steps", "1000000")
        for turn in range(1, 4):
            assert job.start("trainer", 1, *LONG, "--steps", "20").end(30) == 0
            if turn == 1:
                continue
            firsts = set()
            for server in job.processes[:2]:
                assert server.process.poll() is None
                steps = re.findall(r"had ended: it takes part from step (\d+) on", server.output())
                passed = re.findall(r"trainer 1 .* passes step (\d+)", server.output())
                assert len(steps) == turn - 1
                firsts.add(int(steps[-1]) + (steps[-1] in passed))
            assert len(firsts) == 1, firsts
        assert job.processes[2].process.poll() is None


def test_one_that_only_looks_in_again_changes_nothing(tmp_path):
    """Joins after its trainer had ended, pushes nothing and goes, with a goodbye or without: the others train as if it had not
    come."""
    options = ["--model", "fit_a_line", "--optimizer", "momentum", "--steps", "4000"]
    results = []
    for looks_in in (False, True):
        with Job(1, 2) as job:
            server = job.start("server", 0, *options)
            job.start("trainer", 0, *options, "--out", str(tmp_path / "trainer-0.npz"))
            assert job.start("trainer", 1, *options, "--steps", "20").end(30) == 0
            for says in (b"\0", b"\1", None) if looks_in else ():
                with ps.Peer(job.endpoints[0]) as peer:
                    peer.greet(1)
                    assert peer.open().type == ps.OPENED
                    if says:
                        peer.send(ps.frame(ps.BYE, says + ps.text("no"), request=3))
                        assert peer.answer().type == ps.DONE
                    else:
                        peer.socket.close()
                        server.wait_for("is gone again")
            job.end(30)
        results.append(dict(np.load(tmp_path / "trainer-0.npz")))
    for name, value in results[0].items():
        np.testing.assert_array_equal(results[1][name], value)


def test_frozen_server_is_named_and_goes_on():
    env = {"FLAGS_ps_notice": "500"}
    with Job(1, 2, env=env) as job:
        job.start_all(*LONG)
        server, first, _ = job.processes
        server.wait_for("trainer 0 (")
        server.wait_for("trainer 1 (")
        server.signal(signal.SIGSTOP)
        first.wait_for(f"{job.endpoints[0]}: no answer yet", 10)
        server.signal(signal.SIGCONT)
        job.end(60)


def test_goodbye_from_a_signal_within_an_exchange():
    """A handler that closes another executor while the trainer waits: nothing hangs, nobody leaves."""
    with Job(1, 2, env={"FLAGS_ps_notice": "200"}) as job:
        job.start_all("--model", "fit_a_line", "--steps", "3000", "--say-at", "100")
        server, first, second = job.processes
        first.wait_for("step 100 has ended")
        server.signal(signal.SIGSTOP)
        first.wait_for("the exchange with the servers has waited")
        first.signal(signal.SIGUSR1)
        first.wait_for("closed another", deadline=10)
        server.signal(signal.SIGCONT)
        job.end(60)
        assert second.process.returncode == 0


def test_frozen_server_past_the_deadline_is_an_error():
    env = {"FLAGS_ps_notice": "300", "FLAGS_rpc_deadline": "1500"}
    with Job(1, 1, env=env) as job:
        job.start_all(*LONG, "--steps", "1000000")
        server, trainer = job.processes
        server.wait_for("trainer 0 (")
        server.signal(signal.SIGSTOP)
        assert trainer.end(15) == 1
        assert "FLAGS_rpc_deadline" in trainer.output() and job.endpoints[0] in trainer.output()


def test_server_that_forgot_is_refused():
    """Without a folder a server comes back empty: the message says so, up to which step the job had run, and what to do."""
    with Job(1, 1) as job:
        job.start_all(*LONG, "--steps", "1000000", "--say-at", "100")
        server, trainer = job.processes
        trainer.wait_for("step 100 has ended")
        server.kill()
        job.start("server", 0, *LONG)
        assert trainer.end(20) == 1
        assert "was started again and has nothing of a job that this trainer has run up to step" in trainer.output()
        assert "it has no FLAGS_ps_dir, so that nothing was kept. Start all servers and trainers anew" in trainer.output()
        assert "FLAGS_ps_accept_rollback=1" in trainer.output()


def test_server_not_there():
    env = {"FLAGS_ps_notice": "300", "FLAGS_rpc_deadline": "1200"}
    with Job(1, 1, env=env) as job:
        trainer = job.start("trainer", 0, *LONG)
        assert trainer.end(20) == 1
        assert "refused: is the server running?" in trainer.output() and job.endpoints[0] in trainer.output()


def test_two_servers_on_one_port():
    with Job(1, 1) as job:
        first = job.start("server", 0, *LONG)
        first.wait_for("Server listening on")
        second = job.start("server", 0, *LONG)
        assert second.end(20) == 1
        assert job.endpoints[0].split(":")[1] in second.output() and str(first.pid) in second.output()


def test_a_port_that_a_killed_server_still_has_for_a_moment():
    """A child that it forked in its last moment has its sockets until it runs for the first time."""
    with Job(1, 1) as job, socket.socket() as left:
        left.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        left.bind(("127.0.0.1", int(job.endpoints[0].split(":")[1])))
        left.listen()
        threading.Timer(0.4, left.close).start()
        job.start_all(*LONG, "--steps", "5")
        job.end(30)


@pytest.mark.parametrize("secret, says", [("wrong", "secret"), ("", "secret")])
def test_wrong_secret(secret, says):
    with Job(1, 1) as job:
        server = job.start("server", 0, *LONG, env={"PADDLE_PS_SECRET": "right"})
        server.wait_for("Server listening on")
        trainer = job.start("trainer", 0, *LONG, env={"PADDLE_PS_SECRET": secret} if secret else {})
        assert trainer.end(20) == 1
        assert says in trainer.output() and "right" not in trainer.output()
        assert server.process.poll() is None  # nothing disturbed


def test_right_secret():
    with Job(1, 2, env={"PADDLE_PS_SECRET": "right"}) as job:
        job.start_all(*LONG, "--steps", "50")
        job.end(30)


def test_another_job_on_the_same_port():
    with Job(1, 1) as job:
        server = job.start("server", 0, *LONG, env={"FLAGS_ps_job": "mine"})
        server.wait_for("Server listening on")
        trainer = job.start("trainer", 0, *LONG, env={"FLAGS_ps_job": "yours"})
        assert trainer.end(20) == 1
        assert "mine" in trainer.output() and "yours" in trainer.output()


def test_sigterm_drains_and_snapshots(tmp_path):
    """The server ends with status 0 and a snapshot; started again, the job goes on to the same result."""
    options = [*LONG, "--steps", "6000"]
    want = single(tmp_path / "single.npz", *options)
    with Job(1, 2, env={"FLAGS_ps_dir": str(tmp_path / "ps")}) as job:
        job.start_all(*options, "--say-at", "500", out=tmp_path)
        server = job.processes[0]
        job.processes[1].wait_for("step 500 has ended")
        server.signal(signal.SIGTERM)
        assert server.end(15) == 0
        assert "snapshot of step" in server.output()
        job.processes.remove(server)
        server.close()
        job.start("server", 0, *options)
        job.end(60)
    check_equal(tmp_path, want)


def test_ctrl_c_works_everywhere():
    with Job(1, 2) as job:
        job.start_all(*LONG, "--steps", "1000000")
        server = job.processes[0]
        server.wait_for("trainer 1 (")
        for p in job.processes:
            p.signal(signal.SIGINT)
            assert p.end(60) != 0


def test_sigint_ends_a_server_that_was_started_in_the_background(tmp_path):
    """Where a shell has SIGINT ignored, it asks the server to end, as SIGTERM does."""
    with Job(1, 1, env={"FLAGS_ps_dir": str(tmp_path / "ps")}) as job:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # children ignore it too
        try:
            server = job.start("server", 0, *LONG)
        finally:
            signal.signal(signal.SIGINT, before)
        server.wait_for("Server listening on")
        server.signal(signal.SIGINT)
        assert server.end(15) == 0 and "asked to end (by a signal)" in server.output()


def test_a_server_that_cannot_start_leaves_signals_alone():
    script = '''
import signal
import paddle.fluid as fluid
loss = fluid.layers.mean(fluid.layers.fc(fluid.layers.data("x", [2]), 1))
fluid.optimizer.SGD(0.1).minimize(loss)
t = fluid.DistributeTranspiler()
t.transpile(0, pservers="192.0.2.1:7164", trainers=1)
main = t.get_pserver_program("192.0.2.1:7164")
exe = fluid.Executor()
exe.run(t.get_startup_program("192.0.2.1:7164", main))
try:
    exe.run(main)
except fluid.core.EnforceNotMet as error:
    print("refused", flush=True)
import os, time
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(60)
'''
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (-signal.SIGTERM, "refused\n"), done.stderr


def test_another_number_of_servers(tmp_path):
    """A snapshot of two servers loads on three."""
    options = ["--model", "mlp", "--optimizer", "adam", "--steps", "4"]
    env = {"FLAGS_ps_dir": str(tmp_path / "ps")}
    with Job(2, 1, env=env) as job:
        job.start_all(*options, out=tmp_path)
        job.end(30)
    before = dict(np.load(tmp_path / "trainer-0.npz"))
    with Job(3, 1, env=env) as job:
        job.start_all(*options, "--steps", "0", out=tmp_path)
        for p in job.processes[:3]:
            p.wait_for("taken up at step 4")
        job.end(30)
    after = dict(np.load(tmp_path / "trainer-0.npz"))
    for name in before:
        if name != "losses":
            np.testing.assert_array_equal(before[name], after[name])


def test_full_disk_while_snapshotting(tmp_path):
    """The snapshot fails with a reason, training does not."""
    options = ["--model", "mlp", "--steps", "60"]
    with Job(1, 1, env={"FLAGS_ps_dir": str(tmp_path / "ps"), "FLAGS_ps_snapshot_steps": "20"}) as job:
        server = job.start("server", 0, *options, "--file-limit", "50000")
        trainer = job.start("trainer", 0, *options)
        assert trainer.end(60) == 0, trainer.output()
        assert server.end(10) == 1, "the last snapshot was not written either"
        assert "no snapshot of step 20" in server.output() and "training goes on" in server.output()
        assert "no snapshot of step 60" in server.output().splitlines()[-1], server.output()


@pytest.mark.parametrize("mode", [[], ["--async"]], ids=["sync", "async"])
def test_full_disk_when_asked_to_end(tmp_path, mode):
    """The user is told by the status too that nothing was kept."""
    options = ["--model", "mlp", "--steps", "1000000", *mode]
    with Job(1, 1, env={"FLAGS_ps_dir": str(tmp_path / "ps")}) as job:
        server = job.start("server", 0, *options, "--file-limit", "50000")
        job.start("trainer", 0, *options, "--say-at", "20").wait_for("step 20 has ended")
        server.signal(signal.SIGTERM)
        assert server.end(20) == 1, server.output()
        assert "no snapshot of step" in server.output().splitlines()[-1], server.output()


def test_a_disk_that_is_really_full_and_then_has_room(tmp_path):
    """No space left on the device: as above. With room again, the next snapshot is whole."""
    disk = tmp_path / "ps"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(disk)], capture_output=True)
    if mounted.returncode:
        pytest.skip("a file system cannot be mounted here")
    try:
        options = ["--model", "mlp", "--steps", "60"]
        go = tmp_path / "go"
        with Job(1, 1, env={"FLAGS_ps_dir": str(disk), "FLAGS_ps_snapshot_steps": "20"}) as job:
            server = job.start("server", 0, *options)
            trainer = job.start("trainer", 0, *options, "--pause-at", "30", "--linger", str(go))
            server.wait_for("no snapshot of step 20")
            assert "the disk is full" in server.output() and "training goes on" in server.output()
            trainer.wait_for("pauses")
            # Nothing of it takes up room.
            assert not [path for path in disk.rglob("*") if path.name.startswith(("snapshot-", ".tmp-"))]
            subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
            go.touch()
            job.end(60)
            assert server.output().count("no snapshot of step") == 1
        with Job(1, 1, env={"FLAGS_ps_dir": str(disk)}) as job:
            server = job.start("server", 0, *options)
            server.wait_for("taken up at step 60")
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)
