"""Makers of views and moves: reshape, transpose, slices, joins, sizes that are only known while running."""

from math import prod

from .generate import Dim, Generator, NoFit, Var
from .make_math import parameter


def splits(g: Generator, count: int) -> list[int]:
    """Random factors of a number."""
    found = []
    while count > 1 and len(found) < 2:
        factor = g.choice([n for n in range(1, count + 1) if count % n == 0])
        found.append(factor)
        count //= factor
    g.random.shuffle(found)
    return [*found, count]


def new_dims(g: Generator, x: Var) -> tuple[list[Dim], list[int]]:
    """Another shape of the same elements: its dimensions, and the words that ask for it."""
    if x.ints:
        if prod(x.dims) == 0:
            raise NoFit
        dims = splits(g, prod(x.dims))
        words = list(dims)
        if g.chance(0.5):
            words[g.random.randrange(len(words))] = -1
        return dims, words
    if not isinstance(x.dims[0], str) or not all(isinstance(dim, int) for dim in x.dims[1:]) or prod(x.dims[1:]) == 0:
        raise NoFit
    if g.chance(0.75):  # the first one stays
        rest = splits(g, prod(x.dims[1:]))
        if x.dims[1:2] == rest[:1] and g.chance(0.5):
            return [x.dims[0], *rest], [-1, 0, *rest[1:]]
        return [x.dims[0], *rest], [g.choice([0, -1]), *rest]
    if x.rank < 2 or "*" in x.dims[0]:
        raise NoFit
    factor = g.choice([n for n in range(1, prod(x.dims[1:]) + 1) if prod(x.dims[1:]) % n == 0])
    rest = prod(x.dims[1:]) // factor
    return [f"{x.dims[0]}*{factor}" if factor > 1 else x.dims[0], rest], [-1, rest]


def rows_after(x: Var, dims: list[Dim]) -> str | None:
    return x.rows if dims and dims[0] == x.dims[0] else None


def reshape(g: Generator) -> None:
    x = g.pick(lambda var: var.rank >= 1)
    dims, words = new_dims(g, x)
    g.new(f"L.reshape({x.name}, {words}, act={g.choice(['None', 'None', repr('tanh')])})", dims, rows=rows_after(x, dims))


def reshape_by_sizes(g: Generator) -> None:
    """The shape comes from tensors, so sizes wait for the run."""
    x = g.pick(lambda var: var.rank >= 2)
    size = g.fresh("n")
    if g.chance(0.5):
        g.say(f"{size} = L.shape({x.name})")
        g.new(f"L.reshape({x.name}, {size})", x.dims)
    else:
        axis = g.random.randrange(x.rank)
        g.say(f"{size} = L.slice(L.shape({x.name}), axes=[0], starts=[{axis}], ends=[{axis + 1}])")
        words = [str(-1 if i != axis and not x.inner(i) else size if i == axis else dim) for i, dim in enumerate(x.dims)]
        g.new(f"L.reshape({x.name}, [{', '.join(words)}])", x.dims)


def filled(g: Generator) -> None:
    x = g.pick(lambda var: var.rank >= 1 and not var.inner(0) and "*" not in var.dims[0] and var.rows is None)
    dims = [1, g.random.randint(1, 4)]
    g.new(f"L.fill_constant_batch_size_like({x.name}, {dims}, DTYPE, {g.number(-1, 1)})", [x.dims[0], dims[1]], fixed=True)


def transpose(g: Generator) -> None:
    x = g.pick(lambda var: var.rank >= 2)
    order = list(range(x.rank))
    g.random.shuffle(order)
    g.new(f"L.transpose({x.name}, {order})", [x.dims[axis] for axis in order])


def cut(g: Generator) -> None:
    x = g.pick(lambda var: any(isinstance(dim, int) and dim > 1 for dim in var.dims))
    axis = g.choice([i for i, dim in enumerate(x.dims) if isinstance(dim, int) and dim > 1])
    size = x.dims[axis]
    start = g.random.randrange(size)
    end = g.random.randint(start + 1, size)
    dims = [*x.dims[:axis], end - start, *x.dims[axis + 1:]]
    if g.chance(0.3):
        start -= size
        end = end - size if end < size else 1000
    g.new(f"L.slice({x.name}, axes=[{axis}], starts=[{start}], ends=[{end}])", dims, rows=x.rows if axis else None)


def split(g: Generator) -> None:
    x = g.pick(lambda var: any(isinstance(dim, int) and dim > 1 for dim in var.dims))
    axis = g.choice([i for i, dim in enumerate(x.dims) if isinstance(dim, int) and dim > 1])
    first = g.random.randint(1, x.dims[axis] - 1)
    sizes = [first, x.dims[axis] - first]
    even = x.dims[axis] % 2 == 0 and g.chance(0.5)
    names = [g.fresh("v"), g.fresh("v")]
    g.say(f"{', '.join(names)} = L.split({x.name}, {2 if even else sizes}, dim={axis})")
    for name, size in zip(names, [x.dims[axis] // 2] * 2 if even else sizes):
        g.add(name, [*x.dims[:axis], size, *x.dims[axis + 1:]], rows=x.rows if axis else None)


def concat(g: Generator) -> None:
    x = g.pick(lambda var: any(isinstance(dim, int) for dim in var.dims))
    axis = g.choice([i for i, dim in enumerate(x.dims) if isinstance(dim, int)])

    def joins(var: Var) -> bool:
        return var.rank == x.rank and all(a == b or (i == axis and var.inner(i)) for i, (a, b) in enumerate(zip(var.dims, x.dims)))

    found = [x] + [g.pick(joins) for _ in range(g.random.randint(1, 2))]
    size = sum(var.dims[axis] for var in found)
    if size > 12:
        raise NoFit
    g.new(f"L.concat([{', '.join(var.name for var in found)}], axis={axis})", [*x.dims[:axis], size, *x.dims[axis + 1:]],
          rows=x.rows if axis else None)


def stack(g: Generator) -> None:
    x = g.pick(lambda var: var.rank <= 3)
    found = [x] + [g.pick(lambda var: var.dims == x.dims) for _ in range(g.random.randint(1, 2))]
    axis = g.random.randint(0, x.rank)
    dims = [*x.dims[:axis], len(found), *x.dims[axis:]]
    g.new(f"L.stack([{', '.join(var.name for var in found)}], axis={axis})", dims)


def unstack(g: Generator) -> None:
    x = g.pick(lambda var: var.rank >= 2 and any(isinstance(dim, int) and 1 <= dim <= 3 for dim in var.dims))
    axis = g.choice([i for i, dim in enumerate(x.dims) if isinstance(dim, int) and 1 <= dim <= 3])
    names = [g.fresh("v") for _ in range(x.dims[axis])]
    g.say(f"{', '.join(names)} = L.unstack({x.name}, axis={axis})" if len(names) > 1
          else f"{names[0]} = L.unstack({x.name}, axis={axis})[0]")
    for name in names:
        g.add(name, x.dims[:axis] + x.dims[axis + 1:])


def expand(g: Generator) -> None:
    x = g.pick(lambda var: 1 <= var.rank <= 3 and all(not isinstance(dim, int) or dim <= 3 for dim in var.dims))
    times = [g.random.randint(1, 2) if x.inner(i) else 1 for i in range(x.rank)]
    g.new(f"L.expand({x.name}, {times})", [dim * n if isinstance(dim, int) else dim for dim, n in zip(x.dims, times)],
          rows=x.rows if times[0] == 1 else None)


def unsqueeze(g: Generator) -> None:
    x = g.pick(lambda var: var.rank <= 3)
    axis = g.random.randint(0, x.rank)
    g.new(f"L.unsqueeze({x.name}, [{axis}])", [*x.dims[:axis], 1, *x.dims[axis:]])


def squeeze(g: Generator) -> None:
    x = g.pick(lambda var: var.rank >= 2 and 1 in var.dims)
    axis = g.choice([i for i, dim in enumerate(x.dims) if dim == 1])
    g.new(f"L.squeeze({x.name}, [{axis}])", x.dims[:axis] + x.dims[axis + 1:])


def flatten(g: Generator) -> None:
    x = g.pick(lambda var: var.rank >= 2 and all(isinstance(dim, int) for dim in var.dims[1:]))
    g.new(f"L.flatten({x.name}, axis=1)", [x.dims[0], prod(x.dims[1:])])


def pad(g: Generator) -> None:
    x = g.pick(lambda var: 1 <= var.rank <= 3)
    pads = [[g.random.randint(0, 1), g.random.randint(0, 1)] if x.inner(i) else [0, 0] for i in range(x.rank)]
    dims = [dim + sum(two) if isinstance(dim, int) else dim for dim, two in zip(x.dims, pads)]
    g.new(f"L.pad({x.name}, {sum(pads, [])}, {g.number(-1, 1)})", dims)


def reverse(g: Generator) -> None:
    x = g.pick(lambda var: var.rank >= 2)
    g.new(f"L.reverse({x.name}, [{g.random.randrange(x.rank)}])", x.dims)


def gather(g: Generator) -> None:
    x = g.pick(lambda var: var.rank >= 2 and isinstance(var.dims[0], int) and var.dims[0] > 0)
    ids = g.pick(lambda var: var.rank == 2 and var.dims[1] == 1 and var.high <= x.dims[0], kind="int")
    g.new(f"L.gather({x.name}, L.reshape({ids.name}, [-1]))", [ids.dims[0], *x.dims[1:]])


def scatter(g: Generator) -> None:
    """Rows of a parameter-like table, added up by ids."""
    x = g.pick(lambda var: var.rank == 2 and not var.inner(0) and var.inner(1))
    ids = g.pick(lambda var: var.dims == [x.dims[0], 1], kind="int")
    table = parameter(g, [ids.high, x.dims[1]])
    g.new(f"L.scatter({table}, L.reshape({ids.name}, [-1]), {x.name}, overwrite=False)", [ids.high, x.dims[1]])


def top(g: Generator) -> None:
    """The order of elements that all differ."""
    x = g.pick(lambda var: var.rank == 2 and var.inner(1) and var.dims[1] >= 2)
    x = g.like(f"L.elementwise_add({x.name}, {parameter(g, x.dims[1:])}, axis=1)", x)
    k = g.random.randint(1, x.dims[1])
    names = [g.fresh("v"), g.fresh("v")]
    g.say(f"{names[0]}, {names[1]} = var(DTYPE), var('int64')")
    outs = f"{{'Out': {names[0]}, 'Indices': {names[1]}}}"  # the layers would stop the gradient
    if g.chance(0.5):
        g.say(f"op('top_k', {{'X': {x.name}}}, {outs}, k={k})")
    else:
        k = x.dims[1]
        g.say(f"op('argsort', {{'X': {x.name}}}, {outs}, axis=1)")
    g.add(names[0], [x.dims[0], k])
    g.add(names[1], [x.dims[0], k], "int", high=x.dims[1], fixed=True)


def one_hot(g: Generator) -> None:
    ids = g.pick(lambda var: var.rank == 2 and var.dims[1] == 1 and var.high > 0, kind="int")
    g.new(f"L.cast(L.one_hot({ids.name}, {ids.high}), DTYPE)", [ids.dims[0], ids.high])


MAKERS = [(5, reshape), (1.5, reshape_by_sizes), (1, filled), (4, transpose), (3, cut), (2, split),
          (3, concat), (2, stack), (1, unstack),
          (2, expand), (2, unsqueeze), (2, squeeze), (1, flatten), (1, pad), (1, reverse), (1, gather),
          (1, scatter), (1, top), (0.7, one_hot)]
