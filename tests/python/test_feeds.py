"""What can be fed: other element types that lose nothing, persistable variables, sequences."""

import subprocess
import sys

import numpy as np
import pytest

import paddle.fluid as fluid
from paddle.fluid import layers


@pytest.mark.parametrize(
    "given,declared,values",
    [("int32", "int64", [1, -2]), ("int64", "int32", [1, -2]), ("int64", "float32", [1, -2]), ("float32", "float64", [0.1, 2]),
     ("uint8", "float32", [0, 255]), ("float16", "float32", [0.1, 2]), ("bool", "float32", [0, 1])],
)  # fmt: skip
@pytest.mark.parametrize("as_tensor", [False, True])
def test_feed_of_another_type_that_loses_nothing(given, declared, values, as_tensor):
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        x = layers.data("x", [2], dtype=declared)
        out = layers.assign(x)
        array = np.array([values], given)
        feed = array
        if as_tensor:
            feed = fluid.LoDTensor()
            feed.set(array, fluid.CPUPlace())
            feed.set_lod([[0, 1]])
        value, = fluid.Executor().run(feed={"x": feed}, fetch_list=[out], return_numpy=False)
    assert np.array(value).dtype == declared and np.array_equal(np.array(value), array.astype(declared))
    assert value.lod() == ([[0, 1]] if as_tensor else [])


@pytest.mark.parametrize(
    "array,declared",
    [(np.array([[2**40, 1]]), "int32"), (np.array([[2**24 + 1, 1]]), "float32"), (np.array([[0.1, 1]]), "float32"),
     (np.array([[1.0, 2]]), "int64"), (np.array([[0, 1]]), "bool")],
)  # fmt: skip
def test_feed_of_another_type_that_may_lose_is_refused(array, declared):
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        out = layers.assign(layers.data("x", [2], dtype=declared))
        with pytest.raises(TypeError, match=f"feed 'x': the Program declares {declared}, found {array.dtype}"):
            fluid.Executor().run(feed={"x": array}, fetch_list=[out])
    with fluid.program_guard(fluid.Program(), fluid.Program()):  # fluid.data checks, as in 1.8.5
        out = layers.assign(fluid.data("x", [None, 2], "int64"))
        with pytest.raises(ValueError, match="feed 'x': the Program declares int64, found int32"):
            fluid.Executor().run(feed={"x": np.array([[1, 2]], "int32")}, fetch_list=[out])


def test_feeds_of_many_arrays_of_other_types():
    """Each of them is lent twice."""
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        inputs = [layers.data(f"x{i}", [1], dtype="int64") for i in range(12)]
        total = layers.sums(inputs)
        feed = {f"x{i}": np.array([[i]], "int32") for i in range(12)}
        assert fluid.Executor().run(feed=feed, fetch_list=[total])[0].tolist() == [[66]]


@pytest.mark.parametrize("changed", [False, True])
def test_a_fed_persistable_variable_stays_in_the_scope(changed):
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()):
        x = fluid.data("x", [1])
        x.persistable = True
        if changed:
            layers.increment(x)
        out = layers.scale(x, 2.0)
        exe = fluid.Executor()
        mine = np.array([5], "float32")
        first, = exe.run(feed={"x": mine}, fetch_list=[out])
        kept = np.array(fluid.global_scope().find_var("x").get_tensor())
        then, = exe.run(fetch_list=[out])
        again, = exe.run(feed={"x": mine}, fetch_list=[out])
    assert mine[0] == 5 and kept[0] == 5 + changed
    assert (first[0], then[0], again[0]) == (10 + 2 * changed, 10 + 4 * changed, 10 + 2 * changed)


def test_sequences_are_checked_by_their_width_not_by_their_rows():
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        x = fluid.data("x", [2, 3], "float32", lod_level=1)
        out = layers.sequence_pool(x, "sum")
        exe = fluid.Executor()
        for lengths in ([2, 3], [2, 2, 1]):
            feed = fluid.create_lod_tensor(np.ones((5, 3), "float32"), [lengths], fluid.CPUPlace())
            assert exe.run(feed={"x": feed}, fetch_list=[out])[0][:, 0].tolist() == lengths
        wide = fluid.create_lod_tensor(np.ones((2, 4), "float32"), [[1, 1]], fluid.CPUPlace())
        with pytest.raises(ValueError, match=r"declares shape \[2, 3\], found \[2, 4\]"):
            exe.run(feed={"x": wide}, fetch_list=[out])
        with pytest.raises(ValueError, match=r"declares shape \[2, 3\], found \[5, 3\]"):
            exe.run(feed={"x": np.ones((5, 3), "float32")}, fetch_list=[out])


@pytest.mark.parametrize(
    "declared, fed, is_taken",
    [([-1, 1], (3,), 1), ([3, 1], (3,), 1), ([-1, 4, 1, 1], (3, 4), 1), ([-1, -1], (3,), 1), ([-1, 4], (4,), 1)]
    + [([-1], (3, 1), 0), ([3], (3, 1), 0), ([-1, 1], (3, 2), 0), ([1], (), 0), ([1, -1, 4], (3, 4), 0), ([2, 3], (6,), 0)],
)
def test_last_dimensions_may_be_left_out(declared, fed, is_taken):
    """As in 1.8.5: what is there is compared, from the first one on."""
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        out = layers.scale(fluid.data("x", declared, "float32"), 2.0)
        exe, feed = fluid.Executor(), {"x": np.ones(fed, "float32")}
        if is_taken:
            np.testing.assert_array_equal(exe.run(feed=feed, fetch_list=[out])[0], np.full(fed, 2))
        else:
            with pytest.raises(ValueError, match="declares shape"):
                exe.run(feed=feed, fetch_list=[out])


def test_labels_of_npair_loss():
    """The layer reshapes them in place, which changes what is declared."""
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        anchor, positive, labels = (fluid.data(name, shape, "float32")
                                    for name, shape in (("a", [3, 4]), ("p", [3, 4]), ("l", [3])))
        loss = layers.npair_loss(anchor, positive, labels, l2_reg=0.002)
        ones = np.ones((3, 4), "float32")
        found, = fluid.Executor().run(feed={"a": ones, "p": ones, "l": np.array([0, 1, 1], "float32")}, fetch_list=[loss])
    np.testing.assert_allclose(found, 1.1026123, rtol=1e-6)


def test_a_tensor_that_is_filled_again_while_it_is_fed():
    """Readers use one tensor for all their batches, of other sizes: a run keeps the memory that it was given."""
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()):
        x = fluid.layers.data("x", [1024])
        loss = fluid.layers.mean(fluid.layers.fc(fluid.layers.fc(x, 512), 512))
        loader = fluid.io.DataLoader.from_generator(feed_list=[x], capacity=2)

        def batches():
            tensor = fluid.LoDTensor()
            for i in range(60):
                tensor.set(np.ones((2048 if i % 2 else 32, 1024), "float32"), fluid.CPUPlace())
                yield [tensor]

        loader.set_batch_generator(batches, places=fluid.CPUPlace())
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(fluid.default_startup_program())
        losses = [exe.run(feed=batch, fetch_list=[loss])[0] for batch in loader()]
        np.testing.assert_allclose(losses, [losses[0]] * 60, rtol=1e-4)


def test_what_the_program_does_not_know_is_left_out_with_a_warning():
    """One feed for training and for a pruned Program; a misspelt name is still told."""
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        x, y = layers.data("x", [2]), layers.data("y", [1])
        out = layers.reduce_sum(x)
        layers.mean(layers.square_error_cost(layers.fc(x, 1), y))
        pruned = fluid.default_main_program()._prune([out])
        exe = fluid.Executor(fluid.CPUPlace())
        feed = {"x": np.ones((3, 2), "float32"), "y": np.ones((3, 1), "float32")}
        with pytest.warns(UserWarning, match="The variable y is not found in program"):
            (got,) = exe.run(pruned, feed=feed, fetch_list=[out.name])
        assert got == 6
        with pytest.warns(UserWarning), pytest.raises(fluid.core.NotFoundError, match="feed 'X': .*it declares the data x"):
            exe.run(pruned, feed={"X": feed["x"]}, fetch_list=[out.name])


@pytest.mark.parametrize("value", [None, [[1.0], [None], [3.0]], (None,), [np.float32(1), None],
                                   [[None]] * 3, np.array([[1.0], [None]])])
@pytest.mark.parametrize("dtype", ["float32", "bool", "int64"])
def test_none_is_no_number(value, dtype):
    """numpy makes a NaN of it, and one NaN in a feed is in all parameters after a step."""
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        out = layers.assign(layers.data("y", [1], dtype=dtype))
        exe = fluid.Executor(fluid.CPUPlace())
        with pytest.raises(fluid.core.EnforceNotMet, match="The feed 'y' .*(None|object|dtype)"):
            exe.run(feed={"y": value}, fetch_list=[out])
        if value is None:
            with pytest.raises(fluid.core.InvalidArgumentError, match=f"The feed 'y' is None. Feed an array of {dtype}"):
                exe.run(feed={"y": value}, fetch_list=[out])
        elif dtype == "float32":
            (got,) = exe.run(feed={"y": [[float("nan")], [1.0]]}, fetch_list=[out])
            assert np.isnan(got[0, 0]) and got[1, 0] == 1


@pytest.mark.parametrize("level", [0, 1])
def test_a_sample_without_a_number(level):
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        y = layers.data("y", [1], lod_level=level)
        feeder = fluid.DataFeeder([y], fluid.CPUPlace())
        with pytest.raises(ValueError, match="feed of y: the samples do not form one array of float32: there is a None in it.$"):
            feeder.feed([([1.0],), ([None],)])


@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
@pytest.mark.parametrize("dtype, value", [
    ("int64", [[1.7, 2.9]]), ("int64", [np.array([1.7, 2.2], "float32")]), ("int64", [[float("nan"), 1.0]]),
    ("int32", [[2**33, 1]]), ("uint8", [[300, -1]]),
    ("float32", [[1.0, 1e300]]),
])  # fmt: skip
def test_a_list_that_the_type_cannot_hold(dtype, value):
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        out = layers.cast(layers.data("x", [2], dtype=dtype), "float64")
        exe = fluid.Executor(fluid.CPUPlace())
        with pytest.raises(fluid.core.InvalidArgumentError,
                           match=f"The feed 'x' .*({dtype} cannot hold|cannot become an array of {dtype})"):
            exe.run(feed={"x": value}, fetch_list=[out])
        good = [[1.0, 2]] if dtype != "float32" else [[float("inf"), 0.1]]
        assert exe.run(feed={"x": good}, fetch_list=[out])[0].shape == (1, 2)


def test_a_loader_that_is_iterated_over_anew():
    """Who goes on with the iteration before hears it: it has not come to the end of the data."""
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        x = fluid.data("x", [None, 1])
        loader = fluid.io.DataLoader.from_generator([x], capacity=2)
        loader.set_batch_generator(lambda: ([np.full((1, 1), k, "float32")] for k in range(50)), places=fluid.CPUPlace())
        with pytest.raises(RuntimeError, match="iterated over anew before this iteration had come to its end"):
            list(zip(loader(), loader()))
        for _ in loader():
            break
        assert len(list(loader())) == 50


CHANGED_MEANWHILE = """
import threading, numpy as np, paddle.fluid as fluid
out = fluid.layers.reduce_sum(fluid.layers.embedding(fluid.layers.data('ids', [1], dtype='int64'), [10, 4]))
exe = fluid.Executor()
exe.run(fluid.default_startup_program())
ids, ends = np.zeros((200000, 1), 'int64'), threading.Event()
def change():
    while not ends.is_set():
        ids[:] = 2**40
        ids[:] = 0
threading.Thread(target=change).start()
refused = 0
for _ in range(300):
    try:
        exe.run(feed={'ids': ids}, fetch_list=[out])
    except fluid.core.EnforceNotMet:
        refused += 1
ends.set()
print('refused', refused)
"""


def test_ids_that_another_thread_changes_during_a_run():
    done = subprocess.run([sys.executable, "-c", CHANGED_MEANWHILE], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and done.stdout.startswith("refused"), done
