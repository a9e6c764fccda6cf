"""Training Programs as files: one `paddle` writes them with desc.serialize_to_string(), another one runs them.

A case is a line of Python that makes something of `h`, the output of an fc layer with 4 columns, or of `seq`, that of one on
sequences. Its Program ends with the mean of the square and SGD. This file runs on Python 3.7 too.
"""

import re

import numpy as np
import paddle.fluid as fluid

L = fluid.layers

# Their gradient ops have other slots in paddlepaddle 1.8.5 than one would need, or name gradients that no op writes:
# data/training.npz has these Programs as 1.8.5 writes them.
KEPT = '''
leaky_relu: L.leaky_relu(h, 0.1)
pixel_shuffle: L.pixel_shuffle(L.reshape(h, [-1, 4, 1, 1]), 2)
shuffle_channel: L.shuffle_channel(L.reshape(h, [-1, 4, 1, 1]), 2)
temporal_shift: L.temporal_shift(L.reshape(h, [-1, 4, 1, 1]), 3, 0.25)
data_norm: L.data_norm(h)
data_norm_shift: L.data_norm(h, param_attr={'scale_w': 2.0, 'bias': 0.5}, enable_scale_and_shift=True)
kldiv_loss: L.kldiv_loss(h, L.sigmoid(h))
rank_loss: L.rank_loss(L.sigmoid(column(h, 0)), column(h, 1), column(h, 2))
cvm: L.continuous_value_model(L.sigmoid(h), L.slice(h, [1], [0], [2]))
transpose: one_op('transpose', h, axis=[1, 0])
dynamic_rnn: dynamic_rnn(seq)
while_array: while_array(h)
cond: L.cond(L.less_than(L.reduce_mean(h), L.fill_constant([1], 'float32', 10.)), lambda: h * 2., lambda: h * 3.)
cond_in_cond: L.cond(below(h, 9.), lambda: L.cond(below(h, 0.3), lambda: h * 3., lambda: L.tanh(h)), lambda: h * 2.)
cond_last: L.cond(below(h, -9.), lambda: h * 2., lambda: L.cond(below(h, 9.), lambda: h, lambda: L.tanh(h)))
case: L.case([(below(h, 0.27), lambda: h * 2.), (below(h, 0.3), lambda: L.sigmoid(h))], default=lambda: L.tanh(h))
loop_in_cond: L.cond(below(h, 9.), lambda: while_array(h), lambda: h * 2.)
case_in_loop: while_array(h, lambda q: L.case([(below(q, -9.), lambda: q), (below(q, 9.), lambda: q * h)], default=lambda: q * 2.))
branch_without_way: L.cond(below(ones, 2.), lambda: L.square(ones), lambda: L.fc(ones, 4)) + h
'''

OTHERS = '''
activations: [getattr(L, k)(h) for k in 'relu elu relu6 swish gelu softplus softsign tanh sigmoid square abs exp sin'.split()]
activations2: [getattr(L, k)(h) for k in 'cos soft_relu hard_sigmoid hard_swish stanh brelu softshrink hard_shrink'.split()]
activations3: [getattr(L, k)(h) for k in 'thresholded_relu tanh_shrink logsigmoid selu ceil floor atan erf sign round'.split()]
activations4: [L.sqrt(p), L.rsqrt(p), L.log(p), L.log1p(p), L.reciprocal(p), L.acos(s), L.asin(s), L.pow(p, 2.), L.cumsum(h)]
softmax: [L.softmax(h), L.log_softmax(h), L.logsumexp(h), L.l2_normalize(h, 1)]
norms: [L.layer_norm(h), L.batch_norm(h), L.instance_norm(img), L.lrn(img)]
group_norm: L.group_norm(img, 1)
reduce: [L.mean(h), L.reduce_sum(h), L.reduce_mean(h, 1), L.reduce_max(h, 1), L.reduce_min(h, 1), L.reduce_prod(h, 1)]
dropout: [L.dropout(h, 0.3, seed=3), L.dropout(h, 0.3, seed=3, dropout_implementation='upscale_in_train')]
clip: [L.scale(h, 2.), L.clip(h, -0.1, 0.1), L.clip_by_norm(h, 0.5), L.cast(L.cast(h, 'float64'), 'float32')]
shapes: [L.concat([h, h], 1), L.split(h, 2, 1)[0], L.transpose(h, [1, 0]), L.stack([h, h]), L.unstack(h, 1)[1]]
shapes2: [L.reshape(h, [-1, 2]), L.squeeze(L.unsqueeze(h, [1]), [1]), L.flatten(img), L.reverse(h, 1), L.expand(h, [1, 2])]
shapes3: [L.slice(h, [1], [1], [3]), L.strided_slice(h, [1], [0], [4], [2]), L.pad(h, [0, 0, 1, 1]), L.pad2d(img, [1, 1, 0, 0])]
crop: [L.crop(h, shape=[3, 2], offsets=[0, 1]), L.crop_tensor(h, shape=[3, 2], offsets=[0, 1])]
gather: L.gather(h, L.assign(np.array([0, 2], 'int32')))
gather_nd: L.gather_nd(h, L.assign(np.array([[0], [2]], 'int64')))
elementwise: [h + h * h, h / (h * h + 1.), L.elementwise_max(h, h * .5), L.elementwise_min(h, h * .5), p - h]
elementwise_axis: L.elementwise_sub(h, L.reduce_mean(h, dim=1), axis=0)
elementwise_pow: L.elementwise_pow(p, s)
products: [L.matmul(h, h, transpose_y=True), L.bilinear_tensor_product(h, h, 2), L.cos_sim(h, p), fluid.nets.glu(h)]
prelu: [L.prelu(h, 'all'), L.prelu(img, 'channel'), L.prelu(img, 'element'), L.maxout(flat, 2)]
losses: [L.cross_entropy(L.softmax(h), label), L.softmax_with_cross_entropy(h, label), L.square_error_cost(h, p)]
losses2: [L.huber_loss(h, p, .1), L.smooth_l1(h, p), L.mse_loss(h, p), L.bpr_loss(L.softmax(h), label), L.label_smooth(s)]
losses3: [L.sigmoid_cross_entropy_with_logits(h, ones), L.margin_rank_loss(column(s, 0), column(h, 1), column(h, 2))]
log_loss: [L.log_loss(column(s, 0), column(ones, 0)), L.cross_entropy(L.softmax(h), s, soft_label=True)]
conv: [L.conv2d(img, 2, 2), L.conv2d_transpose(img, 2, filter_size=2), L.conv2d(L.concat([img, img], 1), 4, 2, groups=2)]
conv3d: [L.conv3d(vol, 2, [1, 2, 2]), L.conv3d_transpose(vol, 2, filter_size=[1, 2, 2]), L.pool3d(vol, [1, 2, 2], 'max')]
depthwise: [k(L.concat([img, img], 1), 2, filter_size=2, groups=2, use_cudnn=False) for k in (L.conv2d, L.conv2d_transpose)]
pool: [L.pool2d(img, 2, 'max'), L.pool2d(img, 2, 'avg'), L.adaptive_pool2d(img, 1, 'max')]
images: [L.resize_bilinear(img, [3, 3]), L.resize_nearest(img, [3, 3]), L.unfold(img, 2),
    L.space_to_depth(L.concat([img] * 4, 1), 2)]
images2: [L.affine_channel(img, parameter(1), parameter(1)),
    L.grid_sampler(img, L.reshape(L.concat([s, s], 1), [-1, 2, 2, 2])), L.im2sequence(img, 2)]
topk: [L.topk(h, 2)[0], L.argsort(h)[0]]
multiplex: L.multiplex([h, p], L.assign(np.array([[0], [1], [0]], 'int32')))
minus: one_op('minus', h, y=p)
hsigmoid: L.hsigmoid(h, label, 6)
embedding: [L.embedding(label, [5, 4], is_sparse=k) + h for k in (True, False)]
embedding_v2: L.reshape(fluid.embedding(label, [5, 4]), [-1, 4]) + h
sequence: [L.sequence_pool(seq, k) for k in 'sum average sqrt max first last'.split()]
sequence2: [L.sequence_conv(seq, 3), L.sequence_softmax(L.fc(seq, 1)), L.sequence_concat([seq, seq]), L.sequence_reverse(seq)]
sequence3: [L.sequence_reshape(seq, 2), L.row_conv(seq, 2), L.sequence_expand(h, seq), L.sequence_expand_as(h, seq)]
sequence4: L.sequence_unpad(*L.sequence_pad(seq, L.fill_constant([1], 'float32', 0.), maxlen=4))
arrays: L.array_read(L.array_write(h, number(0)), number(0))
old_shapes: [one_op('squeeze', L.unsqueeze(h, [1]), axes=[1]), one_op('unsqueeze', h, axes=[1]), one_op('flatten', img, axis=1)]
old_losses: [one_op('l1_norm', h), one_op('squared_l2_norm', h), one_op('conv_shift', h, y=column(h, 0))]
images3: [L.fsp_matrix(img, img), L.pad2d(img, [1, 1, 0, 0], mode='edge'),
    L.adaptive_pool3d(vol, 1, 'max'), L.affine_grid(theta, [3, 1, 2, 2])]
teacher_student: L.teacher_student_sigmoid_loss(column(h, 0), column(ones, 0))
pad_like: L.pad_constant_like(h, L.slice(h, [1], [0], [2]), 0.5)
scatter_nd_add: L.scatter_nd_add(h, L.assign(np.array([[1]], 'int64')), L.reshape(L.slice(h, [0], [0], [1]), [1, 4]))
expand_as: L.expand_as(column(h, 0), ones)
sequence5: [L.sequence_slice(seq, L.fill_constant([3, 1], 'int64', 0), L.fill_constant([3, 1], 'int64', 1)),
    L.lod_reset(h, target_lod=[0, 1, 3])]
sequence6: L.sequence_scatter(h, L.lod_reset(label, target_lod=[0, 1, 2, 3]), L.lod_reset(column(h, 1), target_lod=[0, 1, 2, 3]))
array_to_tensor: L.tensor_array_to_tensor(L.array_write(h, number(0)), axis=0)[0]
add_position: L.add_position_encoding(L.reshape(h, [-1, 2, 2]), 1., .5)
'''

MADE = {
    'p': 'L.square(h) + 1.',
    's': 'L.sigmoid(h) * .8',
    'img': 'L.reshape(h, [-1, 1, 2, 2])',
    'flat': 'L.reshape(h, [-1, 4, 1, 1])',
    'theta': 'L.reshape(L.concat([h, L.slice(h, [1], [0], [2])], 1), [-1, 2, 3])',
    'vol': 'L.reshape(h, [-1, 1, 1, 2, 2])',
    'ones': "L.fill_constant_batch_size_like(h, [-1, 4], 'float32', 1)",
    'label': "L.fill_constant_batch_size_like(h, [-1, 1], 'int64', 1)",
}


def cases(text):
    """The table as {name: code}."""
    return dict(line.split(': ', 1) for line in text.replace('\n    ', ' ').split('\n') if line)


def number(value):
    return L.fill_constant([1], 'int64', value)


def column(var, at):
    return L.slice(var, [1], [at], [at + 1])


def parameter(size):
    return L.create_parameter([size], 'float32')


def one_op(type, x, y=None, **attrs):
    """An op that no layer makes any more."""
    block = fluid.default_main_program().global_block()
    out = block.create_var(name=type + '_out', dtype='float32')
    block.append_op(type=type, inputs={'X': [x], 'Y': [y]} if y else {'X': [x]}, outputs={'Out': [out]}, attrs=attrs)
    return out


def dynamic_rnn(seq):
    rnn = L.DynamicRNN()
    with rnn.block():
        word = rnn.step_input(seq)
        before = rnn.memory(shape=[4], value=0.5)
        now = L.fc([word, before], size=4, act='tanh')
        rnn.update_memory(before, now)
        rnn.output(now)
    return L.sequence_last_step(rnn())


def below(x, bound):
    return L.less_than(L.reduce_mean(x), L.fill_constant([1], 'float32', bound))


def while_array(h, change=lambda now: L.scale(now, 0.5)):
    """A loop whose results are in an array."""
    i, n = number(0), number(3)
    array = L.array_write(h, i)
    going_on = L.less_than(i, n)
    loop = L.While(going_on)
    with loop.block():
        now = change(L.array_read(array, i))
        L.increment(i)
        L.array_write(now, i, array=array)
        L.less_than(i, n, cond=going_on)
    return L.array_read(array, n)


def build(code):
    """(main, startup, loss)"""
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 1
    space = dict(globals())
    words = set(re.findall(r'\b\w+\b', re.sub(r"'[^']*'", '', code)))
    start = fluid.initializer.NumpyArrayInitializer(np.linspace(-0.3, 0.5, 16).reshape(4, 4).astype('float32'))
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        if 'seq' in words:
            space['seq'] = L.fc(L.data('words', [4], lod_level=1), 4, param_attr=start)
        space['h'] = L.fc(L.data('x', [4]), 4, param_attr=start)
        for name, make in MADE.items():
            if name in words:
                space[name] = eval(make, space)
        found = eval(code, space)
        found = found if isinstance(found, list) else [found]
        loss = L.sums([L.mean(L.square(each)) for each in found])
        fluid.optimizer.SGD(0.1).minimize(loss)
    return main, startup, loss.name


def run(main, startup, loss):
    """Three steps: their losses, and the first weight after them."""
    feed = {'x': np.arange(12, dtype='float32').reshape(3, 4) / 10}
    if main.global_block().has_var('words'):
        words = np.arange(24, dtype='float32').reshape(6, 4) / 20 - 0.4
        feed['words'] = fluid.create_lod_tensor(words, [[2, 1, 3]], fluid.CPUPlace())
    exe = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(fluid.Scope()):
        exe.run(startup)
        losses = [exe.run(main, feed=feed, fetch_list=[loss])[0].reshape(-1)[0] for _ in range(3)]
        weight = np.array(fluid.global_scope().find_var('fc_0.w_0').get_tensor())
    return np.concatenate([np.array(losses, 'float32'), weight.reshape(-1)])


def to_bytes(program):
    """The Program as its file has it, without the lines of the script that made it."""
    program = fluid.Program.parse_from_string(program.desc.serialize_to_string())
    for block in program.blocks:
        for op in block.ops:
            if op.has_attr('op_callstack'):
                op.desc._set_attr('op_callstack', ['  File "train.py", line 1, in <module>', '    train()'])
    # only a copy of the desc writes changed attributes out
    return fluid.core.ProgramDesc(program.desc).serialize_to_string()


def write(code):
    """{main, startup, loss, result} of a case, as arrays."""
    main, startup, loss = build(code)
    return {
        'main': np.frombuffer(to_bytes(main), 'uint8'),
        'startup': np.frombuffer(to_bytes(startup), 'uint8'),
        'loss': np.array(loss),
        'result': run(main, startup, loss),
    }


def check(case):
    """Runs what `write` gave, and compares."""
    main, startup = (fluid.Program.parse_from_string(case[key].tobytes()) for key in ('main', 'startup'))
    np.testing.assert_allclose(run(main, startup, str(case['loss'])), case['result'], rtol=1e-4, atol=1e-5)
