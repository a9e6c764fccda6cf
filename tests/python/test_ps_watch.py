"""Servers watched by HTTP (FLAGS_ps_http): probes, numbers and the page, and visitors who mean no good."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import time
from pathlib import Path

import pytest
from cluster import Job, Process, free_ports, until

FOREVER = ("--model", "mlp", "--steps", "1000000")


def address(server: Process) -> tuple[str, int]:
    server.wait_for("can be watched at")
    host, port = re.search(r"can be watched at http://([\d.]+):(\d+)/", server.output()).groups()
    return host, int(port)


def ask(at: tuple[str, int], path: str, method: str = "GET", deadline: float = 20, **headers: str) -> tuple[int, str, dict]:
    visit = http.client.HTTPConnection(*at, timeout=deadline)
    try:
        visit.request(method, path, headers=headers)
        answer = visit.getresponse()
        return answer.status, answer.read().decode(), dict(answer.getheaders())
    finally:
        visit.close()


def numbers(at: tuple[str, int]) -> dict[str, float]:
    """/metrics, read strictly: every sample belongs to the family named before it, and nothing stands there twice."""
    code, text, headers = ask(at, "/metrics")
    assert code == 200 and headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    found: dict[str, float] = {}
    family, kind = "", ""
    for line in text.splitlines():
        if line.startswith("# HELP "):
            family = line.split()[2]
        elif line.startswith("# TYPE "):
            assert line.split()[2] == family and f"{family} " not in {f"{name} " for name in found}
            kind = line.split()[3]
        else:
            name, labels, value = re.fullmatch(r'(\w+)(\{(?:\w+="[^"\n]*",?)+\})? (\S+)', line).groups()
            tails = {"histogram": ("_bucket", "_sum", "_count"), "summary": ("_sum", "_count")}.get(kind, ("",))
            assert name in {family + tail for tail in tails}, line
            assert name + (labels or "") not in found, line
            found[name + (labels or "")] = float(value)
    return found


def status(at: tuple[str, int]) -> dict:
    code, text, headers = ask(at, "/status.json")
    assert code == 200 and headers["Content-Type"] == "application/json"
    return json.loads(text)


def test_a_job_from_its_start_to_its_end(tmp_path):
    with Job(1, 2, env={"FLAGS_ps_http": "0"}) as job:
        server = job.start("server", 0, "--model", "mlp")
        at = address(server)
        server.wait_for("Server listening")
        assert at[0] == "127.0.0.1" and at[1] > 0
        assert ask(at, "/healthz")[:2] == (200, "ok\n")
        until(lambda: ask(at, "/readyz")[0] == 200)
        before = numbers(at)
        assert before["ps_ready"] == 1 and before["ps_step"] == 0 and before['ps_trainers{state="absent"}'] == 2
        linger = tmp_path / "linger"
        trainers = [job.start("trainer", i, "--model", "mlp", "--steps", "6", "--linger", str(linger)) for i in range(2)]
        until(lambda: numbers(at)["ps_step"] == 6, 60)
        shown = status(at)
        assert shown["step"] == 6 and [t["pid"] for t in shown["trainers"]] == [t.pid for t in trainers]
        end = numbers(at)
        assert end["ps_steps_applied_total"] == 6 and end['ps_trainers{state="in"}'] == 2
        assert end["ps_barrier_wait_seconds_count"] == end['ps_barrier_wait_seconds_bucket{le="+Inf"}'] == 2 * 6
        assert end['ps_rpc_duration_seconds_count{op="push"}'] >= 2 * 6
        assert 0 < end['ps_rpc_duration_seconds_sum{op="push"}'] < 60
        assert end['ps_table_bytes{table="fc_0.w_0",kind="dense"}'] == 4 * 784 * 64
        assert end["ps_duplicates_dropped_total"] == 0 and end["process_resident_memory_bytes"] > 1e6
        assert end['ps_trainer_received_bytes_total{trainer="1"}'] > 6 * 4 * 784 * 64
        for absent in ("ps_staleness_steps_count", "ps_checkpoint_duration_seconds_count", "ps_wal_fsync_seconds_count"):
            assert absent not in end  # not measured here
        linger.touch()
        job.end()
        with pytest.raises(ConnectionError):
            ask(at, "/healthz")


def test_the_page_asks_nobody_else():
    with Job(1, 1, env={"FLAGS_ps_http": "0"}) as job:
        at = address(job.start("server", 0))
        code, text, headers = ask(at, "/")
        assert code == 200 and headers["Content-Type"] == "text/html; charset=utf-8"
        assert text.startswith("<!doctype html>") and "status.json" in text
        assert not re.search(r"(src|href)\s*=|https?://|@import", text)
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        code, text, again = ask(at, "/", "HEAD")
        assert (code, text, again["Content-Length"]) == (200, "", headers["Content-Length"])


def test_counts_of_an_async_job_with_tables_and_a_disk(tmp_path):
    env = {"FLAGS_ps_http": "0", "FLAGS_ps_dir": str(tmp_path), "FLAGS_ps_log": "fsync", "FLAGS_ps_snapshot_steps": "3"}
    with Job(1, 1, "hashed.py", env) as job:
        server = job.start("server", 0)
        at = address(server)
        job.start("trainer", 0, "--steps", "1000000")
        until(lambda: numbers(at).get("ps_checkpoint_duration_seconds_count", 0) >= 1, 60, server.output)
        found = numbers(at)
        assert 0 < found['ps_table_rows{table="emb"}'] <= 60
        assert {"emb", "w"} <= {table["name"] for table in status(at)["tables"]}
        assert found['ps_rows_admitted_total{table="emb"}'] == found['ps_table_rows{table="emb"}']
        assert found['ps_rows_evicted_total{table="emb"}'] == 0 and found['ps_table_bytes{table="emb",kind="rows"}'] > 0
        assert found["ps_wal_fsync_seconds_count"] > 3 and found["ps_wal_fsync_seconds_sum"] > 0
        assert found["ps_checkpoint_duration_seconds_sum"] > 0 and found["ps_checkpoint_last_step"] >= 3
        assert found['ps_rpc_duration_seconds_count{op="rows"}'] > 3


def test_every_number_has_a_line_in_the_docs():
    root = Path(__file__).resolve().parents[2]
    source = (root / "src/pserver/server/status_metrics.c").read_text()
    made = re.findall(r'\{"([a-z_]+)", "(?:gauge|counter|histogram|summary)"', source)
    told = re.findall(r"^\| `((?:ps|process)_[a-z_]+)", (root / "docs/WATCHING.md").read_text(), re.MULTILINE)
    assert len(made) > 20 and made == told


def test_staleness_of_async():
    with Job(1, 2, env={"FLAGS_ps_http": "0"}) as job:
        at = address(job.start("server", 0, "--async", "--model", "mlp"))
        alone = job.start("trainer", 0, *FOREVER, "--async")
        until(lambda: numbers(at).get("ps_staleness_steps_count", 0) > 5, 60, alone.output)
        assert numbers(at)["ps_staleness_steps_sum"] == 0  # nobody else is there
        job.start("trainer", 1, *FOREVER, "--async")
        until(lambda: numbers(at)["ps_staleness_steps_sum"] > 0, 60, alone.output)
        assert "ps_barrier_wait_seconds_count" not in numbers(at)


def test_not_ready_says_why(tmp_path):
    """Without the first server nobody can train; a server that was asked to end waits for the step's end."""
    env = {"FLAGS_ps_http": "0", "FLAGS_ps_on_trainer_loss": "wait", "FLAGS_ps_dir": str(tmp_path)}
    with Job(2, 2, env=env) as job:
        second = job.start("server", 1, "--model", "mlp")
        at = address(second)
        second.wait_for("Server listening")
        code, why, _ = ask(at, "/readyz")
        assert code == 503 and job.endpoints[0] in why and "the first server" in why
        assert numbers(at)["ps_ready"] == 0 and ask(at, "/healthz")[0] == 200
        job.start("server", 0, "--model", "mlp")
        until(lambda: ask(at, "/readyz")[0] == 200)
        trainers = [job.start("trainer", i, *FOREVER) for i in range(2)]
        until(lambda: numbers(at)["ps_step"] > 2, 60)
        trainers[0].signal(signal.SIGSTOP)
        second.signal(signal.SIGTERM)
        until(lambda: ask(at, "/readyz")[0] == 503)
        code, why, _ = ask(at, "/readyz")
        assert (code, why.startswith("it ends: it was asked to")) == (503, True), why


@pytest.mark.parametrize("where, said", [
    ("nonsense", "give PORT (on this machine only), HOST:PORT or :PORT"),
    ("99999", "give PORT (on this machine only), HOST:PORT or :PORT"),
    ("192.0.2.1:0", "FLAGS_ps_http=192.0.2.1:0: cannot listen there"),
])
def test_a_bad_address_ends_the_server(where, said):
    with Job(1, 1) as job:
        server = job.start("server", 0, env={"FLAGS_ps_http": where})
        assert server.end() != 0
        assert said in server.output() and f"FLAGS_ps_http={where}" in server.output()


def test_a_taken_port_names_its_holder():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        port = held.getsockname()[1]
        with Job(1, 1) as job:
            server = job.start("server", 0, env={"FLAGS_ps_http": str(port)})
            assert server.end() != 0
            assert f"port {port} is taken (held by process {os.getpid()}" in server.output()


def test_it_is_off_and_a_public_one_warns():
    with Job(1, 1) as job:
        server = job.start("server", 0)
        server.wait_for("Server listening")
        assert "watched" not in server.output()
        maps = Path(f"/proc/{server.pid}/maps").read_text()
        assert "libmicrohttpd" not in maps and "gnutls" not in maps
    port = free_ports(1)[0]
    with Job(1, 1) as job:
        server = job.start("server", 0, env={"FLAGS_ps_http": f":{port}", "PADDLE_PS_SECRET": "open sesame"})
        server.wait_for("Server listening")
        assert "whoever reaches http://" in server.output() and "open sesame" not in server.output()
        for path in ("/", "/metrics", "/status.json", "/readyz"):
            assert "open sesame" not in ask(("127.0.0.1", port), path, Host="any.name")[1]


# ---- visitors who mean no good ----


def send(at: tuple[str, int], raw: bytes, deadline: float = 20) -> bytes:
    """What comes back until it is closed."""
    with socket.create_connection(at, timeout=deadline) as visit:
        with contextlib.suppress(OSError):
            visit.sendall(raw)
        got = b""
        with contextlib.suppress(OSError):
            while part := visit.recv(65536):
                got += part
        return got


def test_what_is_refused():
    with Job(1, 1, env={"FLAGS_ps_http": "0"}) as job:
        at = address(job.start("server", 0))
        assert ask(at, "/nothing")[0] == ask(at, "/metrics/")[0] == ask(at, "/../metrics")[0] == 404
        for method in ("POST", "PUT", "DELETE", "OPTIONS"):
            code, _, headers = ask(at, "/status.json", method)
            assert (code, headers["Allow"]) == (405, "GET, HEAD")
        posted = b"POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello"
        assert send(at, posted).startswith(b"HTTP/1.1 405")
        # A page of another site whose name leads here.
        assert ask(at, "/status.json", Host="evil.example")[0] == ask(at, "/", Host="localhost.evil.example:80")[0] == 421
        assert b" 421 " in send(at, b"GET /status.json HTTP/1.0\r\n\r\n").partition(b"\r\n")[0]
        for meant in ("localhost", f"LOCALHOST:{at[1]}", "127.0.0.1", "[::1]:80"):
            assert ask(at, "/healthz", Host=meant)[0] == 200


def test_a_crowd_does_not_harm_the_job():
    """Garbage, half requests, heads without end and 500 who say nothing, while a job trains."""
    with Job(1, 2, env={"FLAGS_ps_http": "0"}) as job:
        server = job.start("server", 0, "--model", "mlp")
        at = address(server)
        trainers = [job.start("trainer", i, *FOREVER) for i in range(2)]
        until(lambda: numbers(at)["ps_step"] > 2, 60)
        files = len(os.listdir(f"/proc/{server.pid}/fd"))
        junk = [b"\0" * 5000, b"\xff\xfe" * 300 + b"\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET  \r\n\r\n",
                b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\n" + b"X: " + b"y" * 100000 + b"\r\n\r\n",
                b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999\r\n\r\n",
                b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\nzz\r\n",
                b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"A: b\r\n" * 20000 + b"\r\n"]
        for raw in junk:
            assert not send(at, raw).startswith(b"HTTP/1.1 200"), raw[:40]
        with contextlib.ExitStack() as crowd:
            for i in range(500):
                visit = crowd.enter_context(socket.socket())
                visit.setblocking(False)
                visit.connect_ex(at)
                if i % 2:
                    with contextlib.suppress(OSError):
                        visit.send(b"GET /metrics HTTP/1.1\r\nHost: localh")
            step = job_step(job)
            until(lambda: len(os.listdir(f"/proc/{server.pid}/fd")) > files + 100, 20)
            assert len(os.listdir(f"/proc/{server.pid}/fd")) < files + 300
            until(lambda: job_step(job) > step + 20, 30, server.output)
            # Those who are silent are hung up on, so that somebody else gets in again.
            assert ask(at, "/healthz", deadline=40)[0] == 200
        until(lambda: numbers(at)["ps_step"] > step + 20, 30)
        assert all(p.process.poll() is None for p in (server, *trainers))
        assert "refused" not in server.output()


def job_step(job: Job) -> int:
    """By the job's own port, which has nothing to do with HTTP."""
    from test_ps_tools import status as told

    return told(job.endpoints[0])["step"]


def test_a_slow_reader_waits_alone():
    with Job(1, 2, env={"FLAGS_ps_http": "0"}) as job:
        server = job.start("server", 0, "--model", "mlp")
        at = address(server)
        for i in range(2):
            job.start("trainer", i, *FOREVER)
        until(lambda: numbers(at)["ps_step"] > 2, 60)
        with contextlib.ExitStack() as crowd:
            for _ in range(20):
                slow = crowd.enter_context(socket.socket())
                slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
                slow.connect(at)
                slow.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" * 20)
            began = time.monotonic()
            step = numbers(at)["ps_step"]
            until(lambda: numbers(at)["ps_step"] > step, 10)
            assert time.monotonic() - began < 10
