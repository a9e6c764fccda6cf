"""Makers that overwrite: in-place ops and layers, outputs that several ops share, feeds, parameters and states."""

from .generate import Generator, NoFit, Var
from .make_math import UNARY, numbers, same_shape
from .make_shape import new_dims, rows_after

# Ops of one input and one output whose output may be the input.
ONE_TO_ONE = ["relu", "tanh", "sigmoid", "square", "abs", "exp", "softsign", "sin", "cos", "softplus",
              "gelu", "elu", "assign", "relu6",
              "leaky_relu", "logsigmoid", "erf", "swish"]
BOUNDED = {"square", "exp"}


def free(g: Generator, var: Var) -> bool:
    """Another shape may be written: not a parameter or state, not a feed that is checked, not from outside of this block."""
    return var.depth == g.depth and var.name[0] not in "ps" and not g.feeds.get(var.name, {}).get("checked")


def unary_in_place(g: Generator) -> None:
    x = g.target()
    kind = g.choice(ONE_TO_ONE)
    if kind in BOUNDED:
        g.say(f"op('tanh', {{'X': {x.name}}}, {{'Out': {x.name}}})")
    g.say(f"op('{kind}', {{'X': {x.name}}}, {{'Out': {x.name}}})")
    g.written(x, x.dims, x.rows)


def scale_in_place(g: Generator) -> None:
    x = g.target()
    g.say(f"op('scale', {{'X': {x.name}}}, {{'Out': {x.name}}}, scale={g.number(-1, 1)}, bias={g.number(-1, 1)})")
    g.written(x, x.dims, x.rows)


def binary_in_place(g: Generator) -> None:
    x = g.target()
    y = same_shape(g, x)
    if g.chance(0.4):
        x, y = y, x
    out = g.choice([var for var in (x, y) if not var.fixed])
    kind = g.choice(["elementwise_add", "elementwise_sub", "elementwise_mul", "elementwise_max"])
    g.say(f"op('{kind}', {{'X': {x.name}, 'Y': {y.name}}}, {{'Out': {out.name}}}, axis=-1)")
    g.written(out, out.dims, x.rows)


def sum_in_place(g: Generator) -> None:
    x = g.target()
    found = [x] + [same_shape(g, x) for _ in range(g.random.randint(1, 2))]
    g.random.shuffle(found)
    names = ", ".join(var.name for var in found)
    g.say(g.choice([f"op('sum', {{'X': [{names}]}}, {{'Out': {x.name}}})", f"add_up([{names}], out={x.name})"]))
    g.written(x, x.dims, found[0].rows)


def reshape_in_place(g: Generator) -> None:
    x = g.target(lambda var: var.rank >= 1 and free(g, var))
    dims, words = new_dims(g, x)
    g.say(g.choice([
        f"inplace(L.reshape, {x.name}, {words})",
        f"op('reshape2', {{'X': {x.name}}}, {{'Out': {x.name}, 'XShape': var(DTYPE)}}, shape={words})",
    ]))
    g.written(x, dims, rows_after(x, dims))


def squeeze_in_place(g: Generator) -> None:
    x = g.target(lambda var: free(g, var))
    kind = g.choice(["squeeze", "unsqueeze", "flatten"])
    if kind == "squeeze":
        axis = g.choice([i for i, dim in enumerate(x.dims) if dim == 1 and x.rank > 1])
        dims, words = x.dims[:axis] + x.dims[axis + 1:], f"axes=[{axis}]"
    elif kind == "unsqueeze":
        axis = g.choice(range(x.rank + 1) if x.rank < 4 else [])
        dims, words = [*x.dims[:axis], 1, *x.dims[axis:]], f"axes=[{axis}]"
    else:
        if not all(isinstance(dim, int) for dim in x.dims[1:]) or x.rank < 2:
            raise NoFit
        count = 1
        for dim in x.dims[1:]:
            count *= dim
        dims, words = [x.dims[0], count], "axis=1"
    g.say(f"op('{kind}2', {{'X': {x.name}}}, {{'Out': {x.name}, 'XShape': var(DTYPE)}}, {words})")
    g.written(x, dims)


def moved_in_place(g: Generator) -> None:
    """Ops that move elements while they write over them."""
    x = g.target(lambda var: var.rank >= 2 and free(g, var))
    axis = g.random.randrange(x.rank)
    size = x.dims[axis]
    kind = g.random.randrange(4)
    if kind == 0:
        order = list(range(x.rank))
        g.random.shuffle(order)
        g.say(f"op('transpose2', {{'X': {x.name}}}, {{'Out': {x.name}, 'XShape': var(DTYPE)}}, axis={order})")
        g.written(x, [x.dims[i] for i in order])
    elif kind == 1 and isinstance(size, int) and size > 1:
        start = g.random.randrange(size)
        g.say(f"op('slice', {{'Input': {x.name}}}, {{'Out': {x.name}}}, axes=[{axis}], starts=[{start}], ends=[{size}])")
        g.written(x, [*x.dims[:axis], size - start, *x.dims[axis + 1:]])
    elif kind == 2 and isinstance(size, int) and size <= 4:
        times = [2 if i == axis else 1 for i in range(x.rank)]
        g.say(f"op('expand', {{'X': {x.name}}}, {{'Out': {x.name}}}, expand_times={times})")
        g.written(x, [*x.dims[:axis], 2 * size, *x.dims[axis + 1:]])
    elif kind == 3 and isinstance(size, int) and size <= 4:
        y = g.pick(lambda var: var.dims == x.dims)
        g.say(f"op('concat', {{'X': [{x.name}, {y.name}]}}, {{'Out': {x.name}}}, axis={axis})")
        g.written(x, [*x.dims[:axis], 2 * size, *x.dims[axis + 1:]])
    else:
        raise NoFit


def assign_over(g: Generator) -> None:
    """A variable gets the value of another one, of any shape where that may be."""
    x = g.pick()
    out = g.target(lambda var: var.name != x.name and (free(g, var) or (var.dims == x.dims and var.rows == x.rows)))
    text = g.choice([x.name, f"L.scale({x.name}, {g.number(-1, 1)})", f"L.tanh({x.name})"])
    g.say(f"L.assign({text}, output={out.name})")
    g.written(out, x.dims, x.rows)


def shared_output(g: Generator) -> None:
    """An op writes into a variable that another op made."""
    x = g.pick()
    out = g.target(lambda var: var.name != x.name and (free(g, var) or (var.dims == x.dims and var.rows == x.rows)))
    g.say(f"op('{g.choice(sorted(set(ONE_TO_ONE) - BOUNDED))}', {{'X': {x.name}}}, {{'Out': {out.name}}})")
    g.written(out, x.dims, x.rows)


def increment(g: Generator) -> None:
    x = g.target(lambda var: var.dims == [1])
    g.say(f"L.increment({x.name}, {g.number(-1, 1)}, in_place=True)")
    g.written(x, x.dims)


def read_then_write(g: Generator) -> None:
    """Somebody read the value whose gradient is asked for after it is gone."""
    x = g.target()
    text = g.choice([text for text in UNARY if "axis" not in text and "softmax" not in text and "_like" not in text])
    g.like(text.format(x=x.name, **numbers(g)), x)
    g.say(f"L.assign(L.scale({x.name}, {g.number(-1, 1)}, {g.number(-1, 1)}), output={x.name})")
    g.written(x, x.dims, x.rows)


def state(g: Generator) -> None:
    """A persistable variable that a run reads and leaves changed to the next one."""
    if g.depth or g.plain:
        raise NoFit
    x = g.pick(lambda var: var.ints and var.rank >= 1 and 0 not in var.dims)
    name = g.fresh("s")
    g.say(f"{name} = L.create_global_var({x.dims}, {g.number(-1, 1)}, DTYPE, persistable=True, name='{name}')",
          f"{name}.stop_gradient = False")
    held = g.add(name, x.dims)
    g.new(f"L.elementwise_add({x.name}, {held.name})", x.dims)
    if g.chance(0.7):
        g.say(f"L.assign(L.tanh({x.name}), output={name})")


MAKERS = [(3, unary_in_place), (2, scale_in_place), (3, binary_in_place), (2, sum_in_place),
          (4, reshape_in_place), (2, squeeze_in_place),
          (2, moved_in_place), (3, assign_over), (2, shared_output), (1, increment), (2, read_then_write), (1, state)]
