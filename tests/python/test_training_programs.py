"""Training Programs that paddlepaddle 1.8.5 wrote (tests/golden/training.py) train here to the same numbers.

Passes under 1.8.5 itself, too, but for what is refused here.
"""

import os
import sys

import numpy as np
import pytest

import paddle
import paddle.fluid as fluid

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
if TESTS not in sys.path:
    sys.path.insert(0, TESTS)

from golden import training  # noqa: E402

ours = pytest.mark.skipif(not hasattr(paddle.version, 'cpaddle'), reason='1.8.5 says nothing')


@pytest.fixture(scope='module')
def golden():
    with np.load(os.path.join(TESTS, 'golden', 'data', 'training.npz')) as data:
        return {key: data[key] for key in data.files}


@pytest.mark.parametrize('name', list(training.cases(training.KEPT)))
def test_written_by_185(name, golden):
    training.check({key: golden[name + '/' + key] for key in ('main', 'startup', 'loss', 'result')})


@pytest.mark.parametrize('name', list(training.cases(training.KEPT)))
def test_made_here(name, golden):
    found = training.run(*training.build(training.cases(training.KEPT)[name]))
    np.testing.assert_allclose(found, golden[name + '/result'], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize('alpha', [0.1, 0.0, -0.5])
def test_leaky_relu_slopes(alpha):
    """Below 0 the sign of Out is not that of X."""
    if not hasattr(paddle.version, 'cpaddle') and alpha < 0:
        pytest.skip('1.8.5 looks at Out')
    x = np.array([[-2.0, -0.5, 0.5, 3.0]], 'float32')
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        given = fluid.layers.data('x', [4])
        given.stop_gradient = False
        out = fluid.layers.leaky_relu(given, alpha)
        (grad,) = fluid.gradients(out, given)
    (found,) = fluid.Executor(fluid.CPUPlace()).run(main, feed={'x': x}, fetch_list=[grad])
    np.testing.assert_allclose(found, np.where(x > 0, 1.0, alpha).astype('float32'))


@ours
@pytest.mark.parametrize('shape, blocksize', [([1, 1, 1, 1], 2), ([1, 16, 1, 1], 0)])
def test_gradient_that_does_not_fit(shape, blocksize):
    """A gradient op may come from a file of anyone."""
    main = fluid.Program()
    block = main.global_block()
    feed = {'x': np.ones([1, 4, 2, 2], 'float32'), 'dout': np.ones(shape, 'float32')}
    for name in feed:
        block.create_var(name=name, shape=[-1, -1, -1, -1], dtype='float32', is_data=True)
    block.create_var(name='dx', dtype='float32')
    with pytest.raises(Exception, match='blocksize|Out has shape .* must be equal'):
        block.append_op(
            type='space_to_depth_grad',
            inputs={'X': ['x'], 'Out@GRAD': ['dout']},
            outputs={'X@GRAD': ['dx']},
            attrs={'blocksize': blocksize},
        )
        fluid.Executor(fluid.CPUPlace()).run(main, feed=feed, fetch_list=['dx'])


def memory_gradient(feed):
    """What rnn_memory_helper_grad gives for x of shape [3, 4] and, where it is fed, the gradient `dout`."""
    main = fluid.Program()
    block = main.global_block()
    block.create_var(name='x', shape=[-1, 4], dtype='float32', is_data=True)
    block.create_var(name='dout', shape=[-1, 4], dtype='float32', persistable=True)
    block.create_var(name='dx', dtype='float32')
    block.append_op(type='rnn_memory_helper_grad', inputs={'X': ['x'], 'Out@GRAD': ['dout']}, outputs={'X@GRAD': ['dx']})
    with fluid.scope_guard(fluid.Scope()):
        feed = {'x': np.ones([3, 4], 'float32'), **feed}
        return fluid.Executor(fluid.CPUPlace()).run(main, feed=feed, fetch_list=['dx'])[0]


def test_gradient_that_may_be_missing():
    """At the last step of a recurrent net nothing has written it; where it is there, it fits."""
    np.testing.assert_array_equal(memory_gradient({}), np.zeros([3, 4]))
    np.testing.assert_array_equal(memory_gradient({'dout': np.full([3, 4], 2, 'float32')}), np.full([3, 4], 2))
    for rows in 2, 5:
        with pytest.raises(fluid.core.ShapeError, match='must be equal'):
            memory_gradient({'dout': np.ones([rows, 4], 'float32')})


def sum_of(name, persistable=False):
    """A Program that adds 1 and a variable that no op writes."""
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        one = fluid.layers.fill_constant([1], 'float32', 1.0)
        block = main.global_block()
        nobody = block.create_var(name=name, shape=[1], dtype='float32', persistable=persistable)
        out = block.create_var(name='out', shape=[1], dtype='float32')
        block.append_op(type='sum', inputs={'X': [nobody, one, nobody]}, outputs={'Out': [out]})
    return main


def test_sum_passes_over_gradients_that_nobody_wrote():
    exe = fluid.Executor(fluid.CPUPlace())
    main = sum_of('h@GRAD@RENAME@block0@1')
    for _ in range(2):
        assert exe.run(main, fetch_list=['out'])[0] == 1.0
    feed = {'h@GRAD@RENAME@block0@1': np.array([2.0], 'float32')}
    assert exe.run(main, feed=feed, fetch_list=['out'])[0] == 5.0


@ours
@pytest.mark.parametrize('name, persistable', [('h', False), ('h@GRAD', True)])
def test_sum_misses_what_is_no_temporary_gradient(name, persistable):
    with pytest.raises(Exception, match=f"'{name}'"), fluid.scope_guard(fluid.Scope()):
        fluid.Executor(fluid.CPUPlace()).run(sum_of(name, persistable), fetch_list=['out'])


@ours
def test_sum_of_gradients_of_which_nobody_wrote_any():
    main = sum_of('h@GRAD')
    op = main.global_block().ops[-1]
    op._rename_input(op.input('X')[1], 'h@GRAD')
    with pytest.raises(Exception, match='no op writes any of the gradients'):
        fluid.Executor(fluid.CPUPlace()).run(main, fetch_list=['out'])


@ours
@pytest.mark.parametrize('name', ['cond_in_cond', 'loop_in_cond', 'case_in_loop'])
def test_gradient_block_of_another_block(name, golden):
    """A file may name any block as the forward one: a wrong one is refused, or not needed; the process goes on."""
    refused = 0
    startup = fluid.Program.parse_from_string(golden[name + '/startup'].tobytes())
    blocks = fluid.Program.parse_from_string(golden[name + '/main'].tobytes()).blocks
    for block in blocks:
        for forward in range(-1, len(blocks)):
            main = fluid.Program.parse_from_string(golden[name + '/main'].tobytes())
            if block.forward_block_idx < 0 or forward == block.forward_block_idx:
                continue
            main.block(block.idx)._set_forward_block_idx(forward)
            try:
                training.run(main, startup, str(golden[name + '/loss']))
            except Exception as error:
                refused += 1
                assert "'" in str(error)  # names the variable
    assert refused


@ours
def test_op_that_writes_into_an_array(golden):
    main = fluid.Program.parse_from_string(golden['loop_in_cond/main'].tobytes())
    loop = next(op for block in main.blocks for op in block.ops if op.type == 'while')
    array = next(name for name in loop.output('Out') if 'array' in name)
    op = next(op for op in main.block(loop.attr('sub_block').id).ops if op.type == 'less_than')
    op._rename_output(op.output('Out')[0], array)
    startup = fluid.Program.parse_from_string(golden['loop_in_cond/startup'].tobytes())
    with pytest.raises(Exception, match=f"'{array}' is declared as tensor array"):
        training.run(main, startup, str(golden['loop_in_cond/loss']))


@ours
@pytest.mark.parametrize('slot, kind', [('StepScopes', 'step scopes'), ('Out', 'tensor array')])
def test_op_that_reads_what_is_no_tensor(slot, kind, golden):
    main = fluid.Program.parse_from_string(golden['loop_in_cond/main'].tobytes())
    loop = next(op for block in main.blocks for op in block.ops if op.type == 'while')
    name = next(name for name in loop.output(slot) if slot == 'StepScopes' or 'array' in name)
    op = next(op for op in main.block(loop.attr('sub_block').id).ops if op.type == 'less_than')
    op._rename_input(op.input('X')[0], name)
    startup = fluid.Program.parse_from_string(golden['loop_in_cond/startup'].tobytes())
    with pytest.raises(Exception, match=f"'{name}' is a {kind}; a tensor is needed"):
        training.run(main, startup, str(golden['loop_in_cond/loss']))
