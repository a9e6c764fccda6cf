"""Programs on several places whose ops touch gradients before the update, or parameters behind it: each op sees what it
would see if every place ran all ops in the Program's order. The figures are those of the real 1.8.5."""

import numpy as np
import pytest

import paddle.fluid as fluid
from paddle.fluid import layers

pytestmark = pytest.mark.usefixtures("fresh")

KINDS = {}


def kind(build):
    KINDS[build.__name__] = build
    return build


def sgd(rate=0.1, **others):
    return fluid.optimizer.SGD(rate, **others)


def linear(x, size, name):
    return layers.fc(x, size, param_attr=name, bias_attr=False)


def net():
    """A linear layer with the weights w, and its loss."""
    h = linear(fluid.data("x", [-1, 3], "float32"), 2, "w")
    return h, layers.mean(layers.square(h - 1.0))


def weights():
    return fluid.default_main_program().global_block().var("w")


def kept(shape, value, name):
    return layers.create_global_var(shape, value, "float32", persistable=True, name=name)


def number(value, dtype="float32"):
    return layers.fill_constant([1], dtype, value)


# ---- between the gradients and the update ----


@kind
def norm_of_gradients():
    _, loss = net()
    optimizer = sgd()
    pairs = optimizer.backward(loss)
    norm = layers.reduce_sum(layers.square(pairs[0][1]))
    optimizer.apply_gradients(pairs)
    return loss, [norm, "w@GRAD"]


@kind
def scaled_gradients():
    _, loss = net()
    optimizer = sgd()
    optimizer.apply_gradients([(param, grad * 0.5) for param, grad in optimizer.backward(loss)])
    return loss, []


@kind
def clipped_gradients_and_statistics():
    h, _ = net()
    h = layers.batch_norm(h, param_attr="s", bias_attr="b", moving_mean_name="m", moving_variance_name="v")
    loss = layers.mean(layers.square(h - 1.0))
    optimizer = sgd()
    optimizer.apply_gradients([(param, layers.clip(grad, -0.2, 0.2)) for param, grad in optimizer.backward(loss)])
    return loss, ["m", "b"]


@kind
def clipped_in_place():
    _, loss = net()
    optimizer = sgd()
    (param, grad), = optimizer.backward(loss)
    layers.assign(layers.clip(grad, -0.3, 0.3), output=grad)
    optimizer.apply_gradients([(param, grad)])
    return loss, [grad]


@kind
def accumulated_gradients():
    _, loss = net()
    optimizer = sgd()
    (param, grad), = optimizer.backward(loss)
    total = kept([3, 2], 0.0, "total")
    layers.assign(total * 0.5 + grad, output=total)
    optimizer.apply_gradients([(param, total)])
    return loss, [total]


@kind
def applied_each_second_step():
    _, loss = net()
    (param, grad), = fluid.backward.append_backward(loss)
    total = kept([3, 2], 0.0, "total")
    layers.sums([total, grad], out=total)
    odd = layers.elementwise_mod(layers.autoincreased_step_counter(), number(2, "int64"))
    with layers.Switch() as switch, switch.case(layers.equal(odd, number(0, "int64"))):
        layers.assign(param - total * 0.1, output=param)
        layers.assign(total * 0.0, output=total)
    return loss, [total]


@kind
def update_by_hand():
    _, loss = net()
    (param, grad), = fluid.backward.append_backward(loss)
    layers.assign(param - grad * 0.1, output=param)
    return loss, []


@kind
def skipped_where_the_norm_is_large():
    _, loss = net()
    optimizer = sgd()
    (param, grad), = optimizer.backward(loss)
    norm = layers.reduce_sum(layers.square(grad))
    small = layers.cond(norm > 6.0, lambda: grad * 0.1, lambda: grad * 1.0)
    optimizer.apply_gradients([(param, small)])
    return loss, [norm, small]


@kind
def gradients_that_are_kept():
    h, loss = net()
    h.persistable = True
    optimizer = sgd()
    (param, grad), = optimizer.backward(loss)
    grad.persistable = True
    optimizer.apply_gradients([(param, grad * 0.5)])
    return loss, [grad, h]


@kind
def rate_from_the_norm():
    _, loss = net()
    pairs = fluid.backward.append_backward(loss)
    norm = layers.sqrt(layers.reduce_sum(layers.square(pairs[0][1])))
    sgd(layers.elementwise_div(number(0.2), norm + 1.0)).apply_gradients(pairs)
    return loss, [norm]


@kind
def clip_by_norm():
    _, loss = net()
    sgd(grad_clip=fluid.clip.GradientClipByNorm(0.3)).minimize(loss)
    return loss, ["w@GRAD"]


@kind
def clip_by_value_and_decay():
    _, loss = net()
    sgd(grad_clip=fluid.clip.GradientClipByValue(0.3), regularization=fluid.regularizer.L1Decay(0.05)).minimize(loss)
    return loss, ["w@GRAD"]


@kind
def sparse_gradients():
    rows = layers.embedding(fluid.data("ids", [-1, 1], "int64"), [8, 3], is_sparse=True, param_attr="w")
    loss = layers.mean(layers.square(linear(rows, 2, "v") - 1.0))
    clip, decay = fluid.clip.GradientClipByGlobalNorm(0.2), fluid.regularizer.L2Decay(0.1)
    sgd(grad_clip=clip, regularization=decay).minimize(loss)
    return loss, ["v@GRAD"]


# ---- behind the update ----


@kind
def clipped_weights():
    _, loss = net()
    sgd().minimize(loss)
    layers.assign(layers.clip(weights(), -0.5, 0.5), output=weights())
    return loss, ["w"]


@kind
def lookahead():
    _, loss = net()
    fluid.optimizer.LookaheadOptimizer(sgd(), alpha=0.5, k=2).minimize(loss)
    return loss, []


@kind
def layers_that_read_weights():
    h, loss = net()
    sgd().minimize(loss)
    again = layers.mean(layers.square(layers.mul(h.block.var("x"), weights()) - 1.0))
    return loss, [layers.reduce_sum(weights()), again]


@kind
def moving_average_of_weights():
    _, loss = net()
    sgd().minimize(loss)
    step = layers.autoincreased_step_counter()
    fluid.optimizer.ExponentialMovingAverage(0.9, thres_steps=step).update()
    return loss, [step]


@kind
def teacher_that_follows():
    h, loss = net()
    teacher = kept([3, 2], 0.1, "teacher")
    loss = loss + layers.mean(layers.square(h - layers.mul(h.block.var("x"), teacher)))
    sgd().minimize(loss)
    layers.assign(teacher * 0.5 + weights() * 0.5, output=teacher)
    return loss, [teacher]


@kind
def counter_that_weights_set_back():
    _, loss = net()
    sgd().minimize(loss)
    count = kept([1], 0.0, "count")
    layers.increment(count)
    with layers.Switch() as switch, switch.case(layers.less_than(layers.reduce_sum(weights()), number(-0.35))):
        layers.assign(number(0.0), output=count)
    return loss, [count]


@kind
def two_players():
    x = fluid.data("x", [-1, 3], "float32")
    made = layers.reshape(layers.tanh(linear(layers.dropout(x, 0.3, seed=3), 4, "w")), [-1, 2, 2])
    judge = lambda it: linear(layers.batch_norm(linear(it, 3, "v"), param_attr="s", bias_attr="b"), 1, "u")  # noqa: E731
    flat = layers.reshape(made, [-1, 4])
    loss = layers.mean(layers.square(judge(flat)))
    sgd().minimize(loss, parameter_list=["v", "u", "s", "b"])
    other = layers.mean(layers.square(judge(flat) - 1.0))
    sgd().minimize(other, parameter_list=["w"])
    return loss, [other, "v", "w@GRAD"]


@kind
def three_updates():
    x, losses = fluid.data("x", [-1, 3], "float32"), []
    for _ in range(3):
        losses.append(layers.mean(layers.square(linear(x, 2, "w") - 1.0)))
        sgd().minimize(losses[-1])
    return losses[0], losses[1:]


@kind
def rate_in_the_loss():
    h, loss = net()
    rate = layers.linear_lr_warmup(layers.cosine_decay(0.1, 2, 5), 2, 0.05, 0.1)
    loss = loss + layers.mean(h) * layers.reduce_sum(rate)
    sgd(rate).minimize(loss)
    return loss, [rate]


# ---- places whose parameters part ----


@kind
def rate_of_each_place():
    _, loss = net()
    rate = layers.scale(loss, 0.05)
    rate.stop_gradient = True
    sgd(rate).minimize(loss)
    return loss, [rate, "w"]


@kind
def gradients_times_the_loss():
    _, loss = net()
    optimizer = sgd()
    small = layers.scale(loss, 0.1)
    optimizer.apply_gradients([(param, layers.elementwise_mul(grad, small)) for param, grad in optimizer.backward(loss)])
    return loss, ["w"]


@kind
def gradients_of_each_place():
    _, loss = net()
    grad, = fluid.gradients(loss, weights())
    layers.assign(weights() - grad * 0.1, output=weights())
    return loss, [grad, "w"]


@kind
def average_of_each_place():
    _, loss = net()
    average = kept([1], 1.0, "average")
    mixed = loss * 0.5 + average * 0.5
    mixed.stop_gradient = True
    layers.assign(mixed, output=average)
    sgd(layers.scale(average, 0.02)).minimize(loss)
    return loss, [average, "w"]


def figures(name, count):
    """What the last of four steps gives: the losses, then the first six numbers of each fetch and of w."""
    for program in (fluid.default_main_program(), fluid.default_startup_program()):
        program.random_seed = 5
    loss, fetches = KINDS[name]()
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    strategy = fluid.BuildStrategy()
    strategy.fuse_all_reduce_ops = False  # with it 1.8.5 refuses some
    program = fluid.CompiledProgram(fluid.default_main_program())
    program = program.with_data_parallel(loss_name=loss.name, build_strategy=strategy, places=fluid.cpu_places(count))
    for i in range(4):
        rng = np.random.RandomState(i)
        feed = {"x": rng.randn(2 * count, 3).astype("float32"), "ids": rng.randint(0, 8, (2 * count, 1))}
        feed = {key: value for key, value in feed.items() if fluid.default_main_program().global_block().has_var(key)}
        results = exe.run(program, feed=feed, fetch_list=[loss, *fetches])
    values = [np.asarray(each, "float64").ravel()[:6] for each in results]
    values.append(np.array(fluid.global_scope().find_var("w").get_tensor()).ravel()[:6])
    return np.concatenate(values), program


OF_185 = {
    ("norm_of_gradients", 2): [
        1.7888, 0.51075, 1.4811, 1.4811, -1.0493, 0.35283, -0.28657, 0.41097, 0.029583, -0.060306, -0.40339, 0.051988,
        -0.68589, -0.026233, 0.2161, 0.35385,
    ],
    ("scaled_gradients", 2): [2.5494, 0.55124, -0.69892, -0.036425, -0.87959, -0.056832, 0.4436, 0.63446],
    ("clipped_gradients_and_statistics", 2): [
        1.7668, 1.7672, -0.45466, -0.29453, 0.098649, 0.073705, 0.08, 0.08, 0.08, 0.08, -1.0752, -0.16337, -1.1006,
        -0.091772, 0.76441, 0.98257,
    ],
    ("clipped_in_place", 2): [
        3.39, 0.78597, -0.3, 0.049558, -0.3, 0.13766, 0.16165, 0.064654, -0.9752, -0.10411, -1.0206, -0.07566, 0.63825,
        0.88604,
    ],
    ("accumulated_gradients", 2): [
        1.2206, 0.86085, -1.0899, 0.053275, -0.25532, 0.82719, 1.3856, 1.8796, -0.007103, 0.20703, -0.38202, 0.091409,
        -0.12834, -0.049985,
    ],
    ("applied_each_second_step", 2): [
        1.7166, 0.56443, 0, 0, 0, 0, 0, 0, -0.36323, 0.067329, -0.6873, -0.020457, 0.20507, 0.34105,
    ],
    ("update_by_hand", 2): [1.7888, 0.51075, -0.40339, 0.051988, -0.68589, -0.026233, 0.2161, 0.35385],
    ("skipped_where_the_norm_is_large", 2): [
        3.4702, 0.79873, 5.0354, 5.0354, -2.0635, -0.021915, -0.85703, 0.10309, 0.16457, 0.069811, -0.82144, -0.1331,
        -0.96284, -0.093796, 0.66313, 0.90092,
    ],
    ("gradients_that_are_kept", 2): [
        2.5494, 0.55124, -1.5878, 0.15293, -0.59326, 0.24686, 0.10276, 0.008403, -1.7457, -0.009629, 1.5434, -0.15926,
        0.61484, 0.002457, -0.69892, -0.036425, -0.87959, -0.056832, 0.4436, 0.63446,
    ],
    ("rate_from_the_norm", 2): [3.0183, 0.64775, 2.0007, 2.0007, -0.78551, -0.082035, -0.94903, -0.092182, 0.53098, 0.7362],
    ("clip_by_norm", 2): [
        3.6126, 0.84328, -2.128, -0.045005, -0.89143, 0.084998, 0.17189, 0.077084, -1.034, -0.14807, -1.0554, -0.091077,
        0.70459, 0.93755,
    ],
    ("clip_by_value_and_decay", 2): [
        3.3245, 0.76597, -1.9963, 0.081183, -0.82077, 0.15771, 0.15602, 0.059026, -0.9552, -0.087346, -1.0006, -0.057665,
        0.61882, 0.8666,
    ],
    ("sparse_gradients", 2): [
        2.4258, 1.9369, -0.082946, 0.051419, -0.89148, -0.58039, 0.31611, 0.2726, -0.71501, -0.11113, -0.68755, -0.068319,
        0.47363, 0.64488,
    ],
    ("clipped_weights", 2): [
        1.4647, 0.58454, -0.32458, 0.051077, -0.48446, -0.039715, 0.13461, 0.14517, -0.32458, 0.051077, -0.48446, -0.039715,
        0.13461, 0.14517,
    ],
    ("lookahead", 2): [2.5461, 0.51727, -0.71162, -0.041161, -0.87878, -0.058314, 0.4479, 0.6387],
    ("layers_that_read_weights", 2): [
        1.7888, 0.51075, -0.49358, -0.49358, 1.5692, 0.4612, -0.40339, 0.051988, -0.68589, -0.026233, 0.2161, 0.35385,
    ],
    ("moving_average_of_weights", 2): [1.7888, 0.51075, 4, 4, -0.40339, 0.051988, -0.68589, -0.026233, 0.2161, 0.35385],
    ("teacher_that_follows", 2): [
        1.2248, 0.73612, -0.13673, 0.10443, -0.35173, 0.10949, 0.16126, 0.28501, -0.13235, 0.094234, -0.38394, 0.066236,
        0.13073, 0.23775,
    ],
    ("counter_that_weights_set_back", 2): [1.7888, 0.51075, 0, 0, -0.40339, 0.051988, -0.68589, -0.026233, 0.2161, 0.35385],
    ("two_players", 2): [
        2.1e-05, 0.17736, 1.0023, 1.2368, -0.92473, 0.20239, -0.91328, -0.07914, 0.70482, 0.83037, 0, 0, 0, 0, 0, 0,
        -0.92559, -0.13858, -0.9133, -0.077674, 0.62919, 0.83034,
    ],
    ("three_updates", 2): [
        1.1996, 1.1784, 1.1186, 1.0178, 1.0755, 0.88954, 0.004971, 0.13263, -0.31691, -0.022741, -0.056512, -0.022283,
    ],
    ("rate_in_the_loss", 2): [
        2.4634, 0.57901, 0.090451, 0.090451, -0.60769, -0.014051, -0.85723, -0.093082, 0.31025, 0.46006,
    ],
    ("rate_of_each_place", 2): [
        9.9411, 1.0322, 0.49706, 0.051611, 0.11463, -0.09018, 1.0331, 0.55529, -0.8383, -0.30312, 0.11463, -0.09018, 1.0331,
        0.55529, -0.8383, -0.30312,
    ],
    ("gradients_times_the_loss", 2): [
        1.5881, 0.63807, -0.37417, 0.090821, -0.62624, 0.074501, 0.40432, 0.61946, -0.37417, 0.090821, -0.62624, 0.074501,
        0.40432, 0.61946,
    ],
    ("gradients_of_each_place", 2): [
        1.2472, 0.55594, -0.76244, 0.79504, -0.23924, 0.066295, 0.035057, 0.22595, -0.081375, 0.10701, -0.43598, 0.075953,
        0.054847, 0.17371, -0.081375, 0.10701, -0.43598, 0.075953, 0.054847, 0.17371,
    ],
    ("average_of_each_place", 2): [
        1.3957, 0.57594, 2.8082, 1.5783, -0.24906, 0.12841, -0.51678, 0.097288, 0.093871, 0.26709, -0.24906, 0.12841,
        -0.51678, 0.097288, 0.093871, 0.26709,
    ],
    ("norm_of_gradients", 3): [
        2.1259, 0.48508, 3.3104, 2.8581, 2.8581, 2.8581, -1.2404, 0.10895, -1.0254, 0.084317, 0.23795, 0.43888, -0.52912,
        -0.014049, -0.6693, -0.020201, 0.32991, 0.47577,
    ],
    ("scaled_gradients", 3): [2.8056, 0.59681, 4.3719, -0.78177, -0.079192, -0.86178, -0.051695, 0.51443, 0.70612],
    ("clipped_gradients_and_statistics", 3): [
        1.7668, 1.7672, 1.7672, -0.45463, -0.29453, 0.097684, 0.073705, -0.010693, 0.020101, 0.08, 0.08, 0.08, 0.08, 0.08,
        0.08, -1.0892, -0.16357, -1.0806, -0.091814, 0.77832, 0.98254,
    ],
    ("clipped_in_place", 3): [
        3.3905, 0.78412, 5.2568, -0.3, -0.021408, -0.3, -0.045339, 0.3, 0.3, -0.9752, -0.12859, -1.0206, -0.05736, 0.62442,
        0.8625,
    ],
    ("accumulated_gradients", 3): [
        1.4482, 0.59552, 2.2112, -1.4106, -0.096826, -0.86006, 0.48906, 1.3378, 1.8426, -0.21803, 0.08938, -0.43, 0.06632,
        0.072711, 0.17973,
    ],
    ("applied_each_second_step", 3): [
        2.0828, 0.53686, 3.4268, 0, 0, 0, 0, 0, 0, -0.50391, -0.008823, -0.66979, -0.023568, 0.31649, 0.46017,
    ],
    ("update_by_hand", 3): [2.1259, 0.48508, 3.3104, -0.52912, -0.014049, -0.6693, -0.020201, 0.32991, 0.47577],
    ("skipped_where_the_norm_is_large", 3): [
        3.5387, 0.81833, 5.4191, 6.3665, 6.3665, 6.3665, -0.18635, -0.004799, -0.15316, -0.007562, 0.036014, 0.064033,
        -1.0273, -0.14533, -1.0347, -0.083139, 0.69448, 0.92331,
    ],
    ("gradients_that_are_kept", 3): [
        2.8056, 0.59681, 4.3719, -1.5755, 0.025092, -1.3001, -0.001558, 0.29916, 0.54378, -1.8927, -0.091238, 1.6729,
        -0.10055, 0.6291, 0.006778, -0.78177, -0.079192, -0.86178, -0.051695, 0.51443, 0.70612,
    ],
    ("rate_from_the_norm", 3): [
        3.0692, 0.64845, 4.6807, 2.2839, 2.2839, 2.2839, -0.82349, -0.096172, -0.90014, -0.077994, 0.53508, 0.7244,
    ],
    ("clip_by_norm", 3): [
        3.6174, 0.84084, 5.5085, -1.8931, -0.057197, -1.5552, -0.08474, 0.36195, 0.64453, -1.0412, -0.15062, -1.0454,
        -0.08894, 0.70255, 0.93144,
    ],
    ("clip_by_value_and_decay", 3): [
        3.3233, 0.7638, 5.1507, -1.7923, 0.004579, -1.4831, -0.021983, 0.33767, 0.61651, -0.9552, -0.11132, -1.0006,
        -0.039696, 0.60442, 0.8425,
    ],
    ("sparse_gradients", 3): [
        1.5551, 0.97735, 1.4729, -0.004083, 0.20083, -0.33214, -0.19023, 0.084929, 0.21503, -0.72062, -0.11588, -0.67586,
        -0.07543, 0.46685, 0.65188,
    ],
    ("clipped_weights", 3): [
        1.535, 0.49726, 2.199, -0.36554, -0.010616, -0.43565, -0.030691, 0.21807, 0.22193, -0.36554, -0.010616, -0.43565,
        -0.030691, 0.21807, 0.22193,
    ],
    ("lookahead", 3): [2.7929, 0.56384, 4.28, -0.78918, -0.080859, -0.8617, -0.050917, 0.51886, 0.71083],
    ("layers_that_read_weights", 3): [
        2.1259, 0.48508, 3.3104, -0.42699, -0.42699, -0.42699, 1.7854, 0.44881, 2.8995, -0.52912, -0.014049, -0.6693,
        -0.020201, 0.32991, 0.47577,
    ],
    ("moving_average_of_weights", 3): [
        2.1259, 0.48508, 3.3104, 4, 4, 4, -0.52912, -0.014049, -0.6693, -0.020201, 0.32991, 0.47577,
    ],
    ("teacher_that_follows", 3): [
        1.4741, 0.53849, 2.3302, -0.31479, 0.026653, -0.4268, 0.07893, 0.27681, 0.4162, -0.29672, 0.022789, -0.43307,
        0.052086, 0.24514, 0.36967,
    ],
    ("counter_that_weights_set_back", 3): [
        2.1259, 0.48508, 3.3104, 0, 0, 0, -0.52912, -0.014049, -0.6693, -0.020201, 0.32991, 0.47577,
    ],
    ("two_players", 3): [
        0.005226, 0.23896, 0.005332, 1.0079, 1.3553, 1.0079, -0.925, -0.14602, -0.91277, -0.078635, 0.46263, 0.83082, 0,
        2e-06, 0, 0, 0, 0, -0.92452, -0.13875, -0.91315, -0.078012, 0.62985, 0.83042,
    ],
    ("three_updates", 3): [
        1.216, 0.71896, 1.5508, 1.1512, 0.72261, 1.4537, 1.1072, 0.73056, 1.3769, -0.07783, 0.085924, -0.28743, -0.005409,
        0.015508, 0.059836,
    ],
    ("rate_in_the_loss", 3): [
        2.732, 0.62193, 4.0254, 0.090451, 0.090451, 0.090451, -0.69481, -0.063285, -0.81148, -0.074237, 0.40446, 0.56083,
    ],
    ("rate_of_each_place", 3): [
        5.5316, 0.66512, 3.0192, 0.27658, 0.033256, 0.15096, 0.88917, 0.3594, 1.0185, 0.57361, -0.26928, -0.066662, 0.88917,
        0.3594, 1.0185, 0.57361, -0.26928, -0.066662,
    ],
    ("gradients_times_the_loss", 3): [
        1.8923, 0.68258, 5.068, -0.54125, 0.018713, -0.65636, 0.056959, 0.48433, 0.69441, -0.54125, 0.018713, -0.65636,
        0.056959, 0.48433, 0.69441,
    ],
    ("gradients_of_each_place", 3): [
        1.2472, 0.55594, 4.6299, -0.76244, 0.79504, -0.23924, 0.066295, 0.035057, 0.22595, -0.081375, 0.10701, -0.43598,
        0.075953, 0.054847, 0.17371, -0.081375, 0.10701, -0.43598, 0.075953, 0.054847, 0.17371,
    ],
    ("average_of_each_place", 3): [
        1.6899, 0.61612, 4.6596, 3.1606, 1.6545, 2.7636, -0.41277, 0.036506, -0.54143, 0.065795, 0.23596, 0.40059, -0.41277,
        0.036506, -0.54143, 0.065795, 0.23596, 0.40059,
    ],
}


@pytest.mark.parametrize("name, count", OF_185)
def test_the_order_of_the_program_holds(name, count):
    found, _ = figures(name, count)
    np.testing.assert_allclose(found, OF_185[name, count], rtol=5e-5, atol=2e-5)
