"""Makers of sequences (LoD) and of embeddings, dense and sparse."""

from .generate import Generator, NoFit, Var

POOLS = ["sum", "average", "sqrt", "max", "last", "first"]


def sequence(var: Var) -> bool:
    return var.rows is not None and var.rank == 2 and var.inner(1) and var.dims[0] == var.rows


def pool(g: Generator) -> None:
    x = g.pick(sequence)
    g.new(f"L.sequence_pool({x.name}, '{g.choice(POOLS)}')", ["B", x.dims[1]])


def softmax(g: Generator) -> None:
    x = g.pick(lambda var: sequence(var) and var.dims[1] == 1)
    g.like(f"L.sequence_softmax({x.name})", x)


def conv(g: Generator) -> None:
    if g.depth:
        raise NoFit
    x = g.pick(sequence)
    size, name = g.random.randint(1, 4), g.fresh("seqconv")
    g.new(f"L.sequence_conv({x.name}, {size}, {g.choice([1, 3])}, param_attr='{name}', bias_attr=False, "
          f"act={g.choice(['None', repr('tanh')])})",
          [x.dims[0], size], rows=x.rows)


def expand(g: Generator) -> None:
    y = g.pick(sequence)
    x = g.pick(lambda var: var.rank == 2 and var.dims[0] == "B" and var.inner(1) and var.rows is None)
    g.new(f"L.{g.choice(['sequence_expand', 'sequence_expand_as'])}({x.name}, {y.name})", [y.rows, x.dims[1]], rows=y.rows)


def turn(g: Generator) -> None:
    x = g.pick(sequence)
    g.like(f"L.sequence_reverse({x.name})", x)


def join(g: Generator) -> None:
    x = g.pick(sequence)
    y = g.pick(lambda var: sequence(var) and var.dims[1] == x.dims[1])
    if len(x.rows) + len(y.rows) > 12:
        raise NoFit
    rows = f"({x.rows}+{y.rows})"
    g.new(f"L.sequence_concat([{x.name}, {y.name}])", [rows, x.dims[1]], rows=rows)


def recut(g: Generator) -> None:
    x = g.pick(lambda var: sequence(var) and var.dims[1] in (2, 4, 6))
    rows = f"{x.rows}*2"
    g.new(f"L.sequence_reshape({x.name}, {x.dims[1] // 2})", [rows, x.dims[1] // 2], rows=rows)


def pad(g: Generator) -> None:
    x = g.pick(lambda var: sequence(var) and var.rows in ("T0", "T1"))
    names = g.fresh("v"), g.fresh("v")
    g.say(f"{names[0]}, {names[1]} = L.sequence_pad({x.name}, L.fill_constant([1], DTYPE, 0.0), maxlen=6)")
    padded = g.add(names[0], ["B", 6, x.dims[1]])
    if g.chance(0.5):
        g.new(f"L.sequence_unpad(L.tanh({padded.name}), {names[1]})", x.dims, rows=x.rows)
    else:
        mask = f"L.sequence_mask({names[1]}, maxlen=6, dtype=DTYPE)"
        g.new(f"L.elementwise_mul({padded.name}, {mask}, axis=0)", padded.dims)


def same_rows(g: Generator) -> None:
    x = g.pick(lambda var: var.rank == 2 and var.rows is None)
    y = g.pick(lambda var: sequence(var) and var.rows == x.dims[0])
    g.new(f"L.lod_reset({x.name}, {y.name})", x.dims, rows=y.rows)


def embedding(g: Generator) -> None:
    if g.depth:
        raise NoFit
    ids = g.pick(lambda var: var.high > 0 and var.dims[-1:] == [1] and var.name[0] == "x", kind="int")
    name, size = table(g, ids.high)
    more = ", padding_idx=0" if g.chance(0.15) else ""
    sparse = g.chance(0.7)
    g.new(f"L.embedding({ids.name}, {size}, is_sparse={sparse}{more}, param_attr='{name}', dtype=DTYPE)",
          [*ids.dims[:-1], size[1]], rows=ids.rows)


def table(g: Generator, height: int) -> tuple[str, list[int]]:
    """A table of this height: a new one, or one that another embedding has."""
    old = [(name, size) for name, size in g.tables.items() if size[0] == height]
    if old and g.chance(0.6):
        return g.choice(old)
    name = g.fresh("emb")
    g.tables[name] = [height, g.random.randint(1, 5)]
    return name, g.tables[name]


def whole_table(g: Generator) -> None:
    """The table of an embedding as a matrix, so that its gradients are of both kinds."""
    name, size = g.choice(g.tables.items())
    if g.depth:
        raise NoFit
    g.new(f"fluid.default_main_program().global_block().var('{name}')", size, fixed=True)


MAKERS = [(3, pool), (1, softmax), (1.5, conv), (2, expand), (1, turn), (1, join), (0.7, recut),
          (1.5, pad), (0.5, same_rows), (3, embedding), (0.5, whole_table)]
