"""Runs a recipe in all ways and says what is wrong.

    planned   as users run it: memory shared, ops fused
    bare      every temporary in memory of its own, no op fused
    apart     bare, and no op writes what it reads
    slopes    finite differences of the loss in float64
    real      paddlepaddle 1.8.5

All are in float64; planned and bare are compared in float32 too, where other kernels run.
"""

import re
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from .client import Child, Died
from .recipe import lines_of

PLANNED = {"FLAGS_fuse_ops": 1, "FLAGS_share_memory": 1}
BARE = {"FLAGS_fuse_ops": 0, "FLAGS_share_memory": 0}
SAME = 1e-9  # float64, the same sums in another order
REAL = 1e-6  # some kernels of 1.8.5 have constants in float32
SINGLE = 2e-4
LARGE = 1e5  # a loss past this says nothing about rounding


@dataclass
class Finding:
    """Something wrong: its kind, by which shrinking knows it again, and a text."""

    kind: str
    text: str


@dataclass
class Judge:
    """The children, and what was counted."""

    ours: Child
    real: Child | None = None
    counts: Counter = field(default_factory=Counter)
    single: bool = True  # in float32 too

    def look(self, recipe: dict) -> Finding | None:
        """The first thing that is wrong with a recipe."""
        try:
            return self.compare(recipe)
        except Died as death:
            return Finding("death", f"the process died: {death}")

    def compare(self, recipe: dict) -> Finding | None:
        self.counts["recipes"] += 1
        planned = self.run(recipe)
        bare = self.run(recipe, flags=BARE)
        found = difference("planned", planned, "bare", bare, SAME)
        if found:
            return found
        error = planned["error"]
        if not error or not error.startswith("build"):
            found = difference("bare", bare, "apart", self.run(recipe, flags=BARE, apart=True), SAME)
        if not found and not error and finite(planned) and not recipe["runs"][0]["test"]:
            self.counts["gradients"] += 1
            found = self.slopes(recipe, planned)
        if not found and self.single and not error:
            found = self.in_single(recipe, bare)
        if not found and self.real:
            found = self.with_real(recipe, planned)
        if error:
            self.counts["refused"] += 1
            self.counts["refused: " + re.sub(r"\d+", "N", short(error))] += 1
        return found

    def run(self, recipe: dict, child: Child | None = None, dtype: str = "float64", flags: dict | None = None,
            apart: bool = False) -> dict:
        return (child or self.ours).call(job="run", recipe=recipe, dtype=dtype, flags=flags or PLANNED, apart=apart)

    def slopes(self, recipe: dict, planned: dict) -> Finding | None:
        """Gradients of run 0 against finite differences."""
        found = self.ours.call(job="slopes", recipe=recipe, flags=BARE)
        if "error" in found:
            return Finding("slopes", f"finite differences: {found['error']}")
        if not abs(found["loss"]) < LARGE:
            self.counts["large"] += 1
            return None
        for leaf, entry in found["leaves"].items():
            if "regularization" in (recipe["optimizer"] or "") and leaf not in recipe["feeds"]:
                continue  # is added to the gradient of a parameter in place
            gradient = planned["runs"][0].get(f"{leaf}@GRAD")
            if entry["sides"] == (0.0, 0.0) and overwritten(recipe, leaf):
                continue  # its first value goes nowhere, and the gradient is that of a later one
            if gradient is not None and gradient.shape != entry["direction"].shape:
                return Finding("gradient", f"{leaf} is {list(entry['direction'].shape)}, its gradient {list(gradient.shape)}")
            got = 0.0 if gradient is None else float(np.sum(gradient * entry["direction"]))
            want, (low, high) = entry["slope"], entry["sides"]
            # The sides differ at a kink; there any slope between them is right. Where many elements have one (a maximum of equal
            # values), each may take the side that it likes: one side may have some of them, the other side the others.
            is_kink = abs(high - low) > 1e-3 * (abs(high) + abs(low))
            apart = abs(high) + abs(low) if is_kink else abs(high - low)
            allowed = 1e-5 * max(abs(want), abs(got)) + 1e-6 * (1 + abs(found["loss"])) + apart
            if not abs(got - want) <= allowed and found["ties"]:
                self.counts["equal extremes"] += 1
            elif not abs(got - want) <= allowed:
                return Finding("gradient", f"the gradient of {leaf} has slope {got:.8g}, finite differences {want:.8g} (sides "
                                           f"{low:.8g} and {high:.8g})"
                               + (", there is no gradient" if gradient is None else ""))
        return None

    def in_single(self, recipe: dict, double: dict) -> Finding | None:
        planned, bare = (self.run(recipe, dtype="float32", flags=flags) for flags in (PLANNED, BARE))
        # Where float32 itself is far from float64, rounding is all there is to see.
        for number, values in enumerate(bare["runs"]):
            for name, value in values.items():
                if number < len(double["runs"]) and far(value, double["runs"][number][name], 1e-2):
                    self.counts["ill-conditioned"] += 1
                    return None
        return difference("planned in float32", planned, "bare in float32", bare, SINGLE)

    def with_real(self, recipe: dict, planned: dict) -> Finding | None:
        """The numbers of 1.8.5; in float32 where it cannot do it in float64."""
        tolerance = REAL
        try:
            real = self.run(recipe, child=self.real)
            if real["error"] and re.search("float64|double|FP64", real["error"]):
                real, tolerance = self.run(recipe, child=self.real, dtype="float32"), SINGLE
        except Died:
            self.counts["1.8.5 died"] += 1
            return None
        if real["error"]:
            self.counts["1.8.5 refused"] += 1
            self.counts["1.8.5: " + re.sub(r"\d+", "N", short(real["error"]))] += 1
        elif planned["error"]:
            return Finding("refused", f"1.8.5 runs it, this does not: {planned['error']}")
        self.counts["compared with 1.8.5"] += 1
        # 1.8.5 takes an increment back when its gradient is computed.
        text = "\n".join(lines_of(recipe["steps"]))
        counted = set(re.findall(r"L\.increment\((\w+)", text))
        parameters = {own for name in counted
                      for own in re.findall(rf"^ *{name} = L\.create_parameter\(.*name='(\w+)'", text, re.M)}
        counted |= parameters
        found = self.unlike(planned, real, tolerance, counted, parameters)
        if found and found.kind == "real":
            dtype = "float64" if tolerance == REAL else "float32"
            try:
                again = self.unlike(planned, self.run(recipe, child=self.real, dtype=dtype, apart=True),
                                    tolerance, counted, parameters)
            except Died:
                again = None
            if not again or again.kind != "real":  # it is 1.8.5 that cannot do this in place
                self.counts["1.8.5 differs in place"] += 1
                return None
        if found and found.kind == "lost by 1.8.5":  # it divides by zero where a factor of a product is zero
            self.counts["1.8.5 is not finite"] += 1
            return None
        if found and found.kind == "gradient of 1.8.5":  # ours were checked by finite differences
            self.counts["1.8.5 has other gradients"] += 1
            return None
        return found

    @staticmethod
    def unlike(planned: dict, real: dict, tolerance: float, passed_over: set[str], taken_back: set[str]) -> Finding | None:
        """The first difference; after one in a gradient the updates differ as well. So they do after one in a gradient that is too
        small to be compared: some optimizers take a step of the same length whatever its size."""
        small = False
        for number, (ours, theirs) in enumerate(zip(planned["runs"], real["runs"])):
            # Forward values, then gradients, then what these have changed.
            gradients = {name for name in ours if name.endswith("@GRAD")}
            updated = {name for name in ours if f"{name}@GRAD" in gradients | set(theirs)}
            shared = set(ours) & set(theirs) - passed_over
            for name in sorted(shared - updated, key=lambda name: (name in gradients, name)):
                if far(ours[name], theirs[name], tolerance):
                    kind = "gradient of 1.8.5" if name.endswith("@GRAD") or small else real_or_lost(ours[name], theirs[name])
                    return Finding(kind, f"run {number}, {name}: {show(ours[name])}, 1.8.5 has {show(theirs[name])}")
            if gradients != {name for name in theirs if name.endswith("@GRAD")}:
                return Finding("gradient of 1.8.5", "only one of them has a gradient")
            small |= any(far(ours[name], theirs[name], 1e-3, 0.0) for name in gradients & shared)
            for name in sorted(shared & updated):
                if far(ours[name], theirs[name], tolerance):
                    kind = "gradient of 1.8.5" if small else real_or_lost(ours[name], theirs[name])
                    return Finding(kind, f"run {number}, {name}: {show(ours[name])}, 1.8.5 has {show(theirs[name])}")
            if any(not np.isfinite(ours[name]).all() for name in shared if ours[name].dtype.kind == "f"):
                return None  # both have it: what is trained now is no number, which some kernels of 1.8.5 turn into one
            if any(f"{name}@GRAD" in theirs for name in taken_back):
                return None  # the next run of 1.8.5 begins with other parameters
        return None


def real_or_lost(ours: np.ndarray, theirs: np.ndarray) -> str:
    """What kind of difference it is: numbers that 1.8.5 alone has lost are no finding."""
    return "lost by 1.8.5" if np.isfinite(ours).all() and not np.isfinite(theirs).all() else "real"


def overwritten(recipe: dict, name: str) -> bool:
    """An op writes this variable."""
    writes = re.compile(rf"output={name}\b|out={name}\b|'Out': {name}\b|(inplace\(\S+|increment\() ?{name}\b")
    return any(writes.search(line) for line in lines_of(recipe["steps"]))


def short(error: str) -> str:
    """The telling part of an error of 1.8.5."""
    match = re.search(r"\n(\w*Error: .{0,80})", error)
    return (error.split("\n")[0][:60] + " " + match.group(1)) if match else error.split("\n")[0][:120]


def finite(result: dict) -> bool:
    return all(np.isfinite(value).all() for values in result["runs"][:1] for value in values.values() if value.dtype.kind == "f")


def far(a: np.ndarray, b: np.ndarray, tolerance: float, least: float = 1.0) -> bool:
    """Other shapes, or numbers that differ by more than this part of the largest, and of `least` besides."""
    if a.size == 0 and b.size == 0:
        return False
    if a.shape != b.shape:
        return True
    a, b = a.astype("float64"), b.astype("float64")
    if not (np.isfinite(a) == np.isfinite(b)).all():
        return True
    with np.errstate(invalid="ignore"):
        gap = np.where(np.isfinite(a), np.abs(a - b), 0.0)
    size = np.max(np.abs(b[np.isfinite(b)]), initial=0.0)
    return bool(np.max(gap) > tolerance * (least + size))


def difference(one: str, a: dict, other: str, b: dict, tolerance: float) -> Finding | None:
    """The first difference between two results of one engine."""
    if first_line(a["error"]) != first_line(b["error"]):
        return Finding(f"{one}/{other}", f"{one} gives the error {a['error']}\n{other} the error {b['error']}")
    for number, (mine, theirs) in enumerate(zip(a["runs"], b["runs"])):
        for name in sorted(set(mine) | set(theirs), key=lambda name: (name.endswith("@GRAD"), name)):
            if name not in mine or name not in theirs:
                return Finding(f"{one}/{other}", f"run {number}: only one of {one} and {other} has {name}")
            if far(mine[name], theirs[name], tolerance):
                return Finding(f"{one}/{other}", f"run {number}, {name}: {one} {show(mine[name])}, {other} {show(theirs[name])}")
    for name, value in a["state"].items():
        if far(value, b["state"][name], tolerance):
            return Finding(f"{one}/{other}", f"at the end, {name}: {one} {show(value)}, {other} {show(b['state'][name])}")
    return None


def first_line(error: str | None) -> str:
    """An error without names of variables."""
    return re.sub(r"'[^']*'|\d+", "_", error.split("\n")[0])[:60] if error else ""


def show(value: np.ndarray) -> str:
    return f"{value.dtype}{list(value.shape)} {np.array2string(value.reshape(-1)[:6], precision=6)}"
