"""Readers inside Programs: py_reader, create_py_reader_by_data and loaders with iterable=False."""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import paddle
import paddle.fluid as fluid
from paddle.fluid import layers

rng = np.random.RandomState(7)
ROWS = rng.rand(40, 5).astype("float32")


def samples():
    for row in ROWS:
        yield row, [row.sum()]


@pytest.fixture(autouse=True)
def no_thread_is_left(fresh):
    yield
    assert not [each for each in threading.enumerate() if each.name == "paddle-reader"]


def net(x, y):
    weights = fluid.ParamAttr(initializer=fluid.initializer.Constant(0.1))
    return layers.mean(layers.square_error_cost(layers.fc(x, 1, param_attr=weights), y))


def two_variables():
    return fluid.data("x", [None, 5]), fluid.data("y", [None, 1])


def loader(**options):
    x, y = two_variables()
    made = fluid.io.DataLoader.from_generator(feed_list=[x, y], capacity=4, iterable=False, **options)
    return made, made.set_sample_list_generator, x, y


def loader_of_samples():
    made, _, x, y = loader()
    return made, lambda batches: made.set_sample_generator(samples, batch_size=10), x, y


def loader_of_batches():
    made, _, x, y = loader(use_double_buffer=False)

    def set_batches(batches):
        def arrays():
            for batch in batches():
                yield tuple(np.array(field, "float32").reshape(len(batch), -1) for field in zip(*batch))

        made.set_batch_generator(arrays)

    return made, set_batches, x, y


def old_loader():
    x, y = two_variables()
    made = fluid.io.PyReader(feed_list=[x, y], capacity=4, iterable=False)
    return made, made.decorate_sample_list_generator, x, y


def py_reader():
    made = layers.py_reader(4, [(-1, 5), (-1, 1)], ["float32", "float32"], name="train")
    return made, made.decorate_paddle_reader, *layers.read_file(made)


def unbuffered_py_reader():
    made = layers.py_reader(4, [(-1, 5), (-1, 1)], ["float32", "float32"], lod_levels=[0, 0], use_double_buffer=False)
    made = layers.double_buffer(made)
    return made, made.decorate_sample_list_generator, *layers.read_file(made)


def py_reader_by_data():
    made = layers.create_py_reader_by_data(4, list(two_variables()))
    return made, made.decorate_paddle_reader, *layers.read_file(made)


FORMS = [loader, loader_of_samples, loader_of_batches, old_loader, py_reader, unbuffered_py_reader, py_reader_by_data]


def start():
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    return exe


def one_pass(exe, reader, fetch, program=None):
    reader.start()
    values = []
    with pytest.raises(fluid.core.EOFException):
        while True:
            values.append(exe.run(program, fetch_list=[fetch])[0])
    with pytest.raises(fluid.core.EOFException):  # until reset
        exe.run(program, fetch_list=[fetch])
    reader.reset()
    return np.concatenate(values)


@pytest.mark.parametrize("form", FORMS)
def test_training_gives_the_losses_of_training_by_feed(form):
    def train(make):
        main = fluid.Program()
        with fluid.program_guard(main, fluid.Program()), fluid.unique_name.guard(), fluid.scope_guard(fluid.Scope()):
            return make()

    def by_feed():
        x, y = two_variables()
        loss = net(x, y)
        fluid.optimizer.SGD(0.1).minimize(loss)
        exe, feeder = start(), fluid.DataFeeder([x, y], fluid.CPUPlace())
        batches = list(paddle.batch(samples, 10)())
        return [exe.run(feed=feeder.feed(batch), fetch_list=[loss])[0] for _ in range(3) for batch in batches]

    def by_reader():
        reader, set_data, x, y = form()
        loss = net(x, y)
        fluid.optimizer.SGD(0.1).minimize(loss)
        exe = start()
        set_data(paddle.batch(samples, 10))
        return [one_pass(exe, reader, loss) for _ in range(3)]

    want = np.concatenate(train(by_feed))
    found = np.concatenate(train(by_reader))
    assert want.tobytes() == found.tobytes() and want[-1] < want[0] / 2


def test_a_test_program_reads_from_the_same_reader():
    reader, set_data, x, y = py_reader()
    loss = net(x, y)
    test = fluid.default_main_program().clone(for_test=True)
    fluid.optimizer.SGD(0.1).minimize(loss)
    exe = start()
    set_data(paddle.batch(samples, 10))
    first = one_pass(exe, reader, loss, test)
    assert first.tobytes() == one_pass(exe, reader, loss, test).tobytes()
    trained = one_pass(exe, reader, loss)
    assert trained[0] == first[0] and (trained[1:] < first[1:]).all()
    assert (one_pass(exe, reader, loss, test) < first).all()
    compiled = fluid.CompiledProgram(test).with_data_parallel(loss_name=loss.name)
    assert one_pass(exe, reader, loss, compiled).shape == (4,)


def test_two_readers_in_one_program_and_one_in_another():
    x, y = two_variables()
    ids = fluid.io.DataLoader.from_generator([x], capacity=2, iterable=False)
    sums = fluid.io.DataLoader.from_generator([y], capacity=2, iterable=False)
    both = layers.concat([x, y], axis=1)
    other = fluid.Program()
    with fluid.program_guard(other, fluid.Program()), fluid.unique_name.guard():
        z = layers.data("x", [5])
        third = fluid.io.DataLoader.from_generator([z], capacity=2, iterable=False)
        doubled = layers.scale(z, 2.0)
    ids.set_batch_generator(lambda: ((ROWS[i : i + 10],) for i in range(0, 40, 10)))
    sums.set_batch_generator(lambda: ((ROWS[i : i + 10].sum(1, keepdims=True),) for i in range(0, 30, 10)))
    third.set_batch_generator(lambda: ((ROWS[i : i + 5],) for i in range(0, 40, 5)))
    exe = start()
    for each in (ids, sums, third):
        each.start()
    for i in range(3):
        value, = exe.run(fetch_list=[both])
        assert np.array_equal(value[:, :5], ROWS[10 * i : 10 * i + 10]) and np.allclose(value[:, 5], value[:, :5].sum(1))
        assert np.array_equal(exe.run(other, fetch_list=[doubled])[0], 2 * ROWS[5 * i : 5 * i + 5])
    with pytest.raises(fluid.core.EOFException):  # of the shorter one
        exe.run(fetch_list=[both])
    for each in (ids, sums, third):
        each.reset()


def test_reset_midway_ends_the_generator_and_the_next_pass_is_whole():
    made, closed = [], []

    def forever():
        try:
            for i in range(10**9):
                made.append(i)
                yield (np.full((2, 5), i, "float32"), np.zeros((2, 1), "float32"))
        finally:
            closed.append(True)

    reader, _, x, _ = py_reader()
    reader.decorate_tensor_provider(forever)
    exe = start()
    for n in range(1, 4):
        made.clear()
        reader.start()
        values = [exe.run(fetch_list=[x])[0][0, 0] for _ in range(6)]
        reader.reset()
        assert values == list(range(6)) and len(closed) == n
        assert len(made) <= 6 + 4 + 1  # taken, held ready, and the one that waits for room


def test_fields_and_feeds_together():
    """What no reader gives is fed; what a reader gives is not taken from the feed."""
    reader, set_data, x, y = loader()
    factor = fluid.data("factor", [1])
    scaled = layers.elementwise_mul(x, factor)
    set_data(paddle.batch(samples, 40))
    reader.start()
    exe = start()
    value, = exe.run(feed={"factor": np.array([3], "float32"), "x": np.zeros((40, 5), "float32")}, fetch_list=[scaled])
    assert np.allclose(value, 3 * ROWS)
    reader.reset()


def test_sequences():
    words = fluid.data("words", [None, 1], "int64", lod_level=1)
    reader = fluid.io.DataLoader.from_generator([words], capacity=2, iterable=False)
    total = layers.sequence_pool(layers.cast(words, "float32"), "sum")
    reader.set_sample_list_generator(lambda: iter([[([1, 2, 3],), ([4],)], [([5, 6],)]]))
    assert one_pass(start(), reader, total).ravel().tolist() == [6, 4, 11]
    shapes = layers.py_reader(2, ([-1, 3], [-1, 5]), ("float32", "int64"), lod_levels=(1, 2))
    first, second = layers.read_file(shapes)
    assert (first.lod_level, second.lod_level) == (1, 2) and second.dtype == fluid.core.VarDesc.VarType.INT64


def test_batches_pushed_by_a_thread_of_the_script():
    reader, _, x, _ = py_reader()
    pushed = []

    def push():
        for i in range(6):
            array = fluid.LoDTensorArray()
            for shape in ((2, 5), (2, 1)):
                tensor = fluid.LoDTensor()
                tensor.set(np.full(shape, i, "float32"), fluid.CPUPlace())
                array.append(tensor)
            pushed.append(reader.queue.push(array))
        reader.queue.close()

    exe = start()
    thread = threading.Thread(target=push)
    thread.start()
    values = []
    with pytest.raises(fluid.core.EOFException):
        while True:
            values.append(exe.run(fetch_list=[x])[0][0, 0])
    thread.join()
    assert values == list(range(6)) and pushed == [True] * 6 and reader.queue.capacity() == 4


class Odd(Exception):
    def __init__(self, a, b):
        super().__init__(a, b)


@pytest.mark.parametrize("error", [ValueError("line 7 has 3 fields"), KeyError("user"), OSError(2, "gone"), Odd(1, 2)])
def test_an_error_of_the_generator_is_raised_by_run(error):
    def broken():
        yield [(ROWS[0], [1.0])]
        raise error

    reader, set_data, x, y = py_reader()
    loss = net(x, y)
    exe = start()
    set_data(broken)
    reader.start()
    exe.run(fetch_list=[loss])  # what came before the error is there
    with pytest.raises(type(error)) as caught:
        exe.run(fetch_list=[loss])
    assert isinstance(caught.value, fluid.core.EnforceNotMet) and caught.value.__cause__ is error
    assert str(caught.value) == f"The generator of the reader 'train_reader' raised {type(error).__name__}: {error}."
    with pytest.raises(fluid.core.EnforceNotMet, match=type(error).__name__):
        exe.run(fetch_list=[loss])
    reader.reset()
    set_data(paddle.batch(samples, 20))
    assert len(one_pass(exe, reader, loss)) == 2


def test_what_is_wrong_is_said():
    reader, set_data, x, y = py_reader()
    loss = net(x, y)
    exe = start()
    with pytest.raises(fluid.core.EnforceNotMet, match="'train_reader' was not started: call its start"):
        exe.run(fetch_list=[loss])
    with pytest.raises(RuntimeError, match="has no data yet"):
        reader.start()
    reader.decorate_tensor_provider(lambda: iter([(ROWS,)]))
    reader.start()
    with pytest.raises(fluid.core.EnforceNotMet, match="a batch of 1 fields for 2 variables: read_file_0.tmp_0"):
        exe.run(fetch_list=[loss])
    reader.reset()
    ragged = fluid.io.DataLoader.from_generator([fluid.data("r", [None, 2])], capacity=2, iterable=False)
    ragged.set_batch_generator(lambda: iter([([[1.0], [2.0, 3.0]],)]))
    ragged.start()
    reader.decorate_tensor_provider(lambda: iter([(ROWS, ROWS[:, :1])]))
    reader.start()
    with pytest.raises(TypeError, match="A batch of r is no regular array"):
        exe.run(fetch_list=[loss])
    ragged.reset()
    reader.reset()
    with pytest.raises(RuntimeError, match="call start"):
        iter(ragged)
    with pytest.raises(ValueError, match="capacity"):
        layers.py_reader(0, [(-1, 5)], ["float32"])
    with pytest.raises(ValueError, match="2 shapes, 1 dtypes"):
        layers.py_reader(2, [(-1, 5), (-1, 1)], ["float32"])
    parsed = fluid.Program.parse_from_string(fluid.default_main_program().desc.serialize_to_string())
    with pytest.raises(fluid.core.EnforceNotMet, match="whose data are not in this process"):
        exe.run(parsed, fetch_list=[loss.name])


def test_inference_models_have_no_reader(tmp_path):
    reader, set_data, x, y = loader()
    predict = layers.fc(x, 1)
    layers.mean(layers.square_error_cost(predict, y))
    exe = start()
    fluid.io.save_inference_model(str(tmp_path), ["x"], [predict], exe)
    program, feeds, fetches = fluid.io.load_inference_model(str(tmp_path), exe)
    assert feeds == ["x"] and exe.run(program, feed={"x": ROWS}, fetch_list=fetches)[0].shape == (40, 1)
    assert not {"read", "create_py_reader"} & {op.type for op in program.global_block().ops}
    fluid.io.save_persistables(exe, str(tmp_path / "all"))
    assert sorted(os.listdir(tmp_path / "all")) == ["fc_0.b_0", "fc_0.w_0"]


SCRIPT = """
import sys, time
import numpy as np
import paddle.fluid as fluid

def forever():
    try:
        for i in range(10**9):
            if i == 3 and sys.argv[2] == "slow":
                print("waiting", flush=True)
                time.sleep(600)
            yield np.zeros((2, 5), "float32"),
    finally:
        open(sys.argv[1], "w").close()

x = fluid.data("x", [None, 5])
reader = fluid.io.DataLoader.from_generator(feed_list=[x], capacity=2, iterable=False)
out = fluid.layers.reduce_sum(x)
exe = fluid.Executor()
exe.run(fluid.default_startup_program())
reader.set_batch_generator(forever)
reader.start()
for _ in range(3 if sys.argv[2] == "quick" else 4):
    exe.run(fetch_list=[out])
"""


def test_a_script_that_ends_midway_leaves_nothing_behind(tmp_path):
    done = subprocess.run([sys.executable, "-c", SCRIPT, str(tmp_path / "closed"), "quick"], capture_output=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert (tmp_path / "closed").exists()  # the generator was closed, not cut off


def test_ctrl_c_while_waiting_for_a_batch(tmp_path):
    with subprocess.Popen([sys.executable, "-c", SCRIPT, str(tmp_path / "closed"), "slow"], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True) as child:  # fmt: skip
        assert child.stdout.readline() == "waiting\n"
        until = time.monotonic() + 60
        while "futex" not in open(f"/proc/{child.pid}/wchan").read() and time.monotonic() < until:
            time.sleep(0.01)
        child.send_signal(signal.SIGINT)
        _, errors = child.communicate(timeout=60)
    assert child.returncode != 0
    assert errors.endswith("KeyboardInterrupt\npaddle: The generator of the reader 'create_py_reader_0' is busy: the end of the "
                           "process waits for it, 5 s at most.\n")


def test_a_feed_of_what_the_reader_gives_is_told_of():
    made, set_batches, x, y = loader()
    out, other = layers.reduce_sum(x), fluid.data("other", [1])
    both = layers.elementwise_add(out, other)
    set_batches(paddle.batch(samples, 10))
    made.start()
    exe = fluid.Executor()
    with pytest.warns(UserWarning, match="The feed 'x' is not used: a reader of the Program gives this variable"):
        value, = exe.run(feed={"x": np.zeros((1, 5), "float32"), "other": np.ones(1, "float32")}, fetch_list=[both])
    made.reset()
    assert np.isclose(value[0], ROWS[:10].sum() + 1)


@pytest.mark.parametrize("places", [1, 2])
def test_a_feed_that_the_program_does_not_know_costs_no_batch(places):
    made, set_batches, x, y = loader()
    out = layers.reduce_sum(x)
    set_batches(paddle.batch(samples, 10))
    exe, sums = fluid.Executor(), []
    program = fluid.CompiledProgram(fluid.default_main_program()).with_data_parallel(places=fluid.cpu_places(places))
    made.start()
    with pytest.warns(UserWarning, match="The variable nobody is not found in program"), pytest.raises(fluid.core.EOFException):
        while True:
            sums += exe.run(program, feed={"nobody": np.zeros(2, "float32")}, fetch_list=[out])[0].tolist()
    made.reset()
    assert np.allclose(sums, ROWS.reshape(4, 10, 5).sum((1, 2)))


@pytest.mark.parametrize("iterable", [True, False])
def test_samples_of_a_pass_that_failed_are_not_in_the_next(iterable):
    x = fluid.data("x", [None, 1])
    made = fluid.io.DataLoader.from_generator(feed_list=[x], capacity=4, iterable=iterable)
    fails = [True]

    def numbers():
        for i in range(6):
            if fails[0] and i == 3:
                raise OSError("a file is gone")
            yield (np.array([i + 100 * fails[0]], "float32"),)

    made.set_sample_generator(numbers, batch_size=2, places=fluid.CPUPlace())
    out, exe = layers.scale(x, 1.0), fluid.Executor()

    def one_pass():
        if iterable:
            return [exe.run(feed=feed, fetch_list=[out])[0].ravel().tolist() for feed in made()]
        got = []
        made.start()
        try:
            while True:
                got += [exe.run(fetch_list=[out])[0].ravel().tolist()]
        except fluid.core.EOFException:
            return got
        finally:
            made.reset()

    with pytest.raises(OSError, match="a file is gone"):
        one_pass()
    fails[0] = False
    assert one_pass() == [[0, 1], [2, 3], [4, 5]]
