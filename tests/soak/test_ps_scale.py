"""Many trainers: up to 1,000 of them, in a few processes, each with a connection to each of 4 servers, in sync mode."""

import multiprocessing
import resource
import selectors
import struct
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "python"))

import ps_peer as ps  # noqa: E402
from cluster import Process, free_ports  # noqa: E402
from ps_seal import length_in  # noqa: E402

SERVERS, DRIVERS, WARM, STEPS, SIZE = 4, 2, 3, 20, 8 * 8 * 4
COUNTS = (10, 100, 300, 1000)


def more_files() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 16384), hard))


class Trainer:
    """A connection of a trainer to one server: it pushes the same small gradient in every step."""

    def __init__(self, endpoint: str, id: int):
        self.peer = ps.Peer(endpoint, 60)
        assert self.peer.greet(id).type == ps.WELCOME
        self.gradient = np.full(SIZE // 4, (id + 1) * 1e-4, np.float32).tobytes()
        self.raw, self.got, self.value, self.waits = b"", b"", None, False

    def open(self, name: str) -> None:
        opened = self.peer.open(ps.name(f"{name}@GRAD"), ps.name(name, is_pull=True))
        assert opened.type == ps.OPENED, opened.text()
        self.name = name
        self.unit, self.number = struct.unpack_from("<2I", opened.meta, 20)

    def pull(self) -> np.ndarray:
        self.peer.send(ps.frame(ps.PULL, ps.numbers([self.number]), request=1))
        return np.frombuffer(self.peer.answer().payload, np.float32)

    def prepare(self) -> None:
        """All messages, in records with their checksums, which take Python longer than servers need for a step."""
        meta = ps.parts((self.unit, 0, 0), wishes=[self.number])
        frames = [ps.frame(ps.PUSH, meta, self.gradient, flags=ps.END, step=step, request=step)
                  for step in range(1, WARM + STEPS + 1)]
        frames.append(ps.frame(ps.BYE, b"\0" + ps.text(""), request=99))
        self.records = [self.peer.seals[0].records(frame) for frame in frames]

    def send_next(self) -> None:
        assert self.peer.send_raw(self.records.pop(0))
        self.waits = True

    def take(self) -> bool:
        """What has come. Was it what this trainer waits for?"""
        waited = self.waits
        more = self.peer.socket.recv(1 << 16)
        assert more, f"the server has closed the connection; it waits for step: {waited}"
        self.raw += more
        head = 4 + self.peer.seals[1].bytes
        while len(self.raw) >= head and len(self.raw) >= (end := head + length_in(self.raw)):
            self.got, self.raw = self.got + self.raw[head:end], self.raw[end:]
        while len(self.got) >= ps.HEAD.size:
            _, _, type, _, _, meta, payload, *_ = ps.HEAD.unpack_from(self.got)
            size = ps.HEAD.size + meta + payload
            if len(self.got) < size:
                break
            if type == ps.VALUES:
                self.value, self.waits = self.got[ps.HEAD.size + meta : size], False
            elif type == ps.DONE:
                self.waits = False
            else:
                assert type == ps.NOTICE, self.got
            self.got = self.got[size:]
        return waited and not self.waits


def drive(homes: list[tuple[str, str]], ids: range, pipe) -> None:
    """The trainers `ids`: comes, waits for a word, does its steps, leaves."""
    more_files()
    trainers = []
    for id in ids:
        for endpoint, name in homes:
            t = Trainer(endpoint, id)
            t.open(name)
            trainers.append(t)
    initial = {t.name: t.pull() for t in trainers[: len(homes)]}
    for t in trainers:
        t.prepare()
    pipe.send("here")
    pipe.recv()
    selector = selectors.EpollSelector()
    for t in trainers:
        selector.register(t.peer.socket, selectors.EVENT_READ, t)
    times = []
    for step in range(1, WARM + STEPS + 1):
        start = time.perf_counter()
        for t in trainers:
            t.send_next()
        left = len(trainers)
        while left:
            ready = selector.select(60)
            assert ready, f"step {step}: nothing came for 60 s, {left} wait"
            for key, _ in ready:
                left -= key.data.take()
        times.append(time.perf_counter() - start)
    pipe.send((times[WARM:], initial, {(t.name, t.value) for t in trainers}))
    pipe.recv()
    for t in trainers:
        t.send_next()
    for t in trainers:
        while not t.take():
            pass


def homes_of(endpoints: list[str]) -> list[tuple[str, str]]:
    """Where each parameter is: an endpoint that does not have it says so."""
    homes = []
    for endpoint in endpoints:
        for i in range(SERVERS):
            with ps.Peer(endpoint) as peer:
                peer.greet(0)
                opened = peer.open(ps.name(f"w{i}", is_pull=True), ps.name("no such name"))
                if f"no variable 'w{i}'" not in opened.text():
                    homes.append((endpoint, f"w{i}"))
    assert len(homes) == SERVERS, homes
    return homes


def run(trainers: int) -> tuple[float, float, int]:
    """Seconds a step (median), KiB a connection, threads of a server."""
    endpoints = [f"127.0.0.1:{port}" for port in free_ports(SERVERS)]
    script = str(Path(__file__).parent / "scale_server.py")
    servers = [Process(f"server-{i}", [sys.executable, script, ",".join(endpoints), endpoint, str(trainers)])
               for i, endpoint in enumerate(endpoints)]
    context = multiprocessing.get_context("spawn")
    drivers = []
    try:
        for s in servers:
            s.wait_for("Server listening on")
        homes = homes_of(endpoints)
        empty, had = ps.memory(servers[0].pid, "VmRSS"), ps.threads(servers[0].pid)
        shares = [range(k, trainers, DRIVERS) for k in range(DRIVERS)]
        for share in shares:
            mine, its = context.Pipe()
            process = context.Process(target=drive, args=(homes, share, its))
            process.start()
            its.close()  # one that fails is missed at once
            drivers.append((process, mine))
        for _, pipe in drivers:
            assert pipe.poll(120) and pipe.recv() == "here"
        each = (ps.memory(servers[0].pid, "VmRSS") - empty) / trainers
        assert ps.threads(servers[0].pid) == had, "a thread for each connection?"
        for _, pipe in drivers:
            pipe.send("go")
        results = []
        for _, pipe in drivers:
            assert pipe.poll(300)
            results.append(pipe.recv())
        for _, pipe in drivers:
            pipe.send("leave")
        for s in servers:
            assert s.end(60) == 0, s.output()
        check(results, trainers)
        return float(np.median([t for times, _, _ in results for t in times])), each, had
    finally:
        for process, _ in drivers:
            process.join(10)
            process.kill()
        for s in servers:
            s.close()


def check(results: list, trainers: int) -> None:
    """All trainers have the same values; from each step the average of all gradients was taken off."""
    initial = results[0][1]
    values = set.union(*[some for _, _, some in results])
    assert len(values) == SERVERS
    moved = (WARM + STEPS) * np.mean(np.arange(1, trainers + 1)) * 1e-4
    for name, value in values:
        np.testing.assert_allclose(np.frombuffer(value, np.float32), initial[name] - moved, rtol=1e-5, atol=1e-5)


def test_a_thousand_trainers(record_property):
    more_files()
    curve = []
    for trainers in COUNTS:
        seconds, each, had = run(trainers)
        curve.append(seconds)
        record_property(f"{trainers} trainers x {SERVERS} servers:", f"{seconds * 1e3:.2f} ms a step"
                        f" ({seconds / trainers * 1e6:.1f} us a trainer), {each:.1f} KiB a connection, {had} threads a server")
        if trainers == COUNTS[-1]:
            assert each < 64, each
    growth = curve[-1] / curve[1]
    record_property("step time", f"{growth:.1f} times as long with {COUNTS[-1] // COUNTS[1]} times the trainers")
