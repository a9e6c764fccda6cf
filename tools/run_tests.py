"""Runs every check of the project and closes with one line that sums them up.

    python tools/run_tests.py [stage ...]

runs the named stages, or all of them. Each stage is some tasks, builds and files of tests, and those of all stages run side by side
(test_schedule.py); what a task said is shown when it has ended. The package must have been installed into the Python that runs this
(`make` does that). The status is 1 when anything failed or when nothing was run.
"""

import argparse
import functools
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
import xml.etree.ElementTree as xml
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from test_schedule import Schedule, read_times, write_times
from test_task import ROOT, UNKNOWN, Nursery, Task

BUILD = ROOT / "build"
TIMES = ROOT / "tools" / "test_times"
PART_S = 45  # a file of tests that takes longer is run in parts
REPORT = BUILD / "pytest.xml"
PYTEST = ROOT / "tools" / "test_pytest.py"
# What pytest loads when it begins, and numpy, which nearly all files of tests need.
LOADED = ("pytest", *(f"_pytest.{name}" for name in (
    "faulthandler", "helpconfig", "junitxml", "pastebin", "setuponly", "setupplan", "skipping", "stepwise", "threadexception",
    "tracemalloc", "unittest", "unraisableexception", "warnings")), "numpy", "numpy.random", "zipfile", "ctypes", "difflib")
PYTHON_LIMIT_S = 2400  # for one file of tests: several times what the longest takes
SOAK_LIMIT_S = 5400  # for one of long tests
fuzz_seconds = 10  # for each target
figures: list[str] = []  # what long tests measured, for the end
times = read_times(TIMES)
# Files of the real thing to start from.
FUZZ_SEEDS = {"fuzz_program": "tests/golden/data/files/infer", "fuzz_tensor": "tests/golden/data/files/persistables"}

# Sanitizers end at the first finding, with a stack; an allocation that cannot succeed is an error to handle.
SANITIZER_SETTINGS = {
    "ASAN_OPTIONS": "allocator_may_return_null=1:detect_stack_use_after_return=1",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1:allocator_may_return_null=1",
}


# The C tests and the extension with the address sanitizer share one build. Of the Python tests those run with it that reach
# every op and the engine in one process.
SANITIZED = BUILD / "test-sanitized"
SANITIZED_SETTINGS = ("-DPD_SANITIZE=address", "-DWITH_PYTHON=ON")
# Without OpenMP, which the thread sanitizer does not see into, these have nothing for it: one thread.
ONE_THREAD = ("conv", "draw", "ew_kernels", "ew_math", "gemm", "program", "rows", "tensor_file")
SANITIZED_TARGETS = ("pd_tests", "paddle_extension", "paddle_python_tree")
SANITIZED_TESTS = tuple(f"tests/python/test_{name}.py" for name in (
    "ops", "op_types", "op_hostile", "target_gradients", "math_ops", "sparse_ops", "tensor_arrays", "loops", "control_flow",
    "in_place", "overwritten", "sizes", "fuse", "optimizer_rules", "programs"))


def environment() -> dict[str, str]:
    """What test programs in C need: sanitizer settings, test data, and the folder where pip puts libdnnl."""
    folders = [f"{sys.prefix}/lib", os.environ.get("LD_LIBRARY_PATH", "")]
    return os.environ | SANITIZER_SETTINGS | {
        "LD_LIBRARY_PATH": ":".join(filter(None, folders)),
        "PD_TEST_DATA": str(ROOT / "tests" / "data"),
    }


@dataclass
class Count:
    """How many cases of a stage passed, failed and were skipped."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def add(self, other: "Count") -> None:
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped

    @staticmethod
    def of(worked: bool) -> "Count":
        return Count(passed=1) if worked else Count(failed=1)


def fixed_addresses() -> list[str]:
    """The words before a command that switch address randomisation off, where the system allows that.

    The sanitizers' shadow memory collides with mappings that some kernels place at random.
    """
    words = ["setarch", platform.machine(), "-R"]
    if shutil.which("setarch") and subprocess.run([*words, "true"], capture_output=True).returncode == 0:
        return words
    return []


def build(task: Task, folder: Path, *settings: str, targets: tuple[str, ...] = ("pd_tests",)) -> Count:
    """Configures a build folder the first time, and builds its tests or other targets: nothing to count where that works.

    One file at a time: other tasks run beside it. Where there is ccache, what it knows is not compiled again.
    """
    if not (folder / "CMakeCache.txt").exists():
        if shutil.which("ccache") and "CMAKE_C_COMPILER_LAUNCHER" not in os.environ:
            settings = ("-DCMAKE_C_COMPILER_LAUNCHER=ccache", *settings)
        status = task.call(["cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", "-DWITH_TESTING=ON",
                            "-DWITH_PYTHON=OFF", f"-DPython_EXECUTABLE={sys.executable}", "--log-level=WARNING",
                            *settings])
        if status:
            return Count(failed=1)
    return Count(failed=int(task.call(["cmake", "--build", folder, "--target", *targets, "--parallel", "1"]) != 0))


@functools.cache
def built(folder: Path, *settings: str, targets: tuple[str, ...] = ("pd_tests",)) -> Task:
    """The one task that builds a folder."""
    return Task("build", f"build/{folder.name}", lambda task: build(task, folder, *settings, targets=targets))


def count_cmocka(report: Path) -> Count:
    """Counts the test functions inside each test program, from the report that ctest writes."""
    total = Count()
    for case in xml.parse(report).iter("testcase"):
        output = case.findtext("system-out") or ""
        passed = sum(int(n) for n in re.findall(r"^\[  PASSED  \] (\d+) test", output, re.MULTILINE))
        failed = sum(int(n) for n in re.findall(r"^\[  FAILED  \] (\d+) test", output, re.MULTILINE))
        skipped = sum(int(n) for n in re.findall(r"^\[  SKIPPED \] (\d+) test", output, re.MULTILINE))
        if case.get("status") == "run":
            total.add(Count(passed=passed if skipped else max(passed, 1), failed=failed, skipped=skipped))
        else:
            total.add(Count(passed=passed, failed=max(failed, 1)))
    return total


def run_c(task: Task, folder: Path, only: str = ".", but: str = "^$", env: dict[str, str] | None = None) -> Count:
    """Runs the C tests of a build folder: `only` those whose name has this pattern in it, `but` not those that have that one."""
    report = folder / "ctest.xml"
    report.unlink(missing_ok=True)
    status = task.call([*fixed_addresses(), "ctest", "--test-dir", folder, "--output-on-failure", "-R", only, "-E", but,
                        "--output-junit", report, "--test-output-size-passed", "1000000", "--parallel", "2"],
                       env=environment() | (env or {}))
    count = count_cmocka(report) if report.exists() else Count()
    if status and not count.failed:
        count.failed = 1
    return count


def c_tests(stage: str, folder: Path, made: Task, **options: str) -> list[Task]:
    """The build of C tests, and their run."""
    return [made, Task(stage, f"{stage}/tests", lambda task: run_c(task, folder, **options), [made])]


def stage_includes() -> list[Task]:
    """Include rules of the layout"""
    return [Task("includes", "includes", lambda task: Count.of(task.call([sys.executable, "tools/check_includes.py"]) == 0))]


def plain_folder() -> Path:
    """The folder the wheel was built in, if there is one, has the very objects that were installed."""
    wheel = BUILD / "wheel"
    return wheel if (wheel / "CMakeCache.txt").exists() else BUILD / "test-plain"


def stage_c() -> list[Task]:
    """C tests"""
    return c_tests("c", plain_folder(), built(plain_folder()))


def stage_address() -> list[Task]:
    """C tests, with the address and undefined-behaviour sanitizers"""
    return c_tests("address", SANITIZED, sanitized_build())


def stage_extension() -> list[Task]:
    """Python tests of ops and random Programs, with the address and undefined-behaviour sanitizers"""
    made = sanitized_build()
    settings = {"PADDLE_PROGRAMS_SECONDS": "20", "PADDLE_HOSTILE_CASES": "16000"}

    def options() -> dict:
        env = sanitized_python() | settings
        return {"nursery": nursery(tuple(fixed_addresses()), tuple(env.items())), "env": env}

    return [made, *(task for path in SANITIZED_TESTS for task in file_tasks("extension", path, [made], options))]


def sanitized_build() -> Task:
    return built(SANITIZED, *SANITIZED_SETTINGS, targets=SANITIZED_TARGETS)


def sanitized_python() -> dict[str, str]:
    """What makes Python run the sanitized extension: the sanitizers come first, and what Python itself leaks does not count."""
    compiler = os.environ.get("CC", "cc")
    libraries = [subprocess.run([compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=True).stdout.strip()
                 for name in ("libasan.so", "libubsan.so")]
    return environment() | {
        "LD_PRELOAD": " ".join(libraries),
        "ASAN_OPTIONS": SANITIZER_SETTINGS["ASAN_OPTIONS"] + ":detect_leaks=0",
        "PYTHONPATH": str(SANITIZED / "python"),
        "PYTHONMALLOC": "malloc",
    }


def stage_thread() -> list[Task]:
    """C tests of what has threads, with the thread sanitizer"""
    folder = BUILD / "test-thread"
    return c_tests("thread", folder, built(folder, "-DPD_SANITIZE=thread"), but=f"^test_({'|'.join(ONE_THREAD)})$")


def stage_fuzz() -> list[Task]:
    """Fuzz targets"""
    folder = BUILD / "test-fuzzer"
    made = built(folder, "-DPD_SANITIZE=fuzzer", "-DCMAKE_C_COMPILER=clang")
    targets = sorted(path.stem for path in (ROOT / "tests" / "fuzz").glob("*.c"))
    return [made, *(Task("fuzz", f"fuzz/{target}", lambda task, target=target: run_fuzzer(task, folder, target), [made])
                    for target in targets)]


def run_fuzzer(task: Task, folder: Path, target: str) -> Count:
    """One target for its time."""
    corpus = folder / "corpus" / target  # grows from run to run
    corpus.mkdir(parents=True, exist_ok=True)
    seeds = [path for path in [ROOT / FUZZ_SEEDS.get(target, "none")] if path.is_dir()]
    command = [*fixed_addresses(), folder / "fuzz" / target, f"-max_total_time={fuzz_seconds}", "-timeout=10",
               "-rss_limit_mb=2048", "-verbosity=0", "-print_final_stats=1",
               f"-artifact_prefix={folder}/found-{target}-", corpus, *seeds]
    status = task.call(command, fuzz_seconds + 120, env=environment())
    if status is None:
        task.say(f"{target} did not end in time")
    task.output.seek(0)
    if runs := re.search(r"stat::number_of_executed_units: (\d+)", task.output.read()):
        figures.append(f"{target}: {fuzz_seconds} s, {runs[1]} inputs, {'clean' if status == 0 else 'found something'}")
    return Count.of(status == 0)


def stage_python() -> list[Task]:
    """Python tests"""
    files = sorted((ROOT / "tests" / "python").glob("test_*.py"))
    return [task for path in files
            for task in file_tasks("python", str(path.relative_to(ROOT)), [], lambda: {"nursery": nursery()})]


@functools.cache
def nursery(prefix: tuple[str, ...] = (), env: tuple[tuple[str, str], ...] = ()) -> Nursery:
    """Where pytest has been loaded: each file of tests has a child of it, which is there in a fifth of the time. The package is not
    loaded there: what is forked after that runs ops on one thread."""
    return Nursery(*LOADED, prefix=prefix, env=dict(env), start_new_session=True)  # Ctrl-C is not for it


def file_tasks(stage: str, path: str, after: list[Task], options: Callable[[], dict]) -> list[Task]:
    """Runs of the tests of a file; one that takes long is run in parts, side by side."""
    name = f"{stage}/{Path(path).name}"
    parts = 1 + int(times.get(name, UNKNOWN)[0] / PART_S)

    def run(task: Task, part: int) -> Count:
        report = BUILD / f"{stage}-{Path(path).stem}-{part}.xml"
        return run_pytest(task, path, *([f"--part={part}/{parts}"] if parts > 1 else []), report=report, **options())

    return [Task(stage, name, lambda task, part=part: run(task, part), after, parts) for part in range(1, parts + 1)]


def soak(task: Task) -> Count:
    """Long tests, and the tests of jobs with large numbers"""
    # tests/conftest.py shows each test and its figures as it goes.
    begin = time.monotonic()
    programs = [path.stem for path in sorted((ROOT / "tests" / "c").glob("test_*.c")) if "PADDLE_SOAK" in path.read_text()]
    total = build(task, plain_folder())
    total.add(run_c(task, plain_folder(), f"^({'|'.join(programs)})$", env={"PADDLE_SOAK": "1"}))
    files = [path for path in sorted((ROOT / "tests" / "python").glob("test_*.py")) if "PADDLE_SOAK" in path.read_text()]
    for path in [*sorted((ROOT / "tests" / "soak").glob("test_*.py")), *files]:
        task.say(f"\n--- {path.name}, {time.monotonic() - begin:.0f} s after the start ---")
        total.add(worked(task, lambda: run_pytest(task, str(path.relative_to(ROOT)), env=os.environ | {"PADDLE_SOAK": "1"},
                                                  limit=SOAK_LIMIT_S)))
        figures.extend(figures_of(REPORT))
    task.say(f"\n--- hunts with the sanitizers, {time.monotonic() - begin:.0f} s after the start ---")
    total.add(build(task, SANITIZED, *SANITIZED_SETTINGS, targets=SANITIZED_TARGETS))
    settings = {"PADDLE_SOAK": "1", "PADDLE_HOSTILE_SECONDS": "600", "PADDLE_PROGRAMS_SECONDS": "600"}
    for name in ("op_hostile", "programs"):
        total.add(worked(task, lambda: run_pytest(task, f"tests/python/test_{name}.py", prefix=tuple(fixed_addresses()),
                                                  env=sanitized_python() | settings, limit=SOAK_LIMIT_S)))
    return total


def figures_of(report: Path) -> list[str]:
    """A line for each test function of a report: how many cases, how long, and what they recorded.

    Of several cases the smallest and the largest of each number are given, and the sum of counts.
    """
    times: dict[str, list[float]] = {}
    found: dict[str, dict[str, list[str]]] = {}
    for case in xml.parse(report).iter("testcase") if report.exists() else ():
        name = f"{case.get('classname', '').rpartition('.')[2]}.{case.get('name', '').partition('[')[0]}"
        times.setdefault(name, []).append(float(case.get("time", 0)))
        for item in case.iter("property"):
            found.setdefault(name, {}).setdefault(item.get("name", ""), []).append(item.get("value", ""))
    lines = []
    for name, values in found.items():
        cases = f"{len(times[name])} cases, " if len(times[name]) > 1 else ""
        texts = [f"{key} {span(numbers)}" for key, numbers in values.items()]
        lines.append(f"{name}: {cases}{sum(times[name]):.0f} s: {', '.join(texts)}")
    return lines


def span(values: list[str]) -> str:
    """'7', or '3 to 9 (51 in all)'."""
    if len(values) == 1:
        return values[0]
    try:
        low, high = min(values, key=float), max(values, key=float)
    except ValueError:
        return "; ".join(values)  # words
    in_all = f" ({sum(map(int, values))} in all)" if all(value.isdigit() for value in values) else ""
    return f"{low} to {high}{in_all}" if low != high else f"{low}{in_all}"


def run_pytest(task: Task, *words: str, prefix: tuple[str, ...] = (), report: Path = REPORT, limit: float = PYTHON_LIMIT_S,
               nursery: Nursery | None = None, **options) -> Count:
    """Runs a file of tests within the limit. One that has nothing to run, not even something to skip, is a failure."""
    report.unlink(missing_ok=True)
    words = (*words, f"--junitxml={report}", "-p", "no:logging", "-p", "no:cacheprovider")  # for each test they take time
    if nursery:
        status = task.fork(nursery, PYTEST, words, options.get("env", dict(os.environ)), limit)
    else:
        status = task.call([*prefix, sys.executable, PYTEST, *words], limit, **options)
    if status is None:
        task.say(f"{' '.join(words)}: not done after {limit:.0f} s")
        return Count(failed=1)
    count = Count()
    if report.exists():
        for suite in xml.parse(report).iter("testsuite"):
            bad = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
            skipped = int(suite.get("skipped", 0))
            count.add(Count(max(int(suite.get("tests", 0)) - bad - skipped, 0), bad, skipped))
    nothing_to_run = 5  # also when a file skips itself
    if not count.failed and not (status == 0 or (status == nothing_to_run and count.skipped)):
        count.failed = 1
    return count


def stage_example() -> list[Task]:
    """C examples, compiled against the installed package and run"""
    return [Task("example", f"example/{path.name}", lambda task, path=path: run_example(task, path))
            for path in sorted((ROOT / "examples").rglob("*.c"))]


def run_example(task: Task, source: Path) -> Count:
    package = Path(sysconfig.get_path("platlib")) / "paddle"
    if not (package / "_lib").is_dir():
        package = BUILD / "dev" / "python" / "paddle"
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / source.stem
        compiled = task.call([os.environ.get("CC", "cc"), "-std=c11", "-Wall", "-Wextra", "-Werror", source,
                              "-o", program, f"-I{package / 'include'}", f"-L{package / '_lib'}", "-lpaddle", "-lm",
                              f"-Wl,-rpath,{package / '_lib'}"])
        return Count.of(compiled == 0 and task.call([program], cwd=folder, env=environment()) == 0)


STAGES: dict[str, Callable[[], list[Task]]] = {
    "includes": stage_includes,
    "c": stage_c,
    "address": stage_address,
    "extension": stage_extension,
    "thread": stage_thread,
    "fuzz": stage_fuzz,
    "python": stage_python,
    "example": stage_example,
}
ALONE: dict[str, Callable[[Task], Count]] = {"soak": soak}  # only when it is named; shows its output as it goes


def worked(task: Task, run: Callable[[], Count]) -> Count:
    """What it counts; an error of the system is a failure."""
    try:
        return run()
    except (OSError, subprocess.SubprocessError, xml.ParseError) as error:
        task.say(f"{task.name}: {error}")
        return Count(failed=1)


def guarded(run: Callable[[Task], Count], task: Task) -> Count:
    """Runs a task. What waits for something that failed has failed."""
    if failed := [earlier.name for earlier in task.after if earlier.result is None or earlier.result.failed]:
        task.say(f"not run, because {failed[0]} failed")
        return Count(failed=1)
    return worked(task, lambda: run(task))


def run_side_by_side(tasks: list[Task]) -> None:
    begin = time.monotonic()

    def ended(task: Task) -> None:
        print(f"\n--- {task.name}: {task.wall:.0f} s, {task.cpu:.0f} s of processor time, "
              f"{time.monotonic() - begin:.0f} s after the start ---\n{task.output.read()}", end="", flush=True)

    for task in tasks:
        task.run = functools.partial(guarded, task.run)
    Schedule(tasks, times, ended).run()


def line_of(title: str, tasks: list[Task]) -> str:
    """What the tasks of a stage came to."""
    count = Count()
    for task in tasks:
        count.add(task.result or Count(failed=1))  # no result: an error of the runner itself
    skipped = f", {count.skipped} skipped" if count.skipped else ""
    seconds = max(task.begin + task.wall for task in tasks) - min(task.begin for task in tasks)
    return (f"{count.passed:6} passed, {count.failed} failed{skipped}: {title} ({seconds:.0f} s, "
            f"{sum(task.cpu for task in tasks):.0f} s of processor time)")


def main() -> int:
    global fuzz_seconds
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("stage", nargs="*", help=f"{', '.join(STAGES)}: all of these by default; and soak")
    parser.add_argument("--fuzz-seconds", type=int, default=fuzz_seconds, help="for each fuzz target (%(default)s)")
    options = parser.parse_args()
    fuzz_seconds = options.fuzz_seconds
    names = options.stage or list(STAGES)
    unknown = [name for name in names if name not in STAGES | ALONE]
    if unknown:
        parser.error(f"there is no stage '{unknown[0]}'; the stages are {', '.join(STAGES | ALONE)}")

    for number in (signal.SIGINT, signal.SIGTERM):  # all that runs ends with this, also where it was started in the background
        signal.signal(number, signal.default_int_handler)
    BUILD.mkdir(exist_ok=True)
    # Hundreds of processes load the same modules: they are compiled once, also where the environment says not to.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = str(BUILD / "pycache")
    alone = [Task(name, name, ALONE[name], output=sys.stdout) for name in names if name in ALONE]
    for task in alone:
        task.begin = time.monotonic()
        task.result = guarded(task.run, task)
        task.wall = time.monotonic() - task.begin
    tasks = list(dict.fromkeys(task for name in names if name in STAGES for task in STAGES[name]()))
    run_side_by_side(tasks)
    write_times(BUILD / "test-times", tasks)

    titles = {"build": "Builds of tests"} | {name: stage.__doc__ for name, stage in (ALONE | STAGES).items()}
    stages = {name: [task for task in [*alone, *tasks] if task.stage == name] for name in titles}
    total = Count()
    for task in [*alone, *tasks]:
        total.add(task.result or Count(failed=1))
    if figures:
        print("\n=== Figures ===", *figures, sep="\n")
    print("\n=== Summary ===", *(line_of(titles[name], stages[name]) for name in titles if stages[name]), sep="\n")
    print(f"\n{total.passed} passed, {total.failed} failed", flush=True)
    return 1 if total.failed or not total.passed else 0


if __name__ == "__main__":
    sys.exit(main())
