"""Cases for products, softmax and losses. References follow the definitions, in loops
where that is clearest."""

from itertools import product

import numpy as np

rng = np.random.RandomState(23)
CASES = []


def rand(*shape, low=-1.0, high=1.0):
    return np.round(rng.uniform(low, high, shape), 6)


def spread(*shape, step=0.07):
    """Numbers that all differ, so that a maximum stays the same under small steps."""
    n = int(np.prod(shape))
    return (rng.permutation(n) * step - n * step / 2).reshape(shape)


def ints(high, *shape, low=0):
    return rng.randint(low, high, shape).astype("int64")


def add(op, inputs, outputs, grad=(), attrs=None, **more):
    CASES.append({"op": op, "inputs": inputs, "attrs": attrs or {}, "outputs": outputs, "grad": list(grad), **more})


def fails(op, inputs, text, outputs=("Out",), attrs=None):
    add(op, inputs, {name: None for name in outputs}, attrs=attrs, raises=text)


# ---- products ----


def mul(inputs, attrs):
    x, y = inputs["X"], inputs["Y"]
    a, b = attrs.get("x_num_col_dims", 1), attrs.get("y_num_col_dims", 1)
    left = x.reshape(int(np.prod(x.shape[:a])), int(np.prod(x.shape[a:])))
    right = y.reshape(int(np.prod(y.shape[:b])), -1)
    return {"Out": (left @ right).reshape(x.shape[:a] + y.shape[b:])}


add("mul", {"X": rand(20, 13), "Y": rand(13, 1)}, mul, ["X", "Y"])
add("mul", {"X": rand(7, 33), "Y": rand(33, 17)}, mul, ["X", "Y"])
add("mul", {"X": rand(40, 70), "Y": rand(70, 50)}, mul, ["X", "Y"])
add("mul", {"X": rand(3, 4, 2, 3), "Y": rand(3, 2, 1, 5)}, mul, ["X", "Y"], {"x_num_col_dims": 2, "y_num_col_dims": 2})
add("mul", {"X": rand(0, 4), "Y": rand(4, 3)}, mul)
add("mul", {"X": (rand(5, 4), [2, 3]), "Y": rand(4, 3)},
    lambda i, a: {"Out": (i["X"][0] @ i["Y"], [2, 3])}, ["X", "Y"])
fails("mul", {"X": rand(3, 4), "Y": rand(5, 2)}, "They must be equal")


def matmul(inputs, attrs):
    x, y = inputs["X"], inputs["Y"]
    if x.ndim == 1:
        x = x.reshape(1, -1)
    if y.ndim == 1:
        y = y.reshape(-1, 1)
    if attrs.get("transpose_X"):
        x = np.swapaxes(x, -1, -2)
    if attrs.get("transpose_Y"):
        y = np.swapaxes(y, -1, -2)
    out = np.matmul(x, y) * attrs.get("alpha", 1.0)
    shape = list(out.shape)
    if inputs["X"].ndim == 1 and shape[-2] == 1:
        del shape[-2]
    if inputs["Y"].ndim == 1 and shape[-1] == 1:
        del shape[-1]
    return {"Out": out.reshape(shape or [1])}


for tx, ty in product((False, True), repeat=2):
    pair = {"transpose_X": tx, "transpose_Y": ty}
    add("matmul", {"X": rand(*((4, 3) if tx else (3, 4))), "Y": rand(*((5, 4) if ty else (4, 5)))}, matmul, ["X", "Y"], pair)
    add("matmul", {"X": rand(2, *((4, 3) if tx else (3, 4))), "Y": rand(2, *((5, 4) if ty else (4, 5)))}, matmul, ["X", "Y"],
        {**pair, "alpha": 0.5})
    add("matmul", {"X": rand(2, 2, *((4, 3) if tx else (3, 4))), "Y": rand(*((5, 4) if ty else (4, 5)))}, matmul, ["X", "Y"], pair)
    add("matmul", {"X": rand(*((4, 3) if tx else (3, 4))), "Y": rand(3, *((5, 4) if ty else (4, 5)))}, matmul, ["X", "Y"], pair)
add("matmul", {"X": rand(4), "Y": rand(4)}, matmul, ["X", "Y"])
for a, b in ((2, 0), (0, 2)):  # an empty stack is not one matrix for all
    CASES.append({"op": "matmul", "inputs": {"X": rand(a, 3, 4), "Y": rand(b, 4, 5)},
                  "declared": {"X": [-1, 3, 4], "Y": [-1, 4, 5]},
                  "outputs": {}, "raises": "matrices, Y"})
add("matmul", {"X": rand(4), "Y": rand(4, 3)}, matmul, ["X", "Y"])
add("matmul", {"X": rand(3, 4), "Y": rand(4)}, matmul, ["X", "Y"])
add("matmul", {"X": rand(4), "Y": rand(3)}, matmul, ["X", "Y"], {"transpose_X": True, "transpose_Y": True})
add("matmul", {"X": rand(4), "Y": rand(2, 4, 3)}, matmul, ["X", "Y"])
add("matmul", {"X": rand(2, 3, 4), "Y": rand(4)}, matmul, ["X", "Y"])


def matmul_heads(inputs, attrs):
    n = attrs["head_number"]
    parts = zip(np.split(inputs["X"], n, -1), np.split(inputs["Y"], n, -2))
    return {"Out": np.concatenate([np.matmul(x, y) for x, y in parts], -1)}


add("matmul", {"X": rand(2, 3, 4), "Y": rand(2, 4, 3)}, matmul_heads, ["X", "Y"], {"head_number": 2})
fails("matmul", {"X": rand(3, 4), "Y": rand(3, 4)}, "They must be equal")
fails("matmul", {"X": rand(2, 3, 4), "Y": rand(3, 4, 2)}, "matrices")


def fc(inputs, attrs):
    n = attrs.get("in_num_col_dims", 1)
    x, w = inputs["Input"], inputs["W"]
    if attrs.get("padding_weights"):
        w = w[:-4, :-4]
    out = x.reshape(int(np.prod(x.shape[:n])), -1) @ w
    if "Bias" in inputs:
        out = out + inputs["Bias"].reshape(1, -1)
    if attrs.get("activation_type") == "relu":
        out = np.maximum(out, 0)
    return {"Out": out.reshape(x.shape[:n] + (-1,))}


add("fc", {"Input": rand(5, 4), "W": rand(4, 3), "Bias": rand(3)}, fc, ["Input", "W", "Bias"])
add("fc", {"Input": rand(2, 3, 2, 2), "W": rand(4, 3), "Bias": rand(1, 3)}, fc, ["Input", "W", "Bias"], {"in_num_col_dims": 2})
add("fc", {"Input": rand(5, 4), "W": rand(4, 3)}, fc, ["Input", "W"], {"activation_type": "relu"})
add("fc", {"Input": rand(5, 4), "W": rand(8, 7), "Bias": rand(3)}, fc, ["Input", "W"], {"padding_weights": True})


def bilinear_product(inputs, attrs):
    out = np.einsum("ni,oij,nj->no", inputs["X"], inputs["Weight"], inputs["Y"])
    return {"Out": out + inputs["Bias"] if "Bias" in inputs else out}


add("bilinear_tensor_product", {"X": rand(4, 3), "Y": rand(4, 5), "Weight": rand(2, 3, 5), "Bias": rand(1, 2)}, bilinear_product,
    ["X", "Y", "Weight", "Bias"])
add("bilinear_tensor_product", {"X": rand(4, 3), "Y": rand(4, 5), "Weight": rand(2, 3, 5)}, bilinear_product, ["X", "Y", "Weight"])

# ---- softmax and its losses ----


def soft(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


for shape, axis in [((5, 7), -1), ((2, 3, 4), 1), ((2, 3, 4), 0), ((2, 70, 3), -2), ((1, 200), -1), ((3, 4, 80), 1), ((6,), 0)]:
    add("softmax", {"X": rand(*shape, low=-3, high=3)}, lambda i, a: {"Out": soft(i["X"], a["axis"])}, ["X"], {"axis": axis})
fails("softmax", {"X": rand(2, 3)}, "axis is 2", attrs={"axis": 2})


def picked(p, label):
    flat = p.reshape(-1, p.shape[-1])
    return flat[np.arange(len(flat)), label.reshape(-1)]


def cross_entropy(inputs, attrs):
    p, label = inputs["X"], inputs["Label"]
    if attrs.get("soft_label"):
        return {"Y": -(label * np.log(p)).sum(-1, keepdims=True)}
    shape = label.shape[:-1] + (1,) if label.ndim == p.ndim else label.shape
    safe = np.where(label == attrs.get("ignore_index", -100), 0, label)
    loss = np.where(label.reshape(-1) == attrs.get("ignore_index", -100), 0, -np.log(picked(p, safe)))
    return {"Y": loss.reshape(shape)}


def cross_entropy2(inputs, attrs):
    p, label = inputs["X"], inputs["Label"]
    ignored = label.reshape(-1) == attrs.get("ignore_index", -100)
    match = np.where(ignored, 0, picked(p, np.where(label == attrs.get("ignore_index", -100), 0, label)))
    return {"Y": cross_entropy(inputs, attrs)["Y"], "MatchX": match.reshape(p.shape[:-1] + (1,)), "XShape": None}


for shape in [(5, 7), (2, 3, 4)]:
    probs = soft(rand(*shape))
    add("cross_entropy", {"X": probs, "Label": ints(shape[-1], *shape[:-1], 1)}, cross_entropy, ["X"])
    add("cross_entropy", {"X": probs, "Label": ints(shape[-1], *shape[:-1])}, cross_entropy, ["X"])
    add("cross_entropy", {"X": probs, "Label": ints(2, *shape[:-1], 1)}, cross_entropy, ["X"], {"ignore_index": 1})
    add("cross_entropy", {"X": probs, "Label": soft(rand(*shape))}, cross_entropy, ["X"], {"soft_label": True})
    add("cross_entropy2", {"X": probs, "Label": ints(shape[-1], *shape[:-1], 1)}, cross_entropy2,
        ["X"], no_grad_check=["MatchX", "XShape"])
    add("cross_entropy2", {"X": probs, "Label": ints(2, *shape[:-1], 1)}, cross_entropy2, ["X"], {"ignore_index": 1},
        no_grad_check=["MatchX", "XShape"])
add("cross_entropy", {"X": soft(rand(3, 4)), "Label": ints(4, 3, 1).astype("int32")}, cross_entropy, ["X"])
fails("cross_entropy", {"X": soft(rand(3, 4)), "Label": np.array([[1], [4], [0]])}, "Label 4 of row 1", ["Y"])
fails("cross_entropy2", {"X": soft(rand(3, 4)), "Label": np.array([[1], [2], [-1]])}, "there are 4 classes",
      ["Y", "MatchX", "XShape"])


def softmax_loss(inputs, attrs):
    axis = attrs.get("axis", -1)
    p = soft(inputs["Logits"], axis)
    label = inputs["Label"]
    if attrs.get("soft_label"):
        loss = -(label * np.log(p)).sum(axis, keepdims=True)
    else:
        ignored = label == attrs.get("ignore_index", -100)
        loss = np.where(ignored, 0, -np.log(np.take_along_axis(p, np.where(ignored, 0, label), axis)))
    return {"Softmax": p, "Loss": loss}


for shape, axis in [((5, 7), -1), ((2, 3, 4), 1), ((3, 4, 2, 2), 1), ((2, 3, 4), 0)]:
    one = list(shape)
    one[axis] = 1
    x = rand(*shape, low=-3, high=3)
    more = {"grad_tol": 1e-5, "no_grad_check": ["Softmax"]}
    add("softmax_with_cross_entropy", {"Logits": x, "Label": ints(shape[axis], *one)}, softmax_loss,
        ["Logits"], {"axis": axis}, **more)
    add("softmax_with_cross_entropy", {"Logits": x, "Label": ints(2, *one)}, softmax_loss, ["Logits"],
        {"axis": axis, "ignore_index": 1}, **more)
    add("softmax_with_cross_entropy", {"Logits": x, "Label": soft(rand(*shape), axis)}, softmax_loss, ["Logits"],
        {"axis": axis, "soft_label": True}, **more)
fails("softmax_with_cross_entropy", {"Logits": rand(2, 3), "Label": np.array([[0], [7]])}, "Label 7 of row 1", ["Softmax", "Loss"])


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def sigmoid_loss(inputs, attrs):
    x, label = inputs["X"], inputs["Label"]
    counted = label != attrs.get("ignore_index", -100)
    loss = np.where(counted, np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0) - x * label, 0)
    return {"Out": loss / max(counted.sum(), 1e-5) if attrs.get("normalize") else loss}


add("sigmoid_cross_entropy_with_logits", {"X": rand(5, 4, low=-4, high=4), "Label": rand(5, 4, low=0)}, sigmoid_loss, ["X"])
add("sigmoid_cross_entropy_with_logits", {"X": rand(5, 4), "Label": ints(2, 5, 4).astype("float64")}, sigmoid_loss, ["X"],
    {"ignore_index": 1, "normalize": True})


def teacher_student(inputs, attrs):
    x, z = inputs["X"], inputs["Label"]
    base = np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0)
    return {"Y": np.where(z < -1, base, np.where(z < 0, base - x, 2 * base - x * z))}


add("teacher_student_sigmoid_loss", {"X": rand(6, 1), "Label": np.array([[-2.0], [-1.0], [0.3], [1.7], [0.0], [1.0]])},
    teacher_student, ["X"])

# ---- other losses ----

labels01 = ints(2, 6, 1).astype("float64")


def log_loss(inputs, attrs):
    p, y, e = inputs["Predicted"], inputs["Labels"], attrs["epsilon"]
    return {"Loss": -y * np.log(p + e) - (1 - y) * np.log(1 - p + e)}


add("log_loss", {"Predicted": rand(6, 1, low=0.1, high=0.9), "Labels": labels01}, log_loss, ["Predicted"], {"epsilon": 2.0**-13})
add("hinge_loss", {"Logits": spread(6, 1, step=0.31) + 0.05, "Labels": labels01},
    lambda i, a: {"Loss": np.maximum(0, 1 - i["Logits"] * (2 * i["Labels"] - 1))}, ["Logits"])


def rank_loss(inputs, attrs):
    d = inputs["Left"] - inputs["Right"]
    return {"Out": np.log1p(np.exp(d)) - inputs["Label"] * d}


add("rank_loss", {"Label": labels01, "Left": rand(6, 1), "Right": rand(6, 1)}, rank_loss, ["Left", "Right"])
add("rank_loss", {"Label": labels01[:, 0], "Left": rand(6), "Right": rand(6)}, rank_loss, ["Left", "Right"])


def margin_rank(inputs, attrs):
    loss = np.maximum(0, attrs.get("margin", 0) - inputs["Label"] * (inputs["X1"] - inputs["X2"]))
    return {"Out": loss, "Activated": (loss > 0).astype("float64")}


add("margin_rank_loss", {"X1": spread(6, 1), "X2": spread(6, 1) + 0.03, "Label": 2 * labels01 - 1}, margin_rank, ["X1", "X2"],
    {"margin": 0.25})


def huber(inputs, attrs):
    r, d = inputs["Y"] - inputs["X"], attrs["delta"]
    return {"Residual": r, "Out": np.where(np.abs(r) <= d, r * r / 2, d * (np.abs(r) - d / 2))}


for shape in [(6, 1), (3, 4)]:
    add("huber_loss", {"X": spread(*shape), "Y": spread(*shape) * 2 + 0.013}, huber, ["X", "Y"], {"delta": 0.5}, tol=1e-6,
        no_grad_check=["Residual"])


def modified_huber(inputs, attrs):
    z = inputs["X"] * (2 * inputs["Y"] - 1)
    return {"IntermediateVal": z, "Out": np.where(z < -1, -4 * z, np.where(z < 1, (1 - z) ** 2, 0))}


add("modified_huber_loss", {"X": spread(6, 1, step=0.63), "Y": labels01}, modified_huber, ["X"], no_grad_check=["IntermediateVal"])
fails("modified_huber_loss", {"X": rand(2, 1), "Y": np.array([[0.0], [2.0]])}, "labels are 0 or 1", ["IntermediateVal", "Out"])


def smooth_l1(inputs, attrs):
    d = inputs["X"] - inputs["Y"]
    s = attrs.get("sigma", 1.0) ** 2
    if "InsideWeight" in inputs:
        d = d * inputs["InsideWeight"]
    e = np.where(np.abs(d) < 1 / s, d * d * s / 2, np.abs(d) - 0.5 / s)
    if "OutsideWeight" in inputs:
        e = e * inputs["OutsideWeight"]
    return {"Diff": d, "Out": e.reshape(len(d), -1).sum(1).reshape(-1, 1)}


add("smooth_l1_loss", {"X": spread(4, 3), "Y": spread(4, 3) * 3 + 0.011}, smooth_l1, ["X", "Y"],
    {"sigma": 2.0}, no_grad_check=["Diff"])
add("smooth_l1_loss", {"X": spread(2, 3, 2), "Y": spread(2, 3, 2) * 3, "InsideWeight": rand(2, 3, 2),
                       "OutsideWeight": rand(2, 3, 2)},
    smooth_l1, ["X", "Y"], no_grad_check=["Diff"])


def bpr(inputs, attrs):
    x, label = inputs["X"], inputs["Label"].reshape(-1)
    rows = x.reshape(-1, x.shape[-1])
    loss = [np.mean([np.log1p(np.exp(row[j] - row[k])) for j in range(len(row)) if j != k]) for row, k in zip(rows, label)]
    return {"Y": np.reshape(loss, x.shape[:-1] + (1,))}


add("bpr_loss", {"X": rand(5, 4), "Label": ints(4, 5, 1)}, bpr, ["X"])
fails("bpr_loss", {"X": rand(2, 3), "Label": np.array([[3], [0]])}, "there are 3 classes", ["Y"])


def kldiv(inputs, attrs):
    t = inputs["Target"]
    loss = np.where(t > 0, t * (np.log(np.where(t > 0, t, 1)) - inputs["X"]), 0)
    how = attrs.get("reduction", "mean")
    total = {"none": loss, "sum": loss.sum(), "mean": loss.mean(), "batchmean": loss.sum() / len(loss)}[how]
    return {"Loss": np.reshape(total, loss.shape if how == "none" else [1])}


for how in ("none", "sum", "mean", "batchmean"):
    add("kldiv_loss", {"X": rand(4, 3), "Target": rand(4, 3, low=-0.5)}, kldiv, ["X"], {"reduction": how})


def nce(inputs, attrs):
    x, label, w = inputs["Input"], inputs["Label"], inputs["Weight"]
    negatives = list(attrs["custom_neg_classes"])
    classes = attrs["num_total_classes"]
    labels = np.array([list(row) + negatives for row in label], dtype="int64")
    z = np.einsum("nk,njk->nj", x, w[labels])
    if "Bias" in inputs:
        z = z + inputs["Bias"].reshape(-1)[labels]
    o = sigmoid(z)
    p = np.full(labels.shape, 1.0 / classes)
    if attrs.get("sampler") == 1:
        p = np.log((labels + 2.0) / (labels + 1.0)) / np.log(classes)
    b = p * len(negatives)
    true = np.arange(labels.shape[1]) < label.shape[1]
    cost = np.where(true, -np.log(o / (o + b)), -np.log(b / (o + b))).sum(1, keepdims=True)
    if "SampleWeight" in inputs:
        cost = cost * inputs["SampleWeight"].reshape(-1, 1)
    return {"Cost": cost, "SampleLogits": o, "SampleLabels": labels}


for law in (0, 1):
    more = {"no_grad_check": ["SampleLogits", "SampleLabels"]}
    settings = {"num_total_classes": 6, "num_neg_samples": 3, "custom_neg_classes": [0, 4, 2], "sampler": law}
    add("nce", {"Input": rand(4, 3), "Label": ints(6, 4, 1), "Weight": rand(6, 3), "Bias": rand(6, 1),
                "SampleWeight": rand(4, low=0.5)},
        nce, ["Input", "Weight", "Bias"], settings, **more)
    add("nce", {"Input": rand(4, 3), "Label": ints(6, 4, 2), "Weight": rand(6, 3)}, nce, ["Input", "Weight"], settings, **more)
fails("nce", {"Input": rand(2, 3), "Label": np.array([[1], [9]]), "Weight": rand(6, 3)}, "there are 6 classes",
      ["Cost", "SampleLogits", "SampleLabels"], {"num_total_classes": 6, "num_neg_samples": 3})


def hsigmoid(inputs, attrs):
    x, w = inputs["X"], inputs["W"]
    table, code = inputs.get("PathTable"), inputs.get("PathCode")
    classes = attrs["num_classes"]
    width = table.shape[1] if table is not None else (classes - 1).bit_length()
    pre, out = np.zeros((len(x), width)), np.zeros((len(x), 1))
    for i, row in enumerate(x):
        if table is not None:
            way = [(n, bool(c)) for n, c in zip(table[i], code[i]) if n >= 0]
        else:
            number = int(inputs["Label"][i, 0]) + classes
            way = [((number >> (j + 1)) - 1, bool(number >> j & 1)) for j in range(number.bit_length() - 1)]
        for j, (node, turn) in enumerate(way):
            z = row @ w[node] + (inputs["Bias"].reshape(-1)[node] if "Bias" in inputs else 0)
            pre[i, j] = z
            out[i] -= z * turn
    pre = np.log1p(np.exp(pre))
    return {"PreOut": pre, "Out": out + pre.sum(1, keepdims=True)}


more = {"no_grad_check": ["PreOut"]}
add("hierarchical_sigmoid", {"X": rand(4, 3), "W": rand(5, 3), "Label": ints(6, 4, 1), "Bias": rand(5, 1)}, hsigmoid,
    ["X", "W", "Bias"], {"num_classes": 6}, **more)
add("hierarchical_sigmoid",
    {"X": rand(3, 2), "W": rand(5, 2), "Label": ints(6, 3, 1),
     "PathTable": np.array([[0, 2, -1], [0, 1, 4], [0, -1, -1]]), "PathCode": np.array([[1, 0, -1], [0, 1, 1], [0, -1, -1]])},
    hsigmoid, ["X", "W"], {"num_classes": 6}, **more)
fails("hierarchical_sigmoid", {"X": rand(1, 3), "W": rand(5, 3), "Label": np.array([[6]])},
      "there are 6 classes", ["Out", "PreOut"],
      {"num_classes": 6})
fails("hierarchical_sigmoid", {"X": rand(4, 3), "W": rand(5, 3), "Label": ints(6, 3, 1)},
      "one class for each row of X", ["Out", "PreOut"], {"num_classes": 6})
fails("hierarchical_sigmoid", {"X": rand(1, 3), "W": rand(5, 3), "Label": ints(6, 1, 1), "Bias": rand(4, 1)},
      "one number for each row of W", ["Out", "PreOut"], {"num_classes": 6})
fails("hierarchical_sigmoid",
      {"X": rand(17, 2), "W": rand(5, 2), "Label": ints(6, 3, 1),
       "PathTable": np.array([[0, 2], [0, 1], [0, -1]]), "PathCode": np.array([[1, 0], [0, 1], [0, -1]])},
      "one row for each row of X", ["Out", "PreOut"], {"num_classes": 6})

# ---- no rows at all ----

add("softmax", {"X": rand(0, 5)}, {"Out": rand(0, 5)})
add("softmax_with_cross_entropy", {"Logits": rand(0, 5), "Label": ints(5, 0, 1)}, {"Softmax": rand(0, 5), "Loss": rand(0, 1)})
add("cross_entropy", {"X": rand(0, 5), "Label": ints(5, 0, 1)}, {"Y": rand(0, 1)})
add("matmul", {"X": rand(0, 3, 4), "Y": rand(0, 4, 2)}, {"Out": rand(0, 3, 2)})
