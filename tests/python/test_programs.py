"""Random Programs (tests/programs): what they found before, that the judge sees what is wrong, and a hunt for more.

The hunt takes PADDLE_PROGRAMS_SECONDS (60; in the long tests 900). With PADDLE185_PYTHON it compares with 1.8.5, too.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
if str(TESTS) not in sys.path:
    sys.path.insert(0, str(TESTS))

from programs import generate, hunt, shrink  # noqa: E402
from programs.client import Child  # noqa: E402
from programs.found import FOUND, feed, recipe  # noqa: E402
from programs.judge import PLANNED, Judge  # noqa: E402
from programs.recipe import lines_of  # noqa: E402

SOAK = bool(os.environ.get("PADDLE_SOAK"))
SECONDS = float(os.environ.get("PADDLE_PROGRAMS_SECONDS", 900 if SOAK else 60))


@pytest.fixture(scope="module")
def ours():
    with Child(sys.executable) as child:
        yield child


def test_a_seed_gives_one_recipe():
    assert generate.make(7) == generate.make(7)
    assert generate.make(7) != generate.make(8)


@pytest.mark.parametrize("name", FOUND)
def test_found(ours, name):
    judge = Judge(ours)
    finding = judge.look(FOUND[name])
    assert finding is None, finding.text
    assert judge.counts["gradients"] == 1, "its gradients were not compared"


LONG = recipe("a = L.relu(x)\nb = L.tanh(a)\nc = L.scale(b, 2.0)\nd = L.sigmoid(x)\ne = L.square(d)",
              "c e", {"x": feed("B", 2)}, [{"B": 2}, {"B": 3}])
LONG["steps"] = [*LONG["steps"][:1], *([line] for line in LONG["steps"][1])]


class Wrong(Child):
    """A child with one thing wrong wherever a Program has a tanh."""

    def __init__(self, fault: str) -> None:
        super().__init__(sys.executable)
        self.fault = fault

    def call(self, **job) -> dict:
        found = super().call(**job)
        if job["job"] != "run" or "L.tanh" not in "\n".join(lines_of(job["recipe"]["steps"])):
            return found
        last = found["runs"][-1]
        if self.fault == "value" and job["flags"] is PLANNED:
            last["loss"] = last["loss"] + 1e-3
        elif self.fault == "gradient" and "x@GRAD" in found["runs"][0]:
            found["runs"][0]["x@GRAD"] = found["runs"][0]["x@GRAD"] * 1.001
        elif self.fault == "death":
            self.process.kill()
            super().call(job="hello")
        return found


@pytest.mark.parametrize("fault, kind", [("value", "planned/bare"), ("gradient", "gradient"), ("death", "death")])
def test_the_judge_sees(fault, kind):
    with Wrong(fault) as child:
        judge = Judge(child)
        finding = judge.look(LONG)
        assert finding.kind == kind
        small = shrink.shrink(LONG, lambda smaller: (again := judge.look(smaller)) is not None and again.kind == kind)
    lines = [line for line in lines_of(small["steps"]) if not line.startswith("x")]
    assert lines == ["a = L.relu(x)", "b = L.tanh(a)", "c = L.scale(b, 2.0)"]
    assert small["loss"] == ["c"] and len(small["runs"]) == 1


class Overwrites(Child):
    """A child whose gradient of gather is that of one row alone, as that of 1.8.5 is, and with it what SGD makes of the
    parameter."""

    def call(self, **job) -> dict:
        found = super().call(**job)
        for values in found["runs"] if job["job"] == "run" else ():
            moved = values["t@GRAD"] * (2 / 3)
            values["t@GRAD"] = values["t@GRAD"] - moved
            for name in {"t", "w"} & set(values):
                values[name] = values[name] + 0.1 * moved
        return found


def test_a_parameter_by_another_name(ours):
    """What a gradient has changed is no finding of its own, also where the recipe has its parameter under a second name."""
    text = ("L.embedding(x, [1, 2], param_attr='t', dtype=DTYPE)\n"
            "w = fluid.default_main_program().global_block().var('t')\n"
            "v = L.gather(w, L.reshape(x, [-1]))")
    runs = [{"B": 3, "fetch": ["w"]}]
    with Overwrites(sys.executable) as real:
        judge = Judge(ours, real)
        finding = judge.look(recipe(text, "v", {"x": feed("B", 1, kind="int", high=1)}, runs, "fluid.optimizer.SGD(0.1)"))
    assert finding is None, finding.text
    assert judge.counts["1.8.5 has other gradients"] == 1


class TakesBack(Child):
    """A child whose parameters are after each run what they were before, as those of 1.8.5 are where their increment was taken
    back."""

    def call(self, **job) -> dict:
        found = super().call(**job)
        if job["job"] == "run":
            found["runs"][1:] = [dict(found["runs"][0]) for _ in found["runs"][1:]]
        return found


@pytest.mark.parametrize("change, kind", [
    ("L.increment(p, 0.25, in_place=True)", None),
    ("op('scale', {'X': p}, {'Out': p}, scale=1.0, bias=0.25)", "real"),
    ("L.increment(p, 0.25, in_place=True)\nq = L.create_parameter([1], DTYPE, name='q')\nL.increment(L.scale(q, 2.0), 0.25, "
     "in_place=True)", None),
    ("L.increment(L.scale(p, 2.0), 0.25, in_place=True)\nop('scale', {'X': p}, {'Out': p}, scale=1.0, bias=0.25)", "real"),
])
def test_a_parameter_that_is_counted_up(ours, change, kind):
    """The judge stops before the second run for the increment of a parameter, and for nothing else."""
    text = f"p = L.create_parameter([1], DTYPE, name='counted')\n{change}\nv = p + p"
    with TakesBack(sys.executable) as real:
        finding = Judge(ours, real).look(recipe(text, "v", {}, [{"B": 3}, {"B": 3}]))
    assert (finding and finding.kind) == kind


def test_a_report_is_a_script(ours, tmp_path):
    text = shrink.script(LONG)
    (tmp_path / "small.py").write_text(text)
    done = subprocess.run([sys.executable, "small.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("array") == 2 * 2 or done.stdout.count("shape") == 2 * 2, done.stdout  # loss and gradient, two runs


def test_hunt(record_property):
    seed = int(time.time()) * 1000 if SOAK else 0
    ours, real = hunt.children()
    with ours:
        judge = Judge(ours, real)
        reports = hunt.hunt(judge, seed, SECONDS)
        if real:
            real.close()
    record_property("seed", seed)
    for name in ("recipes", "gradients", "refused", "compared with 1.8.5"):
        record_property(name, judge.counts[name])
    assert not reports, reports[0]
    if judge.counts["recipes"] >= 100:  # a slow machine comes to a few only
        assert judge.counts["gradients"] > judge.counts["recipes"] * 0.8, judge.counts
