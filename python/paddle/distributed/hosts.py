"""Hosts and endpoints of a job: how they are written, and which of them are this machine."""

from __future__ import annotations

import ctypes
import functools
import ipaddress
import socket
from typing import NamedTuple


class Usage(ValueError):
    """What the user asked for cannot be done; the message says why, and what to do."""


class Endpoint(NamedTuple):
    """HOST:PORT, the host as the user wrote it."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def read_endpoints(option: str, text: str, first_port: int | None = None) -> tuple[Endpoint, ...]:
    """The endpoints of a list with commas. With `first_port`, entries without a port get one from there on."""
    found: list[Endpoint] = []
    for number, each in enumerate(text.split(",")):
        each = each.strip()
        host, colon, port = each.rpartition(":")
        if not colon or each.endswith("]") or (":" in host and not host.startswith("[")):
            if first_port is None or not each:
                raise Usage(f"--{option} takes HOST:PORT,HOST:PORT,..., found {each!r}.")
            bare = f"[{each}]" if ":" in each and not each.startswith("[") else each
            host, port = bare, str(first_port + number)
        if not host or not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
            raise Usage(f"--{option} has {each!r}: it must be HOST:PORT with a port from 1 to 65535.")
        found.append(Endpoint(host, int(port)))
    twice = next((each for each in found if found.count(each) > 1), None)
    if twice:
        raise Usage(f"--{option} names {twice} twice.")
    return tuple(found)


class _Address(ctypes.Structure):
    """struct ifaddrs as far as it is read."""


_Address._fields_ = [("next", ctypes.POINTER(_Address)), ("name", ctypes.c_char_p), ("flags", ctypes.c_uint),
                     ("address", ctypes.c_void_p)]


def addresses() -> list[str]:
    """All addresses of this machine's interfaces."""
    library = ctypes.CDLL(None)
    first = ctypes.POINTER(_Address)()
    if library.getifaddrs(ctypes.byref(first)) != 0:
        return []
    found, at = [], first
    while at:
        place = at.contents.address
        family = ctypes.c_ushort.from_address(place).value if place else None
        if family == socket.AF_INET:
            found.append(socket.inet_ntop(family, ctypes.string_at(place + 4, 4)))
        elif family == socket.AF_INET6:
            found.append(socket.inet_ntop(family, ctypes.string_at(place + 8, 16)))
        at = at.contents.next
    library.freeifaddrs(first)
    return sorted(set(found), key=lambda text: (":" in text, text))


@functools.cache
def resolve(host: str) -> frozenset[str]:
    """The addresses of a host as a user wrote it: a name, an address, an IPv6 address in brackets."""
    try:
        rows = socket.getaddrinfo(host.strip("[]"), None, type=socket.SOCK_STREAM)
    except OSError as why:
        raise Usage(f"the host {host!r} has no address: {why.strerror}. Is the name right, and known on this machine?") from None
    return frozenset(str(row[4][0]).partition("%")[0] for row in rows)


def is_loopback(host: str) -> bool:
    return all(ipaddress.ip_address(each).is_loopback for each in resolve(host))


def local_hosts(hosts: list[str], named: str = "") -> set[str]:
    """Those of the hosts that are this machine. `named`: the one that the user says is this machine."""
    if named:
        here = resolve(named)
        found = {host for host in hosts if host == named or resolve(host) & here}
        if not found:
            raise Usage(f"--host says that this machine is {named}, which is none of the job's hosts: "
                        f"{', '.join(dict.fromkeys(hosts))}.")
        return found
    here = frozenset(addresses())
    found = {host for host in hosts if is_loopback(host) or resolve(host) & here}
    others = [host for host in dict.fromkeys(hosts) if host not in found]
    inside = [host for host in dict.fromkeys(hosts) if is_loopback(host)]
    if others and inside:
        raise Usage(f"{inside[0]} is another machine on each machine, and {others[0]} is not this one: name every machine by an "
                    "address that all of them reach.")
    if not found:
        raise Usage(f"none of the job's hosts is this machine: {', '.join(others)}. This machine's addresses are "
                    f"{', '.join(addresses()) or 'not known'}. Behind NAT, --host says which of them it is.")
    return found
