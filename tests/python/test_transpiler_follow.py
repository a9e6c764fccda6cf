"""DistributeTranspiler: loops and branches in the model, and what servers compute beside the optimizer ops."""

from __future__ import annotations

import ps_simulation
import pytest
from test_transpiler import SERVERS, check_equal, line, network, programs, rate  # noqa: F401

import paddle.fluid as fluid
from paddle.fluid import layers

# ---- parameters inside loops and branches ----


def with_blocks(middle):
    """A layer, something with a block of its own, a layer."""

    def build():
        x = layers.data(name="x", shape=[40], dtype="float32")
        y = layers.data(name="y", shape=[1], dtype="float32")
        hidden = middle(layers.fc(x, 8, act="tanh"))
        loss = layers.mean(layers.square_error_cost(layers.fc(hidden, 1), y))
        fluid.optimizer.SGD(0.1).minimize(loss)
        return loss

    return build


def shared_layer(hidden):
    return layers.tanh(layers.matmul(hidden, layers.create_parameter([8, 8], "float32", name="shared")))


def in_a_loop(hidden, turn=shared_layer):
    count, turns = (layers.fill_constant([1], "int64", value) for value in (0, 3))
    return layers.while_loop(lambda i, h: i < turns, lambda i, h: [i + 1, turn(h)], [count, hidden])[1]


def in_a_branch(hidden):
    low, high = (layers.fill_constant([1], "float32", value) for value in (1.0, 2.0))
    return layers.cond(low < high, lambda: shared_layer(hidden), lambda: hidden)


@pytest.mark.parametrize("middle", [in_a_loop, in_a_branch])
def test_parameters_in_blocks(middle):
    """The block has gradients of its own, with the same names."""
    check_equal(with_blocks(middle), 2, 2, feeds=("x", "y"))


def rows_in_a_loop(hidden):
    ids = layers.data(name="first", shape=[1], dtype="int64")
    return in_a_loop(
        hidden,
        lambda h: layers.tanh(h + layers.embedding(ids, [2000, 8], is_sparse=True, param_attr="rows")),
    )


def rows_in_branches(hidden):
    """The branch that is not taken gives no rows."""
    ids = layers.data(name="first", shape=[1], dtype="int64")
    low, high = (layers.fill_constant([1], "float32", value) for value in (1.0, 2.0))

    def look_up():
        return hidden + layers.embedding(ids, [2000, 8], is_sparse=True, param_attr="rows")

    return layers.cond(low < high, lambda: layers.cond(high < low, look_up, look_up), look_up)


@pytest.mark.parametrize("middle", [rows_in_a_loop, rows_in_branches])
def test_sparse_tables_in_blocks(middle):
    """The gradient that comes out of the block is selected rows, and declared so."""
    job = check_equal(with_blocks(middle), 2, 2, feeds=("x", "y", "first"))
    found = [var for server in job.servers.values() for var in server.program.global_block()._all_vars()]
    kinds = {var.type for var in found if var.name.startswith("rows@GRAD")}
    assert kinds == {fluid.core.VarDesc.VarType.SELECTED_ROWS}


# ---- what servers compute beside the optimizer ops ----


def plain_schedule():
    """A schedule of plain layers, which nothing marks as one."""
    step = layers.cast(layers.autoincreased_step_counter(begin=1, step=1), "float32")
    first = layers.fill_constant([1], "float32", 0.1)
    return fluid.optimizer.Momentum(layers.elementwise_div(first, step), 0.9)


def counted_by_the_model():
    """The counter of the schedule was made before the schedule."""
    layers.autoincreased_step_counter(counter_name="@LR_DECAY_COUNTER@", begin=0, step=1)
    return fluid.optimizer.SGD(layers.exponential_decay(0.1, 2, 0.5))


def counted_by_the_optimizer():
    """The counter has the role of an update; it may count once a step only, not once for each parameter."""
    with fluid.default_main_program()._optimized_guard([]):
        step = layers.autoincreased_step_counter(counter_name="updates", begin=1, step=1)
        rate = layers.elementwise_div(layers.fill_constant([1], "float32", 0.1), layers.cast(step, "float32"))
    return fluid.optimizer.SGD(rate)


class Changed(fluid.optimizer.MomentumOptimizer):
    """The rate is changed when it was used."""

    def minimize(self, loss):
        super().minimize(loss)
        layers.assign(layers.scale(self._learning_rate, 0.8), self._learning_rate)


def changed_afterwards():
    return Changed(layers.create_global_var([1], 0.1, "float32", persistable=True, name="mine"), 0.9)


class Decoupled(fluid.optimizer.AdamOptimizer):
    """Takes a part of the parameters as they were before the step away, as scripts of BERT do."""

    def minimize(self, loss):
        block = loss.block.program.global_block()
        before = {param.name: param * 1.0 for param in block.all_parameters()}
        for each in before.values():
            each.stop_gradient = True
        pairs = super().minimize(loss)[1]
        rate = self._global_learning_rate()
        for pair in pairs:
            param = pair[0]
            with loss.block.program._optimized_guard(pair):
                layers.assign(param - before[param.name] * (rate * 0.5 * 0.1), param)


@pytest.mark.parametrize(
    "update",
    [
        plain_schedule,
        counted_by_the_model,
        counted_by_the_optimizer,
        changed_afterwards,
        lambda: Decoupled(rate()),
    ],
    ids=lambda each: each.__name__.replace("<lambda>", "decoupled_decay"),
)
def test_what_updates_depend_on_is_followed(update):
    check_equal(network(update, is_sparse=False), 2, 2)


class Weighed(fluid.optimizer.SGDOptimizer):
    """Each parameter has a decay of its own, in a variable; then all gradients are clipped by their norm."""

    def minimize(self, loss):
        pairs = self.backward(loss)
        for i, (param, grad) in enumerate(pairs):
            much = layers.create_global_var([1], 0.01 * (i + 1), "float32", persistable=True, name=f"{param.name}_decay")
            with loss.block.program._optimized_guard([param, grad]):
                pairs[i] = param, grad + param * much
        return self.apply_gradients(pairs), pairs


def test_what_the_update_of_another_parameter_reads():
    """All updates depend on each decay, by the norm; only the server of its parameter has it."""
    job = check_equal(network(lambda: Weighed(0.1, grad_clip=fluid.clip.GradientClipByGlobalNorm(0.05)), is_sparse=False),
                      3, 2, slice_var_up=False)
    decays = [each for each in job.trainers[0][0].vars_overview.distributed_vars if each.origin.name.endswith("_decay")]
    assert len(decays) == 5 and {each.endpoint for each in decays} == set(job.servers)


def fed_rate(loss):
    return layers.data(name="rate", shape=[1], dtype="float32", append_batch_size=False)


@pytest.mark.parametrize(
    "make, text",
    [
        (fed_rate, "uses 'rate'; 'rate' is fed to trainers"),
        (lambda loss: loss * 0.1, "which depends on '[xy]'; '[xy]' is fed to trainers.*create_global_var"),
    ],
    ids=["fed", "from the loss"],
)
def test_what_servers_cannot_compute(programs, make, text):  # noqa: F811
    x = layers.data(name="x", shape=[13], dtype="float32")
    y = layers.data(name="y", shape=[1], dtype="float32")
    loss = layers.mean(layers.square_error_cost(layers.fc(x, 1), y))
    fluid.optimizer.SGD(make(loss)).minimize(loss)
    with pytest.raises(ValueError, match=text):
        fluid.DistributeTranspiler().transpile(0, pservers=SERVERS, trainers=2)
    assert not programs[0]._is_distributed and "sgd" in [op.type for op in programs[0].global_block().ops]


@pytest.mark.parametrize("join, text", [(layers.reduce_sum, None), (layers.reduce_max, "'fc_0.w_0'; another")])
def test_a_rate_that_comes_from_a_parameter(join, text):
    """Servers share sums over a parameter, nothing else of it."""

    def update():
        weights = fluid.default_main_program().global_block().var("fc_0.w_0")
        total = join(layers.square(weights))
        total.stop_gradient = True
        return fluid.optimizer.SGD(layers.scale(total, 1e-4))

    if text is None:
        check_equal(network(update, is_sparse=False), 2, 2)
        return
    with pytest.raises(ValueError, match=text):
        ps_simulation.Job(network(update, is_sparse=False), 2, 2)


def test_plain_schedules_can_be_fetched(programs):  # noqa: F811
    """Trainers keep what the user made with plain layers."""
    line(plain_schedule)
    t = fluid.DistributeTranspiler()
    t.transpile(0, pservers=SERVERS, trainers=2)
    kinds = [op.type for op in t.get_trainer_program().global_block().ops]
    assert "increment" in kinds and "elementwise_div" in kinds and "momentum" not in kinds


@pytest.mark.parametrize("is_sparse", [False, True])
def test_hierarchical_sigmoid(is_sparse):
    """An output of it names the weights again; that changes nothing."""

    def build():
        x = layers.data(name="x", shape=[40], dtype="float32")
        label = layers.data(name="second", shape=[1], dtype="int64")
        loss = layers.mean(layers.hsigmoid(layers.fc(x, 8), label, 60, is_sparse=is_sparse))
        fluid.optimizer.SGD(0.1).minimize(loss)
        return loss

    check_equal(build, 2, 2, feeds=("x", "second"))
