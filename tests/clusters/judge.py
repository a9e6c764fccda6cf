"""Runs a recipe as one process and as a job, and compares: losses and fetches of each step, parameters and states at the end.

Numbers agree to 1e-5 of the norm of what they should be (and 1e-8 for each element), losses to 1e-5: the sum over a joined batch
rounds otherwise than the average over trainers. Where a recipe is further apart, one process is run again with the rows of each
batch in other orders, up to eight. When that alone moves it by a tenth as much, the recipe is one where rounding decides: it is
counted, and no finding. Modes "sums" and what servers hold against what a trainer saved are compared to the bit.
"""

from __future__ import annotations

import contextlib
import json
import pickle
import re
import shutil
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np

from .make_faults import are_new
from .nursery import Nursery
from .recipe import present
from .stage import Born, Stage, Wrong

CLOSE, FLOOR = 1e-5, 1e-8
OWN = re.compile(r"batch_norm_\d+\.w_[12]|.*_ema_.*")  # what trainers alone hold
SINGLE_SECONDS = 300
ORDERS = 8  # of rows, to find out whether rounding decides


class Refused(Exception):
    """The script is not one to compare: one process cannot run it, or transpile says why not."""


def distance(got: np.ndarray, want: np.ndarray) -> float:
    """In norm, compared with what it should be; more than 1e-5 is too far."""
    got, want = np.asarray(got, "float64"), np.asarray(want, "float64")
    if got.shape != want.shape:
        return float("inf")
    far = max(0.0, float(np.linalg.norm(got - want)) - FLOOR * np.sqrt(want.size)) / max(1e-12, float(np.linalg.norm(want)))
    return far if np.isfinite(far) else float("inf")


def saved(folder: Path, who: str) -> dict[str, np.ndarray]:
    found = {}
    for ending in ("pdparams", "pdopt"):
        path = folder / f"saved-{who}.{ending}"
        if path.exists():
            found |= {name: np.asarray(value) for name, value in pickle.loads(path.read_bytes()).items()}
    return found


def seen(folder: Path, who: str) -> dict[int, np.ndarray]:
    """What was fetched by step. Of a step that two processes of a trainer did, one of them for nothing, that of the last."""
    found = {}
    for path in sorted(folder.glob(f"seen-{who}-*"), key=lambda path: path.stat().st_mtime_ns):
        for line in path.read_text().split("\n")[:-1]:  # the last one may be torn
            step, *numbers = line.split()
            found[int(step)] = np.array([float(number) for number in numbers])
    return found


class Judge:
    """Looks at recipes, and counts."""

    def __init__(self, nursery: Nursery):
        self.nursery, self.counts = nursery, Counter()
        self.reasons: Counter = Counter()
        self.examples: dict[str, int] = {}  # a seed for each reason
        self.worst = 0.0

    def look(self, recipe: dict) -> Wrong | None:
        """What is wrong with the job of a recipe."""
        folder = Path(tempfile.mkdtemp(prefix="cluster-"))
        self.counts["recipes"] += 1
        try:
            with contextlib.suppress(Refused):
                return self.look_in(folder, recipe)
            return None
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def look_in(self, folder: Path, recipe: dict) -> Wrong | None:
        stage = Stage(self.nursery, recipe, folder)
        try:
            want = self.alone(folder, recipe)
            stage.run()
            far = self.compare(folder, recipe, want)
        except Wrong as wrong:
            return Wrong(wrong.kind, f"{wrong}\n{stage.outputs()}")
        finally:
            stage.clear()
        self.counts["jobs"] += 1
        self.counts[f"jobs, {recipe['mode']}"] += 1
        for fault in recipe["faults"]:
            self.counts[f"fault: {fault['kind']}"] += 1
        if stage.proxy:
            done = stage.proxy.done
            self.counts["fault: connections cut, stalled or half closed"] += sum(done.values()) - done["delay"]
        if not far:
            return None
        kind, name, much = max(far, key=lambda each: each[2])
        if recipe["mode"] != "sums" and kind != "bits" and self.is_rounding(recipe, want, much):
            self.counts["rounding decides"] += 1
            self.examples["rounding decides"] = recipe["seed"]
            return None
        table = "\n".join(f"{each[0]} of {each[1]!r} differs by {each[2]:.2e}" for each in far)
        return Wrong("numbers", f"all processes ended with status 0\n{table}\n{stage.outputs()}")

    # ---- one process ----

    def alone(self, folder: Path, recipe: dict, *more: str) -> tuple[dict, dict]:
        """What each step fetched, and what is there at the end."""
        words = ["single", "--recipe", str(folder / "recipe"), "--folder", str(folder), *more]
        env = {key: value for key, value in recipe["env"].items() if key.startswith("FLAGS_fuse")}
        process = Born(self.nursery, "single", words, folder, env, True)
        try:
            status = process.wait(SINGLE_SECONDS)
        finally:
            process.kill()
        if status:
            lines = [line for line in process.output().splitlines() if line.strip()]
            if status < 0:
                raise Wrong("crash", f"one process ended with {status}\n{process.output()[-3000:]}")
            why = " ".join(line for line in lines[-6:] if "Error: " in line) or lines[-1]
            self.refuse(recipe, "one process", why)
        if (folder / "refused").exists():
            self.refuse(recipe, "transpile", (folder / "refused").read_text())
        steps, end = seen(folder, "single"), saved(folder, "single")
        if not all(np.isfinite(value).all() for value in [*steps.values(), *end.values()]):
            self.refuse(recipe, "one process", "numbers that are not finite")
        return steps, end

    def refuse(self, recipe: dict, who: str, why: str) -> None:
        why = re.sub(r"'[^']*'|\"[^\"]*\"", "*", why.strip())
        why = f"{who}: {re.sub(r'[0-9]+', 'N', why)[:100]}"
        self.reasons[why] += 1
        self.examples.setdefault(why, recipe["seed"])
        self.counts["refused"] += 1
        raise Refused

    def is_rounding(self, recipe: dict, want: tuple[dict, dict], much: float) -> bool:
        """Is one process a tenth of `much` from itself when the rows of its batches come in another order?"""
        return any(each[2] * 10 >= much for turned in range(1, ORDERS + 1) for each in self.rounding(recipe, want, turned))

    def rounding(self, recipe: dict, want: tuple[dict, dict], turned: int) -> list[tuple[str, str, float]]:
        """How far one process is from itself when the rows of its batches come in the order of this number."""
        with tempfile.TemporaryDirectory(prefix="cluster-") as name:
            folder = Path(name)
            (folder / "recipe").write_text(json.dumps(recipe))
            steps, end = self.alone(folder, recipe, "--turned", str(turned))
        found = [("state", name, distance(end[name], value)) for name, value in want[1].items()]
        return found + [("step", str(step), step_distance(steps[step], value)) for step, value in want[0].items()]

    # ---- comparing ----

    def compare(self, folder: Path, recipe: dict, want: tuple[dict, dict]) -> list[tuple[str, str, float]]:
        """What is too far from one process: (what, of what, how far)."""
        exact = recipe["mode"] == "sums"
        last = recipe["batches"].index(max(recipe["batches"]))
        got, there = saved(folder, f"trainer-{last}"), held(folder, want[1])
        if exact:  # a trainer has parameters as they were after its own last step
            got |= {name: copies[0] for name, copies in there.items()}
        found = [("name, on one side only,", name, float("inf")) for name in got.keys() ^ want[1].keys()]
        for name in got.keys() & want[1].keys():
            much = distance(got[name], want[1][name])
            found.append(("value", name, max(much, 1.0) if exact and not np.array_equal(got[name], want[1][name]) else much))
        self.worst = max([self.worst, *(much for _, _, much in found if much <= CLOSE)])
        # What servers hold is what a trainer saved. In async mode one that trains nothing counts no steps.
        every = all if recipe["mode"] == "sync" else any
        found += [("bits", name, 1.0) for name, copies in there.items()
                  if name in got and not OWN.fullmatch(name) and not every(np.array_equal(copy, got[name]) for copy in copies)]
        if not exact:
            found += self.compare_steps(folder, recipe, want[0])
        return [each for each in found if each[2] > CLOSE]

    def compare_steps(self, folder: Path, recipe: dict, want: dict) -> list[tuple[str, str, float]]:
        found = []
        by_trainer = [seen(folder, f"trainer-{i}") for i in range(recipe["trainers"])]
        for step, values in want.items():
            there = [by_trainer[i][step] for i in present(recipe, step) if step in by_trainer[i]]
            if len(there) < len(present(recipe, step)):
                if not are_new(recipe):  # a process that was killed may have ended a step without a word
                    found.append(("step, not done by all,", str(step), float("inf")))
                continue
            mean = np.concatenate([[np.mean([each[0] for each in there])], there[0][1:]])
            found.append(("step", str(step), step_distance(mean, values)))
            found += [("fetch of step", f"{step}, by another trainer,", step_distance(each[1:], values[1:])) for each in there[1:]]
        return found


def held(folder: Path, like: dict[str, np.ndarray]) -> dict[str, list[np.ndarray]]:
    """What servers have of variables with these names and shapes: the copy of each server, or one put together from slices."""
    parts: dict[str, list] = {}
    for path in sorted(folder.glob("held-*")):
        for name, value in pickle.loads(path.read_bytes()).items():
            cut = re.fullmatch(r"(.*)\.block(\d+)", name, re.DOTALL)
            key, number = (cut[1], int(cut[2])) if cut and name not in like else (name, 0)
            parts.setdefault(key, []).append((number, value))
    found = {}
    for name in parts.keys() & like.keys():
        values = [value for _, value in sorted(parts[name], key=lambda each: each[0])]
        are_whole = all(value.shape == like[name].shape for value in values)
        found[name] = values if are_whole else [np.concatenate(values)]
    return found


def step_distance(got: np.ndarray, want: np.ndarray) -> float:
    """As np.testing.assert_allclose with 1e-5 and 1e-6, to be compared with 1e-5."""
    if got.shape != want.shape:
        return float("inf")
    far = np.abs(got - want) / (np.abs(want) + 0.1)
    return float(np.where(np.isfinite(far), far, np.inf).max(initial=0.0))
