"""Variables that several ops write: in place, with other sizes, in the main line, in loops and in the scope."""
import numpy as np
import pytest

import paddle.fluid as fluid

L = fluid.layers


pytestmark = pytest.mark.usefixtures("fresh")


def append(type, inputs, outputs, **attrs):
    fluid.default_main_program().current_block().append_op(type=type, inputs=inputs, outputs=outputs, attrs=attrs)


def run(feed, *fetches):
    return fluid.Executor().run(feed=feed, fetch_list=list(fetches))


def test_heads_of_a_transformer_are_split_in_place():
    x = L.data('x', [-1, 5, 2, 8], append_batch_size=False)
    out = L.reshape(L.transpose(x, [0, 2, 1, 3]), [0, 0, 40], inplace=True)
    exe = fluid.Executor()
    for n in list(range(1, 30)) * 2:
        a = np.random.rand(n, 5, 2, 8).astype('float32')
        got, = exe.run(feed={'x': a}, fetch_list=[out])
        assert np.array_equal(got, a.transpose(0, 2, 1, 3).reshape(n, 2, 40))


@pytest.mark.parametrize('fuse', [0, 1])
def test_heads_in_training(fuse):
    x = L.data('x', [6, 10])
    h = L.fc(x, 12, num_flatten_dims=2, act='relu')
    h = L.reshape(h, [0, 0, 3, 4], inplace=True)
    h = L.transpose(h, [0, 2, 1, 3])
    h = L.reshape(h, [0, 18, 4], inplace=True)
    loss = L.mean(L.square(h))
    pairs = fluid.backward.append_backward(loss)
    fluid.set_flags({'FLAGS_fuse_ops': fuse})
    try:
        exe = fluid.Executor()
        exe.run(fluid.default_startup_program())
        w, b = (np.array(fluid.global_scope().find_var(p.name).get_tensor()) for p, _ in pairs)
        for n in (3, 5, 2, 8):
            a = np.random.rand(n, 6, 10).astype('float32') - .5
            got = exe.run(feed={'x': a}, fetch_list=[loss] + [g for _, g in pairs])
            z = a @ w + b
            r = np.maximum(z, 0)
            dz = 2 * r / r.size * (z > 0)
            assert np.allclose(got[0], np.mean(r * r), rtol=1e-5)
            assert np.allclose(got[1], np.einsum('bij,bik->jk', a, dz), atol=1e-6)
            assert np.allclose(got[2], dz.sum((0, 1)), atol=1e-6)
    finally:
        fluid.set_flags({'FLAGS_fuse_ops': 1})


def test_a_value_stays_for_who_read_it_before_it_was_overwritten():
    x = L.data('x', [4])
    h = L.scale(x, 2.)
    before = L.assign(h)
    append('transpose2', {'X': h}, {'Out': h, 'XShape': L.create_tensor('float32')}, axis=[1, 0])
    after = L.scale(h, 1.)
    a = np.arange(12, dtype='float32').reshape(3, 4)
    old, new, last = run({'x': a}, before, after, h)
    assert np.array_equal(old, 2 * a)
    assert np.array_equal(new, 2 * a.T) and np.array_equal(last, 2 * a.T)


def test_a_feed_is_overwritten_and_the_array_is_not():
    x = L.data('x', [4])
    L.reshape(x, [2, -1], inplace=True)
    append('scale', {'X': x}, {'Out': x}, scale=3.)
    a = np.arange(12, dtype='float32').reshape(3, 4)
    kept = a.copy()
    exe = fluid.Executor()
    for _ in range(3):
        got, = exe.run(feed={'x': a}, fetch_list=[x])
        assert np.array_equal(got, 3 * kept.reshape(2, 6))
    assert np.array_equal(a, kept)


def test_a_variable_of_the_scope_gets_another_size_in_each_run():
    state = L.create_global_var([2, 3], 1., 'float32', persistable=True, name='state')
    x = L.data('x', [3])
    before = L.reduce_sum(L.scale(state, 1.), dim=[0])
    append('concat', {'X': [state, x]}, {'Out': state}, axis=0)
    after = L.scale(state, 1.)
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    rows = np.ones((2, 3), 'float32')
    for i in range(4):
        a = np.full((i + 1, 3), i, 'float32')
        was, now = exe.run(feed={'x': a}, fetch_list=[before, after])
        assert np.array_equal(was, rows.sum(0))
        rows = np.concatenate([rows, a])
        assert np.array_equal(now, rows)


def test_a_product_into_its_own_operand():
    """Not an op that may work in place: it reads its input while it writes."""
    h = L.create_global_var([3, 3], 0., 'float32', persistable=True, name='h')
    x = L.data('x', [3])
    append('matmul', {'X': h, 'Y': x}, {'Out': h})
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    want = np.random.rand(3, 3).astype('float32')
    fluid.global_scope().find_var('h').get_tensor().set(want, fluid.CPUPlace())
    for _ in range(3):
        a = np.random.rand(3, 3).astype('float32')
        exe.run(feed={'x': a})
        want = want @ a
        assert np.allclose(np.array(fluid.global_scope().find_var('h').get_tensor()), want, rtol=1e-5)


def test_a_state_of_a_loop_is_multiplied_and_turned_in_place():
    x = L.data('x', [-1, 4], append_batch_size=False)
    h = L.scale(x, 1.)
    i = L.fill_constant([1], 'int64', 0)
    n = L.fill_constant([1], 'int64', 3)
    cond = L.less_than(i, n)
    loop = L.While(cond)
    with loop.block():
        append('transpose2', {'X': h}, {'Out': h, 'XShape': L.create_tensor('float32')}, axis=[1, 0])
        inner = L.scale(h, 2.)
        append('transpose2', {'X': inner}, {'Out': inner, 'XShape': L.create_tensor('float32')}, axis=[1, 0])
        append('transpose2', {'X': inner}, {'Out': inner, 'XShape': L.create_tensor('float32')}, axis=[1, 0])
        L.assign(inner, output=h)
        L.increment(i)
        L.less_than(i, n, cond=cond)
    exe = fluid.Executor()
    for rows in (2, 4, 3):
        a = np.random.rand(rows, 4).astype('float32')
        got, = exe.run(feed={'x': a}, fetch_list=[h])
        assert np.array_equal(got, 8 * a.T)


def test_memory_that_was_taken_over_when_sizes_agreed():
    """An op that may write over its input does so only while both have one size."""
    x, y = L.data('x', [-1, 3], append_batch_size=False), L.data('y', [-1, 3], append_batch_size=False)
    a = L.scale(x, 2.)
    out = L.scale(L.elementwise_add(a, y), 1.)
    exe = fluid.Executor()
    for n in (4, 1, 4):
        one, other = np.random.rand(n, 3).astype('float32'), np.random.rand(4, 3).astype('float32')
        got, = exe.run(feed={'x': one, 'y': other}, fetch_list=[out])
        assert np.allclose(got, 2 * one + other)


def test_without_shared_memory():
    x = L.data('x', [4])
    h = L.scale(x, 2.)
    append('transpose2', {'X': h}, {'Out': h, 'XShape': L.create_tensor('float32')}, axis=[1, 0])
    out = L.relu(L.scale(L.assign(h), 1.))
    a = np.random.rand(3, 4).astype('float32')
    fluid.set_flags({'FLAGS_share_memory': 0})
    try:
        assert np.array_equal(run({'x': a}, out)[0], 2 * a.T)
    finally:
        fluid.set_flags({'FLAGS_share_memory': 1})
    assert np.array_equal(run({'x': a}, out)[0], 2 * a.T)
