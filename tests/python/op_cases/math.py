"""Cases for elementwise ops, activations, reductions, fills, comparisons and what else is arithmetic."""

from math import erf

import numpy as np

rng = np.random.RandomState(11)
BOOL, INT32, INT64, FP32, FP64 = 0, 2, 3, 5, 6

CASES = []


def rand(*shape, low=-1.0, high=1.0):
    return np.round(rng.uniform(low, high, shape), 6)


def away(*shape, points=(0.0,), gap=0.05, low=-2.0, high=2.0):
    """Numbers that keep a distance from points where a function has a corner."""
    x = rand(*shape, low=low, high=high)
    for point in points:
        near = np.abs(x - point) < gap
        x = np.where(near, x + 3 * gap * np.where(x < point, -1, 1), x)
    return x


def add(op, inputs, outputs, grad=(), attrs=None, **more):
    case = {"op": op, "inputs": inputs, "attrs": attrs or {}, "outputs": outputs, "grad": list(grad)}
    CASES.append({**case, **more})


# ---- two operands ----


def lined_up(x, y, axis):
    """Both arrays at one rank, the smaller one from dimension `axis` of the larger one."""
    small, large = (x, y) if x.ndim < y.ndim else (y, x)
    at = large.ndim - small.ndim if axis < 0 else axis
    shape = list(small.shape)
    while at + len(shape) > large.ndim and shape[-1] == 1:
        shape.pop()
    padded = small.reshape([1] * at + shape + [1] * (large.ndim - at - len(shape)))
    return (padded, y) if small is x and x.ndim != y.ndim else (x, padded)


ARITHMETIC = {
    "elementwise_add": np.add,
    "elementwise_sub": np.subtract,
    "elementwise_mul": np.multiply,
    "elementwise_div": np.divide,
    "elementwise_max": np.maximum,
    "elementwise_min": np.minimum,
    "elementwise_pow": np.power,
}
SHAPES = [  # X, Y, axis
    ((3, 5), (3, 5), -1),
    ((7, 5), (5,), -1),
    ((7, 5), (1,), -1),
    ((2, 3, 4), (3, 4), -1),
    ((2, 3, 4), (3,), 1),
    ((2, 3, 4), (2,), 0),
    ((2, 3, 4), (2, 3), 0),
    ((2, 3, 4), (2, 1), 0),
    ((2, 3, 4, 3), (3, 4), 1),
    ((2, 3, 4), (1, 3, 1), -1),
    ((2, 1, 4), (1, 3, 4), -1),
    ((2, 3, 2, 2), (2, 1, 2, 1), -1),
    ((3,), (2, 3), -1),
    ((2, 3), (2, 3, 4), 0),
    ((1,), (1,), -1),
    ((2, 1, 3, 1, 2, 2), (1, 2, 1, 3, 1, 2), -1),
]
for op, function in ARITHMETIC.items():
    for x_shape, y_shape, axis in SHAPES:
        x, y = rand(*x_shape, low=0.5, high=2.0), rand(*y_shape, low=0.6, high=1.9)
        if op in ("elementwise_max", "elementwise_min"):  # no ties, which have no gradient
            x = np.round(x, 1)
            y = np.round(y, 1) + 0.05
        a, b = lined_up(x, y, axis)
        add(op, {"X": x, "Y": y}, {"Out": function(a, b)}, ["X", "Y"], {"axis": axis})
add("elementwise_add", {"X": (rand(5, 3), [2, 3]), "Y": np.arange(3.0)}, lambda i,
    a: {"Out": (i["X"][0] + i["Y"], [2, 3])}, ["X"])
add("elementwise_add", {"X": np.zeros((0, 3)), "Y": np.arange(3.0)}, {"Out": np.zeros((0, 3))},
    declared={"X": [-1, 3]})
add("elementwise_add", {"X": rand(2, 3), "Y": rand(4)}, {}, raises="do not fit")
add("elementwise_add", {"X": rand(2, 3), "Y": rand(2, 3).astype("float32")}, {}, raises="must be of one type")
add("elementwise_add", {"X": rand(2, 3), "Y": rand(3)}, {}, attrs={"axis": 2}, raises="do not line up")
for axis in (-2, 2, 2**31 - 1, -2**31):
    add("elementwise_add", {"X": rand(2, 3), "Y": rand(1)}, {}, attrs={"axis": axis}, raises="do not line up")
whole_x = np.array([[7, -7, 8], [9, -2**31, 5]])
whole_y = np.array([3, 3, -1])
for dtype in ("int32", "int64"):
    x, y = whole_x.astype(dtype), whole_y.astype(dtype)
    add("elementwise_mod", {"X": x, "Y": y}, {"Out": np.fmod(x, y)})
    add("elementwise_floordiv", {"X": x, "Y": y}, {"Out": np.trunc(x / y).astype(dtype)})
    add("elementwise_div", {"X": x, "Y": y}, {"Out": np.trunc(x / y).astype(dtype)})
    add("elementwise_add", {"X": x, "Y": y}, {"Out": x + y})
    add("elementwise_max", {"X": x, "Y": y}, {"Out": np.maximum(x, y)})
    add("elementwise_pow", {"X": np.array([2, 3, 5], dtype), "Y": np.array([3], dtype)},
        {"Out": np.array([8, 27, 125], dtype)})
    add("elementwise_floordiv", {"X": x, "Y": y * 0}, {}, raises="division by zero")
add("elementwise_mod", {"X": np.array([5.5, -5.5]), "Y": np.array([3.0, 3.0])}, {"Out": np.array([2.5, 0.5])})
add("elementwise_floordiv", {"X": np.array([5.5, -5.5]), "Y": np.array([2.0, 2.0])},
    {"Out": np.array([2.0, -2.0])})
x = rand(3, 4)
y = rand(3, 4)
add("minus", {"X": x, "Y": y}, {"Out": x - y}, ["X", "Y"])
add("minus", {"X": x, "Y": rand(4, 3)}, {}, raises="must be the same")

# ---- comparisons, logic ----

COMPARE = {
    "less_than": np.less,
    "less_equal": np.less_equal,
    "greater_than": np.greater,
    "greater_equal": np.greater_equal,
    "equal": np.equal,
    "not_equal": np.not_equal,
}
for op, function in COMPARE.items():
    for dtype in ("float64", "int32", "int64"):
        x, y = rng.randint(0, 3, (4, 3)).astype(dtype), rng.randint(0, 3, (4, 3)).astype(dtype)
        add(op, {"X": x, "Y": y}, {"Out": function(x, y)})
    add(op, {"X": x, "Y": y[0]}, {"Out": function(x, y[0])})
    add(op, {"X": x, "Y": y[:, 0]}, {"Out": function(x, y[:, :1])}, attrs={"axis": 0})
# Floats count as equal below 1e-8; infinities equal themselves.
for dtype in ("float32", "float64"):
    x, y = np.array([1e-9, 0, np.inf, np.nan, -np.inf], dtype), np.array([0, 2e-8, np.inf, np.nan, np.inf], dtype)
    add("equal", {"X": x, "Y": y}, {"Out": np.array([True, False, True, False, False])})
    add("not_equal", {"X": x, "Y": y}, {"Out": np.array([False, True, False, True, True])})
left, right = np.array([[True, True, False, False]] * 2), np.array([[True, False, True, False]] * 2)
for op, function in {"logical_and": np.logical_and, "logical_or": np.logical_or,
                     "logical_xor": np.logical_xor}.items():
    add(op, {"X": left, "Y": right}, {"Out": function(left, right)})
add("logical_not", {"X": left}, {"Out": ~left})
add("logical_and", {"X": left, "Y": np.ones((2, 4))}, {}, raises="must be bool")

# ---- activations ----


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softplus(x):
    return np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0)


def erf_of(x):
    return np.vectorize(erf)(x)


def act(op, x, function, grad=True, attrs=None, **more):
    add(op, {"X": x}, {"Out": function(x)}, ["X"] if grad else [], attrs, **more)


smooth = np.concatenate([rand(4, 5, low=-3, high=3), np.array([[-20.0, -8.5, 0.3, 9.5, 20.0]])])
positive = rand(3, 7, low=0.1, high=4.0)
act("sigmoid", smooth, sigmoid)
act("tanh", smooth, np.tanh)
act("logsigmoid", smooth, lambda x: -softplus(-x))
act("softplus", smooth, softplus)
act("softsign", smooth, lambda x: x / (1 + np.abs(x)))
act("tanh_shrink", smooth, lambda x: x - np.tanh(x))
act("soft_relu", away(4, 5, points=(-2, 2), low=-4, high=4), lambda x: np.log1p(np.exp(np.clip(x, -2, 2))),
    attrs={"threshold": 2.0})
act("elu", away(3, 5), lambda x: np.where(x > 0, x, 1.5 * (np.exp(x) - 1)), attrs={"alpha": 1.5})
act("elu", away(3, 5), lambda x: np.where(x > 0, x, np.exp(x) - 1))
act("stanh", smooth, lambda x: 1.5 * np.tanh(0.75 * x), attrs={"scale_a": 0.75, "scale_b": 1.5})
act("stanh", smooth, lambda x: 1.7159 * np.tanh(0.67 * x), tol=1e-6)
act("swish", smooth, lambda x: x * sigmoid(2.0 * x), attrs={"beta": 2.0})
act("selu", away(3, 5), lambda x: np.where(x > 0, x, 1.25 * (np.exp(x) - 1)) * 1.5,
    attrs={"scale": 1.5, "alpha": 1.25})
act("relu", away(3, 5), lambda x: np.maximum(x, 0))
act("relu", (away(5, 2), [2, 3])[0], lambda x: np.maximum(x, 0))
act("relu6", away(3, 5, points=(0, 6), low=-2, high=8), lambda x: np.clip(x, 0, 6))
act("brelu", away(3, 5, points=(-0.5, 1.5)), lambda x: np.clip(x, -0.5, 1.5),
    attrs={"t_min": -0.5, "t_max": 1.5})
act("leaky_relu", away(3, 5), lambda x: np.where(x > 0, x, 0.25 * x), attrs={"alpha": 0.25})
act("thresholded_relu", away(3, 5, points=(0.5,)), lambda x: np.where(x > 0.5, x, 0),
    attrs={"threshold": 0.5})
act("softshrink", away(3, 5, points=(-0.5, 0.5)), lambda x: np.sign(x) * np.maximum(np.abs(x) - 0.5, 0))
act("hard_shrink", away(3, 5, points=(-0.5, 0.5)), lambda x: np.where(np.abs(x) > 0.5, x, 0))
act("hard_sigmoid", away(3, 5, points=(-2, 2), low=-4, high=4), lambda x: np.clip(0.25 * x + 0.5, 0, 1),
    attrs={"slope": 0.25})
act("hard_swish", away(3, 7, points=(-3, 3), low=-5, high=5), lambda x: x * np.clip(x + 3, 0, 6) / 6)
act("ceil", away(3, 5, points=(-2, -1, 0, 1, 2)), np.ceil)
act("floor", away(3, 5, points=(-2, -1, 0, 1, 2)), np.floor)
act("round", away(3, 5, points=(-1.5, -0.5, 0.5, 1.5)), np.round)
act("round", np.array([0.5, 1.5, -0.5, -2.5]), lambda x: np.sign(x) * np.floor(np.abs(x) + 0.5), grad=False)
act("sign", away(3, 5), np.sign)
act("exp", smooth[:4], np.exp)
act("log", positive, np.log)
act("log1p", positive, np.log1p)
act("sqrt", positive, np.sqrt)
act("rsqrt", positive, lambda x: 1 / np.sqrt(x))
act("square", smooth[:4], np.square)
act("square", np.array([[3, -4]], "int64"), np.square, grad=False)
act("abs", away(3, 5), np.abs)
act("abs", np.array([[3, -4]], "int32"), np.abs, grad=False)
act("reciprocal", positive, lambda x: 1 / x)
act("cos", smooth[:4], np.cos)
act("sin", smooth[:4], np.sin)
inside = rand(3, 5, low=-0.9, high=0.9)
act("acos", inside, np.arccos)
act("asin", inside, np.arcsin)
act("atan", smooth[:4], np.arctan)
act("erf", smooth[:4], erf_of)
act("gelu", smooth, lambda x: x * 0.5 * (1 + erf_of(x / np.sqrt(2))))
act("gelu", smooth, lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    attrs={"approximate": True})
for factor in (3.0, 2.0, 1.0, 0.5, -1.5):
    act("pow", positive, lambda x, f=factor: x**f, attrs={"factor": factor})
add("pow", {"X": positive, "FactorTensor": np.array([2.5])}, {"Out": positive**2.5}, ["X"])
act("pow", np.array([2, 3], "int64"), lambda x: x**2, grad=False, attrs={"factor": 2.0})
act("pow", np.array([2, 3, -5]), lambda x: x**0, grad=False, attrs={"factor": 0.0})
add("relu", {"X": np.array([1, 2])}, {}, raises="float32 or float64")

x = away(2, 3, 4)
for mode, alpha in (("all", rand(1)), ("channel", rand(3)), ("channel", rand(1, 3, 1)),
                    ("element", rand(1, 3, 4))):
    shaped = alpha.reshape({"all": (1, 1, 1), "channel": (1, 3, 1), "element": (1, 3, 4)}[mode])
    add("prelu", {"X": x, "Alpha": alpha}, {"Out": np.where(x > 0, x, shaped * x)}, ["X", "Alpha"],
        {"mode": mode})
add("prelu", {"X": x, "Alpha": rand(4)}, {}, attrs={"mode": "channel"}, raises="needs 3")
x = rand(2, 6, 3, 2)
add("maxout", {"X": x}, {"Out": x.reshape(2, 3, 2, 3, 2).max(2)}, ["X"], {"groups": 2})
add("maxout", {"X": x.transpose(0, 2, 3, 1)}, {"Out": x.transpose(0, 2, 3, 1).reshape(2, 3, 2, 2, 3).max(4)},
    ["X"],
    {"groups": 3, "axis": -1})
add("maxout", {"X": x}, {}, attrs={"groups": 4}, raises="groups of 4")

# ---- reductions ----

x = away(2, 3, 4, points=(0.0,))
add("mean", {"X": x}, {"Out": np.array([x.mean()])}, ["X"])
add("mean", {"X": rand(300, 301)}, lambda i, a: {"Out": np.array([i["X"].mean()])}, tol=1e-10)
REDUCE = {"reduce_sum": np.sum, "reduce_mean": np.mean, "reduce_max": np.max, "reduce_min": np.min,
          "reduce_prod": np.prod}
for op, function in REDUCE.items():
    for dims in ([0], [1], [2], [-1], [0, 1], [1, 2], [0, 2], [-3, 2], [0, 1, 2]):
        for keep in (False, True):
            out = function(x, axis=tuple(dims), keepdims=keep)
            add(op, {"X": x}, {"Out": out if out.ndim else out.reshape(1)}, ["X"],
                {"dim": dims, "keep_dim": keep})
    add(op, {"X": x}, {"Out": np.array([function(x)])}, ["X"], {"reduce_all": True})
    add(op, {"X": x}, {"Out": function(x, keepdims=True)}, ["X"], {"reduce_all": True, "keep_dim": True})
    add(op, {"X": x}, {}, attrs={"dim": [3]}, raises="dimension 3")
    for dtype in ("int32", "int64"):
        n = rng.randint(1, 5, (3, 4)).astype(dtype)
        if op != "reduce_mean":
            add(op, {"X": n}, {"Out": function(n, axis=1).astype(dtype)}, attrs={"dim": [1]})
deep = rand(2, 3, 2, 3, 2, 2)
add("reduce_sum", {"X": deep}, {"Out": deep.sum((0, 2, 4))}, ["X"], {"dim": [0, 2, 4]})
add("reduce_max", {"X": deep}, {"Out": deep.max((1, 3, 5))}, ["X"], {"dim": [1, 3, 5]})
for shape, dims in (((700, 130), [0]), ((700, 130), [1]), ((3, 30000), [1]), ((5, 7, 3000), [0, 2]),
                    ((2, 70000), [0]),
                    ((90, 1100), [0]), ((40, 3, 700), [0, 2])):
    big = rand(*shape)
    add("reduce_sum", {"X": big}, {"Out": big.sum(tuple(dims))}, attrs={"dim": dims}, tol=1e-9, tol32=2e-3)
    add("reduce_max", {"X": big}, {"Out": big.max(tuple(dims))}, attrs={"dim": dims})
add("reduce_sum", {"X": np.array([[1, 2]], "int32")}, {"Out": np.array([3.0])},
    attrs={"dim": [1], "in_dtype": INT32, "out_dtype": FP64})
add("reduce_sum", {"X": (rand(5, 3), [2, 3])}, lambda i, a: {"Out": (i["X"][0].sum(1), [2, 3])},
    attrs={"dim": [1]})
add("reduce_sum", {"X": np.zeros((0, 3))}, {"Out": np.zeros(3)}, attrs={"dim": [0]}, declared={"X": [-1, 3]})
flags = np.array([[True, False, True], [True, True, True]])
for op, function in (("reduce_all", np.all), ("reduce_any", np.any)):
    for dims in ([0], [1], [-1]):
        add(op, {"X": flags}, {"Out": function(flags, axis=dims[0])}, attrs={"dim": dims})
    add(op, {"X": flags}, {"Out": np.array([function(flags)])}, attrs={"reduce_all": True})
    add(op, {"X": rand(2, 3)}, {}, attrs={"dim": [0]}, raises="must be bool")
x = away(4, 5)
add("squared_l2_norm", {"X": x}, {"Out": np.array([(x * x).sum()])}, ["X"])
add("l1_norm", {"X": x}, {"Out": np.array([np.abs(x).sum()])}, ["X"])
for rows in (4, 1):
    y = rand(rows, 5)
    add("squared_l2_distance", {"X": x, "Y": y},
        {"sub_result": x - y, "Out": ((x - y) ** 2).sum(1, keepdims=True)}, ["X", "Y"],
        no_grad_check=["sub_result"])
x = rand(2, 3, 4)
for axis in (0, 1, 2, -1):
    length = np.sqrt((x * x).sum(axis, keepdims=True) + 1e-10)
    add("norm", {"X": x}, {"Norm": length, "Out": x / length}, ["X"], {"axis": axis}, no_grad_check=["Norm"])
for axis in (0, 1, 2, -1):
    add("cumsum", {"X": x}, {"Out": np.cumsum(x, axis)}, ["X"], {"axis": axis})
add("cumsum", {"X": x}, {"Out": np.cumsum(x, 1) - x}, ["X"], {"axis": 1, "exclusive": True})
add("cumsum", {"X": x}, {"Out": np.cumsum(x[:, ::-1], 1)[:, ::-1]}, ["X"], {"axis": 1, "reverse": True})
add("cumsum", {"X": x}, {"Out": np.cumsum(x[:, ::-1], 1)[:, ::-1] - x}, ["X"],
    {"axis": 1, "reverse": True, "exclusive": True})
add("cumsum", {"X": np.arange(6)}, {"Out": np.cumsum(np.arange(6))})
good, inf, nan = rand(3, 4), rand(3, 4), rand(3, 4)
inf[1, 2], nan[2, 3] = -np.inf, np.nan
for op, answers in (("isfinite", (1, 0, 0)), ("isinf", (0, 1, 0)), ("isnan", (0, 0, 1))):
    for value, answer in zip((good, inf, nan), answers):
        add(op, {"X": value}, {"Out": np.array([bool(answer)])})

# ---- sums and scales ----

parts = [rand(3, 4) for _ in range(4)]
for n in (1, 2, 3, 4):
    add("sum", {"X": [(f"x{i}", part) for i, part in enumerate(parts[:n])]}, {"Out": sum(parts[:n])}, ["X"])
add("sum", {"X": [("x0", np.array([1, 2])), ("x1", np.array([3, 4]))]}, {"Out": np.array([4, 6])})
add("sum", {"X": [("x0", rand(2, 3)), ("x1", rand(3, 2))]}, {}, raises="must be equal")
x = rand(3, 4)
add("scale", {"X": x}, {"Out": 2.5 * x}, ["X"], {"scale": 2.5})
add("scale", {"X": x}, {"Out": 2.5 * x + 0.5}, ["X"], {"scale": 2.5, "bias": 0.5})
add("scale", {"X": x}, {"Out": 2.5 * (x + 1)}, ["X"], {"scale": 2.5, "bias": 1.0, "bias_after_scale": False})
add("scale", {"X": x, "ScaleTensor": np.array([-1.5])}, {"Out": -1.5 * x}, ["X"])
add("scale", {"X": np.array([[1, 2]])}, {"Out": np.array([[4, 7]])}, attrs={"scale": 3.0, "bias": 1.0})
add("clip", {"X": away(3, 5, points=(-0.5, 0.75))}, lambda i, a: {"Out": np.clip(i["X"], -0.5, 0.75)}, ["X"],
    {"min": -0.5, "max": 0.75})
add("clip", {"X": away(3, 5, points=(-0.25, 0.5)), "Min": np.array([-0.25]), "Max": np.array([0.5])},
    lambda i, a: {"Out": np.clip(i["X"], -0.25, 0.5)}, ["X"], {"min": -9.0, "max": 9.0})
add("clip", {"X": x}, {}, attrs={"min": 1.0, "max": 0.0}, raises="may not be larger")
add("clip", {"X": np.array([0, 0]), "Min": np.array([2**53 + 1]), "Max": np.array([2**53])}, {}, raises="may not be larger")
for dtype in ("int32", "int64"):
    add("clip", {"X": np.array([-3, 0, 7], dtype)}, {"Out": np.array([0, 0, 7], dtype)}, attrs={"min": 0.0, "max": float("inf")})
    add("clip", {"X": np.array([-3, 9, 7], dtype)}, {"Out": np.array([-3, 8, 7], dtype)}, attrs={"min": -1e30, "max": 8.0})
for most in (0.5, 100.0):
    add("clip_by_norm", {"X": x}, {"Out": x * min(1, most / np.sqrt((x * x).sum()))},
        attrs={"max_norm": most})
add("clip_by_norm", {"X": np.zeros((2, 3))}, {"Out": np.zeros((2, 3))}, attrs={"max_norm": 1.0})
add("clip_by_norm", {"X": x}, {}, attrs={"max_norm": 0.0}, raises="larger than 0")
add("increment", {"X": np.array([3])}, {"Out": np.array([5])}, attrs={"step": 2.0})
add("increment", {"X": np.array([0.5])}, {"Out": np.array([1.5])}, ["X"])
add("increment", {"X": x}, {}, raises="one element")

# ---- types and copies ----

x = np.array([[1.75, -2.5, 0.0]])
for dtype, number in (("int32", INT32), ("int64", INT64), ("bool", BOOL), ("float32", FP32), ("uint8", 20),
                      ("int8", 21), ("int16", 1)):
    source = np.abs(x) if dtype == "uint8" else x
    add("cast", {"X": source}, {"Out": source.astype(dtype)}, attrs={"in_dtype": FP64, "out_dtype": number})
add("cast", {"X": x.astype("float32")}, {"Out": x}, attrs={"in_dtype": FP32, "out_dtype": FP64}, tol32=None)
add("cast", {"X": np.array([3, -7])}, {"Out": np.array([3.0, -7.0])},
    attrs={"in_dtype": INT64, "out_dtype": FP64}, tol32=None)
add("cast", {"X": np.array([True, False])}, {"Out": np.array([1, 0])},
    attrs={"in_dtype": BOOL, "out_dtype": INT64})
add("cast", {"X": x}, {"Out": x}, ["X"], attrs={"in_dtype": FP64, "out_dtype": FP64})
add("cast", {"X": x}, {}, attrs={"in_dtype": FP64, "out_dtype": 99}, raises="no element type")
add("assign", {"X": x}, {"Out": x}, ["X"])
add("assign", {"X": (rand(5, 2), [2, 3])}, lambda i, a: {"Out": i["X"]})
add("assign_value", {}, {"Out": np.array([[1.5, 2], [3, 4]], "float32")},
    attrs={"shape": [2, 2], "dtype": FP32, "fp32_values": [1.5, 2.0, 3.0, 4.0]})
add("assign_value", {}, {"Out": np.array([1, -2], "int32")},
    attrs={"shape": [2], "dtype": INT32, "int32_values": [1, -2]})
add("assign_value", {}, {"Out": np.array([2**40], "int64")},
    attrs={"shape": [1], "dtype": INT64, "int64_values": [2**40]})
add("assign_value", {}, {"Out": np.array([True, False])},
    attrs={"shape": [2], "dtype": BOOL, "bool_values": [1, 0]})
add("assign_value", {}, {}, attrs={"shape": [3], "dtype": FP32, "fp32_values": [1.0]},
    raises="numbers must agree")

# ---- fills ----

for dtype, number in (("float64", FP64), ("float32", FP32), ("int64", INT64), ("int32", INT32),
                      ("bool", BOOL)):
    add("fill_constant", {}, {"Out": np.full((2, 3), 3, dtype)},
        attrs={"shape": [2, 3], "value": 3.0, "dtype": number}, tol32=None)
add("fill_constant", {}, {"Out": np.array([2**53 + 1])},
    attrs={"shape": [1], "str_value": str(2**53 + 1), "dtype": INT64})
add("fill_constant", {}, {"Out": np.array([0.1])}, attrs={"shape": [1], "str_value": "0.1", "dtype": FP64},
    tol32=None)
add("fill_constant", {"ValueTensor": np.array([2.25])}, {"Out": np.full((2, 2), 2.25)},
    attrs={"shape": [2, 2], "dtype": FP64})
add("fill_constant", {"ShapeTensor": np.array([2, 3], "int32")}, {"Out": np.ones((2, 3))},
    attrs={"value": 1.0, "dtype": FP64})
add("fill_constant", {"ShapeTensorList": [("s0", np.array([2], "int32")), ("s1", np.array([4], "int32"))]},
    {"Out": np.ones((2, 4))},
    attrs={"shape": [-1, 4], "value": 1.0, "dtype": FP64})
add("fill_constant", {}, {}, attrs={"shape": [1], "str_value": "x", "dtype": FP32}, raises="no number")
add("fill_constant", {}, {}, attrs={"shape": [1], "dtype": 77}, raises="no element type")
add("fill_constant", {"ValueTensor": np.zeros(0, "int64")}, {}, attrs={"shape": [2], "dtype": 3},
    raises="ValueTensor has shape [0]")
add("fill_constant_batch_size_like", {"Input": rand(5, 2)}, {"Out": np.full((3, 5), 2.5)},
    attrs={"shape": [3, -1], "input_dim_idx": 0, "output_dim_idx": 1, "value": 2.5, "dtype": FP64})
add("fill_constant_batch_size_like", {"Input": (rand(5, 2), [2, 2, 1])}, {"Out": np.full((3, 4), 2.5)},
    attrs={"shape": [-1, 4], "value": 2.5, "dtype": FP64})
add("fill_constant_batch_size_like", {"Input": rand(5, 2)}, {}, attrs={"shape": [3], "input_dim_idx": 2},
    raises="none such")
add("fill_zeros_like", {"X": x}, {"Out": np.zeros_like(x)})
add("fill_zeros_like2", {"X": x}, {"Out": np.zeros(x.shape, "int64")}, attrs={"dtype": INT64})
add("fill_any_like", {"X": x}, {"Out": np.full_like(x, 1.5)}, attrs={"value": 1.5})
add("fill_any_like", {"X": x}, {"Out": np.full(x.shape, 2)}, attrs={"value": 2.0, "dtype": INT64})
for value, dtype, text in ((1e30, INT32, "no number of type int32"), (-1e30, INT64, "no number of type int64"),
                           (2.0**31, INT32, "int32"),
                           (float("nan"), INT32, "no number of type int32")):  # fmt: skip
    add("fill_any_like", {"X": x}, {}, attrs={"value": value, "dtype": dtype}, raises=text)
add("fill_any_like", {"X": x}, {"Out": np.full(x.shape, -(2**31))}, attrs={"value": -(2.0**31), "dtype": INT32})
add("fill", {}, {"Out": np.array([[1, 2, 3]])},
    attrs={"value": [1.0, 2.0, 3.0], "shape": [1, 3], "dtype": INT64})
add("range", {"Start": np.array([1.0]), "End": np.array([2.0]), "Step": np.array([0.25])},
    {"Out": np.arange(1.0, 2.0, 0.25)})
add("range", {"Start": np.array([5]), "End": np.array([-4]), "Step": np.array([-2])},
    {"Out": np.arange(5, -4, -2)})
add("range", {"Start": np.array([5]), "End": np.array([9]), "Step": np.array([-2])}, {}, raises="never leads")
BIG = 2**53 + 1  # the first integer that a double does not have
for first, last, step, count in ((0, 1, 0.01, 100), (0, 0.3, 0.1, 3), (1, 0, -0.3, 4), (0.1, 1.1, 0.1, 10), (0, 7, 0.7, 10),
                                 (0, 1e-3, 1e-4, 11), (0, 2.1, 0.3, 7), (0, 5, 0.05, 100)):  # fmt: skip
    # As many as 1.8.5 gives: the distance is divided in float32.
    start, end, by = (np.array([v], "float32") for v in (first, last, step))
    add("range", {"Start": start, "End": end, "Step": by},
        {"Out": (start + np.arange(count, dtype="float32") * by).astype("float32")}, tol32=None)
for first, last, step in ((BIG, BIG + 3, 1), (2**60, 2**60 + 100, 1), (2**60 + 300, 2**60 + 1, -7), (-(2**62), 5 - 2**62, 2),
                          (-(2**63), 2**63 - 1, 2**62), (2**63 - 1, -(2**63), -(2**63))):  # fmt: skip
    add("range", {"Start": np.array([first]), "End": np.array([last]), "Step": np.array([step])},
        {"Out": np.array([*range(first, last, step)])})
add("range", {"Start": np.array([-(2**31)], "int32"), "End": np.array([2**31 - 1], "int32"), "Step": np.array([2**30], "int32")},
    {"Out": np.array([-(2**31), -(2**30), 0, 2**30], "int32")})
add("range", {"Start": np.array([1.0, 2.0]), "End": np.array([2.0]), "Step": np.array([0.25])}, {}, raises="Start has shape [2]")
add("linspace", {"Start": np.array([1.0]), "Stop": np.array([2.0]), "Num": np.array([5], "int32")},
    {"Out": np.linspace(1, 2, 5)})
add("linspace", {"Start": np.array([1.0]), "Stop": np.array([2.0]), "Num": np.array([1], "int32")},
    {"Out": np.array([1.0])})
add("eye", {}, {"Out": np.eye(3)}, attrs={"num_rows": 3, "dtype": FP64}, tol32=None)
add("eye", {}, {"Out": np.eye(2, 4, dtype="int32")}, attrs={"num_rows": 2, "num_columns": 4, "dtype": INT32})
add("diag", {"Diagonal": rand(4)}, lambda i, a: {"Out": np.diag(i["Diagonal"])})
add("shape", {"Input": rand(2, 3, 4)}, {"Out": np.array([2, 3, 4], "int32")})
add("size", {"Input": rand(2, 3, 4)}, {"Out": np.array([24])})
add("is_empty", {"X": x}, {"Out": np.array([False])})
add("is_empty", {"X": np.zeros((0, 2))}, {"Out": np.array([True])}, declared={"X": [-1, 2]})

# ---- labels ----

ids = np.array([[1], [0], [3]])
hot = np.zeros((3, 4), "float32")
hot[np.arange(3), ids[:, 0]] = 1
for dtype in ("int32", "int64"):
    add("one_hot", {"X": ids.astype(dtype)}, {"Out": hot}, attrs={"depth": 4})
add("one_hot", {"X": (ids, [2, 1])}, {"Out": (hot, [2, 1])}, attrs={"depth": 4})
add("one_hot", {"X": ids, "depth_tensor": np.array([4], "int32")}, {"Out": hot})
add("one_hot_v2", {"X": ids[:, 0]}, {"Out": hot}, attrs={"depth": 4})
add("one_hot_v2", {"X": ids}, {"Out": hot[:, None].astype("int64")}, attrs={"depth": 4, "dtype": INT64})
short = hot[:, :3].copy()
add("one_hot", {"X": ids}, {"Out": short}, attrs={"depth": 3, "allow_out_of_range": True})
add("one_hot", {"X": ids}, {}, attrs={"depth": 3}, raises="must lie in [0, 3)")
labels, prior = rand(3, 4, low=0), rand(1, 4, low=0)
add("label_smooth", {"X": labels}, {"Out": 0.75 * labels + 0.25 / 4}, ["X"], {"epsilon": 0.25})
add("label_smooth", {"X": labels, "PriorDist": prior}, {"Out": 0.75 * labels + 0.25 * prior}, ["X"],
    {"epsilon": 0.25})
add("label_smooth", {"X": labels, "PriorDist": rand(1, 3)}, {}, attrs={"epsilon": 0.25},
    raises="PriorDist has 3")
add("hash", {"X": np.array([[0], [2], [0]], "int32")}, {"Out": np.array(
    [[[4372], [9456], [8204], [6695]], [[9662], [9217], [1129], [8487]],
     [[4372], [9456], [8204], [6695]]], "int32")},
    attrs={"num_hash": 4, "mod_by": 10000})
add("hash", {"X": (np.arange(18) * 37 + 5).reshape(2, 9)}, {"Out": np.array(
    [[[7053], [1295], [41882]], [[82040], [87739], [9047]]])}, attrs={"num_hash": 3})
add("hash", {"X": np.arange(4)}, {}, raises="two dimensions")

# ---- random numbers: sizes and types here, their distribution in test_math_ops.py ----

for op, law in (("uniform_random", {}), ("gaussian_random", {}), ("truncated_gaussian_random", {}),
                ("randint", {"low": 0, "high": 9})):
    dtype = "int64" if op == "randint" else "float64"
    add(op, {}, {"Out": np.zeros((2, 3), dtype)},
        attrs={"shape": [2, 3], "dtype": INT64 if op == "randint" else FP64, **law},
        no_check=["Out"], tol32=None)
add("randperm", {}, {"Out": np.zeros((5,), "int64")}, attrs={"n": 5}, no_check=["Out"], tol32=None)
add("randperm", {}, {}, attrs={"n": 0}, raises="at least 1")
add("randperm", {}, {}, attrs={"n": 3, "dtype": FP64}, raises="int32 or int64")
add("seed", {}, {"Out": np.array([-9], "int32")}, attrs={"seed": -9}, tol32=None)
for op in ("uniform_random_batch_size_like", "gaussian_random_batch_size_like"):
    add(op, {"Input": rand(5, 2)}, {"Out": np.zeros((5, 3))}, attrs={"shape": [-1, 3], "dtype": FP64},
        no_check=["Out"])
x = rand(4, 6)
add("dropout", {"X": x}, {"Out": 0.75 * x}, attrs={"dropout_prob": 0.25, "is_test": True}, no_check=["Mask"])
add("dropout", {"X": x}, {"Out": x},
    attrs={"dropout_prob": 0.25, "is_test": True, "dropout_implementation": "upscale_in_train"},
    no_check=["Mask"])
add("dropout", {"X": x}, {"Out": x, "Mask": np.ones((4, 6), "uint8")}, ["X"], {"dropout_prob": 0.0})
add("dropout", {"X": x}, {"Out": 0 * x, "Mask": np.zeros((4, 6), "uint8")}, ["X"], {"dropout_prob": 1.0})
add("dropout", {"X": x}, {}, attrs={"dropout_prob": 1.5}, raises="[0, 1]")
add("dropout", {"X": x}, {}, attrs={"dropout_implementation": "other"}, raises="upscale_in_train")
