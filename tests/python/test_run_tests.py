"""tools/run_tests.py: a file of tests that hangs or runs nothing is a failure, and does not hold up the others; tasks run side by
side as far as their loads fit, and in their order."""

import sys
import threading
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import run_tests as runner  # noqa: E402
import test_schedule as schedule  # noqa: E402
from test_task import Nursery, Task, stop  # noqa: E402


def a_task(**options) -> Task:
    return Task("stage", "it", lambda task: None, output=sys.__stdout__, **options)


def counts(folder: Path, text: str, *words: str, **options) -> tuple[int, int, int]:
    path = folder / "test_it.py"
    path.write_text(text)
    count = runner.run_pytest(a_task(), str(path), *words, report=folder / "report.xml", cwd=folder, **options)
    return count.passed, count.failed, count.skipped


@pytest.fixture(scope="module", params=["command", "child"])
def nursery(request):
    """None: pytest is a command; or where it comes from."""
    if request.param == "command":
        yield None
        return
    with Nursery("pytest") as made:
        yield made


def test_what_a_file_counts(tmp_path, nursery):
    good, bad = "def test_good(): pass\n", "def test_bad(): assert 0\n"
    assert counts(tmp_path, good, nursery=nursery) == (1, 0, 0)
    assert counts(tmp_path, good + bad, nursery=nursery) == (1, 1, 0)
    skips = "import pytest\npytest.skip('not here', allow_module_level=True)\n"
    assert counts(tmp_path, skips, nursery=nursery) == (0, 0, 1)
    assert counts(tmp_path, "", nursery=nursery) == (0, 1, 0)
    assert counts(tmp_path, "def testing(: pass\n", nursery=nursery)[1] == 1


def test_a_child_dies_and_the_next_one_runs(tmp_path):
    with Nursery("pytest") as nursery:
        assert counts(tmp_path, "import os\ndef test_it(): os.abort()\n", nursery=nursery) == (0, 1, 0)
        assert counts(tmp_path, "def test_it(): pass\n", nursery=nursery) == (1, 0, 0)


def test_the_parts_of_a_file_are_the_file(tmp_path):
    """Each test once: those of part 1 of 3 are 0, 3 and 6."""
    (tmp_path / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    text = "import pytest\n@pytest.mark.parametrize('i', range(7))\ndef test_it(i): open(f'ran-{i}', 'x')\n"
    assert [counts(tmp_path, text, f"--part={part}/3")[:2] for part in (1, 2, 3)] == [(3, 0), (2, 0), (2, 0)]


def test_a_file_that_hangs_is_a_failure(tmp_path, nursery):
    assert counts(tmp_path, "import time\ndef test_long(): time.sleep(1000)\n", limit=2, nursery=nursery) == (0, 1, 0)


def runs(pid: int) -> bool:
    """Z: ended, and nobody has waited for it yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_what_a_command_started_ends_with_it(tmp_path):
    note = tmp_path / "pid"
    assert a_task().call(["sh", "-c", f"sleep 1000 & echo $! > {note}; wait"], 3) is None
    end = time.monotonic() + 60
    while runs(int(note.read_text())):
        assert time.monotonic() < end, "it runs on"
        time.sleep(0.05)
    assert a_task().call(["sh", "-c", "exit 7"], 60) == 7


def test_the_processor_time_of_a_command_counts():
    task = a_task()
    code = "import subprocess, sys, time\nwhile time.process_time() < 0.3: pass\nif sys.argv[1:]: subprocess.run(sys.argv[1:])"
    task.call([sys.executable, "-c", code, sys.executable, "-c", code])
    assert task.cpu >= 0.6


def test_that_of_a_child_counts_too_and_what_it_says_is_shown(tmp_path):
    """Behind what was said before, and before what is said later."""
    task, script = a_task(), tmp_path / "script.py"
    script.write_text("import sys, time\nwhile time.process_time() < 0.3: pass\nprint(*sys.argv[1:])\nsys.exit(7)\n")
    with open(tmp_path / "output", "w+") as task.output, Nursery("json") as nursery:
        task.say("before")
        assert task.fork(nursery, script, ["it", "says"], {}) == 7
        task.say("later")
        task.output.seek(0)
        lines = task.output.read().splitlines()
    assert lines[0] == "before" and lines[2:] == ["it says", "later"], lines
    assert task.cpu >= 0.2


def run_all(tasks: list[Task], times: dict[str, tuple[float, float]]) -> list[str]:
    """The names of tasks, in the order of their begin."""
    schedule.Schedule(tasks, times, lambda task: None).run()
    return [task.name for task in sorted(tasks, key=lambda task: task.begin)]


def test_tasks_run_side_by_side_as_far_as_they_fit(monkeypatch):
    """Those that wait all at once, those that compute one at a time."""
    monkeypatch.setattr(schedule, "CAPACITY", 1.6)
    met, alone = threading.Barrier(5), threading.Lock()

    def wait(task: Task) -> bool:
        met.wait(60)
        return True

    def work(task: Task) -> bool:
        is_alone = alone.acquire(blocking=False)
        time.sleep(0.05)
        if is_alone:
            alone.release()
        return is_alone

    tasks = [Task("stage", "work", work) for _ in range(3)] + [Task("stage", "wait", wait) for _ in range(5)]
    run_all(tasks, {"work": (9, 9), "wait": (8, 0.8)})
    assert all(task.result for task in tasks)


def test_the_longest_way_comes_first(monkeypatch):
    """A build that much waits for goes before a longer test that nothing waits for."""
    monkeypatch.setattr(schedule, "CAPACITY", 1.0)
    ended = []

    def run(task: Task) -> None:
        assert all(earlier in ended for earlier in task.after)
        time.sleep(0.01)
        ended.append(task)

    build = Task("stage", "build", run)
    tasks = [Task("stage", "long", run), build, Task("stage", "tests", run, [build]), Task("stage", "short", run)]
    times = {"long": (20, 20), "build": (5, 5), "tests": (30, 30), "short": (1, 1)}
    assert run_all(tasks, times) == ["build", "tests", "long", "short"]


def test_what_waits_for_something_that_failed_has_failed():
    build = a_task()
    build.result = runner.Count(failed=1)
    assert runner.guarded(lambda task: runner.Count(passed=1), a_task(after=[build])).failed == 1


def test_the_end_of_a_run_ends_its_tasks(monkeypatch):
    """As Ctrl-C does, which comes to the thread that waits."""
    tasks = [Task("stage", "it", lambda task: task.call(["sleep", "1000"]))]

    class Interrupted(schedule.Schedule):
        def next(self):
            if self.left:
                return super().next()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Interrupted(tasks, {}, lambda task: None).run()
    end = time.monotonic() + 60
    while not tasks[0].wall:
        assert time.monotonic() < end, "it runs on"
        time.sleep(0.01)
    stop.clear()


def test_the_table_of_times(tmp_path):
    tasks = [a_task(), a_task(), Task("stage", "other", lambda task: None)]
    tasks[0].wall, tasks[1].wall, tasks[1].cpu = 2.0, 3.0, 0.5
    schedule.write_times(tmp_path / "times", tasks)
    assert schedule.read_times(tmp_path / "times") == {"it": (5.0, 0.5), "other": (0.0, 0.0)}
