"""DistributeTranspiler: Programs against those of 1.8.5, results against one process, and what it refuses."""

from __future__ import annotations

import json
import pathlib
import sys
import warnings

import numpy as np
import pytest

import paddle.fluid as fluid
from paddle.fluid import layers

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE))

import ps_simulation  # noqa: E402
from golden import transpiled  # noqa: E402

GOLDEN = json.loads((HERE.parent / "golden" / "data" / "transpiled.json").read_text())
SERVERS = "127.0.0.1:6174,127.0.0.1:6175"


# ---- the Programs of 1.8.5 ----
#
# Where ours differ, on purpose:
# - states of a parameter in slices are named for the slice (w_moment1_0.block0), so that each slice has its
# own, also the powers of beta; rmsprop's mean_grad is cut like the rest (1.8.5 leaves it whole); - variables
# that one block alone uses belong to it and are not persistable (1.8.5 keeps all of them); - with a decay, a
# gradient is still sent right after it is made (1.8.5 waits for the decay ops, which it then removes); -
# trainers do not keep the counter of a schedule; - slice_var_up=False does not shuffle the parameters with
# numpy's global random state.


def plain(name):
    return name.split(".block")[0] if "@GRAD" not in name and "_" in name else name


def same_kept(ours, theirs):
    """Persistables: ours are among theirs, and what is left out no op of ours shares between blocks."""
    found = {}
    for name, shape in ours.items():
        base, _, number = name.partition(".block")
        found[name if name in theirs else base] = shape
    for name, shape in found.items():
        assert name in theirs, name
        if "mean_grad" not in name:
            assert theirs[name] == shape, name
    left = set(theirs) - set(found)
    assert all("tmp_" in name or name.startswith("_generated_var") for name in left), left


def talk(ops, ordered=True):
    found = []
    for op in ops:
        attrs = {
            key: value
            for key, value in op["attrs"].items()
            if key
            in (
                "epmap",
                "sections",
                "height_sections",
                "send_varnames",
                "recv_varnames",
                "table_names",
                "half_async",
                "trainer_id",
                "padding_idx",
            )
            and value != []
        }
        ends = op["attrs"].get("endpoints")
        found.append((op["type"], op["in"], op["out"], attrs, ends if op["type"] != "send" else None))
    return found if ordered else sorted(found, key=repr)


@pytest.mark.parametrize("name", [name for name in transpiled.CASES if "whole" not in name])
def test_programs_of_185(name):
    theirs = GOLDEN[name]
    ours = json.loads(json.dumps(transpiled.describe(transpiled.CASES[name], fluid.transpiler.RoundRobin)))
    has_decay = "_l2_" in name
    if has_decay:
        assert sorted(ours["types"]) == sorted(theirs["types"])
    else:
        assert ours["types"] == theirs["types"]
    assert talk(ours["talk"], not has_decay) == talk(theirs["talk"], not has_decay)
    assert talk(ours["startup_talk"]) == talk(theirs["startup_talk"])
    extra = 1 if "decay" in name or "piecewise" in name else 0
    assert len(theirs["startup_types"]) - len(ours["startup_types"]) in (0, extra)
    for mine, other in zip(ours["servers"], theirs["servers"]):
        assert mine["serve"]["in"] == other["serve"]["in"]
        for key in ("Fanin", "pserver_id", "distributed_mode", "lr_decay_block_id"):
            assert mine["serve"]["attrs"][key] == other["serve"]["attrs"][key]
        for key in ("optimize_blocks", "grads", "sparse"):
            assert mine[key] == other[key]
        shape = [[(op["type"], op["attrs"].get("scale")) for op in block] for block in mine["blocks"]]
        wanted = [[(op["type"], op["attrs"].get("scale")) for op in block] for block in other["blocks"]]
        assert [[kind for kind, _ in block] for block in shape] == [
            [kind for kind, _ in block] for block in wanted
        ]
        for block, like in zip(shape, wanted):
            for (_, scale), (_, want) in zip(block, like):
                assert scale == pytest.approx(want) if want is not None else scale is None
        for block, like in zip(mine["blocks"], other["blocks"]):
            for op, want in zip(block, like):
                for side in ("in", "out"):
                    assert list(op[side]) == list(want[side]) or sorted(op[side]) == sorted(want[side])
        same_kept(mine["kept"], other["kept"])
        starts = sorted((kind, plain(var)) for kind, var, _ in mine["startup"])
        assert starts == sorted((kind, plain(var)) for kind, var, _ in other["startup"])


def test_whole_parameters_have_the_same_ops():
    name = "mlp_adam_whole_2x2"
    ours = transpiled.describe(transpiled.CASES[name], fluid.transpiler.RoundRobin)
    assert ours["types"] == GOLDEN[name]["types"]
    assert ours["startup_types"] == GOLDEN[name]["startup_types"]


# ---- results ----


def network(update, is_sparse=True, is_distributed=False, clip=None, start=None):
    """An embedding that two inputs share, and two layers; large enough to be cut."""
    start = start or fluid.initializer.Uniform(-0.5, 0.5)

    def build():
        first = layers.data(name="first", shape=[1], dtype="int64")
        second = layers.data(name="second", shape=[1], dtype="int64")
        x = layers.data(name="x", shape=[40], dtype="float32")
        y = layers.data(name="y", shape=[1], dtype="float32")
        rows = [
            layers.embedding(
                each,
                [2000, 9],
                is_sparse=is_sparse,
                is_distributed=is_distributed,
                param_attr=fluid.ParamAttr(name="table", initializer=start),
            )
            for each in (first, second)
        ]
        hidden = layers.fc(
            layers.concat([x, *rows], axis=1),
            301,
            act="tanh",
            param_attr=fluid.ParamAttr(initializer=fluid.initializer.Normal(0.0, 0.1)),
        )
        out = layers.fc(
            hidden, 1, param_attr=fluid.ParamAttr(initializer=fluid.initializer.TruncatedNormal(0.0, 0.2))
        )
        loss = layers.mean(layers.square_error_cost(out, y))
        if clip is not None:
            fluid.clip.set_gradient_clip(clip)
        update().minimize(loss)
        return loss

    return build


def batches(steps, rows=12, seed=3):
    rng = np.random.RandomState(seed)
    for _ in range(steps):
        yield {
            "first": rng.randint(0, 2000, (rows, 1)).astype("int64"),
            "second": rng.randint(0, 60, (rows, 1)).astype("int64"),
            "x": rng.uniform(-1, 1, (rows, 40)).astype("float32"),
            "y": rng.uniform(-3, 3, (rows, 1)).astype("float32"),
        }


def shares(batch, trainers):
    size = len(batch["x"]) // trainers
    return [
        {name: value[i * size : (i + 1) * size] for name, value in batch.items()} for i in range(trainers)
    ]


def check_equal(build, endpoints, trainers, steps=5, tol=1e-5, feeds=None, **config):
    whole = [{name: batch[name] for name in feeds or batch} for batch in batches(steps)]
    losses, first, last = ps_simulation.one_process(build, whole)
    job = ps_simulation.Job(build, endpoints, trainers, **config)
    start = job.parameters()
    for name, value in first.items():
        assert start[name].tobytes() == value.tobytes(), f"{name} starts with other values"
    found = [job.step(shares(batch, trainers)) for batch in whole]
    np.testing.assert_allclose(found, losses, rtol=tol, atol=tol)
    for name, value in job.parameters().items():
        off = np.linalg.norm(value - last[name]) / np.linalg.norm(last[name])
        assert off < tol, f"{name} is off by {off}"
    return job


def rate():
    return layers.exponential_decay(0.1, decay_steps=2, decay_rate=0.7)


RULES = {
    "sgd": lambda: fluid.optimizer.SGD(0.1),
    "momentum": lambda: fluid.optimizer.Momentum(0.05, momentum=0.9),
    "adam": lambda: fluid.optimizer.Adam(0.01),
    "adagrad": lambda: fluid.optimizer.Adagrad(0.05),
    "rmsprop": lambda: fluid.optimizer.RMSProp(0.01, centered=True),
    "sgd_decay": lambda: fluid.optimizer.SGD(rate()),
    "adam_l2_decay": lambda: fluid.optimizer.Adam(
        layers.piecewise_decay([2, 3], [0.01, 0.005, 0.002]), regularization=fluid.regularizer.L2Decay(0.1)
    ),
    "momentum_l1": lambda: fluid.optimizer.Momentum(
        0.05, momentum=0.9, regularization=fluid.regularizer.L1Decay(0.01)
    ),
}
DENSE_RULES = {
    "adamax": lambda: fluid.optimizer.Adamax(0.01),
    "decayed_adagrad": lambda: fluid.optimizer.DecayedAdagrad(0.01),
    "adadelta": lambda: fluid.optimizer.Adadelta(1.0),
    "ftrl": lambda: fluid.optimizer.Ftrl(0.05),
    "lars": lambda: fluid.optimizer.LarsMomentum(0.05, momentum=0.9),
    "lamb": lambda: fluid.optimizer.LambOptimizer(0.01),
}
CLIPS = {
    "value": lambda: fluid.clip.GradientClipByValue(0.01),
    "norm": lambda: fluid.clip.GradientClipByNorm(0.05),
    "global": lambda: fluid.clip.GradientClipByGlobalNorm(0.1),
}


@pytest.mark.parametrize("rule", RULES)
def test_equals_one_process(rule):
    check_equal(network(RULES[rule]), 3, 2)


@pytest.mark.parametrize("rule", DENSE_RULES)
def test_equals_one_process_dense(rule):
    job = check_equal(network(DENSE_RULES[rule], is_sparse=False), 2, 2)
    whole = rule in ("lars", "lamb")
    assert all(
        each.is_slice
        == (each.origin.name == "table" and not whole or each.origin.name == "fc_0.w_0" and not whole)
        for each in job.places
    )


@pytest.mark.parametrize("clip", CLIPS)
@pytest.mark.parametrize("is_sparse", [False, True])
def test_clips_act_on_the_average(clip, is_sparse):
    def update():
        return fluid.optimizer.Momentum(
            0.05, momentum=0.9, grad_clip=CLIPS[clip](), regularization=fluid.regularizer.L2Decay(0.05)
        )

    job = check_equal(network(update, is_sparse), 3, 2)
    assert any(server.prepare for server in job.servers.values()) == (clip != "value")
    check_equal(network(RULES["adam"], is_sparse, clip=CLIPS[clip]()), 2, 2)
    check_equal(network(RULES["adam"], is_sparse, clip=CLIPS[clip]()), 1, 3, slice_var_up=False)


@pytest.mark.parametrize("endpoints, trainers", [(1, 1), (1, 2), (2, 2), (3, 1), (3, 3)])
@pytest.mark.parametrize("slice_var_up", [False, True])
def test_sizes_of_jobs(endpoints, trainers, slice_var_up):
    check_equal(network(RULES["adam"]), endpoints, trainers, slice_var_up=slice_var_up)


@pytest.mark.parametrize("split", [fluid.transpiler.RoundRobin, fluid.transpiler.HashName])
def test_split_methods(split):
    check_equal(network(RULES["adam"]), 2, 2, steps=2, split_method=split)


@pytest.mark.parametrize("endpoints", [1, 2, 3])
def test_distributed_table(endpoints):
    check_equal(network(RULES["sgd_decay"], is_distributed=True), endpoints, 2)


def test_distributed_table_takes_sgd(capsys):
    """Of optimizers that do not go row by row."""
    job = ps_simulation.Job(network(lambda: fluid.optimizer.Adamax(0.01), is_distributed=True), 2, 2)
    kinds = [
        [op.type for op in block.ops] for block in job.servers[ps_simulation.ENDPOINTS[0]].program.blocks
    ]
    assert ["sum", "scale", "sgd"] in kinds and ["lookup_sparse_table"] in kinds and ["save"] in kinds
    assert "only support sgd optimizer" in capsys.readouterr().err


def test_values_made_by_other_ops_are_cut():
    """Start values that stand in the Program, or that several ops make, are made whole and cut."""
    values = np.arange(400 * 50, dtype="float32").reshape(400, 50) / 1000

    def build():
        x = layers.data(name="x", shape=[400], dtype="float32")
        attr = fluid.ParamAttr(initializer=fluid.initializer.NumpyArrayInitializer(values))
        loss = layers.mean(layers.fc(x, 50, param_attr=attr, bias_attr=False))
        fluid.optimizer.SGD(0.1).minimize(loss)
        return loss

    job = ps_simulation.Job(build, 2, 2)
    np.testing.assert_array_equal(job.parameters()["fc_0.w_0"], values)


# ---- forms of the call ----


def line(update=lambda: fluid.optimizer.SGD(0.1)):
    x = layers.data(name="x", shape=[13], dtype="float32")
    y = layers.data(name="y", shape=[1], dtype="float32")
    loss = layers.mean(layers.square_error_cost(layers.fc(x, 1), y))
    return update().minimize(loss)


@pytest.fixture
def programs():
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        yield main, startup


def trainer_ids(program):
    return {
        op.attr("trainer_id")
        for op in program.global_block().ops
        if op.type in ("send", "recv", "send_barrier")
    }


FORMS = {
    "seed": (lambda ops, pairs: ((ops, pairs), dict(pservers=SERVERS, trainers=2)), -1),
    "early": (lambda ops, pairs: ((ops, pairs, None, SERVERS, 2), {}), -1),
    "v0.12": (
        lambda ops, pairs: ((ops, pairs, 1, None, SERVERS, 2, fluid.transpiler.RoundRobin, True), {}),
        1,
    ),
    "v0.12 named": (lambda ops, pairs: ((ops, pairs, 1), dict(pservers=SERVERS, trainers=2)), 1),
    "v0.12 all named": (
        lambda ops, pairs: (
            (),
            dict(optimize_ops=ops, params_grads=pairs, trainer_id=1, pservers=SERVERS, trainers=2),
        ),
        1,
    ),
    "v0.12 function": (
        lambda ops, pairs: (
            (ops, pairs, 1),
            dict(pservers=SERVERS, trainers=2, split_method=lambda made, ends: [ends[0]] * len(made)),
        ),
        1,
    ),
    "v0.12 round_robin": (
        lambda ops, pairs: ((ops, pairs, 1, None, SERVERS, 2, fluid.distributed_splitter.round_robin), {}),
        1,
    ),
    "v0.12 hash_name": (
        lambda ops, pairs: (
            (ops, pairs),
            dict(pservers=SERVERS, trainers=2, split_method=fluid.distributed_splitter.hash_name),
        ),
        -1,
    ),
    "v0.13": (lambda ops, pairs: ((1, None, SERVERS, 2, fluid.transpiler.HashName, True), {}), 1),
    "v0.14": (lambda ops, pairs: ((1,), dict(pservers=SERVERS, trainers=2, slice_var_up=False)), 1),
    "v1.8": (lambda ops, pairs: ((1, None, SERVERS, 2, True, None, "127.0.0.1:6174"), {}), 1),
    "v1.8 named": (
        lambda ops, pairs: ((), dict(trainer_id=1, pservers=SERVERS, trainers=2, sync_mode=True)),
        1,
    ),
    "no id": (lambda ops, pairs: ((), dict(pservers=SERVERS, trainers=2)), -1),
    "v0.12 of numpy": (
        lambda ops, pairs: ((ops, pairs, np.int64(1), None, SERVERS, np.int32(2)), {}),
        1,
    ),
    "v1.8 of numpy": (
        lambda ops, pairs: ((np.uint8(1), None, SERVERS, np.int64(2), np.bool_(True)), {}),
        1,
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_forms(programs, form):
    make, number = FORMS[form]
    args, kwargs = make(*line())
    t = fluid.DistributeTranspiler()
    t.transpile(*args, **kwargs)
    program = t.get_trainer_program()
    assert program is programs[0] and trainer_ids(program) == {number}
    suffix = f".trainer_{number}" if number >= 0 else ""
    sent = sorted(op.input("X")[0] for op in program.global_block().ops if op.type == "send")
    assert sent == [f"fc_0.b_0@GRAD{suffix}", f"fc_0.w_0@GRAD{suffix}"]
    serve = t.get_pserver_program("127.0.0.1:6174").global_block().ops[0]
    assert serve.attr("Fanin") == 2 and serve.attr("distributed_mode") == 0
    assert type(t.trainer_id) is type(t.trainer_num) is int
    assert str(program) and str(program.clone()) and program._endpoints == SERVERS.split(",")


def transpile(*args, **kwargs):
    """Transpiles fit_a_line with these arguments."""
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
        line()
        config = kwargs.pop("config", None)
        t = fluid.DistributeTranspiler(config)
        t.transpile(*args, **kwargs)
        return t


@pytest.mark.parametrize(
    "kwargs, error, text",
    [
        (dict(trainer_id=True), TypeError, "trainer_id"),
        (dict(trainer_id="0"), TypeError, "trainer_id"),
        (dict(trainer_id=-5), ValueError, "trainer_id"),
        (dict(trainer_id=2, trainers=2), ValueError, "trainer_id is 2, but trainers is 2: .* from 0 to 1"),
        (dict(trainer_id=1), ValueError, "trainer_id is 1, but trainers is 1"),
        (dict(trainer_id=0, trainers=0), ValueError, "trainers"),
        (dict(trainer_id=0, trainers="127.0.0.1:1"), TypeError, "trainers is '127.0.0.1:1'; .*nccl2"),
        (dict(trainer_id=0, trainers="2"), TypeError, r"trainers is the text '2'; .*give int\('2'\)\.$"),
        (dict(trainer_id=0, trainers="two"), TypeError, "trainers is the text 'two'; .*give a whole number"),
        (dict(trainer_id=0, trainers=2.0), TypeError, "trainers"),
        (dict(trainer_id=0, pservers="127.0.0.1"), ValueError, "HOST:PORT"),
        (dict(trainer_id=0, pservers="127.0.0.1:port"), ValueError, "port"),
        (dict(trainer_id=0, pservers="127.0.0.1:70000"), ValueError, "65535"),
        (dict(trainer_id=0, pservers="a:1,"), ValueError, "empty"),
        (dict(trainer_id=0, pservers="a:1, a:1"), ValueError, "twice"),
        (dict(trainer_id=0, pservers="::1:6174"), ValueError, "IPv6"),
        (dict(trainer_id=0, pservers=7), TypeError, "pservers"),
        (dict(trainer_id=0, program=3), TypeError, "program"),
        (dict(trainer_id=0, startup_program="x"), TypeError, "startup_program"),
        (dict(trainer_id=0, sync_mode="no"), TypeError, "sync_mode"),
        (dict(trainer_id=0, wait=1), TypeError, "wait"),
        (dict(trainer_id=0, current_endpoint=1), TypeError, "current_endpoint"),
    ],
)
def test_wrong_calls(kwargs, error, text):
    with pytest.raises(error, match=text):
        transpile(**kwargs)


def test_no_current_endpoint():
    """Scripts for all kinds of jobs give None when there is none."""
    assert transpile(0, pservers=SERVERS, trainers=2, current_endpoint=None).get_trainer_program() is not None


def test_a_port_that_the_system_chooses():
    """A server may serve on port 0; a trainer must know the port."""
    t = transpile(0, pservers="127.0.0.1:0", trainers=1)
    assert t.get_pserver_program("127.0.0.1:0").global_block().ops[0].attr("endpoint") == "127.0.0.1:0"
    with pytest.raises(ValueError, match="127.0.0.1:0.*port"):
        t.get_trainer_program()


def test_endpoints_of_all_kinds():
    t = transpile(0, pservers=" host-1:6174 ,[::1]:6175", trainers=1)
    assert t.pserver_endpoints == ["host-1:6174", "[::1]:6175"]


@pytest.mark.parametrize(
    "name, value, error, text",
    [
        ("mode", "nccl2", ValueError, "pserver"),
        ("mode", "collective", ValueError, "pserver"),
        ("mode", "other", ValueError, "pserver"),
        ("min_block_size", 100, AssertionError, "8192"),
        ("split_method", "RoundRobin", TypeError, "PSDispatcher"),
        ("split_method", dict, TypeError, "PSDispatcher"),
        ("sync_mode", None, ValueError, "sync_mode"),
        ("runtime_split_send_recv", None, ValueError, "runtime_split_send_recv"),
        ("runtime_split_send_recv", True, ValueError, "sync_mode"),
    ],
)
def test_wrong_configs(name, value, error, text):
    config = fluid.DistributeTranspilerConfig()
    with pytest.raises(error, match=text):
        setattr(config, name, value)
        fluid.DistributeTranspiler(config)


def test_misspelt_choices_are_named():
    """A warning, not an error: the value stays, and the script goes on."""
    config = fluid.DistributeTranspilerConfig()
    with pytest.warns(UserWarning, match="no 'split_metod'.*Did you mean split_method") as found:
        config.split_metod = fluid.transpiler.RoundRobin
    assert config.split_metod is fluid.transpiler.RoundRobin and found[0].filename == __file__
    with pytest.warns(UserWarning, match="no 'xyz'.*min_block_size"):
        config.xyz = 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        config.split_method, config.sync_mode, config.runtime_split_send_recv = None, False, True
        for name in ("wait_port", "nccl_comm_num", "collective_mode", "average_table_gradient", "clip_on_trainer"):
            setattr(config, name, getattr(config, name))
        config._mine = 1
    assert transpile(0, pservers=SERVERS, trainers=2, config=config).distributed_mode == 1


def test_config_is_a_config():
    with pytest.raises(TypeError, match="DistributeTranspilerConfig"):
        fluid.DistributeTranspiler({"mode": "pserver"})
    with pytest.raises(TypeError, match="ServerRuntimeConfig"):
        fluid.DistributeTranspiler()._set_server_config(3)


def test_order_of_calls(programs):
    t = fluid.DistributeTranspiler()
    with pytest.raises(RuntimeError, match="transpile first"):
        t.get_trainer_program()
    with pytest.raises(ValueError, match="minimize"):
        t.transpile(0)
    line()
    t.transpile(0, pservers=SERVERS, trainers=2)
    with pytest.raises(RuntimeError, match="before"):
        t.transpile(0)
    with pytest.raises(ValueError, match="transpiled before"):
        fluid.DistributeTranspiler().transpile(0, pservers=SERVERS, trainers=2)
    with pytest.raises(ValueError, match="not among"):
        t.get_pserver_program("127.0.0.1:1")
    with pytest.raises(TypeError, match="pserver_program"):
        t.get_startup_program("127.0.0.1:6174", 3)


def test_a_startup_program_that_is_not_the_servers(programs):
    """A copy that was made before transpile is one; a trainer's is none, nor is that of another model."""
    x = layers.data("x", [4], dtype="float32")
    fluid.optimizer.Momentum(0.1, 0.9).minimize(layers.mean(layers.fc(x, 1)))
    before, other = fluid.default_startup_program().clone(), fluid.Program()
    with fluid.program_guard(fluid.Program(), other):
        layers.fc(layers.data("x", [4], dtype="float32"), 1)
    t = fluid.DistributeTranspiler()
    t.transpile(0, pservers="127.0.0.1:6174", trainers=2)
    main, startup = t.get_pserver_programs("127.0.0.1:6174")
    for given in (before, fluid.default_startup_program()):
        ops = t.get_startup_program("127.0.0.1:6174", main, given).global_block().ops
        assert [op.output_arg_names for op in ops] == [op.output_arg_names for op in startup.global_block().ops]
    advice = "Leave startup_program out, or give a copy that was made before transpile"
    with pytest.raises(ValueError, match=f"startup_program is a trainer's: transpile has changed it.*{advice}"):
        t.get_startup_program("127.0.0.1:6174", main, fluid.default_startup_program().clone())
    with pytest.raises(ValueError, match=f"gives '.*', of which this server holds a part, no first value. {advice}"):
        t.get_startup_program("127.0.0.1:6174", main, other)


# ---- modes ----


def mode(sync_mode=True, **settings):
    config = fluid.DistributeTranspilerConfig()
    for name, value in settings.items():
        setattr(config, name, value)
    t = transpile(0, pservers=SERVERS, trainers=2, sync_mode=sync_mode, config=config)
    serve = t.get_pserver_program("127.0.0.1:6174").global_block().ops[0]
    kinds = [op.type for op in t.get_trainer_program().global_block().ops]
    return serve.attr("distributed_mode"), "send_barrier" in kinds, "fetch_barrier" in kinds


def test_modes_agree():
    """Trainer and servers are always of one mode, whoever asked for it."""
    assert mode() == (0, True, True)
    assert mode(sync_mode=False) == (2, False, False)
    assert mode(sync_mode=False, half_async=True) == (2, False, False)
    config = fluid.DistributeTranspilerConfig()
    config.sync_mode = False
    t = transpile(0, pservers=SERVERS, trainers=2, config=config)
    assert "send_barrier" not in [op.type for op in t.get_trainer_program().global_block().ops]
    assert t.get_pserver_program("127.0.0.1:6174").global_block().ops[0].attr("distributed_mode") == 2


def test_mode_of_the_config():
    config = fluid.DistributeTranspilerConfig()
    config.sync_mode = False
    config.runtime_split_send_recv = True
    t = transpile(0, pservers=SERVERS, trainers=2, config=config)
    assert t.get_pserver_program("127.0.0.1:6174").global_block().ops[0].attr("distributed_mode") == 1
    config = fluid.DistributeTranspilerConfig()
    config.sync_mode = False
    config.runtime_split_send_recv = True
    config.completely_not_async = True
    t = transpile(0, pservers=SERVERS, trainers=2, sync_mode=False, config=config)
    assert t.get_pserver_program("127.0.0.1:6174").global_block().ops[0].attr("distributed_mode") == 0
    sends = [op for op in t.get_trainer_program().global_block().ops if op.type == "send"]
    assert sends[0].attr("send_varnames") == ["fc_0.b_0@GRAD.trainer_0"]


@pytest.mark.parametrize("clip", CLIPS)
def test_clips_on_the_trainer(clip):
    """Asynchronous jobs, and those that ask for it, clip each trainer's own gradient; decay stays on the
    servers.
    """
    for sync_mode, settings in ((False, {}), (True, {"clip_on_trainer": True})):
        config = fluid.DistributeTranspilerConfig()
        for name, value in settings.items():
            setattr(config, name, value)
        with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
            line(
                lambda: fluid.optimizer.SGD(
                    0.1, grad_clip=CLIPS[clip](), regularization=fluid.regularizer.L2Decay(0.1)
                )
            )
            t = fluid.DistributeTranspiler(config)
            t.transpile(0, pservers=SERVERS, trainers=2, sync_mode=sync_mode)
            program = t.get_trainer_program()
        kinds = [op.type for op in program.global_block().ops]
        mark = {"value": "clip", "norm": "clip_by_norm", "global": "sqrt"}[clip]
        assert mark in kinds and "sgd" not in kinds
        server = t.get_pserver_program("127.0.0.1:6174")
        merge = ["sum", "scale"] if sync_mode else []
        assert [op.type for op in server.block(1).ops] == [*merge, "scale", "sum", "sgd"]
        assert server.global_block().ops[0].attr("prepare_block_id") == -1
        program._check()


# ---- placement and the rest ----


class Var:
    def __init__(self, name, nbytes):
        self.name, self.nbytes = name, nbytes


def test_dispatchers():
    ends = ["a:1", "b:2", "c:3"]
    vars_ = [Var(f"w{i}", 100) for i in range(7)]
    from paddle.fluid.transpiler.ps_dispatcher import BalancedBytes, PSDispatcher

    turn = fluid.transpiler.RoundRobin(ends)
    assert turn.dispatch(vars_) == [ends[i % 3] for i in range(7)]
    assert turn.eps == ends and turn.dispatch(vars_[:1]) == [ends[1]]
    turn.reset()
    assert turn.dispatch(vars_[:1]) == [ends[0]]
    assert BalancedBytes(ends).dispatch(vars_) == [ends[i % 3] for i in range(7)]
    # Hashes are the same in every process.
    assert fluid.transpiler.HashName(ends).dispatch(["w0", "w1", "fc_0.w_0"]) == ["b:2", "b:2", "c:3"]
    assert fluid.transpiler.HashName(ends).dispatch(vars_) == fluid.transpiler.HashName(ends).dispatch(
        [var.name for var in vars_]
    )
    with pytest.raises(NotImplementedError, match="dispatch"):
        PSDispatcher(ends).dispatch(vars_)


def test_balance_by_bytes():
    from paddle.fluid.transpiler.ps_dispatcher import BalancedBytes

    sizes = [4, 400, 8, 90000, 4, 60000, 100, 30000]
    ends = ["a:1", "b:2"]
    load = dict.fromkeys(ends, 0)
    for end, size in zip(BalancedBytes(ends).dispatch([Var("w", size) for size in sizes]), sizes):
        load[end] += size
    assert max(load.values()) < 1.02 * sum(sizes) / 2
    assert BalancedBytes(ends).dispatch([]) == []


def test_slices():
    from paddle.fluid.transpiler.distribute_transpiler import VarBlock, slice_variable
    from paddle.fluid.transpiler.slicing import block_rows

    assert block_rows((1000, 1000), 2, 8192) == [500, 500]
    assert block_rows((784, 200), 3, 8192) == [262, 262, 260]
    assert block_rows((13, 1), 2, 8192) == [13]
    assert block_rows((100000,), 3, 8192) == [33334, 33334, 33332]
    assert block_rows((2, 100000), 8, 8192) == [1, 1]
    with fluid.program_guard(fluid.Program()):
        w = (
            fluid.default_main_program()
            .global_block()
            .create_var(name="w", shape=[1000, 1000], dtype="float32")
        )
        assert slice_variable([w], 2, 8192) == ["w:0:500000", "w:1:500000"]
    assert str(VarBlock("w", 1, 7)) == "w:1:7"


def test_summary(capsys, programs):
    config = fluid.DistributeTranspilerConfig()
    config.print_log = True
    line()
    fluid.DistributeTranspiler(config).transpile(0, pservers=SERVERS, trainers=2)
    assert "127.0.0.1:6174: 4 bytes in 1 slices: fc_0.b_0" in capsys.readouterr().out


def test_a_split_method_must_give_known_endpoints(programs):
    line()
    with pytest.raises(ValueError, match="not among"):
        fluid.DistributeTranspiler().transpile(
            0, pservers=SERVERS, trainers=2, split_method=lambda made, ends: ["x:1"] * len(made)
        )
    assert not programs[0]._is_distributed and "sgd" in [op.type for op in programs[0].global_block().ops]


def test_what_the_program_knows(programs):
    line(lambda: fluid.optimizer.Adam(rate()))
    t = fluid.DistributeTranspiler()
    t.transpile(0, pservers=SERVERS, trainers=2, current_endpoint="127.0.0.1:6175")
    program = t.get_trainer_program()
    assert program._is_distributed and program._is_chief and program._distributed_lookup_table is None
    assert program._ps_endpoint == "127.0.0.1:6175" and program.clone()._is_distributed
    there = program._parameters_on_pservers
    assert there is t.vars_overview
    by_kind = there.get_distributed_vars_by_vtypes(["Optimizer"], groupby=True)
    assert sorted(by_kind)[:2] == ["fc_0.b_0_beta1_pow_acc_0", "fc_0.b_0_beta2_pow_acc_0"]
    assert [each.slice.name for each in there.get_distributed_vars_by_ep("127.0.0.1:6175", "Param")] == [
        "fc_0.w_0"
    ]
    assert there.get_distributed_var_by_slice("fc_0.w_0").endpoint == "127.0.0.1:6175"
    assert there.get_distributed_var_by_origin_and_ep("fc_0.w_0", "127.0.0.1:6174") is None
    schedule = [each.origin.name for each in there.get_distributed_vars_by_vtypes(["Schedule"])]
    assert "@LR_DECAY_COUNTER@" in schedule and "fc_0.w_0 on" in there.overview()
    server = t.get_pserver_program("127.0.0.1:6174")
    assert server._ps_endpoint == "127.0.0.1:6174" and server._parameters_on_pservers is there


def test_averages_of_parameters_stay_with_the_trainer(programs):
    line()
    fluid.optimizer.ModelAverage(0.2, min_average_window=2, max_average_window=4)
    average = fluid.optimizer.ExponentialMovingAverage(0.9)
    average.update()
    t = fluid.DistributeTranspiler()
    t.transpile(0, pservers=SERVERS, trainers=2)
    kinds = [op.type for op in t.get_trainer_program().global_block().ops]
    assert kinds.index("average_accumulates") > kinds.index("fetch_barrier") > kinds.index("send_barrier")
    t.get_trainer_program()._check()


def test_lookahead_is_refused(programs):
    line(lambda: fluid.optimizer.LookaheadOptimizer(fluid.optimizer.SGD(0.1), k=2))
    with pytest.raises(ValueError, match="Lookahead"):
        fluid.DistributeTranspiler().transpile(0, pservers=SERVERS, trainers=2)


def test_find_the_distributed_table(programs):
    ids = layers.data(name="ids", shape=[1], dtype="int64")
    out = layers.embedding(ids, [100, 4], is_sparse=True, is_distributed=True, param_attr="t")
    found = fluid.distribute_lookup_table
    assert found.find_distributed_lookup_table(programs[0]) == "t"
    assert [var.name for var in found.find_distributed_lookup_table_inputs(programs[0], "t")] == ["ids"]
    assert [var.name for var in found.find_distributed_lookup_table_outputs(programs[0], "t")] == [out.name]
    layers.embedding(ids, [100, 4], is_sparse=True, is_distributed=True, param_attr="u")
    with pytest.raises(RuntimeError, match="one such table"):
        found.find_distributed_lookup_table(programs[0])


def test_dense_distributed_table_is_refused(programs):
    ids = layers.data(name="ids", shape=[1], dtype="int64")
    loss = layers.mean(layers.embedding(ids, [100, 4], is_sparse=False, is_distributed=True))
    fluid.optimizer.SGD(0.1).minimize(loss)
    with pytest.raises(ValueError, match="is_sparse=True"):
        fluid.DistributeTranspiler().transpile(0, pservers=SERVERS, trainers=2)


def test_tied_tables_are_received_whole(programs):
    """A table that other ops than lookups read is received like any parameter."""
    ids = layers.data(name="ids", shape=[1], dtype="int64")
    row = layers.embedding(ids, [50, 8], is_sparse=True, param_attr="tied")
    table = programs[0].global_block().var("tied")
    loss = layers.mean(layers.matmul(row, table, transpose_y=True))
    fluid.optimizer.SGD(0.1).minimize(loss)
    t = fluid.DistributeTranspiler()
    t.transpile(0, pservers=SERVERS, trainers=2)
    ops = t.get_trainer_program().global_block().ops
    assert "lookup_table" in [op.type for op in ops]
    assert ["tied"] in [op.output("Out") for op in ops if op.type == "recv"]


def test_split_byref():
    """Rows in parts, for all types."""
    exe = fluid.Executor(fluid.CPUPlace())
    for dtype in ("float32", "float64", "int64", "int32"):
        program = fluid.Program()
        block = program.global_block()
        x = block.create_var(name="x", shape=[5, 3], dtype=dtype)
        outs = [block.create_var(name=f"o{i}", dtype=dtype) for i in range(3)]
        block.append_op(
            type="split_byref", inputs={"X": [x]}, outputs={"Out": outs}, attrs={"sections": [2, 0, 3]}
        )
        data = np.arange(15).reshape(5, 3).astype(dtype)
        found = exe.run(program, feed={"x": data}, fetch_list=outs)
        assert [each.shape for each in found] == [(2, 3), (0, 3), (3, 3)]
        np.testing.assert_array_equal(np.concatenate(found), data)
    with pytest.raises(Exception, match="add up to 4"):
        block.append_op(
            type="split_byref", inputs={"X": [x]}, outputs={"Out": outs}, attrs={"sections": [2, 0, 2]}
        )


@pytest.mark.parametrize("variable", ["TRAINING_ROLE", "PADDLE_TRAINING_ROLE"])
def test_a_server_may_give_any_trainer_id(monkeypatch, variable):
    monkeypatch.setenv(variable, "PSERVER")
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        loss = fluid.layers.mean(fluid.layers.fc(fluid.layers.data("x", shape=[4]), size=1))
        fluid.optimizer.SGD(0.1).minimize(loss)
        transpiler = fluid.DistributeTranspiler()
        transpiler.transpile(trainer_id=7, pservers="127.0.0.1:6174", trainers=2)
        assert transpiler.get_pserver_program("127.0.0.1:6174").global_block().ops
