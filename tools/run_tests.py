"""Runs every check of the project and closes with one line that sums them up.

    python tools/run_tests.py [stage ...]

runs the named stages, or all of them in the order of STAGES. The package must have been installed into the
Python that runs this (`make` does that). The status is 1 when anything failed or when nothing was run.
"""

import argparse
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
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build"
JOBS = str(os.cpu_count() or 1)
REPORT = BUILD / "pytest.xml"
PYTHON_LIMIT_S = 2400  # for one file of tests: several times what the longest takes
SOAK_LIMIT_S = 5400  # for one of long tests
fuzz_seconds = 10  # for each target
figures: list[str] = []  # what long tests measured, for the end
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


def call(command: list, **options) -> int:
    """Runs a command with its output shown as it comes; returns its status."""
    print("$", *command, flush=True)
    return subprocess.run([str(word) for word in command], cwd=options.pop("cwd", ROOT), **options).returncode


def call_within(seconds: float, command: list, **options) -> int | None:
    """The same; past that many seconds it ends the command with all that it started, and returns None."""
    print("$", *command, flush=True)
    process = subprocess.Popen([str(word) for word in command], cwd=options.pop("cwd", ROOT), start_new_session=True, **options)
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGABRT)  # pytest shows where it is
        end = time.monotonic() + 10
        while not os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) and time.monotonic() < end:
            time.sleep(0.1)
        return None
    finally:
        if process.returncode is None:  # not waited for, so the number is still its own
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def fixed_addresses() -> list[str]:
    """The words before a command that switch address randomisation off, where the system allows that.

    The sanitizers' shadow memory collides with mappings that some kernels place at random.
    """
    words = ["setarch", platform.machine(), "-R"]
    if shutil.which("setarch") and subprocess.run([*words, "true"], capture_output=True).returncode == 0:
        return words
    return []


def build(folder: Path, *settings: str, targets: tuple[str, ...] = ("pd_tests",)) -> bool:
    """Configures a build folder the first time, and builds its tests or other targets."""
    if not (folder / "CMakeCache.txt").exists():
        status = call(["cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", "-DWITH_TESTING=ON",
                       "-DWITH_PYTHON=OFF", f"-DPython_EXECUTABLE={sys.executable}", "--log-level=WARNING",
                       *settings])
        if status:
            return False
    return call(["cmake", "--build", folder, "--target", *targets, "--parallel", JOBS]) == 0


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


def run_c(folder: Path, *settings: str, only: str = ".", env: dict[str, str] | None = None) -> Count:
    """Builds and runs the C tests in one build folder; `only` those whose name has this pattern in it."""
    if not list((ROOT / "tests" / "c").glob("test_*.c")):
        print("There are no C tests.")
        return Count()
    if not build(folder, *settings):
        return Count(failed=1)
    report = folder / "ctest.xml"
    report.unlink(missing_ok=True)
    status = call([*fixed_addresses(), "ctest", "--test-dir", folder, "--output-on-failure", "-R", only,
                   "--output-junit", report, "--test-output-size-passed", "1000000", "--parallel", JOBS],
                  env=environment() | (env or {}))
    count = count_cmocka(report) if report.exists() else Count()
    if status and not count.failed:
        count.failed = 1
    return count


def stage_includes() -> Count:
    """Include rules of the layout"""
    return Count.of(call([sys.executable, "tools/check_includes.py"]) == 0)


def plain_folder() -> Path:
    """The folder the wheel was built in, if there is one, has the very objects that were installed."""
    wheel = BUILD / "wheel"
    return wheel if (wheel / "CMakeCache.txt").exists() else BUILD / "test-plain"


def stage_c() -> Count:
    """C tests"""
    return run_c(plain_folder())


def stage_address() -> Count:
    """C tests, with the address and undefined-behaviour sanitizers"""
    return run_c(SANITIZED, *SANITIZED_SETTINGS)


def stage_extension() -> Count:
    """Python tests of ops and random Programs, with the address and undefined-behaviour sanitizers"""
    return run_sanitized(*SANITIZED_TESTS, env={"PADDLE_PROGRAMS_SECONDS": "20", "PADDLE_HOSTILE_SECONDS": "20"})


def run_sanitized(*paths: str, env: dict[str, str], limit: float = PYTHON_LIMIT_S) -> Count:
    """Builds the sanitized extension, and runs files of tests with it."""
    if not build(SANITIZED, *SANITIZED_SETTINGS, targets=("paddle_extension", "paddle_python_tree")):
        return Count(failed=1)
    return run_pytest(*paths, prefix=tuple(fixed_addresses()), env=sanitized_python() | env, limit=limit)


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


def stage_thread() -> Count:
    """C tests, with the thread sanitizer"""
    return run_c(BUILD / "test-thread", "-DPD_SANITIZE=thread")


def stage_fuzz() -> Count:
    """Fuzz targets"""
    targets = sorted(path.stem for path in (ROOT / "tests" / "fuzz").glob("*.c"))
    if not targets:
        print("There are no fuzz targets.")
        return Count()
    folder = BUILD / "test-fuzzer"
    if not build(folder, "-DPD_SANITIZE=fuzzer", "-DCMAKE_C_COMPILER=clang"):
        return Count(failed=len(targets))
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        worked = list(pool.map(lambda target: run_fuzzer(folder, target), targets))
    return Count(passed=sum(worked), failed=len(worked) - sum(worked))


def run_fuzzer(folder: Path, target: str) -> bool:
    """One target for its time; its output is shown when it has ended."""
    corpus = folder / "corpus" / target  # grows from run to run
    corpus.mkdir(parents=True, exist_ok=True)
    seeds = [path for path in [ROOT / FUZZ_SEEDS.get(target, "none")] if path.is_dir()]
    command = [*fixed_addresses(), folder / "fuzz" / target, f"-max_total_time={fuzz_seconds}", "-timeout=10",
               "-rss_limit_mb=2048", "-verbosity=0", "-print_final_stats=1",
               f"-artifact_prefix={folder}/found-{target}-", corpus, *seeds]
    try:
        done = subprocess.run([str(word) for word in command], cwd=ROOT, env=environment(), text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=fuzz_seconds + 120)
    except subprocess.TimeoutExpired:
        print(f"{target} did not end in time", flush=True)
        return False
    print("$", *command, f"\n{done.stdout}", flush=True)
    if runs := re.search(r"stat::number_of_executed_units: (\d+)", done.stdout):
        figures.append(f"{target}: {fuzz_seconds} s, {runs[1]} inputs, {'clean' if done.returncode == 0 else 'found something'}")
    return done.returncode == 0


def stage_python() -> Count:
    """Python tests"""
    # Two files at a time: those of jobs mostly wait, the others compute, so that one end takes these and one those. Each has a
    # process of its own, whose output is shown when it has ended.
    files = sorted((ROOT / "tests" / "python").glob("test_*.py"),
                   key=lambda path: (not path.name.startswith("test_ps_"), path.name))
    left, total = deque(path.relative_to(ROOT) for path in files), Count()
    begin, shown = time.monotonic(), Lock()

    def work(take: Callable[[], Path]) -> None:
        while True:
            try:
                path = take()
            except IndexError:
                return
            with tempfile.TemporaryFile("w+") as output:
                count = run_pytest(str(path), report=BUILD / f"{path.stem}.xml", stdout=output, stderr=subprocess.STDOUT)
                output.seek(0)
                with shown:
                    print(f"\n--- {path.name}, {time.monotonic() - begin:.0f} s after the start ---\n{output.read()}", flush=True)
                    total.add(count)

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(work, left.popleft), pool.submit(work, left.pop)]:
            done.result()
    return total


def stage_soak() -> Count:
    """Long tests, and the tests of jobs with large numbers"""
    # tests/conftest.py shows each test and its figures as it goes.
    begin = time.monotonic()
    programs = [path.stem for path in sorted((ROOT / "tests" / "c").glob("test_*.c")) if "PADDLE_SOAK" in path.read_text()]
    total = run_c(plain_folder(), only=f"^({'|'.join(programs)})$", env={"PADDLE_SOAK": "1"})
    files = [path for path in sorted((ROOT / "tests" / "python").glob("test_*.py")) if "PADDLE_SOAK" in path.read_text()]
    for path in [*sorted((ROOT / "tests" / "soak").glob("test_*.py")), *files]:
        print(f"\n--- {path.name}, {time.monotonic() - begin:.0f} s after the start ---", flush=True)
        try:
            count = run_pytest(str(path.relative_to(ROOT)), env=os.environ | {"PADDLE_SOAK": "1"}, limit=SOAK_LIMIT_S)
        except (OSError, subprocess.SubprocessError, xml.ParseError) as error:
            print(f"{path.name}: {error}", flush=True)
            count = Count(failed=1)
        total.add(count)
        figures.extend(figures_of(REPORT))
    print(f"\n--- hunts with the sanitizers, {time.monotonic() - begin:.0f} s after the start ---", flush=True)
    total.add(run_sanitized("tests/python/test_op_hostile.py", "tests/python/test_programs.py",
                            env={"PADDLE_SOAK": "1", "PADDLE_HOSTILE_SECONDS": "600", "PADDLE_PROGRAMS_SECONDS": "600"},
                            limit=SOAK_LIMIT_S))
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


def run_pytest(*paths: str, prefix: tuple[str, ...] = (), report: Path = REPORT, limit: float = PYTHON_LIMIT_S, **options) -> Count:
    """Runs files of tests, each within the limit. One that has nothing to run, not even something to skip, is a failure."""
    report.unlink(missing_ok=True)
    limit *= len(paths)
    status = call_within(limit, [*prefix, sys.executable, "-m", "pytest", *paths, f"--junitxml={report}"], **options)
    if status is None:
        print(f"{' '.join(paths)}: not done after {limit:.0f} s", flush=True)
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


def stage_example() -> Count:
    """C examples, compiled against the installed package and run"""
    package = Path(sysconfig.get_path("platlib")) / "paddle"
    if not (package / "_lib").is_dir():
        package = BUILD / "dev" / "python" / "paddle"
    total = Count()
    for source in sorted((ROOT / "examples").rglob("*.c")):
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder) / source.stem
            compiled = call([os.environ.get("CC", "cc"), "-std=c11", "-Wall", "-Wextra", "-Werror", source,
                             "-o", program, f"-I{package / 'include'}", f"-L{package / '_lib'}", "-lpaddle", "-lm",
                             f"-Wl,-rpath,{package / '_lib'}"])
            total.add(Count.of(compiled == 0 and call([program], cwd=folder, env=environment()) == 0))
    if not total.passed + total.failed:
        print("There are no C examples.")
    return total


STAGES: dict[str, Callable[[], Count]] = {
    "includes": stage_includes,
    "c": stage_c,
    "address": stage_address,
    "extension": stage_extension,
    "thread": stage_thread,
    "fuzz": stage_fuzz,
    "python": stage_python,
    "example": stage_example,
}
ONLY_WHEN_NAMED: dict[str, Callable[[], Count]] = {"soak": stage_soak}


def main() -> int:
    global fuzz_seconds
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    stages = STAGES | ONLY_WHEN_NAMED
    parser.add_argument("stage", nargs="*", help=f"{', '.join(STAGES)}: all of these by default; and soak")
    parser.add_argument("--fuzz-seconds", type=int, default=fuzz_seconds, help="for each fuzz target (%(default)s)")
    options = parser.parse_args()
    fuzz_seconds = options.fuzz_seconds
    names = options.stage or list(STAGES)
    unknown = [name for name in names if name not in stages]
    if unknown:
        parser.error(f"there is no stage '{unknown[0]}'; the stages are {', '.join(stages)}")

    total, lines = Count(), []
    BUILD.mkdir(exist_ok=True)
    for name in names:
        title = stages[name].__doc__
        print(f"\n=== {title} ===", flush=True)
        begin = time.monotonic()
        try:
            count = stages[name]()
        except (OSError, subprocess.SubprocessError, xml.ParseError) as error:
            print(f"{title}: {error}")
            count = Count(failed=1)
        total.add(count)
        skipped = f", {count.skipped} skipped" if count.skipped else ""
        lines.append(f"{count.passed:6} passed, {count.failed} failed{skipped}: {title} "
                     f"({time.monotonic() - begin:.0f} s)")

    if figures:
        print("\n=== Figures ===", *figures, sep="\n")
    print("\n=== Summary ===", *lines, sep="\n")
    print(f"\n{total.passed} passed, {total.failed} failed", flush=True)
    return 1 if total.failed or not total.passed else 0


if __name__ == "__main__":
    sys.exit(main())
