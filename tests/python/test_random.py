"""Random numbers: what they follow, and that the parts of a variable on servers are those of the whole.

What upstream draws with a seed is in test_seeded.py, their distributions are in test_math_ops.py.
"""

from __future__ import annotations

import numpy as np
import ps_simulation
import pytest

import paddle.fluid as fluid

layers = fluid.layers
FILLS = {
    "uniform": lambda: fluid.initializer.Uniform(-0.5, 0.5),
    "normal": lambda: fluid.initializer.Normal(0.0, 0.1),
    "truncated": lambda: fluid.initializer.TruncatedNormal(0.0, 0.2),
}


def drawing(seeds=(0,), name=None):
    """A Program with a uniform_random for each seed, of 50 elements."""
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()), fluid.unique_name.guard(name):
        names = [layers.uniform_random([50], seed=seed).name for seed in seeds]
    return main, names


def run(program, names, exe=None):
    exe = exe or fluid.Executor(fluid.CPUPlace())
    return [np.array(each) for each in exe.run(program, fetch_list=names, scope=fluid.Scope())]


def same(a, b):
    return np.array_equal(a, b)


# ---- what numbers follow ----


def test_equal_seeds_give_equal_numbers():
    main, names = drawing((10, 10, 11))
    first, second, other = run(main, names)
    assert same(first, second) and not same(first, other)


def test_without_a_seed_ops_and_programs_differ():
    main, names = drawing((0, 0))
    first, second = run(main, names)
    assert not same(first, second)
    twin, names = drawing((0, 0))
    assert not same(first, run(twin, names)[0]), "two networks that are built alike must not start alike"


def test_runs_never_repeat():
    """Not with another executor, another list of fetches, or a changed Program: each run has numbers of its own."""
    main, names = drawing((0, 0))
    exe = fluid.Executor(fluid.CPUPlace())
    found = [run(main, names, exe)[0] for _ in range(2)]
    found += [run(main, names[:1], exe)[0], run(main, names)[0], run(main.clone(), names)[0]]
    with fluid.program_guard(main):
        layers.fill_constant([1], "float32", 0.0)
    found.append(run(main, names, exe)[0])
    assert len({each.tobytes() for each in found}) == len(found)


def seeded_late(**kwargs):
    """A Program that gets its seed when its ops are there: they do not know of it."""
    main, names = drawing((0, 0, 0), **kwargs)
    main.random_seed = 5
    return main, names


def test_numbers_follow_the_place_and_not_the_name():
    main, names = seeded_late()
    first = run(main, names)
    other, others = seeded_late(name="another")
    assert others != names
    for a, b in zip(first, run(other, others)):
        assert same(a, b)


def test_clones_and_pruned_programs_keep_places():
    first = run(*seeded_late())
    main, names = seeded_late()
    assert same(run(main.clone(), names)[2], first[2])
    main, names = seeded_late()
    pruned = main._prune([main.global_block().var(names[2])])
    assert len(pruned.global_block().ops) == 1
    assert same(run(pruned, names[2:])[0], first[2])


def test_dropout_masks_keep_places():
    """The mask of an inner layer is the same when the layers around it are not run."""

    def build():
        main = fluid.Program()
        with fluid.program_guard(main, fluid.Program()), fluid.unique_name.guard():
            x = layers.fill_constant([40, 5], "float32", 1.0)
            first = layers.dropout(x, 0.5)
            second = layers.dropout(layers.scale(x, 2.0), 0.5)
            layers.elementwise_add(first, second)
        main.random_seed = 3
        return main, [first.name, second.name]

    first, second = run(*build())
    main, names = build()
    pruned = main._prune([main.global_block().var(names[1])])
    assert [op.type for op in pruned.global_block().ops].count("dropout") == 1
    assert same(run(pruned, names[1:])[0], second) and not same(first * 2, second)


def test_loops_draw_anew_each_time():
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()), fluid.unique_name.guard():
        i, end = layers.fill_constant([1], "int64", 0), layers.fill_constant([1], "int64", 3)
        array = layers.create_array("float32")
        loop = layers.While(cond=layers.less_than(i, end))
        with loop.block():
            layers.array_write(layers.uniform_random([20]), i, array=array)
            layers.increment(i, 1, in_place=True)
            layers.less_than(i, end, cond=loop.cond_var)
        drawn = [layers.array_read(array, layers.fill_constant([1], "int64", k)).name for k in range(3)]
    main.random_seed = 4
    found = run(main, drawn) + run(main, drawn)
    assert len({each.tobytes() for each in found}) == 6


@pytest.mark.parametrize(
    "call",
    [
        lambda x: layers.uniform_random([2], "int32"),
        lambda x: layers.uniform_random(np.zeros((2, 2))),
        lambda x: layers.gaussian_random([2], dtype="int64"),
        lambda x: layers.uniform_random_batch_size_like(x, [-1, 2]),
        lambda x: layers.uniform_random_batch_size_like(np.zeros((2, 2)), [-1, 2]),
        lambda x: layers.gaussian_random_batch_size_like(x, "shape"),
        lambda x: layers.randint(5, shape=[2], dtype="float32"),
        lambda x: layers.randn(7),
        lambda x: layers.randperm(5, dtype="float32"),
        lambda x: layers.randperm(5, out=np.arange(5)),
        lambda x: layers.random_crop(x, 3),
        lambda x: layers.dropout(x, 0.5),
    ],
)
def test_wrong_types_are_refused_while_building(call):
    with fluid.program_guard(fluid.Program(), fluid.Program()), pytest.raises(TypeError, match="must"):
        call(layers.data(name="x", shape=[4], dtype="int32"))


@pytest.mark.parametrize("given", ["ShapeTensor", "ShapeTensorList"])
def test_rows_of_a_given_shape(given):
    """A table of selected rows whose shape comes from variables."""
    program = fluid.Program()
    with fluid.program_guard(program, fluid.Program()):
        sizes = [layers.fill_constant([1], "int64", size) for size in (5, 3)]
        ins = sizes if given == "ShapeTensorList" else [layers.concat(sizes)]
        block = program.global_block()
        rows = fluid.core.VarDesc.VarType.SELECTED_ROWS
        out = block.create_var(name="out", type=rows, dtype="float32", persistable=True)
        block.append_op(type="uniform_random", inputs={given: ins}, outputs={"Out": [out]}, attrs={"seed": 4})
    scope = fluid.Scope()
    fluid.Executor(fluid.CPUPlace()).run(program, scope=scope)
    found = scope.find_var("out").get_selected_rows()
    assert list(found.rows()) == [0, 1, 2, 3, 4] and found.height() == 5
    want, name = drawing((4,))
    assert same(np.array(found.get_tensor()).reshape(-1), run(want, name)[0][:15])


# ---- parts of a variable ----


def network(fill, is_distributed):
    """Two parameters that are cut (one row of odd length), one that is not, and a table."""

    def build():
        ids = layers.data(name="ids", shape=[1], dtype="int64")
        start = fluid.ParamAttr(initializer=FILLS[fill]())
        table = fluid.ParamAttr(name="table", initializer=FILLS[fill]())
        rows = layers.embedding(ids, [3001, 7], is_sparse=True, is_distributed=is_distributed, param_attr=table)
        hidden = layers.fc(rows, 3003, param_attr=start)
        hidden = layers.fc(hidden, 9, param_attr=start, bias_attr=fluid.ParamAttr(initializer=FILLS[fill]()))
        loss = layers.mean(hidden)
        fluid.optimizer.SGD(0.1).minimize(loss)
        return loss

    return build


@pytest.mark.parametrize("late_seed", [False, True], ids=["seed", "place"])
@pytest.mark.parametrize("is_distributed", [False, True], ids=["slices", "dealt"])
@pytest.mark.parametrize("slice_var_up", [True, False], ids=["cut", "whole"])
@pytest.mark.parametrize("servers", [1, 2, 3])
@pytest.mark.parametrize("fill", FILLS)
def test_servers_start_with_parts_of_the_whole(fill, servers, slice_var_up, is_distributed, late_seed):
    build = network(fill, is_distributed)
    _, whole, _ = ps_simulation.one_process(build, [], late_seed)
    job = ps_simulation.Job(build, servers, 1, late_seed, slice_var_up=slice_var_up)
    found = job.parameters()
    assert sorted(found) == sorted(whole)
    for name, value in whole.items():
        assert value.ndim == 1 or value.std() > 0.01
        assert found[name].tobytes() == value.tobytes(), name


@pytest.mark.parametrize("kind", ["uniform_random", "gaussian_random", "truncated_gaussian_random"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("seed", [0, 77])
def test_rows_of_a_table(kind, dtype, seed):
    """Any rows: one at a time, few of many, far behind the beginning, of odd and even and great length."""

    def rows(shape, **attrs):
        program = fluid.Program()
        program.random_seed = 6
        block = program.global_block()
        out = block.create_var(name="out", dtype=dtype)
        given = {"shape": shape, "seed": seed, "dtype": out.dtype, "op_place": 17, **attrs}
        block.append_op(type=kind, outputs={"Out": [out]}, attrs=given)
        return run(program, ["out"])[0]

    for height, width in ((20011, 1), (4001, 7), (1200, 64), (5, 30011)):
        whole = rows([height, width])
        for begin, step in ((0, 1), (1, 1), (height // 2, 1), (0, 3), (2, 3), (height - 1, 1), (1, 1000)):
            want = whole[begin::step]
            got = rows([len(want), width], row_begin=begin, row_step=step, height=height)
            assert got.tobytes() == want.tobytes(), (height, width, begin, step)


def test_the_diagonal_of_parts():
    def rows(shape, **attrs):
        program = fluid.Program()
        block = program.global_block()
        out = block.create_var(name="out", dtype="float32")
        given = dict(shape=shape, seed=3, diag_num=5, diag_step=7, diag_val=9.0, **attrs)
        block.append_op(type="uniform_random", outputs={"Out": [out]}, attrs=given)
        return run(program, ["out"])[0]

    whole = rows([6, 7])
    assert (whole == 9.0).sum() == 5
    for begin, step in ((0, 2), (1, 2), (3, 1), (0, 1)):
        want = whole[begin::step]
        got = rows([len(want), 7], row_begin=begin, row_step=step, height=6)
        np.testing.assert_array_equal(got, want)
