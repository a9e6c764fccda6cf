"""Big things: all of MNIST, tables past 4 GiB, many plans."""
import os
import sys

import numpy as np
import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), os.pardir, "python"))


def mnist_is_there():
    root = os.environ.get("PADDLE_DATASET_HOME", os.path.expanduser("~/.cache/paddle/dataset"))
    path = os.path.join(root, "mnist", "train-images-idx3-ubyte.gz")
    return os.path.exists(path) and os.path.getsize(path) > 5_000_000


@pytest.mark.skipif(not mnist_is_there(), reason="the four files of MNIST are not in the data set cache: "
                                                 "set PADDLE_DATASET_HOME to a folder that has mnist/")
@pytest.mark.parametrize("net, goal", [("mlp", 0.95), ("lenet", 0.98)])
def test_all_of_mnist_in_one_pass(record_property, net, goal):
    from digits import train

    accuracy = train(net, 1)
    record_property("accuracy after one pass", f"{accuracy:.4f}")
    assert accuracy >= goal


def test_a_parameter_past_4_gib_is_saved_and_loaded(tmp_path, record_property):
    import paddle.fluid as fluid

    rows, width = 70_000_000, 16  # 4.48 GB
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.scope_guard(fluid.Scope()) as _:
        table = fluid.layers.create_parameter([rows, width], "float32", name="table",
                                              default_initializer=fluid.initializer.Constant(0.0))
        ids = fluid.layers.data("ids", [1], dtype="int64")
        out = fluid.layers.embedding(ids, [rows, width], is_sparse=True, param_attr="table")
        fluid.optimizer.SGD(1.0).minimize(fluid.layers.reduce_sum(out))
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(startup)
        pick = np.array([[0], [rows - 1], [rows // 2]], "int64")
        exe.run(main, feed={"ids": pick})
        assert table.shape == (rows, width)
        fluid.io.save_persistables(exe, str(tmp_path), main)
        record_property("bytes of the file", os.path.getsize(tmp_path / "table"))
        assert os.path.getsize(tmp_path / "table") > 1 << 32
    with fluid.scope_guard(fluid.Scope()):
        fluid.io.load_persistables(exe, str(tmp_path), main)
        got, = exe.run(main.clone(for_test=True), feed={"ids": np.vstack([pick, [[5]]])}, fetch_list=[out])
        assert (got[:3] == -1).all() and (got[3] == 0).all()


def test_thousands_of_programs_leave_nothing_behind(record_property):
    from test_stream import resident_kib

    import paddle.fluid as fluid

    exe = fluid.Executor(fluid.CPUPlace())
    x = np.ones((4, 8), "float32")
    settled = None
    for i in range(5000):
        main, startup = fluid.Program(), fluid.Program()
        with fluid.program_guard(main, startup), fluid.unique_name.guard(), fluid.scope_guard(fluid.Scope()):
            data = fluid.layers.data("x", [8])
            loss = fluid.layers.mean(fluid.layers.fc(data, 4, act="relu"))
            fluid.optimizer.Momentum(0.1, 0.9).minimize(loss)
            exe.run(startup)
            exe.run(main, feed={"x": x}, fetch_list=[loss])
        if i == 1000:
            settled = resident_kib()
    grown = resident_kib() - settled
    record_property("programs", 5000)
    record_property("memory grew by KiB after the first thousand", grown)
    assert grown < 4096
