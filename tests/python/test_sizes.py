"""Sizes that only running can tell: shapes computed by other ops, or fed as data."""
import numpy as np
import pytest

import paddle.fluid as fluid


def test_shapes_given_as_data_may_change_from_run_to_run():
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()):
        x = fluid.layers.data("x", [-1, 3], append_batch_size=False)
        n = fluid.layers.data("n", [2], dtype="int32", append_batch_size=False)
        like = fluid.layers.fill_constant(fluid.layers.shape(x), "float32", 2.0)
        made = fluid.layers.fill_constant(n, "float32", 1.0)
        folded = fluid.layers.reshape(x, shape=n)
        summed = fluid.layers.reduce_sum(folded * 2.0, dim=0)
        exe = fluid.Executor(fluid.CPUPlace())
        for rows, shape in ((2, (3, 2)), (2, (6, 1)), (4, (3, 4)), (4, (1, 12)), (2, (3, 2))):
            value = np.arange(rows * 3, dtype="float32").reshape(rows, 3)
            got = exe.run(feed={"x": value, "n": np.array(shape, "int32")}, fetch_list=[like, made, folded, summed])
            assert [v.shape for v in got] == [(rows, 3), shape, shape, shape[1:]]
            np.testing.assert_array_equal(got[3], 2 * value.reshape(shape).sum(0))


def test_sizes_whose_product_is_past_what_numbers_hold():
    """274177 * 67280421310721 is 2^64 + 1."""
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()):
        made = fluid.layers.fill_constant([274177, 67280421310721], "float32", 1.0)
        total = fluid.layers.reduce_sum(made, dim=1)
        with pytest.raises(fluid.core.EnforceNotMet,
                           match=r"would have shape \[274177, 67280421310721\], which is more than any memory holds"):
            fluid.Executor(fluid.CPUPlace()).run(fetch_list=[total])


LABELS = 256  # the Transformer of PaddlePaddle/models declares its labels as [batch_size * 256, 1] with batch_size = -1


def labelled_words(make):
    """A network whose inputs come from `make`; returns the loss and the prediction."""
    word = make("word", [-1 * LABELS, 1], "int64")
    label = make("label", [-1 * LABELS, 1], "int64")
    weight = make("weight", [-1 * LABELS, 1], "float32")
    hidden = fluid.layers.embedding(word, size=[7, 4], param_attr=fluid.ParamAttr(initializer=fluid.initializer.Constant(0.1)))
    predicted = fluid.layers.fc(fluid.layers.concat([hidden, weight], axis=1), 5, act="softmax")
    smooth = fluid.layers.label_smooth(fluid.layers.one_hot(label, depth=5), epsilon=0.1)
    cost = fluid.layers.cross_entropy(predicted, smooth, soft_label=True) * weight
    return fluid.layers.reduce_sum(cost) / fluid.layers.reduce_sum(weight), predicted


def labelled_batch(rows):
    rng = np.random.RandomState(rows)
    return {"word": rng.randint(7, size=(rows, 1)), "label": rng.randint(5, size=(rows, 1)),
            "weight": np.ones((rows, 1), "float32")}


def losses_of(make, rows=(6, 256, 1, 6)):
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()), fluid.unique_name.guard():
        fluid.default_startup_program().random_seed = 5
        loss, _ = labelled_words(make)
        fluid.optimizer.SGD(0.1).minimize(loss)
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(fluid.default_startup_program())
        return [exe.run(feed=labelled_batch(n), fetch_list=[loss])[0].item() for n in rows]


def old_data(name, shape, dtype):
    return fluid.layers.data(name, shape, dtype=dtype, append_batch_size=False)


def test_a_size_below_zero_is_any_size():
    usual = losses_of(lambda name, shape, dtype: old_data(name, [-1, 1], dtype))
    assert losses_of(old_data) == usual and usual[3] < usual[0]
    assert losses_of(fluid.data) == usual
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        x = fluid.data("x", [-4, 2])
        assert x.shape == (-4, 2) and fluid.layers.relu(x).shape == (-1, 2) and fluid.layers.data("y", [-4, 2]).shape == (-4, 2)
        with pytest.raises(fluid.core.EnforceNotMet, match=r"feed 'x': the Program declares shape \[-4, 2\], found \[4, 3\]"):
            fluid.Executor().run(feed={"x": np.ones((4, 3), "float32")}, fetch_list=[fluid.layers.relu(x)])
        with pytest.raises(ValueError, match=r"shape \(-4, 2\); it cannot be made again with shape \(-1, 2\)"):
            fluid.data("x", [-1, 2])


def test_readers_and_feeders_with_a_size_below_zero():
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()):
        x = fluid.data("x", [-3, 2])
        fed = fluid.DataFeeder([x], fluid.CPUPlace()).feed([([1, 2, 3, 4],), ([5, 6, 7, 8],), ([9, 10, 11, 12],)])["x"]
        assert fed.shape() == [3, 4]  # as many dimensions as declared: taken as it is
        fed = fluid.DataFeeder([x], fluid.CPUPlace()).feed([(1,), (2,), (3,), (4,)])["x"]
        assert np.array(fed).tolist() == [[1, 2], [3, 4]]
        reader = fluid.layers.py_reader(4, [[-1 * LABELS, 2]], ["float32"], use_double_buffer=False)
        total = fluid.layers.reduce_sum(fluid.layers.read_file(reader))
        reader.decorate_tensor_provider(lambda: iter([[np.ones((rows, 2), "float32")] for rows in (3, 256)]))
        reader.start()
        assert [fluid.Executor().run(fetch_list=[total])[0].item() for _ in range(2)] == [6, 512]


def test_files_keep_a_size_below_zero(tmp_path):
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()):
        _, predicted = labelled_words(fluid.data)
        inner = fluid.default_main_program().global_block().create_var(name="inner", shape=[-512, 5], dtype="float32")
        fluid.default_main_program().global_block().append_op("relu", {"X": [predicted]}, {"Out": [inner]})
        assert inner.shape == (-512, 5)
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(fluid.default_startup_program())
        fluid.io.save_inference_model(str(tmp_path), ["word", "weight"], [inner], exe)
        batch = labelled_batch(3)
        expected, = exe.run(feed=batch, fetch_list=[inner])
    with fluid.scope_guard(fluid.Scope()):
        program, feeds, fetches = fluid.io.load_inference_model(str(tmp_path), exe)
        assert [program.global_block().var(name).shape for name in (*feeds, "inner")] == [(-256, 1), (-256, 1), (-512, 5)]
        found, = exe.run(program, feed={name: batch[name] for name in feeds}, fetch_list=fetches)
    np.testing.assert_array_equal(found, expected)


class Kept:
    """A variable that lives on from run to run, w, and a batch x of any number of rows."""

    def __init__(self):
        self.main, self.startup, self.scope = fluid.Program(), fluid.Program(), fluid.Scope()
        self.exe = fluid.Executor(fluid.CPUPlace())

    def __enter__(self) -> "Kept":
        self.guards = [fluid.program_guard(self.main, self.startup), fluid.scope_guard(self.scope)]
        for guard in self.guards:
            guard.__enter__()
        self.w = fluid.layers.create_global_var([2, 3], 1.0, "float32", persistable=True, name="w")
        self.x = fluid.data("x", [-1, 3], "float32")
        return self

    def __exit__(self, *how) -> None:
        for guard in reversed(self.guards):
            guard.__exit__(*how)

    def value(self) -> np.ndarray:
        return np.array(self.scope.find_var("w").get_tensor())

    def runs(self, fetches):
        """For each batch: it, what w was before, what was fetched."""
        self.exe.run(self.startup)
        for rows in (2, 7, 2, 20000, 1, 3):
            x, before = np.full((rows, 3), rows, "float32"), self.value()
            yield x, before, self.exe.run(self.main, feed={"x": x}, fetch_list=fetches)


def test_a_kept_variable_is_read_and_then_overwritten_with_another_size():
    """A memory of the last batch. What reads it before sees it as it was."""
    with Kept() as kept:
        total, copy = fluid.layers.reduce_sum(kept.w), fluid.layers.scale(kept.w, 2.0)
        fluid.layers.assign(kept.x, output=kept.w)
        for x, before, (found, twice) in kept.runs([total, copy]):
            np.testing.assert_array_equal(found, [before.sum()])
            np.testing.assert_array_equal(twice, 2 * before)
            np.testing.assert_array_equal(kept.value(), x)


def test_a_kept_variable_is_changed_in_place_and_then_overwritten_with_another_size():
    with Kept() as kept:
        kept.main.global_block().append_op(type="scale", inputs={"X": [kept.w]}, outputs={"Out": [kept.w]}, attrs={"scale": 0.5})
        copy = fluid.layers.scale(kept.w, 1.0)
        fluid.layers.assign(kept.x, output=kept.w)
        for x, before, (half,) in kept.runs([copy]):
            np.testing.assert_array_equal(half, before / 2)
            np.testing.assert_array_equal(kept.value(), x)


def test_a_queue_of_the_last_rows_in_training():
    """As with the same rows as a feed."""
    losses = {}
    for way in ("kept", "fed"):
        with Kept() as kept:
            rows = kept.w if way == "kept" else fluid.data("rows", [-1, 3], "float32")
            both = fluid.layers.concat([rows, kept.x], axis=0)
            hidden = fluid.layers.fc(both, 2, param_attr=fluid.initializer.Constant(0.5))
            loss = fluid.layers.mean(fluid.layers.square(hidden))
            fluid.optimizer.SGD(0.01).minimize(loss)
            last = fluid.layers.slice(both, [0], [-4], [1000])
            if way == "kept":
                fluid.layers.assign(last, output=kept.w)
            kept.exe.run(kept.startup)
            queue, losses[way] = np.ones((2, 3), "float32"), []
            for n in (2, 1, 3, 5):
                feed = {"x": np.full((n, 3), n, "float32")} | ({} if way == "kept" else {"rows": queue})
                found, queue = kept.exe.run(kept.main, feed=feed, fetch_list=[loss, last])
                losses[way].append(found[0])
    np.testing.assert_allclose(losses["kept"], losses["fed"], rtol=1e-6)


BY_DATA = {
    "where": lambda x: fluid.layers.gather_nd(x, fluid.layers.where(x > 0.0)),
    "slice": lambda x: fluid.layers.slice(x, [0], fluid.layers.fill_constant([1], "int32", 0),
                                          fluid.layers.fill_constant([1], "int32", 10000)),
    "unique": lambda x: fluid.layers.cast(fluid.layers.unique(fluid.layers.cast(fluid.layers.reshape(x, [-1]),
                                                                                "int64"))[0], "float32"),
}


@pytest.mark.parametrize("kind", BY_DATA)
def test_a_kept_variable_gets_a_size_that_only_data_tell(kind):
    """And is read before and behind that."""
    with Kept() as kept:
        before = fluid.layers.reduce_sum(kept.w)
        chosen = BY_DATA[kind](kept.x)
        fluid.layers.assign(chosen, output=kept.w)
        behind = fluid.layers.scale(kept.w, 1.0)
        for _, was, (total, made, copy) in kept.runs([before, chosen, behind]):
            np.testing.assert_array_equal(total, [was.sum()])
            np.testing.assert_array_equal(copy, made)
            np.testing.assert_array_equal(kept.value(), made)


@pytest.mark.parametrize("reads", [False, True], ids=["written only", "read before"])
def test_a_run_that_is_refused_leaves_what_lives_on(tmp_path, reads):
    with Kept() as kept:
        y = fluid.data("y", [-1, 3], "float32")
        if reads:
            fluid.layers.reduce_sum(kept.w)
        fluid.layers.assign(kept.x, output=kept.w)
        total = fluid.layers.elementwise_add(kept.x, y)
        kept.exe.run(kept.startup)
        ones = np.ones((50000, 3), "float32")
        for _ in range(2):
            with pytest.raises(fluid.core.EnforceNotMet, match="elementwise_add"):
                kept.exe.run(kept.main, feed={"x": ones, "y": ones[:2]}, fetch_list=[total])
            assert kept.value().shape in ((2, 3), (50000, 3)) and (kept.value() == 1).all()
        fluid.io.save_vars(kept.exe, str(tmp_path), kept.main, vars=[kept.w])
        assert (tmp_path / "w").stat().st_size < kept.value().nbytes + 100


def test_a_lod_that_does_not_fit_is_refused_by_name():
    """One that was put into the scope, over more rows than there are."""
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()):
        block = fluid.default_main_program().global_block()
        kept = block.create_var(name="kept", shape=[4, 3], dtype="float32", persistable=True, lod_level=1)
        out = fluid.layers.sequence_expand(kept, kept)
        tensor = fluid.global_scope().var("kept").get_tensor()
        tensor.set(np.ones((4, 3), "float32"), fluid.CPUPlace())
        for lod in ([0, 2, 9], [0, 2, 3]):
            tensor.set_lod([lod])
            with pytest.raises(fluid.core.EnforceNotMet,
                               match=f"variable 'kept': its LoD covers {lod[-1]} rows, but it has shape \\[4, 3\\]"):
                fluid.Executor(fluid.CPUPlace()).run(fetch_list=[out])


def several(what):
    """A run that is given [2, 3] where it needs one number."""
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()):
        n = fluid.data("n", [2], "int64")
        x = fluid.layers.reshape(fluid.layers.range(0.0, 12.0, 1.0, "float32"), [4, 3])
        return fluid.Executor().run(feed={"n": np.array([2, 3])}, fetch_list=[what(fluid.layers, x, n)])[0]


@pytest.mark.parametrize("name, what", {
    "number 0 of shape": lambda layers, x, n: layers.fill_constant([n], "float32", 1.0),
    "number 1 of shape": lambda layers, x, n: layers.fill_constant([2, n], "float32", 1.0),
    "number 0 of ": lambda layers, x, n: layers.reshape(x, [n, -1]),
    "number 1 of ": lambda layers, x, n: layers.expand(x, [1, n]),
    "number 0 of shape: drawn": lambda layers, x, n: layers.uniform_random([n, 2]),
    "number 0 of shape: cropped": lambda layers, x, n: layers.crop_tensor(x, [n, 2], [0, 0]),
    "number 0 of sections": lambda layers, x, n: layers.split(x, [n, -1], 0)[0],
    "number 0 of starts": lambda layers, x, n: layers.slice(x, [0], [n], [4]),
    "number 0 of ends": lambda layers, x, n: layers.slice(x, [0], [0], [n]),
    "number 0 of axes": lambda layers, x, n: layers.unsqueeze(x, [n]),
    "number 1 of SizeTensor": lambda layers, x, n: layers.image_resize(layers.reshape(x, [1, 1, 4, 3]), [2, n]),
    "Num": lambda layers, x, n: layers.linspace(0.0, 1.0, layers.cast(n, "int32"), "float32"),
    "End": lambda layers, x, n: layers.range(0, n, 1, "int64"),
    "I": lambda layers, x, n: layers.array_length(layers.array_write(x, n)),
    "I: read": lambda layers, x, n: layers.array_read(layers.array_write(x, layers.zeros([1], "int64")), n),
    "FactorTensor": lambda layers, x, n: layers.pow(x, layers.cast(n, "float32")),
}.items())  # fmt: skip
def test_several_numbers_where_one_is_due(name, what):
    said = rf"{name.split(':')[0]}.* shape \[2\]; it must hold one number \[op .*[=+][a-z_0-9.]+ \[2\]"
    with pytest.raises(fluid.core.EnforceNotMet, match=said):
        several(what)


def test_several_numbers_where_1_8_5_takes_the_first():
    assert several(lambda layers, x, n: layers.topk(x, layers.cast(n, "int32"))[0]).shape == (4, 2)
    assert several(lambda layers, x, n: layers.concat([x, x], n - 1)).shape == (4, 6)
    assert several(lambda layers, x, n: layers.sequence_mask(n, maxlen=n)).shape == (2, 2)
    assert several(lambda layers, x, n: layers.split(x, 3, layers.cast(n - 1, "int32"))[0]).shape == (4, 1)
