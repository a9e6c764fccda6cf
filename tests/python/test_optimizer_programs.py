"""Optimizers, clips, decays and initializers build the programs of paddlepaddle 1.8.5, name for name."""

import json
import pathlib

import numpy as np
import optimizer_cases
import pytest

import paddle.fluid as fluid

GOLDEN = json.loads((pathlib.Path(__file__).parent / "data" / "optimizer_programs.json").read_text())


# Upstream's apply program of ExponentialMovingAverage changes the average itself.
DIFFERENT = [("moving_average", 2)]


def same(found, wanted) -> bool:
    if isinstance(wanted, list):
        return isinstance(found, list) and len(found) == len(wanted) and all(map(same, found, wanted))
    if isinstance(wanted, (float, int)) and isinstance(found, (float, int)):
        return found == pytest.approx(wanted, rel=1e-6, abs=1e-12)
    return found == wanted


def compare(found: dict, wanted: dict) -> None:
    assert [op["type"] for op in found["ops"]] == [op["type"] for op in wanted["ops"]]
    for mine, theirs in zip(found["ops"], wanted["ops"]):
        # Which inputs a gradient op reads is each op's own affair, tested with the ops.
        gradient = mine["type"].endswith("_grad")
        for part in ("block", "outputs") if gradient else ("block", "inputs", "outputs"):
            assert mine[part] == theirs[part], (part, mine["type"])
        for name, value in theirs["attrs"].items():
            assert same(mine["attrs"].get(name, [] if value == [] else None), value), (
                mine["type"],
                name,
                mine,
                value,
            )
    assert set(found["persistable"]) == set(wanted["persistable"])
    for name, (shape, dtype) in wanted["persistable"].items():
        # Upstream does not know the shape of what a restore program copies; it writes [] or [0].
        assert found["persistable"][name] == [shape, dtype] or shape in ([], [0]), name


@pytest.mark.parametrize("name", list(optimizer_cases.CASES))
def test_same_program_as_upstream(name):
    programs = optimizer_cases.build(name)
    assert len(programs) == len(GOLDEN[name])
    for i, (found, wanted) in enumerate(zip(programs, GOLDEN[name])):
        if (name, i) not in DIFFERENT:
            compare(found, wanted)


def run_steps(loss, steps=3, seed=0):
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    rng = np.random.RandomState(seed)
    feed = {"x": rng.rand(8, 13).astype("float32"), "y": rng.rand(8, 1).astype("float32")}
    return [float(np.asarray(exe.run(feed=feed, fetch_list=[loss])[0]).reshape(-1)[0]) for _ in range(steps)]


RULES = {
    "SGD": (0.05,),
    "Momentum": (0.01, 0.9),
    "LarsMomentum": (0.01, 0.9),
    "Adagrad": (0.1,),
    "Adam": (0.1,),
    "Adamax": (0.1,),
    "DecayedAdagrad": (0.01,),
    "Adadelta": (0.1,),
    "RMSPropOptimizer": (0.01,),
    "Ftrl": (0.1,),
}


@pytest.mark.parametrize("rule", list(RULES))
def test_loss_falls(fresh, rule):
    loss = optimizer_cases.regression(param_attr=fluid.initializer.Constant(0.3))
    getattr(fluid.optimizer, rule)(*RULES[rule]).minimize(loss)
    losses = run_steps(loss, 20)
    assert losses[-1] < losses[0]


def test_minimize_returns_ops_and_pairs(fresh):
    ops, pairs = fluid.optimizer.SGD(0.1).minimize(optimizer_cases.regression())
    assert [op.type for op in ops] == ["sgd", "sgd"]
    assert [(p.name, g.name) for p, g in pairs] == [
        ("fc_0.w_0", "fc_0.w_0@GRAD"),
        ("fc_0.b_0", "fc_0.b_0@GRAD"),
    ]


def test_backward_and_apply_gradients_apart(fresh):
    optimizer = fluid.optimizer.Momentum(learning_rate=0.1, momentum=0.9)
    pairs = optimizer.backward(optimizer_cases.regression())
    ops = optimizer.apply_gradients(pairs)
    assert [op.type for op in ops] == ["momentum", "momentum"]
    assert optimizer.get_opti_var_name_list() == ["fc_0.b_0_velocity_0", "fc_0.w_0_velocity_0"]
    assert optimizer._global_learning_rate().name == "learning_rate_0"


def momentum_beside(names: list[str]) -> dict[str, np.ndarray]:
    """The parameters of these names after some steps; the first is trained with Momentum, and its state wants the second's name."""
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard(), fluid.scope_guard(fluid.Scope()):
        x, constant = fluid.layers.data("x", [2], dtype="float32"), fluid.initializer.Constant(0.5)
        outs = [fluid.layers.fc(x, 1, param_attr=fluid.ParamAttr(name=name, initializer=constant), bias_attr=False)
                for name in names]
        fluid.optimizer.Momentum(0.1, 0.9).minimize(fluid.layers.mean(outs[0] * outs[1]), parameter_list=names[:1])
        exe = fluid.Executor()
        exe.run(fluid.default_startup_program())
        for _ in range(3):
            exe.run(feed={"x": np.ones((1, 2), "float32")})
        return {name: np.array(fluid.global_scope().find_var(name).get_tensor()) for name in names}


@pytest.mark.parametrize("name", ["a_velocity_0", "learning_rate_0"])
def test_a_parameter_that_is_called_as_a_state_would_be(name):
    """It stays what it is, and the state takes the next name."""
    got, want = momentum_beside(["a", name]), momentum_beside(["a", "b"])
    np.testing.assert_array_equal(got["a"], want["a"])
    np.testing.assert_array_equal(got[name], want["b"])
    assert want["a"][0, 0] != 0.5 == want["b"][0, 0]


def test_a_parameter_is_not_made_of_a_state(fresh):
    fluid.optimizer.Momentum(0.1, 0.9).minimize(optimizer_cases.regression())
    with pytest.raises(ValueError, match="a Parameter cannot be called 'fc_0.w_0_velocity_0': that is a state of an optimizer"):
        fluid.layers.create_parameter([13, 1], "float32", name="fc_0.w_0_velocity_0")


def test_parameter_list_and_no_grad_set(fresh):
    loss = optimizer_cases.regression()
    _, pairs = fluid.optimizer.SGD(0.1).minimize(loss, parameter_list=["fc_0.w_0"])
    assert [p.name for p, _ in pairs] == ["fc_0.w_0"]


def test_no_grad_set_takes_variables_and_names(fresh):
    loss = optimizer_cases.regression()
    bias = fluid.default_main_program().global_block().var("fc_0.b_0")
    _, pairs = fluid.optimizer.SGD(0.1).minimize(loss, no_grad_set={bias})
    assert [p.name for p, _ in pairs] == ["fc_0.w_0"]


def test_model_average_applies_and_restores(fresh):
    loss = optimizer_cases.regression(param_attr=fluid.initializer.Constant(0.3))
    fluid.optimizer.SGD(0.05).minimize(loss)
    average = fluid.optimizer.ModelAverage(1.0, min_average_window=2, max_average_window=100)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    weight = fluid.global_scope().find_var("fc_0.w_0")
    feed = {"x": np.ones((4, 13), "float32"), "y": np.ones((4, 1), "float32")}
    seen = []
    for _ in range(2):
        exe.run(feed=feed, fetch_list=[loss])
        seen.append(np.array(weight.get_tensor()))
    with average.apply(exe):
        np.testing.assert_allclose(np.array(weight.get_tensor()), sum(seen) / 2, rtol=1e-5)
    np.testing.assert_allclose(np.array(weight.get_tensor()), seen[-1], rtol=1e-6)


def test_moving_average_applies_and_restores(fresh):
    loss = optimizer_cases.regression(param_attr=fluid.initializer.Constant(0.3))
    fluid.optimizer.SGD(0.05).minimize(loss)
    average = fluid.optimizer.ExponentialMovingAverage(0.9)
    average.update()
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    weight = fluid.global_scope().find_var("fc_0.w_0")
    feed = {"x": np.ones((4, 13), "float32"), "y": np.ones((4, 1), "float32")}
    mean = 0.0
    for _ in range(3):
        exe.run(feed=feed, fetch_list=[loss])
        last = np.array(weight.get_tensor())
        mean = 0.9 * mean + 0.1 * last
    for _ in range(2):  # the second time as the first
        with average.apply(exe):
            np.testing.assert_allclose(np.array(weight.get_tensor()), mean / (1 - 0.9**3), rtol=1e-5)
    np.testing.assert_allclose(np.array(weight.get_tensor()), last, rtol=1e-6)


def test_lookahead_moves_slow_weights_every_k_steps(fresh):
    loss = optimizer_cases.regression(param_attr=fluid.initializer.Constant(0.3))
    fluid.optimizer.LookaheadOptimizer(fluid.optimizer.SGD(0.05), alpha=0.5, k=2).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    scope = fluid.global_scope()
    slow = scope.find_var("fc_0.w_0@SLOW")
    feed = {"x": np.ones((4, 13), "float32"), "y": np.ones((4, 1), "float32")}
    first = np.array(slow.get_tensor())
    exe.run(feed=feed, fetch_list=[loss])
    np.testing.assert_array_equal(np.array(slow.get_tensor()), first)
    exe.run(feed=feed, fetch_list=[loss])
    moved = np.array(slow.get_tensor())
    assert np.abs(moved - first).max() > 1e-4
    np.testing.assert_array_equal(moved, np.array(scope.find_var("fc_0.w_0").get_tensor()))


@pytest.mark.parametrize("clip", [None, "value", "norm", "global"])
def test_clipped_step_has_the_right_size(fresh, clip):
    rules = {
        None: None,
        "value": fluid.clip.GradientClipByValue(0.01),
        "norm": fluid.clip.GradientClipByNorm(0.01),
        "global": fluid.clip.GradientClipByGlobalNorm(0.01),
    }
    loss = optimizer_cases.regression(param_attr=fluid.initializer.Constant(0.3))
    fluid.optimizer.SGD(1.0, grad_clip=rules[clip]).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    scope = fluid.global_scope()
    names = ("fc_0.w_0", "fc_0.b_0")
    before = {n: np.array(scope.find_var(n).get_tensor()) for n in names}
    feed = {"x": np.ones((4, 13), "float32"), "y": np.zeros((4, 1), "float32")}
    exe.run(feed=feed, fetch_list=[loss])
    steps = {n: np.array(scope.find_var(n).get_tensor()) - before[n] for n in names}
    norms = {n: np.sqrt((step**2).sum()) for n, step in steps.items()}
    if clip is None:
        assert norms["fc_0.w_0"] > 1
    elif clip == "value":
        assert np.allclose(np.abs(steps["fc_0.w_0"]), 0.01, atol=1e-5)
    elif clip == "norm":
        assert norms["fc_0.w_0"] == pytest.approx(0.01, rel=1e-3)
    else:
        assert np.hypot(*norms.values()) == pytest.approx(0.01, rel=1e-3)


@pytest.mark.parametrize("by_optimizer", [True, False])
def test_global_norm_in_float64(fresh, by_optimizer):
    x = fluid.data("x", [-1, 4], "float64")
    loss = fluid.layers.mean(fluid.layers.fc(x, 1, bias_attr=False))
    clip = fluid.clip.GradientClipByGlobalNorm(0.01)
    if not by_optimizer:
        fluid.clip.set_gradient_clip(clip)
    fluid.optimizer.SGD(1.0, grad_clip=clip if by_optimizer else None).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    weight = fluid.global_scope().find_var("fc_0.w_0").get_tensor()
    before = np.array(weight)
    exe.run(feed={"x": np.ones((2, 4))}, fetch_list=[loss])
    assert np.linalg.norm(np.array(weight) - before) == pytest.approx(0.01, rel=1e-9)


def test_recompute_does_what_the_inner_optimizer_does(fresh):
    loss = optimizer_cases.regression()
    optimizer = fluid.optimizer.RecomputeOptimizer(fluid.optimizer.Momentum(0.1, 0.9))
    with pytest.raises(ValueError, match="_set_checkpoints"):
        optimizer.minimize(loss)
    optimizer._set_checkpoints([loss])
    ops, pairs = optimizer.minimize(loss)
    assert [op.type for op in ops] == ["momentum", "momentum"] and len(pairs) == 2


def test_old_forms_of_arguments(fresh, capsys):
    decay = fluid.regularizer.L2Decay(0.1)
    assert fluid.optimizer.SGD(0.1, decay).regularization is decay
    assert fluid.optimizer.Momentum(0.1, 0.9, True)._use_nesterov is True
    assert fluid.optimizer.SGD(1)._learning_rate == 1.0
    fluid.optimizer.SGD(learning_rate=0.1, LARS_weight_decay=0.1)
    assert "LARS_weight_decay" in capsys.readouterr().err
    clip = fluid.clip.GradientClipByValue(1.0)
    assert fluid.ParamAttr(gradient_clip=clip).gradient_clip is clip
    assert fluid.ParamAttr(None, None, 1.0, None, True, clip, False).do_model_average is False


def test_clip_of_some_parameters(fresh):
    """1.8.5 drops all clips when one parameter has none; here each parameter's own wish holds."""
    loss = optimizer_cases.regression(
        param_attr=fluid.ParamAttr(gradient_clip=fluid.clip.GradientClipByValue(0.5))
    )
    fluid.optimizer.SGD(0.1).minimize(loss)
    ops = fluid.default_main_program().global_block().ops
    assert [op.input("X") for op in ops if op.type == "clip"] == [["fc_0.w_0@GRAD"]]


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: fluid.optimizer.SGD("0.1"), "learning_rate must be a number"),
        (lambda: fluid.optimizer.SGD(None), "learning_rate is None"),
        (lambda: fluid.optimizer.SGD(0.1, grad_clip=1.0), "GradientClipBy"),
        (lambda: fluid.optimizer.SGD(0.1, speed=2), "no argument 'speed'"),
        (lambda: fluid.optimizer.DGCMomentumOptimizer(0.1, 0.9, 0), "DGCMomentumOptimizer is not there"),
        (lambda: fluid.optimizer.PipelineOptimizer(None), "PipelineOptimizer is not there"),
        (lambda: fluid.optimizer.RecomputeOptimizer(fluid.optimizer.SGD(0.1)).load({}), "dygraph"),
        (lambda: fluid.optimizer.SGD(0.1).state_dict(), "dygraph"),
        (lambda: fluid.optimizer.SGD(0.1).minimize(3), "minimize takes a Variable"),
        (lambda: fluid.ParamAttr(name=""), "empty"),
        (lambda: fluid.ParamAttr(trainable=1), "trainable"),
        (lambda: fluid.initializer.Uniform(1.0, 0.0), "below low"),
        (lambda: fluid.clip.set_gradient_clip(3), "GradientClipBy"),
    ],
)
def test_errors_say_what_is_wrong(fresh, call, words):
    with pytest.raises((TypeError, ValueError, RuntimeError), match=words):
        call()


def test_loss_must_be_one_number(fresh):
    x = fluid.layers.data("x", [13])
    with pytest.raises(ValueError, match="must be \\(1,\\)"):
        fluid.optimizer.SGD(0.1).minimize(fluid.layers.fc(x, 1))


def test_learning_rate_of_another_program(fresh):
    rate = fluid.layers.create_global_var([1], 0.1, "float32", persistable=True)
    optimizer = fluid.optimizer.SGD(rate)
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        with pytest.raises(TypeError, match="another program"):
            optimizer.minimize(optimizer_cases.regression())


def test_a_schedule_of_ones_own_counts_steps_as_the_others_do(fresh):
    """Scripts with a warm-up of their own ask the module for its counter and mix it with a schedule."""
    loss = optimizer_cases.regression()
    with fluid.default_main_program()._lr_schedule_guard():
        rate = fluid.layers.create_global_var([1], 0.0, "float32", persistable=True, name="scheduled_learning_rate")
        step = fluid.layers.learning_rate_scheduler._decay_step_counter()
        with fluid.layers.Switch() as switch:
            with switch.case(step < 2.0):
                fluid.layers.assign(0.1 * (step / 2.0), rate)
            with switch.default():
                fluid.layers.assign(fluid.layers.polynomial_decay(0.1, decay_steps=10, end_learning_rate=0.0), rate)
    fluid.optimizer.SGD(rate).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    feed = {"x": np.ones((4, 13), "float32"), "y": np.ones((4, 1), "float32")}
    found = [exe.run(feed=feed, fetch_list=[rate])[0][0] for _ in range(4)]
    np.testing.assert_allclose(found, [0.0, 0.05, 0.08, 0.07], rtol=1e-5)


@pytest.mark.parametrize("listed", [False, True], ids=["all", "listed"])
def test_a_parameter_whose_stop_gradient_is_on_is_left_alone(listed):
    """As scripts freeze layers before they fine-tune."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.scope_guard(fluid.Scope()):
        x = fluid.layers.data("x", [4])
        hidden = fluid.layers.fc(x, 6, param_attr="frozen.w", bias_attr="frozen.b", act="relu")
        loss = fluid.layers.mean(fluid.layers.square(fluid.layers.fc(hidden, 1, param_attr="free.w", bias_attr="free.b")))
        for param in main.all_parameters():
            param.stop_gradient = param.name.startswith("frozen")
        rule = fluid.optimizer.Adam(0.1, regularization=fluid.regularizer.L2Decay(0.1))
        _, pairs = rule.minimize(loss, parameter_list=[param.name for param in main.all_parameters()] if listed else None)
        assert sorted(param.name for param, _ in pairs) == ["free.b", "free.w"]
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(startup)

        def values():
            return {param.name: np.array(fluid.global_scope().find_var(param.name).get_tensor()) for param in main.all_parameters()}

        before = values()
        exe.run(main, feed={"x": np.ones((2, 4), "float32")})
        moved = sorted(name for name, value in values().items() if not np.array_equal(value, before[name]))
        assert moved == ["free.b", "free.w"]


def test_parameters_with_a_regularizer_of_their_own_are_told_of_once(capfd, monkeypatch):
    from paddle.fluid import log_helper

    monkeypatch.setattr(log_helper, "_told", set())
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        x = fluid.layers.data("x", [4])
        for i in range(3):
            x = fluid.layers.fc(x, 4, param_attr=fluid.ParamAttr(name=f"w{i}", regularizer=fluid.regularizer.L2Decay(0.1)))
        fluid.optimizer.SGD(0.1, regularization=fluid.regularizer.L1Decay(0.2)).minimize(fluid.layers.mean(x))
    assert capfd.readouterr().err.count("a regularizer of their own (such as w0)") == 1
