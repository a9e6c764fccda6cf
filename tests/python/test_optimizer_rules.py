"""Update rules against numpy, where paddlepaddle 1.8.5 is no measure (see DEFECTS_OF_185 in test_golden.py)."""
import numpy as np
import pytest

import paddle.fluid as fluid

ROWS, WIDTH, STEPS = 6, 4, 5


def train(optimizer, sparse, ids):
    """Trains an embedding whose gradient is known: loss = sum(weight of each picked row * c). Returns the table per step."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard(), fluid.scope_guard(fluid.Scope()):
        pick = fluid.layers.data("ids", [1], dtype="int64")
        scale = fluid.layers.data("c", [WIDTH])
        table = fluid.layers.embedding(pick, [ROWS, WIDTH], is_sparse=sparse,
                                       param_attr=fluid.ParamAttr("table", fluid.initializer.Constant(1.0)))
        loss = fluid.layers.reduce_sum(fluid.layers.elementwise_mul(table, scale))
        optimizer().minimize(loss)
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(startup)
        found = []
        for step in range(STEPS):
            exe.run(main, feed={"ids": ids[step], "c": weights(step, len(ids[step]))})
            found.append(np.array(fluid.global_scope().find_var("table").get_tensor()))
    return found


def weights(step, n):
    return np.random.RandomState(step).uniform(-1, 1, (n, WIDTH)).astype("float32")


def gradient(step, ids):
    grad = np.zeros((ROWS, WIDTH))
    np.add.at(grad, ids[step][:, 0], weights(step, len(ids[step])))
    return grad


EVERY_ROW = [np.arange(ROWS)[:, None].astype("int64")] * STEPS
SOME_ROWS = [np.array([[i % ROWS], [(2 * i + 1) % ROWS], [i % ROWS]], "int64") for i in range(STEPS)]


def adam(ids, lazy=False, rate=0.05, beta1=0.9, beta2=0.999, eps=1e-8):
    p, m, v = np.ones((ROWS, WIDTH)), np.zeros((ROWS, WIDTH)), np.zeros((ROWS, WIDTH))
    for step in range(STEPS):
        g = gradient(step, ids)
        on = np.isin(np.arange(ROWS), ids[step]) if lazy else np.ones(ROWS, bool)
        m[on] = beta1 * m[on] + (1 - beta1) * g[on]
        v[on] = beta2 * v[on] + (1 - beta2) * g[on] ** 2
        now = rate * np.sqrt(1 - beta2 ** (step + 1)) / (1 - beta1 ** (step + 1))
        p[on] -= now * m[on] / (np.sqrt(v[on]) + eps)
        yield p.copy()


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("ids", [EVERY_ROW, SOME_ROWS], ids=["every", "some"])
def test_adam_is_the_published_rule_also_for_sparse_gradients(sparse, ids):
    found = train(lambda: fluid.optimizer.Adam(0.05), sparse, ids)
    np.testing.assert_allclose(found, list(adam(ids)), rtol=2e-5, atol=2e-6)


def test_lazy_adam_touches_only_the_rows_of_the_batch():
    found = train(lambda: fluid.optimizer.Adam(0.05, lazy_mode=True), True, SOME_ROWS)
    np.testing.assert_allclose(found, list(adam(SOME_ROWS, lazy=True)), rtol=2e-5, atol=2e-6)


def test_adadelta_is_the_published_rule():
    rho, eps = 0.9, 1e-4
    p, sq, up, wanted = np.ones((ROWS, WIDTH)), 0.0, 0.0, []
    for step in range(STEPS):
        g = gradient(step, EVERY_ROW)
        sq = rho * sq + (1 - rho) * g**2
        change = -np.sqrt((up + eps) / (sq + eps)) * g
        up = rho * up + (1 - rho) * change**2
        p = p + change
        wanted.append(p)
    found = train(lambda: fluid.optimizer.Adadelta(1.0, epsilon=eps, rho=rho), False, EVERY_ROW)
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("rule", ["Momentum", "RMSProp", "Adagrad"])
def test_sparse_gradients_with_repeated_unsorted_rows_equal_dense_ones(rule):
    def make():
        return {"Momentum": lambda: fluid.optimizer.Momentum(0.05, 0.9), "RMSProp": lambda: fluid.optimizer.RMSProp(0.05),
                "Adagrad": lambda: fluid.optimizer.Adagrad(0.05)}[rule]()
    np.testing.assert_allclose(train(make, True, SOME_ROWS), train(make, False, SOME_ROWS), rtol=1e-6, atol=1e-7)
