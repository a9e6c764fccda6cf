"""Programs, blocks, variables and ops as Python sees them."""

import gc
import os
import subprocess
import sys
import weakref

import numpy as np
import pytest

import paddle.fluid as fluid
from paddle.fluid import core, framework

VarType = core.VarDesc.VarType


@pytest.fixture
def program():
    return fluid.Program()


@pytest.fixture
def mul(program):
    """x [-1, 4] times w [4, 3] in a Program of its own."""
    block = program.global_block()
    x = block.create_var(name="x", shape=[-1, 4], dtype="float32", lod_level=0)
    w = block.create_parameter(name="w", shape=[4, 3], dtype="float32")
    out = block.create_var(name="out")
    op = block.append_op(
        type="mul", inputs={"X": [x], "Y": w}, outputs={"Out": [out]}, attrs={"x_num_col_dims": 1}
    )
    return op, x, w, out


def test_variable_reads_the_engine(mul):
    op, x, w, out = mul
    assert (x.name, x.shape, x.dtype, x.lod_level, x.type) == (
        "x",
        (-1, 4),
        VarType.FP32,
        0,
        VarType.LOD_TENSOR,
    )
    assert out.shape == (-1, 3) and out.dtype == VarType.FP32
    assert w.persistable and not x.persistable
    x.stop_gradient = True
    assert x.stop_gradient is True
    assert x.block.idx == 0 and x.block.program is op.block.program


def test_one_object_for_one_variable(mul):
    op, x, w, out = mul
    block = op.block
    assert block.var("x") is x and block.vars["w"] is w
    assert block.ops[0] is op and out.op is op
    assert list(block.vars) == ["x", "w", "out"]
    assert block.create_var(name="x") is x


def test_second_declaration_must_agree(mul):
    block = mul[0].block
    with pytest.raises(ValueError, match=r"'x'.*shape \(-1, 4\).*\(5, 4\)"):
        block.create_var(name="x", shape=[5, 4])
    with pytest.raises(ValueError, match="'x'.*dtype VarType.FP32.*VarType.INT64"):
        block.create_var(name="x", dtype="int64")


def test_removed_things_raise(mul):
    op, x, w, out = mul
    block = op.block
    block._remove_op(0)
    assert block.ops == []
    with pytest.raises(core.EnforceNotMet):
        op.type
    block._remove_var("out")
    with pytest.raises(core.EnforceNotMet):
        out.shape
    assert "out" not in block.vars


def test_operator(mul):
    op = mul[0]
    assert op.type == "mul" and op.idx == 0
    assert op.input_names == ["X", "Y"] and op.output_names == ["Out"]
    assert op.input("X") == ["x"] and op.output("Out") == ["out"] and op.input("Nothing") == []
    assert op.input_arg_names == ["x", "w"] and op.output_arg_names == ["out"]
    assert op.attr("x_num_col_dims") == 1 and op.attr("y_num_col_dims") == 1
    assert op.attr_type("x_num_col_dims") == core.AttrType.INT
    assert {"op_role", "op_role_var", "op_namescope", "op_callstack"} <= set(op.attr_names)
    assert op.has_attr("y_num_col_dims") and not op.has_attr("nothing")
    op._set_attr("y_num_col_dims", 1)
    with pytest.raises(core.EnforceNotMet, match="mul.*'nothing'"):
        op.attr("nothing")
    assert "mul" in str(op)


def test_rename(mul):
    op, x, w, out = mul
    op.block._rename_var("x", "z")
    assert x.name == "z" and op.input("X") == ["z"]
    op.block.create_var(name="x", shape=[-1, 4], dtype="float32")
    op._rename_input("z", "x")
    assert op.input("X") == ["x"]


@pytest.mark.parametrize(
    "value, expected",
    [
        (3, 3),
        (True, True),
        (2**40, 2**40),
        (0.5, 0.5),
        ("text", "text"),
        ([1, 2], [1, 2]),
        ([0.5, 1], [0.5, 1.0]),
        (["a", "b"], ["a", "b"]),
        ([True, False], [True, False]),
        ([2**40, 1], [2**40, 1]),
        (np.int64(7), 7),
        (np.float32(0.25), 0.25),
        (np.array([1, 2]), [1, 2]),
        (VarType.INT64, 3),
    ],
)
def test_attributes_of_all_types(mul, value, expected):
    # op_device and its like take anything: no table names their type
    op = mul[0]
    op._set_attr("__bootstrap__", value)
    assert op.attr("__bootstrap__") == expected


def test_bad_ops_name_what_is_wrong(mul, program):
    block = program.global_block()
    x, w = mul[1], mul[2]
    with pytest.raises(ValueError, match="no_such_op"):
        block.append_op(type="no_such_op")
    with pytest.raises(ValueError, match="type"):
        block.append_op()
    with pytest.raises(core.EnforceNotMet, match="mul.*no attribute 'speed'"):
        block.append_op(type="mul", inputs={"X": x, "Y": w}, outputs={"Out": "o"}, attrs={"speed": 1})
    with pytest.raises(core.EnforceNotMet, match="mul.*'absent'"):
        block.append_op(type="mul", inputs={"X": "absent", "Y": w}, outputs={"Out": "o"})
    with pytest.raises(core.EnforceNotMet, match="mul.*'Y'"):
        block.append_op(type="mul", inputs={"X": x}, outputs={"Out": "o"})
    with pytest.raises(TypeError, match="object"):
        block.append_op(type="mul", inputs={"X": object(), "Y": w}, outputs={"Out": "o"})
    with pytest.raises(core.EnforceNotMet, match="mul"):
        block.append_op(type="mul", inputs={"X": w, "Y": w}, outputs={"Out": "o"})
    assert len(block.ops) == 1
    with pytest.raises(ValueError, match="'nobody'"):
        block.var("nobody")


def test_blocks(program):
    first = program._create_block()
    second = program._create_block()
    assert (first.idx, first.parent_idx, second.idx, second.parent_idx) == (1, 0, 2, 1)
    program._rollback()
    assert program.current_block() is first
    program._rollback()
    assert program.current_block() is program.global_block()
    var = program.global_block().create_var(name="outer", shape=[1], dtype="float32")
    assert second._var_recursive("outer") is var and not second.has_var("outer")
    assert second._find_var_recursive("nothing") is None
    with pytest.raises(ValueError, match="'nothing'"):
        second._var_recursive("nothing")
    assert program.num_blocks == 3 and len(program.blocks) == 3


def test_clone_keeps_what_python_knows(mul):
    op, x, w, out = mul
    w.regularizer = "decay"
    w.optimize_attr = {"learning_rate": 0.1}
    x.error_clip = "clip"
    copy = op.block.program.clone()
    twin = copy.global_block().var("w")
    assert isinstance(twin, framework.Parameter) and twin is not w
    assert twin.regularizer == "decay" and twin.optimize_attr == {"learning_rate": 0.1} and twin.trainable
    assert copy.global_block().var("x").error_clip == "clip"
    assert copy.global_block().var("out").op is copy.global_block().ops[0]
    copy.global_block().var("x").name = "renamed"
    assert x.name == "x"


def test_clone_for_test():
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x = fluid.layers.data(name="x", shape=[4], dtype="float32")
        hidden = fluid.layers.dropout(fluid.layers.fc(x, 3), dropout_prob=0.5)
        loss = fluid.layers.mean(hidden)
        fluid.optimizer.SGD(0.1).minimize(loss)
        test = main.clone(for_test=True)
    types = [op.type for op in test.global_block().ops]
    assert "sgd" not in types and not any(name.endswith("_grad") for name in types)
    assert [op.attr("is_test") for op in test.global_block().ops if op.type == "dropout"] == [True]
    assert [op.attr("is_test") for op in main.global_block().ops if op.type == "dropout"] == [False]
    assert len(test.all_parameters()) == 2
    assert len(main.global_block().ops) > len(test.global_block().ops)


def test_roles():
    main = fluid.Program()
    block = main.global_block()
    p = block.create_parameter(name="p", shape=[1], dtype="float32")
    g = block.create_var(name="g", shape=[1], dtype="float32")
    with main._optimized_guard([p, g]):
        op = block.append_op(type="scale", inputs={"X": p}, outputs={"Out": p})
    assert op.attr("op_role") == 2 and op.attr("op_role_var") == ["p", "g"]
    with main._lr_schedule_guard():
        op = block.append_op(type="scale", inputs={"X": p}, outputs={"Out": p})
    assert op.attr("op_role") == 16 and op.attr("op_role_var") == []
    with main._backward_role_guard():
        op = block.append_op(type="scale", inputs={"X": p}, outputs={"Out": p})
    assert op.attr("op_role") == 1
    with pytest.raises(RuntimeError):
        with main._optimized_guard([p, g]):
            raise RuntimeError
    assert main._op_role == 0 and main._op_role_var == []


def test_name_scope():
    main = fluid.Program()
    block = main.global_block()
    x = block.create_var(name="x", shape=[1], dtype="float32")
    paths = []
    with fluid.name_scope("a"):
        with fluid.name_scope("b"):
            paths.append(
                block.append_op(type="scale", inputs={"X": x}, outputs={"Out": x}).attr("op_namescope")
            )
        with fluid.name_scope("b"):
            paths.append(
                block.append_op(type="scale", inputs={"X": x}, outputs={"Out": x}).attr("op_namescope")
            )
    paths.append(block.append_op(type="scale", inputs={"X": x}, outputs={"Out": x}).attr("op_namescope"))
    assert [path.replace("a_1", "a") for path in paths] == ["/a/b/", "/a/b_1/", "/"]


def test_program_guard_restores():
    before = fluid.default_main_program(), fluid.default_startup_program()
    inner = fluid.Program(), fluid.Program()
    with pytest.raises(KeyError):
        with fluid.program_guard(*inner):
            assert (fluid.default_main_program(), fluid.default_startup_program()) == inner
            raise KeyError
    assert (fluid.default_main_program(), fluid.default_startup_program()) == before
    with pytest.raises(TypeError, match="main_program"):
        with fluid.program_guard("x"):
            pass


def test_serialize_and_parse(mul):
    program = mul[0].block.program
    again = fluid.Program.parse_from_string(program.desc.serialize_to_string())
    assert [op.type for op in again.global_block().ops] == ["mul"]
    assert again.global_block().var("x").shape == (-1, 4) and again.global_block().var("w").persistable
    with pytest.raises(core.EnforceNotMet):
        fluid.Program.parse_from_string(b"\x0a\xff\xff\xff\xff")


def test_prune(program):
    block = program.global_block()
    for name in "abcd":
        block.create_var(name=name, shape=[2], dtype="float32")
    block.append_op(type="scale", inputs={"X": "a"}, outputs={"Out": "b"})
    block.append_op(type="scale", inputs={"X": "b"}, outputs={"Out": "c"})
    block.append_op(type="scale", inputs={"X": "a"}, outputs={"Out": "d"})
    assert len(program._prune([block.var("c")]).global_block().ops) == 2
    assert len(program._prune_with_input(["b"], ["c"]).global_block().ops) == 1
    assert len(block.ops) == 3


def test_backward_pairs():
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x = fluid.layers.data(name="x", shape=[4], dtype="float32")
        loss = fluid.layers.mean(fluid.layers.fc(x, 3))
        pairs = fluid.append_backward(loss)
    assert [(p.name, g.name) for p, g in pairs] == [
        ("fc_0.w_0", "fc_0.w_0@GRAD"),
        ("fc_0.b_0", "fc_0.b_0@GRAD"),
    ]
    assert all(isinstance(p, framework.Parameter) and g.shape == p.shape for p, g in pairs)
    assert pairs[0][1].op.type == "mul_grad"
    with pytest.raises(TypeError, match="loss"):
        fluid.append_backward("loss")


def test_no_grad_set_and_parameter_list():
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()), fluid.unique_name.guard():
        x = fluid.layers.data(name="x", shape=[4], dtype="float32")
        loss = fluid.layers.mean(fluid.layers.fc(fluid.layers.fc(x, 3), 2))
        first = main.clone()
        pairs = fluid.append_backward(loss, no_grad_set={"fc_0.w_0"})
        assert "fc_0.w_0" not in [p.name for p, _ in pairs]
        pairs = fluid.append_backward(first.global_block().var(loss.name), parameter_list=["fc_1.w_0"])
        assert [p.name for p, _ in pairs] == ["fc_1.w_0"]


def test_gradients():
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        x = fluid.layers.data(name="x", shape=[2], dtype="float32")
        x.stop_gradient = False
        y = fluid.layers.data(name="y", shape=[2], dtype="float32")
        y.stop_gradient = False
        z = fluid.layers.elementwise_mul(x, x)
        grads = fluid.gradients(z, [x, y])
        assert grads[1] is None and grads[0].shape == x.shape
        exe = fluid.Executor()
        value = np.array([[1.0, 3.0]], dtype="float32")
        assert np.allclose(exe.run(main, feed={"x": value}, fetch_list=[grads[0]])[0], 2 * value)
        with pytest.raises(ValueError, match="target_gradients"):
            fluid.gradients([z], [x], target_gradients=[z, z])


def test_programs_are_freed():
    program = fluid.Program()
    program.global_block().create_var(name="x", shape=[1], dtype="float32")
    gone = weakref.ref(program)
    del program
    gc.collect()
    assert gone() is None


def test_index():
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        x = fluid.layers.data(name="x", shape=[4, 6], dtype="float32", append_batch_size=False)
        parts = [x[1], x[1:3], x[:, 2], x[0:2, 1:5], x[-1]]
        value = np.arange(24, dtype="float32").reshape(4, 6)
        found = fluid.Executor().run(main, feed={"x": value}, fetch_list=parts)
    wanted = [value[1], value[1:3], value[:, 2], value[0:2, 1:5], value[-1]]
    for a, b in zip(found, wanted):
        assert a.shape == b.shape and np.array_equal(a, b)


def test_variables_have_no_values(mul):
    with pytest.raises(TypeError, match="'x'.*unstack"):
        list(mul[1])
    with pytest.raises(RuntimeError, match="fetch"):
        mul[1].numpy()
    assert len(mul[0].block.ops) == 1


def test_descs_are_built_step_by_step():
    desc = core.ProgramDesc()
    block = desc.block(0)
    for name, shape in (("x", [10, 20]), ("y", [20, 30])):
        var = block.var(name.encode())
        var.set_type(VarType.LOD_TENSOR)
        var.set_shape(shape)
        var.set_dtype(VarType.FP32)
    out = block.var(b"out")
    op = block.append_op()
    op.set_type("mul")
    op.set_input("X", ["x"])
    op.set_input("Y", ["y"])
    op.set_output("Out", ["out"])
    op.check_attrs()
    op.infer_shape(block)
    assert out.shape() == [10, 30] and block.op(0) == op and block.op_size() == 1
    draft = block._prepend_op()
    assert [block.op(i) for i in range(2)] == [draft, op]
    block._remove_op(0, 1)
    assert block.op_size() == 1


def test_flags():
    assert "FLAGS_check_nan_inf" in core.globals().keys()
    before = fluid.get_flags("FLAGS_check_nan_inf")["FLAGS_check_nan_inf"]
    fluid.set_flags({"FLAGS_check_nan_inf": True})
    try:
        assert fluid.get_flags(["FLAGS_check_nan_inf"])["FLAGS_check_nan_inf"]
    finally:
        fluid.set_flags({"FLAGS_check_nan_inf": before})
    with pytest.raises(ValueError, match="FLAGS_no_such_flag"):
        fluid.set_flags({"FLAGS_no_such_flag": 1})


def run_with(lines: str, **variables: str) -> subprocess.CompletedProcess:
    """A Python of its own, so that the environment is read anew."""
    return subprocess.run([sys.executable, "-c", lines], env=os.environ | variables, capture_output=True,
                          text=True, timeout=120)


@pytest.mark.parametrize("variables, level", [
    ({"GLOG_v": "3"}, "debug"),
    ({"GLOG_v": "0"}, "info"),
    ({"GLOG_v": "3", "FLAGS_log_level": "warning"}, "warning"),
])
def test_log_level(variables, level):
    done = run_with("import paddle.fluid as fluid; print(fluid.get_flags('FLAGS_log_level')['FLAGS_log_level'])",
                    **variables)
    assert done.stdout.split() == [level], done.stderr


def test_enums_look_like_upstreams():
    assert str(VarType.FP32) == repr(VarType.FP32) == f"{VarType.FP32}" == "VarType.FP32"
    assert VarType.FP32 == 5 and int(VarType.UINT8) == 20 and VarType.FP32 in (5,)
    assert framework.convert_np_dtype_to_dtype_("int64") is VarType.INT64
    assert framework.convert_np_dtype_to_dtype_(np.float16) is VarType.FP16
    assert framework.dtype_is_floating("float64") and not framework.dtype_is_floating(np.int32)
    with pytest.raises(ValueError, match="complex64"):
        framework.convert_np_dtype_to_dtype_("complex64")


@pytest.mark.parametrize("name", ["dygraph", "DistributedAdam", "VarBase", "recordio_writer"])
def test_what_is_not_there_says_so(name):
    with pytest.raises(AttributeError, match=f"fluid.{name} is not there yet"):
        getattr(fluid, name)


def test_no_gpu():
    assert not fluid.is_compiled_with_cuda() and core.get_cuda_device_count() == 0
    with pytest.raises(RuntimeError, match="no GPU"):
        fluid.CUDAPlace(0)
    assert len(fluid.cpu_places(2)) == 2 and str(fluid.CPUPlace()) == "CPUPlace"
    with pytest.raises(TypeError, match="place"):
        fluid.Executor("cpu")


def test_versions():
    import paddle

    assert paddle.__version__ == paddle.version.full_version == "1.8.5"
    assert paddle.version.cpaddle
    fluid.require_version("1.7.0")
    with pytest.raises(Exception, match="1.8.5"):
        fluid.require_version("2.0.0")


def test_what_a_file_says_of_a_reader_is_passed_on():
    """A reader's variable carries the shapes and types of what it reads; copies and files keep them."""

    def field(number, value):
        return bytes([number << 3 | 2, len(value)]) + value if isinstance(value, bytes) else bytes([number << 3, value])

    tensor = field(1, field(1, 5) + field(2, 7) + field(2, 3)) + field(2, 1)  # float32 [7, 3] of lod level 1
    kind = field(1, 15) + field(5, field(1, tensor))
    var = field(1, b"batches") + field(2, kind) + field(3, 1)
    parent = bytes([2 << 3]) + b"\xff" * 9 + b"\x01"  # -1
    program = fluid.Program.parse_from_string(field(1, field(1, 0) + parent + field(3, var)))
    assert program.global_block().var("batches").type == fluid.core.VarDesc.VarType.READER
    for copy in (program, program.clone(), program.clone(for_test=True)):
        assert kind in copy.desc.serialize_to_string()


@pytest.mark.parametrize("stop", [False, True])
def test_gradients_of_what_ops_without_inputs_make(stop):
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()):
        x = fluid.layers.fill_constant([2], "float32", 3.0)
        x.stop_gradient = stop
        two = fluid.initializer.Constant(2.0)
        weight = fluid.layers.create_parameter([2], "float32", name="w", default_initializer=two)
        pairs = fluid.append_backward(fluid.layers.reduce_sum(x * weight))
        assert [(param.name, grad.name) for param, grad in pairs] == [("w", "w@GRAD")]
        assert fluid.default_main_program().global_block().has_var(f"{x.name}@GRAD") == (not stop)
        exe = fluid.Executor()
        exe.run(fluid.default_startup_program())
        if not stop:
            assert exe.run(fetch_list=[f"{x.name}@GRAD"])[0].tolist() == [2, 2]


def test_gradients_of_targets_that_depend_on_each_other_and_second_ones():
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        x = fluid.layers.data("x", [3], append_batch_size=False)
        x.stop_gradient = False
        square = x * x
        (found,) = fluid.gradients([square, square * x], [x])
        exe = fluid.Executor(fluid.CPUPlace())
        value = np.array([1, 2, 3], "float32")
        np.testing.assert_allclose(exe.run(feed={"x": value}, fetch_list=[found])[0], 2 * value + 3 * value**2, rtol=1e-6)
        with pytest.raises(fluid.core.UnsupportedError, match="op 'elementwise_mul_grad' has no gradient"):
            fluid.gradients([found], [x])


def test_gradients_in_a_program_without_parameters():
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        doubled = 2.0 * fluid.data("i", [1], "float32")
        assert fluid.append_backward(fluid.layers.mean(doubled * doubled)) == []
        values = fluid.Executor().run(feed={"i": np.array([3], "float32")}, fetch_list=[doubled.grad_name])
    assert values[0].tolist() == [12]
