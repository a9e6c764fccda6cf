"""DataFeeder, LoD tensors from lists, and the loaders that prefetch."""

import threading

import numpy as np
import pytest

import paddle
import paddle.fluid as fluid
from paddle.fluid.data_feeder import check_dtype, check_type, convert_dtype

pytestmark = pytest.mark.usefixtures("fresh")


def plain():
    return [fluid.layers.data("x", [3]), fluid.layers.data("y", [1], dtype="int64")]


def test_plain_samples():
    feed = fluid.DataFeeder(plain(), fluid.CPUPlace()).feed([([1, 2, 3], 0), ([4, 5, 6], 1)])
    assert set(feed) == {"x", "y"}
    x, y = np.array(feed["x"]), np.array(feed["y"])
    assert x.shape == (2, 3) and x.dtype == np.float32
    assert y.tolist() == [[0], [1]] and y.dtype == np.int64


def test_flat_images_take_the_declared_shape():
    image = fluid.layers.data("image", [1, 2, 2])
    feed = fluid.DataFeeder([image], fluid.CPUPlace()).feed([(np.arange(4.0),), (np.arange(4.0),)])
    assert list(feed["image"].shape()) == [2, 1, 2, 2]


def test_names_instead_of_variables():
    plain()
    feeder = fluid.DataFeeder(["y", "x"], fluid.CPUPlace(), fluid.default_main_program())
    assert feeder.feed_names == ["y", "x"]
    with pytest.raises(TypeError, match="not a Variable"):
        fluid.DataFeeder([3], fluid.CPUPlace())


def test_sequences_one_and_two_levels():
    one = fluid.layers.data("one", [1], dtype="int64", lod_level=1)
    two = fluid.layers.data("two", [1], dtype="int64", lod_level=2)
    feed = fluid.DataFeeder([one, two], fluid.CPUPlace()).feed(
        [([1, 2, 3], [[1], [2, 3]]), ([4], [[4, 5, 6]])]
    )
    assert feed["one"].recursive_sequence_lengths() == [[3, 1]]
    assert feed["one"].lod() == [[0, 3, 4]]
    assert np.array(feed["one"]).tolist() == [[1], [2], [3], [4]]
    assert feed["two"].recursive_sequence_lengths() == [[2, 1], [1, 2, 3]]
    assert np.array(feed["two"]).ravel().tolist() == [1, 2, 3, 4, 5, 6]


def test_bad_samples_say_what_is_wrong():
    feeder = fluid.DataFeeder(plain(), fluid.CPUPlace())
    with pytest.raises(ValueError, match="1 fields, but feed_list names 2"):
        feeder.feed([([1, 2, 3],)])
    with pytest.raises(ValueError, match="feed of x"):
        feeder.feed([([1, 2, 3], 0), ([1, 2], 0)])
    wide = fluid.DataFeeder([fluid.layers.data("image", [1, 2, 2])], fluid.CPUPlace())
    with pytest.raises(ValueError, match="does not fit the declared shape"):
        wide.feed([(np.zeros(5),)])


def test_parallel_feeds_and_decorated_readers():
    feeder = fluid.DataFeeder(plain(), fluid.CPUPlace())
    batch = [([1, 2, 3], 0)]
    assert len(list(feeder.feed_parallel([batch, batch], num_places=2))) == 2
    with pytest.raises(ValueError, match="1 batches for 2 places"):
        list(feeder.feed_parallel([batch], num_places=2))

    def reader():
        for _ in range(3):
            yield batch

    assert len(list(feeder.decorate_reader(reader, multi_devices=False)())) == 3
    pairs = list(feeder.decorate_reader(reader, multi_devices=True, num_places=2)())
    assert [len(pair) for pair in pairs] == [2]
    with pytest.raises(ValueError, match="do not fill 2 places"):
        list(feeder.decorate_reader(reader, multi_devices=True, num_places=2, drop_last=False)())


def test_types():
    kinds = fluid.core.VarDesc.VarType
    for name, kind in (("float32", kinds.FP32), ("int64", kinds.INT64), ("bool", kinds.BOOL)):
        assert convert_dtype(kind) == name
        assert convert_dtype(np.dtype(name)) == name
        assert convert_dtype(name) == name
    assert convert_dtype(np.float64) == "float64"
    with pytest.raises(ValueError, match="no type of tensor"):
        convert_dtype("text")
    with pytest.raises(TypeError, match="fc: x must be int"):
        check_type("1", "x", int, "fc")
    with pytest.raises(TypeError, match="holds float32"):
        check_dtype("float32", "x", ["int64"], "fc")


def test_create_lod_tensor():
    place = fluid.CPUPlace()
    tensor = fluid.create_lod_tensor([[1, 2], [3]], [[2, 1]], place)
    assert list(tensor.shape()) == [3, 1] and tensor.recursive_sequence_lengths() == [[2, 1]]
    array = np.arange(12, dtype="float32").reshape(6, 2)
    deep = fluid.create_lod_tensor(array, [[1, 1], [4, 2]], place)
    assert deep.lod() == [[0, 1, 2], [0, 4, 6]]
    again = fluid.create_lod_tensor(deep, [[6]], place)
    assert again.recursive_sequence_lengths() == [[6]]
    with pytest.raises(ValueError, match="do not fit"):
        fluid.create_lod_tensor(array, [[1, 1]], place)
    with pytest.raises(ValueError, match="lengths"):
        fluid.create_lod_tensor([[1, 2], [3]], [[1, 2]], place)
    with pytest.raises(TypeError, match="takes an array"):
        fluid.create_lod_tensor("abc", [[3]], place)
    ids = fluid.create_random_int_lodtensor([[2, 3]], [1], place, low=0, high=4)
    assert list(ids.shape()) == [5, 1]
    assert 0 <= np.array(ids).min() and np.array(ids).max() <= 4


def samples():
    for i in range(7):
        yield np.full(3, i, "float32"), i


def test_loader_makes_batches():
    loader = fluid.io.DataLoader.from_generator(feed_list=plain(), capacity=2)
    loader.set_sample_generator(samples, batch_size=2, drop_last=False, places=fluid.CPUPlace())
    for _ in range(2):
        feeds = list(loader())
        assert [np.array(feed["x"]).shape for feed in feeds] == [(2, 3), (2, 3), (2, 3), (1, 3)]
        assert np.array(feeds[2][0]["y"]).tolist() == [[4], [5]]


def test_reader_of_sample_lists_and_of_batches():
    reader = fluid.io.PyReader(feed_list=plain(), capacity=4)
    reader.decorate_sample_list_generator(paddle.batch(samples, 3), places=fluid.CPUPlace())
    assert [np.array(feed["y"]).size for feed in reader()] == [3, 3, 1]

    def batches():
        yield np.zeros((5, 3), "float32"), np.zeros((5, 1), "int64")

    lists = fluid.io.DataLoader.from_generator(feed_list=plain(), capacity=4, return_list=True)
    lists.set_batch_generator(batches, places=fluid.CPUPlace())
    ((x, y),) = next(iter(lists))
    assert list(x.shape()) == [5, 3] and list(y.shape()) == [5, 1]


def test_two_places_have_a_batch_each():
    loader = fluid.io.DataLoader.from_generator(feed_list=plain(), capacity=4)
    loader.set_sample_generator(samples, batch_size=2, places=[fluid.CPUPlace()] * 2)
    found = [[np.array(feed["y"]).ravel().tolist() for feed in feeds] for feeds in loader()]
    assert found == [[[0, 1], [2, 3]]]


def test_loader_passes_errors_on_and_ends_its_thread():
    def broken():
        yield np.zeros(3, "float32"), 0
        raise KeyError("lost file")

    loader = fluid.io.DataLoader.from_generator(feed_list=plain(), capacity=1)
    loader.set_sample_generator(broken, batch_size=1, places=fluid.CPUPlace())
    feeds = iter(loader)
    next(feeds)
    with pytest.raises(KeyError, match="lost file"):
        next(feeds)

    def endless():
        while True:
            yield np.zeros(3, "float32"), 0

    loader.set_sample_generator(endless, batch_size=1, places=fluid.CPUPlace())
    for _ in loader():
        break
    loader._reset()
    assert not [thread for thread in threading.enumerate() if thread.name == "paddle-reader"]


def test_what_loaders_cannot_do():
    with pytest.raises(ValueError, match="capacity"):
        fluid.io.DataLoader.from_generator(feed_list=[fluid.layers.data("z", [1])])
    loader = fluid.io.DataLoader.from_generator(feed_list=[fluid.layers.data("w", [1])], capacity=1)
    with pytest.raises(RuntimeError, match="no data yet"):
        iter(loader)
    with pytest.raises(RuntimeError, match="iterable=False"):
        loader.start()
