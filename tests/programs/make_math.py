"""Makers of arithmetic: element by element, sums, products, norms, losses."""

from .generate import Generator, NoFit, Var

# Expressions over {x} that keep numbers small and, nearly everywhere, smooth.
UNARY = [
    "L.relu({x})", "L.tanh({x})", "L.sigmoid({x})", "L.square(L.tanh({x}))", "L.exp(L.tanh({x}))", "L.abs({x})",
    "L.softsign({x})", "L.softplus({x})", "L.elu({x}, alpha=0.5)", "L.leaky_relu({x}, 0.1)",
    "L.sqrt(L.scale(L.abs({x}), 1.0, 0.3))",
    "L.cos({x})", "L.sin({x})", "L.relu6({x})", "L.swish({x})", "L.erf({x})", "L.logsigmoid({x})", "L.hard_sigmoid({x})",
    "L.clip({x}, -0.7, 0.8)", "L.scale({x}, {a}, {b})", "L.scale({x}, {a}, {b}, bias_after_scale=False)",
    "L.scale({x}, {a}, act='relu')",
    "L.pow(L.sigmoid({x}), 1.5)", "L.reciprocal(L.scale(L.sigmoid({x}), 1.0, 0.5))",
    "L.log(L.scale(L.square(L.tanh({x})), 1.0, 0.4))",
    "L.cast({x}, DTYPE)", "L.assign({x})", "L.cumsum({x}, axis=-1)", "L.stanh({x})", "L.tanh_shrink({x})", "L.gelu({x})",
    "L.soft_relu({x})", "L.rsqrt(L.scale(L.square(L.tanh({x})), 1.0, 0.4))", "L.selu({x})", "{x} * {a} + {b}", "{a} - {x}",
    "L.softmax({x})", "L.dropout({x}, 0.0)", "L.dropout({x}, 0.5, is_test=True)", "L.zeros_like({x})",
    "L.ones_like({x})", "L.sign({x})", "L.l2_normalize(L.scale(L.sigmoid({x}), 1.0, 0.2), axis=-1)", "L.brelu({x}, -0.5, 0.6)",
]
NEED_RANK_2 = ("softmax", "cumsum", "l2_normalize")


def numbers(g: Generator) -> dict:
    return {"a": g.number(-1.2, 1.2) or 0.5, "b": g.number(-0.5, 0.5)}


def unary(g: Generator) -> None:
    text = g.choice(UNARY)
    wide = any(word in text for word in NEED_RANK_2)
    x = g.pick(lambda var: not wide or (var.rank >= 2 and var.inner(-1)))
    filled = "_like" in text  # comes with stop_gradient
    g.new(text.format(x=x.name, **numbers(g)), x.dims, rows=x.rows, fixed=filled)


def same_shape(g: Generator, x: Var, kind: str = "float") -> Var:
    return g.pick(lambda var: var.dims == x.dims and var.rows in (None, x.rows), kind)


ACTS = ["None", "'relu'", "'tanh'", "'sigmoid'"]


def binary(g: Generator) -> None:
    x = g.pick()
    y = same_shape(g, x)
    kind = g.choice(["add", "sub", "mul", "max", "min"])
    g.like(f"L.elementwise_{kind}({x.name}, {y.name}, act={g.choice(ACTS)})", x)


def quotient(g: Generator) -> None:
    x = g.pick()
    y = same_shape(g, x)
    g.like(f"L.elementwise_div({x.name}, L.scale(L.sigmoid({y.name}), 1.0, 0.5))", x)


def operators(g: Generator) -> None:
    x = g.pick()
    y = same_shape(g, x)
    g.like(f"{x.name} {g.choice('+-*')} {y.name}", x)


def spread(g: Generator) -> None:
    """A smaller Y along an axis of X."""
    x = g.pick(lambda var: var.rank >= 2)
    axis = g.random.randrange(x.rank)
    length = g.random.randint(1, x.rank - axis)
    part = x.dims[axis:axis + length]
    kind = g.choice(["add", "sub", "mul"])
    if g.chance(0.5) and all(isinstance(dim, int) for dim in part):
        y = parameter(g, part)
    else:
        y = g.pick(lambda var: var.dims == part).name
    g.like(f"L.elementwise_{kind}({x.name}, {y}, axis={axis}, act={g.choice(ACTS)})", x)


def parameter(g: Generator, shape: list[int]) -> str:
    """A new parameter, or an old one of this shape."""
    old = [var for var in g.vars if var.name.startswith("p") and var.dims == shape]
    if old and g.chance(0.5):
        return g.choice(old).name
    if g.depth:
        raise NoFit  # parameters are made outside of blocks
    name = g.fresh("p")
    g.say(f"{name} = L.create_parameter({shape}, DTYPE, name='{name}')")
    g.add(name, shape)
    return name


def sums(g: Generator) -> None:
    x = g.pick()
    found = [x] + [same_shape(g, x) for _ in range(g.random.randint(1, 3))]
    g.like(f"L.sums([{', '.join(var.name for var in found)}])", x)


def reduce_to_one(g: Generator) -> None:
    """The largest or smallest, of elements that all differ: of equal ones each would get the whole gradient, as in 1.8.5."""
    x = g.pick(lambda var: var.rank >= 2 and all(isinstance(dim, int) for dim in var.dims[1:]))
    spread = parameter(g, x.dims[1:])
    dim = list(range(g.random.randint(1, x.rank - 1), x.rank))
    g.new(f"L.reduce_{g.choice(['max', 'min'])}(L.elementwise_add({x.name}, {spread}, axis=1), dim={dim}, keep_dim=True)",
          [1 if axis in dim else size for axis, size in enumerate(x.dims)], rows=x.rows)


def reduce(g: Generator) -> None:
    kind = g.choice(["sum", "mean", "prod"])
    x = g.pick(lambda var: var.rank >= 1)
    inner = [axis for axis in range(x.rank) if axis > 0]
    if g.chance(0.15) or not inner:
        g.new(f"L.reduce_{kind}({x.name})", [1])
        return
    dim = sorted(g.random.sample(inner, g.random.randint(1, len(inner))))
    keep = g.chance(0.4)
    dims = [1 if axis in dim else size for axis, size in enumerate(x.dims) if keep or axis not in dim]
    g.new(f"L.reduce_{kind}({x.name}, dim={dim}, keep_dim={keep})", dims, rows=x.rows)


def mean(g: Generator) -> None:
    g.new(f"L.mean({g.pick().name})", [1])


def fc(g: Generator) -> None:
    if g.depth:
        raise NoFit
    x = g.pick(lambda var: var.rank >= 2 and all(isinstance(dim, int) for dim in var.dims[1:]))
    flat = g.random.randint(1, x.rank - 1)
    size = g.random.randint(1, 6)
    name = g.fresh("fc")
    bias = g.choice(["None", "False", f"'{name}_b'"])
    g.new(f"L.fc({x.name}, {size}, num_flatten_dims={flat}, act={g.choice(ACTS)}, param_attr='{name}', bias_attr={bias})",
          [*x.dims[:flat], size], rows=x.rows)


def product(g: Generator) -> None:
    x = g.pick(lambda var: var.rank == 2 and var.inner(1))
    y = parameter(g, [x.dims[1], g.random.randint(1, 5)]) if g.chance(0.5) else None
    if y:
        size = next(var for var in g.vars if var.name == y).dims[1]
        g.new(f"L.{g.choice(['mul', 'matmul'])}({x.name}, {y})", [x.dims[0], size], rows=x.rows)
        return
    if g.chance(0.5):
        other = g.pick(lambda var: var.rank == 2 and var.dims[0] == x.dims[1])
        g.new(f"L.matmul({x.name}, {other.name})", [x.dims[0], other.dims[1]])
    else:
        other = g.pick(lambda var: var.rank == 2 and var.dims[1] == x.dims[1] and var.inner(0))
        g.new(f"L.matmul({x.name}, {other.name}, transpose_y=True, alpha={g.number(0.3, 1)})", [x.dims[0], other.dims[0]])


def batched(g: Generator) -> None:
    """Attention: a product of each sample with itself or another."""
    x = g.pick(lambda var: var.rank == 3 and var.inner(1) and var.inner(2))
    y = g.pick(lambda var: var.rank == 3 and var.dims[0] == x.dims[0] and var.dims[2] == x.dims[2])
    g.new(f"L.matmul({x.name}, {y.name}, transpose_y=True, alpha=0.5)", [x.dims[0], x.dims[1], y.dims[1]])


def norm(g: Generator) -> None:
    if g.depth:
        raise NoFit
    x = g.pick(lambda var: var.rank >= 2 and all(isinstance(dim, int) for dim in var.dims[1:]) and var.dims[-1] > 1)
    name = g.fresh("norm")
    if x.rank in (2, 4) and g.chance(0.4) and "0" not in str(x.dims[1:]):
        g.like(f"L.batch_norm({x.name}, epsilon=0.001, param_attr='{name}_s', bias_attr='{name}_b', is_test={g.chance(0.2)}, "
               f"moving_mean_name='{name}_m', moving_variance_name='{name}_v')", x)
    else:
        g.like(f"L.layer_norm({x.name}, begin_norm_axis={g.random.randint(1, x.rank - 1)}, epsilon=0.001, param_attr='{name}_s', "
               f"bias_attr='{name}_b')", x)


def loss(g: Generator) -> None:
    x = g.pick(lambda var: var.rank == 2 and var.inner(1))
    kind = g.random.randrange(6)
    if kind < 2:
        label = g.pick(lambda var: var.dims == [x.dims[0], 1] and var.high <= x.dims[1], kind="int")
        text = [f"L.softmax_with_cross_entropy({x.name}, {label.name})",
                f"L.cross_entropy(L.softmax({x.name}), {label.name})"][kind]
        g.new(text, [x.dims[0], 1], rows=x.rows)
        return
    y = same_shape(g, x)
    if kind > 2 and g.depth:
        raise NoFit  # stop() is for the outermost block: its values become feeds
    if kind == 2:
        g.like(f"L.square_error_cost({x.name}, {y.name})", x)
    elif kind == 3:
        g.like(f"L.sigmoid_cross_entropy_with_logits({x.name}, stop(L.sigmoid({y.name})))", x)
    elif kind == 4:
        g.like(f"L.huber_loss({x.name}, stop({y.name}), 0.5)", x)
    else:
        g.new(f"L.smooth_l1({x.name}, stop({y.name}))", [x.dims[0], 1], rows=x.rows)


def stopped(g: Generator) -> None:
    if g.depth:
        raise NoFit
    x = g.pick()
    text = g.choice(["{}", "{}", "L.clip_by_norm(L.sigmoid({}), 1.5)", "L.sign({})"]).format(x.name)
    g.new(f"stop({text})", x.dims, fixed=True)


def image(g: Generator) -> None:
    if g.depth:
        raise NoFit
    x = g.pick(lambda var: var.rank == 4 and all(isinstance(dim, int) and dim > 0 for dim in var.dims[1:]))
    n, _, h, w = x.dims
    kind = g.random.randrange(3)
    if kind == 0 and min(h, w) >= 2:
        way = g.choice(["max", "avg"])
        g.new(f"L.pool2d({x.name}, 2, pool_type='{way}', pool_stride=1)", [n, x.dims[1], h - 1, w - 1])
    elif kind == 1:
        channels, name = g.random.randint(1, 4), g.fresh("conv")
        g.new(f"L.conv2d({x.name}, {channels}, 3, padding=1, act={g.choice(ACTS)}, param_attr='{name}', "
              f"bias_attr={g.choice(['False', repr(name + '_b')])})",
              [n, channels, h, w])
    else:
        g.new(f"L.image_resize({x.name}, out_shape=[{h + 1}, {w + 2}], resample='{g.choice(['BILINEAR', 'NEAREST'])}')",
              [n, x.dims[1], h + 1, w + 2])


def compare(g: Generator) -> None:
    x = g.pick()
    y = same_shape(g, x)
    word = g.choice(["less_than", "greater_equal", "not_equal"])
    # Apart by a number: what is equal but for rounding would be told apart by one engine only.
    mask = g.new(f"L.{word}({x.name}, L.scale({y.name}, bias=0.0137))", x.dims, "bool")
    if g.chance(0.7):
        g.like(f"{y.name} * L.cast({mask.name}, DTYPE)", y)


MAKERS = [(12, unary), (6, binary), (2, quotient), (3, operators), (3, spread), (3, sums), (3, reduce),
          (1, reduce_to_one), (1, mean), (4, fc), (3, product),
          (2, batched), (2, norm), (3, loss), (1.5, stopped), (2, image), (1, compare)]
