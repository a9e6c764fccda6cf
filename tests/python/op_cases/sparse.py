"""Cases for embeddings, optimizers, sequences, measures and what else works on rows."""

import numpy as np

rng = np.random.RandomState(23)
INT32, INT64, FP32, FP64 = 2, 3, 5, 6

CASES = []


def rand(*shape, low=-1.0, high=1.0):
    return np.round(rng.uniform(low, high, shape), 6)


def ids(*shape, below):
    return rng.randint(0, below, shape).astype("int64")


def add(op, inputs, outputs, grad=(), attrs=None, **more):
    CASES.append({"op": op, "inputs": inputs, "attrs": attrs or {}, "outputs": outputs, "grad": list(grad), **more})


def refused(op, inputs, text, attrs=None):
    """The op must not take this."""
    CASES.append({"op": op, "inputs": inputs, "attrs": attrs or {}, "outputs": {}, "raises": text})


def parts(x, lengths):
    """The sequences of x."""
    return np.split(x, np.cumsum(lengths)[:-1]) if len(lengths) else []


# ---- embeddings ----

table = rand(11, 5)
for shape in [(7, 1), (1, 1), (2, 3, 1)]:
    at = ids(*shape, below=11)
    add("lookup_table", {"W": table, "Ids": at}, {"Out": table[at[..., 0]]}, ["W"])
at = np.array([[3], [0], [3], [10], [3]])
padded = table[at[:, 0]].copy()
padded[[0, 2, 4]] = 0
add("lookup_table", {"W": table, "Ids": at}, {"Out": padded}, ["W"], {"padding_idx": 3})
add("lookup_table", {"W": table, "Ids": (at, [2, 3])}, {"Out": (table[at[:, 0]], [2, 3])}, ["W"])
add("lookup_table", {"W": table, "Ids": at.astype("int32")}, {"Out": table[at[:, 0]]}, ["W"])
add("lookup_table", {"W": table, "Ids": np.zeros((0, 1), "int64")}, {"Out": np.zeros((0, 5))})
add("lookup_table", {"W": {"rows": [7, 2, 9], "height": 20, "value": table[:3]}, "Ids": np.array([[9], [7]])},
    {"Out": table[[2, 0]]})
refused("lookup_table", {"W": table, "Ids": np.array([[3], [11]])},
        "id 11 (number 1 of Ids) is outside the table, which has 11 rows")
refused("lookup_table", {"W": table, "Ids": np.array([[-2]])}, "id -2")
refused("lookup_table", {"W": table, "Ids": np.array([[1, 2]])}, "last dimension of Ids must be 1")
refused("lookup_table", {"W": table, "Ids": rand(2, 1)}, "Ids must be int64 or int32")
for shape in [(4,), (2, 3), (2, 1, 2)]:
    at = ids(*shape, below=11)
    add("lookup_table_v2", {"W": table, "Ids": at}, {"Out": table[at]}, ["W"])
refused("lookup_table_v2", {"W": table, "Ids": np.array([11])}, "11 rows")
wide = rand(3, 40)
add("lookup_table_v2", {"W": wide, "Ids": ids(60, below=3)}, lambda i, a: {"Out": i["W"][i["Ids"]]}, ["W"])



def pooled(w, at, lengths, padding=-1):
    """Each column of ids added up within sequences, the sums side by side."""
    rows = np.where((at == padding)[..., None], 0, w[np.where(at == padding, 0, at)])
    return np.array([part.sum(0).reshape(-1) for part in parts(rows, lengths)]).reshape(len(lengths), -1)


for columns in (1, 3):
    at = ids(9, columns, below=11)
    for padding in (-1, int(at[4, 0])):
        for lengths in ([2, 4, 3], [0, 9, 0]):
            add("fused_embedding_seq_pool", {"W": table, "Ids": (at, lengths)}, {"Out": pooled(table, at, lengths, padding)}, ["W"],
                {"padding_idx": padding})
        add("fused_embedding_seq_pool", {"W": table, "Ids": at}, {"Out": pooled(table, at, [1] * 9, padding)}, ["W"],
            {"padding_idx": padding})
add("fused_embedding_seq_pool", {"W": table, "Ids": (at.astype("int32"), [5, 4])}, {"Out": pooled(table, at, [5, 4])}, ["W"])
add("fused_embedding_seq_pool", {"W": table, "Ids": np.array([3, 0])}, {"Out": table[[3, 0]]}, ["W"])
refused("fused_embedding_seq_pool", {"W": table, "Ids": (np.array([[3], [11]]), [2])},
        "id 11 (number 1 of Ids) is outside the table")
refused("fused_embedding_seq_pool", {"W": table, "Ids": (np.array([[3]]), [1])}, "only sum is there", {"combiner": "mean"})
refused("fused_embedding_seq_pool", {"W": table, "Ids": rand(2, 1)}, "Ids must be int64 or int32")

grown = rand(4, 3)
add("lookup_sparse_table", {"W": {"rows": [5, 2], "height": 9, "value": grown}, "Ids": np.array([2, 7, 5, 2])},
    {"Out": grown[[1, 2, 0, 1]]})
add("lookup_sparse_table", {"W": {"rows": [5, 2], "height": 9, "value": grown}, "Ids": np.array([2, 7])},
    {"Out": np.array([grown[1], np.zeros(3)])}, attrs={"is_test": True})
refused("lookup_sparse_table", {"W": {"rows": [5, 2, 1, 0], "height": 9, "value": grown},
                                "Ids": np.array([3])}, "make the table larger")

# ---- optimizers ----

HEIGHT, WIDTH = 6, 3


def gradients():
    """(what the op gets, the same as a dense array): dense, rows that repeat, rows in order."""
    dense = rand(HEIGHT, WIDTH)
    yield dense, dense
    for rows in ([4, 1, 4], [1, 2, 5]):
        value = rand(len(rows), WIDTH)
        whole = np.zeros((HEIGHT, WIDTH))
        np.add.at(whole, rows, value)
        yield {"rows": rows, "height": HEIGHT, "value": value}, whole


def state(low=0.1, high=1.0):
    return rand(HEIGHT, WIDTH, low=low, high=high)


def optimizer(op, names, rule, attrs=None, lr=True, extra=None, **more):
    """`names` are the state's inputs with their outputs; rule(param, grad, lr, *state) gives the new ones."""
    attrs = {name: float(np.float32(value)) if isinstance(value, float) else value for name, value in (attrs or {}).items()}
    for given, whole in gradients():
        param, held = rand(HEIGHT, WIDTH), [state() for _ in names]
        inputs = {"Param": param, "Grad": given, **{name: value for (name, _), value in zip(names, held)}, **(extra or {})}
        if lr:
            inputs["LearningRate"] = np.array([0.25])
        made = rule(param, whole, 0.25, attrs, *held)
        outs = ["ParamOut", *[out for _, out in names]]
        add(op, inputs, dict(zip(outs, made)), attrs=attrs, **more)


optimizer("sgd", [], lambda p, g, lr, a: [p - lr * g])
refused("sgd", {"Param": rand(4, 3), "Grad": rand(4, 2), "LearningRate": np.array([0.1])}, "they must be the same")
refused("sgd", {"Param": rand(4, 3), "Grad": rand(4, 3), "LearningRate": np.array([0.1, 0.2])}, "LearningRate must hold one number")
for op, slot, more in (("sgd", "Grad", {"Param": rand(4, 3), "LearningRate": np.array([0.1])}), ("merge_selected_rows", "X", {})):
    refused(op, {slot: {"rows": [0, 2, 3], "height": 4, "value": rand(2, 3)}, **more},
            f"variable '{slot}': the selected rows name 3 rows, but there are values for 2")
refused("sgd", {"Param": rand(4, 3), "Grad": {"rows": [4], "height": 4, "value": rand(1, 3)}, "LearningRate": np.array([0.1])},
        "Grad names row 4, but Param has 4 rows")
big = rand(300, 150)
add("sgd", {"Param": big, "Grad": big + 1, "LearningRate": np.array([0.5])}, {"ParamOut": big - 0.5 * (big + 1)})


def momentum(p, g, lr, a, v):
    g = g + a.get("regularization_coeff", 0.0) * p
    v = a["mu"] * v + g
    return [p - lr * (g + a["mu"] * v) if a.get("use_nesterov") else p - lr * v, v]


for attrs in ({"mu": 0.9}, {"mu": 0.9, "use_nesterov": True},
              {"mu": 0.5, "regularization_method": "l2_decay", "regularization_coeff": 0.25}):
    optimizer("momentum", [("Velocity", "VelocityOut")], momentum, attrs)


def lars(p, g, lr, a, v):
    pn, gn = np.linalg.norm(p), np.linalg.norm(g)
    lr *= a["lars_coeff"] * pn / (gn + a["lars_weight_decay"] * pn)
    v = a["mu"] * v + lr * (g + a["lars_weight_decay"] * p)
    return [p - v, v]


optimizer("lars_momentum", [("Velocity", "VelocityOut")], lars, {"mu": 0.9, "lars_coeff": 0.5, "lars_weight_decay": 0.125})


def adam(p, g, lr, a, m1, m2):
    m1 = a["beta1"] * m1 + (1 - a["beta1"]) * g
    m2 = a["beta2"] * m2 + (1 - a["beta2"]) * g * g
    rate = lr * np.sqrt(1 - POW2) / (1 - POW1)
    return [p - rate * m1 / (np.sqrt(m2) + a["epsilon"]), m1, m2]


POW1, POW2 = 0.5, 0.75
POWERS = {"Beta1Pow": np.array([POW1]), "Beta2Pow": np.array([POW2])}
MOMENTS = [("Moment1", "Moment1Out"), ("Moment2", "Moment2Out")]
BETAS = {"beta1": 0.75, "beta2": 0.875, "epsilon": 1e-3}
optimizer("adam", MOMENTS, adam, BETAS, extra=POWERS)


def adam_powers(p, g, lr, a, m1, m2):
    return [*adam(p, g, lr, a, m1, m2), np.array([POW1 * a["beta1"]]), np.array([POW2 * a["beta2"]])]


for given, whole in gradients():
    param, first, second = rand(HEIGHT, WIDTH), state(), state()
    held = {"Param": param, "Grad": given, "LearningRate": np.array([0.25]), "Moment1": first, "Moment2": second, **POWERS}
    new = adam_powers(param, whole, 0.25, BETAS, first, second)
    outs = dict(zip(["ParamOut", "Moment1Out", "Moment2Out", "Beta1PowOut", "Beta2PowOut"], new))
    attrs = {"beta1": 0.75, "beta2": 0.875, "epsilon": float(np.float32(1e-3))}
    add("adam", held, outs, attrs=attrs, tol=1e-6)
    add("adam", {**held, "Beta1Tensor": np.array([0.75]), "Beta2Tensor": np.array([0.875])}, outs,
        attrs={"beta1": 0.0, "beta2": 0.0, "epsilon": float(np.float32(1e-3))}, tol=1e-6)
CASES[-1]["inputs"]["Beta1Tensor"] = np.array([0.75], "float32")


def adamax(p, g, lr, a, m, norm):
    m = a["beta1"] * m + (1 - a["beta1"]) * g
    norm = np.maximum(np.abs(g), a["beta2"] * norm + a["epsilon"])
    return [p - lr / (1 - POW1) * m / norm, m, norm]


optimizer("adamax", [("Moment", "MomentOut"), ("InfNorm", "InfNormOut")], adamax, BETAS, extra={"Beta1Pow": np.array([POW1])})


def lamb(p, g, lr, a, m1, m2):
    m1 = a["beta1"] * m1 + (1 - a["beta1"]) * g
    m2 = a["beta2"] * m2 + (1 - a["beta2"]) * g * g
    way = m1 / (np.sqrt(m2) + a["epsilon"]) + a["weight_decay"] * p
    return [p - lr * np.linalg.norm(p) / np.linalg.norm(way) * way, m1, m2]


optimizer("lamb", MOMENTS, lamb, {**BETAS, "weight_decay": 0.125}, extra=POWERS)


def adagrad(p, g, lr, a, m):
    m = m + g * g
    return [p - lr * g / (np.sqrt(m) + a["epsilon"]), m]


optimizer("adagrad", [("Moment", "MomentOut")], adagrad, {"epsilon": 1e-3})


def decayed_adagrad(p, g, lr, a, m):
    m = a["decay"] * m + (1 - a["decay"]) * g * g
    return [p - lr * g / (np.sqrt(m) + a["epsilon"]), m]


optimizer("decayed_adagrad", [("Moment", "MomentOut")], decayed_adagrad, {"decay": 0.75, "epsilon": 1e-3})


def adadelta(p, g, lr, a, squares, updates):
    squares = a["rho"] * squares + (1 - a["rho"]) * g * g
    step = -np.sqrt((updates + a["epsilon"]) / (squares + a["epsilon"])) * g
    return [p + step, squares, a["rho"] * updates + (1 - a["rho"]) * step * step]


optimizer("adadelta", [("AvgSquaredGrad", "AvgSquaredGradOut"), ("AvgSquaredUpdate", "AvgSquaredUpdateOut")], adadelta,
          {"rho": 0.75, "epsilon": 1e-3}, lr=False)


def rmsprop(p, g, lr, a, ms, mom, mg=None):
    ms = a["decay"] * ms + (1 - a["decay"]) * g * g
    if mg is None:
        mom = a["momentum"] * mom + lr * g / np.sqrt(ms + a["epsilon"])
        return [p - mom, ms, mom]
    mg = a["decay"] * mg + (1 - a["decay"]) * g
    mom = a["momentum"] * mom + lr * g / np.sqrt(ms - mg * mg + a["epsilon"])
    return [p - mom, ms, mom, mg]


RMS = [("MeanSquare", "MeanSquareOut"), ("Moment", "MomentOut")]
optimizer("rmsprop", RMS, rmsprop, {"decay": 0.75, "momentum": 0.5, "epsilon": 0.5})
optimizer("rmsprop", [*RMS, ("MeanGrad", "MeanGradOut")], rmsprop,
          {"decay": 0.75, "momentum": 0.5, "epsilon": 2.0, "centered": True})
refused("rmsprop", {"Param": state(), "Grad": state(), "MeanSquare": state(), "Moment": state(), "LearningRate": np.array([0.1])},
        "MeanGrad", {"centered": True})


def ftrl(p, g, lr, a, squares, linear):
    power = -a["lr_power"]
    new = squares + g * g
    linear = linear + g - (new**power - squares**power) / lr * p
    x = a["l1"] * np.sign(linear) - linear
    y = new**power / lr + 2 * a["l2"]
    return [np.where(np.abs(linear) > a["l1"], x / y, 0), new, linear]


for power in (-0.5, -0.75):
    optimizer("ftrl", [("SquaredAccumulator", "SquaredAccumOut"), ("LinearAccumulator", "LinearAccumOut")], ftrl,
              {"l1": 0.25, "l2": 0.125, "lr_power": power})


def proximal(p, lr, a):
    cut = np.maximum(np.abs(p) - lr * a["l1"], 0) if a["l1"] > 0 else np.abs(p)
    return np.sign(p) * cut / (1 + lr * a["l2"])


for attrs in ({"l1": 0.0, "l2": 0.0}, {"l1": 0.25, "l2": 0.5}):
    optimizer("proximal_gd", [], lambda p, g, lr, a: [proximal(p - lr * g, lr, a)], attrs)
    optimizer("proximal_adagrad", [("Moment", "MomentOut")],
              lambda p, g, lr, a, m: [proximal(p - lr * g / np.sqrt(m + g * g), lr, a), m + g * g], attrs)
for clip in (100.0, 0.5):
    optimizer("dpsgd", [], lambda p, g, lr, a: [p - lr * g / max(1, np.linalg.norm(g) / a["clip"])],
              {"clip": clip, "sigma": 0.0, "batch_size": 4.0})


def average(i, a):
    now, old, updates = i["in_num_accumulates"][0] + 1, i["in_old_num_accumulates"][0], i["in_num_updates"][0] + 1
    sums = [i["in_sum_1"] + i["param"], i["in_sum_2"], i["in_sum_3"]]
    if updates % 16384 == 0:
        sums = [0 * sums[0], sums[0] + sums[1], sums[2]]
    if now >= a["min_average_window"] and now >= min(a["max_average_window"], int(updates * a["average_window"])):
        sums = [0 * sums[0], 0 * sums[0], sums[0] + sums[1]]
        old, now = now, 0
    made = {f"out_sum_{k + 1}": each for k, each in enumerate(sums)}
    return {**made, "out_num_accumulates": np.array([now]), "out_old_num_accumulates": np.array([old]),
            "out_num_updates": np.array([updates])}


for now, updates, window in ((3, 40, 0.5), (19, 40, 0.25), (3, 16383, 0.5), (9, 16383, 0.0001)):
    add("average_accumulates", {"param": state(), "in_sum_1": state(), "in_sum_2": state(), "in_sum_3": state(),
                                "in_num_accumulates": np.array([now]), "in_old_num_accumulates": np.array([2]),
                                "in_num_updates": np.array([updates])}, average,
        attrs={"average_window": window, "min_average_window": 5, "max_average_window": 100})
for wrong in (-1, 2**63 - 1):
    refused("average_accumulates", {"param": state(), "in_sum_1": state(), "in_sum_2": state(), "in_sum_3": state(),
                                    "in_num_accumulates": np.array([3]), "in_old_num_accumulates": np.array([2]),
                                    "in_num_updates": np.array([wrong])}, f"in_num_updates is {wrong}",
            attrs={"average_window": 0.5, "min_average_window": 5, "max_average_window": 100})

# ---- sequence_pool ----


def pool(how, x, lengths, pad=0.0):
    rows = []
    for part in parts(x, lengths):
        if len(part) == 0:
            rows.append(np.full(x.shape[1:], pad))
        else:
            rows.append({"SUM": lambda: part.sum(0), "AVERAGE": lambda: part.mean(0), "MAX": lambda: part.max(0),
                         "SQRT": lambda: part.sum(0) / np.sqrt(len(part)), "LAST": lambda: part[-1],
                         "FIRST": lambda: part[0]}[how]())
    return np.array(rows)


for how in ("SUM", "AVERAGE", "SQRT", "MAX", "LAST", "FIRST"):
    for width in ((10,), (5,), (1,), (2, 3)):
        x = rand(9, *width)
        add("sequence_pool", {"X": (x, [2, 4, 3])}, {"Out": pool(how, x, [2, 4, 3])}, ["X"], {"pooltype": how})
    x = rand(6, 4)
    add("sequence_pool", {"X": (x, [0, 4, 0, 2])}, {"Out": pool(how, x, [0, 4, 0, 2], 0.5)}, ["X"],
        {"pooltype": how, "pad_value": 0.5})
    add("sequence_pool", {"X": (x, [[2, 1], [1, 2, 3]])}, {"Out": (pool(how, x, [1, 2, 3]), [2, 1])}, ["X"], {"pooltype": how})
refused("sequence_pool", {"X": rand(3, 2)}, "no sequences", {"pooltype": "SUM"})
refused("sequence_pool", {"X": (rand(3, 2), [3])}, "pooltype is 'MIN'", {"pooltype": "MIN"})

# ---- sequence_conv ----


def windows(x, lengths, start, length, padding=None):
    before, rows = max(0, -start), []
    for part in parts(x, lengths):
        for t in range(len(part)):
            row = []
            for p in range(t + start, t + start + length):
                if 0 <= p < len(part):
                    row.append(part[p])
                elif padding is None:
                    row.append(np.zeros(x.shape[1]))
                else:
                    row.append(padding[before + (p if p < 0 else p - len(part))])
            rows.append(np.concatenate(row))
    return np.array(rows)


for start, length in ((-1, 3), (0, 1), (0, 2), (-2, 2), (1, 2), (-3, 6), (2, 3)):
    for lengths in ([4, 1, 3], [2, 0, 6]):
        x, kernel = rand(8, 3), rand(length * 3, 4)
        attrs = {"contextStart": start, "contextLength": length, "contextStride": 1}
        add("sequence_conv", {"X": (x, lengths), "Filter": kernel},
            {"Out": (windows(x, lengths, start, length) @ kernel, lengths)}, ["X", "Filter"], attrs)
        pad_rows = max(0, -start) + max(0, start + length - 1)
        if pad_rows:
            pad = rand(pad_rows, 3)
            add("sequence_conv", {"X": (x, lengths), "Filter": kernel, "PaddingData": pad},
                {"Out": (windows(x, lengths, start, length, pad) @ kernel, lengths)}, ["X", "Filter", "PaddingData"],
                {**attrs, "paddingTrainable": True})
refused("sequence_conv", {"X": (rand(4, 3), [4]), "Filter": rand(5, 2)}, "Filter has 5 rows", {"contextLength": 2})
refused("sequence_conv", {"X": (rand(4, 3), [4]), "Filter": rand(6, 2)}, "contextStride is 2",
        {"contextLength": 2, "contextStride": 2})

# ---- the other sequence ops ----


def softmax(x, lengths):
    return np.concatenate([np.exp(part) / np.exp(part).sum() for part in parts(x, lengths)])


x = rand(7, 1, low=-3, high=3)
for lengths in ([3, 4], [1, 0, 6], [[1, 1], [5, 2]]):
    last = lengths[-1] if isinstance(lengths[0], list) else lengths
    add("sequence_softmax", {"X": (x, lengths)}, {"Out": (softmax(x, last), lengths)}, ["X"])
refused("sequence_softmax", {"X": (rand(4, 2), [4])}, "a row must be one number")

x = rand(4, 2)
y = rand(8, 1)
add("sequence_expand", {"X": (x, [1, 3]), "Y": (y, [[2, 2], [3, 3, 1, 1]])},
    {"Out": (x[[0, 0, 1, 2, 3, 1, 2, 3]], [1, 1, 3, 3])}, ["X"], {"ref_level": 0})
add("sequence_expand", {"X": x, "Y": (y, [2, 0, 5, 1])}, {"Out": x[[0, 0, 2, 2, 2, 2, 2, 3]]}, ["X"])
add("sequence_expand", {"X": rand(3, 2, 2), "Y": (y[:4], [1, 1, 2])}, lambda i, a: {"Out": i["X"][[0, 1, 2, 2]]}, ["X"])
add("sequence_expand", {"X": (ids(4, 1, below=9), [2, 2]), "Y": (y[:3], [2, 1])},
    lambda i, a: {"Out": (i["X"][0][[0, 1, 0, 1, 2, 3]], [2, 2, 2])})
refused("sequence_expand", {"X": rand(3, 2), "Y": (y, [8])}, "X has 3 rows")
refused("sequence_expand", {"X": rand(3, 2), "Y": (y, [3, 3, 2])}, "ref_level is 1", {"ref_level": 1})
add("sequence_expand_as", {"X": x, "Y": (y, [3, 0, 4, 1])}, {"Out": (x[[0, 0, 0, 2, 2, 2, 2, 3]], [3, 0, 4, 1])}, ["X"])
refused("sequence_expand_as", {"X": x, "Y": (y, [8])}, "X has 4 rows")

a, b, c = rand(5, 2), rand(4, 2), rand(3, 2)
add("sequence_concat", {"X": [("a", (a, [2, 3])), ("b", (b, [3, 1])), ("c", (c, [0, 3]))]},
    {"Out": (np.concatenate([a[:2], b[:3], a[2:], b[3:], c]), [5, 7])}, ["X"])
refused("sequence_concat", {"X": [("a", (a, [2, 3])), ("b", (b, [4]))]}, "1 sequences, input 0 has 2")
refused("sequence_concat", {"X": [("a", (a, [2, 3])), ("b", (np.arange(8).reshape(4, 2), [3, 1]))]},
        "input 0 of X is float64 and input 1 of X is int64; they must be of one type")

x = rand(6, 2)
add("sequence_reverse", {"X": (x, [2, 0, 4])}, {"Y": (x[[1, 0, 5, 4, 3, 2]], [2, 0, 4])}, ["X"])
add("sequence_reverse", {"X": (ids(3, 1, below=9), [1, 2])}, lambda i, a: {"Y": (i["X"][0][[0, 2, 1]], [1, 2])})
for width, lengths in ((4, [1, 2]), (1, [4, 8]), (2, [2, 4])):
    add("sequence_reshape", {"X": (x, [2, 4])}, {"Out": (x.reshape(-1, width), lengths)}, ["X"], {"new_dim": width})
refused("sequence_reshape", {"X": (x, [1, 5])}, "new_dim 4 does not divide", {"new_dim": 4})


def pad_to(x, lengths, value, length):
    out = np.empty((len(lengths), length) + x.shape[1:], x.dtype)
    out[:] = value
    for i, part in enumerate(parts(x, lengths)):
        out[i, :len(part)] = part
    return out


for x, value in ((rand(6, 3), rand(1)), (rand(6, 3), rand(3)), (rand(6, 2, 2), rand(2, 2)), (ids(6, 2, below=9), np.array([7]))):
    for length in (3, 5):  # -1 is in test_sparse_ops.py: a Program declares another size for it, as 1.8.5 does
        lengths = [1, 3, 2]
        add("sequence_pad", {"X": (x, lengths), "PadValue": value},
            {"Out": pad_to(x, lengths, value, length), "Length": np.array(lengths)},
            ["X"] if x.dtype == np.float64 else [], {"padded_length": length})
refused("sequence_pad", {"X": (rand(4, 2), [3, 1]), "PadValue": rand(1)}, "padded_length is 2", {"padded_length": 2})
for x in (rand(3, 4, 2), rand(3, 4), rand(3, 4, 2, 2), ids(3, 4, below=9)):
    lengths = [2, 0, 4]
    rows = np.concatenate([x[i, :n] for i, n in enumerate(lengths)])
    rows = rows.reshape(len(rows), 1) if x.ndim == 2 else rows
    for shape in ((3,), (3, 1)):
        add("sequence_unpad", {"X": x, "Length": np.array(lengths).reshape(shape)}, {"Out": (rows, lengths)},
            ["X"] if x.dtype == np.float64 else [])
refused("sequence_unpad", {"X": rand(2, 3, 1), "Length": np.array([1, 4])}, "length 4 of sequence 1")
x = rand(7, 2)
add("sequence_slice", {"X": (x, [3, 4]), "Offset": np.array([[1], [0]]), "Length": np.array([[2], [3]])},
    {"Out": (x[[1, 2, 3, 4, 5]], [2, 3])}, ["X"])
add("sequence_slice", {"X": (x, [3, 4]), "Offset": np.array([[3], [2]]), "Length": np.array([[0], [1]])},
    {"Out": (x[[5]], [0, 1])}, ["X"])
refused("sequence_slice", {"X": (x, [3, 4]), "Offset": np.array([[2], [0]]), "Length": np.array([[2], [3]])}, "leave its 3 rows")

words = np.array([[4], [7], [2], [7], [9]])
for dtype in ("int64", "int32"):
    add("sequence_enumerate", {"X": (words.astype(dtype), [3, 2])},
        {"Out": (np.array([[4, 7], [7, 2], [2, 0], [7, 9], [9, 0]], dtype), [3, 2])}, attrs={"win_size": 2})
    add("sequence_erase", {"X": (words.astype(dtype), [3, 2])}, {"Out": (words[[0, 2, 4]].astype(dtype), [2, 1])},
        attrs={"tokens": [7, 3]})
add("sequence_enumerate", {"X": (words, [1, 4])},
    {"Out": (np.array([[4, 5, 5], [7, 2, 7], [2, 7, 9], [7, 9, 5], [9, 5, 5]]), [1, 4])}, attrs={"win_size": 3, "pad_value": 5})
add("sequence_erase", {"X": (words, [[2], [1, 4]])}, {"Out": (words[[0, 2, 4]], [[2], [1, 2]])}, attrs={"tokens": [7]})
refused("sequence_enumerate", {"X": (words, [5])}, "win_size is 1", {"win_size": 1})
for dtype, number in (("int64", INT64), ("float32", FP32), ("int32", INT32)):
    add("sequence_mask", {"X": np.array([1, 3, 0])},
        {"Y": np.array([[1, 0, 0, 0], [1, 1, 1, 0], [0, 0, 0, 0]], dtype)}, attrs={"maxlen": 4, "out_dtype": number})
add("sequence_mask", {"X": np.array([[1], [2]], "int32")}, {"Y": np.array([[[1, 0]], [[1, 1]]])}, attrs={"out_dtype": INT64})
add("sequence_mask", {"X": np.array([1, 2]), "MaxLenTensor": np.array([3], "int32")},
    {"Y": np.array([[1, 0, 0], [1, 1, 0]])}, attrs={"out_dtype": INT64})

x, updates = rand(3, 4), rand(5, 1)
places = np.array([[1], [1], [3], [0], [2]])
scattered = x.copy()
np.add.at(scattered, ([0, 0, 1, 2, 2], places[:, 0]), updates[:, 0])
add("sequence_scatter", {"X": x, "Ids": (places, [2, 1, 2]), "Updates": (updates, [2, 1, 2])}, {"Out": scattered},
    ["X", "Updates"])
refused("sequence_scatter", {"X": x, "Ids": (places + 2, [2, 1, 2]), "Updates": (updates, [2, 1, 2])}, "id 5")

x = rand(6, 2)
add("lod_reset", {"X": (x, [6])}, {"Out": (x, [2, 4])}, ["X"], {"target_lod": [0, 2, 6]})
add("lod_reset", {"X": x, "Y": (rand(6, 1), [1, 5])}, {"Out": (x, [1, 5])}, ["X"])
add("lod_reset", {"X": x, "Y": np.array([0, 3, 6], "int32")}, {"Out": (x, [3, 3])}, ["X"])
add("lod_reset", {"X": (x, [3, 1, 2])}, {"Out": (x, [4, 2])}, ["X"], {"target_lod": [0, 4, 6]})
refused("lod_reset", {"X": x}, "counts 5 rows", {"target_lod": [0, 5]})
refused("lod_reset", {"X": x}, "decreases", {"target_lod": [0, 4, 3, 6]})

# ---- measures ----


def cosine(x, y):
    a, b = x.reshape(len(x), -1), y.reshape(len(y), -1)
    xn, yn = (np.sqrt((each * each).sum(1, keepdims=True)) for each in (a, b))
    return {"Out": (a * b).sum(1, keepdims=True) / xn / yn, "XNorm": xn, "YNorm": yn}


for xs, ys in (((4, 5), (4, 5)), ((4, 5), (1, 5)), ((3, 17), (3, 17)), ((2, 2, 3), (2, 2, 3)), ((1, 3), (1, 3))):
    x, y = rand(*xs), rand(*ys)
    add("cos_sim", {"X": x, "Y": y}, cosine(x, y), ["X", "Y"], no_grad_check=["XNorm", "YNorm"])
refused("cos_sim", {"X": rand(4, 5), "Y": rand(3, 5)}, "one row or as many rows as X")


def best(x, k):
    order = np.argsort(-x, axis=-1, kind="stable")[..., :k]
    return {"Out": np.take_along_axis(x, order, -1), "Indices": order}


for shape, k in (((4, 7), 1), ((3, 7), 3), ((9,), 4), ((2, 3, 5), 5), ((2, 90), 40), ((3, 1), 1)):
    x = rng.permutation(int(np.prod(shape))).reshape(shape) / 7.0
    add("top_k", {"X": x}, best(x, k), ["X"], {"k": k})
add("top_k", {"X": np.array([[1.0, 2, 2, 0, 2]])},
    {"Out": np.array([[2.0, 2, 2]]), "Indices": np.array([[1, 2, 4]])}, attrs={"k": 3})
add("top_k", {"X": ids(3, 6, below=999)}, lambda i, a: best(i["X"], 2), attrs={"k": 2})
add("top_k", {"X": rand(3, 6), "K": np.array([4], "int32")}, lambda i, a: best(i["X"], 4), attrs={"k": 4})
refused("top_k", {"X": rand(3, 2)}, "k is 3, but the last dimension of X has 2", {"k": 3})
refused("top_k_grad", {"X": rand(3, 2), "Indices": np.zeros((3, 1), "int32"), "Out@GRAD": rand(3, 1)},
        "Indices is int32; it must be int64", {"k": 1})

at = np.array([[1, 0], [2, 1], [0, 2], [1, 2]])
for dtype in ("int64", "int32"):
    add("accuracy", {"Out": rand(4, 2), "Indices": at, "Label": np.array([[0], [0], [2], [1]], dtype)},
        {"Accuracy": np.array([0.75], "float32"), "Correct": np.array([3], "int32"), "Total": np.array([4], "int32")})
refused("accuracy", {"Out": rand(4, 2), "Indices": at, "Label": np.array([[0], [-1], [2], [1]])}, "label -1 of sample 1")
refused("accuracy", {"Out": rand(4, 2), "Indices": at, "Label": np.array([[0], [1]])}, "one label for each row")


def auc(i, a):
    """Both layouts of the counts; see the op."""
    buckets, slide = a["num_thresholds"] + 1, a["slide_steps"]
    at = (i["Predict"][:, -1] * a["num_thresholds"]).astype(int)
    new = [np.bincount(at[i["Label"][:, 0] == kind], minlength=buckets) for kind in (1, 0)]
    before = [i["StatPos"].copy(), i["StatNeg"].copy()]
    queue = slide and before[0].size == slide * buckets
    made, total = [], []
    for held, counts in zip(before, new):
        if queue:
            rows = np.concatenate([held.reshape(slide, buckets)[1:], [counts]])
            total.append(rows.sum(0))
            made.append(rows)
        elif slide:
            now = held[-1] % slide
            rows = held[:-1].reshape(slide + 1, buckets).copy()
            rows[slide] += counts - rows[now]
            rows[now] = counts
            total.append(rows[slide])
            made.append(np.append(rows.ravel(), held[-1] + 1))
        else:
            total.append(held.ravel() + counts)
            made.append(total[-1].reshape(1, buckets))
    pos, neg = (each[::-1].astype(float) for each in total)
    area = (neg * (np.cumsum(pos) - pos / 2)).sum()
    return {"AUC": np.array([area / pos.sum() / neg.sum()]), "StatPosOut": made[0], "StatNegOut": made[1]}


labels = np.array([[0], [1], [1], [0], [1], [0], [0]])
predict = rand(7, 2, low=0, high=1)
for slide, size in ((0, 8), (1, 17), (3, 33), (1, 8), (3, 24)):
    held = {"StatPos": ids(size, below=3), "StatNeg": ids(size, below=3)}
    if slide and size % 8:
        for each in held.values():
            rows = each[:-1].reshape(slide + 1, 8)
            rows[slide] = rows[:slide].sum(0)
            each[-1] = 4
    for width in (2, 1):
        add("auc", {"Predict": predict[:, :width], "Label": labels, **held}, auc, attrs={"num_thresholds": 7, "slide_steps": slide})
refused("auc", {"Predict": predict + 1, "Label": labels, "StatPos": ids(8, below=3),
                "StatNeg": ids(8, below=3)}, "not within 0 and 1",
        {"num_thresholds": 7, "slide_steps": 0})
for longer in ("StatPos", "StatNeg"):  # a ring of one step has 17 numbers, a queue 8
    refused("auc", {"Predict": predict, "Label": labels, "StatPos": ids(8, below=3), "StatNeg": ids(8, below=3),
                    longer: ids(17, below=3)}, "they must be the same", attrs={"num_thresholds": 7, "slide_steps": 1})
refused("auc", {"Predict": predict, "Label": labels, "StatPos": ids(10, below=3), "StatNeg": ids(10, below=3)},
        "it must hold 8 numbers",
        {"num_thresholds": 7, "slide_steps": 0})


def precision_recall(i, a):
    n = a["class_number"]
    count = np.zeros((n, 4))
    weights = i["Weights"][:, 0] if "Weights" in i else np.ones(len(i["Labels"]))
    for p, y, w in zip(i["Indices"][:, 0], i["Labels"][:, 0], weights):
        count[:, 2] += w
        if p == y:
            count[p, 0] += w
            count[p, 2] -= w
        else:
            count[y, 3] += w
            count[p, 1] += w
            count[[p, y], 2] -= w

    def share(hit, miss):
        return hit / (hit + miss) if hit > 0 or miss > 0 else 1.0

    def measures(c):
        macro = [np.mean([share(row[0], row[k]) for row in c]) for k in (1, 3)]
        micro = [share(c[:, 0].sum(), c[:, k].sum()) for k in (1, 3)]
        return np.array([x for p, r in (macro, micro) for x in (p, r, 2 * p * r / (p + r) if p > 0 or r > 0 else 0.0)])

    total = count + i.get("StatesInfo", 0)
    return {"BatchMetrics": measures(count), "AccumMetrics": measures(total), "AccumStatesInfo": total}


found = {"MaxProbs": rand(6, 1), "Indices": np.array([[0], [2], [1], [1], [3], [2]], "int32"),
         "Labels": np.array([[0], [1], [1], [2], [3], [2]], "int32")}
add("precision_recall", found, precision_recall, attrs={"class_number": 5})
add("precision_recall", {**found, "Weights": rand(6, 1, low=0, high=1), "StatesInfo": rand(5, 4, low=0, high=9)},
    precision_recall, attrs={"class_number": 5})
refused("precision_recall", found, "class 3", {"class_number": 3})


def mean_iou(i, a):
    n = a["num_classes"]
    wrong, correct = np.zeros(n, int), np.zeros(n, int)
    for p, y in zip(i["Predictions"].ravel(), i["Labels"].ravel()):
        if p == y:
            correct[p] += 1
        else:
            wrong[[p, y]] += 1
    wrong += sum(each for _, each in i.get("InWrongs", []))
    correct += sum(each for _, each in i.get("InCorrects", []))
    seen = wrong + correct > 0
    mean = (correct[seen] / (wrong + correct)[seen]).mean() + sum(each[0] for _, each in i.get("InMeanIou", []))
    return {"OutMeanIou": np.array([mean], "float32"), "OutWrong": wrong.astype("int32"), "OutCorrect": correct.astype("int32")}


for dtype in ("int32", "int64"):
    add("mean_iou", {"Predictions": ids(3, 4, below=4).astype(dtype), "Labels": ids(3, 4, below=4).astype(dtype)}, mean_iou,
        attrs={"num_classes": 5})
add("mean_iou", {"Predictions": ids(9, below=3).astype("int32"), "Labels": ids(9, below=3).astype("int32"),
                 "InWrongs": [("w0", np.array([1, 2, 3], "int32")), ("w1", np.array([0, 1, 0], "int32"))],
                 "InCorrects": [("c0", np.array([5, 5, 0], "int32"))], "InMeanIou": [("m0", np.array([0.5], "float32"))]},
    mean_iou, attrs={"num_classes": 3})
refused("mean_iou", {"Predictions": np.array([5], "int32"), "Labels": np.array([1], "int32")}, "class 5", {"num_classes": 3})
for slot, count, text in (("InCorrects", 2**31 - 1, "class 0 is counted 2147483648 times"),
                          ("InWrongs", -1, "InWrongs 0 counts class 0 -1 times")):
    refused("mean_iou", {"Predictions": np.array([0], "int32"), "Labels": np.array([0], "int32"),
                         slot: [("before", np.array([count, 5, 0], "int32"))]}, text, {"num_classes": 3})


def distances(i, a):
    def one(x, y):
        row = list(range(len(y) + 1))
        for p in x:
            row, old = [row[0] + 1], row
            for k, q in enumerate(y):
                row.append(min(old[k] + (p != q), old[k + 1] + 1, row[k] + 1))
        return row[-1] / (len(y) if a.get("normalized") else 1)

    if "HypsLength" in i:
        pairs = [(h[:n], r[:m]) for h, n, r, m in zip(i["Hyps"], i["HypsLength"], i["Refs"], i["RefsLength"])]
    else:
        pairs = list(zip(*(parts(*i[slot]) for slot in ("Hyps", "Refs"))))
    return {"Out": np.array([[one(list(np.ravel(x)), list(np.ravel(y)))] for x, y in pairs], "float32"),
            "SequenceNum": np.array([len(pairs)])}


hyps, refs = ids(9, 1, below=4), ids(8, 1, below=4)
for lengths in ([3, 2, 4], [0, 5, 4]):
    for normalized in (False, True):
        add("edit_distance", {"Hyps": (hyps, lengths), "Refs": (refs, [2, 5, 1])}, distances,
            attrs={"normalized": normalized}, tol=1e-6)
add("edit_distance", {"Hyps": (hyps, [3, 6]), "Refs": (refs, [0, 8])}, distances)
add("edit_distance", {"Hyps": ids(2, 5, below=3), "Refs": ids(2, 4, below=3), "HypsLength": np.array([5, 2]),
                      "RefsLength": np.array([3, 4])}, distances, declared={"Refs": [-1, -1]})
refused("edit_distance", {"Hyps": (hyps, [3, 6]), "Refs": (refs, [0, 8])}, "reference 0 is empty", {"normalized": True})


def chunks(labels, scheme, types):
    """(first, last, type) of each chunk, tag by tag."""
    tags = {"IOB": "BI", "IOE": "IE", "IOBES": "BIES", "plain": "x"}[scheme]
    found, at, last = [], None, None
    for k, label in enumerate([*labels, types * len(tags)]):
        tag, kind = tags[label % len(tags)] if label < types * len(tags) else "O", label // len(tags)
        if at is not None:
            before, held = last
            ended = tag == "O" or kind != held or before in "ES" or (before in "BI" and tag in "BS")
            if scheme == "plain":
                ended = tag == "O" or kind != held
            if ended:
                found.append((at, k - 1, held))
                at = None
        if tag != "O" and at is None:
            at = k
        last = (tag, kind)
    return found


def chunk_eval(i, a):
    if "SeqLength" in i:
        rows = [(x.ravel()[:n], y.ravel()[:n]) for x, y, n in zip(i["Inference"], i["Label"], i["SeqLength"])]
    else:
        rows = [(x.ravel(), y.ravel()) for x, y in zip(parts(*i["Inference"]), parts(*i["Label"]))]
    count = [0, 0, 0]
    for x, y in rows:
        x, y = ([c for c in chunks(each, a["chunk_scheme"], a["num_chunk_types"])
                 if c[2] not in a.get("excluded_chunk_types", [])] for each in (x, y))
        for k, more in enumerate((len(x), len(y), len(set(x) & set(y)))):
            count[k] += more
    p, r = (count[2] / each if each else 0 for each in count[:2])
    f1 = 2 * p * r / (p + r) if count[2] else 0
    out = {slot: np.array([value], "float32") for slot, value in zip(("Precision", "Recall", "F1-Score"), (p, r, f1))}
    names = ("NumInferChunks", "NumLabelChunks", "NumCorrectChunks")
    return {**out, **{slot: np.array([value]) for slot, value in zip(names, count)}}


for scheme, n_tags in (("IOB", 2), ("IOE", 2), ("IOBES", 4), ("plain", 1)):
    for excluded in ([], [1]):
        truth = ids(40, 1, below=3 * n_tags + 1)
        guess = np.where(rng.rand(40, 1) < 0.7, truth, ids(40, 1, below=3 * n_tags + 1))
        add("chunk_eval", {"Inference": (guess, [17, 0, 23]), "Label": (truth, [17, 0, 23])}, chunk_eval,
            attrs={"num_chunk_types": 3, "chunk_scheme": scheme, "excluded_chunk_types": excluded}, tol=1e-6)
truth = ids(3, 8, below=7)
add("chunk_eval", {"Inference": np.roll(truth, 1), "Label": truth, "SeqLength": np.array([8, 3, 5])}, chunk_eval,
    attrs={"num_chunk_types": 3, "chunk_scheme": "IOB"}, tol=1e-6)
refused("chunk_eval", {"Inference": (words, [5]), "Label": (words, [5])}, "Inference holds 4",
        {"num_chunk_types": 1, "chunk_scheme": "IOB"})
refused("chunk_eval", {"Inference": (words, [5]), "Label": (words, [5])}, "chunk_scheme is 'BIO'",
        {"num_chunk_types": 9, "chunk_scheme": "BIO"})

# ---- selected rows; what comes out as selected rows is checked in test_sparse_ops.py ----

value = rand(5, 2)
repeated = {"rows": [0, 5, 5, 4, 9], "height": 10, "value": value}
add("merge_selected_rows", {"X": repeated}, {"Out": None})
add("get_tensor_from_selected_rows", {"X": repeated}, {"Out": None})
add("split_selected_rows", {"X": repeated}, {"Out": [None, None]}, attrs={"height_sections": [5, 5]})
refused("get_tensor_from_selected_rows", {"X": value}, "X must be selected rows")
add("split_ids", {"Ids": [("i0", np.array([[5], [2], [8]])), ("i1", np.array([[2], [3]]))]},
    {"Out": [np.array([[3]]), np.array([[], []], "int64").reshape(0, 1), np.array([[2], [5], [8]])]})
add("merge_ids", {"Ids": [("ids", (np.array([[2], [5], [2], [3]]), [1, 3]))],
                  "Rows": [("r0", np.array([[3]])), ("r1", np.array([[2], [5]]))], "X": [("x0", value[:1]), ("x1", value[1:3])]},
    {"Out": [(value[[1, 2, 1, 0]], [1, 3])]})
refused("merge_ids", {"Ids": [("ids", np.array([[4]]))], "Rows": [("r0", np.array([[3]]))], "X": [("x0", value[:1])]},
        "id 4 of Ids is not among Rows")
add("ref_by_trainer_id", {"X": [("x0", value), ("x1", value + 1)], "TrainerId": np.array([1])}, {"Out": value + 1})
refused("ref_by_trainer_id", {"X": [("x0", value)], "TrainerId": np.array([1])}, "TrainerId is 1")
refused("ref_by_trainer_id", {"X": [("x0", value)], "TrainerId": np.array([np.nan], "float32")}, "TrainerId is nan")
add("fake_init", {}, {"Out": None}, attrs={"shape": [1000, 8]})
