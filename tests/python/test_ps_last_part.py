"""Adam's powers of beta advance once a step, with the last part of a gradient that a server applies, whichever that is. A server
that is killed and does its log again has the parameters that it had acknowledged, and goes on as one that was not killed
(jobs/wide.py; the trainers are written out by hand, so that it is known in which order parts come)."""

import struct
import sys

import numpy as np
import ps_peer as ps
import pytest
from cluster import JOBS, Job, Process

sys.path.insert(0, str(JOBS))
from wide import ROWS, WIDTH  # noqa: E402

PARTS = 4
IN_ORDER = (0, 1, 2, 3)


class Hand(ps.Peer):
    """A trainer that knows the gradient and the value of `v`."""

    def join(self, id: int) -> "Hand":
        assert self.greet(id, incarnation=100 + id).type == ps.WELCOME
        opened = self.open(ps.name("v@GRAD"), ps.name("v", is_pull=True))
        assert opened.type == ps.OPENED, opened.text()
        self.unit, self.value = struct.unpack_from("<2I", opened.meta, 20)
        return self

    def give(self, step: int, *parts: int) -> None:
        body = np.full(ROWS * WIDTH // PARTS, 0.25 * step, "float32").tobytes()
        for part in parts:
            self.send(ps.frame(ps.PUSH, ps.parts((self.unit, part, 0)), body, step=step, request=3))

    def values(self) -> np.ndarray:
        got = self.answer()
        assert got.type == ps.VALUES, got.text()
        return np.frombuffer(got.payload, "float32").reshape(PARTS, -1)

    def pull(self) -> np.ndarray:
        """Also waits until the server has seen all that was sent here."""
        self.send(ps.frame(ps.PULL, ps.numbers([self.value]), request=5))
        return self.values()

    def end(self, step: int) -> np.ndarray:
        self.send(ps.frame(ps.PUSH, ps.parts(wishes=[self.value]), flags=ps.END, step=step, request=4))
        return self.values()

    def leave(self) -> None:
        self.send(ps.frame(ps.BYE, b"\0" + ps.text(""), request=9))
        assert self.answer().type == ps.DONE
        self.socket.close()


def served(job: Job, *options: str) -> Process:
    server = job.start("server", 0, *options)
    server.wait_for("Server listening on")
    return server


def any_order(job: Job) -> tuple[Hand, np.ndarray]:
    hand = Hand(job.endpoints[0], 30).join(0)
    hand.give(1, 1, 3, 2, 0)
    return hand, hand.end(1)


def one_leaves(job: Job) -> tuple[Hand, np.ndarray]:
    """Trainer 1 leaves while trainer 0 is in its push: what it gave before that waits, the others are applied as they come."""
    hands = [Hand(job.endpoints[0], 30).join(i) for i in range(2)]
    hands[0].give(1, 0)
    hands[0].pull()
    hands[1].leave()
    hands[0].give(1, 1, 2, 3)
    return hands[0], hands[0].end(1)


@pytest.mark.parametrize("trainers, first_step, mode", [(1, any_order, []), (1, any_order, ["--async"]), (2, one_leaves, [])],
                         ids=["sync", "async", "one leaves"])
def test_the_log_done_again_counts_parts_as_it_was(tmp_path, trainers, first_step, mode):
    ends = []
    for is_killed in (False, True):
        root = tmp_path / str(is_killed)
        with Job(1, trainers, "wide.py", {"FLAGS_ps_dir": str(root), "FLAGS_ps_log": "write",
                                          "FLAGS_ps_loops": "1", "PADDLE_PS_TRANSPORT": "tcp"}) as job:
            options = ["--rule", "adam", *mode]
            server = served(job, *options)
            hand, acknowledged = first_step(job)
            if is_killed:
                server.kill()
                server = served(job, *options)
                hand = Hand(job.endpoints[0], 30).join(0)
                np.testing.assert_array_equal(hand.pull(), acknowledged)
            hand.give(2, *IN_ORDER)
            ends.append(hand.end(2))
            hand.leave()
            assert server.end(30) == 0, server.output()
    np.testing.assert_array_equal(ends[0], ends[1])
    assert len(np.unique(ends[0])) == 1  # all parts had the same rate
