"""What somebody without the secret can do to a job that has none: nothing that stops it, and nothing in another's name."""

import json
import struct

import numpy as np
import ps_peer as ps
import pytest
from cluster import Job, until

SMALL = ["--model", "fit_a_line", "--optimizer", "momentum"]
IN = 1


def members(peer: ps.Peer, trainers: int) -> list[tuple[int, int]]:
    """(state, incarnation) of each trainer, as the first server tells them to somebody who says that it is a server."""
    peer.send(ps.frame(ps.ORDER, struct.pack("<I", trainers) + struct.pack("<BQ", 0, 0) * trainers))
    got = peer.answer()
    return [struct.unpack_from("<BQ", got.meta, 4 + 9 * i) for i in range(trainers)]


def asked(endpoint: str) -> bytes:
    """What a server tells of itself."""
    with ps.Peer(endpoint) as tool:
        assert tool.greet(-1, role=ps.TOOL).type == ps.WELCOME
        tool.send(ps.frame(ps.STATUS, flags=1, request=1))
        return tool.answer().payload


def test_incarnations_are_told_to_nobody(tmp_path):
    """A stranger that stands for a server which is not there learns who is in the job, and cannot use it."""
    with Job(2, 2, env={"FLAGS_ps_on_trainer_loss": "shrink"}) as job:
        go = tmp_path / "go"
        server = job.start("server", 0, *SMALL)
        server.wait_for("Server listening on")
        trainer = job.start("trainer", 0, *SMALL)
        with ps.Peer(job.endpoints[0]) as peer:
            assert peer.greet(1, role=ps.SERVER).type == ps.WELCOME
            found = members(peer, 2)
            while found[0][0] != IN:
                frame = peer.answer()  # CHANGED
                trainer_id, state, mark = struct.unpack("<IBQ", frame.meta)
                found[trainer_id] = (state, mark)
            mark = found[0][1]
        assert mark
        for incarnation in (mark, mark - 1, mark & ~1):
            with ps.Peer(job.endpoints[0]) as thief:
                assert thief.greet(0, incarnation=incarnation).type == ps.WELCOME
                answer = thief.open()
                assert answer.type == ps.FAILED and "is in the job" in answer.text()
        assert not go.exists() and trainer.process.poll() is None


def test_a_server_that_is_there_is_not_replaced(tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    with Job(2, 2, env={"FLAGS_ps_on_trainer_loss": "shrink"}) as job:
        go = tmp_path / "go"
        pause = ["--pause-at", "3", "--linger", str(go)]
        job.start_all(*SMALL, *pause, "--steps", "20", out=out)
        for trainer in job.processes[2:]:
            trainer.wait_for("pause", 40)
        with ps.Peer(job.endpoints[0]) as peer:
            refused = peer.greet(1, role=ps.SERVER)
            assert refused.type == ps.REFUSED and "nobody takes its place" in refused.text()
        with ps.Peer(job.endpoints[0]) as peer:
            refused = peer.greet(5, role=ps.SERVER)
            assert refused.type == ps.REFUSED and "the job has 2" in refused.text()
        job.processes[0].wait_for("was not accepted: it calls itself server 1")
        go.touch()
        job.end(60)


def test_a_server_of_another_host_is_refused():
    """The list has it elsewhere, and there is no secret."""
    with Job(1, 1) as job:
        here = job.endpoints[0]
        job.endpoints = [here, "192.0.2.7:6174"]  # an address that nobody has
        server = job.start("server", 0, *SMALL)
        server.wait_for("Server listening on")
        with ps.Peer(here) as peer:
            refused = peer.greet(1, role=ps.SERVER)
            assert refused.type == ps.REFUSED
            assert "192.0.2.7:6174" in refused.text() and "PADDLE_PS_SECRET" in refused.text()
        server.wait_for("was not accepted: it calls itself server 1")
    with Job(1, 1, env={"PADDLE_PS_SECRET": "0123456789abcdef"}) as job:
        here = job.endpoints[0]
        job.endpoints = [here, "192.0.2.7:6174"]
        job.start("server", 0, *SMALL).wait_for("Server listening on")
        with ps.Peer(here) as peer:
            assert peer.greet(1, b"0123456789abcdef", role=ps.SERVER).type == ps.WELCOME


@pytest.mark.parametrize("role", [ps.TOOL, ps.TRAINER], ids=["tools", "trainers that do not open"])
def test_idle_connections_leave_files_to_the_job(tmp_path, role):
    """As many as the server may have files open: snapshots and logs are written all the same, and a tool is answered."""

    class Few(Job):
        def prefix(self, kind: str, index: int) -> list[str]:
            return ["prlimit", "--nofile=256:256"] if kind == "server" else []

    env = {"FLAGS_ps_dir": str(tmp_path / "ps"), "FLAGS_ps_log": "write", "FLAGS_ps_snapshot_steps": "50",
           "FLAGS_ps_reconnect": "60000"}
    with Few(1, 2, env=env) as job:
        go = tmp_path / "go"
        options = [*SMALL, "--steps", "400", "--pause-at", "5", "--linger", str(go)]
        server = job.start("server", 0, *options)
        server.wait_for("Server listening on")
        trainers = [job.start("trainer", i, *options, env={"PADDLE_PS_TRANSPORT": "tcp"}) for i in range(2)]
        for trainer in trainers:
            trainer.wait_for("pause", 40)
        idle = []
        for _ in range(300):
            try:
                peer = ps.Peer(job.endpoints[0], deadline=2)
                idle.append(peer)
                peer.greet(-1, role=role)
            except (OSError, ps.Gone):
                pass  # it has enough of them
        go.touch()
        for trainer in trainers:
            assert trainer.end(60) == 0
        assert server.end(30) == 0
        assert "oo many open files" not in server.output()
        for peer in idle:
            peer.socket.close()


def test_what_a_stranger_says_of_names_is_bounded():
    """Before it has opened a connection may say no more than the Program has to say."""
    with Job(1, 1) as job:
        server = job.start("server", 0, *SMALL)
        server.wait_for("Server listening on")
        for type in (ps.OPEN, ps.PROGRAM):
            with ps.Peer(job.endpoints[0]) as peer:
                assert peer.greet(0).type == ps.WELCOME
                peer.send(ps.head(type, meta=4 << 20) + bytes(100))
                assert all(frame.type == ps.FAILED for frame in peer.drain())
        with ps.Peer(job.endpoints[0]) as peer:
            assert peer.greet(0).type == ps.WELCOME
            answer = peer.open(*[ps.name("fc_0.w_0", is_pull=True)] * 500)
            assert answer.type == ps.FAILED and "500 names" in answer.text()
        server.wait_for("here the most is")


# ---- what is said of secrets and jobs ----


@pytest.mark.parametrize("who", ["server", "trainer"])
def test_an_empty_secret_is_an_error(who):
    with Job(1, 1) as job:
        process = job.start(who, 0, *SMALL, env={"PADDLE_PS_SECRET": ""})
        assert process.end(40) != 0
        assert "PADDLE_PS_SECRET is set and empty" in process.output()


def test_weak_secrets_are_told(tmp_path):
    path = tmp_path / "secret"
    path.write_text("a secret that is long enough\n")
    for mode, env, text in [
        (0o600, {"PADDLE_PS_SECRET": "short"}, "has 5 characters"),
        (0o644, {"PADDLE_PS_SECRET_FILE": str(path)}, "can be read by other users"),
        (0o600, {"PADDLE_PS_SECRET_FILE": str(path)}, None),
    ]:
        path.chmod(mode)
        with Job(1, 1, env=env) as job:
            server = job.start("server", 0, *SMALL, "--steps", "2")
            trainer = job.start("trainer", 0, *SMALL, "--steps", "2")
            job.end(40)
            for process in (server, trainer):
                assert (text or "warning") in process.output() if text else "warning" not in process.output(), process.output()


@pytest.mark.parametrize("at", ["server", "trainer"])
def test_a_job_name_on_one_side_is_refused(at):
    with Job(1, 1) as job:
        name = {"FLAGS_ps_job": "nightly"}
        server = job.start("server", 0, *SMALL, env=name if at == "server" else {})
        server.wait_for("Server listening on")
        trainer = job.start("trainer", 0, *SMALL, env=name if at == "trainer" else {})
        assert trainer.end(40) != 0
        assert "'nightly'" in trainer.output() and "FLAGS_ps_job" in trainer.output()


def test_who_can_be_reached_without_a_secret_is_warned():
    for bind, env, is_warned in [("0.0.0.0", {}, True), ("", {}, False),
                                 ("0.0.0.0", {"PADDLE_PS_SECRET": "0123456789abcdef"}, False)]:
        with Job(1, 1, env=env | ({"PADDLE_PS_BIND": bind} if bind else {})) as job:
            server = job.start("server", 0, *SMALL)
            server.wait_for("Server listening on")
            assert ("has no secret" in server.output()) == is_warned


def test_losses_are_those_of_a_job_alone(tmp_path):
    """Strangers of all roles come and go while it trains."""
    results = {}
    for name, is_disturbed in (("quiet", False), ("loud", True)):
        out = tmp_path / name
        out.mkdir()
        with Job(2, 2, env={"FLAGS_ps_on_trainer_loss": "shrink"}) as job:
            job.start_all(*SMALL, "--steps", "600", out=out)
            job.processes[0].wait_for("trainer 1 (host")
            sent = 0
            while is_disturbed and job.processes[0].process.poll() is None and sent < 300:
                try:
                    with ps.Peer(job.endpoints[sent % 2]) as peer:
                        welcome = peer.greet(sent % 2, role=[ps.SERVER, ps.TOOL, ps.TRAINER][sent % 3])
                        if welcome.type == ps.WELCOME:
                            peer.send(ps.frame(ps.WANT, struct.pack("<IBQ", 0, 3, 5)) +
                                      ps.frame(ps.SUM, b"") + ps.frame(ps.PUSH, b""))
                except (OSError, ps.Gone):
                    pass
                sent += 1
            job.end(60)
        results[name] = dict(np.load(out / "trainer-0.npz"))
    for key, value in results["quiet"].items():
        np.testing.assert_allclose(results["loud"][key], value, rtol=1e-6, atol=1e-7)


def test_who_came_beside_a_trainer_does_not_take_its_place_when_its_connection_breaks():
    """The trainer comes back; a process that has been started in its place comes in at once."""
    with Job(1, 1, env={"FLAGS_ps_on_trainer_loss": "wait", "FLAGS_ps_reconnect": "60000"}) as job:
        server = job.start("server", 0, *SMALL)
        server.wait_for("Server listening on")

        def comes(incarnation: int) -> tuple[ps.Peer, ps.Frame]:
            peer = ps.Peer(job.endpoints[0])
            assert peer.greet(0, incarnation=incarnation).type == ps.WELCOME
            return peer, peer.open()

        def breaks(peer: ps.Peer) -> None:
            peer.socket.close()
            until(lambda: json.loads(asked(job.endpoints[0]))["trainers"][0]["away_s"] > 0)

        first, answer = comes(101)
        assert answer.type == ps.OPENED
        for beside in range(201, 204):
            peer, answer = comes(beside)
            peer.socket.close()
            assert answer.type == ps.FAILED and "is in the job" in answer.text()
        breaks(first)
        for beside in range(201, 204):
            peer, answer = comes(beside)
            peer.socket.close()
            assert answer.type == ps.FAILED and "is in the job" in answer.text()
        first, answer = comes(101)
        assert answer.type == ps.OPENED
        breaks(first)
        instead, answer = comes(301)
        assert answer.type == ps.OPENED
        instead.socket.close()


def test_who_came_beside_a_trainer_does_not_take_its_place_when_the_server_is_started_again(tmp_path):
    env = {"FLAGS_ps_on_trainer_loss": "wait", "FLAGS_ps_reconnect": "60000",
           "FLAGS_ps_dir": str(tmp_path / "ps"), "FLAGS_ps_log": "write"}
    with Job(1, 1, env=env) as job:

        def comes(incarnation: int, **more) -> ps.Frame:
            peer = ps.Peer(job.endpoints[0])
            assert peer.greet(0, incarnation=incarnation).type == ps.WELCOME
            peer.send(ps.frame(ps.OPEN, ps.opening(), request=1, **more))
            kept.append(peer)
            return peer.answer()

        kept: list[ps.Peer] = []
        job.start("server", 0, *SMALL).wait_for("Server listening on")
        assert comes(101).type == ps.OPENED
        answer = comes(201)
        assert answer.type == ps.FAILED and "is in the job" in answer.text()
        for incarnation, flags, wanted in ((201, 1, ps.FAILED), (101, 0, ps.OPENED)):
            if incarnation == 201:
                job.processes[-1].kill()
                job.start("server", 0, *SMALL).wait_for("Server listening on")
            answer = comes(incarnation, flags=flags)
            assert answer.type == wanted, answer.text()
        job.processes[-1].kill()
        job.start("server", 0, *SMALL).wait_for("Server listening on")
        assert comes(301).type == ps.OPENED  # another run's
