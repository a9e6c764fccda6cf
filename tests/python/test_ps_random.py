"""Random jobs (tests/clusters): that the judge sees what is wrong, and a hunt.

The hunt takes PADDLE_CLUSTERS_SECONDS (25; in the long tests 900).
"""

import os
import sys
import time
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
if str(TESTS) not in sys.path:
    sys.path.insert(0, str(TESTS))

from clusters import generate, hunt, stage  # noqa: E402
from clusters.judge import Judge  # noqa: E402
from clusters.nursery import Nursery  # noqa: E402

SOAK = bool(os.environ.get("PADDLE_SOAK"))
SECONDS = float(os.environ.get("PADDLE_CLUSTERS_SECONDS", 900 if SOAK else 25))

SCRIPT = """\
x = L.data('x', [5])
y = L.data('y', [1])
loss = L.mean(L.square_error_cost(L.fc(x, 1), y))
import os, signal, sys, time
is_one = sys.argv[1] == 'trainer' and '1' in sys.argv
{wrong}
fluid.optimizer.Momentum(0.05, 0.9).minimize(loss)
"""


def recipe(wrong: str = "", **more) -> dict:
    """A small job of two servers and two trainers, in whose script there is a line of its own."""
    made = {"seed": 1, "mode": "sync", "servers": 2, "trainers": 2, "batches": [4, 4], "rows": [4], "evaluates": False,
            "config": {}, "env": {}, "fork": True, "places": 0, "resumes": False, "proxy": None, "faults": [],
            "script": [SCRIPT.format(wrong=wrong)],
            "order": ["server-0", "server-1", "trainer-0", "trainer-1"],
            "feeds": {"x": {"kind": "float", "dims": [5]}, "y": {"kind": "float", "dims": [1]}}}
    return made | more


@pytest.fixture(scope="module")
def nursery():
    with Nursery() as made:
        yield made


def test_a_seed_gives_one_recipe():
    assert generate.make(7) == generate.make(7)
    assert generate.make(7) != generate.make(8)


@pytest.mark.parametrize("wrong, kind, says", [
    ("", None, ""),
    ("loss = L.scale(loss, 1.001 if is_one else 1.0)", "numbers", "step of"),  # one trainer's gradient
    ("os.kill(os.getpid(), signal.SIGSEGV) if is_one else None", "crash", "trainer-1 ended with -11"),
    ("sys.exit(3) if is_one else None", "status", "trainer-1 ended with 3"),
    ("time.sleep(1000) if is_one else None", "hang", "the job to end"),
    ("(os.fork() or time.sleep(1000)) if is_one else None", "hang", "what trainer-1 has made to end"),
], ids=["nothing", "numbers", "crash", "status", "hang", "left"])
def test_the_judge_sees(nursery, monkeypatch, wrong, kind, says):
    if kind == "hang":
        monkeypatch.setattr(stage, "LEFT" if "fork" in wrong else "DEADLINE", 3.0)
    found = Judge(nursery).look(recipe(wrong))
    assert (found and found.kind) == kind, found
    assert says in str(found)


LOGGED = {"FLAGS_ps_dir": "FOLDER/ps", "FLAGS_ps_log": "write"}
KILL = {"kind": "kill servers", "who": ["server-1"], "at": 20, "gate": 40, "ms": 3.0}


class Forgets(stage.Stage):
    """A server that is started again has an older copy of its files."""

    def replace(self, who: list[str], number: int) -> None:
        self.end(who, number)
        for path in (self.folder / "ps" / self.endpoints[1].replace(":", "_")).glob("log-*"):
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        for name in who:
            self.start(name)


@pytest.mark.parametrize("of", [stage.Stage, Forgets])
def test_a_log_that_is_lost_is_seen(nursery, monkeypatch, of):
    monkeypatch.setattr("clusters.judge.Stage", of)
    found = Judge(nursery).look(recipe(batches=[60, 60], env=LOGGED, faults=[KILL]))
    assert (found is None) == (of is stage.Stage), found


def test_hunt(nursery, record_property):
    seed = int(time.time()) * 1000 if SOAK else 0
    judge = Judge(nursery)
    reports = hunt.hunt(judge, hunt.seeds(seed), SECONDS)
    record_property("seed", seed)
    for name in ("recipes", "jobs", "refused", "rounding decides"):
        record_property(name, judge.counts[name])
    record_property("faults", sum(count for name, count in judge.counts.items() if name.startswith("fault")))
    assert not reports, reports[0]
    if judge.counts["recipes"] >= 50:  # a slow machine comes to a few only
        assert judge.counts["refused"] < judge.counts["recipes"] * 0.2, judge.reasons
        assert judge.counts["rounding decides"] < judge.counts["recipes"] * 0.05, judge.counts
