"""A recipe: a random Program and its runs, as plain data. Runs under Python 3.7 too, for paddlepaddle 1.8.5.

    seed       what it was made from
    feeds      name -> {"dims": [...], "kind": "float" or "int", "high": of ints, "rows": None or the name of sequence lengths,
               "checked": it is fed only what it declares}
    steps      lines of Python, in order; a step is a list of lines and of lists of steps, which are indented
    loss       names of the variables it adds up
    optimizer  an expression, or None: gradients alone
    runs       each {"B": batch size, "T0": lengths, ..., "fetch": names, "test": run the clone for tests}
    model      save and load it as an inference model, too

A dimension is a number or an expression over the sizes of a run: "B", "T0" (the sum of lengths), "B*3".
"""

import re
import zlib

import numpy as np

BOUND = re.compile(r"^(\w+(?:, \w+)*) = |^def (\w+)")
NAME = re.compile(r"[A-Za-z_]\w*")


def lines_of(steps, indent=""):
    """The text of steps."""
    found = []
    for step in steps:
        for part in step:
            if isinstance(part, str):
                found.append(indent + part)
            else:
                found += lines_of(part, indent + "    ") or [indent + "    pass"]
    return found


def bound_names(step):
    """The names that a step binds for steps after it."""
    found = set()
    for part in step:
        match = BOUND.match(part) if isinstance(part, str) else None
        if match:
            found.update((match.group(1) or match.group(2)).split(", "))
    return found


def used_names(step):
    """All names in a step."""
    return set(NAME.findall("\n".join(lines_of([step]))))


def sizes_of(run):
    """What the dimensions of a run are computed with."""
    return {key: sum(value) if isinstance(value, list) else value for key, value in run.items()
            if re.match(r"(B|T\d+)$", key)}


def random_of(*words):
    """Random numbers that depend on these words alone."""
    return np.random.RandomState(zlib.crc32("/".join(map(str, words)).encode()) & 0x7FFFFFFF)


def values_of(feed, name, recipe, number):
    """(array in float64 or int64, sequence lengths or None) to feed in a run. Numbers are short, so that a script can hold them."""
    run = recipe["runs"][number]
    sizes = sizes_of(run)
    shape = [int(eval(str(dim), {}, sizes)) for dim in feed["dims"]]
    random = random_of(recipe["seed"], number, name)
    if feed["kind"] == "int":
        array = random.randint(0, feed["high"], size=shape).astype("int64")
    else:
        array = random.uniform(-1, 1, size=shape).round(6)
    return array, run[feed["rows"]] if feed["rows"] else None


def start_of(name, shape):
    """Where a parameter begins."""
    return random_of("start", name, *shape).uniform(-0.6, 0.6, size=shape).round(6)
