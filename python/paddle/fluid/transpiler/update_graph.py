"""What updates the parameters: all that lies between the backward pass and the optimizer ops.

The graph is found by following variables, not by names or kinds of ops: what lies between a gradient and the
optimizer op that uses it belongs to the update of that parameter, whatever it does. Servers run these ops;
the rules below say which of them can run on some rows of a parameter alone.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field

from paddle.fluid.framework import Parameter
from paddle.fluid.transpiler.classes import Classes, sums_all
from paddle.fluid.transpiler.copying import remove_ops
from paddle.fluid.transpiler.flow import Flow, is_rate_op, is_rule, is_update_op, role_of, sub_blocks
from paddle.fluid.vartype import OpRole, VarType

# Update rules that change each element by itself: a slice is updated as the whole would be. lars_momentum,
# lamb and dpsgd use norms of the whole parameter, so that their parameters stay in one piece, as those of
# rules not known here.
ELEMENT_RULES = frozenset("""
    sgd momentum adam adamax adagrad decayed_adagrad adadelta rmsprop ftrl proximal_gd proximal_adagrad
    """.split())
# Ops that treat each row by itself. A second input has the same rows, or one element.
ROW_OPS = frozenset("""
    abs assign cast clip elementwise_add elementwise_div elementwise_max elementwise_min elementwise_mul
    elementwise_pow elementwise_sub exp fill_zeros_like get_tensor_from_selected_rows merge_selected_rows pow
    relu scale sigmoid sign sqrt square sum tanh
    """.split())
# Variables that have a value which servers can hold.
_VALUES = (VarType.LOD_TENSOR, VarType.SELECTED_ROWS)
# Clips that need a sum over all rows; they are taken apart for a parameter in slices.
NORM_CLIP = "clip_by_norm"


@dataclass(eq=False)
class Update:
    """The update of one parameter."""

    param: object
    rule: object  # its optimizer op
    grad: str  # the gradient that trainers send
    is_sparse: bool
    states: list = field(default_factory=list)  # variables of its own that live on
    sliceable: bool = True


class UpdateGraph:
    """The updates of a Program that was built by minimize and not yet changed.

    `clip_on_trainer`: what only needs gradients stays with the trainers. `table` is the name of a distributed
    lookup table, whose update is kept apart.
    """

    def __init__(self, program, clip_on_trainer: bool, table: str | None):
        self.program = program
        self.block = program.global_block()
        self.vars = {var.name: var for var in self.block._all_vars()}
        self.flow = Flow(list(self.block.ops))
        self._places = self.flow.place  # in the user's Program
        self._made_anew: dict = {}
        self._check_blocks(program)
        rules = [op for op in self.flow.ops if is_update_op(op) and op in self.flow.rules]
        if not rules:
            raise ValueError(
                "the Program has no optimizer op. Call minimize of an optimizer before transpile, and give "
                "transpile the "
                "Program that has it."
            )
        read = {name for op in rules for name in self.flow.reads[op]}
        between = written = [op for op in self.flow.needed(read, is_update_op) if op not in self.flow.rules]
        if clip_on_trainer:
            between = self._without_gradient_only(between)
        self.table_rule = next((op for op in rules if op.input("Param")[0] == table), None)
        # What the table's optimizer keeps: of each row, or one number for all.
        self.table_states = [name for name in self.flow.writes[self.table_rule] if name != table] if self.table_rule else []
        self._set_moved([*between, *(op for op in rules if op is not self.table_rule)])
        self._follow(rules)
        self.asked = self._asked({*written, *rules})
        self._keep_used(rules)
        self.updates = [self._update(op) for op in self.moved if op in self.flow.rules]
        self._check_parameters()
        self._check_states()
        self._mark_sliceable()

    # ---- which ops ----

    @staticmethod
    def _check_blocks(program) -> None:
        """Servers update each parameter once in a step."""
        for op in [op for block in program.blocks[1:] for op in block.ops if is_update_op(op) and is_rule(op)]:
            raise ValueError(
                f"the update of {op.input('Param')[0]!r} stands in a branch or a loop (minimize or apply_gradients inside of cond, "
                "case, Switch or While): servers update each parameter once in a step. Call it outside; a rate of 0 leaves a "
                "parameter as it is."
            )

    def is_lasting(self, name: str) -> bool:
        """Does the variable live on between steps? A gradient that a script marks as persistable, to look at it, is made anew."""
        var = self.vars.get(name)
        return var is not None and var.persistable and not self._is_made_anew(name)

    def _is_made_anew(self, name: str) -> bool:
        if name not in self._made_anew:
            writers = self.flow.writers(name)
            first = min((self.flow.place[op] for op in writers), default=-1)
            self._made_anew[name] = bool(writers) and all(
                role_of(op) & (OpRole.Backward | OpRole.Optimize) and op not in self.flow.rules
                and not sub_blocks(op) and name not in self.flow.reads[op]
                for op in writers
            ) and not any(name in self.flow.reads[op] for op in self.flow.ops[:first])  # fmt: skip
        return self._made_anew[name]

    def is_moved(self, op) -> bool:
        """Do servers run it?"""
        return op in self._moved

    def _set_moved(self, ops: list) -> None:
        self.moved = self.flow.in_order(ops)
        self._moved = set(ops)

    def _follow(self, rules: list) -> None:
        """Finds what else the updates depend on, whatever role it has: the learning rate (rate_ops, once a
        step), and what comes from a parameter or its gradient (joins the updates).
        """
        flow = self.flow
        grads = {self._gradient_of(rule) for rule in self.moved if rule in flow.rules}
        if self.table_rule is not None:
            grads.update(self.table_rule.input("Grad"))
        known = grads | {rule.input("Param")[0] for rule in rules}
        wanted = [name for op in [*self.moved, *rules] for name in flow.reads[op] if name not in known]
        self._followed = set(
            flow.needed(
                wanted,
                lambda op: not self.is_moved(op) and op not in flow.rules and known.isdisjoint(flow.writes[op]),
            )
        )
        tied = known.union(*(flow.writes[rule] for rule in rules), self._states_of_one(rules))
        apart = []
        for op in flow.in_order([*self._followed, *self.moved]):
            if op in flow.rules or not tied.isdisjoint(flow.reads[op]):
                tied.update(flow.writes[op])
            else:
                apart.append(op)
        # A constant of an update stays with it. What lives on may change only once a step.
        steps = [op for op in apart if op in self._followed or any(map(self.is_lasting, flow.writes[op]))]
        free = set(apart)
        rates = {*steps, *flow.needed([name for op in steps for name in flow.reads[op]], free.__contains__)}
        self.rate_ops = flow.in_order(rates)
        self._set_moved([op for op in {*self.moved, *self._followed} if op not in rates])
        self._check_known(grads, wanted, rules)

    def _asked(self, written: set) -> list:
        """All that the user's Program does for updates, whoever runs it: [(place of the op, kind, who)]."""
        rates = set(self.rate_ops)
        found = []
        for op in self.flow.in_order({*written, *self.moved, *rates}):
            is_here = op in rates or op in self._moved or op is self.table_rule
            found.append((self._places[op], "learning rate" if op in rates else "update", "" if is_here else ", run by trainers"))
        return found

    def _keep_used(self, rules: list) -> None:
        """Servers compute rates before the updates. An update that stood before a change of a rate gets a
        copy of what the rate was.
        """
        flow, block = self.flow, self.block
        copies: dict = {}
        ops: list = []  # that make them
        changes: dict = {}
        for op in self.rate_ops:
            for name in flow.writes[op]:
                changes.setdefault(name, []).append(flow.place[op])
        for op in flow.in_order({*self.moved, *rules}):
            for name in dict.fromkeys(op.input_arg_names):
                places = changes.get(name, [])
                seen = sum(place < flow.place[op] for place in places)
                if seen == len(places):
                    continue
                if (name, seen) not in copies:
                    var = self.vars[name]
                    names = (f"{name}.used{number}" for number in itertools.count(seen))
                    free = next(each for each in names if each not in self.vars)
                    used = block.create_var(name=free, shape=var.shape, dtype=var.dtype)
                    self.vars[used.name] = used
                    copies[name, seen] = free
                    ops.append(block._insert_op(
                        op.idx,
                        type="assign",
                        inputs={"X": [name]},
                        outputs={"Out": [used]},
                        attrs={"op_role": int(OpRole.LRSched)},
                    ))  # fmt: skip
                op._rename_input(name, copies[name, seen])
        if copies:
            self.flow = Flow(list(block.ops))
            self.rate_ops = self.flow.in_order([*self.rate_ops, *ops])

    def given_rates(self) -> set:
        """Rates that parameters use a multiple of (learning_rate of a ParamAttr): what the script gave to the optimizer."""
        multiples = [op for op in self.rate_ops if role_of(op) & OpRole.Optimize and is_rate_op(op)]
        made = {name for op in self.rate_ops for name in self.flow.writes[op]}
        return {name for op in multiples for name in self.flow.reads[op] if name in made}

    def _states_of_one(self, rules: list) -> set:
        """What lives on, is changed beside a rule, and only that rule reads, such as powers of beta."""
        changed = {name for op in self.moved for name in self.flow.writes[op] if self.is_lasting(name)}
        users: dict = {}
        for rule in rules:
            rates = rule.input("LearningRate") if "LearningRate" in rule.input_names else []
            for name in changed.intersection(self.flow.reads[rule]).difference(rates):
                users.setdefault(name, []).append(rule)
        return {name for name, found in users.items() if len(found) == 1}

    def _check_known(self, grads: set, wanted: list, rules: list) -> None:
        """Servers have gradients, what lives on, and what they compute from these."""
        flow = self.flow
        ops = flow.in_order({*self.moved, *self.rate_ops, *rules})
        made = grads.union(*(flow.writes[op] for op in ops))
        for op in ops:
            for name in flow.reads[op]:
                var = self.vars.get(name)
                if name in made or (var is not None and var.persistable and var.type in _VALUES):
                    continue
                used = next((each for each in wanted if each == name or op in flow.needed([each])), name)
                depends = "" if used == name else f", which depends on {name!r}"
                whose = "is fed to trainers" if not flow.writers(name) else "only trainers have"
                raise ValueError(
                    f"the update of parameters uses {used!r}{depends}; {name!r} {whose}, and servers cannot "
                    "compute it. Make learning rates and decays from constants, counters "
                    "(autoincreased_step_counter), variables that live on (create_global_var) and the "
                    "parameters themselves."
                )

    def _without_gradient_only(self, ops: list) -> list:
        """Leaves out the ops that depend on gradients and constants alone. Constants are cheap and go both
        ways.
        """
        tied: set = set()
        found = []
        for op in ops:
            read = self.flow.reads[op]
            if not read:
                found.append(op)
            elif any(name in tied or self.is_lasting(name) for name in read):
                tied.update(self.flow.writes[op])
                found.append(op)
        return found

    def removed_from_trainer(self) -> list[int]:
        """Positions of the ops that trainers no longer run."""
        # Counters and rates that the user made with plain layers can be fetched, so that they stay as well.
        cheap = {*self.rate_ops, *self._followed}
        gone = {*self.moved, *(op for op in self.rate_ops if is_rate_op(op) or is_update_op(op))}
        if self.table_rule is not None:
            gone.add(self.table_rule)
        wanted = {name for op in self.flow.ops if op not in gone for name in self.flow.reads[op]}
        # A constant or a rate that something else reads stays for it.
        back = self.flow.needed(
            wanted, lambda op: op in gone and (op in cheap or not self.flow.reads[op])
        )
        gone.difference_update(back)
        self._check_read_by_trainers(gone)
        return sorted(self._places[op] for op in gone if op in self._places)

    def _check_read_by_trainers(self, gone: set) -> None:
        """Of what servers change, trainers get the parameters, behind the last update. `read_early`: [(parameter, op)] where an op
        stands before that and behind the update of the parameter."""
        params = {name for op in gone if op in self.flow.rules for name in op.input("Param")}
        place, self.read_early = self.flow.place, []
        last = max(place[op] for op in gone)
        for op in self.flow.ops:
            if op in gone:
                continue
            for name in dict.fromkeys(self.flow.reads[op]):
                makers = self.flow.writers(name)
                if name in params:
                    if place[op] < last and any(place[maker] < place[op] for maker in makers):
                        self.read_early.append((name, op))
                elif makers and gone.issuperset(makers):
                    raise ValueError(
                        f"op {op.type!r} of the script reads {name!r}, which belongs to the update of the parameters: "
                        "servers compute it, and trainers have no value of it. Name it in fetch_list to see it; what trainers "
                        "compute can use parameters, gradients as the backward pass makes them, counters and learning rates."
                    )

    # ---- one parameter ----

    def makers(self, name: str) -> list:
        """The ops of updates that write a variable, optimizer ops left out."""
        return [op for op in self.flow.writers(name) if op in self._moved and op not in self.flow.rules]

    def _update(self, rule) -> Update:
        param, grad = self.vars[rule.input("Param")[0]], self._gradient_of(rule)
        own = set(self.flow.writes[rule])
        states = [
            name
            for name in dict.fromkeys(self.flow.reads[rule])
            if name != param.name and self.is_lasting(name) and (name in own or self.makers(name))
        ]
        return Update(param, rule, grad, self.vars[grad].type == VarType.SELECTED_ROWS, states)

    def _gradient_of(self, rule) -> str:
        """The variable that comes from the backward pass, through the chain of ops that ends in Grad."""
        found, todo, seen = [], [rule.input("Grad")[0]], set()
        while todo:
            name = todo.pop()
            if name in seen or self.is_lasting(name):
                continue
            seen.add(name)
            made = self.makers(name)
            if not made or any(op not in self._moved for op in self.flow.writers(name)):
                found.append(name)
            for op in made:
                # The second input of an elementwise op is a factor: its gradients are those of others too.
                todo += op.input("X") if op.type.startswith("elementwise_") else self.flow.reads[op]
        if len(found) != 1:
            raise ValueError(
                f"the update of {rule.input('Param')[0]!r} uses {len(found)} gradients "
                f"({', '.join(found) or '-'}) of the "
                "backward pass; a server can update a parameter by one."
            )
        return found[0]

    def made_by_the_script(self) -> list:
        """[(parameter, op)] where the gradient that trainers send is made by an op that the script put behind the backward pass,
        and which gives another result on each trainer's gradient than on their average."""
        found = []
        for update in self.updates:
            for op in self.flow.writers(update.grad)[-1:]:
                is_own = not role_of(op) & (OpRole.Backward | OpRole.Optimize)
                if is_own and op.type not in ("sum", "assign", "cast") and not (op.type == "scale" and not op.attr("bias")):
                    found.append((update.param.name, op))
        return found

    def _check_parameters(self) -> None:
        """Servers own the parameters: nothing else may change them."""
        owned = {update.param.name for update in self.updates}
        if len(owned) < len(self.updates):
            raise ValueError("a parameter has two optimizer ops; servers update a parameter once a step.")
        for op in self.flow.ops:
            self._check_trained_here(op, owned)
            both = owned.intersection(self.flow.writes[op])
            if both and op not in self._moved:
                raise ValueError(
                    f"op {op.type!r} changes the parameter {sorted(both)[0]!r} beside its optimizer op, "
                    "which servers cannot follow. Where that is Lookahead, take the optimizer inside it; an initializer belongs "
                    "to the startup Program (layers.create_parameter puts it there)."
                )

    def _check_trained_here(self, op, owned: set) -> None:
        """Is it an update that the script wrote itself, of a parameter that no optimizer op has?"""
        params = {name for name in self.flow.writes[op] if isinstance(self.vars.get(name), Parameter)} - owned
        if not params or op in self._moved or op is self.table_rule:
            return
        here = self.flow.needed(self.flow.reads[op], lambda each: each not in self._moved and each is not self.table_rule)
        if any(role_of(each) & OpRole.Backward for each in here):
            raise ValueError(
                f"op {op.type!r} of the script changes the parameter {sorted(params)[0]!r} by a gradient: each trainer would do so "
                "with its own, and for itself. Train it with an optimizer: servers do what its minimize or apply_gradients adds."
            )

    def _check_states(self) -> None:
        users: dict = {}
        for update in self.updates:
            for name in update.states:
                if users.setdefault(name, update) is not update:
                    raise ValueError(
                        f"the state {name!r} is shared by the updates of {users[name].param.name!r} and "
                        f"{update.param.name!r}; on servers each parameter needs its own."
                    )

    def replace_ops(self, changes: dict) -> None:
        """Puts other ops, which are in the block already, in the place of some: {op: [ops]}."""

        def changed(ops: list) -> list:
            return [each for op in ops for each in changes.get(op, [op])]

        self.moved = changed(self.moved)
        self._moved = set(self.moved)
        remove_ops(changes)
        self.flow = Flow(list(self.block.ops))

    # ---- rows ----

    def numel(self, name: str) -> int:
        """Elements of a variable; negative when they are not known."""
        return math.prod(self.vars[name].shape)

    def _mark_sliceable(self) -> None:
        classes = Classes(self, lambda update: True)
        for update in self.updates:
            update.sliceable = update.rule.type in ELEMENT_RULES and all(
                self._goes_by_rows(op, update, classes)
                for op in classes.ops_of(update)
            )

    def _goes_by_rows(self, op, update: Update, classes: "Classes") -> bool:
        if op is not update.rule and op.type not in ROW_OPS and op.type != NORM_CLIP and not sums_all(op):
            return False
        for name in self.flow.reads[op]:
            var = self.vars[name]
            has_rows = classes.own.get(name) is update and (
                tuple(var.shape) == tuple(update.param.shape) or var.type == VarType.SELECTED_ROWS
            )
            if not has_rows and self.numel(name) != 1:
                return False
        return True
