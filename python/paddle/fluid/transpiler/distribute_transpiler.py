"""DistributeTranspiler: one Program becomes the Programs of trainers and parameter servers."""

from __future__ import annotations

from paddle import _core
from paddle.fluid.distribute_lookup_table import find_distributed_lookup_table
from paddle.fluid.framework import Program
from paddle.fluid.log_helper import notice
from paddle.fluid.transpiler import geo, lookup_table
from paddle.fluid.transpiler.arguments import Arguments, check_map, parse
from paddle.fluid.transpiler.classes import Classes
from paddle.fluid.transpiler.config import (
    DistributedMode,
    DistributeTranspilerConfig,
    ServerRuntimeConfig,
    check,
    mode_of,
)
from paddle.fluid.transpiler.fingerprint import fingerprint
from paddle.fluid.transpiler.job import Job
from paddle.fluid.transpiler.norm_clip import take_apart
from paddle.fluid.transpiler.overview import overview_of
from paddle.fluid.transpiler.ps_dispatcher import HashName, PSDispatcher, RoundRobin
from paddle.fluid.transpiler.server_prepare import PreparePlan
from paddle.fluid.transpiler.server_side import ServerProgram
from paddle.fluid.transpiler.server_startup import ServerStartup
from paddle.fluid.transpiler.slicing import VarBlock, place, slice_variable
from paddle.fluid.transpiler.trainer_side import TrainerProgram, TrainerStartup
from paddle.fluid.transpiler.update_graph import UpdateGraph

__all__ = [
    "DistributeTranspiler",
    "DistributeTranspilerConfig",
    "DistributedMode",
    "HashName",
    "PSDispatcher",
    "RoundRobin",
    "ServerRuntimeConfig",
    "VarBlock",
    "slice_variable",
]


class DistributeTranspiler:
    """Makes the Programs of a job with parameter servers from one Program.

    Args:
        config: the choices; None: the defaults.

    >>> loss = fluid.layers.mean(fluid.layers.fc(fluid.data(name='x', shape=[None, 2]), 1))
    >>> ops, pairs = fluid.optimizer.SGD(0.1).minimize(loss)
    >>> t = fluid.DistributeTranspiler()
    >>> t.transpile(trainer_id=0, pservers="10.0.0.1:6174,10.0.0.2:6174", trainers=2)
    >>> is_server = True
    >>> if is_server:
    ...     main, startup = t.get_pserver_programs("10.0.0.1:6174")
    ... else:
    ...     main, startup = t.get_trainer_program(), fluid.default_startup_program()
    """

    def __init__(self, config: DistributeTranspilerConfig | None = None):
        self.config = DistributeTranspilerConfig() if config is None else config
        check(self.config)
        self.distributed_mode = mode_of(self.config, True)
        self._set_server_config()
        self._job: Job | None = None
        self._local: geo.LocalUpdates | None = None  # of a geo job
        self._goes_on_from = ""  # a checkpoint: all processes of the job must say the same

    def __repr__(self) -> str:
        if self._job is None:
            return f"DistributeTranspiler({self.config!r}): transpile() was not called yet"
        way = "sync" if self._job.is_sync else "async"
        return f"DistributeTranspiler({self.config!r}): {way}, {self._job.trainers} trainers, servers {self._job.endpoints}"

    def _set_server_config(self, server_config: ServerRuntimeConfig | None = None) -> None:
        if server_config is not None and not isinstance(server_config, ServerRuntimeConfig):
            raise TypeError(
                f"server_config is a {type(server_config).__name__}; it must be a ServerRuntimeConfig."
            )
        self.server_config = ServerRuntimeConfig() if server_config is None else server_config

    # ---- transpile ----

    def transpile(self, *args, **kwargs) -> None:
        """Changes the Program (and the startup Program) into the trainer's and plans those of the servers.

        transpile(trainer_id=None, program=None, pservers="127.0.0.1:6174", trainers=1, sync_mode=True,
        startup_program=None, current_endpoint="127.0.0.1:6174")

        Args:
            trainer_id: the number of this trainer, below `trainers`; None, or left out: the first server hands one out.
            program: what is trained; None: the default main program.
            pservers: the endpoints HOST:PORT of all servers, separated by commas, the same in every process.
            trainers: how many there are.
            sync_mode: servers wait for all trainers in each step; False makes trainers and servers asynchronous.
            startup_program: what fills the parameters; None: the default startup program.
            current_endpoint: has no effect: it is for collective jobs.

        The forms of v0.11 to v0.14, some of which began with optimize_ops and params_grads, work as well.
        """
        if self._job is not None:
            raise RuntimeError(
                "transpile was called before on this DistributeTranspiler; make a new one for another "
                "Program."
            )
        check(self.config)
        given = parse(args, kwargs)
        if given.split_method is not None:
            self.config.split_method = given.split_method
        if given.slice_var_up is not None:
            self.config.slice_var_up = given.slice_var_up
        check(self.config)
        if given.program._is_distributed:
            raise ValueError("this Program was transpiled before; transpile the one that minimize made.")
        check_map(given.endpoints)
        self._plan(given)
        job = self._job
        if job.is_geo:
            geo.GeoTrainer(job, self._local, self.config.geo_sgd_need_push_nums).build()
        else:
            trainer = TrainerProgram(job)
            trainer.build()
            TrainerStartup(job, trainer).build()
        if self.config.print_log:
            print(job.placement.summary())

    def _plan(self, given: Arguments) -> None:
        """Finds what is updated and where it goes. The user's Programs are changed only when all of that is
        clear.
        """
        mode = self.distributed_mode = mode_of(self.config, given.sync_mode)
        is_sync = mode == DistributedMode.SYNC
        if is_sync and self.config.enable_dc_asgd:
            raise ValueError("enable_dc_asgd compensates for the delay of gradients, and with sync_mode=True there is none: set "
                             "sync_mode=False in the config and in transpile, or leave it out.")
        whole, whole_startup = given.program.clone(), given.startup_program.clone()
        table = find_distributed_lookup_table(whole)
        if mode == DistributedMode.GEO:
            if table is not None:
                raise ValueError(
                    f"the table {table!r} lies on servers alone (is_distributed=True), and with geo_sgd_mode trainers update their "
                    "own: leave is_distributed out, and is_sparse=True."
                )
            self._local = geo.LocalUpdates(given.program)
            whole, whole_startup = geo.adding_programs(given.program, given.startup_program, self._local)
        described = whole.clone() if mode == DistributedMode.GEO else given.program  # `whole` is changed below
        graph = UpdateGraph(whole, self.config.clip_on_trainer or not is_sync, table)
        if table is not None:
            lookup_table.check_table(graph, table)
        for name, op in graph.made_by_the_script()[:1] if is_sync and given.trainers > 1 else ():
            notice(
                f"the gradient of {name!r} goes through op {op.type!r} of the script: each trainer runs it on its own "
                "gradient, before the average, so results are not those of one process. (The clips of fluid.clip act on "
                "the average.)"
            )
        placement = place(graph.updates, given.endpoints, self.config)
        cut = {part.param for part in placement.slices if part.number is not None}

        def is_cut(update) -> bool:
            return update.param.name in cut

        removed = graph.removed_from_trainer()
        for name, op in graph.read_early[:1]:
            notice(
                f"op {op.type!r} of the script reads {name!r} behind its update and before another one: trainers get all "
                "parameters at the end of the step, so it reads the value of the step before, and results are not those of "
                "one process."
            )
        take_apart(graph, is_cut)
        self._job = Job(
            program=given.program,
            startup=given.startup_program,
            whole=whole,
            whole_startup=whole_startup,
            config=self.config,
            server_config=self.server_config,
            endpoints=given.endpoints,
            trainers=given.trainers,
            trainer_id=given.trainer_id,
            mode=mode,
            graph=graph,
            placement=placement,
            classes=Classes(graph, is_cut),
            table=table,
            remote=[] if mode == DistributedMode.GEO else lookup_table.remote_params(graph, table),
            removed=[] if mode == DistributedMode.GEO else removed,
        )
        self._job.lines = fingerprint(self._job, described)
        if self._goes_on_from:
            self._job.lines.append(f"a checkpoint to go on from: {self._goes_on_from}")
        if mode == DistributedMode.GEO:
            self._job.lines += self._local.lines(self.config.geo_sgd_need_push_nums)
        self._prepare = PreparePlan(self._job)
        self._servers: dict = {}
        self._note(given)

    def _note(self, given: Arguments) -> None:
        """What others read from the transpiler and the Program."""
        job = self._job
        self.origin_program, self.startup_program = job.program, job.startup
        self.origin_startup_program = job.whole_startup
        self.trainer_num, self.trainer_id, self.sync_mode = job.trainers, job.trainer_id, job.is_sync
        self.pserver_endpoints = job.endpoints
        self._portless = next((each for each in job.endpoints if each.endswith(":0")), None)
        self.table_name = job.table
        self.has_distributed_lookup_table = job.table is not None
        self.vars_overview = overview_of(job)
        job.program._is_distributed = True
        job.program._is_chief = job.trainer_id == 0
        job.program._endpoints = list(job.endpoints)
        job.program._ps_endpoint = given.current_endpoint
        job.program._distributed_lookup_table = job.table
        job.program._parameters_on_pservers = self.vars_overview

    # ---- the Programs ----

    def _done(self) -> Job:
        if self._job is None:
            raise RuntimeError("call transpile first.")
        return self._job

    def get_trainer_program(self, wait_port: bool = True) -> Program:
        """The trainer's Program: the one that was given, changed. The same object each time, at no cost.

        Nothing waits here: the first exchange with the servers waits for them, up to its deadline.

        Args:
            wait_port: has no effect: the first exchange waits.

        Returns:
            the Program to run in a trainer.
        """
        program = self._done().program
        if self._portless is not None:
            raise ValueError(
                f"a trainer cannot reach the server {self._portless}: port 0 means one that the system chose. "
                "Give transpile the port that the server printed."
            )
        return program

    def steps_done(self) -> int:
        """How many steps of the job count this trainer on all servers, once the startup Program has run.

        More than 0 right after that: the job, or this trainer, was started again. A script that wants to go on
        in its data where it was skips as many batches. Servers do not keep what trainers alone hold, as moving
        averages and statistics: save them with save_persistables, and load them before the first step.

        Asked before the first step, it also says that the script goes on there: in async mode a step that not all
        servers have is given again. Who does not ask begins behind it.
        """
        first = self._done().endpoints[0]
        if not _core.job_key(first):
            raise RuntimeError(
                f"steps_done() asks what server {first} has told: run the startup Program first. After Executor.close() nobody "
                "knows it any more."
            )
        return _core.job_steps(first)

    def _server(self, endpoint: str) -> ServerProgram:
        job = self._done()
        if endpoint not in job.endpoints:
            raise ValueError(
                f"the endpoint {endpoint!r} is not among the pservers of this job: "
                f"{', '.join(job.endpoints)}."
            )
        if endpoint not in self._servers:
            server = ServerProgram(job, endpoint, self._prepare)
            server.build()
            self._servers[endpoint] = server
        return self._servers[endpoint]

    def get_pserver_program(self, endpoint: str) -> Program:
        """The main Program of the server at this endpoint; running it serves until the job is done.

        Args:
            endpoint: HOST:PORT of the server, one of those that transpile was given.

        Returns:
            the Program to run in that server.
        """
        self.pserver_program = self._server(endpoint).program
        return self.pserver_program

    def get_pserver_programs(self, endpoint: str) -> tuple[Program, Program]:
        """(main Program, startup Program) of the server at this endpoint.

        Args:
            endpoint: HOST:PORT of the server, one of those that transpile was given.

        Returns:
            two Programs.
        """
        return self.get_pserver_program(endpoint), self.get_startup_program(endpoint)

    def get_startup_program(
        self, endpoint: str, pserver_program: Program | None = None, startup_program: Program | None = None
    ) -> Program:
        """The startup Program of the server at this endpoint.

        The other arguments are those of old scripts: pserver_program is known here, and startup_program is
        needed only when it is another one than transpile was given.

        Args:
            endpoint: HOST:PORT of the server, one of those that transpile was given.
            pserver_program: has no effect.
            startup_program: another startup Program than transpile was given, as it was before transpile.

        Returns:
            the Program to run in that server first.
        """
        job, server = self._done(), self._server(endpoint)
        for name, value in (("pserver_program", pserver_program), ("startup_program", startup_program)):
            if value is not None and not isinstance(value, Program):
                raise TypeError(f"{name} is a {type(value).__name__}; it must be a Program.")
        if startup_program is None or startup_program is job.startup:
            return ServerStartup(server, job.whole_startup).build()
        startup = ServerStartup(server, startup_program)
        startup.check()
        return startup.build()
