"""The layer calls whose programs are compared with paddlepaddle 1.8.5, and the script that records them.

    python tests/golden/make_layers.py      # with paddlepaddle 1.8.5; writes tests/golden/data/layers.json

A case is a line of Python. The names of INPUTS that it uses are fed variables. The record of a case holds
the ops of its two programs (type, slots, the attributes that the layer set) and their variables.
tests/python/test_layers_vs_185.py builds the same cases and compares. This file runs on Python 3.7 too.
"""
import json
import os
import re
import sys

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "layers.json")

INPUTS = {
    "x": "layers.data('x', [8])",
    "y": "layers.data('y', [8])",
    "xd": "layers.data('xd', [8], dtype='float64')",
    "fixed": "layers.data('fixed', [4, 8], append_batch_size=False)",
    "cube": "layers.data('cube', [3, 8])",
    "img": "layers.data('img', [3, 16, 16])",
    "vol": "layers.data('vol', [3, 6, 8, 8])",
    "nhwc": "layers.data('nhwc', [16, 16, 3])",
    "prob": "layers.data('prob', [10])",
    "label": "layers.data('label', [1], dtype='int64')",
    "flabel": "layers.data('flabel', [1])",
    "ids": "fluid.data('ids', [None, 5], dtype='int64')",
    "words": "layers.data('words', [1], dtype='int64', lod_level=1)",
    "seq": "layers.data('seq', [8], lod_level=1)",
    "seq2": "layers.data('seq2', [8], lod_level=1)",
    "gates": "layers.data('gates', [32], lod_level=1)",
    "gates3": "layers.data('gates3', [24], lod_level=1)",
    "flag": "layers.data('flag', [1], dtype='bool', append_batch_size=False)",
    "mask": "layers.data('mask', [1], dtype='bool')",
    "num": "layers.data('num', [1], dtype='int32', append_batch_size=False)",
    "i": "layers.fill_constant([1], 'int64', 0)",
    "n": "layers.fill_constant([1], 'int64', 10)",
    "lens": "layers.data('lens', [1], dtype='int64', append_batch_size=False)",
}

CASES = """
data: x
data_lod: words
fluid_data: ids
fc: layers.fc(x, size=4)
fc_act: layers.fc(input=x, size=4, act='softmax')
fc_named: layers.fc(x, 4, name='hidden', param_attr=fluid.ParamAttr(name='w'), bias_attr=False)
fc_two: layers.fc([x, y], size=4, act='relu')
fc_flatten: layers.fc(cube, size=4, num_flatten_dims=2, act='tanh')
fc_all_but_last: layers.fc(cube, size=4, num_flatten_dims=-1)
fc_shared: layers.fc(layers.fc(x, 8, param_attr='w'), 8, param_attr='w')
fc_init: layers.fc(x, 4, param_attr=fluid.initializer.Normal(0., 0.1), \
bias_attr=fluid.initializer.Constant(0.5))
embedding: layers.embedding(words, size=[100, 16])
embedding_sparse: layers.embedding(words, size=[100, 16], is_sparse=True, padding_idx=-1, param_attr='table')
embedding_far: layers.embedding(words, [100, 16], is_sparse=True, is_distributed=True)
embedding_v2: fluid.embedding(ids, size=[100, 16], is_sparse=True, padding_idx=3)
one_hot: layers.one_hot(label, 10)
one_hot_v2: fluid.one_hot(ids, 10)
conv2d: layers.conv2d(img, num_filters=6, filter_size=3)
conv2d_full: layers.conv2d(img, 6, [3, 5], stride=2, padding=[1, 2], dilation=1, groups=3, act='relu')
conv2d_same: layers.conv2d(img, 6, 3, padding='SAME', bias_attr=False)
conv2d_sides: layers.conv2d(img, 6, 3, padding=[1, 2, 0, 0])
conv2d_pairs: layers.conv2d(img, 6, 3, padding=[[0, 0], [0, 0], [1, 1], [2, 2]])
conv2d_nhwc: layers.conv2d(nhwc, 6, 3, data_format='NHWC', act='relu')
conv2d_depthwise: layers.conv2d(img, 6, 3, groups=3, use_cudnn=False, act='relu')
conv3d: layers.conv3d(vol, 4, 3, padding=1, act='relu')
conv2d_transpose: layers.conv2d_transpose(img, 4, filter_size=3, stride=2)
conv2d_transpose_size: layers.conv2d_transpose(img, 4, output_size=33, stride=2, padding=1)
conv3d_transpose: layers.conv3d_transpose(vol, 4, filter_size=2, padding=[1, 0, 1])
pool2d: layers.pool2d(img, pool_size=2, pool_stride=2)
pool2d_avg: layers.pool2d(img, [2, 3], 'avg', [2, 1], [1, 0], ceil_mode=True, exclusive=False)
pool2d_global: layers.pool2d(img, pool_type='avg', global_pooling=True)
pool3d: layers.pool3d(vol, 2, 'max', 2)
adaptive_pool2d: layers.adaptive_pool2d(img, [4, 4], 'avg')
adaptive_pool2d_max: layers.adaptive_pool2d(img, 4, 'max', require_index=True)
batch_norm: layers.batch_norm(img)
batch_norm_full: layers.batch_norm(img, act='relu', momentum=0.8, moving_mean_name='mm', \
moving_variance_name='mv', \
is_test=True)
batch_norm_nhwc: layers.batch_norm(nhwc, data_layout='NHWC')
instance_norm: layers.instance_norm(img)
layer_norm: layers.layer_norm(cube, begin_norm_axis=2, act='relu')
layer_norm_plain: layers.layer_norm(cube, scale=False, shift=False)
group_norm: layers.group_norm(img, groups=3, param_attr=fluid.ParamAttr(), bias_attr=fluid.ParamAttr())
data_norm: layers.data_norm(x)
spectral_norm: layers.spectral_norm(layers.create_parameter([4, 6], 'float32'), dim=1)
lrn: layers.lrn(img)
l2_normalize: layers.l2_normalize(x, axis=1)
dropout: layers.dropout(x, 0.3)
dropout_up: layers.dropout(x, 0.3, seed=7, dropout_implementation='upscale_in_train')
softmax: layers.softmax(x)
softmax_axis: layers.softmax(cube, axis=1, name='s')
log_softmax: layers.log_softmax(x)
cos_sim: layers.cos_sim(x, y)
matmul: layers.matmul(x, y, transpose_y=True, alpha=0.5)
mul: layers.mul(cube, layers.create_parameter([24, 5], 'float32'))
bmm: layers.bmm(cube, layers.transpose(cube, [0, 2, 1]))
elementwise_add: layers.elementwise_add(x, y)
elementwise_axis: layers.elementwise_mul(img, layers.create_parameter([3], 'float32'), axis=1, act='relu')
elementwise_others: [getattr(layers, 'elementwise_' + k)(x, y) for k in 'sub div max min pow'.split()]
elementwise_int: [layers.elementwise_mod(label, label), layers.elementwise_floordiv(label, label)]
scale: layers.scale(x, scale=2.0, bias=1.0, bias_after_scale=False, act='relu')
scale_tensor: layers.scale(x, scale=layers.fill_constant([1], 'float32', 2.0))
clip: layers.clip(x, -1.0, 1.0)
clip_named: layers.clip_by_norm(x, 1.0, name='short')
mean: layers.mean(x)
mean_old: layers.mean(x=x)
sum: layers.sum([x, y])
sums: layers.sums([x, y])
reduce_sum: layers.reduce_sum(cube)
reduce_mean: layers.reduce_mean(cube, dim=[1, 2])
reduce_others: [layers.reduce_max(cube, 1, True), layers.reduce_min(cube, -1), layers.reduce_prod(cube, [0])]
reduce_bool: [layers.reduce_all(mask), layers.reduce_any(mask, dim=1, keep_dim=True)]
topk: layers.topk(prob, k=3)
argmax: [layers.argmax(x, axis=1), layers.argmin(x, -1), layers.argsort(x)]
activations: [getattr(layers, k)(x) for k in 'sigmoid logsigmoid exp tanh atan tanh_shrink sqrt rsqrt \
abs'.split()]
activations2: [getattr(layers, k)(x) for k in 'ceil floor cos acos asin sin round reciprocal square \
softplus'.split()]
activations3: [layers.softsign(x), layers.relu(x), layers.log(x), layers.gelu(x), layers.erf(x), \
layers.sign(x)]
activations4: [layers.elu(x, 0.5), layers.relu6(x), layers.pow(x, 2.0), layers.stanh(x), \
layers.hard_sigmoid(x)]
activations5: [layers.swish(x), layers.brelu(x), layers.leaky_relu(x, 0.1), layers.soft_relu(x), \
layers.selu(x)]
activations6: [layers.softshrink(x, 0.3), layers.hard_shrink(x), layers.thresholded_relu(x, 0.5), \
layers.hard_swish(x)]
cumsum: layers.cumsum(x, axis=1, exclusive=True)
prelu: [layers.prelu(img, 'all'), layers.prelu(img, 'channel'), layers.prelu(img, 'element')]
maxout: layers.maxout(img, groups=3)
reshape: layers.reshape(x, shape=[-1, 2, 4], act='relu')
reshape_inplace: layers.reshape(cube, [0, -1], inplace=True)
reshape_tensor: layers.reshape(fixed, shape=[num, 8])
reshape_actual: layers.reshape(x, [-1, 4], actual_shape=layers.shape(y))
squeeze: layers.squeeze(label, axes=[1])
unsqueeze: layers.unsqueeze(x, axes=[1, 3])
flatten: layers.flatten(img, axis=1)
transpose: layers.transpose(cube, perm=[0, 2, 1])
split: layers.split(x, 2, dim=1)
split_sizes: layers.split(x, [2, 2, 4], dim=-1)
stack: layers.stack([x, y], axis=1)
unstack: layers.unstack(cube, axis=1)
concat: layers.concat([x, y], axis=1)
expand: layers.expand(x, [1, 2])
slice: layers.slice(cube, axes=[1, 2], starts=[0, -3], ends=[2, 8])
slice_tensor: layers.slice(fixed, axes=[0, 1], starts=[num, 1], ends=[4, 8])
strided_slice: layers.strided_slice(cube, [1, 2], [0, 1], [3, 8], [1, 2])
crop: layers.crop(fixed, shape=[2, 3], offsets=[1, 1])
crop_tensor: layers.crop_tensor(fixed, shape=[2, 3], offsets=[1, 1])
pad: layers.pad(fixed, [0, 1, 2, 0], 0.5)
pad2d: layers.pad2d(img, [1, 2, 3, 4], mode='reflect')
gather: layers.gather(x, layers.cast(lens, 'int32'))
gather_nd: layers.gather_nd(x, label)
scatter: layers.scatter(fixed, lens, layers.slice(fixed, [0], [0], [1]), overwrite=False)
scatter_nd_add: layers.scatter_nd_add(fixed, layers.reshape(lens, [1, 1]), layers.slice(fixed, [0], [0], [1]))
multiplex: layers.multiplex([x, y], layers.cast(label, 'int32'))
shape: [layers.shape(x), layers.rank(x), layers.size(x)]
where: layers.where(mask)
unique: layers.unique(lens)
lod_reset: [layers.lod_reset(x, y=seq), layers.lod_reset(x, target_lod=[0, 2, 4])]
shard_index: layers.shard_index(label, 20, 2, 0)
create: [layers.create_tensor('float32'), layers.create_parameter([3, 4], 'float32', name='p'), \
layers.create_global_var([1], 1.0, 'float32', persistable=True)]
cast: layers.cast(x, 'int32')
assign: [layers.assign(x), layers.assign(np.array([[1.5, 2.0]], 'float32')), layers.assign(np.array([1, 2], \
'int64'))]
fill_constant: [layers.fill_constant([2, 3], 'float32', 0.1), layers.fill_constant([1], 'int64', 12345678901)]
fill_constant_tensor: layers.fill_constant([num, 3], 'float32', 1.0)
fill_like: [layers.fill_constant_batch_size_like(x, [-1, 3], 'float32', 1.0), layers.zeros_like(x), \
layers.ones_like(x)]
ones: [layers.ones([2], 'float32'), layers.zeros([2, 2], 'int32'), layers.eye(3), layers.diag(np.array([1, \
2], 'int32'))]
range: [layers.range(0, 10, 2, 'int32'), layers.linspace(0, 1, 5, 'float32')]
reverse: layers.reverse(cube, [1, 2])
isfinite: [layers.isfinite(x), layers.has_inf(x), layers.has_nan(x)]
random: [layers.uniform_random([2, 3], min=0., seed=3), layers.gaussian_random([2, 3], std=2.)]
random_like: [layers.uniform_random_batch_size_like(x, [-1, 3]), layers.gaussian_random_batch_size_like(x, \
[-1, 3])]
sampling_id: layers.sampling_id(prob)
label_smooth: layers.label_smooth(layers.one_hot(label, 10), epsilon=0.2)
cross_entropy: layers.cross_entropy(input=prob, label=label)
cross_entropy_soft: layers.cross_entropy(prob, prob, soft_label=True)
softmax_with_cross_entropy: layers.softmax_with_cross_entropy(prob, label, return_softmax=True)
sigmoid_cross_entropy: layers.sigmoid_cross_entropy_with_logits(x, y, normalize=True)
square_error_cost: layers.mean(layers.square_error_cost(input=flabel, label=flabel))
mse_loss: layers.mse_loss(x, y)
log_loss: layers.log_loss(flabel, flabel)
smooth_l1: layers.smooth_l1(x, y, sigma=2.0)
huber_loss: layers.huber_loss(flabel, flabel, 1.0)
kldiv_loss: layers.kldiv_loss(x, y, 'batchmean')
rank_loss: [layers.rank_loss(flabel, flabel, flabel), layers.margin_rank_loss(flabel, flabel, flabel)]
bpr_loss: layers.bpr_loss(prob, label)
teacher_student: layers.teacher_student_sigmoid_loss(flabel, flabel)
nce: layers.nce(x, label, num_total_classes=20, num_neg_samples=5)
hsigmoid: layers.hsigmoid(x, label, num_classes=6)
dice_loss: layers.dice_loss(prob, label)
npair_loss: layers.npair_loss(fixed, fixed, layers.data('four', [4], append_batch_size=False))
center_loss: layers.center_loss(x, label, 4, 0.1, fluid.initializer.Constant(0.5))
edit_distance: layers.edit_distance(words, words, ignored_tokens=[0])
accuracy: layers.accuracy(input=prob, label=label, k=5)
auc: layers.auc(input=layers.softmax(layers.fc(x, 2)), label=label, num_thresholds=200, slide_steps=2)
mean_iou: layers.mean_iou(label, label, 4)
chunk_eval: layers.chunk_eval(words, words, 'IOB', 3)
sequence_conv: layers.sequence_conv(seq, num_filters=4, filter_size=3, act='tanh')
sequence_pool: [layers.sequence_pool(seq, k) for k in 'sum average sqrt max'.split()]
sequence_ends: [layers.sequence_first_step(seq), layers.sequence_last_step(seq)]
sequence_softmax: layers.sequence_softmax(layers.fc(seq, 1))
sequence_concat: layers.sequence_concat([seq, seq2])
sequence_expand: [layers.sequence_expand(x, seq, ref_level=0), layers.sequence_expand_as(x, seq)]
sequence_pad: layers.sequence_unpad(*layers.sequence_pad(seq, layers.fill_constant([1], 'float32', 0.0), \
maxlen=9))
sequence_reshape: layers.sequence_reshape(seq, 4)
sequence_others: [layers.sequence_enumerate(words, 3), layers.sequence_mask(lens, 9), \
layers.sequence_reverse(seq)]
sequence_slice: layers.sequence_slice(seq, label, label)
sequence_scatter: layers.sequence_scatter(x, words, layers.fc(seq, 1))
dynamic_lstm: layers.dynamic_lstm(gates, size=32)
dynamic_lstmp: layers.dynamic_lstmp(gates, size=32, proj_size=5, use_peepholes=False)
dynamic_gru: layers.dynamic_gru(gates3, size=8, is_reverse=True)
gru_unit: layers.gru_unit(layers.fc(x, 24), layers.fc(x, 8), size=24)
lstm_unit: layers.lstm_unit(x, layers.fc(x, 4), layers.fc(x, 4), forget_bias=1.0)
beam: layers.beam_search(label, flabel, label, flabel, 2, 1)
compare: [layers.less_than(x, y), layers.equal(x, y), layers.greater_equal(x, y), layers.less_than(i, n, \
force_cpu=True)]
logical: [layers.logical_and(mask, mask), layers.logical_not(mask), layers.logical_xor(mask, mask)]
increment: [layers.increment(i), layers.increment(i, 2, in_place=False)]
is_empty: layers.is_empty(x)
arrays: layers.array_length(layers.array_write(layers.array_read(layers.array_write(x, i), i), n))
rank_table: layers.control_flow.lod_tensor_to_array(seq, layers.control_flow.lod_rank_table(seq))
Print: layers.Print(x, message='x')
step_counter: layers.autoincreased_step_counter()
operators: [x + y, x - 1, 2 * x, x / 4.0, 1 - x, -x, x ** 2, x * y]
operators_left: [2.0 / x, 2.0 / fixed, 2 ** x, 1 + x]
operators_int: [label + 1, label // 2, label % 3]
operators_compare: [x < y, x == 1.0, x >= y, x != y]
operators_cast: [x + label, x.astype('float64')]
getitem: [cube[0], cube[:, 1:], fixed[1:3, 2]]
noam: layers.noam_decay(512, 4000)
exponential: layers.exponential_decay(0.1, 100, 0.9, staircase=True)
natural_exp: layers.natural_exp_decay(0.1, 100, 0.9)
inverse_time: layers.inverse_time_decay(0.1, 100, 0.9, True)
polynomial: layers.polynomial_decay(0.1, 100, 0.01, 2.0)
polynomial_cycle: layers.polynomial_decay(0.1, 100, cycle=True)
piecewise: layers.piecewise_decay([100, 200], [1.0, 0.5, 0.1])
cosine: layers.cosine_decay(0.1, 50, 10)
warmup: layers.linear_lr_warmup(0.1, 50, 0.01, 0.1)
warmup_of: layers.linear_lr_warmup(layers.exponential_decay(0.1, 100, 0.9), 50, 0.01, 0.1)
While: run_while(i, n)
while_loop: layers.while_loop(lambda a, b: layers.less_than(a, b), lambda a, b: [a + 1, b], [i, n])
cond: layers.cond(flag, lambda: x + 1.0, lambda: y * 2.0)
case: layers.case([(flag, lambda: x + 1.0)], default=lambda: y * 2.0)
switch_case: layers.switch_case(i, {1: lambda: x + 1.0, 2: lambda: y * 2.0})
IfElse: run_if_else(x, mask)
StaticRNN: run_static_rnn(layers.transpose(layers.data('steps', [5, 2, 8], append_batch_size=False), [1, 0, \
2]))
DynamicRNN: run_dynamic_rnn(seq)
net_conv_pool: fluid.nets.simple_img_conv_pool(img, 4, 3, 2, 2, act='relu')
net_conv_group: fluid.nets.img_conv_group(img, [4, 4], 2, conv_act='relu', conv_with_batchnorm=True, \
conv_batchnorm_drop_rate=[0.3, 0.0], pool_stride=2)
net_sequence: fluid.nets.sequence_conv_pool(seq, 4, 3)
net_glu: fluid.nets.glu(x)
net_attention: fluid.nets.scaled_dot_product_attention(cube, cube, cube, num_heads=2, dropout_rate=0.1)
image_resize: [layers.resize_bilinear(img, [8, 8]), layers.resize_nearest(img, scale=2.0), \
layers.image_resize_short(img, 8)]
pixels: [layers.pixel_shuffle(layers.concat([img] * 4, 1), 2), layers.space_to_depth(layers.concat([img] * \
4, 1), 2), layers.unfold(img, 3)]
channels: [layers.shuffle_channel(img, 3), layers.im2sequence(img, [2, 2], 2), layers.temporal_shift(img, 2)]
bilinear_product: layers.bilinear_tensor_product(x, y, 3)
row_conv: layers.row_conv(seq, 2)
selected: layers.add_position_encoding(cube, 1.0, 0.5)
cvm: layers.continuous_value_model(x, layers.slice(x, [1], [0], [2]))
products: [layers.addmm(fixed, layers.matmul(fixed, fixed, False, True), fixed, 0.5, 2.0), layers.dot(x, \
y), layers.kron(x, y)]
cross: layers.cross(layers.transpose(cube, [0, 2, 1]), layers.transpose(cube, [0, 2, 1]), dim=2)
fsp_matrix: layers.fsp_matrix(img, img)
adaptive_pool3d: layers.adaptive_pool3d(vol, 2, 'max')
elementwise_equal: [layers.elementwise_equal(x, y), layers.logical_or(mask, mask)]
clamp: [layers.clamp(x, min=0.5), layers.addcmul(x, x, y, 0.5), layers.allclose(x, y), layers.dist(x, y, 1)]
resize_more: [layers.resize_trilinear(vol, [4, 4, 4]), layers.interpolate(img, scale=2, resample='BICUBIC')]
resize_tensor: layers.image_resize(img, out_shape=[num, 8], resample='NEAREST', align_corners=False)
affine: [layers.affine_channel(img, layers.create_parameter([3], 'float32'), layers.create_parameter([3], \
'float32')), \
layers.grid_sampler(img, layers.affine_grid(layers.data('theta', [2, 3]), [4, 3, 16, 16]))]
inplace_abn: layers.inplace_abn(layers.scale(img), act='leaky_relu', act_alpha=0.2)
log_exp: [layers.log1p(x), layers.logsumexp(x, dim=1), layers.mish(x)]
random_crop: layers.random_crop(img, [3, 8, 8], seed=7)
randint: [layers.randint(3, 9, shape=[2, 3]), layers.randint(5), layers.randperm(7)]
t: [layers.t(fixed), layers.flip(fixed, [0]), layers.roll(fixed, 2, 1), layers.roll(fixed, 1)]
pad_like: layers.pad_constant_like(fixed, layers.slice(fixed, [0], [0], [2]), 0.5)
scatter_nd: layers.scatter_nd(layers.reshape(lens, [1, 1]), layers.slice(fixed, [0], [0], [1]), [4, 8])
index: [layers.index_select(x, lens, dim=1), layers.index_sample(prob, label)]
nonzero: [layers.nonzero(mask, as_tuple=True), layers.unique_with_counts(lens)]
grids: [layers.meshgrid([lens, layers.range(0, 3, 1, 'int64')]), layers.diag_embed(x)]
lod_append: [layers.lod_append(seq, [1, 1]), layers.lod_append(seq, seq2)]
gather_tree: layers.gather_tree(layers.reshape(ids, [-1, 5, 1]), layers.reshape(ids, [-1, 5, 1]))
array_to_tensor: layers.tensor_array_to_tensor(layers.array_write(x, i), axis=0)
fulls: [layers.arange(0, 5), layers.full([2], 3.0), layers.tril(fixed, 1), layers.triu(fixed), \
layers.trace(fixed)]
full_like: layers.full_like(x, 2.0, dtype='float32')
compare_more: [layers.less_equal(x, y), layers.greater_than(x, y), layers.not_equal(x, y), \
layers.create_array('float32')]
lod_loop: [(control.max_sequence_len(t), control.shrink_memory(x, i, t), \
layers.reorder_lod_tensor_by_rank(seq, t), \
control.array_to_lod_tensor(control.lod_tensor_to_array(seq, t), t)) for t in [control.lod_rank_table(seq)]]
split_lod: control.merge_lod_tensor(*control.split_lod_tensor(x, mask), x=x, mask=mask)
get_places: layers.device.get_places(2)
lstm: layers.lstm(cube, layers.data('h', [1, 3, 4], append_batch_size=False), \
layers.data('c', [1, 3, 4], append_batch_size=False), 5, 4, 2, is_bidirec=True)
beam_search_decode: layers.beam_search_decode(layers.array_write(words, i), layers.array_write(seq, i), 2, 1)
filter_by_instag: layers.filter_by_instag(x, words, lens, False)
switch: run_switch(i, n, x, y)
nce_custom: layers.nce(x, label, 4, sampler='custom_dist', custom_dist=[0.1, 0.2, 0.3, 0.4], bias_attr=False)
hsigmoid_tree: layers.hsigmoid(x, label, 6, path_table=ids, path_code=ids, is_custom=True, is_sparse=True)
data_norm_shift: layers.data_norm(x, param_attr={'scale_w': 2.0, 'bias': 0.5}, enable_scale_and_shift=True)
while_nested: layers.while_loop(lambda a, b: layers.less_than(a, n), lambda a, b: [a + 1, {'k': b['k'] + \
1.0}], [i, {'k': x}])
crop_var: layers.crop_tensor(fixed, shape=[num, 3], offsets=[1, num])
split_var: layers.split(fixed, [num, 3, -1], dim=1)
expand_var: layers.expand(fixed, [num, 2])
unsqueeze_var: layers.unsqueeze(fixed, axes=[num, 2])
random_var: layers.gaussian_random([num, 3])
pool_same: [layers.pool2d(img, 3, pool_padding='SAME'), layers.pool2d(img, 3, pool_padding=[1, 0, 1, 0])]
conv3d_sides: [layers.conv3d(vol, 2, 3, padding=[1, 1, 0, 1, 0, 0]), layers.conv3d_transpose(vol, 2, [7, 9, \
9])]
float64: [layers.fc(xd, 3, act='sigmoid'), 1.0 - xd, 2.0 / xd, layers.cross_entropy(layers.softmax(xd), \
label)]
"""

# Slots whose order 1.8.5 takes from a Python set, so that it differs from run to run.
UNORDERED = {"while", "conditional_block", "recurrent"}

HELPERS = '''
def run_while(i, n):
    going_on = layers.less_than(i, n)
    loop = layers.While(cond=going_on)
    with loop.block():
        layers.increment(i)
        layers.less_than(i, n, cond=going_on)

def run_switch(i, n, x, y):
    out = layers.create_global_var([1], 0.0, 'float32', persistable=True)
    with layers.Switch() as switch:
        with switch.case(layers.less_than(i, n)):
            layers.assign(layers.reduce_sum(x), out)
        with switch.case(layers.equal(i, n)):
            layers.assign(layers.reduce_sum(y), out)
        with switch.default():
            layers.fill_constant([1], 'float32', 2.0, out=out)

def run_if_else(x, mask):
    choice = layers.IfElse(mask)
    with choice.true_block():
        choice.output(layers.scale(choice.input(x), 2.0))
    with choice.false_block():
        choice.output(layers.scale(choice.input(x), 3.0))
    return choice()

def run_static_rnn(steps):
    rnn = layers.StaticRNN()
    with rnn.step():
        word = rnn.step_input(steps)
        before = rnn.memory(shape=[-1, 4], batch_ref=word)
        now = layers.fc([word, before], size=4)
        rnn.update_memory(before, now)
        rnn.step_output(now)
    return rnn()

def run_dynamic_rnn(seq):
    rnn = layers.DynamicRNN()
    with rnn.block():
        word = rnn.step_input(seq)
        before = rnn.memory(shape=[4], value=0.5)
        now = layers.fc([word, before], size=4, act='tanh')
        rnn.update_memory(before, now)
        rnn.output(now)
    return rnn()
'''


def cases():
    """The table as {name: code}."""
    return dict(line.split(": ", 1) for line in CASES.strip().split("\n"))


def build(code, fluid, np):
    """The main and the startup program of one case."""
    main, startup = fluid.Program(), fluid.Program()
    space = {"fluid": fluid, "layers": fluid.layers, "control": fluid.layers.control_flow, "np": np}
    exec(HELPERS, space)
    words = set(re.findall(r"\b\w+\b", re.sub(r"'[^']*'", "", code)))
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        for name, make in INPUTS.items():
            if name in words:
                space[name] = eval(make, space)
        eval(code, space)
    return main, startup


def plain(value):
    """An attribute in a form that JSON keeps."""
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if isinstance(value, (bool, str)):
        return value
    if isinstance(value, float):
        return float("%.6g" % value)
    return int(value)


def describe_var(var, var_type):
    """What is compared of a variable: type, dtype, shape, LoD level, persistable, stop_gradient."""
    kind = int(var.type)
    if var.type != var_type.LOD_TENSOR and var.type != var_type.SELECTED_ROWS:
        return [kind, bool(var.persistable)]
    kept, fixed = bool(var.persistable), bool(var.stop_gradient)
    return [kind, int(var.dtype), list(var.shape), var.lod_level, kept, fixed]


def describe(program, attrs_of, var_type):
    """The blocks of a program: ops as [type, inputs, outputs, attributes], and variables by name."""
    blocks = []
    for block in program.blocks:
        ops = []
        for op in block.ops:
            slots = [{slot: list(getattr(op, side)(slot)) for slot in getattr(op, side + "_names")
                      if len(getattr(op, side)(slot))} for side in ("input", "output")]
            if op.type in UNORDERED:
                slots = [{slot: sorted(names) for slot, names in each.items()} for each in slots]
            ops.append([op.type] + slots + [attrs_of(op)])
        found = {name: describe_var(var, var_type) for name, var in block.vars.items()}
        blocks.append({"ops": ops, "vars": found})
    return blocks


def record():
    """Write the golden file; needs paddlepaddle 1.8.5."""
    import maker  # noqa: F401, refuses other packages
    import numpy as np
    import paddle.fluid as fluid
    from paddle.fluid import framework

    given = {}
    first = framework.Operator.__init__

    def remember(self, block, desc, type=None, inputs=None, outputs=None, attrs=None):
        first(self, block, desc, type, inputs, outputs, attrs)
        given[self] = [key for key, value in (attrs or {}).items() if value is not None]

    framework.Operator.__init__ = remember

    def attrs_of(op):
        found = {}
        for key in given.get(op, []):
            if not op.desc.has_attr(key) or key.startswith("op_"):
                continue
            found[key] = op._block_attr_id(key) if key == "sub_block" else plain(op.attr(key))
        return found

    golden, var_type = {}, fluid.core.VarDesc.VarType
    for name, code in cases().items():
        try:
            main, startup = build(code, fluid, np)
        except Exception as error:
            sys.exit("case %s: %s" % (name, error))
        golden[name] = [describe(program, attrs_of, var_type) for program in (main, startup)]
    with open(DATA, "w") as out:
        out.write("{\n" + ",\n".join("%s: %s" % (json.dumps(name), json.dumps(golden[name], sort_keys=True,
                                                                              separators=(",", ":")))
                                     for name in golden) + "\n}\n")
    print("%d cases in %s" % (len(golden), DATA))


if __name__ == "__main__":
    record()
