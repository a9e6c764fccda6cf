"""What an object says of itself when a user prints it."""

import numpy as np
import pytest

import paddle.fluid as fluid

pytestmark = pytest.mark.usefixtures("fresh")


@pytest.mark.parametrize("make, text", [
    (lambda: fluid.Executor(), "Executor(CPUPlace())"),
    (lambda: fluid.ParamAttr(), "ParamAttr()"),
    (lambda: fluid.ParamAttr(name="w", learning_rate=0.5, trainable=False),
     "ParamAttr(name='w', learning_rate=0.5, trainable=False)"),
    (lambda: fluid.ParamAttr(initializer=fluid.initializer.Normal(0.0, 2.0), regularizer=fluid.regularizer.L2Decay(0.1)),
     "ParamAttr(initializer=NormalInitializer(scale=2.0), "
     "regularizer=L2DecayRegularizer(regularization_coeff=0.1))"),
    (lambda: fluid.initializer.Xavier(), "XavierInitializer()"),
    (lambda: fluid.initializer.Constant(3.0), "ConstantInitializer(value=3.0)"),
    (lambda: fluid.initializer.Uniform(-2.0, 2.0), "UniformInitializer(low=-2.0, high=2.0)"),
    (lambda: fluid.optimizer.SGD(0.5), "SGDOptimizer(learning_rate=0.5)"),
    (lambda: fluid.optimizer.Adam(), "AdamOptimizer()"),
    (lambda: fluid.optimizer.Adam(beta1=0.8, regularization=fluid.regularizer.L1Decay(2.0)),
     "AdamOptimizer(beta1=0.8, regularization=L1DecayRegularizer(regularization_coeff=2.0))"),
    (lambda: fluid.optimizer.Momentum(0.1, 0.9), "MomentumOptimizer(learning_rate=0.1, momentum=0.9)"),
    (lambda: fluid.BuildStrategy(), "BuildStrategy()"),
    (lambda: fluid.DistributeTranspilerConfig(), "DistributeTranspilerConfig()"),
    (lambda: fluid.DataFeeder([fluid.data("x", [None, 1])], fluid.CPUPlace()), "DataFeeder(['x'])"),
    (lambda: fluid.Scope(), "Scope(empty)"),
    (lambda: fluid.CompiledProgram(fluid.Program()), "CompiledProgram(plain, 0 ops, 1 blocks)"),
    (lambda: fluid.DistributeTranspiler(),
     "DistributeTranspiler(DistributeTranspilerConfig()): transpile() was not called yet"),
])
def test_repr(make, text):
    assert repr(make()) == text


def test_what_was_set_is_shown():
    config = fluid.DistributeTranspilerConfig()
    config.sync_mode = False
    config.min_block_size = 10000
    assert repr(config) == "DistributeTranspilerConfig(sync_mode=False, min_block_size=10000)"
    build = fluid.BuildStrategy()
    build.num_trainers = 3
    assert repr(build) == "BuildStrategy(num_trainers=3)"


def test_rate_that_is_a_variable():
    rate = fluid.layers.exponential_decay(0.1, 10, 0.5)
    assert repr(fluid.optimizer.SGD(rate)) == f"SGDOptimizer(learning_rate={rate.name})"


def test_scope_and_what_it_holds():
    scope = fluid.Scope()
    scope.var("w").get_tensor().set(np.zeros((2, 3), "float32"), fluid.CPUPlace())
    assert repr(scope) == "Scope(1 variable: w)"
    assert repr(scope.find_var("w")) == "Variable(a LoDTensor, float32 [2, 3])"
    assert repr(scope.var("new")) == "Variable(a LoDTensor without data)"
    for i in range(10):
        scope.var(f"x{i}")
    assert repr(scope) == "Scope(12 variables: new, w, x0, x1, x2, x3, x4, x5, ...)"


def test_transpiler():
    x = fluid.data("x", [None, 4])
    loss = fluid.layers.mean(fluid.layers.fc(x, 1))
    fluid.optimizer.SGD(0.1).minimize(loss)
    transpiler = fluid.DistributeTranspiler()
    transpiler.transpile(0, pservers="127.0.0.1:6174", trainers=2)
    assert repr(transpiler).endswith(": sync, 2 trainers, servers ['127.0.0.1:6174']")
