"""Each layer builds the program that paddlepaddle 1.8.5 builds: ops, slots, attributes, names, shapes.

The cases and the golden file are those of tests/golden/make_layers.py.
"""

import importlib.util
import json
import pathlib

import numpy as np
import pytest

import paddle.fluid as fluid
from paddle.fluid import core, layers

MAKER = pathlib.Path(__file__).resolve().parent.parent / "golden" / "make_layers.py"
spec = importlib.util.spec_from_file_location("make_layers", MAKER)
make_layers = importlib.util.module_from_spec(spec)
spec.loader.exec_module(make_layers)

GOLDEN = json.loads(pathlib.Path(make_layers.DATA).read_text())

# Attributes that choose a library in 1.8.5. An op here may leave them out.
SWITCHES = {"use_mkldnn", "use_cudnn"}

# Outputs that 1.8.5 declares with the dtype of the input, although they hold something else when it runs.
VarType = core.VarDesc.VarType
REPAIRED = {
    ("max_pool2d_with_index", "Mask"): VarType.INT32,
    ("max_pool3d_with_index", "Mask"): VarType.INT32,
    ("sequence_pool", "MaxIndex"): VarType.INT32,
    ("isinf", "Out"): VarType.BOOL,
    ("isnan", "Out"): VarType.BOOL,
    ("sampling_id", "Out"): VarType.INT64,
}


def repaired(block: dict) -> dict:
    """The variables of a golden block, with those dtypes put right and -1 for products of unknown sizes."""
    found = {name: list(parts) for name, parts in block["vars"].items()}
    for kind, _, outs, _ in block["ops"]:
        for slot, names in outs.items():
            for name in names:
                if (kind, slot) in REPAIRED:
                    found[name][1] = int(REPAIRED[kind, slot])
    for parts in found.values():
        if len(parts) > 2:
            parts[2] = [max(size, -1) for size in parts[2]]
    return found


def ops_of(case: str) -> set[str]:
    """The op types that a case needs."""
    return {op[0] for program in GOLDEN[case] for block in program for op in block["ops"]}


def attrs_like(wanted: dict, op) -> dict:
    """The values that an op has for the attributes of the golden file."""
    found = {}
    for key, value in wanted.items():
        if key == "sub_block":
            found[key] = op._block_attr_id(key)
        elif op.has_attr(key):
            found[key] = make_layers.plain(op.attr(key))
        elif key in SWITCHES:
            found[key] = value
    return found


def compare(case: str, got, want) -> None:
    """Raise with the first difference between a program and its golden record."""
    assert len(got.blocks) == len(want)
    for block, golden in zip(got.blocks, want):
        types = [op.type for op in block.ops]
        assert types == [op[0] for op in golden["ops"]], f"{case}: the ops differ"
        wanted = iter(golden["ops"])
        found = make_layers.describe(got, lambda op: {}, core.VarDesc.VarType)[block.idx]
        for op, mine in zip(block.ops, found["ops"]):
            kind, ins, outs, attrs = next(wanted)
            assert mine[1:3] == [ins, outs], f"{case}: the slots of {kind} differ"
            assert attrs_like(attrs, op) == attrs, f"{case}: the attributes of {kind} differ"
        wanted_vars = repaired(golden)
        for name, parts in wanted_vars.items():
            # 1.8.5 leaves some intermediate shapes out; knowing more is no difference.
            if len(parts) > 2 and not parts[2] and len(found["vars"].get(name, ())) > 2:
                parts[2] = found["vars"][name][2]
        assert found["vars"] == wanted_vars, f"{case}: the variables differ"


@pytest.mark.parametrize("case", make_layers.cases())
def test_program_is_that_of_185(case):
    missing = sorted(ops_of(case).difference(core.get_all_op_names()))
    if missing:
        pytest.skip(f"the engine has no op {', '.join(missing)} yet")
    programs = make_layers.build(make_layers.cases()[case], fluid, np)
    for got, want in zip(programs, GOLDEN[case]):
        compare(case, got, want)


def test_names_that_are_not_there_yet_say_so():
    with pytest.raises(AttributeError, match="fluid.layers.warpctc is not there yet. It belongs to"):
        layers.warpctc
    with pytest.raises(AttributeError, match="has no attribute 'no_such_layer'"):
        layers.no_such_layer


@pytest.mark.parametrize(
    "call, error, text",
    [
        ("layers.fc(3, size=4)", TypeError, "fc: input must be a Variable"),
        ("layers.fc(x, size='4')", TypeError, "fc: size must be an int"),
        ("layers.conv2d(x, 4, 3)", ValueError, "conv2d: the input must have 4 dimensions"),
        ("layers.conv2d(img, 4, 3, groups=2)", ValueError, "cannot be split into 2 groups"),
        ("layers.pool2d(img, 2, pool_type='sum')", ValueError, "pool_type must be one of"),
        ("layers.pool2d(img)", ValueError, "give pool_size"),
        ("layers.embedding(words, size=100)", TypeError, "size must be"),
        ("layers.matmul(x, img)", ValueError, "matmul"),
        ("layers.reshape(x, shape=[-1, -1])", ValueError, "only one size may be -1"),
        ("layers.split(x, 3, dim=1)", ValueError, "cannot be cut into 3 equal parts"),
        ("layers.concat('x')", TypeError, "concat: input must be a Variable"),
        ("layers.data(3, [1])", TypeError, "name must be a string"),
        ("x + 'one'", TypeError, "must be a Variable or a number"),
        ("label + 0.5", ValueError, "would lose its fraction"),
        ("layers.piecewise_decay([1], [1.0])", ValueError, "one value more"),
        ("layers.sequence_pool(seq, 'median')", ValueError, "pool_type must be one of"),
    ],
)
def test_misuse_is_named(call, error, text):
    with pytest.raises(error, match=text):
        make_layers.build(call, fluid, np)


def test_forms_of_early_releases():
    calls = (
        "layers.fc(x, 4, use_mkldnn=False, is_test=True)",
        "layers.softmax(x=x)",
        "layers.softmax(x, use_cudnn=False)",
        "layers.ops.mean(x=x)",
        "layers.nn.cross_entropy(input=prob, label=label)",
        "layers.batch_norm(img, use_mkldnn=False, fuse_with_relu=False)",
        "layers.conv2d(img, 2, 3, use_mkldnn=False)",
        "layers.less_than(x=i, y=n, force_cpu=True)",
        "layers.topk(prob, k=1)",
        "layers.sums(input=[x, y])",
        "layers.reshape(x, shape=[-1, 4], act='relu')",
    )
    main = make_layers.build(f"[{', '.join(calls)}]", fluid, np)[0]
    found = " ".join(op.type for op in main.global_block().ops)
    found = found.replace("fill_constant ", "").replace("elementwise_add ", "")
    assert found == (
        "mul softmax softmax mean cross_entropy2 batch_norm conv2d less_than top_k sum reshape2 relu"
    )
