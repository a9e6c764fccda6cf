"""`paddle psbench` and `paddle ps status`, the tools for parameter servers."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from cluster import Job, free_ports

PADDLE = Path(sys.executable).parent / "paddle"
TINY = ["--seconds", "0.03", "--table", "1000", "--sparse", "50"]


def run(*words: str, env: dict[str, str] | None = None, timeout: float = 60) -> subprocess.CompletedProcess:
    command = [str(PADDLE), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, env={**os.environ, **(env or {})})


def status(endpoint: str, **options) -> dict:
    done = run("ps", "status", endpoint, "--json", **options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def wait_for(endpoint: str, condition, deadline: float = 20) -> dict:
    """The first status that meets the condition."""
    end = time.monotonic() + deadline
    while True:
        found = status(endpoint)
        if condition(found):
            return found
        assert time.monotonic() < end, found
        time.sleep(0.05)


# ---- psbench ----


def test_bench_measures_all_that_was_asked_for():
    done = run("psbench", *TINY, "--dense", "4K,100K", "--json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert {(r["op"], r["transport"], r["rows"], r["bytes"]) for r in rows} == {
        (op, transport, count, size * (2 if op == "both" else 1))
        for op in ("push", "pull", "both")
        for transport in ("tcp", "shm")
        for count, size in ((0, 4096), (0, 102400), (50, 50 * (8 + 8 * 4)))
    }
    for r in rows:
        assert r["operations"] >= 3 and r["ops_per_s"] > 0 and r["server_cpu_s"] > 0
        assert 0 < r["p50_us"] <= r["p90_us"] * 1.001 <= r["p99_us"] * 1.002 and r["p50_us"] <= r["max_us"] * 1.02
        assert r["bytes_per_s"] == pytest.approx(r["ops_per_s"] * r["bytes"], rel=1e-3)
        assert min(r["stream_bytes_per_s"], r["copy_bytes_per_s"], r["pings_per_s"]) > 0
        assert (r["rows_per_cpu_s"] > 0) == (r["rows"] > 0)


def test_bench_prints_a_table():
    done = run("psbench", *TINY, "--dense", "4K", "--transport", "tcp", "--op", "push")
    assert (done.returncode, done.stderr) == (0, "")
    how, _, head, limits, dense, _, sparse = done.stdout.splitlines()
    assert how == f"1 trainer, sgd, {TINY[TINY.index('--seconds') + 1]} s each"
    assert head.split()[:4] == ["op", "what", "via", "ops/s"]
    assert re.match(r"4 K: the limits are [\d.]+ GB/s by stream, [\d.]+ pings/s, [\d.]+ GB/s by memcpy$", limits)
    assert re.match(r"push +4 K +tcp +\d", dense)
    assert re.match(r"push +50 rows +tcp +\d", sparse)
    assert len(sparse.split()) == len(dense.split()) + 1


def test_bench_fits_a_terminal():
    done = run("psbench", *TINY, "--dense", "4K,30M", "--connections", "2")
    lines = [*done.stdout.splitlines(), *run("psbench", "--help").stdout.splitlines()]
    assert len(lines) > 40
    assert not [line for line in lines if len(line) > 100]


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam", "adamax", "adagrad", "adadelta", "rmsprop", "ftrl"])
def test_bench_with_several_trainers_loops_and_an_optimizer(optimizer):
    words = [*TINY, "--dense", "64K", "--transport", "auto", "--op", "push", "--connections", "3", "--loops", "2"]
    done = run("psbench", *words, "--optimizer", optimizer, "--json")
    assert done.returncode == 0, done.stderr
    assert [(r["connections"], r["operations"] >= 9) for r in json.loads(done.stdout)] == [(3, True)] * 2


@pytest.mark.parametrize("words, named", [
    (["--op", "pushpull"], ["--op", "push, pull or both", "pushpull"]),
    (["--dense", "4K,x"], ["--dense", "4K,x"]),
    (["--dense", "7"], ["--dense", "multiples of 4"]),
    (["--sparse", "-3"], ["--sparse", "-3"]),
    (["--connections", "0"], ["--connections", "at least 1"]),
    (["--transport", "pigeon"], ["--transport", "tcp, shm or auto", "pigeon"]),
    (["--seconds", "0"], ["--seconds", "above 0"]),
    (["--frobnicate"], ["--frobnicate"]),
    (["127.0.0.1:6174"], ["127.0.0.1:6174", "a server of its own", "paddle ps status"]),
    (["--dense"], ["--dense", "needs a value"]),
])
def test_bench_names_a_bad_option(words, named):
    done = run("psbench", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert all(text in done.stderr for text in named), done.stderr


@pytest.mark.parametrize("words, said", [
    (["--optimizer", "mul"], "there is no optimizer 'mul'"),
    (["--connections", "5000"], "5000 connections: give 1 to"),
    (["--dense", "none", "--sparse", "0"], "nothing to measure"),
])
def test_bench_that_cannot_be(words, said):
    done = run("psbench", *TINY, "--dense", "4K", *words)
    assert done.returncode == 1
    assert said in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_bench_that_is_stopped_leaves_nothing_behind(number):
    command = [str(PADDLE), "psbench", "--seconds", "600", "--dense", "4K"]
    bench = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    children = Path(f"/proc/{bench.pid}/task/{bench.pid}/children")
    end = time.monotonic() + 60
    while len(kids := children.read_text().split()) < 2:
        assert time.monotonic() < end
        time.sleep(0.02)
    bench.send_signal(number)
    assert bench.wait(60) == -number
    end = time.monotonic() + 60
    while any(Path(f"/proc/{kid}").exists() for kid in kids):
        assert time.monotonic() < end, "a process of the measurement is left"
        time.sleep(0.02)


@pytest.mark.parametrize("words", [["psbench", "--help"], ["ps", "--help"], ["ps", "status", "--help"]])
def test_help(words):
    done = run(*words)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"usage: paddle {words[0]}")


# ---- ps status ----


def test_status_of_a_job():
    with Job(1, 2) as job:
        endpoint = job.endpoints[0]
        server = job.start("server", 0, "--model", "mlp")
        server.wait_for("Server listening")
        before = status(endpoint)
        assert (before["mode"], before["state"], before["step"], before["pid"]) == ("sync", "running", 0, server.pid)
        assert before["parameters"] == {"count": 6, "bytes": 4 * (784 * 64 + 64 + 64 * 64 + 64 + 64 * 10 + 10)}
        assert [t["state"] for t in before["trainers"]] == ["absent", "absent"]

        trainers = [job.start("trainer", i, "--model", "mlp", "--steps", "1000000") for i in range(2)]
        running = wait_for(endpoint, lambda s: s["step"] > 3)
        assert [(t["id"], t["pid"]) for t in running["trainers"]] == [(i, t.pid) for i, t in enumerate(trainers)]
        for t in running["trainers"]:
            assert t["state"] in ("in", "waiting") and t["transport"] in ("tcp", "shm")
            assert t["bytes_in"] > 3 * 220000 and t["bytes_out"] > 3 * 220000
        assert running["memory_bytes"] > 1e6 and running["uptime_s"] > before["uptime_s"]
        assert running["incarnation"] == before["incarnation"]
        whole = before["parameters"]["bytes"]
        assert before["loops"][0]["gradient_bytes"] == 0 and whole / 2 < running["loops"][0]["gradient_bytes"] < 2.1 * whole
        assert wait_for(endpoint, lambda s: s["step"] > running["step"])["counters"]["steps_applied"] > 0

        trainers[1].signal(signal.SIGSTOP)
        late = wait_for(endpoint, lambda s: s["trainers"][1]["state"] == "late")
        assert late["waits_for"] == [1] and late["trainers"][1]["late_s"] >= 1
        assert late["trainers"][0]["state"] == "waiting"
        text = run("ps", "status", endpoint).stdout
        assert re.search(r"the next one waits for trainer 1 \(\d", text), text
        assert re.search(r"^1 +late \d", text, re.M), text
        trainers[1].signal(signal.SIGCONT)
        wait_for(endpoint, lambda s: s["step"] > late["step"] and s["trainers"][1]["state"] != "late")

        trainers[1].kill()
        lost = wait_for(endpoint, lambda s: s["trainers"][1]["state"] == "lost")
        assert lost["trainers"][1]["away_s"] > 0


def test_status_with_several_loops_and_a_secret():
    secret = {"PADDLE_PS_SECRET": "open sesame"}
    with Job(1, 1, env={"FLAGS_ps_loops": "3", **secret}) as job:
        job.start("server", 0, "--model", "mlp").wait_for("Server listening")
        endpoint = job.endpoints[0]
        found = status(endpoint, env=secret)
        assert [loop["loop"] for loop in found["loops"]] == [0, 1, 2]
        assert sum(loop["bytes"] for loop in found["loops"]) == found["parameters"]["bytes"]
        for wrong in ({"PADDLE_PS_SECRET": "wrong"}, {}):
            done = run("ps", "status", endpoint, env=wrong)
            assert (done.returncode, done.stdout) == (1, "")
            assert endpoint in done.stderr and "secret" in done.stderr and "open sesame" not in done.stderr
        assert status(endpoint, env=secret)["counters"]["connections_refused"] >= 2


def test_watch_goes_on_until_the_server_is_gone():
    with Job(1, 1) as job:
        server = job.start("server", 0)
        server.wait_for("Server listening")
        threading.Timer(1, server.kill).start()
        done = run("ps", "status", job.endpoints[0], "--json", "--watch", "0.2")
    assert done.returncode == 1 and "paddle: ps status: " in done.stderr
    assert len({json.loads(line)["uptime_s"] for line in done.stdout.splitlines()}) >= 2


def test_nobody_is_there():
    endpoint = f"127.0.0.1:{free_ports(1)[0]}"
    done = run("ps", "status", endpoint)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"paddle: ps status: connection to {endpoint} refused: is the server running?\n"


def test_a_server_that_holds_nothing():
    """Two parameters on three servers."""
    options = ["--no-slices", "--steps", "1000000"]
    with Job(3, 2) as job:
        job.start_all(*options)
        for server in job.processes[:3]:
            server.wait_for("Server listening")
        found = [wait_for(endpoint, lambda s: s["step"] > 3) for endpoint in job.endpoints]
        assert sorted(s["parameters"]["count"] for s in found) == [0, 1, 1]
        (empty,) = (s for s in found if not s["parameters"]["count"])
        assert empty["parameters"]["bytes"] == 0 and empty["state"] == "running"
        assert [t["pid"] for t in empty["trainers"]] == [p.pid for p in job.processes[3:]]
        text = run("ps", "status", empty["endpoint"]).stdout
        assert "2 trainers, no parameters: a job of this size needs fewer servers\n" in text, text


def test_a_web_server_is_there():
    """It waits for the end of a line, which never comes: the question ends all the same."""
    command = [sys.executable, "-u", "-m", "http.server", "--bind", "127.0.0.1", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as web:
        try:
            port = re.search(r"port (\d+)", web.stdout.readline())[1]
            done = run("ps", "status", f"127.0.0.1:{port}", timeout=15)
        finally:
            web.kill()
    assert (done.returncode, done.stdout) == (1, "")
    # It answers, or closes.
    assert f"127.0.0.1:{port}" in done.stderr
    assert "is it a parameter server" in done.stderr or "does another program use this port?" in done.stderr


def test_another_server_is_there():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()

        def answer():
            conn, _ = listener.accept()
            conn.recv(100)
            conn.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n" + b" " * 100)
            conn.recv(100000)
            conn.close()

        threading.Thread(target=answer, daemon=True).start()
        done = run("ps", "status", f"127.0.0.1:{listener.getsockname()[1]}")
    assert (done.returncode, done.stdout) == (1, "")
    assert "the handshake failed" in done.stderr


@pytest.mark.parametrize("words, said", [
    (["ps"], "say what: status"),
    (["ps", "restart"], "cannot 'restart'"),
    (["ps", "status"], "ENDPOINT is missing"),
    (["ps", "status", "a:1", "b:2"], "'b:2'"),
    (["ps", "status", "a:1", "--watch"], "--watch needs"),
    (["ps", "status", "a:1", "--watch", "x"], "found 'x'"),
    (["ps", "status", "a:1", "--yaml"], "'--yaml'"),
])
def test_status_misused(words, said):
    done = run(*words)
    assert (done.returncode, done.stdout) == (2, "")
    next_step = "'paddle ps --help'" if words[-1].startswith("--") or "--watch" in words else "usage: paddle ps status"
    assert said in done.stderr and next_step in done.stderr


@pytest.mark.parametrize("endpoint, said", [
    ("nonsense:port", "'nonsense:port' is not an endpoint: the port is a number up to 65535"),
    ("127.0.0.1", "'127.0.0.1' is not an endpoint: the port is missing. Write host:port, as in"),
    ("127.0.0.1:99999", "'127.0.0.1:99999' is not an endpoint: the port is a number up to 65535"),
    ("127.0.0.1:0", "port 0 stands for one that the system chooses. Give the port that the server printed"),
    ("a:1,b:2", "'a:1,b:2' is not an endpoint: it names several; give one"),
    ("http://a:1", "'http://a:1' is not an endpoint: it is a URL. Write host:port"),
    ("no-such-host.invalid:6174", "the name 'no-such-host.invalid' "),
])
def test_an_endpoint_that_is_none(endpoint, said):
    done = run("ps", "status", endpoint)
    assert (done.returncode, done.stdout) == (1, "")
    assert said in done.stderr and done.stderr.startswith("paddle: ps status: ")
