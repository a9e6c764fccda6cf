"""No acknowledged update is lost, none is counted twice: jobs/ledger.py counts, and here the books are checked.

An update that was under way when its trainer was killed may have been counted or not.
"""

import os
import random
import re
import shutil
import signal
import time

import numpy as np
import pytest
from cluster import Job
from crowd import CLOSED, NOBODY, OPEN, Crowd, doors
from fault_proxy import FaultProxy, Faults
from jobs.ledger import PLACES, WIDE, WIDTH
from test_ps_faults import kill_servers

SOAK = bool(os.environ.get("PADDLE_SOAK"))
ROUNDS = 30 if SOAK else 4
ALL = [NOBODY, OPEN, CLOSED]


def logged(tmp_path, **more) -> dict:
    return {"FLAGS_ps_dir": str(tmp_path / "ps"), "FLAGS_ps_log": "write", "FLAGS_ps_snapshot_steps": "60", **more}


def acknowledged(folder, trainers: int) -> np.ndarray:
    """How often each place was acknowledged, over all lives of each trainer."""
    counts = np.zeros(trainers * PLACES)
    for path in folder.glob("acknowledged-*"):
        trainer = int(path.name.split("-")[1])
        lines = path.read_text().split("\n")
        for step in map(int, lines[:-1]):
            counts[trainer * PLACES + step % PLACES] += 1
    return counts


def gather(folder) -> dict[str, np.ndarray]:
    """How much each place of each parameter was counted, as the servers have it."""
    held = {}
    for path in folder.glob("held-*.npz"):
        for name, value in np.load(path).items():
            assert name not in held, f"two servers have {name}"
            held[name] = -value
    assert sorted(held) in (["dense_0"], ["dense_0", "dense_1", "dense_2", "table"],
                            ["dense_0", "dense_1", "dense_2", "table", "wide"])
    return held


def check_books(folder, trainers: int, share: float = 1, under_way: int = 0) -> int:
    """Every parameter against the history. `under_way`: updates that a killed trainer may have left. Returns the updates."""
    want, held = acknowledged(folder, trainers), gather(folder)
    for name, value in held.items():
        value = value.reshape(trainers * PLACES, -1)
        assert value.shape[1] == {"table": WIDTH, "wide": WIDE}.get(name, 1)
        assert (value == value[:, :1]).all(), f"{name}: a row was counted in part\n{value}"
        more = value[:, 0] / share - (want.sum() if name == "wide" else want)
        assert (more >= 0).all(), f"{name}: acknowledged, but lost, by place: {more}"
        assert (more.max() if name == "wide" else more.sum()) <= under_way, f"{name}: counted twice, by place: {more}"
    return int(want.sum())


def with_strangers(cases: list[tuple]) -> list[tuple]:
    """Each with all who may stand at the doors, or with one of them in turn."""
    return [(*case, who) for i, case in enumerate(cases) for who in (ALL if SOAK else [ALL[i % 3]])]


@pytest.mark.parametrize("mode, loops, who", with_strangers([("async", "1"), ("async", "2"), ("sync", "1"), ("sync", "2")]))
def test_servers_killed(tmp_path, record_property, mode, loops, who):
    """Kill -9 of one or both servers at random moments, and the same command again."""
    steps = ROUNDS * (2500 if SOAK else 6000)  # enough for all kills on a fast machine
    options = ["--steps", str(steps), "--out", str(tmp_path), *(["--async"] if mode == "async" else [])]
    with (Job(2, 2, script="ledger.py", env=logged(tmp_path, FLAGS_ps_loops=loops, **doors(who))) as job,
          Crowd(who, job.endpoints, mode) as crowd):
        job.start_all(*options)
        rng = random.Random(f"{mode} {loops}")
        kills, taken_up = kill_servers(job, options, None, rng, [(0,), (1,), (0, 1)], ROUNDS)
        job.end(deadline=300)
    record_property("strangers", crowd.came)
    record_property("kills", kills)
    record_property("of servers that had gone on after one", taken_up)
    record_property("updates", check_books(tmp_path, 2, share=0.5 if mode == "sync" else 1))
    assert kills == ROUNDS


def wait_for_all(job: Job) -> None:
    """Each trainer is connected to each server."""
    for process in job.processes:
        for said in ["(host"] if process.name.startswith("server") else [f"connected to {endpoint}" for endpoint in job.endpoints]:
            process.wait_for(said)


@pytest.mark.parametrize("servers, loops, who", with_strangers([(1, "1"), (2, "1"), (2, "2")]))
@pytest.mark.parametrize("mode", ["async", "sync"])
def test_trainers_and_servers_killed(tmp_path, record_property, mode, servers, loops, who):
    """Trainers are killed and started again too; the others go on (async), or wait for them (sync)."""
    rng = random.Random(f"{servers} {loops}")
    trainers = 3 if mode == "async" else 2  # halves are exact
    options = ["--out", str(tmp_path), "--until", str(tmp_path / "enough"), *(["--async"] if mode == "async" else [])]
    env = logged(tmp_path, FLAGS_ps_loops=loops, FLAGS_ps_reconnect="300",
                 FLAGS_ps_on_trainer_loss="shrink" if mode == "async" else "wait")
    with Job(servers, trainers, script="ledger.py", env=env | doors(who)) as job, Crowd(who, job.endpoints, mode) as crowd:
        job.start_all(*options)
        killed = 0
        for _ in range(ROUNDS):
            wait_for_all(job)
            time.sleep(rng.uniform(0.05, 0.4))
            which = rng.randrange(len(job.processes))
            goes = job.processes[which]
            goes.kill()
            role, index = goes.name.split("-")
            killed += role == "trainer"
            again = job.start(role, int(index), *options)
            job.processes.remove(again)
            job.processes[which] = again
            goes.close()
        wait_for_all(job)
        (tmp_path / "enough").touch()
        job.end(deadline=60)
    record_property("strangers", crowd.came)
    record_property("trainers killed", killed)
    # In sync mode the last step may be one trainer's alone, and counts as a whole then.
    share, alone = (1, 0) if mode == "async" else (0.5, 1)
    record_property("updates", check_books(tmp_path, trainers, share=share, under_way=killed + alone))


@pytest.mark.parametrize("servers, loops", [(1, "1"), (2, "1"), (2, "2")])
def test_a_trainer_cut_off_for_long(tmp_path, record_property, servers, loops):
    """Sync: the others go on without it. What it had under way, and all it does when it is back, counts, once."""
    env = {"PADDLE_PS_TRANSPORT": "tcp", "FLAGS_ps_reconnect": "300", "FLAGS_ps_on_trainer_loss": "shrink", "FLAGS_ps_loops": loops}
    with Job(servers, 2, script="ledger.py", env=env) as job, FaultProxy(job.endpoints, seed=1, budget=0) as proxy:
        options = ["--out", str(tmp_path), "--until"]
        all_servers = [job.start("server", i, *options, "") for i in range(servers)]
        stays = job.start("trainer", 0, *options, str(tmp_path / "enough-0"))
        goes = job.start("trainer", 1, *options, str(tmp_path / "enough-1"), env={"PADDLE_PS_MAP": proxy.map})

        def wait_until_each_said(pattern: str, times: int) -> None:
            end = time.monotonic() + 30
            while any(len(re.findall(pattern, server.output())) < times for server in all_servers):
                assert all(p.process.poll() is None for p in job.processes), "\n".join(p.output() for p in job.processes)
                assert time.monotonic() < end, "\n".join(p.output() for p in job.processes)
                time.sleep(0.01)

        for round in range(1, ROUNDS + 1):
            wait_until_each_said(r"trainer 1 \(.*joined", round * int(loops))
            time.sleep(0.1)
            proxy.close()
            wait_until_each_said(r"trainer 1 \(.*" + ("the others go on" if servers == 1 else "has been lost"), round)
            proxy.close(False)
        wait_until_each_said(r"trainer 1 \(.*joined", (ROUNDS + 1) * int(loops))
        (tmp_path / "enough-1").touch()
        assert goes.end(30) == 0, goes.output()
        (tmp_path / "enough-0").touch()
        job.end(30)
        assert stays.process.returncode == 0
        record_property("steps counted later", len(re.findall(r"its step \d+ counts as step", goes.output())))
    want, held = acknowledged(tmp_path, 2), gather(tmp_path)
    for name, value in held.items():
        got = value.reshape(2 * PLACES, -1)[:, 0]
        np.testing.assert_array_equal(got[PLACES:], want[PLACES:] / 2, err_msg=f"{name} of the one that was cut off")
        assert (want[:PLACES] / 2 <= got[:PLACES]).all() and (got[:PLACES] <= want[:PLACES]).all(), name


@pytest.mark.parametrize("log, loops, checks",
                         [("", "1", "0"), ("", "2", "0"), ("write", "1", "0"), ("write", "2", "0"), ("write", "2", "1")])
def test_async_snapshots_within_pushes(tmp_path, record_property, log, loops, checks):
    """A push has many parts, so that many snapshots are cut within one. The server is asked to end and comes again; with a log it
    is killed too. Without one, too, nothing is lost: it answers nobody after its last snapshot, for which it brings trainers to a
    halt, so that it has no part of a push. Where gradients are checked a push is applied when it has ended, and no snapshot has a
    part of one."""
    rng = random.Random(loops)
    options = ["--async", "--wide", "--out", str(tmp_path), "--until", str(tmp_path / "enough")]
    env = logged(tmp_path, FLAGS_ps_log=log, FLAGS_ps_loops=loops, FLAGS_ps_snapshot_seconds="1" if log else "0",
                 PADDLE_PS_TRANSPORT="tcp")
    env["FLAGS_check_nan_inf"] = checks
    within = round = 0
    is_within = log and checks == "0"

    def steps() -> list[int]:
        return [len(path.read_text()) for path in tmp_path.glob("acknowledged-*")]

    with Job(1, 2, script="ledger.py", env=env) as job:
        job.start_all(*options)
        while round < ROUNDS or (is_within and within < ROUNDS / 2 and round < 10 * ROUNDS):
            round += 1
            goes = job.processes[0]
            goes.wait_for("trainer 0 (host")
            goes.wait_for("trainer 1 (host")
            before, end = steps(), time.monotonic() + 30
            while len(steps()) < 2 or any(now < then + 10 for now, then in zip(steps(), before)):  # each has gone on
                assert time.monotonic() < end, goes.output()
                time.sleep(0.01)
            time.sleep(rng.uniform(0.0, 0.1))
            if log and round % 2 == 0:
                goes.wait_for("snapshot of step")  # by the clock
                goes.kill()
            else:
                goes.signal(signal.SIGTERM)
                assert goes.end(20) == 0, goes.output()
            newest = max((tmp_path / "ps").glob("*/snapshot-*/manifest"))
            within += "note open" in newest.read_text()
            job.processes[0] = job.start("server", 0, *options)
            job.processes.pop()
            goes.close()
        job.processes[0].wait_for("trainer 1 (host")
        (tmp_path / "enough").touch()
        job.end(deadline=60)
    record_property("snapshots within a push", within)
    record_property("updates", check_books(tmp_path, 2))
    assert within if is_within else not within


def test_async_through_broken_connections(tmp_path, record_property):
    env = {"PADDLE_PS_TRANSPORT": "tcp", "FLAGS_ps_reconnect": "20000"}
    for round in range(10 if SOAK else 1):
        out = tmp_path / str(round)
        out.mkdir()
        options = ["--async", "--steps", "1500", "--out", str(out)]
        with (Job(2, 2, script="ledger.py", env=env) as job,
              FaultProxy(job.endpoints, seed=round, faults=Faults(mean_bytes=15000), budget=25) as proxy):
            for i in range(2):
                job.start("server", i, *options)
            for i in range(2):
                job.start("trainer", i, *options, env={"PADDLE_PS_MAP": proxy.map})
            job.end(60)
            assert sum(proxy.done.values()) > 3, proxy.done
        assert check_books(out, 2) == 2 * 1500
        record_property(f"faults in round {round}", sum(proxy.done.values()))


def check_each_step_counts_once(folder, steps: int, trainers: int, divisor: int) -> None:
    want = np.tile(np.bincount(np.arange(steps) % PLACES, minlength=PLACES), trainers)[:, None] / divisor
    for name, value in gather(folder).items():
        np.testing.assert_array_equal(value.reshape(trainers * PLACES, -1),
                                      np.tile(want, (1, WIDTH if name == "table" else 1)), name)


@pytest.mark.parametrize("older", [0, 1])
@pytest.mark.parametrize("trainers", [1, 2])
@pytest.mark.parametrize("loops", ["1", "2"])
@pytest.mark.parametrize("asks", [True, False], ids=["asks", "does not ask"])
def test_async_servers_from_snapshots_of_different_steps(tmp_path, asks, loops, trainers, older):
    """As after a kill of all, without a log: each server has the steps of its own newest snapshot. steps_done() is what all have,
    and the steps behind that count once, everywhere. A script that does not ask gives other batches, and each of them counts
    everywhere."""
    go, root = tmp_path / "go", tmp_path / "ps"
    with Job(2, trainers, "ledger.py", env={"FLAGS_ps_dir": str(root), "FLAGS_ps_loops": loops}) as job:
        folder = root / job.endpoints[older].replace(":", "_")

        def run(pause_at: int) -> None:
            resume = [] if pause_at < 0 and not asks else ["--resume"]
            job.start_all("--async", *resume, "--out", str(tmp_path), "--steps", "40",
                          "--pause-at", str(pause_at), "--until", str(go))
            for trainer in job.processes[2:] if pause_at > 0 else []:
                trainer.wait_for("pauses")

        for pause_at in (7, 19):
            if folder.exists():
                shutil.copytree(folder, tmp_path / "older")
            run(pause_at)
            for server in job.processes[:2]:
                server.signal(signal.SIGTERM)
            assert all(server.end(20) == 0 for server in job.processes[:2]), job.processes[0].output()
            for p in job.processes:
                p.close()
            job.processes.clear()
        shutil.rmtree(folder)
        (tmp_path / "older").rename(folder)
        run(-1)
        job.end(60)
        said = "repeats steps 8 to 19" if asks else "begins behind step 19: steps from 8 on"
        assert all(said in p.output() for p in job.processes[2:]), job.processes[2].output()
    firsts = [path.read_text().split("\n")[0] for path in tmp_path.glob("acknowledged-*")]
    assert sorted(firsts, key=int) == sorted(["0", "7", "7" if asks else "0"] * trainers, key=int)
    if asks:
        check_each_step_counts_once(tmp_path, 40, trainers, 1)
        return
    for i, endpoint in enumerate(job.endpoints):
        steps = [*range(7 if i == older else 19), *range(40)]
        want = np.tile(np.bincount(np.array(steps) % PLACES, minlength=PLACES), trainers)
        for name, value in np.load(tmp_path / f"held-{endpoint}.npz").items():
            got = -value.reshape(trainers * PLACES, -1)
            np.testing.assert_array_equal(got, np.broadcast_to(want[:, None], got.shape), f"{name} of server {i}")


@pytest.mark.parametrize("trainers", [1, 2])
@pytest.mark.parametrize("mode, hollow", [([], []), (["--async"], []), ([], ["--single"])],
                         ids=["sync", "async", "sync, the one holds nothing"])
def test_the_whole_job_is_killed_when_one_server_has_a_step(tmp_path, mode, hollow, trainers):
    """The other server lacks it. Trainers that are started again do it again for that one: it counts once, everywhere."""
    ahead, behind = (1, 0) if hollow else (0, 1)

    def log_bytes() -> int:
        folder = tmp_path / "ps" / job.endpoints[ahead].replace(":", "_")
        return sum(path.stat().st_size for path in folder.glob("log-*"))

    go, steps = tmp_path / "go", 20
    with Job(2, trainers, "ledger.py", env={"FLAGS_ps_dir": str(tmp_path / "ps"), "FLAGS_ps_log": "write"}) as job:
        options = ["--steps", str(steps), "--out", str(tmp_path), *mode, *hollow]
        job.start_all(*options, "--pause-at", "9", "--until", str(go))
        for trainer in job.processes[2:]:
            trainer.wait_for("pauses")
        before = log_bytes()
        job.processes[behind].signal(signal.SIGSTOP)
        go.touch()
        end = time.monotonic() + 30
        while log_bytes() < before + (1 if hollow else 64 * trainers) and time.monotonic() < end:
            time.sleep(0.05)
        seen = 0
        while seen != log_bytes():  # until nothing more is written
            seen = log_bytes()
            time.sleep(0.3)
        for p in job.processes:
            p.kill()
        job.processes.clear()
        job.start_all(*options, "--resume")
        job.end(60)
        assert all("repeats step 10" in p.output() for p in job.processes[2:]), job.processes[2].output()
    check_each_step_counts_once(tmp_path, steps, trainers, 1 if mode else trainers)
