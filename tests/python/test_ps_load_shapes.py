"""Servers load files of another model's shape: refused by name with both shapes, on any number of servers, however the files were
written."""

import contextlib
import struct

import numpy as np
import pytest

import paddle.fluid as fluid
from paddle.fluid import core

SERVERS = [f"127.0.0.1:{port}" for port in (6174, 6175)]
W, TABLE = [64, 1024], [4000, 8]
# The shape of w that was saved, where the job has W: more rows, fewer, as many numbers in other rows.
SHAPES = [[128, 1024], [32, 1024], [32, 2048]]
TABLES = [[6000, 8], [3000, 8], [4000, 4], [8000, 4], [4000, 16]]
RULES = {"sgd": fluid.optimizer.SGD, "adam": fluid.optimizer.Adam}


@contextlib.contextmanager
def model(w=W, table=TABLE, rule="sgd", is_distributed=False):
    """Its own Programs and scope; gives an Executor."""
    with fluid.scope_guard(fluid.Scope()), fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
        x, i = fluid.layers.data("x", [w[0]]), fluid.layers.data("i", [1], dtype="int64")
        rows = fluid.layers.embedding(i, table, is_sparse=True, is_distributed=is_distributed, param_attr=fluid.ParamAttr("emb"))
        dense = fluid.layers.fc(x, w[1], param_attr=fluid.ParamAttr("w"), bias_attr=False)
        RULES[rule](0.1).minimize(fluid.layers.reduce_sum(dense) + fluid.layers.reduce_sum(rows))
        yield fluid.Executor(fluid.CPUPlace())


def save(folder, filename=None, **made):
    """As one process does."""
    with model(**made) as exe:
        exe.run(fluid.default_startup_program())
        fluid.io.save_persistables(exe, str(folder), filename=filename)
        fluid.save(fluid.default_main_program(), str(folder / "m"))


def persistables(exe, folder, program, filename):
    fluid.io.load_persistables(exe, str(folder), program, filename)


def params(exe, folder, program, filename):
    fluid.io.load_params(exe, str(folder), program, filename)


def state(exe, folder, program, filename):
    fluid.load(program, str(folder / "m"), exe)


def load(folder, how, servers=2, filename=None, is_started=True, **made):
    """Each server loads, before it would serve. Gives the errors."""
    said = []
    for endpoint in SERVERS[:servers]:
        with model(**made) as exe:
            t = fluid.DistributeTranspiler()
            t.transpile(0, pservers=",".join(SERVERS[:servers]), trainers=1)
            main, startup = t.get_pserver_programs(endpoint)
            if is_started:
                exe.run(startup)
            try:
                how(exe, folder, main, filename)
            except core.ShapeError as error:
                said.append(str(error))
    return said


def check(said, name, wanted, found, servers):
    """Every server refuses."""
    assert len(said) == servers, said
    numbers = [", ".join(map(str, shape)) for shape in (wanted, found)]
    for text in said:
        assert f"'{name}'" in text and all(each in text for each in numbers), text


@pytest.mark.parametrize("how", [persistables, params, state])
@pytest.mark.parametrize("servers", [1, 2])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_dense_parameter(tmp_path, shape, servers, how):
    save(tmp_path, w=shape)
    check(load(tmp_path, how, servers), "w", W, shape, servers)


@pytest.mark.parametrize("how", [persistables, params, state])
@pytest.mark.parametrize("servers", [1, 2])
@pytest.mark.parametrize("is_distributed", [False, True], ids=["sparse", "distributed"])
@pytest.mark.parametrize("shape", TABLES)
def test_a_table(tmp_path, shape, is_distributed, servers, how):
    save(tmp_path, table=shape)
    check(load(tmp_path, how, servers, is_distributed=is_distributed), "emb", TABLE, shape, servers)


@pytest.mark.parametrize("servers", [1, 2])
@pytest.mark.parametrize("how", [persistables, params])
def test_one_file_for_all(tmp_path, how, servers):
    filename = "all"
    with model(w=[32, 2048]) as exe:
        exe.run(fluid.default_startup_program())
        {persistables: fluid.io.save_persistables, params: fluid.io.save_params}[how](exe, str(tmp_path), filename=filename)
    check(load(tmp_path, how, servers, filename), "w", W, [32, 2048], servers)


@pytest.mark.parametrize("servers", [1, 2])
def test_a_state_of_the_optimizer(tmp_path, servers):
    """The parameters fit, and the moment has been put there from another model."""
    save(tmp_path / "mine", rule="adam")
    save(tmp_path / "other", rule="adam", w=[32, 2048])
    (tmp_path / "mine" / "w_moment1_0").write_bytes((tmp_path / "other" / "w_moment1_0").read_bytes())
    check(load(tmp_path / "mine", persistables, servers, rule="adam"), "w_moment1_0", W, [32, 2048], servers)
    assert not load(tmp_path / "mine", params, servers, rule="adam")


@pytest.mark.parametrize("shape", SHAPES)
def test_without_the_startup_program(tmp_path, shape):
    """Nothing is there yet that the file could be compared with."""
    save(tmp_path, w=shape)
    for servers in (1, 2):
        check(load(tmp_path, params, servers, is_started=False), "w", W, shape, servers)


def write_parts(folder, shape, count, is_ours=True):
    """Parts of a table as the servers of a job write them. Those of upstream do not say what they are parts of."""
    for index in range(count):
        with fluid.scope_guard(fluid.Scope()):
            program = fluid.Program()
            block = program.global_block()
            var = block.create_var(name="emb", type=core.VarDesc.VarType.SELECTED_ROWS, dtype="float32", persistable=True)
            rows = fluid.global_scope().var("emb").get_selected_rows()
            rows.set_height(shape[0] if is_ours else 0)
            rows.set_rows(list(range(index, shape[0], count)))
            rows.get_tensor().set(np.ones((len(rows.rows()), shape[1]), "float32"), core.CPUPlace())
            path = str(folder / "__lookup_table__" / f"emb_{index}")
            block.append_op(type="save", inputs={"X": [var]}, attrs={"file_path": path})
            fluid.Executor(fluid.CPUPlace()).run(program)
        if is_ours:
            with open(path, "ab") as file:
                file.write(struct.pack("<8sIIQ", b"CPDLPART", index, count, 5))


@pytest.mark.parametrize("parts", [1, 2, 3])
@pytest.mark.parametrize("servers", [1, 2])
@pytest.mark.parametrize("shape", TABLES)
def test_parts_of_a_table(tmp_path, shape, servers, parts):
    save(tmp_path)
    (tmp_path / "emb").unlink()
    write_parts(tmp_path, TABLE, parts)
    assert not load(tmp_path, persistables, servers, is_distributed=True)
    write_parts(tmp_path, shape, parts)
    check(load(tmp_path, persistables, servers, is_distributed=True), "emb", TABLE, shape, servers)


@pytest.mark.parametrize("width", [4, 16])
@pytest.mark.parametrize("parts", [2, 3])
def test_parts_that_do_not_say_what_they_are(tmp_path, parts, width):
    save(tmp_path)
    (tmp_path / "emb").unlink()
    write_parts(tmp_path, TABLE, parts, is_ours=False)
    assert not load(tmp_path, persistables, 2, is_distributed=True)
    write_parts(tmp_path, [4000, width], parts, is_ours=False)
    check(load(tmp_path, persistables, 2, is_distributed=True), "emb", TABLE, [4000, width], 2)


@pytest.mark.parametrize("shape", TABLES)
def test_parts_of_a_table_in_one_process(tmp_path, shape):
    save(tmp_path)
    (tmp_path / "emb").unlink()
    write_parts(tmp_path, shape, 2)
    with model() as exe:
        exe.run(fluid.default_startup_program())
        with pytest.raises(core.ShapeError) as error:
            fluid.io.load_persistables(exe, str(tmp_path))
    check([str(error.value)], "emb", TABLE, shape, 1)


@pytest.mark.parametrize("how", [persistables, params, state])
@pytest.mark.parametrize("is_distributed", [False, True], ids=["sparse", "distributed"])
def test_files_that_fit(tmp_path, is_distributed, how):
    save(tmp_path, rule="adam" if not is_distributed else "sgd")
    for servers in (1, 2):
        assert not load(tmp_path, how, servers, is_distributed=is_distributed, rule="sgd" if is_distributed else "adam")
