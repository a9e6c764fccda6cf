"""DistributeTranspiler: what a table of embedding(is_distributed=True) may start with, and who may read it."""

from __future__ import annotations

import warnings

import numpy as np
import ps_simulation
import pytest
from test_transpiler import RULES, SERVERS, check_equal, network, programs  # noqa: F401

import paddle.fluid as fluid
from paddle.fluid import layers
from paddle.fluid.transpiler.copying import copy_op


@pytest.mark.parametrize(
    "start",
    [
        fluid.initializer.Normal(0.1, 0.2),
        fluid.initializer.TruncatedNormal(0.1, 0.2),
        fluid.initializer.Constant(0.3),
    ],
    ids=lambda each: type(each).__name__,
)
def test_starts_of_a_distributed_table(start):
    """Each server draws its own rows."""
    check_equal(network(RULES["sgd"], is_distributed=True, start=start), 3, 2, steps=1)


def test_a_table_whose_rows_cannot_be_filled_alone():
    start = fluid.initializer.NumpyArrayInitializer(np.zeros((2000, 9), "float32"))
    with pytest.raises(ValueError, match="'table' is filled by op 'assign_value'.*is_distributed=False"):
        ps_simulation.Job(network(RULES["sgd"], is_distributed=True, start=start), 2, 2)


def test_the_optimizer_of_a_distributed_table(programs, capsys):  # noqa: F811
    """Its rows have the states; blocks say how rows are updated, and what they begin with (test_ps_hashed.py)."""
    network(RULES["adam"], is_distributed=True)()
    t = fluid.DistributeTranspiler()
    t.transpile(0, pservers=SERVERS, trainers=2)
    program = t.get_pserver_program(SERVERS.split(",")[1])
    kinds = [[op.type for op in block.ops] for block in program.blocks]
    assert ["sum", "scale", "adam"] in kinds and ["lookup_sparse_table"] not in kinds
    serve = next(op for op in program.global_block().ops if op.type == "listen_and_serv")
    (text,) = serve.attr("hashed_tables")
    name, start, *where = text.split("\t")
    assert name == "table" and where == ["first=1", f"step={len(SERVERS.split(','))}", "height=2000"]
    (fill,) = program.block(int(start.removeprefix("start="))).ops
    assert fill.output("Out") == ["table"] and list(fill.attr("shape")) == [1, 9] and fill.type == "uniform_random"
    assert "only support sgd optimizer" not in capsys.readouterr().err


def average(loss):
    fluid.optimizer.SGD(0.1).minimize(loss)
    fluid.optimizer.ModelAverage(0.2, min_average_window=2, max_average_window=4)


def tie(loss):
    table = loss.block.program.global_block().var("t")
    fluid.optimizer.SGD(0.1).minimize(loss + layers.mean(layers.scale(table, 2.0)))


@pytest.mark.parametrize("use, kind", [(average, "average_accumulates"), (tie, "scale")])
def test_a_distributed_table_has_no_other_readers(programs, use, kind):  # noqa: F811
    ids = layers.data(name="ids", shape=[1], dtype="int64")
    loss = layers.mean(layers.embedding(ids, [100, 4], is_sparse=True, is_distributed=True, param_attr="t"))
    use(loss)
    with pytest.raises(ValueError, match=f"op '{kind}' reads all of 't'.*is_distributed=False"):
        fluid.DistributeTranspiler().transpile(0, pservers=SERVERS, trainers=2)


def test_a_distributed_table_is_not_for_loops(programs):  # noqa: F811
    ids = layers.data(name="ids", shape=[1], dtype="int64")
    count, turns = (layers.fill_constant([1], "int64", value) for value in (0, 3))

    def turn(i, h):
        rows = layers.embedding(ids, [100, 4], is_sparse=True, is_distributed=True, param_attr="t")
        return [i + 1, h + rows]

    hidden = layers.embedding(ids, [100, 4], is_sparse=True, is_distributed=True, param_attr="t")
    loss = layers.mean(layers.while_loop(lambda i, h: i < turns, turn, [count, hidden])[1])
    fluid.optimizer.SGD(0.1).minimize(loss)
    with pytest.raises(ValueError, match="inside a loop.*'t'"):
        fluid.DistributeTranspiler().transpile(0, pservers=SERVERS, trainers=2)


def test_a_distributed_table_with_another_optimizer(programs):  # noqa: F811
    """Those that do not go row by row leave it to plain SGD, and say so; the others say nothing."""
    ids = layers.data(name="ids", shape=[1], dtype="int64")
    rows = layers.embedding(ids, [100, 4], is_sparse=True, is_distributed=True, param_attr="t")
    loss = layers.mean(layers.fc(rows, 1))
    with pytest.warns(UserWarning, match="table 't' is trained by plain SGD: LambOptimizer does not go row by row.*adam"):
        fluid.optimizer.LambOptimizer(0.1).minimize(loss)
    assert [op.type for op in programs[0].global_block().ops if op.input("Param") == ["t"]] == ["sgd"]
    with fluid.program_guard(fluid.Program(), fluid.Program()), warnings.catch_warnings():
        warnings.simplefilter("error")
        ids = layers.data(name="ids", shape=[1], dtype="int64")
        rows = layers.embedding(ids, [100, 4], is_sparse=True, is_distributed=True, param_attr="t")
        fluid.optimizer.Adagrad(0.1).minimize(layers.mean(rows))


def test_ids_beyond_a_distributed_table(programs):  # noqa: F811
    """The trainer says which id, before anything is sent."""
    ids = layers.data(name="ids", shape=[1], dtype="int64")
    loss = layers.mean(layers.embedding(ids, [100, 4], is_sparse=True, is_distributed=True, param_attr="t"))
    fluid.optimizer.SGD(0.1).minimize(loss)
    t = fluid.DistributeTranspiler()
    t.transpile(0, pservers=SERVERS, trainers=2)
    split = next(op for op in programs[0].global_block().ops if op.type == "split_ids")
    program = fluid.Program()
    block = program.global_block()
    copy_op(block, split, lambda name: block.create_var(name=name, dtype="int64").name)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(program, feed={"ids": np.array([[3], [99]], "int64")})
    with pytest.raises(Exception, match=r"id 100 \(number 1 of Ids\) is outside the 100 rows of the table 't'"):
        exe.run(program, feed={"ids": np.array([[3], [100]], "int64")})
