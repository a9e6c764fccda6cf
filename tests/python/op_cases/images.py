"""Cases for convolutions, pooling, normalisation and places in images. References follow the definitions, in loops where that
is clearest."""

from itertools import product

import numpy as np

rng = np.random.RandomState(29)
CASES = []


def rand(*shape, low=-1.0, high=1.0):
    return np.round(rng.uniform(low, high, shape), 6)


def spread(*shape, step=0.07):
    """Numbers that all differ, so that a maximum stays the same under small steps."""
    n = int(np.prod(shape))
    return (rng.permutation(n) * step - n * step / 2).reshape(shape)


def add(op, inputs, outputs, grad=(), attrs=None, **more):
    CASES.append({"op": op, "inputs": inputs, "attrs": attrs or {}, "outputs": outputs, "grad": list(grad), **more})


def fails(op, inputs, text, outputs=("Out",), attrs=None):
    add(op, inputs, {name: None for name in outputs}, attrs=attrs, raises=text)


# ---- convolutions ----


def pads(attrs, size, kernel, stride, axes):
    p = attrs.get("paddings", [0] * axes)
    pairs = [(p[2 * i], p[2 * i + 1]) if len(p) == 2 * axes else (p[i], p[i]) for i in range(axes)]
    how = attrs.get("padding_algorithm", "EXPLICIT")
    if how == "VALID":
        return [(0, 0)] * axes
    if how == "SAME":
        total = [max((-(-n // s) - 1) * s + k - n, 0) for n, k, s in zip(size, kernel, stride)]
        return [(t // 2, t - t // 2) for t in total]
    return pairs


def convolve(x, w, stride, padding, dilation, groups):
    """Channels first. By the definition: each output is the sum over a window."""
    axes = x.ndim - 2
    wide = [d * (k - 1) + 1 for k, d in zip(w.shape[2:], dilation)]
    lack = [max(k - n - a - b, 0) for k, n, (a, b) in zip(wide, x.shape[2:], padding)]  # less than a stride
    x = np.pad(x, [(0, 0), (0, 0), *((a, b + more) for (a, b), more in zip(padding, lack))])
    out = [(n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(x.shape[2:], w.shape[2:], stride, dilation)]
    y = np.zeros((len(x), len(w), *out))
    each, filters = x.shape[1] // groups, len(w) // groups
    for place in product(*map(range, out)):
        cut = tuple(slice(p * s, p * s + d * (k - 1) + 1, d) for p, s, k, d in zip(place, stride, w.shape[2:], dilation))
        for g in range(groups):
            part = x[(slice(None), slice(g * each, (g + 1) * each), *cut)]
            own = w[g * filters : (g + 1) * filters]
            dims = list(range(1, axes + 2))
            y[(slice(None), slice(g * filters, (g + 1) * filters), *place)] = np.tensordot(part, own, (dims, dims))
    return y


def conv(inputs, attrs):
    x, w = inputs["Input"], inputs["Filter"]
    last = attrs.get("data_format", "NCHW") in ("NHWC", "NDHWC")
    axes = x.ndim - 2
    if last:
        x = np.moveaxis(x, -1, 1)
    stride = attrs.get("strides", [1] * axes)
    dilation = [1] * axes if attrs.get("padding_algorithm") == "SAME" else attrs.get("dilations", [1] * axes)
    padding = pads(attrs, x.shape[2:], w.shape[2:], stride, axes)
    y = convolve(x, w, stride, padding, dilation, attrs.get("groups", 1))
    if "Bias" in inputs:
        y = y + inputs["Bias"].reshape(-1, *[1] * axes)
    return {"Output": np.moveaxis(y, 1, -1) if last else y}


both = ["Input", "Filter"]
add("conv2d", {"Input": rand(2, 3, 5, 6), "Filter": rand(4, 3, 3, 2)}, conv, both)
add("conv2d", {"Input": rand(2, 3, 5, 6), "Filter": rand(4, 3, 3, 3)}, conv, both, {"strides": [2, 1], "paddings": [1, 2]})
add("conv2d", {"Input": rand(2, 4, 6, 6), "Filter": rand(6, 2, 2, 3)}, conv, both,
    {"groups": 2, "dilations": [2, 1], "paddings": [1, 0, 2, 1]})
add("conv2d", {"Input": rand(1, 2, 5, 7), "Filter": rand(3, 2, 3, 3)}, conv, both, {"padding_algorithm": "SAME", "strides": [2, 2]})
add("conv2d", {"Input": rand(1, 2, 5, 7), "Filter": rand(3, 2, 3, 3)}, conv, both,
    {"padding_algorithm": "VALID", "paddings": [1, 1]})
add("conv2d", {"Input": rand(2, 5, 4, 3), "Filter": rand(4, 3, 2, 2)}, conv, both, {"data_format": "NHWC", "paddings": [1, 1]})
add("conv2d", {"Input": rand(2, 3, 4, 4), "Filter": rand(2, 3, 1, 1), "Bias": rand(2)}, conv, [*both, "Bias"])
add("depthwise_conv2d", {"Input": rand(2, 3, 5, 5), "Filter": rand(3, 1, 3, 3)}, conv, both, {"groups": 3, "paddings": [1, 1]})
add("depthwise_conv2d", {"Input": rand(2, 3, 5, 5), "Filter": rand(6, 1, 3, 3)}, conv, both, {"groups": 3, "strides": [2, 2]})
add("conv2d", {"Input": rand(2, 3, 2, 4), "Filter": rand(4, 3, 3, 3)}, conv, both, {"strides": [2, 1]})
add("conv2d", {"Input": rand(2, 2, 2, 2), "Filter": rand(4, 2, 2, 3)}, conv, both, {"strides": [3, 2], "dilations": [3, 1]})
add("conv3d", {"Input": rand(1, 2, 2, 3, 5), "Filter": rand(3, 2, 3, 3, 2)}, conv, both, {"strides": [2, 2, 1]})
fails("conv2d", {"Input": rand(2, 3, 2, 2), "Filter": rand(4, 3, 4, 4)}, "too small", ["Output"], attrs={"strides": [2, 2]})
add("conv3d", {"Input": rand(1, 2, 4, 3, 5), "Filter": rand(3, 2, 2, 3, 2)}, conv, both,
    {"strides": [1, 1, 2], "paddings": [1, 1, 0]})
add("conv3d", {"Input": rand(1, 4, 4, 3, 2), "Filter": rand(4, 1, 2, 2, 1)}, conv, both,
    {"groups": 2, "data_format": "NDHWC", "dilations": [2, 1, 1]})
fails("conv2d", {"Input": rand(2, 3, 5, 6), "Filter": rand(4, 2, 3, 3)}, "has 3 channels", ["Output"])
fails("conv2d", {"Input": rand(2, 3, 2, 2), "Filter": rand(4, 3, 3, 3)}, "too small", ["Output"])


def conv_transpose(inputs, attrs):
    x, w = inputs["Input"], inputs["Filter"]
    last = attrs.get("data_format", "NCHW") in ("NHWC", "NDHWC")
    axes, groups = x.ndim - 2, attrs.get("groups", 1)
    if last:
        x = np.moveaxis(x, -1, 1)
    stride, dilation = attrs.get("strides", [1] * axes), attrs.get("dilations", [1] * axes)
    padding = pads(attrs, x.shape[2:], w.shape[2:], stride, axes)
    spans = [d * (k - 1) + 1 for d, k in zip(dilation, w.shape[2:])]
    full = [(n - 1) * s + e for n, s, e in zip(x.shape[2:], stride, spans)]
    size = attrs.get("output_size") or [f - a - b for f, (a, b) in zip(full, padding)]
    y = np.zeros((len(x), w.shape[1] * groups, *[max(f, a + n) for f, n, (a, _) in zip(full, size, padding)]))
    each = x.shape[1] // groups
    for c in range(x.shape[1]):
        g = c // each
        for place in product(*map(range, x.shape[2:])):
            cut = tuple(slice(p * s, p * s + e, d) for p, s, e, d in zip(place, stride, spans, dilation))
            value = x[(slice(None), c, *place)].reshape(-1, *[1] * (axes + 1)) * w[c]
            y[(slice(None), slice(g * w.shape[1], (g + 1) * w.shape[1]), *cut)] += value
    y = y[(slice(None), slice(None), *[slice(a, a + n) for n, (a, _) in zip(size, padding)])]
    if "Bias" in inputs:
        y = y + inputs["Bias"].reshape(-1, *[1] * axes)
    return {"Output": np.moveaxis(y, 1, -1) if last else y}


add("conv2d_transpose", {"Input": rand(2, 3, 4, 3), "Filter": rand(3, 4, 3, 2)}, conv_transpose, both)
add("conv2d_transpose", {"Input": rand(2, 4, 3, 3), "Filter": rand(4, 3, 3, 3)}, conv_transpose, both,
    {"groups": 2, "strides": [2, 3], "paddings": [1, 1]})
add("conv2d_transpose", {"Input": rand(1, 2, 3, 3), "Filter": rand(2, 3, 3, 3)}, conv_transpose, both,
    {"strides": [2, 2], "paddings": [1, 0, 0, 1], "dilations": [1, 2], "output_size": [7, 8]})
add("conv2d_transpose", {"Input": rand(1, 3, 4, 2), "Filter": rand(2, 3, 2, 2)}, conv_transpose, both, {"data_format": "NHWC"})
for data_format, image in (("NCHW", (2, 2, 4, 3)), ("NHWC", (2, 4, 3, 2))):
    add("conv2d_transpose", {"Input": rand(*image), "Filter": rand(2, 3, 2, 2), "Bias": rand(3)}, conv_transpose,
        [*both, "Bias"], {"data_format": data_format})
fails("conv2d_transpose", {"Input": rand(1, 2, 3, 3), "Filter": rand(2, 3, 2, 2), "Bias": rand(2)},
      "3 output channels", ["Output"])
add("depthwise_conv2d_transpose", {"Input": rand(2, 3, 3, 3), "Filter": rand(3, 1, 3, 3)}, conv_transpose,
    both, {"groups": 3, "strides": [2, 2]})
add("conv3d_transpose", {"Input": rand(1, 2, 2, 3, 2), "Filter": rand(2, 3, 2, 2, 3)}, conv_transpose, both,
    {"strides": [1, 2, 1], "paddings": [0, 1, 1]})
fails("conv2d_transpose", {"Input": rand(1, 2, 3, 3), "Filter": rand(2, 3, 3, 3)}, "cannot be reached",
      ["Output"], {"output_size": [9, 5]})


def conv_shift(inputs, attrs):
    x, y = inputs["X"], inputs["Y"]
    half = y.shape[1] // 2
    return {"Out": sum(np.roll(x, half - j, 1) * y[:, j : j + 1] for j in range(y.shape[1]))}


add("conv_shift", {"X": rand(3, 7), "Y": rand(3, 5)}, conv_shift, ["X", "Y"])
fails("conv_shift", {"X": rand(3, 7), "Y": rand(3, 4)}, "must be odd")


def row_conv(inputs, attrs):
    x, w = inputs["X"], inputs["Filter"]
    if isinstance(x, tuple):
        cuts = np.cumsum([0, *x[1]])
        parts = [x[0][a:b] for a, b in zip(cuts, cuts[1:])]
    else:
        parts = list(x)
    outs = [sum(np.pad(s[k:], [(0, min(k, len(s))), (0, 0)]) * w[k] for k in range(len(w))) for s in parts]
    return {"Out": (np.concatenate(outs), x[1]) if isinstance(x, tuple) else np.stack(outs)}


add("row_conv", {"X": (rand(8, 3), [4, 1, 3]), "Filter": rand(3, 3)}, row_conv, ["X", "Filter"])
add("row_conv", {"X": rand(2, 5, 3), "Filter": rand(2, 3)}, row_conv, ["X", "Filter"])

# ---- pooling ----


def pool(inputs, attrs):
    x = inputs["X"]
    last = attrs.get("data_format", "NCHW") in ("NHWC", "NDHWC")
    if last:
        x = np.moveaxis(x, -1, 1)
    axes, size = x.ndim - 2, x.shape[2:]
    adaptive, whole = attrs.get("adaptive"), attrs.get("global_pooling")
    kernel = list(size) if whole else list(attrs["ksize"])
    stride = attrs.get("strides", [1] * axes)
    padding = [(0, 0)] * axes if whole or adaptive else pads(attrs, size, kernel, stride, axes)
    up = attrs.get("ceil_mode", False)
    if adaptive:
        out = kernel
    else:
        room = [n - k + a + b for n, k, (a, b) in zip(size, kernel, padding)]
        out = [int((r + (s - 1 if up else 0)) / s) + 1 for r, s in zip(room, stride)]
    y = np.zeros(x.shape[:2] + tuple(out))
    mask = np.zeros(y.shape, dtype="int32")
    for place in product(*map(range, out)):
        cut, full = [], 1
        for i, p in enumerate(place):
            if adaptive:
                a, b = p * size[i] // out[i], -(-(p + 1) * size[i] // out[i])
            else:
                a = p * stride[i] - padding[i][0]
                a, b = max(a, 0), min(a + kernel[i], size[i])
            cut.append(slice(a, b))
            full *= kernel[i]
        part = x[(slice(None), slice(None), *cut)]
        at = (slice(None), slice(None), *place)
        flat = part.reshape(*part.shape[:2], -1)
        if attrs.get("pooling_type", "max") == "max":
            y[at] = flat.max(-1)
            inside = np.unravel_index(flat.argmax(-1), part.shape[2:])
            mask[at] = np.ravel_multi_index([i + c.start for i, c in zip(inside, cut)], size)
        else:
            y[at] = flat.sum(-1) / (flat.shape[-1] if attrs.get("exclusive", True) or adaptive else full)
    return {"Out": np.moveaxis(y, 1, -1) if last else y, "Mask": mask}


def only_out(inputs, attrs):
    return {"Out": pool(inputs, attrs)["Out"]}


for kind in ("max", "avg"):
    for attrs in [
        {"ksize": [2, 2], "strides": [2, 2]},
        {"ksize": [3, 2], "strides": [2, 1], "paddings": [1, 1]},
        {"ksize": [3, 3], "strides": [2, 2], "paddings": [1, 1], "ceil_mode": True},
        {"ksize": [3, 3], "strides": [2, 2], "paddings": [0, 1, 1, 0]},
        {"ksize": [3, 3], "strides": [3, 3], "paddings": [1, 1], "exclusive": False},
        {"ksize": [7, 8], "strides": [3, 3]},
        {"ksize": [9, 7], "strides": [5, 2], "exclusive": False},
        {"ksize": [9, 10], "strides": [3, 3], "paddings": [1, 1]},
        {"ksize": [2, 3], "adaptive": True},
        {"ksize": [2, 2], "global_pooling": True},
        {"ksize": [3, 3], "strides": [2, 2], "padding_algorithm": "SAME"},
        {"ksize": [2, 2], "strides": [2, 2], "padding_algorithm": "VALID"},
    ]:
        add("pool2d", {"X": spread(2, 2, 5, 6)}, only_out, ["X"], {"pooling_type": kind, **attrs})
    add("pool2d", {"X": spread(2, 5, 6, 3)}, only_out, ["X"],
        {"pooling_type": kind, "ksize": [3, 2], "strides": [2, 2], "paddings": [1, 0], "data_format": "NHWC"})
    add("pool3d", {"X": spread(1, 2, 4, 5, 3)}, only_out, ["X"],
        {"pooling_type": kind, "ksize": [2, 3, 2], "strides": [2, 2, 1], "paddings": [0, 1, 1]})
    add("pool3d", {"X": spread(1, 4, 3, 3, 2)}, only_out, ["X"],
        {"pooling_type": kind, "ksize": [2, 2, 2], "strides": [2, 1, 1], "data_format": "NDHWC"})
    add("pool3d", {"X": spread(1, 2, 4, 5, 3)}, only_out, ["X"], {"pooling_type": kind, "ksize": [2, 2, 2], "adaptive": True})
for attrs in [{"ksize": [3, 2], "strides": [2, 2], "paddings": [1, 1]}, {"ksize": [2, 3], "adaptive": True},
              {"ksize": [1, 1], "global_pooling": True}]:
    add("max_pool2d_with_index", {"X": spread(2, 2, 5, 6)}, pool, ["X"], attrs)
add("max_pool3d_with_index", {"X": spread(1, 2, 4, 5, 3)}, pool, ["X"],
    {"ksize": [2, 3, 2], "strides": [2, 2, 1], "paddings": [0, 1, 1]})
add("max_pool2d_with_index", {"X": spread(2, 2, 5, 6)}, pool, ["X"], {"ksize": [6, 8], "strides": [2, 3]})
fails("pool2d", {"X": rand(1, 1, 2, 2)}, "too small", attrs={"pooling_type": "max", "ksize": [3, 3]})
fails("pool2d", {"X": rand(1, 1, 2, 2)}, "too small", attrs={"pooling_type": "max", "ksize": [4, 4], "strides": [2, 2]})
fails("pool2d", {"X": rand(1, 1, 4, 4)}, "give max or avg", attrs={"pooling_type": "mean", "ksize": [3, 3]})


def unpool(inputs, attrs):
    x, at = inputs["X"], inputs["Indices"]
    size = [(n - 1) * s - 2 * p + k for n, s, p, k in zip(x.shape[2:], attrs["strides"], attrs["paddings"], attrs["ksize"])]
    y = np.zeros((x.shape[0] * x.shape[1], size[0] * size[1]))
    for row, i, v in zip(y, at.reshape(len(y), -1), x.reshape(len(y), -1)):
        row[i] = v
    return {"Out": y.reshape(*x.shape[:2], *size)}


places = np.stack([np.stack([rng.permutation(36)[:9].reshape(3, 3) for _ in range(3)]) for _ in range(2)]).astype("int32")
settings = {"ksize": [2, 2], "strides": [2, 2], "paddings": [0, 0], "unpooling_type": "max"}
add("unpool", {"X": rand(2, 3, 3, 3), "Indices": places}, unpool, ["X"], settings)
fails("unpool", {"X": rand(2, 3, 3, 3), "Indices": places + 30}, "an output plane has 36 places", attrs=settings)


def spp(inputs, attrs):
    x, rows = inputs["X"], []
    for level in range(attrs["pyramid_height"]):
        bins = 2**level
        kernel = [-(-n // bins) for n in x.shape[2:]]
        padding = [(k * bins - n + 1) // 2 for k, n in zip(kernel, x.shape[2:])]
        settings = {"ksize": kernel, "strides": kernel, "paddings": padding, "pooling_type": attrs["pooling_type"]}
        rows.append(pool(inputs, settings)["Out"].reshape(len(x), -1))
    return {"Out": np.concatenate(rows, 1)}


for kind in ("max", "avg"):
    add("spp", {"X": spread(2, 3, 7, 6)}, spp, ["X"], {"pyramid_height": 3, "pooling_type": kind})

# ---- normalisation ----


def batch_norm(inputs, attrs):
    x = inputs["X"]
    last = attrs.get("data_layout", "NCHW") == "NHWC"
    axis = x.ndim - 1 if last else 1
    rest = tuple(i for i in range(x.ndim) if i != axis)
    shape = [1] * x.ndim
    shape[axis] = -1
    fixed = attrs.get("is_test") or attrs.get("use_global_stats")
    eps, momentum = attrs.get("epsilon", 1e-5), attrs.get("momentum", 0.9)
    mean, var = (inputs["Mean"], inputs["Variance"]) if fixed else (x.mean(rest), x.var(rest))
    inv = 1 / np.sqrt(var + eps)
    y = (x - mean.reshape(shape)) * (inv * inputs["Scale"]).reshape(shape) + inputs["Bias"].reshape(shape)
    new_mean = inputs["Mean"] if fixed else inputs["Mean"] * momentum + mean * (1 - momentum)
    new_var = inputs["Variance"] if fixed else inputs["Variance"] * momentum + var * (1 - momentum)
    return {"Y": y, "MeanOut": new_mean, "VarianceOut": new_var, "SavedMean": mean, "SavedVariance": inv}


def stats(c):
    return {"Scale": rand(c), "Bias": rand(c), "Mean": rand(c), "Variance": rand(c, low=0.5, high=2)}


more = {"no_grad_check": ["MeanOut", "VarianceOut", "SavedMean", "SavedVariance"], "grad_tol": 1e-5, "tol": 1e-6}
for shape, attrs in [((4, 3), {}), ((3, 4, 5), {}), ((2, 3, 4, 5), {}), ((2, 3, 2, 2, 3), {}),
                     ((2, 4, 5, 3), {"data_layout": "NHWC"}),
                     ((3, 70), {}), ((2, 3, 4, 5), {"use_global_stats": True}),
                     ((2, 4, 5, 3), {"data_layout": "NHWC", "use_global_stats": True})]:
    channels = shape[-1] if attrs.get("data_layout") == "NHWC" else shape[1]
    add("batch_norm", {"X": rand(*shape), **stats(channels)}, batch_norm, ["X", "Scale", "Bias"],
        {"momentum": 0.75, **attrs}, **more)
add("batch_norm", {"X": rand(2, 3, 4, 5), **stats(3)}, batch_norm, attrs={"is_test": True}, tol=1e-6)
fails("batch_norm", {"X": rand(2, 4, 3), **stats(3)}, "has 4 channels",
      ["Y", "MeanOut", "VarianceOut", "SavedMean", "SavedVariance"])


def layer_norm(inputs, attrs):
    x = inputs["X"]
    at = attrs.get("begin_norm_axis", 1)
    rows = x.reshape(int(np.prod(x.shape[:at])), -1)
    mean, var = rows.mean(1), rows.var(1)
    y = (rows - mean[:, None]) / np.sqrt(var + attrs.get("epsilon", 1e-5))[:, None]
    y = y * inputs.get("Scale", 1.0) + inputs.get("Bias", 0.0)
    return {"Y": y.reshape(x.shape), "Mean": mean, "Variance": var}


more = {"no_grad_check": ["Mean", "Variance"], "grad_tol": 1e-5, "tol": 1e-6}
add("layer_norm", {"X": rand(3, 7), "Scale": rand(7), "Bias": rand(7)}, layer_norm, ["X", "Scale", "Bias"], **more)
add("layer_norm", {"X": rand(2, 3, 5), "Scale": rand(5), "Bias": rand(5)}, layer_norm, ["X", "Scale", "Bias"],
    {"begin_norm_axis": 2}, **more)
add("layer_norm", {"X": rand(2, 3, 5), "Scale": rand(15)}, layer_norm, ["X", "Scale"], **more)
add("layer_norm", {"X": rand(2, 3, 5), "Bias": rand(15)}, layer_norm, ["X", "Bias"], **more)
add("layer_norm", {"X": rand(4, 200)}, layer_norm, ["X"], **more)


def group_norm(inputs, attrs):
    x = inputs["X"]
    last = attrs.get("data_layout", "NCHW") == "NHWC"
    if last:
        x = np.moveaxis(x, -1, 1)
    channels, groups = x.shape[1], attrs["groups"]
    each = (channels - 1) // groups + 1
    y = np.zeros_like(x)
    means, variances = np.zeros((len(x), groups)), np.zeros((len(x), groups))
    for n in range(len(x)):
        for g in range(groups):
            part = x[n, g * each : (g + 1) * each]
            means[n, g], variances[n, g] = part.mean(), part.var()
            y[n, g * each : (g + 1) * each] = (part - part.mean()) / np.sqrt(part.var() + attrs.get("epsilon", 1e-5))
    wide = (-1, *[1] * (x.ndim - 2))
    if "Scale" in inputs:
        y = y * inputs["Scale"].reshape(wide)
    if "Bias" in inputs:
        y = y + inputs["Bias"].reshape(wide)
    return {"Y": np.moveaxis(y, 1, -1) if last else y, "Mean": means, "Variance": variances}


add("group_norm", {"X": rand(2, 4, 3, 3), "Scale": rand(4), "Bias": rand(4)}, group_norm,
    ["X", "Scale", "Bias"], {"groups": 2}, **more)
add("group_norm", {"X": rand(2, 5, 3, 2)}, group_norm, ["X"], {"groups": 2}, **more)
add("group_norm", {"X": rand(2, 3, 2, 4), "Scale": rand(4), "Bias": rand(4)}, group_norm, ["X", "Scale", "Bias"],
    {"groups": 2, "data_layout": "NHWC"}, **more)


def instance_norm(inputs, attrs):
    x = inputs["X"]
    rest = tuple(range(2, x.ndim))
    mean, var = x.mean(rest), x.var(rest)
    inv = 1 / np.sqrt(var + attrs.get("epsilon", 1e-5))
    wide = (*x.shape[:2], *[1] * len(rest))
    y = (x - mean.reshape(wide)) * inv.reshape(wide)
    channel = (-1, *[1] * len(rest))
    y = y * inputs["Scale"].reshape(channel) + inputs["Bias"].reshape(channel)
    return {"Y": y, "SavedMean": mean.reshape(-1), "SavedVariance": inv.reshape(-1)}


add("instance_norm", {"X": rand(2, 3, 4, 5), "Scale": rand(3), "Bias": rand(3)}, instance_norm, ["X", "Scale", "Bias"],
    no_grad_check=["SavedMean", "SavedVariance"], grad_tol=1e-5, tol=1e-6)


def lrn(inputs, attrs):
    x = inputs["X"]
    last = attrs.get("data_format") == "NHWC"
    if last:
        x = np.moveaxis(x, -1, 1)
    reach = (attrs["n"] - 1) // 2
    square = np.pad(x * x, [(0, 0), (reach, reach), (0, 0), (0, 0)])
    mid = attrs["k"] + attrs["alpha"] * sum(square[:, i : i + x.shape[1]] for i in range(attrs["n"]))
    out = x * mid ** -attrs["beta"]
    return {"Out": np.moveaxis(out, 1, -1) if last else out, "MidOut": np.moveaxis(mid, 1, -1) if last else mid}


for layout in ("NCHW", "NHWC"):
    add("lrn", {"X": rand(2, 4, 3, 5)}, lrn, ["X"], {"n": 3, "k": 2.0, "alpha": 0.25, "beta": 0.75, "data_format": layout},
        no_grad_check=["MidOut"])


def data_norm(inputs, attrs):
    x = inputs["X"]
    means, scales = inputs["BatchSum"] / inputs["BatchSize"], np.sqrt(inputs["BatchSize"] / inputs["BatchSquareSum"])
    y = (x - means) * scales
    if attrs.get("enable_scale_and_shift"):
        y = y * inputs["scale_w"] + inputs["bias"]
    slot = attrs.get("slot_dim", -1)
    if slot > 0:
        shown = np.repeat(np.abs(x[:, ::slot]) > 1e-7, slot, 1)
        y = np.where(shown, y, 0)
    return {"Y": y, "Means": means, "Scales": scales}


counts = {"BatchSize": rand(4, low=5, high=9), "BatchSum": rand(4), "BatchSquareSum": rand(4, low=5, high=9)}
more = {"no_grad_check": ["Means", "Scales"]}
add("data_norm", {"X": rand(3, 4), **counts}, data_norm, ["X"], **more)
add("data_norm", {"X": rand(3, 4), **counts, "scale_w": rand(4), "bias": rand(4)}, data_norm, ["X", "scale_w", "bias"],
    {"enable_scale_and_shift": True}, **more)
some = rand(3, 4, low=0.2)
some[1, 2] = 0
add("data_norm", {"X": some, **counts}, data_norm, attrs={"slot_dim": 2})


def affine_channel(inputs, attrs):
    x = inputs["X"]
    wide = (-1,) if attrs.get("data_layout") == "NHWC" else (-1, *[1] * (x.ndim - 2))
    return {"Out": x * inputs["Scale"].reshape(wide) + inputs["Bias"].reshape(wide)}


for shape, layout in [((2, 3, 4, 5), "NCHW"), ((2, 4, 5, 3), "NHWC"), ((4, 3), "NCHW")]:
    add("affine_channel", {"X": rand(*shape), "Scale": rand(3), "Bias": rand(3)}, affine_channel,
        ["X", "Scale", "Bias"], {"data_layout": layout})

# ---- places in images and sequences ----


def interpolate(inputs, attrs):
    x = inputs["X"]
    last = attrs.get("data_layout") == "NHWC"
    if last:
        x = np.moveaxis(x, -1, 1)
    size = [attrs.get("out_h", 0), attrs.get("out_w", 0)]
    if attrs.get("scale", 0) > 0:
        size = [int(n * attrs["scale"]) for n in x.shape[2:]]
    if "OutSize" in inputs:
        size = list(inputs["OutSize"])
    corners, mode = attrs.get("align_corners", True), attrs.get("align_mode", 1)
    nearest = attrs["interp_method"] == "nearest"
    y = x
    for axis, (n, m) in enumerate(zip(x.shape[2:], size), 2):
        ratio = ((n - 1) / (m - 1) if corners else n / m) if m > 1 else 0
        i = np.arange(m)
        at = ratio * (i + 0.5) - 0.5 if mode == 0 and not corners and not nearest else ratio * i
        if nearest:
            y = np.take(y, np.minimum((at + 0.5 if corners else at).astype(int), n - 1), axis)
            continue
        at = np.maximum(at, 0)
        low = np.minimum(at.astype(int), n - 1)
        share = (at - low).reshape([-1 if k == axis else 1 for k in range(4)])
        y = np.take(y, low, axis) * (1 - share) + np.take(y, np.minimum(low + 1, n - 1), axis) * share
    return {"Out": np.moveaxis(y, 1, -1) if last else y}


for attrs in [{"out_h": 7, "out_w": 3}, {"out_h": 2, "out_w": 8, "align_corners": False},
              {"out_h": 7, "out_w": 9, "align_corners": False, "align_mode": 0}, {"scale": 2.0},
              {"out_h": 1, "out_w": 1}, {"out_h": 4, "out_w": 5}]:
    for method in ("bilinear", "nearest"):
        add(f"{method}_interp", {"X": rand(2, 3, 4, 5)}, interpolate,
            ["X"], {"interp_method": method, **attrs}, tol=1e-5, grad_tol=1e-5)
for op in ("bilinear_interp", "nearest_interp"):
    CASES.append({"op": op, "inputs": {"X": rand(2, 3, 0, 5)}, "attrs": {"out_h": 6, "out_w": 7},
                  "declared": {"X": [-1, 3, -1, -1]},
                  "outputs": {"Out": np.zeros((2, 3, 6, 7))}, "raises": "an image without points"})
add("bilinear_interp", {"X": rand(2, 4, 5, 3)}, interpolate, ["X"],
    {"interp_method": "bilinear", "data_layout": "NHWC", "out_h": 6, "out_w": 7},
    tol=1e-5, grad_tol=1e-5)
add("bilinear_interp", {"X": rand(2, 3, 4, 5), "OutSize": np.array([6, 3], dtype="int32")}, interpolate, ["X"],
    {"interp_method": "bilinear", "out_h": 6, "out_w": 3}, tol=1e-5, grad_tol=1e-5)
fails("nearest_interp", {"X": rand(1, 1, 2, 2)}, "The wanted size", attrs={"interp_method": "nearest"})


def line(n):
    return np.linspace(-1, 1, n) if n > 1 else np.array([-1.0])


def affine_grid(inputs, attrs):
    h, w = (attrs.get("output_shape") or list(inputs["OutputShape"]))[2:]
    x, y = np.meshgrid(line(w), line(h))
    base = np.stack([x, y, np.ones_like(x)], -1)
    return {"Output": np.einsum("hwk,njk->nhwj", base, inputs["Theta"])}


add("affine_grid", {"Theta": rand(2, 2, 3)}, affine_grid, ["Theta"], {"output_shape": [2, 5, 3, 4]})
add("affine_grid", {"Theta": rand(2, 2, 3), "OutputShape": np.array([2, 5, 3, 4], dtype="int32")}, affine_grid, ["Theta"])


def grid_sampler(inputs, attrs):
    x, grid = inputs["X"], inputs["Grid"]
    n, c, h, w = x.shape
    out = np.zeros((n, c, *grid.shape[1:3]))
    for i, a, b in product(range(n), range(grid.shape[1]), range(grid.shape[2])):
        px, py = (grid[i, a, b, 0] + 1) * (w - 1) / 2, (grid[i, a, b, 1] + 1) * (h - 1) / 2
        for dx, dy in product((0, 1), repeat=2):
            qx, qy = int(np.floor(px)) + dx, int(np.floor(py)) + dy
            if 0 <= qx < w and 0 <= qy < h:
                out[i, :, a, b] += x[i, :, qy, qx] * (1 - abs(px - qx)) * (1 - abs(py - qy))
    return {"Output": out}


add("grid_sampler", {"X": rand(2, 3, 4, 5), "Grid": rand(2, 4, 5, 2, low=-0.97, high=0.97)}, grid_sampler,
    ["X", "Grid"], grad_tol=1e-5)
add("grid_sampler", {"X": rand(1, 2, 4, 5), "Grid": rand(1, 3, 3, 2, low=-1.37, high=1.37)}, grid_sampler, ["X"], grad_tol=1e-5)


def position_encoding(inputs, attrs):
    x = inputs["X"]
    array, lengths = x if isinstance(x, tuple) else (x.reshape(-1, x.shape[-1]), [x.shape[1]] * len(x))
    half = array.shape[1] // 2
    steps = np.concatenate([np.arange(n) for n in lengths]).reshape(-1, 1)
    angle = steps / (10000.0 ** (np.arange(half) / (half - 1)) if half > 1 else 10000.0)
    out = array * attrs["alpha"] + np.concatenate([np.sin(angle), np.cos(angle)], 1) * attrs["beta"]
    return {"Out": (out, x[1]) if isinstance(x, tuple) else out.reshape(x.shape)}


settings = {"alpha": 0.5, "beta": 0.25}
add("add_position_encoding", {"X": rand(2, 3, 6)}, position_encoding, ["X"], settings)
add("add_position_encoding", {"X": (rand(6, 2), [4, 2])}, position_encoding, ["X"], settings)
fails("add_position_encoding", {"X": rand(2, 3, 5)}, "must be even", attrs=settings)

# ---- no rows at all ----

add("conv2d", {"Input": rand(0, 3, 5, 5), "Filter": rand(4, 3, 3, 3)}, {"Output": rand(0, 4, 3, 3)})
add("pool2d", {"X": rand(0, 3, 4, 4)}, {"Out": rand(0, 3, 2, 2)}, attrs={"pooling_type": "max", "ksize": [2, 2], "strides": [2, 2]})
add("layer_norm", {"X": rand(0, 4)}, {"Y": rand(0, 4), "Mean": rand(0), "Variance": rand(0)})

# ---- batch_norm of one value for each channel, and of none: the averages stay ----


def unchanged(inputs, attrs):
    zeros = np.zeros(inputs["Mean"].shape)
    return {"Y": inputs["X"], "MeanOut": inputs["Mean"], "VarianceOut": inputs["Variance"],
            "SavedMean": zeros, "SavedVariance": zeros}


for rows in (1, 0):
    add("batch_norm", {"X": rand(rows, 3), **stats(3)}, unchanged, attrs={"momentum": 0.75})
