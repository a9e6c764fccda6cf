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
    count = kept([1], 0.0, "count")
    loss = net()[1] * (count * 0.1 + 1.0)
    sgd().minimize(loss)
    layers.increment(count)
    with layers.Switch() as switch, switch.case(layers.less_than(layers.reduce_sum(weights()), number(-0.35))):
        layers.assign(number(0.0), output=count)
    return loss, [count]


@kind
def centres_that_weights_set_back():
    h, loss = net()
    centre = kept([3, 2], 0.1, "centre")
    loss = loss + layers.mean(layers.square(h - layers.mul(h.block.var("x"), centre)))
    mean = layers.expand(layers.reduce_mean(h, dim=0, keep_dim=True), [3, 1])
    mean.stop_gradient = True
    layers.assign(centre * 0.5 + mean * 0.5, output=centre)
    seen = layers.reduce_sum(centre)
    sgd().minimize(loss)
    layers.assign(weights() * 0.5, output=centre)
    return loss, [seen, centre]


@kind
def penalty_of_new_weights():
    _, loss = net()
    sgd().minimize(loss)
    penalty = layers.reduce_sum(layers.square(weights())) * 0.5
    sgd().minimize(penalty)
    return loss, [penalty]


@kind
def variables_written_again():
    h, loss = net()
    sgd().minimize(loss)
    out, chosen = layers.create_tensor("float32"), layers.fill_constant([2], "float32", 0.0)
    layers.assign(layers.reduce_sum(weights(), dim=0), output=out)
    layers.assign(layers.reduce_mean(h, dim=0), output=out)
    layers.assign(layers.reduce_mean(h, dim=0), output=chosen)
    with layers.Switch() as switch, switch.case(layers.less_than(layers.reduce_sum(weights()), number(-100.0))):
        layers.assign(layers.reduce_sum(weights(), dim=0), output=chosen)
    return loss, [out, chosen, layers.reduce_sum(chosen)]


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
        2.1083, 0.47659, 3.222, 0, 0, 0, -0.52124, -0.005906, -0.67261, -0.033858, 0.29333, 0.42643,
    ],
    ("centres_that_weights_set_back", 3): [
        1.5469, 0.62085, 2.321, -0.19926, 1.0979, -1.2005, -0.13369, 0.011479, -0.20486, 0.016007, 0.098148, 0.1494,
        -0.26737, 0.022957, -0.40972, 0.032014, 0.1963, 0.29879,
    ],
    ("penalty_of_new_weights", 3): [
        1.6307, 0.46051, 2.4897, 0.28329, 0.28329, 0.28329, -0.34625, -0.008313, -0.44954, -0.023671, 0.2088, 0.3045,
    ],
    ("variables_written_again", 3): [
        2.1259, 0.48508, 3.3104, -0.082633, -0.067922, 1.0806, 0.23077, -0.8696, -0.39642, -0.082633, -0.067922, 1.0806,
        0.23077, -0.8696, -0.39642, -0.15055, 1.3114, -1.266, -0.52912, -0.014049, -0.6693, -0.020201, 0.32991, 0.47577,
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
