"""A TCP proxy with faults: connections through it are cut, delayed, stalled and half closed, at places that a seed decides."""

from __future__ import annotations

import asyncio
import random
import threading
from dataclasses import dataclass


@dataclass
class Faults:
    """How likely a connection is to suffer what; `mean_bytes` is how far it gets before that, on average."""

    cut: float = 0.6
    half_close: float = 0.15
    stall: float = 0.15
    delay: float = 0.3
    mean_bytes: int = 40000
    stall_seconds: float = 0.6
    delay_seconds: float = 0.003


class FaultProxy:
    """Listens on a port for each target. Runs in a thread of its own: `with FaultProxy(...) as proxy`.

    After `budget` faults it lets everything through, so that a job comes to its end.
    """

    def __init__(self, targets: list[str], seed: int, faults: Faults | None = None, budget: int = 1000, meddler=None):
        """`meddler()` makes, for each direction of a connection, a function of the bytes that come to those that go on."""
        self.targets, self.faults, self.budget = targets, faults or Faults(), budget
        self.meddler = meddler or (lambda: lambda data: data)
        self.rng = random.Random(seed)
        self.done = {"cut": 0, "half_close": 0, "stall": 0, "delay": 0}
        self.ports: list[int] = []
        self._open: set[tuple] = set()
        self._is_closed = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._ready = threading.Event()

    @property
    def map(self) -> str:
        """For PADDLE_PS_MAP."""
        return ",".join(f"{target}=127.0.0.1:{port}" for target, port in zip(self.targets, self.ports))

    def __enter__(self) -> FaultProxy:
        self._thread.start()
        self._ready.wait(10)
        return self

    def __exit__(self, *unused) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def close(self, is_closed: bool = True) -> None:
        """Resets all connections, and all new ones until it is opened again."""
        self._is_closed = is_closed
        self.cut_all()

    def cut_all(self) -> None:
        """Resets all connections that there are now."""
        self._loop.call_soon_threadsafe(lambda: [end.transport.abort() for both in self._open for end in both])

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._listen())
        self._ready.set()
        self._loop.run_forever()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))

    async def _listen(self) -> None:
        self._servers = []
        for target in self.targets:
            server = await asyncio.start_server(lambda r, w, to=target: self._serve(r, w, to), "127.0.0.1", 0)
            self._servers.append(server)
            self.ports.append(server.sockets[0].getsockname()[1])

    def _plan(self) -> tuple[str, int]:
        """The fault of one direction of a connection, and after how many bytes it comes."""
        if sum(self.done[kind] for kind in ("cut", "half_close", "stall")) >= self.budget:
            return "none", 0
        chance = self.rng.random()
        for kind in ("cut", "half_close", "stall"):
            chance -= getattr(self.faults, kind)
            if chance < 0:
                return kind, int(self.rng.expovariate(1 / self.faults.mean_bytes))
        return "none", 0

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: str) -> None:
        host, port = target.rsplit(":", 1)
        if self._is_closed:
            writer.transport.abort()
            return
        try:
            to_reader, to_writer = await asyncio.open_connection(host, int(port))
        except OSError:
            writer.transport.abort()
            return
        both = (writer, to_writer)
        self._open.add(both)
        try:
            await asyncio.gather(self._pump(reader, to_writer, both), self._pump(to_reader, writer, both))
        finally:
            self._open.discard(both)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, both: tuple) -> None:
        kind, left = self._plan()
        meddle = self.meddler()
        try:
            while data := await reader.read(1 << 16):
                data = meddle(data)
                if kind != "none" and len(data) >= left:
                    writer.write(data[:left])
                    self.done[kind] += 1
                    data = data[left:]
                    if kind == "half_close":
                        await writer.drain()
                        writer.write_eof()
                        return
                    if kind == "stall":
                        await asyncio.sleep(self.faults.stall_seconds)
                        kind = "cut" if self.rng.random() < 0.5 else "none"
                    if kind == "cut":
                        break
                left -= len(data)
                if self.rng.random() < self.faults.delay / 100:
                    self.done["delay"] += 1
                    await asyncio.sleep(self.rng.expovariate(1 / self.faults.delay_seconds))
                writer.write(data)
                await writer.drain()
        except (OSError, asyncio.CancelledError):
            pass
        for end in both:
            if self.rng.random() < 0.5:
                end.transport.abort()  # a reset
            else:
                end.close()
