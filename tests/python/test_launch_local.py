"""Jobs of a launcher on one machine: how they end, what they leave, what is started again. The processes are stubs;
test_launch_jobs.py has real ones."""

import contextlib
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import time

import pytest
from cluster import until
from launcher import STUB, Launcher, environment, is_alive, own_servers, run

from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler.distributed_strategy import TrainerRuntimeConfig

TWO = ("--server_num=2", "--worker_num=2")
ALL = ("server-0", "server-1", "worker-0", "worker-1")


@pytest.fixture(autouse=True)
def signals_as_in_a_shell():
    """What whoever runs the tests ignores (nohup: SIGHUP), launchers would ignore as well."""
    before = [(number, signal.signal(number, signal.SIG_DFL)) for number in (signal.SIGHUP, signal.SIGTERM)]
    yield
    for number, handler in before:
        signal.signal(number, handler)


@pytest.mark.parametrize("command, logs", [("launch_ps", "logs"), ("launch", "log"), ("local", "logs")])
def test_a_job_that_ends_well(tmp_path, command, logs):
    """Upstream's names of logs."""
    with Launcher(tmp_path, *TWO, command=command, stub=["all=say:hello"]) as job:
        job.wait_for(*ALL)
        job.go()
        assert job.end() == 0, job.said()
        found = sorted(path.name for path in (tmp_path / logs).iterdir())
        assert found == ["serverlog.0", "serverlog.1", "workerlog.0", "workerlog.1"]
        assert all((tmp_path / logs / name).read_text() == "hello\n" for name in found)
        assert "the job has ended well after" in job.said()
        words = "all workers exit, going to finish parameter server\nall parameter server are killed\n"
        assert (words in job.said()) == (command == "launch_ps")


def test_servers_that_do_not_end_are_asked_to(tmp_path):
    """Upstream's do not; that is no failure."""
    with Launcher(tmp_path, *TWO, stub=["server-0=stays"]) as job:
        job.wait_for(*ALL)
        job.go()
        assert job.end() == 0 and re.search(r"server 0 +127\.0\.0\.1:\d+ +was ended by SIGTERM", job.said())


def test_upstreams_defaults(tmp_path):
    """launch_ps without options: 2 servers from 6170 on (or behind, where those are taken), 2 workers, with 1.8's variables."""
    with Launcher(tmp_path, command="launch_ps") as job:
        job.wait_for(*ALL)
        server, worker = job.facts("server-1")["env"], job.facts("worker-1")["env"]
        endpoints = server["PADDLE_PSERVERS_IP_PORT_LIST"].split(",")
        first = int(endpoints[0].rpartition(":")[2])
        assert first == 6170 or "is taken by" in job.said()
        assert [each.partition(":")[0] for each in endpoints] == ["127.0.0.1"] * 2
        assert (server["TRAINING_ROLE"], server["POD_IP"], server["PADDLE_TRAINERS_NUM"]) == ("PSERVER", "127.0.0.1", "2")
        assert f"127.0.0.1:{server['PADDLE_PORT']}" == endpoints[1]
        assert (worker["TRAINING_ROLE"], worker["PADDLE_TRAINER_ID"], worker["PADDLE_TRAINERS_NUM"]) == ("TRAINER", "1", "2")
        assert worker["PADDLE_PSERVERS_IP_PORT_LIST"] == ",".join(endpoints)
        assert "PADDLE_PORT" not in worker, "upstream's has the last server's"
        job.go()
        assert job.end() == 0


def test_a_worker_fails(tmp_path):
    """Its status is the job's, its last lines are shown, the others end at once."""
    job = run(tmp_path, *TWO, stub=["worker-1=say:the reason,exit:3"])
    assert job.status == 3 and job.seconds < 10
    said = job.said()
    assert re.search(r"worker 1 ended with status 3 after [\d.]+ s; ending the others\n", said)
    assert re.search(r"worker 1 +127\.0\.0\.1 +ended with status 3 .* logs/workerlog\.1\n", said)
    assert "worker 1 failed first; the last 1 line of logs/workerlog.1:\n  | the reason\n" in said
    assert "logs/workerlog.0:" not in said


def test_who_failed_first_may_end_last(tmp_path):
    """Worker 1 failed, and told the servers, from whom worker 0 heard it; it was not quite at its end when it was asked to."""
    job = run(tmp_path, *TWO, stub=["worker-1=say:the reason,late:3", "worker-0=names:worker-1,exit:1"])
    said = job.said()
    assert "worker 1 failed first; the last 1 line of logs/workerlog.1:\n  | the reason\n" in said, said
    assert job.status == 3, said


@pytest.mark.parametrize("stub, status", [("worker-0=kill", 137), ("server-1=kill", 137), ("server-0=exit:7", 7)])
def test_a_process_that_dies_ends_the_job(tmp_path, stub, status):
    job = run(tmp_path, *TWO, stub=[stub])
    name = stub.partition("=")[0].replace("-", " ")
    assert job.status == status and f"{name} failed first; logs/{name.split()[0]}log.{name[-1]} is empty" in job.said()
    assert (f"{name} was killed by SIGKILL" if status == 137 else f"{name} ended with status 7") in job.said()


def test_a_server_that_does_not_serve_ends_the_job(tmp_path):
    """Its script forgot to, and workers would call it until their deadline."""
    job = run(tmp_path, *TWO, stub=["server-0=exit:0", "worker-1=calls"])
    said = job.said()
    assert "launch: server 0 has ended with status 0 before the workers: does the script call fleet.run_server()?\n" in said
    assert job.status == 1 and job.seconds < 15 and "server 0 failed first" in said and said.count("ended by SIGTERM") == 3, said
    assert re.search(r"server 0 .* ended with status 0 before the workers ", said)


def test_servers_may_end_before_the_workers(tmp_path):
    """They were told that all workers are through; the workers have something else to do. Others may ask there whether it runs."""
    with Launcher(tmp_path, *TWO, stub=["server-0=exit:0", "server-1=exit:0"]) as job:
        job.wait_for(*ALL)
        host, port = job.facts("worker-0")["env"]["PADDLE_PSERVERS_IP_PORT_LIST"].split(",")[0].split(":")
        visits = []

        def is_answered() -> bool:
            with contextlib.suppress(OSError):
                visits.append(socket.create_connection((host, int(port))))
            return len(visits) == 3

        until(is_answered, told=job.said)
        for visit in visits:  # nobody of the job: hung up
            with visit:
                assert visit.recv(1) == b""
        job.go()
        assert job.end() == 0, job.said()
        assert "has ended well" in job.said() and "before the workers" not in job.said()


def test_the_table_of_settings_is_no_last_word(tmp_path):
    """What a worker printed before and behind it is shown."""
    config = TrainerRuntimeConfig()
    script = tmp_path / "table.py"
    script.write_text(f"print('before')\nprint({str(config)!r})\nprint('behind')\nimport sys\nsys.exit(1)\n")
    job = run(tmp_path, "--server_num=0", "--worker_num=1", "--follow=none", script=script, words=[])
    assert "communicator_send_queue_size" in (tmp_path / "logs" / "workerlog.0").read_text()
    assert job.said().endswith("the last 2 lines of logs/workerlog.0:\n  | before\n  | behind\n"), job.said()


def test_a_long_log_is_cut(tmp_path):
    script = tmp_path / "long.py"
    script.write_text("import sys\nfor i in range(5000):\n    print('line', i)\n"
                      "sys.stdout.buffer.write(b'\\xff end')\nsys.exit(1)\n")
    job = run(tmp_path, "--server_num=0", "--worker_num=1", "--follow=none", script=script, words=[])
    assert job.status == 1
    assert "the last 20 lines of logs/workerlog.0:\n  | line 4981\n" in job.said() and job.said().endswith("  | \ufffd end\n")


# ---- started again ----

def test_a_worker_is_started_again(tmp_path):
    with Launcher(tmp_path, "--restart=workers", *TWO, stub=["worker-1=first:4"]) as job:
        until(lambda: (tmp_path / "worker-1.starts").exists() and len((tmp_path / "worker-1.starts").read_text().split()) == 2,
              told=job.said)
        job.go()
        assert job.end() == 0, job.said()
        assert re.search(r"worker 1 ended with status 4 after [\d.]+ s; it is started again in 0\.2 s \(1 of 3\)", job.said())
        assert "ended with status 0, started 2 times" in job.said()
        assert "--- started again at " in (tmp_path / "logs" / "workerlog.1").read_text()
        assert "FLAGS_ps_on_trainer_loss=wait: the others wait for a worker that fails" in job.said()
        assert job.facts("server-0")["env"]["FLAGS_ps_on_trainer_loss"] == "wait"


def test_a_server_is_started_again(tmp_path):
    """On its own port, which nobody could take meanwhile."""
    with Launcher(tmp_path, "--restart=servers", *TWO, own_servers(), env={"FLAGS_ps_dir": str(tmp_path)}) as job:
        job.wait_for(*ALL)
        before = job.facts("server-1")
        (tmp_path / "server-1.json").unlink()
        os.kill(before["pid"], signal.SIGKILL)
        job.wait_for("server-1")
        after = job.facts("server-1")
        assert after["env"] == before["env"] and after["pid"] != before["pid"]
        job.go()
        assert job.end() == 0, job.said()


def test_it_is_not_started_again_for_ever(tmp_path):
    job = run(tmp_path, "--restart=all", "--max_restarts=2", "--env", f"FLAGS_ps_dir={tmp_path}", *TWO, own_servers(),
              stub=["worker-0=exit:5"])
    assert job.status == 5 and (tmp_path / "worker-0.starts").read_text().count("\n") == 3
    assert "(2 of 2)" in job.said() and "(3 of" not in job.said()


def test_servers_without_a_folder_are_not_started_again(tmp_path):
    job = run(tmp_path, "--restart=servers", *TWO)
    assert job.status == 2 and "Set FLAGS_ps_dir=DIR" in job.said() and not job.pids()


def test_the_others_go_on(tmp_path):
    """The status is still that of the worker that failed."""
    with Launcher(tmp_path, "--keep_going", *TWO, stub=["worker-1=exit:6"]) as job:
        job.wait_until_said("worker 1 ended with status 6")
        job.wait_for("worker-0", "server-0")
        assert is_alive(job.pid("worker-0")) and is_alive(job.pid("server-0"))
        assert job.facts("worker-0")["env"]["FLAGS_ps_on_trainer_loss"] == "shrink"
        job.go()
        assert job.end() == 6
        assert "worker 0" in job.said() and "ended with status 0" in job.said()


# ---- signals ----

@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_everything(tmp_path, number):
    """Children in sessions of their own too. The launcher ends by the signal, so that a shell's loop ends as well."""
    with Launcher(tmp_path, *TWO, stub=["all=child"]) as job:
        job.wait_for(*ALL)
        job.process.send_signal(number)
        assert job.end() == -number, job.said()
        assert len(job.pids()) == 8
        assert "the job was ended by the user" in job.said() and "failed first" not in job.said()


def test_ctrl_c_in_the_pause_before_a_start(tmp_path):
    with Launcher(tmp_path, "--restart=workers", "--max_restarts=20", *TWO, stub=["worker-0=exit:1"]) as job:
        job.wait_until_said("(4 of 20)")
        job.process.send_signal(signal.SIGINT)
        assert job.end() == -signal.SIGINT and (tmp_path / "worker-0.starts").read_text().count("\n") == 4


def test_ctrl_c_while_servers_end(tmp_path):
    """All workers have ended; a server does not."""
    with Launcher(tmp_path, *TWO, "--grace=60", stub=["server-1=deaf,stays"], command="launch_ps") as job:
        job.wait_for(*ALL)
        job.go()
        job.wait_until_said("all workers exit")
        job.process.send_signal(signal.SIGINT)
        job.wait_until_said("once more kills it at once")
        job.process.send_signal(signal.SIGINT)
        assert job.end() == -signal.SIGINT and job.seconds < 10


def test_the_second_ctrl_c_kills(tmp_path):
    with Launcher(tmp_path, *TWO, "--grace=60", stub=["all=deaf,child"]) as job:
        job.wait_for(*ALL)
        job.process.send_signal(signal.SIGINT)
        job.wait_until_said("Ctrl-C: ending the job; once more kills it at once")
        assert all(is_alive(job.pid(name)) for name in ALL)
        job.process.send_signal(signal.SIGINT)
        assert job.end() == -signal.SIGINT and job.seconds < 10


def test_who_does_not_end_in_time_is_killed(tmp_path):
    with Launcher(tmp_path, *TWO, "--grace=0.5", stub=["worker-0=exit:9", "worker-1=deaf", "server-0=deaf"]) as job:
        assert job.end() == 9
        assert re.search(r"(server 0, worker 1|worker 1, server 0) did not end within 0\.5 s and is killed", job.said())


def test_a_server_that_must_be_killed_fails_the_job(tmp_path):
    """Its snapshot may not be whole."""
    with Launcher(tmp_path, *TWO, "--grace=0.2", stub=["server-0=deaf,stays"]) as job:
        job.wait_for(*ALL)
        job.go()
        assert job.end() == 1 and "server 0 failed first" in job.said()


def test_processes_that_were_stopped_are_ended(tmp_path):
    with Launcher(tmp_path, *TWO) as job:
        job.wait_for(*ALL)
        os.kill(job.pid("worker-0"), signal.SIGSTOP)
        job.process.send_signal(signal.SIGTERM)
        assert job.end() == -signal.SIGTERM and job.seconds < 10


def was_swallowed(job) -> bool:
    """Did Python raise KeyboardInterrupt where it ignores exceptions, as in the middle of an import? One presses it again then."""
    end = time.monotonic() + 20
    while time.monotonic() < end and job.process.poll() is None:
        if "Exception ignored in" in job.said() and "KeyboardInterrupt" in job.said():
            return True
        time.sleep(0.02)
    return False


def test_ctrl_c_at_any_moment(tmp_path):
    """Also while Python starts, options are read, processes are made: nothing is left, and the status says why."""
    for number in range(12):
        folder = tmp_path / str(number)
        folder.mkdir()
        with Launcher(folder, *TWO, stub=["all=child"], command="launch_ps") as job:
            time.sleep(0.02 * number)  # the moment is what is tried out
            job.process.send_signal(signal.SIGINT)
            if was_swallowed(job):
                job.process.send_signal(signal.SIGINT)
            assert job.end() == -signal.SIGINT or "launch" not in job.said(), job.said()  # Python has other ways while it starts


def test_ctrl_c_on_a_terminal_comes_once(tmp_path):
    """The terminal sends it to the whole group in front; the job gets one, and has its time to end."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        os.execve(sys.executable, [sys.executable, "-m", "paddle.distributed.launch_ps", "--grace=60", str(STUB), str(tmp_path)],
                  environment())
    try:
        until(lambda: all((tmp_path / f"{name}.json").exists() for name in ALL))
        os.write(terminal, b"\x03")
        said = b""
        with pytest.raises(OSError):  # the end of the terminal
            while True:
                said += os.read(terminal, 4096)
        _, status = os.waitpid(pid, 0)
        assert os.waitstatus_to_exitcode(status) == -signal.SIGINT
        assert b"Ctrl-C: ending the job" in said and b"killed" not in said, said
        assert not any(is_alive(int(path.read_text())) for path in tmp_path.glob("*.starts"))
    finally:
        os.close(terminal)


# ---- the launcher itself is killed ----

def test_the_launcher_is_killed(tmp_path):
    """kill -9 of the process that the user started: all end, as after SIGTERM, children too."""
    with Launcher(tmp_path, *TWO, stub=["all=child"]) as job:
        job.wait_for(*ALL)
        job.process.kill()
        job.wait_until_gone()
        until(lambda: "the job was ended, because its launcher was killed, after" in job.said())
        assert "the launcher was killed; ending the job" in job.said() and "has ended well" not in job.said()


def test_the_engine_is_killed(tmp_path):
    with Launcher(tmp_path, *TWO, stub=["all=child,deaf"]) as job:
        job.wait_for(*ALL)
        engine, = job.engines()
        os.kill(engine, signal.SIGKILL)
        assert job.end() == 137
        assert "the process that watches the job was ended by SIGKILL; nothing of the job is left" in job.said()


def test_both_are_killed(tmp_path):
    """Then the processes of the job die, by the system's hand."""
    with Launcher(tmp_path, *TWO, stub=["all=deaf"]) as job:
        job.wait_for(*ALL)
        engine, = job.engines()
        os.kill(job.process.pid, signal.SIGSTOP)
        os.kill(engine, signal.SIGKILL)
        job.process.kill()
        job.wait_until_gone()


@pytest.mark.parametrize("number", [0, signal.SIGHUP])
def test_the_session_is_lost(tmp_path, number):
    """As when an SSH connection breaks: nobody reads what is said, and the shell may get SIGHUP. Without that the job goes on."""
    reader, writer = os.pipe()
    job = subprocess.Popen([sys.executable, "-m", "paddle.distributed.launch_ps", "--follow=all", str(STUB), str(tmp_path),
                            "all=say:hello"], cwd=tmp_path, stdout=writer, stderr=writer, env=environment())
    os.close(writer)
    try:
        until(lambda: all((tmp_path / f"{name}.json").exists() for name in ALL))
        os.close(reader)
        if number:
            job.send_signal(number)
        else:
            (tmp_path / "go").touch()
        assert job.wait(20) == -number
        pids = [int(line) for path in tmp_path.glob("*.starts") for line in path.read_text().split()]
        assert not any(map(is_alive, pids))
    finally:
        job.kill()
        job.wait()


def test_nohup(tmp_path):
    """What is ignored stays so, in the processes too."""
    with Launcher(tmp_path, *TWO, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)) as job:
        job.wait_for(*ALL)
        job.process.send_signal(signal.SIGHUP)
        os.kill(job.pid("worker-0"), signal.SIGHUP)
        job.go()
        assert job.end() == 0, job.said()


def test_what_a_process_leaves_behind_is_killed_and_told(tmp_path):
    with Launcher(tmp_path, *TWO, stub=["worker-0=leave"]) as job:
        job.wait_for(*ALL)
        job.go()
        assert job.end() == 0
        child = (tmp_path / "worker-0.child").read_text()
        assert f"killed what was left behind: sleep (process {child})" in job.said()


# ---- what is shown, and where it goes ----

def test_output_is_followed(tmp_path):
    script = tmp_path / "talks.py"
    script.write_text("import os\nprint('one')\nprint('two', end='')\n")
    job = run(tmp_path, "--server_num=0", "--worker_num=2", "--follow=workers", script=script, words=[])
    assert job.status == 0
    assert sorted(job.printed().splitlines()) == ["worker 0 | one", "worker 0 | two", "worker 1 | one", "worker 1 | two"]
    job = run(tmp_path, "--server_num=0", "--worker_num=2", script=script, words=[])
    assert job.printed().splitlines() == ["worker 0 | one", "worker 0 | two"]


def test_without_a_folder_of_logs_the_output_is_the_launchers(tmp_path):
    job = run(tmp_path, "--log_dir=", "--server_num=0", "--worker_num=1", stub=["worker-0=say:hello,exit:0"])
    assert job.status == 0 and job.printed() == "hello\n" and not (tmp_path / "logs").exists()


def test_two_jobs_do_not_share_their_logs(tmp_path):
    with Launcher(tmp_path, *TWO) as job:
        job.wait_for(*ALL)
        other = tmp_path / "other"
        other.mkdir()
        second = run(other, f"--log_dir={tmp_path}/logs", *TWO)
        assert second.status == 2 and "another job writes its logs in" in second.said() and not second.pids()
        job.go()
        assert job.end() == 0


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "logs").write_text("a file")
    job = run(tmp_path, *TWO)
    assert job.status == 2 and "--log_dir takes another folder" in job.said()


def test_a_program_that_cannot_be_run(tmp_path):
    (tmp_path / "broken").write_text("#!/nowhere/sh\n")
    (tmp_path / "broken").chmod(0o755)
    job = run(tmp_path, "--server_num=0", "--worker_num=1", "--no_python", script=tmp_path / "broken", words=[])
    assert job.status == 127 and "worker 0 could not be started" in job.said()


def test_without_standard_files(tmp_path):
    """As some daemons start what they start."""
    line = f"exec {sys.executable} -m paddle.distributed.launch_ps {STUB} {tmp_path} all=child <&- >&- 2>&-"
    job = subprocess.Popen(["sh", "-c", line], cwd=tmp_path, env=environment())
    try:
        until(lambda: all((tmp_path / f"{name}.json").exists() for name in ALL))
        (tmp_path / "go").touch()
        assert job.wait(20) == 0
    finally:
        job.kill()
        job.wait()
