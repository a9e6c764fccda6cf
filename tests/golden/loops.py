"""Loops through which 1.8.5 computes true gradients: arrays hold what goes from step to step.

A case is a function without arguments that adds a network to the default programs and returns (loss, names of gradients, feed).
`run` trains it a few steps with SGD and returns the losses and the gradients of the first step. Loops that carry a tensor from step
to step without an array are not here: 1.8.5 has no right gradient for them (tests/python/test_loops.py checks those).
"""

from collections import OrderedDict

import numpy as np
import paddle.fluid as fluid

layers = fluid.layers


def given(name, *shape):
    """A parameter with start values that need no generator."""
    values = np.cos(np.arange(np.prod(shape)) * 1.7).reshape(shape).astype('float32') * 0.5
    return fluid.ParamAttr(name=name, initializer=fluid.initializer.NumpyArrayInitializer(values))


def values(*shape):
    return np.sin(np.arange(np.prod(shape))).reshape(shape).astype('float32')


def count(value):
    var = layers.fill_constant([1], 'int64', value)
    var.stop_gradient = True
    return var


def array_of(*items):
    """Each position has a variable of its own: 1.8.5 does not find back to one that is counted up."""
    array = layers.array_write(items[0], count(0))
    for k, item in enumerate(items[1:]):
        layers.array_write(item, count(k + 1), array=array)
    return array


def inputs(n, *shape):
    made = [layers.data('d%d' % k, shape=list(shape), append_batch_size=False, dtype='float32') for k in range(n)]
    for each in made:
        each.stop_gradient = False
    return made, {'d%d' % k: values(*shape) + k for k in range(n)}


def running_sum():
    data, feed = inputs(3, 4)
    w = layers.create_parameter([4], 'float32', attr=given('w', 4))
    array, memory = array_of(*data), array_of(layers.fill_constant([4], 'float32', 0.5))
    i, n = count(0), count(3)
    going = layers.less_than(i, n)
    with layers.While(going).block():
        new = layers.sums([layers.elementwise_mul(layers.array_read(array, i), w), layers.array_read(memory, i)])
        layers.increment(i, in_place=True)
        layers.array_write(new, i, array=memory)
        layers.less_than(i, n, cond=going)
    return layers.mean(layers.square(layers.array_read(memory, i))), ['d0', 'd1', 'd2', 'w'], feed


def recurrent_net():
    """All outputs are used: 1.8.5 needs a gradient for every item."""
    data, feed = inputs(3, 2, 3)
    array, memory = array_of(*data), array_of(layers.fill_constant([2, 5], 'float32', 0.1))
    outputs = layers.create_array('float32')
    i, n = count(0), count(3)
    going = layers.less_than(i, n)
    with layers.While(going).block():
        h = layers.fc([layers.array_read(array, i), layers.array_read(memory, i)], 5, act='tanh',
                      param_attr=[given('wa', 3, 5), given('wh', 5, 5)], bias_attr=given('b', 5))
        layers.array_write(layers.scale(h, 2.0), i, array=outputs)
        layers.increment(i, in_place=True)
        layers.array_write(h, i, array=memory)
        layers.less_than(i, n, cond=going)
    parts = [layers.reduce_sum(layers.square(layers.array_read(outputs, count(k)))) for k in range(3)]
    return layers.mean(layers.sums(parts)), ['d0', 'd1', 'd2', 'wa', 'wh', 'b'], feed


def loop_in_loop():
    data, feed = inputs(3, 4)
    array, memory = array_of(*data), array_of(layers.fill_constant([4], 'float32', 0.0))
    i, j, n, m = count(0), count(1), count(1), count(3)
    going, inner_going = layers.less_than(i, n), layers.less_than(j, m)
    outer, inner = layers.While(going), layers.While(inner_going)
    with outer.block():
        new = layers.sums([layers.array_read(array, i), layers.array_read(memory, i)])
        layers.increment(i, in_place=True)
        layers.array_write(new, i, array=memory)
        layers.less_than(i, n, cond=going)
        with inner.block():
            more = layers.sums([layers.array_read(array, j), layers.array_read(memory, j)])
            layers.increment(j, in_place=True)
            layers.array_write(more, j, array=memory)
            layers.less_than(j, m, cond=inner_going)
    return layers.mean(layers.square(layers.array_read(memory, j))), ['d0', 'd1', 'd2'], feed


def dynamic_rnn(static=False):
    seq = layers.data('s', shape=[3], dtype='float32', lod_level=1)
    seq.stop_gradient = False
    whole = layers.sequence_pool(seq, 'average') if static else None
    rnn = layers.DynamicRNN()
    with rnn.block():
        word = rnn.step_input(seq)
        memory = rnn.memory(shape=[4], value=0.3)
        fed = [word, memory]
        attrs = [given('wa', 3, 4), given('wh', 4, 4)]
        if static:
            fed.append(rnn.static_input(whole))
            attrs.append(given('ws', 3, 4))
        h = layers.fc(fed, 4, act='tanh', param_attr=attrs, bias_attr=given('b', 4))
        rnn.update_memory(memory, h)
        rnn.output(h)
    out = rnn()
    loss = layers.elementwise_add(layers.mean(layers.square(layers.sequence_pool(out, 'last'))), layers.mean(out))
    lengths = [[2, 1, 3]]
    feed = {'s': fluid.create_lod_tensor(values(6, 3), lengths, fluid.CPUPlace())}
    return loss, ['s', 'wa', 'wh', 'b'] + (['ws'] if static else []), feed


CASES = OrderedDict([
    ('running_sum', running_sum),
    ('recurrent_net', recurrent_net),
    ('loop_in_loop', loop_in_loop),
    ('dynamic_rnn', dynamic_rnn),
    ('dynamic_rnn_static', lambda: dynamic_rnn(static=True)),
])


def run(name, steps=5):
    """{'loss': of each step, 'grad/...': of the first step}."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        loss, names, feed = CASES[name]()
        fluid.optimizer.SGD(0.1).minimize(loss)
    fetches = [loss.name] + [each + '@GRAD' for each in names]
    losses, found = [], {}
    exe = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(fluid.Scope()):
        exe.run(startup)
        for step in range(steps):
            results = [np.array(each) for each in exe.run(main, feed=feed, fetch_list=fetches, return_numpy=False)]
            losses.append(results[0].reshape(-1)[0])
            if step == 0:
                found.update(zip(['grad/' + each for each in names], results[1:]))
    found['loss'] = np.array(losses, 'float32')
    return found
