"""Makers of sub-blocks: branches, loops, arrays, recurrent nets."""

from . import make_inplace, make_math, make_sequence, make_shape
from .generate import Generator, NoFit, Var

INSIDE = [*make_math.MAKERS, *make_shape.MAKERS, *make_inplace.MAKERS]


def condition(g: Generator, x: Var) -> str:
    """A name for a comparison that depends on data."""
    name = g.fresh("c")
    limit = f"L.fill_constant([1], DTYPE, {g.number(-1, 1)})"
    g.say(f"{name} = L.less_than(L.reduce_sum({x.name}), {limit})")
    return name


def some(g: Generator) -> None:
    g.steps(g.random.randint(0, 3), INSIDE)


def result(g: Generator, like: Var) -> str:
    """A variable with the dimensions of `like`, made in the block if there is one."""
    fits = [var for var in g.vars if var.kind == "float" and var.dims == like.dims and var.rows == like.rows]
    inner = [var for var in fits if var.depth == g.depth]
    return g.choice(inner or fits).name


def cond(g: Generator) -> None:
    x = g.pick(lambda var: var.rank >= 1)
    test = condition(g, g.pick())
    name = g.fresh("v")

    def branch() -> None:
        some(g)
        g.say(f"return L.scale({result(g, x)}, {g.number(-1, 1)})")

    (yes, _), (no, _) = g.block(branch), g.block(branch)
    g.say(f"def yes_{name}():", yes, f"def no_{name}():", no, f"{name} = L.cond({test}, yes_{name}, no_{name})")
    g.add(name, x.dims)


def over(g: Generator, out: Var) -> None:
    """Steps, and a last one that overwrites `out`."""
    some(g)
    x = result(g, out)
    g.say(g.choice([f"L.assign(L.scale({x}, {g.number(-0.9, 0.9)}, {g.number(-0.5, 0.5)}), output={out.name})",
                    f"L.assign(L.tanh({x}), output={out.name})"]))


def carried(g: Generator) -> Var:
    """A variable for blocks to overwrite."""
    fits = [var for var in g.vars if var.kind == "float" and not var.fixed and var.name[0] == "v" and var.depth == g.depth]
    if fits and not g.plain and g.chance(0.5):
        out = g.choice(fits)
    else:
        x = g.pick(lambda var: var.rank >= 1)
        out = g.new(f"L.scale({x.name}, {g.number(-1, 1)})", x.dims, rows=x.rows)
    return out


def switch(g: Generator) -> None:
    out = carried(g)
    tests = [condition(g, g.pick()) for _ in range(g.random.randint(1, 2))]
    name = g.fresh("sw")
    cases = []
    for test in tests:
        cases += [f"with {name}.case({test}):", g.block(lambda: over(g, out))[0]]
    if g.chance(0.7):
        cases += [f"with {name}.default():", g.block(lambda: over(g, out))[0]]
    g.say(f"with L.Switch() as {name}:", [[*cases]])
    g.written(out, out.dims, out.rows)


def branch_alone(g: Generator) -> None:
    out = carried(g)
    test = condition(g, g.pick())
    name = g.fresh("cb")
    body, _ = g.block(lambda: over(g, out))
    g.say(f"{name} = L.control_flow.ConditionalBlock([{test}], is_scalar_condition=True)", f"with {name}.block():", body)
    g.written(out, out.dims, out.rows)


def counter(g: Generator) -> tuple[str, str]:
    names = g.fresh("i"), g.fresh("n")
    g.say(f"{names[0]} = L.fill_constant([1], 'int64', 0)")
    g.say(f"{names[1]} = L.fill_constant([1], 'int64', {g.random.randint(0, 3)})")
    return names


def loop(g: Generator) -> None:
    out = carried(g)
    i, n = counter(g)
    test, name = g.fresh("c"), g.fresh("w")

    def fill() -> None:
        over(g, out)
        g.say(f"L.increment({i}, 1, in_place=True)")
        g.say(f"L.less_than({i}, {n}, cond={test})")

    body, _ = g.block(fill)
    g.say(f"{test} = L.less_than({i}, {n})")
    g.say(f"{name} = L.While({test})", f"with {name}.block():", body)
    g.written(out, out.dims, out.rows)


def loop_function(g: Generator) -> None:
    out = carried(g)
    i, n = counter(g)
    name = g.fresh("f")

    def fill() -> None:
        some(g)
        g.say(f"return [L.increment({i}, 1, in_place=True), L.scale({result(g, out)}, {g.number(-0.9, 0.9)}, 0.1)]")

    body, _ = g.block(fill)
    g.say(f"def {name}({i}, {out.name}):", body, f"L.while_loop(lambda i, x: L.less_than(i, {n}), {name}, [{i}, {out.name}])")
    g.written(out, out.dims, out.rows)


def array(g: Generator) -> None:
    """A loop that reads an array at a position and writes the next one."""
    x = g.pick(lambda var: var.rank >= 1)
    i, n = counter(g)
    items, test, name = g.fresh("a"), g.fresh("c"), g.fresh("w")
    g.say(f"{items} = L.array_write({x.name}, {i})")
    g.say(f"{test} = L.less_than({i}, {n})")

    def fill() -> None:
        was = g.new(f"L.array_read({items}, {i})", x.dims, rows=x.rows)
        some(g)
        last = result(g, was)
        g.say(f"L.increment({i}, 1, in_place=True)")
        g.say(f"L.array_write(L.tanh({last}), {i}, array={items})")
        g.say(f"L.less_than({i}, {n}, cond={test})")

    body, _ = g.block(fill)
    g.say(f"{name} = L.While({test})", f"with {name}.block():", body)
    if x.rank > 3 or g.chance(0.7):
        g.new(f"L.array_read({items}, {i})", x.dims, rows=x.rows)
    else:
        g.new(f"L.reduce_sum(L.tensor_array_to_tensor({items}, axis=0, use_stack=True)[0], dim=0)", x.dims)


def recurrent(g: Generator) -> None:
    if g.depth:
        raise NoFit
    x = g.pick(lambda var: make_sequence.sequence(var) and var.rows in ("T0", "T1"))
    size = g.random.randint(1, 4)
    weight = [make_math.parameter(g, [x.dims[1], size]), make_math.parameter(g, [size, size])]
    name, out = g.fresh("rnn"), g.fresh("v")

    def fill() -> None:
        word, memory = g.fresh("v"), g.fresh("v")
        g.say(f"{word} = {name}.step_input({x.name})")
        g.say(f"{memory} = {name}.memory(shape=[{size}], value={g.number(-1, 1)}, dtype=DTYPE)")
        g.say(f"{out} = L.tanh(L.matmul({word}, {weight[0]}) + L.matmul({memory}, {weight[1]}))")
        g.say(f"{name}.update_memory({memory}, {out})")
        g.say(f"{name}.output({out})")

    body, _ = g.block(fill)
    g.say(f"{name} = L.DynamicRNN()", f"with {name}.block():", body, f"{out} = {name}()")
    g.add(out, [x.dims[0], size], rows=x.rows)


MAKERS = [(2, cond), (1, switch), (1, branch_alone), (2, loop), (1, loop_function), (1, array), (1, recurrent)]
INSIDE += [(1, cond), (0.5, branch_alone), (0.5, loop)]
