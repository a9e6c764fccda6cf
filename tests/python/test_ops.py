"""One runner for all ops: each case of op_cases/*.py is run forward in float64 against its numpy reference, its gradients
are compared with central finite differences, and the same case is run in float32 against float64.

A case is a dict:
    op        the op's type
    inputs    slot -> array, (array, lengths) for sequences, or [(name, array or (array, lengths)), ...] for a list slot;
              selected rows are {"rows": [...], "height": n, "value": array}
    attrs     attributes, as the op takes them
    outputs   slot -> array, (array, lengths), a list of them for a list slot, or None (made, but not compared);
              or a function (inputs, attrs) -> such a dict
    grad      input slots whose gradients are checked (for a list slot: all its entries); none by default
    tol       tolerance of the forward comparison, default 1e-7
    tol32     tolerance of float32 against float64, default 2e-4; None: not run in float32
    grad_tol  tolerance of the finite differences, default 1e-6
    no_check  output slots that are not compared (random, or only for the gradient)
    no_grad_check  output slots that do not count for the gradient; hidden ones never do
    raises    the case must fail with an error that contains this text; nothing else is checked
    declared  input name -> shape to declare instead of the array's own (with -1 where a user writes it)
    shape_differs  why the Program declares other sizes of the outputs than a run gives; they are not compared then
"""

from __future__ import annotations

import importlib.util
import pathlib

import numpy as np
import pytest

import paddle.fluid as fluid
from paddle import _core

HIDDEN, OPTIONAL, LIST = 4, 2, 1
FP32, FP64 = 5, 6
MOST_ELEMENTS = 24  # finite differences of one input

# Ops without a case here, each with the reason.
ELSEWHERE = {
    "feed": "done by the executor itself; every other case feeds",
    **dict.fromkeys(("create_py_reader", "create_double_buffer_reader", "read"), "marks for the executor: test_reader_programs.py"),
    "fetch": "done by the executor itself; every other case fetches",
    "create_py_reader": "readers: test_reader_programs.py",
    "create_double_buffer_reader": "readers: test_reader_programs.py",
    "read": "readers: test_reader_programs.py",
    "save": "writes files: test_io.py",
    "save_combine": "writes files: test_io.py",
    "load": "reads files: test_io.py",
    "load_combine": "reads files: test_io.py",
    "print": "prints: test_math_ops.py",
    **dict.fromkeys(["conditional_block", "while", "get_places"],
                    "runs a sub-block or has no tensor: test_tensor_arrays.py, test_loops.py"),
    **dict.fromkeys(["write_to_array", "read_from_array", "lod_array_length", "lod_tensor_to_array", "array_to_lod_tensor",
                    "tensor_array_to_tensor"],
                    "works on a tensor array: test_tensor_arrays.py"),
    **dict.fromkeys(["lod_rank_table", "max_sequence_len", "reorder_lod_tensor_by_rank", "shrink_rnn_memory"],
                    "works on a rank table: test_tensor_arrays.py"),
    **dict.fromkeys(["send", "recv", "send_barrier", "fetch_barrier", "listen_and_serv", "split_byref", "prefetch",
                    "distributed_lookup_table", "checkpoint_notify", "recv_save", "delete_var", "ps_sum"],
                    "speaks with servers: test_transpiler.py"),
    "geo_sgd": "speaks with servers: test_communicator.py",
}

# Gradients that finite differences cannot check, each with the reason.
NO_DIFFERENCES = {
    "cvm": "its gradient carries the true counts in two columns: cases of cvm_grad",
    "select_input": "goes with blocks: test_tensor_arrays.py",
    "select_output": "goes with blocks: test_tensor_arrays.py",
}


def load_cases():
    """(name, case) of all tables."""
    found = []
    for path in sorted((pathlib.Path(__file__).parent / "op_cases").glob("*.py")):
        spec = importlib.util.spec_from_file_location(f"op_cases_{path.stem}", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for number, case in enumerate(getattr(module, "CASES", [])):
            found.append((f"{path.stem}-{number}-{case['op']}", case))
    return found


ALL = load_cases()


def cases(test):
    return pytest.mark.parametrize("case", [case for _, case in ALL], ids=[name for name, _ in ALL])(test)


# ---- values ----


def split_lengths(value):
    """(array, sequence lengths by level) of a case's value."""
    if isinstance(value, tuple):
        array, lengths = value
        lengths = [lengths] if len(lengths) == 0 or np.isscalar(lengths[0]) else list(lengths)
        return np.asarray(array), [[int(n) for n in level] for level in lengths]
    return np.asarray(value), []


def entries(slot, value):
    """The variables of a slot: (name, value)."""
    if isinstance(value, list):
        return [(f"{slot}_{i}", each) if not isinstance(each, tuple) or not isinstance(each[0], str) else each
                for i, each in enumerate(value)]
    return [(slot, value)]


def is_float(array):
    return array.dtype in (np.float32, np.float64)


def as_type(value, dtype):
    """The value with its float64 numbers as `dtype`."""
    if isinstance(value, dict):
        return {**value, "value": as_type(value["value"], dtype)}
    if isinstance(value, list):
        return [(name, as_type(each, dtype)) for name, each in value]
    array, lengths = split_lengths(value)
    array = array.astype(dtype) if array.dtype == np.float64 else array
    return (array, lengths) if isinstance(value, tuple) else array


class Built:
    """A Program with the case's op, and what to feed and fetch. Its float64 numbers become `dtype`, unless `typed` says that they
    have the types that are wanted."""

    def __init__(self, case, dtype, with_grad=False, typed=False):
        self.case = case
        self.program = fluid.Program()
        self.scope = fluid.Scope()
        self.exe = fluid.Executor(fluid.CPUPlace())
        self.feed, self.kept, self.grad_names = {}, {}, []
        inputs = {slot: value if typed else as_type(value, dtype) for slot, value in case["inputs"].items()}
        attrs = {name: self.attr(name, value, dtype) for name, value in case.get("attrs", {}).items()}
        with fluid.program_guard(self.program, fluid.Program()):
            block = self.program.global_block()
            names = {slot: self.add_inputs(block, slot, value) for slot, value in inputs.items()}
            self.outputs = self.add_outputs(block, case)
            op = block.append_op(
                type=case["op"], inputs=names, attrs=attrs,
                outputs={slot: [name for name, _ in found] for slot, found in self.outputs.items()},
            )
            assert op is not None
            self.compared = [
                (name, value) for slot, found in self.outputs.items()
                if slot not in case.get("no_check", ()) for name, value in found if value is not None
            ]
            if with_grad:
                self.add_backward(block, names, dtype)

    @staticmethod
    def attr(name, value, dtype):
        if dtype == np.float32 and name in ("dtype", "in_dtype", "out_dtype") and value == FP64:
            return FP32
        return value

    def add_inputs(self, block, slot, value):
        names = []
        for name, each in entries(slot, value):
            if isinstance(each, dict):
                self.add_rows(block, name, each)
            else:
                array, lengths = split_lengths(each)
                shape = self.case.get("declared", {}).get(name, ([-1] if lengths else [array.shape[0]]) + list(array.shape[1:])
                                                          if array.ndim else [])
                block.create_var(name=name, shape=shape, dtype=str(array.dtype), lod_level=len(lengths),
                                 stop_gradient=not is_float(array), is_data=True)
                self.feed[name] = self.tensor(array, lengths)
                self.kept[name] = (array, lengths)
            names.append(name)
        return names

    def add_rows(self, block, name, each):
        block.create_var(name=name, shape=[each["height"], *each["value"].shape[1:]], dtype=str(each["value"].dtype),
                         type=fluid.core.VarDesc.VarType.SELECTED_ROWS, persistable=True)
        rows = self.scope.var(name).get_selected_rows()
        rows.set_height(each["height"])
        rows.set_rows(list(each["rows"]))
        rows.get_tensor().set(each["value"], fluid.CPUPlace())

    @staticmethod
    def tensor(array, lengths):
        tensor = fluid.core.LoDTensor()
        tensor.set(np.ascontiguousarray(array), fluid.CPUPlace())
        if lengths:
            tensor.set_recursive_sequence_lengths(lengths)
        return tensor

    @staticmethod
    def add_outputs(block, case):
        """slot -> [(variable name, expected value or None)]; slots that only the gradient needs are made too."""
        wanted = case.get("outputs") or {}
        if callable(wanted):
            wanted = wanted(case["inputs"], case.get("attrs", {}))
        made = {}
        for slot, flags in _core.op_def(case["op"])[2]:
            if slot not in wanted and flags & OPTIONAL and not flags & HIDDEN:
                continue
            value = wanted.get(slot)
            made[slot] = [(f"out_{name}", each) for name, each in entries(slot, value)]
            for name, _ in made[slot]:
                block.create_var(name=name)
        unknown = set(wanted) - set(made)
        assert not unknown, f"the case expects outputs {sorted(unknown)}, which op {case['op']} does not have"
        return made

    def add_backward(self, block, names, dtype):
        """loss = sum of all float outputs, each element with a random weight."""
        rng = np.random.RandomState(len(self.case["op"]))
        self.weights, parts = {}, []
        left_out = set(self.case.get("no_grad_check", ()))
        left_out |= {slot for slot, flags in _core.op_def(self.case["op"])[2] if flags & HIDDEN}
        counted = {name for slot, found in self.outputs.items() if slot not in left_out for name, _ in found}
        for name, value in self.compared:
            array, _ = split_lengths(value)
            if name not in counted or not is_float(array):
                continue
            weight = np.round(rng.uniform(-1, 1, array.shape), 3).astype(dtype)
            self.weights[name] = weight
            self.feed[f"weight_{name}"] = weight
            for made in (f"weight_{name}", f"weighted_{name}", f"summed_{name}"):
                block.create_var(name=made, shape=list(array.shape), dtype=str(weight.dtype), stop_gradient=False)
            block.append_op(type="elementwise_mul", inputs={"X": [name], "Y": [f"weight_{name}"]},
                            outputs={"Out": [f"weighted_{name}"]}, attrs={})
            block.append_op(type="reduce_sum", inputs={"X": [f"weighted_{name}"]}, outputs={"Out": [f"summed_{name}"]},
                            attrs={"reduce_all": True})
            parts.append(f"summed_{name}")
        loss = block.create_var(name="loss", stop_gradient=False)
        block.append_op(type="sum", inputs={"X": parts}, outputs={"Out": [loss]}, attrs={})
        wanted = [name for slot in self.case["grad"] for name in names[slot]]
        fluid.backward.append_backward(loss, parameter_list=wanted)
        self.grad_names = wanted

    def run(self, fetches, changed=None):
        feed = {**self.feed, **changed} if changed else self.feed
        with fluid.scope_guard(self.scope):
            return self.exe.run(self.program, feed=feed, fetch_list=fetches, return_numpy=False)

    def forward(self):
        names = [name for name, _ in self.compared]
        return dict(zip(names, self.run(names))) if names else {}

    def gradients(self):
        found = self.run([f"{name}@GRAD" for name in self.grad_names])
        return {name: np.array(each) for name, each in zip(self.grad_names, found)}

    def loss(self, name, array, lengths):
        outs = self.run(list(self.weights), {name: self.tensor(array, lengths)})
        return sum(float(np.sum(weight * np.array(out))) for weight, out in zip(self.weights.values(), outs))


def compare(name, found, wanted, tol):
    wanted, lengths = split_lengths(wanted)
    array = np.array(found)
    assert array.shape == wanted.shape, f"{name} has shape {array.shape}, the reference {wanted.shape}"
    if array.dtype == np.bool_ or not np.issubdtype(array.dtype, np.floating):
        np.testing.assert_array_equal(array, wanted, err_msg=name)
    else:
        np.testing.assert_allclose(array, wanted, rtol=tol, atol=tol, err_msg=name)
    if lengths:
        assert found.recursive_sequence_lengths() == lengths, f"{name} has sequences {found.recursive_sequence_lengths()}"


# ---- the tests ----


@cases
def test_forward(case):
    if "raises" in case:
        with pytest.raises(Exception) as error:
            built = Built(case, np.float64)
            built.run([name for found in built.outputs.values() for name, _ in found])
        assert case["raises"] in str(error.value)
        return
    built = Built(case, np.float64)
    block = built.program.global_block()
    found = built.forward()
    for name, wanted in built.compared:
        compare(name, found[name], wanted, case.get("tol", 1e-7))
        if "shape_differs" in case:
            continue
        declared, real = block.var(name).shape, np.array(found[name]).shape
        assert len(declared) == len(real) and all(d in (-1, r) for d, r in zip(declared, real)), (
            f"{name} is declared as {declared} and came out as {real}")
    # A second run gives the same: nothing of the first one is left over.
    for name, again in built.forward().items():
        np.testing.assert_array_equal(np.array(again), np.array(found[name]), err_msg=name)


@cases
def test_gradient(case):
    if not case.get("grad") or "raises" in case:
        return
    built = Built(case, np.float64, with_grad=True)
    analytic = built.gradients()
    forward = Built(case, np.float64)
    forward.feed, forward.weights = built.feed, built.weights
    forward.feed = {name: value for name, value in built.feed.items() if not name.startswith("weight_")}
    rng = np.random.RandomState(1)
    tol = case.get("grad_tol", 1e-6)
    for name in built.grad_names:
        array, lengths = built.kept[name]
        assert analytic[name].shape == array.shape, f"{name}@GRAD has shape {analytic[name].shape}, {name} {array.shape}"
        picked = np.arange(array.size)
        if array.size > MOST_ELEMENTS:
            picked = rng.choice(array.size, MOST_ELEMENTS, replace=False)
        for at in picked:
            step = 1e-5 * max(1.0, abs(array.flat[at]))
            high, low = array.copy(), array.copy()
            high.flat[at] += step
            low.flat[at] -= step
            numeric = (forward.loss(name, high, lengths) - forward.loss(name, low, lengths)) / (2 * step)
            exact = analytic[name].flat[at]
            assert abs(numeric - exact) <= tol * max(1.0, abs(numeric)), (
                f"gradient of {case['op']} for {name}[{at}]: {exact}, finite differences say {numeric}")


@cases
def test_float32(case):
    tol = case.get("tol32", 2e-4)
    has_float = any(is_float(split_lengths(each)[0]) for slot, value in case["inputs"].items()
                    for _, each in entries(slot, value) if not isinstance(each, dict))
    if tol is None or "raises" in case or not has_float:
        return
    with_grad = bool(case.get("grad"))
    double, single = (Built(case, dtype, with_grad) for dtype in (np.float64, np.float32))
    exact, found = double.forward(), single.forward()
    for name, wanted in exact.items():
        wanted = np.array(wanted)
        np.testing.assert_allclose(np.array(found[name]), wanted, rtol=tol, atol=tol, err_msg=name)
    if with_grad:
        wanted = double.gradients()
        for name, array in single.gradients().items():
            assert array.dtype == np.float32
            scale = max(1.0, float(np.max(np.abs(wanted[name]), initial=0)))
            np.testing.assert_allclose(array, wanted[name], rtol=5 * tol, atol=5 * tol * scale, err_msg=f"{name}@GRAD")


def test_every_op_has_a_case():
    tested = {case["op"] for _, case in ALL}
    missing = [op for op in _core.op_types() if "_grad" not in op and op not in tested and op not in ELSEWHERE]
    assert not missing, f"no case for {missing}: add one to tests/python/op_cases, or say why not in ELSEWHERE"


def test_every_gradient_is_checked():
    """An op with a gradient has a case that checks it."""
    checked = {case["op"] for _, case in ALL if case.get("grad")}
    missing = [op for op in _core.op_types()
               if "_grad" not in op and op not in checked and op not in {**ELSEWHERE, **NO_DIFFERENCES} and _core.op_has_grad(op)]
    assert not missing, f"no gradient case for {missing}"


def test_no_stale_reason():
    """Every op that the tables name is there, and has no case after all."""
    tested = {case["op"] for _, case in ALL}
    assert [op for op in {**ELSEWHERE, **NO_DIFFERENCES} if not _core.op_known(op) and op not in ("feed", "fetch")] == []
    assert [op for op in ELSEWHERE if op in tested] == []
