"""A recipe: a random training script, the job that runs it and what happens to that job, as plain data.

    seed      what it was made from
    mode      "sync"; "async" (of one trainer); "sums" (async, several trainers, gradients that depend on no parameter)
    servers, trainers, batches    batches: how many each trainer has; one with fewer leaves before the others
    rows      the batch sizes of steps, in turn
    feeds     name -> {"kind": ..., more}, see `values`
    script    the lines that build `loss`, call minimize, and may set `fetches`
    places    on so many a trainer runs; 0: without with_data_parallel
    evaluates whether trainers run a clone for tests between steps
    config    attributes of DistributeTranspilerConfig
    env       the environment of all processes; "FOLDER" in it stands for the job's own
    fork      whether processes are forked from one that has loaded all already (quick), or are started anew
    order     in which they are started
    resumes   whether trainers ask steps_done()
    proxy     None, or how often connections are cut on their way
    faults    what is done to the job; see stage.py
"""

from __future__ import annotations

import json
import zlib

import numpy as np

PLAIN = ("seed", "mode", "servers", "trainers", "batches", "rows", "places", "evaluates", "config", "env", "fork", "order",
         "resumes", "proxy")


def random_of(*words) -> np.random.RandomState:
    """Random numbers that depend on these words alone."""
    return np.random.RandomState(zlib.crc32("/".join(map(str, words)).encode()) & 0x7FFFFFFF)


def values(recipe: dict, name: str, trainer: int, step: int) -> tuple[np.ndarray, list[int] | None]:
    """What one trainer feeds in a step: an array, and the lengths of its sequences."""
    feed = recipe["feeds"][name]
    kind, rows = feed["kind"], recipe["rows"][step % len(recipe["rows"])]
    random = random_of(recipe["seed"], name, "all" if kind == "same" else trainer, step)
    if kind == "same":  # for all trainers: branches and loops go the same way
        return np.array([feed["values"][step % len(feed["values"])]], feed["dtype"]), None
    if kind == "float":
        return random.uniform(-1, 1, [rows, *feed["dims"]]).astype("float32"), None
    if kind == "whole":  # numbers whose sums are exact
        return random.randint(-2, 3, [rows, *feed["dims"]]).astype("float32"), None
    if kind == "ids":
        return random.randint(0, feed["high"], [rows, *feed["dims"]]).astype("int64"), None
    assert kind == "words", kind
    lengths = random.randint(feed["least"], feed["most"] + 1, rows)
    if feed["least"] == 0 and random.rand() < feed["empty"]:
        lengths[:] = 0  # a batch without any id
    return random.randint(0, feed["high"], [int(lengths.sum()), 1]).astype("int64"), [int(n) for n in lengths]


def joined(recipe: dict, name: str, trainers: list[int], step: int, turned: int = 0) -> tuple[np.ndarray, list[int] | None]:
    """What one process feeds in the place of these trainers. `turned`: the same rows in another order: 1 from the last to the
    first, any other number one of its own."""
    if recipe["feeds"][name]["kind"] == "same":
        return values(recipe, name, 0, step)
    parts = [values(recipe, name, trainer, step) for trainer in trainers]
    array = np.concatenate([part for part, _ in parts])
    lengths = None if parts[0][1] is None else [n for _, each in parts for n in each]
    if not turned:
        return array, lengths
    rows = len(array) if lengths is None else len(lengths)
    order = np.arange(rows)[::-1] if turned == 1 else random_of("order", turned, step).permutation(rows)
    if lengths is None:
        return array[order], None
    sequences = np.split(array, np.cumsum(lengths)[:-1])
    return np.concatenate([array[:0], *(sequences[i] for i in order)]), [lengths[i] for i in order]


def present(recipe: dict, step: int) -> list[int]:
    """The trainers that take part in a step."""
    return [i for i, batches in enumerate(recipe["batches"]) if step < batches]


def text_of(recipe: dict) -> str:
    """A recipe for people: what it is, and its script."""
    lines = [f"{key}: {json.dumps(recipe[key])}" for key in PLAIN]
    lines += [f"feed {name}: {json.dumps(feed)}" for name, feed in recipe["feeds"].items()]
    lines += [f"fault: {json.dumps(fault)}" for fault in recipe["faults"]]
    return "\n".join([*lines, "", *recipe["script"]])
