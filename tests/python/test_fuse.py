"""Fused plans: the rules fire where they may and only there; results are those of the Program op by op."""

import numpy as np
import pytest

import paddle.fluid as fluid
from paddle import _core
from paddle.fluid import layers

KINDS = ("float32", "float64")


class Flags:
    """Sets flags for the time of a block."""

    def __init__(self, **flags):
        self.flags = {f"FLAGS_{name}": value for name, value in flags.items()}

    def __enter__(self):
        self.before = fluid.get_flags(list(self.flags))
        fluid.set_flags(self.flags)

    def __exit__(self, *_):
        fluid.set_flags(self.before)


def ops_of(run):
    """What `run` gives, and how often each op ran in it."""
    _core.profiler_reset()
    _core.profiler_start()
    try:
        result = run()
    finally:
        _core.profiler_stop()
    rows = [line.split() for line in _core.profiler_report("total").splitlines()[1:] if line.strip()]
    return result, {row[0]: int(row[1]) for row in rows}


class Case:
    """A Program that `build` makes, returning what to fetch; it runs with or without fusion.

    Parameters have a learning rate of their own, computed after the gradients, unless `early` is set: so sgd
    is not fused with the products, which round in another way."""

    def __init__(self, build, optimizer=None, seed=7, early=False):
        self.main, self.startup = fluid.Program(), fluid.Program()
        self.main.random_seed = self.startup.random_seed = seed
        with fluid.program_guard(self.main, self.startup), fluid.unique_name.guard():
            self.fetches = build()
            if optimizer:
                for param in self.main.all_parameters():
                    param.optimize_attr["learning_rate"] = 1.0 if early else 0.5
                optimizer().minimize(self.fetches[0])

    def run(self, feed, fuse, threads=1, steps=2, extra=()):
        """What the last step fetched, all persistable variables afterwards, and the counts of ops."""
        scope, exe = fluid.Scope(), fluid.Executor(fluid.CPUPlace())
        with Flags(fuse_ops=fuse, paddle_num_threads=threads, cpu_deterministic=1):
            exe.run(self.startup, scope=scope)
            fetch = list(self.fetches) + list(extra)

            def step():
                return exe.run(self.main, feed=feed, fetch_list=fetch, scope=scope, return_numpy=False)
            results, ops = ops_of(lambda: [step() for _ in range(steps)][-1])
        params = {v.name: np.array(scope.find_var(v.name).get_tensor()) for v in self.main.list_vars()
                  if v.persistable and scope.find_var(v.name) is not None}
        return results, params, ops

    def same(self, feed, fused=(), not_fused=(), threads=(1, 2), **kwargs):
        """Runs both ways and compares, bit by bit; `fused` names ops that must run in the plan."""
        for count in threads:
            plain, plain_params, plain_ops = self.run(feed, 0, count, **kwargs)
            joined, params, ops = self.run(feed, 1, count, **kwargs)
            assert not [op for op in plain_ops if op.startswith("fused_")]
            for op in fused:
                assert op in ops, sorted(ops)
            for op in not_fused:
                assert op not in ops, sorted(ops)
            for a, b in zip(plain, joined):
                equal(a, b)
            assert plain_params.keys() == params.keys()
            for name in params:
                np.testing.assert_array_equal(plain_params[name], params[name], err_msg=name)
        return ops


def equal(a, b):
    assert type(a) is type(b)
    if hasattr(a, "rows"):
        assert list(a.rows()) == list(b.rows()) and a.height() == b.height()
        a, b = a.get_tensor(), b.get_tensor()
    else:
        assert a.lod() == b.lod()
    assert np.array(a).dtype == np.array(b).dtype
    np.testing.assert_array_equal(np.array(a), np.array(b))


def sgd():
    return fluid.optimizer.SGD(0.01)


rng = np.random.RandomState(3)


def lod(lengths, high, dtype="int64"):
    ids = rng.randint(0, high, (sum(lengths), 1)).astype(dtype)
    return fluid.create_lod_tensor(ids, [list(lengths)], fluid.CPUPlace())


# ---- sums of rows ----

@pytest.mark.parametrize("fuse", [0, 1])
@pytest.mark.parametrize("fetched", [False, True])
def test_rows_are_merged_only_where_someone_sees_them(fuse, fetched):
    """Two lookups name row 2. Each change of 4e-8 is too small for a 1.0 in float32, their sum is not."""
    def build():
        one = fluid.ParamAttr(name="table", initializer=fluid.initializer.Constant(1.0))
        rows = [layers.embedding(layers.data(f"id{i}", [1], dtype="int64"), [5, 3], is_sparse=True, param_attr=one)
                for i in range(2)]
        return [layers.reduce_sum(layers.scale(layers.elementwise_add(*rows), -4e-8))]
    case = Case(build, lambda: fluid.optimizer.SGD(1.0), early=True)
    feed = {f"id{i}": np.array([[2]], "int64") for i in range(2)}
    results, params, _ = case.run(feed, fuse, steps=1, extra=["table@GRAD"] if fetched else [])
    assert (params["table"][2] != 1).all() == fetched
    if fetched:
        assert list(results[1].rows()) == [2]


# ---- a sum and its activation ----

def activated(act, kind, width, size):
    def build():
        x = layers.data("x", [width], dtype=kind)
        out = layers.fc(x, size, act=act)
        return [layers.reduce_sum(layers.square(out)), out]
    return build


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("act", ["relu", "tanh", "sigmoid"])
@pytest.mark.parametrize("rows, size", [(1, 1), (5, 3), (1, 17), (9, 1), (301, 513), (257, 130), (3, 5001),
                                        (0, 4)])
def test_add_act(act, kind, rows, size):
    feed = {"x": rng.randn(rows, 6).astype(kind)}
    Case(activated(act, kind, 6, size), sgd).same(feed, ["fused_add_act", "fused_add_act_grad"], [act])


@pytest.mark.parametrize("kind", KINDS)
def test_add_act_of_channels(kind):
    """A bias in the middle: axis 1 of images."""
    def build():
        x = layers.data("x", [2, 7, 5], dtype=kind)
        out = layers.conv2d(x, 3, 3, act="relu")
        return [layers.reduce_sum(out), out]
    Case(build, sgd).same({"x": rng.randn(4, 2, 7, 5).astype(kind)}, ["fused_add_act", "fused_add_act_grad"])


def test_add_act_of_two_tensors():
    """A sum of two equal shapes is fused forward; its gradient has no bias."""
    def build():
        x = layers.data("x", [6])
        out = layers.relu(layers.elementwise_add(layers.fc(x, 4), layers.fc(x, 4)))
        return [layers.reduce_sum(out), out]
    Case(build, sgd).same({"x": rng.randn(5, 6).astype("float32")}, ["fused_add_act"], ["fused_add_act_grad"])


def test_repeated_first_operand():
    def build():
        x, y = layers.data("x", [1]), layers.data("y", [4])
        return [layers.relu(layers.elementwise_add(layers.scale(x, 2.0), y))]
    feed = {"x": rng.randn(5, 1).astype("float32"), "y": rng.randn(5, 4).astype("float32")}
    Case(build).same(feed, ["fused_add_act"])


def test_bias_gradient_does_not_depend_on_threads():
    def build():
        x = layers.data("x", [300])
        x.stop_gradient = False
        bias = layers.create_parameter([300], "float32", name="b")
        out = layers.relu(layers.elementwise_add(x, bias, axis=1))
        return [layers.reduce_sum(layers.square(out))]
    case = Case(build, sgd)
    feed = {"x": rng.randn(2000, 300).astype("float32")}
    one, two = (case.run(feed, 1, threads, extra=["b@GRAD"]) for threads in (1, 2))
    assert "fused_add_act_grad" in one[2]
    for a, b in zip(one[0], two[0]):
        equal(a, b)


def test_sum_that_is_needed_stays():
    feed = {"x": rng.randn(5, 6).astype("float32")}

    def build(use):
        def inner():
            x = layers.data("x", [6])
            middle = layers.fc(x, 4)
            out = layers.relu(middle)
            return [layers.reduce_sum(out), *use(middle)]
        return inner
    names = ["fused_add_act"]
    Case(build(lambda middle: [])).same(feed, names)
    Case(build(lambda middle: [middle])).same(feed, [], names)  # fetched
    Case(build(lambda middle: [layers.reduce_sum(middle)])).same(feed, [], names)  # used twice

    def kept(middle):
        middle.persistable = True
        return []
    Case(build(kept)).same(feed, [], names)
    case = Case(build(lambda middle: []), sgd)
    grad = next(op for op in case.main.global_block().ops if op.type == "relu_grad").output("X@GRAD")
    case.same(feed, names, ["fused_add_act_grad"], extra=grad)


def test_blocks_keep_their_ops_and_variables():
    """What a while block reads stays, and the block itself runs op by op."""
    def build():
        x = layers.data("x", [4])
        middle = layers.fc(x, 4)
        out = layers.relu(middle)
        i = layers.fill_constant([1], "int64", 0)
        limit = layers.fill_constant([1], "int64", 3)
        total = layers.fill_constant([1], "float32", 0)
        cond = layers.less_than(i, limit)
        loop = layers.While(cond)
        with loop.block():
            inside = layers.relu(layers.elementwise_add(middle, layers.scale(out, 0.5)))
            layers.assign(layers.elementwise_add(total, layers.reduce_sum(inside)), total)
            layers.increment(i)
            layers.less_than(i, limit, cond=cond)
        return [total]
    Case(build).same({"x": rng.randn(5, 4).astype("float32")}, [], ["fused_add_act"])


# ---- cross entropy and softmax ----

def classified(kind, classes, entropy, **attrs):
    def build():
        x, label = layers.data("x", [6], dtype=kind), layers.data("label", [1], dtype="int64")
        p = layers.fc(x, classes, act="softmax")
        if entropy == "cross_entropy2":
            loss = layers.cross_entropy(p, label, **attrs)
        else:
            block = fluid.default_main_program().global_block()
            loss = block.create_var(name="loss", dtype=kind)
            block.append_op(type="cross_entropy", inputs={"X": p, "Label": label}, outputs={"Y": loss},
                            attrs=attrs)
        return [layers.reduce_sum(loss), p]
    return build


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("entropy", ["cross_entropy", "cross_entropy2"])
@pytest.mark.parametrize("rows, classes", [(1, 1), (5, 2), (33, 1000), (0, 3)])
def test_entropy(kind, entropy, rows, classes):
    feed = {"x": rng.randn(rows, 6).astype(kind), "label": rng.randint(0, classes, (rows, 1))}
    Case(classified(kind, classes, entropy), sgd).same(feed, ["fused_entropy_softmax_grad"], ["softmax_grad"])


@pytest.mark.parametrize("entropy", ["cross_entropy", "cross_entropy2"])
def test_entropy_ignores_labels_and_takes_sure_ones(entropy):
    case = Case(classified("float32", 4, entropy, ignore_index=-1), sgd)
    feed = {"x": rng.randn(6, 6).astype("float32"), "label": np.array([[0], [-1], [3], [-1], [2], [1]])}
    case.same(feed, ["fused_entropy_softmax_grad"])
    feed["x"] *= 50  # probabilities of nearly 1 and of nearly 0
    case.same(feed, ["fused_entropy_softmax_grad"])


def test_entropy_stays():
    feed = {"x": rng.randn(5, 6).astype("float32"), "label": rng.randint(0, 3, (5, 1))}
    case = Case(classified("float32", 3, "cross_entropy2"), sgd)
    grad = next(op for op in case.main.global_block().ops if op.type == "softmax_grad").input("Out@GRAD")
    case.same(feed, [], ["fused_entropy_softmax_grad"], extra=grad)

    def soft():
        x = layers.data("x", [6])
        label = layers.softmax(layers.data("y", [3]))
        p = layers.fc(x, 3, act="softmax")
        return [layers.reduce_sum(layers.cross_entropy(p, label, soft_label=True))]
    soft_feed = {"x": feed["x"], "y": rng.randn(5, 3).astype("float32")}
    Case(soft, sgd).same(soft_feed, [], ["fused_entropy_softmax_grad"])

    def twice():
        x, label = layers.data("x", [6]), layers.data("label", [1], dtype="int64")
        p = layers.fc(x, 3, act="softmax")
        return [layers.reduce_sum(layers.cross_entropy(p, label)) + layers.reduce_sum(layers.square(p))]
    Case(twice, sgd).same(feed, [], ["fused_entropy_softmax_grad"])


# ---- embeddings ----

EMBED = ["fused_embedding_concat", "fused_embedding_concat_grad"]
ALONE = ["lookup_table", "lookup_table_v2", "sequence_pool", "concat", "lookup_table_grad",
         "lookup_table_v2_grad", "sequence_pool_grad", "concat_grad"]


def wide(kind="float32", tables=("a", "a", "b", "c"), width=8, pool="sum", dense=True, sparse=True,
         padding=None, tail=None, **more):
    """Sequences through tables, pooled, beside a dense input and a layer of it."""
    def build():
        parts = []
        for i, table in enumerate(tables):
            ids = layers.data(f"id{i}", [1], dtype="int64", lod_level=1)
            rows = layers.embedding(ids, [50, width], is_sparse=sparse, padding_idx=padding, param_attr=table,
                                    dtype=kind)
            parts.append(layers.sequence_pool(rows, pool, **more))
        if dense:
            x = layers.data("x", [5], dtype=kind)
            parts[1:1] = [x, layers.fc(x, 3)]
        both = layers.concat(parts, axis=1)
        extra = tail(parts) if tail else []
        return [layers.reduce_sum(layers.square(layers.fc(both, 4))), both, *extra]
    return build


def wide_feed(kind="float32", rows=6, n=4, empty=True, dense=True):
    def length(i, r):
        return 0 if empty and (r + i) % 3 == 0 else 1 + (r * i) % 4
    feed = {f"id{i}": lod([length(i, r) for r in range(rows)], 50) for i in range(n)}
    if dense:
        feed["x"] = rng.randn(rows, 5).astype(kind)
    return feed


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", [1, 7, 8, 10, 16, 32])
def test_embedding(kind, width):
    case = Case(wide(kind, width=width), sgd)
    ops = case.same(wide_feed(kind), [*EMBED, "fused_embedding_concat_x_grad"], ALONE)
    assert ops["fused_embedding_concat"] == ops["fused_embedding_concat_grad"] == 2


@pytest.mark.parametrize("optimizer", [sgd, lambda: fluid.optimizer.Adam(0.1),
                                       lambda: fluid.optimizer.Momentum(0.1, 0.9)])
@pytest.mark.parametrize("rows", [1, 70, 700])
def test_embedding_updates(optimizer, rows):
    Case(wide(), optimizer).same(wide_feed(rows=rows), EMBED, ["sum", "lookup_table_grad"])


def test_embedding_gradients_as_rows():
    """Fetched gradients have the rows that the sum gives: merged, or as they come for a single lookup."""
    names = ["a@GRAD", "b@GRAD", "c@GRAD"]
    Case(wide(), sgd).same(wide_feed(), EMBED, ALONE, extra=names)
    feed = wide_feed()
    feed["id1"] = lod([0] * 6, 50)  # one of the two lookups of a table has no rows at all
    Case(wide(), sgd).same(feed, EMBED, ALONE, extra=names)
    feed["id0"] = lod([0] * 6, 50)
    Case(wide(), sgd).same(feed, EMBED, ALONE, extra=names)


@pytest.mark.parametrize("padding", [0, 3, -1])
def test_embedding_padding(padding):
    Case(wide(padding=padding, pad_value=1.5), sgd).same(wide_feed(rows=40), EMBED, ALONE)


def test_embedding_without_rows():
    Case(wide(), sgd).same(wide_feed(rows=0), EMBED, ALONE)


def test_embedding_of_two_levels():
    """The outer level of the first input is that of the output."""
    feed = wide_feed(rows=5, dense=False)
    inner = feed["id0"]
    lengths = [[2, 3], inner.recursive_sequence_lengths()[0]]
    feed["id0"] = fluid.create_lod_tensor(np.array(inner), lengths, fluid.CPUPlace())
    Case(wide(dense=False), sgd).same(feed, EMBED, ALONE)


def plain_rows(version, kind="float32", ids_kind="int64", sparse=True):
    """One id for each row, no pooling."""
    def build():
        embedding = layers.embedding if version == 1 else fluid.embedding
        shape = [1] if version == 1 else []
        ids = [layers.data(f"w{i}", [-1, *shape], dtype=ids_kind, append_batch_size=False) for i in range(4)]
        rows = [embedding(i, [30, 6], is_sparse=sparse, param_attr="t", dtype=kind) for i in ids]
        both = layers.concat(rows, axis=1)
        return [layers.reduce_sum(layers.square(layers.fc(both, 4))), both]
    return build


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("version, ids_kind", [(1, "int64"), (2, "int64"), (1, "int32"), (2, "int32")])
def test_embedding_of_single_ids(version, kind, ids_kind):
    feed = {f"w{i}": rng.randint(0, 30, (9, 1) if version == 1 else (9,)).astype(ids_kind) for i in range(4)}
    Case(plain_rows(version, kind, ids_kind), sgd).same(feed, EMBED, ALONE)


def test_embedding_in_a_test_program():
    case = Case(wide())
    case.main = case.main.clone(for_test=True)
    case.same(wide_feed(), EMBED[:1], ALONE)


def test_table_that_is_used_elsewhere():
    """Its other gradients are added to those of the group."""
    def tail(parts):
        ids = layers.data("more", [1], dtype="int64", lod_level=1)
        rows = layers.embedding(ids, [50, 8], is_sparse=True, param_attr="a")
        return [layers.reduce_sum(layers.sequence_pool(rows, "sum"))]

    def build():
        loss, both, other = wide(tail=tail)()
        return [loss + other, both]
    Case(build, sgd).same({**wide_feed(), "more": lod([2, 3], 50)}, [*EMBED, "sum"])


def test_table_without_gradient():
    still = fluid.ParamAttr(name="still", trainable=False)
    Case(wide(tables=("a", still, "b", still)), sgd).same(wide_feed(), EMBED, ALONE)
    Case(wide(tables=(still, still)), sgd).same(
        wide_feed(n=2), ["fused_embedding_concat", "fused_embedding_concat_x_grad"], [*EMBED[1:], *ALONE])


def test_embeddings_that_stay():
    group = EMBED[:1]
    Case(wide(pool="average"), sgd).same(wide_feed(), [], group)
    Case(wide(sparse=False), sgd).same(wide_feed(), [], group)
    # One of them is fetched, read twice, or pooled otherwise: it stays, the others go.
    Case(wide(tail=lambda parts: parts[:1]), sgd).same(wide_feed(), [*EMBED, "sequence_pool"])
    twice = wide(tail=lambda parts: [layers.reduce_sum(parts[0])])
    Case(twice, sgd).same(wide_feed(), [*EMBED, "sequence_pool"])
    case = Case(wide(), sgd)
    first = next(op for op in case.main.global_block().ops if op.type == "sequence_pool").input("X")
    ops = case.same(wide_feed(), [*EMBED, "sequence_pool"], extra=first)
    assert ops["sequence_pool"] == ops["lookup_table"] == 2

    def along_rows():
        ids = [layers.data(f"w{i}", [1], dtype="int64") for i in range(2)]
        rows = [layers.embedding(i, [30, 6], is_sparse=True, param_attr="t") for i in ids]
        return [layers.reduce_sum(layers.concat(rows, axis=0))]
    Case(along_rows, sgd).same({f"w{i}": rng.randint(0, 30, (5, 1)) for i in range(2)}, [], group)


# ---- errors, flags ----

def test_errors_name_the_ops_of_the_program():
    case = Case(wide(), sgd)
    exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()
    exe.run(case.startup, scope=scope)
    feed = wide_feed(empty=False)

    def message(**change):
        with pytest.raises(Exception) as error:
            exe.run(case.main, feed={**feed, **change}, fetch_list=case.fetches, scope=scope)
        return str(error.value)
    found = {}
    for fuse in (0, 1):
        with Flags(fuse_ops=fuse):
            too_high = fluid.create_lod_tensor(np.full((6, 1), 50), [[1] * 6], fluid.CPUPlace())
            found[fuse] = [message(id1=too_high), message(id3=np.zeros((6, 1), "int64")),
                           message(id3=lod([1] * 7, 50)),
                           message(x=np.zeros((4, 5), "float32"))]
    assert found[0] == found[1]
    named = [["id 50 ", "op lookup_table", "id1"], ["op sequence_pool"], ["op concat"], ["op concat"]]
    for text, words in zip(found[1], named):
        assert all(word in text for word in words), text


def test_label_errors_are_the_same():
    case = Case(classified("float32", 3, "cross_entropy2"), sgd)
    exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()
    exe.run(case.startup, scope=scope)
    found = []
    for fuse in (0, 1):
        with Flags(fuse_ops=fuse), pytest.raises(Exception) as error:
            exe.run(case.main, feed={"x": np.zeros((2, 6), "float32"), "label": np.array([[0], [3]])},
                    fetch_list=case.fetches, scope=scope)
        found.append(str(error.value))
    assert found[0] == found[1] and "op cross_entropy2" in found[0]


# ---- a bias and softmax ----

def biased(kind, size, **softmax):
    def build():
        x = layers.data("x", [6], dtype=kind)
        bias = layers.create_parameter([size], kind, default_initializer=fluid.initializer.Normal(seed=3))
        shifted = layers.elementwise_add(layers.fc(x, size, bias_attr=False), bias)
        out = layers.softmax(shifted, **softmax)
        return [layers.reduce_sum(layers.square(out)), out, shifted]
    return build


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows, size", [(1, 1), (5, 3), (9, 17), (301, 513), (3, 5001), (0, 4)])
def test_bias_and_softmax(kind, rows, size):
    feed = {"x": rng.randn(rows, 6).astype(kind)}
    Case(lambda: biased(kind, size)()[:2], sgd).same(feed, ["fused_add_softmax"], ["softmax"])


def test_bias_and_softmax_stay_apart():
    """The sum is fetched; the softmax goes over another axis; what is added is no bias."""
    feed = {"x": rng.randn(5, 6).astype("float32")}
    Case(biased("float32", 4), sgd).same(feed, [], ["fused_add_softmax"])
    Case(lambda: biased("float32", 4, axis=0)()[:2], sgd).same(feed, ["softmax"], ["fused_add_softmax"])

    def two():
        x = layers.data("x", [6])
        return [layers.reduce_sum(layers.softmax(layers.elementwise_add(layers.fc(x, 4), layers.fc(x, 4))))]
    Case(two, sgd).same(feed, ["softmax"], ["fused_add_softmax"])


# ---- a product's gradient and sgd ----

def two_layers(kind, size=4, inputs=6):
    def build():
        x = layers.data("x", [inputs], dtype=kind)
        hidden = layers.fc(x, 5, act="tanh", param_attr="first")
        out = layers.fc(hidden, size, param_attr="second")
        return [layers.scale(layers.reduce_sum(layers.square(out)), 0.01), out]
    return build


def fused_sgd(build, feed, optimizer=sgd, extra=(), count=2):
    """Runs three steps both ways; `count` products take their sgd along. Gives the parameters."""
    case = Case(build, optimizer, early=True)
    for threads in (1, 2):
        plain, plain_params, _ = case.run(feed, 0, threads, steps=3, extra=extra)
        joined, params, ops = case.run(feed, 1, threads, steps=3, extra=extra)
        assert ops.get("fused_mul_grad_sgd", 0) == 3 * count, ops
        for a, b in zip(plain, joined):
            near(np.array(b), np.array(a))
        for name in params:
            near(params[name], plain_params[name])
    return params


def near(a, b):
    np.testing.assert_allclose(a, b, *((1e-12, 1e-13) if a.dtype == np.float64 else (1e-5, 2e-7)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows, size", [(1, 1), (7, 3), (0, 4), (300, 2), (130, 257)])
def test_mul_sgd(kind, rows, size):
    feed = {"x": rng.randn(rows, 200).astype(kind)}
    fused_sgd(two_layers(kind, size, inputs=200), feed)


def test_mul_sgd_moves_the_parameters():
    feed = {"x": rng.randn(5, 6).astype("float32")}
    before = Case(two_layers("float32"), sgd, early=True).run(feed, 1, steps=1)[1]
    after = fused_sgd(two_layers("float32"), feed)
    assert all((before[name] != after[name]).any() for name in ("first", "second"))


def test_mul_sgd_of_matrices_with_more_dimensions():
    def build():
        x = layers.data("x", [3, 4])
        return [layers.mean(layers.square(layers.fc(layers.fc(x, 5, num_flatten_dims=2), 2)))]
    fused_sgd(build, {"x": rng.randn(6, 3, 4).astype("float32")})


def test_mul_sgd_leaves_gradients_that_others_want():
    feed = {"x": rng.randn(5, 6).astype("float32")}
    fused_sgd(two_layers("float32"), feed, extra=["second@GRAD"], count=1)
    for other in (lambda: fluid.optimizer.SGD(0.01, regularization=fluid.regularizer.L2Decay(0.1)),
                  lambda: fluid.optimizer.Momentum(0.01, 0.9)):
        fused_sgd(two_layers("float32"), feed, other, count=0)


def test_mul_sgd_leaves_parameters_that_are_used_again():
    """Tied weights: the gradients are summed. And a parameter that is read after its gradient is known."""
    def tied():
        x = layers.data("x", [6])
        hidden = layers.fc(layers.fc(x, 6, param_attr="w"), 6, param_attr="w")
        return [layers.mean(layers.square(hidden))]
    feed = {"x": rng.randn(5, 6).astype("float32")}
    fused_sgd(tied, feed, count=0)

    class Late(fluid.optimizer.SGD):
        def apply_gradients(self, params_grads):
            layers.reduce_sum(fluid.default_main_program().global_block().var("first"))
            return super().apply_gradients(params_grads)
    fused_sgd(two_layers("float32"), feed, lambda: Late(0.01), count=1)


def test_sizes_that_variables_get_later():
    """An input that is reshaped in place after the fused ops had another size when they read it."""
    def added():
        x = layers.data("x", [2, 5])
        h = layers.scale(x, 2.0)
        out = layers.elementwise_add(layers.scale(x, 0.5), h, act="tanh")
        layers.reshape(h, [0, 10, 1], inplace=True)
        return [layers.reduce_sum(h), out]

    def looked_up():
        ids = layers.scale(layers.data("ids", [1], dtype="int64"), 1.0)
        out = layers.concat([layers.embedding(ids, [5, size]) for size in (3, 2)], axis=1)
        layers.reshape(ids, [-1, 2], inplace=True)
        return [ids, out]
    Case(added).same({"x": rng.randn(3, 2, 5).astype("float32")}, fused=["fused_add_act"])
    Case(looked_up).same({"ids": rng.randint(0, 5, (4, 1))}, fused=["fused_embedding_concat"])


def test_the_flag_takes_effect_at_once():
    """A plan made before is not taken when the flag was changed, also not in the same executor and call."""
    case = Case(activated("relu", "float32", 6, 3), sgd)
    exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()
    exe.run(case.startup, scope=scope)
    feed = {"x": rng.randn(5, 6).astype("float32")}

    def ops(**flags):
        with Flags(**flags):
            return ops_of(lambda: exe.run(case.main, feed=feed, fetch_list=case.fetches, scope=scope))[1]
    for _ in range(2):
        assert "fused_add_act" in ops(fuse_ops=1)
        assert "relu" in ops(fuse_ops=0)
        assert "relu" in ops(fuse_ops=1, check_nan_inf=1)


def test_check_nan_inf_names_the_op():
    case = Case(activated("relu", "float32", 6, 3), sgd)
    exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()
    exe.run(case.startup, scope=scope)
    feed = {"x": rng.randn(5, 6).astype("float32")}
    exe.run(case.main, feed=feed, fetch_list=case.fetches, scope=scope)
    bias = next(op for op in case.main.global_block().ops if op.type == "elementwise_add").input("Y")[0]
    scope.find_var(bias).get_tensor().set(np.full(3, np.inf, "float32"), fluid.CPUPlace())
    with Flags(check_nan_inf=1), pytest.raises(Exception, match="elementwise_add"):
        exe.run(case.main, feed=feed, fetch_list=case.fetches, scope=scope)


def test_programs_cannot_name_them():
    upstreams = {"fused_embedding_seq_pool", "fused_embedding_seq_pool_grad"}
    assert {op for op in _core.op_types() if op.startswith("fused_")} == upstreams
    assert not _core.op_known("fused_add_act")
    with pytest.raises(Exception, match="fused_add_act"):
        fluid.Program().global_block().append_op(type="fused_add_act", inputs={}, outputs={})
