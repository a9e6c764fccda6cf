"""Where an op was made: the attribute op_callstack, and the line of the script in errors."""

import sys

import numpy as np
import pytest

import paddle.fluid as fluid
from paddle.fluid import layers

EXE = fluid.Executor(fluid.CPUPlace())


def here(up=1):
    """The line that calls this, in the words of a traceback."""
    frame = sys._getframe(up)
    return frame.f_lineno, f'  File "{__file__}", line {frame.f_lineno}, in {frame.f_code.co_name}\n'


def tower(x):
    return layers.relu(layers.fc(x, 3)), here()[1]


class Net:
    def __init__(self):
        self.program, self.startup = fluid.Program(), fluid.Program()
        with fluid.program_guard(self.program, self.startup), fluid.unique_name.guard():
            x = fluid.layers.data("x", [4])
            (h, self.inside), (_, self.outside) = tower(x), here()
            self.h, self.loss = h, layers.mean(h)
            fluid.optimizer.SGD(0.1).minimize(self.loss)

    def op(self, kind, program=None):
        return next(op for op in (program or self.program).global_block().ops if op.type == kind)


@pytest.fixture
def net():
    return Net()


def test_an_op_knows_the_lines_that_made_it(net):
    """Innermost first, no line of this package."""
    stack = net.op("mul").attr("op_callstack")
    assert stack[:2] == [net.inside, net.outside] and len(stack) == 4
    assert not [line for line in stack if "paddle/fluid" in line]


def test_a_gradient_op_has_the_lines_of_its_op(net):
    assert net.op("mul_grad").attr("op_callstack") == net.op("mul").attr("op_callstack")


def test_copies_keep_it(net):
    wanted = net.op("mul").attr("op_callstack")
    for copy in (net.program.clone(), net.program.clone(for_test=True),
                 fluid.Program.parse_from_string(net.program.desc.serialize_to_string())):
        assert net.op("mul", copy).attr("op_callstack") == wanted


def test_model_files_keep_it(net, tmp_path):
    """As those of 1.8.5 do."""
    with fluid.scope_guard(fluid.Scope()):
        EXE.run(net.startup)
        fluid.io.save_inference_model(str(tmp_path), ["x"], [net.h], EXE, main_program=net.program)
        program, _, _ = fluid.io.load_inference_model(str(tmp_path), EXE)
    assert net.op("mul", program).attr("op_callstack") == net.op("mul").attr("op_callstack")


def test_text_leaves_it_out(net):
    assert "op_callstack" not in net.program.to_string(True) and __file__ not in str(net.op("mul"))


def test_an_error_names_the_line(net):
    with fluid.scope_guard(fluid.Scope()):
        EXE.run(net.startup)
        with pytest.raises(Exception) as failed:
            EXE.run(net.program, feed={"x": np.zeros((2, 5), "float32")})
    assert f'; made in "{__file__}", line' in str(failed.value)
    assert net.inside.strip()[5:] in str(failed.value) and net.outside.strip()[5:] in str(failed.value)


def test_an_error_of_a_fused_op_names_the_line():
    """Ops that a plan puts together still name their own line."""
    program, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(program, startup):
        ids = fluid.layers.data("ids", [1], dtype="int64", lod_level=1)
        found, (line, _) = layers.sequence_pool(layers.embedding(ids, [7, 3]), "sum"), here()
    with fluid.scope_guard(fluid.Scope()):
        EXE.run(startup)
        with pytest.raises(Exception, match=f'made in "{__file__}", line {line}, in'):
            feed = fluid.create_lod_tensor(np.array([[3], [9]]), [[2]], fluid.CPUPlace())
            EXE.run(program, feed={"ids": feed}, fetch_list=[found])


def test_an_op_that_cannot_be_made_has_pythons_own_traceback():
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        x, y = layers.data("x", [4]), layers.data("y", [5])
        with pytest.raises(Exception) as failed:
            layers.elementwise_add(x, y)
    assert "made in" not in str(failed.value)


def test_an_op_made_again_keeps_its_first_line(net):
    """Scripts copy ops with all their attributes."""
    op, other = net.op("mean"), fluid.Program()
    block = other.global_block()
    block.create_var(name="a", shape=[2], dtype="float32")
    block.create_var(name="b", shape=[1], dtype="float32")
    made = block.append_op(type="mean", inputs={"X": ["a"]}, outputs={"Out": ["b"]}, attrs=op.all_attrs())
    assert made.attr("op_callstack") == op.attr("op_callstack")
