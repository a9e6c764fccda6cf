"""Waits until servers listen, with a deadline, and says for whom and why."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable

from paddle import _core
from paddle.fluid import shown
from paddle.fluid.transpiler.arguments import parse_endpoints

_TRY_SECONDS = 2.0
_PAUSE_SECONDS = 0.1
_NAME_SECONDS, _NAME_TRIES = 2.0, 3  # so long a name may be unknown: new machines get theirs a moment late


def wait_server_ready(endpoints: list[str]) -> None:
    """Returns when all servers accept connections; says for whom it waits and why, every FLAGS_ps_notice.

    A TimeoutError that names all that are missing comes after FLAGS_rpc_deadline, a ConnectionError when a
    host name stays unknown for some tries. Both flags are in milliseconds. PADDLE_PS_MAP counts here too.

    Nothing here needs it: the first exchange of a trainer waits for its servers in the same way.

    >>> wait_server_ready(["127.0.0.1:6174", "127.0.0.1:6175"])                  # doctest: +SKIP
    """
    wait(endpoints, _say)


def wait(endpoints: list[str], say: Callable[[dict[str, str], float], None], pause: float = _PAUSE_SECONDS,
         at_once: bool = False) -> None:
    """The same with notices of the caller's own: `say` gets {endpoint: why it is not ready} and the seconds so far, after the first
    look already if it is to say so `at_once`. `pause` is the time between two looks.
    """
    waiting = dict.fromkeys(parse_endpoints(endpoints) if endpoints else [], "not tried yet")
    start = time.monotonic()
    deadline = int(_core.flag_get("rpc_deadline")) / 1000
    notice = int(_core.flag_get("ps_notice")) / 1000
    told = start - notice if at_once else start
    rounds = 0
    while waiting:
        rounds += 1
        for endpoint in list(waiting):
            left = start + deadline - time.monotonic()
            reason, name_known = _try(endpoint, min(_TRY_SECONDS, max(left, 0.01)))
            if not reason:
                del waiting[endpoint]
                continue
            waiting[endpoint] = reason
            patient = rounds < _NAME_TRIES or time.monotonic() - start < min(_NAME_SECONDS, deadline)
            if not name_known and not patient:
                raise ConnectionError(f"waiting for the server {endpoint} has no use: {shown.sentence(reason)}")
        now = time.monotonic()
        if waiting and now - start >= deadline:
            raise TimeoutError(
                f"{len(waiting)} of the servers did not listen within {deadline:g} s: {shown.sentence(_table(waiting))} "
                "FLAGS_rpc_deadline (milliseconds) sets how long to wait."
            )
        if waiting and now - told >= notice:
            told = now
            say(waiting, now - start)
        if waiting:
            time.sleep(min(pause, max(start + deadline - now, 0.0)))


def _say(waiting: dict[str, str], seconds: float) -> None:
    print(f"paddle: waiting for servers since {seconds:.0f} s: {_table(waiting)}", file=sys.stderr, flush=True)


def _table(waiting: dict[str, str]) -> str:
    return "; ".join(f"{endpoint}: {reason}" for endpoint, reason in waiting.items())


def way_to(endpoint: str) -> str:
    """Where PADDLE_PS_MAP sends those who want to connect to an endpoint."""
    for entry in os.environ.get("PADDLE_PS_MAP", "").split(","):
        before, sign, after = entry.partition("=")
        if sign and after and before == endpoint:
            return after
    return endpoint


def _connect(host: str, port: int, seconds: float) -> socket.socket:
    """The system keeps the port of its own end for a while: with SO_REUSEADDR a server can listen there all the same."""
    error: OSError = ConnectionRefusedError()
    for family, kind, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        made = socket.socket(family, kind, protocol)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.settimeout(seconds)
            made.connect(address)
            return made
        except OSError as why:
            error = why
            made.close()
    raise error


def _try(endpoint: str, seconds: float) -> tuple[str, bool]:
    """("", True) when somebody listens; else why not, and whether the name of the host is known."""
    way = way_to(endpoint)
    host, _, port = way.rpartition(":")
    by = "" if way == endpoint else f"at {way} (PADDLE_PS_MAP) "
    try:
        with _connect(host.strip("[]"), int(port), seconds) as found:
            # The port of nobody may be the one that the system gave this very socket.
            own = found.getsockname() == found.getpeername()
    except socket.gaierror as error:
        # A name server that does not answer now may do so later.
        why = f"the name {host.strip('[]')!r} is not known ({error.strerror})"
        return f"{by}{why}: check the endpoint, /etc/hosts and DNS", error.errno == socket.EAI_AGAIN
    except TimeoutError:
        return f"{by}no answer: is the machine on, and does a firewall let port {port} pass?", True
    except ConnectionRefusedError:
        return f"{by}refused: is the server running?", True
    except (OSError, ValueError) as error:
        return f"{by}{getattr(error, 'strerror', None) or error}", True
    return (f"{by}refused: is the server running?" if own else ""), True
