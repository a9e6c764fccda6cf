"""Who calls a server that has ended by itself. One that served has ended because all workers were done, and nobody calls it. To one
that did not serve the workers try to connect until their deadline: listening in its place shows that."""

from __future__ import annotations

import socket
from collections.abc import Collection

from paddle.distributed import family, ports
from paddle.distributed.hosts import Endpoint, resolve

_AT_ONCE = 16


class Place:
    """Listens where a server did, or should have."""

    def __init__(self, endpoint: Endpoint):
        """OSError: it cannot be had, as where this machine is behind NAT."""
        address = sorted(resolve(endpoint.host), key=lambda text: ":" in text)[0]
        self._socket = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind((address, endpoint.port))
            self._socket.listen(_AT_ONCE)
        except OSError:
            self._socket.close()
            raise
        self._socket.setblocking(False)
        self._port = endpoint.port

    def is_called_by(self, pids: Collection[int]) -> bool:
        """Does one of these processes, or one that it has started, wait for an answer here? Others may call as well: whoever asks a
        server for its status."""
        try:
            for _ in range(_AT_ONCE):
                visit, address = self._socket.accept()
                with visit:
                    if family.is_below(ports.caller(address[1], self._port), pids):
                        return True
        except OSError:  # nobody any more
            pass
        return False

    def close(self) -> None:
        self._socket.close()
