"""How the processes of a job ended, whichever engine ran them: the status of the job, and the table at its end."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass

from paddle.distributed.job import SERVER
from paddle.distributed.plan import Process
from paddle.distributed.show import count, ending, red, say, span, table, tail


@dataclass
class Running:
    """A process of the plan in this run."""

    process: Process
    pid: int = 0  # 0: it does not run now
    last_pid: int = 0
    began: float = 0.0
    ended: float = 0.0
    status: int | None = None  # of the last time that it ended, as os.waitstatus_to_exitcode has it
    starts: int = 0
    again_at: float | None = None  # when it is started again
    is_early: bool = False  # a server that ended with status 0, and workers wait for it
    asked: str = ""  # the signal by which it was asked to end, or killed
    peak: int = 0  # KiB of memory

    @property
    def name(self) -> str:
        return self.process.name

    @property
    def is_over(self) -> bool:
        """It does not run, and will not."""
        return not self.pid and self.again_at is None

    @property
    def has_failed(self) -> bool:
        """By itself; not because it was asked to end."""
        return bool(self.status) and not self.asked

    @property
    def seconds(self) -> float:
        return self.ended - self.began

    def told(self) -> str:
        """How it ended, for the table."""
        how = ending(self.status) if self.status is not None else "was not started"
        how += " before the workers" if self.is_early else ""
        if self.asked:
            by_it = self.status == -signal.Signals[self.asked]
            how = f"was ended by {self.asked}" if by_it else f"{how}, asked by {self.asked}"
        return how + (f", started {count(self.starts, 'time')}" if self.starts > 1 else "")


def cause(all_of_them: Sequence[Running], failed: Sequence[Running]) -> Running | None:
    """The one that failed first. A process that tells the servers why it fails may end after another, which heard it from them,
    even so late that it was asked to end: then the last lines of the other say that the process of this id failed."""
    for each in failed:
        text = tail(each.process.log) if each.process.log else ""
        for other in all_of_them:
            if other is not each and other.status and re.search(rf"\bpid {other.last_pid},[^)\n]*\) failed", text):
                return other
    return failed[0] if failed else None


def status(all_of_them: Sequence[Running], failed: Sequence[Running], user_signal: int) -> int:
    """The exit status of the job: that of the process that failed first, 0 when all went well."""
    if user_signal:
        return 128 + user_signal
    first = cause(all_of_them, failed)
    if first is None:
        return 0
    if not first.status or first.asked and first.status < 0:  # it ended too early, or had to be killed
        return 1
    return first.status if first.status > 0 else 128 - first.status


def tell(all_of_them: Sequence[Running], failed: Sequence[Running], left: Sequence[str], user_signal: int, is_orphan: bool,
         began: float) -> None:
    """Who ended how, how long it took, where the logs are, and the last lines of the one that failed first."""
    rows = []
    for each in all_of_them:
        where = str(each.process.endpoint) if each.process.role == SERVER else each.process.endpoint.host
        peak = f"{each.peak / 1024:.0f} MB" if each.peak else ""
        rows.append([each.name, where, each.told(), span(each.seconds), peak, each.process.log])
    first = cause(all_of_them, failed)
    if user_signal:
        what = "was ended by the user"
    elif is_orphan:
        what = red("was ended, because its launcher was killed,")
    else:
        what = red("has failed") if first else "has ended well"
    say(f"the job {what} after {span(time.monotonic() - began)}\n{table(rows)}")
    if left:
        say(f"killed what was left behind: {', '.join(left)}")
    if first and first.process.log and not user_signal:
        say(f"{first.name} failed first; {tail(first.process.log)}")
