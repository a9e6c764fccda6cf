"""Selected rows through whole Programs, ops whose outputs are selected rows, and the ops that write and read files."""

from __future__ import annotations

import os

import numpy as np
import pytest

import paddle.fluid as fluid
from paddle.fluid.op import Operator

PLACE = fluid.CPUPlace()
ROWS = fluid.core.VarDesc.VarType.SELECTED_ROWS


def put_rows(scope, name, rows, height, value):
    held = scope.var(name).get_selected_rows()
    held.set_height(height)
    held.set_rows(rows)
    held.get_tensor().set(value, PLACE)


def get_rows(scope, name):
    held = scope.find_var(name).get_selected_rows()
    return list(held.rows()), held.height(), np.array(held.get_tensor())


# ---- ops that give selected rows ----


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_merge_selected_rows(dtype):
    scope = fluid.core.Scope()
    value = np.arange(10, dtype=dtype).reshape(5, 2)
    put_rows(scope, "X", [0, 5, 5, 4, 19], 20, value)
    scope.var("Out").get_selected_rows()
    Operator("merge_selected_rows", X="X", Out="Out").run(scope, PLACE)
    rows, height, merged = get_rows(scope, "Out")
    assert rows == [0, 4, 5, 19] and height == 20
    np.testing.assert_array_equal(merged, [value[0], value[3], value[1] + value[2], value[4]])


@pytest.mark.parametrize("out", ["Out", "a", "b"])
def test_sum_of_selected_rows(out):
    """Each row once, ascending, also where the result takes the place of an input."""
    scope = fluid.core.Scope()
    a, b = np.arange(6, dtype="float32").reshape(3, 2), np.arange(8, dtype="float32").reshape(4, 2) * 10
    put_rows(scope, "a", [7, 1, 7], 9, a)
    put_rows(scope, "b", [0, 7, 3, 1], 9, b)
    scope.var("Out").get_selected_rows()
    Operator("sum", X=["a", "b"], Out=out).run(scope, PLACE)
    rows, height, merged = get_rows(scope, out)
    assert rows == [0, 1, 3, 7] and height == 9
    np.testing.assert_array_equal(merged, [b[0], a[1] + b[3], b[2], a[0] + a[2] + b[1]])


@pytest.mark.parametrize("op, attrs, wanted", [
    ("clip", {"min": -2.0, "max": 3.0}, [[-2, 3], [2, 3]]),
    ("clip_by_norm", {"max_norm": 5.0}, [[-2, 2], [1, 4]]),
])
def test_clip_merges_rows_in_place(op, attrs, wanted):
    scope = fluid.core.Scope()
    value = np.array([[1, 3], [-4, 4], [1, 5]], "float32")
    put_rows(scope, "X", [6, 2, 6], 9, value)
    Operator(op, X="X", Out="X", **attrs).run(scope, PLACE)
    rows, height, clipped = get_rows(scope, "X")
    assert rows == [2, 6] and height == 9
    np.testing.assert_allclose(clipped, wanted, rtol=1e-6)


def test_rows_below_zero_are_refused():
    scope = fluid.core.Scope()
    put_rows(scope, "X", [0, -5], 20, np.zeros((2, 2), "float32"))
    scope.var("Out").get_selected_rows()
    with pytest.raises(Exception, match="row -5; rows count from 0"):
        Operator("merge_selected_rows", X="X", Out="Out").run(scope, PLACE)


def test_get_tensor_from_selected_rows():
    scope = fluid.core.Scope()
    value = np.arange(6, dtype="float32").reshape(3, 2)
    put_rows(scope, "X", [7, 1, 7], 9, value)
    scope.var("Out").get_tensor()
    Operator("get_tensor_from_selected_rows", X="X", Out="Out").run(scope, PLACE)
    np.testing.assert_array_equal(np.array(scope.find_var("Out").get_tensor()), value)


def test_split_selected_rows():
    scope = fluid.core.Scope()
    value = np.arange(8, dtype="float32").reshape(4, 2)
    put_rows(scope, "X", [7, 0, 5, 11], 12, value)
    for name in ("a", "b", "c"):
        scope.var(name).get_selected_rows()
    Operator("split_selected_rows", X="X", Out=["a", "b", "c"], height_sections=[4, 2, 6]).run(scope, PLACE)
    for name, rows, height, at in (("a", [0], 4, [1]), ("b", [1], 2, [2]), ("c", [1, 5], 6, [0, 3])):
        found = get_rows(scope, name)
        assert found[:2] == (rows, height)
        np.testing.assert_array_equal(found[2], value[at])


def test_split_ids_of_rows():
    scope = fluid.core.Scope()
    value = np.arange(6, dtype="float32").reshape(3, 2)
    put_rows(scope, "Ids", [4, 1, 2], 9, value)
    for name in ("a", "b"):
        scope.var(name).get_selected_rows()
    Operator("split_ids", Ids=["Ids"], Out=["a", "b"]).run(scope, PLACE)
    assert get_rows(scope, "a")[0] == [4, 2] and get_rows(scope, "b")[0] == [1]
    np.testing.assert_array_equal(get_rows(scope, "a")[2], value[[0, 2]])


# ---- embeddings in Programs ----


def train_embedding(optimizer, is_sparse, ids, padding_idx=None, steps=3):
    """The table after some steps."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        words = fluid.layers.data("words", [1], dtype="int64")
        start = np.linspace(-1, 1, 20 * 3).reshape(20, 3).astype("float32")
        table = fluid.ParamAttr(name="table", initializer=fluid.initializer.NumpyArrayInitializer(start))
        vectors = fluid.layers.embedding(words, [20, 3], is_sparse=is_sparse, padding_idx=padding_idx, param_attr=table)
        loss = fluid.layers.mean(fluid.layers.square(vectors))
        optimizer().minimize(loss)
    if is_sparse:
        assert main.global_block().var("table@GRAD").type == ROWS
    exe, scope = fluid.Executor(PLACE), fluid.Scope()
    with fluid.scope_guard(scope):
        exe.run(startup)
        for _ in range(steps):
            exe.run(main, feed={"words": ids})
        return np.array(scope.find_var("table").get_tensor())


OPTIMIZERS = {
    "sgd": lambda: fluid.optimizer.SGD(0.5),
    "momentum": lambda: fluid.optimizer.Momentum(0.5, 0.9),
    "nesterov": lambda: fluid.optimizer.Momentum(0.5, 0.9, use_nesterov=True),
    "adagrad": lambda: fluid.optimizer.Adagrad(0.5),
    "adam": lambda: fluid.optimizer.Adam(0.1),
    "adamax": lambda: fluid.optimizer.Adamax(0.1),
    "decayed_adagrad": lambda: fluid.optimizer.DecayedAdagrad(0.1),
    "adadelta": lambda: fluid.optimizer.Adadelta(0.1),
    "rmsprop": lambda: fluid.optimizer.RMSProp(0.1),
    "ftrl": lambda: fluid.optimizer.Ftrl(0.1),
    "lars": lambda: fluid.optimizer.LarsMomentum(0.5, 0.9),
}


@pytest.mark.parametrize("name", list(OPTIMIZERS))
def test_sparse_equals_dense(name):
    """A sparse gradient gives the same table as a dense one, also where rows repeat."""
    ids = np.array([[3], [19], [3], [7], [0], [3]])
    dense, sparse = (train_embedding(OPTIMIZERS[name], is_sparse, ids) for is_sparse in (False, True))
    np.testing.assert_allclose(sparse, dense, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("is_sparse", [False, True])
def test_padding_row_stays(is_sparse):
    table = train_embedding(OPTIMIZERS["sgd"], is_sparse, np.array([[3], [5], [3]]), padding_idx=3)
    start = np.linspace(-1, 1, 20 * 3).reshape(20, 3).astype("float32")
    np.testing.assert_array_equal(np.delete(table, 5, 0), np.delete(start, 5, 0))
    assert (table[5] != start[5]).any()


def test_lazy_adam_leaves_other_rows():
    ids = np.array([[3], [5], [3]])
    lazy = train_embedding(lambda: fluid.optimizer.Adam(0.1, lazy_mode=True), True, ids)
    full = train_embedding(lambda: fluid.optimizer.Adam(0.1), True, ids)
    np.testing.assert_allclose(lazy, full, rtol=1e-6)  # moments of other rows are zero: nothing moves them


def test_large_table_in_parts():
    """More rows than one thread takes, with repeats: the same on any number of threads."""
    scope = fluid.core.Scope()
    rng = np.random.RandomState(3)
    table, ids = rng.rand(5000, 10).astype("float32"), rng.randint(0, 5000, 26000)
    value = rng.rand(26000, 10).astype("float32")
    scope.var("Param").get_tensor().set(table, PLACE)
    scope.var("LearningRate").get_tensor().set(np.array([0.5], "float32"), PLACE)
    put_rows(scope, "Grad", ids.tolist(), 5000, value)
    Operator("sgd", Param="Param", Grad="Grad", LearningRate="LearningRate", ParamOut="Param").run(scope, PLACE)
    wanted = table.astype("float64")
    np.subtract.at(wanted, ids, 0.5 * value.astype("float64"))
    np.testing.assert_allclose(np.array(scope.find_var("Param").get_tensor()), wanted, rtol=1e-4, atol=1e-4)


def test_id_out_of_range_names_it():
    with pytest.raises(Exception, match="id 20 .* 20 rows") as error:
        train_embedding(OPTIMIZERS["sgd"], False, np.array([[3], [20]]))
    assert "lookup_table" in str(error.value)


def test_sequence_pad_to_the_longest():
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        x = fluid.layers.data("x", [2], lod_level=1)
        value = fluid.layers.fill_constant([1], "float32", 9.0)
        out, length = fluid.layers.sequence_pad(x, value)
    assert out.shape == (-1, 1, 2)
    rows = np.arange(8, dtype="float32").reshape(4, 2)
    feed = fluid.create_lod_tensor(rows, [[1, 3]], PLACE)
    found, lengths = fluid.Executor(PLACE).run(main, feed={"x": feed}, fetch_list=[out, length])
    np.testing.assert_array_equal(found, [[rows[0], [9, 9], [9, 9]], rows[1:]])
    np.testing.assert_array_equal(lengths, [1, 3])


# ---- files ----


def file_program(kind, names, path, **attrs):
    program = fluid.Program()
    block = program.global_block()
    for name in names:
        block.create_var(name=name, persistable=True)
    slot = {"inputs": {"X": names}} if kind.startswith("save") else {"outputs": {"Out": names}}
    block.append_op(type=kind, attrs={"file_path": str(path), **attrs}, **slot)
    return program


def run_in(scope, program):
    with fluid.scope_guard(scope):
        fluid.Executor(PLACE).run(program)


def scope_with(**arrays):
    scope = fluid.Scope()
    for name, array in arrays.items():
        scope.var(name).get_tensor().set(array, PLACE)
    return scope


def get(scope, name):
    return np.array(scope.find_var(name).get_tensor())


A, B = np.arange(6, dtype="float32").reshape(2, 3), np.array([1, -2, 3], "int64")


def test_save_and_load(tmp_path):
    path = tmp_path / "deep" / "er" / "a"
    run_in(scope_with(a=A), file_program("save", ["a"], path))
    assert os.listdir(path.parent) == ["a"]  # nothing is left beside it
    scope = fluid.Scope()
    run_in(scope, file_program("load", ["a"], path))
    np.testing.assert_array_equal(get(scope, "a"), A)


def test_save_and_load_combined(tmp_path):
    path = tmp_path / "all"
    run_in(scope_with(a=A, b=B), file_program("save_combine", ["a", "b"], path))
    scope = fluid.Scope()
    run_in(scope, file_program("load_combine", ["a", "b"], path))
    np.testing.assert_array_equal(get(scope, "a"), A)
    np.testing.assert_array_equal(get(scope, "b"), B)
    assert get(scope, "b").dtype == np.int64


def test_lod_is_kept(tmp_path):
    scope = scope_with(a=A)
    scope.find_var("a").get_tensor().set_recursive_sequence_lengths([[2], [1, 1]])
    run_in(scope, file_program("save", ["a"], tmp_path / "a"))
    other = fluid.Scope()
    run_in(other, file_program("load", ["a"], tmp_path / "a"))
    assert other.find_var("a").get_tensor().recursive_sequence_lengths() == [[2], [1, 1]]


def test_half(tmp_path):
    numbers = np.array([0, 1, -2.5, 65504, 1e-7, 3.14159, 70000, np.inf, 6e-8, 0.1], "float32")
    run_in(scope_with(a=numbers), file_program("save", ["a"], tmp_path / "a", save_as_fp16=True))
    scope = scope_with(a=np.zeros(10, "float32"))
    run_in(scope, file_program("load", ["a"], tmp_path / "a"))
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(get(scope, "a"), numbers.astype("float16").astype("float32"))


def test_load_a_piece(tmp_path):
    run_in(scope_with(a=A), file_program("save", ["a"], tmp_path / "a"))
    scope = fluid.Scope()
    run_in(scope, file_program("load", ["a"], tmp_path / "a", seek=2, shape=[2, 1]))
    np.testing.assert_array_equal(get(scope, "a"), [[2], [3]])


def check_refused(scope, program, *texts):
    with pytest.raises(Exception) as error:
        run_in(scope, program)
    for text in texts:
        assert str(text) in str(error.value)


def test_files_that_cannot_be_read(tmp_path):
    good = tmp_path / "good"
    run_in(scope_with(a=A, b=B), file_program("save_combine", ["a", "b"], good))
    whole = good.read_bytes()
    bad = tmp_path / "bad"
    scope = scope_with(a=A + 1)
    check_refused(scope, file_program("load", ["a"], tmp_path / "none"), "none", "No such file")
    check_refused(scope, file_program("load", ["a"], tmp_path), tmp_path, "folder")
    for text, content in (("cut short", whole[:30]), ("cut short", b""), ("version", b"\x07" + whole[1:]),
                          ("of another kind", b"PK\x03\x04" * 40), ("not a tensor file", bytes(4) + b"hello, world" * 9)):
        bad.write_bytes(content)
        check_refused(scope, file_program("load_combine", ["a", "b"], bad), bad, "variable 'a'", text)
    bad.write_bytes(whole[:-3])
    check_refused(scope, file_program("load_combine", ["a", "b"], bad), bad, "variable 'b'", "cut short")
    check_refused(scope, file_program("load_combine", ["a"], good), "more than the 1 variables", good)
    np.testing.assert_array_equal(get(scope, "a"), A + 1)  # a failed load changes nothing
    check_refused(scope_with(a=np.zeros((3, 2), "float32")), file_program("load", ["a"], good), "[2, 3]", "[3, 2]", "another model")
    check_refused(scope_with(a=np.zeros((2, 3), "int64")), file_program("load", ["a"], good), "float32", "int64")


def test_files_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_bytes(b"x")
    check_refused(scope_with(a=A), file_program("save", ["a"], tmp_path / "file" / "a"), "file", "cannot")
    check_refused(scope_with(a=A), file_program("save", ["a"], tmp_path), tmp_path, "folder")
    check_refused(scope_with(a=A), file_program("save", ["a"], tmp_path / "file", overwrite=False), "overwrite is false")
    assert (tmp_path / "file").read_bytes() == b"x"
    assert sorted(os.listdir(tmp_path)) == ["file"]


@pytest.mark.parametrize("layer", ["lookup_table", "lookup_table_v2"])
def test_a_table_that_lies_on_servers_is_not_read_here(layer):
    """Programs of old transpilers name servers in the op; the local variable then holds nothing of worth."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        ids = fluid.layers.data("ids", [1], dtype="int64")
        table = fluid.layers.create_parameter([4, 2], "float32", name="table")
        out = main.current_block().create_var(name="rows", dtype="float32")
        main.current_block().append_op(
            type=layer, inputs={"W": table, "Ids": ids}, outputs={"Out": out},
            attrs={"remote_prefetch": True, "epmap": ["10.0.0.1:6174"], "table_names": ["table"]})
    exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()
    exe.run(startup, scope=scope)
    with pytest.raises(Exception, match="10.0.0.1:6174.*DistributeTranspiler"):
        exe.run(main, feed={"ids": np.zeros((1, 1), "int64")}, fetch_list=[out], scope=scope)


def test_sum_into_an_input_without_rows():
    """Out is the first X, which is empty; only the last one has rows."""
    scope, place = fluid.Scope(), fluid.CPUPlace()
    values = np.arange(7 * 300, dtype="float32").reshape(7, 300)
    for name in ("a", "b", "c"):
        rows = scope.var(name).get_selected_rows()
        rows.set_height(10)
        rows.set_rows(list(range(7)) if name == "c" else [])
        rows.get_tensor().set(values, place)
    Operator("sum", X=["a", "b", "c"], Out="a").run(scope, place)
    out = scope.find_var("a").get_selected_rows()
    assert list(out.rows()) == list(range(7))
    np.testing.assert_array_equal(np.array(out.get_tensor()), values)


def trained_table(is_sparse: bool, order: str) -> np.ndarray:
    """A table that a product reads (m), and lookups outside (e) or inside of a loop (l), in this order."""
    layers = fluid.layers
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 3
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        ids = layers.data(name="ids", shape=[1], dtype="int64")
        table = layers.create_parameter([30, 8], "float32", name="table")

        def product(h):
            return layers.matmul(layers.softmax(layers.matmul(h, table, transpose_y=True)), table)

        def look_up(h):
            return layers.tanh(h + layers.embedding(ids, [30, 8], is_sparse=is_sparse, param_attr="table"))

        def loop(h):
            count, turns = (layers.fill_constant([1], "int64", value) for value in (0, 2))
            return layers.while_loop(lambda i, h: i < turns, lambda i, h: [i + 1, look_up(h)], [count, h])[1]

        hidden = layers.fc(layers.cast(ids, "float32"), 8)
        for each in order:
            hidden = {"m": product, "e": look_up, "l": loop}[each](hidden)
        loss = layers.mean(layers.square(hidden))
        fluid.optimizer.SGD(0.5).minimize(loss)
    exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()
    exe.run(startup, scope=scope)
    for _ in range(3):
        exe.run(main, feed={"ids": np.array([[1], [2], [1]], "int64")}, fetch_list=[loss], scope=scope)
    return np.array(scope.find_var("table").get_tensor())


@pytest.mark.parametrize("order", ["me", "em", "ml", "lm", "mlm", "lml"])
def test_a_gradient_that_is_rows_in_parts(order):
    """Gradients of one parameter add up, whichever of them are selected rows and whichever comes first."""
    np.testing.assert_allclose(trained_table(True, order), trained_table(False, order), atol=1e-6)
