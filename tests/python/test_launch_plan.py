"""What launchers make of their options: endpoints, ports, environments, commands, the secret; and what they say of wrong ones."""

import json
import os
import re
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from cluster import free_ports, give_back, until
from launcher import COMMANDS, PADDLE, STUB, Launcher, environment, run

from paddle import _core
from paddle.distributed import hosts, options, plan, ports
from paddle.distributed.hosts import Endpoint, Usage
from paddle.distributed.job import SERVER, WORKER, Job, Role

TWO = ("--server_num=2", "--worker_num=2")
ALL = ("server-0", "server-1", "worker-0", "worker-1")


def ask(command: str, *words: str, folder: Path | None = None, **env: str) -> subprocess.CompletedProcess:
    return subprocess.run([*COMMANDS[command], *words], capture_output=True, text=True, timeout=60, cwd=folder,
                          env=environment(**env))


# ---- the plan is what runs ----

@pytest.mark.parametrize("more", [[], ["--env=A=b c$'d\"", "--restart=workers", "--log_dir=with blank"]])
def test_a_dry_run_prints_what_runs(tmp_path, more):
    """Its lines are a script: run by a shell it gives each process the same environment, command, folder and log."""
    first = free_ports(1)
    give_back(first)
    line = ["--dry_run", *TWO, f"--start_port={first[0]}", *more, str(STUB), str(tmp_path / "x"), "two words", "all=say:hello"]
    folders = [tmp_path / "a", tmp_path / "b"]
    seen = []
    for folder in folders:
        folder.mkdir()
        (tmp_path / "x").mkdir()
        (tmp_path / "x" / "go").touch()
        # what must not reach the processes, and what must
        env = {"http_proxy": "http://proxy", "HTTPS_PROXY": "http://proxy", "TRAINING_ROLE": "nobody", "PADDLE_TRAINER_IPS": "a",
               "KEPT": "yes"}
        if folder is folders[0]:
            said = ask("local", *line, folder=folder, **env)
            assert (said.returncode, said.stderr) == (0, "") and not list(folder.iterdir())
            subprocess.run(["sh", "-eu"], input=said.stdout, text=True, check=True, cwd=folder, timeout=60, env=environment(**env))
        else:
            done = ask("local", *(word for word in line if word != "--dry_run"), folder=folder, **env)
            assert done.returncode == 0, done.stderr
        logs = folder / ("with blank" if more else "logs")
        assert sorted(path.name for path in logs.iterdir()) == ["serverlog.0", "serverlog.1", "workerlog.0", "workerlog.1"]
        assert (logs / "workerlog.1").read_text() == "hello\n"
        seen.append({name: json.loads((tmp_path / "x" / f"{name}.json").read_text()) for name in ALL})
        (tmp_path / "x").rename(folder / "x")
    for name in ALL:
        one, other = (each[name] for each in seen)
        for facts, folder in zip((one, other), folders):
            assert facts["cwd"] == str(folder) and facts["unbuffered"]
            assert facts["env"]["KEPT"] == "yes" and not any("proxy" in key.lower() for key in facts["env"])
            assert "PADDLE_TRAINER_IPS" not in facts["env"]
            del facts["pid"], facts["cwd"]
            # new in each run; the shell's
            for key in ("PADDLE_PS_SECRET_FILE", "PADDLE_OUTER_SECRET_FILE", "PWD", "OLDPWD", "_", "SHLVL"):
                facts["env"].pop(key, None)
        assert one == other
        if more:
            assert one["env"]["A"] == "b c$'d\"" and one["env"]["FLAGS_ps_on_trainer_loss"] == "wait"


def a_job(servers, workers) -> Job:
    return Job(Role(SERVER, tuple(servers), ("run",)), Role(WORKER, tuple(workers), ("run",)))


def test_every_generation_finds_its_variables():
    servers = [Endpoint("10.0.0.1", 6170), Endpoint("10.0.0.2", 6170)]
    workers = [Endpoint("10.0.0.1", 6171), Endpoint("10.0.0.2", 6171), Endpoint("10.0.0.2", 6172)]
    server, worker = (plan.make(a_job(servers, workers))[i].given for i in (1, 4))
    common = {
        "PADDLE_PSERVERS_IP_PORT_LIST": "10.0.0.1:6170,10.0.0.2:6170", "PADDLE_TRAINERS_NUM": "3",
        "PADDLE_TRAINER_ENDPOINTS": "10.0.0.1:6171,10.0.0.2:6171,10.0.0.2:6172", "PSERVERS": "10.0.0.1:6170,10.0.0.2:6170",
        "PADDLE_TRAINERS": "3", "TRAINERS": "3", "PADDLE_PSERVER_IPS": "10.0.0.1,10.0.0.2", "PADDLE_PSERVER_PORT": "6170",
        "PADDLE_PSERVERS": "10.0.0.1,10.0.0.2", "PADDLE_INIT_PSERVERS": "10.0.0.1,10.0.0.2", "PADDLE_INIT_PORT": "6170",
        "POD_IP": "10.0.0.2", "PADDLE_CURRENT_IP": "10.0.0.2", "PADDLE_PORT": "6170",
    }
    assert server == common | {"TRAINING_ROLE": "PSERVER", "PADDLE_TRAINING_ROLE": "PSERVER", "PADDLE_PSERVER_ID": "1",
                               "SERVER_ENDPOINT": "10.0.0.2:6170"}
    assert worker == common | {"TRAINING_ROLE": "TRAINER", "PADDLE_TRAINING_ROLE": "TRAINER", "PADDLE_TRAINER_ID": "2",
                               "PADDLE_INIT_TRAINER_ID": "2"}


def test_servers_with_different_ports():
    """A script that adds one port to every host cannot be told; fluid.Trainer takes the ports with the hosts."""
    first, second, worker = plan.make(a_job([Endpoint("h", 1), Endpoint("h", 2)], [Endpoint("h", 3)]))
    assert (first.given["PADDLE_PORT"], second.given["PADDLE_PORT"]) == ("1", "2")
    for each in (first, second, worker):
        assert each.given["PADDLE_PSERVER_IPS"] == "h:1,h:2" and "PADDLE_PSERVER_PORT" not in each.given
    assert second.given["PADDLE_CURRENT_IP"] == "h:2" and "PADDLE_PORT" in worker.taken


def test_role_makers_understand_the_plan(monkeypatch):
    from paddle.fluid.incubate.fleet.base import role_maker

    job = a_job([Endpoint("127.0.0.1", 1), Endpoint("[::1]", 2)], [Endpoint("127.0.0.1", 3), Endpoint("[::1]", 4)])
    for process in plan.make(job):
        for make in (role_maker.PaddleCloudRoleMaker, role_maker.GeneralRoleMaker):
            with monkeypatch.context() as patch:
                for name in process.taken:
                    patch.delenv(name, raising=False)
                for name, value in process.given.items():
                    patch.setenv(name, value)
                role = make()
                role.generate_role()
                assert role.is_server() == (process.role == SERVER) and (role.worker_num(), role.server_num()) == (2, 2)
                assert (role.server_index() if role.is_server() else role.worker_index()) == process.index


@pytest.mark.parametrize("second", [6170, 6171])
def test_fluid_trainer_understands_the_plan(monkeypatch, second):
    """Also where servers have different ports, which upstream's could not say."""
    from paddle.fluid.contrib import trainer_cluster

    job = a_job([Endpoint("127.0.0.1", 6170), Endpoint("127.0.0.2", second)], [Endpoint("127.0.0.1", 1), Endpoint("127.0.0.1", 2)])
    for process in plan.make(job):
        with monkeypatch.context() as patch:
            for name, value in process.given.items():
                patch.setenv(name, value)
            cluster = trainer_cluster.from_environment()
            assert cluster.endpoints == ["127.0.0.1:6170", f"127.0.0.2:{second}"] and cluster.trainers == 2
            assert cluster.endpoint == (str(process.endpoint) if process.role == SERVER else None)
            assert cluster.trainer_id == (None if process.role == SERVER else process.index)


def test_threads(tmp_path):
    """The cores are divided, unless the user says otherwise."""
    cores = len(os.sched_getaffinity(0))
    line = ["--dry_run", "--server_num=1", "--worker_num=1", str(STUB)]
    assert f"OMP_NUM_THREADS={max(1, cores // 2)} " in ask("launch", *line).stdout
    assert "OMP_NUM_THREADS" not in ask("launch", *line, OMP_NUM_THREADS="3").stdout
    assert "OMP_NUM_THREADS=5 " in ask("launch", "--env=OMP_NUM_THREADS=5", *line).stdout
    assert "OMP_NUM_THREADS" not in ask("launch", *line, FLAGS_paddle_num_threads="3").stdout
    one = ask("launch", "--dry_run", "--server_num=0", "--worker_num=1", str(STUB)).stdout
    assert f"OMP_NUM_THREADS={cores} " in one


def test_modules_and_programs(tmp_path):
    line = ["--dry_run", "--server_num=0", "--worker_num=1"]
    assert f"{sys.executable} -u -m json.tool --help" in ask("launch", *line, "-m", "json.tool", "--help").stdout
    assert re.search(r"/env true > log", ask("launch", *line, "--no_python", "env", "true").stdout)


# ---- the secret ----

def test_the_secret_is_nowhere_to_be_seen(tmp_path):
    with Launcher(tmp_path, *TWO, stub=["all=say:hello"]) as job:
        job.wait_for(*ALL)
        paths = {job.facts(name)["env"]["PADDLE_PS_SECRET_FILE"] for name in ALL}
        path = Path(paths.pop())
        assert not paths and path.parent == tmp_path
        value = path.read_text().strip()
        assert len(value) >= 32 and stat.S_IMODE(path.stat().st_mode) == 0o600
        pids = [job.process.pid, *job.engines(), *job.pids()]
        for pid in pids:
            for name in ("cmdline", "environ"):
                assert value.encode() not in Path(f"/proc/{pid}/{name}").read_bytes()
        job.go()
        assert job.end() == 0 and not path.exists()
        written = [each.read_text() for each in [job.out, job.err, *(tmp_path / "logs").iterdir(), *tmp_path.glob("*.json")]]
        assert not any(value in text for text in written)


def test_each_job_has_another(tmp_path):
    seen = set()
    for name in "ab":
        (tmp_path / name).mkdir()
        with Launcher(tmp_path / name, *TWO) as job:
            job.wait_for(*ALL)
            seen.add(Path(job.facts("server-0")["env"]["PADDLE_PS_SECRET_FILE"]).read_text())
            job.process.kill()  # the other process of the launcher removes it
            job.wait_until_gone()
            until(lambda: not Path(job.facts("server-0")["env"]["PADDLE_PS_SECRET_FILE"]).exists())
    assert len(seen) == 2


@pytest.mark.parametrize("line, env", [
    (["--secret=none"], {}), ([], {"PADDLE_PS_SECRET": "a secret of the user's"}), ([], {"PADDLE_PS_SECRET_FILE": "/dev/null"}),
    (["--env=PADDLE_PS_SECRET_FILE=/dev/null"], {}),
])
def test_no_secret_is_made_where_there_is_one(tmp_path, line, env):
    done = ask("local", "--dry_run", *line, str(STUB), folder=tmp_path, **env)
    assert done.returncode == 0 and "openssl" not in done.stdout and "user's" not in done.stdout
    assert ("PADDLE_PS_SECRET_FILE=/dev/null " in done.stdout) == (len(line) == 1 and "FILE" in line[0])


def test_a_secret_on_the_command_line(tmp_path):
    done = ask("local", "--env=PADDLE_PS_SECRET=0123456789abcdef", str(STUB))
    assert done.returncode == 2 and "is seen by all who list processes" in done.stderr and "0123" not in done.stderr


# ---- ports ----

def test_a_port_that_is_taken(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        comm = Path("/proc/self/comm").read_text().strip()
        for line in (["--servers", f"127.0.0.1:{port}", "--worker_num=1"], [f"--start_port={port}", *TWO]):
            done = ask("launch", *line, str(STUB))
            assert done.returncode == 2, done
            assert f"port {port} of 127.0.0.1 is taken by {comm} (process {os.getpid()})." in done.stderr


def test_a_port_that_a_connection_has(tmp_path):
    """The system gives a socket that connects a port, which is taken as long as the connection lives, and a minute more."""
    any_port = ("127.0.0.1", 0)
    with (socket.create_server(any_port) as server,
          socket.create_connection(server.getsockname(), source_address=any_port) as client):
        port, comm = client.getsockname()[1], Path("/proc/self/comm").read_text().strip()
        accepted, _ = server.accept()
        with accepted:
            said = ask("launch", f"--start_port={port}", *TWO, str(STUB)).stderr
            assert (f"port {port} of 127.0.0.1 is taken by an open connection of {comm} (process {os.getpid()}). --start_port "
                    "takes another, or end that process; ports from ") in said
            client.close()  # first: the port stays with this end
            assert accepted.recv(1) == b""
        said = ask("launch", f"--start_port={port}", *TWO, str(STUB)).stderr
        low, high = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
        assert said == (f"python -m paddle.distributed.launch: port {port} of 127.0.0.1 is taken by a connection that has ended "
                        f"(TIME_WAIT). --start_port takes another, or wait a minute; ports from {low} to {high} are for outgoing "
                        "connections: take one below.\n")
        said = ask("launch", f"--http={port}", *TWO, str(STUB)).stderr
        assert "is taken by a connection that has ended (TIME_WAIT). --http=0 takes any that is free" in said


def test_other_ports_are_found(tmp_path, monkeypatch):
    held, more = ports.Held(), ports.Held()
    first, = free_ports(1)
    give_back([first])
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", first))
        taken.listen()
        found, passed = ports.find_free(held, "127.0.0.1", first, 2)
        assert first not in [each.port for each in found] and f"{first} is taken by" in passed[0]
        again, passed = ports.find_free(more, "127.0.0.1", first, 2)
        assert not set(again) & set(found) and f"(process {os.getpid()})" in passed[-1]
    # a server can listen there all the same
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(found[0])
        server.listen()


def test_two_launchers_at_once_have_different_ports(tmp_path):
    jobs = []
    try:
        for name in "ab":
            (tmp_path / name).mkdir()
            jobs.append(Launcher(tmp_path / name, *TWO))
        for job in jobs:
            job.wait_for(*ALL)
        seen = [job.facts(name)["env"]["PADDLE_PORT"] for job in jobs for name in ALL[:2]]
        assert len(set(seen)) == 4
        for job in jobs:
            job.go()
            assert job.end() == 0
    finally:
        for job in jobs:
            job.__exit__()


def test_servers_with_folders_keep_their_ports():
    """The folder of a server has its port in its name: on another port it would find nothing."""
    held = ports.Held()
    found, _ = ports.find_free(held, "127.0.0.1", 6170, 1)
    if found[0].port == 6170:
        done = ask("launch", *TWO, str(STUB), FLAGS_ps_dir="here")
        assert done.returncode == 2 and "so no other port is looked for" in done.stderr


def test_one_port_on_several_addresses():
    """For scripts that know one port of all servers."""
    first, = free_ports(1)
    give_back([first])
    line = [f"--servers=127.0.0.1:{first},127.0.0.2:{first}", "--worker_num=1", "--dry_run", str(STUB)]
    done = ask("launch", *line)
    assert done.returncode == 0 and f"PADDLE_PSERVER_PORT={first} " in done.stdout, done.stderr


# ---- several machines ----

def test_addresses_of_this_machine():
    found = hosts.addresses()
    assert "127.0.0.1" in found
    for each in found:
        family = socket.AF_INET6 if ":" in each else socket.AF_INET
        if not each.startswith("fe80"):
            with socket.socket(family, socket.SOCK_DGRAM) as one:
                one.bind((each, 0))


OURS, THEIRS = "10.1.2.3", "10.1.2.4"


@pytest.fixture
def at_ours(monkeypatch):
    monkeypatch.setattr(hosts, "addresses", lambda: ["127.0.0.1", OURS])


def test_which_hosts_are_this_machine(at_ours):
    assert hosts.local_hosts([OURS, THEIRS, OURS]) == {OURS}
    assert hosts.local_hosts(["127.0.0.1", "localhost", "127.0.0.2", "[::1]"]) == {"127.0.0.1", "localhost", "127.0.0.2", "[::1]"}
    assert hosts.local_hosts(["127.0.0.1", OURS]) == {"127.0.0.1", OURS}
    assert hosts.local_hosts([OURS, THEIRS], THEIRS) == {THEIRS}
    with pytest.raises(Usage, match=f"job's hosts is this machine: {THEIRS}. This machine's addresses are 127.0.0.1, {OURS}"):
        hosts.local_hosts([THEIRS])
    with pytest.raises(Usage, match=f"127.0.0.1 is another machine on each machine, and {THEIRS} is not this one"):
        hosts.local_hosts(["127.0.0.1", THEIRS])
    with pytest.raises(Usage, match="which is none of the job's hosts: 10.1.2.4"):
        hosts.local_hosts([THEIRS], OURS)
    with pytest.raises(Usage, match="the host 'no.such.host.invalid' has no address"):
        hosts.local_hosts(["no.such.host.invalid"])


def test_one_line_for_each_machine(tmp_path):
    """As 2.0 has it; each machine starts its own. No secret can be made, and a server waits for the workers of the others."""
    first, = free_ports(1)
    give_back([first])
    line = [f"--servers=192.0.2.1:{first},192.0.2.2:{first}", "--workers=192.0.2.1,192.0.2.2,192.0.2.2"]
    with Launcher(tmp_path, *line, "--host=192.0.2.2", command="launch", stub=["server-1=stays"]) as job:
        job.wait_for("server-1", "worker-1", "worker-2")
        assert not (tmp_path / "worker-0.json").exists() and not (tmp_path / "server-0.json").exists()
        facts = job.facts("worker-2")["env"]
        assert facts["PADDLE_TRAINER_ENDPOINTS"] == f"192.0.2.1:{first + 1},192.0.2.2:{first + 2},192.0.2.2:{first + 3}"
        assert "PADDLE_PS_SECRET_FILE" not in facts and "no secret is set: whoever reaches the ports" in job.said()
        job.go()
        job.wait_until_said("the workers of this machine have ended; its servers end with those of the other machines")
        os.kill(job.pid("server-1"), 15)  # here nobody else ends it
        assert job.end() == 143 and sorted(path.name for path in (tmp_path / "log").iterdir()) == [
            "serverlog.1", "workerlog.1", "workerlog.2"]


def test_pod_ip_says_which_machine_this_is():
    line = ["--dry_run", "--servers=192.0.2.1:6170,192.0.2.2:6170", "--workers=192.0.2.1,192.0.2.2", str(STUB)]
    done = ask("launch", *line, POD_IP="192.0.2.1")
    assert done.returncode == 0 and re.findall(r"^# (.*)$", done.stdout, re.MULTILINE) == [
        "server 0 on 192.0.2.1", "worker 0 on 192.0.2.1"]
    # where the job is on this machine, what an earlier one has left in the environment does not matter
    assert ask("launch", "--dry_run", *TWO, str(STUB), POD_IP="192.0.2.1").returncode == 0


# ---- options ----

@pytest.mark.parametrize("text, found", [
    ("a:1,b:2", ["a:1", "b:2"]), (" a:1 , b:2", ["a:1", "b:2"]), ("[::1]:7", ["[::1]:7"]),
])
def test_endpoints(text, found):
    assert list(map(str, hosts.read_endpoints("servers", text))) == found


def test_endpoints_without_a_port():
    assert list(map(str, hosts.read_endpoints("workers", "a,b:9,::1,[::2]", 5))) == ["a:5", "b:9", "[::1]:7", "[::2]:8"]


@pytest.mark.parametrize("text", ["a", "a:", ":1", "a:0", "a:65536", "a:x", "a:1,,b:2", "", "a:1,a:1", "[::1]", "::1"])
def test_endpoints_that_are_none(text):
    with pytest.raises(Usage, match="--servers "):
        hosts.read_endpoints("servers", text)


TABLE = (
    options.Option("number", options.COUNT, "N", 2, "a number", "count", 1),
    options.Option("text", options.TEXT, "T", "", "a text"),
    options.Option("two_words", options.SWITCH, "", False, "a switch"),
    options.Option("m", options.SWITCH, "", False, "one letter"),
    options.Option("shade", options.CHOICE, "red|green", "red", "a choice"),
    options.Option("all", options.MANY, "X", None, "several"),
    options.Option("said", options.YES_NO, "True|False", True, "yes or no"),
)


@pytest.mark.parametrize("line, name, value, rest", [
    ("--number=3 s.py", "number", 3, ["s.py"]), ("--count 4 s.py --number=5", "number", 4, ["s.py", "--number=5"]),
    ("-number=3 -- --odd.py", "number", 3, ["--odd.py"]), ("--two-words s", "two_words", True, ["s"]),
    ("-m s -m", "m", True, ["s", "-m"]), ("--two_words=0 s", "two_words", False, ["s"]),
    ("--all a --all=b s", "all", ["a", "b"], ["s"]), ("--text= s", "text", "", ["s"]),
    ("--text -x s", "text", "-x", ["s"]), ("--said False s", "said", False, ["s"]), ("--said= s", "said", False, ["s"]),
    ("s --text=x", "text", "", ["s", "--text=x"]), ("--shade=green", "shade", "green", []),
])
def test_options_in_all_their_forms(line, name, value, rest):
    settings, words = options.read(TABLE, line.split(" "))
    assert settings[name] == value and words == rest


@pytest.mark.parametrize("line, said", [
    ("--numbr=3", r"there is no option '--numbr'. Did you mean '--number'\?"),
    ("--zzzz", r"there is no option '--zzzz'. --help lists"),
    ("--number=0", "--number takes a whole number from 1 on, found '0'"), ("--number", "--number needs a value: N"),
    ("--shade=gren", r"--shade takes red or green \(did you mean green\?\), found 'gren'"),
    ("--said=maybe", "--said takes True or False"),
])
def test_options_that_are_not_understood(line, said):
    with pytest.raises(Usage, match=said):
        options.read(TABLE, line.split(" "))


@pytest.mark.parametrize("command, words, said", [
    ("launch", [str(STUB)], "this launcher starts jobs with servers, by --server_num=N"),
    ("launch", [str(STUB)], "several workers without servers (collective) are not there yet.\n"),
    ("launch", ["--worker_num=1", str(STUB)], "the number of servers is missing: --server_num=N on this machine"),
    ("launch", ["--server_num=1", str(STUB)], "the number of workers is missing"),
    ("launch", ["--gpus=0,1", str(STUB)], "--gpus: there are no GPUs here"),
    ("launch", ["--selected_gpus", "0", str(STUB)], "Use --server_num=N --worker_num=N on this machine"),
    ("launch", ["--cluster_node_ips=a,b", str(STUB)], "it belongs to jobs of workers without servers"),
    ("launch", ["--nproc_per_node=4", str(STUB)], "--worker_num=4 is what --nproc_per_node=4 was"),
    ("launch", ["--heter_workers=a", str(STUB)], "there are servers and workers only"),
    ("launch", ["--master=a:1", str(STUB)], "type the same --servers=HOST:PORT,..."),
    ("launch", ["--run_mode=collective", str(STUB)], "--run_mode takes ps, found 'collective'"),
    ("launch", ["--server_num=2", "--servers=h:1", "--worker_num=1", str(STUB)], "--server_num is 2, but --servers lists 1"),
    ("launch_ps", ["--server_num=2", "--endpoints=127.0.0.1:1", str(STUB)], "--server_num is 2, but --servers lists 1"),
    ("launch_ps", ["--sever_num=2", str(STUB)], "there is no option '--sever_num'. Did you mean '--server_num'?"),
    ("launch_ps", [], "the script is missing"), ("launch_ps", ["no_such.py"], "there is no script 'no_such.py'"),
    ("launch_ps", ["--worker_num=two", str(STUB)], "--worker_num takes a whole number from 0 on, found 'two'"),
    ("launch_ps", ["--start_port=65535", str(STUB)], "--start_port=65535 leaves no room for 2 servers"),
    ("local", ["--worker_num=99999", "--dry_run", str(STUB)], "99999 workers need ports 6171 to 106169, past 65535"),
    ("launch_ps", ["--env=A", str(STUB)], "--env takes NAME=VALUE, found 'A'"),
    ("local", ["--server_num=0", "--worker_num=0", str(STUB)], "there is nothing to start"),
    ("local", ["--no_python", "no-such-program"], "there is no program 'no-such-program'"),
    ("local", ["--restrat=all", str(STUB)], "Did you mean '--restart'?"),
])
def test_what_a_launcher_cannot_do(tmp_path, command, words, said):
    done = ask(command, *words, folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, "") and said in done.stderr, done.stderr
    assert not list(tmp_path.iterdir())


def test_a_script_that_is_misspelt(tmp_path):
    (tmp_path / "train.py").touch()
    done = ask("local", "trian.py", folder=tmp_path)
    assert done.returncode == 2 and f"there is no script 'trian.py' in {tmp_path}. Did you mean 'train.py'?" in done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_help_is_complete(command):
    done = ask(command, "--help")
    assert (done.returncode, done.stderr) == (0, "") and done.stdout == ask(command, "-h").stdout
    for name in ("server_num", "worker_num", "servers", "log_dir", "restart", "max_restarts", "dry_run", "follow", "env", "secret"):
        assert f"    --{name}" in done.stdout
    assert "usage: " in done.stdout and max(map(len, done.stdout.splitlines())) <= 110
    for example in re.findall(r"^    ((?:python|paddle) .*?)(?:   .*)?$", done.stdout, re.MULTILINE):
        assert example.split()[0] in ("python", "paddle")


def test_print_config_false_is_quiet(tmp_path):
    job = run(tmp_path, "--print_config=False", "--server_num=0", "--worker_num=1", stub=["worker-0=exit:0"])
    assert job.status == 0 and job.said().startswith("launch: the job has ended well")


def test_upstreams_other_names(tmp_path):
    done = ask("launch", "--dry_run", "--server_num=1", "--trainer_num=1", str(STUB), FLAGS_START_PORT="7000")
    assert done.returncode == 0 and "PSERVERS=127.0.0.1:7000 " in done.stdout
    done = subprocess.run([sys.executable, "-m", "paddle.distributed.fleet.launch", "--dry_run", *TWO, str(STUB)],
                          capture_output=True, text=True, timeout=60, env=environment())
    assert done.returncode == 0 and done.stdout.count("TRAINING_ROLE=PSERVER \\\n") == 4


def test_modules_are_as_upstreams():
    import paddle.distributed
    from paddle.distributed import fleet

    assert callable(paddle.distributed.launch_ps.launch) and callable(fleet.launch.launch)
    with pytest.raises(AttributeError, match="paddle.distributed.fleet.init is not there yet"):
        fleet.init
    with pytest.raises(AttributeError, match="paddle.distributed.init_parallel_env is not there yet"):
        paddle.distributed.init_parallel_env


# ---- the command ----

def test_the_command_is_not_fooled_by_the_working_folder(tmp_path):
    """Upstream's own launcher is a paddle.py."""
    (tmp_path / "paddle.py").write_text("raise SystemExit('this one')\n")
    (tmp_path / "train.py").write_text("print('trained')\n")
    done = subprocess.run([PADDLE, "launch", "local", "--server_num=0", "--worker_num=1", "train.py"], cwd=tmp_path,
                          capture_output=True, text=True, timeout=60, env=environment())
    assert (done.returncode, done.stdout) == (0, "worker 0 | trained\n"), done.stderr


def test_the_command_takes_the_python_of_its_environment(tmp_path):
    """Called by its path, by its name, and by a link to it."""
    line = ["launch", "local", "--dry_run", str(STUB)]
    (tmp_path / "link").symlink_to(PADDLE)
    for path, command in (("/nowhere", PADDLE), (f"{PADDLE.parent}:/nowhere", "paddle")):
        done = subprocess.run(["/usr/bin/env", f"PATH={path}", str(command), *line], capture_output=True, text=True, timeout=60,
                              env=environment())
        assert done.returncode == 0 and f"    {PADDLE.parent}/python" in done.stdout, done.stderr


def test_the_command_without_python(tmp_path):
    lonely = tmp_path / "paddle"
    lonely.write_bytes(PADDLE.read_bytes())
    lonely.chmod(0o755)
    library = Path(_core.__file__).parent / "_lib"
    done = subprocess.run([lonely, "launch", "local", "x.py"], capture_output=True, text=True, timeout=60,
                          env={"PATH": "/nowhere", "LD_LIBRARY_PATH": str(library)})
    assert done.returncode == 1 and "there is no python3 beside this command or in $PATH" in done.stderr


def test_help_of_the_command():
    texts = [subprocess.run([PADDLE, *words], capture_output=True, text=True, timeout=60, check=True).stdout
             for words in (["launch", "--help"], ["launch", "-h"], ["help", "launch"])]
    assert texts[0] == texts[1] == texts[2] and "paddle launch local --help" in texts[0]


@pytest.mark.parametrize("words, said", [
    ([], "usage: paddle launch local"), (["lcal"], "found 'lcal'. Did you mean 'local'?"),
    (["ssh", "x.py"], "it can start jobs by: local; found 'ssh'"),
])
def test_the_command_says_what_it_can(words, said):
    done = subprocess.run([PADDLE, "launch", *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and said in done.stderr
