"""The launcher's page (--http): a process beside the engine that answers HTTP, so that nothing a visitor does harms the job.

It is forked by the engine and dies with it. What it shows it reads (watched.py); nobody waits for it.
"""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import json
import os
import resource
import signal
import socket
import threading
import traceback
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from paddle.distributed import family, ports, secret
from paddle.distributed.hosts import Endpoint, Usage, is_loopback, resolve
from paddle.distributed.job import Job
from paddle.distributed.watched import Watched, metrics

CONNECTIONS = 64
SILENT = 5.0  # seconds, after which a connection is closed
PAGE = Path(__file__).with_name("page.html")

_HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; "
                               "img-src data:; frame-ancestors 'none'; base-uri 'none'",
}


class Door:
    """A port that is bound before the job is started: a taken one is an error of the command line."""

    def __init__(self, asked: str):
        host, _, port = asked.rpartition(":")
        if not (port.isascii() and port.isdigit() and int(port) < 65536):
            raise Usage(f"--http takes PORT (on this machine only), HOST:PORT or :PORT, found {asked!r}.")
        host = "127.0.0.1" if ":" not in asked else host.strip("[]")
        self.is_local = bool(host) and is_loopback(host)
        address = sorted(resolve(host))[0] if host else ""
        self.socket = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self.socket.bind((address, int(port)))
            self.socket.listen(CONNECTIONS)
        except OSError as why:
            taken = (f"port {port} is taken by {ports.owner(int(port)).words}. --http=0 takes any that is free"
                     if why.errno == errno.EADDRINUSE else why.strerror)
            raise Usage(f"--http={asked}: {taken}.") from None
        shown = address or "0.0.0.0"
        self.url = f"http://{Endpoint(f'[{shown}]' if ':' in shown else shown, self.socket.getsockname()[1])}/"


class _Server(ThreadingHTTPServer):
    """Takes no more than CONNECTIONS at once; others wait at the door."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, door: Door, watched: Watched):
        super().__init__(door.socket.getsockname()[:2], _Visit, bind_and_activate=False)
        self.socket.close()
        self.socket, self.door, self.watched = door.socket, door, watched
        self.room = threading.BoundedSemaphore(CONNECTIONS)

    def process_request(self, request: Any, client_address: Any) -> None:
        self.room.acquire()
        try:
            super().process_request(request, client_address)
        except BaseException:
            self.room.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A visitor who hangs up is nobody's trouble."""


class _Visit(BaseHTTPRequestHandler):
    timeout = SILENT
    server: _Server
    server_version, sys_version = "paddle", ""

    def do_GET(self) -> None:
        self._answer(*self._find())

    do_HEAD = do_GET

    def _find(self) -> tuple[int, str, str]:
        asked, watched = urlsplit(self.path), self.server.watched
        if not self._is_meant():
            return 421, "text/plain", "this port is for this machine: ask for it as localhost, or by its address\n"
        if asked.path == "/":
            return 200, "text/html", PAGE.read_text()
        if asked.path == "/healthz":
            return 200, "text/plain", "ok\n"
        if asked.path == "/readyz":
            why = watched.why_not_ready()
            return (503, "text/plain", why + "\n") if why else (200, "text/plain", "ready\n")
        if asked.path == "/metrics":
            return 200, "text/plain; version=0.0.4", metrics(watched)
        if asked.path == "/status.json":
            since = -1.0
            with contextlib.suppress(ValueError, IndexError):
                since = float(parse_qs(asked.query).get("since", [])[0])
            return 200, "application/json", json.dumps(watched.shown(since)) + "\n"
        return 404, "text/plain", "there is /healthz, /readyz, /metrics, /status.json and a page at /\n"

    def _is_meant(self) -> bool:
        """At a loopback address a browser says an address, or localhost: no page of another site whose name leads here. Who says
        nothing (HTTP/1.0) is not served, as at a server."""
        said = self.headers.get("Host", "")
        host = said[1:].partition("]")[0] if said.startswith("[") else said.partition(":")[0]
        if not self.server.door.is_local or host.lower() == "localhost":
            return True
        try:
            return ipaddress.ip_address(host).version == (6 if said.startswith("[") else 4)
        except ValueError:
            return False

    def _answer(self, code: int, kind: str, text: str) -> None:
        body = text.encode()
        self.send_response(code)
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Type", kind + ("" if kind == "application/json" else "; charset=utf-8"))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Visits are not the job's news."""


def start(door: Door, job: Job, folder: str) -> int:
    """Forks the process; its number."""
    pid = family.fork(lambda: _become(door, job, folder))
    door.socket.close()
    return pid


def _become(door: Door, job: Job, folder: str) -> None:
    """In the child."""
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        with contextlib.suppress(OSError):
            os.nice(5)
            limit = min(256, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
        os.environ.update(job.environment)  # the secret, and how servers are reached
        if job.secret.file:
            os.environ[secret.FILE] = job.secret.file
        name = Path(next((word for word in job.workers.command if word.endswith(".py")), job.workers.command[0])).name
        _Server(door, Watched(job, folder, name)).serve_forever()
    except BaseException:
        traceback.print_exc()
