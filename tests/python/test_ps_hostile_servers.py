"""Strangers that call themselves servers: sums and orders that do not fit change nothing."""

import os
import random
import struct
import sys

import numpy as np
import ps_peer as ps
from cluster import JOBS, Job

import paddle.fluid as fluid

MESSAGES = 10000 if os.environ.get("PADDLE_SOAK") else 400
FAR = 1 << 62


def sums_of(endpoints: list[str], options: list[str]) -> list:
    """The ps_sum ops of a server, as its own process makes them."""
    sys.path.insert(0, str(JOBS))
    argv = sys.argv
    sys.argv = ["equality.py", "server", *options]
    try:
        import equality

        args = equality.parse()
        with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
            equality.build(args)
            t = fluid.DistributeTranspiler()
            t.transpile(0, pservers=",".join(endpoints), trainers=2)
            program = t.get_pserver_program(endpoints[0])
    finally:
        sys.argv = argv
        sys.path.remove(str(JOBS))
    return [op for block in program.blocks for op in block.ops if op.type == "ps_sum"]


def summing(group: str, server: int, servers: int, values: list[float], step: int) -> bytes:
    meta = ps.text(group) + struct.pack(f"<III{len(values)}d", server, servers, len(values), *values)
    return ps.frame(ps.SUM, meta, request=1, step=step)


def test_sums_that_the_program_does_not_have(tmp_path):
    """Other groups, sizes, numbers of servers, steps: refused, logged, not kept; the clip goes on over the true ones. Once the
    true second server is there, nobody else gets in as it."""
    options = ["--model", "fit_a_line", "--steps", "1500", "--clip", "global_norm"]
    wanted = {}
    for name, is_disturbed in (("quiet", False), ("loud", True)):
        out = tmp_path / name
        out.mkdir()
        with Job(2, 2) as job:
            (op,) = sums_of(job.endpoints, options)
            group, n, servers = op.attr("groups")[0], len(op.input("X")), len(op.attr("endpoints"))

            def say(i: int) -> None:
                far = FAR if i % 2 else 1 << 40
                said = [
                    (f"group {i}", 1, servers, [1.0] * n, 1),
                    (f"group {i}", 1, 4096, [1.0] * 4096, 1),
                    (group, 1, servers, [1.0] * (n + 1), 1),
                    (group, 1, 4096, [1.0] * n, 1),
                    (group, 1, 0xFFFFFFFF, [1.0] * n, 1),
                    (group, 1, servers, [1.0] * n, far),
                    (group, 7, servers, [1.0] * n, 1),
                ][i % 7]
                with ps.Peer(job.endpoints[0]) as peer:
                    peer.greet(1, role=ps.SERVER)
                    peer.send(summing(*said))
                    assert peer.drain() == []  # hung up on

            files = {role: [str(out / f"{role}-{i}.npz") for i in range(2)] for role in ("server", "trainer")}
            server = job.start("server", 0, *options, "--out", files["server"][0])
            server.wait_for("Server listening on")
            for i in range(28 if is_disturbed else 0):
                say(i)
            job.start("server", 1, *options, "--out", files["server"][1])
            for i in range(2):
                job.start("trainer", i, *options, "--out", files["trainer"][i])
            server.wait_for("trainer 1 (host")
            for i in range(300 if is_disturbed else 0):
                try:
                    say(i)
                except (OSError, ps.Gone):
                    if server.process.poll() is not None:
                        break  # it is over
            job.end(60)
            if is_disturbed:
                assert "refused: a SUM of 'group 0'" in server.output() and "a SUM of step" in server.output()
                assert "nobody takes its place while it is there" in server.output()
        wanted[name] = dict(np.load(out / "trainer-0.npz"))
    for key, value in wanted["quiet"].items():
        np.testing.assert_allclose(wanted["loud"][key], value, rtol=1e-6, atol=1e-7)


def test_the_order_of_steps_is_not_disturbed(tmp_path):
    """Messages between servers that do not fit, from somebody who calls itself a server."""
    options = ["--model", "mlp", "--optimizer", "momentum", "--steps", "300"]
    wanted = {}
    for name, is_disturbed in (("quiet", False), ("loud", True)):
        out = tmp_path / name
        out.mkdir()
        rng = random.Random(3)
        with Job(2, 2, env={"FLAGS_ps_on_trainer_loss": "shrink"}) as job:
            job.start_all(*options, out=out)
            server = job.processes[0]
            server.wait_for("trainer 1 (host")
            sent = 0
            while is_disturbed and sent < MESSAGES and server.process.poll() is None:
                said = rng.choice(
                    [
                        lambda: ps.frame(ps.ORDER, struct.pack("<I", 0xFFFFFFFF), step=1),
                        lambda: ps.frame(ps.ORDER, struct.pack("<IBQ", 2, 1, 5), step=FAR),
                        lambda: ps.frame(ps.ORDER, struct.pack("<I", 2) + b"\x09" * 18),
                        lambda: ps.frame(ps.WANT, struct.pack("<IBQ", rng.choice([2, 0xFFFFFFFF, 0x80000000]), 3, 5)),
                        lambda: ps.frame(ps.WANT, struct.pack("<IBQ", 0, rng.choice([0, 4, 255]), 5)),
                        lambda: ps.frame(ps.READY, step=rng.choice([1, FAR])),
                        lambda: ps.frame(rng.randrange(25, 50), rng.randbytes(rng.randrange(30)), step=FAR),
                    ]
                )()
                try:
                    with ps.Peer(rng.choice(job.endpoints)) as peer:
                        peer.greet(rng.choice([-1, 0, 1, 2, FAR & 0x7FFFFFFF]), role=ps.SERVER)
                        peer.send(said)
                        assert peer.drain() == []  # hung up on
                except (OSError, ps.Gone):
                    pass  # hung up on before it was said; or the job is over, which the loop sees
                sent += 1
            job.end(60)
            assert not is_disturbed or (sent > 20 and "refused" in server.output())
        wanted[name] = dict(np.load(out / "trainer-0.npz"))
    for key, value in wanted["quiet"].items():
        np.testing.assert_allclose(wanted["loud"][key], value, rtol=1e-6, atol=1e-7)
