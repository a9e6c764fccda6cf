"""Ports of this machine's servers: free ones are found by binding them, and a taken one is told with who has it.

What is bound here stays bound while the job runs, but does not listen. A server, whose socket has SO_REUSEADDR, can have the
port all the same; the kernel, when it hands ports out, goes on to others. Launchers keep off each other's ports by a name in the
machine's list of Unix sockets. So nobody takes a port between the look and the server's start, or while it is started again.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Sequence
from pathlib import Path

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


def take_given(held: Held, endpoints: Sequence[Endpoint], advice: str) -> None:
    """Holds ports that the user named; a Usage error says who has one."""
    for each in endpoints:
        try:
            held.take(each)
        except OSError as why:
            reason = f"is taken by {owner(each.port)}" if why.errno == errno.EADDRINUSE else f"cannot be used: {why.strerror}"
            raise Usage(f"port {each.port} of {each.host} {reason}. {advice}") from None


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
            passed.append(f"{port} is taken by {owner(port)}")
    if len(found) < count:
        raise Usage(f"there are not {count} free ports from {first} on. --start_port says where to look.")
    return found, passed


def owner(port: int) -> str:
    """Who has a port, in words."""
    inodes = set()
    for table in ("tcp", "tcp6"):
        for row in _rows(table):
            if int(row[1].rpartition(":")[2], 16) == port:
                inodes.add(row[9])
    inodes |= {row[6] for row in _rows("unix") if row[-2:] == ["port", str(port)] and "@paddle.distributed" in row}
    inodes.discard("0")
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            links = {os.readlink(entry.path) for entry in os.scandir(folder / "fd")}
            if links & {f"socket:[{inode}]" for inode in inodes}:
                return f"{(folder / 'comm').read_text().strip()} (process {folder.name})"
        except OSError:
            continue  # it has ended, or is another user's
    return "another user's process" if inodes else "a process that cannot be seen from here"


def _rows(table: str) -> list[list[str]]:
    try:
        return [line.split() for line in Path(f"/proc/net/{table}").read_text(errors="replace").splitlines()[1:]]
    except OSError:
        return []
