"""A job that is watched at the launcher's page (--http): what it shows, and that nothing which happens there harms the job."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
from pathlib import Path

import pytest
from cluster import until
from launcher import STUB, Launcher, is_alive, run
from test_ps_watch import ask, send, status

from paddle.distributed import watched

JOB = STUB.with_name("watched_job.py")
TWO = ("--server_num=1", "--worker_num=2", "--follow=none")


def start(folder: Path, *options: str) -> tuple[Launcher, tuple[str, int]]:
    job = Launcher(folder, "--http=0", *TWO, *options, script=JOB, words=[str(folder)],
                   env={"FLAGS_ps_reconnect": "500"})
    job.wait_until_said("watch the job at")
    host, port = re.search(r"watch the job at http://([\d.]+):(\d+)/", job.said()).groups()
    return job, (host, int(port))


def watchers(job: Launcher) -> list[int]:
    """Children of the engine that are no processes of the job."""
    (engine,) = job.engines()
    children = Path(f"/proc/{engine}/task/{engine}/children").read_text().split()
    return sorted({int(pid) for pid in children} - set(job.pids()))


def has_curves(at: tuple[str, int]) -> bool:
    return all(len(worker["curve"]) > 2 for worker in status(at)["workers"])


def test_the_whole_job(tmp_path):
    job, at = start(tmp_path)
    with job:
        assert at[0] == "127.0.0.1" and ask(at, "/healthz")[:2] == (200, "ok\n")
        until(lambda: has_curves(at), 60, job.said)
        assert ask(at, "/readyz")[:2] == (200, "ready\n")
        found = status(at)
        assert (found["name"], found["state"]) == ("watched_job.py", "running")
        (server,) = found["servers"]
        assert server["state"] == "running" and server["step"] > 3 and server["pid"] in job.pids()
        assert {table["name"]: table["bytes"] for table in server["tables"]}["<b>w</b>"] == 13 * 4
        for worker in found["workers"]:
            assert worker["state"] == "running" and worker["pid"] in job.pids() and worker["starts"] == 1
            assert worker["samples"] > 8 and worker["samples_per_second"] > 0 and 0 < worker["loss"] < 20
            assert 0.5 <= worker["auc"] < 1
            seconds = [point["seconds"] for point in worker["curve"]]
            assert seconds == sorted(seconds) and worker["curve"][-1]["loss"] < worker["curve"][0]["loss"]
            assert worker["curve"][-1]["auc"] > worker["curve"][0]["auc"]
        newest = max(worker["curve"][-1]["seconds"] for worker in found["workers"])
        code, text, _ = ask(at, f"/status.json?since={newest}")
        assert code == 200 and all(p["seconds"] > newest for worker in json.loads(text)["workers"] for p in worker["curve"])
        assert ask(at, "/status.json?since=rubbish")[0] == 200
        code, text, headers = ask(at, "/metrics")
        assert code == 200 and headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert 'job_processes{role="worker",state="running"} 2\n' in text
        assert re.search(r'^train_examples_total\{worker="1"\} \d+$', text, re.MULTILINE)
        assert re.search(r'^train_value\{worker="0",name="loss"\} [\d.e-]+$', text, re.MULTILINE)
        code, page, headers = ask(at, "/")
        assert code == 200 and page == Path(watched.__file__).with_name("page.html").read_text()
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        job.go()
        assert job.end(60) == 0, job.said()
        assert not list(tmp_path.glob("*.reports")) and not list(tmp_path.glob("paddle-job-*"))
        with pytest.raises(ConnectionError):
            ask(at, "/healthz")
        assert "left behind" not in job.said()


def test_who_waits_for_whom_and_who_failed(tmp_path):
    job, at = start(tmp_path, "--keep_going")
    with job:
        until(lambda: has_curves(at), 60, job.said)
        (tmp_path / "hold").touch()
        until(lambda: status(at)["servers"][0]["waited_s"] >= 1, 30, job.said)
        assert status(at)["servers"][0]["waits_for"] == [0]
        (tmp_path / "hold").unlink()
        killed = int((tmp_path / "worker-1.starts").read_text())
        os.kill(killed, signal.SIGKILL)
        until(lambda: status(at)["workers"][1]["state"] == "failed", 30, job.said)
        found = status(at)
        assert found["workers"][1]["how"] == "was killed by SIGKILL" and found["state"] == "failed"
        code, why, _ = ask(at, "/readyz")
        assert (code, why) == (503, "the job is failed\n") or code == 503 and "failed" in why
        assert 'job_processes{role="worker",state="failed"} 1\n' in ask(at, "/metrics")[1]
        job.go()
        assert job.end(60) == 128 + 9, job.said()


def test_nobody_who_comes_harms_the_job(tmp_path):
    """A crowd, garbage, and the end of the process that answers them."""
    job, at = start(tmp_path)
    with job:
        until(lambda: has_curves(at), 60, job.said)
        assert ask(at, "/status.json", "POST")[0] == 501 and ask(at, "/nothing")[0] == 404
        assert ask(at, "/status.json", Host="evil.example")[0] == 421
        assert ask(at, "/healthz", Host="localhost:80")[0] == ask(at, "/healthz", Host="[::1]:80")[0] == 200
        assert ask(at, "/healthz", Host="name.example:80")[0] == ask(at, "/healthz", Host="[name]")[0] == 421
        assert b" 421 " in send(at, b"GET /status.json HTTP/1.0\r\n\r\n").partition(b"\r\n")[0]
        for raw in (b"\0" * 5000, b"GET / HTTP/9.9\r\n\r\n", b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\n\r\n",
                    b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 20000 + b"\r\n"):
            assert not send(at, raw).startswith(b"HTTP/1.0 200"), raw[:30]
        (watcher,) = watchers(job)
        with contextlib.ExitStack() as crowd:
            for _ in range(500):
                visit = crowd.enter_context(socket.socket())
                visit.setblocking(False)
                visit.connect_ex(at)
            until(lambda: len(os.listdir(f"/proc/{watcher}/fd")) > 60, 20)
            assert len(os.listdir(f"/proc/{watcher}/fd")) < 120
            assert len(os.listdir(f"/proc/{watcher}/task")) < 120
        assert ask(at, "/healthz", deadline=40)[0] == 200
        os.kill(watcher, signal.SIGKILL)
        job.wait_until_said("the process that shows the job by HTTP has ended; the job goes on")
        assert all(is_alive(pid) for pid in job.pids())
        job.go()
        assert job.end(60) == 0, job.said()


def test_it_ends_with_the_launcher(tmp_path):
    """Whichever of the launcher's processes is killed."""
    job, at = start(tmp_path)
    with job:
        until(lambda: len(job.pids()) == 3, 60, job.said)
        (watcher,), (engine,) = watchers(job), job.engines()
        os.kill(engine, signal.SIGKILL)
        until(lambda: not is_alive(watcher), 20)
        job.wait_until_gone()
        job.process.wait(20)
        assert not list(tmp_path.glob("*.reports"))


@pytest.mark.parametrize("where, said", [
    ("nonsense", "--http takes PORT (on this machine only), HOST:PORT or :PORT, found 'nonsense'."),
    ("70000", "--http takes PORT"),
    ("192.0.2.1:0", "--http=192.0.2.1:0: Cannot assign requested address."),
])
def test_a_bad_address_starts_nothing(tmp_path, where, said):
    done = run(tmp_path, f"--http={where}", *TWO)
    assert done.status == 2 and said in done.said() and not done.pids()


def test_a_taken_port_starts_nothing(tmp_path):
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        port = held.getsockname()[1]
        done = run(tmp_path, f"--http={port}", *TWO)
    assert done.status == 2 and not done.pids()
    assert re.search(rf"--http={port}: port {port} is taken by .*\(process {os.getpid()}\)", done.said()), done.said()


def test_it_is_off(tmp_path):
    (tmp_path / "go").touch()
    done = run(tmp_path, *TWO)
    assert done.status == 0 and "watch the job" not in done.said()
    assert "PADDLE_PROGRESS_FILE" not in done.facts("worker-0")["env"]


def test_a_public_one_warns(tmp_path):
    (tmp_path / "go").touch()
    done = run(tmp_path, "--http=:0", *TWO)
    assert done.status == 0 and re.search(r"whoever reaches http://0\.0\.0\.0:\d+/ can read how the job gets on", done.said())


def test_a_long_curve_stays_short(tmp_path):
    """And what is no record is passed over; a line that is not whole yet waits for its end."""
    file = tmp_path / "worker.0"
    worker = watched.Worker(str(file), began=1000.0)
    worker.read()
    assert worker.shown(-1) == {"curve": []}
    record = '{{"time": {}, "samples": {}, "samples_per_second": 5.0, "values": {{"train loss": 0.5, "bad": null}}}}\n'
    file.write_text("rubbish\n[]\n{}\n" + "".join(record.format(1000 + i, i) for i in range(5000)) + '{"time": 9')
    worker.read()
    curve = worker.shown(-1)["curve"]
    assert len(curve) <= watched.POINTS and curve[-1] == {"seconds": 4999.0, "samples/s": 5.0, "train loss": 0.5}
    assert curve[0]["seconds"] == 0 and worker.shown(4998)["curve"] == curve[-1:]
    assert worker.shown(-1)["loss"] == 0.5 and worker.shown(-1)["samples"] == 4999
    with open(file, "a") as more:
        more.write('999, "samples": 7}\n')
    worker.read()
    assert worker.shown(-1)["samples"] == 7 and worker.shown(-1)["curve"][-1]["seconds"] == 8999


def test_every_number_has_a_line_in_the_docs():
    told = (Path(__file__).resolve().parents[2] / "docs" / "WATCHING.md").read_text()
    names = re.findall(r"^\| `((?:job|train)_[a-z_]+)", told, re.MULTILINE)
    assert names == [name for name, _, _ in watched.FAMILIES]


def test_the_board_asks_for_numbers_that_are_there():
    docs = Path(__file__).resolve().parents[2] / "docs"
    told = set(re.findall(r"^\| `((?:job|train|ps|process)_[a-z_]+)", (docs / "WATCHING.md").read_text(), re.MULTILINE))
    board = json.loads((docs / "grafana.json").read_text())
    asked = {re.sub(r"_(bucket|sum|count)$", "", name) for panel in board["panels"] for target in panel["targets"]
             for name in re.findall(r"\b(?:job|train|ps|process)_[a-z_]+", target["expr"])}
    assert len(asked) > 15 and asked <= told, asked - told
