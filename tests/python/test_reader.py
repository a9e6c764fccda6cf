"""paddle.batch, paddle.reader, paddle.compat, and their names under paddle.v2."""

import gzip
import os
import random
import subprocess
import sys
import threading

import numpy as np
import pytest

import paddle.compat
import paddle.reader
import paddle.v2
from paddle.batch import batch


def numbers(count, start=0):
    return lambda: iter(range(start, start + count))


def failing():
    yield 1
    raise KeyError("broken sample")


def threads_end(before):
    """Wait until no threads run but those of before."""
    new = set(threading.enumerate()) - before
    for thread in new:
        thread.join(timeout=10)
    return not any(thread.is_alive() for thread in new)


def test_batch():
    assert list(batch(numbers(5), 2)()) == [[0, 1], [2, 3], [4]]
    assert list(batch(numbers(5), 2, drop_last=True)()) == [[0, 1], [2, 3]]
    assert list(batch(numbers(0), 2)()) == []
    again = batch(lambda: [1, 2], 2)
    assert list(again()) == list(again()) == [[1, 2]]


@pytest.mark.parametrize("size", [0, -3])
def test_batch_size_must_be_positive(size):
    with pytest.raises(ValueError, match=f"batch_size must be at least 1, got {size}"):
        batch(numbers(3), size)


def test_map_chain_firstn():
    assert list(paddle.reader.map_readers(lambda a, b: a + b, numbers(3), numbers(3, 10))()) == [10, 12, 14]
    assert list(paddle.reader.chain(numbers(2), numbers(2, 5))()) == [0, 1, 5, 6]
    assert list(paddle.reader.firstn(numbers(9), 4)()) == [0, 1, 2, 3]


def test_firstn_takes_no_more_than_it_gives():
    source = iter(range(9))
    assert list(paddle.reader.firstn(lambda: source, 4)()) == [0, 1, 2, 3]
    assert next(source) == 4


def test_shuffle_keeps_samples_in_their_block():
    random.seed(1)
    got = list(paddle.reader.shuffle(numbers(10), 4)())
    assert got != list(range(10))
    assert sorted(got[:4]) == [0, 1, 2, 3] and sorted(got[8:]) == [8, 9]
    random.seed(1)
    assert list(paddle.reader.shuffle(numbers(10), 4)()) == got


def test_cache_reads_once():
    calls = []

    def reader():
        calls.append(1)
        yield from range(3)

    cached = paddle.reader.cache(reader)
    assert list(cached()) == list(cached()) == [0, 1, 2]
    assert len(calls) == 1


def test_compose():
    pairs = lambda: iter([(1, 2), (3, 4)])
    assert list(paddle.reader.compose(pairs, numbers(2), lambda: [None, "x"])()) == [
        (1, 2, 0, None),
        (3, 4, 1, "x"),
    ]
    arrays = lambda: iter(np.zeros((2, 3)))
    assert [len(each) for each in paddle.reader.compose(arrays, numbers(2))()] == [2, 2]


def test_compose_of_different_lengths():
    with pytest.raises(paddle.reader.ComposeNotAligned, match="reader 1 of 2 ended after 2 samples"):
        list(paddle.reader.compose(numbers(3), numbers(2))())
    assert issubclass(paddle.reader.ComposeNotAligned, ValueError)
    assert len(list(paddle.reader.compose(numbers(3), numbers(2), check_alignment=False)())) == 2


def test_fake():
    fake = paddle.reader.Fake()(numbers(5, 7), 3)
    assert list(fake()) == list(fake()) == [7, 7, 7]


@pytest.mark.parametrize("size", [1, 3, 100])
def test_buffered(size):
    assert list(paddle.reader.buffered(numbers(20), size)()) == list(range(20))


def test_buffered_takes_arrays():
    got = list(paddle.reader.buffered(lambda: iter(np.eye(3)), 2)())
    assert np.array_equal(got, np.eye(3))


@pytest.mark.parametrize("order", [True, False])
@pytest.mark.parametrize("workers", [1, 4])
def test_xmap(order, workers):
    done = [threading.Event() for _ in range(50)]

    def work(x):
        if workers > 1 and x % 2 == 0:
            assert done[x + 1].wait(timeout=30)  # so that each second sample is overtaken
        done[x].set()
        return x * 10

    got = list(paddle.reader.xmap_readers(work, numbers(50), workers, 4, order)())
    assert (got if order else sorted(got)) == [x * 10 for x in range(50)]


def test_threads_hand_on_errors():
    with pytest.raises(KeyError, match="broken sample"):
        list(paddle.reader.buffered(failing, 4)())
    with pytest.raises(KeyError, match="broken sample"):
        list(paddle.reader.xmap_readers(str, failing, 2, 4)())
    with pytest.raises(ZeroDivisionError):
        list(paddle.reader.xmap_readers(lambda x: 1 // x, numbers(5), 2, 4)())
    with pytest.raises(ValueError, match="process_num must be at least 1"):
        paddle.reader.xmap_readers(str, numbers(5), 0, 4)


def test_threads_end_with_the_loop():
    before = set(threading.enumerate())
    for make in (
        lambda: paddle.reader.buffered(numbers(10**9), 4),
        lambda: paddle.reader.xmap_readers(abs, numbers(10**9), 3, 4, True),
    ):
        for sample in make()():
            if sample == 5:
                break
    assert threads_end(before)


@pytest.mark.parametrize("use_pipe", [True, False])
def test_multiprocess(use_pipe):
    readers = [lambda: iter([(1, np.arange(3)), (2, np.arange(2))]), lambda: iter([(3, None)])]
    got = list(paddle.reader.multiprocess_reader(readers, use_pipe, 10)())
    assert sorted(sample[0] for sample in got) == [1, 2, 3]
    assert all(isinstance(sample, tuple) for sample in got)
    assert np.array_equal(next(sample[1] for sample in got if sample[0] == 1), [0, 1, 2])


@pytest.mark.parametrize("use_pipe", [True, False])
def test_multiprocess_errors(use_pipe):
    with pytest.raises(ValueError, match="(?s)reader 1 failed.*broken sample"):
        list(paddle.reader.multiprocess_reader([numbers(2), failing], use_pipe)())
    with pytest.raises(ValueError, match="(?s)reader 0 failed.*None as a sample"):
        list(paddle.reader.multiprocess_reader([lambda: iter([None])], use_pipe)())
    with pytest.raises(ValueError, match="reader 0 failed"):
        list(paddle.reader.multiprocess_reader([lambda: os._exit(3)], use_pipe)())


def test_multiprocess_wants_readers():
    with pytest.raises(ValueError, match="a list of at least one reader"):
        paddle.reader.multiprocess_reader([])


def test_pipe_reader(tmp_path):
    text = "".join(f"line {number} é\n" for number in range(1000)) + "no end"
    plain, packed = tmp_path / "plain", tmp_path / "two parts.gz"
    plain.write_text(text, encoding="utf-8")
    half = text.encode()
    packed.write_bytes(gzip.compress(half[:500]) + gzip.compress(half[500:]))
    assert list(paddle.reader.PipeReader(f"cat {plain}", bufsize=7).get_line()) == text.split("\n")
    lines = paddle.reader.PipeReader(f"cat '{packed}'", file_type="gzip").get_line()
    assert list(lines) == text.split("\n")
    assert "".join(paddle.reader.PipeReader(f"cat {plain}").get_line(cut_lines=False)) == text
    parsed = paddle.reader.pipe_reader(f"cat {plain}", lambda lines: [line.split()[0] for line in lines])
    assert list(parsed())[:2] == list(parsed())[:2] == ["line", "line"]


def test_pipe_reader_errors():
    with pytest.raises(RuntimeError, match="'false' ended with code 1"):
        list(paddle.reader.PipeReader("false").get_line())
    with pytest.raises(TypeError, match="file_type must be 'plain' or 'gzip', got 'zip'"):
        paddle.reader.PipeReader("true", file_type="zip")
    with pytest.raises(TypeError, match="command must be a string"):
        paddle.reader.PipeReader(["true"])
    endless = paddle.reader.PipeReader("yes")
    assert next(lines := endless.get_line()) == "y"
    lines.close()
    assert endless.process.poll() is not None


def test_creators(tmp_path):
    from paddle.reader import creator

    assert np.array_equal(list(creator.np_array(np.eye(2))()), np.eye(2))
    assert list(creator.np_array(np.array(3.0))()) == [3.0]
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    assert list(creator.text_file(str(tmp_path / "a.txt"))()) == ["one", "two"]
    with pytest.raises(RuntimeError, match="(?s)RecordIO.*cluster_files_reader"):
        creator.recordio("x-*")
    with pytest.raises(RuntimeError, match="(?s)cloud_reader.*cluster_files_reader"):
        creator.cloud_reader(["x"], "http://127.0.0.1:2379")


def test_star_import_gives_all_names():
    names = {}
    exec("from paddle.reader import *", names)
    assert set(paddle.reader.__all__) <= set(names)
    exec("from paddle.reader.decorator import *", names)
    assert names["xmap_readers"] is paddle.reader.xmap_readers
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        paddle.reader.nothing


def test_import_is_cheap():
    code = (
        "import sys, paddle.reader, paddle.dataset\n"
        "lazy = [m for m in sys.modules if m.startswith(('paddle.reader.', 'paddle.dataset.'))]\n"
        "assert not lazy, lazy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_compat():
    compat = paddle.compat
    assert compat.to_text([b"a", "b", None, 1.5]) == ["a", "b", None, 1.5]
    assert compat.to_text({b"k": b"v"}) == {"k": "v"}
    assert compat.to_bytes({"a", b"b"}) == {b"a", b"b"}
    assert compat.to_text("ü".encode("latin-1"), encoding="latin-1") == "ü"
    for change, source, want in (
        (compat.to_text, [b"a"], ["a"]),
        (compat.to_text, {b"a", b"b"}, {"a", "b"}),
        (compat.to_text, {b"a": 1}, {"a": 1}),
        (compat.to_bytes, ["a"], [b"a"]),
    ):
        assert change(source, inplace=True) is source and source == want
    with pytest.raises(TypeError, match="wants str or bytes, got int"):
        compat.to_bytes(3)
    assert [compat.round(x) for x in (0.5, 1.5, -0.5, -2.5)] == [1.0, 2.0, -1.0, -3.0]
    assert compat.round(1.25, 1) == 1.3
    assert compat.floor_division(7, 2) == 3
    assert compat.get_exception_message(ValueError("why")) == "why"
    assert compat.long_type is compat.int_type is int


def test_v2_names():
    import paddle.v2.dataset.common as v2_common
    import paddle.v2.dataset.mnist as v2_mnist
    from paddle.v2.reader.creator import np_array

    import paddle.dataset.common
    import paddle.v2.minibatch

    assert paddle.v2.batch is batch is paddle.v2.minibatch.batch
    assert paddle.v2.reader is paddle.reader
    assert paddle.v2.reader.shuffle is paddle.reader.shuffle
    assert np_array is paddle.reader.creator.np_array
    assert v2_common is paddle.dataset.common is paddle.v2.dataset.common
    assert v2_mnist is paddle.dataset.mnist and v2_mnist.__spec__.name == "paddle.dataset.mnist"
    assert paddle.v2.image is paddle.dataset.image
    with pytest.raises(
        AttributeError, match="paddle.v2.layer is not there yet. It belongs to the layer API of v2"
    ):
        paddle.v2.layer
    with pytest.raises(ModuleNotFoundError):
        import paddle.v2.dataset.nothing  # noqa: F401


def test_v2_is_found_first():
    code = (
        "import paddle.v2 as paddle\n"
        "import paddle.v2.dataset.uci_housing as uci\n"
        "assert list(paddle.batch(paddle.reader.firstn(lambda: range(9), 3), 2)()) == [[0, 1], [2]]\n"
        "assert paddle.dataset.uci_housing is uci\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("use_pipe", [True, False])
@pytest.mark.parametrize("ends", ["sys.exit(0)", "os._exit(0)"])
def test_a_forked_reader_that_ends_its_process_is_an_error(use_pipe, ends):
    import os  # noqa: F401
    import sys  # noqa: F401

    def reader():
        yield 1
        eval(ends)

    with pytest.raises(ValueError, match="reader 0 failed"):
        list(paddle.reader.multiprocess_reader([reader], use_pipe=use_pipe)())


def test_a_sample_with_too_few_fields_is_refused(fresh):
    import numpy as np

    import paddle.fluid as fluid

    fields = [fluid.data(name, [None, 1]) for name in "xy"]
    made = fluid.io.DataLoader.from_generator(feed_list=fields, capacity=2)
    made.set_sample_generator(lambda: iter([(np.zeros(1, "float32"),)]), batch_size=1, places=fluid.CPUPlace())
    with pytest.raises(ValueError, match="a sample has 1 fields, but feed_list names 2 variables: x, y"):
        list(made())
