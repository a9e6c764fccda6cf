"""Inputs of an op in types that do not go together: the numbers of one type, or an error, never garbage or a crash.

Every case of op_cases/*.py is run with one input after the other in another type, forward and backward, then with one input of its
gradient ops after the other cast on the way. What comes out must be what the same numbers give when all have the type of the case.
Memory that is read or written beyond its end is seen where the sanitized extension runs this (tools/run_tests.py)."""

from __future__ import annotations

import numpy as np
import test_ops

import paddle.fluid as fluid

TYPES = ("float32", "float64", "int32", "int64")
OTHER = {5: 6, 6: 5, 2: 3, 3: 2}  # element types of one kind, as framework.proto numbers them
TOLERANCE = 2e-3  # a wrong type is off by orders of magnitude; float32 is off by less
BY_TYPE = {"hash": "of the bytes of its input"}  # other numbers for another type, with the reason


def array_of(value):
    return value["value"] if isinstance(value, dict) else test_ops.split_lengths(value)[0]


def with_array(value, array):
    if isinstance(value, dict):
        return {**value, "value": array}
    return (array, test_ops.split_lengths(value)[1]) if isinstance(value, tuple) else array


def variants(case, base):
    """(what, the case with one input in another type, the case with the same numbers in its own type)."""
    inputs = {slot: test_ops.as_type(value if not isinstance(value, list) else test_ops.entries(slot, value), base)
              for slot, value in case["inputs"].items()}
    for slot, value in inputs.items():
        for at, (name, each) in enumerate(test_ops.entries(slot, value)):
            array = np.asarray(array_of(each))
            for dtype in TYPES:
                if array.dtype == dtype or array.dtype == np.bool_:
                    continue
                with np.errstate(invalid="ignore"):
                    other = array.astype(dtype)
                    back = other.astype(array.dtype)
                pair = []
                for numbers in (other, back):
                    new = with_array(each, numbers)
                    pair.append({**case, "inputs": {**inputs, slot: [*value[:at], (name, new), *value[at + 1:]]
                                                    if isinstance(value, list) else new}})
                yield f"{name} as {dtype}, all else {np.dtype(base)}", *pair


def run(case, base, outputs, with_grad, change=None):
    """Outputs and gradients by name; None when an op refuses."""
    try:
        built = test_ops.Built({**case, "outputs": outputs}, base, with_grad, typed=True)
        if change:
            change(built)
        names = [name for name, _ in built.compared] + [f"{name}@GRAD" for name in built.grad_names]
        return {name: np.array(each) for name, each in zip(names, built.run(names))} if names else {}
    except Exception:
        return None


def once(run_same):
    """What a case gives, by its inputs: several inputs in another type come to the same numbers in the type of the case."""
    known = {}

    def give(case, *words):
        arrays = [np.asarray(array_of(each)) for slot, value in case["inputs"].items() for _, each in test_ops.entries(slot, value)]
        key = (*words, *((array.dtype.str, array.shape, array.tobytes()) for array in arrays))
        if key not in known:
            known[key] = run_same(case, *words)
        return known[key]

    return give


def compare(what, found, wanted):
    """What is wrong, or None."""
    for name, right in (wanted or {}).items():
        it = found[name]
        if it.shape != right.shape:
            return f"{what}: {name} has shape {it.shape}, not {right.shape}"
        both = np.isfinite(right.astype(float))
        a, b = it[both].astype(float), right[both].astype(float)
        if it.dtype.kind in "iu" and right.dtype.kind == "f":
            close = np.abs(a - b) < 1  # an op on integers gives integers
        else:
            close = np.isclose(a, b, rtol=TOLERANCE, atol=TOLERANCE * max(1.0, float(np.max(np.abs(b), initial=0))))
        if not np.all(close):
            return f"{what}: {name} is {it.ravel()[:6]} ({it.dtype}), not {right.ravel()[:6]} ({right.dtype})"
    return None


def outputs_of(case):
    wanted = case.get("outputs") or {}
    return wanted(case["inputs"], case.get("attrs", {})) if callable(wanted) else wanted


def report(case, wrong):
    wrong = [each for each in wrong if each]
    assert not wrong, f"{case['op']}: {'; '.join(wrong[:4])}"


@test_ops.cases
def test_input_in_another_type(case):
    if "raises" in case or case["op"] in BY_TYPE:
        return
    outputs, wrong = outputs_of(case), []
    right = once(lambda same, base, with_grad: run(same, base, outputs, with_grad))
    for base in (np.float64, np.float32):
        for what, changed, same in variants(case, base):
            # The forward op may do what its gradient does not.
            for with_grad in (True, False) if case.get("grad") else (False,):
                found = run(changed, base, outputs, with_grad)
                if found is not None:
                    wrong.append(compare(what, found, right(same, base, with_grad)))
                    break
    report(case, wrong)


def backward_inputs(built):
    """(number of an op, variable) of all that the gradient ops of the case read in a type that has another of its kind."""
    block = built.program.global_block()
    first = 1 + max(i for i, op in enumerate(block.ops) if op.type == "elementwise_mul_grad" and any(
        name.startswith("weight_") for name in op.input_arg_names))
    for at in range(first, len(block.ops)):
        for name in sorted(set(block.ops[at].input_arg_names)):
            if block.has_var(name) and int(block.var(name).dtype or 0) in OTHER:
                yield at, name


def cast_before(built, at, name):
    """The op there reads `name` in the other type of its kind."""
    block = built.program.global_block()
    now = int(block.var(name).dtype)
    block.create_var(name="cast_of_input")
    block._insert_op(at, type="cast", inputs={"X": [name]}, outputs={"Out": ["cast_of_input"]},
                     attrs={"in_dtype": now, "out_dtype": OTHER[now]})
    block.ops[at + 1]._rename_input(name, "cast_of_input")


@test_ops.cases
def test_gradient_input_in_another_type(case):
    if not case.get("grad") or "raises" in case:
        return
    outputs, wrong = outputs_of(case), []
    for base in (np.float64, np.float32):
        inputs = {slot: test_ops.as_type(value, base) if not isinstance(value, list) else
                  [(name, test_ops.as_type(each, base)) for name, each in test_ops.entries(slot, value)]
                  for slot, value in case["inputs"].items()}
        typed = {**case, "inputs": inputs, "outputs": outputs}
        plain = test_ops.Built(typed, base, with_grad=True, typed=True)
        right = run(typed, base, outputs, True)
        for at, name in backward_inputs(plain):
            what = f"{plain.program.global_block().ops[at].type} with {name} in another type than {np.dtype(base)}"
            found = run(typed, base, outputs, True, lambda built, at=at, name=name: cast_before(built, at, name))
            if found is not None:
                wrong.append(compare(what, found, right))
    report(case, wrong)


def in_scope(built, name, array, lengths):
    """The variable is not fed but lives in the scope, in a type that the Program does not know of."""
    del built.feed[name]
    built.program.global_block().var(name).persistable = True
    tensor = built.scope.var(name).get_tensor()
    tensor.set(array, fluid.CPUPlace())
    if lengths:
        tensor.set_recursive_sequence_lengths(lengths)


@test_ops.cases
def test_scope_holds_another_type(case):
    if "raises" in case or case["op"] in BY_TYPE:
        return
    outputs, wrong = outputs_of(case), []
    right = once(lambda same, with_grad: run(same, np.float32, outputs, with_grad))
    for what, changed, same in variants(case, np.float32):
        for slot, value in changed["inputs"].items():
            for (name, each), (_, old) in zip(test_ops.entries(slot, value), test_ops.entries(slot, same["inputs"][slot])):
                if isinstance(each, dict) or array_of(each).dtype == array_of(old).dtype:
                    continue
                array, lengths = test_ops.split_lengths(each)
                with_grad = bool(case.get("grad"))
                found = run(same, np.float32, outputs, with_grad,
                            lambda built, name=name, array=array, lengths=lengths: in_scope(built, name, array, lengths))
                if found is not None:
                    wrong.append(compare(f"{what}, which the scope holds", found, right(same, with_grad)))
    report(case, wrong)
