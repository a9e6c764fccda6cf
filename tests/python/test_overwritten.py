"""Gradients through variables that are overwritten, against finite differences in float64."""
import numpy as np
import pytest

import paddle.fluid as fluid

L = fluid.layers


def append(type, inputs, outputs, **attrs):
    fluid.default_main_program().current_block().append_op(type=type, inputs=inputs, outputs=outputs, attrs=attrs)


def spare():
    return fluid.default_main_program().current_block().create_var(dtype='float64')


def read_then_assigned(x):
    h = L.scale(x, 3.)
    y = L.square(h)
    L.assign(L.scale(h, .5), output=h)
    return L.elementwise_add(L.reduce_sum(y), L.reduce_sum(L.tanh(h)))


def overwritten_twice(x):
    h = L.tanh(x)
    a = L.square(h)
    append('sigmoid', {'X': h}, {'Out': h})
    b = L.elementwise_mul(h, x)
    append('square', {'X': h}, {'Out': h})
    return L.elementwise_add(L.elementwise_add(L.reduce_sum(a), L.reduce_sum(b)), L.reduce_sum(L.exp(h)))


def result_in_place(x):
    """The gradient of sigmoid reads its result, which is overwritten."""
    h = L.sigmoid(x)
    append('scale', {'X': h}, {'Out': h}, scale=-2.)
    return L.reduce_sum(L.square(h))


def with_another_size(x):
    h = L.tanh(x)
    a = L.reduce_sum(L.square(h))
    append('transpose2', {'X': h}, {'Out': h, 'XShape': spare()}, axis=[1, 0])
    b = L.reduce_sum(L.elementwise_mul(h, L.transpose(x, [1, 0])))
    h = L.reshape(h, [-1], inplace=True)
    append('exp', {'X': h}, {'Out': h})
    return L.elementwise_add(L.elementwise_add(a, b), L.reduce_sum(h))


def old_value_is_dead(x):
    h = L.square(x)
    L.assign(L.tanh(x), output=h)
    return L.reduce_sum(h)


def overwritten_by_a_constant(x):
    h = L.square(x)
    y = L.tanh(h)
    append('fill_constant', {}, {'Out': h}, shape=[3, 4], dtype=h.dtype, value=2.)
    return L.reduce_sum(L.elementwise_mul(y, h))


def constant_overwritten(x):
    h = L.fill_constant([3, 4], 'float64', 1.)
    h.stop_gradient = False
    y = L.elementwise_mul(x, h)
    L.assign(L.square(x), output=h)
    return L.reduce_sum(L.elementwise_mul(y, h))


def input_overwritten(x):
    y = L.square(x)
    append('tanh', {'X': x}, {'Out': x})
    return L.reduce_sum(L.elementwise_mul(y, x))


def both_operands(x):
    h = L.tanh(x)
    append('elementwise_mul', {'X': h, 'Y': h}, {'Out': h})
    append('elementwise_add', {'X': x, 'Y': h}, {'Out': h})
    return L.reduce_sum(L.square(h))


def product_into_its_operand(x):
    h = L.tanh(x)
    w = L.scale(L.matmul(x, x, transpose_x=True), .1)
    append('matmul', {'X': h, 'Y': w}, {'Out': h})
    append('matmul', {'X': h, 'Y': w}, {'Out': h})
    return L.reduce_sum(L.square(h))


def in_a_branch(x):
    h = L.tanh(x)
    a = L.square(h)
    one, two = L.fill_constant([1], 'float64', 1.), L.fill_constant([1], 'float64', 2.)
    with L.Switch() as switch:
        with switch.case(L.less_than(one, two)):
            y = L.square(h)
            L.assign(L.elementwise_mul(y, h), output=h)
    b = L.exp(h)
    L.assign(L.scale(h, 2.), output=h)
    return L.reduce_sum(L.elementwise_add(L.elementwise_add(a, b), h))


def read_for_nothing_in_a_branch(x):
    a, b = L.scale(x, 2.), L.scale(x, 3.)
    ran = L.less_than(L.reduce_sum(x), L.fill_constant([1], 'float64', 100.))
    block = L.control_flow.ConditionalBlock([ran], is_scalar_condition=True)
    with block.block():
        L.split(b, 2, dim=1)
        L.assign(L.scale(a, 5.), output=b)
    return L.reduce_sum(L.square(b))


def twice_in_one_slot(x):
    h = L.tanh(x)
    return L.reduce_sum(L.square(L.concat([L.sums([h, h]), h, h], axis=1)))


def read_by_a_loop_and_reshaped(x):
    v = L.scale(x, 2.)
    h = L.scale(x, 1.)
    i, n = L.fill_constant([1], 'int64', 0), L.fill_constant([1], 'int64', 1)
    going = L.less_than(i, n)
    loop = L.While(going)
    with loop.block():
        L.assign(L.elementwise_mul(h, x), output=v)
        L.increment(i)
        L.less_than(i, n, cond=going)
    L.reshape(h, [4, 3, 1], inplace=True)
    L.reshape(v, [12], inplace=True)
    return L.elementwise_add(L.reduce_sum(v), L.reduce_sum(L.square(h)))


def written_by_a_branch_and_copied(x):
    v, o = L.scale(x, 2.), L.scale(x, 3.)
    ran = L.less_than(L.reduce_sum(x), L.fill_constant([1], 'float64', 100.))
    block = L.control_flow.ConditionalBlock([ran], is_scalar_condition=True)
    with block.block():
        L.assign(L.tanh(x), output=v)
    L.assign(v, output=o)
    return L.reduce_sum(o)


def left_alone_by_a_branch_of_a_branch(x):
    h, other = L.scale(x, 2.), L.scale(x, 3.)
    never = L.less_than(L.fill_constant([1], 'float64', 2.), L.fill_constant([1], 'float64', 1.))

    def runs():
        block = L.control_flow.ConditionalBlock([never], is_scalar_condition=True)
        with block.block():
            L.assign(L.tanh(other), output=h)
        return L.scale(other, 1.)

    L.cond(never, lambda: L.scale(other, 1.), runs)
    return L.reduce_sum(L.square(h))


def in_a_loop(x):
    h = L.tanh(x)
    a = L.square(h)
    i, n = L.fill_constant([1], 'int64', 0), L.fill_constant([1], 'int64', 3)
    going = L.less_than(i, n)
    loop = L.While(going)
    with loop.block():
        y = L.square(h)
        append('sigmoid', {'X': y}, {'Out': y})
        L.assign(L.elementwise_mul(y, x), output=h)
        append('scale', {'X': y}, {'Out': y}, scale=2.)
        L.assign(L.elementwise_add(y, h), output=h)
        L.increment(i)
        L.less_than(i, n, cond=going)
    b = L.exp(h)
    append('tanh', {'X': h}, {'Out': h})
    return L.reduce_sum(L.elementwise_add(L.elementwise_add(a, b), h))


FORMS = [read_then_assigned, overwritten_twice, result_in_place, with_another_size, old_value_is_dead,
         overwritten_by_a_constant, constant_overwritten, input_overwritten, both_operands,
         product_into_its_operand, in_a_branch, read_for_nothing_in_a_branch,
         twice_in_one_slot, read_by_a_loop_and_reshaped, written_by_a_branch_and_copied,
         left_alone_by_a_branch_of_a_branch, in_a_loop]


@pytest.mark.parametrize('share', [0, 1])
@pytest.mark.parametrize('form', FORMS, ids=lambda form: form.__name__)
def test_gradients_are_those_of_finite_differences(form, share):
    program = fluid.Program()
    with fluid.program_guard(program, fluid.Program()), fluid.unique_name.guard():
        x = fluid.data('x', [3, 4], 'float64')
        x.stop_gradient = False
        loss = form(x)
        grad, = fluid.gradients(loss, x)
    exe = fluid.Executor()
    point = np.random.RandomState(3).rand(3, 4) - .3

    def at(value):
        return exe.run(program, feed={'x': value}, fetch_list=[loss], scope=fluid.Scope())[0].sum()

    fluid.set_flags({'FLAGS_share_memory': share})
    try:
        found, = exe.run(program, feed={'x': point}, fetch_list=[grad], scope=fluid.Scope())
        again, = exe.run(program, feed={'x': point}, fetch_list=[grad], scope=fluid.Scope())
        wanted = np.zeros_like(point)
        for i in np.ndindex(*point.shape):
            step = np.zeros_like(point)
            step[i] = 1e-5
            wanted[i] = (at(point + step) - at(point - step)) / 2e-5
    finally:
        fluid.set_flags({'FLAGS_share_memory': 1})
    assert np.array_equal(found, again)
    assert np.allclose(found, wanted, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize('runs', [0, 1])
@pytest.mark.parametrize('way', ['branch', 'branch of a branch', 'loop'])
def test_a_block_overwrites_with_what_has_no_gradient(way, runs):
    program = fluid.Program()
    with fluid.program_guard(program, fluid.Program()), fluid.unique_name.guard():
        x, limit = fluid.data('x', [1, 4], 'float64'), fluid.data('limit', [1], 'int64')
        x.stop_gradient = False
        v, constant = L.scale(x, 2.), L.scale(x, 3.)
        constant.stop_gradient = True
        i = L.fill_constant([1], 'int64', 0)
        going = L.less_than(i, limit)
        branch = lambda: L.control_flow.ConditionalBlock([going], is_scalar_condition=True)

        def overwrite():
            L.assign(L.scale(constant, 5.), output=v)
            return L.scale(constant, 1.)

        if way == 'branch of a branch':
            def outer():
                with branch().block():
                    overwrite()
                return L.scale(constant, 1.)

            L.cond(L.less_than(limit, i), lambda: L.scale(constant, 2.), outer)
        else:
            with (L.While(going) if way == 'loop' else branch()).block():
                overwrite()
                if way == 'loop':
                    L.increment(i)
                    L.less_than(i, limit, cond=going)
        grad, = fluid.gradients(L.elementwise_add(L.reduce_sum(L.square(v)), L.reduce_sum(x)), x)
    found, = fluid.Executor().run(program, feed={'x': np.ones((1, 4)), 'limit': np.array([runs])}, fetch_list=[grad])
    assert found.tolist() == [[1.] * 4 if runs else [9.] * 4]


def test_two_losses_of_one_program_use_the_parameters_that_they_saw():
    program, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(program, startup), fluid.unique_name.guard():
        x = fluid.data('x', [2, 3], 'float64')
        w = L.create_parameter([3, 3], 'float64', name='w')
        h = L.matmul(x, w)
        first, second = L.reduce_sum(L.square(h)), L.reduce_sum(L.square(L.matmul(h, w)))
        fluid.optimizer.SGD(.5).minimize(first)
        (_, grad), = fluid.backward.append_backward(second)
    exe, scope = fluid.Executor(), fluid.Scope()
    a, v = np.random.rand(2, 3), np.random.rand(3, 3)
    with fluid.scope_guard(scope):
        exe.run(startup)
        scope.find_var('w').get_tensor().set(v, fluid.CPUPlace())
        found, = exe.run(program, feed={'x': a}, fetch_list=[grad])
    d = 2 * a @ v @ v
    assert np.allclose(found, a.T @ d @ v.T + (a @ v).T @ d)


def test_a_test_clone_has_no_copies():
    program = fluid.Program()
    with fluid.program_guard(program, fluid.Program()), fluid.unique_name.guard():
        x = fluid.data('x', [3, 4], 'float64')
        x.stop_gradient = False
        fluid.gradients(read_then_assigned(x), x)
    assert any('@STEP@' in name for op in program.global_block().ops for name in op.output_arg_names)
    clone = program.clone(for_test=True)
    assert not any('@STEP@' in name for op in clone.global_block().ops for name in op.output_arg_names)
