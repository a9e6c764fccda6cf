"""Names of Fluid 0.11 to 0.14: Trainer and Inferencer, checkpoints, and small names that later went away."""

import os
import subprocess
import sys
from functools import partial

import numpy as np
import pytest

import paddle
import paddle.fluid as fluid
from paddle.fluid import core

W = np.array([[1.0], [-2.0], [0.5]], "float32")


def samples(count: int = 32):
    """A reader of (x, y) with y = x W + 3."""

    def read():
        rng = np.random.RandomState(7)
        for _ in range(count):
            x = rng.rand(3).astype("float32")
            yield x, x @ W + 3

    return read


BATCHES = paddle.batch(samples(), 8)
ORDER = ["x", "y"]


def infer_func():
    return fluid.layers.fc(fluid.layers.data("x", [3]), 1)


def train_func():
    predict = infer_func()
    loss = fluid.layers.mean(fluid.layers.square_error_cost(predict, fluid.layers.data("y", [1])))
    return [loss, predict]


def sgd():
    return fluid.optimizer.SGD(0.1)


def make(**options):
    return fluid.Trainer(train_func=train_func, optimizer_func=sgd, place=fluid.CPUPlace(), **options)


class Log:
    """An event handler that remembers its events."""

    def __init__(self):
        self.events = []

    def __call__(self, event):
        self.events.append(event)

    def of(self, kind) -> list:
        return [event for event in self.events if isinstance(event, kind)]

    def steps(self) -> list:
        return [(event.epoch, event.step) for event in self.of(fluid.EndStepEvent)]


@pytest.mark.parametrize("options", [{}, {"parallel": True}])
def test_train_test_save_infer(tmp_path, options):
    trainer, log = make(**options), Log()
    before = trainer.test(reader=BATCHES, feed_order=ORDER)
    trainer.train(num_epochs=30, event_handler=log, reader=BATCHES, feed_order=ORDER)
    after = trainer.test(reader=BATCHES, feed_order=ORDER)
    assert len(before) == 2 and after[0] < before[0] / 20
    assert [event.epoch for event in log.of(fluid.BeginEpochEvent)] == list(range(30))
    assert len(log.of(fluid.EndEpochEvent)) == 30 and len(log.of(fluid.BeginStepEvent)) == 120
    assert log.steps()[:5] == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0)]
    losses = [float(event.metrics[0][0]) for event in log.of(fluid.EndStepEvent)]
    assert losses[-1] < losses[0] / 20
    assert log.of(fluid.EndStepEvent)[0].metrics[1].shape == (8, 1)

    trainer.save_params(str(tmp_path / "params"))
    inferencer = fluid.Inferencer(infer_func, str(tmp_path / "params"), place=fluid.CPUPlace())
    x = np.stack([x for x, _ in samples(4)()])
    found, = inferencer.infer({"x": x})
    with fluid.scope_guard(trainer.scope):
        weight, bias = fluid.fetch_var("fc_0.w_0"), fluid.fetch_var("fc_0.b_0")
    np.testing.assert_allclose(found, x @ weight + bias, rtol=1e-5)
    assert np.abs(found - (x @ W + 3)).max() < 1.0
    tensor, = inferencer.infer({"x": x}, return_numpy=False)
    assert isinstance(tensor, fluid.LoDTensor)
    with pytest.raises(ValueError, match="dict"):
        inferencer.infer([x])

    again = make(param_path=str(tmp_path / "params"), **options)
    np.testing.assert_allclose(again.test(BATCHES, ORDER)[0], after[0], rtol=1e-5)

    trainer.save_inference_model(str(tmp_path / "model"), ["x"], [1])
    predictor = core.create_paddle_predictor(core.AnalysisConfig(str(tmp_path / "model")))
    np.testing.assert_allclose(predictor.run([core.PaddleTensor(x)])[0].as_ndarray(), found, rtol=1e-5)


def test_optimizer_object_of_v013():
    log = Log()
    trainer = fluid.Trainer(train_func, optimizer=fluid.optimizer.Adam(0.1))
    trainer.train(2, log, BATCHES, {"y": 1, "x": 0})
    assert len(log.steps()) == 8
    by_place = fluid.Trainer(train_func, fluid.optimizer.SGD(0.1))
    by_place.train(1, log, BATCHES)  # without an order: data as they were declared
    assert len(log.steps()) == 12


def test_stop_and_metrics_on_demand():
    trainer = make()
    log = Log()

    def handle(event):
        log(event)
        if isinstance(event, fluid.BeginStepEvent):
            event.fetch_metrics = event.step == 1
        if isinstance(event, fluid.EndStepEvent) and event.step == 2:
            trainer.stop()

    trainer.train(5, handle, BATCHES, ORDER)
    assert [len(event.metrics) for event in log.of(fluid.EndStepEvent)] == [0, 2, 0]
    assert log.of(fluid.EndEpochEvent) == []


def test_handlers_see_the_trainers_program():
    trainer = make()

    def handle(event):
        assert fluid.default_main_program() is trainer.train_program
        assert fluid.global_scope() is trainer.scope

    before = fluid.default_main_program(), fluid.global_scope()
    trainer.train(1, handle, BATCHES, ORDER)
    assert (fluid.default_main_program(), fluid.global_scope()) == before


class Crash(Exception):
    pass


def test_checkpoints_and_going_on(tmp_path):
    folder = str(tmp_path / "checkpoints")

    def crash(event):
        if isinstance(event, fluid.EndStepEvent) and (event.epoch, event.step) == (1, 2):
            raise Crash

    config = fluid.CheckpointConfig(folder, max_num_checkpoints=2, step_interval=2)
    first = make(checkpoint_config=config)
    with pytest.raises(Crash):
        first.train(3, crash, BATCHES, ORDER)
    assert sorted(os.listdir(folder)) == ["checkpoint_2", "checkpoint_3"]
    assert fluid.io.get_latest_checkpoint_serial(folder) == 3
    assert sorted(os.listdir(os.path.join(folder, "checkpoint_3"))) == ["__model__", "trainer_0"]

    config, log = fluid.CheckpointConfig(folder), Log()
    second = make(checkpoint_config=config)
    assert (config.load_serial, config.epoch_id, config.step_id) == (3, 1, 2)
    np.testing.assert_array_equal(
        fluid.fetch_var("fc_0.w_0", second.scope), fluid.fetch_var("fc_0.w_0", first.scope)
    )
    second.train(3, log, BATCHES, ORDER)
    assert log.steps() == [(1, 3), (2, 0), (2, 1), (2, 2), (2, 3)]
    assert os.listdir(folder) == []  # a training that ends well leaves none
    second.train(1, log, BATCHES, ORDER)  # and has nothing more behind it
    assert log.steps()[5:] == [(0, 0), (0, 1), (0, 2), (0, 3)]


def test_going_on_in_the_second_call_of_train(tmp_path, capfd):
    config = partial(fluid.CheckpointConfig, str(tmp_path / "checkpoints"), step_interval=2)

    def crash(event):
        if isinstance(event, fluid.EndStepEvent) and (event.epoch, event.step) == (0, 3):
            raise Crash

    first, log = make(checkpoint_config=config()), Log()
    first.train(1, log, BATCHES, ORDER)
    with pytest.raises(Crash):
        first.train(1, crash, BATCHES, ORDER)
    assert "goes on" not in capfd.readouterr().err

    second, log = make(checkpoint_config=config()), Log()
    second.train(1, log, BATCHES, ORDER)
    assert log.steps() == [] and log.of(fluid.EndEpochEvent) == []
    assert os.listdir(tmp_path / "checkpoints")  # the rest of the training needs it
    second.train(1, log, BATCHES, ORDER)
    assert log.steps() == [(0, 3)]
    said = capfd.readouterr().err
    assert "training goes on behind the first 7 batches" in said and "train() has read no batch behind the first 7" in said


def test_checkpoints_of_other_versions(tmp_path):
    """They have the epoch and the step alone."""
    trainer, log = make(), Log()
    with fluid.scope_guard(trainer.scope):
        kept = {"trainer_id": 0, "trainer_args": {"epoch_id": 1, "step_id": 1}, "main_program": trainer.train_program}
        fluid.io.save_checkpoint(fluid.Executor(fluid.CPUPlace()), str(tmp_path), **kept)
    make(checkpoint_config=fluid.CheckpointConfig(str(tmp_path))).train(3, log, BATCHES, ORDER)
    assert log.steps() == [(1, 2), (1, 3), (2, 0), (2, 1), (2, 2), (2, 3)]


def test_trainer_mistakes(monkeypatch):
    with pytest.raises(TypeError, match="Optimizer"):
        fluid.Trainer(train_func)
    with pytest.raises(TypeError, match="Optimizer"):
        fluid.Trainer(train_func, lambda: 0.1)
    with pytest.raises(TypeError, match="Variables"):
        fluid.Trainer(lambda: 1.0, sgd)
    with pytest.raises(TypeError, match="CheckpointConfig"):
        make(checkpoint_config="folder")
    trainer = make()
    with pytest.raises(TypeError, match="reader"):
        trainer.train(1, Log())
    with pytest.raises(ValueError, match="each once"):
        trainer.train(1, Log(), BATCHES, {"x": 0, "y": 2})
    with pytest.raises(TypeError, match="feed_order"):
        trainer.test(BATCHES, "x")
    with pytest.raises(ValueError, match="no batch"):
        trainer.test(lambda: iter([]), ORDER)


def test_modules_of_all_releases():
    from paddle.fluid.contrib.inferencer import Inferencer
    from paddle.fluid.contrib.trainer import CheckpointConfig, EndStepEvent, Trainer

    assert fluid.Trainer is fluid.trainer.Trainer is fluid.contrib.trainer.Trainer is Trainer
    assert fluid.Inferencer is fluid.inferencer.Inferencer is Inferencer
    assert fluid.EndStepEvent is EndStepEvent and fluid.CheckpointConfig is CheckpointConfig
    config = CheckpointConfig(epoch_interval=0, step_interval=0)
    assert (config.checkpoint_dir, config.epoch_interval, config.step_interval) == (os.getcwd(), 1, 10)
    with pytest.raises(AttributeError, match="fluid.contrib.mixed_precision is not there yet"):
        fluid.contrib.mixed_precision


class Net:
    """One fc layer in Programs and a scope of its own."""

    def __init__(self):
        self.main, startup, self.scope = fluid.Program(), fluid.Program(), fluid.Scope()
        with fluid.program_guard(self.main, startup), fluid.unique_name.guard():
            train_func()
        self.exe = fluid.Executor(fluid.CPUPlace())
        with fluid.scope_guard(self.scope):
            self.exe.run(startup)

    def weight(self):
        return fluid.fetch_var("fc_0.w_0", self.scope)

    def clear(self) -> None:
        self.scope.find_var("fc_0.w_0").get_tensor().set(np.zeros((3, 1), "float32"), fluid.CPUPlace())


def test_checkpoints_have_parameters_of_any_name(tmp_path):
    """Names with `.block` or `.trainer_` in them, which parts of variables on servers have too, and a gradient's."""
    names = ["net.block0.w", "net.trainer_0", "w", "w@GRAD"]
    main, startup, exe = fluid.Program(), fluid.Program(), fluid.Executor(fluid.CPUPlace())
    with fluid.program_guard(main, startup), fluid.scope_guard(fluid.Scope()):
        x = fluid.layers.data("x", [4])
        for name in names:
            x = fluid.layers.fc(x, 4, param_attr=fluid.ParamAttr(name=name), bias_attr=False)
        exe.run(startup)
        want = [fluid.fetch_var(name) for name in names]
        fluid.io.save_checkpoint(exe, str(tmp_path), 1, 0, main)
        exe.run(startup)
        fluid.io.load_checkpoint(exe, str(tmp_path), 0, main)
        for name, value in zip(names, want):
            np.testing.assert_array_equal(fluid.fetch_var(name), value)


def test_checkpoints_are_removed_and_that_is_broken_off(tmp_path, monkeypatch):
    """At any moment: what counts as finished is whole, and the newest goes last."""
    folder, trainer = str(tmp_path / "checkpoints"), make()
    with fluid.scope_guard(trainer.scope):
        kept = {"trainer_id": 0, "trainer_args": {"epoch_id": 1, "step_id": 1}, "main_program": trainer.train_program}
        for _ in range(3):
            fluid.io.save_checkpoint(fluid.Executor(fluid.CPUPlace()), folder, **kept)
    files = {serial: sum(len(names) for _, _, names in os.walk(f"{folder}/checkpoint_{serial}")) for serial in range(3)}
    seen = []

    def look(remove, *args, **options):
        newest = fluid.io.get_latest_checkpoint_serial(folder)
        if newest >= 0:
            assert sum(len(names) for _, _, names in os.walk(f"{folder}/checkpoint_{newest}")) == files[newest]
        seen.append(newest)
        return remove(*args, **options)

    for name in ("remove", "unlink"):
        monkeypatch.setattr(os, name, partial(look, getattr(os, name)))
    fluid.io.clean_checkpoint(folder)
    assert os.listdir(folder) == [] and len(seen) == sum(files.values())
    assert set(seen) == {2, -1} and seen == sorted(seen, reverse=True)


def test_checkpoints_by_hand(tmp_path):
    net, other, folder = Net(), Net(), str(tmp_path / "checkpoints")
    with fluid.scope_guard(net.scope):
        fluid.io.save_checkpoint(net.exe, folder, main_program=net.main)
        fluid.io.save_checkpoint(net.exe, folder, main_program=net.main)  # too early
        assert os.listdir(folder) == ["checkpoint_0"]
        for _ in range(3):
            fluid.io.save_checkpoint(net.exe, folder, 2, 0, net.main)
        assert sorted(os.listdir(folder)) == ["checkpoint_2", "checkpoint_3"]
        assert sorted(os.listdir(f"{folder}/checkpoint_3")) == ["_SUCCESS", "fc_0.b_0", "fc_0.w_0"]
    os.mkdir(f"{folder}/checkpoint_9")  # unfinished
    other.clear()
    with fluid.scope_guard(other.scope):
        fluid.io.load_checkpoint(other.exe, folder, other.main)
    np.testing.assert_array_equal(net.weight(), other.weight())

    third = Net()
    third.clear()
    with fluid.scope_guard(third.scope):
        fluid.io.load_checkpoint(third.exe, folder, 2, third.main)  # the order of v0.14
        with pytest.raises(core.NotFoundError, match="no checkpoint 7"):
            fluid.io.load_checkpoint(third.exe, folder, serial=7, main_program=third.main)
        fluid.io.load_checkpoint(third.exe, str(tmp_path / "none"), third.main)  # nothing to load
    np.testing.assert_array_equal(net.weight(), third.weight())
    with fluid.scope_guard(net.scope):
        fluid.io.save_checkpoint(net.exe, folder, 1, 0, net.main)
    assert sorted(os.listdir(folder)) == ["checkpoint_4", "checkpoint_9"]
    (tmp_path / "checkpoints" / "notes").write_text("mine")
    fluid.io.clean_checkpoint(folder, delete_dir=True)
    assert os.listdir(folder) == ["notes"]
    os.unlink(f"{folder}/notes")
    fluid.io.clean_checkpoint(folder, delete_dir=True)
    assert not os.path.exists(folder)


def test_checkpoints_of_v014(tmp_path):
    net, folder = Net(), str(tmp_path)
    with fluid.scope_guard(net.scope):
        fluid.io.save_checkpoint(
            executor=net.exe,
            checkpoint_dir=folder,
            trainer_id=0,
            trainer_args={"epoch_id": 4, "step_id": 20},
            main_program=net.main,
            max_num_checkpoints=3,
        )
    assert fluid.io.load_trainer_args(folder, 0, 0, ["step_id", "epoch_id"]) == ["20", "4"]
    with pytest.raises(core.FileError, match="pass_id"):
        fluid.io.load_trainer_args(folder, 0, 0, ["pass_id"])
    with pytest.raises(TypeError, match="by name"):
        fluid.io.save_checkpoint(net.exe, folder, 0, {"epoch_id": 1}, net.main)


def test_small_names():
    main, startup = fluid.Program(), fluid.Program()
    before = fluid.switch_main_program(main), fluid.switch_startup_program(startup)
    scope = fluid.Scope()
    outer = fluid.switch_scope(scope)
    try:
        assert fluid.default_main_program() is main and fluid.default_startup_program() is startup
        predict = infer_func()
        assert fluid.get_var(predict.name) is predict
        assert isinstance(main.global_block(), fluid.Block)
        assert isinstance(main.global_block().ops[0], fluid.Operator)
        fluid.Executor(fluid.CPUPlace()).run(startup)
        assert fluid.fetch_var(main.all_parameters()[0].name).shape == (3, 1)
    finally:
        assert fluid.switch_scope(outer) is scope
        fluid.switch_main_program(before[0])
        fluid.switch_startup_program(before[1])
    assert fluid.get_var(predict.name, main) is predict


def test_nothing_of_this_is_loaded_early():
    code = "import sys, paddle.fluid; print(list(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    for name in ("inference", "inference_config", "io_checkpoint", "trainer", "contrib"):
        assert f"'paddle.fluid.{name}'" not in loaded
