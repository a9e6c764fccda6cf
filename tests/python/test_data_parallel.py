"""Programs on several places: each has its batch and its statistics, gradients are averaged. The figures are those of the
real 1.8.5 with the same Programs and feeds."""

import numpy as np
import pytest

import paddle.fluid as fluid
from paddle.fluid import layers

pytestmark = pytest.mark.usefixtures("fresh")


def held(name):
    return np.array(fluid.global_scope().find_var(name).get_tensor())


def filled(value):
    return fluid.ParamAttr(initializer=fluid.initializer.Constant(value))


OPTIMIZERS = {
    "sgd": lambda: fluid.optimizer.SGD(layers.exponential_decay(0.1, 1, 0.5)),
    "adam": lambda: fluid.optimizer.Adam(0.05, regularization=fluid.regularizer.L2Decay(0.1)),
    "momentum": lambda: fluid.optimizer.Momentum(0.05, 0.9, grad_clip=fluid.clip.GradientClipByGlobalNorm(0.1)),
}

# (optimizer, what else) -> the losses of three places in three steps, then the first weight, the last bias.
OF_185 = {
    ("sgd", ""): ([0.29967, 0.10039, 0.03296, 0.07975, 0.02693, 0.13802, 0.13763, 0.10712, 0.1024], 0.10529, 0.06338),
    ("adam", "sum"): ([1.19867, 0.20077, 0.09889, 0.37858, 0.05223, 0.40026, 0.7073, 0.63058, 0.24126], 0.10842, 0.04073),
    ("momentum", "dict"): ([0.32988, 0.1366, 0.03296, 0.13557, 0.04305, 0.16745, 0.09403, 0.1531, 0.14134], 0.10185, 0.03483),
    ("sgd", "sparse"): ([0.01084, 0.06222, 0.18154, 0.16545, 0.14049, 0.16717, 0.06868, 0.12681, 0.14124], 0.50052, 0.07087),
    ("adam", "sparse dict"): ([0.01052, 0.04542, 0.18154, 0.08696, 0.09355, 0.06861, 0.22048, 0.14619, 0.28928], 0.30422, 0.0628),
    ("momentum", "norm"): ([2.49175, 2.16973, 1.20919, 1.36097, 1.76315, 1.00842, 1.81867, 1.21618, 1.82652], 0.09932, 0.0074),
}


@pytest.mark.parametrize("case", OF_185)
def test_three_places_with_batches_of_different_lengths(case):
    optimizer, how = case
    losses, weight, bias = OF_185[case]
    rng = np.random.RandomState(1)
    if "sparse" in how:
        x = fluid.data("x", [None, 1], "int64")
        hidden = layers.embedding(x, [10, 4], is_sparse=True, param_attr=filled(0.5))
    else:
        hidden = x = fluid.data("x", [None, 5])
    y = fluid.data("y", [None, 1])
    hidden = layers.fc(hidden, 6, act="tanh", param_attr=filled(0.1))
    if how == "norm":
        hidden = layers.batch_norm(hidden)
    predict = layers.fc(hidden, 1, param_attr=filled(0.2))
    cost = layers.square_error_cost(predict, y)
    loss = layers.reduce_sum(cost) if how == "sum" else layers.mean(cost)
    OPTIMIZERS[optimizer]().minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    program = fluid.CompiledProgram(fluid.default_main_program())
    program = program.with_data_parallel(loss_name=loss.name, places=fluid.cpu_places(3))

    def batch(n):
        inputs = rng.randint(0, 10, (n, 1)) if "sparse" in how else rng.rand(n, 5).astype("float32")
        return {"x": inputs, "y": rng.rand(n, 1).astype("float32")}

    found = []
    for _ in range(3):
        feed = [batch(n) for n in (4, 2, 3)]
        if "dict" in how:  # cut into three times three
            feed = {name: np.concatenate([each[name] for each in feed]) for name in feed[0]}
        each, all_rows = exe.run(program, feed=feed, fetch_list=[loss, predict])
        assert each.shape == (3,) and all_rows.shape == (9, 1)
        found += each.tolist()
    assert found == pytest.approx(losses, abs=2e-5)
    parts, = exe.run(program, feed=feed, fetch_list=[loss], return_merged=False)
    assert [part.shape for part in parts] == [(1,)] * 3
    names = [param.name for param in fluid.default_main_program().all_parameters()]
    assert held(names[0]).ravel()[0] == pytest.approx(weight, abs=2e-5)
    assert held(names[-1]).ravel()[0] == pytest.approx(bias, abs=2e-5)
    if how == "norm":  # the first place's
        assert held("batch_norm_0.w_1").ravel()[0] == pytest.approx(0.07855, abs=2e-5)
        assert held("batch_norm_0.w_2").ravel()[0] == pytest.approx(0.65775, abs=2e-5)


def test_one_place_runs_as_the_program_itself(monkeypatch):
    monkeypatch.delenv("CPU_NUM", raising=False)
    x = fluid.data("x", [None, 2])
    out = layers.scale(x, 2.0)
    program = fluid.CompiledProgram(fluid.default_main_program()).with_data_parallel()
    feed = {"x": np.ones((3, 2), "float32")}
    exe = fluid.Executor()
    assert exe.run(program, feed=feed, fetch_list=[out])[0].shape == (3, 2)
    assert [each.shape for each in exe.run(program, feed=feed, fetch_list=[out], return_merged=False)[0]] == [(3, 2)]
    monkeypatch.setenv("CPU_NUM", "2")
    assert [each.shape for each in exe.run(program, feed=feed, fetch_list=[out], return_merged=False)[0]] == [(2, 2), (1, 2)]
    parallel = fluid.ParallelExecutor(use_cuda=False)
    assert parallel.device_count == 2
    assert parallel.run(fetch_list=[out.name], feed=[feed, feed])[0].shape == (6, 2)


def test_sequences_are_cut_by_sequences():
    words = fluid.data("words", [None, 1], "float32", lod_level=1)
    total = layers.sequence_pool(words, "sum")
    program = fluid.CompiledProgram(fluid.default_main_program()).with_data_parallel(places=fluid.cpu_places(2))
    feed = fluid.create_lod_tensor(np.arange(6, dtype="float32")[:, None], [[1, 3, 2]], fluid.CPUPlace())
    exe = fluid.Executor()
    parts, same = exe.run(program, feed={"words": feed}, fetch_list=[total, words], return_merged=False, return_numpy=False)
    assert [np.array(part).ravel().tolist() for part in parts] == [[0, 6], [9]]
    whole, = exe.run(program, feed={"words": feed}, fetch_list=[words], return_numpy=False)
    assert whole.recursive_sequence_lengths() == [[1, 3, 2]] and np.array(whole).ravel().tolist() == list(range(6))


def test_what_does_not_fit_is_said():
    x = fluid.data("x", [None, 2])
    loss = layers.mean(layers.fc(x, 1))
    test = fluid.default_main_program().clone(for_test=True)
    fluid.optimizer.SGD(0.1).minimize(loss)
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    program = fluid.CompiledProgram(fluid.default_main_program())
    program = program.with_data_parallel(loss_name=loss.name, places=fluid.cpu_places(4))
    few = {"x": np.ones((3, 2), "float32")}
    with pytest.raises(fluid.core.EnforceNotMet, match="'x' can be cut into 3 parts only, but there are 4 places"):
        exe.run(program, feed=few, fetch_list=[loss])
    with pytest.raises(fluid.core.EnforceNotMet, match="3 entries for 4 places"):
        exe.run(program, feed=[few] * 3, fetch_list=[loss])
    before = held("fc_0.w_0")
    tests = fluid.CompiledProgram(test).with_data_parallel(places=fluid.cpu_places(4))
    assert exe.run(tests, feed=few, fetch_list=[loss])[0].shape == (3,)  # inference does without the fourth
    assert np.array_equal(before, held("fc_0.w_0"))


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("iterable", [False, True])
def test_readers_give_each_place_a_batch(iterable, drop_last):
    x = fluid.data("x", [None, 1])
    loader = fluid.io.DataLoader.from_generator([x], capacity=3, iterable=iterable, drop_last=drop_last)
    out = layers.scale(x, 10.0)
    places = fluid.cpu_places(2)
    program = fluid.CompiledProgram(fluid.default_main_program()).with_data_parallel(places=places)
    loader.set_batch_generator(lambda: ((np.full((2, 1), i, "float32"),) for i in range(5)), places=places)
    exe, values = fluid.Executor(), []
    if iterable:
        for feed in loader():
            values.append(exe.run(program, feed=feed, fetch_list=[out])[0].ravel().tolist())
    else:
        loader.start()
        with pytest.raises(fluid.core.EOFException):
            while True:
                values.append(exe.run(program, fetch_list=[out])[0].ravel().tolist())
        loader.reset()
    assert values == [[0, 0, 10, 10], [20, 20, 30, 30]] + ([] if drop_last else [[40, 40]])


def test_gradients_that_are_fetched_are_the_average():
    x = fluid.data("x", [None, 1])
    x.stop_gradient = False
    loss = layers.mean(layers.fc(x, 1, bias_attr=False, param_attr=filled(1.0)))
    fluid.append_backward(loss)
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    strategy = fluid.BuildStrategy()
    for scale, want in ((strategy.GradientScaleStrategy.CoeffNumDevice, 2.0), (strategy.GradientScaleStrategy.One, 4.0)):
        strategy.gradient_scale_strategy = scale
        program = fluid.CompiledProgram(fluid.default_main_program())
        program = program.with_data_parallel(loss_name=loss.name, build_strategy=strategy, places=fluid.cpu_places(2))
        feed = [{"x": np.ones((1, 1), "float32")}, {"x": np.full((4, 1), 3, "float32")}]
        grads, each, of_data = exe.run(program, feed=feed, fetch_list=["fc_0.w_0@GRAD", loss, "x@GRAD"])
        assert grads.ravel().tolist() == [want, want] and each.tolist() == [1, 3]
        assert of_data.ravel().tolist() == [want / 4] + [want / 16] * 4


@pytest.mark.parametrize("count", [1, 2])
def test_gradients_that_begin_with_what_is_fed(count):
    """GradientScaleStrategy.Customized, as in 1.8.5: the script feeds the gradient of the loss, to each place its own."""
    x = fluid.data("x", [None, 2])
    loss = layers.mean(layers.fc(x, 1, bias_attr=False, param_attr=filled(0.0)))
    fluid.optimizer.SGD(1.0).minimize(loss)
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    strategy = fluid.BuildStrategy()
    strategy.gradient_scale_strategy = strategy.GradientScaleStrategy.Customized
    program = fluid.CompiledProgram(fluid.default_main_program())
    program = program.with_data_parallel(loss_name=loss.name, build_strategy=strategy, places=fluid.cpu_places(count))
    batch = np.array([[1, 2], [3, 4]], "float32")
    with pytest.raises(fluid.core.EnforceNotMet, match="mean_0.tmp_0@GRAD"):
        exe.run(program, feed={"x": batch}, fetch_list=[loss])
    for _ in range(2):
        exe.run(program, feed={"x": batch, f"{loss.name}@GRAD": np.array([2, 10][:count], "float32")}, fetch_list=[loss])
    want = 2 * batch.mean(0) if count == 1 else 2 * batch[0] + 10 * batch[1]
    np.testing.assert_array_equal(fluid.fetch_var("fc_0.w_0").ravel(), -2 * want)


def test_statistics_of_all_places_together_are_refused():
    x = fluid.data("x", [None, 3])
    loss = layers.mean(layers.batch_norm(layers.fc(x, 3)))
    fluid.optimizer.SGD(0.1).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    strategy = fluid.BuildStrategy()
    strategy.sync_batch_norm = True

    def run(count):
        program = fluid.CompiledProgram(fluid.default_main_program())
        program.with_data_parallel(loss_name=loss.name, build_strategy=strategy, places=[fluid.CPUPlace()] * count)
        return exe.run(program, feed={"x": np.ones((4, 3), "float32")}, fetch_list=[loss])[0]

    assert run(1).shape == (1,)  # one place has all of the batch
    with pytest.raises(NotImplementedError, match="sync_batch_norm is not there yet: on 2 places .* Run on one place"):
        run(2)


@pytest.mark.parametrize(
    "kind, losses, weights",
    [
        ("anneal", [2.02288, 0.18841, 0.82366, 1.01835, 0.28106, 0.38171], [-0.56753, 0.05272, -0.55648]),
        ("center", [8.09153, 0.75363, 2.18044, 0.79166, 0.13531, 0.81593], [0.28148, 0.14951, 0.15076]),
    ],
)
def test_each_place_has_a_state_of_its_own_from_the_first_step_on(monkeypatch, kind, losses, weights):
    """A weight of the loss that grows with the step, centres that are a moving average."""
    monkeypatch.setenv("CPU_NUM", "2")
    for program in (fluid.default_main_program(), fluid.default_startup_program()):
        program.random_seed = 5
    x = fluid.data("x", [-1, 3], "float32")
    h = layers.fc(x, 2, param_attr="w", bias_attr=False)
    if kind == "anneal":
        step = layers.cast(layers.autoincreased_step_counter(), "float32")
        loss = layers.mean(layers.square(h) * layers.elementwise_min(step * 0.25, layers.fill_constant([1], "float32", 1.0)))
    else:
        center = layers.create_global_var([1, 2], 0.0, "float32", persistable=True)
        loss = layers.mean(layers.square(h - center))
        mean = layers.reduce_mean(h, dim=0, keep_dim=True)
        mean.stop_gradient = True
        layers.assign(center * 0.5 + mean * 0.5, output=center)
    fluid.optimizer.SGD(0.5).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    compiled = fluid.CompiledProgram(fluid.default_main_program()).with_data_parallel(loss_name=loss.name)
    found = [exe.run(compiled, feed={"x": np.random.RandomState(i).randn(4, 3).astype("float32")},
                     fetch_list=[loss])[0] for i in range(3)]
    np.testing.assert_allclose(np.ravel(found), losses, atol=2e-5)
    np.testing.assert_allclose(held("w").ravel()[:3], weights, atol=2e-5)


# Of 1.8.5 where variables are shared: each place has its statistics. Else all have those of the scope, as they are now.
TESTED = {
    True: [[-0.07363, 0.43076, 0.42524, 1.32037], [-0.2066, 0.43305, -0.01307, 1.0332], [-0.32325, 0.46228, -0.29605, 0.85917]],
    False: [[-0.07363, 0.43076, 1.19055, 2.13468], [-0.2066, 0.43305, 1.39659, 2.5939], [-0.32325, 0.46228, 1.64558, 3.11596]],
}


@pytest.mark.parametrize("shared", TESTED)
def test_a_test_program_has_the_statistics_of_training(shared):
    x = layers.data("x", [4])
    out = layers.fc(layers.batch_norm(layers.fc(x, 3, param_attr=filled(0.1)), momentum=0.5), 1, param_attr=filled(0.3))
    loss = layers.mean(layers.square(out))
    test = fluid.default_main_program().clone(for_test=True)
    fluid.optimizer.SGD(0.01).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    rows = np.arange(16, dtype="float32").reshape(4, 4) ** 1.5 / 10
    places = fluid.cpu_places(2)
    train = fluid.CompiledProgram(fluid.default_main_program()).with_data_parallel(loss_name=loss.name, places=places)
    after = fluid.CompiledProgram(test).with_data_parallel(share_vars_from=train if shared else None, places=places)
    for want in TESTED[shared]:
        exe.run(train, feed={"x": rows}, fetch_list=[loss])
        found, = exe.run(after, feed={"x": rows}, fetch_list=[out.name])
        assert np.allclose(found.ravel(), want, atol=2e-5)
        whole, = exe.run(test, feed={"x": rows}, fetch_list=[out.name])
        assert shared or np.array_equal(found, whole)


@pytest.mark.parametrize("how", ["grad_clip", "set_gradient_clip"])
def test_a_scope_of_the_script_that_is_called_like_a_clip_changes_nothing(how, capfd):
    found = []
    for scope in ("net", "gradient_clip_net", "optimizer_study"):
        main, startup = fluid.Program(), fluid.Program()
        with fluid.program_guard(main, startup), fluid.unique_name.guard(), fluid.scope_guard(fluid.Scope()):
            x = layers.data("x", [4])
            with fluid.name_scope(scope):
                hidden = layers.fc(x, 3, act="tanh", param_attr=filled(0.1))
                loss = layers.mean(layers.square(layers.fc(hidden, 1, param_attr=filled(0.3)) - 2.0))
            if how == "set_gradient_clip":
                fluid.clip.set_gradient_clip(fluid.clip.GradientClipByValue(0.05))
            clip = fluid.clip.GradientClipByGlobalNorm(0.1) if how == "grad_clip" else None
            fluid.optimizer.SGD(0.5, grad_clip=clip).minimize(loss)
            exe = fluid.Executor(fluid.CPUPlace())
            exe.run(startup)
            program = fluid.CompiledProgram(main).with_data_parallel(loss_name=loss.name, places=fluid.cpu_places(2))
            rows = np.arange(16, dtype="float32").reshape(4, 4) / 10
            found.append([exe.run(program, feed={"x": rows}, fetch_list=[loss])[0].tolist() for _ in range(3)])
    assert found[0] == found[1] == found[2]
    assert "no effect" not in capfd.readouterr().err


@pytest.mark.parametrize("how", ["startup", "load", "scope", "a run that fails"])
def test_what_is_changed_between_runs_is_changed_on_all_places(tmp_path, how):
    x = layers.data("x", [4])
    count = layers.create_global_var([1], 0.0, "float32", persistable=True, name="count")
    layers.increment(count)
    loss = layers.elementwise_div(layers.mean(layers.fc(x, 1, param_attr=filled(0.3))), count)
    fluid.optimizer.SGD(0.1).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    fluid.io.save_persistables(exe, str(tmp_path))
    program = fluid.CompiledProgram(fluid.default_main_program())
    program = program.with_data_parallel(loss_name=loss.name, places=fluid.cpu_places(2))

    def counts():
        return [exe.run(program, feed={"x": np.ones((4, 4), "float32")}, fetch_list=[count])[0].tolist() for _ in range(2)]

    assert counts() == [[1, 1], [2, 2]]
    if how == "startup":
        exe.run(fluid.default_startup_program())
    elif how == "load":
        fluid.io.load_persistables(exe, str(tmp_path))
    elif how == "scope":
        fluid.global_scope().find_var("count").get_tensor().set(np.zeros(1, "float32"), fluid.CPUPlace())
    else:
        with pytest.raises(ValueError, match="declares shape"):
            exe.run(program, feed=[{"x": np.ones((2, 4), "float32")}, {"x": np.ones((2, 3), "float32")}])
    first = 3 if how == "a run that fails" else 0  # it has counted on the first place
    assert counts() == [[first + 1, first + 1], [first + 2, first + 2]]
