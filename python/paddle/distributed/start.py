"""What all commands that start a job on this machine share: their options, the way from options to the description of a job, and
from there to the run. A command gives its table of options; what it calls otherwise than others it translates before."""

from __future__ import annotations

import difflib
import fcntl
import os
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from paddle.distributed import guard, hosts, plan, ports, resume, secret, watch, watched
from paddle.distributed.hosts import Endpoint, Usage
from paddle.distributed.job import SERVER, WORKER, Job, Role, Secret
from paddle.distributed.local import LONGEST_PAUSE, Engine
from paddle.distributed.options import CHOICE, COUNT, MANY, SECONDS, SWITCH, TEXT, YES_NO, Option, Refused, read, show
from paddle.distributed.show import Follower, clear, count, say, span

FIRST_PORT = 6170

# Options of every command. What is there when nobody says it is in the help of some: it must be seen whether somebody did.
COMMON = (
    Option("start_port", COUNT, "PORT", None, "the first port of servers that are counted (default: 6170, or free ones behind it)",
           least=1),
    Option("restart", CHOICE, "none|workers|servers|all|job", "none",
           "what is started again when it fails; job: all of it, from the newest checkpoint"),
    Option("max_restarts", COUNT, "N", 3, "how often each process, or the job, may be started again", "max_restart"),
    Option("keep_going", SWITCH, "", False, "a worker that fails does not end the job: the others go on without it"),
    Option("grace", SECONDS, "SECONDS", 30.0, "between asking a process to end and killing it; servers write snapshots then"),
    Option("checkpoint_dir", TEXT, "DIR", "", "keep checkpoints of a Fleet job there, from which it can go on"),
    Option("checkpoint_seconds", COUNT, "SECONDS", None, "between two checkpoints (default: 600)"),
    Option("checkpoint_steps", COUNT, "N", None, "a checkpoint after so many batches, in place of seconds"),
    Option("checkpoint_keep", COUNT, "N", None, "how many checkpoints are kept (default: 2)", least=1),
    Option("resume", TEXT, "auto|must|FOLDER", "",
           "go on from the newest whole checkpoint, where there is one; must: there is one; or from that of a folder"),
    Option("env", MANY, "NAME=VALUE", None, "a variable for all processes; may be given several times"),
    Option("secret", CHOICE, "auto|none", "auto", "make a secret for the job where the environment has none"),
    Option("follow", CHOICE, "none|first|workers|all", "none", "whose output is shown here as well: the first worker's, ..."),
    Option("http", TEXT, "PORT|HOST:PORT", "", "show the job by HTTP: a live page, /metrics, probes; 0: any port that is free"),
    Option("host", TEXT, "HOST", "", "which of the job's hosts this machine is, where that cannot be seen"),
    Option("print_config", YES_NO, "True|False", True, "say at the start what is started"),
    Option("module", SWITCH, "", False, "SCRIPT is a module's name, as for python -m", "m"),
    Option("no_python", SWITCH, "", False, "SCRIPT is a program of its own, not Python's"),
    Option("dry_run", SWITCH, "", False, "start nothing; print the environment and the command of each process"),
    Option("help", SWITCH, "", False, "show this text", "h"),
)


class Command(NamedTuple):
    """A command that starts jobs."""

    name: str  # as a user types it
    about: str  # the help text above the options
    options: tuple[Option, ...]
    numbers: tuple[int | None, int | None] = (None, None)  # servers and workers where nobody says how many
    refused: tuple[Refused, ...] = ()
    words: tuple[str, str] | None = None  # what upstream's says when all workers have ended, and all servers


def main(command: Command, words: Sequence[str]) -> int:
    """Runs it with the words of the command line; the status of the job, -N after signal N, 2 when it was misused."""
    guard.have_standard_files()
    try:
        settings, rest = read(command.options, words, command.refused)
        if settings["help"]:
            print(f"usage: {command.name} [options] SCRIPT [arguments of the script]\n\n{command.about}\n{show(command.options)}",
                  end="")
            return 0
        for name, number in zip(("server", "worker"), command.numbers):
            if settings[f"{name}_num"] is None and not settings[f"{name}s"]:
                settings[f"{name}_num"] = number
        held = ports.Held()
        inherited, outer = dict(os.environ), plan.of_outer_job(os.environ)
        for name in outer:
            del os.environ[name]
        job, local = describe(settings, rest, held)
        processes = [each for each in plan.make(job, os.environ, outer) if each.endpoint.host in local]
        if settings["dry_run"]:
            print(plan.script(job, processes, inherited), end="")
            return 0
        door = watch.Door(settings["http"]) if settings["http"] else None
        _notes(settings, job, processes, door, [name for name in outer if name.startswith("FLAGS_")])
        status, attempt = run(job, processes, settings, command.words, door), 0
        while status > 0 and settings["restart"] == "job" and attempt < settings["max_restarts"]:
            attempt += 1
            job = _again(job, settings, attempt)
            processes = [each for each in plan.make(job, os.environ, outer) if each.endpoint.host in local]
            status = run(job, processes, settings, command.words, door)
        folder = job.environment.get("FLAGS_checkpoint_dir")
        if folder and status == 0 and not os.path.isdir(folder):
            say(f"nobody has kept checkpoints in {folder}: that is for scripts with Fleet (docs/RESUME.md)")
        return status
    except Usage as why:
        print(f"{command.name}: {why}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:  # nothing had been started
        return -2


def run(job: Job, processes: list[plan.Process], settings: dict[str, Any], words: tuple[str, str] | None,
        door: watch.Door | None = None) -> int:
    """Starts the plan on this machine, and watches it to its end."""
    lock = _take_logs(job, processes)
    engine = Engine(job, processes, dict(os.environ), _follower(processes, settings["follow"]), words, door)

    def work(lifeline: int) -> int:
        try:
            return engine.run(lifeline)
        finally:
            secret.remove(job.secret.file)

    try:
        if job.reports:
            watched.make_folder(job.reports)
        if job.secret.file:
            secret.make(job.secret.file)
        return guard.run(work)
    finally:
        secret.remove(job.secret.file)
        watched.remove_folder(job.reports)
        if lock is not None:
            os.close(lock)


# ---- from options to the description ----


def describe(settings: dict[str, Any], words: Sequence[str], held: ports.Held) -> tuple[Job, set[str]]:
    """The job that was asked for, with ports that are held, and which of its hosts are this machine."""
    command = _command(settings, words)
    environment = _environment(settings["env"])
    around = {**os.environ, **environment}
    restarted = {"none": (), "job": (), "workers": (WORKER,), "servers": (SERVER,), "all": (SERVER, WORKER)}[settings["restart"]]
    if SERVER in restarted and not around.get("FLAGS_ps_dir"):
        raise Usage(f"--restart={settings['restart']} starts servers again, and they need a folder for what they hold: without it "
                    "they come back empty, and the workers refuse them. Set FLAGS_ps_dir=DIR, and FLAGS_ps_log=write, with which "
                    "nothing is lost (docs/LAUNCH.md).")
    environment |= resume.variables(settings, around)
    if settings["restart"] == "job" and not {**around, **environment}.get("FLAGS_checkpoint_dir"):
        raise Usage("--restart=job has the job go on from its newest checkpoint: --checkpoint_dir=DIR says where they are kept.")
    if "FLAGS_ps_on_trainer_loss" not in around and (WORKER in restarted or settings["keep_going"]):
        environment["FLAGS_ps_on_trainer_loss"] = "shrink" if settings["keep_going"] else "wait"

    if not settings["servers"] and not settings["workers"] and settings["server_num"] is settings["worker_num"] is None:
        raise Usage("this launcher starts jobs with servers, by --server_num=N --worker_num=N on this machine or "
                    "--servers=HOST:PORT,... --workers=HOST,... on several; several workers without servers (collective) are not "
                    "there yet.")
    servers_num = _count("server", settings["servers"], settings["server_num"])
    workers_num = _count("worker", settings["workers"], settings["worker_num"])
    if servers_num + workers_num == 0:
        raise Usage("there is nothing to start: --server_num and --worker_num are 0.")
    servers = _servers(settings, servers_num, held, bool(around.get("FLAGS_ps_dir")))
    workers = _workers(settings, workers_num, servers)
    everywhere = [each.host for each in (*servers, *workers)]
    pod = os.environ.get("POD_IP", "")
    local = hosts.local_hosts(everywhere, settings["host"] or (pod if pod in everywhere else ""))
    here = [each for each in servers if each.host in local]
    if settings["servers"]:
        ports.take_given(held, here, "Take another in --servers")
    job = Job(
        Role(SERVER, servers, command, settings["max_restarts"] if SERVER in restarted else 0),
        Role(WORKER, workers, command, settings["max_restarts"] if WORKER in restarted else 0),
        environment,
        _threads(around, [each for each in (*servers, *workers) if each.host in local]),
        log_dir=settings["log_dir"].rstrip("/") or settings["log_dir"],
        keeps_going=settings["keep_going"],
        grace=settings["grace"],
        folder=os.getcwd(),
        reports=watched.folder_name() if settings["http"] and not settings["dry_run"] else "",
    )
    if settings["restart"] == "job" and len(local) != len(set(everywhere)):
        raise Usage("--restart=job is for jobs that are on this machine as a whole: on others nobody would start it again.")
    makes_secret = settings["secret"] == "auto" and len(local) == len(set(everywhere)) and bool(servers)
    return replace(job, secret=_secret(around, makes_secret)), local


def _command(settings: dict[str, Any], words: Sequence[str]) -> tuple[str, ...]:
    if not words:
        raise Usage("the script is missing. For example: --server_num=2 --worker_num=2 train.py")
    script, *arguments = words
    if settings["no_python"]:
        program = shutil.which(script)
        if not program and os.path.isfile(script):
            raise Usage(f"{script!r} is no program that PATH leads to: give its path, './{script}', and make it executable.")
        if not program:
            raise Usage(f"there is no program {script!r}.{_near_file(script)}")
        return (os.path.abspath(program), *arguments)
    if settings["module"]:
        return (sys.executable, "-u", "-m", script, *arguments)
    if not Path(script).exists():
        raise Usage(f"there is no script {script!r} in {os.getcwd()}.{_near_file(script)}")
    return (sys.executable, "-u", script, *arguments)


def _near_file(script: str) -> str:
    folder = Path(script).parent
    names = [each.name for each in folder.iterdir()] if folder.is_dir() else []
    near = difflib.get_close_matches(Path(script).name, names, 1)
    return f" Did you mean {str(folder / near[0])!r}?" if near else ""


def _environment(rows: Sequence[str]) -> dict[str, str]:
    found = {}
    for row in rows:
        name, equals, value = row.partition("=")
        if not equals or not name:
            raise Usage(f"--env takes NAME=VALUE, found {row!r}.")
        if name == secret.VALUE:
            raise Usage(f"a secret on a command line is seen by all who list processes: export {name}, or {secret.FILE}, a file.")
        found[name] = value
    return found


def _count(name: str, listed: str, number: int | None) -> int:
    """How many servers or workers; both ways of saying it must agree."""
    if listed and number is not None and number != len(listed.split(",")):
        raise Usage(f"--{name}_num is {number}, but --{name}s lists {len(listed.split(','))}. One of the two is enough.")
    if not listed and number is None:
        raise Usage(f"the number of {name}s is missing: --{name}_num=N on this machine, or --{name}s=HOST... on several.")
    return len(listed.split(",")) if listed else number


def _servers(settings: dict[str, Any], number: int, held: ports.Held, has_folder: bool) -> tuple[Endpoint, ...]:
    """Servers that were listed as they are; for those that were counted ports are found."""
    if settings["servers"]:
        return hosts.read_endpoints("servers", settings["servers"])
    return _find_ports(settings["start_port"], number, held, has_folder)


def _workers(settings: dict[str, Any], number: int, servers: Sequence[Endpoint]) -> tuple[Endpoint, ...]:
    """Nothing listens at their ports, but some scripts want to see one for each."""
    first = max((each.port for each in servers), default=FIRST_PORT - 1) + 1
    behind = min(first, ports.LAST - number)
    if behind < 1 and not settings["workers"]:
        raise Usage(f"{count(number, 'worker')} need ports {first} to {first + number - 1}, past {ports.LAST}: start fewer.")
    return hosts.read_endpoints("workers", settings["workers"] or ",".join(["127.0.0.1"] * number), behind) if number else ()


def _find_ports(asked: int | None, number: int, held: ports.Held, has_folder: bool) -> tuple[Endpoint, ...]:
    """Ports of this machine. Where the user says the first one, or servers have folders with their ports in the names, no others
    will do."""
    first = asked or FIRST_PORT
    if first + number - 1 > ports.LAST:
        raise Usage(f"--start_port={first} leaves no room for {count(number, 'server')}: the last port is {ports.LAST}.")
    if asked or has_folder:
        endpoints = [Endpoint("127.0.0.1", first + i) for i in range(number)]
        ports.take_given(held, endpoints, "--start_port takes another", (
            " (The folders of FLAGS_ps_dir have the ports in their names, so no other port is looked for.)" if has_folder else ""))
        return tuple(endpoints)
    endpoints, passed = ports.find_free(held, "127.0.0.1", first, number)
    if passed:
        say(f"port {', '.join(passed)}; servers have {', '.join(str(each.port) for each in endpoints)}")
    return tuple(endpoints)


def _cores() -> int:
    """Those that this process may use."""
    found = len(os.sched_getaffinity(0))
    try:  # a container's share
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return found if quota == "max" else max(1, min(found, round(int(quota) / int(period))))
    except (OSError, ValueError):
        return found


def _threads(around: dict[str, str], here: list[Endpoint]) -> int | None:
    if around.get("OMP_NUM_THREADS") or around.get("FLAGS_paddle_num_threads"):
        return None
    return max(1, _cores() // max(1, len(here)))


def _secret(around: dict[str, str], makes_one: bool) -> Secret:
    if secret.VALUE in around or secret.FILE in around:
        return Secret(is_theirs=True)
    return Secret(secret.file_name()) if makes_one else Secret()


# ---- the run ----


def _again(job: Job, settings: dict[str, Any], attempt: int) -> Job:
    """The job that has failed, as it is started again, after a pause in which its logs get other names."""
    wait = min(2.0 ** (attempt - 1), LONGEST_PAUSE)
    for name in ("server", "worker"):
        for each in Path(job.log_dir).glob(f"{name}log.*") if job.log_dir else ():
            if each.suffix[1:].isdigit() and each.stem == f"{name}log":
                each.rename(f"{each}.before-{attempt}")
    chosen = resume.chosen(job.environment["FLAGS_checkpoint_dir"], "auto")
    where = "anew, as it has no checkpoint yet" if chosen == "never" else f"from {chosen}"
    kept = f" (the logs so far: {job.log_dir}/*.before-{attempt})" if job.log_dir else ""
    say(f"the job is started again in {span(wait)} ({attempt} of {settings['max_restarts']}), {where}{kept}")
    time.sleep(wait)
    made = Secret(secret.file_name()) if job.secret.file else job.secret
    return replace(job, environment={**job.environment, "FLAGS_resume": chosen}, secret=made,
                   reports=watched.folder_name() if job.reports else "")


def _notes(settings: dict[str, Any], job: Job, processes: list[plan.Process], door: watch.Door | None,
           left: Sequence[str]) -> None:
    """What is started, before it is. `left`: flags of a job around this one."""
    if door:
        say(f"watch the job at {door.url}")
        if not door.is_local:
            say(f"whoever reaches {door.url} can read how the job gets on, without a password: let only trusted networks reach it")
    if not settings["print_config"]:
        return
    servers = [each for each in processes if each.role == SERVER]
    where = f" ({', '.join(str(each.endpoint) for each in servers)})" if servers else ""
    is_whole = len(processes) == job.size
    whole = "" if is_whole else f", of {len(job.servers.endpoints)} and {len(job.workers.endpoints)} in all,"
    say(f"{count(len(servers), 'server')}{where} and {count(len(processes) - len(servers), 'worker')}{whole} on this machine")
    if left:
        say(f"this job is inside another one, and does not take over {', '.join(left)}; set what it needs with --env")
    if job.threads is not None:
        shared = f"{len(processes)} processes" if len(processes) > 1 else "1 process"
        say(f"OMP_NUM_THREADS={job.threads}: {count(_cores(), 'core')} for {shared}; set it to choose yourself")
    if job.log_dir:
        say(f"logs: {job.log_dir}/serverlog.N, {job.log_dir}/workerlog.N")
    if job.secret.file:
        say(f"the job has a secret of its own: PADDLE_PS_SECRET_FILE={job.secret.file}, which 'paddle ps status' needs too")
    elif not job.secret.is_theirs and not is_whole:
        say("no secret is set: whoever reaches the ports of the servers can take part. PADDLE_PS_SECRET_FILE, the same on all "
            "machines, keeps others out")
    name = "FLAGS_ps_on_trainer_loss"
    if name in job.environment and not any(row.startswith(f"{name}=") for row in settings["env"]):
        value = job.environment[name]
        say(f"{name}={value}: the others {'wait for' if value == 'wait' else 'go on without'} a worker that fails")


def _take_logs(job: Job, processes: list[plan.Process]) -> int | None:
    """Makes the folder of logs, and keeps it for this job."""
    if not job.log_dir:
        return None
    try:
        os.makedirs(job.log_dir, exist_ok=True)
        lock = os.open(job.log_dir, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as why:
        raise Usage(f"logs cannot be written in {job.log_dir}: {why.strerror}. --log_dir takes another folder.") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        clear([each.log for each in processes])
    except BlockingIOError:
        os.close(lock)
        raise Usage(f"another job writes its logs in {job.log_dir} now. --log_dir takes another folder.") from None
    except OSError as why:
        os.close(lock)
        raise Usage(f"logs cannot be written in {job.log_dir}: {why.strerror}. --log_dir takes another folder.") from None
    return lock


def _follower(processes: list[plan.Process], whose: str) -> Follower:
    workers = [each for each in processes if each.role == WORKER]
    chosen = {"none": [], "first": workers[:1], "workers": workers, "all": processes}[whose]
    return Follower({each.name: each.log for each in chosen if each.log})
