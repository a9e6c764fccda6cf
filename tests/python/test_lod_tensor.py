"""LoDTensor, SelectedRows, LoDTensorArray and Scope."""

import numpy as np
import pytest

import paddle.fluid as fluid
from paddle.fluid import core

VarType = core.VarDesc.VarType
CPU = fluid.CPUPlace()


def tensor_of(array, lengths=None):
    tensor = core.LoDTensor() if lengths is None else core.LoDTensor(lengths)
    tensor.set(array, CPU)
    return tensor


@pytest.mark.parametrize(
    "dtype, kind",
    [
        ("bool", VarType.BOOL),
        ("int8", VarType.INT8),
        ("uint8", VarType.UINT8),
        ("int16", VarType.INT16),
        ("int32", VarType.INT32),
        ("int64", VarType.INT64),
        ("float16", VarType.FP16),
        ("float32", VarType.FP32),
        ("float64", VarType.FP64),
    ],
)
def test_arrays_in_and_out(dtype, kind):
    array = (np.arange(12).reshape(3, 4) % 2).astype(dtype)
    tensor = tensor_of(array)
    assert tensor._dtype() == kind and tensor.shape() == [3, 4]
    again = np.array(tensor)
    assert again.dtype == array.dtype and np.array_equal(again, array)
    again[:] = 0
    assert np.array_equal(np.array(tensor), array)


def test_float16_as_bits():
    halves = np.array([1.5, -2.0], "float16")
    tensor = tensor_of(halves.view("uint16"))
    assert tensor._dtype() == VarType.FP16 and np.array_equal(np.array(tensor), halves)


def test_strided_empty_and_other_arrays():
    array = np.arange(24, dtype="float32").reshape(4, 6)
    for view in (array.T, array[::2, 1::2], np.asfortranarray(array)):
        assert np.array_equal(np.array(tensor_of(view)), view)
    assert np.array(tensor_of(np.zeros((0, 3), "float32"))).shape == (0, 3)
    assert np.asarray(tensor_of([1.0, 2.0])).tolist() == [1.0, 2.0]
    assert np.array(tensor_of(array), dtype="int64").dtype == np.int64
    for wrong in (np.array(["a"]), np.array([1j]), object()):
        with pytest.raises(TypeError, match="set"):
            tensor_of(wrong)


def test_a_tensor_without_data():
    tensor = core.LoDTensor()
    assert not tensor._is_initialized()
    with pytest.raises(core.EnforceNotMet, match="no data"):
        np.array(tensor_of(np.ones(3, "float32")) if False else _with_dims(tensor))
    assert "without data" in str(core.LoDTensor())


def _with_dims(tensor):
    tensor._set_dims([2, 2])
    return tensor


def test_room_by_hand():
    tensor = core.LoDTensor()
    tensor._set_dims([2, 3])
    tensor._alloc_float(CPU)
    assert np.array_equal(np.array(tensor), np.zeros((2, 3), "float32"))
    tensor._set_float_element(5, 2.5)
    assert tensor._get_float_element(5) == 2.5
    with pytest.raises(core.EnforceNotMet, match="float64"):
        tensor._get_double_element(0)
    with pytest.raises(IndexError, match="6"):
        tensor._get_float_element(6)
    with pytest.raises(IndexError):
        tensor._set_float_element(-1, 0.0)
    tensor._alloc_double(CPU)
    tensor._set_double_element(0, 1.0)
    assert tensor._get_double_element(0) == 1.0
    tensor._clear()
    assert not tensor._is_initialized()


def test_lod():
    tensor = tensor_of(np.ones((5, 1), "float32"), [[2, 1], [1, 2, 2]])
    assert tensor.lod() == [[0, 2, 3], [0, 1, 3, 5]]
    assert tensor.recursive_sequence_lengths() == [[2, 1], [1, 2, 2]]
    assert tensor.has_valid_recursive_sequence_lengths()
    tensor.set_lod([[0, 2, 4]])
    assert tensor.recursive_sequence_lengths() == [[2, 2]]
    assert not tensor.has_valid_recursive_sequence_lengths()
    tensor.set_recursive_sequence_lengths([])
    assert tensor.lod() == [] and tensor.has_valid_recursive_sequence_lengths()
    with pytest.raises(TypeError):
        tensor.set_lod([1, 2])
    with pytest.raises(core.EnforceNotMet):
        tensor.set_lod([[0, 3, 1]])


def test_parts_copies_and_sharing():
    array = np.arange(6, dtype="float32").reshape(3, 2)
    tensor = tensor_of(array)
    assert np.array_equal(np.array(tensor[1:3]), array[1:3])
    copy = tensor._copy(CPU)
    tensor._set_float_element(0, 9.0)
    assert np.array(copy)[0, 0] == 0.0
    other = core.LoDTensor()
    other._share_data_with(tensor)
    assert np.array_equal(np.array(other), np.array(tensor))


def test_bytes_round_trip():
    tensor = tensor_of(np.arange(5, dtype="int64").reshape(5, 1), [[2, 3]])
    data = tensor._serialize()
    again = core.LoDTensor()
    assert again._parse(data + b"more") == len(data)
    assert again.recursive_sequence_lengths() == [[2, 3]] and np.array_equal(
        np.array(again), np.array(tensor)
    )
    for cut in (0, 3, len(data) - 1):
        with pytest.raises(core.EnforceNotMet):
            core.LoDTensor()._parse(data[:cut])


def test_a_tensor_that_was_never_filled():
    """A line of no elements, as in 1.8.5; a variable of a scope has a value to come, and says that it is not there."""
    blank = core.LoDTensor()
    assert np.array(blank).shape == (0,) and np.array(blank).dtype == "float64" and blank.shape() == [0]
    assert np.array(blank, "int64").dtype == "int64"
    with pytest.raises(core.EnforceNotMet, match="The tensor holds no data yet"):
        np.array(core.Scope().var("x").get_tensor())
    blank.set(np.ones((2, 3), "float32"), CPU)
    assert np.array(blank).shape == (2, 3) and blank.shape() == [2, 3]
    number = core.LoDTensor()
    number.set(np.array(2.5, "float32"), CPU)
    assert number.shape() == [] and np.array(number) == 2.5


def test_selected_rows():
    rows = core.SelectedRows([0, 4, 7], 10)
    rows.get_tensor().set(np.ones((3, 2), "float32"), CPU)
    assert rows.rows() == [0, 4, 7] and rows.height() == 10 and rows.numel() == 6
    rows.set_height(20)
    rows.set_rows([1, 2, 3])
    assert rows.rows() == [1, 2, 3] and rows.height() == 20
    assert np.array(rows.get_tensor()).shape == (3, 2)


def test_tensor_array():
    array = core.LoDTensorArray()
    array.append(tensor_of(np.array([1.0], "float32")))
    array.append(tensor_of(np.array([2.0, 3.0], "float32")))
    assert len(array) == 2 and [np.array(each).sum() for each in array] == [1.0, 5.0]
    array[0] = tensor_of(np.array([4.0], "float32"))
    assert np.array(array[0]).tolist() == [4.0] and np.array(array[-1]).sum() == 5.0
    with pytest.raises(IndexError):
        array[2]
    with pytest.raises(TypeError, match="LoDTensor"):
        array.append(3)
    assert len(array._move_to_list()) == 2


def test_scope():
    scope = core.Scope()
    assert scope.find_var("x") is None
    scope.var("x").get_tensor().set(np.ones(2, "float32"), CPU)
    child = scope.new_scope()
    assert np.array(child.find_var("x").get_tensor()).sum() == 2
    child.var("y").set_int(3)
    assert child.find_var("y").is_int() and child.find_var("y").get_int() == 3 and scope.find_var("y") is None
    child.var("z").set_float(0.5)
    assert child.find_var("z").is_float() and not child.find_var("z").is_int()
    assert child.find_var("z").get_float() == 0.5
    assert sorted(child.local_var_names()) == ["y", "z"] and scope.local_var_names() == ["x"]
    child.erase(["y"])
    assert child.find_var("y") is None
    scope.drop_kids()
    with pytest.raises(core.EnforceNotMet, match="SelectedRows"):
        scope.find_var("x").get_selected_rows()
    scope.var("rows").get_selected_rows().set_height(4)
    assert scope.find_var("rows").get_selected_rows().height() == 4


def test_a_value_outlives_its_scope():
    scope = core.Scope()
    scope.var("x").get_tensor().set(np.ones(2, "float32"), CPU)
    tensor = scope.find_var("x").get_tensor()
    del scope
    assert np.array(tensor).sum() == 2


def test_ops_on_a_scope():
    scope = core.Scope()
    op = fluid.op.Operator("mul", X="X", Y="Y", Out="Out")
    assert op.type() == "mul" and ("X", False) in fluid.op.Operator.get_op_inputs("mul")
    assert fluid.op.Operator.get_op_outputs("mul") == [("Out", False)]
    assert "x_num_col_dims" in fluid.op.Operator.get_op_attr_names("mul")
    for dtype, rows in (("float32", 5), ("float32", 2), ("float64", 3)):
        x, y = np.random.rand(rows, 4).astype(dtype), np.random.rand(4, 3).astype(dtype)
        scope.var("X").get_tensor().set(x, CPU)
        scope.var("Y").get_tensor().set(y, CPU)
        op.run(scope, CPU)
        found = np.array(scope.find_var("Out").get_tensor())
        assert found.dtype == dtype and np.allclose(found, x @ y, atol=1e-5)
    with pytest.raises(ValueError, match="'speed'"):
        fluid.op.Operator("mul", X="X", Y="Y", Out="Out", speed=1)
    with pytest.raises(ValueError, match="no_such_op"):
        fluid.op.Operator("no_such_op")


def test_asking_for_another_kind_names_both():
    rows = fluid.Scope().var("rows")
    rows.get_selected_rows().get_tensor().set(np.ones((1, 2), "float32"), fluid.CPUPlace())
    with pytest.raises(Exception, match="does not hold a LoDTensor, but SelectedRows"):
        rows.get_tensor()


def test_reshape_by_a_variable_hands_no_lod_on():
    """As upstream: sequences are counted where there are some, else rows."""
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        x = fluid.layers.data("x", [4], lod_level=1)
        width = fluid.layers.fill_constant([1], "int32", 4)
        parts = [fluid.layers.reshape(x, [-1, 4]), fluid.layers.reshape(x, [-1, width])]
        sizes = [fluid.layers.fill_constant_batch_size_like(part, [1, 3], "float32", 0.5) for part in parts]
        exe = fluid.Executor(fluid.CPUPlace())
        feed = {"x": fluid.create_lod_tensor(np.ones((5, 4), "float32"), [[2, 3]], fluid.CPUPlace())}
        found = exe.run(fluid.default_main_program(), feed=feed, fetch_list=sizes)
    assert [each.shape[0] for each in found] == [2, 5]
