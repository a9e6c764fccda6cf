"""ctr_metric_bundle: the sums from which a click model is judged."""

from __future__ import annotations

from paddle.fluid.framework import Variable
from paddle.fluid.initializer import Constant
from paddle.fluid.layer_helper import LayerHelper
from paddle.fluid.layers.build import add_op, need_variable
from paddle.fluid.layers.tensor import cast
from paddle.fluid.vartype import VarType

__all__ = ["ctr_metric_bundle"]


def ctr_metric_bundle(input: Variable, label: Variable) -> tuple[Variable, ...]:
    """Sums over all samples since the startup Program ran, in this process: add them up over workers (fleet.all_reduce_worker)
    before you divide. With n samples the RMSE is sqrt(sqrerr / n), the MAE abserr / n, the predicted click rate prob / n, the real
    one pos / n.

    Args:
        input: the probability of a click, float32, [N, 1].
        label: 1 for a click and 0 for none, of the same shape.

    Returns:
        sqrerr, abserr, prob, q (the sum of sigmoid(input)), pos and total, float32 of shape [1] each.

    >>> p, clicked = fluid.data(name='p', shape=[None, 1]), fluid.data(name='clicked', shape=[None, 1])
    >>> sums = fluid.contrib.layers.ctr_metric_bundle(input=p, label=clicked)
    >>> exe = fluid.Executor(fluid.CPUPlace())
    >>> _ = exe.run(fluid.default_startup_program())
    >>> given = {'p': np.array([[0.5], [0.75]], 'float32'), 'clicked': np.array([[0], [1]], 'float32')}
    >>> sqrerr, abserr, prob, q, pos, total = exe.run(feed=given, fetch_list=list(sums))
    >>> print(f'RMSE {(sqrerr / total)[0] ** 0.5:.3f}, MAE {(abserr / total)[0]:.3f}, {pos[0]:.0f} of {total[0]:.0f} clicked')
    RMSE 0.395, MAE 0.375, 1 of 2 clicked
    """
    need_variable(input, "input", "ctr_metric_bundle")
    need_variable(label, "label", "ctr_metric_bundle")
    if tuple(input.shape) != tuple(label.shape):
        raise ValueError(f"ctr_metric_bundle: input and label must have one shape, but input is {list(input.shape)} and label "
                         f"{list(label.shape)}.")
    helper = LayerHelper("ctr_metric_bundle")
    # Their order decides their automatic names.
    sums = [helper.create_global_variable(persistable=True, dtype="float32", shape=[1]) for _ in range(6)]
    for each in sums:
        helper.set_variable_initializer(each, Constant(value=0.0, force_cpu=True))
    abserr, sqrerr, prob, q, pos, total = sums
    if label.dtype != VarType.FP32:
        label = cast(label, "float32")
    error = add_op(helper, "elementwise_sub", {"X": input, "Y": label}, {"Out": "float32"})[0]
    chances = add_op(helper, "sigmoid", {"X": input}, {"Out": "float32"})[0]
    ones = add_op(helper, "fill_constant_batch_size_like", {"Input": label}, {"Out": "float32"},
                  {"shape": [-1, 1], "dtype": VarType.FP32, "value": 1.0})[0]
    for into, kind, what in ((sqrerr, "squared_l2_norm", error), (abserr, "l1_norm", error), (prob, "reduce_sum", input),
                             (q, "reduce_sum", chances), (pos, "reduce_sum", label), (total, "reduce_sum", ones)):
        attrs = {"reduce_all": True} if kind == "reduce_sum" else {}
        of_batch = add_op(helper, kind, {"X": what}, {"Out": "float32"}, attrs)[0]
        add_op(helper, "elementwise_add", {"X": of_batch, "Y": into}, {"Out": into})
    return sqrerr, abserr, prob, q, pos, total
