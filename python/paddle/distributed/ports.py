"""Ports of this machine's servers: free ones are found by binding them, and a taken one is told with what has it.

What is bound here stays bound while the job runs, but does not listen. A server, whose socket has SO_REUSEADDR, can have the
port all the same; the kernel, when it hands ports out, goes on to others. Launchers keep off each other's ports by a name in the
machine's list of Unix sockets. So nobody takes a port between the look and the server's start, or while it is started again.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from paddle.distributed.hosts import Endpoint, Usage, resolve

LAST = 65535


class Held:
    """Ports that are kept for the servers of a job; they are given back when this process ends."""

    def __init__(self) -> None:
        self._sockets: list[socket.socket] = []

    def take(self, endpoint: Endpoint) -> None:
        """Holds it. OSError: somebody has it. Where this machine has no such address (behind NAT) nothing is held."""
        lock = socket.socket(socket.AF_UNIX)
        address = sorted(resolve(endpoint.host), key=lambda text: ":" in text)[0]
        port = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
        try:
            lock.bind(f"\0paddle.distributed {address} port {endpoint.port}")
            port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            port.bind((address, endpoint.port))
        except OSError as why:
            port.close()
            if why.errno != errno.EADDRNOTAVAIL:
                lock.close()
                raise
            self._sockets.append(lock)
        else:
            self._sockets += [lock, port]


def take_given(held: Held, endpoints: Sequence[Endpoint], other: str, more: str = "") -> None:
    """Holds ports that the user named; a Usage error says what has one. `other`: how to take another, and `more` on that."""
    for each in endpoints:
        try:
            held.take(each)
        except OSError as why:
            who = owner(each.port)
            reason = f"is taken by {who.words}" if why.errno == errno.EADDRINUSE else f"cannot be used: {why.strerror}"
            raise Usage(f"port {each.port} of {each.host} {reason}. {other}, or {who.advice}.{more}") from None


def find_free(held: Held, host: str, first: int, count: int) -> tuple[list[Endpoint], list[str]]:
    """The first free ports from `first` on, held, and for each that was passed over who has it."""
    found: list[Endpoint] = []
    passed: list[str] = []
    for port in range(first, LAST + 1):
        if len(found) == count:
            break
        try:
            held.take(Endpoint(host, port))
            found.append(Endpoint(host, port))
        except OSError:
            passed.append(f"{port} is taken by {owner(port).words}")
    if len(found) < count:
        raise Usage(f"there are not {count} free ports from {first} on. --start_port says where to look.")
    return found, passed


class Owner(NamedTuple):
    words: str  # "python3 (process 4711)"
    advice: str = "end that process"


_LISTENS = "0A"  # a state in /proc/net/tcp


def owner(port: int) -> Owner:
    """What has a port."""
    rows = _sockets(port)
    listening = {inode for state, inode in rows if state == _LISTENS}
    listening |= {row[6] for row in _rows("unix") if row[-2:] == ["port", str(port)] and "@paddle.distributed" in row}
    connected = {inode for _, inode in rows} - {"0"}
    if rows and not listening:
        first, last = _for_connections()
        range_told = f"; ports from {first} to {last} are for outgoing connections: take one below" if first <= port <= last else ""
        if not connected:
            return Owner("a connection that has ended (TIME_WAIT)", f"wait a minute{range_told}")
        pid = holder(connected)
        return Owner(f"an open connection{f' of {_name(pid)}' if pid else ''}", f"end that process{range_told}")
    pid = holder(listening)
    if pid:
        return Owner(_name(pid))
    return Owner("another user's process" if listening else "a process that cannot be seen from here")


def holder(inodes: set[str]) -> int:
    """The process that has one of these sockets; 0: none is to be seen."""
    wanted = {f"socket:[{inode}]" for inode in inodes}
    for folder in os.scandir("/proc") if wanted else ():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):  # it has ended, or is another user's
                if any(os.readlink(entry.path) in wanted for entry in os.scandir(f"{folder.path}/fd")):
                    return int(folder.name)
    return 0


def caller(port: int, server_port: int) -> int:
    """The process of this machine whose connection goes from the one port to the other; 0: none is to be seen."""
    return holder({inode for _, inode in _sockets(port, server_port)} - {"0"})


def _name(pid: int) -> str:
    with contextlib.suppress(OSError):
        return f"{Path(f'/proc/{pid}/comm').read_text().strip()} (process {pid})"
    return f"process {pid}"


def _sockets(port: int, peer: int | None = None) -> list[tuple[str, str]]:
    """State and inode of each socket at a port; "0": it is of no process any more."""
    found = []
    for row in (*_rows("tcp"), *_rows("tcp6")):
        here, there = (int(text.rpartition(":")[2], 16) for text in row[1:3])
        if here == port and peer in (None, there):
            found.append((row[3], row[9]))
    return found


def _for_connections() -> tuple[int, int]:
    """The ports that the system gives to outgoing connections, first and last."""
    try:
        first, last = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
        return int(first), int(last)
    except (OSError, ValueError):
        return LAST + 1, LAST


def _rows(table: str) -> list[list[str]]:
    try:
        return [line.split() for line in Path(f"/proc/net/{table}").read_text(errors="replace").splitlines()[1:]]
    except OSError:
        return []
