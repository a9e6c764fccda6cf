"""Executor.run(use_prune=True), and optimizers named in fetch_list: the optimizers asked for update, no others."""

import numpy as np
import pytest

import paddle.fluid as fluid
from paddle.fluid import layers


def build():
    x = fluid.data("x", [None, 2])
    unused = fluid.data("unused", [None, 2])
    first = fluid.initializer.Constant(1.0)
    weight = fluid.ParamAttr(name="w", initializer=first)
    one = layers.reduce_sum(layers.fc(x, 1, param_attr=weight, bias_attr=False))
    other = layers.reduce_sum(layers.scale(layers.fc(x, 1, param_attr=weight, bias_attr=False), 10.0))
    layers.reduce_sum(layers.fc(unused, 1))
    sgd = fluid.optimizer.SGD(0.5)
    return one, other, sgd.minimize(one), sgd.minimize(other)


def updated(fetches, **options):
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard(), fluid.scope_guard(fluid.Scope()):
        built = build()
        program = fluid.default_main_program()
        if options.pop("compiled", False):
            program = fluid.CompiledProgram(program).with_data_parallel(loss_name=built[0].name, places=fluid.cpu_places(1))
        exe = fluid.Executor()
        exe.run(fluid.default_startup_program())
        for _ in range(2):
            value = exe.run(program, feed={"x": np.ones((1, 2), "float32")}, fetch_list=fetches(*built), **options)
        return value[0].item(), np.array(fluid.global_scope().find_var("w").get_tensor()).ravel().tolist()


@pytest.mark.parametrize("compiled", [False, True])
def test_which_optimizers_update(compiled):
    """Each step of the first takes 0.5 off, each of the second 5; what nobody asks for needs no feed."""
    every = updated(lambda one, other, a, b: [one], use_prune=True, compiled=compiled)
    assert every == (2 - 2 * 5.5, [1 - 2 * 5.5] * 2)
    assert updated(lambda one, other, a, b: [one, a], use_prune=True, compiled=compiled) == (1.0, [0, 0])
    assert updated(lambda one, other, a, b: [one, a], compiled=compiled) == (1.0, [0, 0])
    assert updated(lambda one, other, a, b: [one, b[0]], compiled=compiled) == (-8.0, [-9, -9])
    assert updated(lambda one, other, a, b: [one, *a[0]], compiled=compiled) == (1.0, [0, 0])
    assert updated(lambda one, other, a, b: [one, a, b], compiled=compiled) == every


def test_other_ops_are_refused():
    with pytest.raises(TypeError, match="fetch_list holds the op 'reduce_sum', which is none of an optimizer's"):
        updated(lambda one, other, a, b: [one, one.op])


def test_an_executor_keeps_some_copies_and_no_more():
    """Each Program that is run pruned is copied; those that were used last stay."""
    exe = fluid.Executor()
    with fluid.scope_guard(fluid.Scope()):
        for _ in range(3):
            programs = []
            for i in range(40):
                program = fluid.Program()
                with fluid.program_guard(program, fluid.Program()):
                    out = layers.scale(layers.fill_constant([1], "float32", float(i)), 2.0)
                programs.append((program, out))
                assert exe.run(program, fetch_list=[out], use_prune=True)[0].item() == 2.0 * i
                assert exe.run(*programs[0][:1], fetch_list=[programs[0][1]], use_prune=True)[0].item() == 0.0
        assert len(exe._made) == 32
        assert programs[0][0]._uid in {uid for uid, _ in exe._made}
    exe.close()
    assert not exe.__dict__.get("_made")
