"""Settings of all tests.

Ctrl-C reaches the processes that tests start, also where this run itself was started in the background, which
makes a shell ignore it for all below. With PADDLE_SOAK each test has a line of its own, written as it goes:
when it began, its name, how it ended, how long it took, and the figures that it gave to `record_property`.
"""

import os
import signal
import time

import pytest

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def fresh():
    """Default Programs and names of the test's own, and an empty scope."""
    import paddle.fluid as fluid  # tests of tools go without it

    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard(), fluid.scope_guard(fluid.Scope()):
        yield


class Progress:
    """The lines of a long run, in the place of pytest's letters."""

    def __init__(self) -> None:
        self.start = time.monotonic()
        self.number = 0

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.terminal = session.config.pluginmanager.get_plugin("terminalreporter")
        self.count = len(session.items)

    def write(self, text: str) -> None:
        self.terminal.write(text, flush=True)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.number += 1
        name = nodeid.split("::", 1)[1]
        self.write(f"[{time.monotonic() - self.start:6.0f} s] {self.number}/{self.count} {name} ... ")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call" and report.passed:
            return
        reason = f" ({report.longrepr[2]})" if report.skipped else ""
        figures = ", ".join(f"{name} {value}" for name, value in report.user_properties)
        self.write(f"{report.outcome} in {report.duration:.1f} s{reason}{': ' if figures else ''}{figures}\n")

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str]:
        if report.passed:
            return "passed" if report.when == "call" else "", "", ""
        return report.outcome, "", report.outcome.upper()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--part", default="1/1", help="K/N: the K-th of N parts of the tests, each N-th of them")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    number, count = map(int, config.getoption("--part").split("/"))
    items[:] = items[number - 1::count]


def pytest_configure(config: pytest.Config) -> None:
    if os.environ.get("PADDLE_SOAK"):
        config.pluginmanager.register(Progress())
