"""A job with parameter servers, played in one process without a network.

Programs are those of DistributeTranspiler. Ops that talk are left out, and this module does what they would:
it carries gradients from the trainers' scopes to the servers', runs the servers' blocks, and carries
parameters back.
"""

from __future__ import annotations

import numpy as np

import paddle.fluid as fluid
from paddle.fluid.transpiler.copying import copy_op, declare
from paddle.fluid.vartype import VarType

ENDPOINTS = ["127.0.0.1:6174", "127.0.0.1:6175", "127.0.0.1:6176"]
TALK = ("send", "recv", "send_barrier", "fetch_barrier", "concat", "prefetch", "fake_init")
SEED = 11


def built(build, late_seed=False):
    """(main, startup, loss) of a model, with fresh names and a fixed seed; `late_seed`: its ops do not know of it."""
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 0 if late_seed else SEED
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        loss = build()
    main.random_seed = startup.random_seed = SEED
    return main, startup, loss


def one_process(build, batches, late_seed=False):
    """Losses, and parameters before and after, of the plain Program."""
    main, startup, loss = built(build, late_seed)
    exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()
    exe.run(startup, scope=scope)
    first = {p.name: np.array(scope.find_var(p.name).get_tensor()) for p in main.all_parameters()}
    losses = [float(exe.run(main, feed=batch, fetch_list=[loss], scope=scope)[0][0]) for batch in batches]
    last = {p.name: np.array(scope.find_var(p.name).get_tensor()) for p in main.all_parameters()}
    return losses, first, last


def copy_value(source, target, name, to=None):
    """Copies a tensor or selected rows from scope to scope."""
    var, place = source.find_var(name), fluid.CPUPlace()
    made = target.var(to or name)
    if var._kind() == VarType.SELECTED_ROWS:
        found, rows = var.get_selected_rows(), made.get_selected_rows()
        rows.set_height(found.height())
        rows.set_rows(list(found.rows()))
        rows.get_tensor().set(np.array(found.get_tensor()), place)
    else:
        made.get_tensor().set(np.array(var.get_tensor()), place)


def pieces(program, index):
    """The ops of a block as Programs that run, cut at each ps_sum: [(Program, the ps_sum after it or None),
    ...].
    """
    found = []

    def fresh():
        made = fluid.Program()
        made.random_seed = program.random_seed
        for block in (program.global_block(), program.block(index)):
            for var in block._all_vars():
                declare(made.global_block(), var, persistable=True)
        return made

    current = fresh()
    for op in program.block(index).ops:
        if op.type == "ps_sum":
            found.append((current, op))
            current = fresh()
        else:
            copy_op(current.global_block(), op)
    return found + [(current, None)]


class Server:
    """One server: its scope and its blocks."""

    def __init__(self, transpiler, endpoint, exe):
        self.exe, self.scope = exe, fluid.Scope()
        self.program, startup = transpiler.get_pserver_programs(endpoint)
        for program in (self.program, startup):
            program._check()
            assert fluid.Program.parse_from_string(program.desc.serialize_to_string())._check() is None
        exe.run(startup, scope=self.scope)
        serve = self.program.global_block().ops[-1]
        rate, prepare = serve.attr("lr_decay_block_id"), serve.attr("prepare_block_id")
        blocks = [block.idx for block in serve.all_attrs()["optimize_blocks"]]
        self.prepare = pieces(self.program, prepare) if prepare >= 0 else []
        self.rate = pieces(self.program, rate) if rate >= 0 else []
        self.blocks = [pieces(self.program, index) for index in blocks if index != rate]
        self.block_of = dict(pair.rsplit(":", 1) for pair in serve.attr("grad_to_block_id"))

    def run(self, program):
        if program.global_block().ops:
            self.exe.run(program, scope=self.scope)


class Job:
    """Servers and trainers of a job."""

    def __init__(self, build, endpoints, trainers, late_seed=False, **config):
        self.exe = fluid.Executor(fluid.CPUPlace())
        self.config = fluid.DistributeTranspilerConfig()
        for name, value in config.items():
            setattr(self.config, name, value)
        self.trainers = [self._trainer(lambda: built(build, late_seed), number, endpoints, trainers) for number in range(trainers)]
        transpiler = self.trainers[0][0]
        self.servers = {each: Server(transpiler, each, self.exe) for each in ENDPOINTS[:endpoints]}
        overview = transpiler.vars_overview
        for each in [*overview.distributed_vars, *overview.rates.values()]:  # it is asked there, for a save or a fetch
            assert self.servers[each.endpoint].program.global_block().has_var(each.slice.name), each
        self.places = overview.get_distributed_vars_by_vtypes(["Param", "RemotePrefetch"])
        self.pull()

    def _trainer(self, build, number, endpoints, trainers):
        main, startup, loss = build()
        transpiler = fluid.DistributeTranspiler(self.config)
        transpiler.transpile(
            number,
            program=main,
            startup_program=startup,
            pservers=",".join(ENDPOINTS[:endpoints]),
            trainers=trainers,
            sync_mode=self.config.sync_mode,
        )
        program = transpiler.get_trainer_program()
        assert program is main and transpiler.get_trainer_program() is program
        for each in (program, startup):
            each._check()
        quiet, sent = self._without_talk(program)
        quiet_startup, _ = self._without_talk(startup)
        scope = fluid.Scope()
        self.exe.run(quiet_startup, scope=scope)
        return transpiler, quiet, sent, scope, loss.name

    @staticmethod
    def _without_talk(program):
        """A copy that runs alone, and (variable, endpoint) of all that the Program sends."""
        quiet, sent = program.clone(), []
        block = quiet.global_block()
        for op in list(block.ops):
            if op.type == "send":
                sent += list(zip(op.input("X"), op.attr("epmap")))
                for name in op.input("X"):
                    block.var(name).persistable = True
            pairs = []
            if op.type == "distributed_lookup_table":
                pairs = [(op.input("W")[0], *pair) for pair in zip(op.input("Ids"), op.output("Outputs"))]
            elif op.type == "merge_ids":
                pairs = [
                    (program._distributed_lookup_table, *pair)
                    for pair in zip(op.input("Ids"), op.output("Out"))
                ]
            for table, ids, out in pairs:
                block._insert_op(
                    op.idx, type="lookup_table", inputs={"W": [table], "Ids": [ids]}, outputs={"Out": [out]}
                )
            is_own_concat = op.type == "concat" and not any(".block" in name for name in op.input("X"))
            splits_ids = (
                op.type == "split_ids" and block.var(op.input("Ids")[0]).type != VarType.SELECTED_ROWS
            )
            if (op.type in TALK and not is_own_concat) or pairs or splits_ids:
                block._remove_op(op.idx)
        return quiet, sent

    # ---- what the network would do ----

    def push(self):
        for _, _, sent, scope, _ in self.trainers:
            for name, endpoint in sent:
                copy_value(scope, self.servers[endpoint].scope, name)

    def table_rows(self, name):
        """The distributed table, put together from the servers' rows."""
        count = len(self.servers)
        parts = [server.scope.find_var(name).get_selected_rows() for server in self.servers.values()]
        whole = np.zeros((parts[0].height(), np.array(parts[0].get_tensor()).shape[1]), "float32")
        for index, part in enumerate(parts):
            rows = list(part.rows())
            assert rows == list(range(index, part.height(), count))
            whole[rows] = np.array(part.get_tensor())
        return whole

    def parameters(self):
        """All parameters, put together from their slices."""
        whole = {}
        for each in self.places:
            rows = whole.setdefault(each.origin.name, np.full(each.origin.shape, np.nan, "float32"))
            value = np.array(self.servers[each.endpoint].scope.find_var(each.slice.name).get_tensor())
            rows.reshape(-1)[each.offset : each.offset + value.size] = value.reshape(-1)
        table = self.trainers[0][0].table_name
        if table:
            whole[table] = self.table_rows(table)
        return whole

    def pull(self):
        for name, value in self.parameters().items():
            for _, _, _, scope, _ in self.trainers:
                scope.var(name).get_tensor().set(value, fluid.CPUPlace())

    def update(self):
        for server in self.servers.values():
            for program, _ in server.rate:
                server.run(program)
        self.run_prepare()
        for server in self.servers.values():
            for block in server.blocks:
                for program, _ in block:
                    server.run(program)

    def run_prepare(self):
        """All prepare blocks in step; ps_sum adds over the servers that it names."""
        taking_part = [server for server in self.servers.values() if server.prepare]
        for number in range(len(taking_part[0].prepare) if taking_part else 0):
            sums = {}
            for server in taking_part:
                program, op = server.prepare[number]
                server.run(program)
                if op is not None:
                    assert len(op.attr("endpoints")) == len(taking_part)
                    for group, name in zip(op.attr("groups"), op.input("X")):
                        sums[group] = sums.get(group, 0) + np.array(server.scope.find_var(name).get_tensor())
            for server in taking_part:
                op = server.prepare[number][1]
                for group, name in zip(op.attr("groups"), op.output("Out")) if op is not None else ():
                    server.scope.var(name).get_tensor().set(sums[group].astype("float32"), fluid.CPUPlace())

    def step(self, batches):
        """One step of all trainers; returns the mean of their losses."""
        losses = []
        for (_, program, _, scope, loss), batch in zip(self.trainers, batches):
            losses.append(float(self.exe.run(program, feed=batch, fetch_list=[loss], scope=scope)[0][0]))
        self.push()
        self.update()
        self.pull()
        return float(np.mean(losses))
