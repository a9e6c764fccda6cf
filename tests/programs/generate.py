"""Makes random recipes. A seed gives the same recipe for ever, as long as the makers stay as they are.

The generator keeps a table of variables with their dimensions (see recipe.py). Makers (make_*.py) are functions that take
the generator, pick variables, and add lines; they raise NoFit where nothing fits, and another one is tried.
"""

import random
from dataclasses import dataclass, replace

Dim = int | str


class NoFit(Exception):
    """A maker found no variable that it can use."""


@dataclass
class Var:
    """A variable as the generator knows it."""

    name: str
    dims: list[Dim]
    kind: str = "float"  # float, int or bool
    rows: str | None = None  # the name of the lengths, for a sequence
    high: int = 0  # ints are below this
    fixed: bool = False  # never overwritten
    depth: int = 0  # of the block that made it

    @property
    def rank(self) -> int:
        return len(self.dims)

    @property
    def ints(self) -> bool:
        """All dimensions are numbers."""
        return all(isinstance(dim, int) for dim in self.dims)

    def inner(self, axis: int) -> bool:
        return isinstance(self.dims[axis], int)


class Generator:
    """The recipe so far."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.seed = seed
        self.vars: list[Var] = []
        self.feeds: dict[str, dict] = {}
        self.tables: dict[str, list[int]] = {}  # parameters of embeddings: name -> shape
        self.blocks: list[list] = [[]]  # steps of the blocks that are open
        self.counts: dict[str, int] = {}
        self.plain = self.random.random() < 0.4  # nothing is overwritten: 1.8.5 has every gradient right

    # ---- choices ----

    def chance(self, p: float) -> bool:
        return self.random.random() < p

    def choice(self, items):
        items = list(items)
        if not items:
            raise NoFit
        return self.random.choice(items)

    def number(self, low: float, high: float) -> float:
        return round(self.random.uniform(low, high), 2)

    def pick(self, fits=lambda var: True, kind: str = "float") -> Var:
        """A variable; of late ones more often."""
        found = [var for var in self.vars if var.kind == kind and fits(var)]
        if not found:
            raise NoFit
        return found[-1 - min(int(self.random.expovariate(0.35)), len(found) - 1)]

    def target(self, fits=lambda var: True, kind: str = "float") -> Var:
        """A variable to overwrite."""
        if self.plain:
            raise NoFit
        return self.pick(lambda var: not var.fixed and fits(var), kind)

    # ---- lines ----

    @property
    def depth(self) -> int:
        return len(self.blocks) - 1

    def fresh(self, prefix: str) -> str:
        self.counts[prefix] = self.counts.get(prefix, -1) + 1
        return f"{prefix}{self.counts[prefix]}"

    def say(self, *parts) -> None:
        """Adds a step."""
        self.blocks[-1].append(list(parts))

    def add(self, name: str, dims: list[Dim], kind: str = "float", **more) -> Var:
        """Notes a variable that a line has bound."""
        var = Var(name, list(dims), kind, depth=self.depth, **more)
        self.vars.append(var)
        return var

    def new(self, text: str, dims: list[Dim], kind: str = "float", **more) -> Var:
        """A variable that is the value of an expression."""
        name = self.fresh("v")
        self.say(f"{name} = {text}")
        return self.add(name, dims, kind, **more)

    def like(self, text: str, var: Var) -> Var:
        """A new variable with the dimensions of another one."""
        return self.new(text, var.dims, rows=var.rows)

    def written(self, var: Var, dims: list[Dim], rows: str | None = None) -> None:
        """Notes that a line gave a variable another value; it counts as a late one now."""
        self.vars.remove(var)
        self.vars.append(replace(var, dims=list(dims), rows=rows))

    def block(self, fill) -> tuple[list, object]:
        """The steps that fill() adds, and what it returns. What the block makes is not known outside of it."""
        before = [replace(var) for var in self.vars]
        self.blocks.append([])
        try:
            result = fill()
        finally:
            steps = self.blocks.pop()
            self.vars = before
        return steps, result

    # ---- the whole ----

    def feed(self, dims: list[Dim], kind: str = "float", rows: str | None = None, high: int = 0) -> Var:
        name = self.fresh("x")
        shape = [dim if isinstance(dim, int) else -1 for dim in dims]
        dtype = "DTYPE" if kind == "float" else "'int64'"
        checked = self.chance(0.5)  # against the shape that is declared
        text = f"fluid.data('{name}', {shape}, {dtype}, {1 if rows else 0})"
        if not checked:
            text = f"L.data('{name}', {shape}, append_batch_size=False, dtype={dtype}, lod_level={1 if rows else 0})"
        self.say(f"{name} = {text}", *([f"{name}.stop_gradient = False"] if kind == "float" else []))
        self.feeds[name] = {"dims": dims, "kind": kind, "high": high, "rows": rows, "checked": checked}
        return self.add(name, dims, kind, rows=rows, high=high, fixed=kind != "float")

    def steps(self, count: int, makers: list) -> None:
        """Adds steps by makers: (weight, function)."""
        weights = [weight for weight, _ in makers]
        done = tries = 0
        while done < count and tries < count * 30:
            tries += 1
            maker = self.random.choices(makers, weights)[0][1]
            steps, known = len(self.blocks[-1]), list(self.vars)
            try:
                maker(self)
                done += 1
            except NoFit:
                del self.blocks[-1][steps:]  # what it said before it gave up
                self.vars = known


def make(seed: int) -> dict:
    """The recipe of a seed."""
    from . import make_runs  # the makers import this module

    return make_runs.recipe(Generator(seed))
