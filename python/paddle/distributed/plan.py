"""The plan of a job: for each process its environment and its command. Every engine starts what stands here, and nothing else."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from paddle.distributed.hosts import Endpoint
from paddle.distributed.job import SERVER, WORKER, Job, Role, progress_file

# Proxies of the web swallow what processes of a job say to each other.
_PROXIES = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")

# Variables that tell a process who it is. What a process is not given it must not inherit either.
_IDENTITY = frozenset("""
    PADDLE_PSERVERS_IP_PORT_LIST PADDLE_TRAINERS_NUM TRAINING_ROLE PADDLE_TRAINER_ID POD_IP PADDLE_PORT PADDLE_TRAINER_ENDPOINTS
    PADDLE_PSERVER_ID PSERVERS SERVER_ENDPOINT PADDLE_TRAINERS PADDLE_TRAINING_ROLE PADDLE_PSERVER_IPS PADDLE_PSERVER_PORT
    PADDLE_PSERVERS PADDLE_CURRENT_IP PADDLE_TRAINER_IPS PADDLE_CURRENT_ENDPOINT TRAINERS PADDLE_INIT_PSERVERS PADDLE_INIT_PORT
    PADDLE_INIT_TRAINER_ID PADDLE_PROGRESS_FILE PADDLE_OUTER_FLAGS PADDLE_OUTER_SECRET_FILE
    """.split())

# A script may start a job inside a job. What is said here of one job is not of the other: where it keeps things, how it goes on.
_OF_ONE_JOB = ("FLAGS_checkpoint_dir", "FLAGS_ps_accept_anew", "FLAGS_ps_accept_rollback", "FLAGS_ps_dir", "FLAGS_ps_fresh",
               "FLAGS_ps_http", "FLAGS_ps_job", "FLAGS_ps_on_trainer_loss", "FLAGS_resume")
_SECRET = "PADDLE_PS_SECRET_FILE"
_OUTER_FLAGS, _OUTER_SECRET = "PADDLE_OUTER_FLAGS", "PADDLE_OUTER_SECRET_FILE"  # which of them the job around had, and their values


def of_outer_job(around: Mapping[str, str]) -> list[str]:
    """Variables that are of the job of which this process is, where a script has not changed them since: its secret, its flags."""
    try:
        had = dict(json.loads(around.get(_OUTER_FLAGS, "{}")))
    except (ValueError, TypeError):  # not of ours
        had = {}
    found = [name for name, value in had.items() if name in _OF_ONE_JOB and around.get(name) == value]
    return found + [_SECRET] * (_SECRET in around and around.get(_OUTER_SECRET) == around[_SECRET])


@dataclass(frozen=True)
class Process:
    """One process of the plan."""

    role: str
    index: int
    endpoint: Endpoint
    command: tuple[str, ...]
    given: Mapping[str, str]  # variables that it gets
    taken: tuple[str, ...]  # variables that it must not inherit
    log: str  # its file; "": the launcher's output
    folder: str

    @property
    def name(self) -> str:
        return f"{self.role} {self.index}"

    def environment(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """All variables of the process, when it is started with `inherited` around it."""
        return {name: value for name, value in inherited.items() if name not in self.taken} | dict(self.given)

    def lines(self, inherited: Mapping[str, str], secret: str) -> str:
        """The process as a command of the shell, with all that differs from `inherited`. The file `secret` exists in a run only;
        here the variable of that name stands in its place."""
        words = ["env", *(f"-u {name}" for name in self.taken if name in inherited)]
        words += [f"{shlex.quote(name)}=" + ('"$secret"' if secret and value == secret else shlex.quote(value))
                  for name, value in sorted(self.given.items()) if inherited.get(name) != value]
        rest = shlex.join(self.command) + (f" > {shlex.quote(self.log)} 2>&1" if self.log else "")
        return f"# {self.name} on {self.endpoint.host}\n" + " \\\n    ".join([*words, rest]) + " &"


def log_name(role: str, index: int) -> str:
    """The file of a process in the folder of logs, with upstream's name."""
    return f"{role}log.{index}"


def _common(job: Job) -> dict[str, str]:
    """What all processes are told alike."""
    servers, workers = job.servers.endpoints, job.workers.endpoints
    given = {
        # Fleet: PaddleCloudRoleMaker and GeneralRoleMaker
        "PADDLE_PSERVERS_IP_PORT_LIST": ",".join(map(str, servers)),
        "PADDLE_TRAINERS_NUM": str(len(workers)),
        "PADDLE_TRAINER_ENDPOINTS": ",".join(map(str, workers)),
        # scripts with a DistributeTranspiler
        "PSERVERS": ",".join(map(str, servers)),
        "PADDLE_TRAINERS": str(len(workers)),
        "TRAINERS": str(len(workers)),
    }
    # Scripts that add the one port to each host; where servers have different ports only fluid.Trainer reads the list right.
    ports = {each.port for each in servers}
    hosts = ",".join(each.host if len(ports) == 1 else str(each) for each in servers)
    given |= dict.fromkeys(("PADDLE_PSERVER_IPS", "PADDLE_PSERVERS", "PADDLE_INIT_PSERVERS"), hosts)
    if len(ports) == 1:
        given |= dict.fromkeys(("PADDLE_PSERVER_PORT", "PADDLE_PORT", "PADDLE_INIT_PORT"), str(ports.pop()))
    if job.threads is not None:
        given["OMP_NUM_THREADS"] = str(job.threads)
    if job.secret.file:
        given |= dict.fromkeys((_SECRET, _OUTER_SECRET), job.secret.file)
    return given


def _own(job: Job, role: Role, index: int) -> dict[str, str]:
    """What tells a process who it is."""
    endpoint = role.endpoints[index]
    kind = "PSERVER" if role.name == SERVER else "TRAINER"
    given = {"TRAINING_ROLE": kind, "PADDLE_TRAINING_ROLE": kind, "POD_IP": endpoint.host}
    if role.name == WORKER:
        if job.reports:
            given["PADDLE_PROGRESS_FILE"] = progress_file(job.reports, index)
        return given | {"PADDLE_TRAINER_ID": str(index), "PADDLE_INIT_TRAINER_ID": str(index), "PADDLE_CURRENT_IP": endpoint.host}
    one_port = len({each.port for each in role.endpoints}) == 1
    return given | {
        "PADDLE_PORT": str(endpoint.port),
        "PADDLE_PSERVER_ID": str(index),
        "SERVER_ENDPOINT": str(endpoint),
        "PADDLE_CURRENT_IP": endpoint.host if one_port else str(endpoint),
    }


def make(job: Job, inherited: Mapping[str, str] | None = None, outer: Sequence[str] = ()) -> list[Process]:
    """All processes of the job, servers first; an engine for one machine takes those that are there. `inherited`: what they have
    from around the launcher, `outer`: what they must not have of it, for it is of the job around (of_outer_job)."""
    common, found = _common(job), []
    around = {**(inherited or {}), **job.environment}
    flags = {name: around[name] for name in _OF_ONE_JOB if name in around}
    if flags:
        common[_OUTER_FLAGS] = json.dumps(flags)
    for role in job.roles:
        for index, endpoint in enumerate(role.endpoints):
            given = common | _own(job, role, index) | dict(job.environment)
            taken = tuple(sorted(name for name in _IDENTITY.union(_PROXIES, outer) if name not in given))
            log = f"{job.log_dir}/{log_name(role.name, index)}" if job.log_dir else ""
            found.append(Process(role.name, index, endpoint, role.command, given, taken, log, job.folder))
    return found


def script(job: Job, processes: list[Process], inherited: Mapping[str, str]) -> str:
    """The plan as lines of the shell, which do what a run does, less the watching."""
    parts = []
    if job.log_dir:
        parts.append(f"mkdir -p {shlex.quote(job.log_dir)}")
    if job.secret.file:
        parts.append('secret=$(mktemp) && openssl rand -hex 32 > "$secret" && trap \'rm -f "$secret"\' EXIT')
    parts += [process.lines(inherited, job.secret.file) for process in processes]
    return "\n".join([*parts, "wait"]) + "\n"
