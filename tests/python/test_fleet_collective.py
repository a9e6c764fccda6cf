"""A job without servers and with one worker: it trains, and goes on from its checkpoints."""

from __future__ import annotations

import numpy as np
import pytest

import paddle.fluid as fluid
from paddle.distributed.fs_wrapper import LocalFS
from paddle.fluid.incubate.fleet.base import role_maker
from paddle.fluid.incubate.fleet.collective import Collective, CollectiveOptimizer, DistributedStrategy, TrainStatus, fleet


class Elsewhere(LocalFS):
    """Files that must be copied to be read."""

    def need_upload_download(self):
        return True


@pytest.fixture
def one_worker(fresh, monkeypatch):
    monkeypatch.setenv("PADDLE_TRAINER_ENDPOINTS", "127.0.0.1:6070")
    monkeypatch.setenv("PADDLE_TRAINER_ID", "0")
    fleet.init(role_maker.PaddleCloudRoleMaker(is_collective=True))
    yield
    for name in ("_role_maker", "main_program", "startup_program", "_origin_program", "_transpiled_program"):
        setattr(fleet, name, None)


def built():
    x, y = fluid.data("x", [None, 3]), fluid.data("y", [None, 1])
    loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(x, 1, param_attr="w"), y))
    fleet.distributed_optimizer(fluid.optimizer.Adam(0.1), DistributedStrategy()).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fleet.startup_program)
    return exe, loss


def step(exe, loss):
    x = np.arange(12, dtype="float32").reshape(4, 3) / 12
    return exe.run(fleet.main_program, feed={"x": x, "y": x.sum(1, keepdims=True)}, fetch_list=[loss])[0].mean()


def weights():
    return np.array(fluid.global_scope().find_var("w").get_tensor())


@pytest.mark.parametrize("files", [LocalFS(), Elsewhere()], ids=["here", "elsewhere"])
def test_one_worker_trains_and_goes_on(one_worker, files, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exe, loss = built()
    root = str(tmp_path / "saved")
    assert fleet.load_check_point(exe, root, 0, fs=files) is None
    with pytest.raises(FileNotFoundError, match="there is no checkpoint in"):
        fleet.load_check_point(exe, root, 0, fs=files, ignore_empty=False)
    first = [step(exe, loss) for _ in range(5)]
    assert first[-1] < first[0]
    fleet.save_check_point(exe, root, TrainStatus(2), fs=files)
    kept = weights()
    after = [step(exe, loss) for _ in range(3)]
    assert (weights() != kept).any()
    status = fleet.load_check_point(exe, root, trainer_id=0, fs=files)
    assert status == TrainStatus(2) and status.next() == 3 and (weights() == kept).all()
    assert [step(exe, loss) for _ in range(3)] == after  # the moments came back too
    number = fleet._get_last_checkpoint_no(root, fs=files)
    for epoch in range(3, 6):
        fleet.save_check_point(exe, root, TrainStatus(epoch), fs=files)
    assert fleet._get_last_checkpoint_no(root, fs=files) == number + 3
    fleet.clean_redundant_check_points(root, fs=files, checkpoint_num=2)
    assert sorted(files.ls_dir(root)) == [f"__paddle_fleet_checkpoint__.{each}" for each in (2, 3)]
    fleet.save_check_point(exe, root, TrainStatus(6), fs=files, remain_all_checkpoint=False)
    assert files.ls_dir(root) == ["__paddle_fleet_checkpoint__.4"]
    assert fleet.load_check_point(exe, root, 0, fs=files) == TrainStatus(6)


def test_a_status_that_is_none(one_worker, tmp_path):
    exe, _ = built()
    fleet.save_check_point(exe, str(tmp_path), TrainStatus(2))
    status = tmp_path / "__paddle_fleet_checkpoint__.0" / "fleet_train_status"
    for text in ("", "{}", "[]", '{"epoch_no": -2}', '{"epoch_no": "1"}'):
        status.write_text(text)
        with pytest.raises(ValueError, match="fleet_train_status"):
            fleet.load_check_point(exe, str(tmp_path), 0)
    status.unlink()
    assert fleet.load_check_point(exe, str(tmp_path), 0) == TrainStatus()


def test_its_files_are_those_of_one_process(one_worker, tmp_path):
    exe, loss = built()
    step(exe, loss)
    fleet.save_inference_model(exe, str(tmp_path / "model"), ["x", "y"], [loss])
    fleet.save_persistables(exe, str(tmp_path / "all"))
    assert (tmp_path / "model" / "__model__").exists() and (tmp_path / "all" / "w").exists()
    with pytest.raises(TypeError, match="main_program is a CompiledProgram; give a Program"):
        fleet.save_persistables(exe, str(tmp_path), fleet.main_program)
    with pytest.raises(TypeError, match="main_program is a NoneType; give a Program, or call minimize first"):
        Collective().save_persistables(exe, str(tmp_path))


def test_several_workers_are_told_what_to_use(one_worker, monkeypatch):
    _, loss = built()
    optimizer = CollectiveOptimizer(fluid.optimizer.SGD(0.1))
    monkeypatch.setenv("PADDLE_TRAINER_ENDPOINTS", "127.0.0.1:6070,127.0.0.1:6071")
    fleet.init(role_maker.PaddleCloudRoleMaker(is_collective=True))
    for call in (lambda: fleet.distributed_optimizer(fluid.optimizer.SGD(0.1)), lambda: optimizer.minimize(loss), fleet.run_worker):
        with pytest.raises(NotImplementedError, match="workers cannot train without servers. Train with parameter servers"):
            call()
