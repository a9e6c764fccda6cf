"""Cases for the ops that reshape, join, cut and gather."""

import numpy as np

rng = np.random.RandomState(7)


def rand(*shape):
    """Numbers that are all different, so that a wrong place shows."""
    return np.round(rng.uniform(-1, 1, shape), 6)


def case(op, inputs, outputs, grad=(), **more):
    attrs = more.pop("attrs", {})
    return {"op": op, "inputs": inputs, "attrs": attrs, "outputs": outputs, "grad": list(grad), **more}


CASES = []
add = CASES.append


# ---- views ----
def xshape(x):
    return np.zeros((0,) + x.shape)


x = rand(2, 3, 4)
for shape, result in [([4, 6], (4, 6)), ([-1, 8], (3, 8)), ([0, -1], (2, 12)), ([0, 0, 2, 2], (2, 3, 2, 2)), ([24], (24,))]:
    add(case("reshape", {"X": x}, {"Out": x.reshape(result)}, ["X"], attrs={"shape": shape}))
    add(case("reshape2", {"X": x}, {"Out": x.reshape(result), "XShape": xshape(x)}, ["X"], attrs={"shape": shape}))
add(case("reshape2", {"X": x, "Shape": np.array([3, 8], "int32")}, {"Out": x.reshape(3, 8)}, ["X"], attrs={"shape": [-1, -1]}))
add(case("reshape2", {"X": x, "ShapeTensor": [("s0", np.array([6], "int32")), ("s1", np.array([-1], "int32"))]},
         {"Out": x.reshape(6, 4)}, ["X"], attrs={"shape": [-1, -1]}))
add(case("reshape2", {"X": x.astype("int64")}, {"Out": x.astype("int64").reshape(6, 4)}, attrs={"shape": [6, 4]}))
add(case("reshape2", {"X": (rand(5, 4), [3, 2])}, {}, attrs={"shape": [0, 2, 2]},
         no_check=["Out"]))
add(case("reshape2", {"X": np.zeros((0, 4))}, {"Out": np.zeros((0, 2, 2))}, attrs={"shape": [-1, 2, 2]}, declared={"X": [-1, 4]}))
add(case("reshape2", {"X": x}, {}, attrs={"shape": [5, 5]}, raises="24 elements"))
add(case("reshape2", {"X": x}, {}, attrs={"shape": [-1, -1]}, raises="only one may be"))
add(case("reshape2", {"X": x}, {}, attrs={"shape": [-1, 5]}, raises="does not divide"))

one = rand(1, 3, 1, 5)
for axes, result in [([0], (3, 1, 5)), ([], (3, 5)), ([0, -2], (3, 5)), ([2], (1, 3, 5))]:
    for op in ("squeeze", "squeeze2"):
        add(case(op, {"X": one}, {"Out": one.reshape(result)}, ["X"], attrs={"axes": axes}))
add(case("squeeze2", {"X": one}, {}, attrs={"axes": [1]}, raises="only a size of 1"))
flat = rand(3, 4)
for axes, result in [([0], (1, 3, 4)), ([1], (3, 1, 4)), ([-1], (3, 4, 1)), ([0, 2], (1, 3, 1, 4)), ([0, 1, 2], (1, 1, 1, 3, 4)),
                     ([3, 1, 1], (3, 1, 1, 4, 1))]:
    for op in ("unsqueeze", "unsqueeze2"):
        if axes == [3, 1, 1]:
            continue
        add(case(op, {"X": flat}, {"Out": flat.reshape(result)}, ["X"], attrs={"axes": axes}))
add(case("unsqueeze2", {"X": flat, "AxesTensor": np.array([0, 3], "int32")}, {"Out": flat.reshape(1, 3, 4, 1)}, ["X"]))
add(case("unsqueeze2", {"X": flat}, {}, attrs={"axes": [4]}, raises="axis is 4"))
for axis, result in [(0, (1, 24)), (1, (2, 12)), (2, (6, 4)), (3, (24, 1))]:
    for op in ("flatten", "flatten2"):
        add(case(op, {"X": x}, {"Out": x.reshape(result)}, ["X"], attrs={"axis": axis}))

# ---- transpose ----
for shape, axis in [((3, 5), [1, 0]), ((2, 3, 4), [2, 0, 1]), ((2, 3, 4), [0, 1, 2]), ((2, 3, 4, 5), [0, 2, 3, 1]),
                    ((2, 3, 4, 5), [0, 3, 1, 2]), ((2, 3, 4, 5), [3, 2, 1, 0]), ((2, 3, 2, 3, 2), [0, 2, 1, 4, 3]), ((6,), [0]),
                    ((2, 1, 3, 2, 2, 2), [5, 3, 4, 0, 1, 2])]:
    v = rand(*shape)
    for op in ("transpose", "transpose2"):
        add(case(op, {"X": v}, {"Out": v.transpose(axis)}, ["X"], attrs={"axis": axis}))
big = rand(70, 45)
add(case("transpose2", {"X": big}, {"Out": big.T}, ["X"], attrs={"axis": [1, 0]}))
big = rng.randint(0, 100, (3, 40, 37)).astype("int64")
add(case("transpose2", {"X": big}, {"Out": big.transpose(0, 2, 1)}, attrs={"axis": [0, 2, 1]}))
add(case("transpose2", {"X": flat}, {}, attrs={"axis": [0, 0]}, raises="once"))

# ---- joining and taking apart ----
parts = [rand(2, 3, 2), rand(2, 1, 2), rand(2, 4, 2)]
named = [("x0", parts[0]), ("x1", parts[1]), ("x2", parts[2])]
for axis in (1, -2):
    add(case("concat", {"X": named}, {"Out": np.concatenate(parts, 1)}, ["X"], attrs={"axis": axis}))
rows = [("x0", rand(2, 3)), ("x1", rand(4, 3))]
add(case("concat", {"X": rows}, {"Out": np.concatenate([v for _, v in rows])}, ["X"]))
add(case("concat", {"X": [("x0", flat)]}, {"Out": flat}, ["X"], attrs={"axis": 1}))
columns = [(f"x{i}", rand(5, w)) for i, w in enumerate((10, 1, 3, 20, 150))]
add(case("concat", {"X": columns}, {"Out": np.concatenate([v for _, v in columns], 1)}, ["X"], attrs={"axis": 1}))
add(case("concat", {"X": columns[:2], "AxisTensor": np.array([1], "int32")},
         {"Out": np.concatenate([v for _, v in columns[:2]], 1)}, ["X"]))
add(case("concat", {"X": [("a", (rand(5, 2), [3, 2])), ("b", (rand(4, 2), [1, 3]))]},
         lambda i, a: {"Out": (np.concatenate([v[0] for _, v in i["X"]]), [3, 2, 1, 3])}, ["X"]))
add(case("concat", {"X": [("a", (rand(5, 2), [3, 2])), ("b", (rand(5, 1), [3, 2]))]},
         lambda i, a: {"Out": (np.concatenate([v[0] for _, v in i["X"]], 1), [3, 2])}, ["X"], attrs={"axis": 1}))
add(case("concat", {"X": [("a", rand(2, 3)), ("b", rand(2, 4))]}, {}, raises="only that dimension may differ"))
whole = rand(4, 6, 2)
for attrs, cuts in [({"num": 3, "axis": 1}, [2, 4]), ({"sections": [1, 3, 2], "axis": 1}, [1, 4]),
                    ({"sections": [1, -1, 2], "axis": 1}, [1, 4]), ({"num": 2, "axis": -2}, [3])]:
    add(case("split", {"X": whole}, {"Out": np.split(whole, cuts, 1)}, ["X"], attrs=attrs))
add(case("split", {"X": whole}, {"Out": np.split(whole, 4, 0)}, ["X"], attrs={"num": 4}))
add(case("split", {"X": whole, "SectionsTensorList": [("s0", np.array([1], "int32")), ("s1", np.array([-1], "int32"))]},
         {"Out": np.split(whole, [1], 1)}, ["X"], attrs={"sections": [-1, -1], "axis": 1}))
add(case("split", {"X": whole, "AxisTensor": np.array([1], "int32")}, {"Out": np.split(whole, 2, 1)}, ["X"], attrs={"num": 2}))
add(case("split", {"X": whole}, {"Out": [None] * 4}, attrs={"num": 4, "axis": 1}, raises="equal parts"))
add(case("split", {"X": whole}, {"Out": [None] * 2}, attrs={"sections": [1, 2], "axis": 1}, raises="add up to 3"))
same = [(f"x{i}", rand(2, 3)) for i in range(4)]
for axis in (0, 1, 2, -1, -3):
    add(case("stack", {"X": same}, {"Y": np.stack([v for _, v in same], axis)}, ["X"], attrs={"axis": axis}))
add(case("stack", {"X": [("a", rand(2, 3)), ("b", rand(3, 2))]}, {}, raises="all must have the same"))
for axis in (0, 1, -1):
    taken = [v.squeeze(axis) for v in np.split(whole, whole.shape[axis], axis)]
    add(case("unstack", {"X": whole}, {"Y": taken}, ["X"], attrs={"axis": axis, "num": whole.shape[axis]}))
line = rand(3, 1)
add(case("unstack", {"X": line}, {"Y": [v for v in line]}, ["X"], attrs={"axis": 0, "num": 3}))

# ---- slices ----
s = rand(4, 5, 6)
for axes, starts, ends, result in [
    ([0], [1], [3], s[1:3]), ([0, 2], [1, -3], [100, -1], s[1:, :, -3:-1]), ([1], [-100], [2], s[:, :2]), ([2], [0], [6], s),
]:
    add(case("slice", {"Input": s}, {"Out": result}, ["Input"], attrs={"axes": axes, "starts": starts, "ends": ends}))
add(case("slice", {"Input": s}, {"Out": s[2, :, 1:4]}, ["Input"],
         attrs={"axes": [0, 2], "starts": [2, 1], "ends": [3, 4], "decrease_axis": [0]}))
add(case("slice", {"Input": s}, {"Out": s[1, 2, 3].reshape(1)}, ["Input"],
         attrs={"axes": [0, 1, 2], "starts": [1, 2, 3], "ends": [2, 3, 4], "decrease_axis": [0, 1, 2]}))
add(case("slice", {"Input": s, "StartsTensor": np.array([1, 2], "int32"), "EndsTensor": np.array([3, -1], "int32")},
         {"Out": s[1:3, 2:-1]}, ["Input"], attrs={"axes": [0, 1], "infer_flags": [-1, -1]}))
add(case("slice", {"Input": s, "StartsTensorList": [("a", np.array([-1], "int32"))],
                   "EndsTensorList": [("b", np.array([0], "int32"))]}, {"Out": s[-1]}, ["Input"],
         attrs={"axes": [0], "starts": [-1], "ends": [-1], "infer_flags": [-1], "decrease_axis": [0]}))
add(case("slice", {"Input": (rand(5, 4), [3, 2])}, lambda i, a: {"Out": (i["Input"][0][:, 1:3], [3, 2])}, ["Input"],
         attrs={"axes": [1], "starts": [1], "ends": [3]}))
add(case("slice", {"Input": s}, {}, attrs={"axes": [0], "starts": [3], "ends": [2]}, raises="leave nothing"))
add(case("slice", {"Input": s}, {}, attrs={"axes": [5], "starts": [3], "ends": [2]}, raises="axis is 5"))
for axes, starts, ends, strides, result in [
    ([0], [0], [4], [2], s[::2]), ([1, 2], [4, 0], [0, 6], [-1, 4], s[:, 4:0:-1, ::4]), ([2], [5], [-1], [-2], s[:, :, 5::-2]),
    ([0, 1, 2], [1, -4, 0], [3, 100, 5], [1, 3, 2], s[1:3, -4:100:3, 0:5:2]), ([2], [-1], [-7], [-1], s[:, :, ::-1]),
]:
    add(case("strided_slice", {"Input": s}, {"Out": result}, ["Input"],
             attrs={"axes": axes, "starts": starts, "ends": ends, "strides": strides, "infer_flags": [1] * len(axes)}))
add(case("strided_slice", {"Input": s, "StridesTensor": np.array([3], "int32")}, {"Out": s[:, 1:5:3]}, ["Input"],
         attrs={"axes": [1], "starts": [1], "ends": [5], "strides": [1], "infer_flags": [-1]}))
add(case("strided_slice", {"Input": s}, {}, raises="stride of axis 0 is 0",
         attrs={"axes": [0], "starts": [0], "ends": [2], "strides": [0], "infer_flags": [1]}))

# ---- repeats ----
e = rand(2, 3, 2)
for times in ([2, 1, 3], [1, 1, 1], [1, 4, 1], [2, 2, 2]):
    add(case("expand", {"X": e}, {"Out": np.tile(e, times)}, ["X"], attrs={"expand_times": times}))
add(case("expand", {"X": rand(3)}, lambda i, a: {"Out": np.tile(i["X"], 4)}, ["X"], attrs={"expand_times": [4]}))
add(case("expand", {"X": rand(1, 1, 2, 1, 1, 3)}, lambda i, a: {"Out": np.tile(i["X"], a["expand_times"])}, ["X"],
         attrs={"expand_times": [2, 3, 1, 2, 1, 2]}))
add(case("expand", {"X": e, "ExpandTimes": np.array([2, 1, 2], "int32")}, {"Out": np.tile(e, [2, 1, 2])}, ["X"]))
add(case("expand", {"X": e, "expand_times_tensor": [(f"t{i}", np.array([n], "int32")) for i, n in enumerate((1, 2, 3))]},
         {"Out": np.tile(e, [1, 2, 3])}, ["X"], attrs={"expand_times": [-1, -1, -1]}))
add(case("expand", {"X": e}, {}, attrs={"expand_times": [2, 2]}, raises="one for each dimension"))
add(case("expand_as", {"X": e, "target_tensor": rand(4, 3, 6)}, {"Out": np.tile(e, [2, 1, 3])}, ["X"]))
add(case("expand_as", {"X": e, "target_tensor": rand(3, 3, 2)}, {}, raises="no multiple"))

# ---- rows by number ----
table = rand(6, 3)
for dtype in ("int32", "int64"):
    index = np.array([1, 4, 1, 0, 5], dtype)
    add(case("gather", {"X": table, "Index": index}, {"Out": table[index]}, ["X"]))
    add(case("gather", {"X": table, "Index": index.reshape(-1, 1)}, {"Out": table[index]}, ["X"]))
wide = rand(3, 40, 30)
add(case("gather", {"X": wide, "Index": np.array([2, 2, 0])}, {"Out": wide[[2, 2, 0]]}, ["X"]))
add(case("gather", {"X": rand(7), "Index": np.array([6, 1])}, lambda i, a: {"Out": i["X"][[6, 1]]}, ["X"]))
add(case("gather", {"X": table, "Index": np.array([1, 6])}, {}, raises="it must be in 0 to 5"))
add(case("gather", {"X": table, "Index": np.array([-1], "int32")}, {}, raises="it must be in 0 to 5"))
coords = np.array([[0, 1], [3, 2], [0, 1]])
add(case("gather_nd", {"X": s, "Index": coords}, {"Out": s[coords[:, 0], coords[:, 1]]}, ["X"]))
add(case("gather_nd", {"X": s, "Index": np.array([[[1], [2]]], "int32")}, {"Out": s[[[1, 2]]]}, ["X"]))
add(case("gather_nd", {"X": s, "Index": np.array([[1, 2, 3], [0, 0, 0]])}, {"Out": s[[1, 0], [2, 0], [3, 0]]}, ["X"]))
add(case("gather_nd", {"X": s, "Index": np.array([[1, 5]])}, {}, raises="coordinate 1"))
ids, new = np.array([1, 4, 0]), rand(3, 3)


def overwritten(x, ids, new):
    out = x.copy()
    out[ids] = new
    return out


for dtype in ("int32", "int64"):
    add(case("scatter", {"X": table, "Ids": ids.astype(dtype), "Updates": new}, {"Out": overwritten(table, ids, new)},
             ["X", "Updates"]))
twice = np.array([2, 5, 2])
summed = table.copy()
summed[[2, 5]] = 0
np.add.at(summed, twice, new)
add(case("scatter", {"X": table, "Ids": twice, "Updates": new}, {"Out": summed}, ["X", "Updates"], attrs={"overwrite": False}))
add(case("scatter", {"X": table, "Ids": twice, "Updates": new}, {"Out": overwritten(table, twice, new)}, ["X", "Updates"]))
add(case("scatter", {"X": table, "Ids": np.array([0, 6, 1]), "Updates": new}, {}, raises="it must be in 0 to 5"))
add(case("scatter", {"X": table, "Ids": np.array([0, 1]), "Updates": new}, {}, raises="it must be [2, 3]"))
plus = s.copy()
updates = rand(3, 6)
np.add.at(plus, (coords[:, 0], coords[:, 1]), updates)
add(case("scatter_nd_add", {"X": s, "Index": coords, "Updates": updates}, {"Out": plus}, ["X", "Updates"]))

# ---- borders and boxes ----
add(case("pad", {"X": flat}, {"Out": np.pad(flat, [(1, 0), (2, 3)], constant_values=0.5)}, ["X"],
         attrs={"paddings": [1, 0, 2, 3], "pad_value": 0.5}))
add(case("pad", {"X": e}, {"Out": np.pad(e, [(0, 0), (1, 1), (0, 2)])}, ["X"], attrs={"paddings": [0, 0, 1, 1, 0, 2]}))
add(case("pad", {"X": flat}, {}, attrs={"paddings": [1, 0]}, raises="two for each dimension"))
add(case("pad_constant_like", {"X": rand(4, 5, 2), "Y": e}, {"Out": np.pad(e, [(0, 2), (0, 2), (0, 0)], constant_values=-1.5)},
         ["Y"], attrs={"pad_value": -1.5}))
image = rand(2, 3, 4, 5)
for mode, numpy_mode in (("constant", "constant"), ("reflect", "reflect"), ("edge", "edge")):
    for layout in ("NCHW", "NHWC"):
        width = [(0, 0), (0, 0), (1, 2), (3, 0)] if layout == "NCHW" else [(0, 0), (1, 2), (3, 0), (0, 0)]
        more = {"constant_values": 0.25} if mode == "constant" else {}
        add(case("pad2d", {"X": image if layout == "NCHW" else rand(2, 4, 5, 3)},
                 lambda i, a, w=width, m=numpy_mode, k=more: {"Out": np.pad(i["X"], w, mode=m, **k)}, ["X"],
                 attrs={"paddings": [1, 2, 3, 0], "mode": mode, "pad_value": 0.25, "data_format": layout}))
add(case("pad2d", {"X": image}, {}, attrs={"paddings": [4, 0, 0, 0], "mode": "reflect"}, raises="mirrored by at most 3"))
add(case("crop", {"X": s}, {"Out": s[1:3, 2:5, 0:4]}, ["X"], attrs={"offsets": [1, 2, 0], "shape": [2, 3, 4]}))
add(case("crop", {"X": s, "Y": rand(2, 2, 2)}, {"Out": s[2:4, 1:3, 3:5]}, ["X"], attrs={"offsets": [2, 1, 3]}))
add(case("crop", {"X": s, "Offsets": np.array([0, 1, 2], "int32")}, {"Out": s[0:2, 1:3, 2:4]}, ["X"], attrs={"shape": [2, 2, 2]}))
add(case("crop", {"X": s}, {}, attrs={"offsets": [3, 2, 0], "shape": [2, 3, 4]}, raises="change offsets or shape"))
add(case("crop_tensor", {"X": s}, {"Out": s[1:3, 2:, 0:4]}, ["X"], attrs={"offsets": [1, 2, 0], "shape": [2, -1, 4]}))
add(case("crop_tensor", {"X": s, "Shape": np.array([2, 2, -1], "int32"), "Offsets": np.array([0, 1, 2], "int32")},
         {"Out": s[0:2, 1:3, 2:]}, ["X"]))
add(case("crop_tensor", {"X": s, "ShapeTensor": [(f"n{i}", np.array([n], "int32")) for i, n in enumerate((2, 3, 1))],
                         "OffsetsTensor": [(f"o{i}", np.array([n], "int32")) for i, n in enumerate((2, 2, 5))]},
         {"Out": s[2:4, 2:5, 5:6]}, ["X"], attrs={"shape": [-1, -1, -1], "offsets": [-1, -1, -1]}))

# ---- images rearranged ----
img = rand(2, 8, 4, 6)
for block in (2,):
    n, c, h, w = img.shape
    moved = img.reshape(n, block, block, c // block**2, h, w).transpose(0, 3, 4, 1, 5, 2)
    add(case("space_to_depth", {"X": img}, {"Out": moved.reshape(n, c * block**2, h // block, w // block)}, ["X"],
             attrs={"blocksize": block}))
for block in (1, 2**32, 2**40, 2**62):  # whose squares are 1, and 0 in 64 bits
    add(case("space_to_depth", {"X": img}, {}, attrs={"blocksize": block}, raises="it must be at least 2 and at most"))
up = rand(2, 9, 2, 3)
add(case("pixel_shuffle", {"X": up},
         {"Out": up.reshape(2, 1, 3, 3, 2, 3).transpose(0, 1, 4, 2, 5, 3).reshape(2, 1, 6, 9)}, ["X"], attrs={"upscale_factor": 3}))
add(case("pixel_shuffle", {"X": up}, {}, attrs={"upscale_factor": 2}, raises="multiple of upscale_factor"))
add(case("pixel_shuffle", {"X": np.zeros((2, 0, 2, 3))}, {}, attrs={"upscale_factor": 2**31 - 1},
         raises="more than any memory holds"))
add(case("shuffle_channel", {"X": img}, {"Out": img.reshape(2, 2, 4, 24).transpose(0, 2, 1, 3).reshape(img.shape)}, ["X"],
         attrs={"group": 2}))
for axis in ([0], [1, -1], [0, 1, 2, 3]):
    add(case("reverse", {"X": img}, {"Out": np.flip(img, axis)}, ["X"], attrs={"axis": axis}))


def shifted(x, t, ratio):
    n, c, h, w = x.shape
    moments = x.reshape(n // t, t, c, h, w)
    one, two = int(c * ratio), int(c * 2 * ratio)
    out = np.zeros_like(moments)
    out[:, 1:, :one] = moments[:, :-1, :one]
    out[:, :-1, one:two] = moments[:, 1:, one:two]
    out[:, :, two:] = moments[:, :, two:]
    return out.reshape(x.shape)


for t, ratio in ((3, 0.25), (2, 0.4), (1, 0.25), (6, 0.2)):
    v = rand(6, 5, 2, 3)
    add(case("temporal_shift", {"X": v}, {"Out": shifted(v, t, ratio)}, ["X"], attrs={"seg_num": t, "shift_ratio": ratio}))

# ---- choosing ----
choices = [(f"x{i}", rand(4, 3)) for i in range(3)]
which = np.array([[2], [0], [1], [2]], "int32")
add(case("multiplex", {"Ids": which, "X": choices},
         {"Out": np.stack([choices[k][1][i] for i, k in enumerate(which[:, 0])])}, ["X"]))
add(case("multiplex", {"Ids": which + 1, "X": choices}, {}, raises="in 0 to 2"))
cond = rng.rand(3, 4) > 0.5
a, b = rand(3, 4), rand(3, 4)
add(case("where", {"Condition": cond, "X": a, "Y": b}, {"Out": np.where(cond, a, b)}, ["X", "Y"]))
add(case("where_index", {"Condition": cond}, {"Out": np.argwhere(cond)}))
add(case("where_index", {"Condition": np.zeros((2, 2), bool)}, {"Out": np.zeros((0, 2), "int64")}))
for keep in (False, True):
    for axis in (0, 1, -1):
        kept = (lambda v, axis=axis: np.expand_dims(v, axis)) if keep else (lambda v: v)
        add(case("arg_max", {"X": s}, {"Out": kept(s.argmax(axis))}, attrs={"axis": axis, "keepdims": keep}))
        add(case("arg_min", {"X": s}, {"Out": kept(s.argmin(axis))}, attrs={"axis": axis, "keepdims": keep}))
add(case("arg_max", {"X": np.array([3, 9, 9, 1], "int32")}, {"Out": np.array([1], "int32")}, attrs={"axis": 0, "dtype": 2}))
long = rand(3, 50)
for axis in (0, 1, -1):
    for down in (False, True):
        for v in (s, long, rng.randint(0, 5, (4, 40)).astype("int64")):
            order = np.argsort(-v if down else v, axis, kind="stable")
            add(case("argsort", {"X": v}, {"Out": np.take_along_axis(v, order, axis), "Indices": order},
                     ["X"] if v.dtype == np.float64 else [], attrs={"axis": axis, "descending": down}))
numbers = np.array([5, 3, 5, 0, 3, 3, 8], "int64")
first = np.array([5, 3, 0, 8], "int64")
index = np.array([0, 1, 0, 2, 1, 1, 3])
for dtype, code in (("int32", 2), ("int64", 3)):
    add(case("unique", {"X": numbers}, {"Out": first, "Index": index.astype(dtype)}, attrs={"dtype": code}))
    add(case("unique_with_counts", {"X": numbers.astype("float64")},
             {"Out": first.astype("float64"), "Index": index.astype(dtype), "Count": np.array([2, 3, 1, 1], dtype)},
             attrs={"dtype": code}, tol32=None))
add(case("shard_index", {"X": np.array([[16], [1], [19], [9]])}, {"Out": np.array([[6], [-1], [9], [-1]])},
         attrs={"index_num": 20, "nshards": 2, "shard_id": 1}))
add(case("shard_index", {"X": np.array([[20]])}, {}, attrs={"index_num": 20, "nshards": 2, "shard_id": 1}, raises="in 0 to 19"))
certain = np.eye(4)[[2, 0, 3]]
add(case("sampling_id", {"X": certain}, {"Out": np.array([2, 0, 3])}))
whole = rand(3, 2, 5, 4)
add(case("random_crop", {"X": whole, "Seed": np.array([9])}, {"Out": whole}, attrs={"shape": [5, 4]}))
add(case("random_crop", {"X": np.ones((3, 6, 6)), "Seed": np.array([9])}, {"Out": np.ones((3, 2, 3))}, attrs={"shape": [2, 3]}))
add(case("random_crop", {"X": whole, "Seed": np.array([9])}, {}, attrs={"shape": [6, 4]}, raises="larger than the whole"))
add({**case("random_crop", {"X": whole, "Seed": np.array([9])}, {}, attrs={"shape": [50000, 4]}, raises="larger than the whole"),
     "declared": {"X": [-1] * whole.ndim}})


def focus(x, axis, indexes):
    out = np.zeros_like(x)
    for i in range(len(x)):
        for k in indexes:
            plane = np.take(x[i], k, axis - 1).copy()
            mask = np.zeros_like(plane)
            for _ in range(min(plane.shape)):
                row, column = np.unravel_index(plane.argmax(), plane.shape)
                mask[row, column] = 1
                plane[row], plane[:, column] = -np.inf, -np.inf
            out[i] = np.maximum(out[i], np.expand_dims(mask, axis - 1))
    return out


for axis, indexes in ((1, [0]), (2, [1, 0]), (3, [2])):
    v = rand(2, 3, 4, 5)
    add(case("similarity_focus", {"X": v}, {"Out": focus(v, axis, indexes)}, attrs={"axis": axis, "indexes": indexes}))


# ---- windows and feature maps ----
def columns_of(x, kernel, strides, pads, dilations=(1, 1)):
    """[n, windows down, windows across, c, kh, kw]"""
    up, left, down, right = pads
    padded = np.pad(x, [(0, 0), (0, 0), (up, down), (left, right)])
    kh, kw = kernel
    oh = (padded.shape[2] - dilations[0] * (kh - 1) - 1) // strides[0] + 1
    ow = (padded.shape[3] - dilations[1] * (kw - 1) - 1) // strides[1] + 1
    out = np.zeros((len(x), oh, ow, x.shape[1], kh, kw))
    for i in range(oh):
        for j in range(ow):
            rows = [i * strides[0] + k * dilations[0] for k in range(kh)]
            across = [j * strides[1] + k * dilations[1] for k in range(kw)]
            out[:, i, j] = padded[:, :, rows][:, :, :, across]
    return out


v = rand(2, 2, 5, 4)
for kernel, strides, pads in (((2, 2), (1, 1), (0, 0, 0, 0)), ((3, 2), (2, 1), (1, 0, 0, 1))):
    found = columns_of(v, kernel, strides, pads)
    per_image = found.shape[1] * found.shape[2]
    add(case("im2sequence", {"X": v}, {"Out": (found.reshape(2 * per_image, -1), [per_image] * 2)}, ["X"],
             attrs={"kernels": list(kernel), "strides": list(strides), "paddings": list(pads)}))
small = [columns_of(v[:1, :, :4, :3], (2, 2), (1, 1), (0, 0, 0, 0)), columns_of(v[1:], (2, 2), (1, 1), (0, 0, 0, 0))]
add(case("im2sequence", {"X": v, "Y": np.array([[4.0, 3.0], [5.0, 4.0]])},
         {"Out": (np.concatenate([each.reshape(-1, 8) for each in small]), [6, 12])}, ["X"],
         attrs={"kernels": [2, 2], "out_stride": [1, 1]}))
for kernel, strides, pads, dilations in (((2, 3), (1, 1), (0, 0, 0, 0), (1, 1)), ((2, 2), (2, 1), (1, 1, 0, 1), (2, 1))):
    found = columns_of(v, kernel, strides, pads, dilations)
    add(case("unfold", {"X": v}, {"Y": found.transpose(0, 3, 4, 5, 1, 2).reshape(2, -1, found.shape[1] * found.shape[2])}, ["X"],
             attrs={"kernel_sizes": list(kernel), "strides": list(strides), "paddings": list(pads), "dilations": list(dilations)}))
x, y = rand(2, 3, 4, 2), rand(2, 5, 4, 2)
add(case("fsp", {"X": x, "Y": y}, {"Out": np.einsum("nchw,ndhw->ncd", x, y) / 8}, ["X", "Y"]))
counts, ctr = np.abs(rand(4, 5)), np.abs(rand(4, 2))
logs = counts.copy()
logs[:, 0] = np.log(counts[:, 0] + 1)
logs[:, 1] = np.log(counts[:, 1] + 1) - logs[:, 0]
add(case("cvm", {"X": counts, "CVM": ctr}, {"Y": logs}, attrs={"use_cvm": True}))
add(case("cvm", {"X": counts, "CVM": ctr}, {"Y": counts[:, 2:]}, attrs={"use_cvm": False}))
grad = rand(4, 3)
add(case("cvm_grad", {"X": counts, "CVM": ctr, "Y@GRAD": grad}, {"X@GRAD": np.concatenate([ctr, grad], 1)},
         attrs={"use_cvm": False}))
add(case("cvm_grad", {"X": counts, "CVM": ctr, "Y@GRAD": grad[:, :-1]}, {"X@GRAD": counts}, attrs={"use_cvm": False},
         raises="Y@GRAD has shape"))
add(case("cvm_grad", {"X": (counts, [3, 1]), "CVM": ctr[:2], "Y@GRAD": (logs, [3, 1])},
         {"X@GRAD": (np.concatenate([ctr[[0, 0, 0, 1]], logs[:, 2:]], 1), [3, 1])}, attrs={"use_cvm": True}))

# ---- helpers of recurrent nets ----
add(case("rnn_memory_helper", {"X": flat}, {"Out": flat}, ["X"]))
add(case("rnn_memory_helper_grad", {"X": flat}, {"X@GRAD": np.zeros_like(flat)}))
add(case("select_input", {"X": [("x0", flat), ("x1", rand(2, 2))], "Mask": np.array([0], "int32")}, {"Out": flat}))
add(case("select_input", {"X": [("x0", flat), ("x1", flat)], "Mask": np.array([2], "int32")}, {}, raises="in 0 to 1"))
add(case("select_output", {"X": flat, "Mask": np.array([1], "int32")}, {"Out": [None, flat]}))
