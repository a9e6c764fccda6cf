"""From a seed to a recipe."""

from __future__ import annotations

import random

from . import make_faults, make_model, make_update
from .make_model import Model

KINDS = (("plain", 0.4), ("hit", 0.35), ("async", 0.1), ("sums", 0.15))


def make(seed: int) -> dict:
    rng = random.Random(seed)
    kind = rng.choices([name for name, _ in KINDS], [share for _, share in KINDS])[0]
    mode = kind if kind in ("async", "sums") else "sync"
    is_hit = kind == "hit" or (kind == "async" and rng.random() < 0.5) or (kind == "sums" and rng.random() < 0.8)
    servers = rng.choice([1, 2, 2, 3])
    trainers = 1 if mode == "async" else rng.choice([1, 2, 2, 3])
    recipe = {"seed": seed, "mode": mode, "servers": servers, "trainers": trainers, "batches": [], "rows": [], "feeds": {},
              "script": [], "evaluates": False, "config": config(rng), "env": make_faults.settings(rng, mode, is_hit),
              "fork": rng.random() < 0.85, "places": 0, "resumes": rng.random() < 0.3, "proxy": None, "faults": [],
              "communicator": None}
    order = [f"server-{i}" for i in range(servers)] + [f"trainer-{i}" for i in range(trainers)]
    recipe["order"] = rng.sample(order, len(order))
    if is_hit:
        make_faults.draw(rng, recipe, rng.choice([1, 1, 2, 3]))
    else:
        steps = rng.randint(3, 8)
        uneven = rng.random() < 0.3
        recipe["batches"] = [rng.randint(0, steps) if uneven else steps for _ in range(trainers)]
        recipe["batches"][rng.randrange(trainers)] = steps
    if mode == "sums":
        sums(rng, recipe)
        communicator(rng, recipe)
    else:
        trained(rng, recipe)
    return recipe


def communicator(rng: random.Random, recipe: dict) -> None:
    """A queue of steps in some jobs whose trainers live on: one that is killed loses what it has queued. One that leaves and goes
    on behind steps_done() has to have a step for each batch."""
    kinds = {fault["kind"] for fault in recipe["faults"]}
    if kinds & make_faults.TRAINERS_DIE or rng.random() < 0.5:
        return
    merge = 1 if "leave" in kinds else rng.choice([1, 1, 2, 5])
    recipe["communicator"] = {"communicator_send_queue_size": rng.choice([1, 2, 8]), "communicator_max_merge_var_num": merge,
                              "communicator_send_wait_times": rng.choice([0, 1]),
                              "communicator_min_send_grad_num_before_recv": rng.choice([1, 20])}


def config(rng: random.Random) -> dict:
    return {"slice_var_up": rng.random() < 0.8, "min_block_size": rng.choice([8192, 8192, 9001, 20000]),
            "split_method": rng.choice([None, None, "RoundRobin", "HashName"])}


def trained(rng: random.Random, recipe: dict) -> None:
    """A model and its update."""
    model = make_model.make(rng, recipe["trainers"] == 1, not make_faults.are_new(recipe))
    recipe["evaluates"] = rng.random() < 0.2
    if recipe["evaluates"]:
        model.lines.append("test = fluid.default_main_program().clone(for_test=True)")
    make_update.make(model)
    recipe["script"], recipe["feeds"] = model.lines, model.feeds
    recipe["rows"] = [max(model.need_rows, rng.choice([1, 2, 3, 8, 16])) for _ in range(rng.choice([1, 2, 3]))]
    if all(feed["kind"] in ("float", "ids") for feed in model.feeds.values()) and "fetches" not in "".join(model.lines) and \
            model.need_rows == 1 and rng.random() < 0.25:
        recipe["places"] = 2
        recipe["rows"] = [rows * 2 for rows in recipe["rows"]]


def sums(rng: random.Random, recipe: dict) -> None:
    """Each update takes whole numbers, which depend on the batch alone, off its parameters: in any order the end is the same, to
    the bit, when each counts once."""
    model = Model(rng, False, False)
    parts = []

    def zero(name: str) -> str:
        return f"param_attr=fluid.ParamAttr(name={name!r}, initializer=fluid.initializer.Constant(0.0))"

    for i in range(rng.randint(1, 3)):
        name, width = f"x{i}", rng.choice([1, 7, 33])
        size = rng.choice([1, 5, 33, 9000 // width, 20000 // width])
        model.feeds[name] = {"kind": "whole", "dims": [width]}
        model.lines.append(f"{name} = L.data({name!r}, [{width}])")
        called = zero(rng.choice([f"w{i}", f"w{i}.block0", f"w {i}"]))
        parts.append(f"L.reduce_sum(L.fc({name}, {size}, {called}, bias_attr={rng.choice(['None', 'False'])}))")
    kinds = ["is_sparse=False", "is_sparse=True", "is_sparse=True, is_distributed=True"]
    for i, kind in enumerate(rng.sample(kinds, rng.randint(0, 3))):
        name, (height, width) = f"ids{i}", rng.choice([(5, 1), (50, 8), (1300, 16), (700, 33)])
        model.feeds[name] = {"kind": "words", "high": height, "least": 0, "most": 3, "empty": 0.3}
        model.lines.append(f"{name} = L.data({name!r}, [1], dtype='int64', lod_level=1)")
        rows = f"L.embedding({name}, [{height}, {width}], {zero(f't{i}')}, {kind})"
        parts.append(f"L.reduce_sum(L.sequence_pool({rows}, 'sum'))")
    model.lines += [f"loss = L.sums([{', '.join(parts)}])", f"fluid.optimizer.SGD({rng.choice([1.0, 0.5])}).minimize(loss)"]
    recipe["script"], recipe["feeds"] = model.lines, model.feeds
    recipe["rows"] = [rng.choice([1, 2, 5]) for _ in range(2)]
