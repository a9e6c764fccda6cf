"""Trainers that are lost when nobody is left who would notice: the server has been started again, or all others have gone. And jobs
that were killed between two snapshots.

Trainers are written out by hand (test_ps_prepare.py), so that it is known what each has given."""

import contextlib
import re
import resource
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import ps_peer as ps
import pytest
from cluster import Job, until
from test_ps_prepare import NAMES, OPTIONS, RATE, Hand, env_of, start_again, start_servers

MISSED = "trainer 1 was in the job before this server was started again, and is not back in step 2: "


def all_push(step: int, *hands: Hand) -> None:
    """A step of all of them, to its end."""
    for hand in hands:
        hand.push(step, 1.0)
    for hand in hands:
        hand.values(step)


def lost_together(job: Job, mode: list[str], loops: int = 1) -> Hand:
    """A step of two trainers, then the server and trainer 1 die, and the others come back."""
    start_servers(job, loops, [*OPTIONS, *mode])
    stays, goes = Hand(job, 0, loops).join(), Hand(job, 1, loops).join()
    all_push(1, stays, goes)
    job.processes[0].kill()
    goes.die()
    start_again(job, 0, loops, [*OPTIONS, *mode])
    return stays.join()


@pytest.mark.parametrize("mode", [[], ["--async"]], ids=["sync", "async"])
def test_server_and_trainer_die_and_the_job_ends(tmp_path, mode):
    """At the deadline: one that computes a long step comes back late."""
    with Job(1, 2, env=env_of(tmp_path, FLAGS_ps_on_trainer_loss="fail", FLAGS_rpc_deadline="1500")) as job:
        stays = lost_together(job, mode)
        assert job.processes[0].end(10) == 1
        assert f"{MISSED}the job ends (FLAGS_ps_on_trainer_loss is 'fail'" in job.processes[0].output()
        assert "is not back in step 2" in stays.at[0, 0].answer().text()


def test_a_server_that_was_started_again_refuses_a_trainer_and_says_why_it_is_not_back(tmp_path):
    with Job(1, 2, env=env_of(tmp_path, FLAGS_ps_on_trainer_loss="fail", FLAGS_rpc_deadline="1500")) as job:
        stays = lost_together(job, [])
        comes = Hand(job, 1)
        comes.ask((0, 0), "nothing")
        assert not comes.opened((0, 0))
        assert job.processes[0].end(10) == 1
        said = "was refused: this server has no gradient 'nothing@GRAD': do trainer and server run the same Program?): the job ends"
        assert f"{MISSED[:-2]} (a process came for it and {said}" in job.processes[0].output(), job.processes[0].output()
        assert said in stays.at[0, 0].answer().text()


@pytest.mark.parametrize("loops", [1, 2])
@pytest.mark.parametrize("mode", [[], ["--async"]], ids=["sync", "async"])
def test_server_and_trainer_die_and_the_others_go_on(tmp_path, mode, loops):
    """To the end of the job, and the server ends with them."""
    with Job(1, 2, env=env_of(tmp_path)) as job:
        stays = lost_together(job, mode, loops)
        first = stays.pull()
        stays.push(2, 1.0)
        got = stays.values(2)
        for name in NAMES:
            np.testing.assert_allclose(got[name], first[name] - RATE, rtol=1e-5)
        job.processes[0].wait_for("and is not back")
        stays.leave()
        job.end(10)
        assert "the others go on" in job.processes[0].output()


@pytest.mark.parametrize("mode", [[], ["--async"]], ids=["sync", "async"])
def test_server_and_trainer_die_and_it_is_waited_for(tmp_path, mode):
    """The others are done meanwhile. It is named again and again; another process takes its place."""
    with Job(1, 2, env=env_of(tmp_path, FLAGS_ps_on_trainer_loss="wait", FLAGS_ps_notice="100")) as job:
        stays = lost_together(job, mode)
        job.processes[0].wait_for(f"{MISSED}waiting for it to come back")
        stays.leave()
        job.processes[0].wait_for("the job has waited 1 s for trainer 1 (has not come back)")
        comes = Hand(job, 1, incarnation=77).join()
        comes.push(2, 1.0)
        comes.values(2)
        comes.leave()
        job.end(10)


@pytest.mark.parametrize("loops", [1, 2])
@pytest.mark.parametrize("mode", [[], ["--async"]], ids=["sync", "async"])
def test_a_trainer_that_fails_is_waited_for(tmp_path, mode, loops):
    """The others are done meanwhile. The server tells why it failed; another process takes its place."""
    with Job(1, 2, env=env_of(tmp_path, FLAGS_ps_on_trainer_loss="wait", FLAGS_ps_notice="100")) as job:
        start_servers(job, loops, [*OPTIONS, *mode])
        stays, goes = Hand(job, 0, loops).join(), Hand(job, 1, loops).join()
        all_push(1, stays, goes)
        goes.leave("out of luck")
        job.processes[0].wait_for("failed: out of luck: waiting for it to come back")
        stays.leave()
        job.processes[0].wait_for("(failed, and has not come back: out of luck)")
        comes = Hand(job, 1, loops, incarnation=77).join()
        assert comes.step == 1
        comes.push(2, 1.0)
        comes.values(2)
        comes.leave()
        job.end(10)
        assert job.processes[0].output().count("failed: out of luck: waiting") == 1


@pytest.mark.parametrize("mode", [[], ["--async"]], ids=["sync", "async"])
def test_server_and_last_trainer_are_started_again(tmp_path, mode):
    """Another had ended before. It may come too, as in another run; when it does not, nobody waits for it."""
    env = env_of(tmp_path, FLAGS_ps_on_trainer_loss="wait", FLAGS_ps_notice="100", FLAGS_rpc_deadline="4000")
    with Job(1, 2, env=env) as job:
        start_servers(job, 1, [*OPTIONS, *mode])
        done, goes = Hand(job, 0).join(), Hand(job, 1).join()
        all_push(1, done, goes)
        done.leave()
        job.processes[0].kill()
        goes.die()
        server = start_again(job, 0, 1, [*OPTIONS, *mode])
        comes = Hand(job, 1, incarnation=77).join()
        assert comes.step == 1
        comes.push(2, 1.0)
        if not mode:
            server.wait_for("for trainer 0 (had ended before this server was started again: FLAGS_rpc_deadline / 2 to come, too)")
        comes.values(2)
        comes.leave()
        job.end(10)
        assert "trainer 0 had ended before this server was started again: nobody waits for it" in server.output()


def manifests(folder: Path) -> Iterator[str]:
    """Of all snapshots that are whole; older ones are removed meanwhile."""
    for path in folder.rglob("snapshot-*/manifest"):
        with contextlib.suppress(FileNotFoundError):
            yield path.read_text()


def test_one_loop_comes_back_without_what_a_trainer_gave_that_has_ended(tmp_path):
    """Asynchronous, no log: the snapshot is of a moment at which the other loop had its last step, and this one had not."""
    env = env_of(tmp_path, FLAGS_ps_log="", FLAGS_ps_snapshot_seconds="1")
    with Job(1, 2, env=env) as job:
        options = [*OPTIONS, "--async"]
        start_servers(job, 2, options)
        gone, stays = Hand(job, 0, 2).join(), Hand(job, 1, 2).join()
        gone.push(1, 1.0)
        gone.values(1)
        loops = dict(gone.at)
        gone.at = {(0, 1): loops[0, 1]}
        gone.push(2, 1.0)
        gone.values(2)
        until(lambda: any("loop0=1 0\nnote loop1=2 0" in text for text in manifests(tmp_path)), told=job.processes[0].output)
        gone.at = {(0, 0): loops[0, 0]}
        gone.push(2, 1.0)
        gone.values(2)
        gone.at = loops
        gone.leave()
        job.processes[0].kill()
        server = start_again(job, 0, 2, options)
        stays.join()
        assert server.end(10) == 1
        assert "trainer 0 of this job has ended after step 2, but of that this server has kept only step 1" in server.output()


@pytest.mark.parametrize("comes", [False, True], ids=["the server alone", "the whole job"])
@pytest.mark.parametrize("mode", [[], ["--async"]], ids=["sync", "async"])
def test_all_had_ended_and_the_server_had_not(tmp_path, mode, comes):
    """It was killed before its last snapshot. Started again alone it ends the job; trainers that come with it learn what is
    done."""
    with Job(1, 2, env=env_of(tmp_path, FLAGS_ps_reconnect="2000")) as job:
        options = [*OPTIONS, *mode]
        start_servers(job, options=options)
        hands = [Hand(job, i).join() for i in range(2)]
        all_push(1, *hands)
        hands[0].leave()
        job.processes[0].kill()
        book = next(tmp_path.rglob("trainers"))
        last = next(line for line in book.read_text().splitlines() if line.startswith("in 1 "))
        book.write_text(book.read_text() + ps.book_line(f"done 1 {last.split()[2]} 1"))
        server = start_again(job, 0, options=options)
        if comes:
            again = [Hand(job, i, incarnation=70 + i).join() for i in range(2)]
            assert [hand.step for hand in again] == [1, 1]
            for hand in again:
                hand.leave()
        job.end(10)
        assert ("had ended before this server was started again" in server.output()) != comes, server.output()


def test_a_process_without_an_id_takes_no_place_of_one_that_may_come_back(tmp_path):
    """The server was started again a moment ago, and the trainer is in a long step."""
    with Job(1, 1, env=env_of(tmp_path, FLAGS_ps_reconnect="2000", FLAGS_ps_on_trainer_loss="wait")) as job:
        start_servers(job)
        known = Hand(job, 0).join()
        known.push(1, 1.0)
        known.values(1)
        job.processes[0].kill()
        start_again(job, 0)
        other = Hand(job, -1, incarnation=77)
        other.ask((0, 0), *NAMES)
        assert not other.opened((0, 0))
        known.join().push(2, 1.0)
        known.values(2)
        known.die()
        until(lambda: bool(other.ask((0, 0), *NAMES) or other.opened((0, 0))))
        assert other.step == 2
        other.leave()
        job.end(10)


def one_has_ended(job: Job, root: Path) -> tuple[list[Hand], Path]:
    """Two trainers did a step, the second one has ended, the server was killed; and its book."""
    start_servers(job)
    hands = [Hand(job, i).join() for i in range(2)]
    all_push(1, *hands)
    hands[1].leave()
    book = next(root.rglob("trainers"))
    until(lambda: "\ndone 1 " in book.read_text())
    job.processes[0].kill()
    return hands, book


def test_a_book_of_an_older_version(tmp_path):
    """Its lines have no checksums."""
    with Job(1, 2, env=env_of(tmp_path)) as job:
        hands, book = one_has_ended(job, tmp_path)
        book.write_text(re.sub(" =[0-9a-f]{8}\n", "\n", book.read_text()))
        start_again(job, 0)
        hands[0].join().push(2, 1.0)
        hands[0].values(2)
        hands[0].leave()
        job.end(10)


def test_a_damaged_book(tmp_path):
    """One bit of a line is another one: refused by name, whichever it is, and gone on without when the file is removed."""
    with Job(1, 2, env=env_of(tmp_path)) as job:
        hands, book = one_has_ended(job, tmp_path)
        whole = book.read_bytes()
        done = whole.index(b"done 1 ")
        for at in (0, 3, whole.index(b"\n"), done, done + 5, done + 8, len(whole) - 3, len(whole) - 1):
            book.write_bytes(whole[:at] + bytes([whole[at] ^ 2]) + whole[at + 1:])
            job.processes[0].close()
            job.processes[0] = server = job.start("server", 0, *OPTIONS)
            job.processes.pop()
            assert server.end(20) == 1, (at, server.output())
            assert "trainers' is damaged" in server.output() and "remove it" in server.output(), server.output()
        book.unlink()
        start_again(job, 0)
        for hand in hands:
            hand.join().push(2, 1.0)
        for hand in hands:
            hand.values(2)
            hand.leave()
        job.end(10)


def test_a_line_of_the_book_that_is_there_in_part(tmp_path):
    """As a full disk, or a kill, leaves it: it says nothing, and does no harm to the next one."""
    with Job(1, 3, env=env_of(tmp_path)) as job:
        start_servers(job)
        hands = [Hand(job, i).join() for i in range(3)]
        all_push(1, *hands)
        hands[0].leave()
        job.processes[0].kill()
        book = next(tmp_path.rglob("trainers"))
        whole = book.read_text()
        book.write_text(whole + "done 2 12")
        start_again(job, 0)
        for hand in hands[1:]:
            hand.join()
        hands[1].leave()
        until(lambda: book.read_text().startswith(whole + "done 1 "), told=book.read_text)
        job.processes[0].kill()
        server = start_again(job, 0)
        hands[2].join().push(2, 1.0)
        hands[2].values(2)
        hands[2].leave()
        job.end(10)
        for i in (0, 1):
            assert (f"trainer {i} had ended before this server was started again: nobody "
                    "waits for it") in server.output(), server.output()


@pytest.mark.parametrize("how", ["ended", "lost"])
def test_server_comes_back_without_what_a_trainer_gave_that_is_gone(tmp_path, how):
    """Asynchronous, no log. One that is there has given nothing since, and would not notice."""
    env = env_of(tmp_path, FLAGS_ps_log="", FLAGS_ps_on_trainer_loss="shrink")
    with Job(1, 2, env=env) as job:
        options = [*OPTIONS, "--async"]
        start_servers(job, 1, options)
        gone, stays = Hand(job, 0).join(), Hand(job, 1).join()
        for step in (1, 2):
            gone.push(step, 1.0)
            gone.values(step)
        gone.leave() if how == "ended" else gone.die()
        if how == "lost":
            job.processes[0].wait_for("the others go on")
        job.processes[0].kill()
        server = start_again(job, 0, 1, options)
        stays.join()
        assert server.end(10) == 1
        said = (f"trainer 0 of this job {'has ended' if how == 'ended' else 'was lost'} after step 2, but of that this server has "
                "kept only step 0")
        assert said in server.output() and said in stays.at[0, 0].answer().text()
        server = start_again(job, 0, 1, options, FLAGS_ps_accept_rollback="1")
        stays.join().push(1, 1.0)
        stays.values(1)
        stays.leave()
        job.end(10)


@pytest.mark.parametrize("mode", [[], ["--async"]], ids=["sync", "async"])
def test_a_job_whose_trainers_were_all_lost_is_started_again(tmp_path, mode):
    """Its server was killed before it ended: the next run does not fail with the reason of the one before."""
    with Job(1, 2, env=env_of(tmp_path)) as job:
        start_servers(job, 1, [*OPTIONS, *mode])
        Hand(job, 0).join(), Hand(job, 1).join()
        job.processes[0].kill()
        book = next(tmp_path.glob("*/trainers"))
        words = [line.split(" =")[0].split(maxsplit=1)[1] for line in book.read_text().splitlines()]
        book.write_text("".join(ps.book_line(f"lost {each}") for each in words))
        start_again(job, 0, 1, [*OPTIONS, *mode])
        hands = [Hand(job, 0, incarnation=77).join(), Hand(job, 1, incarnation=78).join()]
        all_push(1, *hands)
        for hand in hands:
            hand.leave()
        job.end(10)


def test_a_trainer_that_never_came_is_not_missed(tmp_path):
    """The server was killed before it was started: it may come when it likes."""
    with Job(1, 2, env=env_of(tmp_path, FLAGS_ps_on_trainer_loss="fail", FLAGS_ps_notice="100")) as job:
        start_servers(job)
        stays = Hand(job, 0).join()
        job.processes[0].kill()
        server = start_again(job, 0)
        stays.join().push(1, 1.0)
        server.wait_for("step 1 has waited 1 s for trainer 1 (has not connected yet)")
        comes = Hand(job, 1).join()
        comes.push(1, 1.0)
        for hand in (stays, comes):
            hand.values(1)
            hand.leave()
        job.end(10)


def test_a_step_counts_all_of_a_lost_trainer_or_nothing(tmp_path):
    """It gave one gradient and was cut off. The step goes on without it; what it gives after its return counts once."""
    with Job(1, 2, env=env_of(tmp_path)) as job:
        start_servers(job)
        stays, goes = Hand(job, 0).join(), Hand(job, 1).join()
        first = stays.pull()
        stays.give(1, "fc_0.w_0", 1.0), goes.give(1, "fc_0.w_0", 5.0)
        stays.pull(), goes.pull()  # it is there now
        goes.die()
        job.processes[0].wait_for("the others go on")
        stays.push(1, 1.0)
        got = stays.values(1)
        for name in NAMES:
            np.testing.assert_allclose(got[name], first[name] - RATE, rtol=1e-5)
        goes.join()
        assert goes.step == 1
        stays.push(2, 1.0), goes.push(2, 5.0)
        got = stays.values(2)
        goes.values(2)
        for name in NAMES:
            np.testing.assert_allclose(got[name], first[name] - RATE * 4, rtol=1e-5)
        stays.leave(), goes.leave()
        job.end(10)


def test_a_new_process_begins_its_only_trainers_step_anew(tmp_path):
    """The one before gave a gradient of it, and was killed."""
    with Job(1, 1, env=env_of(tmp_path, FLAGS_ps_on_trainer_loss="wait")) as job:
        start_servers(job)
        goes = Hand(job, 0).join()
        first = goes.pull()
        goes.give(1, "fc_0.w_0", 5.0)
        goes.pull()  # it is there now
        goes.die()
        job.processes[0].wait_for("waiting for it to come back")
        comes = Hand(job, 0, incarnation=77).join()
        comes.push(1, 1.0)
        got = comes.values(1)
        for name in NAMES:
            np.testing.assert_allclose(got[name], first[name] - RATE, rtol=1e-5)
        comes.leave()
        job.end(10)


@pytest.mark.parametrize("mode", [[], ["--async"]], ids=["sync", "async"])
def test_the_last_trainer_is_waited_for_until_the_deadline(tmp_path, mode):
    """All others are done, so no step waits for it."""
    env = env_of(tmp_path, FLAGS_ps_on_trainer_loss="wait", FLAGS_ps_notice="100", FLAGS_rpc_deadline="1500")
    with Job(1, 2, env=env) as job:
        start_servers(job, options=[*OPTIONS, *mode])
        done, goes = Hand(job, 0).join(), Hand(job, 1).join()
        done.leave()
        goes.die()
        assert job.processes[0].end(10) == 1
        text = job.processes[0].output()
        assert text.count("the job has waited") > 2
        assert "the job waited 1 s for trainer 1 (host peer" in text
        assert "(connection lost): given up (FLAGS_rpc_deadline is 1500 ms)" in text


def test_servers_from_snapshots_of_different_steps(tmp_path):
    """As after a kill when one server had written its snapshot and the other not. Trainers refuse them; what the error says
    helps."""
    root, options = tmp_path / "ps", [*OPTIONS, "--steps", "4"]
    env = {"FLAGS_ps_dir": str(root), "FLAGS_ps_snapshot_steps": "2"}
    with Job(2, 1, env=env) as job:
        job.start_all(*options)
        job.end(20)
        folders = [root / endpoint.replace(":", "_") for endpoint in job.endpoints]
        assert all([int(s.name[-20:]) for s in sorted(folder.glob("snapshot-*"))] == [2, 4] for folder in folders)
        (folders[0] / f"snapshot-{4:020}").rename(tmp_path / "not-written")

        def start_all() -> None:
            for p in job.processes:
                p.close()
            job.processes.clear()
            job.start_all(*options)

        start_all()
        server, other, trainer = job.processes
        assert trainer.end(20) == 1
        text = trainer.output()
        assert f"server {job.endpoints[0]} is at step 2, server {job.endpoints[1]} at step 4" in text
        keep = re.search("To go on from step 2, .* newer than (snapshot-[0-9]+) out of the folders that servers have in "
                         "FLAGS_ps_dir", text).group(1)
        server.kill(), other.kill()
        for folder in folders:
            for snapshot in [p for p in folder.glob("snapshot-*") if p.name > keep]:
                snapshot.rename(tmp_path / f"newer-{folder.name}")
        start_all()
        job.end(20)
        assert all("taken up at step 2" in server.output() for server in job.processes[:2])


def test_the_advice_names_the_snapshot_by_its_number(tmp_path):
    """Which is not its step: a log was switched on once."""
    root, pace = tmp_path / "ps", tmp_path / "pace"
    pace.touch()
    options = [*OPTIONS, "--resume", "--steps"]
    with Job(2, 1, env={"FLAGS_ps_dir": str(root)}) as job:

        def run(steps: int, *more: str, **env: str) -> None:
            for p in job.processes:
                p.close()
            job.processes.clear()
            job.env |= env
            job.start_all(*options, str(steps), *more)

        for steps, log in ((6, ""), (9, "write")):
            run(steps, FLAGS_ps_log=log)
            job.end(30)
        run(30, "--pace", f"{pace}:14", FLAGS_ps_log="", FLAGS_ps_snapshot_steps="3")
        folders = [root / endpoint.replace(":", "_") for endpoint in job.endpoints]

        def newest() -> list[Path]:
            return [max(folder.glob("snapshot-*")) for folder in folders]

        until(lambda: all("note applied=12" in (path / "manifest").read_text() for path in newest()), 30, newest)
        for p in job.processes:
            p.kill()
        assert int(newest()[1].name[-20:]) > 12
        shutil.rmtree(newest()[1])  # as if it had not been written yet
        run(30)
        assert job.processes[2].end(30) == 1
        text = job.processes[2].output()
        keep = re.search("To go on from step 9, .* newer than (snapshot-[0-9]+) out of the folders", text).group(1)
        for p in job.processes:
            p.kill()
        for path in [path for folder in folders for path in folder.glob("snapshot-*") if path.name > keep]:
            shutil.rmtree(path)
        assert all((folder / keep).exists() for folder in folders)
        run(30)
        job.end(30)
        assert all("taken up at step 9" in server.output() for server in job.processes[:2])


def test_the_snapshot_that_all_have_is_kept(tmp_path):
    """One server's disk is full for long. The others do not remove the last one that it has, too: the job can go on from there."""
    root, pace = tmp_path / "ps", tmp_path / "pace"
    pace.touch()
    options = ["--model", "mlp", "--optimizer", "sgd", "--steps", "22", "--pace", f"{pace}:5"]
    with Job(2, 2, env={"FLAGS_ps_dir": str(root), "FLAGS_ps_snapshot_steps": "2"}) as job:
        folders = [root / endpoint.replace(":", "_") for endpoint in job.endpoints]

        def steps(which: int) -> list[int]:
            return sorted(int(path.name[-20:]) for path in folders[which].glob("snapshot-*"))

        def until_so(is_so) -> None:
            until(is_so, 30, lambda: (steps(0), steps(1)))

        job.start_all(*options)
        until_so(lambda: steps(0) == steps(1) == [2, 4])
        resource.prlimit(job.processes[1].process.pid, resource.RLIMIT_FSIZE, (50000, 50000))
        pace.write_bytes(bytes(3))  # holds the job after step 20
        until_so(lambda: steps(0)[-1] == 20)
        job.processes[1].wait_for("no snapshot of step 20")
        assert steps(1) == [2, 4]
        until_so(lambda: steps(0) == [4, 18, 20])
        for p in job.processes:
            p.close()
        job.processes.clear()
        shutil.rmtree(folders[0] / f"snapshot-{18:020}"), shutil.rmtree(folders[0] / f"snapshot-{20:020}")
        pace.write_bytes(bytes(9))
        job.start_all(*options, "--resume")
        job.end(30)
        assert all("taken up at step 4" in server.output() for server in job.processes[:2])
        until_so(lambda: 4 not in steps(0))  # the newest that all have is another one


ENDS = {"raises": ["--fail-at", "3"], "exits": ["--exit-at", "3"],
        "is killed": ["--exit-at", "3", "--exit", "os.kill(os.getpid(), 9)"]}


@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize("mode", [[], ["--async"]], ids=["sync", "async"])
def test_all_trainers_fail_and_servers_go_on_without_them(mode, how):
    """When none is left that has done its work, the servers have failed too, and say why."""
    env = {"FLAGS_ps_on_trainer_loss": "shrink", "FLAGS_ps_reconnect": "300"}
    with Job(2, 2, env=env) as job:
        job.start_all(*mode, *ENDS[how])
        servers, trainers = job.processes[:2], job.processes[2:]
        assert all(t.end(60) != 0 for t in trainers)
        for server in servers:
            assert server.end(60) == 1, server.output()
            last = server.output().splitlines()[-1]
            assert "no trainer of this job has done its work" in last, server.output()
            assert re.search("the last: trainer [01] .*(failed: |is gone without a word|has been lost)", last), server.output()


def test_one_trainer_fails_and_the_others_do_the_work():
    with Job(2, 2, env={"FLAGS_ps_on_trainer_loss": "shrink", "FLAGS_ps_reconnect": "300"}) as job:
        for i in range(2):
            job.start("server", i)
        fails, works = job.start("trainer", 0, "--fail-at", "3"), job.start("trainer", 1, "--steps", "50")
        assert fails.end(60) == 1 and works.end(60) == 0
        assert [server.end(60) for server in job.processes[:2]] == [0, 0]


def test_a_connection_that_is_cut_when_an_ended_trainer_is_back(tmp_path):
    """In its first step, a part of which is applied: it sends the step again, and it counts once, everywhere."""
    with Job(1, 2, env={"FLAGS_log_level": "debug"}) as job:
        start_servers(job)
        stays, gone = Hand(job, 0).join(), Hand(job, 1).join()
        begun = stays.pull()
        all_push(1, stays, gone)
        gone.leave()
        all_push(2, stays)
        back = Hand(job, 1, incarnation=777).join()
        first = next(iter(NAMES))
        stays.give(3, first, 1.0)
        back.give(3, first, 3.0)
        back.die()
        for server in job.processes:
            until(lambda: re.search("trainer 1 .*(connection ended|gone again)", server.output()), told=server.output)
        back.join()
        stays.push(3, 1.0)
        back.push(3, 3.0)
        for hand in (stays, back):
            for name, value in hand.values(3).items():
                np.testing.assert_allclose(value, begun[name] - (1 + 1 + 2) * RATE, rtol=1e-5, err_msg=name)


def test_an_ended_trainer_is_back_and_killed_in_its_first_step(tmp_path):
    """A part of it is applied: the job fails, as with any trainer that is killed."""
    with Job(2, 2, env=env_of(tmp_path, FLAGS_ps_reconnect="500", FLAGS_ps_on_trainer_loss="fail")) as job:
        start_servers(job)
        stays, gone = Hand(job, 0).join(), Hand(job, 1).join()
        all_push(1, stays, gone)
        gone.leave()
        back = Hand(job, 1, incarnation=777).join()
        for hand in (stays, back):
            hand.give(2, next(iter(NAMES)), 1.0)
        stays.push(2, 1.0)
        back.die()
        until(lambda: any(server.process.poll() == 1 for server in job.processes), 20)
        (failed,) = [server for server in job.processes if server.process.poll() is not None]
        assert re.search("trainer 1 .*is gone without a word in step 2", failed.output()), failed.output()
        stays.die()


@pytest.mark.parametrize("mode", [[], ["--async"]], ids=["sync", "async"])
def test_the_book_of_another_number_of_trainers(tmp_path, mode):
    """Two of three trainers had ended. Started again for two, the server waits for them: nobody has ended of these."""
    env = {"FLAGS_ps_dir": str(tmp_path / "ps"), "FLAGS_ps_reconnect": "300", "FLAGS_ps_notice": "300"}
    env["FLAGS_ps_on_trainer_loss"] = "wait"
    with Job(1, 3, "counted.py", env=env) as job:
        server = job.start("server", 0, *mode)
        options = [*mode, "--pause-at", "5", "--until", str(tmp_path / "never")]
        trainers = [job.start("trainer", i, *options, "--steps", "8" if i == 2 else "3") for i in range(3)]
        trainers[2].wait_for("pauses")
        assert [trainer.end(30) for trainer in trainers[:2]] == [0, 0]
        server.signal(signal.SIGTERM)
        assert server.end(30) == 0
        trainers[2].kill()
        job.processes.clear()
        job.trainers = 2
        server = job.start("server", 0, *mode)
        server.wait_for("the job has waited 1 s for trainer 0 (has not connected yet), trainer 1 (has not connected yet)")
        trainers = [job.start("trainer", i, *mode, "--steps", "9") for i in range(2)]
        assert [each.end(30) for each in (*trainers, server)] == [0, 0, 0]


def test_a_trainer_that_is_stopped_past_the_deadline_goes_on(tmp_path):
    """In the middle of an exchange, for longer than FLAGS_rpc_deadline. Nobody waits for it, and it has not waited itself."""
    with Job(1, 1, "counted.py", env={"FLAGS_rpc_deadline": "3000"}) as job:
        server = job.start("server", 0)
        trainer = job.start("trainer", 0, "--steps", "4", "--pause-at", "2", "--until", str(tmp_path / "go"))
        trainer.wait_for("pauses")
        server.signal(signal.SIGSTOP)  # the exchange has begun, and is not answered
        (tmp_path / "go").touch()
        until(lambda: is_at_rest(trainer))
        trainer.signal(signal.SIGSTOP)
        stopped = time.monotonic()
        until(lambda: time.monotonic() > stopped + 5.5)  # and the moment that it gives servers beyond the deadline
        trainer.signal(signal.SIGCONT)
        until(lambda: is_at_rest(trainer))
        server.signal(signal.SIGCONT)
        assert (trainer.end(30), server.end(30)) == (0, 0), trainer.output()


def is_at_rest(process) -> bool:
    """It has computed, and waits: nearly no time of a core is used any more."""

    def used() -> int:
        return sum(map(int, Path(f"/proc/{process.pid}/stat").read_text().split()[13:15]))

    before, begun = used(), time.monotonic()
    while time.monotonic() < begun + 0.2:
        time.sleep(0.01)
    return used() - before <= 1


def test_a_server_that_is_done_is_asked_to_end(tmp_path):
    """By SIGTERM, while its process ends, and well: as a launcher does that stops what it started."""
    with Job(1, 1, "counted.py") as job:
        server = job.start("server", 0, "--end-at", str(tmp_path / "go"))
        assert job.start("trainer", 0).end(30) == 0
        server.wait_for("ends\n")
        server.signal(signal.SIGTERM)
        (tmp_path / "go").touch()
        assert server.end(30) == 0
