"""The whole recipe: feeds, steps, loss, optimizer, and the runs with their sizes and fetches."""

from . import make_blocks, make_inplace, make_math, make_sequence, make_shape
from .generate import Generator

OPTIMIZERS = ["SGD(0.1)", "Momentum(0.05, 0.9)", "Adam(0.05)", "Adagrad(0.05)", "RMSProp(0.02)",
              "SGD(0.1, regularization=fluid.regularizer.L2Decay(0.1))",
              "SGD(0.1, grad_clip=fluid.clip.GradientClipByGlobalNorm(1.0))"]
FOR_SPARSE = ["SGD(0.1)", "Adagrad(0.05)"]  # whose rules are those of 1.8.5 with selected rows too


def shape(g: Generator) -> list[int | str]:
    rank = g.random.choices([1, 2, 3, 4], [1, 6, 4, 3])[0]
    sizes = [g.random.choices([1, 2, 3, 4, 5, 6, 7], [2, 3, 3, 3, 1, 2, 1])[0] for _ in range(rank)]
    if rank > 1 and g.chance(0.85):
        sizes[0] = "B"
    return sizes


def feeds(g: Generator, sequences: int, ids: bool) -> None:
    for _ in range(g.random.randint(1, 3)):
        g.feed(shape(g))
    for number in range(sequences):
        rows = f"T{number}"
        g.feed([rows, g.random.randint(1, 4)], rows=rows)
        if ids:
            g.feed([rows, 1], "int", rows=rows, high=g.random.randint(1, 6))
    if ids:
        g.feed(["B", 1], "int", high=g.random.randint(1, 5))


def makers(g: Generator) -> list:
    found = [*make_math.MAKERS, *make_shape.MAKERS, *make_sequence.MAKERS]
    if not g.plain:
        found += [(2 * weight, maker) for weight, maker in make_inplace.MAKERS]
    if g.chance(0.5):
        found += [(g.choice([1, 3]) * weight, maker) for weight, maker in make_blocks.MAKERS]
    return found


def runs(g: Generator, sequences: int) -> list[dict]:
    names = [var.name for var in g.vars]
    every = g.choice([0.1, 0.4, 1.0])  # how much is fetched
    found = []
    for number in range(g.random.randint(1, 5)):
        if found and g.chance(0.25):
            run = dict(found[0])  # sizes that were there before
        else:
            batch = g.random.choices([1, 2, 3, 5, 8, 33, 0], [3, 4, 4, 3, 2, 1, 0.3 if number else 0])[0]
            run = {"B": batch}
            for rows in range(sequences):
                run[f"T{rows}"] = [g.random.choices([0, 1, 2, 3, 4], [0.3, 3, 3, 2, 1])[0] for _ in range(batch)]
        run["test"] = number > 0 and g.chance(0.2)
        if not found or g.chance(0.5):
            fetched = [name for name in names if g.chance(every)]
        run["fetch"] = fetched
        found.append(run)
    return found


def recipe(g: Generator) -> dict:
    sequences = g.random.choices([0, 1, 2], [6, 3, 1])[0]
    feeds(g, sequences, ids=g.chance(0.6))
    g.steps(g.random.choice([3, 6, 10, 16, 25]), makers(g))
    late = [var.name for var in g.vars if var.kind == "float" and var.depth == 0]
    loss = sorted({late[-1], *(name for name in late[-8:] if g.chance(0.35))})
    optimizer = None
    if g.chance(0.6):
        sparse = "is_sparse=True" in str(g.blocks[0])
        optimizer = "fluid.optimizer." + g.choice(FOR_SPARSE if sparse else OPTIMIZERS)
    return {"seed": g.seed, "feeds": g.feeds, "steps": g.blocks[0], "loss": loss, "optimizer": optimizer,
            "runs": runs(g, sequences), "model": g.chance(0.15)}
