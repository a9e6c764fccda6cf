"""A server and a trainer die in the same step, at the moment at which the step is agreed on and not yet in a server's log as
applied.

That moment is a few microseconds long, so the servers are killed after it and the last record of their logs is cut off: a process
that is killed leaves a prefix of what it wrote. Trainers are written out by hand, so that it is known what each has given.
"""

import re
import signal
import struct
import time
from pathlib import Path

import numpy as np
import ps_peer as ps
import pytest
from cluster import Job, Process

NAMES = {"fc_0.w_0": 13, "fc_0.b_0": 1}
OPTIONS = ["--model", "fit_a_line", "--optimizer", "sgd"]
RATE = 0.02
END_OF_STEP = 4  # a record's kind


def env_of(folder: Path, **more: str) -> dict[str, str]:
    return {
        "FLAGS_ps_on_trainer_loss": "shrink",
        "FLAGS_ps_reconnect": "300",
        "FLAGS_ps_dir": str(folder),
        "FLAGS_ps_log": "write",
        "FLAGS_log_level": "debug",
        **more,
    }


class Hand:
    """A trainer with a connection to each loop of each server; `at` names them by (server, loop)."""

    def __init__(self, job: Job, id: int, loops: int = 1, incarnation: int = 0):
        self.job, self.id, self.incarnation = job, id, incarnation or 100 + id
        self.at: dict[tuple[int, int], ps.Peer] = {}
        self.units: dict[tuple[int, int], dict[str, tuple[int, int]]] = {}  # name -> number of the gradient, of the value
        self.step = 0  # applied, as it was told last
        self.places = [(server, loop) for server in range(len(job.endpoints)) for loop in range(loops)]

    def ask(self, place: tuple[int, int], *names: str) -> None:
        """Sends OPEN; the answer comes when the servers agree that it is in the job."""
        peer = self.at[place] = ps.Peer(self.job.endpoints[place[0]], deadline=20)
        assert peer.greet(self.id, incarnation=self.incarnation, loop=place[1]).type == ps.WELCOME
        peer.send(ps.frame(ps.OPEN, ps.opening(*[ps.name(f"{n}@GRAD") for n in names],
                                               *[ps.name(n, is_pull=True) for n in names]), request=1))
        self.units[place] = dict.fromkeys(names, (ps.NOT_MINE, ps.NOT_MINE))

    def opened(self, place: tuple[int, int]) -> bool:
        got = self.at[place].answer()
        if got.type == ps.FAILED:
            return False
        assert got.type == ps.OPENED
        names = list(self.units[place])
        self.step, _, n = struct.unpack_from("<QQI", got.meta)
        numbers = struct.unpack_from(f"<{n}I", got.meta, 20)
        pairs = zip(names, zip(numbers[: len(names)], numbers[len(names) :]))
        self.units[place] = {name: pair for name, pair in pairs if pair[0] != ps.NOT_MINE}
        return True

    def join(self, server: int | None = None) -> "Hand":
        """Everywhere, or once more at one server."""
        places = [place for place in self.places if server in (None, place[0])]
        for place in places:
            self.ask(place, *NAMES)
        for place in places:
            if self.opened(place):
                continue
            for name in NAMES:  # this server has not all of them
                self.ask(place, name)
                if self.opened(place):
                    break
        return self

    def push(self, step: int, value: float) -> None:
        for place, peer in self.at.items():
            units = self.units[place]
            body = b"".join(np.full(NAMES[name], value, "float32").tobytes() for name in units)
            meta = ps.parts(*[(unit, 0, 0) for unit, _ in units.values()], wishes=[v for _, v in units.values()])
            assert peer.send(ps.frame(ps.PUSH, meta, body, flags=ps.END, step=step, request=step + 10))

    def give(self, step: int, name: str, value: float) -> None:
        """Only that, and does not end the push."""
        for place, peer in self.at.items():
            if name in self.units[place]:
                body = np.full(NAMES[name], value, "float32").tobytes()
                assert peer.send(ps.frame(ps.PUSH, ps.parts((self.units[place][name][0], 0, 0)), body, step=step, request=3))

    def values(self, step: int) -> dict[str, np.ndarray]:
        """What all servers answer to the push of this step."""
        found = {}
        for place, peer in self.at.items():
            got = peer.answer()
            assert (got.type, got.step) == (ps.VALUES, step), got
            at = 0
            for name in self.units[place]:
                found[name] = np.frombuffer(got.payload, "float32", NAMES[name], at)
                at += 4 * NAMES[name]
        return found

    def pull(self) -> dict[str, np.ndarray]:
        for place, peer in self.at.items():
            peer.send(ps.frame(ps.PULL, ps.numbers([v for _, v in self.units[place].values()]), request=5))
        return self.values(self.step)

    def leave(self, why: str = "") -> None:
        """Its work is done; or not, and why."""
        for peer in self.at.values():
            peer.send(ps.frame(ps.BYE, bytes([bool(why)]) + ps.text(why), request=9))
        for peer in self.at.values():
            assert peer.answer().type == ps.DONE
        self.die()

    def die(self) -> None:
        for peer in self.at.values():
            peer.socket.close()


FIRST_RECORD, SECTOR = 1536, 512


def crc32c(data: bytes, crc: int = 0) -> int:
    crc ^= 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def records(path: Path) -> list[tuple[int, int]]:
    """Kind and place of each record of a log."""
    data, at, found = path.read_bytes(), FIRST_RECORD, []
    while at < len(data):
        size, kind = struct.unpack_from("<Q", data, at + 8)[0], struct.unpack_from("<H", data, at + 68)[0]
        found.append((kind, at))
        at += 80 + (size + 15) // 16 * 16
    return found


def cut(path: Path, size: int) -> None:
    """As if the process had been killed when it had written so much: nothing behind it was committed."""
    data = bytearray(path.read_bytes()[:size])
    (seed,) = struct.unpack_from("<I", data, 92)
    mark = struct.pack("<QQI", size, 2**64 - 1, 0)
    for place in (SECTOR, 2 * SECTOR):
        data[place : place + 24] = mark + struct.pack("<I", crc32c(mark, seed))
    path.write_bytes(data)


def last_log(folder: Path, endpoint: str, loop: int = 0) -> Path:
    return sorted((folder / endpoint.replace(":", "_")).glob(f"log-{loop}-*"))[-1]


def cut_end(folder: Path, endpoint: str, loop: int = 0) -> None:
    path = last_log(folder, endpoint, loop)
    kind, at = records(path)[-1]
    assert kind == END_OF_STEP
    cut(path, at)


def cut_step(folder: Path, endpoint: str, loop: int = 0) -> None:
    """All of the last step."""
    path = last_log(folder, endpoint, loop)
    found = records(path)
    before = [i for i, (kind, _) in enumerate(found[:-1]) if kind == END_OF_STEP][-1]
    cut(path, found[before + 1][1])


def start_servers(job: Job, loops: int = 1, options: list[str] = OPTIONS) -> None:
    for i in range(len(job.endpoints)):
        job.start("server", i, *options, env={"FLAGS_ps_loops": str(loops)})
    for server in job.processes:
        server.wait_for("Server listening on")


def start_again(job: Job, index: int, loops: int = 1, options: list[str] = OPTIONS, **flags: str) -> Process:
    job.processes[index].close()
    server = job.start("server", index, *options, env={"FLAGS_ps_loops": str(loops), **flags})
    job.processes[index] = job.processes.pop()
    server.wait_for("Server listening on")
    return server


def lost_after(server: Process, loops: int = 1) -> list[int]:
    """The last step that counts trainer 1, as each loop of the server tells."""
    end = time.monotonic() + 20
    while len(steps := re.findall(r"trainer 1\b.*has been lost: the last step that counts it is (\d+)", server.output())) < loops:
        assert server.process.poll() is None and time.monotonic() < end, server.output()
        time.sleep(0.01)
    return [int(step) for step in steps]


def same(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> None:
    assert a.keys() == b.keys() == NAMES.keys()
    for name, value in a.items():
        np.testing.assert_array_equal(value, b[name])


@pytest.mark.parametrize("servers, loops, killed", [(2, 1, 1), (2, 1, 0), (1, 2, 0), (2, 2, 1)])
def test_a_server_and_a_trainer_die_in_one_step(tmp_path, servers, loops, killed):
    """The step counts the trainer on all servers and all their loops, as the others have it already."""
    with Job(servers, 2, env=env_of(tmp_path)) as job:
        start_servers(job, loops)
        stays, goes = Hand(job, 0, loops), Hand(job, 1, loops)
        for hand in (stays, goes):
            hand.join()
        first = stays.pull()
        stays.push(1, 1.0)
        goes.push(1, 5.0)
        want = stays.values(1)
        goes.values(1)
        for name in NAMES:
            np.testing.assert_allclose(want[name], first[name] - RATE * 3, rtol=1e-6)
        job.processes[killed].kill()
        goes.die()
        cut_end(tmp_path, job.endpoints[killed], loops - 1)
        again = start_again(job, killed, loops)
        stays.join(killed)
        assert stays.step == 1
        same(stays.pull(), want)
        if servers == 1:  # nobody knows that it was lost: somebody else comes for it
            goes = Hand(job, 1, loops, incarnation=77).join()
            assert goes.step == 1
            goes.die()
        assert [step for server in job.processes for step in lost_after(server, loops)] == [1] * (servers * loops)
        stays.push(2, 2.0)
        got = stays.values(2)
        for name in NAMES:
            np.testing.assert_allclose(got[name], want[name] - RATE * 2, rtol=1e-6)
        stays.leave()
        job.end(20)
        assert "waiting for the other servers" in again.output() or killed or servers == 1


@pytest.mark.parametrize("policy", ["fail", "shrink"])
@pytest.mark.parametrize("behind", [0, 1])
def test_a_snapshot_step_that_one_loop_has_behind_it(tmp_path, policy, behind):
    """Killed when one loop had applied it and the other not: no snapshot of it, but of the next one, and nobody waits."""
    with Job(1, 2, env=env_of(tmp_path, FLAGS_ps_on_trainer_loss=policy, FLAGS_ps_reconnect="20000")) as job:
        start_servers(job, loops=2)
        hands = [Hand(job, i, loops=2).join() for i in range(2)]
        for hand in hands:
            hand.push(1, 1.0 + hand.id)
        want = [hand.values(1) for hand in hands]
        job.processes[0].kill()
        cut_end(tmp_path, job.endpoints[0], loop=behind)
        server = start_again(job, 0, loops=2, FLAGS_ps_snapshot_steps="1")
        for hand in hands:  # an OPEN is answered when all loops agree on it
            for place in hand.places:
                hand.ask(place, *NAMES)
        for hand in hands:
            assert all(hand.opened(place) for place in hand.places)
            hand.push(1, 1.0 + hand.id)
        for hand, values in zip(hands, want):
            same(hand.values(1), values)
            hand.push(2, 1.0)
        for hand, values in zip(hands, want):
            got = hand.values(2)
            for name in NAMES:
                np.testing.assert_allclose(got[name], values[name] - RATE, rtol=1e-6)
        for hand in hands:
            for peer in hand.at.values():
                peer.send(ps.frame(ps.BYE, b"\0" + ps.text(""), request=9))
        job.end(20)
        assert "snapshot of step 2" in server.output() and "snapshot of step 1:" not in server.output()


@pytest.mark.parametrize("policy", ["fail", "shrink"])
@pytest.mark.parametrize("behind", [0, 1])
def test_norms_of_a_step_that_one_server_has_applied(tmp_path, policy, behind):
    """All servers are killed; one of them had applied a clipped step, the other has to do it again, by the same norm."""
    options = [*OPTIONS, "--clip", "global_norm"]
    with Job(2, 2, env=env_of(tmp_path, FLAGS_ps_on_trainer_loss=policy, FLAGS_ps_reconnect="20000")) as job:
        start_servers(job, options=options)
        hands = [Hand(job, 0).join(), Hand(job, 1).join()]
        for step in (1, 2):
            for hand in hands:
                hand.push(step, step + 3.0 * hand.id)
            want = [hand.values(step) for hand in hands]
        for server in job.processes:
            server.kill()
        cut_end(tmp_path, job.endpoints[behind])
        for index in (0, 1):
            start_again(job, index, options=options)
        for hand in hands:  # OPENs are answered when all agree on them
            for place in hand.places:
                hand.ask(place, *[name for name in hand.units[place]])
        for hand in hands:
            assert all(hand.opened(place) for place in hand.places)
            hand.push(2, 2 + 3.0 * hand.id)
        for hand, values in zip(hands, want):
            same(hand.values(2), values)
            hand.push(3, 1.0)
        same(hands[0].values(3), hands[1].values(3))
        for hand in hands:
            for peer in hand.at.values():
                peer.send(ps.frame(ps.BYE, b"\0" + ps.text(""), request=9))
        job.end(20)


def test_the_first_server_waits_for_a_word_of_the_others(tmp_path):
    """Nothing is decided before, it tells whom it waits for, and goes on when it knows."""
    with Job(2, 2, env=env_of(tmp_path, FLAGS_ps_notice="200")) as job:
        start_servers(job)
        stays, goes = Hand(job, 0).join(), Hand(job, 1).join()
        stays.push(1, 1.0), goes.push(1, 5.0)
        want = stays.values(1)
        goes.values(1)
        job.processes[1].signal(signal.SIGSTOP)
        job.processes[0].kill()
        goes.die()
        cut_end(tmp_path, job.endpoints[0])
        first = start_again(job, 0)
        early = Hand(job, 0)
        early.ask((0, 0))
        first.wait_for(f"s for server {job.endpoints[1]} to say whether step 1 was applied")
        early.at[0, 0].socket.settimeout(0.5)
        with pytest.raises(TimeoutError):
            early.at[0, 0].answer()
        early.die()
        job.processes[1].signal(signal.SIGCONT)
        first.wait_for("step 1 was applied by another server")
        stays.join(0)
        assert stays.step == 1
        same(stays.pull(), want)
        assert [step for server in job.processes for step in lost_after(server)] == [1, 1]
        stays.leave()
        job.end(20)


def test_a_step_that_nobody_has_applied_is_open(tmp_path):
    """All servers are killed before any has applied it: trainers give it anew, and only that counts."""
    with Job(2, 2, env=env_of(tmp_path)) as job:
        start_servers(job)
        stays, goes = Hand(job, 0).join(), Hand(job, 1).join()
        first = stays.pull()
        stays.push(1, 1.0), goes.push(1, 5.0)
        stays.values(1), goes.values(1)
        for i in range(2):
            job.processes[i].kill()
            cut_end(tmp_path, job.endpoints[i])
        goes.die(), stays.die()
        start_again(job, 0).wait_for("waiting for the other servers to say whether it was applied")
        start_again(job, 1)
        job.processes[0].wait_for("no server has applied step 1")
        stays = Hand(job, 0).join()
        comes = Hand(job, 1, incarnation=77).join()
        assert stays.step == comes.step == 0
        same(stays.pull(), first)
        stays.push(1, 1.0), comes.push(1, 9.0)
        got = stays.values(1)
        comes.values(1)
        for name in NAMES:
            np.testing.assert_allclose(got[name], first[name] - RATE * 5, rtol=1e-6)
        # Once more from the logs, which have both: the last one counts.
        for i in range(2):
            job.processes[i].kill()
        stays.die(), comes.die()
        for i in range(2):
            start_again(job, i)
        stays, comes = Hand(job, 0).join(), Hand(job, 1, incarnation=77).join()
        same(stays.pull(), got)
        stays.leave(), comes.leave()
        job.end(20)


def step_then_kill(job: Job) -> list[Hand]:
    """Two trainers give to step 1, which both servers apply; then all servers are killed."""
    start_servers(job)
    hands = [Hand(job, i).join() for i in range(2)]
    for hand in hands:
        hand.push(1, 1.0)
    for hand in hands:
        hand.values(1)
    for server in job.processes:
        server.kill()
    return hands


def test_the_first_server_ends_when_all_have_left(tmp_path):
    """Its book says that all trainers had left: it asks nobody, and ends although the other server is gone."""
    with Job(2, 2, env=env_of(tmp_path)) as job:
        hands = step_then_kill(job)
        cut_end(tmp_path, job.endpoints[0])
        book = tmp_path / job.endpoints[0].replace(":", "_") / "trainers"
        book.write_text(book.read_text() + "".join(ps.book_line(f"{how} {hand.id} {hand.incarnation:016x} 0")
                                                   for hand, how in zip(hands, ("done", "lost"))))
        for hand in hands:
            hand.die()
        job.processes.pop().close()
        again = start_again(job, 0)
        assert again.end(20) == 0 and "the job is done" in again.output(), again.output()


def test_the_first_server_does_not_wait_for_ever(tmp_path):
    """A trainer waits, and the other server does not come: the server gives up at the deadline, and says what it lacks."""
    with Job(2, 2, env=env_of(tmp_path, FLAGS_rpc_deadline="1500")) as job:
        hands = step_then_kill(job)
        for hand in hands:
            hand.die()
        cut_end(tmp_path, job.endpoints[0])
        job.processes.pop().close()
        first = start_again(job, 0)
        Hand(job, 0).ask((0, 0))
        assert first.end(20) == 1
        assert f"for server {job.endpoints[1]} to say whether step 1 was applied: given up" in first.output()


@pytest.mark.parametrize("mode", [[], ["--async"]], ids=["sync", "async"])
def test_a_step_that_is_in_the_log_twice_counts_once(tmp_path, mode):
    """Killed before END and started again: the trainer sends the step once more, and the next replay does only that."""
    with Job(1, 2, env=env_of(tmp_path, FLAGS_ps_on_trainer_loss="wait", FLAGS_ps_loops="1")) as job:

        def start() -> list[Hand]:
            job.start("server", 0, *OPTIONS, *mode).wait_for("Server listening on")
            return [Hand(job, i).join() for i in range(2)]

        def kill() -> None:
            for hand in hands:
                hand.die()
            job.processes.pop().close()

        hands = start()
        for hand in hands:
            hand.push(1, 1.0)
        for hand in hands:
            hand.values(1)
        kill()
        cut_end(tmp_path, job.endpoints[0])
        hands = start()
        for hand in hands:
            hand.push(1, 1.0)
        hands[0].values(1)
        got = hands[1].values(1)
        kill()
        hands = start()
        same(hands[0].pull(), got)
        for hand in hands:
            hand.leave()
        job.end(20)


@pytest.mark.parametrize("end", ["sigterm", "kill"])
@pytest.mark.parametrize("log", ["", "write"])
@pytest.mark.parametrize("loops", [1, 2])
def test_a_snapshot_in_the_middle_of_a_push(tmp_path, loops, log, end):
    """Async: what is in the snapshot of a push that had not ended counts once when it is sent again, also by another process, which
    may have computed something else."""
    options = [*OPTIONS, "--async"]
    env = env_of(tmp_path, FLAGS_ps_log=log, FLAGS_ps_reconnect="20000", FLAGS_ps_snapshot_seconds="0" if end == "sigterm" else "1")
    with Job(1, 2, env=env) as job:

        def end_it() -> None:
            if end == "kill":
                job.processes[0].wait_for("snapshot of step")
                job.processes[0].kill()
            else:
                job.processes[0].signal(signal.SIGTERM)
                assert job.processes[0].end(20) == 0
            hand.die(), other.die()

        def give_and_end(step: int, value: float) -> None:
            hand.give(step, "fc_0.w_0", value)
            hand.pull()
            other.push(step, 0.0)  # there is a step to cut at, not before
            other.values(step)
            end_it()

        start_servers(job, loops, options)
        hand, other = Hand(job, 0, loops).join(), Hand(job, 1, loops).join()
        first = hand.pull()
        give_and_end(1, 1.0)
        start_again(job, 0, loops, options)
        hand, other = Hand(job, 0, loops).join(), Hand(job, 1, loops).join()
        hand.push(1, 1.0)
        got = hand.values(1)
        for name in NAMES:
            np.testing.assert_allclose(got[name], first[name] - RATE, rtol=1e-5)
        give_and_end(2, 5.0)
        start_again(job, 0, loops, options)
        hand, other = Hand(job, 0, loops, incarnation=77).join(), Hand(job, 1, loops).join()
        hand.push(2, 1.0)
        got = hand.values(2)
        np.testing.assert_allclose(got["fc_0.w_0"], first["fc_0.w_0"] - RATE * 6, rtol=1e-5)
        np.testing.assert_allclose(got["fc_0.b_0"], first["fc_0.b_0"] - RATE * 2, rtol=1e-5)
        hand.leave(), other.leave()
        job.end(20)


@pytest.mark.parametrize("killed", [1, 0], ids=["other", "first"])
def test_an_accepted_rollback(tmp_path, killed):
    """A server that forgot goes on with its older parameters, at the step of the others."""
    env = env_of(tmp_path, FLAGS_ps_log="", FLAGS_ps_accept_rollback="1", FLAGS_ps_reconnect="3000")
    with Job(2, 2, env=env) as job:
        start_servers(job)
        hands = [Hand(job, i).join() for i in range(2)]
        first = hands[0].pull()
        for step in (1, 2, 3):
            for hand in hands:
                hand.push(step, 1.0)
            for hand in hands:
                before = hand.values(step)
        job.processes[killed].kill()
        again = start_again(job, killed)
        for hand in hands:
            hand.join(killed)
            assert hand.step == 3
        assert "came back with step 0, and the job is at step 3" in again.output()
        for hand in hands:
            hand.push(4, 1.0)
        after, _ = [hand.values(4) for hand in hands]
        forgot = {name for place, units in hands[0].units.items() if place[0] == killed for name in units}
        for name in NAMES:
            np.testing.assert_allclose(after[name], (first if name in forgot else before)[name] - RATE, rtol=1e-6)
        for hand in hands:
            hand.leave()
        job.end(20)


@pytest.mark.parametrize("killed", [1, 0], ids=["other", "first"])
def test_a_rollback_of_one_step_that_only_trainers_accept(tmp_path, killed):
    """Servers let one be a single step behind: trainers pass that step there, and all are in the same one again."""
    options = ["--model", "fit_a_line", "--steps", "20", "--pause-at", "11", "--linger", str(tmp_path / "go")]
    env = env_of(tmp_path, FLAGS_ps_log="", FLAGS_ps_snapshot_steps="10", FLAGS_ps_reconnect="20000", FLAGS_rpc_deadline="15000")
    with Job(2, 2, env=env) as job:
        servers = [job.start("server", i, *options) for i in range(2)]
        trainers = [job.start("trainer", i, *options, env={"FLAGS_ps_accept_rollback": "1"}) for i in range(2)]
        for p in trainers:
            p.wait_for("pauses")
        servers[killed].wait_for("snapshot of step 10")
        servers[killed].kill()
        job.processes.remove(servers[killed])
        again = job.start("server", killed, *options)
        again.wait_for("taken up at step 10")
        (tmp_path / "go").touch()
        job.end(20)
        for i in range(2):
            assert "came back with step 10 instead of 11" in trainers[i].output()
            assert re.search(f"trainer {i} .* passes step 11", again.output())
            assert re.search(f"trainer {i} .* has left: the last step that counts it is 20", again.output())


@pytest.mark.parametrize("behind", [0, 1])
def test_an_accepted_rollback_of_one_loop_at_a_snapshot_step(tmp_path, behind):
    """The other loop has the step in its log, ready to be applied: it does not stand there and wait for the one that jumps over
    it."""
    env = env_of(tmp_path, FLAGS_ps_accept_rollback="1", FLAGS_ps_reconnect="20000")
    with Job(2, 2, env=env) as job:
        start_servers(job, loops=2)
        hands = [Hand(job, i, loops=2).join() for i in range(2)]
        for step in (1, 2):
            for hand in hands:
                hand.push(step, 1.0)
            for hand in hands:
                hand.values(step)
        job.processes[1].kill()
        cut_step(tmp_path, job.endpoints[1], loop=behind)
        cut_end(tmp_path, job.endpoints[1], loop=1 - behind)
        again = start_again(job, 1, loops=2, FLAGS_ps_snapshot_steps="1")
        for hand in hands:
            hand.join(1)
            assert hand.step == 2
        assert "came back with step 1, and the job is at step 2" in again.output()
        for hand in hands:
            hand.push(3, 1.0)
        for hand in hands:
            hand.values(3)
        for hand in hands:
            for peer in hand.at.values():
                peer.send(ps.frame(ps.BYE, b"\0" + ps.text(""), request=9))
        job.end(20)
        assert "snapshot of step 3" in again.output() and "snapshot of step 2:" not in again.output()


@pytest.mark.parametrize("killed", [1, 0], ids=["other", "first"])
def test_a_server_that_forgot_is_refused(tmp_path, killed):
    """It cannot agree on steps with the others: one of them says so at once, and what to do."""
    with Job(2, 2, env=env_of(tmp_path, FLAGS_ps_log="", FLAGS_ps_reconnect="3000")) as job:
        start_servers(job)
        hands = [Hand(job, i).join() for i in range(2)]
        for step in (1, 2, 3):
            for hand in hands:
                hand.push(step, 1.0)
            for hand in hands:
                hand.values(step)
        job.processes[killed].kill()
        start_again(job, killed)
        assert job.processes[1].end(20) == 1
        assert (f"server {job.endpoints[killed]} came back with step 0, but the job is at step 3: it "
                "lost updates") in job.processes[1].output()
