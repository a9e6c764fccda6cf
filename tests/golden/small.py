"""Optimizers, regularizers, clips and learning-rate schedules, each on one tiny regression network.

A case is a function without arguments that adds the network and its update ops to the default programs and
returns (loss, extra fetches). `OPTIMIZERS` runs five steps, `RULES` (regularizers and clips) five,
`SCHEDULES` twelve with the learning rate as the extra fetch. All cases share the batches of `batches()`.
"""

from collections import OrderedDict

import numpy as np
import paddle.fluid as fluid

layers = fluid.layers
ROWS = 12


def net(is_sparse=False, dtype='float32', attr=None, error_clip=None):
    """A table and four dense values into a tanh layer, then one output; the loss is the mean square error."""
    x = layers.data(name='x', shape=[4], dtype=dtype)
    ids = layers.data(name='ids', shape=[1], dtype='int64')
    y = layers.data(name='y', shape=[1], dtype=dtype)
    found = layers.embedding(input=ids, size=[ROWS, 3], dtype=dtype, is_sparse=is_sparse, param_attr=attr)
    hidden = layers.fc(input=[x, found], size=5, act='tanh', param_attr=attr)
    if error_clip is not None:
        hidden.error_clip = error_clip
    predict = layers.fc(input=hidden, size=1, param_attr=attr)
    return layers.mean(layers.square_error_cost(input=predict, label=y))


def batches(count, dtype='float32'):
    """Batches of eight rows with ids that repeat inside a batch and ids that never come."""
    rng = np.random.RandomState(77)
    found = []
    for _ in range(count):
        x = np.round(rng.uniform(-1, 1, (8, 4)) * 64) / 64
        ids = rng.randint(0, ROWS - 4, (8, 1)).astype('int64')
        y = np.round((x[:, :1] - 2 * x[:, 1:2] + ids / 4.0) * 64) / 64
        found.append({'x': x.astype(dtype), 'ids': ids, 'y': y.astype(dtype)})
    return found


def minimized(make, **options):
    def build():
        loss = net(**options)
        make().minimize(loss)
        return loss, []

    return build


O = fluid.optimizer  # noqa: E741
RECIPES = OrderedDict(
    [
        ('sgd', lambda: O.SGD(learning_rate=0.1)),
        ('momentum', lambda: O.Momentum(learning_rate=0.05, momentum=0.9)),
        ('nesterov', lambda: O.Momentum(learning_rate=0.05, momentum=0.9, use_nesterov=True)),
        (
            'lars_momentum',
            lambda: O.LarsMomentum(learning_rate=0.5, momentum=0.9, lars_coeff=0.01, lars_weight_decay=0.001),
        ),
        ('adagrad', lambda: O.Adagrad(learning_rate=0.1)),
        ('adagrad_start', lambda: O.Adagrad(learning_rate=0.1, epsilon=1e-4, initial_accumulator_value=0.1)),
        ('adam', lambda: O.Adam(learning_rate=0.05)),
        ('adam_betas', lambda: O.Adam(learning_rate=0.05, beta1=0.8, beta2=0.95, epsilon=1e-4)),
        ('adam_lazy', lambda: O.Adam(learning_rate=0.05, lazy_mode=True)),
        ('adamax', lambda: O.Adamax(learning_rate=0.05)),
        ('decayed_adagrad', lambda: O.DecayedAdagrad(learning_rate=0.1)),
        ('adadelta', lambda: O.Adadelta(learning_rate=1.0, epsilon=1e-4, rho=0.9)),
        ('rmsprop', lambda: O.RMSProp(learning_rate=0.02)),
        ('rmsprop_centered', lambda: O.RMSProp(learning_rate=0.02, centered=True)),
        ('rmsprop_momentum', lambda: O.RMSProp(learning_rate=0.02, momentum=0.8)),
        (
            'rmsprop_centered_momentum',
            lambda: O.RMSProp(learning_rate=0.02, rho=0.9, epsilon=1e-5, momentum=0.8, centered=True),
        ),
        ('ftrl', lambda: O.Ftrl(learning_rate=0.1)),
        ('ftrl_l1_l2', lambda: O.Ftrl(learning_rate=0.1, l1=0.01, l2=0.02)),
        ('ftrl_power', lambda: O.Ftrl(learning_rate=0.1, l1=0.01, lr_power=-0.7)),
    ]
)

# Cases that 1.8.5 cannot run (some sparse or float64 gradients) are left out of the golden file.
OPTIMIZERS = OrderedDict()
for recipe_name, recipe in RECIPES.items():
    OPTIMIZERS[recipe_name + '.dense'] = minimized(recipe)
    OPTIMIZERS[recipe_name + '.sparse'] = minimized(recipe, is_sparse=True)
    OPTIMIZERS[recipe_name + '.float64'] = minimized(recipe, dtype='float64')
OPTIMIZERS['sgd_slow_params.dense'] = minimized(RECIPES['sgd'], attr=fluid.ParamAttr(learning_rate=0.5))
OPTIMIZERS['adam_slow_params.sparse'] = minimized(
    RECIPES['adam'], is_sparse=True, attr=fluid.ParamAttr(learning_rate=0.5)
)


def regularized(penalty, where, **options):
    def build():
        rule = penalty(0.05)
        if where == 'optimizer':
            return minimized(lambda: O.Momentum(0.1, 0.5, regularization=rule), **options)()
        return minimized(
            lambda: O.SGD(learning_rate=0.1), attr=fluid.ParamAttr(regularizer=rule), **options
        )()

    return build


def clipped(make_clip, old_way=False, **options):
    """Clip by the optimizer's grad_clip, or by the older set_gradient_clip."""

    def build():
        if not old_way:
            return minimized(lambda: O.SGD(learning_rate=0.2, grad_clip=make_clip()), **options)()
        loss = net(**options)
        fluid.clip.set_gradient_clip(make_clip())
        O.SGD(learning_rate=0.2).minimize(loss)
        return loss, []

    return build


def clip_and_decay():
    rule = fluid.regularizer.L2Decay(0.05)
    clip = fluid.clip.GradientClipByGlobalNorm(0.5)
    return minimized(lambda: O.Adam(learning_rate=0.05, regularization=rule, grad_clip=clip))()


L1, L2 = fluid.regularizer.L1Decay, fluid.regularizer.L2Decay
RULES = OrderedDict(
    [
        ('l1.dense', regularized(L1, 'optimizer')),
        ('l2.dense', regularized(L2, 'optimizer')),
        ('l1.sparse', regularized(L1, 'optimizer', is_sparse=True)),
        ('l2.sparse', regularized(L2, 'optimizer', is_sparse=True)),
        ('l1_attr.dense', regularized(L1, 'attr')),
        ('l2_attr.dense', regularized(L2, 'attr')),
        ('clip_value.dense', clipped(lambda: fluid.clip.GradientClipByValue(max=0.1, min=-0.05))),
        ('clip_norm.dense', clipped(lambda: fluid.clip.GradientClipByNorm(0.2))),
        ('clip_global_norm.dense', clipped(lambda: fluid.clip.GradientClipByGlobalNorm(0.3))),
        ('clip_value_old.dense', clipped(lambda: fluid.clip.GradientClipByValue(max=0.1), old_way=True)),
        ('clip_norm_old.dense', clipped(lambda: fluid.clip.GradientClipByNorm(0.2), old_way=True)),
        (
            'clip_global_norm_old.dense',
            clipped(lambda: fluid.clip.GradientClipByGlobalNorm(0.3), old_way=True),
        ),
        ('clip_norm.sparse', clipped(lambda: fluid.clip.GradientClipByNorm(0.2), is_sparse=True)),
        (
            'clip_global_norm.sparse',
            clipped(lambda: fluid.clip.GradientClipByGlobalNorm(0.3), is_sparse=True),
        ),
        ('error_clip.dense', clipped(lambda: None, error_clip=fluid.clip.ErrorClipByValue(max=0.02))),
        ('clip_and_decay.dense', clip_and_decay),
    ]
)


def scheduled(make_rate):
    def build():
        loss = net()
        rate = make_rate()
        O.SGD(learning_rate=rate).minimize(loss)
        return loss, [rate]

    return build


SCHEDULES = OrderedDict(
    (name, scheduled(make))
    for name, make in [
        ('exponential', lambda: layers.exponential_decay(0.1, 4, 0.5)),
        ('exponential_stairs', lambda: layers.exponential_decay(0.1, 4, 0.5, staircase=True)),
        ('natural_exp', lambda: layers.natural_exp_decay(0.1, 4, 0.5)),
        ('natural_exp_stairs', lambda: layers.natural_exp_decay(0.1, 4, 0.5, staircase=True)),
        ('inverse_time', lambda: layers.inverse_time_decay(0.1, 4, 0.5)),
        ('inverse_time_stairs', lambda: layers.inverse_time_decay(0.1, 4, 0.5, staircase=True)),
        ('polynomial', lambda: layers.polynomial_decay(0.1, 8, 0.01, power=2.0)),
        ('polynomial_cycle', lambda: layers.polynomial_decay(0.1, 5, 0.01, power=1.5, cycle=True)),
        ('piecewise', lambda: layers.piecewise_decay([3, 7], [0.1, 0.05, 0.01])),
        ('noam', lambda: layers.noam_decay(64, 5)),
        ('noam_rate', lambda: layers.noam_decay(64, 5, learning_rate=0.5)),
        ('cosine', lambda: layers.cosine_decay(0.1, 3, 4)),
        ('warmup', lambda: layers.linear_lr_warmup(0.1, 5, 0.01, 0.08)),
        (
            'warmup_then_exponential',
            lambda: layers.linear_lr_warmup(layers.exponential_decay(0.1, 4, 0.5), 5, 0.0, 0.1),
        ),
        (
            'warmup_then_piecewise',
            lambda: layers.linear_lr_warmup(layers.piecewise_decay([6, 9], [0.1, 0.05, 0.02]), 4, 0.01, 0.1),
        ),
    ]
)
